//! C's names for sockets, over Winsock: types of the same layout, constants with Winsock's values.
#![allow(non_camel_case_types, reason = "the names that C has for them")]

use windows_sys::Win32::Networking::WinSock as sock;

pub use super::fd::RawFd;
pub use super::messages::{CMSG_DATA, CMSG_FIRSTHDR, CMSG_LEN, CMSG_NXTHDR, CMSG_SPACE};
pub use super::messages::{recvmsg, sendmsg, sendto};
pub use super::options::{getsockopt, setsockopt};
pub use std::ffi::{c_int, c_long, c_short, c_uint, c_void};

pub type socklen_t = i32;
pub type nfds_t = usize;
pub type time_t = i64;
/// Never used: a wait has no signal mask.
pub type sigset_t = c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct timespec {
    pub tv_sec: time_t,
    pub tv_nsec: c_long,
}

#[derive(Clone, Copy)]
pub struct pollfd {
    pub fd: RawFd,
    pub events: c_short,
    pub revents: c_short,
}

#[derive(Clone, Copy)]
pub struct iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

/// What [`recvmsg`] and [`sendmsg`] take, as Linux has it.
#[derive(Clone, Copy)]
pub struct msghdr {
    pub msg_name: *mut c_void,
    pub msg_namelen: socklen_t,
    pub msg_iov: *mut iovec,
    pub msg_iovlen: usize,
    pub msg_control: *mut c_void,
    pub msg_controllen: usize,
    pub msg_flags: c_int,
}

/// `WSACMSGHDR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cmsghdr {
    pub cmsg_len: usize,
    pub cmsg_level: c_int,
    pub cmsg_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct in_addr {
    pub s_addr: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct in6_addr {
    pub s6_addr: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sockaddr_in {
    pub sin_family: u16,
    pub sin_port: u16,
    pub sin_addr: in_addr,
    pub sin_zero: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sockaddr_in6 {
    pub sin6_family: u16,
    pub sin6_port: u16,
    pub sin6_flowinfo: u32,
    pub sin6_addr: in6_addr,
    pub sin6_scope_id: u32,
}

/// Room for an address of any family, aligned as its fields need.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct sockaddr_storage {
    pub ss_family: u16,
    pub rest: [u8; 126],
}

/// `IN_PKTINFO`, which has one address where Linux has two.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct in_pktinfo {
    pub ipi_addr: in_addr,
    pub ipi_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct in6_pktinfo {
    pub ipi6_addr: in6_addr,
    pub ipi6_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct group_source_req {
    pub gsr_interface: u32,
    pub gsr_group: sockaddr_storage,
    pub gsr_source: sockaddr_storage,
}

pub const AF_INET: c_int = sock::AF_INET as c_int;
pub const AF_INET6: c_int = sock::AF_INET6 as c_int;
pub const SOL_SOCKET: c_int = sock::SOL_SOCKET;
pub const SO_TYPE: c_int = sock::SO_TYPE;
pub const SOCK_DGRAM: c_int = sock::SOCK_DGRAM;
pub const IPPROTO_IP: c_int = sock::IPPROTO_IP;
pub const IPPROTO_IPV6: c_int = sock::IPPROTO_IPV6;
pub const IPPROTO_TCP: c_int = sock::IPPROTO_TCP;
pub const IPPROTO_UDP: c_int = sock::IPPROTO_UDP;
pub const IP_TOS: c_int = sock::IP_TOS;
pub const IP_TTL: c_int = sock::IP_TTL;
pub const IP_MULTICAST_TTL: c_int = sock::IP_MULTICAST_TTL;
pub const IP_RECVTOS: c_int = sock::IP_RECVTOS;
pub const IP_RECVTTL: c_int = sock::IP_RECVTTL;
pub const IP_PKTINFO: c_int = sock::IP_PKTINFO;
pub const IPV6_PKTINFO: c_int = sock::IPV6_PKTINFO;
/// The option and the message have one number.
pub const IPV6_RECVPKTINFO: c_int = sock::IPV6_PKTINFO;
pub const IPV6_RECVTCLASS: c_int = sock::IPV6_RECVTCLASS;
pub const IPV6_TCLASS: c_int = sock::IPV6_TCLASS;
/// The option and the message have one number.
pub const IPV6_RECVHOPLIMIT: c_int = sock::IPV6_HOPLIMIT;
pub const IPV6_HOPLIMIT: c_int = sock::IPV6_HOPLIMIT;
pub const IPV6_UNICAST_HOPS: c_int = sock::IPV6_UNICAST_HOPS;
pub const IPV6_MULTICAST_HOPS: c_int = sock::IPV6_MULTICAST_HOPS;
pub const MCAST_JOIN_SOURCE_GROUP: c_int = sock::MCAST_JOIN_SOURCE_GROUP as c_int;
/// Windows has no such stamps.
pub const SO_TIMESTAMP: c_int = super::NO_OPTION;

pub const POLLIN: c_short = sock::POLLIN;
pub const POLLOUT: c_short = sock::POLLOUT;
pub const POLLERR: c_short = sock::POLLERR;
pub const POLLHUP: c_short = sock::POLLHUP;
pub const POLLNVAL: c_short = sock::POLLNVAL;

/// Understood by the calls of this module: sockets are non-blocking, and a call without this flag waits by itself.
pub const MSG_DONTWAIT: c_int = 0x40;
/// There are no signals.
pub const MSG_NOSIGNAL: c_int = 0;

pub const EINTR: c_int = sock::WSAEINTR;
pub const EBADF: c_int = sock::WSAEBADF;
pub const EFAULT: c_int = sock::WSAEFAULT;
pub const EINVAL: c_int = sock::WSAEINVAL;
pub const EINPROGRESS: c_int = sock::WSAEWOULDBLOCK;
pub const ENOTSOCK: c_int = sock::WSAENOTSOCK;
pub const EDESTADDRREQ: c_int = sock::WSAEDESTADDRREQ;
pub const EMSGSIZE: c_int = sock::WSAEMSGSIZE;
pub const EPROTOTYPE: c_int = sock::WSAEPROTOTYPE;
pub const ENOPROTOOPT: c_int = sock::WSAENOPROTOOPT;
pub const EPROTONOSUPPORT: c_int = sock::WSAEPROTONOSUPPORT;
pub const EOPNOTSUPP: c_int = sock::WSAEOPNOTSUPP;
pub const EAFNOSUPPORT: c_int = sock::WSAEAFNOSUPPORT;
pub const EADDRNOTAVAIL: c_int = sock::WSAEADDRNOTAVAIL;
pub const ENETDOWN: c_int = sock::WSAENETDOWN;
pub const ENETUNREACH: c_int = sock::WSAENETUNREACH;
pub const ECONNABORTED: c_int = sock::WSAECONNABORTED;
pub const ENOTCONN: c_int = sock::WSAENOTCONN;
pub const EHOSTDOWN: c_int = sock::WSAEHOSTDOWN;
pub const EHOSTUNREACH: c_int = sock::WSAEHOSTUNREACH;
// Errors that Winsock has not, by numbers that no call returns.
pub const EPERM: c_int = -1;
pub const EIO: c_int = -5;
pub const EPROTO: c_int = -71;

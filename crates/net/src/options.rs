//! Socket options for live sound.
#![allow(unsafe_code, reason = "a few Linux socket options are not in socket2")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{SockAddr, Socket};

use crate::allow::AllowList;
use crate::line::IDLE;
use crate::system::fd::AsRawFd;
use crate::system::{self, libc};

/// Options of every media socket.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// Queue priority inside this machine, 0 to 6 (Schiavoni et al. 2013: 6, the highest without privilege).
    pub priority: u32,
    /// Differentiated services code point, 0 to 63; 46 is expedited forwarding (AES67 for media).
    pub dscp: u8,
    /// How long a send may wait for room (Schiavoni et al. 2013: 40 ms).
    pub send_timeout: Duration,
    /// Kernel buffers in bytes; large enough for a burst, far too small for a second of data.
    pub receive_buffer: usize,
    /// See `receive_buffer`.
    pub send_buffer: usize,
    /// Microseconds that the kernel polls the device queue on behalf of this socket; zero leaves it off.
    pub busy_poll_us: u32,
    /// Name of the congestion control of a kernel TCP; `None` leaves the system's.
    pub congestion: Option<String>,
    /// How long the peer of a kernel TCP may leave probes unanswered, or take nothing, before its connection is given
    /// up. The kernel's timers count in seconds and may take half as long again.
    pub peer_patience: Duration,
    /// Bursts of UDP datagrams of one length go to the kernel as one, which it cuts (Linux 4.18), and come from it as one (Linux 5.0): for many small streams
    /// at once. A queue in front of a slow link may count and drop them together, and they have one time stamp.
    pub segments: bool,
    /// Let IP fragment datagrams that are larger than the path's MTU, instead of refusing them.
    pub fragment: bool,
    /// How a multicast group is sent to or joined.
    pub multicast: Multicast,
    /// Further addresses of the peer that a calling UDP or raw line calls: the paths 1 and up, for transports with
    /// several.
    pub other_peers: Vec<SocketAddr>,
    /// Where a listening socket takes datagrams and connections from.
    pub allow: AllowList,
}

/// How a multicast group is sent to or joined.
#[derive(Clone, Debug, Default)]
pub struct Multicast {
    /// Routers that a datagram may cross; `None`: 1, the local network.
    pub ttl: Option<u8>,
    /// Network interface by name or by its address; `None`: the system's choice.
    pub interface: Option<String>,
    /// Each member has an address of its own, from which it sends and where it receives what is for it alone; the sender has
    /// a path to each, beside path 0 to the group.
    pub members: bool,
    /// A line that sends to a group also joins it, and hears what all of its members send, itself included (any-source
    /// multicast).
    pub joins: bool,
    /// The only sender to listen to in a group (RFC 4607, source-specific multicast); `None`: anyone.
    pub source: Option<IpAddr>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            priority: 6,
            dscp: 46,
            send_timeout: Duration::from_millis(40),
            receive_buffer: 1 << 20,
            send_buffer: 1 << 18,
            busy_poll_us: 0,
            congestion: None,
            // Longer than a roaming station or a stalled disk takes; far from the kernel's own 15 minutes (tcp(7),
            // tcp_retries2), during which a crashed caller would keep the next one out.
            peer_patience: Duration::from_secs(30),
            segments: false,
            fragment: false,
            multicast: Multicast::default(),
            other_peers: Vec::new(),
            allow: AllowList::default(),
        }
    }
}

/// Options that could not be set, to be reported to the user; none of them stops a stream.
pub(crate) fn apply(socket: &Socket, options: &SocketOptions, v6: bool, notes: &mut Vec<String>) {
    let mut note = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            notes.push(format!("{what} is not available: {error}"));
        }
    };
    note("calls that do not wait", system::prepare(socket));
    note("receive buffer", socket.set_recv_buffer_size(options.receive_buffer));
    note("send buffer", socket.set_send_buffer_size(options.send_buffer));
    note("send time-out", socket.set_write_timeout(Some(options.send_timeout)));
    note("receive time-out", socket.set_read_timeout(Some(IDLE)));
    let class = u32::from(options.dscp & 63) << 2;
    if v6 {
        note("DSCP", system::set_traffic_class(socket, class));
    }
    // On an IPv6 socket as well: IPv4's options apply to IPv4 peers of a dual-stack socket.
    note("DSCP for IPv4", set_int(socket, libc::IPPROTO_IP, libc::IP_TOS, class as i32));
    // After DSCP: setting the type of service sets the priority, too.
    note("socket priority", set_int(socket, libc::SOL_SOCKET, system::SO_PRIORITY, options.priority as i32));
    note("receive time stamps", set_int(socket, libc::SOL_SOCKET, system::SO_STAMPS, 1));
    note("count of drops", set_int(socket, libc::SOL_SOCKET, system::SO_RXQ_OVFL, 1));
    if options.busy_poll_us > 0 {
        let micros = options.busy_poll_us as i32;
        note("busy polling in the kernel", set_int(socket, libc::SOL_SOCKET, system::SO_BUSY_POLL, micros));
    }
}

/// The same for a socket of datagrams.
pub(crate) fn apply_to_datagrams(
    socket: &Socket,
    options: &SocketOptions,
    v6: bool,
    notes: &mut Vec<String>,
) {
    apply(socket, options, v6, notes);
    if let Err(error) = system::set_fragmentation(socket, options.fragment, v6) {
        notes.push(format!("control of IP fragmentation is not available: {error}"));
    }
}

impl SocketOptions {
    /// Sets the congestion control of these options, if they have one, for a connection that is not a line.
    ///
    /// An error if the kernel does not have it, or reserves it for root.
    pub fn set_congestion(&self, stream: &std::net::TcpStream) -> io::Result<()> {
        let socket = socket2::SockRef::from(stream);
        self.congestion.as_ref().map_or(Ok(()), |name| system::set_congestion(&socket, name.as_bytes()))
    }
}

/// Has the kernel hand over datagrams of one length in a row as one. Where it cannot, they come one by one.
pub(crate) fn join_segments(socket: &Socket) {
    let _one_by_one = system::UDP_GRO.map(|option| set_int(socket, libc::IPPROTO_UDP, option, 1));
}

/// Has the kernel report which of this machine's addresses each datagram was sent to.
pub(crate) fn report_destinations(socket: &Socket, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    }
    // For the IPv4 peers of a dual-stack socket, too.
    set_int(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
}

/// Has the kernel report traffic class and TTL of each datagram.
pub(crate) fn report_class_and_ttl(socket: &Socket, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    }
    // For the IPv4 peers of a dual-stack socket, too.
    set_int(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    set_int(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)
}

/// The TTL or hop limit of packets to `peer`.
pub(crate) fn ttl_to(socket: &Socket, peer: Option<IpAddr>) -> io::Result<u8> {
    let (level, name) = match (peer, peer.is_some_and(is_multicast)) {
        (Some(IpAddr::V6(_)), true) => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS),
        (Some(IpAddr::V6(_)), false) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        (_, true) => (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
        (_, false) => (libc::IPPROTO_IP, libc::IP_TTL),
    };
    Ok(read_int(socket, level, name)? as u8)
}

/// Sets an integer option.
pub(crate) fn set_int(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(socket, level, name, &value)
}

/// Sets an option that takes a C structure of that type.
pub(crate) fn set<T>(socket: &impl AsRawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer is to a live value of the length given, which the kernel only reads.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Joins `group` on an interface for what `source` sends alone (`MCAST_JOIN_SOURCE_GROUP`, RFC 3678 §5.1.2).
pub(crate) fn join_source(socket: &Socket, index: u32, group: IpAddr, source: IpAddr) -> io::Result<()> {
    let storage = |address: IpAddr| {
        let address = SockAddr::from(SocketAddr::new(address, 0));
        // SAFETY: a SockAddr holds a whole sockaddr_storage, of which the address is the beginning.
        unsafe { address.as_ptr().cast::<libc::sockaddr_storage>().read_unaligned() }
    };
    let request = libc::group_source_req {
        gsr_interface: index,
        gsr_group: storage(group),
        gsr_source: storage(source),
    };
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    set(socket, level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
}

/// Reads an integer option.
pub(crate) fn read_int(socket: &impl AsRawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: both pointers are to live values of the lengths given.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Index of a network interface given by name or by one of its addresses; an error if there is none.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let unknown = || {
        let what = format!("no network interface has the name or address '{name}'");
        io::Error::new(io::ErrorKind::NotFound, what)
    };
    system::interface_index(name)?.ok_or_else(unknown)
}

/// Whether datagrams to this address go to a group.
pub(crate) fn is_multicast(address: IpAddr) -> bool {
    address.is_multicast()
}

#[cfg(test)]
mod tests;

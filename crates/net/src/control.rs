//! Control messages: when a packet arrived, and which of this machine's addresses it was sent to or is sent from.
#![allow(unsafe_code, reason = "control messages are read and written in place, as the kernel lays them out")]

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::system::{self, libc};

/// Room for the control messages of one packet to send, in 64-bit words, which is how the kernel aligns them: an address and a length.
pub(crate) type Control = [u64; 8];

/// When the kernel received a packet, by the wall clock (on Linux `SCM_TIMESTAMPNS`, socket(7)).
pub(crate) fn kernel_stamp(header: &libc::msghdr) -> Option<Duration> {
    let time: system::StampTime = find(header, libc::SOL_SOCKET, system::SCM_STAMP)?;
    // A time before 1970 is invalid.
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(system::nanos_of(&time)).ok()?))
}

/// The address that a packet received on an IPv6 socket was sent to (`IPV6_PKTINFO`, RFC 3542 §6.1).
pub(crate) fn destination_v6(header: &libc::msghdr) -> Option<Ipv6Addr> {
    let info: libc::in6_pktinfo = find(header, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)?;
    Some(Ipv6Addr::from(info.ipi6_addr.s6_addr))
}

/// The address of this machine from which an answer to a received packet should leave: the one that it was sent to, or for
/// a broadcast the interface's (`IP_PKTINFO`, ip(7)). IPv4 packets on an IPv6 socket carry both messages.
pub(crate) fn own_address(header: &libc::msghdr) -> Option<IpAddr> {
    let v4: Option<libc::in_pktinfo> = find(header, libc::IPPROTO_IP, libc::IP_PKTINFO);
    let v4 = v4.and_then(|info| system::own_address_v4(&info)).map(IpAddr::V4);
    v4.or_else(|| destination_v6(header).map(IpAddr::V6))
}

/// Datagrams that the kernel has dropped since the socket was opened, as its buffer was full (`SO_RXQ_OVFL`, socket(7)).
pub(crate) fn dropped(header: &libc::msghdr) -> Option<u32> {
    find(header, libc::SOL_SOCKET, system::SO_RXQ_OVFL)
}

/// Bytes of each of the datagrams that the kernel handed over as one, the last of which may be shorter (`UDP_GRO`, udp(7)); `None` for a single one.
pub(crate) fn segment_len(header: &libc::msghdr) -> Option<usize> {
    let len: i32 = find(header, libc::IPPROTO_UDP, system::UDP_GRO?)?;
    usize::try_from(len).ok().filter(|len| *len > 0)
}

/// Traffic class and TTL or hop limit of a received packet, where the socket was told to report them (ip(7), RFC 3542 §6).
pub(crate) fn class_and_ttl(header: &libc::msghdr) -> Option<(u8, u8)> {
    let v4: Option<(u8, i32)> =
        find(header, libc::IPPROTO_IP, libc::IP_TOS).zip(find(header, libc::IPPROTO_IP, libc::IP_TTL));
    let v6 = || -> Option<(i32, i32)> {
        let class = find(header, libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        class.zip(find(header, libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT))
    };
    v4.map(|(class, ttl)| (class, ttl as u8)).or_else(|| v6().map(|(class, hops)| (class as u8, hops as u8)))
}

/// C structures of integers alone: any bytes are one.
trait Plain: Copy {}
impl Plain for system::StampTime {}
impl Plain for libc::in_pktinfo {}
impl Plain for libc::in6_pktinfo {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u8 {}

/// The control message of that level and kind, if there is one and it is whole.
fn find<T: Plain>(header: &libc::msghdr, level: i32, kind: i32) -> Option<T> {
    // SAFETY: the kernel filled the control buffer that the header describes; the CMSG macros stay inside it. What they
    // point to is as long as a T, which may be of any bytes, and is read unaligned.
    unsafe {
        let whole = libc::CMSG_LEN(size_of::<T>() as u32) as _;
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let libc::cmsghdr { cmsg_len, cmsg_level, cmsg_type, .. } = *message;
            if (cmsg_level, cmsg_type) == (level, kind) && cmsg_len >= whole {
                return Some(libc::CMSG_DATA(message).cast::<T>().read_unaligned());
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
        None
    }
}

/// Writes into `control` that a packet is to be sent from `source`; returns how many bytes that takes.
pub(crate) fn write_source(control: &mut Control, source: IpAddr) -> usize {
    match source {
        IpAddr::V4(v4) => write(control, libc::IPPROTO_IP, libc::IP_PKTINFO, system::from_address_v4(v4)),
        IpAddr::V6(v6) => {
            let address = libc::in6_addr { s6_addr: v6.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            write(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

/// Adds, behind the first `before` bytes, that the kernel cuts what is sent into datagrams of `len` bytes; returns how many bytes all takes.
pub(crate) fn write_segment_len(control: &mut Control, before: usize, len: u16) -> usize {
    let Some(kind) = system::UDP_SEGMENT else { return before };
    let mut message = Control::default();
    let space = write(&mut message, libc::IPPROTO_UDP, kind, len);
    control[before / 8..(before + space) / 8].copy_from_slice(&message[..space / 8]);
    before + space
}

/// Bytes of `len` without those that [`write_segment_len`] has added.
pub(crate) fn len_without_segment(len: usize) -> usize {
    // SAFETY: this only computes a length.
    len - unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) as usize }
}

fn write<T: Copy>(control: &mut Control, level: i32, kind: i32, value: T) -> usize {
    // SAFETY: these only compute lengths.
    let (space, len) = unsafe {
        (libc::CMSG_SPACE(size_of::<T>() as u32) as usize, libc::CMSG_LEN(size_of::<T>() as u32) as usize)
    };
    assert!(space <= size_of::<Control>(), "room for the longest of the two");
    *control = Control::default();
    let at = control.as_mut_ptr().cast::<u8>();
    // SAFETY: head and value stay within `space` bytes of the buffer, which is aligned for the head and zero, as a valid head
    // is; the value is written unaligned.
    unsafe {
        // With musl the head has padding between its fields.
        let head = &mut *at.cast::<libc::cmsghdr>();
        (head.cmsg_len, head.cmsg_level, head.cmsg_type) = (len as _, level, kind);
        at.add(len - size_of::<T>()).cast::<T>().write_unaligned(value);
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_by_the_macros() {
        let source: Ipv6Addr = "fd77::1".parse().expect("an address");
        let mut control = Control::default();
        let len = write_source(&mut control, source.into());
        // SAFETY: a msghdr of zeros is valid, and describes nothing.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = len as _;
        assert_eq!(destination_v6(&header), Some(source));
        assert_eq!(write_source(&mut control, IpAddr::from([192, 0, 2, 1])), 32);
        header.msg_controllen = 32;
        assert_eq!(destination_v6(&header), None);
        assert_eq!(kernel_stamp(&header), None);
    }

    #[test]
    fn a_stamp_is_found_behind_other_messages_and_only_whole() {
        let mut control = [0u64; 10];
        let mut one = Control::default();
        let first = write_source(&mut one, "fd77::1".parse().expect("an address")) / 8;
        control[..first].copy_from_slice(&one[..first]);
        let time = libc::timespec { tv_sec: 1_700_000_000, tv_nsec: 999_999_999 };
        let second = write(&mut one, libc::SOL_SOCKET, system::SCM_STAMP, time) / 8;
        // Whole; cut short, as the kernel does where a buffer is too small.
        for (cut, expected) in [(0, Some(Duration::new(1_700_000_000, 999_999_999))), (1, None)] {
            control[first..first + second].copy_from_slice(&one[..second]);
            control[first] -= cut;
            // SAFETY: as above.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = (8 * (first + second)) as _;
            assert_eq!(kernel_stamp(&header), expected);
        }
    }
}

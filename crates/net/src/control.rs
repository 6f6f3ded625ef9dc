//! Control messages that say, or choose, which of this machine's addresses a packet goes by.
#![allow(unsafe_code, reason = "control messages are read and written in place, as the kernel lays them out")]

use std::net::{IpAddr, Ipv6Addr};

/// Room for the control message of one packet to send, in 64-bit words, which is how the kernel aligns it.
pub(crate) type Control = [u64; 5];

/// The address that a packet received on an IPv6 socket was sent to (`IPV6_PKTINFO`, RFC 3542 §6.1).
pub(crate) fn destination_v6(header: &libc::msghdr) -> Option<Ipv6Addr> {
    // SAFETY: the kernel filled the control buffer that the header describes; the CMSG macros stay inside it, and what
    // they point to is read unaligned.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::IPPROTO_IPV6 && (*message).cmsg_type == libc::IPV6_PKTINFO {
                let info = libc::CMSG_DATA(message).cast::<libc::in6_pktinfo>().read_unaligned();
                return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
        None
    }
}

/// Writes into `control` that a packet is to go out from `source`; answers how many bytes that takes.
pub(crate) fn write_source(control: &mut Control, source: IpAddr) -> usize {
    match source {
        IpAddr::V4(v4) => {
            let address = libc::in_addr { s_addr: u32::from(v4).to_be() };
            let nowhere = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: nowhere };
            write(control, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(v6) => {
            let address = libc::in6_addr { s6_addr: v6.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            write(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn write<T: Copy>(control: &mut Control, level: i32, kind: i32, value: T) -> usize {
    // SAFETY: these only compute lengths.
    let (space, len) = unsafe {
        (libc::CMSG_SPACE(size_of::<T>() as u32) as usize, libc::CMSG_LEN(size_of::<T>() as u32) as usize)
    };
    assert!(space <= size_of::<Control>(), "room for the longest of the two");
    *control = [0; 5];
    let head = libc::cmsghdr { cmsg_len: len as _, cmsg_level: level, cmsg_type: kind };
    let at = control.as_mut_ptr().cast::<u8>();
    // SAFETY: head and value stay within `space` bytes of the buffer, which is aligned for the head; the value is
    // written unaligned.
    unsafe {
        at.cast::<libc::cmsghdr>().write(head);
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
        let mut header = crate::batch::no_message();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = len as _;
        assert_eq!(destination_v6(&header), Some(source));
        assert_eq!(write_source(&mut control, IpAddr::from([192, 0, 2, 1])), 32);
        header.msg_controllen = 32;
        assert_eq!(destination_v6(&header), None);
    }
}

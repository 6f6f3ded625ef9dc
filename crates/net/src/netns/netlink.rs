//! The few requests to `NETLINK_ROUTE` that a lane needs (rtnetlink(7)), written by hand: links, addresses, routes.
//!
//! ```text
//!  0               1               2               3
//! +---------------------------------------------------------------+
//! |                            length                             |  nlmsghdr
//! |             type              |             flags             |
//! |                           sequence                            |
//! |                             port                              |
//! +---------------------------------------------------------------+
//! |  ifinfomsg (16), ifaddrmsg (8) or rtmsg (12 bytes)            |
//! +-------------------------------+-------------------------------+
//! |           length              |             type              |  rtattr, padded to 4 bytes;
//! |  value …                                                      |  some contain others
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use super::{Configured, Namespace, NetnsError};

/// A netlink socket in the namespace of the thread that opened it.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

// linux/if_link.h and linux/veth.h, where libc has no name for them.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
/// The kernel must acknowledge; the object must be new.
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

impl Netlink {
    pub fn open() -> Result<Self, NetnsError> {
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
                .map_err(|error| NetnsError::new("cannot open a netlink socket", error))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sets a device up.
    pub fn set_up(&mut self, name: &str) -> Result<(), NetnsError> {
        let index = index_of(name)?;
        let up = libc::IFF_UP as u32;
        let message = Message::new(libc::RTM_NEWLINK, 0).link(index, up, up);
        self.ask(message, &format!("cannot set {name} up"))
    }

    /// Makes a pair of virtual Ethernet devices; the peer goes into `peer_namespace`, or stays here.
    pub fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: Option<&Namespace>,
    ) -> Result<(), NetnsError> {
        let message = Message::new(libc::RTM_NEWLINK, CREATE)
            .link(0, 0, 0)
            .text(libc::IFLA_IFNAME, name)
            .nested(libc::IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "veth").nested(IFLA_INFO_DATA, |data| {
                    data.nested(VETH_INFO_PEER, |other| {
                        let other = other.link(0, 0, 0).text(libc::IFLA_IFNAME, peer);
                        match peer_namespace {
                            Some(namespace) => {
                                let fd = namespace.raw_fd() as u32;
                                other.attribute(libc::IFLA_NET_NS_FD, &fd.to_ne_bytes())
                            }
                            None => other,
                        }
                    })
                })
            });
        self.ask(message, &format!("cannot make the devices {name} and {peer}"))
    }

    /// Gives a device its addresses, sets it up and routes everything else through it.
    ///
    /// No link-local address is made (the kernel would use it to solicit routers and neighbours), no duplicate address
    /// detection is done. `hardware`: the device is Ethernet, gets this address and does no address resolution.
    pub fn configure(
        &mut self,
        name: &str,
        addresses: Configured,
        hardware: Option<[u8; 6]>,
    ) -> Result<(), NetnsError> {
        let index = index_of(name)?;
        let up = libc::IFF_UP as u32;
        let no_arp = hardware.map_or(0, |_| libc::IFF_NOARP as u32);
        let quiet =
            Message::new(libc::RTM_NEWLINK, 0).link(index, 0, 0).nested(libc::IFLA_AF_SPEC, |families| {
                families.nested(libc::AF_INET6 as u16, |v6| {
                    v6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            });
        // Refused if the kernel has no IPv6, which is no error.
        let has_v6 = self.request(quiet).is_ok();
        let mut shape = Message::new(libc::RTM_NEWLINK, 0)
            .link(index, no_arp, no_arp)
            .attribute(libc::IFLA_MTU, &MTU.to_ne_bytes())
            .attribute(libc::IFLA_TXQLEN, &QUEUE.to_ne_bytes());
        if let Some(address) = hardware {
            shape = shape.attribute(libc::IFLA_ADDRESS, &address);
        }
        self.ask(shape, &format!("cannot set size and queue of {name}"))?;
        let raise = Message::new(libc::RTM_NEWLINK, 0).link(index, up, up);
        self.ask(raise, &format!("cannot set {name} up"))?;
        self.add_address(index, &addresses.v4.octets(), V4_PREFIX, name)?;
        self.add_route(index, libc::AF_INET as u8, name)?;
        if has_v6 {
            self.add_address(index, &addresses.v6.octets(), V6_PREFIX, name)?;
            self.add_route(index, libc::AF_INET6 as u8, name)?;
            self.await_local(addresses.v6, name)?;
        }
        Ok(())
    }

    fn add_address(&mut self, index: u32, address: &[u8], prefix: u8, name: &str) -> Result<(), NetnsError> {
        let family = if address.len() == 4 { libc::AF_INET } else { libc::AF_INET6 };
        let flags = libc::IFA_F_NODAD as u8;
        let mut head = vec![family as u8, prefix, flags, libc::RT_SCOPE_UNIVERSE];
        head.extend(index.to_ne_bytes());
        let message = Message::new(libc::RTM_NEWADDR, CREATE)
            .raw(&head)
            .attribute(libc::IFA_LOCAL, address)
            .attribute(libc::IFA_ADDRESS, address);
        self.ask(message, &format!("cannot give {name} its address"))
    }

    /// The default route, if there is none yet, so that any address (for example a multicast group) is reached over the
    /// link.
    fn add_route(&mut self, index: u32, family: u8, name: &str) -> Result<(), NetnsError> {
        let scope =
            if i32::from(family) == libc::AF_INET { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        // Family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
        let mut head =
            vec![family, 0, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, scope, libc::RTN_UNICAST];
        head.extend(0u32.to_ne_bytes());
        let message = Message::new(libc::RTM_NEWROUTE, CREATE)
            .raw(&head)
            .attribute(libc::RTA_OIF, &index.to_ne_bytes());
        match self.request(message) {
            // An existing namespace may have a default route; packets to the lane's network still use the lane.
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(error) => Err(NetnsError::new(format!("cannot route through {name}"), error)),
        }
    }

    /// Waits until the kernel accepts an IPv6 address as its own.
    ///
    /// Even without duplicate address detection it does so in a work queue, after the request was acknowledged; until
    /// then packets to the address are dropped.
    fn await_local(&mut self, address: Ipv6Addr, name: &str) -> Result<(), NetnsError> {
        for _ in 0..PATIENCE {
            if self.route_kind(address) == Some(libc::RTN_LOCAL) {
                return Ok(());
            }
            // Only sleeps.
            let _ = nix::poll::poll(&mut [], 1u8);
        }
        let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Err(NetnsError::new(format!("the kernel does not accept {address} on {name}"), late))
    }

    /// Local, unicast, … as the kernel would route a packet to `address` now.
    fn route_kind(&mut self, address: Ipv6Addr) -> Option<u8> {
        let mut head = [0u8; 12];
        head[..2].copy_from_slice(&[libc::AF_INET6 as u8, 128]);
        let message = Message::plain(libc::RTM_GETROUTE, libc::NLM_F_REQUEST as u16)
            .raw(&head)
            .attribute(libc::RTA_DST, &address.octets());
        let (answer, len) = self.exchange(message).ok()?;
        let kind = u16::from_ne_bytes(answer[..len].get(4..6)?.try_into().ok()?);
        // struct rtmsg after the header: its eighth byte.
        (kind == libc::RTM_NEWROUTE).then(|| answer[16 + 7])
    }

    fn ask(&mut self, message: Message, what: &str) -> Result<(), NetnsError> {
        self.request(message).map_err(|error| NetnsError::new(what, error))
    }

    /// Sends a request and reads the kernel's result.
    fn request(&mut self, message: Message) -> Result<(), Errno> {
        let (answer, len) = self.exchange(message)?;
        match verdict(&answer[..len]) {
            Some(0) => Ok(()),
            Some(code) => Err(Errno::from_raw(-code)),
            None => Err(Errno::EBADMSG),
        }
    }

    /// Sends one message, receives one.
    fn exchange(&mut self, message: Message) -> Result<([u8; 4096], usize), Errno> {
        self.sequence += 1;
        let bytes = message.finish(self.sequence);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut answer = [0u8; 4096];
        let len = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        Ok((answer, len))
    }
}

/// Milliseconds that the kernel is given to accept an address; it usually needs less than one.
const PATIENCE: u32 = 5_000;

/// The error number of an `NLMSG_ERROR`, 0 for an acknowledgement.
fn verdict(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(code)
}

fn index_of(name: &str) -> Result<u32, NetnsError> {
    if_nametoindex(name).map_err(|error| NetnsError::new(format!("no device {name}"), error))
}

/// Ethernet's MTU, which programs expect.
const MTU: u32 = 1500;
/// Packets that wait in the kernel until the router reads them: bursts of a program, not a model. Large, since no link
/// counts an overflow there.
const QUEUE: u32 = 8192;
pub(super) const V4_PREFIX: u8 = 24;
pub(super) const V6_PREFIX: u8 = 64;

/// A request under construction.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A change that the kernel acknowledges.
    fn new(kind: u16, flags: u16) -> Self {
        Message::plain(kind, flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16)
    }

    fn plain(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        Message { bytes }
    }

    /// `struct ifinfomsg`: the device, and which of its flags to change to what.
    fn link(self, index: u32, flags: u32, change: u32) -> Self {
        let head = [0, index, flags, change].map(u32::to_ne_bytes);
        self.raw(head.as_flattened())
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.nested(kind, |message| message.raw(value))
    }

    fn text(self, kind: u16, value: &str) -> Self {
        self.nested(kind, |message| message.raw(value.as_bytes()).raw(&[0]))
    }

    fn nested(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Self {
        let at = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        let mut filled = fill(self);
        let len = (filled.bytes.len() - at) as u16;
        filled.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        filled.bytes.resize(filled.bytes.len().next_multiple_of(4), 0);
        filled
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_laid_out_as_rtnetlink_wants() {
        let bytes = Message::new(libc::RTM_NEWLINK, 0)
            .link(1, 0, 0)
            .nested(18, |inner| inner.text(1, "veth").attribute(2, &[9]))
            .finish(7);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        assert_eq!(u32::from_ne_bytes(bytes[8..12].try_into().unwrap()), 7);
        // Outer attribute after 16 + 16 bytes: 4 + (4 + 5, padded 12) + (4 + 1, padded 8).
        assert_eq!(u16::from_ne_bytes(bytes[32..34].try_into().unwrap()), 24);
        assert_eq!(&bytes[40..45], b"veth\0");
        assert_eq!(u16::from_ne_bytes(bytes[48..50].try_into().unwrap()), 5);
    }

    #[test]
    fn verdicts_are_read_and_short_answers_survived() {
        let mut answer = vec![0u8; 36];
        answer[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        answer[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(verdict(&answer), Some(-libc::EPERM));
        (0..20).for_each(|len| assert_eq!(verdict(&answer[..len]), None));
    }
}

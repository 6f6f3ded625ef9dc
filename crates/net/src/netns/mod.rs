//! Private network namespaces, their devices and addresses: what the router needs from the kernel.
//!
//! Nothing has a name in the file system. A namespace exists as long as its [`Namespace`] handles and the sockets in
//! it, a device as long as its namespace: when the process ends, nothing remains.

#[cfg(target_os = "linux")]
mod device;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod error;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod netlink;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Namespace, become_namespace_root};
pub use error::NetnsError;
#[cfg(target_os = "linux")]
pub use namespace::{Namespace, become_namespace_root};

#[cfg(target_os = "linux")]
pub(crate) use device::{Port, disable_offloads, tun_port, veth_port};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Netlink, Port, disable_offloads, tun_port, veth_port};
#[cfg(target_os = "linux")]
pub(crate) use netlink::Netlink;

use std::net::{Ipv4Addr, Ipv6Addr};

/// How packets enter and leave a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// TUN devices, read and written by the router.
    Tun,
    /// Pairs of virtual Ethernet devices and packet sockets, where this user may not open `/dev/net/tun`.
    VethPacket,
    /// Neither; the reason, and what would help.
    Forbidden(String),
}

/// Finds out which way is permitted, by trying it in a temporary namespace.
///
/// Without root, call [`become_namespace_root`] first: before that the answer is `Forbidden`.
pub fn probe() -> Means {
    let namespace = match Namespace::private() {
        Ok(namespace) => namespace,
        Err(error) => return Means::Forbidden(error.to_string()),
    };
    let tun = namespace.run(|| tun_port("probe0"));
    if matches!(tun, Ok(Ok(_))) {
        return Means::Tun;
    }
    let veth = namespace.run(|| {
        let mut netlink = Netlink::open()?;
        netlink.add_veth("probe1", "probe2", None)?;
        veth_port("probe1", [2, 0, 0, 0, 0, 1])
    });
    match veth {
        Ok(Ok(_)) => Means::VethPacket,
        Ok(Err(error)) | Err(error) => Means::Forbidden(error.to_string()),
    }
}

/// The privilege by which this process can create network namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// It had the capabilities (root).
    Root,
    /// It is now root of a user namespace of its own, with the same user and group number.
    UserNamespace,
}

/// Addresses of a device, set up by [`Netlink::configure`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configured {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl Configured {
    /// Addresses of one side (1 near, 2 far) of a lane: 10.64.0.0/10 and fd61:6e74::/32, private in both families (RFC
    /// 1918, RFC 4193), and a separate network for each lane so that captures distinguish them.
    pub fn of_lane(lane: u16, side: u8) -> Self {
        let [high, low] = lane.to_be_bytes();
        Configured {
            v4: Ipv4Addr::new(10, 64 + (high & 0x3f), low, side),
            v6: Ipv6Addr::new(0xfd61, 0x6e74, 0, lane, 0, 0, 0, u16::from(side)),
        }
    }
}

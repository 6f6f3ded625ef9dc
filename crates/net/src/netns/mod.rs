//! Private network namespaces, their devices and addresses: what the router needs from the kernel.
//!
//! Nothing has a name in the file system. A namespace exists as long as its [`Namespace`] handles and the sockets in
//! it, a device as long as its namespace: when the process ends, nothing remains.

mod device;
mod namespace;
mod netlink;

pub use namespace::{Namespace, NetnsError, Privilege, become_namespace_root};

pub(crate) use device::{Port, disable_offloads, tun_port, veth_port};
pub(crate) use namespace::Configured;
pub(crate) use netlink::Netlink;

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

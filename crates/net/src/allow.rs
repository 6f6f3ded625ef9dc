//! Lists of the addresses that a listening socket takes anything from.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;

/// The networks from which packets and connections are taken; an empty list takes them from anywhere.
///
/// What comes from elsewhere is dropped before anything else looks at it, and counted by the list and all its copies.
/// Source addresses of datagrams can be forged: a list keeps out strangers, not those who know who is on it.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    networks: Vec<IpNet>,
    denied: Arc<AtomicU64>,
}

impl AllowList {
    /// A list of these networks.
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Self {
        let networks = networks.into_iter().map(|network| network.0).collect();
        AllowList { networks, denied: Arc::default() }
    }

    /// Whether anything is taken from `address`; counts it if not.
    pub fn takes(&self, address: IpAddr) -> bool {
        // A socket for both versions shows IPv4 addresses inside IPv6 ones.
        let address = address.to_canonical();
        let takes = self.networks.is_empty() || self.networks.iter().any(|one| one.contains(&address));
        if !takes {
            self.denied.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }

    /// Datagrams and connections that were dropped.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// What was dropped, in words.
    pub fn note(&self) -> Option<String> {
        match self.denied() {
            0 => None,
            1 => Some("1 packet or connection from an address outside --allow was dropped".into()),
            many => {
                Some(format!("{many} packets and connections from addresses outside --allow were dropped"))
            }
        }
    }
}

/// A network, or a single address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network(IpNet);

/// A text that names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no network: write an address such as 192.0.2.7, or a network such as 192.0.2.0/24 or 2001:db8::/32"
)]
pub struct NoNetwork(String);

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        network.map(Network).ok_or_else(|| NoNetwork(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(networks: &[&str]) -> AllowList {
        AllowList::new(networks.iter().map(|one| one.parse().unwrap()))
    }

    fn takes(list: &AllowList, address: &str) -> bool {
        list.takes(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_taken_if_a_network_contains_it() {
        let listed = list(&["192.0.2.0/24", "198.51.100.7", "2001:db8::/32"]);
        for address in ["192.0.2.0", "192.0.2.255", "::ffff:192.0.2.9", "198.51.100.7", "2001:db8:1::1"] {
            assert!(takes(&listed, address), "{address}");
        }
        for address in ["192.0.3.0", "::192.0.2.9", "198.51.100.8", "2001:db9::", "::1", "127.0.0.1"] {
            assert!(!takes(&listed, address), "{address}");
        }
        assert_eq!((listed.denied(), listed.clone().denied()), (6, 6));
        assert!(takes(&list(&[]), "203.0.113.1") && takes(&list(&["0.0.0.0/0"]), "203.0.113.1"));
        assert!(!takes(&list(&["::/0"]), "203.0.113.1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "x", "192.0.2.0/33", "192.0.2", "192.0.2.0/-1", "::/129", "localhost", "1.2.3.4:5"] {
            assert_eq!(text.parse::<Network>(), Err(NoNetwork(text.into())));
        }
    }
}

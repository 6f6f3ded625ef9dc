//! The table of features: what each transport offers, as its [`Transport`] and its endpoint's [`Profile`] describe it.
//!
//! The rows are those of table 1 of Schiavoni, Queiroz and Wanderley, *Alternatives in Network Transport Protocols for Audio
//! Streaming Applications* (2013). The laboratory tests every cell (`crates/lab/tests/features`).

use std::time::Duration;

use antiphon_core::{Instant, Profile, Role};

use crate::registry::{StackArgs, Transport};

/// A row of the table; [`Capability::meaning`] says what each means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "`meaning` documents them")]
pub enum Capability {
    MessageOriented,
    ConnectionOriented,
    FullDuplex,
    Reliable,
    Ordered,
    Unordered,
    FlowControl,
    CongestionControl,
    Multicasting,
    Broadcasting,
    PathMtuDiscovery,
    Fragmentation,
    Checksum,
}

impl Capability {
    /// All, in the order of the table.
    pub const ALL: [Capability; 13] = [
        Capability::MessageOriented,
        Capability::ConnectionOriented,
        Capability::FullDuplex,
        Capability::Reliable,
        Capability::Ordered,
        Capability::Unordered,
        Capability::FlowControl,
        Capability::CongestionControl,
        Capability::Multicasting,
        Capability::Broadcasting,
        Capability::PathMtuDiscovery,
        Capability::Fragmentation,
        Capability::Checksum,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Capability::MessageOriented => "message_oriented",
            Capability::ConnectionOriented => "connection_oriented",
            Capability::FullDuplex => "full_duplex",
            Capability::Reliable => "reliable",
            Capability::Ordered => "ordered",
            Capability::Unordered => "unordered",
            Capability::FlowControl => "flow_control",
            Capability::CongestionControl => "congestion_control",
            Capability::Multicasting => "multicasting",
            Capability::Broadcasting => "broadcasting",
            Capability::PathMtuDiscovery => "path_mtu_discovery",
            Capability::Fragmentation => "fragmentation",
            Capability::Checksum => "checksum",
        }
    }

    /// As the table names it.
    pub fn title(self) -> &'static str {
        match self {
            Capability::MessageOriented => "message oriented",
            Capability::ConnectionOriented => "connection oriented",
            Capability::FullDuplex => "full duplex",
            Capability::Reliable => "reliable",
            Capability::Ordered => "ordered",
            Capability::Unordered => "unordered",
            Capability::FlowControl => "flow control",
            Capability::CongestionControl => "congestion control",
            Capability::Multicasting => "multicasting",
            Capability::Broadcasting => "broadcasting",
            Capability::PathMtuDiscovery => "path MTU discovery",
            Capability::Fragmentation => "fragmentation",
            Capability::Checksum => "checksum",
        }
    }

    /// What it means, in a line.
    pub fn meaning(self) -> &'static str {
        match self {
            Capability::MessageOriented => "packets come out as they were put in",
            Capability::ConnectionOriented => "no sound leaves before the other end answers",
            Capability::FullDuplex => "both ends can send at the same time",
            Capability::Reliable => "without a deadline nothing is lost, even in an 8 s outage",
            Capability::Ordered => "packets arrive in the order in which they were sent",
            Capability::Unordered => "no packet waits for an earlier one that was lost",
            Capability::FlowControl => "the sender waits while the receiver reads nothing",
            Capability::CongestionControl => "the sender slows down to what the path carries",
            Capability::Multicasting => "one datagram reaches every member of a group",
            Capability::Broadcasting => "one datagram reaches all of a network; none answers",
            Capability::PathMtuDiscovery => "finds the largest packet that the path carries",
            Capability::Fragmentation => "messages longer than a packet are cut and rejoined",
            Capability::Checksum => "damaged packets are dropped, here or in the layer below",
        }
    }
}

impl Transport {
    /// What an endpoint with the settings of `query` promises. The query must be valid.
    pub fn profile_of(&self, query: &str) -> Profile {
        let query = query.parse().expect("a query of the registry");
        let args = StackArgs::new(&query, 0, DATAGRAM, Duration::from_millis(80));
        let stack = (self.stack)(&args).expect("settings of the registry");
        stack.open(Instant::ZERO, Role::Caller).profile()
    }

    /// Whether it offers a feature with the settings of `query`.
    pub fn offers(&self, feature: Capability, query: &str) -> bool {
        let profile = self.profile_of(query);
        let capabilities = profile.capabilities;
        match feature {
            Capability::MessageOriented => capabilities.message_oriented,
            Capability::ConnectionOriented => capabilities.connection_oriented,
            Capability::FullDuplex => capabilities.full_duplex,
            Capability::Reliable => profile.reliable,
            Capability::Ordered => profile.ordered,
            Capability::Unordered => capabilities.unordered,
            Capability::FlowControl => capabilities.flow_control,
            Capability::CongestionControl => capabilities.congestion_control,
            Capability::Multicasting => self.multicast,
            Capability::Broadcasting => self.broadcast,
            Capability::PathMtuDiscovery => capabilities.path_mtu_discovery,
            Capability::Fragmentation => capabilities.fragmentation,
            Capability::Checksum => capabilities.checksum,
        }
    }

    /// The first of its [`variants`](Transport::variants) that offers a feature which it doesn't offer by default.
    pub fn offers_with(&self, feature: Capability) -> Option<&'static str> {
        let offers = |query: &&&str| self.offers(feature, query);
        if self.offers(feature, "") { None } else { self.variants.iter().find(offers).copied() }
    }
}

/// The datagram of an Ethernet path; no feature depends on it.
const DATAGRAM: usize = 1472;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TRANSPORTS;

    #[test]
    fn every_variant_offers_something_more() {
        for transport in TRANSPORTS {
            for variant in transport.variants {
                let more = |feature: &Capability| transport.offers_with(*feature) == Some(*variant);
                assert!(Capability::ALL.iter().any(more), "{}?{variant}", transport.scheme);
            }
        }
    }
}

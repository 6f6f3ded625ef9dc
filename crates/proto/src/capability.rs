//! The table of features: what each transport offers, as its [`Transport`] and its endpoint's [`Profile`] describe it.
//!
//! The rows are those of table 1 of Schiavoni, Queiroz and Wanderley, *Alternatives in Network Transport Protocols for Audio
//! Streaming Applications* (2013). The laboratory tests every cell (`crates/lab/tests/features`).

use std::time::Duration;

use antiphon_core::{Instant, Profile, Role};

use crate::registry::{StackArgs, Transport};

/// Declares the rows of the table: each feature with its name in JSON, its title, its meaning, and what of a transport or
/// its profile tells whether it is offered.
macro_rules! capabilities {
    ($($feature:ident, $name:literal, $title:literal, $meaning:literal, $offers:expr;)*) => {
        /// A row of the table; [`Capability::meaning`] says what each means.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "`meaning` documents them")]
        pub enum Capability {
            $($feature),*
        }

        impl Capability {
            /// All, in the order of the table.
            pub const ALL: [Capability; [$($name),*].len()] = [$(Capability::$feature),*];

            fn row(self) -> Row {
                match self {
                    $(Capability::$feature => {
                        Row { name: $name, title: $title, meaning: $meaning, offers: $offers }
                    })*
                }
            }
        }
    };
}

struct Row {
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    offers: fn(&Transport, &Profile) -> bool,
}

capabilities! {
    MessageOriented, "message_oriented", "message oriented",
        "packets come out as they were put in", |_, profile| profile.capabilities.message_oriented;
    ConnectionOriented, "connection_oriented", "connection oriented",
        "no sound leaves before the other end answers", |_, profile| profile.capabilities.connection_oriented;
    FullDuplex, "full_duplex", "full duplex",
        "both ends can send at the same time", |_, profile| profile.capabilities.full_duplex;
    Reliable, "reliable", "reliable",
        "without a deadline nothing is lost, even in an 8 s outage", |_, profile| profile.reliable;
    Ordered, "ordered", "ordered",
        "packets arrive in the order in which they were sent", |_, profile| profile.ordered;
    Unordered, "unordered", "unordered",
        "no packet waits for an earlier one that was lost", |_, profile| profile.capabilities.unordered;
    FlowControl, "flow_control", "flow control",
        "the sender waits while the receiver reads nothing", |_, profile| profile.capabilities.flow_control;
    CongestionControl, "congestion_control", "congestion control",
        "the sender slows down to what the path carries", |_, profile| profile.capabilities.congestion_control;
    Multicasting, "multicasting", "multicasting",
        "one datagram reaches every member of a group", |transport, _| transport.multicast;
    Broadcasting, "broadcasting", "broadcasting",
        "one datagram reaches all of a network; none answers", |transport, _| transport.broadcast;
    PathMtuDiscovery, "path_mtu_discovery", "path MTU discovery",
        "finds the largest packet that the path carries", |_, profile| profile.capabilities.path_mtu_discovery;
    Fragmentation, "fragmentation", "fragmentation",
        "messages longer than a packet are cut and rejoined", |_, profile| profile.capabilities.fragmentation;
    Checksum, "checksum", "checksum",
        "damaged packets are dropped, here or in the layer below", |_, profile| profile.capabilities.checksum;
}

impl Capability {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// As the table names it.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What it means, in a line.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
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
        (feature.row().offers)(self, &self.profile_of(query))
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

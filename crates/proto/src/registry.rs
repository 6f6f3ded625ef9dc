//! Descriptions of the transports for the other crates.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::{Query, UriError};
use antiphon_core::{Dissector, OverIp, Secret, Stack, did_you_mean, nearest};

use crate::TRANSPORTS;

/// Description of a transport for tables, help texts and drivers.
#[derive(Debug)]
pub struct Transport {
    /// URI scheme and name in every table: `rtp`.
    pub scheme: &'static str,
    /// Its name in prose: `UDP/RTP`.
    pub title: &'static str,
    /// What it is, in a few words for readers who know no protocols.
    pub plain: &'static str,
    /// Its purpose in one sentence.
    pub summary: &'static str,
    /// The substrate that carries its bytes.
    pub substrate: Substrate,
    /// How it runs directly over IP (`over=ip`), if it can. The driver opens the socket with it before there is a
    /// stack; it equals the stack's [`Stack::over_ip`] unless a layer changes packets.
    pub over_ip: Option<&'static (dyn OverIp + Sync)>,
    /// Port of a URI without one: the registered port of what is inside UDP, or [`DEFAULT_PORT`].
    pub default_port: u16,
    /// What `reflect HOST:PORT` adds to PORT for this transport, so that one number leads to all of them. It must never
    /// change; two transports on the same kind of socket never share one.
    pub reflect_offset: u16,
    /// Whether one sender can reach many receivers with one datagram. Other properties depend on settings: see the
    /// opened endpoint's [`Profile`](antiphon_core::Profile).
    pub multicast: bool,
    /// Whether a sender to a group has a path to each of its members, and they one to the sender beside the group's address.
    pub members: bool,
    /// Whether a datagram to a broadcast address reaches all receivers of a network, though none of them answers.
    pub broadcast: bool,
    /// Queries under which it offers capabilities ([`crate::Capability`]) that it doesn't by default.
    pub variants: &'static [&'static str],
    /// Its own query keys, beside those that every transport takes.
    pub keys: &'static [Key],
    /// Further addresses of the peer in a query: the driver opens a path to each, in this order, `PathId` 1 and up.
    pub other_peers: fn(&Query) -> Result<Vec<SocketAddr>, UriError>,
    /// Makes a stack, which opens endpoints, validators and dissectors. All settings are checked here.
    pub stack: fn(&StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError>,
    /// Makes a dissector, which finds the messages in its datagrams or its stream, whatever the settings.
    pub dissector: fn() -> Box<dyn Dissector>,
}

/// Port of transports without a registered one; itself unregistered.
pub const DEFAULT_PORT: u16 = 7710;

/// What carries a transport's bytes; determines the socket that the driver opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Substrate {
    /// A UDP socket.
    Udp,
    /// A TCP connection.
    Tcp,
}

/// A query key with its help text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// As written in a URI.
    pub name: &'static str,
    /// Its effect, with an example value.
    pub help: &'static str,
}

/// Settings of a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackArgs<'a> {
    /// The query of the transport's URI; only the transport's own keys are read.
    pub query: &'a Query,
    /// All random values of the endpoints are derived from it. Endpoints with equal secrets open each other's cookies.
    pub secret: Secret,
    /// The largest datagram that crosses the path without IP fragmentation, in bytes of what UDP or IP carries.
    pub max_datagram: usize,
    /// The receiver's playout delay, from the arrival of an undelayed message to its playout: protocols derive their
    /// retransmission limits from it.
    pub playout_delay: Duration,
    /// Streams of a sender if the query does not set their number; for transports with streams.
    pub streams: Option<u16>,
    /// Whether a byte stream carries only the messages' bytes, without their boundaries, for framings that find their
    /// packets by themselves. Both sides need it. Not a query key, as messages that are bare RTP would be lost.
    pub undelimited: bool,
    /// The address is that of a multicast group: callers send to it, and listeners receive what is sent to it.
    pub group: bool,
}

impl<'a> StackArgs<'a> {
    /// Settings from the query only, for virtual worlds and tests: the secret follows from `seed`.
    pub fn new(query: &'a Query, seed: u64, max_datagram: usize, playout_delay: Duration) -> Self {
        StackArgs::with_secret(query, Secret::for_laboratory(seed), max_datagram, playout_delay)
    }

    /// Settings from the query only. The arguments are the fields of these names.
    pub fn with_secret(
        query: &'a Query,
        secret: Secret,
        max_datagram: usize,
        playout_delay: Duration,
    ) -> Self {
        StackArgs {
            query,
            secret,
            max_datagram,
            playout_delay,
            streams: None,
            undelimited: false,
            group: false,
        }
    }
}

/// [`Transport::other_peers`] of transports with one address per peer.
pub(crate) fn one_address(_query: &Query) -> Result<Vec<SocketAddr>, UriError> {
    Ok(Vec::new())
}

/// Why a stack could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No transport has this name.
    #[error("unknown transport '{name}'{}; known: {known}", did_you_mean(*.nearest))]
    UnknownTransport {
        /// The name requested.
        name: String,
        /// The most similar name.
        nearest: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// A key or value that the transport does not take.
    #[error(transparent)]
    Query(#[from] UriError),
}

/// The transport with this scheme.
pub fn find(scheme: &str) -> Result<&'static Transport, OpenError> {
    let known = || TRANSPORTS.iter().map(|t| t.scheme);
    TRANSPORTS.iter().find(|t| t.scheme == scheme).copied().ok_or_else(|| OpenError::UnknownTransport {
        name: scheme.chars().take(40).collect(),
        nearest: nearest(scheme, known()),
        known: known().collect::<Vec<_>>().join(", "),
    })
}

/// Makes a stack of the transport with this scheme.
pub fn stack(scheme: &str, args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    (find(scheme)?.stack)(args)
}

#[cfg(test)]
mod tests {
    use antiphon_core::{Instant, Role};

    use super::*;

    #[test]
    fn an_unknown_transport_is_refused_with_the_nearest() {
        let error = find("rpt").unwrap_err().to_string();
        assert!(error.contains("did you mean 'rtp'") && error.contains("tcp"), "{error}");
    }

    #[test]
    fn wished_streams_hold_where_the_query_says_nothing() {
        let streams = |scheme: &str, query: &str, wished: u16| {
            let query = query.parse().unwrap();
            let args = StackArgs::new(&query, 1, 1452, Duration::from_millis(80));
            let stack = stack(scheme, &StackArgs { streams: Some(wished), ..args }).unwrap();
            stack.open(Instant::ZERO, Role::Caller).profile().streams
        };
        assert_eq!((streams("sctp", "", 5), streams("sctp", "streams=2", 5)), (5, 2));
        assert_eq!(
            (streams("sctp", "", 0), streams("sctp", "", u16::MAX)),
            (1, 256),
            "as many as there may be"
        );
        assert_eq!((streams("srp", "", 5), streams("tcp", "", 5)), (1, 1), "they have none to spread over");
    }

    #[test]
    fn profiles_tell_first_message_calls_and_own_pacing() {
        let profile = |uri: &str| {
            let (scheme, query) = uri.split_once('?').unwrap();
            let query = query.parse().unwrap();
            let args = StackArgs::new(&query, 1, 1452, Duration::from_millis(80));
            let profile = stack(scheme, &args).unwrap().open(Instant::ZERO, Role::Caller).profile();
            (profile.calls_with_first_message, profile.paces_itself)
        };
        assert_eq!((profile("sctp?style=many"), profile("sctp?style=one")), ((true, false), (false, false)));
        assert_eq!(profile("arq?mode=as-published&tick=1ms&pace=7.4ms"), (false, true));
        assert_eq!(
            profile("arq?mode=as-published&tick=1ms"),
            (false, false),
            "one message a turn, as they come"
        );
    }

    #[test]
    fn names_and_ports_are_unique() {
        for (i, a) in TRANSPORTS.iter().enumerate() {
            for b in &TRANSPORTS[i + 1..] {
                assert_ne!(a.scheme, b.scheme);
                assert!(a.substrate != b.substrate || a.reflect_offset != b.reflect_offset);
                let protocols = a.over_ip.zip(b.over_ip);
                assert!(protocols.is_none_or(|(a, b)| a.protocol() != b.protocol()));
            }
        }
    }
}

//! The query keys of `sctp://`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use antiphon_core::uri::{Query, UriError};

use crate::Key;
use crate::query::{bad, time, unknown};
use crate::rtt::{RtoSettings, live_rto};

/// Settings from a URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    pub ordered: bool,
    pub reliability: Reliability,
    /// Streams in each direction.
    pub streams: u16,
    pub interleaving: bool,
    /// Whether the association is set up by the first message instead of at once.
    pub implicit: bool,
    /// Longest delay of an acknowledgement, here and at the peer.
    pub ack_delay: Duration,
    /// The granularity is what a time-out must exceed: the peer's acknowledgement delay and a scheduler's time slice.
    pub rto: RtoSettings,
    /// Time-outs in a row that a path may have and still carry payload.
    pub path_max_retrans: u32,
    pub heartbeat: Duration,
    /// The listener's SCTP port, inside the UDP datagrams.
    pub sctp_port: u16,
    /// Whether every packet is sent on all paths.
    pub all_paths: bool,
    /// Paths to the peer that this side knows beside the first: `PathId` 1 and up.
    pub other_paths: u32,
    /// Addresses of this side that are announced to the peer.
    pub addresses: [Option<IpAddr>; MAX_PATHS],
}

/// How long a lost message is retransmitted (RFC 3758, RFC 7496).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Reliability {
    /// Until its deadline.
    #[default]
    Deadline,
    /// At most this many times.
    Retransmissions(u16),
    /// Until it arrives.
    Full,
}

pub(super) const KEYS: &[Key] = &[
    Key { name: "order", help: "unordered (default) or ordered within a stream: order=ordered" },
    Key {
        name: "reliability",
        help: "how long a message is sent again: deadline (default), retransmissions or full: reliability=full",
    },
    Key {
        name: "retransmissions",
        help: "how often at most, with reliability=retransmissions: retransmissions=1",
    },
    Key {
        name: "streams",
        help: "streams each way: reports (RTCP) take the second if there is one, sound the first and, in groups, the rest: streams=2",
    },
    Key {
        name: "interleaving",
        help: "on or off (default): large messages of one stream do not hold up another (RFC 8260): interleaving=on",
    },
    Key {
        name: "style",
        help: "one (default) calls at once, many with the first message (RFC 6458): style=many",
    },
    Key {
        name: "ack-delay",
        help: "longest wait of an acknowledgement, here and at the peer; a kernel's is 200ms: ack-delay=10ms",
    },
    Key {
        name: "rto-initial",
        help: "retransmission time-out before a round trip is known, 250ms by default, 1s in RFC 9260: rto-initial=1s",
    },
    Key {
        name: "rto-min",
        help: "the least time-out; by default what is above the round trip by ack-delay and 20ms, 1s in RFC 9260: rto-min=1s",
    },
    Key {
        name: "rto-max",
        help: "to which time-outs double, 500ms by default, 60s in RFC 9260: rto-max=60s",
    },
    Key {
        name: "path-max-retrans",
        help: "time-outs in a row after which another path is taken, 0 by default, 5 in RFC 9260: path-max-retrans=5",
    },
    Key { name: "heartbeat", help: "time between heartbeats on an idle association: heartbeat=15s" },
    Key { name: "sctp-port", help: "the listener's SCTP port inside UDP: sctp-port=5004" },
    Key {
        name: "peers",
        help: "more addresses of the peer, to go by when the first fails: peers=192.0.2.7:9906,198.51.100.7:9906",
    },
    Key {
        name: "addresses",
        help: "our own addresses, for a peer with several to know us at each; not from behind a translator (RFC 6951): \
               addresses=192.0.2.1,198.51.100.1",
    },
    Key {
        name: "paths",
        help: "with several addresses: one at a time (default), or both, every packet by all: paths=both",
    },
];

/// Reads the query keys; `streams` is used where they do not set the number.
pub(super) fn read(query: &Query, streams: Option<u16>) -> Result<Settings, UriError> {
    let ack_delay = time(query, "ack-delay", Duration::ZERO, MAX_ACK_DELAY)?.unwrap_or(ACK_DELAY);
    Ok(Settings {
        ordered: choice(query, "order", ["unordered", "ordered"])?,
        reliability: read_reliability(query)?,
        streams: number(query, "streams", 1, MAX_STREAMS)?
            .or(streams)
            .map_or(1, |most| most.clamp(1, MAX_STREAMS)),
        interleaving: choice(query, "interleaving", ["off", "on"])?,
        implicit: choice(query, "style", ["one", "many"])?,
        ack_delay,
        rto: read_rto(query, live_rto(ack_delay))?,
        path_max_retrans: number(query, "path-max-retrans", 0, MAX_PATH_RETRANS)?.unwrap_or(0).into(),
        heartbeat: time(query, "heartbeat", MIN_HEARTBEAT, MAX_HEARTBEAT)?.unwrap_or(HEARTBEAT),
        sctp_port: number(query, "sctp-port", 1, u16::MAX)?.unwrap_or(SCTP_PORT),
        all_paths: choice(query, "paths", ["one", "both"])?,
        other_paths: other_peers(query)?.len() as u32,
        addresses: read_addresses(query)?,
    })
}

fn read_rto(query: &Query, live: RtoSettings) -> Result<RtoSettings, UriError> {
    let max = time(query, "rto-max", LEAST_RTO, RFC_RTO_MAX)?;
    let rto = RtoSettings {
        initial: time(query, "rto-initial", LEAST_RTO, RFC_RTO_MAX)?.unwrap_or(live.initial),
        min: time(query, "rto-min", Duration::ZERO, RFC_RTO_MAX)?.unwrap_or(live.min),
        max: max.unwrap_or(live.max),
        longest: max.map_or(live.longest, |max| max.max(live.longest)),
        ..live
    };
    let above =
        [("rto-min", rto.min), ("rto-initial", rto.initial)].into_iter().filter(|(_, time)| *time > rto.max);
    let above = above.max_by_key(|(_, time)| *time);
    let Some((key, time)) = above else { return Ok(rto) };
    // Blames a key that the query contains, so that the user can correct it.
    let key = if query.value(key).is_some() { key } else { "rto-max" };
    Err(bad(query, key, format!("rto-max={:?} is below {time:?}: use rto-max={time:?} or more", rto.max)))
}

/// The peer's other addresses; the opener of the sockets connects to them and assigns their path numbers.
pub(super) fn other_peers(query: &Query) -> Result<Vec<SocketAddr>, UriError> {
    let peers = query.read("peers", |text| {
        let each = text.split(',').map(|one| one.parse::<SocketAddr>().map_err(|_| one));
        each.collect::<Result<Vec<_>, _>>().map_err(|one| {
            format!("'{one}' is not an address and port: use 192.0.2.7:9906 or [2001:db8::7]:9906")
        })
    })?;
    let peers = peers.unwrap_or_default();
    if peers.len() >= MAX_PATHS {
        return Err(bad(query, "peers", format!("too many: name {} at most", MAX_PATHS - 1)));
    }
    Ok(peers)
}

fn read_addresses(query: &Query) -> Result<[Option<IpAddr>; MAX_PATHS], UriError> {
    let mut addresses = [None; MAX_PATHS];
    let Some(text) = query.value("addresses") else { return Ok(addresses) };
    for (at, one) in text.split(',').enumerate() {
        let address =
            one.parse::<IpAddr>().ok().filter(|address| !address.is_unspecified() && !address.is_multicast());
        let why = match (address, addresses.get_mut(at)) {
            (Some(address), Some(place)) => {
                *place = Some(address);
                continue;
            }
            (None, _) => format!(
                "'{one}' is not an address of one machine: use 192.0.2.1 or 2001:db8::1, without a port"
            ),
            (_, None) => format!("too many: name {MAX_PATHS} at most"),
        };
        return Err(bad(query, "addresses", why));
    }
    Ok(addresses)
}

fn read_reliability(query: &Query) -> Result<Reliability, UriError> {
    let times = number(query, "retransmissions", 0, MAX_RETRANSMISSIONS)?;
    match (query.value("reliability"), times) {
        (None | Some("retransmissions"), Some(times)) => Ok(Reliability::Retransmissions(times)),
        (Some("retransmissions"), None) => {
            Err(bad(query, "reliability", "give the number, for example retransmissions=1".into()))
        }
        (Some(_), Some(_)) => {
            Err(bad(query, "retransmissions", "belongs to reliability=retransmissions: omit one".into()))
        }
        (None | Some("deadline"), None) => Ok(Reliability::Deadline),
        (Some("full"), None) => Ok(Reliability::Full),
        (Some(other), None) => {
            Err(bad(query, "reliability", unknown(other, &["deadline", "retransmissions", "full"])))
        }
    }
}

fn choice(query: &Query, key: &str, [no, yes]: [&'static str; 2]) -> Result<bool, UriError> {
    match query.value(key) {
        None => Ok(false),
        Some(value) if value == no => Ok(false),
        Some(value) if value == yes => Ok(true),
        Some(other) => Err(bad(query, key, unknown(other, &[no, yes]))),
    }
}

fn number(query: &Query, key: &str, low: u16, high: u16) -> Result<Option<u16>, UriError> {
    query.read(key, |text| {
        let number = text.parse().ok().filter(|number| (low..=high).contains(number));
        number.ok_or_else(|| format!("use {low} to {high}, a whole number"))
    })
}

/// RTP's registered port, since RTP is carried.
const SCTP_PORT: u16 = 5004;
/// Far below the 200 ms of RFC 9260 §16, as playout budgets are under 200 ms; two blocks of 5 ms.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// The most that RFC 9260 §6.2 allows.
const MAX_ACK_DELAY: Duration = Duration::from_millis(500);
/// RTO.Max of RFC 9260 §16.
const RFC_RTO_MAX: Duration = Duration::from_secs(60);
/// A shorter time-out would only reveal that a scheduler ran other work.
const LEAST_RTO: Duration = Duration::from_millis(10);
/// Association.Max.Retrans of RFC 9260 §16; a larger Path.Max.Retrans has no effect (§8.2).
const MAX_PATH_RETRANS: u16 = 10;
/// Keeps bindings of address translators alive (RFC 6951 §5.6 asks for a shorter interval than their expiry).
const HEARTBEAT: Duration = Duration::from_secs(15);
const MIN_HEARTBEAT: Duration = Duration::from_secs(1);
const MAX_HEARTBEAT: Duration = Duration::from_secs(3600);
/// An idle path must be known to work, with its round trip, before it is needed.
pub(super) const STANDBY_HEARTBEAT: Duration = Duration::from_secs(1);
/// Paths to one peer: two networks on this side, two on the peer's.
pub(super) const MAX_PATHS: usize = 4;
/// More than there are channel groups; each stream costs memory on both sides.
pub(super) const MAX_STREAMS: u16 = 256;
const MAX_RETRANSMISSIONS: u16 = 1000;
/// Packet sizes: the smallest holds an INIT ACK (`validator`), chunk lengths have 16 bits.
pub(super) const MIN_PACKET: usize = 128;
pub(super) const MAX_PACKET: usize = 65_504;
/// The largest message: a video key frame; audio needs far less.
pub(super) const MAX_MESSAGE: usize = 256 * 1024;
/// Bytes that a peer may have us keep: four of the largest messages.
pub(super) const WINDOW: usize = 4 * MAX_MESSAGE;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        read(&text.parse().unwrap(), None).map_err(|e| e.to_string())
    }

    #[test]
    fn keys_are_read() {
        let read =
            settings("order=ordered&retransmissions=2&streams=4&interleaving=on&style=many&ack-delay=200ms");
        let read = read.unwrap();
        assert_eq!(read.reliability, Reliability::Retransmissions(2));
        assert!(read.ordered && read.interleaving && read.implicit);
        assert_eq!(read.rto.granularity, Duration::from_millis(220));
        assert_eq!(settings("").unwrap().reliability, Reliability::Deadline);
        assert_eq!(settings("reliability=full").unwrap().reliability, Reliability::Full);
    }

    #[test]
    fn time_outs_default_to_those_of_live_sound() {
        let ms = Duration::from_millis;
        let live = live_rto(ms(10));
        let bounds = (live.initial, live.min, live.max, live.longest, live.granularity);
        assert_eq!(bounds, (ms(250), ms(0), ms(500), ms(2000), ms(30)));
        assert_eq!(settings("").unwrap().rto, live);
        let rfc = settings("rto-initial=1s&rto-min=1s&rto-max=60s&path-max-retrans=5").unwrap();
        let expected =
            RtoSettings { initial: ms(1000), min: ms(1000), max: ms(60_000), longest: ms(60_000), ..live };
        assert_eq!((rfc.rto, rfc.path_max_retrans), (expected, 5));
        let eager = settings("rto-max=300ms").unwrap().rto;
        assert_eq!(eager, RtoSettings { max: ms(300), ..live }, "a longer round trip is waited for");
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (text, remedy) in [
            ("order=orderd", "did you mean 'ordered'"),
            ("reliability=none", "use deadline or retransmissions or full"),
            ("reliability=retransmissions", "for example retransmissions=1"),
            ("reliability=full&retransmissions=1", "omit one"),
            ("streams=0", "use 1 to 256"),
            ("ack-delay=1s", "500ms"),
            ("ack-delay=5", "5ms"),
            ("heartbeat=1ms", "use 1s to"),
            ("rto-min=2s", "rto-max=500ms is below 2s: use rto-max=2s or more"),
            ("rto-initial=3s&rto-min=1s", "use rto-max=3s or more"),
            ("rto-max=100ms", "rto-max=100ms is below 250ms"),
            ("rto-max=61s", "use 10ms to 60s"),
            ("path-max-retrans=11", "use 0 to 10"),
            ("sctp-port=0", "use 1 to 65535"),
            ("style=two", "use one or many"),
            ("paths=bot", "did you mean 'both'"),
            ("peers=192.0.2.7", "192.0.2.7:9906"),
            ("addresses=192.0.2.7:5004", "without a port"),
            ("addresses=::", "is not an address of one machine"),
            ("addresses=192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4,192.0.2.5", "name 4 at most"),
            ("peers=192.0.2.7:1,192.0.2.7:2,192.0.2.7:3,192.0.2.7:4", "name 3 at most"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

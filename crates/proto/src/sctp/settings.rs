//! The query keys of `sctp://`.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::uri::{Query, UriError};

use crate::Key;
use crate::query::{bad, time, unknown};

/// What a URI asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    pub ordered: bool,
    pub reliability: Reliability,
    /// Streams each way.
    pub streams: u16,
    pub interleaving: bool,
    /// Whether the association is set up by the first frame instead of at once.
    pub implicit: bool,
    /// Longest wait of an acknowledgement, here and at the peer.
    pub ack_delay: Duration,
    pub heartbeat: Duration,
    /// The listener's SCTP port, inside the UDP datagrams.
    pub sctp_port: u16,
    /// Whether every packet goes by all paths at once.
    pub all_paths: bool,
    /// Paths to the peer beside the first that this side knows of: `PathId` 1 and up.
    pub other_paths: u32,
}

/// How long a frame is sent again (RFC 3758, RFC 7496).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reliability {
    /// Until its deadline.
    Deadline,
    /// So many times.
    Retransmissions(u16),
    /// Until it arrives.
    Full,
}

pub(super) const KEYS: &[Key] = &[
    Key { name: "order", help: "unordered (default) or ordered within a stream: order=ordered" },
    Key {
        name: "reliability",
        help: "how long a frame is sent again: deadline (default), retransmissions or full: reliability=full",
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
        help: "on or off (default): large frames of one stream do not hold up another (RFC 8260): interleaving=on",
    },
    Key {
        name: "style",
        help: "one (default) calls at once, many with the first frame (RFC 6458): style=many",
    },
    Key {
        name: "ack-delay",
        help: "longest wait of an acknowledgement, here and at the peer; a kernel's is 200ms: ack-delay=10ms",
    },
    Key { name: "heartbeat", help: "time between heartbeats on an idle association: heartbeat=15s" },
    Key { name: "sctp-port", help: "the listener's SCTP port inside UDP: sctp-port=5004" },
    Key {
        name: "peers",
        help: "more addresses of the peer, to go by when the first fails: peers=192.0.2.7:9906,198.51.100.7:9906",
    },
    Key {
        name: "paths",
        help: "with several addresses: one at a time (default), or both, every packet by all: paths=both",
    },
];

/// Reads the keys.
pub(super) fn read(query: &Query) -> Result<Settings, UriError> {
    Ok(Settings {
        ordered: choice(query, "order", ["unordered", "ordered"])?,
        reliability: read_reliability(query)?,
        streams: number(query, "streams", 1, MAX_STREAMS)?.unwrap_or(1),
        interleaving: choice(query, "interleaving", ["off", "on"])?,
        implicit: choice(query, "style", ["one", "many"])?,
        ack_delay: time(query, "ack-delay", Duration::ZERO, MAX_ACK_DELAY)?.unwrap_or(ACK_DELAY),
        heartbeat: time(query, "heartbeat", MIN_HEARTBEAT, MAX_HEARTBEAT)?.unwrap_or(HEARTBEAT),
        sctp_port: number(query, "sctp-port", 1, u16::MAX)?.unwrap_or(SCTP_PORT),
        all_paths: choice(query, "paths", ["one", "both"])?,
        other_paths: read_peers(query)?,
    })
}

/// How many other addresses there are: whoever opens the socket calls them, and gives them their path numbers.
fn read_peers(query: &Query) -> Result<u32, UriError> {
    let read = query.read("peers", |text| {
        let each = text.split(',').map(|one| one.parse::<SocketAddr>().map_err(|_| one));
        each.collect::<Result<Vec<_>, _>>().map_err(|one| {
            format!("'{one}' is not an address and port: use 192.0.2.7:9906 or [2001:db8::7]:9906")
        })
    })?;
    let count = read.map_or(0, |peers| peers.len());
    if count >= MAX_PATHS {
        return Err(bad(query, "peers", format!("too many: name {} at most", MAX_PATHS - 1)));
    }
    Ok(count as u32)
}

fn read_reliability(query: &Query) -> Result<Reliability, UriError> {
    let times = number(query, "retransmissions", 0, MAX_RETRANSMISSIONS)?;
    match (query.value("reliability"), times) {
        (None | Some("retransmissions"), Some(times)) => Ok(Reliability::Retransmissions(times)),
        (Some("retransmissions"), None) => {
            Err(bad(query, "reliability", "say how many: add retransmissions=1".into()))
        }
        (Some(_), Some(_)) => {
            Err(bad(query, "retransmissions", "belongs to reliability=retransmissions: leave one out".into()))
        }
        (None | Some("deadline"), None) => Ok(Reliability::Deadline),
        (Some("full"), None) => Ok(Reliability::Full),
        (Some(other), None) => {
            Err(bad(query, "reliability", unknown(other, &["deadline", "retransmissions", "full"])))
        }
    }
}

impl Settings {
    /// The least that a retransmission time-out is above the round trip: it must outlast the peer's wait with an
    /// acknowledgement, and a scheduler's slice.
    pub fn rto_margin(&self) -> Duration {
        self.ack_delay + RTO_SLACK
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
    let read = query.read(key, |text| text.parse::<u16>())?;
    match read {
        Some(number) if number < low || number > high => {
            Err(bad(query, key, format!("out of range: use {low} to {high}")))
        }
        _ => Ok(read),
    }
}

/// RTP's registered port, since RTP is what is carried.
const SCTP_PORT: u16 = 5004;
/// Far below the 200 ms of RFC 9260 §16, as playout budgets are under 200 ms; two blocks of 5 ms.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// The most that RFC 9260 §6.2 allows.
const MAX_ACK_DELAY: Duration = Duration::from_millis(500);
const RTO_SLACK: Duration = Duration::from_millis(20);
/// RFC 9260 §16 says 1 s; live sound can't wait for it.
pub(super) const RTO_INITIAL: Duration = Duration::from_millis(250);
pub(super) const RTO_MAX: Duration = Duration::from_secs(2);
/// RFC 9260 doubles up to 60 s: after an outage of 30 s the next try could be half a minute away. One packet a second
/// burdens nobody.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long nothing may come back before an association ends, in place of Association.Max.Retrans, 10 in RFC 9260 §16:
/// an association outlives an outage of almost a minute, by however many paths it asks.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
/// Keeps bindings of address translators (RFC 6951 §5.6 asks for more often than they expire).
const HEARTBEAT: Duration = Duration::from_secs(15);
const MIN_HEARTBEAT: Duration = Duration::from_secs(1);
const MAX_HEARTBEAT: Duration = Duration::from_secs(3600);
/// A path that is not in use must be known to work when it is needed, and how long its round trip is.
pub(super) const STANDBY_HEARTBEAT: Duration = Duration::from_secs(1);
/// Ways to one peer: two networks at home, two at the peer's.
pub(super) const MAX_PATHS: usize = 4;
/// More than there are channel groups; each costs memory on both sides.
pub(super) const MAX_STREAMS: u16 = 256;
const MAX_RETRANSMISSIONS: u16 = 1000;
/// Packets are of these sizes: the least holds a greeting (`door`), chunk lengths have 16 bits.
pub(super) const MIN_PACKET: usize = 128;
pub(super) const MAX_PACKET: usize = 65_504;
/// The largest frame: a key picture of a video; sound is far below.
pub(super) const MAX_MESSAGE: usize = 256 * 1024;
/// What a peer may have us keep: four of the largest frames.
pub(super) const WINDOW: usize = 4 * MAX_MESSAGE;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        read(&text.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn keys_are_read() {
        let read =
            settings("order=ordered&retransmissions=2&streams=4&interleaving=on&style=many&ack-delay=200ms");
        let read = read.unwrap();
        assert_eq!(read.reliability, Reliability::Retransmissions(2));
        assert!(read.ordered && read.interleaving && read.implicit);
        assert_eq!(read.rto_margin(), Duration::from_millis(220));
        assert_eq!(settings("").unwrap().reliability, Reliability::Deadline);
        assert_eq!(settings("reliability=full").unwrap().reliability, Reliability::Full);
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (text, remedy) in [
            ("order=orderd", "did you mean 'ordered'"),
            ("reliability=none", "use deadline or retransmissions or full"),
            ("reliability=retransmissions", "add retransmissions=1"),
            ("reliability=full&retransmissions=1", "leave one out"),
            ("streams=0", "use 1 to 256"),
            ("ack-delay=1s", "500ms"),
            ("ack-delay=5", "5ms"),
            ("heartbeat=1ms", "use 1s to"),
            ("sctp-port=0", "use 1 to 65535"),
            ("style=two", "use one or many"),
            ("paths=bot", "did you mean 'both'"),
            ("peers=192.0.2.7", "192.0.2.7:9906"),
            ("peers=192.0.2.7:1,192.0.2.7:2,192.0.2.7:3,192.0.2.7:4", "name 3 at most"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

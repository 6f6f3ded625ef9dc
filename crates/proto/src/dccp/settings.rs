//! The query of a `dccp://` URI, read.

use std::time::Duration;

use antiphon_core::uri::{Query, UriError};

use crate::Key;
use crate::query::{bad, time};
use crate::queue::MAX_FRAMES;
use crate::rtt::{RtoFloor, RtoSettings};

/// Settings of a DCCP endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The congestion control to insist on, 2 or 3; `None`: 3, which suits sound
    /// better (an even rate), or whatever the peer insists on.
    pub ccid: Option<u8>,
    /// What the connection is for (RFC 5595): four characters, padded with spaces; 0: nothing said.
    pub service: u32,
    /// DCCP port: the server's own, the one that a client calls. UDP ports are another matter (RFC 6773).
    pub port: u16,
    /// Whether the newest message goes first when the congestion control holds messages back.
    pub newest_first: bool,
    /// Checksum coverage of data packets, 0 to 15 (RFC 4340 §9.2), where the peer agrees.
    pub coverage: u8,
    /// When the first Request is repeated.
    pub request_timeout: Duration,
    /// Messages that may wait for the congestion control; a further one is refused. `None`: what a send queue holds.
    pub queue: Option<usize>,
    /// CCID 2's time-out as a kernel has it, from a round trip in which the peer's wait is not told apart, and set anew with
    /// every packet (Linux 3.2, `net/dccp/ccids/ccid2.c`: `ccid2_rtt_estimator`, `ccid2_hc_tx_packet_sent`). `None`: ours,
    /// which ends sooner.
    pub rto: Option<RtoSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ccid: None,
            service: RTP_AUDIO,
            port: DEFAULT_PORT,
            newest_first: false,
            coverage: 0,
            request_timeout: REQUEST_TIMEOUT,
            queue: None,
            rto: None,
        }
    }
}

impl Settings {
    /// Reads the transport's own keys and ignores others.
    pub fn read(query: &Query) -> Result<Self, UriError> {
        let default = Settings::default();
        Ok(Settings {
            ccid: query.read("ccid", |text| match text {
                "2" => Ok(2),
                "3" => Ok(3),
                _ => Err("use 2 (TCP-like windows) or 3 (TFRC, an even rate)"),
            })?,
            service: query.read("service", service)?.unwrap_or(default.service),
            port: query
                .read("dccp-port", |text| {
                    text.parse::<u16>().ok().filter(|port| *port > 0).ok_or("use a number from 1 to 65535")
                })?
                .unwrap_or(default.port),
            newest_first: query
                .read("order", |text| match text {
                    "sent" => Ok(false),
                    "newest" => Ok(true),
                    _ => Err("use sent (first come, first out) or newest"),
                })?
                .unwrap_or_default(),
            coverage: query
                .read("coverage", |text| {
                    text.parse::<u8>().ok().filter(|n| *n < 16).ok_or("use a number from 0 (all data) to 15")
                })?
                .unwrap_or_default(),
            request_timeout: time(query, "request-timeout", LEAST_REQUEST_TIMEOUT, RFC_REQUEST_TIMEOUT)?
                .unwrap_or(REQUEST_TIMEOUT),
            queue: query.read("queue", |text| {
                let most = text.parse::<usize>().ok();
                most.filter(|most| (1..=MAX_FRAMES).contains(most))
                    .ok_or("use a number of messages from 1 to 1024")
            })?,
            rto: rto(query)?,
        })
    }
}

/// CCID 2's time-outs, if the query sets one of them; the others are Linux's.
fn rto(query: &Query) -> Result<Option<RtoSettings>, UriError> {
    let read = |key, low| time(query, key, low, LINUX_RTO_MAX);
    let (initial, min, max) =
        (read("rto-initial", LEAST_RTO)?, read("rto-min", Duration::ZERO)?, read("rto-max", LEAST_RTO)?);
    if [initial, min, max] == [None; 3] {
        return Ok(None);
    }
    let (initial, min) = (initial.unwrap_or(LINUX_RTO_INITIAL), min.unwrap_or(LINUX_RTO_MIN));
    let max = max.unwrap_or(LINUX_RTO_MAX);
    if max < initial.max(min) {
        return Err(bad(
            query,
            "rto-max",
            format!("below the other two: use {:?} or more", initial.max(min)),
        ));
    }
    let floor = RtoFloor::Variation;
    Ok(Some(RtoSettings { initial, min, max, longest: max, floor, granularity: Duration::ZERO }))
}

/// Four printable characters (RFC 4340 §8.1.2); shorter ones are padded with spaces.
fn service(text: &str) -> Result<u32, &'static str> {
    let printable = text.bytes().all(|b| (32..127).contains(&b));
    if !printable || text.is_empty() || text.len() > 4 {
        return Err("use one to four ASCII characters, such as RTPA");
    }
    let mut bytes = *b"    ";
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Ok(u32::from_be_bytes(bytes))
}

/// The transport's own query keys.
pub(super) const KEYS: &[Key] = &[
    Key { name: "ccid", help: "congestion control: 2 (TCP-like) or 3 (TFRC, an even rate; default): ccid=2" },
    Key {
        name: "order",
        help: "which message goes first when there is no room for all: sent (default), newest: order=newest",
    },
    Key { name: "service", help: "DCCP service code, the same at both ends: service=RTPA (default)" },
    Key {
        name: "dccp-port",
        help: "DCCP port within the UDP port or IP address, the same at both ends: dccp-port=5004 (default)",
    },
    Key {
        name: "request-timeout",
        help: "when a Request without an answer is repeated, 250ms by default, 1s in RFC 4340: request-timeout=1s",
    },
    Key {
        name: "queue",
        help: "messages that may wait for the congestion control, a further one is refused; 1024 by default, 5 in Linux: queue=5",
    },
    Key {
        name: "rto-min",
        help: "the least that CCID 2's time-out is above the round trip; 200ms in Linux, by default what the peer keeps an \
               acknowledgement and 25ms: rto-min=200ms",
    },
    Key {
        name: "rto-initial",
        help: "CCID 2's time-out before a round trip is known, 3s in Linux: rto-initial=3s",
    },
    Key {
        name: "rto-max",
        help: "to which CCID 2's time-outs double, 500ms by default, 64s in Linux: rto-max=64s",
    },
    Key {
        name: "coverage",
        help: "how much of a message the checksum must protect, 0 (all, default) to 15: coverage=1",
    },
];

/// RFC 4340 §8.1.1: the first Request is repeated after a second.
pub(super) const RFC_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// A lost first packet should not delay sound by a second: as SCTP's rto-initial here.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(250);
const LEAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(10);
/// Linux 2.6.37 to 6.15: `DCCP_TIMEOUT_INIT` and `DCCP_RTO_MAX` of `net/dccp/dccp.h`, and TCP's `TCP_RTO_MIN`, which
/// bounds the term of the variation (`ccid2_rtt_estimator`). Up to 2.6.36 the whole was at least a second.
const LINUX_RTO_INITIAL: Duration = Duration::from_secs(3);
const LINUX_RTO_MIN: Duration = Duration::from_millis(200);
const LINUX_RTO_MAX: Duration = Duration::from_secs(64);
const LEAST_RTO: Duration = Duration::from_millis(1);
/// RTP with sound (RFC 5762 §5.2).
pub const RTP_AUDIO: u32 = u32::from_be_bytes(*b"RTPA");
/// The port that RFC 3551 §8 registers for RTP, for DCCP as for UDP.
const DEFAULT_PORT: u16 = 5004;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_refusals_name_the_remedy() {
        let read = |text: &str| Settings::read(&text.parse().unwrap());
        assert_eq!(read(""), Ok(Settings::default()));
        let all =
            read("ccid=3&order=newest&service=ab&dccp-port=6000&coverage=1&request-timeout=1s").unwrap();
        let service = u32::from_be_bytes(*b"ab  ");
        let expected = Settings {
            ccid: Some(3),
            service,
            port: 6000,
            newest_first: true,
            coverage: 1,
            request_timeout: RFC_REQUEST_TIMEOUT,
            ..Settings::default()
        };
        assert_eq!(all, expected);
        let linux = read("ccid=2&queue=5&rto-min=200ms").unwrap();
        let rto = linux.rto.expect("it was set");
        assert_eq!(
            (linux.queue, rto.initial, rto.min, rto.max),
            (Some(5), LINUX_RTO_INITIAL, LINUX_RTO_MIN, LINUX_RTO_MAX)
        );
        for (text, remedy) in [
            ("ccid=4", "2 (TCP-like"),
            ("order=old", "newest"),
            ("service=RTPAX", "four"),
            ("dccp-port=0", "1 to 65535"),
            ("coverage=16", "0 (all data)"),
            ("request-timeout=2s", "10ms to 1s"),
            ("queue=0", "1 to 1024"),
            ("rto-max=2s", "use 3s or more"),
            ("rto-initial=65s", "64s"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }
}

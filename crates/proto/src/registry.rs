//! What the rest of the house knows of a transport.

use std::time::Duration;

use antiphon_core::uri::{Query, UriError};
use antiphon_core::{Endpoint, Instant, OverIp, Unwrap, did_you_mean, nearest};

use crate::TRANSPORTS;

/// A transport as tables, help texts and drivers see it.
#[derive(Debug)]
pub struct Transport {
    /// URI scheme and name in every table: `rtp`.
    pub scheme: &'static str,
    /// Its name in prose: `UDP/RTP`.
    pub title: &'static str,
    /// One sentence on what it is good for.
    pub summary: &'static str,
    /// What carries its bytes.
    pub beneath: Beneath,
    /// How it runs directly over IP as well, where there is a way: `over=ip`.
    pub over_ip: Option<OverIp>,
    /// Where a URI that names no port means: the port registered for what is inside UDP, or the house's own.
    pub default_port: u16,
    /// What `reflect HOST:PORT` adds to PORT for this transport, so that all of them are found from one number.
    /// Fixed for ever; two transports on the same kind of socket never share one.
    pub reflect_offset: u16,
    /// Facts that a recommendation needs and no measurement shows.
    pub strengths: Strengths,
    /// Query keys of its own, beyond those that every transport takes.
    pub keys: &'static [Key],
    /// Makes an endpoint.
    pub open: fn(&OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError>,
    /// Whether a first datagram from a stranger may make an association with a listener.
    pub admits: fn(&[u8]) -> bool,
    /// Shows an analyser what is inside its datagrams.
    pub unwrap: Unwrap,
}

/// The house's own port, unregistered, for what has none of its own.
pub const HOUSE_PORT: u16 = 7710;

/// What carries a transport's bytes: tells the driver which socket to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beneath {
    /// A UDP socket.
    Udp,
    /// A TCP connection.
    Tcp,
}

/// What a transport can do by its nature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strengths {
    /// Every frame arrives as long as the connection lives and no deadline is set.
    pub reliable: bool,
    /// Frames arrive in order.
    pub ordered: bool,
    /// One sender can reach many receivers with one datagram.
    pub multicast: bool,
}

/// A query key with its help text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// As written in a URI.
    pub name: &'static str,
    /// What it does, with an example value.
    pub help: &'static str,
}

/// Which side speaks first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This side calls.
    Caller,
    /// This side waits to be called.
    Listener,
}

/// What an endpoint is opened with.
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs<'a> {
    /// Which side speaks first.
    pub role: Role,
    /// The query of the transport's URI; only the transport's own keys are read.
    pub query: &'a Query,
    /// Seeds everything random in the endpoint.
    pub seed: u64,
    /// The time of opening.
    pub now: Instant,
    /// The largest datagram that crosses the path without IP fragmentation, in bytes of what UDP or IP carries.
    pub max_datagram: usize,
    /// How old a frame may be when it is played: protocols size their patience by it.
    pub latency: Duration,
}

/// Why an endpoint could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No transport of that name.
    #[error("unknown transport '{name}'{}; known: {known}", did_you_mean(*.nearest))]
    UnknownTransport {
        /// What was asked for.
        name: String,
        /// The likeliest meant.
        nearest: Option<&'static str>,
        /// All there are.
        known: String,
    },
    /// A key or value that the transport does not take.
    #[error(transparent)]
    Query(#[from] UriError),
}

/// The transport called `scheme`.
pub fn find(scheme: &str) -> Result<&'static Transport, OpenError> {
    let known = || TRANSPORTS.iter().map(|t| t.scheme);
    TRANSPORTS.iter().find(|t| t.scheme == scheme).copied().ok_or_else(|| OpenError::UnknownTransport {
        name: scheme.chars().take(40).collect(),
        nearest: nearest(scheme, known()),
        known: known().collect::<Vec<_>>().join(", "),
    })
}

/// Opens an endpoint of the transport called `scheme`.
pub fn open(scheme: &str, args: &OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError> {
    (find(scheme)?.open)(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_transport_is_refused_with_the_nearest() {
        let error = find("rpt").unwrap_err().to_string();
        assert!(error.contains("did you mean 'rtp'") && error.contains("tcp"), "{error}");
    }

    #[test]
    fn names_and_ports_are_unique() {
        for (i, a) in TRANSPORTS.iter().enumerate() {
            for b in &TRANSPORTS[i + 1..] {
                assert_ne!(a.scheme, b.scheme);
                assert!(a.beneath != b.beneath || a.reflect_offset != b.reflect_offset);
                let protocols = a.over_ip.zip(b.over_ip);
                assert!(protocols.is_none_or(|(a, b)| a.protocol != b.protocol));
            }
        }
    }
}

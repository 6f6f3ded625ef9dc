//! From names and URIs to transports, endpoints and lines.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use antiphon_core::uri::{Query, UriError};
use antiphon_core::{Endpoint, Instant, OverIp, Unwrap, Wire, did_you_mean, nearest, units};
use antiphon_media::SampleFormat;
use antiphon_media::conceal::Concealment;
use antiphon_net::{Line, LineError, RawLine, SocketOptions, Target, TcpLine, UdpLine};
use antiphon_proto::{Beneath, Key, OpenArgs, Role, TRANSPORTS, Transport, WITHOUT_LENGTHS, find};
use antiphon_session::StreamFraming;

use crate::Error;

/// A transport with settings of its own, under the name that it was asked for by.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub transport: &'static Transport,
    pub query: Query,
    /// How to go directly over IP, if that is asked for.
    pub over_ip: Option<OverIp>,
    /// `srp`, or `srp?mode=as-published`.
    pub label: String,
}

impl Entrant {
    /// Reads `SCHEME` or `SCHEME?KEY=VALUE&…`; only the transport's own keys, and those of its socket, make sense here.
    pub fn read(label: &str) -> Result<Self, Error> {
        let (scheme, query) = label.split_once('?').unwrap_or((label, ""));
        let (transport, query) = (find(scheme)?, query.parse::<Query>()?);
        let own = transport.keys.iter().map(|key| key.name);
        query.only(own.chain(SOCKET_KEYS.iter().copied()))?;
        let over_ip = StreamKeys::read(transport, &query, &SocketOptions::default())?.over_ip;
        let entrant = Entrant { transport, query, over_ip, label: label.into() };
        // Values that make no sense are refused before anything is opened.
        let plan = EndpointPlan {
            transport,
            role: Role::Caller,
            query: entrant.query.clone(),
            seed: 0,
            latency: crate::options::DEFAULT_LATENCY,
            framing: StreamFraming::Rtp,
        };
        plan.open(Instant::ZERO, SEGMENT)?;
        Ok(entrant)
    }

    /// The options given, with what this entrant says of its socket.
    pub fn socket(&self, options: &SocketOptions) -> SocketOptions {
        let keys = StreamKeys::read(self.transport, &self.query, options);
        keys.map_or_else(|_never_since_read| options.clone(), |keys| keys.socket)
    }

    /// The settings as an endpoint is to read them whose association has the listener's `port`.
    pub fn query_at(&self, port: u16) -> Query {
        for_endpoint(self.query.clone(), self.over_ip, port)
    }

    /// What it is called in prose.
    pub fn title(&self) -> String {
        match self.label.split_once('?') {
            Some((_, query)) => format!("{} ({query})", self.transport.title),
            None => self.transport.title.into(),
        }
    }
}

/// The transports so named, in the order of the registry and, of one transport, in that of the names; all of them with
/// their defaults if none is named.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Entrant>, Error> {
    if names.is_empty() {
        return TRANSPORTS.iter().map(|transport| Entrant::read(transport.scheme)).collect();
    }
    let once = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name));
    let mut chosen = once.map(|(_, name)| Entrant::read(name)).collect::<Result<Vec<_>, _>>()?;
    chosen.sort_by_key(|entrant| TRANSPORTS.iter().position(|t| t.scheme == entrant.transport.scheme));
    Ok(chosen)
}

/// Whether `name` names a transport, and its settings as `compare` takes them.
pub fn check_transport(name: &str) -> Result<(), Error> {
    Entrant::read(name).map(drop)
}

/// Keys of the common ones that concern the socket of one transport alone; the others hold for all of a comparison.
const SOCKET_KEYS: &[&str] = &["congestion", "dscp", "over"];

/// A line, and the largest datagram that goes out on it whole.
pub(crate) struct OpenedLine {
    pub line: Box<dyn Line>,
    pub max_datagram: usize,
}

/// Opens the socket that `transport` needs; directly over IP, if told how. On the thread that will drive it, in the
/// namespace it is to live in.
pub(crate) fn open_line(
    transport: &Transport,
    over_ip: Option<OverIp>,
    target: Target,
    options: &SocketOptions,
) -> Result<OpenedLine, LineError> {
    if let Some(protocol) = over_ip {
        let line = RawLine::open(target, protocol, options)?;
        return Ok(OpenedLine { max_datagram: line.max_datagram(), line: Box::new(line) });
    }
    Ok(match transport.beneath {
        Beneath::Udp => {
            let line = UdpLine::open(target, options)?;
            OpenedLine { max_datagram: line.max_datagram(), line: Box::new(line) }
        }
        Beneath::Tcp => {
            let line = TcpLine::open(target, options)?;
            OpenedLine { max_datagram: SEGMENT, line: Box::new(line) }
        }
    })
}

/// The largest packet that goes out in one piece: transports that can cut longer ones should not have to.
pub(crate) fn max_packet(max_datagram: usize, endpoint: &dyn Endpoint) -> usize {
    let profile = endpoint.profile();
    let whole = match profile.wire {
        Wire::Datagram => max_datagram.saturating_sub(profile.frame_overhead),
        Wire::ByteStream => max_datagram,
    };
    whole.min(profile.max_frame)
}

/// What every endpoint of a run shares.
#[derive(Clone, Debug)]
pub(crate) struct EndpointPlan {
    pub transport: &'static Transport,
    pub role: Role,
    pub query: Query,
    pub seed: u64,
    pub latency: Duration,
    pub framing: StreamFraming,
}

impl EndpointPlan {
    /// How a capture looks into what crosses its line. A framing's stream of bytes is cut by no lengths.
    pub fn unwrap(&self) -> Unwrap {
        match (self.framing, self.transport.unwrap) {
            (StreamFraming::Medusa, Unwrap::Stream { .. }) => Unwrap::Plain,
            (_, unwrap) => unwrap,
        }
    }

    /// Opens the endpoint, the framing around it; it stays on the calling thread.
    pub fn open(&self, now: Instant, max_datagram: usize) -> Result<Box<dyn Endpoint>, Error> {
        let mut query = self.query.clone();
        if self.framing == StreamFraming::Medusa && self.transport.beneath == Beneath::Tcp {
            // The bytes of the stream are the framing's own, so that it finds its packets again whatever comes between.
            query.set(WITHOUT_LENGTHS.0, WITHOUT_LENGTHS.1);
        }
        let args = OpenArgs {
            role: self.role,
            query: &query,
            seed: self.seed ^ unguessable(),
            now,
            max_datagram,
            latency: self.latency,
        };
        Ok(self.framing.around((self.transport.open)(&args)?))
    }

    /// Opens another, where one was opened before.
    pub fn reopen(&self, now: Instant, max_datagram: usize) -> Box<dyn Endpoint> {
        self.open(now, max_datagram).expect("it opened with the same settings before")
    }

    /// The same with a stream for each channel group and one for reports, where the transport has streams and nobody said how
    /// many.
    pub fn with_streams(self, groups: usize, now: Instant, max_datagram: usize) -> Result<Self, Error> {
        let has_key = self.transport.keys.iter().any(|key| key.name == "streams");
        if groups < 2 || !has_key || self.query.value("streams").is_some() {
            return Ok(self);
        }
        let mut wider = self.clone();
        wider.query.set("streams", &(groups + 1).to_string());
        // The key may mean something else: what comes of it tells.
        let streams = wider.open(now, max_datagram)?.profile().streams;
        Ok(if usize::from(streams) == groups + 1 { wider } else { self })
    }
}

/// A number of this process that strangers can't know: on a real network, tags, first numbers and the keys of cookies
/// must not follow from a seed that is written in the manual. One per process, since the endpoints behind one door
/// open each other's cookies.
pub(crate) fn unguessable() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    // The standard library draws the keys of its hash maps from the operating system.
    *NUMBER.get_or_init(|| RandomState::new().build_hasher().finish())
}

/// Frames on a byte stream are kept to what an Ethernet segment carries, as on the datagram transports beside it.
pub(crate) const SEGMENT: usize = 1448;

/// Query keys that every transport's URI takes, beyond its own.
pub static COMMON_KEYS: &[Key] = &[
    Key {
        name: "latency",
        help: "playout target at the receiver, age at which the sender gives up: latency=80ms",
    },
    Key { name: "format", help: "sample format on the wire: format=l24" },
    Key { name: "rate", help: "sampling rate on the wire: rate=48kHz" },
    Key { name: "channels", help: "channels on the wire: channels=2" },
    Key {
        name: "groups",
        help: "channels that go together in an RTP stream of their own, and over SCTP on a stream of its own: groups=2,2,4, or \
               groups=2 for all alike",
    },
    Key { name: "ptime", help: "longest packet in time: ptime=5ms" },
    Key {
        name: "framing",
        help: "what stands around RTP packets, for send and receive: rtp (default, nothing), medusa: framing=medusa",
    },
    Key { name: "conceal", help: "what to do about missing sound: conceal=silence" },
    Key { name: "ttl", help: "routers that multicast may cross: ttl=4" },
    Key { name: "iface", help: "network interface for multicast, by name or address: iface=eth0" },
    Key { name: "dscp", help: "differentiated services code point, 0 to 63: dscp=46" },
    Key {
        name: "over",
        help: "udp (default), or ip: sctp and dccp with IP protocol numbers of their own, for which raw sockets are \
               needed (root or CAP_NET_RAW); the port is then the transport's: over=ip",
    },
    Key { name: "congestion", help: "the kernel's congestion control for TCP: congestion=cubic" },
];

/// The common keys of a URI, read.
#[derive(Clone, Debug)]
pub(crate) struct StreamKeys {
    pub latency: Option<Duration>,
    pub sample: Option<SampleFormat>,
    pub rate: Option<u32>,
    pub channels: Option<u32>,
    pub groups: Option<String>,
    pub ptime: Option<Duration>,
    pub conceal: Option<Concealment>,
    pub framing: Option<StreamFraming>,
    /// How to go directly over IP, if the URI asks for it.
    pub over_ip: Option<OverIp>,
    /// The options given, with what the URI says of them.
    pub socket: SocketOptions,
}

impl StreamKeys {
    /// Reads the common keys and refuses those that neither they nor the transport know.
    pub fn read(transport: &Transport, query: &Query, socket: &SocketOptions) -> Result<Self, UriError> {
        query.only(COMMON_KEYS.iter().chain(transport.keys).map(|key| key.name))?;
        let mut socket = socket.clone();
        let dscp = |text: &str| text.parse::<u8>().ok().filter(|dscp| *dscp < 64).ok_or(DSCP_RANGE);
        if let Some(dscp) = query.read("dscp", dscp)? {
            socket.dscp = dscp;
        }
        if let Some(ttl) =
            query.read("ttl", |text| text.parse::<u8>().map_err(|_| "use a number from 0 to 255"))?
        {
            socket.multicast.ttl = Some(ttl);
        }
        if let Some(interface) = query.value("iface") {
            socket.multicast.interface = Some(interface.into());
        }
        if let Some(name) = query.value("congestion") {
            socket.congestion = Some(name.into());
        }
        // The endpoint says what is wrong with it.
        let others = query.value("peers").unwrap_or_default().split(',').filter_map(|peer| peer.parse().ok());
        socket.other_peers = others.collect();
        Ok(StreamKeys {
            latency: query.read("latency", units::parse_duration)?,
            sample: query.read("format", str::parse::<SampleFormat>)?,
            rate: query.read("rate", units::parse_frequency)?,
            channels: query
                .read("channels", |text| text.parse::<u32>().map_err(|_| "use a number from 1 to 64"))?,
            groups: query.value("groups").map(Into::into),
            ptime: query.read("ptime", units::parse_duration)?,
            conceal: query.read("conceal", str::parse::<Concealment>)?,
            framing: query.read("framing", str::parse::<StreamFraming>)?,
            over_ip: read_over(transport, query)?,
            socket,
        })
    }

    /// The port where the URI names none: inside UDP the registered one, over IP the one that RTP has (RFC 3551 §8).
    pub fn default_port(&self, transport: &Transport) -> u16 {
        if self.over_ip.is_some() { RTP_PORT } else { transport.default_port }
    }

    /// The query as the endpoint is to read it.
    pub fn for_endpoint(&self, query: Query, target: Target) -> Query {
        for_endpoint(query, self.over_ip, target.address().port())
    }
}

/// Over IP, the port behind the listener's address is the transport's own.
fn for_endpoint(mut query: Query, over_ip: Option<OverIp>, port: u16) -> Query {
    if let Some(protocol) = over_ip {
        query.set(protocol.port_key, &port.to_string());
    }
    query
}

fn read_over(transport: &Transport, query: &Query) -> Result<Option<OverIp>, UriError> {
    let able = || TRANSPORTS.iter().filter(|t| t.over_ip.is_some()).map(|t| t.scheme).collect::<Vec<_>>();
    let over = query.read("over", |text| match text {
        "udp" if transport.beneath == Beneath::Udp => Ok(None),
        "udp" => Err(format!("{} does not run over UDP: leave it out", transport.scheme)),
        "ip" => transport.over_ip.map(Some).ok_or_else(|| {
            format!(
                "{} has no number of its own among the IP protocols; {} have",
                transport.scheme,
                able().join(" and ")
            )
        }),
        other => Err(format!("use udp or ip{}", did_you_mean(nearest(other, ["udp", "ip"])))),
    })?;
    let over = over.flatten();
    if let Some(key) = over.map(|protocol| protocol.port_key) {
        let inside = |_: &str| Err::<(), _>("over IP the port stands behind the address: leave this key out");
        query.read(key, inside)?;
    }
    Ok(over)
}

const RTP_PORT: u16 = 5004;
const DSCP_RANGE: &str = "use a number from 0 to 63";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_named_again_is_taken_once() {
        let names = ["srp", "rtp", "srp?mode=as-published", "srp"].map(String::from);
        let labels: Vec<String> = chosen(&names).unwrap().into_iter().map(|entrant| entrant.label).collect();
        assert_eq!(labels, ["rtp", "srp", "srp?mode=as-published"]);
    }

    #[test]
    fn a_uri_without_a_port_means_the_registered_one() {
        let port = |scheme: &str, query: &str| {
            let transport = find(scheme).unwrap();
            let keys =
                StreamKeys::read(transport, &query.parse().unwrap(), &SocketOptions::default()).unwrap();
            keys.default_port(transport)
        };
        assert_eq!(["rtp", "tcp", "srp", "arq"].map(|scheme| port(scheme, "")), [7710; 4]);
        assert_eq!((port("sctp", ""), port("dccp", "")), (9899, 6511));
        assert_eq!((port("sctp", "over=ip"), port("dccp", "over=ip")), (5004, 5004));
    }
}

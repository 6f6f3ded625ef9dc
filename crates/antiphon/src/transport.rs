//! From names and URIs to transports, their settings, and stacks.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::{Query, Uri, UriError};
use antiphon_core::wire::TCP_SEGMENT;
use antiphon_core::{BitRate, OverIp, Role, Stack, did_you_mean, nearest, units};
use antiphon_media::Coding;
use antiphon_media::conceal::Concealment;
use antiphon_net::{SocketOptions, Target, interface_index, random_bytes, system_secret};
use antiphon_proto::{Key, StackArgs, Substrate, TRANSPORTS, Transport, find};
use antiphon_session::{Repetition, StreamFraming};

use crate::wire::WirePlan;
use crate::{Error, Latency};

/// A transport directly over IP.
pub(crate) type ByIp = &'static (dyn OverIp + Sync);

/// A transport with its own settings, and the name that it was asked for by.
#[derive(Clone, Debug)]
pub(crate) struct TransportChoice {
    pub transport: &'static Transport,
    pub query: Query,
    /// How to run directly over IP, if asked for.
    pub over_ip: Option<ByIp>,
    /// `srp`, or `srp?mode=as-published`.
    pub label: String,
}

impl TransportChoice {
    /// Reads `SCHEME` or `SCHEME?KEY=VALUE&…`; only keys of the transport and of its socket are accepted here.
    pub fn read(label: &str) -> Result<Self, Error> {
        let (scheme, query) = label.split_once('?').unwrap_or((label, ""));
        let (transport, query) = (find(scheme)?, query.parse::<Query>()?);
        let own = transport.keys.iter().map(|key| key.name);
        query.only(own.chain(SOCKET_KEYS.iter().copied()))?;
        let over_ip = StreamKeys::read(transport, &query, &SocketOptions::default())?.over_ip;
        let choice = TransportChoice { transport, query, over_ip, label: label.into() };
        // Invalid values are refused before anything is opened.
        choice.stack(crate::DEFAULT_PORT, 0, crate::DEFAULT_LATENCY).open(TCP_SEGMENT)?;
        Ok(choice)
    }

    /// `options`, with this choice's own socket settings.
    pub fn socket(&self, options: &SocketOptions) -> SocketOptions {
        let keys = StreamKeys::read(self.transport, &self.query, options);
        keys.map_or_else(|_never_since_read| options.clone(), |keys| keys.socket)
    }

    /// Opens its endpoints, whose associations have the listener's `port`.
    pub fn stack(&self, port: u16, seed: u64, playout_delay: Duration) -> StackPlan {
        StackPlan {
            transport: self.transport,
            query: for_endpoint(self.query.clone(), self.over_ip, port),
            seed,
            playout_delay,
            framing: StreamFraming::Rtp,
            groups: 1,
            multicast: false,
        }
    }

    /// Its name in text.
    pub fn title(&self) -> String {
        match self.label.split_once('?') {
            Some((_, query)) => format!("{} ({query})", self.transport.title),
            None => self.transport.title.into(),
        }
    }
}

/// The named transports, in the order of the registry and, for one transport, of the names; all of them with their
/// defaults if none is named.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<TransportChoice>, Error> {
    if names.is_empty() {
        return TRANSPORTS.iter().map(|transport| TransportChoice::read(transport.scheme)).collect();
    }
    let once = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name));
    let mut chosen = once.map(|(_, name)| TransportChoice::read(name)).collect::<Result<Vec<_>, _>>()?;
    chosen.sort_by_key(|choice| TRANSPORTS.iter().position(|t| t.scheme == choice.transport.scheme));
    Ok(chosen)
}

/// Whether `name` names a transport, and its settings as `compare` takes them.
pub fn check_transport(name: &str) -> Result<(), Error> {
    TransportChoice::read(name).map(drop)
}

/// Common keys that concern the socket of one transport; the others apply to the whole comparison.
const SOCKET_KEYS: &[&str] = &["congestion", "dscp", "over"];

/// The port of `transport` at a place that has a port for each, from `base` up.
pub(crate) fn port_above(base: u16, transport: &Transport) -> Result<u16, Error> {
    base.checked_add(transport.reflect_offset).ok_or_else(|| {
        Error::usage(format!(
            "port {base} is too high, since each transport has a port of its own from there: choose a lower one"
        ))
    })
}

/// Settings of all endpoints of a run.
#[derive(Clone, Debug)]
pub struct StackPlan {
    /// The transport.
    pub transport: &'static Transport,
    /// Its settings.
    pub query: Query,
    /// Seed of what may be repeated beside the endpoints. These draw from a secret of the operating system's.
    pub seed: u64,
    /// The receiver's playout delay: protocols derive their retransmission limits from it.
    pub playout_delay: Duration,
    /// Framing around RTP packets.
    pub framing: StreamFraming,
    /// Channel groups, which have a stream each, and reports one more, where the transport has streams and their number
    /// is not set.
    pub groups: usize,
    /// The address is that of a multicast group.
    pub multicast: bool,
}

impl StackPlan {
    /// Makes the stack for datagrams of at most so many bytes, the framing around it.
    pub fn open(&self, max_datagram: usize) -> Result<Rc<dyn Stack>, Error> {
        let args = StackArgs {
            streams: (self.groups > 1).then_some(self.groups as u16 + 1),
            // The framing uses the whole stream of bytes, so that it finds its packets again after any inserted bytes.
            undelimited: self.framing == StreamFraming::Medusa,
            group: self.multicast,
            ..StackArgs::with_secret(&self.query, system_secret(), max_datagram, self.playout_delay)
        };
        Ok(self.framing.around((self.transport.stack)(&args)?))
    }
}

/// A token that nobody guesses.
pub(crate) fn random_token() -> [u8; 16] {
    random_bytes()
}

/// The URI of a stream, read.
#[derive(Clone)]
pub(crate) struct StreamUri {
    pub transport: &'static Transport,
    pub keys: StreamKeys,
    pub target: Target,
    /// The settings for the endpoint.
    query: Query,
}

impl StreamUri {
    /// Reads it and resolves the address; socket settings in the URI override `socket`.
    ///
    /// # Errors
    ///
    /// Also for settings of the transport that it refuses: before anything is opened.
    pub fn read(text: &str, socket: &SocketOptions) -> Result<Self, Error> {
        let named = |error: Error| match error.message.contains(text) {
            true => error,
            false => Error { message: format!("'{text}': {}", error.message), ..error },
        };
        let uri = Self::parse(text, socket).map_err(named)?;
        uri.stack(0, crate::DEFAULT_LATENCY, StreamFraming::Rtp).open(TCP_SEGMENT).map_err(named)?;
        Ok(uri)
    }

    fn parse(text: &str, socket: &SocketOptions) -> Result<Self, Error> {
        let uri = stream_uri(text)?;
        let transport = find(&uri.scheme)?;
        Self::with(text, (transport, uri.query.clone()), socket, |keys| {
            let stream = transport.substrate == Substrate::Tcp;
            let port = keys.default_port(transport);
            // Over IP nothing else can ask.
            Ok(match keys.over_ip {
                Some(_) => Target::resolve(&uri, port)?,
                None => Target::resolve_willing(&uri, port, stream)?,
            })
        })
    }

    /// Another transport at the same host, `SCHEME` or `SCHEME?KEY=VALUE&…`, on another port.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn beside(&self, text: &str, port: u16, socket: &SocketOptions) -> Result<Self, Error> {
        let (scheme, query) = text.split_once('?').unwrap_or((text, ""));
        let transport = find(scheme)?;
        let target = match self.target {
            Target::Call(address) => Target::Call(SocketAddr::new(address.ip(), port)),
            Target::Listen(address) => Target::Listen(SocketAddr::new(address.ip(), port)),
        };
        let uri = Self::with(text, (transport, query.parse::<Query>()?), socket, |_| Ok(target))?;
        uri.stack(0, crate::DEFAULT_LATENCY, StreamFraming::Rtp).open(TCP_SEGMENT)?;
        Ok(uri)
    }

    fn with(
        text: &str,
        (transport, query): (&'static Transport, Query),
        socket: &SocketOptions,
        target: impl FnOnce(&StreamKeys) -> Result<Target, Error>,
    ) -> Result<Self, Error> {
        let keys = StreamKeys::read(transport, &query, socket)?;
        if transport.substrate != Substrate::Tcp && keys.socket.congestion.is_some() {
            return Err(Error::usage(format!(
                "'{text}': the congestion control of the kernel's TCP is set (--congestion, or congestion= in the URI), and {} \
                 does not use it: omit it, or write it in a tcp:// URI",
                transport.scheme
            )));
        }
        if let Some(name) = &keys.socket.multicast.interface {
            interface_index(name)
                .map_err(|error| Error::usage(format!("--iface, or iface= in a URI: {error}")))?;
        }
        let target = target(&keys)?;
        let query = for_endpoint(query, keys.over_ip, target.address().port());
        Ok(StreamUri { transport, keys, target, query })
    }

    /// Refuses a key that only a receiver of sound has.
    pub fn without_role(self) -> Result<Self, Error> {
        match self.keys.role {
            None => Ok(self),
            Some(_) => Err(Error::usage(
                "'role' is for 'receive': write HOST:PORT to call, and :PORT or @ADDRESS:PORT to listen",
            )),
        }
    }

    /// Opens its endpoints.
    pub fn stack(&self, seed: u64, playout_delay: Duration, framing: StreamFraming) -> StackPlan {
        let (transport, query) = (self.transport, self.query.clone());
        let multicast = self.address().ip().is_multicast();
        StackPlan { transport, query, seed, playout_delay, framing, groups: 1, multicast }
    }

    /// The wire of the stream, with that stack.
    pub fn wire(&self, stack: StackPlan) -> WirePlan {
        let (over_ip, socket) = (self.keys.over_ip, self.keys.socket.clone());
        WirePlan { stack, target: self.target, over_ip, socket }
    }

    /// The address of the peer, or the one to listen on.
    pub fn address(&self) -> SocketAddr {
        self.target.address()
    }

    /// Whether it can't have its port as `other` has it.
    pub fn port_is_taken_by(&self, other: &StreamUri) -> bool {
        let place = |uri: &StreamUri| {
            (uri.transport.substrate, uri.address(), uri.keys.over_ip.map(|ip| ip.protocol()))
        };
        place(self) == place(other) && self.address().port() > 0
    }
}

/// The URI of a call: a host alone is called over RTP, which any peer has.
pub(crate) fn with_scheme(target: &str) -> String {
    if target.contains("://") { target.into() } else { format!("rtp://{target}") }
}

/// Reads the URI of a stream, which has no path.
pub(crate) fn stream_uri(text: &str) -> Result<Uri, Error> {
    let uri: Uri = text.parse()?;
    if !matches!(&*uri.path, "" | "/") {
        let path = &uri.path;
        return Err(Error::usage(format!("'{text}': a stream has no path: omit '{path}'")));
    }
    Ok(uri)
}

/// A number that nobody guesses, another one each time: on a real network, identifiers and first numbers must not follow
/// from a seed that is written in the manual.
pub(crate) fn unguessable() -> u64 {
    u64::from_le_bytes(random_bytes())
}

/// Query keys that every transport's URI takes, beyond its own.
pub static COMMON_KEYS: &[Key] = &[
    Key {
        name: "latency",
        help: "playout delay at the receiver, or auto for one that adapts; the sender, which takes a time, discards older packets until the \
               receiver reports its own: latency=80ms",
    },
    Key { name: "format", help: "sample format on the wire, or opus: format=l24" },
    Key { name: "bitrate", help: "bits of Opus in a second, all channels together: bitrate=96kbit/s" },
    Key { name: "rate", help: "sampling rate on the wire: rate=48kHz" },
    Key { name: "channels", help: "channels on the wire: channels=2" },
    Key {
        name: "groups",
        help: "channel groups, each an RTP stream of its own, and over SCTP an SCTP stream of its own: groups=2,2,4, or \
               groups=2 for pairs",
    },
    Key { name: "ptime", help: "longest packet: ptime=5ms" },
    Key {
        name: "framing",
        help: "framing around RTP packets, for send and receive: rtp (default: none) or medusa: framing=medusa",
    },
    Key {
        name: "protect",
        help: "sends each packet several times, with this time between the copies: protect=repeat:2,spacing=10ms, or none",
    },
    Key { name: "conceal", help: "what is played in place of missing sound: conceal=silence" },
    Key { name: "ttl", help: "multicast TTL, how many routers packets can cross: ttl=4" },
    Key { name: "iface", help: "network interface for multicast, by name or address: iface=eth0" },
    Key {
        name: "source",
        help: "the only sender to hear in a multicast group (source-specific multicast): source=192.0.2.7",
    },
    Key { name: "dscp", help: "differentiated services code point, 0 to 63: dscp=46" },
    Key {
        name: "over",
        help: "udp (default), or ip: sctp, dccp and xtp directly over IP, which needs raw sockets (root or CAP_NET_RAW); \
               the port is then the transport's: over=ip",
    },
    Key {
        name: "role",
        help: "which end calls, for receive: listener, or caller, for a sender that listens; by default an address of another \
               machine is called: role=caller",
    },
    Key { name: "congestion", help: "the kernel's congestion control for TCP: congestion=cubic" },
];

/// The common keys of a URI, read.
#[derive(Clone, Debug)]
pub(crate) struct StreamKeys {
    pub latency: Option<Latency>,
    pub coding: Option<Coding>,
    pub bit_rate: Option<BitRate>,
    pub rate: Option<u32>,
    pub channels: Option<u32>,
    pub groups: Option<String>,
    pub ptime: Option<Duration>,
    pub conceal: Option<Concealment>,
    pub framing: Option<StreamFraming>,
    /// How messages are protected against loss.
    pub protect: Option<Repetition>,
    /// Which end a receiver is.
    pub role: Option<Role>,
    /// How to run directly over IP, if the URI asks for it.
    pub over_ip: Option<ByIp>,
    /// `socket`, with the URI's own settings.
    pub socket: SocketOptions,
}

impl StreamKeys {
    /// The playout delay where it cannot adapt: everywhere but at a receiver.
    pub fn fixed_latency(&self) -> Result<Option<Duration>, Error> {
        match self.latency {
            Some(Latency::Auto(_)) => {
                Err(Error::usage("latency=auto is for a receiver: here give a time, such as latency=80ms"))
            }
            Some(Latency::Of(delay)) => Ok(Some(delay)),
            None => Ok(None),
        }
    }

    /// The first setting of the sound, or of the whole stream, that is given.
    pub fn of_sound(&self) -> Option<&'static str> {
        let given = [
            ("latency", self.latency.is_some()),
            ("format", self.coding.is_some()),
            ("bitrate", self.bit_rate.is_some()),
            ("rate", self.rate.is_some()),
            ("channels", self.channels.is_some()),
            ("groups", self.groups.is_some()),
            ("ptime", self.ptime.is_some()),
            ("framing", self.framing.is_some()),
            ("protect", self.protect.is_some()),
            ("conceal", self.conceal.is_some()),
            ("role", self.role.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// Reads the common keys; refuses keys that neither they nor the transport have.
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
        if let Some(source) = query.read("source", |text| text.parse().map_err(|_| "use an IP address"))? {
            socket.multicast.source = Some(source);
        }
        if let Some(name) = query.value("congestion") {
            socket.congestion = Some(name.into());
        }
        socket.other_peers = (transport.other_peers)(query)?;
        Ok(StreamKeys {
            latency: query.read("latency", str::parse::<Latency>)?,
            coding: query.read("format", str::parse::<Coding>)?,
            bit_rate: query.read("bitrate", str::parse::<BitRate>)?,
            rate: query.read("rate", units::parse_frequency)?,
            channels: query
                .read("channels", |text| text.parse::<u32>().map_err(|_| "use a number from 1 to 64"))?,
            groups: query.value("groups").map(Into::into),
            ptime: query.read("ptime", units::parse_duration)?,
            conceal: query.read("conceal", str::parse::<Concealment>)?,
            framing: query.read("framing", str::parse::<StreamFraming>)?,
            protect: query.read("protect", str::parse::<Repetition>)?,
            role: query.read("role", |text| match text {
                "listener" => Ok(Role::Listener),
                "caller" => Ok(Role::Caller),
                other => Err(format!(
                    "use listener or caller{}",
                    did_you_mean(nearest(other, ["listener", "caller"]))
                )),
            })?,
            over_ip: read_over(transport, query)?,
            socket,
        })
    }

    /// The port where the URI names none: inside UDP the registered one, over IP that of RTP (RFC 3551 §8).
    pub fn default_port(&self, transport: &Transport) -> u16 {
        if self.over_ip.is_some() { RTP_PORT } else { transport.default_port }
    }
}

/// Over IP, the port behind the listener's address is the transport's own.
fn for_endpoint(mut query: Query, over_ip: Option<ByIp>, port: u16) -> Query {
    if let Some(protocol) = over_ip {
        query.set(protocol.port_key(), &port.to_string());
    }
    query
}

fn read_over(transport: &Transport, query: &Query) -> Result<Option<ByIp>, UriError> {
    let able = || TRANSPORTS.iter().filter(|t| t.over_ip.is_some()).map(|t| t.scheme).collect::<Vec<_>>();
    let over = query.read("over", |text| match text {
        "udp" if transport.substrate == Substrate::Udp => Ok(None),
        "udp" => Err(format!("{} does not run over UDP: omit it", transport.scheme)),
        "ip" => transport.over_ip.map(Some).ok_or_else(|| {
            format!("{} has no IP protocol number; {} have", transport.scheme, able().join(" and "))
        }),
        other => Err(format!("use udp or ip{}", did_you_mean(nearest(other, ["udp", "ip"])))),
    })?;
    let over = over.flatten();
    if let Some(key) = over.map(OverIp::port_key) {
        let inside = |_: &str| Err::<(), _>("over IP the port is part of the address: omit this key");
        query.read(key, inside)?;
    }
    Ok(over)
}

const RTP_PORT: u16 = 5004;
const DSCP_RANGE: &str = "use a number from 0 to 63";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use antiphon_core::{Instant, Message, Tag};

    use super::*;

    #[test]
    fn a_transport_named_again_is_taken_once() {
        let names = ["srp", "rtp", "srp?mode=as-published", "srp"].map(String::from);
        let labels: Vec<String> = chosen(&names).unwrap().into_iter().map(|choice| choice.label).collect();
        assert_eq!(labels, ["rtp", "srp", "srp?mode=as-published"]);
    }

    #[test]
    fn a_peer_may_have_several_addresses_over_udp_and_over_ip() {
        for query in ["peers=192.0.2.7:5004,192.0.2.8:5004", "over=ip&peers=192.0.2.7:5004,192.0.2.8:5004"] {
            let read = |scheme: &str| {
                StreamKeys::read(find(scheme).unwrap(), &query.parse().unwrap(), &SocketOptions::default())
            };
            assert_eq!(read("sctp").unwrap().socket.other_peers.len(), 2, "{query}");
            assert!(read("dccp").is_err(), "{query}: it knows one");
        }
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

    /// First datagram that a new endpoint of this stack sends with a message to carry.
    fn first_datagram(stack: &dyn Stack) -> Vec<u8> {
        let now = Instant::from_millis(1);
        let mut endpoint = stack.open(now, Role::Caller);
        let _not_yet = endpoint.send(now, Message::new(Tag::NONE, &[0x80; 100], None));
        let mut datagram = vec![0; 2048];
        let sent = endpoint.poll_transmit(now, &mut datagram).expect("a caller has something to send");
        datagram.truncate(sent.len);
        datagram
    }

    #[test]
    fn no_transport_has_a_key_that_all_have() {
        for transport in TRANSPORTS {
            // The kernel's congestion control is TCP's alone, which has no key of that name; arq's is its own.
            let common = |key: &&Key| {
                key.name != "congestion" && COMMON_KEYS.iter().any(|common| common.name == key.name)
            };
            let twice: Vec<&str> = transport.keys.iter().filter(common).map(|key| key.name).collect();
            assert_eq!(twice, [""; 0], "{}: read in two ways", transport.scheme);
        }
    }

    #[test]
    fn equal_seeds_repeat_no_numbers_on_sockets() {
        for scheme in ["sctp", "dccp", "srp", "arq"] {
            let uri = StreamUri::read(&format!("{scheme}://127.0.0.1"), &SocketOptions::default()).unwrap();
            let plan = uri.stack(1, Duration::from_millis(80), StreamFraming::Rtp);
            let stacks = [plan.open(1452).unwrap(), plan.open(1452).unwrap()];
            // SRP's epoch has 7 bits and its ids begin at 1: single pairs may be equal.
            let drawn: BTreeSet<Vec<u8>> = (0..16).map(|n| first_datagram(&*stacks[n % 2])).collect();
            assert!(drawn.len() > 8, "{scheme}: {} first datagrams in 16", drawn.len());
        }
        assert_ne!(unguessable(), unguessable());
    }
}

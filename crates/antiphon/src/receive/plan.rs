//! What a receiver is to do, decided before anything is opened.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::Role;
use antiphon_media::conceal::Concealment;
use antiphon_net::Target;
use antiphon_proto::Substrate;
use antiphon_session::LongGaps;
use antiphon_sound::{SinkKind, SinkSpec};

use crate::passport::PassportFile;
use crate::transport::{StackPlan, StreamUri};
use crate::{DEFAULT_LATENCY, Error, ReceiveOptions, SinkClock};

/// Everything that can be decided before the media thread starts.
pub(super) struct ReceivePlan {
    pub uri: StreamUri,
    /// Where the same sender may come as well.
    pub also: Vec<StreamUri>,
    pub stack: StackPlan,
    pub sink: SinkSpec,
    /// `None` for a recording, which waits for everything.
    pub latency: Option<Duration>,
    pub conceal: Concealment,
    pub passport: Option<PassportFile>,
    /// The settings that are taken as they are.
    pub options: ReceiveOptions,
}

/// Where to wait, as a URI says it.
pub(crate) fn listening(text: &str, options: &ReceiveOptions) -> Result<StreamUri, Error> {
    let mut uri = StreamUri::read(text, &options.socket)?;
    let (address, calls) = (uri.address(), uri.keys.role == Some(Role::Caller));
    if calls && matches!(uri.target, Target::Listen(_)) {
        return Err(Error::usage(format!(
            "'{text}': name the sender to call, as HOST:PORT, or omit role=caller"
        )));
    }
    if !calls {
        // An address names where to listen, a group what to join.
        uri.target = Target::Listen(address);
        let scheme = uri.transport.scheme;
        if !address.ip().is_multicast() && is_elsewhere(address.ip()) {
            let call = match uri.transport.substrate {
                Substrate::Tcp => {
                    format!("; to call a sender that listens there: {scheme}://{address}?role=caller")
                }
                Substrate::Udp => String::new(),
            };
            return Err(Error::usage(format!(
                "'{text}': {} is not an address of this machine, and 'receive' waits for the sender to call: write \
                 {scheme}://:{}{call}",
                address.ip(),
                address.port()
            )));
        }
    }
    // The description of the stream names who sends it (RFC 4570), unless the user does.
    let described = options.description.as_ref().and_then(|description| description.source);
    let socket = &mut uri.keys.socket;
    socket.multicast.source = socket.multicast.source.or(described);
    Ok(uri)
}

/// Whether no socket of this machine can have this address.
fn is_elsewhere(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
}

impl ReceivePlan {
    pub fn new(options: &ReceiveOptions) -> Result<Self, Error> {
        let uri = listening(&options.source, options)?;
        let also = options.also.iter().map(|uri| listening(uri, options)).collect::<Result<Vec<_>, _>>()?;
        if let Some(calling) = also.iter().chain([&uri]).find(|uri| matches!(uri.target, Target::Call(_)))
            && !also.is_empty()
        {
            return Err(Error::usage(format!(
                "with --also, the sender calls on each address: write {}://:PORT, without role=caller",
                calling.transport.scheme
            )));
        }
        let sink: SinkSpec = options.sink.parse()?;
        sink.check()?;
        let is_file = matches!(sink.kind, SinkKind::File { .. });
        if let Some(over) = &options.complete {
            let keeps_time = options.gaps == LongGaps::Silence && options.clock == SinkClock::Sender;
            if !is_file || !keeps_time || options.forever {
                return Err(Error::usage(
                    "--complete is for one stream into a file, as it was sent: record into file:NAME.wav, without --gaps \
                     cut, --clock system and --forever",
                ));
            }
            over.check(&uri, true)?;
        }
        let asked = uri.keys.latency.or(options.latency);
        let framing = uri.keys.framing.unwrap_or(options.framing);
        let latency = match is_file && options.clock == SinkClock::Sender {
            true => asked,
            false => Some(asked.unwrap_or(DEFAULT_LATENCY)),
        };
        Ok(ReceivePlan {
            stack: uri.stack(options.seed, asked.unwrap_or(DEFAULT_LATENCY), framing),
            conceal: uri.keys.conceal.or(options.conceal).unwrap_or(match (is_file, latency) {
                // What a recording misses is to be found, not to be hidden.
                (true, None) => Concealment::Silence,
                _ => Concealment::default(),
            }),
            uri,
            also,
            latency,
            sink,
            passport: None,
            options: options.clone(),
        })
    }

    /// Whether nothing is to be missing.
    pub fn records(&self) -> bool {
        self.latency.is_none() && self.options.gaps == LongGaps::Silence
    }

    pub fn describe(&self) -> String {
        let verb = match self.uri.target {
            Target::Listen(address) if address.ip().is_multicast() => "joining",
            Target::Listen(_) => "listening on",
            Target::Call(_) => "calling",
        };
        let latency = self.latency.map_or("recording: waits for late packets".into(), |latency| {
            format!("playout delay {}", antiphon_core::units::format_duration(latency))
        });
        let also = |uri: &StreamUri| format!(" and {}://{}", uri.transport.scheme, uri.address());
        let also: String = self.also.iter().map(also).collect();
        let last = if self.options.forever { "" } else { "; stops when the sender ends the stream" };
        format!("{verb} {}://{}{also}; {latency}{last}", self.uri.transport.scheme, self.uri.address())
    }
}

//! `auto://`: the transport that suits the connection and the purpose is measured, streamed over, and measured again when the
//! connection no longer suits the purpose.
//!
//! The receiver waits on every transport, each on the port that `reflect` would give it, and reflects
//! [`REFLECTOR_ABOVE`] ports above, for the sender to measure.

mod follow;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_measure::{Advice, Purpose};
use antiphon_media::{Coding, SampleFormat, StreamFormat};
use antiphon_net::Stop;
use antiphon_proto::{TRANSPORTS, Transport, find};
use antiphon_session::PlayoutDelay;
use antiphon_sound::SourceSpec;

use crate::commands::latency;
use crate::run::spawn;
use crate::send::{SendStatus, SendSummary, stream_format};
use crate::transport::{StreamUri, port_above, stream_uri};
use crate::{
    CompareOptions, DEFAULT_PORT, Error, ErrorKind, ReceiveOptions, ReflectOptions, SendOptions, compare,
    reflect,
};
use follow::Follow;

/// The scheme of URIs that leave the transport open.
pub const SCHEME: &str = "auto";

/// Whether a URI leaves the transport open.
pub(crate) fn is_auto(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| scheme == SCHEME)
}

/// A URI that leaves the transport open, read.
#[derive(Clone)]
struct Place {
    /// As in a URI: IPv6 addresses in brackets.
    host: String,
    port: u16,
    /// Settings of the stream, `?` included.
    query: String,
}

impl Place {
    fn read(text: &str) -> Result<Self, Error> {
        let uri = stream_uri(text)?;
        let query = text.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
        let host = if uri.host.contains(':') { format!("[{}]", uri.host) } else { uri.host.clone() };
        let place = Place { host, port: uri.port.unwrap_or(DEFAULT_PORT), query };
        for transport in TRANSPORTS {
            port_above(place.reflector(), transport)?;
        }
        Ok(place)
    }

    /// The port that reflectors count from.
    fn reflector(&self) -> u16 {
        // A port that is too high stays so, and is refused.
        self.port.saturating_add(REFLECTOR_ABOVE)
    }

    /// Where the transport called `label` (`srp`, or `srp?mode=…`) is received, or waited for.
    fn uri(&self, label: &str) -> Result<String, Error> {
        let (scheme, settings) = label.split_once('?').unwrap_or((label, ""));
        let port = port_above(self.port, find(scheme)?)?;
        let query = match (settings, &*self.query) {
            ("", query) => query.to_string(),
            (settings, "") => format!("?{settings}"),
            (settings, query) => format!("?{settings}&{}", &query[1..]),
        };
        Ok(format!("{scheme}://{}:{port}{query}", self.host))
    }
}

/// Measures, streams over the transport that is recommended, and goes over to another when for a minute the connection has
/// not been good enough for the purpose.
pub(crate) fn send(
    options: &SendOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&SendStatus),
) -> Result<SendSummary, Error> {
    let place = Place::read(&options.target)?;
    if place.host.is_empty() {
        return Err(Error::usage(format!("'{}' names no receiver: write auto://HOST:PORT", options.target)));
    }
    let measuring = Measuring::new(&place, options)?;
    notice(format!(
        "measuring for {} s over {}",
        MEASURED.as_secs(),
        TRANSPORTS.iter().map(|transport| transport.scheme).collect::<Vec<_>>().join(", ")
    ));
    let advice = measuring.run(stop)?;
    if stop.is_asked() {
        return Err(Error::failed("stopped while the connection was being measured: nothing was sent"));
    }
    notice(sentence(&advice));
    let target = place.uri(&advice.transport)?;
    let mut follow = Follow::new(place, measuring);
    let options = SendOptions { target, ..options.clone() };
    let sent = crate::send::stream(&options, stop, notice, status, &mut |now, changes, notice| {
        follow.look(now, changes, notice)
    });
    follow.finish();
    sent
}

fn sentence(advice: &Advice) -> String {
    let delay = latency(advice).map_or_else(String::new, |latency| {
        format!("; to play the sound, start the receiver with {latency} or more")
    });
    let least_bad = if advice.met { "" } else { "no transport is good enough; the best is " };
    format!(
        "{}: {least_bad}{} ({}): {}{delay}",
        advice.purpose.title(),
        advice.transport,
        advice.sureness(),
        advice.reason()
    )
}

/// What is measured: noise in the stream's own format.
#[derive(Clone)]
struct Measuring {
    options: CompareOptions,
    purpose: Purpose,
    /// The port of the receiver's own URI.
    port: u16,
}

impl Measuring {
    fn new(place: &Place, options: &SendOptions) -> Result<Self, Error> {
        // A setting that one of them refuses is refused now.
        let read = |transport: &&Transport| StreamUri::read(&place.uri(transport.scheme)?, &options.socket);
        let uris = TRANSPORTS.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
        let keys = &uris.first().expect("a transport").keys;
        let coding = keys.coding.or(options.coding);
        let asked = match coding {
            None => None,
            Some(Coding::Pcm(sample)) => Some(sample),
            Some(Coding::Opus) => {
                return Err(Error::usage(
                    "auto:// measures the connection with uncompressed sound: for Opus name a transport, such as rtp://HOST",
                ));
            }
        };
        let (has, sample) = source_format(options)?;
        let format = has.map(|has| stream_format(options, keys, has)).transpose()?.map(|(format, _)| format);
        let delay = keys.fixed_latency()?.or(match options.latency {
            Some(PlayoutDelay::Of(delay)) => Some(delay),
            Some(PlayoutDelay::Unbounded) | None => None,
        });
        let standard = CompareOptions::default();
        Ok(Measuring {
            purpose: options.purpose,
            port: place.port,
            options: CompareOptions {
                // The stream must not wait for it.
                hosts_part: false,
                peer: Some(format!("{}:{}", place.host, place.reflector())),
                length: Some(MEASURED),
                channels: format.map(|format| format.channels() as u32),
                rate: format.map(|format| format.rate()),
                sample: asked.or(sample),
                latency: delay.unwrap_or(standard.latency),
                protect: keys.protect.unwrap_or(options.protect),
                source: "tone:noise".into(),
                seed: options.seed,
                out: None,
                block_frames: options.block_frames.unwrap_or(standard.block_frames),
                wait: options.wait,
                socket: keys.socket.clone(),
                command: options.command.clone(),
                ..standard
            },
        })
    }

    /// The time of a packet of a block.
    fn packet_ms(&self) -> f64 {
        let rate = self.options.rate.unwrap_or(MEASURED_RATE);
        MediaTime::new(self.options.block_frames.into(), rate).duration().as_secs_f64() * 1e3
    }

    fn run(&self, stop: &Stop) -> Result<Advice, Error> {
        let explained = |error: Error| match error.kind {
            ErrorKind::Unreachable => Error::unreachable(format!(
                "the connection could not be measured ({error}): start 'antiphon receive auto://:{} SINK' there first",
                self.port
            )),
            ErrorKind::Failed | ErrorKind::Usage => {
                Error { kind: error.kind, message: format!("the connection could not be measured: {error}") }
            }
        };
        let found = compare(&self.options, stop, &mut |_| {}).map_err(explained)?;
        let advice = found.advice.into_iter().find(|advice| advice.purpose == self.purpose);
        advice.ok_or_else(|| Error::failed("nothing was measured"))
    }
}

/// The source's own format, if it can be known without reading what can be read only once.
fn source_format(options: &SendOptions) -> Result<(Option<StreamFormat>, Option<SampleFormat>), Error> {
    match options.source.parse::<SourceSpec>()? {
        SourceSpec::Stdin { layout, .. } => Ok((layout.map(|(_, format)| format), None)),
        spec => {
            let source = spec.open()?.source;
            Ok((Some(source.format()), Some(source.sample_format())))
        }
    }
}

/// What a receiver runs beside its session: the reflector for the sender to measure with.
pub(crate) struct Reflecting {
    stop: Stop,
    thread: JoinHandle<Result<(), Error>>,
}

impl Reflecting {
    /// Starts it, and waits until it listens.
    fn start(options: ReflectOptions) -> Result<Self, Error> {
        let stop = Stop::new();
        let its_stop = stop.clone();
        let (tell, told) = mpsc::channel();
        let mut tell = Some(tell);
        let thread = spawn("reflect", move || {
            let mut on_status = |_: &_| {
                let _nobody_waits_any_more = tell.take().map(|tell| tell.send(()));
            };
            reflect(&options, &its_stop, &mut on_status).map(drop)
        })?;
        let reflecting = Reflecting { stop, thread };
        match told.recv() {
            Ok(()) => Ok(reflecting),
            Err(_) => Err(reflecting.finish().unwrap_or_else(|| Error::failed("the reflector ended"))),
        }
    }

    /// Ends it; says why it had failed, if it had.
    pub fn finish(self) -> Option<Error> {
        self.stop.ask();
        let why = match self.thread.join() {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error,
            Err(_) => Error::failed("the reflector panicked"),
        };
        Some(Error { message: format!("senders can't measure the connection: {why}"), ..why })
    }
}

/// The options of a receiver that waits on every transport, and the reflector beside it.
pub(crate) fn receive(options: &ReceiveOptions) -> Result<(ReceiveOptions, Reflecting, String), Error> {
    let place = Place::read(&options.source)?;
    let uris = TRANSPORTS.iter().map(|transport| place.uri(transport.scheme));
    let mut uris = uris.collect::<Result<Vec<_>, Error>>()?;
    let source = uris.remove(0);
    uris.extend(options.also.iter().cloned());
    let listen: IpAddr = match &*place.host {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        host => {
            let address = host.trim_matches(['[', ']']).parse();
            address.map_err(|_| {
                Error::usage(format!("'{host}' is no address of this machine: write auto://:PORT"))
            })?
        }
    };
    let reflecting = Reflecting::start(ReflectOptions {
        listen: SocketAddr::new(listen, place.reflector()),
        socket: options.socket.clone(),
        ..ReflectOptions::default()
    })?;
    let told = format!(
        "senders may measure the connection and choose the transport: antiphon send SOURCE auto://HOST:{}",
        place.port
    );
    Ok((ReceiveOptions { source, also: uris, ..options.clone() }, reflecting, told))
}

/// How long the connection is measured: with connecting and waiting for the last packets, sound comes within 15 s.
const MEASURED: Duration = Duration::from_secs(10);
/// The rate of the noise if nothing else is known: that of `tone:noise`.
const MEASURED_RATE: u32 = 48_000;
/// From the ports of the streams to those of the reflector: above every transport's own offset.
const REFLECTOR_ABOVE: u16 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_its_place() {
        let place = Place::read("auto://[::1]:7000?latency=40ms").unwrap();
        let offset = find("sctp").unwrap().reflect_offset;
        assert_eq!(place.uri("rtp").unwrap(), "rtp://[::1]:7000?latency=40ms");
        let sctp = place.uri("sctp?order=ordered").unwrap();
        assert_eq!(sctp, format!("sctp://[::1]:{}?order=ordered&latency=40ms", 7000 + offset));
        assert_eq!(Place::read("auto://studio").unwrap().port, DEFAULT_PORT);
        assert!(Place::read("auto://studio:65530").is_err());
        let highest = TRANSPORTS.iter().map(|transport| transport.reflect_offset).max().unwrap();
        assert!(highest < REFLECTOR_ABOVE);
        assert!(is_auto("auto://x") && !is_auto("rtp://auto://x") && !is_auto("auto"));
    }
}

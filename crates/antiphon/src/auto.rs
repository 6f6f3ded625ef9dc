//! `auto://`: the transport that suits the connection and the purpose is measured, streamed over, and measured again when the
//! connection no longer does.
//!
//! The receiver waits on every transport, each on the port that `reflect` would give it, and reflects
//! [`REFLECTOR_ABOVE`] ports above, for the sender to measure.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::uri::Uri;
use antiphon_core::{Instant, MediaTime};
use antiphon_measure::{Advice, Purpose};
use antiphon_net::{OsClock, Stop};
use antiphon_proto::{Substrate, TRANSPORTS, find};
use antiphon_sound::open_source;

use crate::change::{Changes, Switch};
use crate::commands::latency;
use crate::run::spawn;
use crate::send::{SendStatus, SendSummary};
use crate::{
    CompareOptions, DEFAULT_PORT, Error, ReceiveOptions, ReflectOptions, SendOptions, compare, reflect,
};

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
        let uri: Uri = text.parse()?;
        let query = text.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
        let host = if uri.host.contains(':') { format!("[{}]", uri.host) } else { uri.host.clone() };
        let place = Place { host, port: uri.port.unwrap_or(DEFAULT_PORT), query };
        let highest = TRANSPORTS.iter().map(|transport| transport.reflect_offset).max().expect("a transport");
        if place.port.checked_add(REFLECTOR_ABOVE + highest).is_none() {
            return Err(Error::usage(format!(
                "port {port} leaves no room above it: choose a lower one",
                port = place.port
            )));
        }
        Ok(place)
    }

    /// Where the transport called `label` (`srp`, or `srp?mode=…`) is received.
    fn uri(&self, label: &str) -> Result<String, Error> {
        let (scheme, settings) = label.split_once('?').unwrap_or((label, ""));
        let transport = find(scheme)?;
        let query = match (settings, &*self.query) {
            ("", query) => query.to_string(),
            (settings, "") => format!("?{settings}"),
            (settings, query) => format!("?{settings}&{}", &query[1..]),
        };
        Ok(format!("{scheme}://{}:{}{query}", self.host, self.port + transport.reflect_offset))
    }
}

/// Measures, streams over the transport that is recommended, and goes over to another when the connection has missed what
/// the purpose needs for a minute.
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
    notice(sentence(&advice));
    let target = place.uri(&advice.transport)?;
    let mut follow = Follow {
        place: place.clone(),
        purpose: options.purpose,
        transport: advice.transport,
        packet_ms: measuring.packet_ms(),
        measuring,
        clock: OsClock::new(),
        missed: Missed::default(),
        again: None,
        stop: stop.clone(),
    };
    let options = SendOptions { target, ..options.clone() };
    crate::send::stream(&options, stop, notice, status, &mut |now, changes, notice| {
        follow.look(now, changes, notice)
    })
}

fn sentence(advice: &Advice) -> String {
    let delay = latency(advice)
        .map_or_else(String::new, |latency| format!("; a receiver that plays needs {latency} at least"));
    let least_bad = if advice.met { "" } else { "nothing is good enough, and least bad is " };
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
}

impl Measuring {
    fn new(place: &Place, options: &SendOptions) -> Result<Self, Error> {
        // A live source can't be read twice, and what is heard does not matter to a network.
        let (rate, channels, sample) = if options.source.starts_with('-') {
            (options.rate, options.channels, options.sample)
        } else {
            let source = open_source(&options.source)?.source;
            let has = source.format();
            (
                options.rate.or(Some(has.rate())),
                options.channels.or(Some(has.channels() as u32)),
                options.sample.or(Some(source.sample_format())),
            )
        };
        Ok(Measuring {
            purpose: options.purpose,
            options: CompareOptions {
                peer: Some(format!("{}:{}", place.host, place.port + REFLECTOR_ABOVE)),
                length: Some(MEASURED),
                channels,
                rate,
                sample,
                source: "tone:noise".into(),
                seed: options.seed,
                out: None,
                block_frames: options.block_frames,
                wait: options.wait,
                socket: options.socket.clone(),
                command: options.command.clone(),
                ..CompareOptions::default()
            },
        })
    }

    /// The time of a packet of a block.
    fn packet_ms(&self) -> f64 {
        let rate = self.options.rate.unwrap_or(MEASURED_RATE);
        MediaTime::new(self.options.block_frames.into(), rate).duration().as_secs_f64() * 1e3
    }

    fn run(&self, stop: &Stop) -> Result<Advice, Error> {
        let found = compare(&self.options, stop, &mut |_| {}).map_err(|error| {
            Error::unreachable(format!(
                "the connection could not be measured: {error}; start 'antiphon receive auto://:PORT' there first"
            ))
        })?;
        let advice = found.advice.into_iter().find(|advice| advice.purpose == self.purpose);
        advice.ok_or_else(|| Error::failed("nothing was measured"))
    }
}

/// Whether a connection has not been good enough for a minute.
#[derive(Default)]
struct Missed(Option<Instant>);

impl Missed {
    /// Notes how it is now; returns true once when it has been bad for [`PATIENCE`], and counts from there again.
    fn note(&mut self, now: Instant, is_good: bool) -> bool {
        if is_good {
            self.0 = None;
            return false;
        }
        let is_over = now.since(*self.0.get_or_insert(now)) >= PATIENCE;
        if is_over {
            self.0 = None;
        }
        is_over
    }
}

/// Watches a running stream, and changes its transport.
struct Follow {
    place: Place,
    measuring: Measuring,
    purpose: Purpose,
    transport: String,
    packet_ms: f64,
    clock: OsClock,
    missed: Missed,
    again: Option<JoinHandle<Result<Advice, Error>>>,
    stop: Stop,
}

impl Follow {
    fn look(&mut self, status: &SendStatus, changes: &mut Changes, notice: &mut dyn FnMut(String)) {
        if let Some(measured) = self.again.take_if(|thread| thread.is_finished()) {
            match measured.join() {
                Ok(Ok(advice)) => self.take(advice, changes, notice),
                Ok(Err(error)) => notice(format!("measuring again failed: {error}")),
                Err(_) => notice("measuring again failed: its thread panicked".into()),
            }
            return;
        }
        let is_good = self.again.is_some() || self.is_met(status);
        if !self.missed.note(self.clock.now(), is_good) {
            return;
        }
        notice(format!(
            "for a minute the connection has not been good enough for: {}; measuring again",
            self.purpose.title()
        ));
        let (measuring, stop) = (self.measuring.clone(), self.stop.clone());
        match spawn("measure", move || measuring.run(&stop)) {
            Ok(thread) => self.again = Some(thread),
            Err(error) => notice(format!("measuring again failed: {error}")),
        }
    }

    fn is_met(&self, status: &SendStatus) -> bool {
        // Before the first report nothing is known to be missing.
        let missing = status.remote_loss_percent.unwrap_or(0.0);
        let delay = status.rtt_ms.map(|rtt| self.packet_ms + rtt / 2.0);
        self.purpose.is_met_by(missing, delay)
    }

    fn take(&mut self, advice: Advice, changes: &mut Changes, notice: &mut dyn FnMut(String)) {
        notice(sentence(&advice));
        if advice.transport == self.transport || advice.ties.contains(&self.transport) {
            return notice(format!("{} stays the best", self.transport));
        }
        let added = self.place.uri(&advice.transport).and_then(|uri| changes.add(&uri));
        match added {
            Ok(()) => self.transport = advice.transport,
            Err(error) => notice(format!("can't go over to {}: {error}", advice.transport)),
        }
    }
}

/// What a receiver runs beside its session: the reflector for the sender to measure with.
pub(crate) struct Reflecting {
    stop: Stop,
    thread: JoinHandle<Result<(), Error>>,
}

impl Reflecting {
    /// Ends it; says why it had failed, if it had.
    pub fn finish(self) -> Option<String> {
        self.stop.ask();
        match self.thread.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("senders could not measure the connection: {error}")),
            Err(_) => Some("senders could not measure the connection: the reflector panicked".into()),
        }
    }
}

/// The options of a receiver that waits on every transport, and the reflector beside it.
pub(crate) fn receive(options: &ReceiveOptions) -> Result<(ReceiveOptions, Reflecting), Error> {
    let place = Place::read(&options.source)?;
    let host = if place.host.is_empty() { "" } else { &place.host };
    let uri = |transport: &&antiphon_proto::Transport| {
        // A TCP address without the sign would be called.
        let at = if transport.substrate == Substrate::Tcp { "@" } else { "" };
        format!("{}://{at}{host}:{}{}", transport.scheme, place.port + transport.reflect_offset, place.query)
    };
    let mut uris = TRANSPORTS.iter().map(uri);
    let source = uris.next().expect("a transport");
    let also = uris.chain(options.also.iter().cloned()).collect();
    let listen: IpAddr = match &*place.host {
        "" => std::net::Ipv6Addr::UNSPECIFIED.into(),
        host => {
            let address = host.trim_matches(['[', ']']).parse();
            address.map_err(|_| {
                Error::usage(format!("'{host}' is no address of this machine: write auto://:PORT"))
            })?
        }
    };
    let reflecting = ReflectOptions {
        listen: SocketAddr::new(listen, place.port + REFLECTOR_ABOVE),
        socket: options.socket.clone(),
        ..ReflectOptions::default()
    };
    let stop = Stop::new();
    let its_stop = stop.clone();
    let thread = spawn("reflect", move || reflect(&reflecting, &its_stop, &mut |_| {}).map(drop))?;
    Ok((ReceiveOptions { source, also, ..options.clone() }, Reflecting { stop, thread }))
}

impl Changes {
    /// Goes over to another transport now.
    pub fn add(&mut self, uri: &str) -> Result<(), Error> {
        self.plan_switch(&Switch { uri: uri.into(), at: Duration::ZERO })
    }
}

/// How long the connection is measured: with connecting and waiting for the last packets, sound comes within 15 s.
const MEASURED: Duration = Duration::from_secs(10);
/// The rate of the noise if nothing else is known: that of `tone:noise`.
const MEASURED_RATE: u32 = 48_000;
/// How long a connection may be worse than the purpose needs before it is measured again.
const PATIENCE: Duration = Duration::from_secs(60);
/// From the ports of the streams to those of the reflector: above every transport's own offset.
const REFLECTOR_ABOVE: u16 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_bad_reports_and_no_less_is_missed() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut missed = Missed::default();
        let noted: Vec<u64> =
            (0..300).filter(|second| missed.note(at(*second), *second == 59 || *second == 130)).collect();
        // Good at 59 and 130: bad from 60, and again from 131; after a minute it begins anew.
        assert_eq!(noted, [120, 191, 252]);
    }

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

//! The two ends of a stream, each to be driven on a thread of its own.

use std::time::Duration;

use antiphon_core::{Counters, Input, Instant, PathId, Transmit};
use antiphon_measure::BufferRule;
use antiphon_proto::Beneath as On;
use antiphon_session::Station;

use crate::figures::StreamFigures;
use crate::setup::Setup;
use crate::world::WorldError;
use crate::world::meter::{Arrivals, Meter, SentLog, SharedLog};
use crate::world::routes::Map;
use crate::world::socket::Party;
use crate::world::streams::Maker;

/// Where a stream stands in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The stream's place in its setup.
    pub stream: usize,
    /// When the run begins.
    pub begin: Instant,
    /// The largest datagram of the socket, in bytes.
    pub max_datagram: usize,
    /// The run's.
    pub seed: u64,
}

/// One end of a stream: the station that the world has there.
pub struct End<R> {
    party: Party,
    /// The connection beneath has come to its end.
    ended: bool,
    role: R,
}

/// The sender of a stream.
pub type NearEnd = End<Sending>;
/// The receiver, or reflector, of a stream.
pub type FarEnd = End<Receiving>;

/// What a sender keeps beside its station.
pub struct Sending {
    log: SharedLog,
    rule: BufferRule,
    frames: usize,
    latency: Duration,
}

/// A receiver keeps nothing beside its station.
pub struct Receiving;

/// What a sender leaves.
#[derive(Debug)]
pub struct NearRecord {
    log: SentLog,
    /// Of what came back, where the stream is reflected.
    returns: Option<StreamFigures>,
    counters: Counters,
    /// Given up or refused by a sender of sound.
    expired: Option<u64>,
    frames: usize,
    rule: BufferRule,
}

/// What a receiver leaves.
#[derive(Debug, Default)]
pub struct FarRecord {
    arrivals: Arrivals,
    concealed_percent: Option<f64>,
}

fn maker<'a>(setup: &'a Setup, frame: &Frame) -> Result<Maker<'a>, WorldError> {
    let spec = &setup.streams[frame.stream];
    let map = Map::new(setup)?;
    let to = *spec.to.first().ok_or_else(|| WorldError::NoReceiver(spec.name.clone()))?;
    let mtu = map.mtu(&map.way(&spec.name, spec.from, to)?);
    let until = Instant::ZERO + setup.duration;
    let mut maker = Maker::new(spec, 0, mtu, until, frame.seed)?;
    maker.most = maker.most.min(frame.max_datagram);
    (maker.start, maker.until) = (frame.begin + spec.start, frame.begin + setup.duration);
    Ok(maker)
}

impl End<Sending> {
    /// The sender of a stream of `setup`.
    pub fn new(setup: &Setup, frame: &Frame) -> Result<Self, WorldError> {
        let maker = maker(setup, frame)?;
        let frames = maker.frames() as usize;
        let log = SentLog::shared(frames);
        let (party, _) = maker.near(&log)?;
        let role = Sending { log, rule: maker.rule()?, frames, latency: maker.spec.latency };
        Ok(End { party, ended: false, role })
    }

    /// Frames handed over so far.
    pub fn sent(&self) -> u64 {
        self.role.log.borrow().sent()
    }

    /// Arrivals of frames that came back so far, where the stream is reflected.
    pub fn returned(&self) -> Option<u64> {
        match &self.party {
            Party::Generator(generator) => generator.meter().map(Meter::arrivals),
            Party::Medusa(medusa) => Some(medusa.meter().arrivals()),
            _ => None,
        }
    }

    /// What its receiver may take to repair, at most.
    pub fn latency(&self) -> Duration {
        self.role.latency
    }

    /// What it leaves, to be sent to another thread.
    pub fn into_record(self) -> NearRecord {
        let (returns, counters, expired) = match &self.party {
            Party::Generator(generator) => (
                generator.meter().map(|meter| meter.figures(true)),
                generator.endpoint().path_stats().counters,
                None,
            ),
            Party::Medusa(medusa) => {
                (Some(medusa.meter().figures(true)), medusa.endpoint().path_stats().counters, None)
            }
            Party::Send(station) => {
                let counters = station.counters();
                (None, station.path_stats().counters, Some(counters.expired + counters.refused))
            }
            _ => (None, Counters::default(), None),
        };
        let Sending { log, rule, frames, .. } = self.role;
        let log = std::mem::take(&mut *log.borrow_mut());
        NearRecord { log, returns, counters, expired, frames, rule }
    }
}

impl End<Receiving> {
    /// The receiver, or reflector, of a stream of `setup`.
    pub fn new(setup: &Setup, frame: &Frame) -> Result<Self, WorldError> {
        let maker = maker(setup, frame)?;
        // Beyond every frame twice something is wrong with the network, and is counted.
        let room = (2 * maker.frames() as usize).saturating_add(ROOM_AT_LEAST);
        let party = maker.far(Meter::noting(room, maker.rule()?), 0)?;
        Ok(End { party, ended: false, role: Receiving })
    }

    /// Arrivals of frames so far; none at a reflector.
    pub fn arrived(&self) -> u64 {
        match &self.party {
            Party::Listener(listener) => listener.meter().arrivals(),
            Party::Receive(_, meter) => meter.borrow().arrivals(),
            _ => 0,
        }
    }

    /// Whether the connection beneath has come to its end.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// What it leaves, to be sent to another thread.
    pub fn into_record(mut self) -> FarRecord {
        match &mut self.party {
            Party::Listener(listener) => {
                FarRecord { arrivals: listener.meter_mut().take_notes(), concealed_percent: None }
            }
            Party::Receive(station, meter) => FarRecord {
                arrivals: meter.borrow_mut().take_notes(),
                concealed_percent: crate::world::streams::concealed_percent(station),
            },
            _ => FarRecord::default(),
        }
    }
}

impl<R> Station for End<R> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.ended |= matches!(input, Input::Broken(_));
        self.party.station().handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.party.station().advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.party.station().poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.party.station_ref().poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.party.station().stop(now);
    }

    fn is_finished(&self) -> bool {
        self.party.station_ref().is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.party.station_ref().knows(path)
    }
}

/// The figures of a stream of which both ends have left their records, counted as in the world. What only a model sees
/// (whose packet a queue dropped, what a MAC gave up) is missing.
pub fn figures(near: NearRecord, far: &FarRecord, on: On) -> StreamFigures {
    let NearRecord { log, returns, counters, expired, frames, rule } = near;
    let mut figures = returns.unwrap_or_else(|| {
        let log: SharedLog = std::rc::Rc::new(std::cell::RefCell::new(log));
        let mut meter = Meter::new(&log, frames, rule);
        for (at, number) in &far.arrivals.came {
            meter.on_arrival(*at, *number);
        }
        meter.figures(false)
    });
    if let Some(expired) = expired {
        figures.expired = Some(expired as f64);
    }
    figures.concealed_percent = far.concealed_percent;
    figures.retransmissions = Some(counters.retransmitted as f64);
    let headers = match on {
        On::Udp => UDP_HEADERS,
        On::Tcp => TCP_HEADERS,
    };
    figures.wire_bytes = Some((counters.bytes_sent + counters.datagrams_sent * headers) as f64);
    figures
}

/// Room for arrivals in very short runs.
const ROOM_AT_LEAST: usize = 64;
/// UDP (RFC 768) and IPv4 (RFC 791) headers, in bytes.
const UDP_HEADERS: u64 = 8 + 20;
/// TCP (RFC 9293) header with the time-stamp option (RFC 7323), and IPv4, in bytes.
const TCP_HEADERS: u64 = 20 + 12 + 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_two_threads_give_the_figures_of_one() {
        let rule = BufferRule::PUBLISHED;
        let shared = SentLog::shared(100);
        let mut together = Meter::new(&shared, 100, rule);
        let mut apart = Meter::noting(250, rule);
        for n in 0..100u16 {
            shared.borrow_mut().on_sent(n.wrapping_add(65_500), Instant::from_millis(u64::from(n) * 10));
            if n % 7 == 3 {
                continue;
            }
            for copy in 0..1 + u64::from(n % 10 == 0) {
                let at = Instant::from_millis(u64::from(n) * 10 + 5 + u64::from(n % 3) + copy);
                together.on_arrival(at, n.wrapping_add(65_500));
                apart.on_arrival(at, n.wrapping_add(65_500));
            }
        }
        let expected = together.figures(false);
        let log = std::mem::take(&mut *shared.borrow_mut());
        let counters =
            Counters { datagrams_sent: 100, bytes_sent: 1000, retransmitted: 4, ..Counters::default() };
        let near = NearRecord { log, returns: None, counters, expired: None, frames: 100, rule };
        let far = FarRecord { arrivals: apart.take_notes(), concealed_percent: None };
        let found = figures(near, &far, On::Udp);
        assert_eq!((found.lost_percent, found.duplicate), (Some(14.0), Some(8.0)));
        let wire = StreamFigures { wire_bytes: None, retransmissions: None, ..found };
        assert_eq!(wire, expected);
        assert_eq!((found.wire_bytes, found.retransmissions), (Some(3800.0), Some(4.0)));
    }

    #[test]
    fn arrivals_beyond_the_room_are_counted_and_not_kept() {
        let mut meter = Meter::noting(2, BufferRule::PUBLISHED);
        (0..5).for_each(|n| meter.on_arrival(Instant::from_millis(n), n as u16));
        assert_eq!(meter.arrivals(), 5);
        let notes = meter.take_notes();
        assert_eq!((notes.came.len(), notes.missed), (2, 3));
    }
}

//! The two ends of a stream, each to be driven on a thread of its own.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::wire::{TCP_IPV4_HEADERS, UDP_IPV4_HEADERS};
use antiphon_core::{Counters, Input, Instant, Participant, PathId, Transmit, WireId};
use antiphon_measure::{BufferRule, VideoLayout};
use antiphon_proto::Substrate;
use antiphon_session::VideoTrackCounters;

use crate::figures::StreamFigures;
use crate::setup::Setup;
use crate::world::WorldError;
use crate::world::meter::{Arrivals, Meter, SentLog, SharedLog};
use crate::world::participant::StreamParticipant;
use crate::world::pictures::Screen;
use crate::world::routes::Map;
use crate::world::socket::WIRE;
use crate::world::stream_figures::Played;
use crate::world::streams::StreamBuilder;

/// Position of a stream in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlacement {
    /// The stream's index in its setup.
    pub stream: usize,
    /// When the run begins.
    pub begin: Instant,
    /// The largest datagram of the socket, in bytes.
    pub max_datagram: usize,
    /// The run's seed.
    pub seed: u64,
}

/// One end of a stream: the participant that the world has there, on wire 0. At the far end that wire listens, where the
/// transport is on a byte stream: connections are offered by [`Participant::accept`].
pub struct End<R> {
    participant: StreamParticipant,
    /// The driver's name of the participant's only wire, if it has only one.
    wire: WireId,
    /// The connection below has ended.
    ended: bool,
    /// It was stopped, and is over at once: its peer gets no goodbye.
    stopped: bool,
    role: R,
}

/// The sender of a stream.
pub type NearEnd = End<Sending>;
/// The receiver, or reflector, of a stream.
pub type FarEnd = End<Receiving>;

/// What a sender has besides its participant.
pub struct Sending {
    log: SharedLog,
    layout: Layout,
}

/// How the frames of a stream are judged.
#[derive(Clone, Copy, Debug)]
struct Layout {
    rule: BufferRule,
    frames: usize,
    /// Of a video, and when its first frame is due at the earliest.
    video: Option<(VideoLayout, Instant)>,
}

/// A receiver has nothing besides its participant.
pub struct Receiving;

/// Results of a sender.
#[derive(Debug)]
pub struct NearRecord {
    log: SentLog,
    /// Figures of the frames that came back, if the stream is reflected.
    returns: Option<StreamFigures>,
    counters: Counters,
    layout: Layout,
    /// Of pictures beside its sound.
    pictures: Option<VideoTrackCounters>,
}

/// Results of a receiver.
#[derive(Debug, Default)]
pub struct FarRecord {
    arrivals: Arrivals,
    played: Option<Played>,
    /// What came of the pictures beside its sound.
    screen: Option<Screen>,
}

/// Results of both ends of a stream.
#[derive(Debug)]
pub struct StreamRecord {
    /// The stream's index in its setup.
    pub stream: usize,
    /// Of its sender.
    pub near: NearRecord,
    /// Of its receiver.
    pub far: FarRecord,
    /// What its transport is on.
    pub on: Substrate,
}

fn builder<'a>(setup: &'a Setup, frame: &StreamPlacement) -> Result<StreamBuilder<'a>, WorldError> {
    let spec = &setup.streams[frame.stream];
    let map = Map::new(setup)?;
    let to = *spec.to.first().ok_or_else(|| WorldError::NoReceiver(spec.name.clone()))?;
    let mtu = map.mtu(&map.way(&spec.name, spec.from, to)?);
    let mut builder = StreamBuilder::new(spec, setup, 0, mtu, frame.seed)?;
    builder.most = builder.most.min(frame.max_datagram);
    builder.on_sockets = true;
    (builder.start, builder.until) = (frame.begin + spec.start, frame.begin + setup.duration);
    Ok(builder)
}

impl End<Sending> {
    /// The sender of a stream of `setup`.
    pub fn new(setup: &Setup, frame: &StreamPlacement) -> Result<Self, WorldError> {
        let builder = builder(setup, frame)?;
        let log = builder.log()?;
        let participant = builder.near(&log)?;
        let layout = Layout {
            rule: builder.rule()?,
            frames: builder.frames() as usize,
            video: builder.video().map(|video| (video.layout, builder.start)),
        };
        let role = Sending { log, layout };
        Ok(End { participant, wire: WIRE, ended: false, stopped: false, role })
    }

    /// Frames handed over so far.
    pub fn sent(&self) -> u64 {
        self.role.log.borrow().sent()
    }

    /// Arrivals of frames that came back so far, where the stream is reflected.
    pub fn returned(&self) -> Option<u64> {
        self.participant.arrivals()
    }

    /// Its results, which can be sent to another thread.
    pub fn into_record(self) -> NearRecord {
        let (returns, counters) = (self.participant.figures(), self.participant.counters());
        let pictures = self.participant.pictures_sent();
        let Sending { log, layout } = self.role;
        let log = std::mem::take(&mut *log.borrow_mut());
        NearRecord { log, returns, counters, layout, pictures }
    }
}

impl End<Receiving> {
    /// The receiver, or reflector, of a stream of `setup`.
    pub fn new(setup: &Setup, frame: &StreamPlacement) -> Result<Self, WorldError> {
        let builder = builder(setup, frame)?;
        // More arrivals than twice the frames indicate a fault of the network, and are counted.
        let room = (2 * builder.frames() as usize).saturating_add(ROOM_AT_LEAST);
        let meter = Rc::new(RefCell::new(Meter::noting(room, builder.rule()?)));
        let participant = builder.far(meter, 0)?;
        Ok(End { participant, wire: WIRE, ended: false, stopped: false, role: Receiving })
    }

    /// Arrivals of frames so far; none at a reflector.
    pub fn arrived(&self) -> u64 {
        self.participant.arrivals().unwrap_or(0)
    }

    /// Whether the connection below has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Its results, which can be sent to another thread.
    pub fn into_record(mut self) -> FarRecord {
        let (arrivals, played) = self.participant.take_notes();
        FarRecord { arrivals, played, screen: self.participant.into_screen() }
    }
}

impl<R> Participant for End<R> {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.ended |= matches!(input, Input::Broken(_));
        self.participant.get_mut().handle_input(now, wire, input);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        if self.participant.accepts() {
            return self.participant.get_mut().accept(now, listener);
        }
        // A listener takes only one connection.
        let first = self.wire == WIRE;
        self.wire = ACCEPTED;
        first.then_some(ACCEPTED)
    }

    fn advance(&mut self, now: Instant) {
        self.participant.get_mut().advance(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        let ready = self.participant.get_mut().poll_ready()?;
        Some(if ready == WIRE { self.wire } else { ready })
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.participant.get_mut().poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.participant.get_mut().poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.participant.get().poll_timeout()
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.participant.get().knows(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        self.participant.get().takes(wire)
    }

    fn stop(&mut self, now: Instant) {
        self.stopped = true;
        self.participant.get_mut().stop(now);
    }

    fn is_finished(&self) -> bool {
        self.stopped || self.participant.get().is_finished()
    }
}

/// The figures of the streams of a setup from the results of their ends, counted as in the world; those of pictures follow the sound that they
/// are beside. Figures that only a model knows (whose packet a queue dropped, what a MAC gave up) are missing.
pub fn figures(setup: &Setup, records: Vec<StreamRecord>) -> Vec<(String, StreamFigures)> {
    let ended: Vec<Ended> = records.into_iter().map(Ended::of).collect();
    let mut all = Vec::new();
    for one in &ended {
        let spec = &setup.streams[one.stream];
        let mut figures = one.figures;
        if let Some(beside) = &spec.beside {
            one.add_beside(&mut figures, setup, beside, &ended);
        }
        all.push((spec.name.clone(), figures));
        let pictures = one.screen.as_ref().zip(one.pictures);
        all.extend(pictures.map(|(screen, sent)| (screen.name().into(), screen.figures(sent))));
    }
    all
}

/// A stream that is over.
struct Ended {
    stream: usize,
    figures: StreamFigures,
    /// Of what arrived at its receiver; `None` if it came back to its sender.
    meter: Option<Meter>,
    screen: Option<Screen>,
    pictures: Option<VideoTrackCounters>,
}

impl Ended {
    fn of(record: StreamRecord) -> Self {
        let StreamRecord { stream, near, far, on } = record;
        let NearRecord { log, returns, counters, layout, pictures } = near;
        let log: SharedLog = Rc::new(RefCell::new(log));
        let (mut figures, meter) = match returns {
            Some(figures) => (figures, None),
            None => {
                let mut meter = Meter::new(&log, layout.frames, layout.rule).of_video(layout.video);
                far.arrivals.came.iter().for_each(|arrival| meter.on_arrival(*arrival));
                (meter.figures(false), Some(meter))
            }
        };
        if let Some(played) = &far.played {
            played.add_to(&mut figures);
        }
        figures.retransmissions = Some(counters.retransmitted as f64);
        let headers = match on {
            Substrate::Udp => UDP_IPV4_HEADERS,
            Substrate::Tcp => TCP_IPV4_HEADERS,
        };
        figures.wire_bytes = Some((counters.bytes_sent + counters.datagrams_sent * headers as u64) as f64);
        Ended { stream, figures, meter, screen: far.screen, pictures }
    }

    /// Adds what its arrivals show of those of another stream, or of its own pictures.
    fn add_beside(&self, figures: &mut StreamFigures, setup: &Setup, other: &str, all: &[Ended]) {
        let own = self.screen.as_ref().filter(|screen| screen.name() == other);
        let of_stream = || {
            let other = all.iter().find(|one| setup.streams[one.stream].name == other)?;
            Some(other.meter.as_ref()?.times())
        };
        if let Some((meter, others)) = self.meter.as_ref().zip(own.map(Screen::times).or_else(of_stream)) {
            meter.add_beside(figures, &others);
        }
    }
}

/// The wire of an accepted connection, for a participant with a single wire.
const ACCEPTED: WireId = WireId(1);
/// Room for arrivals in very short runs.
const ROOM_AT_LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::world::meter::Arrival;

    #[test]
    fn records_of_two_threads_give_the_figures_of_one() {
        let rule = BufferRule::PUBLISHED;
        let shared = SentLog::shared(100, 1);
        let mut together = Meter::new(&shared, 100, rule);
        let mut apart = Meter::noting(250, rule);
        for n in 0..100u16 {
            let at = Instant::from_millis(u64::from(n) * 10);
            shared.borrow_mut().on_sent(0, n.wrapping_add(65_500), at, Ok(()));
            if n % 7 == 3 {
                continue;
            }
            for copy in 0..1 + u64::from(n % 10 == 0) {
                let at = Instant::from_millis(u64::from(n) * 10 + 5 + u64::from(n % 3) + copy);
                let arrival = Arrival { at, group: 0, sequence: n.wrapping_add(65_500) };
                together.on_arrival(arrival);
                apart.on_arrival(arrival);
            }
        }
        let expected = together.figures(false);
        let log = std::mem::take(&mut *shared.borrow_mut());
        let counters =
            Counters { datagrams_sent: 100, bytes_sent: 1000, retransmitted: 4, ..Counters::default() };
        let layout = Layout { rule, frames: 100, video: None };
        let near = NearRecord { log, returns: None, counters, layout, pictures: None };
        let far = FarRecord { arrivals: apart.take_notes(), ..FarRecord::default() };
        let found = Ended::of(StreamRecord { stream: 0, near, far, on: Substrate::Udp }).figures;
        assert_eq!((found.lost_percent, found.duplicate), (Some(14.0), Some(8.0)));
        let wire = StreamFigures { wire_bytes: None, retransmissions: None, ..found };
        assert_eq!(wire, expected);
        assert_eq!((found.wire_bytes, found.retransmissions), (Some(3800.0), Some(4.0)));
    }

    /// Over TCP connections are offered; a participant with a single wire takes the first, a session or reflector names
    /// its own, and hears others as long as no message has come over the first.
    #[test]
    fn far_ends_accept_a_connection_and_send_on_its_wire() {
        let far = |content: &str| {
            let text = format!(
                "title='x'\nduration='1s'\nnode.a={{}}\nnode.b={{}}\nlink.l={{between=['a','b'],delay='1ms'}}\n\
                 [stream.s]\ntransport='tcp'\nfrom='a'\nto='b'\n{content}"
            );
            let scenario = Scenario::parse("x", &text).unwrap();
            let setup = scenario.setup(&[]).unwrap();
            let place = StreamPlacement { stream: 0, begin: Instant::ZERO, max_datagram: 1472, seed: 1 };
            FarEnd::new(&setup, &place).unwrap()
        };
        let frames = "frame='200B'\ninterval='10ms'\n";
        for content in [frames, "reflected=true\nframe='200B'\ninterval='10ms'\n", ""] {
            let (mut far, now) = (far(content), Instant::ZERO);
            let wire = far.accept(now, WIRE).expect("it takes the first");
            assert_ne!(wire, WIRE, "{content}");
            far.handle_input(now, wire, Input::Connected);
            far.advance(now);
            assert_eq!(far.poll_ready(), Some(wire), "{content}");
            assert_eq!(far.accept(now, WIRE).is_none(), content == frames, "{content}");
        }
    }

    #[test]
    fn arrivals_beyond_the_room_are_counted_and_not_kept() {
        let mut meter = Meter::noting(2, BufferRule::PUBLISHED);
        for n in 0..5 {
            let at = Instant::from_millis(n);
            meter.on_arrival(Arrival { at, group: 0, sequence: n as u16 });
        }
        assert_eq!(meter.arrivals(), 5);
        let notes = meter.take_notes();
        assert_eq!((notes.came.len(), notes.missed), (2, 3));
    }
}

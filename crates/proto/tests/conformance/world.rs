//! Two endpoints and a wire between them, in virtual time that jumps to the next event.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{
    BrokenReason, CloseMode, Counters, Ecn, Endpoint, Event, Frame, FrameId, Input, Instant, Outcome, PathId,
    Rng, SendError, StreamId, Wire,
};
use antiphon_proto::{OpenArgs, Role, open};

/// The datagram size of the tests: an Ethernet path over IPv6.
pub const MAX_DATAGRAM: usize = 1452;
const ONE_WAY: Duration = Duration::from_millis(10);

/// What the wire does to datagrams; byte streams are only cut into pieces.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub loss: f64,
    pub duplication: f64,
    pub reordering: f64,
    /// Nothing is taken off the sender's hands before this instant: a full socket.
    pub stalled_until: Option<Instant>,
}

/// One side: an endpoint and all that came out of it.
pub struct Side {
    pub endpoint: Box<dyn Endpoint>,
    pub frames: Vec<Vec<u8>>,
    pub outcomes: BTreeMap<FrameId, Outcome>,
    pub accepted: u64,
    pub connected: u32,
    pub closed: u32,
    pub writable: u32,
    pub broken: u32,
}

pub struct World {
    pub now: Instant,
    pub caller: Side,
    pub listener: Side,
    /// (arrival, to the listener?, bytes), in the order to be delivered when due.
    wire: VecDeque<(Instant, bool, Vec<u8>)>,
    weather: Weather,
    rng: Rng,
    pub dropped: u32,
    pub overtaken: u32,
    pub duplicated: u32,
}

impl Side {
    /// `scheme` may carry a query: `name?key=value`.
    fn new(scheme: &str, role: Role, seed: u64) -> Self {
        let (scheme, query) = scheme.split_once('?').unwrap_or((scheme, ""));
        let query: Query = query.parse().expect("a query as in a URI");
        let args = OpenArgs {
            role,
            query: &query,
            seed,
            now: Instant::ZERO,
            max_datagram: MAX_DATAGRAM,
            latency: Duration::from_millis(80),
        };
        let endpoint = open(scheme, &args).expect("the transport opens");
        let (frames, outcomes) = (Vec::new(), BTreeMap::new());
        Side { endpoint, frames, outcomes, accepted: 0, connected: 0, closed: 0, writable: 0, broken: 0 }
    }

    pub fn send(
        &mut self,
        now: Instant,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<FrameId, SendError> {
        self.send_on(now, StreamId(0), bytes, deadline)
    }

    pub fn send_on(
        &mut self,
        now: Instant,
        stream: StreamId,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<FrameId, SendError> {
        let id = self.endpoint.send(now, Frame { stream, ..Frame::new(bytes, deadline) })?;
        assert_eq!(id.0, self.accepted, "frame ids count up from 0");
        self.accepted += 1;
        Ok(id)
    }

    pub fn is_byte_stream(&self) -> bool {
        self.endpoint.profile().wire == Wire::ByteStream
    }

    pub fn counters(&self) -> Counters {
        self.endpoint.path_stats().counters
    }

    /// Drains frames and events, checking what must hold of every one of them.
    pub fn drain(&mut self) -> usize {
        let mut drained = 0;
        let mut buf = vec![0; self.endpoint.profile().max_receive];
        while let Some(received) = self.endpoint.poll_frame(&mut buf) {
            assert_eq!(self.closed, 0, "a frame after Closed");
            self.frames.push(buf[..received.len].to_vec());
            drained += 1;
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert_eq!(self.closed, 0, "{event:?} after Closed");
            drained += 1;
            match event {
                Event::Connected => self.connected += 1,
                Event::Writable => self.writable += 1,
                Event::Closed(_) => self.closed += 1,
                Event::Broken(_) => self.broken += 1,
                Event::Congestion(_) => {}
                Event::Frame { id, outcome } => {
                    assert!(id.0 < self.accepted, "an outcome for a frame never accepted");
                    let before = self.outcomes.insert(id, outcome);
                    assert_eq!(before, None, "a second outcome for {id:?}");
                }
            }
        }
        drained
    }

    /// Every accepted frame has its outcome.
    pub fn assert_balanced(&self) {
        assert_eq!(self.outcomes.len() as u64, self.accepted, "one outcome per accepted frame");
    }
}

impl World {
    pub fn new(scheme: &str, weather: Weather, seed: u64) -> Self {
        let mut world = World {
            now: Instant::from_millis(1),
            caller: Side::new(scheme, Role::Caller, seed),
            listener: Side::new(scheme, Role::Listener, seed ^ 1),
            wire: VecDeque::new(),
            weather,
            rng: Rng::fork(seed, "weather"),
            dropped: 0,
            overtaken: 0,
            duplicated: 0,
        };
        for side in [&mut world.caller, &mut world.listener] {
            if side.is_byte_stream() {
                side.endpoint.handle_input(world.now, Input::Connected);
            }
        }
        world
    }

    /// Moves the world to `until`, event by event.
    pub fn run_until(&mut self, until: Instant) {
        let mut idle_rounds = 0;
        loop {
            self.settle();
            let next = self.next_event();
            let due = next.filter(|at| *at <= until);
            let Some(at) = due else { break };
            // A time-out that does not move is a busy loop in a real driver.
            idle_rounds = if at > self.now { 0 } else { idle_rounds + 1 };
            assert!(idle_rounds < 1000, "a time-out that never goes away");
            self.now = self.now.max(at);
            self.deliver_due();
            for side in [&mut self.caller, &mut self.listener] {
                if side.endpoint.poll_timeout().is_some_and(|t| t <= self.now) {
                    side.endpoint.handle_timeout(self.now);
                }
            }
        }
        self.now = self.now.max(until);
        self.settle();
    }

    pub fn close(&mut self, mode: CloseMode) {
        self.caller.endpoint.close(self.now, mode);
        self.listener.endpoint.close(self.now, mode);
    }

    /// The path breaks: what is under way is lost, and both sides are told.
    pub fn break_path(&mut self) {
        self.wire.clear();
        for side in [&mut self.caller, &mut self.listener] {
            side.endpoint.handle_input(self.now, Input::Broken(BrokenReason::Refused));
        }
    }

    /// It is there again, and the driver of a byte stream has connected anew.
    pub fn mend_path(&mut self) {
        for side in [&mut self.caller, &mut self.listener] {
            if side.is_byte_stream() {
                side.endpoint.handle_input(self.now, Input::Connected);
            }
        }
    }

    /// Has the caller write into `room` bytes and delivers that at once; answers how many there were.
    pub fn transmit_by_hand(&mut self, room: usize) -> usize {
        let mut buf = vec![0; room];
        let Some(transmit) = self.caller.endpoint.poll_transmit(self.now, &mut buf) else { return 0 };
        let stream = self.caller.is_byte_stream();
        self.listener.endpoint.handle_input(self.now, input(&buf[..transmit.len], stream, self.now));
        transmit.len
    }

    fn next_event(&self) -> Option<Instant> {
        let arrivals = self.wire.iter().map(|(at, ..)| *at);
        let timeouts = [&self.caller, &self.listener].into_iter().filter_map(|s| s.endpoint.poll_timeout());
        arrivals.chain(timeouts).chain(self.weather.stalled_until.filter(|t| *t > self.now)).min()
    }

    /// Drains both sides until nothing moves.
    fn settle(&mut self) {
        let mut moved = 1;
        while moved > 0 {
            moved = self.caller.drain() + self.listener.drain();
            if self.weather.stalled_until.is_none_or(|t| t <= self.now) {
                moved += self.transmit(true) + self.transmit(false);
            }
        }
    }

    fn transmit(&mut self, from_caller: bool) -> usize {
        let side = if from_caller { &mut self.caller } else { &mut self.listener };
        let stream = side.is_byte_stream();
        // A stream's driver lends whatever room it has; odd sizes find framing faults.
        let room = if stream { 1 + self.rng.below(700) as usize } else { MAX_DATAGRAM };
        let mut buf = vec![0; room];
        let Some(transmit) = side.endpoint.poll_transmit(self.now, &mut buf) else {
            return 0;
        };
        assert!(transmit.len > 0 && transmit.len <= room);
        assert_eq!(side.closed, 0, "bytes after Closed");
        buf.truncate(transmit.len);
        let arrival = self.now + ONE_WAY;
        if stream {
            self.wire.push_back((arrival, from_caller, buf));
            return 1;
        }
        let draws = [self.rng.unit(), self.rng.unit(), self.rng.unit()];
        if draws[0] < self.weather.loss {
            self.dropped += 1;
            return 1;
        }
        if draws[1] < self.weather.duplication {
            self.duplicated += 1;
            self.wire.push_back((arrival, from_caller, buf.clone()));
        }
        let held = if draws[2] < self.weather.reordering { ONE_WAY } else { Duration::ZERO };
        self.overtaken += u32::from(!held.is_zero());
        self.wire.push_back((arrival + held, from_caller, buf));
        1
    }

    fn deliver_due(&mut self) {
        let mut waiting = VecDeque::new();
        for (at, to_listener, bytes) in std::mem::take(&mut self.wire) {
            if at > self.now {
                waiting.push_back((at, to_listener, bytes));
                continue;
            }
            let side = if to_listener { &mut self.listener } else { &mut self.caller };
            side.endpoint.handle_input(self.now, input(&bytes, side.is_byte_stream(), self.now));
        }
        self.wire = waiting;
    }
}

/// The bytes as the driver of such a wire would hand them over.
pub fn input(bytes: &[u8], stream: bool, now: Instant) -> Input<'_> {
    if stream {
        Input::Stream { bytes, received_at: now }
    } else {
        Input::Datagram { path: PathId::default(), bytes, ecn: Ecn::NotCapable, received_at: now }
    }
}

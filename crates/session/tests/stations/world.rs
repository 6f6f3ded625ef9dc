//! Two stations and a wire between them.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{BrokenReason, Ecn, Input, Instant, PathId, Rng};
use antiphon_link::{Direction, Duplex, DuplexSpec};
use antiphon_media::StreamFormat;
use antiphon_proto::Role;
use antiphon_session::{OpenSink, ReceiveStation, SendStation, SenderConfig, Station, StreamFraming};

pub use crate::common::{
    MAX_DATAGRAM, SILENCE, call_config, endpoint, ms, receive_station_in, send_station_in, sender_config,
};
use crate::sound::{Kept, Noise};

/// The path of the near end, as the far end sees it.
pub const NEAR: PathId = PathId(7);

pub fn send_station(scheme: &str, format: StreamFormat, frames: u64, seed: u64) -> SendStation {
    send_station_with(scheme, Noise::new(format, frames), sender_config(format, None, seed))
}

pub fn send_station_with(scheme: &str, source: Box<Noise>, config: SenderConfig) -> SendStation {
    send_station_in(endpoint(scheme, Role::Caller, Instant::ZERO), source, config)
}

/// A receiver of one stream, into memory.
pub fn receive_station(scheme: &'static str, latency: Option<Duration>, kept: &Kept) -> ReceiveStation {
    let kept = kept.clone();
    let open_sink: OpenSink = Box::new(move |format, _| Ok(kept.sink(format)));
    receive_station_with(scheme, latency, open_sink, true, Instant::ZERO)
}

pub fn receive_station_with(
    scheme: &'static str,
    latency: Option<Duration>,
    open_sink: OpenSink,
    ends_with_stream: bool,
    now: Instant,
) -> ReceiveStation {
    receive_station_in(scheme, StreamFraming::Rtp, latency, open_sink, ends_with_stream, now)
}

/// What lies between the two.
pub enum Wire {
    Link(Box<Duplex<Vec<u8>>>),
    Pipe(Pipe),
}

/// A reliable, ordered byte stream in both directions that holds `room` bytes each way and stands still at times.
pub struct Pipe {
    pub delay: Duration,
    pub room: usize,
    /// Nothing arrives between these instants.
    pub stall: Option<(Instant, Instant)>,
    pub connected: bool,
    flight: [VecDeque<(Instant, Vec<u8>)>; 2],
}

impl Pipe {
    fn held(&self, way: usize) -> usize {
        self.flight[way].iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn push(&mut self, way: usize, now: Instant, bytes: Vec<u8>) {
        let mut at = now + self.delay;
        if let Some((from, until)) = self.stall
            && at >= from
        {
            at = at.max(until);
        }
        let last = self.flight[way].back().map_or(at, |(last, _)| *last);
        self.flight[way].push_back((at.max(last), bytes));
    }
}

/// Whether the n-th datagram, counted from 0, is taken away.
pub type Drop = Box<dyn FnMut(u64, &[u8]) -> bool>;

pub struct World<A, B> {
    pub now: Instant,
    pub near: A,
    pub far: B,
    pub wire: Wire,
    /// Datagrams that the near end put on the wire, and which of them the test takes away.
    pub sent_up: u64,
    pub drop_up: Option<Drop>,
    /// The same of the far end's.
    pub sent_down: u64,
    pub drop_down: Option<Drop>,
    /// A driver that is woken late, by up to so much.
    pub sleepy: Option<(Rng, Duration)>,
}

impl<A: Station, B: Station> World<A, B> {
    /// Over a datagram link.
    pub fn linked(near: A, far: B, link: &str, seed: u64) -> Self {
        let spec: DuplexSpec = link.parse().expect("a link");
        Self::with(near, far, Wire::Link(Box::new(Duplex::new(&spec, seed).unwrap())))
    }

    /// Over a byte pipe, connected from the start.
    pub fn piped(near: A, far: B, delay: Duration, room: usize) -> Self {
        let flight = Default::default();
        let pipe = Pipe { delay, room, stall: None, connected: false, flight };
        let mut world = Self::with(near, far, Wire::Pipe(pipe));
        world.connect();
        world
    }

    fn with(near: A, far: B, wire: Wire) -> Self {
        let now = Instant::from_millis(1);
        World { now, near, far, wire, sent_up: 0, drop_up: None, sent_down: 0, drop_down: None, sleepy: None }
    }

    pub fn link(&self) -> &Duplex<Vec<u8>> {
        match &self.wire {
            Wire::Link(link) => link,
            Wire::Pipe(_) => panic!("this world has a pipe"),
        }
    }

    pub fn pipe(&mut self) -> &mut Pipe {
        match &mut self.wire {
            Wire::Pipe(pipe) => pipe,
            Wire::Link(_) => panic!("this world has a link"),
        }
    }

    pub fn connect(&mut self) {
        self.pipe().connected = true;
        self.near.handle_input(self.now, Input::Connected);
        self.far.handle_input(self.now, Input::Connected);
    }

    /// The connection breaks; what was in flight is gone.
    pub fn break_pipe(&mut self) {
        let pipe = self.pipe();
        pipe.connected = false;
        pipe.flight = Default::default();
        self.near.handle_input(self.now, Input::Broken(BrokenReason::Unreachable));
        self.far.handle_input(self.now, Input::Broken(BrokenReason::Unreachable));
    }

    /// Runs to the end of both stations, or to `limit`.
    pub fn run(&mut self, limit: Instant) {
        self.run_while(limit, |world| !(world.near.is_finished() && world.far.is_finished()));
    }

    pub fn run_until(&mut self, until: Instant) {
        self.run_while(until, |_| true);
        self.now = self.now.max(until);
    }

    /// Event by event, as long as `on` says and something is to happen before `until`.
    pub fn run_while(&mut self, until: Instant, on: impl Fn(&Self) -> bool) {
        let mut idle_rounds = 0;
        loop {
            self.settle();
            let Some(next) = self.next_event().filter(|next| *next <= until && on(self)) else { return };
            // A time-out that does not move is a busy loop in a real driver.
            idle_rounds = if next > self.now { 0 } else { idle_rounds + 1 };
            assert!(idle_rounds < 1000, "a time-out that never goes away");
            self.now = self.now.max(next);
            if let Some((rng, most)) = &mut self.sleepy {
                self.now += most.mul_f64(rng.unit());
            }
            self.deliver();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let wire = match &self.wire {
            Wire::Link(link) => link.poll_timeout(),
            Wire::Pipe(pipe) => pipe.flight.iter().filter_map(|way| Some(way.front()?.0)).min(),
        };
        let near = if self.near.is_finished() { None } else { self.near.poll_timeout() };
        let far = if self.far.is_finished() { None } else { self.far.poll_timeout() };
        [wire, near, far].into_iter().flatten().min()
    }

    /// Twice, since what was sent has an outcome that a station may be waiting for.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.near.advance(self.now);
            self.transmit(0);
            self.far.advance(self.now);
            self.transmit(1);
        }
    }

    fn transmit(&mut self, way: usize) {
        loop {
            let mut buf = vec![0; MAX_DATAGRAM];
            if let Wire::Pipe(pipe) = &self.wire {
                buf.truncate(pipe.room.saturating_sub(pipe.held(way)));
                if !pipe.connected || buf.is_empty() {
                    return;
                }
            }
            let station: &mut dyn Station = if way == 0 { &mut self.near } else { &mut self.far };
            let Some(transmit) = station.poll_transmit(self.now, &mut buf) else { return };
            buf.truncate(transmit.len);
            if way == 0 {
                self.sent_up += 1;
                if self.drop_up.as_mut().is_some_and(|drop| drop(self.sent_up - 1, &buf)) {
                    continue;
                }
            } else if !matches!(transmit.path, NEAR | PathId(0)) {
                // To somebody who is not in this world.
                continue;
            } else {
                self.sent_down += 1;
                if self.drop_down.as_mut().is_some_and(|drop| drop(self.sent_down - 1, &buf)) {
                    continue;
                }
            }
            match &mut self.wire {
                Wire::Link(link) => {
                    let direction = if way == 0 { Direction::Up } else { Direction::Down };
                    link.offer(self.now, direction, buf);
                }
                Wire::Pipe(pipe) => pipe.push(way, self.now, buf),
            }
        }
    }

    fn deliver(&mut self) {
        match &mut self.wire {
            Wire::Link(link) => {
                while let Some((direction, bytes)) = link.poll(self.now) {
                    let up = direction == Direction::Up;
                    let station: &mut dyn Station = if up { &mut self.far } else { &mut self.near };
                    station.handle_input(
                        self.now,
                        datagram(&bytes, if up { NEAR } else { PathId(0) }, self.now),
                    );
                }
            }
            Wire::Pipe(pipe) => {
                for way in 0..2 {
                    while pipe.flight[way].front().is_some_and(|(at, _)| *at <= self.now) {
                        let Some((at, bytes)) = pipe.flight[way].pop_front() else { break };
                        let input = Input::Stream { bytes: &bytes, received_at: at };
                        match way {
                            0 => self.far.handle_input(self.now, input),
                            _ => self.near.handle_input(self.now, input),
                        }
                    }
                }
            }
        }
    }
}

pub fn datagram(bytes: &[u8], path: PathId, now: Instant) -> Input<'_> {
    Input::Datagram { path, bytes, ecn: Ecn::NotCapable, received_at: now }
}

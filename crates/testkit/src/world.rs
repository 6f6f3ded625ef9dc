//! Two participants and what lies between them, in virtual time that jumps to the next event.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    BrokenReason, Endpoint, Input, Instant, Participant, PathId, Pumped, Rng, WireId, Wires, pump,
};
use antiphon_link::{Direction, Duplex};

use crate::parties::Parties;
use crate::party::Party;
use crate::wires::{Datagram, Leaves, Leaving, Pipe, Shown, Side, Trouble, Wire, duplexes};

/// The first path of the near end, as the far end sees it unless [`World::near_path`] says otherwise.
pub const NEAR: PathId = PathId(7);

/// So many milliseconds.
pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A datagram that arrives.
pub fn datagram(bytes: &mut [u8], path: PathId, now: Instant) -> Input<'_> {
    Input::Datagram { path, bytes, received_at: now }
}

/// Two participants, the near one of which calls.
pub struct World<A, B> {
    /// Virtual time.
    pub now: Instant,
    /// The caller.
    pub near: A,
    /// The listener.
    pub far: B,
    /// The links between them.
    pub wire: Wire,
    /// Towards the far end.
    pub up: Trouble,
    /// Back.
    pub down: Trouble,
    /// A driver that is woken late, by up to so much.
    pub sleepy: Option<(Rng, Duration)>,
    /// The largest datagram.
    pub most: usize,
    /// Is shown each datagram of a link as it arrives, and which way it came.
    pub arrivals: Option<Shown>,
    /// Is shown each datagram as it leaves.
    pub leaves: Option<Leaves>,
    /// The first path of the near end, as the far end sees it.
    pub near_path: PathId,
    /// Bytes of the headers below datagrams that count on the link.
    pub headers: usize,
    /// Each wire of the near end leads to the same wire of the far end, and not all of them to the first.
    wires_apart: bool,
    /// The far end's wire of the connection.
    accepted: Option<WireId>,
    /// Of each end, the wire that the full pipe took no more of.
    full: [Option<WireId>; 2],
}

/// The wire that both ends begin with.
const WIRE: WireId = WireId(0);

impl<A: Participant, B: Participant> World<A, B> {
    /// Over one datagram link.
    pub fn linked(near: A, far: B, link: &str, seed: u64) -> Self {
        Self::over_links(near, far, &[link], seed)
    }

    /// Over a datagram link for each path of the near end.
    pub fn over_links(near: A, far: B, links: &[&str], seed: u64) -> Self {
        Self::with(near, far, Wire::Links(duplexes(links, seed)))
    }

    /// Over a byte pipe, connected from the start.
    pub fn piped(near: A, far: B, delay: Duration, room: usize) -> Self {
        let mut world = Self::with(near, far, Wire::Pipe(Pipe::new(delay, room)));
        world.connect();
        world
    }

    fn with(near: A, far: B, wire: Wire) -> Self {
        World {
            now: Instant::from_millis(1),
            near,
            far,
            wire,
            up: Trouble::default(),
            down: Trouble::default(),
            sleepy: None,
            most: 1452,
            arrivals: None,
            leaves: None,
            near_path: NEAR,
            headers: 0,
            wires_apart: false,
            accepted: None,
            full: [None; 2],
        }
    }

    /// The link of the first path.
    pub fn link(&self) -> &Duplex<Datagram> {
        match &self.wire {
            Wire::Links(links) => &links[0],
            Wire::Pipe(_) => panic!("this world has a pipe"),
        }
    }

    /// Replaces the links; packets in flight are lost.
    pub fn relink(&mut self, links: &[&str], seed: u64) {
        self.wire = Wire::Links(duplexes(links, seed));
    }

    /// Nothing passes in this time, either way.
    pub fn outage(&mut self, time: Range<Instant>) {
        let paths: Vec<u32> = match &mut self.wire {
            Wire::Links(links) => (0..links.len() as u32).collect(),
            Wire::Pipe(pipe) => return pipe.stall = Some((time.start, time.end)),
        };
        for trouble in [&mut self.up, &mut self.down] {
            trouble.outages.push((time.clone(), paths.clone()));
        }
    }

    /// Nothing longer passes in this time, either way.
    pub fn narrow(&mut self, time: Range<Instant>, most: usize) {
        self.up.tunnel = Some((time.clone(), most));
        self.down.tunnel = Some((time, most));
    }

    /// What `note` makes of each datagram as it leaves, in that order; all go on their way.
    pub fn log<T: 'static>(
        &mut self,
        mut note: impl FnMut(&Leaving<'_>) -> T + 'static,
    ) -> Rc<RefCell<Vec<T>>> {
        let log = Rc::new(RefCell::new(Vec::new()));
        let noted = log.clone();
        self.leaves = Some(Box::new(move |leaving| {
            noted.borrow_mut().push(note(leaving));
            true
        }));
        log
    }

    /// The pipe.
    pub fn pipe(&mut self) -> &mut Pipe {
        match &mut self.wire {
            Wire::Pipe(pipe) => pipe,
            Wire::Links(_) => panic!("this world has links"),
        }
    }

    /// The far end's wire of the connection; the one that it listens on, where there is none.
    pub fn far_wire(&self) -> WireId {
        self.accepted.unwrap_or(WIRE)
    }

    /// A connection is made, and offered to the far end.
    pub fn connect(&mut self) {
        self.pipe().connected = true;
        self.accepted = self.far.accept(self.now, WIRE);
        self.near.handle_input(self.now, WIRE, Input::Connected);
        if let Some(wire) = self.accepted {
            self.far.handle_input(self.now, wire, Input::Connected);
        }
    }

    /// The connection breaks; bytes in flight are lost.
    pub fn break_pipe(&mut self) {
        let pipe = self.pipe();
        pipe.connected = false;
        pipe.flight = Default::default();
        self.near.handle_input(self.now, WIRE, Input::Broken(BrokenReason::Unreachable));
        if let Some(wire) = self.accepted.take() {
            self.far.handle_input(self.now, wire, Input::Broken(BrokenReason::Unreachable));
        }
    }

    /// Runs to the end of both, or to `limit`.
    pub fn run(&mut self, limit: Instant) {
        self.run_while(limit, |world| !(world.near.is_finished() && world.far.is_finished()));
    }

    /// Runs until then.
    pub fn run_until(&mut self, until: Instant) {
        self.run_while(until, |_| true);
        self.now = self.now.max(until);
    }

    /// Event by event, as long as `on` says and something is to happen before `until`.
    pub fn run_while(&mut self, until: Instant, mut on: impl FnMut(&Self) -> bool) {
        let mut idle_rounds = 0;
        loop {
            self.settle();
            let Some(next) = self.next_event().filter(|next| *next <= until && on(self)) else { return };
            // What a link hands from one stage to the next at this instant; never a participant's time-out, see
            // `settle`.
            idle_rounds = if next > self.now { 0 } else { idle_rounds + 1 };
            assert!(idle_rounds < 1000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            if let Some((rng, most)) = &mut self.sleepy {
                self.now += most.mul_f64(rng.unit());
            }
            self.deliver();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let opens = |trouble: &Trouble| trouble.full_until.filter(|until| *until > self.now);
        let wire = match &self.wire {
            Wire::Links(links) => links.iter().filter_map(Duplex::poll_timeout).min(),
            // What came before now waits for a participant that takes nothing.
            Wire::Pipe(pipe) => {
                let front = |way: &VecDeque<(Instant, Vec<u8>)>| way.front().map(|(at, _)| *at);
                pipe.flight.iter().filter_map(front).filter(|at| *at > self.now).min()
            }
        };
        let near = if self.near.is_finished() { None } else { self.near.poll_timeout() };
        let far = if self.far.is_finished() { None } else { self.far.poll_timeout() };
        [wire, near, far, opens(&self.up), opens(&self.down)].into_iter().flatten().min()
    }

    fn settle(&mut self) {
        let World { now, near, far, wire, up, down, most, near_path, full, leaves, headers, .. } = self;
        for (way, trouble) in [up, down].into_iter().enumerate() {
            let end: &mut dyn Participant = if way == 0 { near } else { far };
            let first = if way == 0 { 0 } else { near_path.0 };
            let was_full = full[way].take();
            let (full, leaves) = (&mut full[way], &mut *leaves);
            let (wire, buf) = (&mut *wire, vec![0; *most]);
            let mut wires = Side { wire, way, trouble, buf, headers: *headers, first, full, leaves };
            // It flushes by itself when it has room again.
            was_full.into_iter().for_each(|id| wires.flush(*now, id, end));
            let pumped = pump(end, *now, &mut wires);
            assert!(matches!(pumped, Pumped::Quiet(_)), "a participant is never quiet at {now:?}");
        }
    }

    fn deliver(&mut self) {
        let (now, accepted) = (self.now, self.accepted);
        match &mut self.wire {
            Wire::Links(links) => {
                for (n, link) in links.iter_mut().enumerate() {
                    while let Some((direction, Datagram { wire, mut bytes, .. })) = link.poll(now) {
                        let wire = if self.wires_apart { wire } else { WIRE };
                        if let Some(shown) = &mut self.arrivals {
                            shown(direction, &bytes);
                        }
                        if direction == Direction::Up {
                            let path = PathId(self.near_path.0 + n as u32);
                            self.far.handle_input(now, wire, datagram(&mut bytes, path, now));
                        } else {
                            self.near.handle_input(now, wire, datagram(&mut bytes, PathId(n as u32), now));
                        }
                    }
                }
            }
            Wire::Pipe(pipe) => {
                for way in 0..2 {
                    let takes = match (way, accepted) {
                        (0, Some(wire)) => self.far.takes(wire),
                        (0, None) => true,
                        _ => self.near.takes(WIRE),
                    };
                    while takes && pipe.flight[way].front().is_some_and(|(at, _)| *at <= now) {
                        let Some((at, mut bytes)) = pipe.flight[way].pop_front() else { break };
                        let input = Input::Stream { bytes: &mut bytes, received_at: at };
                        match (way, accepted) {
                            (0, Some(wire)) => self.far.handle_input(now, wire, input),
                            (0, None) => {}
                            _ => self.near.handle_input(now, WIRE, input),
                        }
                    }
                }
            }
        }
    }
}

impl<E: Endpoint + ?Sized, F: Endpoint + ?Sized> World<Parties<E>, Parties<F>> {
    /// Each party with the one of the same number at the other side, all over the same links.
    pub fn side_by_side(
        near: impl IntoIterator<Item = Party<E>>,
        far: impl IntoIterator<Item = Party<F>>,
        links: &[&str],
        seed: u64,
    ) -> Self {
        let world = Self::over_links(Parties::new(near), Parties::new(far), links, seed);
        // These are endpoints without a table of associations, which number paths from 0 themselves.
        World { wires_apart: true, near_path: PathId(0), ..world }
    }
}

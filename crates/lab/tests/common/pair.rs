//! Two endpoints and the link between them, driven in virtual time.
#![allow(dead_code, reason = "each test uses a part of it")]

use antiphon_core::Instant;
use antiphon_link::{Direction, Duplex, DuplexSpec, SpecError};

use antiphon_lab::tcp::{Profile, Segment, Tcp};

/// A connection over a link: the caller at the near end, the listener at the far end.
pub struct Pair {
    /// The caller.
    pub near: Tcp,
    /// The listener.
    pub far: Tcp,
    /// An outage: segments are lost before the link, which does not count them.
    pub dark: bool,
    link: Duplex<Segment>,
    now: Instant,
}

impl Pair {
    /// A connection about to be opened at the beginning of the run. Fails if the link's settings contradict each other.
    pub fn new(near: Profile, far: Profile, link: &DuplexSpec, seed: u64) -> Result<Self, SpecError> {
        let link = Duplex::new(link, seed)?;
        Ok(Pair { near: Tcp::connect(near), far: Tcp::accept(far), dark: false, link, now: Instant::ZERO })
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The link, for its counters.
    pub fn link(&self) -> &Duplex<Segment> {
        &self.link
    }

    /// When the next event is due, if any is.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ends = self.near.poll_timeout().into_iter().chain(self.far.poll_timeout());
        ends.chain(self.link.poll_timeout()).min()
    }

    /// Moves time to `at` (not back) and does what is due then: arrivals, time-outs, sending.
    pub fn step(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let now = self.now;
        while let Some((direction, segment)) = self.link.poll(now) {
            match direction {
                Direction::Up => self.near.recycle(self.far.handle_segment(now, segment)),
                Direction::Down => self.far.recycle(self.near.handle_segment(now, segment)),
            }
            self.transmit();
        }
        for end in [&mut self.near, &mut self.far] {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now);
            }
        }
        self.transmit();
    }

    /// Sends what both ends have ready: call it after writing or reading between steps.
    pub fn transmit(&mut self) {
        while let Some(segment) = self.near.poll_transmit(self.now) {
            if self.dark {
                self.near.recycle(segment.payload);
                continue;
            }
            if let Some(refused) = self.link.offer(self.now, Direction::Up, segment) {
                self.near.recycle(refused.payload);
            }
        }
        while let Some(segment) = self.far.poll_transmit(self.now) {
            if self.dark {
                self.far.recycle(segment.payload);
                continue;
            }
            if let Some(refused) = self.link.offer(self.now, Direction::Down, segment) {
                self.far.recycle(refused.payload);
            }
        }
    }

    /// Runs, event by event, up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.transmit();
        while let Some(at) = self.poll_timeout().filter(|at| *at <= until) {
            self.step(at);
        }
        self.step(until);
    }
}

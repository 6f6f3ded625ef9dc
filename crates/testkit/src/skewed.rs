//! Participants with clocks of their own.

use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, Transmit, WireId};

/// A clock that differs from the world's.
#[derive(Clone, Copy)]
pub struct Skew {
    /// How much faster it runs, in ppm.
    pub ppm: f64,
    /// By how much it was ahead at the world's beginning.
    pub ahead: Duration,
}

impl Skew {
    /// What it shows when the world's clock shows `world`.
    pub fn local(self, world: Instant) -> Instant {
        let nanos = world.as_nanos() as f64 * (1.0 + self.ppm / 1e6);
        Instant::from_nanos(nanos as u64) + self.ahead
    }

    /// The first instant of the world at which it shows `local`.
    pub fn world(self, local: Instant) -> Instant {
        let nanos = local.since(Instant::ZERO + self.ahead).as_nanos() as f64 / (1.0 + self.ppm / 1e6);
        let mut at = Instant::from_nanos(nanos as u64);
        while self.local(at) < local {
            at += Duration::from_nanos(1);
        }
        at
    }
}

/// A participant whose clock is not the world's.
pub struct Skewed<P> {
    /// The participant.
    pub participant: P,
    /// Its clock.
    pub clock: Skew,
}

impl<P: Participant> Participant for Skewed<P> {
    fn handle_input(&mut self, now: Instant, wire: WireId, mut input: Input<'_>) {
        if let Input::Datagram { received_at, .. } | Input::Stream { received_at, .. } = &mut input {
            *received_at = self.clock.local(*received_at);
        }
        self.participant.handle_input(self.clock.local(now), wire, input);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.participant.accept(self.clock.local(now), listener)
    }

    fn advance(&mut self, now: Instant) {
        self.participant.advance(self.clock.local(now));
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.participant.poll_ready()
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.participant.poll_transmit(self.clock.local(now), wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.participant.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.participant.poll_timeout().map(|due| self.clock.world(due))
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.participant.knows(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        self.participant.takes(wire)
    }

    fn stop(&mut self, now: Instant) {
        self.participant.stop(self.clock.local(now));
    }

    fn is_finished(&self) -> bool {
        self.participant.is_finished()
    }
}

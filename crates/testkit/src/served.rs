//! A participant of one wire that is called over connections.

use std::ops::{Deref, DerefMut};

use antiphon_core::{Input, Instant, OneWire, Participant, PathId, Single, Transmit, WireId};

/// A [`OneWire`] that takes connections on the listening wire [`Served::LISTENER`], one at a time: while there is one, others
/// are refused, and after it the next one goes on with the same participant.
pub struct Served<T> {
    inner: Single<T>,
    taken: bool,
}

impl<T: OneWire> Served<T> {
    /// The listening wire.
    pub const LISTENER: WireId = WireId(0);
    /// The wire of the connection.
    pub const WIRE: WireId = WireId(1);

    /// `inner`, which waits for a connection.
    pub fn new(inner: T) -> Self {
        Served { inner: Single::new(inner), taken: false }
    }

    /// What it is made of.
    pub fn get(&self) -> &T {
        self.inner.get()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: OneWire> Deref for Served<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T: OneWire> DerefMut for Served<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.get_mut()
    }
}

impl<T: OneWire> Participant for Served<T> {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.taken &= !matches!(input, Input::Broken(_));
        self.inner.handle_input(now, wire, input);
    }

    fn accept(&mut self, _now: Instant, listener: WireId) -> Option<WireId> {
        (listener == Self::LISTENER && !std::mem::replace(&mut self.taken, true)).then_some(Self::WIRE)
    }

    fn advance(&mut self, now: Instant) {
        self.inner.advance(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.inner.poll_ready().map(|_| Self::WIRE)
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.inner.poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.inner.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.inner.knows(wire, path)
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, now: Instant) {
        self.inner.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

//! Participants with a single wire: loads of the laboratory, and participants of tests.

use crate::endpoint::{Endpoint, handle_due};
use crate::event::CloseMode;
use crate::input::{Input, PathId, Transmit};
use crate::participant::{Participant, WireId, sooner};
use crate::time::Instant;

/// A participant with one wire; [`Single`] turns it into a [`Participant`].
pub trait OneWire {
    /// Handles an event on the wire. On a wire with many peers, a datagram's path says which peer sent it.
    fn handle_input(&mut self, now: Instant, input: Input<'_>);

    /// Does what is due: time-outs, messages fetched and passed on, sound moved.
    fn advance(&mut self, now: Instant);

    /// Writes the next datagram or stream bytes into `buf`; see `Endpoint::poll_transmit`.
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit>;

    /// When [`advance`](Self::advance) is to be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Requests an orderly end; it finishes soon after.
    fn stop(&mut self, now: Instant);

    /// Whether nothing is left to do.
    fn is_finished(&self) -> bool;

    /// Whether a datagram from `path` belongs to an existing association. Drivers ask before they forget an address.
    fn knows(&self, path: PathId) -> bool {
        path == PathId::default()
    }
}

/// A [`OneWire`] above one endpoint, with no wire handling of its own: it handles messages and events.
pub trait OnEndpoint {
    /// The endpoint below.
    fn endpoint(&self) -> &dyn Endpoint;

    /// The endpoint below, mutable.
    fn endpoint_mut(&mut self) -> &mut dyn Endpoint;

    /// Fetches the endpoint's output, and hands over what is due. The endpoint's time-outs have been handled.
    fn work(&mut self, now: Instant);

    /// When there is [`work`](Self::work) of which the endpoint does not know.
    fn next_work(&self) -> Option<Instant> {
        None
    }

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool {
        false
    }
}

impl<T: OnEndpoint> OneWire for T {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint_mut().handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        handle_due(self.endpoint_mut(), now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint_mut().poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.next_work(), self.endpoint().poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint_mut().close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.is_over()
    }
}

/// A borrowed participant: a driver wraps it in a [`Single`] while it runs.
pub struct Lent<'a>(pub &'a mut dyn OneWire);

impl OneWire for Lent<'_> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.0.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.0.advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.0.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.0.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.0.knows(path)
    }
}

/// A participant of the one wire [`Single::WIRE`].
#[derive(Debug)]
pub struct Single<T> {
    inner: T,
    /// Its wire has not been polled since a change.
    ready: bool,
    /// Something was sent since the last `advance`: there may be an outcome, which may make more ready.
    touched: bool,
}

impl<T: OneWire> Single<T> {
    /// The wire.
    pub const WIRE: WireId = WireId(0);

    /// A participant that behaves as `inner` does.
    pub fn new(inner: T) -> Self {
        Single { inner, ready: true, touched: false }
    }

    /// The inner participant.
    pub fn get(&self) -> &T {
        &self.inner
    }

    /// The inner participant, mutable.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Takes the inner participant out.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: OneWire> Participant for Single<T> {
    fn handle_input(&mut self, now: Instant, _wire: WireId, input: Input<'_>) {
        self.inner.handle_input(now, input);
        self.touched = true;
    }

    fn accept(&mut self, _now: Instant, _listener: WireId) -> Option<WireId> {
        None
    }

    fn advance(&mut self, now: Instant) {
        self.touched = false;
        self.inner.advance(now);
        self.ready = true;
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        std::mem::take(&mut self.ready).then_some(Self::WIRE)
    }

    fn poll_transmit(&mut self, now: Instant, _wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let sent = self.inner.poll_transmit(now, buf);
        self.touched |= sent.is_some();
        sent
    }

    fn poll_close(&mut self) -> Option<WireId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.touched { Some(Instant::ZERO) } else { self.inner.poll_timeout() }
    }

    fn knows(&self, _wire: WireId, path: PathId) -> bool {
        self.inner.knows(path)
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, now: Instant) {
        self.inner.stop(now);
        self.touched = true;
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

//! Endpoints around endpoints: framing, encryption, observation.

use crate::endpoint::{Endpoint, Profile};
use crate::event::{CloseMode, Event};
use crate::input::{Input, PathId, Transmit};
use crate::message::{Message, Received, SendError};
use crate::stats::PathStats;
use crate::time::Instant;

/// An endpoint around an endpoint: implements its changes, and forwards everything else.
///
/// Each hook stands for one method of [`Endpoint`], which the implementation below gives every layer. A hook that is
/// not overridden forwards to the inner endpoint. Every method has a hook, so that no call bypasses a layer.
pub trait Layer {
    /// The inner endpoint.
    fn inner(&self) -> &dyn Endpoint;

    /// The inner endpoint, mutable.
    fn inner_mut(&mut self) -> &mut dyn Endpoint;

    /// [`Endpoint::profile`]: derives the layer's from the `inner` endpoint's.
    fn on_profile(&self, inner: Profile) -> Profile {
        inner
    }

    /// [`Endpoint::reserve`].
    fn on_reserve(&mut self, messages: usize) {
        self.inner_mut().reserve(messages);
    }

    /// [`Endpoint::send`].
    fn on_send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        self.inner_mut().send(now, message)
    }

    /// [`Endpoint::close`].
    fn on_close(&mut self, now: Instant, mode: CloseMode) {
        self.inner_mut().close(now, mode);
    }

    /// [`Endpoint::handle_input`].
    fn on_input(&mut self, now: Instant, input: Input<'_>) {
        self.inner_mut().handle_input(now, input);
    }

    /// [`Endpoint::handle_timeout`].
    fn on_timeout(&mut self, now: Instant) {
        self.inner_mut().handle_timeout(now);
    }

    /// [`Endpoint::poll_transmit`].
    fn on_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.inner_mut().poll_transmit(now, buf)
    }

    /// [`Endpoint::poll_message`].
    fn on_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inner_mut().poll_message(buf)
    }

    /// [`Endpoint::poll_event`].
    fn on_event(&mut self) -> Option<Event> {
        self.inner_mut().poll_event()
    }

    /// [`Endpoint::poll_timeout`].
    fn next_timeout(&self) -> Option<Instant> {
        self.inner().poll_timeout()
    }

    /// [`Endpoint::stats`]: derives the layer's from the `inner` endpoint's.
    fn on_stats(&self, inner: PathStats) -> PathStats {
        inner
    }

    /// [`Endpoint::path_stats`].
    fn on_path_stats(&self, path: PathId) -> Option<PathStats> {
        self.inner().path_stats(path)
    }
}

impl<L: Layer> Endpoint for L {
    fn profile(&self) -> Profile {
        self.on_profile(self.inner().profile())
    }

    fn reserve(&mut self, messages: usize) {
        self.on_reserve(messages);
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        self.on_send(now, message)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        self.on_close(now, mode);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.on_input(now, input);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.on_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.on_transmit(now, buf)
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.on_message(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.on_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_timeout()
    }

    fn stats(&self) -> PathStats {
        self.on_stats(self.inner().stats())
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        self.on_path_stats(path)
    }
}

#[cfg(test)]
mod tests;

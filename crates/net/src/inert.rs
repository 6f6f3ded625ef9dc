//! A participant for unit tests of lines, which does nothing by itself but send, if it is to.

use antiphon_core::OneWire;
use antiphon_core::{Input, Instant, PathId, Single, Transmit, WireId, WireView};

/// Counts what it is told of connections.
#[derive(Default)]
pub(crate) struct Inert {
    pub connected: u32,
    pub broken: u32,
    /// It has this many paths, from 0 on.
    pub known: u32,
    /// It always has a message of so many bytes to send; 0: none.
    pub message: usize,
}

impl OneWire for Inert {
    fn handle_input(&mut self, _now: Instant, input: Input<'_>) {
        self.connected += u32::from(matches!(input, Input::Connected));
        self.broken += u32::from(matches!(input, Input::Broken(_)));
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let len = self.message.min(buf.len());
        buf[..len].fill(7);
        (len > 0).then_some(Transmit { path: PathId::default(), len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        false
    }

    fn knows(&self, path: PathId) -> bool {
        path.0 < self.known
    }
}

/// The participant, as a line gets it.
pub(crate) fn on(inert: &mut Single<Inert>) -> WireView<'_> {
    WireView::new(inert, WireId::default())
}

//! A participant for unit tests of lines, which does nothing by itself.

use antiphon_core::OneWire;
use antiphon_core::{Input, Instant, PathId, Single, Transmit, WireId, WireView};

/// Sends nothing, and counts what it is told of connections.
#[derive(Default)]
pub(crate) struct Inert {
    pub connected: u32,
    pub broken: u32,
    /// It has this many paths, from 0 on.
    pub known: u32,
}

impl OneWire for Inert {
    fn handle_input(&mut self, _now: Instant, input: Input<'_>) {
        self.connected += u32::from(matches!(input, Input::Connected));
        self.broken += u32::from(matches!(input, Input::Broken(_)));
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
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

//! The validator of transports without address validation.

use antiphon_core::{ConnectionId, Instant, PathId, StreamPlace, Validator, Verdict};

/// Accepts the first datagram that has the form of a beginning association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByLooks {
    /// Whether a datagram has that form.
    pub begins: fn(&[u8]) -> bool,
    /// Where a datagram stands in its stream.
    pub place: fn(&[u8]) -> Option<StreamPlace>,
}

impl Validator for ByLooks {
    fn validate(&mut self, _now: Instant, _path: PathId, datagram: &[u8], _out: &mut [u8]) -> Verdict {
        if (self.begins)(datagram) { Verdict::Accept } else { Verdict::Ignore }
    }

    fn release(&mut self) {}

    fn flow_label(&self, _datagram: &[u8]) -> u16 {
        0
    }

    fn id_of(&self, _datagram: &[u8]) -> Option<ConnectionId> {
        None
    }

    fn place_of(&self, datagram: &[u8]) -> Option<StreamPlace> {
        (self.place)(datagram)
    }
}

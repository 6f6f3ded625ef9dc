//! The dissector of transports whose datagrams can be read independently.

use antiphon_core::{Dissected, Dissector};

/// Shows the messages that a function finds in each datagram, without state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EachDatagram(pub Dissect);

/// Hands what is in a datagram to a function.
type Dissect = fn(&[u8], &mut dyn FnMut(Dissected<'_>));

impl Dissector for EachDatagram {
    fn dissect(&mut self, datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
        (self.0)(datagram, each);
    }

    fn stream_header(&self) -> Option<usize> {
        None
    }

    fn message_len(&self, _header: &[u8]) -> usize {
        0
    }
}

//! The dissector of transports whose datagrams can be read independently.

use antiphon_core::{Dissected, Dissector};

/// Shows the messages that a function finds in each datagram, without state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EachDatagram {
    dissect: Dissect,
    priority: Priority,
}

/// Hands what is in a datagram to a function.
type Dissect = fn(&[u8], &mut dyn FnMut(Dissected<'_>));
/// Reads the priority in a datagram's header.
type Priority = fn(&[u8]) -> Option<u16>;

impl EachDatagram {
    /// Of a transport whose packets have no priority.
    pub const fn new(dissect: Dissect) -> Self {
        EachDatagram { dissect, priority: |_| None }
    }

    /// The same with a priority in the packets' header.
    pub const fn with_priority(self, priority: Priority) -> Self {
        EachDatagram { priority, ..self }
    }
}

impl Dissector for EachDatagram {
    fn dissect(&mut self, datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
        (self.dissect)(datagram, each);
    }

    fn stream_header(&self) -> Option<usize> {
        None
    }

    fn message_len(&self, _header: &[u8]) -> usize {
        0
    }

    fn priority(&self, datagram: &[u8]) -> Option<u16> {
        (self.priority)(datagram)
    }
}

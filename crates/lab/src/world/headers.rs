//! What a stream's datagrams carry, and what they count on media and processors.

use antiphon_core::{Dissected, Dissector, Stack};

use super::packet::UDP_HEADERS;
use crate::setup::Headers;

/// Reads what is sent.
pub struct Reader {
    /// `None`: each datagram is a message.
    dissector: Option<Box<dyn Dissector>>,
    headers: Headers,
}

/// What a datagram counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Bytes of its packet, headers from IP on included.
    pub len: usize,
    /// It carries no data of its user.
    pub control: bool,
    /// The priority in its header.
    pub priority: Option<u16>,
}

impl Reader {
    /// A reader of datagrams of `stack`; `bare`: they are its messages.
    pub fn new(stack: &dyn Stack, bare: bool, headers: Headers) -> Self {
        Reader { dissector: (!bare).then(|| stack.dissector()), headers }
    }

    /// What a datagram counts.
    pub fn read(&mut self, datagram: &[u8]) -> Counted {
        let (data, priority) = match &mut self.dissector {
            None => (datagram.len(), None),
            Some(dissector) => (data_in(&mut **dissector, datagram), dissector.priority(datagram)),
        };
        let control = data == 0;
        let len = match self.headers {
            Headers::AsSent => datagram.len() + UDP_HEADERS,
            Headers::Xtp36 if control => XTP36_CONTROL,
            Headers::Xtp36 => data + XTP36_DATA,
        };
        Counted { len, control, priority }
    }
}

/// Bytes of the user in a datagram.
fn data_in(dissector: &mut dyn Dissector, datagram: &[u8]) -> usize {
    let mut data = 0;
    dissector.dissect(datagram, &mut |part| {
        data += match part {
            Dissected::Fragment(fragment) => fragment.bytes.len(),
            Dissected::Part(bytes) => bytes.len(),
            Dissected::Packet(_) => 0,
        };
    });
    data
}

/// Header and trailer of XTP 3.6 (Weaver and McNabb 1992, section 3).
const XTP36_DATA: usize = 40 + 4;
/// With a control segment: the paper's 117 bytes on the ring, less the ring's 25.
const XTP36_CONTROL: usize = 117 - 25;

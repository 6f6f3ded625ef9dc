//! Contents of a transport's datagrams, for analysers that do not know the transport.

use crate::over_ip::OverIp;

/// Dissects the datagrams of a transport.
///
/// Each transport provides one, based only on its wire format, so that a capture needs to know no transport. Its input
/// may be hostile: it shows the parts that it understands, and never panics. It runs on the capture's thread.
pub trait Dissector: Send {
    /// Hands the contents of a datagram to `each`, in their order in the datagram. Hands over nothing if the datagram
    /// is a message as the application made it.
    fn dissect(&mut self, datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>));

    /// Bytes of the header before each message on a byte stream, at least one; `None` if messages have no such header.
    fn stream_header(&self) -> Option<usize>;

    /// Length in bytes of the message after a stream's `header`, which is complete. Zero: there is no message.
    fn message_len(&self, header: &[u8]) -> usize;

    /// The priority in a datagram's header, 0 the most urgent: what a router may go by. `None` if it has none.
    fn priority(&self, datagram: &[u8]) -> Option<u16>;
}

/// The dissector of transports whose datagrams are messages: nothing to dissect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plain;

impl Dissector for Plain {
    fn dissect(&mut self, _datagram: &[u8], _each: &mut dyn FnMut(Dissected<'_>)) {}

    fn stream_header(&self) -> Option<usize> {
        None
    }

    fn message_len(&self, _header: &[u8]) -> usize {
        0
    }

    fn priority(&self, _datagram: &[u8]) -> Option<u16> {
        None
    }
}

/// A part of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Dissected<'a> {
    /// The transport's packet as it would travel directly over IP.
    Packet(OverIpPacket<'a>),
    /// A message or a part of one.
    Fragment(Fragment<'a>),
    /// Bytes of a message that was cut, where nothing numbers its parts.
    Part(&'a [u8]),
}

/// A packet of an IP protocol of its own, taken out of UDP.
#[derive(Clone, Copy, Debug)]
pub struct OverIpPacket<'a> {
    /// Its protocol; writes the checksum that covers the addresses into a copy of the packet.
    pub over_ip: &'a dyn OverIp,
    /// The packet, its own ports included.
    pub bytes: &'a [u8],
}

/// A message or a part of one. The parts of a message are numbered consecutively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// The number space of `number`, among those between the same two addresses in the same direction.
    pub line: u128,
    /// Its number, wrapping. A fragment with equal contents and number is a repetition.
    pub number: u32,
    /// Whether it is the first part of the message.
    pub first: bool,
    /// Whether it is the last part of the message.
    pub last: bool,
    /// The message's bytes.
    pub bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// A message in one piece.
    pub fn whole(line: u128, number: u32, bytes: &'a [u8]) -> Self {
        Fragment { line, number, first: true, last: true, bytes }
    }
}

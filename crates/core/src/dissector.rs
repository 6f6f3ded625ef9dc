//! Contents of a transport's datagrams, for analysers that do not know the transport.

use crate::over_ip::OverIp;

/// How to look into what a transport puts on the wire.
///
/// Each transport brings one, from its wire format alone, so that a capture knows no transport.
/// Its input may be hostile: it shows the parts that it understands, and never panics. It runs on the capture's thread.
pub trait Dissector: Send {
    /// Hands what is in a datagram to `each`, in the order in which it stands there. Nothing, where a datagram is a message as
    /// the application made it.
    fn dissect(&mut self, datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>));

    /// Bytes of the header before each message on a byte stream, at least one; `None` where messages do not stand so on one.
    fn stream_header(&self) -> Option<usize>;

    /// Bytes of the message behind a stream's `header`, which is whole. Zero: there is none.
    fn message_len(&self, header: &[u8]) -> usize;
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
}

/// Something in a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Dissected<'a> {
    /// The transport's packet as it would travel directly over IP.
    Packet(OverIpPacket<'a>),
    /// A message or a part of one.
    Fragment(Fragment<'a>),
}

/// A packet of an IP protocol of its own, taken out of UDP.
#[derive(Clone, Copy, Debug)]
pub struct OverIpPacket<'a> {
    /// Its protocol, which knows how to write the checksum that covers the addresses into a copy of the packet.
    pub over_ip: &'a dyn OverIp,
    /// The packet, ports of its own included.
    pub bytes: &'a [u8],
}

/// A message or a part of one. The parts of a message have numbers that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// Which numbering `number` belongs to, of those between the same two addresses in the same direction.
    pub line: u128,
    /// Its number, wrapping. An equal piece with the same number is a repetition.
    pub number: u32,
    /// Whether the message begins with it.
    pub first: bool,
    /// Whether the message ends with it.
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

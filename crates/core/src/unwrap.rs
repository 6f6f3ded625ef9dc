//! What is inside a transport's datagrams, for analysers that don't know the transport.

use std::net::IpAddr;

/// How to look into what a transport puts on the wire.
///
/// Each transport brings one, without state and from its wire format alone, so that whoever shows packets (a capture)
/// knows no transport. Whatever it is handed may be hostile: it shows what it understands, and never panics.
#[derive(Clone, Copy, Debug)]
pub enum Unwrap {
    /// A datagram is a frame as the application made it: there is nothing to take out.
    Plain,
    /// Hands over what is in a datagram, in the order in which it stands there.
    Datagram(Look),
    /// Frames stand one after the other on a byte stream, each behind a header.
    Stream {
        /// Bytes of the header; at least one.
        header: usize,
        /// Bytes of the frame behind a header, which it is handed whole. Zero: there is none.
        frame_len: fn(header: &[u8]) -> usize,
    },
}

/// Looks into a datagram, and hands what it finds to `each`.
pub type Look = fn(datagram: &[u8], each: &mut dyn FnMut(Inside<'_>));

/// Something in a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Inside<'a> {
    /// The transport's packet as it would travel directly over IP.
    Packet(Bare<'a>),
    /// A frame or a part of one.
    Piece(Piece<'a>),
}

/// A packet of an IP protocol of its own, taken out of UDP.
#[derive(Clone, Copy, Debug)]
pub struct Bare<'a> {
    /// Number of the protocol (IANA).
    pub protocol: u8,
    /// The packet, ports of its own included.
    pub bytes: &'a [u8],
    /// Writes the checksum that covers the addresses, if there is one, into a copy of the packet.
    pub seal: fn(packet: &mut [u8], from: IpAddr, to: IpAddr),
}

/// A frame or a part of one. The parts of a frame bear numbers that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Which numbering `number` belongs to, of those between the same two addresses in the same direction.
    pub line: u128,
    /// Its number, wrapping. What bears the same number and is the same is a repetition.
    pub number: u32,
    /// Whether the frame begins with it.
    pub first: bool,
    /// Whether the frame ends with it.
    pub last: bool,
    /// The frame's bytes.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// A frame in one piece.
    pub fn whole(line: u128, number: u32, bytes: &'a [u8]) -> Self {
        Piece { line, number, first: true, last: true, bytes }
    }
}

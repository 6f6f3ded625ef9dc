//! The fields of a TCP segment without their bit layout.

use antiphon_link::Packet;

/// IPv4 and TCP headers without options (RFC 791 §3.1, RFC 9293 §3.1).
pub const HEADER_BYTES: usize = 20 + 20;

/// A TCP segment.
///
/// Sequence numbers are positions in the stream, 64 bits wide so that nothing wraps: the SYN is 0, the first byte of
/// data 1. The writer of a capture takes the low 32 bits and adds an initial number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Position of the first byte of payload (or of the SYN).
    pub seq: u64,
    /// Next position expected from the peer; valid if `flags.ack`.
    pub ack: u64,
    /// Control bits.
    pub flags: Flags,
    /// Receive window in bytes, scaling already applied.
    pub window: u32,
    /// Ranges received beyond `ack`.
    pub sack: SackBlocks,
    /// Timestamps option (RFC 7323): value and echo in milliseconds of the run.
    pub timestamps: Option<Timestamps>,
    /// The options of a SYN.
    pub syn: Option<SynOptions>,
    /// A bit was inverted in transit, so the checksum fails: the receiver drops it.
    pub damaged: bool,
    /// Data, in a buffer that is reused: see [`super::Tcp::recycle`].
    pub payload: Vec<u8>,
}

/// Control bits of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// Opens the connection.
    pub syn: bool,
    /// `ack` is valid.
    pub ack: bool,
    /// The sender has no more data; takes one position after the payload.
    pub fin: bool,
    /// The connection is reset.
    pub rst: bool,
    /// The sender had no more data to send.
    pub psh: bool,
}

/// Timestamps option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock, ms.
    pub value: u32,
    /// The peer's value that this segment answers, ms.
    pub echo: u32,
}

/// Options of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynOptions {
    /// Largest segment the sender of the SYN takes, bytes, options included (RFC 6691).
    pub mss: u32,
    /// SACK permitted (RFC 2018).
    pub sack: bool,
    /// Timestamps wanted (RFC 7323).
    pub timestamps: bool,
    /// Shift of the window (RFC 7323), if scaling is offered.
    pub window_scale: Option<u8>,
}

/// Up to four ranges `start..end` that have arrived beyond `ack` (RFC 2018); the first may be a duplicate (RFC 2883).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [(u64, u64); 4],
    len: u8,
}

impl SackBlocks {
    /// Adds `start..end`; ignored if there are `limit` blocks (at most 4) already.
    pub fn push(&mut self, block: (u64, u64), limit: usize) {
        if usize::from(self.len) < limit.min(4) {
            self.blocks[usize::from(self.len)] = block;
            self.len += 1;
        }
    }

    /// The blocks in the order of the option.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }
}

impl Segment {
    /// Bytes on the wire: IP and TCP headers, options padded as Linux lays them out, payload. No link layer.
    pub fn wire_size(&self) -> usize {
        let options = match self.syn {
            // MSS 4; SACK-permitted fills the padding of the timestamps; window scale 3 + 1.
            Some(syn) => {
                let middle = if syn.timestamps { 12 } else { 4 * usize::from(syn.sack) };
                4 + middle + 4 * usize::from(syn.window_scale.is_some())
            }
            None => {
                let blocks = self.sack.as_slice().len();
                let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
                12 * usize::from(self.timestamps.is_some()) + sack
            }
        };
        HEADER_BYTES + options + self.payload.len()
    }
}

impl Packet for Segment {
    fn wire_len(&self) -> usize {
        self.wire_size()
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flip_bit(&mut self, _bit: u64) {
        self.damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_sizes_are_those_of_linux() {
        let mut segment = Segment { payload: vec![0; 160], ..Segment::default() };
        assert_eq!(segment.wire_size(), 200);
        segment.timestamps = Some(Timestamps::default());
        assert_eq!(segment.wire_size(), 212);
        for n in 1..=5 {
            segment.sack.push((n, n + 1), 3);
        }
        // Three blocks beside timestamps fill the 40 bytes of options.
        assert_eq!(segment.wire_size(), 160 + 20 + 20 + 40);
        let syn = SynOptions { mss: 1460, sack: true, timestamps: true, window_scale: Some(7) };
        assert_eq!(Segment { syn: Some(syn), ..Segment::default() }.wire_size(), 60);
    }
}

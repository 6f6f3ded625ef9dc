//! RFC 4571 framing: RTP and RTCP packets on a byte stream.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |        length (16 bits)       |  RTP or RTCP packet of that   |
//! +-------------------------------+  many bytes …                 |
//! ```
//!
//! Length zero is a null packet, ignored by receivers (RFC 4571 §2).

/// Bytes before each packet.
pub(crate) const HEADER: usize = 2;
/// The longest packet that the length field can name.
pub(crate) const MAX_PACKET: usize = 65_535;

/// The length field for a packet of `len` bytes, which is at most [`MAX_PACKET`].
pub(crate) fn header(len: usize) -> [u8; HEADER] {
    (len as u16).to_be_bytes()
}

/// The length that a header names; zero is a null packet.
pub(crate) fn message_len(header: &[u8]) -> usize {
    header.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)))
}

/// Cuts a byte stream back into packets, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub(crate) struct Deframer {
    /// The packet under way, header included; never longer than `HEADER + MAX_PACKET`.
    partial: Vec<u8>,
}

impl Deframer {
    /// With room for a packet of `typical` bytes, so that usual streams do not allocate.
    pub fn new(typical: usize) -> Self {
        Deframer { partial: Vec::with_capacity(HEADER + typical) }
    }

    /// Takes the next piece of the stream and hands every packet that it completes to `packet`, as up to two parts
    /// to be joined.
    pub fn push(&mut self, mut bytes: &[u8], mut packet: impl FnMut(&[u8], &[u8])) {
        while !bytes.is_empty() {
            if self.partial.len() < HEADER {
                let (head, rest) = bytes.split_at((HEADER - self.partial.len()).min(bytes.len()));
                self.partial.extend_from_slice(head);
                bytes = rest;
                if self.partial.len() < HEADER {
                    return;
                }
            }
            let len = usize::from(u16::from_be_bytes([self.partial[0], self.partial[1]]));
            let (body, rest) = bytes.split_at((HEADER + len - self.partial.len()).min(bytes.len()));
            bytes = rest;
            if self.partial.len() + body.len() < HEADER + len {
                self.partial.extend_from_slice(body);
                return;
            }
            if len > 0 {
                packet(&self.partial[HEADER..], body);
            }
            self.partial.clear();
        }
    }

    /// Forgets the packet under way: the stream starts again.
    pub fn reset(&mut self) {
        self.partial.clear();
    }

    /// Whether a packet has begun and not ended.
    pub fn is_amid_packet(&self) -> bool {
        !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn deframe(deframer: &mut Deframer, piece: &[u8], into: &mut Vec<Vec<u8>>) {
        deframer.push(piece, |head, tail| into.push([head, tail].concat()));
    }

    #[test]
    fn a_null_packet_is_ignored() {
        let (mut deframer, mut packets) = (Deframer::default(), Vec::new());
        deframe(&mut deframer, &[0, 0, 0, 1, 9, 0, 0], &mut packets);
        assert_eq!(packets, vec![vec![9]]);
        assert!(!deframer.is_amid_packet());
    }

    proptest! {
        #[test]
        fn packets_survive_any_cutting(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20),
            cuts in prop::collection::vec(1usize..200, 1..40),
        ) {
            let stream: Vec<u8> = packets.iter().flat_map(|p| [&header(p.len())[..], p].concat()).collect();
            let (mut deframer, mut got, mut at, mut i) = (Deframer::default(), Vec::new(), 0, 0);
            while at < stream.len() {
                let end = (at + cuts[i % cuts.len()]).min(stream.len());
                deframe(&mut deframer, &stream[at..end], &mut got);
                (at, i) = (end, i + 1);
            }
            prop_assert_eq!(got, packets);
            prop_assert!(!deframer.is_amid_packet());
        }

        #[test]
        fn hostile_bytes_cost_at_most_one_packet_of_memory(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut deframer = Deframer::default();
            deframer.push(&bytes, |_, _| {});
            prop_assert!(deframer.partial.len() <= HEADER + MAX_PACKET);
        }
    }
}

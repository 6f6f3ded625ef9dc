//! Dissects SRP for analysers: the messages in its packets, and parts of them.

use antiphon_core::{Dissected, Fragment};

use super::wire::{Packet, extended::Extended};

/// Dissects a datagram of either mode. An answer has the number of the packet that it repeats.
pub(super) fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    if let Ok(Packet::Data { id, data, .. } | Packet::Answer { id, data, .. }) = Packet::parse(datagram) {
        each(Dissected::Fragment(Fragment::whole(PUBLISHED, id, data)));
    }
    if let Ok(Extended::Data(part) | Extended::Answer(part)) = Extended::parse(datagram) {
        each(Dissected::Fragment(Fragment {
            line: part.epoch.into(),
            number: part.id,
            first: part.index == 0,
            last: part.index + 1 == part.count,
            bytes: part.data,
        }));
    }
}

/// The published mode has no epoch; this value is outside the improved mode's 24 bits.
const PUBLISHED: u128 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srp::wire::extended::Part;

    fn pieces(datagram: &[u8]) -> Vec<(u128, u32, bool, bool, Vec<u8>)> {
        let mut pieces = Vec::new();
        dissect(datagram, &mut |inside| {
            let Dissected::Fragment(piece) = inside else { panic!("SRP has no IP protocol of its own") };
            pieces.push((piece.line, piece.number, piece.first, piece.last, piece.bytes.to_vec()));
        });
        pieces
    }

    #[test]
    fn messages_of_both_modes_and_their_repetitions() {
        let mut buf = [0; 64];
        let hello = [(PUBLISHED, 7, true, true, b"hello".to_vec())];
        for packet in [
            Packet::Data { time: 1, id: 7, data: b"hello" },
            Packet::Answer { time: 9, id: 7, data: b"hello" },
        ] {
            let len = packet.emit(&mut buf).unwrap();
            assert_eq!(pieces(&buf[..len]), hello);
        }
        for (index, first, last) in [(0, true, false), (1, false, false), (2, false, true)] {
            let part = Part {
                epoch: 5,
                age: 0,
                index,
                count: 3,
                priority: 0,
                previous_priority: 0,
                stream: 0,
                time: 1,
                id: u32::MAX,
                data: b"ab",
            };
            for packet in [Extended::Data(part), Extended::Answer(part)] {
                let len = packet.emit(&mut buf).unwrap();
                assert_eq!(pieces(&buf[..len]), [(5, u32::MAX, first, last, b"ab".to_vec())]);
            }
        }
        let len = Packet::Probe { time: 1 }.emit(&mut buf).unwrap();
        assert_eq!(pieces(&buf[..len]), []);
    }
}

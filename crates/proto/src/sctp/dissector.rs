//! Dissects SCTP in UDP for analysers: the packet as it would be directly over IP, and the messages in it.

use antiphon_core::{Dissected, Fragment, OverIpPacket};

use super::stack::SctpOverIp;
use super::wire::chunks::DataHeader;
use super::wire::{self, HEADER, chunk};

/// Dissects a datagram, without checking its CRC, which the analyser does.
///
/// SCTP in UDP is the packet of protocol 132 as it stands (RFC 6951 §5.2): ports and CRC are its own. Fragments of DATA
/// are numbered by their TSNs, which follow one another within a message (RFC 9260 §6.9); those of I-DATA by their
/// fragment sequence numbers.
pub(super) fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    let Some(header) = datagram.first_chunk::<HEADER>() else { return };
    each(Dissected::Packet(OverIpPacket { over_ip: &SctpOverIp, bytes: datagram }));
    // Distinguishes associations between the same two addresses.
    let tag = u128::from(u32::from_be_bytes([header[4], header[5], header[6], header[7]])) << 96;
    for chunk in wire::chunks_of(datagram).filter(|chunk| matches!(chunk.kind, chunk::DATA | chunk::I_DATA)) {
        if let Some((header, bytes)) = DataHeader::parse(&chunk).filter(|(_, bytes)| !bytes.is_empty()) {
            each(Dissected::Fragment(fragment(tag, &header, bytes)));
        }
    }
}

/// The message, or the fragment of one, in a DATA or I-DATA chunk.
fn fragment<'a>(tag: u128, header: &DataHeader, bytes: &'a [u8]) -> Fragment<'a> {
    let (first, last) = (header.begin, header.end);
    if !header.interleaved {
        return Fragment { line: tag, number: header.tsn.0, first, last, bytes };
    }
    let stream = u128::from(header.stream) << 80 | u128::from(header.unordered) << 66;
    // The lowest bit separates the numbers of the two kinds.
    let line = tag | stream | u128::from(header.number) << 1 | 1;
    Fragment { line, number: header.fragment, first, last, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Shown = (u128, u32, bool, bool, Vec<u8>);

    fn seen(datagram: &[u8]) -> (usize, Vec<Shown>) {
        let (mut packets, mut pieces) = (0, Vec::new());
        dissect(datagram, &mut |inside| match inside {
            Dissected::Packet(bare) => {
                assert_eq!((bare.over_ip.protocol(), bare.bytes), (132, datagram));
                packets += 1;
            }
            Dissected::Fragment(p) => pieces.push((p.line, p.number, p.first, p.last, p.bytes.to_vec())),
            Dissected::Part(_) => panic!("SCTP numbers its fragments"),
        });
        (packets, pieces)
    }

    /// Ports 1 and 2, tag 3, then the chunks.
    fn packet(chunks: &[&[u8]]) -> Vec<u8> {
        let header: &[u8] = &[0, 1, 0, 2, 0, 0, 0, 3, 9, 9, 9, 9];
        [header, &chunks.concat()].concat()
    }

    #[test]
    fn messages_and_fragments_of_both_kinds() {
        let sack: &[u8] = &[3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0];
        // TSN 7, stream 2, three bytes and one of padding.
        let whole: &[u8] = &[0, 3, 0, 19, 0, 0, 0, 7, 0, 2, 0, 5, 0, 0, 0, 0, b'a', b'b', b'c', 0];
        let begins: &[u8] = &[0, 2, 0, 18, 0, 0, 0, 8, 0, 2, 0, 6, 0, 0, 0, 0, b'd', b'e', 0, 0];
        // TSN 9, stream 2, MID 4: the first fragment has a payload protocol (51) where the last has fragment number 1.
        // The last chunk's padding may be missing.
        let i_begins: &[u8] = &[64, 2, 0, 21, 0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 51, b'f', 0, 0, 0];
        let i_ends: &[u8] = &[64, 1, 0, 21, 0, 0, 0, 10, 0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, b'g'];
        let tag = 3 << 96;
        let interleaved = tag | 2 << 80 | 4 << 1 | 1;
        let expected = vec![
            (tag, 7, true, true, b"abc".to_vec()),
            (tag, 8, true, false, b"de".to_vec()),
            (interleaved, 0, true, false, b"f".to_vec()),
            (interleaved, 1, false, true, b"g".to_vec()),
        ];
        assert_eq!(seen(&packet(&[sack, whole, begins, i_begins, i_ends])), (1, expected));
        // Unordered messages have their own identifiers.
        let unordered = [&[64, 7][..], &i_begins[2..]].concat();
        assert_eq!(seen(&packet(&[&unordered])).1[0].0, interleaved | 4 << 64);
    }

    #[test]
    fn truncated_or_wrong_lengths_are_not_shown() {
        let whole = packet(&[&[0, 3, 0, 18, 0, 0, 0, 7, 0, 2, 0, 5, 0, 0, 0, 0, b'a', b'b', 0, 0]]);
        assert_eq!(seen(&whole).1.len(), 1);
        for len in 0..HEADER + 18 {
            assert_eq!(seen(&whole[..len]), (usize::from(len >= HEADER), vec![]), "{len} bytes");
        }
        for told in [0, 3, 16, 21, 255] {
            let mut lies = whole.clone();
            lies[HEADER + 3] = told;
            assert_eq!(seen(&lies).1, vec![], "{told} bytes told");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(64), Just(20), any::<u8>()], 0..200)) {
            let (packets, pieces) = seen(&bytes);
            prop_assert_eq!(packets, usize::from(bytes.len() >= HEADER));
            prop_assert!(pieces.iter().map(|piece| piece.4.len() + wire::TLV).sum::<usize>() <= bytes.len());
        }
    }
}

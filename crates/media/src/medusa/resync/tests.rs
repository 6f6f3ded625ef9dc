use super::*;
use crate::medusa::{BLOCK, Cutter};
use proptest::prelude::*;

fn packets(blocks: &[&[u8]]) -> (Vec<(Header, Vec<u8>)>, ResyncCounters) {
    let (mut resync, mut found, mut out) = (Resynchroniser::new(), Vec::new(), [0; MAX_DATA]);
    for block in blocks {
        let mut rest = *block;
        loop {
            let taken = resync.push(rest);
            rest = &rest[taken..];
            while let Some(header) = resync.poll(&mut out) {
                found.push((header, out[..header.size as usize].to_vec()));
            }
            if rest.is_empty() {
                break;
            }
            assert!(taken > 0, "no room, and nothing comes out");
        }
        assert!(resync.buf.len() <= Resynchroniser::MEMORY);
    }
    (found, resync.counters())
}

/// Two channels, `rounds` packets each, in blocks.
fn stream(rounds: u32, size: usize) -> Vec<Vec<u8>> {
    let (mut cutter, mut blocks) = (Cutter::new(1 << 14), Vec::new());
    for seq in 1..=rounds {
        for channel in 0..2 {
            let header = Header { channel, seq, timestamp: u64::from(seq), size: 0 };
            cutter.push(header, &vec![seq as u8; size]).unwrap();
        }
        while !cutter.is_empty() {
            let mut block = vec![0; BLOCK];
            let len = cutter.cut(&mut block);
            block.truncate(len);
            blocks.push(block);
        }
    }
    blocks
}

#[test]
fn a_lost_block_costs_the_packets_in_it_and_no_other() {
    let blocks = stream(10, 940);
    for lost in 0..blocks.len() {
        let kept: Vec<&[u8]> = (0..blocks.len()).filter(|n| *n != lost).map(|n| &blocks[n][..]).collect();
        let (found, counters) = packets(&kept);
        // The first block of a round holds one packet and the head of the other; the second the rest of the other.
        let gone = if lost % 2 == 0 { 2 } else { 1 };
        assert_eq!(found.len(), 20 - gone, "block {lost}");
        assert!(found.iter().all(|(header, data)| data.iter().all(|byte| *byte == header.seq as u8)));
        assert_eq!(counters.missing, if (2..18).contains(&lost) { gone as u64 } else { 0 }, "block {lost}");
        assert_eq!(counters.cut, u64::from(lost % 2 == 1 && lost < 19), "block {lost}");
    }
}

#[test]
fn keys_in_the_sound_are_passed_over() {
    let block = |header: Header, data: &[u8]| [&header.to_bytes()[..], data].concat();
    let first = Header { channel: 0, seq: 1, timestamp: 0, size: 60 };
    // A far number, an impossible size, a bare key.
    let far = Header { seq: 1_000_000, ..first }.to_bytes();
    let huge = Header { seq: 2, size: 5000, ..first }.to_bytes();
    let data = [&far[..], &huge[..], b"MDSAMDSB............"].concat();
    let second = Header { seq: 2, ..first };
    let (found, counters) = packets(&[&block(first, &data), &block(second, &[7; 60])]);
    assert_eq!(found, [(first, data.clone()), (second, vec![7; 60])]);
    assert_eq!((counters.skipped, counters.missing), (0, 0));
    // The same without the header that states their length.
    let (found, counters) = packets(&[&block(first, &[1; 60]), &data, &block(second, &[7; 60])]);
    assert_eq!(found.len(), 2);
    assert_eq!((counters.false_keys, counters.skipped), (4, 60));
}

#[test]
fn a_restarted_sender_is_followed_from_its_second_packet() {
    let packet = |seq| [&Header { channel: 3, seq, timestamp: 0, size: 4 }.to_bytes()[..], &[0; 4]].concat();
    let (found, _) = packets(&[&packet(4_000_000), &packet(1), &packet(2), &packet(3)]);
    assert_eq!(found.iter().map(|(header, _)| header.seq).collect::<Vec<_>>(), [4_000_000, 2, 3]);
}

#[test]
fn numbers_wrap_and_late_packets_are_missing_no_more() {
    let packet = |seq| [&Header { channel: 0, seq, timestamp: 0, size: 4 }.to_bytes()[..], &[0; 4]].concat();
    let sent: Vec<Vec<u8>> = [u32::MAX, 0, 3, 2, 2, 200, 1].map(packet).to_vec();
    let (found, counters) = packets(&sent.iter().map(|packet| &packet[..]).collect::<Vec<_>>());
    assert_eq!(found.len(), 7);
    // 1, and 4 to 199; 1 came too late to be remembered as missing, but it counts.
    assert_eq!((counters.missing, counters.duplicates), (196, 1));
}

proptest! {
    /// Data without the key's first letter, so that only headers look like headers.
    #[test]
    fn any_loss_of_blocks_leaves_whole_packets_in_order(
        size in 1usize..1500, kept in prop::collection::vec(any::<bool>(), 40),
    ) {
        let blocks = stream(20, size);
        let all: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
        let (found, counters) = packets(&all);
        prop_assert_eq!((found.len(), counters.skipped), (40, 0));
        let some: Vec<&[u8]> = all.iter().zip(kept.iter().cycle()).filter(|(_, k)| **k).map(|(b, _)| *b).collect();
        let (found, counters) = packets(&some);
        // Merged packets have a beginning of their own, and occur only if several blocks in a row are lost.
        let whole = |(header, data): &&(Header, Vec<u8>)| data.iter().all(|byte| *byte == header.seq as u8);
        let patched = found.len() - found.iter().filter(whole).count();
        prop_assert!(found.iter().all(|(_, data)| data.len() == size));
        let lost: Vec<bool> = all.iter().zip(kept.iter().cycle()).map(|(_, kept)| !kept).collect();
        let holes = lost.chunk_by(|a, b| a == b).filter(|run| run[0] && run.len() > 1).count();
        prop_assert!(patched <= holes, "{} of {}", patched, holes);
        let order: Vec<_> = found.iter().map(|(header, _)| (header.seq, header.channel)).collect();
        prop_assert!(order.is_sorted());
        let bytes: usize = some.iter().map(|block| block.len()).sum();
        let used = found.len() * (HEADER + size) + counters.skipped as usize;
        prop_assert!(used <= bytes && bytes - used < HEADER + size, "{} of {}", used, bytes);
    }

    #[test]
    fn foreign_bytes_cost_no_memory_and_no_panic(
        pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"MDSAB\0\x01".to_vec()), 0..300), 0..40),
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
        let (found, counters) = packets(&pieces);
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let used: usize = found.iter().map(|(_, data)| HEADER + data.len()).sum();
        prop_assert!(used + counters.skipped as usize <= bytes);
        prop_assert_eq!(counters.packets as usize, found.len());
    }
}

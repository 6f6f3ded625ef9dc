use std::collections::BTreeMap;

use antiphon_core::Rng;

use super::*;

fn header(tsn: u32, number: u32, unordered: bool, (begin, end): (bool, bool)) -> DataHeader {
    DataHeader {
        interleaved: false,
        tsn: Seq32(tsn),
        stream: 0,
        number,
        fragment: 0,
        ppid: 0,
        unordered,
        begin,
        end,
        immediate: false,
    }
}

/// Messages by stream, unordered or not, in the order of sending.
type Sent = BTreeMap<(u16, bool), Vec<Vec<u8>>>;

/// Messages of random sizes in several streams, cut and shuffled within a distance, as DATA and as I-DATA.
fn cut(rng: &mut Rng, interleaved: bool, start: u32) -> (Vec<(DataHeader, Vec<u8>)>, Sent) {
    let (mut chunks, mut messages) = (Vec::new(), Sent::new());
    // Both kinds of numbers wrap meanwhile.
    let mut next: BTreeMap<(u16, bool), u32> = BTreeMap::new();
    let mut tsn = start;
    for _ in 0..60 {
        let (stream, unordered) = (rng.below(3) as u16, rng.chance(0.3));
        let number = next.entry((stream, unordered)).or_insert(0);
        let mut message = vec![0; 3 + rng.below(40) as usize];
        rng.fill(&mut message[3..]);
        // Makes every message different.
        message[..3].copy_from_slice(&[stream as u8, u8::from(unordered), *number as u8]);
        let pieces: Vec<&[u8]> = message.chunks(1 + rng.below(20) as usize).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let ends = (n == 0, n + 1 == pieces.len());
            let fragment = if interleaved { n as u32 } else { 0 };
            let number = if unordered && !interleaved { 0 } else { *number };
            chunks.push((
                DataHeader { interleaved, stream, fragment, ..header(tsn, number, unordered, ends) },
                piece.to_vec(),
            ));
            tsn = tsn.wrapping_add(1);
        }
        *number += 1;
        messages.entry((stream, unordered)).or_default().push(message.clone());
    }
    (chunks, messages)
}

fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for at in 0..items.len() {
        let other = (at + rng.below(30) as usize).min(items.len() - 1);
        items.swap(at, other);
    }
}

#[test]
fn any_order_of_arrival_gives_the_messages_in_theirs() {
    for seed in 0..200 {
        let mut rng = Rng::fork(seed, "assembly");
        let interleaved = seed % 2 == 0;
        let (mut chunks, sent) = cut(&mut rng, interleaved, u32::MAX - 50);
        shuffle(&mut rng, &mut chunks);
        let mut assembly = Assembly::new(interleaved);
        let mut got: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
        for (header, payload) in &chunks {
            assembly
                .take(header, payload, |stream, bytes| got.entry(stream).or_default().push(bytes.to_vec()));
        }
        for stream in 0..3 {
            let got = got.remove(&stream).unwrap_or_default();
            let ordered = sent.get(&(stream, false)).cloned().unwrap_or_default();
            let mut left = sent.get(&(stream, true)).cloned().unwrap_or_default();
            let mut turn = ordered.iter();
            for message in got {
                match left.iter().position(|other| *other == message) {
                    Some(at) => drop(left.remove(at)),
                    None => assert_eq!(turn.next(), Some(&message), "stream {stream}, seed {seed}"),
                }
            }
            assert!(left.is_empty() && turn.next().is_none(), "all of stream {stream} came, seed {seed}");
        }
        assert_eq!((assembly.charged, assembly.held.len()), (0, 0), "nothing is left over");
    }
}

fn delivered(assembly: &mut Assembly, header: &DataHeader) -> Vec<u8> {
    let mut all = Vec::new();
    assembly.take(header, &[header.number as u8], |_, bytes| all.extend_from_slice(bytes));
    all
}

fn forwarded(assembly: &mut Assembly, to: u32, skipped: &[(u32, bool)]) -> Vec<u8> {
    let mut all = Vec::new();
    let skipped = skipped.iter().map(|(number, unordered)| Skipped {
        stream: 0,
        unordered: *unordered,
        number: *number,
    });
    assembly.forward(Seq32(to), skipped, |_, bytes| all.extend_from_slice(bytes));
    all
}

#[test]
fn what_is_skipped_releases_what_waited_behind_it() {
    const WHOLE: (bool, bool) = (true, true);
    let mut assembly = Assembly::new(false);
    // SSNs wrap between the third and the fourth message.
    assembly.next.push(0xffff);
    let ssn = |n: u32| (0xffff + n) & 0xffff;
    assert_eq!(delivered(&mut assembly, &header(11, ssn(1), false, WHOLE)), []);
    assert_eq!(delivered(&mut assembly, &header(13, ssn(3), false, WHOLE)), []);
    assert_eq!(delivered(&mut assembly, &header(14, ssn(4), false, (true, false))), []);
    // 10 is given up with SSN 0; 11 waited for it.
    assert_eq!(forwarded(&mut assembly, 10, &[(ssn(0), false)]), [ssn(1) as u8]);
    // 12 and the incomplete 14 are given up; 13 stood between them.
    assert_eq!(forwarded(&mut assembly, 15, &[(ssn(4), false)]), [ssn(3) as u8]);
    assert_eq!((assembly.charged, assembly.next(0)), (0, Seq32(0xffff + 5)));
    assert_eq!(delivered(&mut assembly, &header(16, ssn(5), false, WHOLE)), [ssn(5) as u8]);
    assert_eq!(delivered(&mut assembly, &header(12, ssn(2), false, WHOLE)), [], "too late");
}

#[test]
fn fragments_of_what_was_given_up_are_forgotten() {
    let mut assembly = Assembly::new(false);
    delivered(&mut assembly, &header(20, 0, true, (true, false)));
    delivered(&mut assembly, &header(22, 0, true, (false, true)));
    delivered(&mut assembly, &header(24, 0, true, (true, false)));
    assert_eq!(assembly.held.len(), 3);
    assert_eq!(forwarded(&mut assembly, 23, &[]), []);
    assert_eq!(assembly.held.len(), 1, "what may still become whole stays");

    let mut assembly = Assembly::new(true);
    let fragment = |mid, fragment, unordered, ends| DataHeader {
        interleaved: true,
        fragment,
        ..header(mid * 10 + fragment, mid, unordered, ends)
    };
    delivered(&mut assembly, &fragment(3, 0, true, (true, false)));
    delivered(&mut assembly, &fragment(4, 1, true, (false, true)));
    delivered(&mut assembly, &fragment(3, 1, false, (false, true)));
    assert_eq!(forwarded(&mut assembly, 100, &[(3, true)]), []);
    assert_eq!(assembly.held.len(), 2, "ordered and unordered count for themselves");
    assert_eq!(forwarded(&mut assembly, 100, &[(3, false)]), []);
    assert_eq!(assembly.held.len(), 1);
}

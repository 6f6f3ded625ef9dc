//! Combinations and what is found from them.

use antiphon_core::Rng;

use super::super::combination::Names;
use super::*;

/// Packets of a stream: positions and data.
fn stream(rng: &mut Rng, count: usize) -> Vec<(u64, Vec<u8>)> {
    let mut at = 5_000;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; 1 + rng.below(40) as usize];
            rng.fill(&mut bytes);
            at += bytes.len() as u64;
            (at - bytes.len() as u64, bytes)
        })
        .collect()
}

fn content(packet: &(u64, Vec<u8>)) -> Content<'_> {
    Content { tag: packet.0.is_multiple_of(2).then_some(packet.0), ends: true, sort: 9, bytes: &packet.1 }
}

/// The body of a combination of those marked.
fn combine(packets: &[(u64, Vec<u8>)], included: &[bool], index: u32) -> Vec<u8> {
    let of = packets.iter().zip(included).filter(|(_, included)| **included);
    let longest = of.clone().map(|(packet, _)| packet.1.len()).max().expect("one");
    let names = Names::of(packets.iter().map(|packet| packet.1.len()));
    let mut body = vec![0; names.len() + FIXED + longest];
    names.write(&mut body, index, packets.iter().zip(included).map(|(packet, on)| (packet.1.len(), *on)));
    of.for_each(|(packet, _)| {
        content(packet).add_to(&mut body[names.len()..], coefficient(index, packet.0));
    });
    body
}

#[test]
fn as_many_combinations_as_are_missing_find_them_whichever_come() {
    let mut rng = Rng::new(7);
    let mut unlucky = 0;
    for round in 0..300 {
        let packets = stream(&mut rng, 20);
        let mut decoder = Decoder::new();
        let lost: Vec<bool> = packets.iter().map(|_| rng.chance(0.2)).collect();
        let mut missing: Vec<u64> =
            packets.iter().zip(&lost).filter(|(_, lost)| **lost).map(|(packet, _)| packet.0).collect();
        packets
            .iter()
            .zip(&lost)
            .filter(|(_, lost)| !**lost)
            .for_each(|(packet, _)| decoder.keep(u64::MAX, packet.0, content(packet)));
        let needed = missing.len();
        let mut sent = 0;
        while !missing.is_empty() {
            let body = combine(&packets, &[true; 20], round * 100 + sent);
            let combination = Combination::read(packets[0].0, &body).expect("a combination");
            decoder.take(&combination, |from| missing.contains(&from));
            sent += 1;
            while let Some(kept) = decoder.poll_found() {
                let right =
                    packets.iter().find(|packet| packet.0 == kept.from).expect("a packet of the stream");
                assert_eq!(kept.content(), content(right));
                missing.retain(|from| *from != kept.from);
                decoder.return_found(u64::MAX, kept, true);
            }
            assert!(sent as usize <= needed + 2, "{needed} were missing");
        }
        unlucky += u32::from(sent as usize > needed);
    }
    // A random square matrix over 256 elements has no inverse with a probability of 1/255 at least.
    assert!(unlucky <= 8, "{unlucky} of 300 needed one more");
}

#[test]
fn a_packet_that_comes_after_all_completes_what_was_waiting() {
    let mut rng = Rng::new(8);
    let packets = stream(&mut rng, 4);
    let mut decoder = Decoder::new();
    decoder.keep(u64::MAX, packets[0].0, content(&packets[0]));
    let body = combine(&packets, &[true, true, false, true], 1);
    let missing = |from| from != packets[0].0;
    assert!(decoder.take(&Combination::read(packets[0].0, &body).expect("one"), missing));
    assert!(!decoder.take(&Combination::read(packets[0].0, &body).expect("one"), missing), "nothing new");
    assert!(decoder.poll_found().is_none());
    decoder.keep(u64::MAX, packets[3].0, content(&packets[3]));
    let found = decoder.poll_found().expect("the second");
    assert_eq!((found.from, found.content()), (packets[1].0, content(&packets[1])));
}

#[test]
fn rank_decides_whatever_comes_plain_in_between() {
    let mut rng = Rng::new(10);
    let mut unsolved = 0;
    for round in 0..200 {
        let packets = stream(&mut rng, 5);
        let mut decoder = Decoder::new();
        let mut missing: Vec<u64> = packets.iter().map(|packet| packet.0).collect();
        // Two combinations, then packets that are the first unknowns of them, then a third: three unknowns and three equations.
        let sums = [
            [true, false, true, true, true],
            [false, true, true, true, true],
            [false, false, true, true, true],
        ];
        for (n, included) in sums.iter().enumerate() {
            let body = combine(&packets, included, 3 * round + n as u32);
            decoder
                .take(&Combination::read(packets[0].0, &body).expect("one"), |from| missing.contains(&from));
            if n == 1 {
                for packet in &packets[..2] {
                    missing.retain(|from| *from != packet.0);
                    decoder.keep(u64::MAX, packet.0, content(packet));
                }
            }
        }
        unsolved += usize::from(std::iter::from_fn(|| decoder.poll_found()).count() < 3);
    }
    // Three random equations of three unknowns depend on each other in one of 255 cases or so.
    assert!(unsolved <= 4, "{unsolved} of 200");
}

#[test]
fn many_combinations_of_much_that_is_missing_cost_little_memory() {
    let mut decoder = Decoder::new();
    let mut rng = Rng::new(11);
    for index in 0..200 {
        // Each names 64 packets, of which some are named by those before it as well, as positions are close to each other.
        let packets = stream(&mut rng, 64);
        let body = combine(&packets, &[true; 64], index);
        decoder.take(&Combination::read(1_000 * u64::from(index), &body).expect("one"), |_| true);
        let unknown: usize = decoder.equations.iter().map(|equation| equation.unknown.len()).sum();
        assert!(decoder.equations.len() <= MOST_EQUATIONS && unknown <= 2 * MOST_EQUATIONS * MOST_EQUATIONS);
    }
}

#[test]
fn what_is_given_up_or_no_longer_kept_is_not_searched() {
    let mut rng = Rng::new(9);
    let packets = stream(&mut rng, 3);
    let body = combine(&packets, &[true; 3], 1);
    let combination = Combination::read(packets[0].0, &body).expect("one");
    let mut decoder = Decoder::new();
    assert!(!decoder.take(&combination, |from| from != packets[0].0), "the first came long ago");
    assert!(decoder.take(&combination, |_| true));
    decoder.give_up(packets[0].0 + 1);
    packets.iter().for_each(|packet| decoder.keep(u64::MAX, packet.0, content(packet)));
    assert!(decoder.poll_found().is_none() && decoder.equations.is_empty());
}

#[test]
fn packets_behind_a_gap_are_kept_as_long_as_it_is_open() {
    let mut decoder = Decoder::new();
    let at = |decoder: &mut Decoder, complete: u64, range: std::ops::Range<u64>| {
        for from in range {
            let content = Content { tag: Some(from), ends: true, sort: 0, bytes: &[7] };
            decoder.keep(complete.min(from + 1), from, content);
        }
        (decoder.kept.front().expect("some").from, decoder.kept.len())
    };
    assert_eq!(at(&mut decoder, u64::MAX, 0..2_000), (1_488, LEAST_KEPT), "nothing is missing");
    // What is missing from 2000 on may be named with the packets of its stretch.
    let (oldest, kept) = at(&mut decoder, 2_000, 2_001..4_000);
    assert_eq!((oldest, kept), (2_000 - MOST_NAMED as u64, 1_999 + MOST_NAMED));
    let (_, kept) = at(&mut decoder, 2_000, 4_000..20_000);
    assert_eq!(kept, MOST_KEPT);
    assert_eq!(at(&mut decoder, u64::MAX, 20_000..20_001).1, LEAST_KEPT, "it has been given up");
}

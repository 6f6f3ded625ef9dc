//! Paths on which repairs are lost as regularly as what they repair.

use super::*;

/// Requests at equal distances of whole seconds would all leave while it loses.
#[test]
fn a_path_that_loses_at_regular_times_is_found_open() {
    for query in ["reliability=full&wtimer=1s"] {
        let mut pair = Pair::open(query);
        let mut tick = 0;
        for number in 0..3 {
            let bytes = [number; 400];
            pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
            for _ in 0..20_000 {
                // It carries the caller's packets for 50 ms of each 100, and the message leaves when it does not.
                pair.run(1, &mut |at, _| at == 1 || tick % 100 >= 50);
                tick += 1;
            }
        }
        assert_eq!(pair.numbers(1), [0, 1, 2], "{query}");
    }
}

/// A receiver holds 64 ranges, and drops what would make another.
#[test]
fn a_sender_leaves_the_receiver_room_for_ranges() {
    let mut pair = Pair::open("reliability=full");
    let mut sent = [0; 200];
    let mut most_ranges = 0;
    for step in 0..2_300 {
        if let Ok(number) = u8::try_from(step)
            && number < 200
        {
            pair.ends[0].send(pair.now, Message::new(Tag(0), &[number; 20], None)).expect("room");
        }
        pair.run(1, &mut |at, packet| {
            let Some((_, number)) = data_of(packet).filter(|_| at == 0) else { return true };
            sent[usize::from(number)] += 1;
            // For 300 ms every second message is lost, and all of its repairs.
            number % 2 == 0 || step >= 300
        });
        most_ranges = most_ranges.max(pair.ends[1].ranges());
    }
    assert!((48..=64).contains(&most_ranges), "{most_ranges} ranges");
    let twice = sent.iter().step_by(2).filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "what came is sent again: {sent:?}");
    assert_eq!(pair.messages[1].len(), 200);
}

/// Sends a message of 1340 bytes every 20 ms, and says how many packets of more than 1250 bytes leave in each second.
fn large_packets(pair: &mut Pair, seconds: usize, carries: &mut dyn FnMut(usize) -> bool) -> Vec<u32> {
    let mut large = vec![0; seconds];
    for step in 0..50 * seconds {
        let bytes = [step as u8; 1340];
        pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
        let carries_large = carries(step);
        pair.run(20, &mut |at, packet| {
            let is_large = at == 0 && packet.len() > 1250;
            large[step / 50] += u32::from(is_large);
            !is_large || carries_large
        });
    }
    large
}

#[test]
fn after_an_outage_packets_are_soon_large_again() {
    let mut pair = Pair::open("reliability=full");
    let large = large_packets(&mut pair, 4, &mut |step| step > 10);
    assert!(large[0] < 10, "small for a while: {large:?}");
    assert_eq!(large[3], 50, "{large:?}");
    // Again, as if nothing had been.
    let large = large_packets(&mut pair, 4, &mut |step| step > 10);
    assert_eq!(large[3], 50, "{large:?}");
}

#[test]
fn a_narrow_path_is_tried_ever_more_rarely() {
    let mut pair = Pair::open("reliability=full");
    let large = large_packets(&mut pair, 64, &mut |_| false);
    let tried = large.iter().filter(|packets| **packets > 0).count();
    // After 1, 2, 4, 8, 16 and 32 s.
    assert!((5..=8).contains(&tried), "{large:?}");
    assert!(large.iter().sum::<u32>() < 60, "{large:?}");
}

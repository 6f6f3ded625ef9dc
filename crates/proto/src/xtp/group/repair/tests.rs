//! Which repairs leave, and what they may cost.

use antiphon_core::{Message, Tag};

use super::super::held::Known;
use super::*;
use crate::queue::{Room, SendQueue};

/// Five packets of ten bytes from position 100 on.
fn held() -> (Held, SendQueue) {
    let (mut held, mut queue) = (Held::new(100), SendQueue::new(Room::LEAN, 100));
    for number in 0..5 {
        queue.push(Message::new(Tag(number), &[number as u8; 10], None), 100).expect("room");
        held.begin(queue.pop(Instant::ZERO).expect("it was pushed"));
        held.cut(100, number + 1, &mut queue).expect("a packet");
    }
    (held, queue)
}

#[test]
fn a_combination_whose_first_packet_is_settled_mends_the_others() {
    let (mut held, mut queue) = held();
    let mut repairs = Repairs::new(Instant::ZERO, 0.0);
    repairs.queue.push_back(Repair { first: 0, mask: 0b1_0011, kind: Kind::Sums(1) });
    held.set_queued(0, 0b1_0011, true);
    let first_alone = |packet: &Packet<'_>| match packet.ordinal {
        0 => Known::All,
        _ => Known::NotAll { lacking: true },
    };
    held.settle(Instant::ZERO, Duration::ZERO, &mut queue, first_alone);
    assert!(held.get(0).is_none() && held.get(1).is_some_and(|packet| packet.from == 110));
    let next = repairs.next(Instant::ZERO, &mut held);
    assert_eq!(next, Some(Repair { first: 1, mask: 0b1001, kind: Kind::Sums(1) }));
    let positions: Vec<u64> = held.chosen(1, 0b1001).map(|packet| packet.from).collect();
    assert_eq!(positions, [110, 140]);
    repairs.drop_first(&mut held);
    // Otherwise they would wait for a repair for ever.
    assert!(held.from(0).all(|packet| !packet.is_queued()));
}

#[test]
fn what_is_past_its_deadline_is_in_no_combination() {
    let (mut held, mut queue) = held();
    let late = Instant::from_millis(50);
    queue.push(Message::new(Tag(5), &[5; 10], Some(late)), 100).expect("room");
    held.begin(queue.pop(Instant::ZERO).expect("it was pushed"));
    held.cut(100, 6, &mut queue).expect("a packet");
    let all = 0b11_0000;
    assert_eq!(of_use(late, &held, 0, all), Some((4, 0b11)));
    assert_eq!(of_use(late + Duration::from_nanos(1), &held, 0, all), Some((4, 0b1)));
    assert_eq!(of_use(late + Duration::from_nanos(1), &held, 0, 0b10_0000), None);
}

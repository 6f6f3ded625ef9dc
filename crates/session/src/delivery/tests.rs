use antiphon_core::MediaTime;
use antiphon_media::packet::PacketInfo;

use super::*;
use crate::store::StoreRoom;

const SSRC: u32 = 7;

/// A store with so many messages of `groups` groups in turn, whose sequence numbers begin near their wrap.
fn store(messages: u64, groups: usize, most: usize) -> Store {
    let mut store = Store::new(StoreRoom { remembered: 1, most, longest: 1 });
    store.keep_from(0);
    (0..messages).for_each(|number| push(&mut store, number, groups));
    store
}

fn push(store: &mut Store, number: u64, groups: usize) {
    let (group, index) = (number as usize % groups, number / groups as u64);
    let media = MediaTime::new(0, 48_000);
    let sequence = (65_530 + 100 * group as u64 + index) as u16;
    let info = PacketInfo { sequence, timestamp: 0, media, frames: 1, payload: 2, marker: false };
    store.push(group, index, info, Instant::ZERO, &[0]);
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Hands over all that it asks for.
fn hand_all(delivery: &mut Delivery, now: Instant, store: &Store) -> Vec<u64> {
    let mut handed = Vec::new();
    while let Some(number) = delivery.next(now, store) {
        delivery.on_handed(now, &store.get(number).expect("it is kept").0);
        handed.push(number);
    }
    handed
}

/// A receipt of the receiver, which counts from the sender's first packet: of a group's indices.
fn receipt(group: u32, complete: u32, next: u32, missing: &[(u32, u32)]) -> Receipt {
    let base = 0x1_0000 * 5 + 65_530 + 100 * group;
    let mut receipt = Receipt::new(1, SSRC, base + complete, base + next);
    for (first, count) in missing {
        assert!(receipt.add(base + first..base + first + count));
    }
    receipt
}

#[test]
fn receipts_confirm_and_a_break_repeats_the_rest() {
    let store = store(20, 1, 64);
    let mut delivery = Delivery::new(1, 0, at(0));
    assert_eq!(hand_all(&mut delivery, at(0), &store), (0..20).collect::<Vec<_>>());
    delivery.on_receipt(at(250), 0, &receipt(0, 12, 12, &[]), &store);
    assert_eq!((delivery.confirmed(), delivery.has_receipts(), delivery.progress()), (12, true, at(250)));
    delivery.rewind();
    assert_eq!(hand_all(&mut delivery, at(300), &store), (12..20).collect::<Vec<_>>());
    assert!(!delivery.is_complete(at(300), &store));
    // An old receipt that was on its way takes nothing back.
    delivery.on_receipt(at(310), 0, &receipt(0, 9, 9, &[]), &store);
    assert_eq!(delivery.confirmed(), 12);
    delivery.on_receipt(at(500), 0, &receipt(0, 20, 20, &[]), &store);
    assert!(delivery.is_complete(at(500), &store) && delivery.lost() == 0);
}

#[test]
fn what_is_missing_for_long_is_handed_over_again() {
    let store = store(20, 1, 64);
    let mut delivery = Delivery::new(1, 0, at(0));
    hand_all(&mut delivery, at(0), &store);
    let holes = receipt(0, 3, 18, &[(3, 2), (9, 1)]);
    for millis in [250, 500, 3_000] {
        delivery.on_receipt(at(millis), 0, &holes, &store);
        assert_eq!(hand_all(&mut delivery, at(millis), &store), []);
    }
    delivery.on_receipt(at(3_300), 0, &holes, &store);
    assert_eq!(hand_all(&mut delivery, at(3_300), &store), [3, 4, 9]);
    delivery.on_receipt(at(3_400), 0, &holes, &store);
    assert_eq!(hand_all(&mut delivery, at(3_400), &store), [], "not at once again");
    delivery.on_receipt(at(3_500), 0, &receipt(0, 20, 20, &[]), &store);
    assert!(delivery.is_complete(at(3_500), &store));
}

#[test]
fn groups_are_confirmed_together() {
    let store = store(20, 2, 64);
    let mut delivery = Delivery::new(2, 0, at(0));
    hand_all(&mut delivery, at(0), &store);
    delivery.on_receipt(at(250), 0, &receipt(0, 10, 10, &[]), &store);
    assert_eq!(delivery.confirmed(), 1, "nothing is known of the second group");
    delivery.on_receipt(at(250), 1, &receipt(1, 4, 4, &[]), &store);
    assert_eq!(delivery.confirmed(), 9);
    delivery.on_receipt(at(500), 1, &receipt(1, 10, 10, &[]), &store);
    assert!(delivery.is_complete(at(500), &store));
}

#[test]
fn what_could_not_be_kept_is_counted_and_does_not_stop_the_rest() {
    let mut store = store(10, 1, 10);
    let mut delivery = Delivery::new(1, 0, at(0));
    hand_all(&mut delivery, at(0), &store);
    delivery.on_receipt(at(250), 0, &receipt(0, 4, 4, &[]), &store);
    store.keep_from(delivery.confirmed());
    // An outage: six more than there is room for.
    (10..20).for_each(|number| push(&mut store, number, 1));
    delivery.rewind();
    assert_eq!(hand_all(&mut delivery, at(9_000), &store), (10..20).collect::<Vec<_>>());
    assert_eq!(delivery.lost(), 6);
    // The receiver misses these for good.
    delivery.on_receipt(at(9_500), 0, &receipt(0, 4, 20, &[(4, 6)]), &store);
    assert!(delivery.is_complete(at(9_500), &store));
}

#[test]
fn a_gap_may_be_longer_than_half_of_the_sequence_numbers() {
    let mut store = store(10, 1, 10);
    let mut delivery = Delivery::new(1, 0, at(0));
    hand_all(&mut delivery, at(0), &store);
    delivery.on_receipt(at(250), 0, &receipt(0, 4, 4, &[]), &store);
    store.keep_from(delivery.confirmed());
    (10..50_000).for_each(|number| push(&mut store, number, 1));
    delivery.rewind();
    assert_eq!(hand_all(&mut delivery, at(9_000), &store), (49_990..50_000).collect::<Vec<_>>());
    delivery.on_receipt(at(9_500), 0, &receipt(0, 4, 50_000, &[(4, 49_986)]), &store);
    assert!(delivery.is_complete(at(9_500), &store) && delivery.lost() == 49_986);
}

#[test]
fn receivers_without_receipts_are_believed_by_their_transport() {
    let mut store = store(10, 1, 64);
    let mut delivery = Delivery::new(1, 0, at(0));
    hand_all(&mut delivery, at(0), &store);
    (0..6).for_each(|_| delivery.on_outcome(at(10), Outcome::Acked));
    delivery.on_outcome(at(10), Outcome::Aborted);
    assert!(!delivery.is_complete(at(999), &store) && delivery.confirmed() == 0, "a receipt may still come");
    assert_eq!(delivery.poll_timeout(), Some(at(1_000)));
    assert!(delivery.is_complete(at(1_000), &store));
    push(&mut store, 10, 1);
    assert_eq!(hand_all(&mut delivery, at(1_100), &store), [10]);
    assert_eq!((delivery.confirmed(), delivery.has_receipts()), (6, false));
    delivery.rewind();
    assert_eq!(hand_all(&mut delivery, at(1_200), &store), [6, 7, 8, 9, 10]);
}

#[test]
fn receipts_that_contradict_what_was_sent_change_nothing() {
    let store = store(10, 1, 64);
    let mut delivery = Delivery::new(1, 0, at(0));
    let ahead = receipt(0, 4, 4, &[]);
    delivery.on_receipt(at(0), 0, &ahead, &store);
    hand_all(&mut delivery, at(0), &store);
    for (complete, next) in [(11, 11), (4, 11), (30_000, 30_000), (60_000, 60_000)] {
        delivery.on_receipt(at(1), 0, &receipt(0, complete, next, &[]), &store);
        assert_eq!(delivery.confirmed(), 0, "{complete}, {next}");
    }
    delivery.on_receipt(at(1), 9, &ahead, &store);
    delivery.on_receipt(at(1), 0, &ahead, &store);
    assert_eq!(delivery.confirmed(), 4);
}

#[test]
fn no_more_is_unconfirmed_than_a_receiver_can_tell_apart() {
    let store = store(10_000, 1, 10_000);
    let mut delivery = Delivery::new(1, 0, at(0));
    assert_eq!(hand_all(&mut delivery, at(0), &store).len(), 4096);
    delivery.on_receipt(at(250), 0, &receipt(0, 100, 100, &[]), &store);
    assert_eq!(hand_all(&mut delivery, at(300), &store), (4096..4196).collect::<Vec<_>>());
    delivery.on_blocked();
    delivery.on_receipt(at(500), 0, &receipt(0, 200, 200, &[]), &store);
    assert_eq!(hand_all(&mut delivery, at(500), &store), []);
    delivery.on_writable();
    assert_eq!(hand_all(&mut delivery, at(500), &store).len(), 100);
}

//! What members report, and what is known of them.

use antiphon_core::{Message, Tag};

use super::*;
use crate::queue::{Room, SendQueue};
use crate::xtp::group::gaps::{self, MOST_RANGES};

const LEN: u64 = 100;

/// So many ranges of one packet, behind a gap of one each.
fn every_other(ranges: usize) -> Vec<(u64, u64)> {
    (0..ranges as u64).map(|n| ((2 * n + 1) * LEN, (2 * n + 2) * LEN)).collect()
}

/// So many packets of 100 bytes from position 0 on.
fn held(packets: u64) -> Held {
    held_until(packets, None)
}

fn held_until(packets: u64, deadline: Option<Instant>) -> Held {
    let (mut held, mut queue) = (Held::new(0), SendQueue::new(Room::of(10_000), 100));
    for number in 0..packets {
        queue.push(Message::new(Tag(number), &[0; LEN as usize], deadline), 100).expect("room");
        held.begin(queue.pop(Instant::ZERO).expect("it was pushed"));
        held.cut(100, number + 1, &mut queue).expect("a packet");
    }
    held
}

fn joiner(path: u32, key: u64) -> Joiner {
    let rtt = Duration::from_millis(1);
    Joiner { path: PathId(path), key: Key(key), number: 1, own: Key(key), rtt, next: 0 }
}

fn roster() -> Roster {
    let mut roster = Roster::new(10);
    assert_eq!(roster.join(Instant::ZERO, joiner(1, 5), &held(0)), Joined::Now { replaces: false });
    roster
}

/// A member reports that these ranges have come above `rseq`, and which of the packets between them it sees.
fn report(
    member: &mut Member,
    now: Instant,
    (rseq, echo): (u64, u64),
    ranges: &[(u64, u64)],
    seen: &[u64],
    held: &Held,
) {
    let mut buf = [0; 2_000];
    let len = gaps::write(&mut buf, rseq, ranges.iter().copied(), seen);
    let gaps = Gaps::read(rseq, &buf[..len]).expect("our own");
    member.on_report(now, Report { rseq, alloc: u64::MAX, echo, gaps }, held);
}

#[test]
fn who_is_offered_another_members_key_does_not_take_its_place() {
    let mut roster = roster();
    assert_eq!(roster.join(Instant::ZERO, joiner(1, 5), &held(0)), Joined::Before);
    assert_eq!(roster.join(Instant::ZERO, joiner(2, 5), &held(0)), Joined::KeyTaken);
    assert_eq!(roster.len(), 1);
}

#[test]
fn what_a_member_had_it_does_not_lack_later() {
    let (mut roster, held) = (roster(), held(10));
    let member = roster.get_mut(0);
    report(member, Instant::ZERO, (8 * LEN, 10), &[], &[], &held);
    report(member, Instant::ZERO, (0, 10), &[], &[], &held);
    assert_eq!((member.next, member.missing.all().collect::<Vec<_>>()), (8 * LEN, vec![8, 9]));
}

#[test]
fn behind_a_list_that_may_have_been_cut_nothing_is_known() {
    let (mut roster, held) = (roster(), held(400));
    report(roster.get_mut(0), Instant::ZERO, (0, 400), &every_other(MOST_RANGES + 1), &[], &held);
    assert_eq!(roster.get_mut(0).missing.all().count(), MOST_RANGES);
    report(roster.get_mut(0), Instant::ZERO, (0, 100), &every_other(20), &[], &held);
    assert_eq!(roster.get_mut(0).missing.all().count(), 20 + 60);
}

#[test]
fn of_packets_that_are_seen_no_repair_is_needed() {
    let (mut roster, held) = (roster(), held(20));
    let member = roster.get_mut(0);
    // 0, 1 and 2 are missing, 5 and 6, and 10 to 19; of the last nothing has come when it reports.
    let ranges = [(3 * LEN, 5 * LEN), (7 * LEN, 10 * LEN)];
    report(member, Instant::ZERO, (0, 19), &ranges, &[0, LEN, 6 * LEN, 12 * LEN], &held);
    assert!(member.missing.all().eq([0, 1, 2, 5, 6].into_iter().chain(10..19)));
    // Of a gap it counts how many are seen, not which.
    assert!(member.missing.unseen_from(0).eq([2, 6].into_iter().chain(11..19)));
}

#[test]
fn what_a_list_that_may_have_been_cut_does_not_tell_is_not_known_to_have_come() {
    let (mut roster, mut held) = (roster(), held_until(400, Some(Instant::ZERO)));
    report(roster.get_mut(0), Instant::ZERO, (0, 401), &every_other(MOST_RANGES + 1), &[], &held);
    let known = |roster: &Roster, held: &Held, at: u64| roster.known(&held.get(at).expect("held"));
    assert_eq!(known(&roster, &held, 1), Known::All);
    assert_eq!(known(&roster, &held, 0), Known::NotAll { lacking: true });
    assert_eq!(known(&roster, &held, 399), Known::NotAll { lacking: false });
    // It gives up what it lacks: that may be the last one, but not what it had.
    let late = Instant::ZERO + Duration::from_nanos(1);
    roster.get_mut(0).on_passed_over(late, 400 * LEN, &mut held);
    let given_up: Vec<bool> = [0, 1, 399].map(|at| held.get(at).expect("held").is_given_up()).to_vec();
    assert_eq!(given_up, [true, false, true]);
}

#[test]
fn sixty_packets_tell_of_losses_however_short_they_are() {
    let (mut roster, held) = (roster(), held(60));
    let (losses, member) = (Losses::from(Instant::ZERO, 0), roster.get_mut(0));
    member.losses = losses;
    let now = Instant::ZERO + LOSS_TIME / 2;
    report(member, now, (20 * LEN, 60), &[], &[], &held);
    assert!(member.is_overrun(now));
    assert!((roster.worst_loss() - 40.0 / 60.0).abs() < 1e-9, "{}", roster.worst_loss());
}

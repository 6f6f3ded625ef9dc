use std::time::Duration;

use antiphon_core::{Event, Message, Outcome, PathId, Tag};

use super::super::path::Path;
use super::super::settings;
use super::super::wire::chunks::{DataHeader, Sack, Skipped};
use super::super::wire::writer::Writer;
use super::super::wire::{Header, parse};
use super::*;
use crate::queue::SendQueue;

const NOW: Instant = Instant::from_millis(1000);
/// Chosen so that TSNs wrap after the second.
const FIRST: Seq32 = Seq32(u32::MAX - 1);
const PACKET: usize = 1452;

struct Sender {
    out: Outgoing,
    paths: Vec<Path>,
    queue: SendQueue,
}

impl Sender {
    fn new() -> Self {
        let rules = Rules {
            ordered: true,
            reliability: Reliability::Deadline,
            streams: 1,
            interleaved: false,
            may_give_up: true,
        };
        let settings = settings::read(&"".parse().unwrap(), None).unwrap();
        let mut path = Path::new(PathId(0), PACKET, false, &settings, NOW);
        path.confirmed = true;
        Sender { out: Outgoing::new(rules, FIRST, 1 << 20), paths: vec![path], queue: SendQueue::empty() }
    }

    fn send(&mut self, len: usize, deadline: Option<Instant>) {
        let tag = Tag(self.queue.accepted());
        self.queue.push(Message::new(tag, &vec![1; len], deadline), 1 << 18).unwrap();
    }

    /// The TSNs of the next packet.
    fn packet(&mut self, now: Instant) -> Vec<u32> {
        self.packet_of(now, PACKET)
    }

    /// The same, with at most `most` bytes.
    fn packet_of(&mut self, now: Instant, most: usize) -> Vec<u32> {
        let mut buf = [0; PACKET];
        let mut writer = Writer::new(&mut buf[..most], Header { source: 1, destination: 2, tag: 3 });
        let (paths, queue) = (&mut self.paths[..], &mut self.queue);
        let mut packet = Departure { now, writer: &mut writer, by: 0, paths, queue };
        self.out.resend(&mut packet, false);
        self.out.send_new(&mut packet, false);
        let len = writer.finish();
        let chunks = parse(&buf[..len]).map(|(_, chunks)| chunks);
        chunks
            .into_iter()
            .flatten()
            .map(|chunk| DataHeader::parse(&chunk).unwrap().0.tsn.0.wrapping_sub(FIRST.0))
            .collect()
    }

    /// A SACK: how many TSNs have arrived in a row, and gap blocks from there.
    fn sack(&mut self, now: Instant, row: u32, gaps: &[(u16, u16)]) -> Result<Option<Acked>, Violation> {
        let mut value = FIRST.plus(row).0.wrapping_sub(1).to_be_bytes().to_vec();
        value.extend_from_slice(&[0, 1, 0, 0, 0, gaps.len() as u8, 0, 0]);
        for (first, last) in gaps {
            value.extend_from_slice(&first.to_be_bytes());
            value.extend_from_slice(&last.to_be_bytes());
        }
        let sack = Sack::parse(&value).unwrap();
        self.out.on_sack(now, &sack, &mut self.paths, &mut self.queue)
    }

    /// Finds what was overtaken; returns the TSNs of the next packet.
    fn find_overtaken(&mut self, now: Instant) -> Vec<u32> {
        self.out.find_overtaken(now, &mut Losses::default(), &mut self.paths);
        self.packet(now)
    }

    fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        let events = std::iter::from_fn(|| self.queue.poll_event());
        let outcome = |event| match event {
            Event::Outcome { tag, outcome } => Some((tag.0, outcome)),
            _ => None,
        };
        events.filter_map(outcome).collect()
    }
}

/// Six chunks, of which the first two have arrived after 40 ms, and the fifth beyond a gap.
fn with_a_gap() -> Sender {
    let mut sender = Sender::new();
    (0..6).for_each(|_| sender.send(300, None));
    assert_eq!([sender.packet(NOW), sender.packet(NOW)], [vec![0, 1, 2, 3], vec![4, 5]]);
    assert!(sender.sack(NOW + ms(40), 2, &[(3, 3)]).unwrap().is_some());
    assert_eq!(sender.outcomes(), [0, 1, 4].map(|number| (number, Outcome::Acked)));
    sender
}

#[test]
fn older_sacks_of_the_same_gap_change_nothing() {
    let mut sender = with_a_gap();
    sender.sack(NOW + ms(40), 2, &[(3, 4)]).unwrap();
    let (flight, window) = (sender.out.flight, sender.out.peer_window);
    for older in [&[][..], &[(3, 3)], &[(4, 4)], &[(4, 3)]] {
        assert!(sender.sack(NOW + ms(41), 2, older).unwrap().is_none(), "{older:?}");
    }
    assert_eq!((sender.out.flight, sender.out.peer_window), (flight, window));
    assert!(sender.sack(NOW + ms(41), 2, &[(3, 4)]).unwrap().is_some(), "its window may be news");
    // The fourth has arrived, and the sixth, which was said to have, is reported no more.
    assert!(sender.sack(NOW + ms(41), 2, &[(2, 3)]).unwrap().is_some());
}

#[test]
fn reneged_chunks_are_outstanding_until_found_lost() {
    // The third arrives, and the peer no longer has the fifth.
    let reneged = || {
        let mut sender = with_a_gap();
        sender.send(300, None);
        assert_eq!(sender.packet(NOW + ms(45)), [6]);
        sender.sack(NOW + ms(46), 4, &[]).unwrap();
        assert_eq!((sender.out.flight, sender.paths[0].flight), (900, 900));
        assert_eq!((sender.packet(NOW + ms(46)), sender.out.retransmitted), (vec![], 0));
        sender
    };
    // It left again, for all that is known, when it was reneged on: what was sent before tells nothing about it.
    let mut sender = reneged();
    sender.sack(NOW + ms(86), 4, &[(2, 3)]).unwrap();
    assert_eq!(sender.paths[0].overtaken_at, None);
    sender.send(300, None);
    assert_eq!(sender.packet(NOW + ms(90)), [7]);
    sender.sack(NOW + ms(130), 4, &[(2, 4)]).unwrap();
    assert_eq!(sender.packet(NOW + ms(130)), [4], "a later one has arrived");
    let rtt = sender.paths[0].rtt.smoothed().srtt();
    sender.sack(NOW + ms(131), 8, &[]).unwrap();
    assert_eq!(sender.paths[0].rtt.smoothed().srtt(), rtt, "no round trip, as it is not known what arrived");
    assert_eq!(sender.outcomes(), [2, 3, 5, 6, 7].map(|number| (number, Outcome::Acked)), "one outcome each");
    assert!(sender.out.is_empty() && sender.out.flight == 0 && sender.out.kept_bytes == 0);
    assert_eq!((sender.out.free.len(), sender.paths[0].flight), (sender.out.messages.len(), 0));
    // Or T3 finds it.
    let mut sender = reneged();
    sender.out.on_timeout(0, &mut sender.paths);
    assert_eq!(sender.packet(NOW + ms(200)), [4, 5, 6]);
}

#[test]
fn a_lost_retransmission_is_found_by_a_later_arrival() {
    let mut sender = with_a_gap();
    assert_eq!(sender.paths[0].overtaken_at, Some(NOW + ms(50)), "a round trip and a quarter after it left");
    assert_eq!(sender.find_overtaken(NOW + ms(50)), [2, 3]);
    sender.send(300, None);
    assert_eq!(sender.packet(NOW + ms(51)), [6]);
    // Of both retransmissions one is lost, and the message sent 1 ms later arrives.
    sender.sack(NOW + ms(90), 2, &[(2, 3)]).unwrap();
    sender.sack(NOW + ms(91), 2, &[(2, 5)]).unwrap();
    let found = sender.paths[0].overtaken_at.expect("overtaken");
    assert!(found < NOW + ms(50) + ms(58), "a round trip and a quarter: {found:?}");
    assert!(sender.paths[0].t3.is_some_and(|t3| t3 > found), "not by the time-out");
    assert_eq!(sender.find_overtaken(found), [2]);
}

#[test]
fn a_chunk_reneged_between_others_is_outstanding_and_tells_no_round_trip() {
    let mut sender = with_a_gap();
    // The fourth and the sixth arrive, and the fifth is reported no more.
    sender.sack(NOW + ms(41), 2, &[(2, 2), (4, 4)]).unwrap();
    assert_eq!((sender.out.flight, sender.paths[0].flight), (600, 600));
    let rtt = sender.paths[0].rtt.smoothed().srtt();
    sender.sack(NOW + ms(61), 2, &[(2, 4)]).unwrap();
    assert_eq!(sender.paths[0].rtt.smoothed().srtt(), rtt, "which of its transmissions arrived is not known");
}

#[test]
fn a_retransmitted_chunk_tells_no_round_trip() {
    let mut sender = with_a_gap();
    assert_eq!(sender.find_overtaken(NOW + ms(50)), [2, 3]);
    let rtt = sender.paths[0].rtt.smoothed().srtt();
    sender.sack(NOW + ms(120), 5, &[]).unwrap();
    assert_eq!(sender.paths[0].rtt.smoothed().srtt(), rtt);
}

#[test]
fn three_misses_are_no_loss_on_a_path_that_reorders() {
    for (reorders, lost) in [(false, vec![2]), (true, vec![])] {
        let mut sender = Sender::new();
        for tsn in 0..6 {
            sender.send(300, None);
            assert_eq!(sender.packet(NOW), [tsn]);
        }
        if reorders {
            sender.sack(NOW + ms(40), 0, &[(2, 2)]).unwrap();
        }
        sender.sack(NOW + ms(41), 2, &[]).unwrap();
        for last in 2..5 {
            sender.sack(NOW + ms(42), 2, &[(2, last)]).unwrap();
        }
        assert_eq!(sender.packet(NOW + ms(42)), lost, "reorders: {reorders}");
    }
}

#[test]
fn a_retransmission_that_arrives_overtakes_what_left_before() {
    let mut sender = Sender::new();
    sender.send(300, None);
    sender.packet(NOW);
    sender.sack(NOW + ms(40), 1, &[]).unwrap();
    for tsn in [1, 2] {
        sender.send(300, None);
        assert_eq!(sender.packet(NOW + ms(50)), [tsn]);
    }
    sender.out.set_state(0, ChunkState::Lost, &mut sender.paths);
    assert_eq!(sender.packet(NOW + ms(60)), [1]);
    // Nothing beyond it has arrived.
    sender.sack(NOW + ms(100), 2, &[]).unwrap();
    assert_eq!(sender.packet(NOW + ms(100)), [2]);
}

#[test]
fn a_partly_sent_expired_message_is_skipped_as_a_whole() {
    let mut sender = Sender::new();
    let deadline = NOW + Duration::from_millis(20);
    sender.send(100, None);
    // More than the first window.
    sender.send(20_000, Some(deadline));
    let mut sent = Vec::new();
    (0..10).for_each(|_| sent.extend(sender.packet(NOW)));
    let parts = sent.len() as u32 - 1;
    assert!(parts >= 3);
    // The peer has all that was sent; the window would allow more, but it is too late.
    sender.sack(deadline, 1 + parts, &[]).unwrap();
    assert_eq!(sender.out.forward_point(&mut Vec::new()), None);
    let late = deadline + Duration::from_millis(1);
    sender.send(100, None);
    assert_eq!(
        sender.packet(late),
        [1 + parts + 1],
        "the next message, past a number that stands for the rest"
    );
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked), (1, Outcome::Expired { maybe_received: false })]);
    let mut skipped = Vec::new();
    assert_eq!(sender.out.forward_point(&mut skipped), Some(FIRST.plus(1 + parts)));
    assert_eq!(skipped, [Skipped { stream: 0, unordered: false, number: 1 }]);
    assert!(sender.out.forward_due);
}

#[test]
fn acknowledgements_are_old_or_of_what_was_sent() {
    let mut sender = Sender::new();
    (0..3).for_each(|_| sender.send(100, None));
    sender.packet(NOW);
    assert!(sender.sack(NOW, 2, &[]).unwrap().is_some_and(|acked| acked.moved));
    assert!(sender.sack(NOW, 1, &[(1, 2)]).unwrap().is_none(), "overtaken by a later one");
    assert_eq!(sender.sack(NOW, 4, &[]).err(), Some(Violation));
    // Gaps that were never sent, go back or are empty change nothing.
    sender.sack(NOW, 2, &[(0, 0), (5, 9), (3, 2), (u16::MAX, 1)]).unwrap();
    assert_eq!((sender.out.flight, sender.outcomes().len()), (100, 2));
}

#[test]
fn oversized_chunks_are_given_up_if_the_peer_can_skip() {
    for may_give_up in [true, false] {
        let mut sender = Sender::new();
        sender.out.rules.may_give_up = may_give_up;
        sender.send(1400, None);
        sender.send(1000, None);
        assert_eq!((sender.packet(NOW), sender.packet(NOW)), (vec![0], vec![1]));
        sender.out.on_timeout(0, &mut sender.paths);
        assert!(!sender.out.must_resend_larger(1428));
        assert_eq!(sender.out.must_resend_larger(1424), !may_give_up, "28 bytes of headers");
        if may_give_up {
            assert_eq!(sender.packet_of(NOW, 1424), [1]);
            assert_eq!(sender.outcomes(), [(0, Outcome::RetriesExhausted)]);
            assert_eq!(sender.out.forward_point(&mut Vec::new()), Some(FIRST));
        } else {
            assert_eq!(sender.packet_of(NOW, 1424), [0; 0], "it waits");
            assert_eq!(sender.packet(NOW), [0], "and goes as it is");
        }
    }
}

#[test]
fn on_a_smaller_path_only_too_large_packets_count_as_lost() {
    let mut sender = Sender::new();
    [1400, 700, 700, 1000].into_iter().for_each(|len| sender.send(len, None));
    assert_eq!([sender.packet(NOW), sender.packet(NOW), sender.packet(NOW)], [vec![0], vec![1, 2], vec![3]]);
    sender.paths[0].mtu = small(NOW);
    sender.out.on_smaller_path(0, &mut sender.paths);
    // Of a packet with several chunks only the last counts as lost: those before it are missed with the next SACKs.
    assert_eq!((sender.out.lost, sender.out.flight, sender.paths[0].flight), (2, 1700, 1700));
}

/// A path that takes only packets up to 1200 bytes.
fn small(now: Instant) -> super::super::mtu::Mtu {
    super::super::mtu::Mtu::new(super::super::mtu::BASE, now)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Sender {
    /// Handles due timers; returns the TSNs of the next packet.
    fn at(&mut self, now: Instant) -> Vec<u32> {
        self.out.expire(now, &mut self.paths, &mut self.queue);
        self.packet(now)
    }

    /// Four chunks, of which the second is lost and has a deadline after 80 ms; the third has arrived after 60.
    fn with_a_loss(ordered: bool) -> Self {
        let mut sender = Sender::new();
        sender.out.rules.ordered = ordered;
        sender.paths[0].rtt.on_sample(ms(60));
        let deadline = NOW + ms(80);
        [None, Some(deadline), None, None].into_iter().for_each(|deadline| sender.send(300, deadline));
        assert_eq!(sender.packet(NOW), [0, 1, 2, 3]);
        sender.sack(NOW + ms(60), 1, &[(2, 2)]).unwrap();
        sender
    }
}

#[test]
fn a_retransmission_leaves_until_its_deadline_and_not_after() {
    for (after, expected) in [(80, vec![1]), (81, vec![])] {
        let mut sender = Sender::with_a_loss(false);
        sender.out.on_timeout(0, &mut sender.paths);
        sender.sack(NOW + ms(61), 1, &[(2, 3)]).unwrap();
        assert_eq!(sender.packet(NOW + ms(after)), expected);
    }
}

#[test]
fn one_miss_is_enough_just_before_the_deadline() {
    let mut sender = Sender::with_a_loss(false);
    let cwnd = sender.paths[0].window.cwnd;
    assert_eq!(sender.out.check_at, Some(NOW + ms(78)));
    assert_eq!(sender.at(NOW + ms(78)), [0; 0]);
    let last = sender.out.check_at.unwrap();
    assert!(last <= NOW + ms(79), "{last:?}");
    assert_eq!(sender.at(last), [1]);
    assert!(sender.paths[0].window.cwnd < cwnd || sender.paths[0].window.in_recovery(), "it is a loss");
    assert_eq!(sender.at(NOW + ms(80)), [0; 0], "once");
    let first_answer = last + sender.paths[0].rtt.base_rto();
    assert_eq!(sender.at(first_answer + ms(1)), [0; 0]);
    let expired = Outcome::Expired { maybe_received: true };
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked), (2, Outcome::Acked), (1, expired)]);
}

#[test]
fn a_repair_goes_out_once_more_just_before_the_deadline() {
    let mut sender = Sender::with_a_loss(false);
    sender.out.on_timeout(0, &mut sender.paths);
    sender.sack(NOW + ms(62), 1, &[(2, 3)]).unwrap();
    assert_eq!(sender.packet(NOW + ms(63)), [1]);
    assert_eq!(sender.at(NOW + ms(78)), [0; 0]);
    assert_eq!(sender.at(NOW + ms(79)), [1]);
    assert_eq!(sender.at(NOW + ms(80)), [0; 0]);
}

#[test]
fn in_order_what_is_missed_is_given_up_at_its_deadline() {
    for ordered in [true, false] {
        let mut sender = Sender::with_a_loss(ordered);
        assert_eq!(sender.at(NOW + ms(79)), [1]);
        sender.at(NOW + ms(81));
        let forwarded = sender.out.forward_point(&mut Vec::new());
        assert_eq!(forwarded, ordered.then_some(FIRST.plus(1)), "unordered, nothing waits for it");
    }
}

#[test]
fn deadlines_need_no_look_where_nothing_can_be_given_up() {
    let mut sender = Sender::new();
    sender.out.rules.may_give_up = false;
    sender.send(300, Some(NOW + ms(80)));
    assert_eq!(sender.packet(NOW), [0]);
    assert_eq!(sender.out.check_at, None);
}

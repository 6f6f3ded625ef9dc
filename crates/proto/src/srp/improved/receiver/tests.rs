use proptest::prelude::*;

use super::super::clock_us;
use super::*;
use crate::srp::decide::{InTime, Never};
use crate::srp::wire::WireError;

const LATENCY: Duration = Duration::from_millis(200);

/// A receiver on a path of 10 ms each way, and what it delivered and lost.
struct Bench {
    receiver: Receiver,
    epoch: u32,
    now: Instant,
    got: Vec<u32>,
    lost: Vec<u32>,
}

impl Bench {
    fn new(decide: Box<dyn Decide>) -> Self {
        Bench::with_latency(decide, LATENCY)
    }

    fn with_latency(decide: Box<dyn Decide>, latency: Duration) -> Self {
        let receiver = Receiver::new(ReceiverConfig::new(0.1, latency), decide);
        Bench { receiver, epoch: 9, now: Instant::ZERO, got: Vec::new(), lost: Vec::new() }
    }

    fn part(&self, id: u32) -> Part<'static> {
        let time = clock_us(self.now - Duration::from_millis(10));
        Part {
            epoch: self.epoch,
            // Streams begin with 1 here.
            age: u8::try_from(id.wrapping_sub(1)).unwrap_or(u8::MAX),
            index: 0,
            count: 1,
            priority: 0,
            previous_priority: 0,
            stream: 0,
            time,
            id,
            data: b"x",
        }
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = Instant::from_millis(ms);
        self
    }

    fn hear(&mut self, packet: &Extended<'_>) {
        let (got, lost) = (&mut self.got, &mut self.lost);
        self.receiver.handle(self.now, self.now, packet, &mut |delivery| sort(&delivery, got, lost));
    }

    fn data(&mut self, id: u32) {
        self.hear(&Extended::Data(self.part(id)));
    }

    fn timeout(&mut self) {
        let (got, lost) = (&mut self.got, &mut self.lost);
        self.receiver.handle_timeout(self.now, &mut |delivery| sort(&delivery, got, lost));
    }

    /// Ids requested in all packets sent now; probes come back after 20 ms.
    fn asked(&mut self) -> Vec<u32> {
        let (mut ids, mut buf) = (Vec::new(), [0; 64]);
        while let Some(len) = self.receiver.poll_transmit(self.now, &mut buf) {
            match Extended::parse(&buf[..len]).unwrap() {
                Extended::Nack(nack) => ids.extend(nack.ids()),
                Extended::Probe { time, .. } => {
                    self.receiver.requests.on_echo(self.now, self.now + Duration::from_millis(20), time);
                }
                other => panic!("{other:?}"),
            }
        }
        ids
    }

    /// Sends the probe that is due; returns the time in it.
    fn probe_time(&mut self) -> u32 {
        let mut buf = [0; 64];
        let len = self.receiver.poll_transmit(self.now, &mut buf).expect("a probe is due");
        match Extended::parse(&buf[..len]) {
            Ok(Extended::Probe { time, .. }) => time,
            other => panic!("{other:?}"),
        }
    }

    /// A stream of one message each `step` ms up to id `last`, with a round trip of 20 ms measured.
    fn streaming(step: u64, last: u32) -> Self {
        let mut bench = Bench::new(Box::new(InTime));
        for id in 1..=last {
            bench.at(100 + step * u64::from(id)).data(id);
            assert_eq!(bench.asked(), []);
        }
        assert_eq!(bench.receiver.requests.round_trip(), Duration::from_millis(20));
        bench.got.clear();
        bench
    }
}

fn sort(delivery: &Delivery<'_>, got: &mut Vec<u32>, lost: &mut Vec<u32>) {
    match delivery {
        Delivery::Message { id, .. } => got.push(*id),
        Delivery::Lost { id } => lost.push(*id),
    }
}

#[test]
fn a_gap_is_requested_at_once_and_delivery_goes_on() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(240).data(28);
    assert_eq!(bench.got, [28]);
    assert_eq!(bench.asked(), (21..28).collect::<Vec<_>>());
    assert_eq!(bench.receiver.counts().nacks, 1);
}

#[test]
fn unanswered_requests_repeat_until_playout_time() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210).data(22);
    let (mut asked, mut suspected) = (0, Vec::new());
    while bench.lost.is_empty() {
        let (of_it, others): (Vec<u32>, Vec<u32>) = bench.asked().into_iter().partition(|id| *id == 21);
        asked += of_it.len();
        suspected.extend(others);
        bench.now = bench.receiver.poll_timeout().expect("something to do until it is lost");
        bench.timeout();
    }
    // Round trip 20 ms, deviation 10 ms: every 60 ms, and the last time 22 ms before the 200 after 205 ms are over, so
    // that the answer can still be played. The receiver waits for it.
    assert_eq!((asked, &bench.lost[..]), (4, &[21][..]));
    // Twelve after it, three times each.
    suspected.sort_unstable();
    assert_eq!(suspected, (23..35).flat_map(|id| [id; 3]).collect::<Vec<_>>());
    assert_eq!(bench.now, Instant::from_millis(383 + 60));
    bench.at(450).data(21);
    assert_eq!((bench.got, bench.receiver.counts().late), (vec![22, 21], 1));
}

/// A loss is detected with 75 of 80 ms left: time for one round trip of 60 ms, but not to wait for it before the next.
#[test]
fn with_time_for_one_round_trip_it_is_asked_for_twice() {
    let mut bench = Bench::with_latency(Box::new(InTime), Duration::from_millis(80));
    (1..=20).for_each(|id| bench.at(100 + 5 * u64::from(id)).data(id));
    let sent = bench.probe_time();
    bench.at(260).hear(&Extended::Echo { epoch: 9, time: sent });
    assert_eq!(bench.receiver.requests.round_trip(), Duration::from_millis(60));
    (21..=32).for_each(|id| bench.at(100 + 5 * u64::from(id)).data(id));
    bench.at(270).data(34);
    assert_eq!(bench.asked(), [33]);
    // Due at 265 ms, to be played by 345: an answer needs 60 ms, and this machine 2 to wake.
    let state = bench.receiver.missing[0].state;
    assert_eq!(state, Awaiting::Answer { sent: Instant::from_millis(270), until: Instant::from_millis(283) });
    bench.at(283).timeout();
    // The next two are overdue and suspected by then.
    assert_eq!(bench.asked(), [33, 35, 36]);
    // Of those suspected since then an answer can come in time for the last three.
    bench.at(330).timeout();
    assert_eq!((bench.asked(), &bench.lost[..]), (vec![43, 44, 45], &[][..]), "two answers are under way");
}

#[test]
fn before_a_round_trip_is_known_a_loss_is_asked_for_twice() {
    let mut bench = Bench::with_latency(Box::new(InTime), Duration::from_millis(80));
    bench.at(100).data(1);
    bench.probe_time();
    bench.at(110).data(3);
    assert_eq!(bench.asked(), [2]);
    let again = bench.receiver.poll_timeout().expect("it may be asked for again");
    // 80 ms after it was due, at 105 ms or a little later.
    assert!((140..=150).contains(&(again.as_nanos() / 1_000_000)), "half of what is left: {again:?}");
    bench.now = again;
    bench.timeout();
    assert_eq!(bench.asked(), [2]);
}

#[test]
fn reordering_gets_no_time_that_a_request_needs() {
    let mut bench = Bench::with_latency(Box::new(InTime), Duration::from_millis(40));
    (1..=20).for_each(|id| {
        bench.at(100 + 5 * u64::from(id)).data(id);
        bench.asked();
    });
    // The path reorders by 8 ms: the receiver waits 10.
    bench.at(210).data(22);
    bench.at(218).data(21);
    bench.at(220).data(24);
    assert_eq!(bench.receiver.missing[0].state, Awaiting::Decision(Instant::from_millis(230)));
    // Due at 230 ms, to be played by 270: requested after 248 ms, the answer would be too late.
    bench.at(240).data(26);
    assert_eq!(bench.receiver.missing[0].state, Awaiting::Decision(Instant::from_millis(248)));
}

#[test]
fn a_request_that_a_later_one_overtook_is_repeated_at_once() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210).data(22);
    assert_eq!(bench.asked(), [21]);
    bench.at(220).data(24);
    assert_eq!(bench.asked(), [23]);
    let answer = Part { time: clock_us(Instant::from_millis(220)), ..bench.part(23) };
    bench.at(240).hear(&Extended::Answer(answer));
    assert_eq!(bench.asked(), [21]);
}

#[test]
fn a_slow_stream_is_requested_by_the_clock_until_it_pauses() {
    let mut bench = Bench::streaming(160, 20);
    let mut asked = Vec::new();
    for _ in 0..200 {
        asked.extend(bench.asked());
        let Some(next) = bench.receiver.poll_timeout() else { break };
        bench.now = next;
        bench.timeout();
    }
    asked.dedup();
    assert_eq!(asked.iter().filter(|id| **id == 21).count(), 1, "{asked:?}");
    assert!(asked.iter().all(|id| (21..=23).contains(id)), "{asked:?}");
    // 22 is due at 3620 ms: the clock is not far off.
    assert_eq!(bench.receiver.poll_timeout(), None, "idle");
    assert!(bench.lost.is_empty(), "what was never sent is not lost");
    assert_eq!(bench.receiver.counts().lost, 0);
    bench.at(9000).data(22);
    assert_eq!((bench.got, bench.receiver.counts().lost), (vec![22], 1));
}

/// Where packets were lost, a burst of losses is requested while it lasts, within bounds; where none was, what is late is only late.
#[test]
fn a_fast_stream_is_requested_by_the_clock_where_packets_are_lost() {
    for loses in [false, true] {
        let mut bench = Bench::streaming(5, 20);
        if !loses {
            (21..=22).for_each(|id| bench.at(110 + 5 * u64::from(id)).data(id));
        } else {
            bench.at(210).data(22);
            assert_eq!(bench.asked(), [21]);
            let answer = Part { time: clock_us(Instant::from_millis(210)), ..bench.part(21) };
            bench.at(230).hear(&Extended::Answer(answer));
        }
        // Ten more, and then none for as long as there is anything to do.
        for id in 23..=32 {
            bench.at(110 + 5 * u64::from(id)).data(id);
            bench.asked();
        }
        let mut asked: Vec<(u64, u32)> = Vec::new();
        for _ in 0..200 {
            let ids = bench.asked();
            asked.extend(ids.into_iter().map(|id| (bench.now.as_nanos() / 1_000_000, id)));
            let Some(next) = bench.receiver.poll_timeout() else { break };
            bench.now = next;
            bench.timeout();
        }
        let times = |of: u32| asked.iter().filter(|(_, id)| *id == of).map(|(at, _)| *at).collect::<Vec<_>>();
        if loses {
            // 33 is due at 275 ms; a round trip is 20 ms.
            assert!(
                matches!(times(33)[..], [first, second, third] if first < 290 && second < first + 25 && third < second + 25),
                "{asked:?}"
            );
            assert!((33..45).all(|id| times(id).len() == 3) && asked.len() == 36, "{asked:?}");
        } else {
            assert_eq!(asked, []);
        }
        assert!(
            bench.lost.is_empty() && bench.receiver.poll_timeout().is_none(),
            "what was never sent is not lost"
        );
        // All of these are requested again once they are known to be lost.
        bench.at(400).data(40);
        bench.asked();
        bench.at(420).timeout();
        assert_eq!(bench.receiver.counts().lost, 7 + u64::from(loses));
    }
}

/// Of a burst of seventeen the first twelve are suspected; those after them were due in their places, too.
#[test]
fn what_is_missing_after_suspected_packets_was_due_in_its_place() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210).data(22);
    for id in 23..=32 {
        bench.at(110 + 5 * u64::from(id)).data(id);
        bench.asked();
    }
    let next = Instant::from_millis(110 + 5 * 50);
    while let Some(at) = bench.receiver.poll_timeout().filter(|at| *at < next) {
        bench.now = at;
        bench.timeout();
        bench.asked();
    }
    bench.at(110 + 5 * 50).data(50);
    let due =
        |id: u64| bench.receiver.missing.iter().find(|missing| missing.id as u32 as u64 == id).unwrap().due;
    for id in 45..50 {
        let off = due(id).signed_nanos_since(Instant::from_millis(110 + 5 * id));
        assert!(off.abs() < 1_000_000, "{id}: {off} ns");
    }
}

#[test]
fn copies_are_delivered_once() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(205).data(21);
    (1..=21).for_each(|id| bench.data(id));
    bench.hear(&Extended::Answer(bench.part(20)));
    assert_eq!((bench.got, bench.receiver.counts().duplicates), (vec![21], 22));
}

#[test]
fn a_path_that_reorders_teaches_patience() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210).data(22);
    assert_eq!(bench.asked(), [21], "the first time no round trip was known");
    bench.at(214).data(21);
    bench.at(220).data(24);
    assert_eq!(bench.asked(), [], "4 ms and a quarter are given");
    bench.at(224).data(23);
    bench.at(230).data(26);
    bench.at(235).timeout();
    assert_eq!(bench.asked(), [25]);
}

#[test]
fn gap_upon_gap_is_missed_and_asked_for_within_bounds() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210);
    (1..=10).for_each(|n| bench.data(20 + 256 * n));
    // Ten gaps of 255; packets beyond 512 are given up at once.
    assert_eq!((bench.receiver.missing.len(), bench.receiver.counts().given_up), (512, 2550 - 512));
    let mut buf = [0; 64];
    let requests = std::iter::from_fn(|| bench.receiver.poll_transmit(bench.now, &mut buf));
    assert!(requests.count() <= 4, "257 ids in each, and a probe");
}

#[test]
fn a_restart_is_heard_when_the_old_stream_is_silent_and_forgeries_are_not() {
    let mut bench = Bench::streaming(5, 400);
    bench.got.clear();
    bench.epoch = 77;
    (0..5).for_each(|n| bench.at(2105).data(50_000 + n));
    bench.epoch = 9;
    bench.at(2106).data(401);
    assert_eq!((bench.got.clone(), bench.receiver.counts().resets), (vec![401], 0));
    // Near the old numbers, but in an epoch of its own: 1 and 2 are requested, and no packet is mistaken for a copy.
    bench.epoch = 12;
    (1..=4).for_each(|id| bench.at(3200 + u64::from(id)).data(id));
    assert_eq!(bench.asked(), [1, 2]);
    assert_eq!((bench.got, bench.receiver.counts().resets), (vec![401, 3, 4], 1));
}

/// Packets of another session, from the sender's own address, again and again in random order.
#[test]
fn a_replayed_session_costs_nothing() {
    let mut rng = antiphon_core::Rng::fork(3, "replay");
    let mut bench = Bench::streaming(5, 400);
    bench.got.clear();
    for n in 0..1_500_u32 {
        bench.epoch = 9;
        bench.at(2105 + 5 * u64::from(n)).data(401 + n);
        bench.epoch = 0xab_cdef;
        for _ in 0..100 {
            bench.data(7_000_000 + (rng.next_u32() % 388));
        }
    }
    let counts = bench.receiver.counts();
    assert_eq!((bench.got.len(), counts.resets, counts.lost), (1_500, 0, 0));
}

#[test]
fn after_an_outage_the_stream_restarts_at_the_newest() {
    let mut bench = Bench::streaming(5, 100);
    (5000..5010u32).for_each(|id| bench.at(20_000 + 5 * u64::from(id)).data(id));
    assert_eq!(bench.got, (5001..5010).collect::<Vec<_>>());
    assert_eq!(bench.asked(), [], "nothing of the outage is asked for");
    assert_eq!(bench.receiver.counts().lost, 5001 - 101);
}

#[test]
fn ids_go_on_from_the_greatest_to_zero() {
    let mut bench = Bench::new(Box::new(InTime));
    for n in 0..100u32 {
        if n != 50 && n != 51 {
            bench.at(100 + 5 * u64::from(n)).data((u32::MAX - 50).wrapping_add(n));
        }
    }
    assert_eq!(bench.got.len(), 98);
    assert_eq!(bench.asked(), [u32::MAX, 0]);
}

#[test]
fn a_missing_tail_is_noticed_without_a_next_message() {
    let mut bench = Bench::streaming(5, 20);
    bench.at(210);
    let part = |index: u8, bench: &Bench| Part { index, count: 4, ..bench.part(21 + u32::from(index)) };
    for index in [0, 2] {
        let part = part(index, &bench);
        bench.hear(&Extended::Data(part));
    }
    assert_eq!(bench.asked(), [22]);
    bench.now = bench.receiver.poll_timeout().unwrap();
    assert!(bench.now <= Instant::from_millis(220), "{:?}", bench.now);
    bench.timeout();
    assert_eq!(bench.asked(), [24]);
    for index in [1, 3] {
        let part = part(index, &bench);
        bench.hear(&Extended::Answer(part));
    }
    assert_eq!(bench.got, [21]);
}

#[test]
fn less_urgent_packets_get_fewer_chances() {
    // Beside those for it, three for each of twelve that are suspected after it, or fewer where it is given up sooner.
    for (priority, expected, of_others) in [(0, 4, 36), (2, 2, 36), (3, 1, 21)] {
        let mut bench = Bench::streaming(5, 20);
        bench.at(210);
        let next = Part { previous_priority: priority, ..bench.part(22) };
        bench.hear(&Extended::Data(next));
        let (mut asked, mut suspected) = (0, 0);
        while bench.lost.is_empty() {
            let ids = bench.asked();
            let of_it = ids.iter().filter(|id| **id == 21).count();
            (asked, suspected) = (asked + of_it, suspected + ids.len() - of_it);
            bench.now = bench.receiver.poll_timeout().unwrap();
            bench.timeout();
        }
        assert_eq!((asked, suspected), (expected, of_others), "priority {priority}");
    }
}

#[test]
fn never_is_plain_udp() {
    let mut bench = Bench::new(Box::new(Never));
    (1..200).filter(|id| id % 3 > 0).for_each(|id| bench.at(100 + 5 * u64::from(id)).data(id));
    assert_eq!(bench.asked(), []);
    assert_eq!((bench.got.len(), bench.lost.len()), (133, 66));
    assert_eq!(bench.receiver.poll_timeout(), None);
}

proptest! {
    /// Whatever a peer sends: bounded memory, bounded work, time-outs that advance, no duplicate delivery within an
    /// epoch.
    #[test]
    fn hostile_packets_cost_little(
        steps in prop::collection::vec((0u8..5, any::<u32>(), 0u32..40, any::<u8>(), 0u64..50), 1..300)
    ) {
        let mut bench = Bench::streaming(20, 20);
        let mut ms = 1000;
        for (kind, wild, near, byte, wait) in steps {
            ms += wait;
            bench.at(ms);
            let id = if byte % 4 == 0 { wild } else { 15 + near };
            let part = Part { epoch: if byte == 7 { 3 } else { 9 }, time: wild, ..bench.part(id) };
            match kind {
                0 => bench.hear(&Extended::Data(Part { index: byte % 4, count: 4, ..part })),
                1 => bench.hear(&Extended::Answer(part)),
                2 => bench.hear(&Extended::Echo { epoch: 9, time: wild }),
                _ => bench.hear(&Extended::Data(part)),
            }
            let mut buf = [0; 64];
            let sent = (0..20).take_while(|_| bench.receiver.poll_transmit(bench.now, &mut buf).is_some()).count();
            prop_assert!(sent < 20);
            prop_assert!(bench.receiver.missing.len() <= MAX_MISSING);
            if let Some(at) = bench.receiver.poll_timeout().filter(|at| *at <= bench.now) {
                bench.timeout();
                while bench.receiver.poll_transmit(bench.now, &mut buf).is_some() {}
                prop_assert!(bench.receiver.poll_timeout().is_none_or(|next| next > at), "stuck at {:?}", at);
            }
        }
        prop_assert!(bench.receiver.requests.round_trip() <= Duration::from_secs(20), "no estimate from forged times");
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut bench = Bench::streaming(20, 20);
        let parsed: Result<Extended<'_>, WireError> = Extended::parse(&bytes);
        if let Ok(packet) = parsed {
            bench.hear(&packet);
        }
    }
}

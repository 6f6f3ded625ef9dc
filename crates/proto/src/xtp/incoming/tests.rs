//! Parts that come in any order, overlap, or never come.

use proptest::prelude::*;

use super::*;

struct Bench {
    incoming: Incoming,
    inbox: Inbox,
}

impl Bench {
    fn new(ordered: bool) -> Self {
        Bench { incoming: Incoming::new(ordered), inbox: Inbox::empty() }
    }

    /// A part from `from`, whose bytes are their own positions.
    fn take(&mut self, from: u64, to: u64, begins: bool, ends: bool) -> Taken {
        let bytes: Vec<u8> = (from..to).map(|at| at as u8).collect();
        let (path, received_at) = (PathId(0), Instant::ZERO);
        let arrival = Arrival { from, bytes: &bytes, begins, ends, sort: 0, path, received_at };
        self.incoming.take(arrival, &mut self.inbox)
    }

    fn messages(&mut self) -> Vec<(u8, usize)> {
        let mut buf = vec![0; super::super::MAX_MESSAGE];
        std::iter::from_fn(|| {
            self.inbox.pop(&mut buf).map(|got| {
                assert!(buf[..got.len].windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
                (buf[0], got.len)
            })
        })
        .collect()
    }
}

const GAP: Taken = Taken::New { gap: true };
const NEXT: Taken = Taken::New { gap: false };

#[test]
fn whole_messages_come_out_at_once_unless_ordered() {
    for (ordered, early, late) in
        [(false, vec![(10, 10), (0, 10)], vec![]), (true, vec![(0, 10), (10, 10)], vec![])]
    {
        let mut bench = Bench::new(ordered);
        assert_eq!(bench.take(10, 20, true, true), GAP);
        assert_eq!(bench.incoming.spans().collect::<Vec<_>>(), [(10, 20)]);
        assert_eq!(bench.messages().len(), usize::from(!ordered));
        assert_eq!((bench.take(0, 10, true, true), bench.incoming.next()), (NEXT, 20));
        let mut expected = early.clone();
        expected.drain(..usize::from(!ordered));
        assert_eq!((bench.messages(), bench.incoming.held()), (expected, 0));
        assert_eq!(bench.take(5, 15, true, true), Taken::Duplicate);
        assert_eq!(bench.messages(), late);
    }
}

#[test]
fn parts_are_joined_in_any_order() {
    for ordered in [false, true] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let mut bench = Bench::new(ordered);
            for part in order {
                assert_eq!(bench.messages(), []);
                bench.take(10 * part, 10 * part + 10, part == 0, part == 2);
            }
            assert_eq!((bench.messages(), bench.incoming.held()), (vec![(0, 30)], 0), "{order:?}");
        }
    }
}

#[test]
fn parts_cut_anew_overlap() {
    let mut bench = Bench::new(false);
    bench.take(0, 10, true, false);
    bench.take(20, 30, false, true);
    // Cut anew in other places; the rest behind what had come is dropped with the packet.
    assert_eq!(bench.take(5, 25, false, false), NEXT);
    assert_eq!(bench.messages(), [(0, 30)]);
    assert_eq!((bench.incoming.next(), bench.incoming.held()), (30, 0));
}

#[test]
fn a_packet_around_what_has_come_fills_both_gaps() {
    let mut bench = Bench::new(false);
    bench.take(10, 20, false, false);
    bench.take(30, 40, false, false);
    assert_eq!(bench.take(0, 50, true, true), NEXT);
    assert_eq!(bench.messages(), [(0, 50)]);
    assert_eq!((bench.incoming.next(), bench.incoming.held()), (50, 0));
}

#[test]
fn what_is_given_up_ends_incomplete_messages_and_no_other() {
    for ordered in [false, true] {
        let mut bench = Bench::new(ordered);
        bench.take(0, 10, true, false);
        // 10 to 20 never comes.
        bench.take(20, 30, false, true);
        bench.take(30, 40, true, true);
        bench.take(40, 50, true, false);
        bench.incoming.give_up(20, &mut bench.inbox);
        assert_eq!(bench.incoming.next(), 50);
        assert_eq!(bench.messages(), [(30, 10)]);
        assert_eq!(bench.incoming.held(), 10, "the last one may still become complete");
        bench.take(50, 60, false, true);
        assert_eq!((bench.messages(), bench.incoming.held()), (vec![(40, 20)], 0));
        bench.incoming.give_up(u64::MAX, &mut bench.inbox);
        assert_eq!(bench.incoming.next(), 60, "nothing beyond the window");
    }
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new(false);
    let mut refused = 0;
    for n in 0..1000u64 {
        refused += u32::from(bench.take(20 * n + 20, 20 * n + 30, true, true) == Taken::Refused);
    }
    assert_eq!((refused, bench.incoming.spans().count()), (1000 - MOST_SPANS as u32, MOST_SPANS));
    assert_eq!(bench.take(0, 10, true, false), NEXT, "what fills the first gap is always taken");
    assert_eq!(bench.take(u64::MAX - 5, u64::MAX, true, true), Taken::Malformed);
    let mut bench = Bench::new(false);
    let mut worst = 0;
    for n in 0..3000u64 {
        bench.take(1000 * n, 1000 * n + 1000, n == 0, false);
        worst = worst.max(bench.incoming.held());
    }
    assert!(worst <= super::super::MAX_MESSAGE + 1000, "a message without an end: {worst}");
}

proptest! {
    /// Any packets at all, by a sender that numbers its bytes as it likes.
    #[test]
    fn no_packets_panic_or_deliver_what_did_not_come(
        packets in prop::collection::vec((0u64..400, 1u64..60, any::<bool>(), any::<bool>(), 0u64..500), 0..200),
        ordered: bool,
    ) {
        let mut bench = Bench::new(ordered);
        for (from, len, begins, ends, given_up) in packets {
            bench.take(from, from + len, begins, ends);
            if given_up % 7 == 0 {
                bench.incoming.give_up(given_up, &mut bench.inbox);
            }
            let spans: Vec<_> = bench.incoming.spans().collect();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
            prop_assert!(spans.first().is_none_or(|span| span.0 > bench.incoming.next()));
            let held: usize = bench.incoming.parts.iter().map(|part| part.bytes.len()).sum();
            prop_assert_eq!(held, bench.incoming.held());
            bench.messages();
        }
    }

    /// Messages cut into packets that come in any order, some twice, are delivered once each and whole.
    #[test]
    fn shuffled_packets_make_the_messages_again(
        lens in prop::collection::vec(1u64..50, 1..12), seed: u64, ordered: bool,
    ) {
        let mut rng = antiphon_core::Rng::fork(seed, "order");
        let (mut packets, mut at, mut expected) = (Vec::new(), 0, Vec::new());
        for len in lens {
            expected.push((at as u8, len as usize));
            let mut from = at;
            while from < at + len {
                let to = (from + 1 + u64::from(rng.below(20))).min(at + len);
                packets.push((from, to, from == at, to == at + len));
                from = to;
            }
            at += len;
        }
        for n in 0..packets.len() {
            packets.push(packets[n]);
        }
        for n in (1..packets.len()).rev() {
            packets.swap(n, rng.below(n as u32 + 1) as usize);
        }
        let mut bench = Bench::new(ordered);
        for (from, to, begins, ends) in packets {
            bench.take(from, to, begins, ends);
        }
        let mut got = bench.messages();
        if !ordered {
            got.sort_unstable();
            expected.sort_unstable();
        }
        prop_assert_eq!(got, expected);
        prop_assert_eq!((bench.incoming.next(), bench.incoming.held()), (at, 0));
    }
}

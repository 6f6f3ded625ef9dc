//! What is asked for, acknowledged and sent again.

use super::*;

#[test]
fn each_policy_asks_as_often_as_it_says() {
    // 200 messages in a second.
    for (query, least, most) in [
        ("acks=all", 200, 203),
        ("acks=4&reliability=none", 50, 203),
        ("acks=20ms", 45, 60),
        ("acks=gap", 5, 12),
        ("acks=never", 0, 0),
    ] {
        let mut pair = Pair::open(query);
        let mut statuses = 0;
        pair.stream(200, Some(Duration::from_millis(80)), &mut |at, packet| {
            statuses += u32::from(at == 1 && is_status(packet));
            true
        });
        assert_eq!(pair.numbers(1), (0..200).collect::<Vec<_>>(), "{query}");
        assert!((least..=most).contains(&statuses), "{query}: {statuses} statuses");
        let expected = if query.contains("never") || query.contains("none") {
            Outcome::Released
        } else {
            Outcome::Acked
        };
        assert_eq!(pair.outcomes(0), [expected; 200], "{query}");
    }
}

#[test]
fn only_what_is_lost_is_sent_again_and_once() {
    for query in ["", "acks=gap", "acks=10ms", "acks=8", "reliability=full&order=ordered"] {
        let mut pair = Pair::open(query);
        let mut left = [0u32; 256];
        let mut lose = losing(vec![20, 50, 51, 95]);
        pair.stream(100, Some(Duration::from_millis(80)), &mut |at, packet| {
            if let Some((_, number)) = data_of(packet).filter(|_| at == 0) {
                left[usize::from(number)] += 1;
            }
            lose(at, packet)
        });
        let mut came = pair.numbers(1);
        assert!(came.is_sorted() || !query.contains("ordered"), "{query}: {came:?}");
        came.sort_unstable();
        assert_eq!(came, (0..100).collect::<Vec<_>>(), "{query}");
        assert_eq!(pair.outcomes(0), [Outcome::Acked; 100]);
        let again: Vec<usize> = (0..100).filter(|number| left[*number] == 2).collect();
        assert_eq!((again, left.iter().sum::<u32>()), (vec![20, 50, 51, 95], 104), "{query}");
    }
}

#[test]
fn holes_stay_holes_where_nothing_is_repeated() {
    for query in ["reliability=none", "acks=never", "reliability=none&order=ordered"] {
        let mut pair = Pair::open(query);
        let mut late = 0;
        let mut lose = losing(vec![20, 50, 51]);
        pair.stream(100, None, &mut |at, packet| {
            late += u32::from(data_of(packet).is_some());
            lose(at, packet)
        });
        let expected: Vec<u8> = (0..100).filter(|n| ![20, 50, 51].contains(n)).collect();
        assert_eq!((pair.numbers(1), late), (expected, 100), "{query}");
    }
}

#[test]
fn order_waits_for_a_repair_until_it_is_given_up() {
    let mut pair = Pair::open("order=ordered");
    // The first, and all that is sent again of it.
    pair.stream(30, Some(Duration::from_millis(60)), &mut |at, packet| {
        at == 1 || data_of(packet).is_none_or(|(_, number)| number != 10)
    });
    let expected: Vec<u8> = (0..30).filter(|n| *n != 10).collect();
    assert_eq!(pair.numbers(1), expected);
    let outcomes = pair.outcomes(0);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Acked).count(), 29);
    assert!(outcomes.contains(&Outcome::Expired { maybe_received: true }));
}

#[test]
fn what_is_given_up_behind_a_repair_is_told_once_that_has_come() {
    let mut pair = Pair::open("");
    for (n, budget) in [(0, None), (1, Some(Duration::from_millis(30)))] {
        let bytes = [n; 400];
        let deadline = budget.map(|budget| pair.now + budget);
        pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, deadline)).expect("room");
    }
    // The second expires while the first is still on its way.
    pair.run(300, &mut |_, _| false);
    // Requests are half a second apart by now.
    pair.run(900, &mut |_, _| true);
    assert_eq!((pair.numbers(1), pair.ends[1].received()), (vec![0], 800));
}

#[test]
fn a_dead_path_gets_requests_and_no_data_where_nothing_is_given_up() {
    let mut pair = Pair::open("reliability=full");
    for n in 0..200 {
        let bytes = [n; 400];
        pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
    }
    let (mut data, mut requests) = (0, 0);
    pair.run(10_000, &mut |at, packet| {
        data += u32::from(at == 0 && data_of(packet).is_some());
        requests += u32::from(at == 0 && is_status(packet));
        false
    });
    // A window of ten packets of 1400 bytes; a request every half a second.
    assert!(data <= 36 && (20..=26).contains(&requests), "{data} data, {requests} requests");
    pair.run(3_000, &mut |_, _| true);
    assert_eq!(pair.numbers(1).len(), 200);
}

#[test]
fn a_request_is_repeated_no_sooner_than_wtimer_says() {
    let first_request = |query: &str| {
        let mut pair = Pair::open(query);
        pair.ends[0].send(pair.now, Message::new(Tag(0), &[1; 400], None)).expect("room");
        for step in 1..3_000 {
            let mut asked = false;
            pair.run(1, &mut |at, packet| {
                asked |= at == 0 && is_status(packet);
                false
            });
            if asked {
                return step;
            }
        }
        panic!("nothing was asked");
    };
    // Two round trips of 20 ms, and a margin.
    assert!((40..60).contains(&first_request("reliability=full")));
    assert!((700..=702).contains(&first_request("reliability=full&wtimer=700ms")));
}

#[test]
fn edge_and_dreq_are_answered() {
    let mut pair = Pair::open("acks=never");
    let (key, seq) = pair.ends[0].peer();
    let forge = |pair: &mut Pair, options, sync| {
        let mut buf = [0; 100];
        let header = Header { key, returned: true, options, sort: 0, sync, seq };
        let mut writer = Writer::new(&mut buf, &header, format::CNTL);
        writer.status(&Status { rseq: pair.ends[1].first(), alloc: 0, echo: 0 });
        let len = writer.finish();
        let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
        pair.ends[1].handle_input(pair.now, input);
        let mut told = 0;
        pair.run(1, &mut |at, packet| {
            told += u32::from(at == 1 && is_status(packet));
            true
        });
        told
    };
    assert_eq!(forge(&mut pair, 0, 100), 0);
    assert_eq!(forge(&mut pair, option::EDGE, 101), 1, "a change");
    assert_eq!(forge(&mut pair, option::EDGE, 102), 0, "none");
    assert_eq!(forge(&mut pair, 0, 103), 1, "a change back");
    assert_eq!(forge(&mut pair, option::DREQ, 104), 1, "all is fetched");
}

#[test]
fn reordering_before_any_round_trip_repeats_nothing() {
    let mut pair = Pair::open("acks=gap");
    // The listener has asked nothing yet, so it has measured nothing.
    for n in 0..2 {
        let bytes = [n; 100];
        pair.ends[1].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
    }
    pair.run(1, &mut |_, _| true);
    assert_eq!(pair.flight.len(), 2);
    pair.flight.swap(0, 1);
    let (early, late) = (pair.flight[0].0, pair.flight[1].0 + 2 * STEP);
    (pair.flight[0].0, pair.flight[1].0) = (early, late);
    pair.run(200, &mut |_, _| true);
    assert_eq!((pair.numbers(0), pair.ends[1].stats().counters.retransmitted), (vec![1, 0], 0));
}

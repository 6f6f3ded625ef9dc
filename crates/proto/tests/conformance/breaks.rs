//! Deadlines while nothing is sent, paths that break, and how an association ends.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{CloseMode, Instant, Outcome, SendError};
use antiphon_testkit::{message, number_of};

use crate::world::{
    Impairments, MAX_DATAGRAM, ONE_WAY, World, break_path, close, input, lose, mend_path, open, queue,
    transmit_by_hand,
};

pub fn expiry_is_told_in_time_and_behind_messages_without_deadline(scheme: &str) {
    let opens = Instant::from_millis(200);
    let mut world = open(scheme, Impairments { stalled_until: Some(opens), ..Impairments::default() }, 20);
    for n in 0..5 {
        world.near.send(world.now, &message(n, 200), Some(Instant::from_millis(20))).unwrap();
    }
    world.run_until(Instant::from_millis(25));
    let given_up = |o: &Outcome| matches!(o, Outcome::Expired { .. });
    assert_eq!(world.near.outcomes.len(), 5, "outcomes come with the deadline, not when the wire opens");
    assert!(world.near.outcomes.values().all(given_up));
    // Now every other one has no deadline; those behind them must still expire.
    for n in 5..15 {
        let deadline = (n % 2 == 0).then(|| Instant::from_millis(100));
        world.near.send(world.now, &message(n, 200), deadline).unwrap();
    }
    world.run_until(Instant::from_millis(10_000));
    world.near.assert_balanced();
    let arrived = world.far.numbers();
    assert_eq!(arrived, [5, 7, 9, 11, 13]);
    assert_eq!(world.near.count_outcomes(given_up), 10);
}

pub fn a_message_begun_on_a_stream_is_completed_after_its_deadline(scheme: &str) {
    let mut world = open(scheme, Impairments::default(), 21);
    let deadline = Some(world.now + Duration::from_millis(10));
    for n in 0..3 {
        world.near.send(world.now, &message(n, 400), deadline.filter(|_| n < 2)).unwrap();
    }
    assert_eq!(transmit_by_hand(&mut world, 100), 100);
    world.now += Duration::from_millis(20);
    world.run_until(world.now + Duration::from_secs(1));
    world.near.assert_balanced();
    assert_eq!(
        world.far.contents(),
        [message(0, 400), message(2, 400)],
        "begun is completed, the next one dropped"
    );
}

pub fn a_broken_path_is_told_and_outlived(scheme: &str) {
    let mut world = open(scheme, Impairments::default(), 22);
    queue(&mut world, 0..20, 400);
    let stream = world.near.is_byte_stream();
    // A stream breaks in the middle of its first message.
    assert!(transmit_by_hand(&mut world, if stream { 100 } else { MAX_DATAGRAM }) > 0);
    break_path(&mut world);
    if stream {
        assert_eq!(
            transmit_by_hand(&mut world, MAX_DATAGRAM),
            0,
            "nothing is written to a stream that is gone"
        );
    }
    world.near.drain(world.now);
    assert_eq!((world.near.broken, world.near.closed), (1, 0), "told, and not the end");
    world.now += Duration::from_millis(100);
    mend_path(&mut world);
    world.run_until(world.now + Duration::from_secs(5));
    world.near.assert_balanced();
    for got in world.far.contents() {
        assert_eq!(*got, message(number_of(got), 400), "nothing of the old connection is mixed in");
    }
    let mut arrived = world.far.numbers();
    // An unordered transport may deliver retransmitted duplicates, as UDP delivers what the network duplicated: above,
    // messages are matched by their RTP numbers. Transports that promise more have their own tests.
    if !world.far.endpoint.profile().ordered {
        let mut seen = BTreeSet::new();
        arrived.retain(|number| seen.insert(*number));
    }
    let first = u64::from(stream && arrived.first() != Some(&0));
    assert_eq!(arrived, (first..20).collect::<Vec<_>>(), "what had not begun goes out afterwards");
    for (number, outcome) in &world.near.outcomes {
        assert_eq!(*outcome == Outcome::Aborted, *number < first, "{number}: {outcome:?}");
    }
    assert_eq!(world.near.connected, if stream { 2 } else { 1 });
}

pub fn closing_ends_on_a_broken_path(scheme: &str) {
    for broken_first in [false, true] {
        let mut world = open(scheme, Impairments::default(), 23);
        queue(&mut world, 0..20, 400);
        let room = if world.near.is_byte_stream() { 100 } else { MAX_DATAGRAM };
        assert!(transmit_by_hand(&mut world, room) > 0);
        if broken_first {
            break_path(&mut world);
            close(&mut world, CloseMode::Graceful);
        } else {
            close(&mut world, CloseMode::Graceful);
            break_path(&mut world);
        }
        if world.near.is_byte_stream() {
            assert_eq!(
                transmit_by_hand(&mut world, MAX_DATAGRAM),
                0,
                "nothing is written to a stream that is gone"
            );
        }
        world.run_until(world.now + Duration::from_secs(60));
        assert_eq!(world.near.closed, 1, "closed, broken first: {broken_first}");
        world.near.assert_balanced();
    }
}

pub fn a_graceful_close_sends_what_was_accepted_and_takes_no_more(scheme: &str) {
    let mut world = open(scheme, Impairments::default(), 24);
    // Leaves time for a transport's handshake.
    world.run_until(world.now + Duration::from_secs(1));
    queue(&mut world, 0..50, 300);
    world.near.endpoint.close(world.now, CloseMode::Graceful);
    let refused = world.near.send(world.now, &message(50, 300), None);
    assert_eq!(refused, Err(SendError::Closed), "what comes after the request to close");
    world.run_until(world.now + Duration::from_secs(60));
    assert_eq!(world.near.closed, 1);
    world.near.assert_balanced();
    assert_eq!(world.far.contents(), (0..50).map(|n| message(n, 300)).collect::<Vec<_>>());
    assert!(!world.near.outcomes.values().any(|o| *o == Outcome::Aborted));
}

pub fn unfetched_messages_are_gone_after_closed(scheme: &str) {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        let mut world = open(scheme, Impairments::default(), 25);
        world.run_until(world.now + Duration::from_secs(1));
        world.near.send(world.now, &message(0, 300), None).unwrap();
        assert!(transmit_by_hand(&mut world, MAX_DATAGRAM) > 0);
        world.far.endpoint.close(world.now, mode);
        let mut closed = false;
        for _ in 0..100 {
            while let Some(event) = world.far.endpoint.poll_event() {
                closed |= matches!(event, antiphon_core::Event::Closed(_));
            }
            if closed {
                let mut buf = vec![0; world.far.endpoint.profile().max_receive];
                assert!(world.far.endpoint.poll_message(&mut buf).is_none(), "a message after Closed");
                break;
            }
            world.now += Duration::from_millis(600);
            world.far.endpoint.handle_timeout(world.now);
            while world.far.endpoint.poll_transmit(world.now, &mut [0; MAX_DATAGRAM]).is_some() {}
        }
        assert!(closed, "{mode:?} ends although the peer does not answer");
    }
}

pub fn an_empty_datagram_is_no_message(scheme: &str) {
    let mut world = open(scheme, Impairments::default(), 26);
    if world.near.is_byte_stream() {
        // Length zero is a null packet (RFC 4571 §2).
        world.far.endpoint.handle_input(world.now, input(&mut [0, 0], true, world.now));
    } else {
        world.far.endpoint.handle_input(world.now, input(&mut [], false, world.now));
        assert_eq!(world.far.counters().malformed, 1);
    }
    world.run_until(world.now + Duration::from_secs(1));
    assert!(world.far.messages.is_empty());
}

/// At any time in an association's life, whichever side ends it and however.
pub fn every_end_tells_the_fate_of_every_message(scheme: &str) {
    let still = Impairments { stalled_until: Some(Instant::from_millis(70_000)), ..Impairments::default() };
    let all_impairments = [
        Impairments::default(),
        Impairments { loss: 0.2, duplication: 0.05, reordering: 0.1, stalled_until: None },
        Impairments { loss: 1.0, ..Impairments::default() },
        still,
    ];
    // Before, during and after a handshake, and during a stream.
    for (at_ms, seed) in [0, 5, 15, 25, 45, 400].into_iter().zip(60..) {
        for impairments in all_impairments {
            for (mode, by_caller) in [
                (CloseMode::Abort, true),
                (CloseMode::Graceful, true),
                (CloseMode::Abort, false),
                (CloseMode::Graceful, false),
            ] {
                let mut world = open(scheme, impairments, seed);
                speak(&mut world, Duration::from_millis(at_ms));
                let side = if by_caller { &mut world.near } else { &mut world.far };
                side.endpoint.close(world.now, mode);
                // The other end may have been informed, or receives nothing any more: then a minute of silence or its
                // own close ends it.
                // close does.
                world.run_until(world.now + Duration::from_secs(1));
                close(&mut world, mode);
                world.run_until(world.now + Duration::from_secs(200));
                let case = format!("{mode:?} after {at_ms} ms by the caller: {by_caller}");
                assert_eq!((world.near.closed, world.far.closed), (1, 1), "{case}");
                world.near.assert_balanced();
                world.far.assert_balanced();
            }
        }
    }
}

/// Both ends send for a while, some messages without a deadline; the last ones just before the end.
fn speak(world: &mut World, time: Duration) {
    let until = world.now + time;
    let mut n = 0;
    loop {
        for side in [&mut world.near, &mut world.far] {
            let deadline = (n % 3 != 2).then(|| world.now + Duration::from_millis(40));
            let _blocked_where_nothing_moves = side.send(world.now, &message(n, 400), deadline);
        }
        if world.now >= until {
            return;
        }
        n += 1;
        world.run_until((world.now + Duration::from_millis(5)).min(until));
    }
}

/// A message may be sent or retransmitted until its deadline, not later (`Message::deadline`). Modes as published
/// retransmit by their papers' rules, whatever the deadline, and so does SCTP where a setting limits the number (RFC
/// 7496 §3.2).
pub fn a_repair_that_comes_in_time_is_sent_and_no_other(scheme: &str) {
    let world = open(scheme, Impairments::default(), 27);
    let own_rules = ["mode=as-published", "reliability=full", "retransmissions="];
    let obeys = !own_rules.iter().any(|rule| scheme.contains(rule));
    // Losses are detected after a little more than a round trip of 20 ms: 80 ms are enough for a repair, 15 ms are not.
    for (budget, repairs) in [(80, world.near.endpoint.profile().retransmits), (15, false)] {
        let mut world = open(scheme, Impairments::default(), 27);
        world.run_until(world.now + Duration::from_secs(1));
        let lost: BTreeSet<u32> = [60, 90, 91, 140].into();
        let departures = lose(&mut world, lost.clone());
        let budget = Duration::from_millis(budget);
        let deadlines: Vec<Instant> =
            (0..200).map(|n| world.now + Duration::from_millis(5) * n + budget).collect();
        for (n, deadline) in (0..).zip(&deadlines) {
            world.near.send(world.now, &message(n, 400), Some(*deadline)).expect("room");
            world.run_until(world.now + Duration::from_millis(5));
        }
        world.run_until(world.now + Duration::from_secs(5));
        world.near.assert_balanced();
        assert_eq!(world.up.lost, lost.len() as u64, "a loss each");
        for (number, times) in departures.borrow().iter() {
            let last = times.iter().max().expect("it left");
            assert!(!obeys || *last <= deadlines[*number as usize], "{number} left at {last:?}");
        }
        for lost in lost {
            let came = world.far.messages.iter().find(|came| came.number() == u64::from(lost));
            let at = came.map(|came| came.received.received_at);
            let in_time = at.is_some_and(|at| at <= deadlines[lost as usize] + ONE_WAY);
            assert!(in_time || !repairs, "{lost} of {budget:?} came at {at:?}");
        }
    }
}

/// Also where the answer to the caller has not gone out.
pub fn an_endpoint_that_is_called_and_aborted_closes(scheme: &str) {
    for answered in [false, true] {
        let mut world = open(scheme, Impairments::default(), 27);
        world.near.send(world.now, &message(0, 300), None).unwrap();
        assert!(transmit_by_hand(&mut world, MAX_DATAGRAM) > 0);
        let (listener, mut now) = (&mut world.far.endpoint, world.now);
        let mut buf = [0; MAX_DATAGRAM];
        while answered && listener.poll_transmit(now, &mut buf).is_some() {}
        listener.close(now, CloseMode::Abort);
        let mut closed = 0;
        for _ in 0..100 {
            while listener.poll_transmit(now, &mut buf).is_some() {}
            listener.handle_timeout(now);
            while let Some(event) = listener.poll_event() {
                closed += u32::from(matches!(event, antiphon_core::Event::Closed(_)));
            }
            now += Duration::from_millis(600);
        }
        assert_eq!(closed, 1, "answered before: {answered}");
    }
}

//! Deadlines while nothing moves, paths that break, and how an association ends.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{CloseMode, Instant, Outcome, SendError};

use crate::suite::{frame, number};
use crate::world::{MAX_DATAGRAM, Weather, World, input};

pub fn expiry_is_told_in_time_and_behind_frames_without_deadline(scheme: &str) {
    let opens = Instant::from_millis(200);
    let mut world = World::new(scheme, Weather { stalled_until: Some(opens), ..Weather::default() }, 20);
    for n in 0..5 {
        world.caller.send(world.now, &frame(n, 200), Some(Instant::from_millis(20))).unwrap();
    }
    world.run_until(Instant::from_millis(25));
    let given_up = |o: &Outcome| matches!(o, Outcome::Expired { .. });
    assert_eq!(world.caller.outcomes.len(), 5, "outcomes come with the deadline, not when the wire opens");
    assert!(world.caller.outcomes.values().all(given_up));
    // Now every other one has no deadline; those behind them expire all the same.
    for n in 5..15 {
        let deadline = (n % 2 == 0).then(|| Instant::from_millis(100));
        world.caller.send(world.now, &frame(n, 200), deadline).unwrap();
    }
    world.run_until(Instant::from_millis(10_000));
    world.caller.assert_balanced();
    let arrived: Vec<u32> = world.listener.frames.iter().map(|f| number(f)).collect();
    assert_eq!(arrived, [5, 7, 9, 11, 13]);
    assert_eq!(world.caller.outcomes.values().filter(|o| given_up(o)).count(), 10);
}

pub fn a_frame_begun_on_a_stream_is_completed_after_its_deadline(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 21);
    if !world.caller.is_byte_stream() {
        return;
    }
    let deadline = Some(world.now + Duration::from_millis(10));
    for n in 0..3 {
        world.caller.send(world.now, &frame(n, 400), deadline.filter(|_| n < 2)).unwrap();
    }
    assert_eq!(world.transmit_by_hand(100), 100);
    world.now += Duration::from_millis(20);
    world.run_until(world.now + Duration::from_secs(1));
    world.caller.assert_balanced();
    assert_eq!(
        world.listener.frames,
        [frame(0, 400), frame(2, 400)],
        "begun is completed, the next one dropped"
    );
}

pub fn a_broken_path_is_told_and_outlived(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 22);
    for n in 0..20 {
        world.caller.send(world.now, &frame(n, 400), None).unwrap();
    }
    let stream = world.caller.is_byte_stream();
    // A stream breaks in the middle of its first frame.
    assert!(world.transmit_by_hand(if stream { 100 } else { MAX_DATAGRAM }) > 0);
    world.break_path();
    if stream {
        assert_eq!(world.transmit_by_hand(MAX_DATAGRAM), 0, "nothing is written to a stream that is gone");
    }
    world.caller.drain();
    assert_eq!((world.caller.broken, world.caller.closed), (1, 0), "told, and not the end");
    world.now += Duration::from_millis(100);
    world.mend_path();
    world.run_until(world.now + Duration::from_secs(5));
    world.caller.assert_balanced();
    for got in &world.listener.frames {
        assert_eq!(*got, frame(number(got), 400), "nothing of the old connection is mixed in");
    }
    let mut arrived: Vec<u32> = world.listener.frames.iter().map(|f| number(f)).collect();
    // An unordered transport may hand on twice what a repetition brought, as UDP does what the network doubled: above,
    // frames are matched by their RTP numbers. Those that promise more have tests of their own.
    if !world.listener.endpoint.profile().ordered {
        let mut seen = BTreeSet::new();
        arrived.retain(|number| seen.insert(*number));
    }
    let first = u32::from(stream && arrived.first() != Some(&0));
    assert_eq!(arrived, (first..20).collect::<Vec<_>>(), "what had not begun goes out afterwards");
    for (id, outcome) in &world.caller.outcomes {
        assert_eq!(*outcome == Outcome::Aborted, id.0 < u64::from(first), "{id:?}: {outcome:?}");
    }
    assert_eq!(world.caller.connected, if stream { 2 } else { 1 });
}

pub fn closing_ends_on_a_broken_path(scheme: &str) {
    for broken_first in [false, true] {
        let mut world = World::new(scheme, Weather::default(), 23);
        for n in 0..20 {
            world.caller.send(world.now, &frame(n, 400), None).unwrap();
        }
        let room = if world.caller.is_byte_stream() { 100 } else { MAX_DATAGRAM };
        assert!(world.transmit_by_hand(room) > 0);
        if broken_first {
            world.break_path();
            world.close(CloseMode::Graceful);
        } else {
            world.close(CloseMode::Graceful);
            world.break_path();
        }
        if world.caller.is_byte_stream() {
            assert_eq!(
                world.transmit_by_hand(MAX_DATAGRAM),
                0,
                "nothing is written to a stream that is gone"
            );
        }
        world.run_until(world.now + Duration::from_secs(60));
        assert_eq!(world.caller.closed, 1, "closed, broken first: {broken_first}");
        world.caller.assert_balanced();
    }
}

pub fn a_graceful_close_sends_what_was_accepted_and_takes_no_more(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 24);
    // Transports with a handshake get the time for it.
    world.run_until(world.now + Duration::from_secs(1));
    for n in 0..50 {
        world.caller.send(world.now, &frame(n, 300), None).unwrap();
    }
    world.caller.endpoint.close(world.now, CloseMode::Graceful);
    let refused = world.caller.send(world.now, &frame(50, 300), None);
    assert_eq!(refused, Err(SendError::Closed), "what comes after the request to close");
    world.run_until(world.now + Duration::from_secs(60));
    assert_eq!(world.caller.closed, 1);
    world.caller.assert_balanced();
    assert_eq!(world.listener.frames, (0..50).map(|n| frame(n, 300)).collect::<Vec<_>>());
    assert!(!world.caller.outcomes.values().any(|o| *o == Outcome::Aborted));
}

pub fn what_nobody_fetched_is_gone_after_closed(scheme: &str) {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        let mut world = World::new(scheme, Weather::default(), 25);
        world.run_until(world.now + Duration::from_secs(1));
        world.caller.send(world.now, &frame(0, 300), None).unwrap();
        assert!(world.transmit_by_hand(MAX_DATAGRAM) > 0);
        world.listener.endpoint.close(world.now, mode);
        let mut closed = false;
        for _ in 0..100 {
            while let Some(event) = world.listener.endpoint.poll_event() {
                closed |= matches!(event, antiphon_core::Event::Closed(_));
            }
            if closed {
                let mut buf = vec![0; world.listener.endpoint.profile().max_receive];
                assert!(world.listener.endpoint.poll_frame(&mut buf).is_none(), "a frame after Closed");
                break;
            }
            world.now += Duration::from_millis(600);
            world.listener.endpoint.handle_timeout(world.now);
            while world.listener.endpoint.poll_transmit(world.now, &mut [0; MAX_DATAGRAM]).is_some() {}
        }
        assert!(closed, "{mode:?} ends though nobody answers");
    }
}

pub fn an_empty_datagram_is_no_frame(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 26);
    if world.caller.is_byte_stream() {
        // Length zero is a null packet (RFC 4571 §2).
        world.listener.endpoint.handle_input(world.now, input(&[0, 0], true, world.now));
    } else {
        world.listener.endpoint.handle_input(world.now, input(&[], false, world.now));
        assert_eq!(world.listener.counters().malformed, 1);
    }
    world.run_until(world.now + Duration::from_secs(1));
    assert!(world.listener.frames.is_empty());
}

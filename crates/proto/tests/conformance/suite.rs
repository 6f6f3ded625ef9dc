//! What every transport must keep, whatever it does beneath.

use std::time::Duration;

use antiphon_core::{CloseMode, Frame, Instant, Outcome, Rng, SendError, StreamId};

use crate::world::{MAX_DATAGRAM, Weather, World, input};

pub use crate::breaks::*;

/// A frame that looks like RTP (version 2), carries its number and is filled so that mixed-up bytes show.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (number as usize * 31 + i) as u8).collect();
    bytes[0] = 0x80;
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]])
}

/// Streams `count` frames of 400 bytes every 5 ms from the caller and closes after the last.
fn stream(world: &mut World, count: u32, budget: Option<Duration>) {
    for n in 0..count {
        let deadline = budget.map(|b| world.now + b);
        world.caller.send(world.now, &frame(n, 400), deadline).expect("an idle queue accepts");
        world.run_until(world.now + Duration::from_millis(5));
    }
    world.run_until(world.now + Duration::from_secs(5));
}

pub fn clean_wire_delivers_every_frame_unchanged(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 1);
    stream(&mut world, 200, Some(Duration::from_millis(200)));
    assert_eq!(world.caller.connected, 1, "Connected is reported");
    assert_eq!(world.listener.frames, (0..200).map(|n| frame(n, 400)).collect::<Vec<_>>());
    world.caller.assert_balanced();
    assert!(world.caller.outcomes.values().all(|o| matches!(o, Outcome::Released | Outcome::Acked)));
    let acknowledged = world.caller.endpoint.profile().acknowledged;
    assert!(
        acknowledged || !world.caller.outcomes.values().any(|o| *o == Outcome::Acked),
        "nobody acknowledged"
    );
    assert_eq!(world.listener.counters().frames_delivered, 200);
    let (sent, received) = (world.caller.counters(), world.listener.counters());
    assert!(sent.bytes_sent >= 200 * 400 && sent.datagrams_sent > 0, "{sent:?}");
    assert_eq!(
        (sent.bytes_sent, sent.datagrams_sent),
        (received.bytes_received, received.datagrams_received)
    );
    assert_eq!(world.listener.counters().malformed, 0);
}

pub fn every_stream_that_it_speaks_of_reaches_the_peer(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 1);
    let profile = world.caller.endpoint.profile();
    assert!(profile.streams >= 1 && profile.control_stream().0 < profile.streams);
    for n in 0..profile.streams {
        let sent = world.caller.send_on(world.now, StreamId(n), &frame(u32::from(n), 400), None);
        sent.expect("an idle queue accepts");
        world.run_until(world.now + Duration::from_millis(100));
    }
    world.run_until(world.now + Duration::from_secs(1));
    let all = (0..u32::from(profile.streams)).map(|n| frame(n, 400));
    assert_eq!(world.listener.frames, all.collect::<Vec<_>>());
}

pub fn every_size_up_to_the_largest_is_carried_and_no_larger(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 2);
    let max = world.caller.endpoint.profile().max_frame;
    assert!(world.listener.endpoint.profile().max_receive >= max);
    let sizes = [8, 9, 255, 256, 1000, max - 1, max];
    for (n, len) in sizes.into_iter().enumerate() {
        world.caller.send(world.now, &frame(n as u32, len), None).unwrap();
        // Hundreds of packets need a slow start's time.
        let patience = if len > MAX_DATAGRAM { 1_000 } else { 100 };
        world.run_until(world.now + Duration::from_millis(patience));
    }
    assert_eq!(world.listener.frames.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
    let too_large = world.caller.send(world.now, &vec![0x80; max + 1], None);
    assert_eq!(too_large, Err(SendError::TooLarge { len: max + 1, max }));
    assert_eq!(world.caller.send(world.now, &[], None), Err(SendError::Empty));
}

pub fn bad_weather_keeps_one_outcome_per_frame(scheme: &str) {
    let weather = Weather { loss: 0.1, duplication: 0.05, reordering: 0.1, stalled_until: None };
    let mut world = World::new(scheme, weather, 3);
    stream(&mut world, 400, Some(Duration::from_millis(150)));
    world.close(CloseMode::Graceful);
    world.run_until(world.now + Duration::from_secs(30));
    world.caller.assert_balanced();
    assert_eq!(world.caller.closed, 1);
    if !world.caller.is_byte_stream() {
        // Prove the weather happened: 5 standard deviations below its mean each.
        assert!(world.dropped > 10 && world.duplicated > 2 && world.overtaken > 10);
    }
    for got in &world.listener.frames {
        assert_eq!(*got, frame(number(got), 400), "a frame arrives whole or not at all");
    }
    let profile = world.caller.endpoint.profile();
    if profile.ordered {
        assert!(world.listener.frames.windows(2).all(|w| number(&w[0]) < number(&w[1])), "order is kept");
    }
    if profile.acknowledged {
        for (id, outcome) in &world.caller.outcomes {
            let arrived = world.listener.frames.iter().any(|f| u64::from(number(f)) == id.0);
            assert!(
                arrived || *outcome != Outcome::Acked,
                "{id:?} is reported as acknowledged and never arrived"
            );
        }
    }
}

pub fn no_frame_is_begun_after_its_deadline(scheme: &str) {
    let opens = Instant::from_millis(100);
    let mut world = World::new(scheme, Weather { stalled_until: Some(opens), ..Weather::default() }, 4);
    let start = world.now;
    // Deadlines at 20, 30, … ms: the wire opens at 100 ms, so only the later ones may go.
    for n in 0..20u32 {
        let deadline = start + Duration::from_millis(20 + u64::from(n) * 10);
        world.caller.send(world.now, &frame(n, 200), Some(deadline)).unwrap();
    }
    world.run_until(Instant::from_millis(10 * 1000));
    world.caller.assert_balanced();
    let arrived: Vec<u32> = world.listener.frames.iter().map(|f| number(f)).collect();
    assert!(arrived.iter().all(|n| start + Duration::from_millis(20 + u64::from(*n) * 10) >= opens));
    assert!(arrived.len() >= 8, "frames still in time are sent: {arrived:?}");
    let expired = world.caller.outcomes.values().filter(|o| matches!(o, Outcome::Expired { .. })).count();
    assert!(expired >= 7, "{expired} expired");
    assert_eq!(world.caller.counters().frames_expired, expired as u64);
}

pub fn nothing_comes_without_a_cause(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 5);
    world.run_until(world.now + Duration::from_secs(2));
    // Handshakes and keep-alives may run on time-outs; without one of them, nothing may move.
    if world.caller.endpoint.poll_timeout().is_none() && world.listener.endpoint.poll_timeout().is_none() {
        let before = (world.caller.counters(), world.listener.counters());
        world.run_until(world.now + Duration::from_secs(3600));
        assert_eq!((world.caller.counters(), world.listener.counters()), before);
    }
    assert!(world.listener.frames.is_empty());
    // A time-out called early and often is harmless.
    for _ in 0..100 {
        world.caller.endpoint.handle_timeout(world.now);
        world.listener.endpoint.handle_timeout(world.now);
    }
    world.run_until(world.now + Duration::from_secs(1));
    assert!(world.listener.frames.is_empty() && world.caller.closed == 0);
}

pub fn nothing_comes_after_closed(scheme: &str) {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        let mut world = World::new(scheme, Weather::default(), 6);
        for n in 0..50 {
            world.caller.send(world.now, &frame(n, 300), None).unwrap();
        }
        world.run_until(world.now + Duration::from_millis(3));
        for n in 50..80 {
            world.caller.send(world.now, &frame(n, 300), None).unwrap();
        }
        world.close(mode);
        world.run_until(world.now + Duration::from_secs(60));
        assert_eq!((world.caller.closed, world.listener.closed), (1, 1), "{mode:?}");
        world.caller.assert_balanced();
        assert_eq!(world.caller.send(world.now, &frame(99, 300), None), Err(SendError::Closed));
        let stream = world.caller.is_byte_stream();
        let (now, before) = (world.now, world.caller.counters());
        world.caller.endpoint.handle_input(now, input(&frame(7, 60), stream, now));
        world.break_path();
        world.mend_path();
        world.caller.endpoint.handle_timeout(now);
        assert_eq!(world.caller.send(now, &frame(99, 300), None), Err(SendError::Closed));
        world.caller.endpoint.close(now, mode);
        world.run_until(world.now + Duration::from_secs(60));
        assert_eq!(world.caller.closed, 1, "Closed comes once");
        assert_eq!(world.caller.endpoint.poll_timeout(), None);
        assert_eq!(world.caller.counters().bytes_sent, before.bytes_sent);
    }
}

pub fn hostile_input_is_counted_and_never_a_panic(scheme: &str) {
    for seed in 0..60 {
        let mut world = World::new(scheme, Weather::default(), seed);
        let mut rng = Rng::fork(seed, "hostile");
        let stream = world.caller.is_byte_stream();
        for n in 0..200u32 {
            let mut bytes = match rng.below(3) {
                0 => vec![0; rng.below(64) as usize],
                1 => vec![0; rng.below(MAX_DATAGRAM as u32) as usize],
                _ => frame(n, 8 + rng.below(400) as usize),
            };
            match rng.below(4) {
                // A packet of the right shape with one byte wrong, or cut short, or pure noise.
                0 if !bytes.is_empty() => {
                    let at = rng.below(bytes.len() as u32) as usize;
                    bytes[at] = rng.next_u32() as u8;
                }
                1 => bytes.truncate(rng.below(32) as usize),
                2 => rng.fill(&mut bytes),
                _ => {}
            }
            let now = world.now;
            let side = if rng.chance(0.5) { &mut world.caller } else { &mut world.listener };
            side.endpoint.handle_input(now, input(&bytes, stream, now));
            if n % 10 == 0 {
                let _accepted_or_refused =
                    world.caller.send(now, &frame(n, 200), Some(now + Duration::from_millis(50)));
            }
            world.run_until(world.now + Duration::from_millis(u64::from(rng.below(20))));
        }
        world.close(CloseMode::Abort);
        world.run_until(world.now + Duration::from_secs(60));
        world.caller.assert_balanced();
    }
}

pub fn memory_is_bounded_when_nobody_fetches_or_sends(scheme: &str) {
    let stalled_until = Some(Instant::from_millis(1_000_000 * 1000));
    let mut world = World::new(scheme, Weather { stalled_until, ..Weather::default() }, 8);
    let mut accepted = 0u64;
    let refused = (0..100_000u32).find_map(|n| {
        let result = world.caller.endpoint.send(world.now, Frame::new(&frame(n, 1000), None));
        accepted += u64::from(result.is_ok());
        result.err()
    });
    assert!(matches!(refused, Some(SendError::Blocked { queued }) if queued > 0), "{refused:?}");
    assert!(accepted * 1000 <= 4 << 20, "a send queue holds at most 4 MiB: {accepted} frames of 1000 bytes");
    large_frames_fill_a_queue_sooner(scheme);
    events_that_nobody_fetches_block_the_sender(scheme);

    // The receiving side: arrivals that nobody fetches are dropped and counted beyond the bound.
    let mut sender = World::new(scheme, Weather::default(), 9);
    let stream = sender.caller.is_byte_stream();
    // Bare frames and RFC 4571 framing can be forged here; transports with headers of their own have tests of their own.
    if stream || sender.caller.endpoint.profile().frame_overhead == 0 {
        let now = sender.now;
        for n in 0..20_000u32 {
            let packet = frame(n, 1000);
            let framed = if stream { [&1000u16.to_be_bytes()[..], &packet].concat() } else { packet };
            sender.listener.endpoint.handle_input(now, input(&framed, stream, now));
        }
        assert!(sender.listener.counters().frames_dropped > 10_000);
        sender.listener.drain();
        assert!(sender.listener.frames.len() * 1000 <= 4 << 20);
    }
}

fn large_frames_fill_a_queue_sooner(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 8);
    let large = vec![0x80; world.caller.endpoint.profile().max_frame];
    let accepted =
        (0..100_000).take_while(|_| world.caller.endpoint.send(world.now, Frame::new(&large, None)).is_ok());
    let bytes = accepted.count() * large.len();
    assert!(bytes <= 4 << 20, "a send queue holds at most 4 MiB: {bytes} bytes in frames of {}", large.len());
}

fn events_that_nobody_fetches_block_the_sender(scheme: &str) {
    let mut world = World::new(scheme, Weather::default(), 8);
    let mut buf = vec![0; MAX_DATAGRAM];
    let blocked = (0..100_000u32).any(|n| {
        let refused = world.caller.endpoint.send(world.now, Frame::new(&frame(n, 20), None)).is_err();
        while world.caller.endpoint.poll_transmit(world.now, &mut buf).is_some() {}
        refused
    });
    assert!(blocked, "outcomes that nobody fetches must not pile up for ever");
}

pub fn a_full_queue_says_when_there_is_room_again(scheme: &str) {
    let stalled_until = Some(Instant::from_millis(500));
    let mut world = World::new(scheme, Weather { stalled_until, ..Weather::default() }, 10);
    let mut n = 0;
    while world.caller.send(world.now, &frame(n, 1000), None).is_ok() {
        n += 1;
    }
    world.run_until(Instant::from_millis(400));
    assert_eq!(world.caller.writable, 0, "no Writable while the wire is stalled");
    world.run_until(Instant::from_millis(60 * 1000));
    assert_eq!(world.caller.writable, 1);
    world.caller.send(world.now, &frame(n, 1000), None).expect("room after Writable");
}

pub fn serial_numbers_wrap_unnoticed(scheme: &str) {
    // 70 000 frames pass every 16-bit counter once; wider ones are seeded near their end by their own tests.
    let mut world = World::new(scheme, Weather::default(), 11);
    for n in 0..70_000u32 {
        world.caller.send(world.now, &frame(n, 16), None).expect("an idle queue accepts");
        if n % 16 == 15 {
            world.run_until(world.now + Duration::from_millis(4));
        }
    }
    world.run_until(world.now + Duration::from_secs(5));
    assert_eq!(world.listener.frames.len(), 70_000);
    assert!(world.listener.frames.iter().enumerate().all(|(i, f)| number(f) == i as u32));
    world.caller.assert_balanced();
}

pub fn the_same_seed_repeats_exactly(scheme: &str) {
    let run = || {
        let weather = Weather { loss: 0.1, duplication: 0.05, reordering: 0.1, stalled_until: None };
        let mut world = World::new(scheme, weather, 12);
        stream(&mut world, 200, Some(Duration::from_millis(150)));
        (world.listener.frames.clone(), world.caller.outcomes.clone(), world.caller.counters())
    };
    assert_eq!(run(), run());
}

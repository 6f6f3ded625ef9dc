//! The sender's schedule.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, MediaTime};
use antiphon_media::StreamFormat;
use antiphon_proto::Role;
use antiphon_session::SoundSender;

use crate::sound::{Noise, stereo};
use crate::world::{endpoint, ms, sender_config};

const START: Instant = Instant::from_millis(5);

/// Takes what the sender put into its endpoint off it again.
fn drain(endpoint: &mut dyn Endpoint, now: Instant) -> u64 {
    let (mut buf, mut sent) = ([0; 1500], 0);
    while endpoint.poll_transmit(now, &mut buf).is_some() {
        sent += 1;
    }
    while endpoint.poll_event().is_some() {}
    sent
}

#[test]
fn an_hour_does_not_drift_by_a_nanosecond() {
    // A rate and a block whose duration is no whole number of nanoseconds.
    let format = StreamFormat::new(11_025, 1).unwrap();
    let hour = 3600 * 11_025;
    let mut sender = SoundSender::new(Noise::new(format, hour), sender_config(format, None, 1)).unwrap();
    let mut endpoint = endpoint("rtp", Role::Caller, Instant::ZERO);
    sender.advance(START, &mut *endpoint, |_| panic!("a block is due when its last sample is taken"));
    let mut blocks = 0u64;
    while !sender.is_ended() {
        let now = sender.poll_timeout().unwrap();
        blocks += 1;
        let due = START + MediaTime::new(blocks * 256, 11_025).duration();
        if blocks * 256 <= hour {
            assert_eq!(now, due);
        }
        // Woken late by anything under the limit, the schedule stays.
        let late = Duration::from_micros(blocks * 7919 % 20_000);
        sender.advance(now + late, &mut *endpoint, |_| {});
        drain(&mut *endpoint, now + late);
    }
    assert_eq!(sender.counters().stalls, 0);
    assert_eq!(sender.packetiser().position().frames, hour);
    assert_eq!(sender.counters().accepted, hour.div_ceil(256));
}

#[test]
fn a_thread_that_slept_moves_the_schedule_and_says_so() {
    let mut sender =
        SoundSender::new(Noise::new(stereo(), 480_000), sender_config(stereo(), None, 1)).unwrap();
    let mut endpoint = endpoint("rtp", Role::Caller, Instant::ZERO);
    sender.advance(START, &mut *endpoint, |_| {});
    let mut sent = Vec::new();
    // 249 ms behind: everything is made up for. 251 ms behind the next block: one block, and the schedule moves.
    let due = sender.poll_timeout().unwrap();
    sender.advance(due + ms(249), &mut *endpoint, |frame| sent.push(frame.info.media.frames));
    assert_eq!((sent.len(), sender.counters().stalls), (1 + 46, 0));
    let (due, before) = (sender.poll_timeout().unwrap(), sent.len());
    sender.advance(due + ms(251), &mut *endpoint, |frame| sent.push(frame.info.media.frames));
    assert_eq!((sent.len(), sender.counters().stalls), (before + 1, 1));
    // Media time goes on without a jump, a block later.
    assert!(sent.iter().enumerate().all(|(n, media)| *media == n as u64 * 256));
    assert_eq!(sender.poll_timeout(), Some(due + ms(251) + MediaTime::new(256, 48_000).duration()));
}

#[test]
fn a_source_that_has_nothing_delays_the_stream_and_is_counted() {
    let source = Noise::starving(stereo(), 48_000, 24_064, 100);
    let mut sender = SoundSender::new(source, sender_config(stereo(), None, 1)).unwrap();
    let mut endpoint = endpoint("rtp", Role::Caller, Instant::ZERO);
    sender.advance(START, &mut *endpoint, |_| {});
    let (mut at, mut media) = (Vec::new(), Vec::new());
    while let Some(now) = sender.poll_timeout() {
        sender.advance(now, &mut *endpoint, |frame| {
            at.push(now);
            media.push(frame.info.media.frames);
        });
        drain(&mut *endpoint, now);
    }
    assert_eq!(sender.counters().starved, 100);
    assert_eq!((media.len(), sender.counters().stalls), (188, 0));
    assert!(media.windows(2).all(|two| two[1] == two[0] + 256));
    let gap = at.windows(2).map(|two| two[1].since(two[0])).max().unwrap();
    // A hundred tries a millisecond apart, and the block's own time.
    assert!(gap > ms(105) && gap < ms(106), "{gap:?}");
}

#[test]
fn a_full_queue_is_counted_as_refused() {
    let mut sender =
        SoundSender::new(Noise::new(stereo(), 1_000_000), sender_config(stereo(), None, 1)).unwrap();
    // A connection that is not there takes frames until its queue is full.
    let mut endpoint = endpoint("tcp", Role::Caller, Instant::ZERO);
    let (mut now, mut refused) = (START, 0);
    sender.advance(now, &mut *endpoint, |_| {});
    while !sender.is_ended() {
        now = sender.poll_timeout().unwrap();
        sender.advance(now, &mut *endpoint, |frame| refused += u64::from(frame.result.is_err()));
    }
    let counters = sender.counters();
    assert!(refused > 1000, "{counters:?}");
    assert_eq!((counters.refused, counters.accepted + counters.refused), (refused, 3907));
}

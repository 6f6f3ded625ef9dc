//! The sender's schedule.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Input, Instant, MediaTime, Participant};
use antiphon_media::StreamFormat;
use antiphon_session::{Seen, SendTrack};
use antiphon_testkit::{Noise, stereo};

use crate::world::{WIRE, ms, send_session_within, track_config};

const START: Instant = Instant::from_millis(5);

fn track(source: Box<Noise>, format: StreamFormat) -> SendTrack {
    let mut track = SendTrack::new(source, track_config(format, 1)).unwrap();
    track.begin(START);
    track.advance(START);
    assert_eq!(track.poll(START), None, "a block is due when its last sample is taken");
    track
}

/// Lets the track make what is due, and returns the media time of each message.
fn made(track: &mut SendTrack, now: Instant) -> Vec<u64> {
    track.advance(now);
    let mut made = Vec::new();
    while let Some(emit) = track.poll(now) {
        made.push(track.store().get(emit.number).expect("it is remembered").0.info.media.frames);
    }
    made
}

#[test]
fn an_hour_does_not_drift_by_a_nanosecond() {
    // A rate and a block whose duration is no whole number of nanoseconds.
    let format = StreamFormat::new(11_025, 1).unwrap();
    let hour = 3600 * 11_025;
    let mut track = track(Noise::new(format, hour), format);
    let (mut blocks, mut messages) = (0u64, 0);
    while !track.is_ended() {
        let now = track.poll_timeout().unwrap();
        blocks += 1;
        let due = START + MediaTime::new(blocks * 256, 11_025).duration();
        if blocks * 256 <= hour {
            assert_eq!(now, due);
        }
        // Woken late by less than the limit, the schedule stays.
        let late = Duration::from_micros(blocks * 7919 % 20_000);
        messages += made(&mut track, now + late).len() as u64;
    }
    assert_eq!(track.counters().stalls, 0);
    assert_eq!(track.packetiser().position().frames, hour);
    assert_eq!((track.counters().messages, messages), (hour.div_ceil(256), hour.div_ceil(256)));
}

#[test]
fn a_thread_that_slept_moves_the_schedule_and_says_so() {
    let mut track = track(Noise::new(stereo(), 480_000), stereo());
    let mut sent = Vec::new();
    // 249 ms behind: all blocks are sent. 251 ms behind the next block: one block, and the schedule moves.
    let due = track.poll_timeout().unwrap();
    sent.extend(made(&mut track, due + ms(249)));
    assert_eq!((sent.len(), track.counters().stalls), (1 + 46, 0));
    let (due, before) = (track.poll_timeout().unwrap(), sent.len());
    sent.extend(made(&mut track, due + ms(251)));
    assert_eq!((sent.len(), track.counters().stalls), (before + 1, 1));
    // Media time goes on without a jump, a block later.
    assert!(sent.iter().enumerate().all(|(n, media)| *media == n as u64 * 256));
    assert_eq!(track.poll_timeout(), Some(due + ms(251) + MediaTime::new(256, 48_000).duration()));
}

#[test]
fn a_source_that_has_nothing_delays_the_stream_and_is_counted() {
    let mut track = track(Noise::starving(stereo(), 48_000, 24_064, 100), stereo());
    let (mut at, mut media) = (Vec::new(), Vec::new());
    while let Some(now) = track.poll_timeout() {
        for frames in made(&mut track, now) {
            at.push(now);
            media.push(frames);
        }
    }
    assert_eq!(track.counters().starved, 100);
    assert_eq!((media.len(), track.counters().stalls), (188, 0));
    assert!(media.windows(2).all(|two| two[1] == two[0] + 256));
    let gap = at.windows(2).map(|two| two[1].since(two[0])).max().unwrap();
    // A hundred tries a millisecond apart, and the block's own time.
    assert!(gap > ms(105) && gap < ms(106), "{gap:?}");
}

#[test]
fn a_full_queue_is_counted_as_refused() {
    // A connection that takes nothing: messages wait until its queue is full. They are for a receiver that plays them: for
    // a recording, the source would wait.
    let mut session =
        send_session_within("tcp", Noise::new(stereo(), 1_000_000), track_config(stereo(), 1), ms(60_000));
    let refused = Rc::new(Cell::new(0));
    let seen_refused = Rc::clone(&refused);
    session.observe(Box::new(move |_: Instant, seen: &Seen| {
        if let Seen::Sent(sent) = seen {
            seen_refused.set(seen_refused.get() + u64::from(sent.result.is_err()));
        }
    }));
    session.handle_input(START, WIRE, Input::Connected);
    session.advance(START);
    while !session.send_track().unwrap().is_ended() {
        let now = session.poll_timeout().unwrap();
        session.advance(now);
    }
    let (track, peers) = (session.sent().track, session.sent().peers);
    assert!(refused.get() > 1000, "{peers:?}");
    let counted = (track.messages, peers.refused, peers.accepted + peers.refused);
    assert_eq!(counted, (3907, refused.get(), 3907));
}

//! Recordings over reliable transports: outages, breaks and stopped receivers cost nothing.

use antiphon_core::{Instant, Participant, PathId};
use antiphon_session::{PlayoutDelay, SendTrack, Session, SessionConfig};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::session_config;
use crate::world::{WIRE, World, heard, ms, receive_session, stack, track_config};

const END: Instant = Instant::from_millis(900_000);

/// A sender of so many sample frames that calls again when its association has ended.
pub fn persistent(name: &str, frames: u64) -> Session {
    let config = SessionConfig { playout_delay: PlayoutDelay::Unbounded, ..session_config("near", 5) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_send_track(
        SendTrack::new(Noise::new(stereo(), frames), track_config(stereo(), 5)).expect("a track"),
    );
    session.keep_calling(Instant::ZERO, WIRE, &[PathId(0)], stack(name));
    session
}

/// Whether the recording has all sound, and nothing else.
fn is_exact(kept: &Kept, frames: u64) -> bool {
    kept.samples() == expected(stereo(), 0, frames)
}

#[test]
fn a_broken_byte_stream_costs_a_recording_nothing() {
    for outage in [300, 8_000, 30_000] {
        let (kept, frames) = (Kept::default(), 15 * 48_000);
        let mut world =
            World::piped(persistent("tcp", frames), receive_session("tcp", None, &kept), ms(10), 100_000);
        world.run_until(Instant::from_millis(3_000));
        // What is in flight is lost, and what the kernels had taken.
        world.break_pipe();
        world.run_until(Instant::from_millis(3_000 + outage));
        world.connect();
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{outage} ms");
        assert!(
            is_exact(&kept, frames),
            "{outage} ms: {} samples of {}, {:?}",
            kept.len(),
            2 * frames,
            world.near.sent()
        );
        let sent = world.near.sent().peers;
        assert!(sent.refused == 0 && sent.accepted == 2813 && sent.repeated > 0, "{sent:?}");
        assert_eq!(heard(&world.far).playout().map(|playout| playout.lost), Some(0));
    }
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_sender() {
    let (kept, frames) = (Kept::default(), 15 * 48_000);
    let mut world =
        World::piped(persistent("tcp", frames), receive_session("tcp", None, &kept), ms(10), 100_000);
    let stalled = (Instant::from_millis(3_000), Instant::from_millis(63_000));
    world.pipe().stall = Some(stalled);
    world.run_until(Instant::from_millis(50_000));
    let sent = world.near.sent();
    assert!(sent.peers.refused == 0, "{sent:?}");
    world.run(END);
    assert!(is_exact(&kept, frames), "{} samples of {}", kept.len(), 2 * frames);
}

#[test]
fn an_outage_costs_a_recording_nothing() {
    for name in ["sctp?reliability=full"] {
        for outage in [300, 8_000, 30_000, 90_000] {
            let (kept, frames) = (Kept::default(), 15 * 48_000);
            let mut world =
                World::linked(persistent(name, frames), receive_session(name, None, &kept), "delay=10ms", 1);
            world.outage(Instant::from_millis(3_000)..Instant::from_millis(3_000 + outage));
            world.run_until(Instant::from_millis(3_000 + outage + 2_000));
            let came = kept.len();
            assert!(came > 2 * 4 * 48_000, "{name}, {outage} ms: {came} samples two seconds after it");
            world.run(END);
            assert!(world.near.is_finished() && world.far.is_finished(), "{name}, {outage} ms");
            assert!(
                is_exact(&kept, frames),
                "{name}, {outage} ms: {} samples of {}, {:?}",
                kept.len(),
                2 * frames,
                world.near.sent()
            );
        }
    }
}

#[test]
fn losses_duplicates_and_reordering_cost_a_recording_nothing() {
    for name in ["sctp?reliability=full"] {
        let (kept, frames) = (Kept::default(), 15 * 48_000);
        let link = "delay=10ms,loss=20%,duplicate=5%,reorder=5%/30ms";
        let mut world = World::linked(persistent(name, frames), receive_session(name, None, &kept), link, 1);
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{name}");
        assert!(
            is_exact(&kept, frames),
            "{name}: {} samples of {}, {:?}",
            kept.len(),
            2 * frames,
            world.near.sent()
        );
    }
}

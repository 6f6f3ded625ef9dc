//! Recordings over reliable transports: outages, breaks and stopped receivers cost nothing.

use antiphon_core::{Instant, Participant, PathId, Role};
use antiphon_session::{
    LongGaps, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, SendTrack, Session, SessionConfig,
};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::{receive_config, session_config};
use crate::world::{
    SILENCE, WIRE, World, heard, linked, ms, piped, receive_session, send_session, stack, track_config,
};

const END: Instant = Instant::from_millis(900_000);

/// A sender of so many sample frames that calls again when its association has ended.
pub fn persistent(name: &str, frames: u64) -> Session {
    let config = SessionConfig { playout_delay: PlayoutDelay::Unbounded, ..session_config("near", 5) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_send_track(
        SendTrack::new(Noise::new(stereo(), frames), track_config(stereo(), 5)).expect("a track"),
    );
    session.keep_calling(Instant::ZERO, WIRE, &[PathId(0)], stack(name), false);
    session
}

/// A session that records into memory, with this in place of long gaps.
fn recording_with(name: &str, kept: &Kept, long_gaps: LongGaps) -> Session {
    let stack = stack(name);
    let profile = stack.open(Instant::ZERO, Role::Listener).profile();
    let track =
        ReceiveTrackConfig { reliable: profile.reliable, long_gaps, ..receive_config(None, profile.ordered) };
    let config = SessionConfig { tells: Some(PlayoutDelay::Unbounded), ..session_config("far", 99) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_receive_track(ReceiveTrack::new(track, kept.opener(), None));
    session.listen(Instant::ZERO, WIRE, stack, SILENCE);
    session
}

/// The recording has all sound, and nothing else.
fn assert_exact(world: &World<Session, Session>, kept: &Kept, frames: u64, what: &str) {
    let samples = kept.samples();
    assert!(
        samples == expected(stereo(), 0, frames),
        "{what}: {} samples of {}, {:?}",
        samples.len(),
        2 * frames,
        world.near.sent()
    );
}

#[test]
fn a_broken_byte_stream_costs_a_recording_nothing() {
    for outage in [300, 8_000, 30_000] {
        let frames = 15 * 48_000;
        let (mut world, kept) = piped(persistent("tcp", frames), None, ms(10), 100_000);
        world.run_until(Instant::from_millis(3_000));
        // What is in flight is lost, and what the kernels had taken.
        world.break_pipe();
        world.run_until(Instant::from_millis(3_000 + outage));
        world.connect();
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{outage} ms");
        assert_exact(&world, &kept, frames, &format!("{outage} ms"));
        let sent = world.near.sent().peers;
        assert!(sent.refused == 0 && sent.accepted == 2813 && sent.repeated > 0, "{sent:?}");
        assert_eq!(heard(&world.far).playout().map(|playout| playout.lost), Some(0));
    }
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_sender() {
    let frames = 15 * 48_000;
    let (mut world, kept) = piped(persistent("tcp", frames), None, ms(10), 100_000);
    let stalled = (Instant::from_millis(3_000), Instant::from_millis(63_000));
    world.pipe().stall = Some(stalled);
    world.run_until(Instant::from_millis(50_000));
    let sent = world.near.sent();
    assert!(sent.peers.refused == 0, "{sent:?}");
    world.run(END);
    assert_exact(&world, &kept, frames, "tcp");
}

#[test]
fn an_outage_costs_a_recording_nothing() {
    for name in
        ["sctp?reliability=full", "arq?reliability=full", "srp?reliability=full", "xtp?reliability=full"]
    {
        for outage in [300, 8_000, 30_000, 90_000] {
            let frames = 15 * 48_000;
            let (mut world, kept) = linked(name, persistent(name, frames), None, "delay=10ms", 1);
            world.outage(Instant::from_millis(3_000)..Instant::from_millis(3_000 + outage));
            world.run_until(Instant::from_millis(3_000 + outage + 2_000));
            let came = kept.len();
            assert!(came > 2 * 4 * 48_000, "{name}, {outage} ms: {came} samples two seconds after it");
            world.run(END);
            assert!(world.near.is_finished() && world.far.is_finished(), "{name}, {outage} ms");
            assert_exact(&world, &kept, frames, &format!("{name}, {outage} ms"));
        }
    }
}

/// A disk that takes a quarter of a second of sound, then nothing for a minute, as one that spins up.
#[test]
fn a_slow_disk_holds_up_the_sender() {
    for name in [
        "tcp",
        "sctp?reliability=full",
        "arq?reliability=full",
        "srp?reliability=full",
        "xtp?reliability=full",
    ] {
        let (kept, frames) = (Kept::default(), 15 * 48_000);
        kept.set_room(12_000);
        let far = receive_session(name, None, &kept);
        let near = persistent(name, frames);
        let mut world = match name {
            "tcp" => World::piped(near, far, ms(10), 100_000),
            _ => World::linked(near, far, "delay=10ms", 1),
        };
        world.run_until(Instant::from_millis(60_000));
        assert!(!kept.is_empty() && kept.len() <= 24_000, "{name}: {}", kept.len());
        kept.set_room(usize::MAX);
        world.run(END);
        assert_exact(&world, &kept, frames, name);
    }
}

/// What a stream that was cut off for a while is recorded as: silence in its place, unless gaps are to be cut out.
#[test]
fn a_recording_is_as_long_as_the_performance() {
    for (outage, long_gaps) in
        [(2_500, LongGaps::Silence), (30_000, LongGaps::Silence), (30_000, LongGaps::Cut)]
    {
        let (kept, frames) = (Kept::default(), 45 * 48_000);
        let near = send_session("rtp", stereo(), frames, 5);
        let far = recording_with("rtp", &kept, long_gaps);
        let mut world = World::linked(near, far, "delay=10ms", 1);
        world.outage(Instant::from_millis(5_000)..Instant::from_millis(5_000 + outage));
        world.run(END);
        assert!(world.far.is_finished());
        let track = heard(&world.far);
        let (lost, packets) = (track.playout().unwrap().lost, track.counters().packets);
        assert_eq!(packets + lost, world.near.sent().peers.accepted, "both ends count alike");
        let expected_loss = outage as f64 * 48.0 / 256.0;
        assert!((lost as f64 - expected_loss).abs() < 2.0, "{lost} lost of about {expected_loss}");
        let samples = kept.samples();
        let whole = expected(stereo(), 0, frames);
        if long_gaps == LongGaps::Cut {
            assert!(samples.len() as u64 <= 2 * (frames - 29 * 48_000), "{}", samples.len());
            continue;
        }
        assert_eq!(samples.len() as u64, 2 * frames, "{outage} ms");
        let gaps = track.gaps().unwrap();
        let [gap] = gaps.list() else { panic!("{:?}", gaps.list()) };
        assert_eq!((gap.frames, gaps.frames()), (lost * 256, lost * 256));
        let (from, to) = (2 * gap.at as usize, 2 * (gap.at + gap.frames) as usize);
        assert!(samples[..from] == whole[..from], "before the gap");
        // Concealment fades the first packets in.
        assert!(samples[to + 2048..] == whole[to + 2048..], "after the gap, at its place");
    }
}

#[test]
fn losses_duplicates_and_reordering_cost_a_recording_nothing() {
    let names =
        ["sctp?reliability=full", "arq?reliability=full", "srp?reliability=full", "xtp?reliability=full"];
    for (name, seed) in names.into_iter().flat_map(|name| [(name, 1), (name, 2)]) {
        let frames = 15 * 48_000;
        let link = "delay=10ms,loss=20%,duplicate=5%,reorder=5%/30ms";
        let (mut world, kept) = linked(name, persistent(name, frames), None, link, seed);
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{name}");
        assert_exact(&world, &kept, frames, name);
    }
}

/// What arq and srp give up in an outage is missing; all the rest is at its place.
#[test]
fn after_an_outage_everything_is_at_its_place() {
    for (name, outage) in [
        ("arq", 2_500),
        ("arq", 8_000),
        ("srp", 2_500),
        ("srp", 8_000),
        ("sctp", 8_000),
        ("xtp", 2_500),
        ("xtp", 8_000),
    ] {
        let (kept, frames) = (Kept::default(), 20 * 48_000);
        let near = send_session(name, stereo(), frames, 5);
        let mut world = World::linked(near, recording_with(name, &kept, LongGaps::Silence), "delay=10ms", 1);
        world.outage(Instant::from_millis(3_000)..Instant::from_millis(3_000 + outage));
        world.run(END);
        assert!(world.far.is_finished(), "{name}, {outage} ms");
        let track = heard(&world.far);
        let gaps = track.gaps().expect("it records").list();
        let (samples, whole) = (kept.samples(), expected(stereo(), 0, frames));
        assert_eq!(samples.len(), whole.len(), "{name}, {outage} ms: {gaps:?}");
        // Concealment fades what follows a gap in.
        let mut from = 0;
        for gap in gaps {
            let (start, end) = (2 * gap.at as usize, 2 * (gap.at + gap.frames) as usize);
            let from_blended = from.min(start);
            assert!(
                samples[from_blended..start] == whole[from_blended..start],
                "{name}, {outage} ms: before {gap:?}"
            );
            from = end + 2048;
        }
        assert!(samples[from..] == whole[from..], "{name}, {outage} ms: after {gaps:?}");
        let counted = track.counters().packets + track.playout().unwrap().lost;
        assert_eq!(counted, 3750, "{name}, {outage} ms: both ends count alike");
    }
}

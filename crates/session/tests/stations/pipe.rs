//! Over an ordered byte stream that stands still, breaks and comes back.

use antiphon_core::Instant;
use antiphon_measure::Fate;
use antiphon_proto::Role;
use antiphon_session::{CallStation, Reflector, ReflectorConfig, Station};

use crate::sound::{Kept, Noise, expected, stereo};
use crate::world::{World, call_config, endpoint, ms, receive_station, send_station};
use crate::world::{send_station_with, sender_config};

const END: Instant = Instant::from_millis(60_000);
/// Two segments, as a kernel whose send buffer is kept short.
const ROOM: usize = 2896;

fn piped_call(patience: Option<u64>, frames: u64) -> (World<CallStation, Reflector>, Kept) {
    let kept = Kept::default();
    let mut config = call_config(stereo(), ms(80));
    config.sender.patience = patience.map(ms);
    let near = endpoint("tcp", Role::Caller, Instant::ZERO);
    let near = CallStation::new(near, Noise::new(stereo(), frames), kept.sink(stereo()), config).unwrap();
    let far = Reflector::new(endpoint("tcp", Role::Listener, Instant::ZERO), ReflectorConfig::default());
    (World::piped(near, far, ms(1), ROOM), kept)
}

#[test]
fn a_clean_pipe_is_sample_exact_for_players_and_recordings() {
    for latency in [None, Some(ms(40))] {
        let kept = Kept::default();
        let near = send_station("tcp", stereo(), 240_017, 5);
        let mut world = World::piped(near, receive_station("tcp", latency, &kept), ms(1), 1500);
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{latency:?}");
        assert!(kept.samples() == expected(stereo(), 0, 240_017), "{latency:?}: {} samples", kept.len());
    }
}

#[test]
fn a_recording_survives_a_stall_with_every_sample() {
    let kept = Kept::default();
    let near = send_station("tcp", stereo(), 240_000, 5);
    let mut world = World::piped(near, receive_station("tcp", None, &kept), ms(1), ROOM);
    world.pipe().stall = Some((Instant::from_millis(1000), Instant::from_millis(3500)));
    world.run(END);
    assert_eq!((world.near.counters().refused, world.near.counters().expired), (0, 0));
    assert!(kept.samples() == expected(stereo(), 0, 240_000), "{} samples", kept.len());
}

#[test]
fn in_a_stall_frames_expire_unbegun_and_what_was_begun_arrives_late() {
    let (mut world, kept) = piped_call(Some(80), 480_000);
    world.pipe().stall = Some((Instant::from_millis(2000), Instant::from_millis(2600)));
    world.run_while(END, |world| !world.near.is_finished());
    let (log, counts) = (world.near.log(), world.near.log().counts());
    counts.balance(log.frames_sent()).unwrap();
    // Half a second of 5.3 ms frames; those of the last 80 ms were still wanted when the pipe moved again.
    assert!((85..110).contains(&counts.of(Fate::Expired)), "{counts:?}");
    assert_eq!(counts.of(Fate::Lost), 0, "a byte stream loses nothing that was begun: {counts:?}");
    assert!((1..10).contains(&counts.of(Fate::Late)), "{counts:?}");
    assert_eq!(log.frames_sent(), 1875);
    for row in log.rows() {
        match row.fate {
            Fate::Expired => assert!(row.received.is_none(), "{row:?}"),
            fate => assert!(fate.arrived() && row.received.is_some(), "{row:?}"),
        }
    }
    assert_eq!(counts.of(Fate::Expired), world.near.sent().expired);
    assert_eq!(kept.len(), 2 * 480_000, "as long as what was sent");
}

#[test]
fn without_patience_a_stall_makes_frames_late_and_none_is_lost() {
    let (mut world, kept) = piped_call(None, 480_000);
    world.pipe().stall = Some((Instant::from_millis(2000), Instant::from_millis(2600)));
    world.run_while(END, |world| !world.near.is_finished());
    let counts = world.near.log().counts();
    assert_eq!(counts.of(Fate::Late) + counts.of(Fate::Played), 1875, "{counts:?}");
    assert!((85..130).contains(&counts.of(Fate::Late)), "{counts:?}");
    assert_eq!(counts.of(Fate::Late), world.near.heard().playout.late, "the log and the buffer agree");
    assert_eq!(kept.len(), 2 * 480_000);
}

#[test]
fn a_broken_connection_comes_back_and_the_stream_goes_on() {
    let kept = Kept::default();
    let near =
        send_station_with("tcp", Noise::new(stereo(), 480_000), sender_config(stereo(), Some(ms(300)), 5));
    let mut world = World::piped(near, receive_station("tcp", Some(ms(40)), &kept), ms(8), ROOM);
    world.run_until(Instant::from_millis(3000));
    world.break_pipe();
    world.run_until(Instant::from_millis(3200));
    assert!(world.far.broken().is_some() && world.near.unanswered().is_none());
    world.connect();
    world.run(END);
    assert!(world.far.broken().is_none() && world.far.is_finished());
    let (sent, playout) = (world.near.counters(), world.far.receiver().playout().unwrap());
    // 200 ms are within the frames' patience: only what was in flight is gone, at most two segments and the frame
    // under way.
    assert_eq!((sent.expired, sent.refused), (0, 0));
    assert!((1..=4).contains(&playout.lost), "{playout:?}");
    assert_eq!(world.far.receiver().sources().streams, 1);
    assert_eq!(world.far.receiver().counters().malformed, 0);
    assert_eq!(world.far.receiver().counters().packets + playout.lost, 1875);
}

/// A stream's peer is whoever has the connection: nobody need wait for the silence of one whose connection is gone.
#[test]
fn a_sender_that_restarts_on_a_new_connection_is_heard_from_its_first_packet() {
    let kept = Kept::default();
    let first = send_station("tcp", stereo(), 480_000, 5);
    let mut world = World::piped(first, receive_station("tcp", None, &kept), ms(1), ROOM);
    world.run_until(Instant::from_millis(1000));
    world.break_pipe();
    let (before, sources) = (kept.len(), world.far.receiver().sources().streams);
    world.near = send_station("tcp", stereo(), 96_000, 6);
    world.connect();
    world.run(END);
    assert!(world.far.is_finished());
    assert_eq!((sources, world.far.receiver().sources().streams), (1, 2));
    assert_eq!(world.far.receiver().sources().strangers, 0);
    assert!(kept.samples()[..before] == expected(stereo(), 0, before as u64 / 2));
    assert!(kept.samples()[before..] == expected(stereo(), 0, 96_000), "{} samples", kept.len() - before);
}

#[test]
fn a_break_longer_than_patience_expires_frames_and_a_call_accounts_for_each() {
    let (mut world, kept) = piped_call(Some(80), 480_000);
    world.run_until(Instant::from_millis(3000));
    world.break_pipe();
    world.run_until(Instant::from_millis(4000));
    world.connect();
    world.run_while(END, |world| !world.near.is_finished());
    let counts = world.near.log().counts();
    counts.balance(1875).unwrap();
    // A second less the patience, in frames; what was in flight, there or back, is lost.
    assert!((165..180).contains(&counts.of(Fate::Expired)), "{counts:?}");
    assert!((1..=8).contains(&counts.of(Fate::Lost)), "{counts:?}");
    assert_eq!(kept.len(), 2 * 480_000);
}

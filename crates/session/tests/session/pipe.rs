//! Over an ordered byte stream that stalls, breaks and is connected again.

use antiphon_core::{BrokenReason, Input, Instant, Participant, WireId};
use antiphon_measure::Fate;
use antiphon_session::{Peer, PlayoutDelay, Reflector, Session};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::{Comparison, comparing};
use crate::log::Log;
use crate::world::{
    SINGLE, WIRE, World, heard, many, ms, piped, reflector, send_session, send_session_within, track_config,
};

const END: Instant = Instant::from_millis(60_000);
/// Two segments, as in a kernel whose send buffer is kept short.
const ROOM: usize = 2896;

/// A comparison; what has waited longer than `patience` is of no use.
struct Call {
    world: World<Session, Reflector>,
    kept: Kept,
    log: Log,
}

fn piped_call(patience: Option<u64>, frames: u64) -> Call {
    let delay = patience.map_or(PlayoutDelay::Unbounded, |patience| PlayoutDelay::Of(ms(patience)));
    let setting = Comparison { delay, ..Comparison::new(stereo(), ms(80)) };
    let kept = Kept::default();
    let mut near = comparing("tcp", Noise::new(stereo(), frames), kept.opener(), setting);
    let log = Log::of(&mut near, 10_000, None);
    Call { world: World::piped(near, reflector("tcp", SINGLE), ms(1), ROOM), kept, log }
}

impl Call {
    fn run(&mut self) {
        self.world.run_while(END, |world| !world.near.is_finished());
        self.log.finish(&self.world.near);
    }
}

#[test]
fn a_clean_pipe_is_sample_exact_for_players_and_recordings() {
    for latency in [None, Some(ms(40))] {
        let (mut world, kept) = piped(send_session("tcp", stereo(), 240_017, 5), latency, ms(1), 1500);
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{latency:?}");
        assert!(kept.samples() == expected(stereo(), 0, 240_017), "{latency:?}: {} samples", kept.len());
    }
}

#[test]
fn a_recording_survives_a_stall_with_every_sample() {
    let (mut world, kept) = piped(send_session("tcp", stereo(), 240_000, 5), None, ms(1), ROOM);
    world.pipe().stall = Some((Instant::from_millis(1000), Instant::from_millis(3500)));
    world.run(END);
    assert_eq!((world.near.sent().peers.refused, world.near.sent().peers.expired), (0, 0));
    assert!(kept.samples() == expected(stereo(), 0, 240_000), "{} samples", kept.len());
}

#[test]
fn in_a_stall_unbegun_messages_expire_and_begun_ones_are_late() {
    let mut call = piped_call(Some(80), 480_000);
    call.world.pipe().stall = Some((Instant::from_millis(2000), Instant::from_millis(2600)));
    call.run();
    let log = call.log.get();
    let counts = log.counts();
    counts.balance(log.packets_sent()).unwrap();
    // Half a second of 5.3 ms frames; those of the last 80 ms were still wanted when the pipe moved again.
    assert!((85..110).contains(&counts.of(Fate::Expired)), "{counts:?}");
    assert_eq!(counts.of(Fate::Lost), 0, "a byte stream loses nothing that was begun: {counts:?}");
    assert!((1..10).contains(&counts.of(Fate::Late)), "{counts:?}");
    assert_eq!(log.packets_sent(), 1875);
    for row in log.rows() {
        match row.fate {
            Fate::Expired => assert!(row.received.is_none(), "{row:?}"),
            fate => assert!(fate.arrived() && row.received.is_some(), "{row:?}"),
        }
    }
    assert_eq!(counts.of(Fate::Expired), call.world.near.sent().peers.expired);
    assert_eq!(call.kept.len(), 2 * 480_000, "as long as what was sent");
}

#[test]
fn without_patience_a_stall_makes_frames_late_and_none_is_lost() {
    let mut call = piped_call(None, 480_000);
    call.world.pipe().stall = Some((Instant::from_millis(2000), Instant::from_millis(2600)));
    call.run();
    let counts = call.log.get().counts();
    assert_eq!(counts.of(Fate::Late) + counts.of(Fate::Played), 1875, "{counts:?}");
    assert!((85..130).contains(&counts.of(Fate::Late)), "{counts:?}");
    assert_eq!(
        counts.of(Fate::Late),
        heard(&call.world.near).playout().unwrap().late,
        "the log and the buffer agree"
    );
    assert_eq!(call.kept.len(), 2 * 480_000);
}

/// Why the peer cannot be reached.
fn broken(session: &Session) -> Option<BrokenReason> {
    session.peers().find_map(Peer::broken)
}

/// A refused datagram says so again with each packet; a broken connection says it once.
#[test]
fn a_connection_that_broke_long_before_the_end_is_broken_at_the_end() {
    let near = send_session_within("tcp", Noise::new(stereo(), 480_000), track_config(stereo(), 5), ms(300));
    let (mut world, _kept) = piped(near, Some(ms(300)), ms(8), ROOM);
    world.run_until(Instant::from_millis(3000));
    world.break_pipe();
    world.run_while(END, |world| !world.near.is_finished());
    assert!(world.near.is_finished() && world.near.broken().is_some());
}

#[test]
fn a_broken_connection_comes_back_and_the_stream_goes_on() {
    let near = send_session_within("tcp", Noise::new(stereo(), 480_000), track_config(stereo(), 5), ms(300));
    let (mut world, _kept) = piped(near, Some(ms(300)), ms(8), ROOM);
    world.run_until(Instant::from_millis(3000));
    world.break_pipe();
    world.run_until(Instant::from_millis(3200));
    assert!(broken(&world.far).is_some() && world.near.never_answered().is_none());
    world.connect();
    world.run(END);
    assert!(broken(&world.far).is_none() && world.far.is_finished());
    let (sent, playout) = (world.near.sent().peers, heard(&world.far).playout().unwrap());
    // 200 ms are within the playout delay: only what was in flight is gone, at most two segments and the frame
    // under way.
    assert_eq!((sent.expired, sent.refused), (0, 0));
    assert!((1..=4).contains(&playout.lost), "{playout:?}");
    assert_eq!(heard(&world.far).sources().streams, 1);
    assert_eq!(heard(&world.far).counters().malformed, 0);
    assert_eq!(heard(&world.far).counters().packets + playout.lost, 1875);
}

/// A byte stream's peer is the other end of its connection: when that is gone, no silence need pass before the next.
#[test]
fn a_new_connections_sender_is_heard_from_its_first_packet() {
    let (mut world, kept) = piped(send_session("tcp", stereo(), 480_000, 5), None, ms(1), ROOM);
    world.run_until(Instant::from_millis(1000));
    world.break_pipe();
    let (before, sources) = (kept.len(), heard(&world.far).sources().streams);
    world.near = send_session("tcp", stereo(), 96_000, 6);
    world.connect();
    world.run(END);
    assert!(world.far.is_finished());
    assert_eq!((sources, heard(&world.far).sources().streams), (1, 2));
    assert_eq!(heard(&world.far).sources().unknown_sources, 0);
    assert!(kept.samples()[..before] == expected(stereo(), 0, before as u64 / 2));
    assert!(kept.samples()[before..] == expected(stereo(), 0, 96_000), "{} samples", kept.len() - before);
}

#[test]
fn a_break_longer_than_the_playout_delay_expires_messages() {
    let mut call = piped_call(Some(80), 480_000);
    call.world.run_until(Instant::from_millis(3000));
    call.world.break_pipe();
    call.world.run_until(Instant::from_millis(4000));
    call.world.connect();
    call.run();
    let counts = call.log.get().counts();
    counts.balance(1875).unwrap();
    // A second less the patience, in frames; what was in flight, there or back, is lost.
    assert!((165..180).contains(&counts.of(Fate::Expired)), "{counts:?}");
    assert!((1..=8).contains(&counts.of(Fate::Lost)), "{counts:?}");
    assert_eq!(call.kept.len(), 2 * 480_000);
}

/// A listening wire serves one connection after the other with the same association, or each with one of its own.
#[test]
fn a_listener_of_one_keeps_its_association_and_of_many_does_not() {
    for (policy, associations) in [(SINGLE, 1), (many(2), 3)] {
        let near =
            send_session_within("tcp", Noise::new(stereo(), 480_000), track_config(stereo(), 5), ms(300));
        let far = reflector("tcp", policy);
        let mut world = World::piped(near, far, ms(5), ROOM);
        let mut wires = Vec::new();
        for (second, back) in [(1, 110), (2, 250), (3, 370)] {
            wires.push(world.far_wire());
            assert_eq!(world.far.associations().iter().count(), 1, "{policy:?}");
            world.run_until(Instant::from_millis(second * 1_000));
            assert!(world.far.counters().returned > back, "{policy:?}: {:?}", world.far.counters());
            if second < 3 {
                world.break_pipe();
                world.run_until(Instant::from_millis(second * 1_000 + 50));
                world.connect();
            }
        }
        // Each connection has a wire of its own.
        wires.dedup();
        assert_eq!((wires.len(), wires.contains(&WIRE)), (3, false), "{policy:?}");
        let admission = world.far.admission();
        assert_eq!((admission.admitted, admission.no_room), (associations, 0), "{policy:?}");
    }
}

/// A connection that sends keeps its place, however long it is silent if there are places for many, and until another sends
/// if there is one.
#[test]
fn who_sends_keeps_its_place_and_who_does_not_makes_room() {
    for (policy, most) in [(SINGLE, 1), (many(2), 2)] {
        let mut far = reflector("tcp", policy);
        let mut now = Instant::from_millis(1);
        let send = |far: &mut Reflector, now, wire| {
            far.handle_input(now, wire, Input::Stream { bytes: &mut [0, 3, 1, 2, 3], received_at: now });
            far.advance(now);
        };
        let connect = |far: &mut Reflector, now| {
            let wire = far.accept(now, WIRE)?;
            far.handle_input(now, wire, Input::Connected);
            Some(wire)
        };
        let wires: Vec<WireId> = (0..most).map(|_| connect(&mut far, now).expect("there is room")).collect();
        wires.iter().for_each(|wire| send(&mut far, now, *wire));
        assert_eq!(far.counters().returned, most, "{policy:?}");
        // Of one place, the next one learns that it is taken when it sends.
        let next = connect(&mut far, now);
        next.into_iter().for_each(|wire| send(&mut far, now, wire));
        assert_eq!((far.counters().returned, far.admission().no_room), (most, 1), "{policy:?}");
        assert_eq!(far.poll_close(), next, "{policy:?}");
        now += ms(9_000);
        let next = connect(&mut far, now);
        next.into_iter().for_each(|wire| send(&mut far, now, wire));
        let replaced = (most == 1).then(|| wires[0]);
        assert_eq!((next.is_some(), far.poll_close()), (most == 1, replaced), "{policy:?}");
        let alive = next.unwrap_or(wires[0]);
        far.handle_input(now, alive, Input::Broken(BrokenReason::EndOfStream));
        far.advance(now);
        assert_eq!(far.poll_close(), Some(alive), "its wire can be closed");
        let next = far.accept(now, WIRE).expect("there is room again");
        assert!(!wires.contains(&next), "{policy:?}");
        far.stop(now);
        assert_eq!(far.accept(now, WIRE), None, "one that stops admits no peer");
    }
}

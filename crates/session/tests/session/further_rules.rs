//! Further associations: when a move happens, what is refused, and what a wire that ends leaves behind.

use std::rc::Rc;

use antiphon_core::{Instant, PathId, Role, Stack, WireId};
use antiphon_media::rtcp::{App, AppKind};
use antiphon_proto::StackArgs;
use antiphon_session::{Change, ChangeFailure, Joining};

use crate::wired::{TOKEN, Wired};
use crate::world::{heard, ms};

const QUIET: &str = "delay=10ms";
const OTHER_TOKEN: [u8; 16] = [8; 16];

/// DCCP with datagrams of at most so many bytes.
fn narrow(datagram: usize) -> Rc<dyn Stack> {
    let args = |query| StackArgs::new(query, 1, datagram, ms(80));
    (antiphon_proto::find("dccp").unwrap().stack)(&args(&"".parse().unwrap())).unwrap()
}

fn call(world: &mut Wired, wire: u32, stack: &Rc<dyn Stack>, joining: Joining) {
    world.near.call_further(world.now, WireId(wire), &[PathId(0)], stack, joining, TOKEN);
}

/// What happened to one wire.
fn of_wire(world: &Wired, wire: u32) -> Vec<Change> {
    let about = |change: &&Change| {
        let (Change::Joined(at) | Change::Moved(at) | Change::Failed(at, _)) = change;
        *at == WireId(wire)
    };
    world.changes.iter().filter(about).copied().collect()
}

fn packet(ssrc: u32, seq: u64) -> Vec<u8> {
    let mut rtp = vec![0x80, 96, (seq >> 8) as u8, seq as u8];
    rtp.extend((seq as u32 * 256).to_be_bytes());
    rtp.extend(ssrc.to_be_bytes());
    rtp.extend([0x7f; 1024]);
    rtp
}

fn app(kind: AppKind, token: [u8; 16]) -> Vec<u8> {
    App { ssrc: 1, kind, token }.to_bytes().to_vec()
}

#[test]
fn everything_goes_over_both_for_a_round_trip_and_a_playout_delay() {
    let mut world = Wired::new(&[("rtp", QUIET), ("rtp", QUIET)], ms(80), 1);
    // Until reports have told the round trip.
    world.run_for(ms(7_000));
    let before = world.sent[&WireId(0)];
    world.go_further(1, "rtp", Joining::Instead);
    world.run_for(ms(1_000));
    assert_eq!(world.changes, [Change::Joined(WireId(1)), Change::Moved(WireId(1))]);
    let both = world.happened[1].since(world.happened[0]);
    assert!((ms(100)..ms(103)).contains(&both), "20 ms and 80 ms: {both:?}");
    // 100 ms of 1.6 Mbit/s, and the round trip until it was accepted.
    let sent = world.sent[&WireId(0)] - before;
    assert!((19_000..32_000).contains(&sent), "{sent}");
}

#[test]
fn a_target_that_is_reached_after_three_seconds_is_used() {
    for name in ["rtp", "sctp"] {
        let mut world = Wired::new(&[("rtp", QUIET), (name, QUIET)], ms(80), 1);
        world.run_for(ms(1_000));
        let link = world.links.remove(&WireId(1)).unwrap();
        world.go_further(1, name, Joining::Instead);
        world.run_for(ms(2_900));
        world.links.insert(WireId(1), link);
        world.run_for(ms(2_500));
        assert_eq!(world.changes, [Change::Joined(WireId(1)), Change::Moved(WireId(1))], "{name}");
    }
}

#[test]
fn a_lost_answer_is_repeated() {
    for seed in 1..=6 {
        let mut world = Wired::new(&[("rtp", QUIET), ("rtp", "delay=10ms,down.loss=60%")], ms(80), seed);
        world.run_for(ms(500));
        world.go_further(1, "rtp", Joining::Beside);
        world.run_for(ms(2_000));
        assert_eq!(world.changes, [Change::Joined(WireId(1))], "seed {seed}");
    }
}

#[test]
fn the_receiver_learns_that_the_first_wire_is_left_though_packets_get_lost() {
    for seed in 1..=8 {
        let mut world = Wired::new(&[("rtp", "delay=10ms,up.loss=25%"), ("rtp", QUIET)], ms(80), seed);
        world.run_for(ms(1_000));
        world.go_further(1, "rtp", Joining::Instead);
        world.run_for(ms(2_000));
        assert_eq!(world.changes.last(), Some(&Change::Moved(WireId(1))), "seed {seed}");
        let answered = world.answered.clone();
        world.run_for(ms(8_000));
        assert_eq!(world.answered[&WireId(0)], answered[&WireId(0)], "no report goes there, seed {seed}");
        assert!(world.answered[&WireId(1)] > answered[&WireId(1)]);
    }
}

#[test]
fn a_late_receiver_is_told_the_token_once_a_second() {
    let mut world = Wired::new(&[("rtp", QUIET), ("rtp", QUIET)], ms(80), 1);
    let link = world.links.remove(&WireId(1)).unwrap();
    world.go_further(1, "rtp", Joining::Beside);
    world.run_for(ms(2_100));
    let eager = world.told[&WireId(1)];
    assert!(eager > 50, "a lost packet hardly delays a change: {eager}");
    world.run_for(ms(4_900));
    let told = world.told[&WireId(1)] - eager;
    assert!((3..=6).contains(&told), "{told}");
    world.links.insert(WireId(1), link);
    world.run_for(ms(1_200));
    assert_eq!(world.changes, [Change::Joined(WireId(1))]);
}

#[test]
fn answers_and_goodbyes_with_another_token_count_for_nothing() {
    let mut world = Wired::new(&[("rtp", QUIET), ("rtp", "loss=100%")], ms(80), 1);
    world.run_for(ms(1_000));
    world.go_further(1, "rtp", Joining::Beside);
    world.run_for(ms(100));
    let (mut bytes, received_at) = (app(AppKind::Accept, OTHER_TOKEN), world.now);
    let input = antiphon_core::Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at };
    antiphon_core::Participant::handle_input(&mut world.near, world.now, WireId(1), input);
    // A goodbye to the first association would let the next sender take its place.
    world.forge(0, 0, app(AppKind::Leave, OTHER_TOKEN));
    for seq in 0..200 {
        world.forge(1, 9, packet(77, seq));
        world.run_for(ms(5));
    }
    assert_eq!(world.changes, []);
    assert!(world.far.unknown_sources() >= 199, "{}", world.far.unknown_sources());
    world.end_flawless();
}

#[test]
fn the_token_of_a_sender_that_is_gone_opens_nothing() {
    let mut world = Wired::new(&[("rtp", QUIET); 3], ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "rtp", Joining::Beside);
    world.run_for(ms(1_000));
    assert_eq!(world.changes, [Change::Joined(WireId(1))]);
    world.links.clear();
    world.run_for(ms(3_000));
    // Another sender takes the place of the silent one.
    for seq in 0..100 {
        world.forge(0, 5, packet(77, seq));
        world.run_for(ms(5));
    }
    for seq in 0..40 {
        world.forge(0, 5, packet(77, 100 + seq));
        world.forge(2, 9, packet(78, seq));
        world.forge(2, 9, app(AppKind::Join, TOKEN));
        world.run_for(ms(5));
    }
    assert_eq!(world.answered.get(&WireId(2)), None, "it is not accepted");
}

#[test]
fn a_target_needs_room_for_the_longest_packet_and_no_more() {
    let mut world = Wired::new(&[("rtp", QUIET), ("dccp", QUIET), ("dccp", QUIET)], ms(80), 1);
    // Asked before the first packet was made.
    call(&mut world, 1, &narrow(600), Joining::Instead);
    world.run_for(ms(1_000));
    let [Change::Failed(_, ChangeFailure::TooSmall { needed, most })] = world.changes[..] else {
        panic!("{:?}", world.changes)
    };
    assert!(most < 600 && needed > 1_024, "{most} {needed}");
    assert_eq!(world.closed, [WireId(1)], "its socket is not kept");
    let carries = |datagram: &usize| {
        narrow(*datagram).open(Instant::ZERO, Role::Caller).profile().max_message >= needed
    };
    let fits = (600..1452).find(carries).expect("an Ethernet carries it");
    call(&mut world, 1, &narrow(fits - 1), Joining::Instead);
    call(&mut world, 2, &narrow(fits), Joining::Instead);
    world.end();
    let short = ChangeFailure::TooSmall { most: needed - 1, needed };
    assert_eq!(of_wire(&world, 1)[1], Change::Failed(WireId(1), short));
    assert_eq!(of_wire(&world, 2), [Change::Joined(WireId(2)), Change::Moved(WireId(2))]);
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
}

#[test]
fn a_stream_has_at_most_four_wires_and_makes_one_move_at_a_time() {
    let names = [("rtp", QUIET), ("rtp", QUIET), ("rtp", "loss=100%"), ("srp", QUIET), ("rtp", QUIET)];
    let mut world = Wired::new(&names, ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "rtp", Joining::Beside);
    world.go_further(2, "rtp", Joining::Instead);
    world.run_for(ms(500));
    assert_eq!(world.changes, [Change::Joined(WireId(1))]);
    world.go_further(3, "srp", Joining::Instead);
    world.run_for(ms(500));
    assert_eq!(world.changes[1..], [Change::Failed(WireId(3), ChangeFailure::Moving)]);
    assert_eq!(world.closed, [WireId(3)]);
    world.go_further(3, "srp", Joining::Beside);
    world.go_further(4, "rtp", Joining::Beside);
    world.run_for(ms(500));
    let refused = ChangeFailure::TooMany { most: 4 };
    assert_eq!(world.changes[2..], [Change::Failed(WireId(4), refused), Change::Joined(WireId(3))]);
    assert!(refused.to_string().contains("over 4 transports"), "{refused}");
    // The one that was given up makes room.
    world.run_for(ms(5_000));
    assert_eq!(of_wire(&world, 2), [Change::Failed(WireId(2), ChangeFailure::NotTaken)]);
    assert_eq!(world.closed, [3, 4, 2].map(WireId));
    world.go_further(4, "rtp", Joining::Beside);
    world.run_for(ms(500));
    assert_eq!(of_wire(&world, 4).last(), Some(&Change::Joined(WireId(4))));
    world.end_flawless();
}

#[test]
fn a_message_sent_over_two_wires_is_counted_once() {
    let mut world = Wired::new(&[("rtp", QUIET), ("srp", QUIET)], ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "srp", Joining::Beside);
    world.run_for(ms(3_000));
    assert_eq!(world.changes, [Change::Joined(WireId(1))]);
    let sent = world.near.sent();
    assert_eq!(sent.peers.accepted, sent.track.messages);
    assert!(sent.peers.settled <= sent.peers.accepted, "{sent:?}");
    // The last ones wait for the acknowledgement of one of the two.
    assert!(sent.peers.settled + 20 > sent.peers.accepted, "{sent:?}");
}

const DEAD: &str = "delay=10ms,loss=100%";
const ENDED: Change = Change::Failed(WireId(0), ChangeFailure::Ended);

#[test]
fn a_first_wire_that_ends_completes_the_move() {
    let mut world = Wired::new(&[("sctp", QUIET), ("rtp", QUIET)], ms(80), 1);
    world.run_for(ms(1_000));
    world.go_further(1, "rtp", Joining::Instead);
    world.run_for(ms(60));
    assert_eq!(world.changes, [Change::Joined(WireId(1))], "everything goes over both");
    world.divert("sctp");
    world.run_for(ms(1_000));
    assert_eq!(world.changes[1..], [ENDED, Change::Moved(WireId(1))]);
    assert_eq!(world.closed, [WireId(0)]);
    world.end();
    assert_eq!(world.changes.len(), 3, "{:?}", world.changes);
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
}

#[test]
fn a_wire_beside_the_first_goes_on_when_the_first_ends() {
    let names = [("sctp", QUIET), ("rtp", QUIET), ("rtp", QUIET), ("rtp", QUIET), ("rtp", QUIET)];
    let mut world = Wired::new(&names, ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "rtp", Joining::Beside);
    world.run_for(ms(500));
    world.divert("sctp");
    world.run_for(ms(1_000));
    assert_eq!(world.changes, [Change::Joined(WireId(1)), ENDED], "it does not move");
    assert_eq!(world.closed, [WireId(0)]);
    // The one that has ended takes no place any more.
    (2..5).for_each(|wire| world.go_further(wire, "rtp", Joining::Beside));
    world.run_for(ms(1_000));
    assert_eq!(world.changes[2..], [2, 3, 4].map(|wire| Change::Joined(WireId(wire))));
    world.end_flawless();
}

#[test]
fn a_wire_that_the_receiver_has_taken_goes_before_one_that_it_has_not() {
    let mut world = Wired::new(&[("sctp", QUIET), ("rtp", DEAD), ("rtp", QUIET)], ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "rtp", Joining::Instead);
    world.go_further(2, "rtp", Joining::Beside);
    world.run_for(ms(500));
    world.divert("sctp");
    world.run_for(ms(5_000));
    let failed = Change::Failed(WireId(1), ChangeFailure::NotTaken);
    assert_eq!(world.changes, [Change::Joined(WireId(2)), ENDED, failed]);
    world.end_flawless();
}

#[test]
fn a_stream_ends_with_its_first_wire_if_no_other_has_a_connection() {
    let mut world = Wired::new(&[("sctp", QUIET), ("sctp", DEAD)], ms(80), 1);
    world.run_for(ms(500));
    world.go_further(1, "sctp", Joining::Beside);
    world.run_for(ms(500));
    world.divert("sctp");
    world.run_for(ms(500));
    assert_eq!(world.near.peers().count(), 0);
}

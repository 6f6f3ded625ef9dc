//! Packets of another numbering, from the sender's own address: forged, replayed, or of the sender after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, Outcome, Rng, Role, Tag};
use antiphon_testkit::{Came, Parties, Party, Shape, Talk, World};

use crate::common::hear;
use crate::world::endpoint;

type OneEach = World<Parties<dyn Endpoint>, Parties<dyn Endpoint>>;

const EVERY: Duration = Duration::from_millis(5);
const LEN: usize = 300;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// A sender that sends `messages` from `start` on, one every 5 ms, each with 80 ms until its deadline.
fn sender(query: &str, seed: u64, start: Instant, messages: u64) -> Party {
    let talk = Talk::paced(start, EVERY, messages, |_, _| Shape::new(LEN, Some(Duration::from_millis(80))));
    Party::new(endpoint(query, Role::Caller, seed)).talking(talk)
}

fn world(query: &str, messages: u64) -> OneEach {
    let listener = Party::new(endpoint(query, Role::Listener, 2)).keeping(8);
    World::side_by_side([sender(query, 1, ms(1), messages)], [listener], &["delay=10ms"], 3)
}

/// The data packets of another session.
fn captured(query: &str, seed: u64, packets: usize) -> Vec<Vec<u8>> {
    let mut caller = endpoint(query, Role::Caller, seed);
    let mut listener = endpoint(query, Role::Listener, seed);
    let (mut buf, mut captured) = ([0; 2048], Vec::new());
    for n in 0..packets {
        let now = ms(1 + 5 * n as u64);
        caller.send(now, Message::new(Tag::NONE, &[0xEE; LEN], None)).unwrap();
        while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
            captured.push(buf[..transmit.len].to_vec());
            hear(&mut *listener, now, &buf[..transmit.len]);
        }
        listener.handle_timeout(now + Duration::from_millis(4));
        while let Some(transmit) = listener.poll_transmit(now + Duration::from_millis(4), &mut buf) {
            hear(&mut *caller, now, &buf[..transmit.len]);
        }
        while listener.poll_message(&mut buf).is_some() {}
    }
    assert_eq!(captured.len(), packets);
    captured
}

/// Hands the receiver 20 of these packets each millisecond, in random order.
fn replay(world: &mut OneEach, packets: &[Vec<u8>], from: u64, to: u64) {
    let mut rng = Rng::fork(4, "replay");
    for at in from..to {
        world.run_until(ms(at));
        for _ in 0..20 {
            let packet = &packets[rng.below(packets.len() as u32) as usize];
            hear(&mut *world.far[0].endpoint, ms(at), packet);
        }
    }
}

/// How many of the true sender's messages came, and how many of the other session's.
fn came(world: &OneEach, messages: u64) -> (u64, usize) {
    let foreign = |came: &&Came| came.bytes == [0xEE; 8];
    let numbers: BTreeSet<u64> =
        world.far[0].messages.iter().filter(|came| !foreign(came)).map(Came::number).collect();
    assert!(numbers.iter().all(|number| *number < messages));
    (numbers.len() as u64, world.far[0].messages.iter().filter(foreign).count())
}

#[test]
fn one_packet_of_another_numbering_costs_nothing() {
    for (query, delivered) in [("mode=as-published", 1), ("", 0)] {
        let mut world = world(query, 2000);
        world.run_until(ms(5000));
        hear(&mut *world.far[0].endpoint, ms(5000), &captured(query, 77, 1)[0]);
        world.run(ms(20_000));
        // The published receiver has no numberings: it delivers what it is sent.
        assert_eq!(came(&world, 2000), (2000, delivered), "{query}");
    }
}

#[test]
fn a_replayed_session_costs_nothing() {
    let session = captured("", 77, 388);
    let mut world = world("", 2000);
    replay(&mut world, &session, 2000, 8000);
    world.run(ms(20_000));
    assert_eq!(came(&world, 2000), (2000, 0));
    assert_eq!(world.near[0].count_outcomes(|o| *o == Outcome::Acked), 2000);
    assert_eq!(world.near[0].counters().retransmitted, 0);
    assert_eq!(world.far[0].counters().malformed, 6000 * 20, "each of them counted");
}

/// Also while another session is replayed.
#[test]
fn a_restarted_sender_is_heard_within_1_2_seconds() {
    for replayed in [false, true] {
        let session = captured("", 77, 388);
        let mut world = world("", 400);
        world.run_until(ms(2001));
        let before = world.far[0].messages.len();
        assert!(before >= 398, "{before}");
        world.near[0] = sender("", 9, ms(2001), 1000);
        if replayed {
            replay(&mut world, &session, 2001, 5000);
        }
        world.run(ms(20_000));
        // The last of the first sender arrives at 2.006 s.
        let after = world.far[0].messages.iter().filter(|came| came.at > ms(2010));
        let first = after.clone().map(|came| came.at).min().expect("it is heard");
        assert!(first <= ms(3201), "{replayed}: {first:?}");
        let late = after.filter(|came| came.number() >= 240).count();
        assert_eq!(late, 760, "{replayed}: all that was sent 1.2 s after the restart, once");
    }
}

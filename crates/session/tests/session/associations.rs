//! The cost that unknown sources can cause.

use antiphon_testkit::sent_on;
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use antiphon_core::{Around, CloseMode, Endpoint, Instant, Message, Participant, PathId, Rng, Role, Tag};
use antiphon_session::{Reflector, ReflectorConfig};

use crate::stream::packets;
use crate::world::{WIRE, datagram, endpoint, many, ms, reflector, stack, stack_of};

/// Returns messages from up to `most` peers.
pub fn hub(name: &str, most: usize) -> Reflector {
    reflector(name, many(most))
}

/// The same as [`hub`], with the number of endpoints that its stack opened.
fn counted(name: &str, most: usize) -> (Reflector, Rc<Cell<u64>>) {
    let opened = Rc::new(Cell::new(0));
    let counter = opened.clone();
    let wrap = move |endpoint| {
        counter.set(counter.get() + 1);
        endpoint
    };
    let stack = Rc::new(Around { inner: stack(name), wrap });
    (Reflector::new(Instant::ZERO, WIRE, stack, many(most), ReflectorConfig::default()), opened)
}

/// Number of associations.
fn count(hub: &Reflector) -> usize {
    hub.associations().iter().count()
}

fn echoes(hub: &mut Reflector, now: Instant) -> Vec<(PathId, Vec<u8>)> {
    hub.advance(now);
    sent_on(hub, now, WIRE)
}

#[test]
fn each_peer_gets_its_own_back_and_all_get_their_turn() {
    let mut hub = hub("rtp", 8);
    let streams: Vec<_> = (0..8).map(|seed| packets(seed, 12_800)).collect();
    let mut now = Instant::from_millis(1);
    for n in 0..50 {
        now += ms(5);
        for (path, stream) in streams.iter().enumerate() {
            hub.handle_input(now, WIRE, datagram(&mut stream[n].to_vec(), PathId(path as u32), now));
        }
        let mut came = echoes(&mut hub, now);
        came.sort();
        let wanted: Vec<_> = (0..8).map(|path| (PathId(path), streams[path as usize][n].clone())).collect();
        assert_eq!(came, wanted);
    }
    assert_eq!((hub.admission().admitted, hub.admission().no_room), (8, 0));
    // A peer that sends twenty at once does not keep the others waiting.
    for packet in &streams[0][..20] {
        hub.handle_input(now, WIRE, datagram(&mut packet.to_vec(), PathId(0), now));
    }
    hub.handle_input(now, WIRE, datagram(&mut streams[5][0].to_vec(), PathId(5), now));
    let order: Vec<_> = echoes(&mut hub, now).into_iter().map(|(path, _)| path).collect();
    assert!(order[..2].contains(&PathId(5)), "{order:?}");
}

/// Floods an association that is served throughout, each datagram from the path that `forge` names. Of what these paths are,
/// the associations that they may begin.
fn flood_from(mut forge: impl FnMut(&mut Rng) -> PathId) {
    let (mut hub, made) = counted("rtp", 16);
    let good = packets(1, 256 * 5000);
    let (mut rng, mut now) = (Rng::fork(1, "flood"), Instant::from_millis(1));
    let (mut seen, mut sent) = (HashSet::new(), 0);
    hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(0), now));
    let mut back = echoes(&mut hub, now).len();
    for packet in &good[1..4000] {
        now += ms(5);
        hub.handle_input(now, WIRE, datagram(&mut packet.to_vec(), PathId(0), now));
        for _ in 0..10 {
            let mut bytes: Vec<u8> = (0..40).map(|_| rng.next_u32() as u8).collect();
            (bytes[0], bytes[1]) = (0x80, 96);
            let forged = forge(&mut rng);
            seen.insert(forged);
            sent += 1;
            hub.handle_input(now, WIRE, datagram(&mut bytes, forged, now));
        }
        back += echoes(&mut hub, now).iter().filter(|(path, _)| *path == PathId(0)).count();
        assert!(count(&hub) <= 16);
    }
    assert_eq!(back, 4000, "our own peer is served throughout");
    let (opened, counters) = (made.get(), hub.admission());
    let repeated = sent - seen.len() as u64;
    println!("{opened} associations, {repeated} of {sent} paths came again, {counters:?}");
    // Eight places for what proved nothing, given anew every four seconds at the most, for twenty seconds. One that comes again
    // counts as one that is there: it takes the place of one that did not, or leaves its own to the next.
    assert!(opened <= 1 + 8 * 5 + repeated, "{opened} associations, {repeated} came again, {counters:?}");
    assert_eq!(counters.admitted, opened);
    // All others found no room, but for those that came again to an association that they had begun.
    assert!(counters.no_room + (opened - 1) + repeated >= sent, "{repeated} came again, {counters:?}");
    assert!(counters.no_room > 39_000, "{counters:?}");
}

#[test]
fn a_flood_makes_no_more_associations_than_allowed() {
    let mut forged = PathId(0);
    flood_from(|_| {
        forged.0 += 1;
        forged
    });
}

#[test]
fn a_flood_that_repeats_paths_makes_no_more_than_allowed() {
    flood_from(|rng| PathId(1 + rng.next_u32() % 1_000_000));
}

#[test]
fn only_first_packets_are_admitted() {
    let (mut hub, made) = counted("rtp", 4);
    let now = Instant::from_millis(1);
    for bytes in [&[][..], &[0x80], &[0x40; 20], &[0xff; 5], &[0x80, 200, 0, 6, 1, 2, 3, 4, 0, 0, 0, 0]] {
        hub.handle_input(now, WIRE, datagram(&mut bytes.to_vec(), PathId(1), now));
    }
    assert_eq!((made.get(), hub.admission().not_admitted, hub.poll_timeout()), (0, 5, None));
    assert!(echoes(&mut hub, now).is_empty() && !hub.knows(WIRE, PathId(1)));
}

#[test]
fn a_silent_peer_makes_room_only_when_room_is_needed() {
    let mut hub = hub("rtp", 2);
    let good = packets(1, 25_600);
    let mut now = Instant::ZERO;
    for packet in &good[..2] {
        now += ms(200);
        hub.handle_input(now, WIRE, datagram(&mut packet.to_vec(), PathId(1), now));
    }
    now += ms(9_000);
    hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(2), now));
    hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(3), now));
    assert_eq!((hub.admission().no_room, hub.knows(WIRE, PathId(1))), (1, true));
    now += ms(1_000);
    hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(3), now));
    assert_eq!(
        (hub.admission().idle, hub.knows(WIRE, PathId(1)), hub.knows(WIRE, PathId(3))),
        (1, false, true)
    );
    hub.stop(now);
    echoes(&mut hub, now);
    hub.advance(now);
    assert!(hub.is_finished());
    hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(4), now));
    assert!(!hub.knows(WIRE, PathId(4)), "a hub that ends admits no peer");
}

#[test]
fn a_call_makes_no_association_before_the_caller_answers() {
    let now = Instant::from_millis(1);
    let (mut hub, made) = counted("sctp", 4);
    let mut init = vec![0; 2048];
    let len = endpoint("sctp", Role::Caller, now).poll_transmit(now, &mut init).unwrap().len;
    for n in 0..10_000 {
        hub.handle_input(now, WIRE, datagram(&mut init[..len].to_vec(), PathId(n), now));
        if n % 8 == 7 {
            assert_eq!(echoes(&mut hub, now).len(), 8);
        }
    }
    assert_eq!((made.get(), hub.admission().answered, hub.admission().not_admitted), (0, 10_000, 0));
    // A driver that fetches nothing: no more than a few replies are kept.
    (0..1000).for_each(|n| hub.handle_input(now, WIRE, datagram(&mut init[..len].to_vec(), PathId(n), now)));
    let kept = echoes(&mut hub, now).len();
    assert!((1..=64).contains(&kept), "{kept} answers kept");

    let mut buf = vec![0; 1 << 18];
    for path in [PathId(7), PathId(8)] {
        let mut caller = endpoint("sctp", Role::Caller, now);
        exchange(&mut *caller, &mut hub, &[path], now);
        caller.send(now, Message::new(Tag::NONE, b"there and back", None)).unwrap();
        exchange(&mut *caller, &mut hub, &[path], now);
        let back = caller.poll_message(&mut buf).expect("the frame comes back");
        assert_eq!(&buf[..back.len], b"there and back");
    }
    assert_eq!((made.get(), count(&hub)), (2, 2));
}

/// Exchanges packets until neither side has any; the caller's path `n` is the hub's `paths[n]`.
fn exchange(caller: &mut dyn Endpoint, hub: &mut Reflector, paths: &[PathId], now: Instant) {
    let mut buf = vec![0; 2048];
    loop {
        let mut moved = false;
        while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
            let path = paths[transmit.path.0 as usize];
            hub.handle_input(now, WIRE, datagram(&mut buf[..transmit.len], path, now));
            moved = true;
        }
        for (to, mut bytes) in echoes(hub, now) {
            let at = paths.iter().position(|path| *path == to).expect("one of the caller's") as u32;
            caller.handle_input(now, datagram(&mut bytes, PathId(at), now));
            moved = true;
        }
        if !moved {
            return;
        }
    }
}

#[test]
fn a_peer_of_several_paths_is_one_peer() {
    let now = Instant::from_millis(1);
    let mut hub = hub("sctp", 4);
    let mut caller = stack_of("sctp?peers=192.0.2.1:9906&paths=both", 5).open(now, Role::Caller);
    let paths = [PathId(30), PathId(40)];
    exchange(&mut *caller, &mut hub, &paths, now);
    // The second path is known as soon as it is tried.
    let now = now + ms(1);
    caller.handle_timeout(now);
    exchange(&mut *caller, &mut hub, &paths, now);
    assert_eq!((count(&hub), hub.admission().not_admitted), (1, 0));
    assert!(hub.knows(WIRE, PathId(40)), "a path of the peer's");
    // A frame that came by the second path alone is returned.
    caller.send(now, Message::new(Tag::NONE, b"there and back", None)).unwrap();
    let mut buf = vec![0; 2048];
    while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
        if transmit.path == PathId(1) {
            hub.handle_input(now, WIRE, datagram(&mut buf[..transmit.len], paths[1], now));
        }
    }
    exchange(&mut *caller, &mut hub, &paths, now);
    let mut buf = vec![0; 1 << 18];
    assert_eq!(caller.poll_message(&mut buf).map(|received| received.len), Some(14));
    // When the peer has ended, its place and its paths are free.
    caller.close(now, CloseMode::Abort);
    exchange(&mut *caller, &mut hub, &paths, now);
    hub.advance(now);
    assert!(count(&hub) == 0 && !paths.iter().any(|path| hub.knows(WIRE, *path)));
}

/// A flood of first packets from forged addresses, ten for each packet of a stream; counts the stream's packets that
/// come back.
fn flood(hub: &mut Reflector, now: &mut Instant, rng: &mut Rng, path: PathId, stream: &[Vec<u8>]) -> usize {
    let mut back = 0;
    for packet in stream {
        *now += ms(5);
        for _ in 0..10 {
            let mut bytes: Vec<u8> = (0..40).map(|_| rng.next_u32() as u8).collect();
            (bytes[0], bytes[1]) = (0x80, 96);
            let forged = PathId(100 + rng.next_u32() % 1_000_000);
            hub.handle_input(*now, WIRE, datagram(&mut bytes, forged, *now));
        }
        hub.handle_input(*now, WIRE, datagram(&mut packet.to_vec(), path, *now));
        back += echoes(hub, *now).iter().filter(|(to, _)| *to == path).count();
    }
    back
}

#[test]
fn a_flood_neither_evicts_proved_peers_nor_keeps_others_out() {
    for most in [2, 8, 64] {
        let (mut hub, made) = counted("rtp", most);
        let (stream, mut rng, mut now) = (packets(1, 256 * 1000), Rng::fork(3, "flood"), Instant::ZERO);
        let mut began = Vec::new();
        for peer in 1..=most.min(4) as u32 {
            let back = flood(&mut hub, &mut now, &mut rng, PathId(peer), &stream);
            // A stream of 5 s: none is refused for longer than four.
            began.push(1000 - back);
            assert!(1000 - back < 800, "{most}: peer {peer} waited for {} packets", 1000 - back);
            let mut proved = 0;
            for before in 1..=peer {
                hub.handle_input(now, WIRE, datagram(&mut stream[0].to_vec(), PathId(before), now));
                proved += usize::from(hub.knows(WIRE, PathId(before)));
            }
            echoes(&mut hub, now);
            assert_eq!(proved, peer as usize, "all that proved something are still there");
        }
        println!("{most} places: kept out for {began:?} packets, {} associations", made.get());
    }
}

#[test]
fn half_of_the_places_are_for_peers_that_proved_something() {
    let mut hub = hub("rtp", 20);
    let (good, mut now) = (packets(1, 25_600), Instant::from_millis(1));
    let hear = |hub: &mut Reflector, path, now| {
        hub.handle_input(now, WIRE, datagram(&mut good[0].to_vec(), PathId(path), now));
    };
    (0..20).for_each(|path| hear(&mut hub, path, now));
    assert_eq!((count(&hub), hub.admission().no_room), (10, 10));
    now += ms(200);
    (0..20).for_each(|path| hear(&mut hub, path, now));
    assert_eq!(count(&hub), 20, "those that were heard again have proved themselves");
    // No proved peer is evicted, and unproved ones make room after four seconds.
    hear(&mut hub, 30, now);
    assert!(!hub.knows(WIRE, PathId(30)));
    now += ms(3_999);
    hear(&mut hub, 31, now);
    assert!(!hub.knows(WIRE, PathId(31)));
    now += ms(1);
    hear(&mut hub, 31, now);
    assert!(hub.knows(WIRE, PathId(31)) && hub.knows(WIRE, PathId(0)));
}

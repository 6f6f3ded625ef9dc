//! What strangers can cost.

use std::cell::Cell;
use std::rc::Rc;

use antiphon_core::{Endpoint, Frame, Instant, PathId, Rng};
use antiphon_proto::{OpenArgs, Role};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

use crate::stream::packets;
use crate::world::{datagram, endpoint, ms};

fn hub(max_peers: usize, made: &Rc<Cell<u64>>) -> Hub<Reflector> {
    let admits = antiphon_proto::find("rtp").unwrap().admits;
    let config = HubConfig { max_peers, idle: ms(10_000), admits };
    let made = made.clone();
    let make = move |now, _path| {
        made.set(made.get() + 1);
        Reflector::new(endpoint("rtp", Role::Listener, now), ReflectorConfig::default())
    };
    Hub::new(config, Box::new(make))
}

fn echoes(hub: &mut Hub<Reflector>, now: Instant) -> Vec<(PathId, Vec<u8>)> {
    hub.advance(now);
    let (mut buf, mut all) = (vec![0; 1500], Vec::new());
    while let Some(transmit) = hub.poll_transmit(now, &mut buf) {
        all.push((transmit.path, buf[..transmit.len].to_vec()));
    }
    all
}

#[test]
fn each_peer_gets_its_own_back_and_all_get_their_turn() {
    let mut hub = hub(8, &Rc::default());
    let streams: Vec<_> = (0..8).map(|seed| packets(seed, 12_800)).collect();
    let mut now = Instant::from_millis(1);
    for n in 0..50 {
        now += ms(5);
        for (path, stream) in streams.iter().enumerate() {
            hub.handle_input(now, datagram(&stream[n], PathId(path as u32), now));
        }
        let mut came = echoes(&mut hub, now);
        came.sort();
        let wanted: Vec<_> = (0..8).map(|path| (PathId(path), streams[path as usize][n].clone())).collect();
        assert_eq!(came, wanted);
    }
    assert_eq!((hub.counters().admitted, hub.counters().no_room), (8, 0));
    // One who sends twenty at once does not keep the others waiting.
    for packet in &streams[0][..20] {
        hub.handle_input(now, datagram(packet, PathId(0), now));
    }
    hub.handle_input(now, datagram(&streams[5][0], PathId(5), now));
    let order: Vec<_> = echoes(&mut hub, now).into_iter().map(|(path, _)| path).collect();
    assert!(order[..2].contains(&PathId(5)), "{order:?}");
}

#[test]
fn a_flood_of_strangers_makes_no_more_stations_than_allowed() {
    let made = Rc::new(Cell::new(0));
    let mut hub = hub(16, &made);
    let good = packets(1, 256 * 5000);
    let (mut rng, mut now) = (Rng::fork(1, "flood"), Instant::from_millis(1));
    hub.handle_input(now, datagram(&good[0], PathId(0), now));
    let mut back = echoes(&mut hub, now).len();
    for packet in &good[1..4000] {
        now += ms(5);
        hub.handle_input(now, datagram(packet, PathId(0), now));
        for _ in 0..10 {
            let mut bytes: Vec<u8> = (0..40).map(|_| rng.next_u32() as u8).collect();
            (bytes[0], bytes[1]) = (0x80, 96);
            hub.handle_input(now, datagram(&bytes, PathId(1 + rng.next_u32() % 1_000_000), now));
        }
        back += echoes(&mut hub, now).iter().filter(|(path, _)| *path == PathId(0)).count();
        assert!(hub.stations().count() <= 16);
    }
    assert_eq!(back, 4000, "our own peer is served throughout");
    let counters = hub.counters();
    // Fifteen places, given anew every ten seconds at the most, for twenty seconds.
    assert!(made.get() <= 1 + 15 * 3, "{} stations, {counters:?}", made.get());
    assert_eq!(counters.admitted, made.get());
    assert!(counters.no_room > 39_000, "{counters:?}");
}

#[test]
fn what_is_no_beginning_is_not_admitted() {
    let made = Rc::new(Cell::new(0));
    let mut hub = hub(4, &made);
    let now = Instant::from_millis(1);
    for bytes in [&[][..], &[0x80], &[0x40; 20], &[0xff; 5], &[0x80, 200, 0, 6, 1, 2, 3, 4, 0, 0, 0, 0]] {
        hub.handle_input(now, datagram(bytes, PathId(1), now));
    }
    assert_eq!((made.get(), hub.counters().not_admitted, hub.poll_timeout()), (0, 5, None));
    assert!(echoes(&mut hub, now).is_empty() && !hub.knows(PathId(1)));
}

#[test]
fn a_silent_peer_makes_room_only_when_room_is_needed() {
    let mut hub = hub(2, &Rc::default());
    let good = packets(1, 25_600);
    let mut now = Instant::from_millis(1);
    hub.handle_input(now, datagram(&good[0], PathId(1), now));
    now += ms(9_000);
    hub.handle_input(now, datagram(&good[0], PathId(2), now));
    hub.handle_input(now, datagram(&good[0], PathId(3), now));
    assert_eq!((hub.counters().no_room, hub.knows(PathId(1))), (1, true));
    now += ms(1_001);
    hub.handle_input(now, datagram(&good[0], PathId(3), now));
    assert_eq!((hub.counters().idle, hub.knows(PathId(1)), hub.knows(PathId(3))), (1, false, true));
    hub.stop(now);
    echoes(&mut hub, now);
    hub.advance(now);
    assert!(hub.is_finished());
    hub.handle_input(now, datagram(&good[0], PathId(4), now));
    assert!(!hub.knows(PathId(4)), "a hub that ends takes nobody in");
}

/// Carries packets between a caller and its path of the hub until neither has any.
fn exchange(caller: &mut dyn Endpoint, hub: &mut Hub<Reflector>, path: PathId, now: Instant) {
    let mut buf = vec![0; 2048];
    loop {
        let mut moved = false;
        while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
            hub.handle_input(now, datagram(&buf[..transmit.len], path, now));
            moved = true;
        }
        for (to, bytes) in echoes(hub, now) {
            if to == path {
                caller.handle_input(now, datagram(&bytes, PathId::default(), now));
            }
            moved = true;
        }
        if !moved {
            return;
        }
    }
}

#[test]
fn behind_a_doorkeeper_calls_make_no_station_and_callers_who_answer_do() {
    let made = Rc::new(Cell::new(0));
    let now = Instant::from_millis(1);
    let count = made.clone();
    let make = move |now, _path| {
        count.set(count.get() + 1);
        Reflector::new(endpoint("sctp", Role::Listener, now), ReflectorConfig::default())
    };
    let config = HubConfig { max_peers: 4, idle: ms(10_000), admits: |_| panic!("the doorkeeper decides") };
    let keeper = endpoint("sctp", Role::Listener, now).doorkeeper(now);
    assert!(keeper.is_some());
    let mut hub = Hub::new(config, Box::new(make)).with_doorkeeper(keeper);
    let mut init = vec![0; 2048];
    let len = endpoint("sctp", Role::Caller, now).poll_transmit(now, &mut init).unwrap().len;
    for n in 0..10_000 {
        hub.handle_input(now, datagram(&init[..len], PathId(n), now));
        if n % 8 == 7 {
            assert_eq!(echoes(&mut hub, now).len(), 8);
        }
    }
    assert_eq!((made.get(), hub.counters().answered, hub.counters().not_admitted), (0, 10_000, 0));
    // A driver that fetches nothing: no more than a few answers are kept.
    (0..1000).for_each(|n| hub.handle_input(now, datagram(&init[..len], PathId(n), now)));
    let kept = echoes(&mut hub, now).len();
    assert!((1..=64).contains(&kept), "{kept} answers kept");

    let mut buf = vec![0; 1 << 18];
    for path in [PathId(7), PathId(8)] {
        let mut caller = endpoint("sctp", Role::Caller, now);
        exchange(&mut *caller, &mut hub, path, now);
        caller.send(now, Frame::new(b"there and back", None)).unwrap();
        exchange(&mut *caller, &mut hub, path, now);
        let back = caller.poll_frame(&mut buf).expect("the frame comes back");
        assert_eq!(&buf[..back.len], b"there and back");
    }
    assert_eq!((made.get(), hub.stations().count()), (2, 2));
}

/// Hands over what both have to say until both are quiet; the caller's path `n` is the hub's `paths[n]`.
fn exchange_by(caller: &mut dyn Endpoint, hub: &mut Hub<Reflector>, paths: [PathId; 2], now: Instant) {
    let mut buf = vec![0; 2048];
    loop {
        let mut moved = false;
        while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
            hub.handle_input(now, datagram(&buf[..transmit.len], paths[transmit.path.0 as usize], now));
            moved = true;
        }
        hub.advance(now);
        while let Some(transmit) = hub.poll_transmit(now, &mut buf) {
            let at = paths.iter().position(|path| *path == transmit.path).expect("one of the two") as u32;
            caller.handle_input(now, datagram(&buf[..transmit.len], PathId(at), now));
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
    let make = |now, _| Reflector::new(endpoint("sctp", Role::Listener, now), ReflectorConfig::default());
    let config = HubConfig { max_peers: 4, idle: ms(10_000), admits: |_| panic!("the doorkeeper decides") };
    let keeper = endpoint("sctp", Role::Listener, now).doorkeeper(now);
    let mut hub = Hub::new(config, Box::new(make)).with_doorkeeper(keeper);
    let query = "peers=192.0.2.1:9906&paths=both".parse().unwrap();
    let transport = antiphon_proto::find("sctp").unwrap();
    let args =
        OpenArgs { role: Role::Caller, query: &query, seed: 5, now, max_datagram: 1452, latency: ms(80) };
    let mut caller = (transport.open)(&args).unwrap();
    let paths = [PathId(30), PathId(40)];
    exchange_by(&mut *caller, &mut hub, paths, now);
    // The second path is known as soon as it is tried.
    let now = now + ms(1);
    caller.handle_timeout(now);
    exchange_by(&mut *caller, &mut hub, paths, now);
    assert_eq!((hub.stations().count(), hub.counters().not_admitted), (1, 0));
    assert!(hub.knows(PathId(40)), "a path of the peer's");
    // A frame by the second path alone comes back.
    caller.send(now, Frame::new(b"there and back", None)).unwrap();
    let mut buf = vec![0; 2048];
    while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
        if transmit.path == PathId(1) {
            hub.handle_input(now, datagram(&buf[..transmit.len], paths[1], now));
        }
    }
    exchange_by(&mut *caller, &mut hub, paths, now);
    let mut buf = vec![0; 1 << 18];
    assert_eq!(caller.poll_frame(&mut buf).map(|received| received.len), Some(14));
    // Its place is free when it has left, and so are its paths.
    caller.close(now, antiphon_core::CloseMode::Abort);
    exchange_by(&mut *caller, &mut hub, paths, now);
    hub.advance(now);
    assert!(hub.stations().count() == 0 && !paths.iter().any(|path| hub.knows(*path)));
}

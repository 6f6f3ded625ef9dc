//! Several SCTP associations behind one UDP port, as a Linux kernel has all of its own.

use antiphon_core::uri::Query;
use antiphon_core::{CloseMode, Endpoint, Event, Frame, Instant, PathId};
use antiphon_proto::{OpenArgs, Role, open};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

use crate::world::{datagram, ms};

/// The port that they all are behind.
const SHARED: PathId = PathId(5);

struct Client {
    endpoint: Box<dyn Endpoint>,
    mark: u8,
    reflected: Vec<Vec<u8>>,
    closed: bool,
}

fn endpoint(role: Role, seed: u64, now: Instant) -> Box<dyn Endpoint> {
    let query = Query::default();
    let args = OpenArgs { role, query: &query, seed, now, max_datagram: 1452, latency: ms(80) };
    open("sctp", &args).expect("defaults open")
}

fn server(now: Instant, max_peers: usize) -> Hub<Reflector> {
    let admits = antiphon_proto::find("sctp").expect("known").admits;
    let config = HubConfig { max_peers, idle: ms(60_000), admits };
    let make = |now, _| Reflector::new(endpoint(Role::Listener, 9, now), ReflectorConfig::default());
    let keeper = endpoint(Role::Listener, 9, now).doorkeeper(now);
    Hub::new(config, Box::new(make)).with_doorkeeper(keeper)
}

/// A round of all clients; each hears all that comes to their address, and takes what is for its SCTP port.
fn round(hub: &mut Hub<Reflector>, clients: &mut [Client], now: Instant) {
    let mut buf = vec![0; 1 << 18];
    for client in clients.iter_mut() {
        client.endpoint.handle_due(now);
        while let Some(transmit) = client.endpoint.poll_transmit(now, &mut buf) {
            hub.handle_input(now, datagram(&buf[..transmit.len], SHARED, now));
        }
    }
    hub.advance(now);
    while let Some(transmit) = hub.poll_transmit(now, &mut buf) {
        assert_eq!(transmit.path, SHARED);
        let packet = buf[..transmit.len].to_vec();
        for client in clients.iter_mut() {
            client.endpoint.handle_input(now, datagram(&packet, PathId(0), now));
        }
    }
    for client in clients {
        while let Some(received) = client.endpoint.poll_frame(&mut buf) {
            client.reflected.push(buf[..received.len].to_vec());
        }
        while let Some(event) = client.endpoint.poll_event() {
            client.closed |= matches!(event, Event::Closed(_));
        }
    }
}

fn clients(marks: std::ops::Range<u8>, now: Instant) -> Vec<Client> {
    let client = |mark| {
        let endpoint = endpoint(Role::Caller, 100 + u64::from(mark), now);
        Client { endpoint, mark, reflected: Vec::new(), closed: false }
    };
    marks.map(client).collect()
}

#[test]
fn associations_behind_one_port_are_served_side_by_side_and_one_by_one() {
    let mut now = Instant::from_millis(1000);
    let (mut hub, mut all) = (server(now, 8), clients(0..4, now));
    for n in 0..100u8 {
        for client in &mut all {
            client.endpoint.send(now, Frame::new(&[client.mark, n, 7], None)).expect("room");
        }
        round(&mut hub, &mut all, now);
        now += ms(5);
    }
    assert_eq!(hub.stations().count(), 4);
    for client in &mut all {
        client.reflected.sort();
        let expected: Vec<_> = (0..100).map(|n| vec![client.mark, n, 7]).collect();
        assert_eq!(client.reflected, expected, "all of its own and nobody else's: {}", client.mark);
    }
    // One leaves, its place is another's, and the others notice nothing.
    all[1].endpoint.close(now, CloseMode::Graceful);
    (0..40).for_each(|n| round(&mut hub, &mut all, now + ms(5 * n)));
    now += ms(200);
    assert!(all[1].closed && hub.stations().count() == 3 && hub.knows(SHARED));
    all[1] = clients(1..2, now).remove(0);
    all[1].endpoint = endpoint(Role::Caller, 777, now);
    for n in 100..120u8 {
        for client in &mut all {
            client.endpoint.send(now, Frame::new(&[client.mark, n, 7], None)).expect("room");
        }
        (0..2).for_each(|_| round(&mut hub, &mut all, now));
        now += ms(5);
    }
    assert_eq!(all.iter().map(|client| client.reflected.len()).collect::<Vec<_>>(), [120, 20, 120, 120]);
    assert_eq!(hub.counters().admitted, 5);
    all.iter_mut().for_each(|client| client.endpoint.close(now, CloseMode::Abort));
    round(&mut hub, &mut all, now);
    hub.advance(now);
    assert!(hub.stations().count() == 0 && !hub.knows(SHARED), "nothing is kept of who has left");
}

#[test]
fn one_address_gets_no_more_associations_than_there_is_room_for() {
    let mut now = Instant::from_millis(1000);
    let (mut hub, mut all) = (server(now, 3), clients(0..6, now));
    for _ in 0..20 {
        round(&mut hub, &mut all, now);
        now += ms(10);
    }
    assert_eq!(hub.stations().count(), 3);
    assert!(hub.counters().no_room >= 3, "{:?}", hub.counters());
}

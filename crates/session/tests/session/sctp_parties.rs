//! Several SCTP associations behind one UDP port, like those of a Linux kernel.

use antiphon_core::{CloseMode, Endpoint, Event, Instant, Message, Participant, PathId, Role, Tag};
use antiphon_session::{Policy, Reflector, ReflectorConfig};
use antiphon_testkit::sent_on;

use crate::world::{WIRE, datagram, ms, stack_of};

/// The port that all of them share.
const SHARED: PathId = PathId(5);

struct Client {
    endpoint: Box<dyn Endpoint>,
    mark: u8,
    reflected: Vec<Vec<u8>>,
    closed: bool,
}

impl Client {
    fn send(&mut self, n: u8, now: Instant) {
        self.endpoint.send(now, Message::new(Tag::NONE, &[self.mark, n, 7], None)).expect("room");
    }
}

fn server(now: Instant, most: usize) -> Reflector {
    let policy = Policy::Many { most, idle: ms(60_000) };
    Reflector::new(now, WIRE, stack_of("sctp", 9), policy, ReflectorConfig::default())
}

fn associations(hub: &Reflector) -> usize {
    hub.associations().iter().count()
}

/// A round of all clients; each receives all that comes to their address, and takes what is for its SCTP port.
fn round(hub: &mut Reflector, clients: &mut [Client], now: Instant) {
    let mut buf = vec![0; 1 << 18];
    for client in clients.iter_mut() {
        antiphon_core::handle_due(&mut *client.endpoint, now);
        while let Some(transmit) = client.endpoint.poll_transmit(now, &mut buf) {
            hub.handle_input(now, WIRE, datagram(&mut buf[..transmit.len], SHARED, now));
        }
    }
    hub.advance(now);
    for (path, packet) in sent_on(hub, now, WIRE) {
        assert_eq!(path, SHARED);
        for client in clients.iter_mut() {
            client.endpoint.handle_input(now, datagram(&mut packet.to_vec(), PathId(0), now));
        }
    }
    for client in clients {
        while let Some(received) = client.endpoint.poll_message(&mut buf) {
            client.reflected.push(buf[..received.len].to_vec());
        }
        while let Some(event) = client.endpoint.poll_event() {
            client.closed |= matches!(event, Event::Closed(_));
        }
    }
}

fn clients(marks: std::ops::Range<u8>, now: Instant) -> Vec<Client> {
    let client = |mark| {
        let endpoint = stack_of("sctp", 100 + u64::from(mark)).open(now, Role::Caller);
        Client { endpoint, mark, reflected: Vec::new(), closed: false }
    };
    marks.map(client).collect()
}

#[test]
fn associations_behind_one_port_are_served_side_by_side() {
    let mut now = Instant::from_millis(1000);
    let (mut hub, mut all) = (server(now, 8), clients(0..4, now));
    for n in 0..100u8 {
        all.iter_mut().for_each(|client| client.send(n, now));
        round(&mut hub, &mut all, now);
        now += ms(5);
    }
    assert_eq!(associations(&hub), 4);
    for client in &mut all {
        client.reflected.sort();
        let expected: Vec<_> = (0..100).map(|n| vec![client.mark, n, 7]).collect();
        assert_eq!(client.reflected, expected, "all of its own and no other's: {}", client.mark);
    }
    // One ends, another takes its place, and the others notice nothing.
    all[1].endpoint.close(now, CloseMode::Graceful);
    (0..40).for_each(|n| round(&mut hub, &mut all, now + ms(5 * n)));
    now += ms(200);
    assert!(all[1].closed && associations(&hub) == 3 && hub.knows(WIRE, SHARED));
    all[1] = clients(1..2, now).remove(0);
    all[1].endpoint = stack_of("sctp", 777).open(now, Role::Caller);
    for n in 100..120u8 {
        all.iter_mut().for_each(|client| client.send(n, now));
        (0..2).for_each(|_| round(&mut hub, &mut all, now));
        now += ms(5);
    }
    assert_eq!(all.iter().map(|client| client.reflected.len()).collect::<Vec<_>>(), [120, 20, 120, 120]);
    assert_eq!(hub.admission().admitted, 5);
    all.iter_mut().for_each(|client| client.endpoint.close(now, CloseMode::Abort));
    round(&mut hub, &mut all, now);
    hub.advance(now);
    assert!(associations(&hub) == 0 && !hub.knows(WIRE, SHARED), "nothing is kept of who has left");
}

#[test]
fn one_address_gets_no_more_associations_than_there_is_room_for() {
    let mut now = Instant::from_millis(1000);
    let (mut hub, mut all) = (server(now, 3), clients(0..6, now));
    for _ in 0..20 {
        round(&mut hub, &mut all, now);
        now += ms(10);
    }
    assert_eq!(associations(&hub), 3);
    assert!(hub.admission().no_room >= 3, "{:?}", hub.admission());
}

//! Floods of DCCP Requests on a socket that serves many peers.

use antiphon_testkit::sent_on;
use std::time::Duration;

use antiphon_core::{
    CloseMode, Endpoint, Event, Instant, Message, Participant, PathId, Rng, Role, Tag, Verdict,
};
use antiphon_proto::dccp::wire::{Header, Kind, OptionWriter, emit};
use antiphon_proto::dccp::{Checksum, RTP_AUDIO, Seq48};
use antiphon_session::{Policy, Reflector, ReflectorConfig};

use crate::world::{WIRE, datagram, endpoint, ms, stack};

struct Server {
    hub: Reflector,
    now: Instant,
    came: u64,
    went: u64,
}

/// A client that sends a frame in every round and counts what is reflected.
struct Client {
    endpoint: Box<dyn Endpoint>,
    path: PathId,
    sent: u32,
    reflected: u32,
    connected: bool,
    /// Whether its Request is padded for a cookie, like those of our clients.
    pads: bool,
}

impl Client {
    fn new(path: u32, now: Instant) -> Self {
        let endpoint = endpoint("dccp", Role::Caller, now);
        Client { endpoint, path: PathId(path), sent: 0, reflected: 0, connected: false, pads: true }
    }

    fn send(&mut self, server: &mut Server, sends: bool) {
        let (now, mut buf) = (server.now, vec![0; 70_000]);
        if sends && self.endpoint.send(now, Message::new(Tag::NONE, &[7; 100], Some(now + ms(50)))).is_ok() {
            self.sent += 1;
        }
        antiphon_core::handle_due(&mut *self.endpoint, now);
        while let Some(mut transmit) = self.endpoint.poll_transmit(now, &mut buf) {
            if !self.pads && buf[8] == REQUEST {
                let written = buf[..transmit.len].iter().rposition(|byte| *byte > 0).expect("no zeros alone");
                transmit.len = (written + 1).next_multiple_of(4);
                buf[4] = (transmit.len / 4) as u8;
            }
            server.hub.handle_input(now, WIRE, datagram(&mut buf[..transmit.len], self.path, now));
        }
    }

    fn hear(&mut self, now: Instant, packet: &[u8]) {
        self.endpoint.handle_input(now, datagram(&mut packet.to_vec(), PathId(0), now));
        let mut buf = vec![0; 70_000];
        while self.endpoint.poll_message(&mut buf).is_some() {
            self.reflected += 1;
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.connected |= event == Event::Connected;
        }
    }
}

/// Every client sends, or does not yet, and receives its packets.
fn round(server: &mut Server, clients: &mut [Client], sends: impl Fn(&Client) -> bool) {
    for client in clients.iter_mut() {
        let sends = sends(client);
        client.send(server, sends);
    }
    let now = server.now;
    for (path, packet) in server.answers() {
        clients.iter_mut().filter(|client| client.path == path).for_each(|client| client.hear(now, &packet));
    }
}

fn server(most: usize, idle: Duration) -> Server {
    let now = Instant::from_millis(1);
    let policy = Policy::Many { most, idle };
    let hub = Reflector::new(now, WIRE, stack("dccp"), policy, ReflectorConfig::default());
    Server { hub, now, came: 0, went: 0 }
}

impl Server {
    fn answers(&mut self) -> Vec<(PathId, Vec<u8>)> {
        self.hub.advance(self.now);
        let all = sent_on(&mut self.hub, self.now, WIRE);
        let forged = all.iter().filter(|(path, _)| path.0 >= FORGED);
        self.went += forged.map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        all
    }

    fn flood(&mut self, rng: &mut Rng) {
        let kind = Kind::Request { service: RTP_AUDIO };
        let source = 1 + rng.below(60_000) as u16;
        let seq = Seq48::random(rng);
        let header = Header { source, destination: 5004, ccval: 0, coverage: 0, kind, seq };
        let mut options = OptionWriter::default();
        options.pad_to(rng.below(160) as usize);
        let mut buf = [0; 200];
        let len = emit(&header, &options, &[], Checksum::Udp, &mut buf).expect("room");
        self.came += len as u64;
        let path = PathId(FORGED + rng.below(1_000_000));
        self.hub.handle_input(self.now, WIRE, datagram(&mut buf[..len], path, self.now));
    }
}

/// Paths from here on are forged addresses.
const FORGED: u32 = 1000;
const PLACES: usize = 16;
/// Type 0, long sequence numbers.
const REQUEST: u8 = 1;
/// Types 1 and 7, the same.
const RESPONSE: u8 = 3;
const RESET: u8 = 15;

#[test]
fn a_request_flood_keeps_no_state_and_blocks_no_caller() {
    let mut server = server(PLACES, ms(10_000));
    let now = server.now;
    let mut clients = vec![Client::new(0, now), Client { pads: false, ..Client::new(1, now) }];
    let mut rng = Rng::fork(1, "flood");
    for n in 0..4_000 {
        server.now += ms(5);
        if n == 2_000 {
            clients.push(Client::new(2, server.now));
        }
        // Those that wait for their connection send nothing yet.
        round(&mut server, &mut clients, |client| client.connected);
        if n > 300 {
            (0..25).for_each(|_| server.flood(&mut rng));
        }
        assert!(server.hub.associations().iter().count() <= 3, "forged requests make no association");
    }
    assert!(server.went > 0 && server.went <= server.came, "{} bytes for {}", server.went, server.came);
    for Client { path, sent, reflected, .. } in &clients {
        assert!(*sent > 1_950, "{path:?}: {sent}");
        assert_eq!(reflected, sent, "{path:?}");
    }
    let counters = server.hub.admission();
    assert_eq!((counters.admitted, counters.no_room, counters.idle), (3, 0, 0), "{counters:?}");
    // Most were long enough for an answer.
    assert!(counters.answered > 60_000, "{counters:?}");
}

/// With cookies and without: a client that has answered, and finds all places taken, is admitted as soon as there is
/// room.
#[test]
fn a_refused_caller_is_admitted_when_there_is_room() {
    for pads in [true, false] {
        let mut server = server(1, ms(60_000));
        let now = server.now;
        let mut clients = vec![Client::new(0, now)];
        (0..20).for_each(|_| {
            server.now += ms(5);
            round(&mut server, &mut clients, |client| client.connected);
        });
        clients.push(Client { pads, ..Client::new(1, server.now) });
        for n in 0..800 {
            server.now += ms(5);
            // A client that does not pad may have to ask twice.
            if n == 400 {
                clients[0].endpoint.close(server.now, CloseMode::Graceful);
            }
            round(&mut server, &mut clients, |client| client.connected && client.path == PathId(1));
            assert!(n >= 400 || clients[1].reflected == 0, "there is room for one");
        }
        assert!(clients[1].reflected > 300, "padded: {pads}: {} reflected", clients[1].reflected);
        assert!(server.hub.admission().no_room > 100, "{:?}", server.hub.admission());
    }
}

#[test]
fn only_a_request_is_admitted() {
    let (now, mut out) = (Instant::from_millis(1), vec![0; 2048]);
    let mut validator = stack("dccp").validator(now);
    let ack = Seq48::new(5);
    let kinds = [Kind::Data, Kind::Ack { ack }, Kind::Close { ack }, Kind::Sync { ack }];
    let requests = [Kind::Request { service: 0 }, Kind::Request { service: RTP_AUDIO }];
    for kind in kinds.into_iter().chain([Kind::Listen { service: RTP_AUDIO }]).chain(requests) {
        for room in [0, 100] {
            let header = Header { source: 1, destination: 5004, ccval: 0, coverage: 0, kind, seq: ack };
            let (mut buf, mut options) = ([0; 200], OptionWriter::default());
            options.pad_to(room);
            let len = emit(&header, &options, &[], Checksum::Udp, &mut buf).expect("room");
            let answered = match validator.validate(now, PathId(1), &buf[..len], &mut out) {
                Verdict::Ignore => None,
                Verdict::Reply { .. } => Some(out[8]),
                other => panic!("{other:?} to {kind:?}"),
            };
            let wanted = match kind {
                Kind::Request { service: RTP_AUDIO } => Some(RESPONSE),
                _ => answered.filter(|answer| *answer == RESET),
            };
            assert_eq!(answered, wanted, "{kind:?}");
            let cut = validator.validate(now, PathId(1), &buf[..len - 1], &mut out);
            assert_eq!(cut, Verdict::Ignore, "{kind:?}");
        }
    }
    for bytes in [&[][..], &[0x80; 40]] {
        assert_eq!(validator.validate(now, PathId(1), bytes, &mut out), Verdict::Ignore);
    }
}

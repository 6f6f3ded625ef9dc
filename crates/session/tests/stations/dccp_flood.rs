//! Floods of DCCP Requests on a socket that serves many.

use antiphon_core::{Endpoint, Event, Frame, Instant, PathId, Rng};
use antiphon_proto::Role;
use antiphon_proto::dccp::wire::{Header, Kind, OptionWriter, emit};
use antiphon_proto::dccp::{Checksum, RTP_AUDIO, Seq48};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

use crate::world::{datagram, endpoint, ms};

struct Server {
    hub: Hub<Reflector>,
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
}

impl Client {
    fn new(path: u32, now: Instant) -> Self {
        let endpoint = endpoint("dccp", Role::Caller, now);
        Client { endpoint, path: PathId(path), sent: 0, reflected: 0, connected: false }
    }

    fn round(&mut self, server: &mut Server, sends: bool) {
        let (now, mut buf) = (server.now, vec![0; 70_000]);
        if sends && self.endpoint.send(now, Frame::new(&[7; 100], Some(now + ms(50)))).is_ok() {
            self.sent += 1;
        }
        self.endpoint.handle_due(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buf) {
            server.hub.handle_input(now, datagram(&buf[..transmit.len], self.path, now));
        }
        for (path, packet) in server.answers() {
            if path == self.path {
                self.endpoint.handle_input(now, datagram(&packet, PathId(0), now));
            }
        }
        while self.endpoint.poll_frame(&mut buf).is_some() {
            self.reflected += 1;
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.connected |= event == Event::Connected;
        }
    }
}

impl Server {
    fn answers(&mut self) -> Vec<(PathId, Vec<u8>)> {
        self.hub.advance(self.now);
        let (mut buf, mut all) = (vec![0; 1500], Vec::new());
        while let Some(transmit) = self.hub.poll_transmit(self.now, &mut buf) {
            if transmit.path.0 >= STRANGERS {
                self.went += transmit.len as u64;
            }
            all.push((transmit.path, buf[..transmit.len].to_vec()));
        }
        all
    }

    fn flood(&mut self, rng: &mut Rng) {
        let kind = Kind::Request { service: RTP_AUDIO };
        let source = 1 + rng.below(60_000) as u16;
        let seq = Seq48::random(rng);
        let header = Header { source, destination: 5004, ccval: 0, coverage: 0, kind, seq };
        let mut options = OptionWriter::default();
        options.pad_to(rng.below(100) as usize);
        let mut buf = [0; 200];
        let len = emit(&header, &options, &[], Checksum::Udp, &mut buf).expect("room");
        self.came += len as u64;
        let path = PathId(STRANGERS + rng.below(1_000_000));
        self.hub.handle_input(self.now, datagram(&buf[..len], path, self.now));
    }
}

/// Paths from here on are forged addresses.
const STRANGERS: u32 = 1000;
const PLACES: usize = 16;

#[test]
fn a_flood_of_requests_costs_no_more_than_its_places_and_spares_who_is_in() {
    let admits = antiphon_proto::find("dccp").expect("known").admits;
    let config = HubConfig { max_peers: PLACES, idle: ms(10_000), admits };
    let make = |now, _| Reflector::new(endpoint("dccp", Role::Listener, now), ReflectorConfig::default());
    let now = Instant::from_millis(1);
    let mut server = Server { hub: Hub::new(config, Box::new(make)), now, came: 0, went: 0 };
    let mut inside = Client::new(0, server.now);
    let mut rng = Rng::fork(1, "flood");
    for round in 0..4_000 {
        server.now += ms(5);
        inside.round(&mut server, round > 100);
        if round > 200 {
            (0..10).for_each(|_| server.flood(&mut rng));
        }
        assert!(server.hub.stations().count() <= PLACES);
    }
    assert!(server.went > 0 && server.went <= server.came, "{} bytes for {}", server.went, server.came);
    assert_eq!(inside.reflected, inside.sent, "who is in is served throughout");
    let counters = server.hub.counters();
    // Fifteen places, given anew every ten seconds at the most, for twenty seconds.
    assert!(counters.admitted <= 1 + 15 * 3 && counters.no_room > 37_000, "{counters:?}");
    // The flood ends, and the next caller gets in when the strangers' time is up.
    let mut late = Client::new(1, server.now);
    for _ in 0..3_000 {
        server.now += ms(5);
        late.round(&mut server, true);
    }
    assert!(late.connected && late.reflected > 100, "{} of {}", late.reflected, late.sent);
}

#[test]
fn only_a_request_is_admitted() {
    let admits = antiphon_proto::find("dccp").expect("known").admits;
    let ack = Seq48::new(5);
    let kinds = [Kind::Data, Kind::Ack { ack }, Kind::Close { ack }, Kind::Sync { ack }];
    for kind in kinds.into_iter().chain([Kind::Listen { service: RTP_AUDIO }, Kind::Request { service: 0 }]) {
        let header = Header { source: 1, destination: 5004, ccval: 0, coverage: 0, kind, seq: ack };
        let mut buf = [0; 200];
        let len = emit(&header, &OptionWriter::default(), &[], Checksum::Udp, &mut buf).expect("room");
        assert_eq!(admits(&buf[..len]), matches!(kind, Kind::Request { .. }), "{kind:?}");
        assert!(!admits(&buf[..len - 1]));
    }
    assert!(!admits(&[]) && !admits(&[0x80; 40]));
}

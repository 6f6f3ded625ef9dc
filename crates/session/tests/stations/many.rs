//! A hub of many against the plainest one there can be, which asks every station everything each time: the same
//! datagrams at the same times in the same order.

use antiphon_core::{CloseMode, Ecn, Endpoint, Frame, Input, Instant, PathId, Rng, Transmit};
use antiphon_proto::{Beneath, Role, TRANSPORTS};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

use crate::world::{datagram, endpoint, ms};

/// Stations in the order in which they came.
struct Plain {
    scheme: &'static str,
    peers: Vec<(PathId, Reflector)>,
    turn: usize,
    stopping: bool,
}

impl Plain {
    fn handle_input(&mut self, now: Instant, path: PathId, bytes: &[u8]) {
        let known = self.peers.iter().position(|(known, _)| *known == path);
        let admits = antiphon_proto::find(self.scheme).expect("it is known").admits;
        if known.is_none() && (self.stopping || !admits(bytes)) {
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.peers.push((path, reflector(self.scheme, now)));
            self.peers.len() - 1
        });
        self.peers[at].1.handle_input(now, datagram(bytes, PathId::default(), now));
    }

    fn advance(&mut self, now: Instant) {
        self.peers.iter_mut().for_each(|(_, station)| station.advance(now));
        self.peers.retain(|(_, station)| !station.is_finished());
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        for step in 0..self.peers.len() {
            let at = (self.turn + step) % self.peers.len();
            let (path, station) = &mut self.peers[at];
            if let Some(transmit) = station.poll_transmit(now, buf) {
                self.turn = at + 1;
                return Some(Transmit { path: *path, ..transmit });
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.iter().filter_map(|(_, station)| station.poll_timeout()).min()
    }
}

fn reflector(scheme: &str, now: Instant) -> Reflector {
    Reflector::new(endpoint(scheme, Role::Listener, now), ReflectorConfig::default())
}

type Sent = (Instant, PathId, Vec<u8>);

/// Callers of 50 frames/s over a path that loses 5 % each way, the hub and its plain twin.
struct Crowd {
    callers: Vec<Box<dyn Endpoint>>,
    hub: Hub<Reflector>,
    plain: Plain,
    rng: Rng,
    now: Instant,
    returned: u64,
    sent: [Vec<Sent>; 2],
}

impl Crowd {
    fn new(scheme: &'static str, callers: usize) -> Self {
        let now = Instant::from_millis(1);
        let admits = antiphon_proto::find(scheme).unwrap().admits;
        let config = HubConfig { max_peers: callers, idle: ms(10_000), admits };
        Crowd {
            callers: (0..callers).map(|_| endpoint(scheme, Role::Caller, now)).collect(),
            hub: Hub::new(config, Box::new(move |now, _| reflector(scheme, now))),
            plain: Plain { scheme, peers: Vec::new(), turn: 0, stopping: false },
            rng: Rng::fork(1, "crowd"),
            now,
            returned: 0,
            sent: Default::default(),
        }
    }

    /// A round of the driver's loop, and what the callers do in the meantime.
    fn step(&mut self, frame: &[u8]) {
        let mut buf = vec![0; 1500];
        for at in 0..self.callers.len() {
            let caller = &mut self.callers[at];
            if caller.poll_timeout().is_some_and(|at| at <= self.now) {
                caller.handle_timeout(self.now);
            }
            // Not all at once: a twentieth of them each millisecond.
            if !frame.is_empty() && at as u64 % 20 == self.now.as_nanos() / 1_000_000 % 20 {
                let _still_connecting = caller.send(self.now, Frame::new(frame, Some(self.now + ms(200))));
            }
            while let Some(transmit) = caller.poll_transmit(self.now, &mut buf) {
                if !self.rng.next_u32().is_multiple_of(20) {
                    let (path, bytes) = (PathId(at as u32), &buf[..transmit.len]);
                    self.hub.handle_input(self.now, datagram(bytes, path, self.now));
                    self.plain.handle_input(self.now, path, bytes);
                }
            }
        }
        self.hub.advance(self.now);
        self.plain.advance(self.now);
        let first = self.sent[0].len();
        while let Some(transmit) = self.hub.poll_transmit(self.now, &mut buf) {
            self.sent[0].push((self.now, transmit.path, buf[..transmit.len].to_vec()));
        }
        while let Some(transmit) = self.plain.poll_transmit(self.now, &mut buf) {
            self.sent[1].push((self.now, transmit.path, buf[..transmit.len].to_vec()));
        }
        self.answer(first);
        self.now += ms(1);
    }

    /// Takes the hub's answers back to the callers.
    fn answer(&mut self, first: usize) {
        let mut frame = vec![0; 1 << 16];
        for (at, path, bytes) in &self.sent[0][first..] {
            if self.rng.next_u32().is_multiple_of(20) {
                continue;
            }
            let caller = &mut self.callers[path.0 as usize];
            let input: Input<'_> = datagram(bytes, PathId::default(), *at);
            caller.handle_input(*at, input);
            while caller.poll_frame(&mut frame).is_some() {
                self.returned += 1;
            }
            while caller.poll_event().is_some() {}
        }
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            // What RTP takes for a packet of its own, and the others for any frame.
            let mut frame = [step as u8; 100];
            (frame[0], frame[1]) = (0x80, 96);
            self.step(&frame);
            assert_eq!(self.hub.poll_timeout(), self.plain.poll_timeout(), "after {step} ms");
        }
    }
}

/// Sends what it is given back after a while, or lets it expire, and learns only in `advance` that it has ended.
struct Parting {
    due: Instant,
    expires: bool,
    sent: bool,
    finished: bool,
}

impl Station for Parting {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, _now: Instant) {
        self.finished = self.sent;
    }

    fn poll_transmit(&mut self, now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        let sends = !self.sent && self.due <= now;
        self.sent |= sends;
        let (path, ecn) = (PathId::default(), Ecn::NotCapable);
        (sends && !self.expires).then_some(Transmit { path, len: 1, ecn })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.sent).then_some(self.due)
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.finished
    }
}

#[test]
fn what_a_station_learns_while_it_sends_is_heeded_though_nothing_more_comes() {
    for expires in [false, true] {
        let config = HubConfig { max_peers: 3, idle: ms(10_000), admits: |_| true };
        let make = move |now, path: PathId| Parting {
            due: now + ms(path.0.into()),
            expires,
            sent: false,
            finished: false,
        };
        let (mut hub, mut now, mut buf) =
            (Hub::new(config, Box::new(make)), Instant::from_millis(1), [0; 10]);
        for path in [3, 1, 2].map(PathId) {
            hub.handle_input(now, datagram(&[1], path, now));
        }
        for path in [1, 2, 3].map(PathId) {
            hub.advance(now);
            assert_eq!(hub.poll_transmit(now, &mut buf).map(|transmit| transmit.path), None);
            now += ms(1);
            assert_eq!(hub.poll_timeout(), Some(now));
            hub.advance(now);
            let sent = hub.poll_transmit(now, &mut buf).map(|transmit| transmit.path);
            assert_eq!(sent, (!expires).then_some(path));
            assert!(hub.knows(path) && hub.poll_transmit(now, &mut buf).is_none());
            hub.advance(now);
            assert!(!hub.knows(path), "{path:?} has gone");
        }
        assert_eq!((hub.stations().count(), hub.poll_timeout()), (0, None));
        // Their places are given anew.
        hub.handle_input(now, datagram(&[1], PathId(9), now));
        assert_eq!(hub.poll_timeout(), Some(now + ms(9)));
    }
}

#[test]
fn a_thousand_associations_of_srp_are_served_as_if_each_were_asked_each_time() {
    let mut crowd = Crowd::new("srp", 1000);
    crowd.run(300);
    assert!(crowd.sent[0] == crowd.sent[1], "{} and {} datagrams", crowd.sent[0].len(), crowd.sent[1].len());
    // Fifteen frames each, of which repairs leave next to none unreturned. Without repairs a tenth would be missing.
    assert_eq!(crowd.hub.counters().admitted, 1000);
    assert!(crowd.returned > 14_400 && crowd.returned <= 15_000, "{} frames came back", crowd.returned);
}

#[test]
fn hubs_of_every_transport_are_served_as_if_each_were_asked_each_time() {
    for transport in TRANSPORTS.iter().filter(|transport| transport.beneath == Beneath::Udp) {
        let mut crowd = Crowd::new(transport.scheme, 30);
        crowd.run(400);
        // Some callers end, and their stations with them where the transport says so.
        for caller in &mut crowd.callers[..10] {
            caller.close(crowd.now, CloseMode::Graceful);
        }
        crowd.run(100);
        let at = crowd.now;
        crowd.hub.stop(at);
        crowd.plain.stopping = true;
        crowd.plain.peers.iter_mut().for_each(|(_, station)| station.stop(at));
        for _ in 0..1_500 {
            crowd.step(&[]);
        }
        // Places of those who left are given anew, so that within an instant the turns may differ.
        crowd.sent.iter_mut().for_each(|sent| sent.sort_by_key(|(now, path, _)| (*now, *path)));
        let odd = crowd.sent[0].iter().zip(&crowd.sent[1]).find(|(hub, plain)| hub != plain);
        assert_eq!((odd, crowd.sent[0].len()), (None, crowd.sent[1].len()), "{}", transport.scheme);
        assert!(crowd.returned > 300, "{}: {} frames came back", transport.scheme, crowd.returned);
        assert_eq!(crowd.hub.is_finished(), crowd.plain.peers.iter().all(|(_, peer)| peer.is_finished()));
    }
}

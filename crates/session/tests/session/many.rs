//! A reflector of many against the simplest possible one, which asks every endpoint everything each time: each peer is
//! sent the same datagrams at the same times.

use std::collections::VecDeque;
use std::rc::Rc;

use antiphon_core::{
    CloseMode, Endpoint, Event, Input, Instant, Message, Participant, PathId, Rng, Role, Stack, Tag,
    Validator, Verdict,
};
use antiphon_session::{Reflector, ReflectorConfig};

use crate::world::{WIRE, datagram, datagram_transports, many, ms, stack, stack_of};

/// Endpoints in the order in which they came.
struct Plain {
    stack: Rc<dyn Stack>,
    validator: Box<dyn Validator>,
    replies: VecDeque<(PathId, Vec<u8>)>,
    peers: Vec<Peer>,
    stopping: bool,
}

struct Peer {
    path: PathId,
    flow: u16,
    endpoint: Box<dyn Endpoint>,
    closed: bool,
}

impl Peer {
    /// Returns what came.
    fn reflect(&mut self, now: Instant) {
        let mut buf = vec![0; self.endpoint.profile().max_receive];
        antiphon_core::handle_due(&mut *self.endpoint, now);
        self.hear();
        while let Some(received) = self.endpoint.poll_message(&mut buf) {
            let message = Message::new(Tag(0), &buf[..received.len], Some(now + ms(1_000)));
            let _no_room = self.endpoint.send(now, message);
        }
        self.hear();
    }

    fn hear(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.closed |= matches!(event, Event::Closed(_));
        }
    }
}

impl Plain {
    fn new(stack: Rc<dyn Stack>, now: Instant) -> Self {
        let validator = stack.validator(now);
        Plain { stack, validator, replies: VecDeque::new(), peers: Vec::new(), stopping: false }
    }

    fn handle_input(&mut self, now: Instant, path: PathId, bytes: &[u8]) {
        let flow = self.validator.flow_label(bytes);
        let mut copy = bytes.to_vec();
        if let Some(peer) = self.peers.iter_mut().find(|peer| (peer.path, peer.flow) == (path, flow)) {
            return peer.endpoint.handle_input(now, datagram(&mut copy, PathId::default(), now));
        }
        if self.stopping {
            return;
        }
        let mut out = vec![0; 2048];
        let block = match self.validator.validate(now, path, bytes, &mut out) {
            Verdict::Ignore => return,
            Verdict::Reply { len } => return self.replies.push_back((path, out[..len].to_vec())),
            Verdict::Accept => None,
            Verdict::AcceptWith { len } => Some(&out[..len]),
        };
        let mut endpoint = self.stack.open(now, Role::Listener);
        match block {
            Some(block) => endpoint.handle_input(now, Input::Accepted { path: PathId::default(), block }),
            None => endpoint.handle_input(now, datagram(&mut copy, PathId::default(), now)),
        }
        self.peers.push(Peer { path, flow, endpoint, closed: false });
    }

    /// Does everything that is due at this instant.
    fn pump(&mut self, now: Instant, sent: &mut Vec<Sent>) {
        let mut buf = vec![0; 1500];
        sent.extend(self.replies.drain(..).map(|(path, bytes)| (now, path, bytes)));
        loop {
            let before = sent.len();
            self.peers.iter_mut().for_each(|peer| peer.reflect(now));
            for peer in &mut self.peers {
                while let Some(transmit) = peer.endpoint.poll_transmit(now, &mut buf) {
                    sent.push((now, peer.path, buf[..transmit.len].to_vec()));
                }
                peer.hear();
            }
            self.peers.retain(|peer| !peer.closed);
            if sent.len() == before {
                return;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.iter().filter_map(|peer| peer.endpoint.poll_timeout()).min()
    }

    fn stop(&mut self, now: Instant) {
        self.stopping = true;
        self.peers.iter_mut().for_each(|peer| peer.endpoint.close(now, CloseMode::Graceful));
    }
}

type Sent = (Instant, PathId, Vec<u8>);

/// Callers of 50 messages/s over a path that loses 5 % each way, the reflector and its simple reference.
struct Crowd {
    callers: Vec<Box<dyn Endpoint>>,
    hub: Reflector,
    plain: Plain,
    rng: Rng,
    now: Instant,
    returned: u64,
    sent: [Vec<Sent>; 2],
}

impl Crowd {
    fn new(scheme: &'static str, callers: usize) -> Self {
        let now = Instant::from_millis(1);
        Crowd {
            // Programs of their own, which draw other numbers.
            callers: (0..callers as u64).map(|n| stack_of(scheme, 100 + n).open(now, Role::Caller)).collect(),
            // Unproved peers have half of the places.
            hub: Reflector::new(now, WIRE, stack(scheme), many(2 * callers), ReflectorConfig::default()),
            plain: Plain::new(stack(scheme), now),
            rng: Rng::fork(1, "crowd"),
            now,
            returned: 0,
            sent: Default::default(),
        }
    }

    /// A round of the driver's loop, and what the callers do in the meantime.
    fn step(&mut self, message: &[u8]) {
        let mut buf = vec![0; 1500];
        for at in 0..self.callers.len() {
            let caller = &mut self.callers[at];
            if caller.poll_timeout().is_some_and(|at| at <= self.now) {
                caller.handle_timeout(self.now);
            }
            // Not all at once: a twentieth of them each millisecond.
            if !message.is_empty() && at as u64 % 20 == self.now.as_nanos() / 1_000_000 % 20 {
                let _still_connecting =
                    caller.send(self.now, Message::new(Tag::NONE, message, Some(self.now + ms(200))));
            }
            while let Some(transmit) = caller.poll_transmit(self.now, &mut buf) {
                if !self.rng.next_u32().is_multiple_of(20) {
                    let (path, bytes) = (PathId(at as u32), &buf[..transmit.len]);
                    self.hub.handle_input(self.now, WIRE, datagram(&mut bytes.to_vec(), path, self.now));
                    self.plain.handle_input(self.now, path, bytes);
                }
            }
        }
        let first = self.sent[0].len();
        let [sent, of_plain] = &mut self.sent;
        let of_hub = antiphon_testkit::Sent::of(&mut self.hub, self.now).datagrams;
        sent.extend(of_hub.into_iter().map(|(_, path, bytes)| (self.now, path, bytes)));
        self.plain.pump(self.now, of_plain);
        self.answer(first);
        self.now += ms(1);
    }

    /// Takes the reflector's datagrams back to the callers.
    fn answer(&mut self, first: usize) {
        let mut message = vec![0; 1 << 16];
        for (at, path, bytes) in &self.sent[0][first..] {
            if self.rng.next_u32().is_multiple_of(20) {
                continue;
            }
            let caller = &mut self.callers[path.0 as usize];
            caller.handle_input(*at, datagram(&mut bytes.to_vec(), PathId::default(), *at));
            while caller.poll_message(&mut message).is_some() {
                self.returned += 1;
            }
            while caller.poll_event().is_some() {}
        }
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            // Bytes that RTP takes for a packet of its own, and the others for any message.
            let mut message = [step as u8; 100];
            (message[0], message[1]) = (0x80, 96);
            self.step(&message);
            assert_eq!(self.hub.poll_timeout(), self.plain.poll_timeout(), "after {step} ms");
        }
    }

    /// Both sent the same to each peer at each instant; the turns within an instant are the reflector's.
    fn assert_alike(&mut self, name: &str) {
        self.sent.iter_mut().for_each(|sent| sent.sort_by_key(|(now, path, _)| (*now, *path)));
        let odd = self.sent[0].iter().zip(&self.sent[1]).find(|(hub, plain)| hub != plain);
        assert_eq!((odd, self.sent[0].len()), (None, self.sent[1].len()), "{name}");
    }
}

#[test]
fn a_thousand_associations_are_served_as_if_each_were_asked() {
    let mut crowd = Crowd::new("srp", 1000);
    crowd.run(300);
    crowd.assert_alike("srp");
    // Fifteen messages each, of which almost all return thanks to repairs. Without repairs a tenth would be missing.
    assert_eq!(crowd.hub.admission().admitted, 1000);
    assert!(crowd.returned > 14_400 && crowd.returned <= 15_000, "{} came back", crowd.returned);
}

#[test]
fn many_of_every_transport_are_served_as_if_each_were_asked() {
    for transport in datagram_transports() {
        let mut crowd = Crowd::new(transport.scheme, 30);
        crowd.run(400);
        // Some callers end, and their associations with them where the transport says so.
        for caller in &mut crowd.callers[..10] {
            caller.close(crowd.now, CloseMode::Graceful);
        }
        crowd.run(100);
        let at = crowd.now;
        crowd.hub.stop(at);
        crowd.plain.stop(at);
        for _ in 0..1_500 {
            crowd.step(&[]);
        }
        crowd.assert_alike(transport.scheme);
        assert!(crowd.returned > 300, "{}: {} came back", transport.scheme, crowd.returned);
        assert_eq!(crowd.hub.is_finished(), crowd.plain.peers.is_empty());
    }
}

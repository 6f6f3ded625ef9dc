//! What a restart, a translator that changes its port, or a peer that is gone does to a stream over SCTP and DCCP: the
//! endpoint that calls, and the table of associations that listens. Calling again is the session's task, not tested here.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, PathId, Role, Tag};
use antiphon_session::{Associations, Policy};

use crate::common::{SILENCE, WIRE, ms, stack_of};

/// One way.
const DELAY: Duration = Duration::from_millis(10);
/// Between two messages.
const EVERY: Duration = Duration::from_millis(5);
const BUDGET: Duration = Duration::from_millis(80);
const TRANSPORTS: [&str; 3] = ["sctp", "dccp?ccid=2", "dccp?ccid=3"];
const POLICIES: [Policy; 2] = [
    Policy::Single { silence: SILENCE, streams: true },
    Policy::Many { most: 4, idle: Duration::from_secs(10) },
];

/// A program that calls and sends.
struct Caller {
    endpoint: Box<dyn Endpoint>,
    /// Its address, as the listener sees it.
    path: PathId,
    closed: Option<(Instant, CloseReason)>,
    /// When it was told that nobody answers.
    broken: Option<Instant>,
    runs: bool,
    /// Its DCCP port, and the one that the listener sees.
    own_port: [u8; 2],
    shown_as: Option<[u8; 2]>,
}

/// Callers, a listener, and a path of 10 ms without losses.
struct World {
    now: Instant,
    name: &'static str,
    callers: Vec<Caller>,
    listener: Option<Associations>,
    flight: VecDeque<(Instant, bool, PathId, Vec<u8>)>,
    /// Nothing crosses.
    dead: bool,
    arrivals: Vec<Instant>,
    seed: u64,
    /// Datagrams that the listener's machine sent.
    answers: usize,
}

impl World {
    fn new(name: &'static str, policy: Policy) -> Self {
        let mut world = World {
            now: Instant::from_millis(1),
            name,
            callers: Vec::new(),
            listener: None,
            flight: VecDeque::new(),
            dead: false,
            arrivals: Vec::new(),
            seed: 10,
            answers: 0,
        };
        world.listen(policy);
        world
    }

    fn draw(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    /// A new program listens.
    fn listen(&mut self, policy: Policy) {
        let seed = self.draw();
        let mut listener = Associations::new();
        listener.listen(self.now, WIRE, stack_of(self.name, seed), policy);
        self.listener = Some(listener);
    }

    /// A new program calls from there.
    fn call(&mut self, path: u32) -> usize {
        let seed = self.draw();
        let endpoint = stack_of(self.name, seed).open(self.now, Role::Caller);
        self.callers.push(Caller {
            endpoint,
            path: PathId(path),
            closed: None,
            broken: None,
            runs: true,
            own_port: [0; 2],
            shown_as: None,
        });
        self.callers.len() - 1
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += ms(1);
            self.deliver();
            self.run_callers();
            self.run_listener();
        }
    }

    fn deliver(&mut self) {
        while self.flight.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((received_at, up, path, mut bytes)) = self.flight.pop_front() else { return };
            let callers = self.callers.iter_mut();
            match up {
                true => {
                    let input = Input::Datagram { path, bytes: &mut bytes, received_at };
                    let _ = self.listener.as_mut().map(|one| one.handle_input(self.now, WIRE, input));
                }
                false => callers.filter(|caller| caller.runs && caller.path == path).for_each(|caller| {
                    if caller.shown_as.is_some() {
                        bytes[2..4].copy_from_slice(&caller.own_port);
                    }
                    let input = Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at };
                    caller.endpoint.handle_input(self.now, input);
                }),
            }
        }
    }

    fn run_callers(&mut self) {
        let (now, mut buf) = (self.now, vec![0; 2048]);
        let is_time = now.as_nanos().is_multiple_of(EVERY.as_nanos() as u64);
        for caller in self.callers.iter_mut().filter(|caller| caller.runs) {
            if caller.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                caller.endpoint.handle_timeout(now);
            }
            if is_time {
                // Sound, and every half second a report.
                let bytes = if now.as_nanos().is_multiple_of(500_000_000) { &[7; 60][..] } else { &[7; 400] };
                let message = Message::new(Tag::NONE, bytes, Some(now + BUDGET));
                let _refused_before_the_connection_is_up = caller.endpoint.send(now, message);
            }
            while let Some(sent) = caller.endpoint.poll_transmit(now, &mut buf) {
                if let Some(port) = caller.shown_as {
                    caller.own_port = [buf[0], buf[1]];
                    buf[..2].copy_from_slice(&port);
                }
                if !self.dead {
                    self.flight.push_back((now + DELAY, true, caller.path, buf[..sent.len].to_vec()));
                }
            }
            while caller.endpoint.poll_message(&mut buf).is_some() {}
            while let Some(event) = caller.endpoint.poll_event() {
                match event {
                    Event::Closed(reason) => caller.closed = Some((now, reason)),
                    Event::Broken(_) => caller.broken = Some(now),
                    _ => {}
                }
            }
        }
    }

    fn run_listener(&mut self) {
        let (now, mut buf) = (self.now, vec![0; 65_536]);
        let Some(listener) = &mut self.listener else { return };
        loop {
            listener.advance(now);
            while let Some((id, _)) = listener.poll_message(&mut buf) {
                listener.on_used(now, id);
                self.arrivals.push(now);
            }
            while listener.poll_event().is_some() {}
            while listener.poll_opened().is_some() {}
            while listener.poll_ready().is_some() {}
            while let Some(sent) = listener.poll_transmit(now, WIRE, &mut buf) {
                self.answers += 1;
                if !self.dead {
                    self.flight.push_back((now + DELAY, false, sent.path, buf[..sent.len].to_vec()));
                }
            }
            if listener.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
        }
    }

    /// Messages that came since then.
    fn arrived_since(&self, from: Instant) -> usize {
        self.arrivals.iter().filter(|at| **at > from).count()
    }

    /// When the first message came since then.
    fn first_since(&self, from: Instant) -> Option<Duration> {
        self.arrivals.iter().find(|at| **at > from).map(|at| at.since(from))
    }
}

/// A stream over each transport, to a listener that takes one caller or many.
fn each(check: impl Fn(&mut World, &str, Policy)) {
    for name in TRANSPORTS {
        for policy in POLICIES {
            let mut world = World::new(name, policy);
            world.call(1);
            world.run(ms(3000));
            let came = world.arrived_since(world.now - ms(1000));
            assert!(came >= 195, "{name} {policy:?}: a stream is under way: {came}");
            check(&mut world, &format!("{name} {policy:?}"), policy);
        }
    }
}

#[test]
fn a_restarted_listener_tells_the_caller_at_once() {
    each(|world, what, policy| {
        world.listener = None;
        world.run(ms(1000));
        world.listen(policy);
        let from = world.now;
        world.run(ms(2000));
        let Some((at, reason)) = world.callers[0].closed else { panic!("{what}: the caller goes on") };
        assert!(at.since(from) <= ms(600), "{what}: {:?}", at.since(from));
        assert_eq!(reason, CloseReason::Restarted, "{what}");
        // And a new call is served.
        let from = world.now;
        world.call(1);
        world.run(ms(1000));
        assert!(
            world.first_since(from).is_some_and(|after| after <= ms(300)),
            "{what}: {:?}",
            world.first_since(from)
        );
    });
}

#[test]
fn a_restarted_caller_is_served_on_the_same_port() {
    each(|world, what, _| {
        world.callers[0].runs = false;
        world.run(ms(1000));
        let from = world.now;
        world.call(1);
        world.run(ms(3000));
        let first = world.first_since(from);
        assert!(first.is_some_and(|after| after <= ms(1000)), "{what}: {first:?}");
        assert!(world.arrived_since(world.now - ms(1000)) >= 195, "{what}");
    });
}

#[test]
fn a_restarted_caller_is_served_on_another_port() {
    each(|world, what, _| {
        world.callers[0].runs = false;
        world.run(ms(1000));
        let from = world.now;
        world.call(2);
        world.run(ms(3000));
        let first = world.first_since(from);
        // One that listens to a single caller waits until the old one has been silent for `SILENCE`.
        assert!(first.is_some_and(|after| after <= ms(2000)), "{what}: {first:?}");
        assert!(world.arrived_since(world.now - ms(1000)) >= 195, "{what}");
    });
}

#[test]
fn a_second_caller_behind_the_same_address_ends_no_live_stream() {
    for name in TRANSPORTS {
        let mut world = World::new(name, POLICIES[0]);
        world.call(1);
        world.run(ms(1000));
        world.call(1);
        world.run(ms(3000));
        assert_eq!(world.callers[0].closed, None, "{name}");
        assert!(world.arrived_since(world.now - ms(1000)) >= 190, "{name}");
    }
}

#[test]
fn a_caller_whose_port_a_translator_changes_goes_on() {
    each(|world, what, _| {
        for n in 2..12 {
            let from = world.now;
            world.callers[0].path = PathId(n);
            world.run(ms(1500));
            let first = world.first_since(from);
            assert!(first.is_some_and(|after| after <= ms(300)), "{what} {n}: {first:?}");
            assert!(world.arrived_since(world.now - ms(1000)) >= 190, "{what} {n}");
            assert_eq!(world.callers[0].closed, None, "{what} {n}");
        }
    });
}

#[test]
fn a_caller_gives_up_a_listener_that_is_gone() {
    each(|world, what, _| {
        world.dead = true;
        let from = world.now;
        world.run(Duration::from_secs(43));
        let Some((at, reason)) = world.callers[0].closed else {
            panic!("{what}: the caller goes on for ever")
        };
        let after = at.since(from);
        assert!((Duration::from_secs(31)..Duration::from_secs(43)).contains(&after), "{what}: {after:?}");
        assert_eq!(reason, CloseReason::TimedOut, "{what}");
    });
}

#[test]
fn a_stream_goes_on_after_a_dead_path_of_30_s() {
    each(|world, what, _| {
        // Whatever timers, counters and reports are at when the path is there again.
        for phase in 0..8 {
            world.dead = true;
            world.run(Duration::from_secs(30) + phase * ms(83));
            world.dead = false;
            let from = world.now;
            world.run(ms(1000));
            let first = world.first_since(from);
            assert!(first.is_some_and(|after| after <= ms(600)), "{what} {phase}: {first:?}");
            let came = world.arrived_since(from + ms(700));
            assert!(came >= 50, "{what} {phase}: not one message, but the stream: {came}");
        }
    });
}

/// As kernels do, whose applications bind their ports.
#[test]
fn a_restarted_dccp_caller_is_served_on_the_same_dccp_port() {
    for name in &TRANSPORTS[1..] {
        for policy in POLICIES {
            let mut world = World::new(name, policy);
            for _ in 0..3 {
                world.callers.iter_mut().for_each(|caller| caller.runs = false);
                let (from, at) = (world.now, world.call(1));
                world.callers[at].shown_as = Some([0xc3, 0x50]);
                world.run(ms(2000));
                let first = world.first_since(from);
                assert!(first.is_some_and(|after| after <= ms(500)), "{name} {policy:?}: {first:?}");
            }
        }
    }
}

#[test]
fn closing_towards_a_peer_that_is_gone_takes_two_seconds() {
    each(|world, what, _| {
        world.dead = true;
        world.run(ms(2000));
        let from = world.now;
        world.callers[0].endpoint.close(from, CloseMode::Graceful);
        world.run(ms(2500));
        let Some((at, reason)) = world.callers[0].closed else { panic!("{what}: still closing") };
        assert!(at.since(from) <= ms(2000), "{what}: {:?}", at.since(from));
        assert_eq!(reason, CloseReason::Local, "{what}");
    });
}

#[test]
fn closing_waits_longer_where_every_message_must_arrive() {
    let mut world = World::new("sctp?reliability=full", POLICIES[0]);
    world.call(1);
    world.run(ms(1000));
    world.dead = true;
    world.run(ms(1000));
    world.callers[0].endpoint.close(world.now, CloseMode::Graceful);
    world.run(ms(5000));
    assert_eq!(world.callers[0].closed, None);
    (world.dead, world.arrivals) = (false, Vec::new());
    world.run(ms(3000));
    assert!(world.arrivals.len() >= 10, "what was sent and not acknowledged: {}", world.arrivals.len());
    assert!(matches!(world.callers[0].closed, Some((_, CloseReason::Local))));
}

#[test]
fn a_call_is_repeated_after_a_quarter_of_a_second() {
    for name in TRANSPORTS {
        let mut world = World::new(name, POLICIES[0]);
        world.dead = true;
        world.call(1);
        world.run(ms(200));
        world.dead = false;
        world.run(ms(1000));
        let first = world.arrivals.first().map(|at| at.since(Instant::from_millis(1)));
        assert!(first.is_some_and(|after| after <= ms(350)), "{name}: {first:?}");
    }
    let mut world = World::new("dccp?request-timeout=1s", POLICIES[0]);
    world.dead = true;
    world.call(1);
    world.run(ms(200));
    world.dead = false;
    world.run(ms(1500));
    let first = world.arrivals.first().map(|at| at.since(Instant::from_millis(1)));
    assert!(first.is_some_and(|after| (ms(1000)..ms(1100)).contains(&after)), "as in RFC 4340: {first:?}");
}

#[test]
fn a_call_that_nobody_answers_is_reported_and_goes_on() {
    for name in TRANSPORTS {
        let mut world = World::new(name, POLICIES[0]);
        world.dead = true;
        world.call(1);
        world.run(Duration::from_secs(60));
        let told = world.callers[0].broken.map(|at| at.since(Instant::from_millis(1)));
        assert!(told.is_some_and(|after| (ms(5000)..ms(10_000)).contains(&after)), "{name}: {told:?}");
        assert_eq!(world.callers[0].closed, None, "{name}");
        world.dead = false;
        let from = world.now;
        world.run(ms(2000));
        let first = world.first_since(from);
        assert!(first.is_some_and(|after| after <= ms(600)), "{name}: {first:?}");
    }
}

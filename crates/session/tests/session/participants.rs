//! What a driver relies on for every participant over every transport.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, Transmit, WireId};
use antiphon_proto::{Substrate, TRANSPORTS, Transport};
use antiphon_session::{PlayoutDelay, Reflector, ReflectorConfig, StreamFraming};
use antiphon_testkit::{Kept, Noise, stereo};

use crate::common::{Comparison, comparing, receiving, sending};
use crate::messages::{calling, waiting};
use crate::world::{SINGLE, WIRE, World, framed_stack, ms, stack, track_config, world_of};

/// A participant with checks of how it is driven.
struct Watched {
    inner: Box<dyn Participant>,
    /// When it was asked last, and how often since an input came or time went on.
    rounds: (Instant, u32),
    /// Wires that had nothing to send since then.
    silent: RefCell<BTreeSet<WireId>>,
}

impl Watched {
    fn new(inner: impl Participant + 'static) -> Self {
        let silent = RefCell::default();
        Watched { inner: Box::new(inner), rounds: (Instant::ZERO, 0), silent }
    }

    fn assert_over(&self) {
        assert!(self.inner.is_finished(), "it stays finished");
        assert_eq!(self.inner.poll_timeout(), None, "what is over waits for nothing");
    }
}

/// The most rounds at one instant: more would mean that work creates work without end.
const MOST_ROUNDS: u32 = 8;

impl Participant for Watched {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.rounds = (now, 0);
        self.silent.borrow_mut().clear();
        self.inner.handle_input(now, wire, input);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.inner.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        let (before, rounds) = self.rounds;
        self.rounds = (now, if before == now { rounds + 1 } else { 0 });
        assert!(self.rounds.1 <= MOST_ROUNDS, "still busy at {now:?}");
        self.silent.borrow_mut().clear();
        self.inner.advance(now);
        // A second call at the same instant does nothing, and what is due has been done.
        if self.inner.poll_timeout().is_none_or(|due| due > now) {
            let next = self.inner.poll_timeout();
            self.inner.advance(now);
            let then = self.inner.poll_timeout();
            assert!(then.is_none_or(|then| then > now), "a time-out out of nothing: {next:?}, {then:?}");
        }
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.inner.poll_ready()
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let transmit = self.inner.poll_transmit(now, wire, buf);
        if self.silent.borrow().contains(&wire) {
            assert_eq!(transmit, None, "it had nothing to send, and nothing has happened");
        }
        if transmit.is_none() {
            self.silent.borrow_mut().insert(wire);
            assert_eq!(self.inner.poll_transmit(now, wire, buf), None, "asked again, it has nothing either");
        }
        transmit
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.inner.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.inner.knows(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        self.inner.takes(wire)
    }

    fn stop(&mut self, now: Instant) {
        self.silent.borrow_mut().clear();
        self.inner.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

type Pair = [Watched; 2];

fn stream_in(name: &str, framing: StreamFraming) -> Pair {
    let mut config = track_config(stereo(), 5);
    config.packet.max_packet -= 100;
    let source = Noise::new(stereo(), 480_000);
    let near = sending(&*framed_stack(name, framing), source, config, PlayoutDelay::Of(ms(80)));
    let far = receiving(name, framing, Some(ms(80)), Kept::default().opener(), true, Instant::ZERO);
    [Watched::new(near), Watched::new(far)]
}

fn stream(name: &str) -> Pair {
    stream_in(name, StreamFraming::Rtp)
}

fn framed(name: &str) -> Pair {
    stream_in(name, StreamFraming::Medusa)
}

fn comparison(name: &str) -> Pair {
    let setting = Comparison { delay: PlayoutDelay::Of(ms(80)), ..Comparison::new(stereo(), ms(80)) };
    let near = comparing(name, Noise::new(stereo(), 480_000), Kept::default().opener(), setting);
    [Watched::new(near), Watched::new(reflector(name, false))]
}

/// The reflector takes messages one at a time.
fn patient_comparison(name: &str) -> Pair {
    let near = comparison(name).into_iter().next().expect("two");
    [near, Watched::new(reflector(name, true))]
}

fn reflector(name: &str, one_at_a_time: bool) -> Reflector {
    let config = ReflectorConfig { one_at_a_time, ..ReflectorConfig::default() };
    Reflector::new(Instant::ZERO, WIRE, stack(name), SINGLE, config)
}

fn messages(name: &str) -> Pair {
    let ((near, said), (far, heard)) = (calling(name, &[PathId(0)]), waiting(name));
    said.borrow_mut().out.extend((0..500u32).map(|n| n.to_be_bytes().repeat(50)));
    heard.borrow_mut().out.extend((0..100u32).map(|n| n.to_be_bytes().to_vec()));
    heard.borrow_mut().room = 400;
    [Watched::new(near), Watched::new(far)]
}

/// Makes the two participants of a kind over a transport.
type Make = fn(&str) -> Pair;

const KINDS: [(&str, Make); 5] = [
    ("stream", stream),
    ("framed stream", framed),
    ("comparison", comparison),
    ("comparison, one at a time", patient_comparison),
    ("messages", messages),
];

fn world(transport: &Transport, [near, far]: Pair, link: &str, seed: u64) -> World<Watched, Watched> {
    world_of(transport, near, far, (link, seed), (ms(10), 3_000))
}

/// The world checks that each is quiet after `pump`; `Watched` checks the rest.
#[test]
fn time_outs_are_spent_and_what_stops_ends() {
    for (transport, (kind, pair)) in TRANSPORTS.iter().flat_map(|one| KINDS.map(|kind| (*one, kind))) {
        for (at, link) in [(0, "delay=10ms"), (30, "delay=10ms"), (2_000, "delay=10ms,loss=5%,jitter=5ms")] {
            println!("{} {kind}, stopped after {at} ms", transport.scheme);
            let mut world = world(transport, pair(transport.scheme), link, 9);
            world.run_until(Instant::from_millis(at));
            for near_stops in [true, false] {
                let took = stops_after(&mut world, near_stops);
                println!("  the near end: {near_stops}; it took {took:?}");
                assert!(took < ms(5_000), "{took:?}");
                if near_stops { world.near.assert_over() } else { world.far.assert_over() }
            }
        }
    }
}

/// Stops one end, which must finish; how long that took.
fn stops_after(world: &mut World<Watched, Watched>, near_stops: bool) -> Duration {
    let (stopped, end) = (world.now, world.now + ms(500_000));
    let one = |world: &World<Watched, Watched>| {
        if near_stops { world.near.is_finished() } else { world.far.is_finished() }
    };
    if near_stops {
        world.near.stop(stopped);
    } else {
        world.far.stop(stopped);
    }
    world.run_while(end, |world| !one(world));
    assert!(one(world), "it never stops");
    world.now.since(stopped)
}

/// The other side has gone without closing: SCTP and DCCP try to reach it for some seconds.
#[test]
fn a_lone_participant_stops_within_twelve_seconds() {
    for (transport, (kind, pair)) in TRANSPORTS.iter().flat_map(|one| KINDS.map(|kind| (*one, kind))) {
        for near_stops in [true, false] {
            println!("{} {kind}, the near end stops: {near_stops}", transport.scheme);
            let mut world = world(transport, pair(transport.scheme), "delay=10ms", 9);
            world.run_until(Instant::from_millis(2_000));
            match transport.substrate {
                Substrate::Udp => {
                    let out = (world.now..Instant::from_millis(600_000), vec![0]);
                    world.up.outages.push(out.clone());
                    world.down.outages.push(out);
                }
                Substrate::Tcp => world.break_pipe(),
            }
            let took = stops_after(&mut world, near_stops);
            println!("  it took {took:?}");
            assert!(took < ms(12_000), "{took:?}");
        }
    }
}

/// Connected, but nothing moves any more.
#[test]
fn a_participant_with_a_full_pipe_still_stops() {
    for (kind, pair) in KINDS {
        for near_stops in [true, false] {
            println!("{kind}, the near end stops: {near_stops}");
            let [near, far] = pair("tcp");
            let mut world = World::piped(near, far, ms(10), 3_000);
            world.pipe().stall = Some((Instant::from_millis(1_000), Instant::from_millis(900_000)));
            world.run_until(Instant::from_millis(3_000));
            let took = stops_after(&mut world, near_stops);
            // Goodbyes or the port wait for the pipe, then the associations that are ending do.
            assert!(took <= ms(32_000), "{took:?}");
        }
    }
}

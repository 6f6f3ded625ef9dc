//! The sender of SRP obeys its receiver: streams that are asked for, and a path that can't carry what is offered.

mod srp_ends;

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Endpoint, Event, Frame, FrameId, Instant, Outcome, StreamId};
use antiphon_link::{Direction, Duplex};
use antiphon_proto::Role;
use antiphon_proto::srp::{Mode, Settings, SrpEndpoint, Streams};

use crate::srp_ends::{Ends, hear};

const LATENCY: Duration = Duration::from_millis(80);
/// 640 kbit/s of frames, and 710 kbit/s with the headers of IP, UDP and SRP.
const INTERVAL: Duration = Duration::from_millis(5);
const FRAME: usize = 400;

/// A server, a client and the link between them.
struct World {
    ends: Ends,
    next: u32,
    /// Each frame that came: its stream and its age.
    got: BTreeMap<u32, (StreamId, Duration)>,
    sent_at: BTreeMap<u32, Instant>,
    outcomes: BTreeMap<FrameId, Outcome>,
    congestion: u32,
    buf: Vec<u8>,
}

fn open(role: Role, streams: Streams) -> SrpEndpoint {
    let settings = Settings { streams, ..Settings::new(Mode::Improved, LATENCY) };
    SrpEndpoint::new(&settings, role, 1472, 5, Instant::ZERO)
}

impl World {
    fn new(link: &str, streams: Streams) -> Self {
        World {
            ends: Ends {
                now: Instant::from_millis(1),
                server: open(Role::Listener, Streams::ALL),
                client: open(Role::Caller, streams),
                link: Duplex::new(&link.parse().expect("a link"), 3).expect("a link"),
                down: Direction::Down,
            },
            next: 0,
            got: BTreeMap::new(),
            sent_at: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            congestion: 0,
            buf: vec![0; 65_535],
        }
    }

    fn send(&mut self, stream: u16, priority: u8, deadline: bool) -> bool {
        let mut bytes = [0x80; FRAME];
        bytes[..4].copy_from_slice(&self.next.to_be_bytes());
        let deadline = deadline.then(|| self.ends.now + LATENCY);
        let frame = Frame { priority, stream: StreamId(stream), ..Frame::new(&bytes, deadline) };
        let accepted = self.ends.server.send(self.ends.now, frame).is_ok();
        self.sent_at.insert(self.next, self.ends.now);
        self.next += 1;
        accepted
    }

    /// Event by event for so long.
    fn run(&mut self, time: Duration) {
        let until = self.ends.now + time;
        self.settle();
        while self.ends.step(until) {
            self.settle();
        }
        self.ends.now = until;
    }

    fn settle(&mut self) {
        for (side, direction) in
            [(&mut self.ends.server, Direction::Down), (&mut self.ends.client, Direction::Up)]
        {
            while let Some(sent) = side.poll_transmit(self.ends.now, &mut self.buf) {
                self.ends.link.offer(self.ends.now, direction, self.buf[..sent.len].to_vec());
            }
            while let Some(event) = side.poll_event() {
                match event {
                    Event::Frame { id, outcome } if direction == Direction::Down => {
                        assert_eq!(self.outcomes.insert(id, outcome), None, "one outcome for {id:?}");
                    }
                    Event::Congestion(_) => self.congestion += 1,
                    _ => {}
                }
            }
        }
        while let Some(received) = self.ends.client.poll_frame(&mut self.buf) {
            let number = u32::from_be_bytes([self.buf[0], self.buf[1], self.buf[2], self.buf[3]]);
            let age = received.received_at.since(self.sent_at[&number]);
            self.got.insert(number, (received.stream, age));
        }
    }

    /// Frames of `seconds`, one each [`INTERVAL`]; answers the share that came within the latency.
    fn stream(&mut self, seconds: u32, frame: impl Fn(&mut World, u32)) -> f64 {
        let (first, count) = (self.next, seconds * 200);
        for n in 0..count {
            frame(self, n);
            self.run(INTERVAL);
        }
        self.run(Duration::from_millis(500));
        let in_time = self.got.range(first..).filter(|(_, (_, age))| *age <= LATENCY).count();
        in_time as f64 / f64::from(self.next - first)
    }

    /// Frames of three streams in turn.
    fn of_three(&mut self, n: u32) {
        self.send((n % 3) as u16, 0, true);
    }

    fn urgent(&mut self, _n: u32) {
        self.send(0, 0, true);
    }
}

/// 710 kbit/s over what carries half of it: the queue of 200 ms would stand full, and every frame that comes would be too old to be played.
#[test]
fn a_bottleneck_of_half_the_rate_does_not_collapse() {
    let bottleneck = "delay=10ms,rate=355kbit/s,queue=9kB";
    let mut world = World::new(bottleneck, Streams::ALL);
    let first = world.stream(5, World::urgent);
    let later = world.stream(30, World::urgent);
    // Before the first reports of a full queue, half a second at least is lost to it. Afterwards what the link carries,
    // less a fifth that yielding costs and what the limit's creeping up costs again; unlimited, it is 2 %.
    println!("in time: {first} {later}");
    assert!(later > 0.38 && later < 0.5, "in time: {first} at first, {later} later");
    let carried = world.ends.link.down.counters();
    let lost = carried.overflowed as f64 / carried.offered as f64;
    assert!(lost < 0.12, "most of what can't be carried is not sent: {lost} of {}", carried.offered);
    let expired = world.outcomes.values().filter(|o| **o == Outcome::Expired { maybe_received: false });
    assert!(expired.count() > 2_500 && world.congestion >= 1, "{} told", world.congestion);
    let pace = world.ends.server.path_stats().pacing_rate.expect("a limit").0;
    assert!((150_000..450_000).contains(&pace), "{pace} bit/s");
    // The path recovers, and all of it flows again before long.
    world.ends.link = Duplex::new(&"delay=10ms".parse().expect("a link"), 4).expect("a link");
    world.stream(30, World::urgent);
    assert_eq!((world.stream(5, World::urgent), world.ends.server.path_stats().pacing_rate), (1.0, None));
}

#[test]
fn in_a_bottleneck_urgent_frames_go_first_and_recordings_arrive_whole() {
    let bottleneck = "delay=10ms,rate=430kbit/s,queue=9kB";
    let mut world = World::new(bottleneck, Streams::ALL);
    world.stream(3, World::urgent);
    let first = world.next;
    world.stream(20, |world, n| {
        world.send(0, u8::from(n % 2 == 1), true);
    });
    let share = |odd: bool| {
        let of = |n: &u32| (n - first) % 2 == u32::from(odd);
        world.got.range(first..).filter(|(n, _)| of(n)).count() as f64 / 2_000.0
    };
    // Half of the frames are urgent and two thirds fit.
    assert!(share(false) > 0.9 && share(true) < 0.5, "urgent {}, others {}", share(false), share(true));
    // Frames without a deadline wait, and their source is told to.
    let mut world = World::new(bottleneck, Streams::ALL);
    world.stream(3, World::urgent);
    let (first, mut refused) = (world.next, 0);
    for _ in 0..4_000 {
        refused += u32::from(!world.send(0, 0, false));
        world.run(INTERVAL);
    }
    world.run(Duration::from_secs(40));
    assert!(refused > 100, "{refused}");
    let lost = world.got.range(first..).count() as f64 / f64::from(4_000 - refused);
    assert!(lost > 0.95, "what was accepted arrives, but for a queue probed now and then: {lost}");
}

/// Jitter, more than twice that of the worst presets, and losses that are the link's own slow nothing down.
#[test]
fn what_is_not_ours_is_not_yielded_to() {
    for link in [
        "delay=137ms,loss=15%,jitter=20ms/exponential",
        "delay=30ms,loss=20%",
        "delay=10ms,jitter=30ms",
        "delay=10ms,jitter=20ms/exponential",
    ] {
        let mut world = World::new(link, Streams::ALL);
        world.stream(20, World::urgent);
        let expired = world.outcomes.values().filter(|o| matches!(o, Outcome::Expired { .. })).count();
        assert_eq!(expired, 0, "{link}");
    }
}

/// The epoch has 128 values. Who guesses it mutes a stream, but the echo of his probe reaches the client, who tells the
/// server again what it wants: though it hears nothing and would be silent otherwise.
#[test]
fn a_forged_choice_lasts_a_round_trip() {
    let mut world = World::new("delay=10ms", Streams::ALL);
    world.stream(2, World::urgent);
    let mut probe = [0; 28];
    for epoch in 0..128u8 {
        (probe[0], probe[3]) = (0x80 | epoch, 3);
        hear(&mut world.ends.server, world.ends.now, &probe);
        // No other report is near, so that nothing else mends it.
        world.settle();
    }
    let first = world.next;
    world.stream(2, World::urgent);
    let came = world.got.range(first..).count();
    assert!((380..400).contains(&came), "it did mute, and not for long: {came} of 400");
}

#[test]
fn a_client_gets_the_streams_that_it_asks_for_and_no_others() {
    for loss in ["delay=10ms", "delay=10ms,loss=30%"] {
        // Before anything came: the server has frames of three streams from the start.
        let mut world = World::new(loss, Streams(0b101));
        world.run(Duration::from_secs(3));
        world.stream(2, World::of_three);
        let streams = |world: &World, from: u32| {
            let mut streams: Vec<u16> = world.got.range(from..).map(|(_, (stream, _))| stream.0).collect();
            streams.sort_unstable();
            streams.dedup();
            streams
        };
        assert_eq!(streams(&world, 0), [0, 2], "{loss}");
        assert!(world.got.iter().all(|(n, (stream, _))| *n % 3 == u32::from(stream.0)));
        let lost = world.ends.client.path_stats().counters;
        assert_eq!((lost.malformed, lost.duplicates), (0, 0), "streams left out leave no gaps: {lost:?}");
        // Another choice while it runs; two seconds, if the first words of it are lost.
        let first = world.next;
        world.ends.client.want(Streams(0b010));
        world.stream(4, World::of_three);
        assert_eq!(streams(&world, first + 400), [1], "{loss}");
        // None at all, and all again.
        for (wanted, expected) in [(Streams(0), &[][..]), (Streams::ALL, &[0, 1, 2][..])] {
            world.ends.client.want(wanted);
            world.stream(4, World::of_three);
            let first = world.next;
            world.stream(1, World::of_three);
            assert_eq!(streams(&world, first), expected, "{wanted:?}, {loss}");
        }
    }
}

//! What an SRP association costs in memory: nothing per packet once it runs, and little per client of a server.
#![allow(unsafe_code, reason = "a counting allocator must implement GlobalAlloc")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Ecn, Endpoint, Frame, Input, Instant, PathId, Rng};
use antiphon_proto::srp::{Decision, Mode, Settings, SrpEndpoint};
use antiphon_proto::{OpenArgs, Role, open};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: i64) {
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
    let _ = LIVE.try_with(|n| n.set(n.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches thread-local numbers that need no memory
// of their own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ONE_WAY: Duration = Duration::from_millis(15);
const MAX_DATAGRAM: usize = 1472;

/// Two endpoints and a wire of places made beforehand, which loses one datagram of ten.
struct World {
    now: Instant,
    sides: [SrpEndpoint; 2],
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    buf: Vec<u8>,
    rng: Rng,
    delivered: u64,
}

impl World {
    fn new(settings: &Settings) -> Self {
        let open = |role| SrpEndpoint::new(settings, role, MAX_DATAGRAM, 3, Instant::ZERO);
        World {
            now: Instant::ZERO,
            sides: [open(Role::Caller), open(Role::Listener)],
            wire: VecDeque::with_capacity(512),
            spare: (0..512).map(|_| Vec::with_capacity(MAX_DATAGRAM)).collect(),
            buf: vec![0; 65_535],
            rng: Rng::fork(3, "loss"),
            delivered: 0,
        }
    }

    /// Frames of `len` bytes both ways, `count` of them, one each 5 ms, every other one less urgent.
    fn stream(&mut self, count: u32, len: usize) {
        let frame = [7; 8192];
        for n in 0..count {
            for side in &mut self.sides {
                let deadline = Some(self.now + Duration::from_millis(80));
                let frame = Frame { priority: (n % 2) as u8, ..Frame::new(&frame[..len], deadline) };
                side.send(self.now, frame).expect("an idle queue accepts");
            }
            for _ in 0..5 {
                self.millisecond();
            }
        }
    }

    /// So many frames at one instant.
    fn burst(&mut self, count: u32, len: usize) {
        let frame = [7; 8192];
        for side in &mut self.sides {
            for _ in 0..count {
                side.send(self.now, Frame::new(&frame[..len], None)).expect("an idle queue accepts");
            }
        }
        (0..100).for_each(|_| self.millisecond());
    }

    fn millisecond(&mut self) {
        self.now += Duration::from_millis(1);
        while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, to, bytes)) = self.wire.pop_front() else { break };
            let (path, ecn, received_at) = (PathId::default(), Ecn::NotCapable, self.now);
            self.sides[to].handle_input(self.now, Input::Datagram { path, bytes: &bytes, ecn, received_at });
            self.spare.push(bytes);
        }
        for (at, side) in self.sides.iter_mut().enumerate() {
            if side.poll_timeout().is_some_and(|due| due <= self.now) {
                side.handle_timeout(self.now);
            }
            while side.poll_frame(&mut self.buf).is_some() {
                self.delivered += 1;
            }
            while side.poll_event().is_some() {}
            while let Some(sent) = side.poll_transmit(self.now, &mut self.buf) {
                if self.rng.chance(0.1) {
                    continue;
                }
                let mut bytes = self.spare.pop().expect("the wire has places enough");
                bytes.clear();
                bytes.extend_from_slice(&self.buf[..sent.len]);
                self.wire.push_back((self.now + ONE_WAY, 1 - at, bytes));
            }
        }
    }
}

fn settings() -> [Settings; 3] {
    let latency = Duration::from_millis(80);
    let nearest = Settings { decide: Decision::Nearest, ..Settings::new(Mode::Improved, latency) };
    [Settings::new(Mode::Improved, latency), nearest, Settings::new(Mode::AsPublished, latency)]
}

#[test]
fn a_running_stream_allocates_nothing() {
    for settings in settings() {
        // Sound of one packet a frame, and frames of three in the mode that can.
        for len in [500, 4000] {
            if settings.mode == Mode::AsPublished && len > 1400 {
                continue;
            }
            let mut world = World::new(&settings);
            // Half a second shows the pace of a stream. Long frames warm every buffer for their parts, as after the first
            // stall; the published client's places are filled in turn.
            world.stream(100, len);
            if len > MAX_DATAGRAM || settings.mode == Mode::AsPublished {
                world.burst(12, len);
                world.stream(3000, len);
            }
            let (before, delivered) = (ALLOCATIONS.get(), world.delivered);
            world.stream(3000, len);
            assert_eq!(ALLOCATIONS.get() - before, 0, "{settings:?}, frames of {len} bytes");
            assert!(world.delivered - delivered > 5_000, "the stream flows: {}", world.delivered - delivered);
            let stats = world.sides.each_ref().map(|side| side.path_stats().counters.retransmitted);
            assert!(stats.iter().all(|n| *n > 100), "and is repaired: {stats:?}");
        }
    }
    // The counter counts.
    let before = ALLOCATIONS.get();
    drop(Vec::<u8>::with_capacity(1));
    assert_eq!(ALLOCATIONS.get() - before, 2);
}

/// What a server of any of these transports holds for each of its peers who get 50 packets of 500 bytes a second.
#[test]
fn an_association_of_the_other_datagram_transports_takes_under_64_kb() {
    let now = Instant::ZERO;
    for uri in ["rtp", "arq", "arq?mode=as-published", "arq?congestion=aimd"] {
        let (scheme, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = query.parse().expect("a query");
        let latency = Duration::from_millis(80);
        let role = Role::Listener;
        let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram: MAX_DATAGRAM, latency };
        let before = LIVE.get();
        let mut endpoint = open(scheme, &args).expect("opens");
        let mut buf = [0; 2048];
        for n in 0..100 {
            let now = Instant::from_millis(20 * n);
            endpoint.handle_timeout(now);
            endpoint.send(now, Frame::new(&[1; 500], Some(now + latency))).expect("an idle queue accepts");
            while endpoint.poll_transmit(now, &mut buf).is_some() {}
            while endpoint.poll_event().is_some() {}
        }
        let held = LIVE.get() - before;
        println!("{uri}: {held} bytes");
        assert!(held < 64_000, "{uri}: {held} bytes");
    }
}

#[test]
fn a_client_takes_under_64_kb_beside_its_buffer() {
    for settings in settings() {
        let before = LIVE.get();
        let idle = SrpEndpoint::new(&settings, Role::Listener, MAX_DATAGRAM, 3, Instant::ZERO);
        let fresh = LIVE.get() - before + size_of::<SrpEndpoint>() as i64;
        println!("{:?}: {fresh} bytes", settings.mode);
        assert!(fresh < 48_000, "an association that is not used: {fresh} bytes, {settings:?}");
        assert_eq!(idle.poll_timeout(), None, "an idle association wants no time-out");
        // In use: 50 packets of 500 bytes a second both ways, with losses. What is kept for repairs is the buffer.
        let before = LIVE.get();
        let mut world = World::new(&settings);
        let wire =
            512 * (MAX_DATAGRAM + size_of::<(Instant, usize, Vec<u8>)>() + size_of::<Vec<u8>>()) + 65_535;
        for _ in 0..500 {
            world.stream(1, 500);
            (0..15).for_each(|_| world.millisecond());
        }
        let per_side = (LIVE.get() - before - wire as i64) / 2;
        let kept = match settings.mode {
            // 256 messages on the server's side, and some of the client's places, filled in turn.
            Mode::AsPublished => (256 + 60) * 500,
            // A second of packets, each with its header.
            Mode::Improved => 52 * 516,
        };
        println!("{:?} in use: {} bytes and {kept} of buffer", settings.mode, per_side - kept);
        assert!(per_side - kept < 64_000, "{per_side} bytes a side, {kept} of them buffer, {settings:?}");
    }
}

//! `dccp://` over losses, both ways, under an allocator that aborts when asked for memory after warm-up.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, Outcome, PathId, Rng};
use antiphon_proto::{OpenArgs, Role, open};
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const ONE_WAY: Duration = Duration::from_millis(5);

/// Two ends, and a wire of fixed size that loses.
struct Pair {
    ends: [Box<dyn Endpoint>; 2],
    wire: Vec<(Instant, usize, usize, [u8; 1500])>,
    rng: Rng,
    now: Instant,
    buf: Vec<u8>,
    delivered: u64,
    released: u64,
}

impl Pair {
    fn new(query: &str) -> Self {
        let query: Query = query.parse().expect("a query");
        let end = |role, seed| {
            let latency = Duration::from_millis(80);
            let now = Instant::ZERO;
            open("dccp", &OpenArgs { role, query: &query, seed, now, max_datagram: 1452, latency })
                .expect("opens")
        };
        Pair {
            ends: [end(Role::Caller, 1), end(Role::Listener, 2)],
            wire: Vec::with_capacity(1024),
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: vec![0; 65_536],
            delivered: 0,
            released: 0,
        }
    }

    /// A millisecond; both ends send a frame in every fifth.
    fn step(&mut self, n: u64) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        for at in (0..self.wire.len()).rev() {
            if self.wire[at].0 <= now {
                let (_, to, len, bytes) = self.wire.swap_remove(at);
                let (path, ecn) = (PathId::default(), Ecn::NotCapable);
                let input = Input::Datagram { path, bytes: &bytes[..len], ecn, received_at: now };
                self.ends[to].handle_input(now, input);
            }
        }
        for (i, end) in self.ends.iter_mut().enumerate() {
            if n.is_multiple_of(5) {
                let frame = Frame::new(&[0x80; 960], Some(now + Duration::from_millis(80)));
                end.send(now, frame).expect("room");
            }
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
            while let Some(transmit) = end.poll_transmit(now, &mut self.buf) {
                if self.rng.chance(0.99) {
                    let mut bytes = [0; 1500];
                    bytes[..transmit.len].copy_from_slice(&self.buf[..transmit.len]);
                    self.wire.push((now + ONE_WAY, 1 - i, transmit.len, bytes));
                }
            }
            while end.poll_frame(&mut self.buf).is_some() {
                self.delivered += 1;
            }
            while let Some(event) = end.poll_event() {
                self.released += u64::from(matches!(event, Event::Frame { outcome: Outcome::Released, .. }));
            }
        }
    }
}

#[test]
fn a_lossy_stream_allocates_nothing_once_it_flows() {
    for query in ["ccid=2", "ccid=3", "ccid=3&order=newest"] {
        let mut pair = Pair::new(query);
        (0..3_000).for_each(|n| pair.step(n));
        (pair.delivered, pair.released) = (0, 0);
        assert_no_alloc(|| (0..10_000).for_each(|n| pair.step(n)));
        // 2000 frames each way, of which the path loses one in a hundred.
        // Now and then CCID 2 has a window of one packet, and frames expire.
        assert!(pair.released >= 3_900, "{query}: {} of 4000 were sent", pair.released);
        assert!((3_800..3_990).contains(&pair.delivered), "{query}: {} arrived", pair.delivered);
    }
}

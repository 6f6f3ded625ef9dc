//! `arq://` in all its modes, over losses, under an allocator that aborts when asked for memory after warm-up.

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
    acked: u64,
}

impl Pair {
    fn new(query: &str) -> Self {
        let query: Query = query.parse().unwrap();
        let end = |role, seed| {
            let latency = Duration::from_millis(80);
            let now = Instant::ZERO;
            open("arq", &OpenArgs { role, query: &query, seed, now, max_datagram: 1452, latency }).unwrap()
        };
        Pair {
            ends: [end(Role::Caller, 1), end(Role::Listener, 2)],
            wire: Vec::with_capacity(1024),
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: vec![0; 65_536],
            delivered: 0,
            acked: 0,
        }
    }

    /// A millisecond; both ends send a frame in every fifth.
    fn step(&mut self, n: u64) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        for at in (0..self.wire.len()).rev() {
            if self.wire[at].0 <= now {
                let (_, to, len, bytes) = self.wire.swap_remove(at);
                let input = Input::Datagram {
                    path: PathId::default(),
                    bytes: &bytes[..len],
                    ecn: Ecn::NotCapable,
                    received_at: now,
                };
                self.ends[to].handle_input(now, input);
            }
        }
        for (i, end) in self.ends.iter_mut().enumerate() {
            if n.is_multiple_of(5) {
                let frame = Frame::new(&[0x80; 960], Some(now + Duration::from_millis(80)));
                end.send(now, frame).unwrap();
            }
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
            while let Some(transmit) = end.poll_transmit(now, &mut self.buf) {
                if self.rng.chance(0.9) {
                    let mut bytes = [0; 1500];
                    bytes[..transmit.len].copy_from_slice(&self.buf[..transmit.len]);
                    self.wire.push((now + ONE_WAY, 1 - i, transmit.len, bytes));
                }
            }
            while end.poll_frame(&mut self.buf).is_some() {
                self.delivered += 1;
            }
            while let Some(event) = end.poll_event() {
                self.acked += u64::from(matches!(event, Event::Frame { outcome: Outcome::Acked, .. }));
            }
        }
    }
}

#[test]
fn a_lossy_stream_allocates_nothing_once_it_flows() {
    for query in ["", "congestion=aimd", "mode=as-published", "mode=as-published&tick=1ms&pace=4ms"] {
        let mut pair = Pair::new(query);
        (0..2_000).for_each(|n| pair.step(n));
        assert_no_alloc(|| (0..10_000).for_each(|n| pair.step(n)));
        // 2 400 frames each way; with 10 % lost to and fro, all but a few are repaired.
        assert!(pair.delivered >= 4_700 && pair.acked >= 4_700, "{query}: {} {}", pair.delivered, pair.acked);
        assert!(pair.ends[0].path_stats().counters.retransmitted > 100, "{query}");
    }
}

//! Every transport that repairs or paces, in all its modes, over losses both ways, under an allocator that aborts when
//! asked for memory after warm-up.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, Outcome, PathId, Rng, StreamId};
use antiphon_proto::{OpenArgs, Role, open};
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

/// What a mode of a transport must bring about in 10 s, of 4000 frames both ways.
struct Case {
    scheme: &'static str,
    query: &'static str,
    /// Share of packets that the path loses.
    loss: f64,
    /// Frames that arrive at least, and at most.
    arrive: (u64, u64),
    /// Frames told as sent or acknowledged at least.
    told: u64,
    /// Packets that one end sends again at least.
    repaired: u64,
}

const CASES: &[Case] = &[
    // With 10 % lost to and fro, all but a few are repaired within 80 ms. As published, what was acknowledged in vain
    // arrives twice.
    case("arq", "", 0.1, (3_900, 4_100), 3_900, 100),
    case("arq", "congestion=aimd", 0.1, (3_900, 4_100), 3_900, 100),
    case("arq", "mode=as-published", 0.1, (3_900, 4_600), 3_900, 100),
    case("arq", "mode=as-published&tick=1ms&pace=4ms", 0.1, (3_900, 4_600), 3_900, 100),
    // Of the frames the path loses one in a hundred. Now and then CCID 2 has a window of one packet, and frames expire.
    case("dccp", "ccid=2", 0.01, (3_800, 3_990), 3_900, 0),
    case("dccp", "ccid=3", 0.01, (3_800, 3_990), 3_900, 0),
    case("dccp", "ccid=3&order=newest", 0.01, (3_800, 3_990), 3_900, 0),
    case("sctp", "", 0.1, (3_900, 4_000), 3_850, 100),
    case("sctp", "order=ordered&reliability=full", 0.02, (3_980, 4_000), 3_980, 20),
    case("sctp", "retransmissions=0", 0.02, (3_850, 3_980), 3_800, 0),
    case("sctp", "streams=2&interleaving=on&order=ordered", 0.05, (3_900, 4_000), 3_900, 50),
    case("sctp", "style=many&ack-delay=0ms", 0.05, (3_950, 4_000), 3_900, 50),
];

const fn case(
    scheme: &'static str,
    query: &'static str,
    loss: f64,
    arrive: (u64, u64),
    told: u64,
    repaired: u64,
) -> Case {
    Case { scheme, query, loss, arrive, told, repaired }
}

const ONE_WAY: Duration = Duration::from_millis(5);

/// Two ends, and a wire of fixed size that loses.
struct Pair {
    ends: [Box<dyn Endpoint>; 2],
    wire: Vec<(Instant, usize, usize, [u8; 1500])>,
    loss: f64,
    rng: Rng,
    now: Instant,
    buf: Vec<u8>,
    delivered: u64,
    told: u64,
}

impl Pair {
    fn new(case: &Case) -> Self {
        let query: Query = case.query.parse().expect("a query");
        let end = |role, seed| {
            let latency = Duration::from_millis(80);
            let now = Instant::ZERO;
            open(case.scheme, &OpenArgs { role, query: &query, seed, now, max_datagram: 1452, latency })
                .expect("opens")
        };
        let ends = [end(Role::Caller, 1), end(Role::Listener, 2)];
        let most = ends.iter().map(|end| end.profile().max_receive).max().unwrap_or(0);
        Pair {
            ends,
            wire: Vec::with_capacity(1024),
            loss: case.loss,
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: vec![0; most.max(65_536)],
            delivered: 0,
            told: 0,
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
                let frame = Frame { stream: StreamId((n / 5 % 2) as u16), ..frame };
                end.send(now, frame).expect("room");
            }
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
            while let Some(transmit) = end.poll_transmit(now, &mut self.buf) {
                if self.rng.chance(1.0 - self.loss) {
                    let mut bytes = [0; 1500];
                    bytes[..transmit.len].copy_from_slice(&self.buf[..transmit.len]);
                    self.wire.push((now + ONE_WAY, 1 - i, transmit.len, bytes));
                }
            }
            while end.poll_frame(&mut self.buf).is_some() {
                self.delivered += 1;
            }
            while let Some(event) = end.poll_event() {
                let told = matches!(event, Event::Frame { outcome: Outcome::Acked | Outcome::Released, .. });
                self.told += u64::from(told);
            }
        }
    }
}

#[test]
fn a_lossy_stream_allocates_nothing_once_it_flows() {
    for case in CASES {
        let name = format!("{}?{}", case.scheme, case.query);
        let mut pair = Pair::new(case);
        (0..3_000).for_each(|n| pair.step(n));
        (pair.delivered, pair.told) = (0, 0);
        assert_no_alloc(|| (0..10_000).for_each(|n| pair.step(n)));
        let repaired = pair.ends[0].path_stats().counters.retransmitted;
        println!("{name}: {} arrived, {} told, {repaired} repaired", pair.delivered, pair.told);
        // A frame or two of the warm-up are still on their way.
        assert!((case.arrive.0..=case.arrive.1 + 16).contains(&pair.delivered), "{name}: {}", pair.delivered);
        assert!(pair.told >= case.told && repaired >= case.repaired, "{name}: {} {repaired}", pair.told);
    }
}

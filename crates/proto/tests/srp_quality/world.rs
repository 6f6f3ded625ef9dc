//! One stream over a modelled link, from the first message to the last repair, and what came of it.

use std::time::Duration;

use antiphon_core::{Endpoint, Frame, Instant};
use antiphon_link::{Direction, Duplex, DuplexSpec};
use antiphon_measure::{DesiredQuality, interval_deviation_ms, mean_absolute_deviation};
use antiphon_proto::Role;
use antiphon_proto::srp::{Decision, Mode, Settings, SrpEndpoint};

use crate::srp_ends::Ends;

pub const MESSAGES: u32 = 2000;
pub const MESSAGE_BYTES: usize = 1280;
pub const INTERVAL: Duration = Duration::from_millis(160);
const DESIRED: DesiredQuality = DesiredQuality::SRP_REPORT;

/// One of the report's network conditions.
pub struct Condition {
    pub name: &'static str,
    pub round_trip: Duration,
    /// Both ways, as `antiphon link` writes it.
    pub link: &'static str,
}

/// Loss and round trip as in the report's table of test parameters. Its UDP figures lie 1.5 to 14 ms above half a round
/// trip, so its routers' queues varied little: 2 ms of the way, on average, are jitter here.
pub const CONDITIONS: [Condition; 3] = [
    Condition {
        name: "low/low",
        round_trip: Duration::from_millis(50),
        link: "loss=3%,delay=23ms,jitter=2ms/exponential",
    },
    Condition {
        name: "low/high",
        round_trip: Duration::from_millis(400),
        link: "loss=3%,delay=198ms,jitter=2ms/exponential",
    },
    Condition {
        name: "high/high",
        round_trip: Duration::from_millis(275),
        link: "loss=15%,delay=135500us,jitter=2ms/exponential",
    },
];

/// The same round trips with ten times the jitter: queues that come and go.
pub const RESTLESS: [Condition; 3] = [
    Condition {
        name: "low/low",
        round_trip: Duration::from_millis(50),
        link: "loss=3%,delay=5ms,jitter=20ms/exponential",
    },
    Condition {
        name: "low/high",
        round_trip: Duration::from_millis(400),
        link: "loss=3%,delay=180ms,jitter=20ms/exponential",
    },
    Condition {
        name: "high/high",
        round_trip: Duration::from_millis(275),
        link: "loss=15%,delay=117500us,jitter=20ms/exponential",
    },
];

#[derive(Clone, Copy)]
pub struct Contestant {
    pub name: &'static str,
    pub mode: Mode,
    pub decide: Decision,
}

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub loss_ratio: f64,
    pub latency_ratio: f64,
    pub distance: f64,
    /// Mean true age of delivered messages, which the report could not measure.
    pub age_ms: f64,
    /// Distance with that age in place of the report's latency.
    pub distance_by_age: f64,
    /// Distance with the mean distance of ages from their mean in place of that of intervals: the other way to read the
    /// report's "mean distance of the arrivals from their mean".
    pub distance_by_spread: f64,
    pub wire_bytes_per_message: f64,
}

struct Run {
    ends: Ends,
    /// Number and time of each delivery.
    delivered: Vec<(u32, Instant)>,
    wire_bytes: usize,
    buf: Vec<u8>,
}

pub fn run(condition: &Condition, contestant: Contestant, seed: u64) -> Outcome {
    let mut run = Run::new(condition, contestant, seed);
    let start = Instant::from_millis(10);
    for n in 0..MESSAGES {
        run.until(start + INTERVAL * n);
        let mut message = [0x5a; MESSAGE_BYTES];
        message[..4].copy_from_slice(&n.to_be_bytes());
        run.ends.server.send(run.ends.now, Frame::new(&message, None)).expect("an idle queue accepts");
    }
    run.until(run.ends.now + Duration::from_secs(10));
    assert!(run.ends.link.up.counters().lost > 0 && run.ends.link.up.counters().balances());
    run.outcome(condition, start)
}

impl Run {
    fn new(condition: &Condition, contestant: Contestant, seed: u64) -> Self {
        let spec: DuplexSpec = condition.link.parse().expect("a link");
        let settings = Settings {
            decide: contestant.decide,
            desired_loss: DESIRED.loss_percent / 100.0,
            ..Settings::new(contestant.mode, Duration::from_secs_f64(DESIRED.latency_ms / 1e3))
        };
        let open = |role| SrpEndpoint::new(&settings, role, 1472, seed, Instant::ZERO);
        Run {
            ends: Ends {
                now: Instant::ZERO,
                server: open(Role::Caller),
                client: open(Role::Listener),
                link: Duplex::new(&spec, seed).expect("a link"),
                down: Direction::Up,
            },
            delivered: Vec::with_capacity(MESSAGES as usize),
            wire_bytes: 0,
            buf: vec![0; 65_535],
        }
    }

    /// Moves to `until`, event by event.
    fn until(&mut self, until: Instant) {
        self.settle();
        while self.ends.step(until) {
            self.settle();
        }
        self.ends.now = self.ends.now.max(until);
        self.settle();
    }

    fn settle(&mut self) {
        let buf = &mut self.buf;
        while let Some(received) = self.ends.client.poll_frame(buf) {
            assert_eq!(received.len, MESSAGE_BYTES);
            self.delivered.push((u32::from_be_bytes([buf[0], buf[1], buf[2], buf[3]]), self.ends.now));
        }
        for (side, direction) in
            [(&mut self.ends.server, Direction::Up), (&mut self.ends.client, Direction::Down)]
        {
            while let Some(sent) = side.poll_transmit(self.ends.now, buf) {
                self.wire_bytes += sent.len;
                self.ends.link.offer(self.ends.now, direction, buf[..sent.len].to_vec());
            }
            while side.poll_event().is_some() {}
        }
    }

    fn outcome(mut self, condition: &Condition, start: Instant) -> Outcome {
        let millis = |d: Duration| d.as_secs_f64() * 1e3;
        let mut ids: Vec<u32> = self.delivered.iter().map(|(n, _)| *n).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), self.delivered.len(), "nothing is delivered twice");
        let arrivals: Vec<Instant> = self.delivered.iter().map(|(_, at)| *at).collect();
        let by_intervals = interval_deviation_ms(&arrivals).expect("two deliveries");
        let lost_percent = 100.0 * (1.0 - ids.len() as f64 / f64::from(MESSAGES));
        let ages: Vec<f64> =
            self.delivered.drain(..).map(|(n, at)| millis(at.since(start + INTERVAL * n))).collect();
        let age_ms = ages.iter().sum::<f64>() / ages.len() as f64;
        let by_ages = mean_absolute_deviation(&ages).expect("deliveries");
        let round_trip = millis(condition.round_trip);
        let reported = DESIRED.ratios(lost_percent, round_trip, by_intervals);
        Outcome {
            loss_ratio: reported.loss,
            latency_ratio: reported.latency,
            distance: reported.distance(),
            age_ms,
            distance_by_age: reported.loss.hypot(age_ms / DESIRED.latency_ms),
            distance_by_spread: DESIRED.ratios(lost_percent, round_trip, by_ages).distance(),
            wire_bytes_per_message: self.wire_bytes as f64 / f64::from(MESSAGES),
        }
    }
}

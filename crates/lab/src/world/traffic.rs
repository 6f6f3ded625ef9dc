//! Traffic that competes with the streams.

use std::time::Duration;

use antiphon_core::{Instant, Rng, soonest};
use antiphon_measure::percent;

use super::meter::Delays;
use super::network::{Arrival, Network};
use super::packet::{Body, PING_HEADERS, Parcel, UDP_HEADERS};
use super::socket::WIRE;
use super::stream_end::StreamEnd;
use crate::figures::StreamFigures;
use crate::setup::{TrafficKind, TrafficSpec};
use crate::tcp::{Profile, Tcp};

/// Counters of a generator of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrafficCounters {
    /// Packets sent; echo requests of a ping; segments of a TCP's sender.
    pub sent: u64,
    /// Packets that arrived; echoes that came back; segments at a TCP's receiver.
    pub received: u64,
    /// Payload that arrived, in bytes.
    pub received_bytes: u64,
}

/// One generator with both of its ends.
pub struct Traffic {
    flow: u32,
    end: Instant,
    kind: Kind,
    counters: TrafficCounters,
}

enum Kind {
    Udp(Udp),
    Blaster { len: u32, limit: usize, next: Option<Instant>, started: bool },
    Ping(Ping),
    Tcp(Box<Greedy>),
}

/// UDP packets at times that a law defines.
pub struct Udp {
    law: Law,
    len: u32,
    first: Instant,
    next: Option<Instant>,
    /// Number of steps of the law so far.
    number: u64,
    /// Interval between steps, where they are regular: in ns, and its fraction.
    since: u64,
    over: u64,
    rng: Rng,
}

#[derive(Clone, Copy)]
enum Law {
    /// Each step this many nanoseconds, and this fraction of one, after the one before.
    Regular { nanos: u64, share: u64, of: u64 },
    /// Exponential steps of this mean.
    Poisson { mean: f64 },
    /// Several at once at each step.
    Bursts { packets: u32, period: Duration, jitter: f64 },
}

struct Ping {
    interval: Duration,
    len: u32,
    count: u32,
    start: Instant,
    round_trips: Vec<u64>,
}

struct Greedy {
    near: StreamEnd,
    far: StreamEnd,
    start: Instant,
    buf: Vec<u8>,
}

impl Traffic {
    /// The traffic of `spec` as flow number `flow`, until `end`; `queue` is the limit of its first medium's queue.
    pub fn new(spec: &TrafficSpec, flow: u32, end: Instant, queue: usize, seed: u64) -> Self {
        let start = Instant::ZERO + spec.start;
        let udp = |payload: usize| (payload + UDP_HEADERS) as u32;
        let kind = match &spec.kind {
            TrafficKind::Constant { .. } | TrafficKind::Poisson { .. } | TrafficKind::Bursts { .. } => {
                Kind::Udp(Udp::of(spec, start, seed))
            }
            TrafficKind::Blaster { payload } => {
                Kind::Blaster { len: udp(*payload), limit: queue, next: Some(start), started: false }
            }
            TrafficKind::Ping { interval, payload, count } => Kind::Ping(Ping {
                interval: *interval,
                len: (payload + PING_HEADERS) as u32,
                count: *count,
                start,
                round_trips: Vec::with_capacity(*count as usize),
            }),
            TrafficKind::GreedyTcp { profile } => Kind::Tcp(Box::new(Greedy::new(*profile, flow, start))),
        };
        Traffic { flow, end, kind, counters: TrafficCounters::default() }
    }

    /// When to pump next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Udp(udp) => udp.next,
            Kind::Blaster { next, .. } => *next,
            Kind::Ping(ping) => ping.next(self.counters.sent),
            Kind::Tcp(greedy) => greedy.poll_timeout(),
        }
        .filter(|at| *at < self.end || matches!(self.kind, Kind::Tcp(_)))
    }

    /// Sends what is due.
    pub fn pump(&mut self, now: Instant, net: &mut Network) {
        let sent = &mut self.counters.sent;
        let mut send = |net: &mut Network, len: u32| {
            *sent += 1;
            net.send(now, Parcel::new(len as usize, self.flow, 0, Body::Filler(now)));
        };
        match &mut self.kind {
            Kind::Udp(udp) => {
                while udp.next.is_some_and(|at| at <= now && at < self.end) {
                    for _ in 0..udp.step() {
                        send(net, udp.len);
                    }
                }
            }
            Kind::Blaster { len, limit, next, started } => {
                (*next, *started) = (None, true);
                if now >= self.end {
                    return;
                }
                // Bounded, in case a medium reports room and then refuses.
                for _ in 0..MOST_AT_ONCE {
                    if !net.has_room(now, self.flow as usize, *len as usize, *limit) {
                        break;
                    }
                    send(net, *len);
                }
                *next = Some(net.host_free_at(self.flow as usize)).filter(|at| *at > now);
            }
            Kind::Ping(ping) => {
                while ping.next(*sent).is_some_and(|at| at <= now && at < self.end) {
                    *sent += 1;
                    net.send(now, Parcel::new(ping.len as usize, self.flow, 0, Body::Filler(now)));
                }
            }
            Kind::Tcp(greedy) => greedy.pump(now, self.end, net, &mut self.counters),
        }
    }

    /// A packet has arrived at one of its ends.
    pub fn on_arrival(&mut self, arrival: Arrival, net: &mut Network) {
        let (now, parcel) = (arrival.at, arrival.parcel);
        match (&mut self.kind, parcel.body) {
            (_, Body::Filler(_)) if parcel.damaged => {}
            (Kind::Ping(ping), Body::Filler(sent)) => {
                if arrival.receiver.is_some() {
                    net.send(now, Parcel::new(parcel.len as usize, self.flow, 1, Body::Filler(sent)));
                } else {
                    self.counters.received += 1;
                    self.counters.received_bytes += u64::from(parcel.len) - PING_HEADERS as u64;
                    ping.round_trips.push(now.since(sent).as_nanos() as u64);
                }
            }
            (_, Body::Filler(_)) => {
                self.counters.received += 1;
                self.counters.received_bytes += u64::from(parcel.len) - UDP_HEADERS as u64;
            }
            (Kind::Tcp(greedy), Body::Segment(segment)) => {
                let end = if arrival.receiver.is_some() { &mut greedy.far } else { &mut greedy.near };
                end.on_segment(now, segment, net);
                greedy.pump(now, self.end, net, &mut self.counters);
            }
            _ => {}
        }
    }

    /// A packet to a group holds its sender up: what it sends from now on comes so much later.
    pub fn hold_up(&mut self, by: Duration) {
        if let Kind::Udp(udp) = &mut self.kind {
            udp.first += by;
            udp.next = udp.next.map(|next| next + by);
        }
    }

    /// Whether arrivals change what it does next.
    pub fn depends_on_arrivals(&self) -> bool {
        matches!(self.kind, Kind::Tcp(_))
    }

    /// Whether it has begun to send, and not ended.
    pub fn is_started(&self, now: Instant) -> bool {
        match &self.kind {
            Kind::Blaster { started, .. } => *started && now < self.end,
            _ => now < self.end,
        }
    }

    /// Whether its queue must be kept full.
    pub fn is_blaster(&self) -> bool {
        matches!(self.kind, Kind::Blaster { .. })
    }

    /// Its counters.
    pub fn counters(&self) -> TrafficCounters {
        self.counters
    }

    /// Figures of a ping.
    pub fn figures(&self) -> Option<StreamFigures> {
        let Kind::Ping(ping) = &self.kind else { return None };
        Some(echo_figures(self.counters.sent, &ping.round_trips))
    }
}

/// The figures of a ping: how many requests were sent, and the round trips, in nanoseconds, of those that came back.
pub fn echo_figures(sent: u64, round_trips: &[u64]) -> StreamFigures {
    let (trips, came) = (Delays::new(round_trips), (round_trips.len() as u64).min(sent));
    let lost_percent = percent(sent - came, sent);
    StreamFigures {
        sent: Some(sent as f64),
        received: Some(came as f64),
        missing_percent: lost_percent,
        lost_percent,
        rtt_mean_ms: trips.mean(),
        rtt_p50_ms: trips.quantile(0.5),
        rtt_p99_ms: trips.quantile(0.99),
        rtt_max_ms: trips.quantile(1.0),
        jitter_sd_ms: trips.deviation(),
        jitter_mad_ms: trips.mean_deviation(),
        ..StreamFigures::default()
    }
}

impl Udp {
    /// The times of a regular kind of traffic from `start` on; other kinds are silent.
    pub fn of(spec: &TrafficSpec, start: Instant, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, &format!("traffic {}", spec.name));
        let len = |payload: usize| (payload + UDP_HEADERS) as u32;
        // A number of its own, so that the others stay what they are without it.
        let mut off = Rng::fork(seed, &format!("clock of {}", spec.name));
        let speed = 1.0 + spec.clock.0 * 1e-6 * (2.0 * off.unit() - 1.0);
        match spec.kind {
            TrafficKind::Constant { rate, payload } => {
                let law = Law::regular(payload as u64 * 8, rate.0, speed);
                let phase = Udp::period(law).mul_f64(rng.unit());
                Udp::new(law, len(payload), (rate.0 > 0).then(|| start + phase), rng)
            }
            TrafficKind::Poisson { rate, payload } => {
                let mean = payload as f64 * 8.0 / rate.0 as f64;
                let first = (rate.0 > 0).then(|| start + Duration::from_secs_f64(mean * rng.exponential()));
                Udp::new(Law::Poisson { mean }, len(payload), first, rng)
            }
            TrafficKind::Bursts { packets, period, jitter, payload } => {
                let period = period.div_f64(speed);
                let law = Law::Bursts { packets, period, jitter: jitter.0 };
                let phase = period.mul_f64(rng.unit());
                Udp::new(law, len(payload), Some(start + phase), rng)
            }
            _ => Udp::new(Law::Bursts { packets: 0, period: Duration::ZERO, jitter: 0.0 }, 0, None, rng),
        }
    }

    /// Packets of `payload` so that they fill `rate` on a medium that counts their headers.
    pub fn filling(rate: u64, payload: usize, start: Instant, seed: u64) -> Self {
        let len = (payload + UDP_HEADERS) as u32;
        let law = Law::regular(u64::from(len) * 8, rate, 1.0);
        Udp::new(law, len, Some(start), Rng::fork(seed, "filling"))
    }

    /// When the next step is due.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    fn new(law: Law, len: u32, first: Option<Instant>, rng: Rng) -> Self {
        Udp { law, len, first: first.unwrap_or_default(), next: first, number: 0, since: 0, over: 0, rng }
    }

    /// From one step of the law to the next, on average.
    fn period(law: Law) -> Duration {
        match law {
            Law::Regular { nanos, .. } => Duration::from_nanos(nanos),
            Law::Poisson { mean } => Duration::from_secs_f64(mean),
            Law::Bursts { period, .. } => period,
        }
    }

    /// One step of the law is done: returns the packets to send now. The fraction of regular steps is kept, so that
    /// rounding errors do not add up.
    pub fn step(&mut self) -> u32 {
        self.number += 1;
        let at = |since: u64| Some(self.first + Duration::from_nanos(since));
        match self.law {
            Law::Regular { nanos, share, of } => {
                self.over += share;
                // Each addition is less than a whole one.
                let whole = u64::from(self.over >= of);
                self.over -= whole * of;
                self.since = self.since.saturating_add(nanos + whole);
                self.next = at(self.since);
                1
            }
            Law::Poisson { mean } => {
                let gap = Duration::from_secs_f64(mean * self.rng.exponential());
                self.next = self.next.map(|next| next + gap);
                1
            }
            Law::Bursts { packets, period, jitter } if jitter > 0.0 => {
                let factor = 1.0 + jitter * (2.0 * self.rng.unit() - 1.0);
                self.next = self.next.map(|next| next + period.mul_f64(factor));
                packets
            }
            Law::Bursts { packets, period, .. } => {
                self.next =
                    at(u64::try_from(period.as_nanos() * u128::from(self.number)).unwrap_or(u64::MAX));
                packets
            }
        }
    }
}

impl Law {
    /// A step for each `bits` of payload at `rate` bits a second.
    fn regular(bits: u64, rate: u64, speed: f64) -> Self {
        // Thousandths of a bit, so that a low rate can be off by little.
        let rate = if speed == 1.0 { rate.saturating_mul(1000) } else { (rate as f64 * 1e3 * speed) as u64 };
        let (nanos, rate) = (bits * 1_000_000_000_000, rate.max(1));
        Law::Regular { nanos: nanos / rate, share: nanos % rate, of: rate }
    }
}

impl Ping {
    fn next(&self, sent: u64) -> Option<Instant> {
        let count = u32::try_from(sent).ok().filter(|sent| *sent < self.count)?;
        Some(self.start + self.interval.saturating_mul(count))
    }
}

impl Greedy {
    fn new(profile: Profile, flow: u32, start: Instant) -> Self {
        Greedy {
            near: StreamEnd::new(Tcp::connect(profile), WIRE, flow, 0),
            far: StreamEnd::new(Tcp::accept(profile), WIRE, flow, 1),
            start,
            buf: vec![0; 16_384],
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // The SYN is sent without waiting for a time-out.
        let open = self.near.tcp.stats().segments_sent == 0;
        soonest([self.near.tcp.poll_timeout(), self.far.tcp.poll_timeout(), open.then_some(self.start)])
    }

    fn pump(&mut self, now: Instant, end: Instant, net: &mut Network, counters: &mut TrafficCounters) {
        self.near.tick(now);
        self.far.tick(now);
        if now < end {
            while self.near.tcp.write(now, &self.buf) > 0 {}
        }
        self.near.transmit(now, net);
        while self.far.tcp.readable() > 0 {
            counters.received_bytes += self.far.tcp.read(now, &mut self.buf) as u64;
        }
        self.far.transmit(now, net);
        counters.sent = self.near.tcp.stats().segments_sent;
        counters.received = self.far.tcp.stats().segments_received;
    }
}

/// As many packets as the link models' queues hold.
const MOST_AT_ONCE: usize = 32_768;

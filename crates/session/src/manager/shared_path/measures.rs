//! What is measured of a path: its round trip, and what arrives.

use std::time::Duration;

use antiphon_core::Instant;

use crate::manager::{SPAN, SPANS};

/// The shortest round trip, and the one that packets have now.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrip {
    /// The shortest of each of the last spans of time, the newest first.
    shortest: [Option<Duration>; SPANS],
    began: Instant,
    /// The shortest of each of the last moments.
    now: [Option<Duration>; MOMENTS],
    moment: Instant,
}

/// Bytes that arrive in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    since: Instant,
    bytes: u64,
    /// What had been sent by then.
    sent: u64,
    pub rate: Option<f64>,
    /// Less than half of what was sent meanwhile has arrived.
    pub is_little: bool,
}

/// Bytes a second, over all of the time.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::manager) struct MeanRate {
    since: Option<Instant>,
    bytes: u64,
}

/// What a report tells.
#[derive(Default)]
pub(super) struct Reported {
    /// Bytes that arrived.
    pub arrived: u64,
    /// Packets that arrived, and those that were lost.
    pub packets: (u32, u32),
    /// The longest round trip, and the longest time between a packet and what tells of it.
    pub longest: Duration,
    pub answer: Option<Duration>,
    /// It can't be true.
    pub contradicts: bool,
}

impl MeanRate {
    pub fn note(&mut self, now: Instant, bytes: usize) {
        self.since.get_or_insert(now);
        self.bytes += bytes as u64;
    }

    /// Nothing before a moment has passed.
    pub fn rate(&self, now: Instant) -> f64 {
        let time = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if time < SHORTEST_MOMENT { 0.0 } else { self.bytes as f64 / time.as_secs_f64() }
    }
}

impl RoundTrip {
    pub fn note(&mut self, now: Instant, time: Duration, answer: Option<Duration>) {
        if now.since(self.began) >= SPAN {
            self.shortest.copy_within(..SPANS - 1, 1);
            (self.shortest[0], self.began) = (None, now);
        }
        // In all half of an answer's time (Copa, §2.1).
        let moment = answer.unwrap_or(time).max(SHORTEST_MOMENT) / (2 * (MOMENTS as u32 - 1));
        if now.since(self.moment) >= moment {
            self.now.copy_within(..MOMENTS - 1, 1);
            (self.now[0], self.moment) = (None, now);
        }
        for least in [&mut self.shortest[0], &mut self.now[0]] {
            *least = Some(least.map_or(time, |least| least.min(time)));
        }
    }

    pub fn shortest(&self) -> Option<Duration> {
        self.shortest.iter().flatten().min().copied()
    }

    /// The shortest one, and that of now.
    pub fn get(&self) -> Option<(Duration, Duration)> {
        self.shortest().zip(self.now.iter().flatten().min().copied())
    }
}

impl Delivered {
    /// So many bytes have arrived, of all those that were `sent`.
    pub fn note(&mut self, now: Instant, bytes: u64, sent: u64) {
        self.bytes += bytes;
        let time = now.since(self.since);
        if time >= RATE_OVER {
            let is_measured = self.since > Instant::ZERO;
            self.rate = is_measured.then(|| self.bytes as f64 / time.as_secs_f64());
            self.is_little = is_measured && 2 * self.bytes < sent - self.sent;
            (self.since, self.bytes, self.sent) = (now, 0, sent);
        }
    }
}

/// Parts of the time in which the least wait counts, and the shortest such time: some reports lie in it.
const MOMENTS: usize = 3;
const SHORTEST_MOMENT: Duration = Duration::from_millis(40);
/// Over which the rate of arrivals is counted.
const RATE_OVER: Duration = Duration::from_secs(1);

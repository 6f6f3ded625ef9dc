//! The sender's sampling clock against ours: when its sound is expected, and how much faster the clock runs.
//!
//! Both are derived from the transit time of packets, arrival less media time; its smallest values are free of
//! queueing. A difference of sampling clocks makes them rise or fall steadily; a change of route makes them jump.

mod estimator;
mod slip;

use std::time::Duration;

use antiphon_core::{Instant, Ppm};

pub use estimator::DriftEstimator;
use estimator::STEP_CONFIRM;
use slip::Slip;

/// Maps media time to the instant at which a packet without queueing delay would arrive.
///
/// Follows the smallest transit time of the last few seconds, upwards never faster than [`MAX_SLEW_PPM`], so that a
/// queue does not raise the schedule. It never lies below the smallest transit time seen.
///
/// Downwards there is no need to be slow: a smaller transit time is the path's own, free of queueing. The first packets
/// are the most likely to be delayed (neighbour discovery, power save, what queued during a handshake), so at first the
/// schedule follows the smallest transit time at once ([`Descent`]).
///
/// A stream all of whose packets are early for a while has a shorter path now, or a sender that catches up with what it had missed. Then the
/// schedule comes down at once, too: it is a step, and no drift.
#[derive(Clone, Debug)]
pub struct MediaClock {
    rate: u32,
    descent: Descent,
    origin: Option<u64>,
    /// When the stream's first packet came.
    began: Option<Instant>,
    /// When it last began again, in the same stream.
    again: Option<Instant>,
    /// Our clock's time at media time `origin`, in nanoseconds.
    base: i64,
    last: Instant,
    /// It is told where the schedule stands, and does not follow arrivals.
    told: bool,
    minima: Minima,
    early: Early,
    /// The schedule came down at once in the current window of `minima`.
    stepped: bool,
    slip: Option<Slip>,
    estimator: DriftEstimator,
}

/// Packets in a row that came well before the schedule.
#[derive(Clone, Copy, Debug, Default)]
struct Early {
    since: Option<Instant>,
    packets: u32,
    /// The smallest transit time of them.
    least: i64,
}

/// How a schedule comes down to a smaller transit time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Descent {
    /// For this long after the first packet: at once.
    pub at_once: Duration,
    /// After that: no faster than this, in millionths.
    pub slew_ppm: f64,
}

impl Default for Descent {
    /// At once for three seconds, and then [`DESCENT_PPM`].
    fn default() -> Self {
        Descent { at_once: SETTLES, slew_ppm: DESCENT_PPM }
    }
}

impl MediaClock {
    /// For a stream of `rate` sample frames per second.
    pub fn new(rate: u32) -> Self {
        Self::descending(rate, Descent::default())
    }

    /// The same with another [`Descent`].
    pub fn descending(rate: u32, descent: Descent) -> Self {
        MediaClock {
            rate: rate.max(1),
            descent,
            origin: None,
            began: None,
            again: None,
            base: 0,
            last: Instant::ZERO,
            told: false,
            minima: Minima::default(),
            early: Early::default(),
            stepped: false,
            slip: None,
            estimator: DriftEstimator::new(),
        }
    }

    /// A packet whose first sample frame is `media` arrived. Returns by how much the schedule came down at once, if it did.
    pub fn on_arrival(&mut self, now: Instant, media: u64) -> Option<Duration> {
        let Some(origin) = self.origin else {
            self.origin = Some(media);
            self.base = now.as_nanos() as i64;
            self.again = self.began.is_some().then_some(now);
            self.began.get_or_insert(now);
            self.last = now;
            self.minima.add(now, self.base);
            return None;
        };
        let transit = (now.as_nanos() as i64).saturating_sub(self.span(origin, media));
        if let Some(minimum) = self.minima.add(now, transit)
            && !std::mem::take(&mut self.stepped)
        {
            self.estimator.on_minimum(now, minimum);
        }
        if self.told {
            return None;
        }
        self.follow_slip(now, transit);
        let slew = |ppm: f64| (now.since(self.last).as_nanos() as f64 * ppm / 1e6) as i64;
        let off = self.minima.smallest().saturating_sub(self.base);
        let is_new = self.again.is_some_and(|again| now.since(again) < SETTLES);
        let step = if is_new { FIRST_STEP } else { STEP };
        let is_early = transit < self.base.saturating_sub(step.as_nanos() as i64);
        self.base = self.base.saturating_add(match self.is_settling(now) {
            true => off.min(slew(MAX_SLEW_PPM)),
            // What may become a step is not taken back by and by as well.
            false if is_early => 0,
            false => off.clamp(-slew(self.descent.slew_ppm), slew(MAX_SLEW_PPM)),
        });
        self.last = now;
        if !is_early || self.is_settling(now) {
            self.early = Early::default();
            return None;
        }
        self.early.packets = self.early.packets.saturating_add(1);
        self.early.least = if self.early.since.is_some() { self.early.least.min(transit) } else { transit };
        let since = *self.early.since.get_or_insert(now);
        let is_step = self.early.packets >= STEP_CONFIRM as u32 && now.since(since) >= EARLY_FOR;
        if is_step { self.come_down() } else { None }
    }

    /// The schedule comes down at once to the packets that have been early lately, however few they are: there is no room for
    /// more of them. Returns by how much; `None` if the last packet was not early.
    pub fn come_down(&mut self) -> Option<Duration> {
        let Early { since, least, .. } = std::mem::take(&mut self.early);
        since?;
        let step = self.base.saturating_sub(least);
        self.base = least;
        self.stepped = true;
        self.estimator.on_step(step);
        Some(Duration::from_nanos(step.unsigned_abs()))
    }

    /// The schedule goes up by so many nanoseconds: the sound waited for a packet.
    pub fn go_up(&mut self, nanos: i64) {
        if !self.told {
            self.base = self.base.saturating_add(nanos);
        }
    }

    /// From now on `media` is expected at `at`, in nanoseconds of our clock, whatever arrives: somebody else knows the sender's
    /// clock. Nothing before the first packet.
    pub fn tell(&mut self, media: u64, at: i64) {
        if let Some(origin) = self.origin {
            self.base = at.saturating_sub(self.span(origin, media));
            self.told = true;
            self.early = Early::default();
        }
    }

    /// Whether the schedule is told and follows no arrivals.
    pub fn is_told(&self) -> bool {
        self.told
    }

    /// The schedule follows arrivals again.
    pub fn follow_arrivals(&mut self) {
        self.told = false;
    }

    /// Whether the stream is so new that the schedule comes down at once.
    pub fn is_settling(&self, now: Instant) -> bool {
        self.began.is_some_and(|began| now.since(began) < self.descent.at_once)
    }

    /// When `media` is expected; `None` before the first packet.
    pub fn instant(&self, media: u64) -> Option<Instant> {
        let nanos = self.base.saturating_add(self.span(self.origin?, media));
        Some(Instant::from_nanos(nanos.max(0) as u64))
    }

    /// Where the schedule stands: when the first media time is expected, in nanoseconds of our clock, however it was found. Its
    /// differences are those of the delay that the schedule assumes. `None` before the first packet.
    pub fn offset(&self) -> Option<i64> {
        self.origin.map(|_| self.base)
    }

    /// The media time expected at `now`, in sample frames; may lie before the first one.
    pub fn media_at(&self, now: Instant) -> Option<f64> {
        let nanos = (now.as_nanos() as i64).saturating_sub(self.base) as f64;
        Some(self.origin? as f64 + nanos * f64::from(self.rate) / 1e9)
    }

    /// When `media` is to come without queueing, in nanoseconds of our clock, by the smallest transit times of the last minute. Clocks that differ make these a
    /// line, on which a schedule that follows the smallest ones of a few seconds lags behind. `None` while too little is known.
    pub fn expected(&self, now: Instant, media: u64) -> Option<i64> {
        Some(self.estimator.expected(now)?.saturating_add(self.span(self.origin?, media)))
    }

    /// How much faster the sender's clock runs than ours; 0 until enough is known.
    pub fn drift(&self) -> Ppm {
        self.estimator.drift()
    }

    /// Starts again with the next packet. The drift estimate is kept: it belongs to the sender's hardware. The path is known: the schedule
    /// settles by steps.
    pub fn restart(&mut self) {
        (self.origin, self.told, self.stepped, self.slip) = (None, false, false, None);
        (self.minima, self.early) = (Minima::default(), Early::default());
        self.estimator.forget_history();
    }

    fn span(&self, origin: u64, media: u64) -> i64 {
        let frames = i128::from(media) - i128::from(origin);
        // Exact over years; spans beyond that, from a hostile time stamp, are clamped. The usual spans, of up to two
        // days at 48 kHz, avoid the 128-bit division, which is many times slower.
        let usual = i64::try_from(frames).ok().and_then(|frames| frames.checked_mul(1_000_000_000));
        let nanos = match usual {
            Some(nanos) => i128::from(nanos / i64::from(self.rate)),
            None => frames * 1_000_000_000 / i128::from(self.rate),
        };
        nanos.clamp(-MAX_SPAN, MAX_SPAN) as i64
    }
}

/// A century in nanoseconds: sums of a few of these do not overflow.
const MAX_SPAN: i128 = 3_153_600_000_000_000_000 / 2;

/// How long a path takes to show its own transit time: the queue of a handshake is gone, and a sleeping radio is awake.
pub const SETTLES: Duration = Duration::from_secs(3);

/// Where no device plays, the schedule comes down by up to 5 ms per second: a packet of 5 ms is played 25 µs earlier
/// than it would have been, unchanged.
pub const DESCENT_PPM: f64 = 5000.0;

/// The schedule moves up by at most 1 ms per second: twice the largest difference between clocks, and slow enough that
/// a short queue does not raise it.
pub const MAX_SLEW_PPM: f64 = 1000.0;

/// Packets that are earlier than this are no drift: clocks that differ by [`MAX_SLEW_PPM`] differ by half of it in the five seconds
/// that transit times are remembered for. What is less is taken back by a resampler within 15 s.
pub const STEP: Duration = Duration::from_millis(10);

/// The same soon after the schedule began again, with a packet that may have waited in a queue.
const FIRST_STEP: Duration = Duration::from_millis(1);

/// How long all packets must be early: as long as all must be late for a longer path to be believed.
const EARLY_FOR: Duration = Duration::from_millis(200);

/// Smallest transit times of windows of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Minima {
    began: Option<Instant>,
    /// The smallest of this window, and when it came.
    current: Option<(Instant, i64)>,
    past: [Option<i64>; 4],
}

impl Minima {
    /// Adds a transit time; returns the minimum of the window that it closes, and when that came.
    fn add(&mut self, now: Instant, transit: i64) -> Option<(Instant, i64)> {
        let began = *self.began.get_or_insert(now);
        let mut closed = None;
        if now.since(began).as_nanos() as u64 >= WINDOW_NANOS {
            closed = self.current.take();
            self.past.rotate_right(1);
            self.past[0] = closed.map(|(_, least)| least);
            self.began = Some(now);
        }
        if self.current.is_none_or(|(_, least)| transit < least) {
            self.current = Some((now, transit));
        }
        closed
    }

    fn smallest(&self) -> i64 {
        let current = self.current.map(|(_, least)| least);
        self.past.iter().chain([&current]).flatten().copied().min().unwrap_or(0)
    }
}

const WINDOW_NANOS: u64 = 1_000_000_000;

/// Sound cards keep to ±100 ppm; five times that is supported.
pub const MAX_DRIFT_PPM: f64 = 500.0;
#[cfg(test)]
mod tests;

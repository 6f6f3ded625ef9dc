//! The sender's sampling clock against ours: when its sound is expected, and how much faster the clock runs.
//!
//! Both are derived from the transit time of packets, arrival less media time; its smallest values are free of
//! queueing. A difference of sampling clocks makes them rise or fall steadily; a change of route makes them jump.

use std::time::Duration;

use antiphon_core::{Instant, Ppm};

/// Maps media time to the instant at which a packet without queueing delay would arrive.
///
/// Follows the smallest transit time of the last few seconds, upwards never faster than [`MAX_SLEW_PPM`], so that a
/// queue does not raise the schedule. It never lies below the smallest transit time seen.
///
/// Downwards there is no need to be slow: a smaller transit time is the path's own, free of queueing. The first packets
/// are the most likely to be delayed (neighbour discovery, power save, what queued during a handshake), so at first the
/// schedule follows the smallest transit time at once ([`Descent`]).
#[derive(Clone, Debug)]
pub struct MediaClock {
    rate: u32,
    descent: Descent,
    origin: Option<u64>,
    /// When the first packet came.
    began: Instant,
    /// Our clock's time at media time `origin`, in nanoseconds.
    base: i64,
    last: Instant,
    minima: Minima,
    estimator: DriftEstimator,
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
            began: Instant::ZERO,
            base: 0,
            last: Instant::ZERO,
            minima: Minima::default(),
            estimator: DriftEstimator::new(),
        }
    }

    /// A packet whose first sample frame is `media` arrived.
    pub fn on_arrival(&mut self, now: Instant, media: u64) {
        let Some(origin) = self.origin else {
            self.origin = Some(media);
            self.base = now.as_nanos() as i64;
            self.began = now;
            self.last = now;
            self.minima.add(now, self.base);
            return;
        };
        let transit = (now.as_nanos() as i64).saturating_sub(self.span(origin, media));
        if let Some(minimum) = self.minima.add(now, transit) {
            self.estimator.on_minimum(now, minimum);
        }
        let off = self.minima.smallest().saturating_sub(self.base);
        let slew = |ppm: f64| (now.since(self.last).as_nanos() as f64 * ppm / 1e6) as i64;
        self.base = self.base.saturating_add(match self.is_settling(now) {
            true => off.min(slew(MAX_SLEW_PPM)),
            false => off.clamp(-slew(self.descent.slew_ppm), slew(MAX_SLEW_PPM)),
        });
        self.last = now;
    }

    /// Whether the stream is so new that the schedule comes down at once.
    pub fn is_settling(&self, now: Instant) -> bool {
        self.origin.is_some() && now.since(self.began) < self.descent.at_once
    }

    /// When `media` is expected; `None` before the first packet.
    pub fn instant(&self, media: u64) -> Option<Instant> {
        let nanos = self.base.saturating_add(self.span(self.origin?, media));
        Some(Instant::from_nanos(nanos.max(0) as u64))
    }

    /// The media time expected at `now`, in sample frames; may lie before the first one.
    pub fn media_at(&self, now: Instant) -> Option<f64> {
        let nanos = (now.as_nanos() as i64).saturating_sub(self.base) as f64;
        Some(self.origin? as f64 + nanos * f64::from(self.rate) / 1e9)
    }

    /// How much faster the sender's clock runs than ours; 0 until enough is known.
    pub fn drift(&self) -> Ppm {
        self.estimator.drift()
    }

    /// Starts again with the next packet. The drift estimate is kept: it belongs to the sender's hardware.
    pub fn restart(&mut self) {
        self.origin = None;
        self.minima = Minima::default();
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

/// Smallest transit times of windows of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Minima {
    began: Option<Instant>,
    current: Option<i64>,
    past: [Option<i64>; 4],
}

impl Minima {
    /// Adds a transit time; returns the minimum of the window that it closes.
    fn add(&mut self, now: Instant, transit: i64) -> Option<i64> {
        let began = *self.began.get_or_insert(now);
        let mut closed = None;
        if now.since(began).as_nanos() as u64 >= WINDOW_NANOS {
            closed = self.current.take();
            self.past.rotate_right(1);
            self.past[0] = closed;
            self.began = Some(now);
        }
        self.current = Some(self.current.map_or(transit, |least| least.min(transit)));
        closed
    }

    fn smallest(&self) -> i64 {
        self.past.iter().chain([&self.current]).flatten().copied().min().unwrap_or(0)
    }
}

const WINDOW_NANOS: u64 = 1_000_000_000;

/// Estimates the drift by linear regression over a minute of window minima.
///
/// A jump of the delay is distinguished from drift by its size against what the line predicts: minima far off the line
/// are held back until three agree; then the past points are shifted by the jump, so that it does not bend the line.
#[derive(Clone, Debug)]
pub struct DriftEstimator {
    /// Time and smallest transit, both in seconds relative to the first one.
    points: Vec<(f64, f64)>,
    origin: Option<(Instant, i64)>,
    suspects: [(f64, f64); STEP_CONFIRM],
    suspected: usize,
    ppm: f64,
    last: Instant,
}

impl DriftEstimator {
    /// Without measurements.
    pub fn new() -> Self {
        DriftEstimator {
            points: Vec::with_capacity(MAX_POINTS),
            origin: None,
            suspects: Default::default(),
            suspected: 0,
            ppm: 0.0,
            last: Instant::ZERO,
        }
    }

    /// The smallest transit time (arrival less media time, nanoseconds, any origin) of the window that ends at `now`.
    pub fn on_minimum(&mut self, now: Instant, transit: i64) {
        let (start, zero) = *self.origin.get_or_insert((now, transit));
        let point = (now.since(start).as_secs_f64(), transit.saturating_sub(zero) as f64 / 1e9);
        let elapsed = now.since(self.last).as_secs_f64().min(5.0);
        self.last = now;
        if self.is_off(point) {
            self.suspect(point);
        } else {
            self.suspected = 0;
            self.push(point);
        }
        if self.points.len() >= MIN_POINTS {
            // A growing transit time means a slow sender.
            let wanted = (-self.line().0 * 1e6).clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
            let slew = ESTIMATE_SLEW_PPM_PER_S * elapsed;
            self.ppm += (wanted - self.ppm).clamp(-slew, slew);
        }
    }

    /// How much faster the sender's clock runs than ours.
    pub fn drift(&self) -> Ppm {
        Ppm(self.ppm)
    }

    /// Discards the measurements and keeps the estimate.
    pub fn forget_history(&mut self) {
        self.points.clear();
        (self.origin, self.suspected) = (None, 0);
    }

    /// Whether a point is further from the line than noise explains.
    fn is_off(&self, (x, y): (f64, f64)) -> bool {
        let Some((last_x, last_y)) = self.points.last() else {
            return false;
        };
        if self.points.len() < MIN_POINTS {
            let reach = MIN_STEP_S + (x - last_x) * MAX_DRIFT_PPM / 1e6;
            return (y - last_y).abs() > reach;
        }
        let (slope, offset, residual) = self.line();
        (y - slope * x - offset).abs() > MIN_STEP_S.max(8.0 * residual)
    }

    fn suspect(&mut self, point: (f64, f64)) {
        self.suspects[self.suspected] = point;
        self.suspected += 1;
        if self.suspected < STEP_CONFIRM {
            return;
        }
        // The jump is the average distance of the suspects from the line; the past points move, the slope stays.
        let (slope, offset) = match self.points.len() < MIN_POINTS {
            true => (0.0, self.points.last().map_or(0.0, |p| p.1)),
            false => (self.line().0, self.line().1),
        };
        let off = |p: &(f64, f64)| p.1 - slope * p.0 - offset;
        let jump = self.suspects.iter().map(off).sum::<f64>() / STEP_CONFIRM as f64;
        self.points.iter_mut().for_each(|p| p.1 += jump);
        self.suspected = 0;
        for point in self.suspects {
            self.push(point);
        }
    }

    fn push(&mut self, point: (f64, f64)) {
        if self.points.len() == MAX_POINTS {
            self.points.remove(0);
        }
        self.points.push(point);
    }

    /// Slope, offset and root-mean-square residual of the least-squares line.
    fn line(&self) -> (f64, f64, f64) {
        let n = self.points.len().max(1) as f64;
        let mean_x = self.points.iter().map(|p| p.0).sum::<f64>() / n;
        let mean_y = self.points.iter().map(|p| p.1).sum::<f64>() / n;
        let (mut xx, mut xy) = (0.0, 0.0);
        for (x, y) in &self.points {
            xx += (x - mean_x) * (x - mean_x);
            xy += (x - mean_x) * (y - mean_y);
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let offset = mean_y - slope * mean_x;
        let squares = self.points.iter().map(|(x, y)| (y - slope * x - offset).powi(2)).sum::<f64>();
        (slope, offset, (squares / n).sqrt())
    }
}

impl Default for DriftEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// Sound cards keep to ±100 ppm; five times that is supported.
pub const MAX_DRIFT_PPM: f64 = 500.0;
/// The estimate moves no faster: an error of one measurement must not be audible as a change of pitch.
const ESTIMATE_SLEW_PPM_PER_S: f64 = 10.0;
/// One point per second. Standard error of the slope with residuals of 0.1 ms: s·√(12/N)/T = 0.8 ppm.
const MAX_POINTS: usize = 60;
/// Fewer are not enough: with ten the standard error is 11 ppm.
const MIN_POINTS: usize = 10;
/// Smaller jumps are noise.
const MIN_STEP_S: f64 = 0.003;
/// Windows that must agree before a jump is accepted.
const STEP_CONFIRM: usize = 3;

#[cfg(test)]
mod tests;

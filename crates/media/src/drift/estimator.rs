//! How much faster a sender's sampling clock runs than ours.

use antiphon_core::{Instant, Ppm};

use super::MAX_DRIFT_PPM;

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

    /// The smallest transit time (arrival less media time, nanoseconds, any origin) of the window that ends at `now`, and when the packet came that
    /// had it.
    pub fn on_minimum(&mut self, now: Instant, (came, transit): (Instant, i64)) {
        let (start, zero) = *self.origin.get_or_insert((came, transit));
        let point = (came.since(start).as_secs_f64(), transit.saturating_sub(zero) as f64 / 1e9);
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

    /// The smallest transit time at `now` by the line through those that were measured; `None` while these are few.
    pub(super) fn expected(&self, now: Instant) -> Option<i64> {
        let (start, zero) = self.origin.filter(|_| self.points.len() >= FEW_POINTS)?;
        let (slope, offset, _) = self.line();
        Some(zero.saturating_add(((slope * now.since(start).as_secs_f64() + offset) * 1e9) as i64))
    }

    /// How much faster the sender's clock runs than ours.
    pub fn drift(&self) -> Ppm {
        Ppm(self.ppm)
    }

    /// Transit times are smaller by `nanos` from now on, which is no drift: the past points move.
    pub(super) fn on_step(&mut self, nanos: i64) {
        self.points.iter_mut().for_each(|point| point.1 -= nanos as f64 / 1e9);
        self.suspected = 0;
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

/// The estimate moves no faster: an error of one measurement must not be audible as a change of pitch.
pub(super) const ESTIMATE_SLEW_PPM_PER_S: f64 = 10.0;
/// One point per second. Standard error of the slope with residuals of 0.1 ms: s·√(12/N)/T = 0.8 ppm.
const MAX_POINTS: usize = 60;
/// Fewer are not enough: with ten the standard error is 11 ppm.
const MIN_POINTS: usize = 10;
/// With so many, and residuals of 0.1 ms, the end of the line is known to 0.08 ms.
const FEW_POINTS: usize = 5;
/// Smaller jumps are noise.
const MIN_STEP_S: f64 = 0.003;
/// Windows that must agree before a jump is accepted.
pub(super) const STEP_CONFIRM: usize = 3;

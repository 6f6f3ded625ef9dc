//! Whether pictures are shown with their sound: the skew of each one, for how long the picture stands still, and an alarm when pictures come
//! too late.
//!
//! All times are places in the sound as it is handed over, in nanoseconds from its beginning. The skew of a picture is the place at which it
//! is shown less the place of the sound that was captured with it: positive where the picture is late. One that is not shown has none; the
//! one before it stands still instead.

use std::time::Duration;

use antiphon_measure::{Histogram, LipSync, SkewFigures, millis};

/// Measures one stream of pictures. Allocates nothing after it was made.
#[derive(Debug)]
pub(in crate::pictures) struct SyncMeter {
    sizes: Histogram,
    beyond: u64,
    too_late: u64,
    still: Still,
    alarm: Alarm,
}

/// For how long the last picture was shown beyond its time.
#[derive(Debug)]
struct Still {
    /// Times of the pictures that came last, shown or not, in the order of coming.
    seen: [i64; SEEN],
    count: usize,
    /// Pictures that were handed over before their place.
    early: Vec<i64>,
    /// Where the last one was shown.
    last: Option<i64>,
    /// Where the last packet came.
    heard: i64,
    total: i64,
}

/// Pictures come too late, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Alarm {
    /// Since when none has come in time.
    since: Option<i64>,
    /// When the last one was too late.
    last: Option<i64>,
    /// By how much they were, at most.
    by: i64,
    /// Since when there have been some in time.
    good: Option<i64>,
    is_raised: bool,
}

impl Default for SyncMeter {
    fn default() -> Self {
        SyncMeter {
            sizes: Histogram::new(),
            beyond: 0,
            too_late: 0,
            still: Still {
                seen: [0; SEEN],
                count: 0,
                early: Vec::with_capacity(MOST_EARLY),
                last: None,
                heard: 0,
                total: 0,
            },
            alarm: Alarm::default(),
        }
    }
}

impl SyncMeter {
    /// A packet of the picture of this time came when the sound stood `at`; those that are missing then are waited for `grace` after its time.
    pub fn on_packet(&mut self, at: i64, time: i64, grace: i64) {
        self.still.on_packet(at, time);
        let by = at.saturating_sub(time);
        if by > grace {
            self.alarm.on_late(at, by);
        }
    }

    /// The picture of this time became whole.
    pub fn on_whole(&mut self, at: i64, time: i64) {
        if at.saturating_sub(time) <= BOUND {
            self.alarm.on_whole_in_time(at);
        }
    }

    /// A picture is shown at the place `shown`, and its sound stands at `time`.
    pub fn on_shown(&mut self, shown: i64, time: i64) {
        let size = Duration::from_nanos(shown.abs_diff(time));
        self.sizes.record(size);
        self.beyond += u64::from(size > LipSync::SKEW);
        self.still.on_shown(shown);
    }

    /// Pictures were whole, and could not be shown with their sound any more.
    pub fn on_too_late(&mut self, count: usize) {
        self.too_late += count as u64;
    }

    /// The sound stands there.
    pub fn advance(&mut self, at: i64) {
        self.still.settle(at);
        self.alarm.advance(at);
    }

    /// The distribution; `None`: nothing was shown.
    pub fn skew(&self) -> Option<SkewFigures> {
        let within = |share: f64| self.sizes.quantile(share).map(millis);
        Some(SkewFigures {
            median_ms: within(0.5)?,
            p95_ms: within(0.95)?,
            p99_9_ms: within(0.999)?,
            worst_ms: self.sizes.max().map(millis)?,
            beyond_percent: 100.0 * self.beyond as f64 / self.sizes.count() as f64,
        })
    }

    /// Pictures that were whole, and too late.
    pub fn too_late(&self) -> u64 {
        self.too_late
    }

    /// For how long the picture stood still, in all.
    pub fn frozen(&self) -> Duration {
        Duration::from_nanos(self.still.total().unsigned_abs())
    }

    /// By how much pictures come too late, while that is alarming.
    pub fn out_of_sync(&self) -> Option<Duration> {
        self.alarm.is_raised.then(|| Duration::from_nanos(self.alarm.by.unsigned_abs()))
    }
}

impl Still {
    fn on_packet(&mut self, at: i64, time: i64) {
        self.heard = at;
        let known = self.count.min(SEEN);
        if !self.seen[..known].contains(&time) {
            self.seen[self.count % SEEN] = time;
            self.count += 1;
        }
    }

    /// From one picture to the next, as most of the last ones are apart.
    fn interval(&self) -> i64 {
        let known = self.count.min(SEEN);
        let mut times = self.seen;
        let times = &mut times[..known];
        times.sort_unstable();
        let mut gaps = [0; SEEN];
        let count =
            times.windows(2).zip(&mut gaps).map(|(pair, gap)| *gap = pair[1].saturating_sub(pair[0])).count();
        gaps[..count].sort_unstable();
        gaps[..count].get(count / 2).copied().unwrap_or(0)
    }

    fn on_shown(&mut self, shown: i64) {
        if self.early.len() == MOST_EARLY {
            self.settle(shown);
            self.early.clear();
        }
        self.early.push(shown);
    }

    fn settle(&mut self, at: i64) {
        self.early.sort_unstable();
        let due = self.early.partition_point(|shown| *shown <= at);
        for n in 0..due {
            let shown = self.early[n];
            self.total += self.beyond(shown);
            self.last = self.last.max(Some(shown));
        }
        self.early.drain(..due);
    }

    /// How long the last picture has stood there beyond its time, if that is more than the bound.
    fn beyond(&self, until: i64) -> i64 {
        let Some(last) = self.last else { return 0 };
        let beyond = until.saturating_sub(last).saturating_sub(self.interval());
        if beyond > BOUND { beyond } else { 0 }
    }

    /// With what has passed of it now. A file of pictures may end before its sound does: silence alone is nothing that stands still.
    fn total(&self) -> i64 {
        self.total + self.beyond(self.heard)
    }
}

impl Alarm {
    fn on_late(&mut self, at: i64, by: i64) {
        let since = *self.since.get_or_insert(at);
        self.by = if since == at { by } else { self.by.max(by) };
        self.last = Some(at);
        self.advance(at);
    }

    fn on_whole_in_time(&mut self, at: i64) {
        self.since = None;
        self.good.get_or_insert(at);
    }

    fn advance(&mut self, at: i64) {
        let has_lasted = self.since.is_some_and(|since| at - since >= PATIENCE);
        let goes_on = self.last.is_some_and(|last| at - last <= PATIENCE);
        let is_good = self.good.is_some_and(|since| at - since >= CALM);
        if has_lasted && goes_on {
            (self.is_raised, self.good) = (true, None);
        } else if is_good {
            self.is_raised = false;
        }
    }
}

/// Pictures of which the time between two is known.
const SEEN: usize = 16;
/// Pictures that wait for their place: decoders keep 16 at most (ITU-T H.264 §A.3.1, MaxDpbFrames).
const MOST_EARLY: usize = 32;
const BOUND: i64 = LipSync::SKEW.as_nanos() as i64;
/// So long pictures come too late before that is alarming: longer than a stall of Wi-Fi or a handover, and so much under a second that it is
/// told within that.
const PATIENCE: i64 = 600_000_000;
/// So long all come in time before it is well again.
const CALM: i64 = 1_000_000_000;

#[cfg(test)]
mod tests;

//! What is noted of a stream: when each frame was due or sent, and when it came.
//!
//! Everything is exact (no histogram's buckets), and takes its memory for the frames of the whole run beforehand.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::{BufferCheck, BufferRule, Gaps, mean_absolute_deviation, nearest_rank};

use crate::figures::StreamFigures;

/// The sender's side: frames are numbered from 1 as they are handed over.
#[derive(Debug, Default)]
pub struct SentLog {
    /// The RTP number of frame 1.
    first: u16,
    /// Of each frame: its due time, or where the way back counts, when it was handed over.
    at: Vec<Instant>,
    /// Frames that the transport gave up, or would not take.
    pub expired: u64,
    /// The connection broke before the stream's end.
    pub broken: bool,
}

/// A log that the sender writes and receivers read.
pub type SharedLog = Rc<RefCell<SentLog>>;

impl SentLog {
    /// A log with room for so many frames.
    pub fn shared(frames: usize) -> SharedLog {
        Rc::new(RefCell::new(SentLog { at: Vec::with_capacity(frames), ..SentLog::default() }))
    }

    /// A frame with the RTP number `sequence` was handed over.
    pub fn on_sent(&mut self, sequence: u16, at: Instant) {
        if self.at.is_empty() {
            self.first = sequence;
        }
        self.at.push(at);
    }

    /// Frames handed over.
    pub fn sent(&self) -> u64 {
        self.at.len() as u64
    }
}

/// The receiver's side.
#[derive(Debug)]
pub struct Meter {
    log: SharedLog,
    /// One bit for each frame: whether it came.
    came: Vec<u64>,
    /// The highest number that came; 0 before the first.
    highest: u64,
    received: u64,
    duplicate: u64,
    reordered: u64,
    /// With a number that was never sent.
    unknown: u64,
    arrivals: u64,
    gaps: Gaps,
    /// Of each frame that came, in ns.
    delays: Vec<u64>,
    by_bytes: BufferCheck,
    by_number: BufferCheck,
    /// Only what came, where the sender's log is on another thread.
    notes: Option<Arrivals>,
}

/// Arrivals as they came, for a meter that has the sender's log later.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// When, and the RTP number.
    pub came: Vec<(Instant, u16)>,
    /// Those that found no room.
    pub missed: u64,
}

impl Meter {
    /// A meter that only notes arrivals, with room for so many: nothing is allocated on the way.
    pub fn noting(arrivals: usize, rule: BufferRule) -> Self {
        let notes = Some(Arrivals { came: Vec::with_capacity(arrivals), missed: 0 });
        Meter { notes, ..Meter::new(&SharedLog::default(), 0, rule) }
    }

    /// What was noted so far.
    pub fn take_notes(&mut self) -> Arrivals {
        self.notes.take().unwrap_or_default()
    }

    /// Arrivals so far.
    pub fn arrivals(&self) -> u64 {
        self.notes.as_ref().map_or(self.arrivals, |notes| notes.came.len() as u64 + notes.missed)
    }

    /// A meter for a stream of at most `frames` frames, whose buffer is judged by `rule`.
    pub fn new(log: &SharedLog, frames: usize, rule: BufferRule) -> Self {
        Meter {
            log: Rc::clone(log),
            came: vec![0; frames / 64 + 1],
            highest: 0,
            received: 0,
            duplicate: 0,
            reordered: 0,
            unknown: 0,
            arrivals: 0,
            gaps: Gaps::default(),
            delays: Vec::with_capacity(frames),
            by_bytes: BufferCheck::by_bytes(rule),
            by_number: BufferCheck::by_sequence(rule, Some(1)),
            notes: None,
        }
    }

    /// The frame with the RTP number `sequence` came.
    pub fn on_arrival(&mut self, at: Instant, sequence: u16) {
        if let Some(notes) = &mut self.notes {
            if notes.came.len() < notes.came.capacity() {
                notes.came.push((at, sequence));
            } else {
                notes.missed += 1;
            }
            return;
        }
        let log = self.log.borrow();
        // The number nearest to the highest one: 32 768 frames lost in a row would be taken for none.
        let place = log.first.wrapping_add(self.highest.wrapping_sub(1) as u16);
        let step = sequence.wrapping_sub(place) as i16;
        let number = self.highest.saturating_add_signed(i64::from(step));
        let Some(since) = number.checked_sub(1).and_then(|index| log.at.get(index as usize)) else {
            self.unknown += 1;
            return;
        };
        self.arrivals += 1;
        self.gaps.on_arrival(at);
        let bytes = self.by_bytes.rule().packet_bytes;
        self.by_bytes.on_arrival(at, number, bytes);
        self.by_number.on_arrival(at, number, bytes);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.came.len() {
            self.came.resize(word + 1, 0);
        }
        if self.came[word] & bit != 0 {
            self.duplicate += 1;
            return;
        }
        self.came[word] |= bit;
        self.received += 1;
        self.reordered += u64::from(number < self.highest);
        self.highest = self.highest.max(number);
        self.delays.push(at.since(*since).as_nanos() as u64);
    }

    /// The figures that arrivals and sendings give. `returns`: delays are round trips.
    pub fn figures(&self, returns: bool) -> StreamFigures {
        let log = self.log.borrow();
        let sent = log.sent();
        let missing = sent - self.received;
        let (bytes, number) = (self.by_bytes.result(), self.by_number.result());
        let over = self.gaps.over_limit() as f64;
        let delays = Delays::new(&self.delays);
        let one_way = |value: Option<f64>| value.filter(|_| !returns);
        let round_trip = |value: Option<f64>| value.filter(|_| returns);
        StreamFigures {
            sent: Some(sent as f64),
            received: Some(self.received as f64),
            lost_percent: (sent > 0).then(|| 100.0 * missing as f64 / sent as f64),
            expired: Some(log.expired as f64),
            duplicate: Some(self.duplicate as f64),
            reordered: Some(self.reordered as f64),
            gap_mean_s: self.gaps.mean_ms().map(|ms| ms / 1e3),
            gap_max_s: self.gaps.max_ms().map(|ms| ms / 1e3),
            gaps_above_80ms: (self.arrivals > 1).then_some(over),
            gaps_above_80ms_per_1000: (self.arrivals > 1).then(|| 1000.0 * over / self.arrivals as f64),
            delay_mean_ms: one_way(delays.mean()),
            delay_p50_ms: one_way(delays.quantile(0.5)),
            delay_p99_ms: one_way(delays.quantile(0.99)),
            delay_max_ms: one_way(delays.quantile(1.0)),
            rtt_mean_ms: round_trip(delays.mean()),
            rtt_p99_ms: round_trip(delays.quantile(0.99)),
            jitter_sd_ms: delays.deviation(),
            jitter_mad_ms: mean_absolute_deviation(&delays.sorted),
            buffer_empty_per_1000: bytes.empty_per_1000(),
            buffer_not_full_per_1000: bytes.not_full_per_1000(),
            buffer_empty_numbered_per_1000: number.empty_per_1000(),
            buffer_not_full_numbered_per_1000: number.not_full_per_1000(),
            broken: Some(f64::from(u8::from(log.broken))),
            ..StreamFigures::default()
        }
    }
}

/// Delays in ms, sorted.
pub struct Delays {
    sorted: Vec<f64>,
}

impl Delays {
    /// From nanoseconds in any order.
    pub fn new(nanos: &[u64]) -> Self {
        let mut sorted = nanos.to_vec();
        sorted.sort_unstable();
        Delays { sorted: sorted.into_iter().map(|ns| ns as f64 / 1e6).collect() }
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.sorted.iter().sum::<f64>() / self.sorted.len() as f64)
    }

    /// By nearest rank.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = nearest_rank(q, self.sorted.len() as u64)?;
        self.sorted.get(rank as usize - 1).copied()
    }

    /// Of the sample: divided by n - 1. `None` before the second.
    pub fn deviation(&self) -> Option<f64> {
        let (mean, n) = (self.mean()?, self.sorted.len() as f64);
        let squares: f64 = self.sorted.iter().map(|delay| (delay - mean).powi(2)).sum();
        (n > 1.0).then(|| (squares / (n - 1.0)).sqrt())
    }

    pub fn mean_deviation(&self) -> Option<f64> {
        mean_absolute_deviation(&self.sorted)
    }
}

/// Frames that a stream sends between two instants, one every `interval`: the first at once.
pub fn frames_between(from: Instant, until: Instant, interval: Duration) -> u64 {
    let span = until.since(from).as_nanos();
    u64::try_from(span.div_ceil(interval.as_nanos().max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(first: u16, frames: u64) -> Meter {
        let log = SentLog::shared(8);
        for n in 0..frames {
            log.borrow_mut().on_sent(first.wrapping_add(n as u16), Instant::from_millis(n));
        }
        Meter::new(&log, 8, BufferRule::PUBLISHED)
    }

    #[test]
    fn numbers_go_on_beyond_sixteen_bits() {
        let mut meter = meter(65_000, 70_000);
        for n in (0..70_000).filter(|n| n % 10 != 3) {
            meter.on_arrival(Instant::from_millis(n + 5), 65_000u16.wrapping_add(n as u16));
        }
        let figures = meter.figures(false);
        assert_eq!((figures.sent, figures.received), (Some(70_000.0), Some(63_000.0)));
        assert_eq!((figures.delay_max_ms, figures.lost_percent), (Some(5.0), Some(10.0)));
        assert_eq!((figures.duplicate, figures.reordered, meter.unknown), (Some(0.0), Some(0.0), 0));
    }

    #[test]
    fn duplicates_and_overtaken_frames_are_told_apart() {
        let mut meter = meter(7, 5);
        for (at, n) in [(10, 1), (20, 0), (30, 1), (120, 4), (121, 5)] {
            meter.on_arrival(Instant::from_millis(at), 7 + n);
        }
        let figures = meter.figures(true);
        assert_eq!((figures.received, figures.lost_percent), (Some(3.0), Some(40.0)));
        assert_eq!((figures.duplicate, figures.reordered, meter.unknown), (Some(1.0), Some(1.0), 1));
        assert_eq!((figures.gap_max_s, figures.gaps_above_80ms), (Some(0.09), Some(1.0)));
        assert_eq!((figures.gaps_above_80ms_per_1000, figures.delay_mean_ms), (Some(250.0), None));
        // 9, 20 and 116 ms.
        assert!((figures.rtt_mean_ms.unwrap() - 145.0 / 3.0).abs() < 1e-9);
        assert_eq!(figures.rtt_p99_ms, Some(116.0));
    }
}

//! Records of a stream: when each frame was due or sent, and when it arrived.
//!
//! Everything is exact (no histogram), and memory for the frames of the whole run is reserved in advance.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, SendError, Tag};
use antiphon_measure::{
    BufferCheck, BufferRule, Fate, Gaps, SentFrame, VideoLayout, add_beside, add_playout, add_video,
    interval_deviation_ms, mean_absolute_deviation, nearest_rank, percent,
};

use super::timer::Timer;
use crate::figures::{Course, StreamFigures};
use crate::setup::Watch;

/// The sender's side: frames are numbered from 1 as they are handed over.
#[derive(Debug, Default)]
pub struct SentLog {
    /// The RTP number of frame 1.
    first: u16,
    /// How the packets of each channel group are numbered; empty where there is one only, whose packets are all the frames.
    groups: Vec<Numbering>,
    /// Due time of each frame, or when it was handed over, where the round trip is measured.
    at: Vec<Instant>,
    /// Outcome of each frame at its sender: whether the transport gave it up or refused it; the receiver knows about
    /// the others.
    fates: Vec<Fate>,
    /// The connection broke before the stream's end.
    pub broken: bool,
    /// Of a video, the frames that were handed over.
    frames: Vec<SentFrame>,
}

/// The packets of a channel group.
#[derive(Debug, Default)]
struct Numbering {
    /// The RTP number of its first.
    first: Option<u16>,
    /// Which frame each of them is.
    frames: Vec<u32>,
}

/// A log that the sender writes and receivers read.
pub type SharedLog = Rc<RefCell<SentLog>>;

impl SentLog {
    /// A log with room for so many frames of a stream of so many channel groups.
    pub fn shared(frames: usize, groups: usize) -> SharedLog {
        let numbering = || Numbering { first: None, frames: Vec::with_capacity(frames) };
        Rc::new(RefCell::new(SentLog {
            first: 0,
            groups: (0..groups).filter(|_| groups > 1).map(|_| numbering()).collect(),
            at: Vec::with_capacity(frames),
            fates: Vec::with_capacity(frames),
            broken: false,
            frames: Vec::new(),
        }))
    }

    /// The tag of the frame that is handed over next.
    pub fn next_tag(&self) -> Tag {
        Tag(self.sent())
    }

    /// The frame of [`Self::next_tag`], with the RTP number `sequence` in its channel group, was handed over, with the
    /// result `sent`.
    pub fn on_sent(&mut self, group: usize, sequence: u16, at: Instant, sent: Result<(), SendError>) {
        if self.at.is_empty() {
            self.first = sequence;
        }
        if let Some(numbering) = self.groups.get_mut(group) {
            numbering.first.get_or_insert(sequence);
            numbering.frames.push(self.at.len() as u32);
        }
        self.at.push(at);
        self.fates.push(if sent.is_ok() { Fate::Pending } else { Fate::Refused });
    }

    /// The packets that are handed over from now on are those of a video frame.
    pub fn on_frame(&mut self, frame: SentFrame) {
        self.frames.push(frame);
    }

    /// The transport reports the outcome of message `number`, counted from 0, which may not be one of the stream's.
    pub fn on_outcome(&mut self, number: u64, outcome: Outcome) {
        let fate = usize::try_from(number).ok().and_then(|index| self.fates.get_mut(index));
        if let (Some(fate), Outcome::Expired { .. }) = (fate, outcome) {
            *fate = Fate::Expired;
        }
    }

    /// Frame `number` was sent for the first time: it is due now and not when it was handed over.
    pub fn on_first_sending(&mut self, number: u64, at: Instant) {
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        if let Some(due) = index.and_then(|index| self.at.get_mut(index)) {
            *due = at;
        }
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
    /// One bit for each frame: whether it arrived.
    came: Vec<u64>,
    /// The highest number that arrived; 0 before the first.
    highest: u64,
    /// The same within each channel group, whose packets are counted from 1, where there are several.
    highest_of: Vec<u64>,
    received: u64,
    reordered: u64,
    /// Arrivals with a number that was never sent.
    unknown: u64,
    /// Duplicates included.
    arrivals: u64,
    gaps: Gaps,
    /// The index of each frame that arrived, and when.
    first: Vec<(u32, Instant)>,
    by_bytes: BufferCheck,
    by_number: BufferCheck,
    /// Frames due then have figures of their own.
    watch: Option<Watch>,
    /// What arrives is a video, and when its first frame is due at the earliest.
    video: Option<(VideoLayout, Instant)>,
    /// Round trips are also read from this.
    timer: Option<Timer>,
    /// Arrivals only, where the sender's log is on another thread.
    notes: Option<Arrivals>,
}

/// A meter that a participant or an observer of a session writes.
pub type SharedMeter = Rc<RefCell<Meter>>;

/// Recorded arrivals, for a meter that gets the sender's log later.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// In their order.
    pub came: Vec<Arrival>,
    /// Arrivals for which there was no room.
    pub missed: u64,
}

/// A packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Its channel group.
    pub group: u8,
    /// Its RTP number in that.
    pub sequence: u16,
}

impl Meter {
    /// A meter that only records arrivals, with room for so many: it does not allocate later.
    pub fn noting(arrivals: usize, rule: BufferRule) -> Self {
        let notes = Some(Arrivals { came: Vec::with_capacity(arrivals), missed: 0 });
        Meter { notes, ..Meter::new(&SentLog::shared(0, 1), 0, rule) }
    }

    /// The recorded arrivals.
    pub fn take_notes(&mut self) -> Arrivals {
        self.notes.take().unwrap_or_default()
    }

    /// Arrivals so far.
    pub fn arrivals(&self) -> u64 {
        self.notes.as_ref().map_or(self.arrivals, |notes| notes.came.len() as u64 + notes.missed)
    }

    /// A meter for a stream of at most `frames` frames, with a buffer judged by `rule`.
    pub fn new(log: &SharedLog, frames: usize, rule: BufferRule) -> Self {
        Meter {
            log: Rc::clone(log),
            came: vec![0; frames / 64 + 1],
            highest: 0,
            highest_of: vec![0; log.borrow().groups.len()],
            received: 0,
            reordered: 0,
            unknown: 0,
            arrivals: 0,
            gaps: Gaps::default(),
            first: Vec::with_capacity(frames),
            by_bytes: BufferCheck::by_bytes(rule),
            by_number: BufferCheck::by_sequence(rule, Some(1)),
            watch: None,
            video: None,
            timer: None,
            notes: None,
        }
    }

    /// The same, which also reads round trips from a timer.
    pub fn timed_by(self, timer: Option<Timer>) -> Self {
        Meter { timer, ..self }
    }

    /// The same, of a video whose first frame is due at `start` at the earliest.
    pub fn of_video(self, video: Option<(VideoLayout, Instant)>) -> Self {
        Meter { video, ..self }
    }

    /// The same, with figures of the frames due in a part of the run.
    pub fn watching(self, watch: Option<Watch>) -> Self {
        Meter { watch, ..self }
    }

    /// A packet arrived.
    pub fn on_arrival(&mut self, arrival: Arrival) {
        if let Some(notes) = &mut self.notes {
            if notes.came.len() < notes.came.capacity() {
                notes.came.push(arrival);
            } else {
                notes.missed += 1;
            }
            return;
        }
        let Some(index) = self.frame_of(arrival) else {
            self.unknown += 1;
            return;
        };
        self.note(arrival.at, index);
    }

    /// The frame, counted from 0, of an arrival; `None` if it was never sent.
    fn frame_of(&mut self, arrival: Arrival) -> Option<u64> {
        let (log, group) = (self.log.borrow(), usize::from(arrival.group));
        if log.groups.is_empty() {
            let number = nearest(self.highest, log.first, arrival.sequence);
            return number.checked_sub(1).filter(|index| *index < log.sent());
        }
        let (numbering, highest) = (log.groups.get(group)?, self.highest_of.get_mut(group)?);
        let number = nearest(*highest, numbering.first?, arrival.sequence);
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        let frame = *numbering.frames.get(place)?;
        *highest = number.max(*highest);
        Some(frame.into())
    }

    fn note(&mut self, at: Instant, index: u64) {
        let number = index + 1;
        self.arrivals += 1;
        let bytes = self.by_bytes.rule().packet_bytes;
        // The published calculation checks its deadlines for duplicates, too.
        self.by_number.on_arrival(at, number, bytes);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.came.len() {
            self.came.resize(word + 1, 0);
        }
        if self.has(number) {
            // A listener would not notice it.
            return;
        }
        self.came[word] |= bit;
        self.received += 1;
        self.gaps.on_arrival(at);
        self.by_bytes.on_arrival(at, number, bytes);
        self.reordered += u64::from(number < self.highest);
        self.highest = self.highest.max(number);
        self.first.push((index as u32, at));
    }

    /// Whether the frame of that number arrived.
    fn has(&self, number: u64) -> bool {
        self.came.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The figures of the recorded arrivals. `returns`: delays are round trips.
    pub fn figures(&self, returns: bool) -> StreamFigures {
        let log = self.log.borrow();
        let sent = log.sent();
        let never_came = |fate| {
            (0..).zip(&log.fates).filter(|(index, of)| **of == fate && !self.has(index + 1)).count() as u64
        };
        let (expired, refused) = (never_came(Fate::Expired), never_came(Fate::Refused));
        let missing = sent - self.received;
        let (bytes, number) = (self.by_bytes.result(), self.by_number.result());
        let over = self.gaps.over_limit() as f64;
        let per_1000 = |count: f64| (self.received > 0).then(|| 1000.0 * count / self.received as f64);
        let delay = |(index, at): &(u32, Instant)| at.since(log.at[*index as usize]).as_nanos() as u64;
        let nanos: Vec<u64> = self.first.iter().map(delay).collect();
        let timed = self.timer.filter(|_| returns).map(|timer| Delays::new(&timer.readings(&nanos)));
        let delays = Delays::new(&nanos);
        let arrivals: Vec<Instant> = self.first.iter().map(|(_, at)| *at).collect();
        let watched = self.watched(&log);
        let one_way = |value: Option<f64>| value.filter(|_| !returns);
        let round_trip = |value: Option<f64>| value.filter(|_| returns);
        let mut figures = StreamFigures {
            sent: Some(sent as f64),
            received: Some(self.received as f64),
            missing_percent: percent(missing, sent),
            lost_percent: percent(missing - expired - refused, sent),
            expired: Some(expired as f64),
            refused: Some(refused as f64),
            duplicate: Some((self.arrivals - self.received) as f64),
            reordered: Some(self.reordered as f64),
            gap_mean_ms: self.gaps.mean_ms(),
            gap_mad_ms: interval_deviation_ms(&arrivals),
            gap_max_ms: self.gaps.max_ms(),
            gaps_above_80ms: (self.received > 1).then_some(over),
            gaps_above_80ms_per_1000: per_1000(over).filter(|_| self.received > 1),
            delay_mean_ms: one_way(delays.mean()),
            delay_p50_ms: one_way(delays.quantile(0.5)),
            delay_p99_ms: one_way(delays.quantile(0.99)),
            delay_max_ms: one_way(delays.quantile(1.0)),
            rtt_mean_ms: round_trip(delays.mean()),
            rtt_p50_ms: round_trip(delays.quantile(0.5)),
            rtt_p99_ms: round_trip(delays.quantile(0.99)),
            rtt_max_ms: round_trip(delays.quantile(1.0)),
            jitter_sd_ms: delays.deviation(),
            jitter_mad_ms: mean_absolute_deviation(&delays.sorted),
            buffer_empty_per_1000: bytes.empty_per_1000(),
            buffer_not_full_per_1000: bytes.not_full_per_1000(),
            buffer_empty_numbered_per_1000: per_1000(number.empty as f64),
            buffer_not_full_numbered_per_1000: per_1000(number.not_full as f64),
            broken: Some(f64::from(u8::from(log.broken))),
            watched_missing_percent: watched.as_ref().and_then(|(missing, _)| *missing),
            watched_jitter_mad_ms: watched
                .as_ref()
                .and_then(|(_, delays)| mean_absolute_deviation(&delays.sorted)),
            rtt_timed_p999_ms: timed.and_then(|timed| timed.quantile(0.999)),
            ..StreamFigures::default()
        };
        if let Some((layout, start)) = &self.video {
            let begin = log.frames.first().map_or(*start, |frame| frame.due);
            let came: Vec<(u64, Instant)> =
                self.first.iter().map(|(index, at)| (u64::from(*index), *at)).collect();
            add_video(&mut figures, layout, begin, &log.frames, &came);
        }
        figures
    }

    /// When its frames arrived, and from when to when they were sent.
    pub fn times(&self) -> (Vec<Instant>, Range<Instant>) {
        let log = self.log.borrow();
        // One that sent nothing was sent at no time: the range is empty.
        let first = log.at.first().copied().unwrap_or_default();
        let last = log.at.last().map_or(first, |last| *last + Duration::from_nanos(1));
        (self.first.iter().map(|(_, at)| *at).collect(), first..last)
    }

    /// Adds what the arrivals show of another stream's, and of playout. `others`: when its packets arrived, and were sent.
    pub fn add_beside(&self, figures: &mut StreamFigures, others: &(Vec<Instant>, Range<Instant>)) {
        let log = self.log.borrow();
        add_beside(figures, &self.times().0, &others.0, &others.1);
        let delay = |(index, at): &(u32, Instant)| at.since(log.at[*index as usize]);
        add_playout(figures, &self.first.iter().map(delay).collect::<Vec<_>>(), log.sent());
    }

    /// The share of the watched frames that never came, and the delays of the others.
    fn watched(&self, log: &SentLog) -> Option<(Option<f64>, Delays)> {
        let watch = self.watch?;
        let counts = |at: Instant| {
            at >= Instant::ZERO + watch.every
                && at.since(Instant::ZERO).as_nanos() % watch.every.as_nanos() < watch.length.as_nanos()
        };
        let sent = log.at.iter().filter(|at| counts(**at)).count() as u64;
        let came = self.first.iter().filter(|(index, _)| counts(log.at[*index as usize]));
        let delays: Vec<u64> =
            came.map(|(index, at)| at.since(log.at[*index as usize]).as_nanos() as u64).collect();
        Some((percent(sent - delays.len() as u64, sent), Delays::new(&delays)))
    }

    /// The outcome of each frame.
    pub fn course(&self) -> Course {
        let came = self.first.iter().map(|(index, at)| (*index as usize, *at)).collect();
        let log = self.log.borrow();
        Course { sent: log.at.clone(), fates: log.fates.clone(), came, frames: log.frames.clone() }
    }
}

/// The number nearest to `highest` that RTP calls `sequence`, if it calls number 1 `first`: 32 768 packets lost in a
/// row would not be noticed.
fn nearest(highest: u64, first: u16, sequence: u16) -> u64 {
    let place = first.wrapping_add(highest.wrapping_sub(1) as u16);
    highest.saturating_add_signed(i64::from(sequence.wrapping_sub(place) as i16))
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
mod tests;

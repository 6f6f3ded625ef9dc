//! Sound from the media thread to the device: a ring, its ends, and how full it is kept.
//!
//! The device takes a period at once, but the ring is filled as if it took sample frame after sample frame: the media
//! thread hands over blocks evenly, and none waits longer than it must. A block and a margin for threads that come
//! late wait beyond what the next cycle takes; whatever a cycle lacked is added to the margin.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::{Sink, SinkError, StreamFormat};
use rtrb::{Consumer, Producer, RingBuffer};

use super::beat::Beat;
use super::keeper::Keeper;
use super::meter::Counters;
use super::replaced::{InUse, Maker, replaced};
use super::timeline::Timeline;
use super::{Cycle, End, Side};
use crate::os::Clock;

/// The media thread's end of a ring.
pub(super) struct PlayLink {
    ring: Producer<f32>,
    beat: Arc<Beat>,
}

/// The device's end of a ring.
pub(super) struct PlayEnd {
    ring: Consumer<f32>,
    beat: Arc<Beat>,
    stream: StreamFormat,
    taken: u32,
    counters: Arc<Counters>,
    clock: Clock,
    timeline: Timeline,
    /// Sample frames that the next cycle takes at most.
    period: u32,
}

impl PlayEnd {
    /// Takes up to `frames` sample frames, and gives them to `play` in up to two pieces. Returns how many.
    fn take(&mut self, frames: usize, mut play: impl FnMut(usize, &[f32])) -> usize {
        let channels = self.stream.channels();
        let there = (self.ring.slots() / channels).min(frames);
        if let Ok(chunk) = self.ring.read_chunk(there * channels) {
            // The ring holds whole sample frames, so a piece does, too.
            let (first, second) = chunk.as_slices();
            play(0, first);
            play(first.len() / channels, second);
            chunk.commit_all();
        }
        self.taken = self.taken.wrapping_add(there as u32);
        there
    }
}

impl PlayEnd {
    /// Adds to the margin.
    fn lengthen(&self, missing: u32) {
        let most = self.stream.rate() / MARGIN_MOST;
        let margin = self.counters.margin.load(Ordering::Relaxed);
        let longer = margin.saturating_add(missing).min(most.max(margin));
        self.counters.margin.store(longer, Ordering::Relaxed);
    }
}

impl End for PlayEnd {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let (frames, now) = (cycle.frames(), self.clock.micros());
        if cycle.freewheels() {
            self.idle(now);
            return cycle.play_silence(0);
        }
        // A player that is behind its schedule after lost cycles catches up by itself.
        self.timeline.lost(cycle, now, self.stream.rate(), &self.counters);
        let there = self.take(frames, |from, sound| cycle.play(from, sound));
        if there < frames {
            cycle.play_silence(there);
            if self.beat.flows.load(Ordering::Relaxed) {
                let missing = frames - there;
                self.counters.underruns.fetch_add(1, Ordering::Relaxed);
                self.counters.missing.fetch_add(missing as u64, Ordering::Relaxed);
                // A longer period finds what was enough for a shorter one, once.
                if self.period >= frames as u32 {
                    self.lengthen(missing as u32);
                }
            }
        }
        self.period = cycle.next() as u32;
        let late = u64::from(cycle.late()) * 1_000_000 / u64::from(self.stream.rate());
        self.beat.set(self.taken, now.saturating_sub(late), self.period);
    }

    fn idle(&mut self, now: u64) {
        let due = self.timeline.due(now, self.stream.rate(), &self.counters);
        self.take(due as usize, |_, _| {});
        self.beat.set(self.taken, now, self.stream.rate() / IDLE_PARTS);
    }

    fn lacks(&self, frames: usize) -> usize {
        match self.beat.flows.load(Ordering::Relaxed) {
            true => frames.saturating_sub(self.ring.slots() / self.stream.channels()),
            false => 0,
        }
    }
}

/// Makes rings, on the thread that watches the server.
pub(super) struct PlaySide {
    stream: StreamFormat,
    counters: Arc<Counters>,
    clock: Clock,
    links: Maker<PlayLink>,
}

impl PlaySide {
    fn ring(stream: StreamFormat, counters: &Arc<Counters>, clock: &Clock) -> (PlayLink, PlayEnd) {
        let (ring, taking) = ring(stream);
        let beat = Arc::new(Beat::default());
        let period = counters.period.load(Ordering::Relaxed);
        beat.set(0, clock.micros(), period);
        let end = PlayEnd {
            ring: taking,
            beat: beat.clone(),
            stream,
            taken: 0,
            counters: counters.clone(),
            clock: clock.clone(),
            timeline: Timeline::default(),
            period,
        };
        (PlayLink { ring, beat }, end)
    }
}

impl Side for PlaySide {
    fn link(&mut self) -> Box<dyn End> {
        let (link, end) = Self::ring(self.stream, &self.counters, &self.clock);
        self.links.hand_over(link);
        Box::new(end)
    }

    fn collect(&mut self) {
        self.links.collect();
    }
}

/// The media thread's part.
pub(crate) struct DeviceSink {
    stream: StreamFormat,
    link: InUse<PlayLink>,
    /// Sample frames put into this ring.
    pushed: u32,
    /// Sample frames of the longest block so far.
    block: u32,
    period: usize,
    counters: Arc<Counters>,
    clock: Clock,
    keeper: Keeper,
}

/// What a sink is made of before its client is active.
pub(super) struct PlayParts {
    pub side: PlaySide,
    pub end: PlayEnd,
    /// What the media thread keeps of it.
    pub rest: InUse<PlayLink>,
}

impl PlayParts {
    pub fn new(stream: StreamFormat, counters: &Arc<Counters>, clock: Clock) -> Self {
        counters.margin.store(stream.rate() / MARGIN_FIRST, Ordering::Relaxed);
        let (link, end) = PlaySide::ring(stream, counters, &clock);
        let (links, rest) = replaced(link);
        let side = PlaySide { stream, counters: counters.clone(), clock, links };
        PlayParts { side, end, rest }
    }
}

impl DeviceSink {
    /// The sink behind `keeper`, whose client has the other end.
    pub(super) fn new(
        stream: StreamFormat,
        period: u32,
        link: InUse<PlayLink>,
        counters: Arc<Counters>,
        clock: Clock,
        keeper: Keeper,
    ) -> Self {
        DeviceSink { stream, link, pushed: 0, block: 0, period: period as usize, counters, clock, keeper }
    }

    /// Goes over to the ring of another client, if there is one.
    fn follow(&mut self) {
        while self.link.follow() {
            self.pushed = 0;
        }
    }

    /// Sample frames that should wait: a block, and the margin.
    fn target(&self) -> i64 {
        i64::from(self.block) + i64::from(self.counters.margin.load(Ordering::Relaxed))
    }
}

impl Sink for DeviceSink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.follow();
        let frames = block.len() / self.stream.channels();
        self.block = self.block.max(frames as u32);
        self.counters.queue.store(self.target() as u32, Ordering::Relaxed);
        self.link.now.ring.push_entire_slice(block).map_err(|_| SinkError::Overrun { dropped: frames })?;
        self.pushed = self.pushed.wrapping_add(frames as u32);
        if self.wants().is_some_and(|frames| frames < self.block as usize) {
            // Before the queue is as long as it should be, a cycle may find less without a fault.
            self.link.now.beat.flows.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<usize> {
        if self.link.next().is_some() {
            // Another ring is to be filled.
            return Some(MOST_WANTED);
        }
        let taken = self.link.now.beat.taken(self.clock.micros(), self.stream.rate());
        let waiting = i64::from(self.pushed.wrapping_sub(taken.whole) as i32) - i64::from(taken.passed);
        let wants = (self.target() - waiting).clamp(0, MOST_WANTED as i64);
        // What does not fit would be pulled for nothing.
        Some((wants as usize).min(self.room()))
    }

    fn period(&self) -> Option<usize> {
        Some(self.period)
    }

    fn room(&self) -> usize {
        self.link.now.ring.slots() / self.stream.channels()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let room = self.room();
        let taken = usize::try_from(frames).unwrap_or(usize::MAX).min(room);
        if let Ok(chunk) = self.link.now.ring.write_chunk(taken * self.stream.channels()) {
            // A new chunk is full of zeros.
            chunk.commit_all();
            self.pushed = self.pushed.wrapping_add(taken as u32);
        }
        match usize::try_from(frames).unwrap_or(usize::MAX) - taken {
            0 => Ok(()),
            dropped => Err(SinkError::Overrun { dropped }),
        }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.follow();
        self.link.now.beat.flows.store(false, Ordering::Relaxed);
        let capacity = self.link.now.ring.buffer().capacity();
        self.keeper.finish(|| self.link.now.ring.slots() == capacity, self.period, self.stream.rate());
        Ok(())
    }
}

/// A ring for `stream`: more than three of the longest periods, and touched once, so that no cycle meets a page that
/// the system has not given yet.
pub(super) fn ring(stream: StreamFormat) -> (Producer<f32>, Consumer<f32>) {
    let frames = (stream.rate() as usize / 4).max(LONGEST_PERIODS);
    let (mut to, mut from) = RingBuffer::new(frames * stream.channels());
    // A new ring has room for as much as it holds, and then holds it.
    if let Ok(chunk) = to.write_chunk(frames * stream.channels()) {
        chunk.commit_all();
    }
    if let Ok(chunk) = from.read_chunk(frames * stream.channels()) {
        chunk.commit_all();
    }
    (to, from)
}

/// Three times JACK's longest usual period, 4096, and a quarter.
const LONGEST_PERIODS: usize = 13 * 1024;
/// More than any block.
const MOST_WANTED: usize = 8192;
/// The margin begins with this part of a second: 1 ms, what the scheduler of an idle machine stays well below.
const MARGIN_FIRST: u32 = 1000;
/// The margin is at most this part of a second.
const MARGIN_MOST: u32 = 10;
/// Without a device, sound is taken in cycles of this part of a second.
const IDLE_PARTS: u32 = 100;

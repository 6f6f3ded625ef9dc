//! Sound from the media thread to the device: a ring, its ends, and how full it is kept.
//!
//! The device takes a period at once, but the ring is filled as if it took sample frame after sample frame: the media
//! thread hands over blocks evenly, and none waits longer than it must ([`Pacing`]).
//!
//! With [`Pacing::Even`] a block and a margin for threads that come late wait beyond what the next cycle takes; whatever a
//! cycle lacked is added to the margin. With [`Pacing::Cycles`] the last block of a cycle is handed over a margin before the
//! cycle begins, as long as the media thread has needed lately ([`Margin`]). The ring's sound has no time stamps, so the device's
//! end counts what it owes (`PlayEnd::owed`): sound whose cycle is over, which is dropped when it comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use rtrb::{Consumer, Producer, RingBuffer};

use super::beat::{Beat, Taken};
use super::keeper::Keeper;
use super::meter::Counters;
use super::pacing::{Margin, Pacing, Starts};
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
    pacing: Pacing,
    /// Sample frames of the device's time so far.
    taken: u32,
    /// Of them, those whose sound has not come yet; it is dropped when it does.
    owed: usize,
    /// Sample frames for which sound has been handed over.
    flowed: u32,
    counters: Arc<Counters>,
    clock: Clock,
    timeline: Timeline,
    starts: Starts,
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
        there
    }

    /// So many sample frames of the device's time pass without sound. A longer time is not made up for: a media thread that stood still for
    /// that long leaves out what is old by itself.
    fn pass(&mut self, frames: usize) {
        let most = (self.stream.rate() / OWED_MOST) as usize;
        let passed = frames.min(most.saturating_sub(self.owed));
        self.owed += passed;
        self.taken = self.taken.wrapping_add(passed as u32);
    }

    /// Drops sound whose cycle is over.
    fn drop_owed(&mut self) {
        if self.owed > 0 {
            self.owed -= self.take(self.owed, |_, _| {});
        }
    }

    /// A cycle of `frames` lacked `missing` of them, which are silence.
    fn on_underrun(&mut self, frames: usize, missing: usize) {
        if self.pacing == Pacing::Cycles && self.flowed < self.stream.rate() / SETTLES {
            // A media thread that begins a stream has more to do than to hand over its sound.
            return self.pass(missing);
        }
        self.counters.underruns.fetch_add(1, Ordering::Relaxed);
        self.counters.missing.fetch_add(missing as u64, Ordering::Relaxed);
        match self.pacing {
            Pacing::Cycles => self.pass(missing),
            // A longer period finds what was enough for a shorter one, once.
            Pacing::Even if self.period >= frames as u32 => {
                let (most, margin) = (self.stream.rate() / MARGIN_MOST, &self.counters.margin);
                let now = margin.load(Ordering::Relaxed);
                margin.store(now.saturating_add(missing as u32).min(most.max(now)), Ordering::Relaxed);
            }
            Pacing::Even => {}
        }
    }

    /// When a cycle began, in microseconds, which is handled at `now`.
    fn start_of(&mut self, cycle: &dyn Cycle, now: u64) -> u64 {
        let rate = u64::from(self.stream.rate());
        let start = now.saturating_sub(u64::from(cycle.late()) * 1_000_000 / rate);
        match self.pacing {
            Pacing::Even => start,
            Pacing::Cycles => self.starts.on_cycle(start, cycle.frames() as f64 * 1e6 / rate as f64),
        }
    }
}

impl End for PlayEnd {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let (frames, now) = (cycle.frames(), self.clock.micros());
        if cycle.freewheels() {
            self.idle(now);
            return cycle.play_silence(0);
        }
        let flows = self.beat.flows.load(Ordering::Relaxed);
        let lost = self.timeline.lost(cycle, now, self.stream.rate(), &self.counters);
        // Evenly, a player that is behind its schedule after lost cycles catches up by itself.
        if flows && self.pacing == Pacing::Cycles {
            self.pass(lost as usize);
        }
        self.drop_owed();
        self.flowed = if flows { self.flowed.saturating_add(frames as u32) } else { 0 };
        let there = self.take(frames, |from, sound| cycle.play(from, sound));
        self.taken = self.taken.wrapping_add(there as u32);
        if there < frames {
            cycle.play_silence(there);
            if flows {
                self.on_underrun(frames, frames - there);
            }
        }
        self.period = cycle.next() as u32;
        let start = self.start_of(cycle, now);
        self.beat.set(self.taken, start, self.period);
    }

    fn idle(&mut self, now: u64) {
        self.starts.restart();
        self.drop_owed();
        let due = self.timeline.due(now, self.stream.rate(), &self.counters);
        let there = self.take(due as usize, |_, _| {});
        self.taken = self.taken.wrapping_add(there as u32);
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
    pacing: Pacing,
    counters: Arc<Counters>,
    clock: Clock,
    links: Maker<PlayLink>,
}

impl PlaySide {
    fn ring(
        stream: StreamFormat,
        pacing: Pacing,
        counters: &Arc<Counters>,
        clock: &Clock,
    ) -> (PlayLink, PlayEnd) {
        let (ring, taking) = ring(stream);
        let beat = Arc::new(Beat::default());
        let period = counters.period.load(Ordering::Relaxed);
        beat.set(0, clock.micros(), period);
        let end = PlayEnd {
            ring: taking,
            beat: beat.clone(),
            stream,
            pacing,
            taken: 0,
            owed: 0,
            flowed: 0,
            counters: counters.clone(),
            clock: clock.clone(),
            timeline: Timeline::default(),
            starts: Starts::default(),
            period,
        };
        (PlayLink { ring, beat }, end)
    }
}

impl Side for PlaySide {
    fn link(&mut self) -> Box<dyn End> {
        let (link, end) = Self::ring(self.stream, self.pacing, &self.counters, &self.clock);
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
    pacing: Pacing,
    period: usize,
    margin: Margin,
    /// Sample frames of silence in place of those that the device went without.
    missed: u64,
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
    pub fn new(stream: StreamFormat, pacing: Pacing, counters: &Arc<Counters>, clock: Clock) -> Self {
        let margin = match pacing {
            Pacing::Even => stream.rate() / MARGIN_FIRST,
            Pacing::Cycles => match counters.margin_asked.load(Ordering::Relaxed) {
                0 => Margin::least(stream.rate()),
                asked => asked,
            },
        };
        counters.margin.store(margin, Ordering::Relaxed);
        let (link, end) = PlaySide::ring(stream, pacing, counters, &clock);
        let (links, rest) = replaced(link);
        let side = PlaySide { stream, pacing, counters: counters.clone(), clock, links };
        PlayParts { side, end, rest }
    }
}

impl DeviceSink {
    /// The sink behind `keeper`, whose client has the other end.
    pub(super) fn new(
        stream: StreamFormat,
        (pacing, period): (Pacing, u32),
        link: InUse<PlayLink>,
        counters: Arc<Counters>,
        clock: Clock,
        keeper: Keeper,
    ) -> Self {
        let period = period as usize;
        DeviceSink {
            stream,
            link,
            pushed: 0,
            block: 0,
            pacing,
            period,
            margin: Margin::new(stream.rate()),
            missed: 0,
            counters,
            clock,
            keeper,
        }
    }

    /// Goes over to the ring of another client, if there is one.
    fn follow(&mut self) {
        while self.link.follow() {
            self.pushed = 0;
        }
    }

    /// Sample frames for which sound is played later: a block, or what of a cycle is handed over before its last block; and the
    /// margin.
    fn target(&self, period: u32) -> u32 {
        let margin = self.counters.margin.load(Ordering::Relaxed);
        match self.pacing {
            Pacing::Even => self.block + margin,
            Pacing::Cycles => period.saturating_sub(self.block) + margin,
        }
    }

    fn taken(&self) -> Taken {
        self.link.now.beat.taken(self.clock.micros(), self.stream.rate())
    }

    /// Sample frames that have been handed over beyond what the device has taken in whole cycles.
    fn ahead(&self, taken: Taken) -> i64 {
        i64::from(self.pushed.wrapping_sub(taken.whole) as i32)
    }

    fn wants_of(&self, taken: Taken) -> Wants {
        let (ahead, passed) = (self.ahead(taken), i64::from(taken.passed));
        let within = |frames: i64| frames.clamp(0, MOST_WANTED as i64) as usize;
        match self.pacing {
            Pacing::Even => Wants::any(within(i64::from(self.target(taken.period)) - ahead + passed)),
            Pacing::Cycles => {
                let (margin, period) =
                    (self.counters.margin.load(Ordering::Relaxed), i64::from(taken.period.max(1)));
                // What is behind is over.
                let (ahead, behind) = (ahead.max(0), (-ahead).max(0));
                let block = (period - ahead % period) as usize;
                let missed = self.missed + behind as u64;
                Wants { frames: within(passed + i64::from(margin) - ahead), block, missed }
            }
        }
    }

    /// Before `frames` of a cycle are handed over: the margin follows how late that is; and silence takes the place of what was
    /// missed, which the device's end drops.
    fn follow_cycles(&mut self, frames: usize) {
        let taken = self.taken();
        let (ahead, margin) = (self.ahead(taken), self.counters.margin.load(Ordering::Relaxed));
        let late = i64::from(taken.passed) + i64::from(margin) - ahead - frames as i64;
        let late = late.clamp(0, i64::from(self.stream.rate())) as u32;
        let underruns = self.counters.underruns.load(Ordering::Relaxed);
        if self.counters.margin_asked.load(Ordering::Relaxed) == 0 {
            let margin = self.margin.on_block(self.clock.micros(), margin, late, underruns);
            self.counters.margin.store(margin, Ordering::Relaxed);
        }
        if ahead < 0 {
            let frames = (-ahead as usize).min(self.room());
            if let Ok(chunk) = self.link.now.ring.write_chunk(frames * self.stream.channels()) {
                // A new chunk is full of zeros.
                chunk.commit_all();
                self.pushed = self.pushed.wrapping_add(frames as u32);
                self.missed += frames as u64;
            }
        }
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
        let period = self.taken().period;
        self.counters.queue.store(self.target(period), Ordering::Relaxed);
        if self.pacing == Pacing::Cycles {
            self.follow_cycles(frames);
        }
        self.link.now.ring.push_entire_slice(block).map_err(|_| SinkError::Overrun { dropped: frames })?;
        self.pushed = self.pushed.wrapping_add(frames as u32);
        if self.wants().is_some_and(|wants| wants.frames < wants.block.min(self.block as usize)) {
            // Before the queue is as long as it should be, a cycle may find less without a fault.
            self.link.now.beat.flows.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<Wants> {
        if self.link.next().is_some() {
            // Another ring is to be filled.
            return Some(Wants::any(MOST_WANTED));
        }
        let wants = self.wants_of(self.taken());
        // What does not fit would be pulled for nothing.
        Some(Wants { frames: wants.frames.min(self.room()), ..wants })
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
/// In this part of a second at the beginning of a stream, cycles that lack sound are not counted.
const SETTLES: u32 = 1;
/// The margin of what is handed over evenly is at most this part of a second.
const MARGIN_MOST: u32 = 10;
/// Of this part of a second sound is owed at most: more than a player leaves out by itself (100 ms), and less than the ring
/// holds.
const OWED_MOST: u32 = 8;
/// Without a device, sound is taken in cycles of this part of a second.
const IDLE_PARTS: u32 = 100;

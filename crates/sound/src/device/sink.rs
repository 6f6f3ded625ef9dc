//! The media thread's end of the way to a device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};

use super::beat::Taken;
use super::keeper::Keeper;
use super::meter::Counters;
use super::pacing::{Margin, Pacing};
use super::play::PlayLink;
use super::replaced::InUse;
use crate::os::Clock;

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
        let early = (self.stream.rate() / EARLY) as usize;
        match self.pacing {
            Pacing::Even => {
                let wanted = i64::from(self.target(taken.period)) - ahead + passed;
                Wants { ahead: within(-wanted), early, ..Wants::any(within(wanted)) }
            }
            Pacing::Cycles => {
                let (margin, period) =
                    (self.counters.margin.load(Ordering::Relaxed), i64::from(taken.period.max(1)));
                // What is behind is over.
                let (ahead, behind) = (ahead.max(0), (-ahead).max(0));
                let block = (period - ahead % period) as usize;
                let missed = self.missed + behind as u64;
                let wanted = passed + i64::from(margin) - ahead;
                Wants {
                    frames: within(wanted),
                    block,
                    missed,
                    margin: margin as usize,
                    ahead: within(-wanted),
                    early,
                    slipped: 1_000 * self.counters.slipped.load(Ordering::Relaxed),
                }
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
        // Read in this order: none of the first second is taken for a later one.
        let all = self.counters.underruns.load(Ordering::Relaxed);
        let underruns = all.saturating_sub(self.counters.settling.load(Ordering::Relaxed));
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
        // In sample frames of the server, which may have another rate than at first.
        let (own, server) = (self.stream.rate(), self.counters.rate.load(Ordering::Relaxed));
        let server = if server > 0 { server } else { own };
        let queue = u64::from(self.target(period)) * u64::from(server) / u64::from(own);
        self.counters.queue.store(queue as u32, Ordering::Relaxed);
        if self.pacing == Pacing::Cycles {
            self.follow_cycles(frames);
            let sounds = &self.link.now.beat.sounds;
            if !sounds.load(Ordering::Relaxed) && block.iter().any(|sample| *sample != 0.0) {
                sounds.store(true, Ordering::Relaxed);
            }
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
        let room = self.room();
        Some(Wants { frames: wants.frames.min(room), early: wants.early.min(wants.ahead + room), ..wants })
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
        self.link.now.beat.sounds.store(false, Ordering::Relaxed);
        let capacity = self.link.now.ring.buffer().capacity();
        self.keeper.finish(|| self.link.now.ring.slots() == capacity, self.period, self.stream.rate());
        Ok(())
    }
}

/// Sound that has come is handed over by at most this part of a second before it is due: 20 ms, for which a thread is seldom held up, and nobody hears
/// how long a change of it takes.
const EARLY: u32 = 50;
/// More than any block.
const MOST_WANTED: usize = 8192;

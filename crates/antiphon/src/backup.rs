//! A second source that takes over while the first one is silent or gives nothing.
//!
//! The first source goes on being pulled, so that its sound is noticed, and paces the sender if it is live. A live source
//! that gives nothing cannot pace anybody: for that time the source as a whole is no live one, and the run's clock paces the
//! sender.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::{Pull, Ready, SampleFormat, Source, StreamFormat, Wake};
use antiphon_net::OsClock;

/// What takes over from a silent source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// URI of the source that takes over.
    pub source: String,
    /// After so long of digital silence, or of nothing at all.
    pub after: Duration,
}

impl Backup {
    /// How long the first source may be silent if nothing else is said.
    pub const AFTER: Duration = Duration::from_secs(2);
}

/// Whether the backup plays; for any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackupMeter(Arc<AtomicBool>);

impl BackupMeter {
    pub fn plays(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time that the media thread has; another in tests.
pub(crate) trait Clock: Send {
    fn now(&self) -> Instant;
}

impl Clock for OsClock {
    fn now(&self) -> Instant {
        OsClock::now(self)
    }
}

/// The first source with one that takes over.
pub(crate) struct BackedUp<C> {
    first: Box<dyn Source>,
    second: Box<dyn Source>,
    after: Duration,
    /// The same in sample frames.
    after_frames: u64,
    clock: C,
    /// Sample frames of digital silence that the first has given last.
    silent: u64,
    /// When the first has given something new, and what it had ready then.
    heard: Cell<(Instant, usize)>,
    ended: Cell<bool>,
    /// Share of the second source in the next sample frame.
    share: f32,
    step: f32,
    /// A block of the second source.
    block: Vec<f32>,
    meter: BackupMeter,
}

impl<C: Clock> BackedUp<C> {
    /// Both have the same format. `most_frames`: of a block that is pulled.
    pub fn new(
        first: Box<dyn Source>,
        second: Box<dyn Source>,
        after: Duration,
        most_frames: usize,
        clock: C,
    ) -> (Self, BackupMeter) {
        let (format, meter) = (first.format(), BackupMeter::default());
        let source = BackedUp {
            after,
            after_frames: (after.as_secs_f64() * f64::from(format.rate())) as u64,
            silent: 0,
            heard: Cell::new((clock.now(), 0)),
            ended: Cell::new(false),
            share: 0.0,
            step: 1.0 / (format.rate() as f32 * FADE_S),
            block: vec![0.0; most_frames * format.channels()],
            meter: meter.clone(),
            first,
            second,
            clock,
        };
        (source, meter)
    }

    /// Whether the first source gives sound, be it silence; it may have stopped for a moment.
    fn first_gives(&self) -> bool {
        let (now, ready) = (self.clock.now(), self.first.ready());
        let (mut since, before) = self.heard.get();
        // What has been ready all the time is no sign of life.
        if ready.frames != before {
            since = now;
            self.heard.set((since, ready.frames));
        }
        if ready.ended && ready.frames == 0 {
            self.ended.set(true);
        }
        !self.ended.get() && now.since(since) < self.after
    }

    /// Pulls the first source, and counts its silence. Returns how many sample frames it gave.
    fn pull_first(&mut self, block: &mut [f32]) -> Pull {
        if self.ended.get() {
            return Pull::End;
        }
        let pulled = self.first.pull(block);
        match pulled {
            Pull::Frames(frames) => {
                self.heard.set((self.clock.now(), self.first.ready().frames));
                let sound = &block[..frames * self.first.format().channels()];
                let silence = sound.iter().all(|sample| *sample == 0.0);
                self.silent = if silence { self.silent + frames as u64 } else { 0 };
            }
            Pull::Starved => {}
            Pull::End => self.ended.set(true),
        }
        pulled
    }

    /// Blends the second source into what the first gave, which is `frames` sample frames.
    fn blend(&mut self, block: &mut [f32], frames: usize, wanted: bool) {
        let channels = self.first.format().channels();
        let goal: f32 = if wanted { 1.0 } else { 0.0 };
        self.meter.0.store(wanted, Ordering::Relaxed);
        if self.share == 0.0 && !wanted {
            // A live one must not be old when it is wanted.
            if self.second.is_live() {
                self.second.keep_newest(frames);
            }
            return;
        }
        let samples = (frames * channels).min(self.block.len());
        let got = match self.second.pull(&mut self.block[..samples]) {
            Pull::Frames(got) => got * channels,
            Pull::Starved | Pull::End => 0,
        };
        self.block[got..].fill(0.0);
        for (frame, other) in
            block.chunks_exact_mut(channels).zip(self.block.chunks_exact(channels)).take(frames)
        {
            self.share += (goal - self.share).clamp(-self.step, self.step);
            for (sample, other) in frame.iter_mut().zip(other) {
                *sample = *sample * (1.0 - self.share) + other * self.share;
            }
        }
    }

    /// The first gives nothing: a block of the second alone.
    fn pull_second(&mut self, block: &mut [f32]) -> Pull {
        let whole = block.len() / self.first.format().channels();
        let ready = self.second.ready();
        if ready.ended && ready.frames == 0 {
            return if self.ended.get() { Pull::End } else { Pull::Starved };
        }
        let frames = whole.min(ready.frames);
        if frames == 0 {
            return Pull::Starved;
        }
        let len = frames * self.first.format().channels();
        block[..len].fill(0.0);
        self.blend(block, frames, true);
        Pull::Frames(frames)
    }
}

impl<C: Clock> Source for BackedUp<C> {
    fn format(&self) -> StreamFormat {
        self.first.format()
    }

    fn sample_format(&self) -> SampleFormat {
        self.first.sample_format()
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        match self.pull_first(block) {
            Pull::Frames(frames) => {
                let wanted = self.silent >= self.after_frames;
                self.blend(block, frames, wanted);
                Pull::Frames(frames)
            }
            Pull::Starved if self.first_gives() => Pull::Starved,
            Pull::Starved | Pull::End => self.pull_second(block),
        }
    }

    fn length(&self) -> Option<u64> {
        // The second goes on where the first ends.
        None
    }

    fn is_live(&self) -> bool {
        self.first.is_live() && self.first_gives()
    }

    fn ready(&self) -> Ready {
        if self.first_gives() { self.first.ready() } else { self.second.ready() }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        self.first.keep_newest(frames)
    }

    fn set_waker(&mut self, wake: Wake) {
        self.first.set_waker(wake);
    }
}

/// How long the sources fade into each other, in seconds.
const FADE_S: f32 = 0.02;

#[cfg(test)]
mod tests;

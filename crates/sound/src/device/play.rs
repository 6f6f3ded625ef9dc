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

use antiphon_media::StreamFormat;
use rtrb::{Consumer, Producer, RingBuffer};

use super::beat::Beat;
use super::meter::Counters;
use super::pacing::{Margin, Pacing, Starts};
use super::replaced::{InUse, Maker, replaced};
use super::timeline::{Begun, Timeline};
use super::{Cycle, End, Side};
use crate::os::Clock;

/// The media thread's end of a ring.
pub(super) struct PlayLink {
    pub ring: Producer<f32>,
    pub beat: Arc<Beat>,
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
    /// Whether an earlier cycle could have had sound of the stream.
    sounded: bool,
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
            if !self.sounded {
                // Nothing has been heard of the stream yet.
                return self.pass(missing);
            }
            // A media thread that begins a stream has more to do than to hand over its sound: it needs no longer margin for that.
            self.counters.settling.fetch_add(1, Ordering::Relaxed);
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

    /// When a cycle began by the server's clock, in microseconds.
    fn start_of(&mut self, begun: Begun) -> u64 {
        match self.pacing {
            Pacing::Even => begun.start.max(0.0) as u64,
            Pacing::Cycles => {
                let start = self.starts.on_cycle(begun);
                self.counters.slipped.fetch_add(self.starts.take_lost(), Ordering::Relaxed);
                start
            }
        }
    }
}

impl End for PlayEnd {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let mut begun = Begun::of(cycle, &self.clock, self.stream.rate());
        let frames = cycle.frames();
        if cycle.freewheels() {
            self.idle(begun.now);
            return cycle.play_silence(0);
        }
        let flows = self.beat.flows.load(Ordering::Relaxed);
        let lost = self.timeline.lost(cycle, &mut begun, self.stream.rate(), &self.counters);
        // Evenly, a player that is behind its schedule after lost cycles catches up by itself.
        if flows && self.pacing == Pacing::Cycles {
            self.pass(lost as usize);
            self.starts.on_made_up(f64::from(lost) * 1e6 / f64::from(self.stream.rate()) - begun.passed_by);
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
        self.sounded = self.beat.sounds.load(Ordering::Relaxed);
        self.period = cycle.next() as u32;
        let start = self.start_of(begun);
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
            sounded: false,
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
/// The margin begins with this part of a second: 1 ms, what the scheduler of an idle machine stays well below.
const MARGIN_FIRST: u32 = 1000;
/// In this part of a second at the beginning of a stream, cycles that lack sound do not make the margin longer.
const SETTLES: u32 = 1;
/// The margin of what is handed over evenly is at most this part of a second.
const MARGIN_MOST: u32 = 10;
/// Of this part of a second sound is owed at most: more than a player leaves out by itself (100 ms), and less than the ring
/// holds.
const OWED_MOST: u32 = 8;
/// Without a device, sound is taken in cycles of this part of a second.
const IDLE_PARTS: u32 = 100;

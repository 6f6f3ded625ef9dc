//! Sound from the device to the media thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use antiphon_media::{Pull, Ready, SampleFormat, Source, Splice, StreamFormat, Wake};
use rtrb::{Consumer, Producer};

use super::keeper::Keeper;
use super::meter::Counters;
use super::pacing::Pacing;
use super::play::ring;
use super::replaced::{InUse, Maker, replaced};
use super::timeline::{Begun, Timeline};
use super::{Cycle, End, Side};
use crate::os::Clock;

/// Wakes the media thread; set once, before sound is waited for.
pub(super) type SharedWake = Arc<OnceLock<Wake>>;

/// The device's end of a ring.
pub(super) struct CaptureEnd {
    ring: Producer<f32>,
    stream: StreamFormat,
    counters: Arc<Counters>,
    wake: SharedWake,
    clock: Clock,
    timeline: Timeline,
}

impl CaptureEnd {
    /// Puts `frames` sample frames into the ring, which `fill` writes in up to two pieces; if there is no room, none.
    fn put(&mut self, frames: usize, mut fill: impl FnMut(usize, &mut [f32])) {
        let channels = self.stream.channels();
        match self.ring.write_chunk(frames * channels) {
            Ok(mut chunk) => {
                // Whole sample frames are written, so a piece holds whole ones, too.
                let (first, second) = chunk.as_mut_slices();
                let before = first.len() / channels;
                fill(0, first);
                fill(before, second);
                chunk.commit_all();
            }
            Err(_) => {
                self.counters.overflowed.fetch_add(frames as u64, Ordering::Release);
                // Before sending begins, nobody wants it.
                if self.counters.fetched.load(Ordering::Relaxed) {
                    self.counters.dropped.fetch_add(frames as u64, Ordering::Relaxed);
                }
            }
        }
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

impl CaptureEnd {
    /// So many sample frames of silence, as far as there is room.
    fn put_silence(&mut self, frames: u32) {
        let room = self.ring.slots() / self.stream.channels();
        // A new piece of the ring is full of zeros.
        self.put((frames as usize).min(room), |_, _| {});
    }
}

impl End for CaptureEnd {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let mut begun = Begun::of(cycle, &self.clock, self.stream.rate());
        if cycle.freewheels() {
            return self.idle(begun.now);
        }
        let lost = self.timeline.lost(cycle, &mut begun, self.stream.rate(), &self.counters);
        if lost > 0 {
            // Silence takes the place of cycles that were lost, so that the sound after them keeps its time.
            self.counters.underruns.fetch_add(1, Ordering::Relaxed);
            self.counters.missing.fetch_add(lost.into(), Ordering::Relaxed);
            self.put_silence(lost);
        }
        self.put(cycle.frames(), |from, sound| cycle.capture(from, sound));
    }

    fn idle(&mut self, now: u64) {
        let due = self.timeline.due(now, self.stream.rate(), &self.counters);
        if due > 0 {
            self.put_silence(due);
        }
    }

    fn lacks(&self, _frames: usize) -> usize {
        0
    }
}

/// Makes rings, on the thread that watches the server.
pub(super) struct CaptureSide {
    stream: StreamFormat,
    counters: Arc<Counters>,
    wake: SharedWake,
    clock: Clock,
    rings: Maker<Consumer<f32>>,
}

/// A ring for what is captured, and its two ends.
fn captured(
    stream: StreamFormat,
    counters: &Arc<Counters>,
    wake: &SharedWake,
    clock: &Clock,
) -> (Consumer<f32>, CaptureEnd) {
    let (ring, there) = ring(stream);
    let (counters, wake, clock) = (counters.clone(), wake.clone(), clock.clone());
    (there, CaptureEnd { ring, stream, counters, wake, clock, timeline: Timeline::default() })
}

impl Side for CaptureSide {
    fn link(&mut self) -> Box<dyn End> {
        let (ring, end) = captured(self.stream, &self.counters, &self.wake, &self.clock);
        self.rings.hand_over(ring);
        Box::new(end)
    }

    fn collect(&mut self) {
        self.rings.collect();
    }
}

/// The media thread's part.
pub(crate) struct DeviceSource {
    stream: StreamFormat,
    pacing: Pacing,
    ring: InUse<Consumer<f32>>,
    wake: SharedWake,
    splice: Splice,
    /// Whether anything was pulled: before that there is no sound to blend with.
    begun: bool,
    /// The part of [`Counters::overflowed`] that has been reported.
    told: u64,
    counters: Arc<Counters>,
    _keeper: Keeper,
}

/// What a source is made of before its client is active.
pub(super) struct CaptureParts {
    pub side: CaptureSide,
    pub end: CaptureEnd,
    pub rest: SourceRest,
}

impl CaptureParts {
    pub fn new(stream: StreamFormat, counters: &Arc<Counters>, clock: Clock) -> Self {
        let wake = SharedWake::default();
        let (ring, end) = captured(stream, counters, &wake, &clock);
        let (rings, ring) = replaced(ring);
        let side = CaptureSide { stream, counters: counters.clone(), wake: wake.clone(), clock, rings };
        CaptureParts { side, end, rest: SourceRest { ring, wake } }
    }
}

/// What the media thread keeps of it.
pub(super) struct SourceRest {
    ring: InUse<Consumer<f32>>,
    wake: SharedWake,
}

impl DeviceSource {
    /// The source behind `keeper`, whose client has the other end.
    pub(super) fn new(
        stream: StreamFormat,
        pacing: Pacing,
        rest: SourceRest,
        counters: Arc<Counters>,
        keeper: Keeper,
    ) -> Self {
        let SourceRest { ring, wake } = rest;
        DeviceSource {
            stream,
            pacing,
            ring,
            wake,
            splice: Splice::new(stream),
            begun: false,
            told: 0,
            counters,
            _keeper: keeper,
        }
    }
}

impl DeviceSource {
    /// Sample frames that the server gives at a time: a period, which may change. 0 where it gives them as it likes.
    fn piece(&self) -> usize {
        let (period, rate) =
            (self.counters.period.load(Ordering::Relaxed), self.counters.rate.load(Ordering::Relaxed));
        match self.pacing {
            Pacing::Cycles if rate > 0 => {
                (u64::from(period) * u64::from(self.stream.rate())).div_ceil(rate.into()) as usize
            }
            Pacing::Cycles | Pacing::Even => 0,
        }
    }
}

impl Source for DeviceSource {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn sample_format(&self) -> SampleFormat {
        // What converters of sound cards give.
        SampleFormat::L24
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.stream.channels();
        let wanted = block.len() - block.len() % channels;
        let mut filled = 0;
        loop {
            let (got, rest) = self.ring.now.pop_partial_slice(&mut block[filled..wanted]);
            filled += got.len();
            // What the ring of a client before holds is older.
            if rest.is_empty() || !self.ring.follow() {
                break;
            }
        }
        if filled == 0 {
            return Pull::Starved;
        }
        self.begun = true;
        self.counters.fetched.store(true, Ordering::Relaxed);
        self.splice.join(&mut block[..filled]);
        Pull::Frames(filled / channels)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        let next = self.ring.next().map_or(0, Consumer::slots);
        let frames = (self.ring.now.slots() + next) / self.stream.channels();
        Ready { frames, ended: false, piece: self.piece() }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let channels = self.stream.channels();
        let mut before = 0;
        while self.ring.next().is_some() {
            before += self.ring.now.slots() / channels;
            self.ring.follow();
        }
        let overflowed = self.counters.overflowed.load(Ordering::Acquire) != self.told;
        let there = self.ring.now.slots() / channels;
        // Sound in a full ring is older than the sound dropped for lack of room.
        let keep = if overflowed { 0 } else { frames.min(there) };
        if let Ok(chunk) = self.ring.now.read_chunk((there - keep) * channels) {
            if self.begun && !chunk.is_empty() {
                self.splice.leave_out(chunk.as_slices());
            }
            chunk.commit_all();
        }
        let dropped = self.counters.overflowed.load(Ordering::Acquire);
        let untold = dropped - self.told;
        self.told = dropped;
        (before + there - keep) as u64 + untold
    }

    fn set_waker(&mut self, wake: Wake) {
        // A source has one waker for its life; a second one would be a fault of the caller, and the first still wakes it.
        let _set_before = self.wake.set(wake);
    }
}

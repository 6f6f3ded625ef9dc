//! Adds the sound of several parties for one sink, which sets the pace.
//!
//! Each party's receive track plays into a sink of its own, an input of the mixer. All inputs want sound up to the same
//! sample frame of the sink's clock, so what they give for it belongs together, whatever blocks they give it in. The mixer asks
//! for a block when the sink does, and adds what came.
//!
//! The sum has no headroom taken away beforehand: one party is as loud as in a call of two, and several that speak at once are
//! added as they are. Where the sum would pass full scale, a limiter turns it down, so that nothing is clipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::playout::pull_frames;
use antiphon_media::{ChannelMap, Sink, SinkError, StreamFormat, Wants};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::pace::{DueBlock, Pace};
use crate::player::SINK_BLOCK_FRAMES;
use crate::receive_track::OpenSink;

/// Figures of a mixer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MixerCounters {
    /// Sample frames handed to the sink.
    pub frames: u64,
    /// Sample frames in which the limiter had to turn the sum further down.
    pub limited_frames: u64,
    /// Sample frames that the sink dropped, as it was too slow.
    pub overrun_frames: u64,
}

/// A sink that several parties play to.
pub(crate) struct Mixer {
    sink: Box<dyn Sink>,
    pace: Pace,
    asks: Arc<Asks>,
    /// The block that is made.
    sum: Vec<f32>,
    limiter: Limiter,
    counters: MixerCounters,
}

/// What every input is asked for.
#[derive(Default)]
struct Asks {
    /// Sample frames that it is to have given, counted from the mixer's beginning.
    wanted: AtomicU64,
    /// Sample frames that the sink has gone without, in all: every input leaves them out.
    missed: AtomicU64,
    /// What the sink's clock has lost at once ([`Wants::slipped`]).
    slipped: AtomicI64,
}

/// What one party plays, on its way to the sum.
pub(crate) struct Input {
    ring: Consumer<f32>,
    peak: Arc<AtomicU32>,
}

impl Mixer {
    /// For `sink`, from `now` on. `packet`: sample frames in a packet of ours, which those of the others are likely to have; a
    /// block is no longer.
    pub fn new(sink: Box<dyn Sink>, packet: usize, now: Instant) -> Self {
        let format = sink.format();
        let block = pull_frames(packet, sink.period()).min(SINK_BLOCK_FRAMES);
        Mixer {
            pace: Pace::new(format.rate(), block, now),
            asks: Arc::default(),
            sum: vec![0.0; block * format.channels()],
            limiter: Limiter::new(format.rate()),
            counters: MixerCounters::default(),
            sink,
        }
    }

    /// An input, and what opens its sink. Allocates its memory.
    pub fn input(&self) -> (Input, OpenSink) {
        let (mix, block) = (self.format(), self.block());
        // A party whose blocks do not fit into ours is ahead by less than one of its own.
        let (given, ring) = RingBuffer::new((block + 2 * SINK_BLOCK_FRAMES) * mix.channels());
        let peak = Arc::<AtomicU32>::default();
        let (mut given, asks, meter) = (Some(given), self.asks.clone(), peak.clone());
        let open: OpenSink = Box::new(move |format, _sample| {
            let map = ChannelMap::standard(format.channels(), mix.channels()).map_err(|e| e.to_string())?;
            let own = StreamFormat::new(mix.rate(), format.channels() as u32).map_err(|e| e.to_string())?;
            let ring = given.take().ok_or("an input of a mixer has one sink")?;
            Ok(Box::new(InputSink {
                ring,
                block,
                format: own,
                mapped: vec![0.0; SINK_BLOCK_FRAMES * map.outputs()],
                map,
                given: asks.wanted.load(Ordering::Relaxed),
                missed_before: asks.missed.load(Ordering::Relaxed),
                asks: asks.clone(),
                peak: meter.clone(),
            }))
        });
        (Input { ring, peak }, open)
    }

    /// Rate and channels of the sum.
    pub fn format(&self) -> StreamFormat {
        self.sink.format()
    }

    /// Sample frames in a block at most.
    pub fn block(&self) -> usize {
        self.pace.block()
    }

    /// A sink at the run's pace gets silence for a time in which the machine stood still: nobody's sound is that old.
    ///
    /// # Errors
    ///
    /// If the sink failed.
    pub fn catch_up(&mut self, now: Instant) -> Result<(), SinkError> {
        if self.sink.wants().is_some() {
            return Ok(());
        }
        let frames = self.pace.leave_out(now, STOOD_STILL);
        self.counters.frames += frames;
        if frames > 0 { self.sink.silence(frames) } else { Ok(()) }
    }

    /// The block that the sink is to get now, if there is one.
    pub fn due(&mut self, now: Instant) -> Option<DueBlock> {
        let wants = self.sink.wants();
        wants.iter().for_each(|wants| self.asks.slipped.store(wants.slipped, Ordering::Relaxed));
        self.pace.due(now, wants)
    }

    /// The block that is due next, if the sink takes it before.
    pub fn early(&mut self, now: Instant) -> Option<DueBlock> {
        self.pace.early(now, self.sink.wants()?)
    }

    /// Begins a block: the inputs want it, and [`Self::push`] is to follow.
    pub fn begin(&mut self, DueBlock { frames, missed, .. }: DueBlock) {
        self.asks.missed.fetch_add(missed, Ordering::Relaxed);
        self.asks.wanted.fetch_add(frames as u64, Ordering::Relaxed);
        // Room for the longest block was made at the beginning.
        self.sum.clear();
        self.sum.resize(frames * self.sink.format().channels(), 0.0);
    }

    /// Adds what an input gave for the block; what it did not give is silence.
    pub fn add(&mut self, input: &mut Input) {
        let ready = input.ring.slots().min(self.sum.len());
        let Ok(chunk) = input.ring.read_chunk(ready) else { return };
        let (first, second) = chunk.as_slices();
        for (sum, sample) in self.sum.iter_mut().zip(first.iter().chain(second)) {
            *sum += sample;
        }
        chunk.commit_all();
    }

    /// Hands the sum to the sink.
    ///
    /// # Errors
    ///
    /// If the sink failed. Sample frames that it drops are counted.
    pub fn push(&mut self) -> Result<(), SinkError> {
        let channels = self.format().channels();
        self.counters.limited_frames += self.limiter.apply(&mut self.sum, channels);
        self.counters.frames += (self.sum.len() / channels) as u64;
        match self.sink.push(&self.sum) {
            Err(SinkError::Overrun { dropped }) => {
                self.counters.overrun_frames += dropped as u64;
                Ok(())
            }
            result => result,
        }
    }

    /// When the sink is to be asked again.
    pub fn poll_timeout(&self) -> Instant {
        self.pace.next()
    }

    pub fn counters(&self) -> MixerCounters {
        self.counters
    }

    /// The sink, to be finished off the media thread.
    pub fn into_sink(self) -> Box<dyn Sink> {
        self.sink
    }
}

impl Input {
    /// The highest sample since this was last called.
    pub fn take_peak(&self) -> f32 {
        f32::from_bits(self.peak.swap(0, Ordering::Relaxed))
    }
}

/// The end of an input that a receive track plays to.
struct InputSink {
    ring: Producer<f32>,
    /// Sample frames that the mixer takes at a time.
    block: usize,
    format: StreamFormat,
    map: ChannelMap,
    mapped: Vec<f32>,
    given: u64,
    asks: Arc<Asks>,
    /// What the mixer's sink had gone without before this input began.
    missed_before: u64,
    peak: Arc<AtomicU32>,
}

impl Sink for InputSink {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let (inputs, mut dropped) = (self.map.inputs(), 0);
        for part in block.chunks(SINK_BLOCK_FRAMES * inputs) {
            let frames = self.map.apply(part, &mut self.mapped);
            let sound = &mut self.mapped[..frames * self.map.outputs()];
            // A float stream may hold any number; a few of them must not make the sum one that is none.
            sound.iter_mut().for_each(|sample| *sample = sample.clamp(-1.0, 1.0));
            let peak = sound.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            // Of numbers that are not negative the larger one has the larger bits.
            self.peak.fetch_max(peak.to_bits(), Ordering::Relaxed);
            self.given += frames as u64;
            if self.ring.slots() < sound.len() {
                dropped += frames;
            } else {
                let _all_of_it = self.ring.push_partial_slice(sound);
            }
        }
        if dropped > 0 { Err(SinkError::Overrun { dropped }) } else { Ok(()) }
    }

    fn clocked(&self) -> bool {
        true
    }

    /// A whole block, however long the track's blocks are, until it has given what is wanted.
    fn wants(&self) -> Option<Wants> {
        let Asks { wanted, missed, slipped } = &*self.asks;
        let gives = self.given < wanted.load(Ordering::Relaxed);
        Some(Wants {
            missed: missed.load(Ordering::Relaxed) - self.missed_before,
            slipped: slipped.load(Ordering::Relaxed),
            ..Wants::any(if gives { SINK_BLOCK_FRAMES } else { 0 })
        })
    }

    fn period(&self) -> Option<usize> {
        Some(self.block)
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, _frames: u64) -> Result<(), SinkError> {
        // Only recordings have gaps that no buffer spans.
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Turns sound down where it would pass full scale: at once, and up again slowly.
///
/// It adds no delay: the gain falls with the first sample that is too high and rises with a time constant, so the first peak is cut
/// off and those that follow keep their shape.
#[derive(Clone, Copy, Debug)]
struct Limiter {
    gain: f32,
    /// Share of the missing gain that comes back with each sample frame.
    release: f32,
}

impl Limiter {
    fn new(rate: u32) -> Self {
        Limiter { gain: 1.0, release: 1.0 - (-1.0 / (RELEASE_S * rate as f32)).exp() }
    }

    /// Returns the number of sample frames in which the gain had to fall.
    fn apply(&mut self, sound: &mut [f32], channels: usize) -> u64 {
        let mut fell = 0;
        for frame in sound.chunks_exact_mut(channels) {
            let peak = frame.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            if self.gain < 1.0 {
                self.gain += (1.0 - self.gain) * self.release;
                self.gain = if self.gain > UNITY { 1.0 } else { self.gain };
            }
            if peak * self.gain > CEILING {
                self.gain = CEILING / peak;
                fell += 1;
            }
            if self.gain < 1.0 {
                frame.iter_mut().for_each(|sample| *sample *= self.gain);
            }
        }
        fell
    }
}

/// Longer than any stall that sound survives.
const STOOD_STILL: Duration = Duration::from_secs(2);
/// The highest sample of 16 bits, so that a sink of any format takes it as it is.
const CEILING: f32 = 32_767.0 / 32_768.0;
/// How long the gain takes to come back, as a time constant: longer than the period of any audible frequency, so that a low tone
/// is not bent, and short enough for speech that follows a shout.
const RELEASE_S: f32 = 0.2;
/// A gain from here on is none: 0.001 dB.
const UNITY: f32 = 0.9999;

#[cfg(test)]
mod tests;

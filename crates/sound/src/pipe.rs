//! Sound from a pipe, read on a separate thread.
//!
//! A pipe's source is a microphone or a file, and only its pace shows which ([`LiveMeter`]). A full ring stops a file
//! until it is pulled: none of it may be left out. A microphone can't be stopped, as its sound would become old in the
//! pipe and in the writing program: the thread continues reading, and drops what does not fit.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use antiphon_core::{Instant, MediaTime};
use antiphon_media::{LiveMeter, Liveness, Pull, Ready, SampleFormat, Source, Splice, StreamFormat, Wake};
use rtrb::{Producer, RingBuffer};

use crate::decode::Decode;
use crate::os;
use crate::stream::{REST, StreamSource, ring_samples, start_thread};
use crate::{Notes, OpenError};

/// The input of a pipe, and how to examine it.
pub(crate) struct Piped {
    pub decoder: Box<dyn Decode>,
    /// The pipe, to be shortened if it is live, and the bytes that it should hold then.
    pub pipe: Option<(File, usize)>,
    /// Whether it is live, if known independently of its pace.
    pub live: Option<bool>,
    /// The time; passed in so that tests control it.
    pub clock: Box<dyn Fn() -> Instant + Send>,
}

/// State shared by both threads.
#[derive(Default)]
struct Shared {
    live: AtomicBool,
    /// Sample frames dropped for lack of room.
    dropped: AtomicU64,
    /// Set once, before sound is waited for: the reading thread never waits for this lock.
    wake: Mutex<Option<Wake>>,
}

impl Shared {
    fn wake(&self) {
        if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }
}

/// The part on the media thread.
pub(crate) struct PipeSource {
    from: StreamSource,
    shared: Arc<Shared>,
    splice: Splice,
    /// Whether anything was pulled: before that there is no sound to blend with.
    begun: bool,
    /// The part of [`Shared::dropped`] that has already been reported.
    told: u64,
}

impl PipeSource {
    /// Starts the reading thread. Does not read here, as a pipe's first bytes may come late.
    pub fn start(piped: Piped, notes: &Notes) -> Result<Self, OpenError> {
        let decoder = piped.decoder;
        let (stream, sample, length) = (decoder.format(), decoder.sample_format(), decoder.length());
        let (producer, ring) = RingBuffer::new(ring_samples(stream));
        let shared = Arc::new(Shared::default());
        shared.live.store(piped.live == Some(true), Ordering::Relaxed);
        let room = (ring_samples(stream) / stream.channels()) as u64;
        let meter = LiveMeter::new(stream.rate(), MediaTime::new(room, stream.rate()).duration());
        let feeder = Feeder {
            decoder,
            pipe: piped.pipe,
            ring: producer,
            pending: Vec::new(),
            meter: piped.live.is_none().then_some(meter),
            clock: piped.clock,
            shared: shared.clone(),
            notes: notes.clone(),
        };
        let thread = start_thread("sound-read", move || feeder.run())?;
        let from = StreamSource { ring, stream, sample, length, feeder: Some(thread.thread().clone()) };
        Ok(PipeSource { from, shared, splice: Splice::new(stream), begun: false, told: 0 })
    }
}

impl Source for PipeSource {
    fn format(&self) -> StreamFormat {
        self.from.format()
    }

    fn sample_format(&self) -> SampleFormat {
        self.from.sample_format()
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let pulled = self.from.pull(block);
        if let Pull::Frames(frames) = pulled {
            self.begun = true;
            self.splice.join(&mut block[..frames * self.from.stream.channels()]);
        }
        pulled
    }

    fn length(&self) -> Option<u64> {
        self.from.length()
    }

    fn is_live(&self) -> bool {
        self.shared.live.load(Ordering::Relaxed)
    }

    fn ready(&self) -> Ready {
        self.from.ready()
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        if !self.is_live() {
            return 0;
        }
        let channels = self.from.stream.channels();
        let overflowed = self.shared.dropped.load(Ordering::Acquire) != self.told;
        let there = self.from.ring.slots() / channels;
        // Sound in a full ring is older than the sound dropped for lack of room.
        let keep = if overflowed { 0 } else { frames.min(there) };
        if let Ok(chunk) = self.from.ring.read_chunk((there - keep) * channels) {
            if self.begun && !chunk.is_empty() {
                self.splice.leave_out(chunk.as_slices());
            }
            chunk.commit_all();
        }
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        let untold = dropped - self.told;
        self.told = dropped;
        (there - keep) as u64 + untold
    }

    fn set_waker(&mut self, wake: Wake) {
        *self.shared.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }
}

/// The part on the reading thread.
struct Feeder {
    decoder: Box<dyn Decode>,
    pipe: Option<(File, usize)>,
    ring: Producer<f32>,
    pending: Vec<f32>,
    /// `None` if it is known whether the pipe is live.
    meter: Option<LiveMeter>,
    clock: Box<dyn Fn() -> Instant + Send>,
    shared: Arc<Shared>,
    notes: Notes,
}

impl Feeder {
    fn run(mut self) {
        while !self.ring.is_abandoned() && self.read() {
            self.judge();
            self.hand_over();
        }
        let Feeder { ring, shared, .. } = self;
        // The thread that is woken must see the end.
        drop(ring);
        shared.wake();
    }

    /// Decodes the next samples; `false` if nothing will follow.
    fn read(&mut self) -> bool {
        self.pending.clear();
        self.decoder.decode(&mut self.pending).unwrap_or_else(|why| {
            self.notes.add(format!("reading stopped: {why}"));
            false
        })
    }

    fn judge(&mut self) {
        if let Some(meter) = &mut self.meter {
            let frames = self.pending.len() / self.decoder.format().channels();
            let live = meter.on_frames((self.clock)(), frames) == Liveness::Live;
            self.shared.live.store(live, Ordering::Relaxed);
        }
        if self.shared.live.load(Ordering::Relaxed)
            && let Some((pipe, bytes)) = self.pipe.take()
        {
            os::shorten_pipe(&pipe, bytes);
        }
    }

    /// Puts the samples read into the ring. Those that do not fit wait, or are dropped from a live source.
    fn hand_over(&mut self) {
        let channels = self.decoder.format().channels();
        let mut sent = 0;
        while !self.ring.is_abandoned() {
            let (_, rest) = self.ring.push_partial_slice(&self.pending[sent..]);
            let left = rest.len();
            if left < self.pending.len() - sent {
                self.shared.wake();
            }
            sent = self.pending.len() - left;
            if left == 0 {
                return;
            }
            if self.shared.live.load(Ordering::Relaxed) {
                self.shared.dropped.fetch_add((left / channels) as u64, Ordering::Release);
                return;
            }
            thread::park_timeout(REST);
            if let Some(meter) = &mut self.meter {
                meter.on_blocked((self.clock)());
            }
        }
    }
}

#[cfg(test)]
mod tests;

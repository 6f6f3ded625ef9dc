//! Sound with known positions, and sinks that store it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use antiphon_media::{Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake, Wants};

/// The sample at a place: sixteen bits drawn from it, so that a frame in the wrong place shows. Never silence.
pub fn sample(frame: u64, channel: usize) -> f32 {
    let mut x = (frame * 64 + channel as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f32::from(((x >> 48) as i16) | 1) / 32_768.0
}

/// So many sample frames from `from` on.
pub fn expected(format: StreamFormat, from: u64, frames: u64) -> Vec<f32> {
    (from..from + frames).flat_map(|n| (0..format.channels()).map(move |c| sample(n, c))).collect()
}

/// Sound of a known length, noise if nothing else is said; with `starve`, nothing is there while that many pulls are made
/// from a frame on.
pub struct Noise {
    format: StreamFormat,
    at: u64,
    end: u64,
    starve: Option<(u64, u32)>,
    sample: Box<dyn Fn(u64, usize) -> f32 + Send>,
}

impl Noise {
    /// So many sample frames.
    pub fn new(format: StreamFormat, frames: u64) -> Box<Self> {
        Self::like(format, frames, sample)
    }

    /// The same of another sound, by the numbers of sample frame and channel.
    pub fn like(
        format: StreamFormat,
        frames: u64,
        sample: impl Fn(u64, usize) -> f32 + Send + 'static,
    ) -> Box<Self> {
        Box::new(Noise { format, at: 0, end: frames, starve: None, sample: Box::new(sample) })
    }

    /// Noise without an end.
    pub fn endless(format: StreamFormat) -> Box<Self> {
        Noise::new(format, u64::MAX)
    }

    /// Noise that has nothing for so many pulls from sample frame `at` on.
    pub fn starving(format: StreamFormat, frames: u64, at: u64, pulls: u32) -> Box<Self> {
        Box::new(Noise { starve: Some((at, pulls)), ..*Noise::new(format, frames) })
    }
}

impl Source for Noise {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        if let Some((at, left)) = &mut self.starve
            && self.at >= *at
            && *left > 0
        {
            *left -= 1;
            return Pull::Starved;
        }
        let channels = self.format.channels();
        let frames = ((block.len() / channels) as u64).min(self.end - self.at);
        if frames == 0 {
            return Pull::End;
        }
        for (number, frame) in (self.at..self.end).zip(block.chunks_exact_mut(channels)) {
            for (channel, to) in frame.iter_mut().enumerate() {
                *to = (self.sample)(number, channel);
            }
        }
        self.at += frames;
        Pull::Frames(frames as usize)
    }

    fn length(&self) -> Option<u64> {
        Some(self.end).filter(|end| *end < u64::MAX)
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        Ready::ALWAYS
    }

    fn keep_newest(&mut self, _frames: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// What a `Keep` got.
#[derive(Clone)]
pub struct Kept {
    samples: Arc<Mutex<Vec<f32>>>,
    room: Arc<AtomicUsize>,
}

impl Default for Kept {
    fn default() -> Self {
        Kept { samples: Arc::default(), room: Arc::new(AtomicUsize::new(usize::MAX)) }
    }
}

/// Opens a sink once the format is known.
type OpenSink = Box<dyn FnMut(StreamFormat, SampleFormat) -> Result<Box<dyn Sink>, String>>;

impl Kept {
    /// All samples.
    pub fn samples(&self) -> Vec<f32> {
        self.samples.lock().unwrap().clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.samples.lock().unwrap().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on its sinks take so many sample frames more, like a disk that spins up, and panic if they get more;
    /// `usize::MAX`: any number.
    pub fn set_room(&self, frames: usize) {
        self.room.store(frames, Ordering::Relaxed);
    }

    /// A sink that keeps everything here.
    pub fn sink(&self, format: StreamFormat) -> Box<dyn Sink> {
        Box::new(Keep { format, kept: self.clone() })
    }

    /// The same, of whatever format a stream turns out to have.
    pub fn opener(&self) -> OpenSink {
        let kept = self.clone();
        Box::new(move |format, _| Ok(kept.sink(format)))
    }
}

struct Keep {
    format: StreamFormat,
    kept: Kept,
}

impl Sink for Keep {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let (frames, room) = (block.len() / self.format.channels(), self.room());
        assert!(frames <= room, "{frames} sample frames where there is room for {room}");
        if room < usize::MAX {
            self.kept.set_room(room - frames);
        }
        self.kept.samples.lock().unwrap().extend_from_slice(block);
        Ok(())
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        self.kept.room.load(Ordering::Relaxed)
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let samples = frames as usize * self.format.channels();
        self.kept.samples.lock().unwrap().extend(std::iter::repeat_n(0.0, samples));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// 48 kHz, two channels.
pub fn stereo() -> StreamFormat {
    StreamFormat::new(48_000, 2).unwrap()
}

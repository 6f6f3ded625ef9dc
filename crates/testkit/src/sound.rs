//! Sound with known positions, and sinks that store it.

use std::sync::{Arc, Mutex};

use antiphon_media::{Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake};

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

/// Noise of a known length; with `gap`, nothing is there while that many pulls are made from a frame on.
pub struct Noise {
    format: StreamFormat,
    at: u64,
    end: u64,
    starve: Option<(u64, u32)>,
}

impl Noise {
    /// So many sample frames.
    pub fn new(format: StreamFormat, frames: u64) -> Box<Self> {
        Box::new(Noise { format, at: 0, end: frames, starve: None })
    }

    /// The same, which has nothing for so many pulls from sample frame `at` on.
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
        block[..frames as usize * channels].copy_from_slice(&expected(self.format, self.at, frames));
        self.at += frames;
        Pull::Frames(frames as usize)
    }

    fn length(&self) -> Option<u64> {
        Some(self.end)
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
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<f32>>>);

impl Kept {
    /// All samples.
    pub fn samples(&self) -> Vec<f32> {
        self.0.lock().unwrap().clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A sink that keeps everything here.
    pub fn sink(&self, format: StreamFormat) -> Box<dyn Sink> {
        Box::new(Keep { format, kept: self.clone() })
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
        self.kept.0.lock().unwrap().extend_from_slice(block);
        Ok(())
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<usize> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let samples = frames as usize * self.format.channels();
        self.kept.0.lock().unwrap().extend(std::iter::repeat_n(0.0, samples));
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

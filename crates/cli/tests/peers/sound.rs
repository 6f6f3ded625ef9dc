//! Sound that is known to the sample: noise, in which no stretch is like another.

use std::path::Path;

use antiphon::media::{Pull, SampleFormat};
use antiphon::sound::open_source;

/// A stream to be carried.
#[derive(Clone, Copy, Debug)]
pub struct Sound {
    pub sample: SampleFormat,
    pub rate: u32,
    pub channels: u32,
    pub seconds: u32,
}

/// What is tried with every peer, and the payload type of RFC 3551 §6 that it goes under, if it has one.
pub const SOUNDS: [(Sound, Option<u8>); 7] = [
    (sound(SampleFormat::L16, 48_000, 1), None),
    (sound(SampleFormat::L16, 48_000, 2), None),
    (sound(SampleFormat::L16, 44_100, 1), Some(11)),
    (sound(SampleFormat::L16, 44_100, 2), Some(10)),
    (sound(SampleFormat::L24, 48_000, 2), None),
    (sound(SampleFormat::MuLaw, 8_000, 1), Some(0)),
    (sound(SampleFormat::ALaw, 8_000, 1), Some(8)),
];

/// Eight seconds, so that a player which takes three to start still plays five.
const fn sound(sample: SampleFormat, rate: u32, channels: u32) -> Sound {
    Sound { sample, rate, channels, seconds: 8 }
}

impl Sound {
    /// As a source of ours. The noise is rounded to what the format can say, so that nothing is lost on the way.
    pub fn uri(&self) -> String {
        let Sound { sample, rate, channels, seconds } = self;
        let sample = sample.name();
        format!("tone:noise?seed=5&rate={rate}Hz&channels={channels}&format={sample}&seconds={seconds}s")
    }

    /// Its name in file names.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.sample.name(), self.rate, self.channels)
    }

    /// The samples, channel beside channel, as whole numbers of [`Sound::bits`].
    pub fn samples(&self) -> Vec<i32> {
        read(&self.uri(), self.bits())
    }

    /// Bits that a sample has once it is decoded: G.711 has a range of 14, told in 16.
    pub fn bits(&self) -> u32 {
        if self.sample == SampleFormat::L24 { 24 } else { 16 }
    }

    /// Writes the samples as ffmpeg's `s16le` or `s24le`.
    pub fn write_raw(&self, path: &Path) {
        let width = self.bits() as usize / 8;
        let bytes = self.samples().into_iter().flat_map(|sample| sample.to_le_bytes()[..width].to_vec());
        std::fs::write(path, bytes.collect::<Vec<u8>>()).expect("a temporary file");
    }

    /// Reads what [`Sound::write_raw`] writes.
    pub fn read_raw(&self, path: &Path) -> Vec<i32> {
        let bytes = std::fs::read(path).expect("the player wrote a file");
        let width = self.bits() as usize / 8;
        let sample = |bytes: &[u8]| {
            let mut wide = [0; 4];
            wide[4 - width..].copy_from_slice(bytes);
            i32::from_le_bytes(wide) >> (32 - 8 * width)
        };
        bytes.chunks_exact(width).map(sample).collect()
    }

    /// Reads a recording, whose header must agree with its length.
    pub fn read_wav(&self, path: &Path) -> Vec<i32> {
        let bytes = std::fs::read(path).expect("a recording");
        assert_eq!(&bytes[..4], b"RIFF");
        let told = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        assert_eq!(told as usize + 8, bytes.len(), "the header of {} is not finished", path.display());
        read(&path.display().to_string(), self.bits())
    }

    /// Checks that `heard` is a stretch of this sound without a gap, and how much of it is missing before and after, in
    /// sample frames.
    pub fn assert_stretch(&self, heard: &[i32], at_least_seconds: u32, whose: &str) -> (usize, usize) {
        let (channels, sent) = (self.channels as usize, self.samples());
        let frames = heard.len() / channels;
        assert!(
            frames >= (at_least_seconds * self.rate) as usize,
            "{whose} heard {frames} frames of {self:?}"
        );
        // By chance a window of 64 samples is repeated in the noise once in 2^800 times.
        let window = &heard[..64];
        let begin = (0..sent.len() - 64)
            .step_by(channels)
            .find(|at| &sent[*at..at + 64] == window)
            .unwrap_or_else(|| panic!("{whose} heard what was not sent of {self:?}: {:?}", &heard[..8]));
        let expected = &sent[begin..];
        assert!(heard.len() <= expected.len(), "{whose} heard more than was sent of {self:?}");
        let wrong = (0..heard.len()).find(|at| heard[*at] != expected[*at]);
        assert_eq!(wrong.map(|at| at / channels), None, "frame that differs of {frames}, {whose}, {self:?}");
        (begin / channels, (expected.len() - heard.len()) / channels)
    }
}

fn read(uri: &str, bits: u32) -> Vec<i32> {
    let mut source = open_source(uri).unwrap_or_else(|error| panic!("{uri}: {error}")).source;
    let (channels, scale) = (source.format().channels(), (1u32 << (bits - 1)) as f32);
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 1024 * channels]);
    loop {
        match source.pull(&mut block) {
            Pull::Frames(n) => all.extend(block[..n * channels].iter().map(|s| (s * scale).round() as i32)),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return all,
        }
    }
}

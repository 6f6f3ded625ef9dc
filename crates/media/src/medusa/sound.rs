//! The paper's sound: blocks of JACK at 48 kHz become packets at 44.1 kHz.

use std::collections::VecDeque;

use crate::{FormatError, Resampler, SampleFormat, codec};

/// JACK's rate in the paper, in Hz.
pub const JACK_RATE: u32 = 48_000;
/// Sample frames of a block of JACK, of 32-bit floats.
pub const JACK_BLOCK: usize = 512;
/// The rate on the network in Hz, in 16 bits.
pub const WIRE_RATE: u32 = 44_100;

/// How many samples a block becomes: 512 at 48 kHz are 470.4 at 44.1 kHz.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlockMode {
    /// Always 470, 940 bytes, as the paper prints: the sound is 0.085 % too short, at 44 062.5 Hz.
    #[default]
    Paper,
    /// 470 or 471, so that 10 000 blocks are 4 704 000 samples.
    Exact,
}

impl BlockMode {
    /// Sample frames that the `n`-th block becomes, from 0.
    pub fn frames_of(self, n: u64) -> usize {
        let until = |blocks: u64| blocks * u64::from(WIRE_RATE) * JACK_BLOCK as u64 / u64::from(JACK_RATE);
        match self {
            BlockMode::Paper => PAPER_FRAMES,
            BlockMode::Exact => (until(n + 1) - until(n)) as usize,
        }
    }
}

/// Converts each JACK block to the packet content of each channel. Allocates only at construction.
pub struct BlockMaker {
    resampler: Resampler,
    mode: BlockMode,
    channels: usize,
    /// Samples at the lower rate that have not been packetised, `[sample_frame][channel]`.
    ready: VecDeque<f32>,
    given: Vec<f32>,
    /// Blocks converted so far.
    blocks: u64,
    /// The last block's sample frames, `[channel][sample_frame]`.
    current: Vec<f32>,
    frames: usize,
}

impl BlockMaker {
    /// Creates one for `channels` channels.
    pub fn new(channels: usize, mode: BlockMode) -> Result<Self, FormatError> {
        // Only their ratio counts: 470 to 512 in the paper's mode.
        let (from, to) = match mode {
            BlockMode::Paper => (100 * JACK_BLOCK as u32, 100 * PAPER_FRAMES as u32),
            BlockMode::Exact => (JACK_RATE, WIRE_RATE),
        };
        let resampler = Resampler::pushing(from, to, channels, JACK_BLOCK)?;
        let most = resampler.max_other_side();
        let mut ready = VecDeque::with_capacity((HEAD_START + most + MOST_FRAMES) * channels);
        ready.resize(HEAD_START * channels, 0.0);
        Ok(BlockMaker {
            given: vec![0.0; most * channels],
            current: vec![0.0; MOST_FRAMES * channels],
            resampler,
            mode,
            channels,
            ready,
            blocks: 0,
            frames: 0,
        })
    }

    /// Takes a block of [`JACK_BLOCK`] sample frames, `[sample_frame][channel]`; returns how many it became.
    pub fn push(&mut self, block: &[f32]) -> usize {
        let (_, given) = self.resampler.process(block, &mut self.given);
        self.ready.extend(&self.given[..given * self.channels]);
        self.frames = self.mode.frames_of(self.blocks).min(self.ready.len() / self.channels);
        self.blocks += 1;
        for (n, sample) in self.ready.drain(..self.frames * self.channels).enumerate() {
            self.current[n % self.channels * MOST_FRAMES + n / self.channels] = sample;
        }
        self.frames
    }

    /// Writes one channel of the last converted block into `out`, as L16 in network order (RFC 3551 §4.5.11), and
    /// returns the bytes written. (The paper writes the machine's own order.)
    pub fn write(&self, channel: usize, out: &mut [u8]) -> usize {
        let first = channel * MOST_FRAMES;
        codec::encode(SampleFormat::L16, &self.current[first..first + self.frames], out)
    }
}

/// 940 bytes of 16-bit samples.
const PAPER_FRAMES: usize = 470;
const MOST_FRAMES: usize = 471;
/// Sample frames of silence at the beginning, for blocks from which the resampler makes one sample frame too few.
const HEAD_START: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(frequency: f64, from: usize, channels: usize) -> Vec<f32> {
        let x = |n: usize| (std::f64::consts::TAU * frequency * n as f64 / f64::from(JACK_RATE)).sin() * 0.5;
        (from..from + JACK_BLOCK)
            .flat_map(|n| (0..channels).map(move |c| x(n) as f32 * [1.0, -1.0][c]))
            .collect()
    }

    fn sizes(mode: BlockMode, blocks: u64) -> Vec<usize> {
        let mut maker = BlockMaker::new(1, mode).unwrap();
        let silence = vec![0.0; JACK_BLOCK];
        (0..blocks).map(|_| maker.push(&silence)).collect()
    }

    #[test]
    fn blocks_have_the_sizes_of_the_paper() {
        let paper = sizes(BlockMode::Paper, 10_000);
        assert!(paper.iter().all(|frames| *frames == 470));
        let exact = sizes(BlockMode::Exact, 10_000);
        assert_eq!(exact.iter().sum::<usize>(), 4_704_000);
        assert_eq!(exact[..5], [470, 470, 471, 470, 471]);
    }

    /// Zero crossings count the frequency: a second of 997 Hz is 1994 of them, and 0.085 % are 1.7.
    #[test]
    fn the_paper_mode_is_out_of_tune_and_the_exact_one_is_not() {
        for (mode, rate) in [(BlockMode::Paper, 44_062.5), (BlockMode::Exact, 44_100.0)] {
            let mut maker = BlockMaker::new(2, mode).unwrap();
            let (mut left, mut bytes) = (Vec::new(), [0; 2 * MOST_FRAMES]);
            for n in 0..400 {
                let frames = maker.push(&sine(997.0, n * JACK_BLOCK, 2));
                assert_eq!(maker.write(0, &mut bytes), 2 * frames);
                let samples = bytes[..2 * frames].chunks(2).map(|b| i16::from_be_bytes([b[0], b[1]]));
                let before = left.len();
                left.extend(samples);
                assert_eq!(maker.write(1, &mut bytes), 2 * frames);
                let right = i16::from_be_bytes([bytes[200], bytes[201]]);
                // Rounding only: the second channel is the inverted first.
                assert!((right + left[before + 100]).abs() <= 1, "{right}");
            }
            let settled = &left[2000..];
            let peak = settled.iter().map(|x| x.unsigned_abs()).max().unwrap();
            assert!((16_300..=16_400).contains(&peak), "{peak}");
            let crossings = settled.windows(2).filter(|pair| (pair[0] < 0) != (pair[1] < 0)).count();
            let frequency = crossings as f64 / 2.0 * rate / settled.len() as f64;
            // One crossing more or less in 4.2 s is 0.12 Hz; the wrong ratio would be 0.85 Hz.
            assert!((frequency - 997.0).abs() < 0.3, "{mode:?}: {frequency}");
        }
    }
}

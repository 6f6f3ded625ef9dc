//! Test signals, computed as they are pulled: tones, sweeps, click tracks and noise.

use std::f64::consts::TAU;
use std::time::Duration;

use antiphon_core::Rng;
use antiphon_media::{Pull, Ready, SampleFormat, Source, StreamFormat, Wake};

use crate::raw::RawFormat;

/// What kind of test signal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Signal {
    /// A sine, in Hz.
    Sine(u32),
    /// A sine whose frequency rises (or falls) by the same factor every second.
    Sweep {
        /// Frequency at the beginning, in Hz.
        from: u32,
        /// Frequency at the end, in Hz.
        to: u32,
    },
    /// Single sample frames at `n * every` for n = 1, 2, …, in all channels; everything between is silence.
    Clicks {
        /// Time between clicks. The first comes after one such time, when streams have settled.
        every: Duration,
    },
    /// White noise, uniformly distributed, independent between channels; equal seeds give equal noise.
    Noise {
        /// Seed of the random generator.
        seed: u64,
    },
}

/// A test signal with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tone {
    /// The signal.
    pub signal: Signal,
    /// In dB relative to full scale. A full-scale sine is 0 dB; noise is measured by its root mean square relative to
    /// that (AES17-2015 §3.12), clicks by their peak.
    pub level_db: f64,
    /// Rate and channels.
    pub stream: StreamFormat,
    /// The precision: samples are rounded to it, so that a lossless stream carries them exactly.
    pub sample: SampleFormat,
    /// Its length; `None`: unlimited.
    pub length: Option<Duration>,
}

/// The source of a [`Tone`].
pub(crate) struct ToneSource {
    tone: Tone,
    amplitude: f64,
    every: u64,
    rng: Rng,
    at: u64,
    end: Option<u64>,
}

/// The sample frame nearest to `time` at `rate`.
pub(crate) fn frames(time: Duration, rate: u32) -> u64 {
    let nanos = time.as_nanos() * u128::from(rate);
    u64::try_from((nanos + 500_000_000) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// A uniform distribution in ±a has the root mean square a/√3, a sine of amplitude a has a/√2.
const NOISE_OVER_SINE: f64 = 1.224_744_871_391_589;

impl ToneSource {
    pub fn new(tone: Tone) -> Self {
        let rate = tone.stream.rate();
        let (every, seed) = match tone.signal {
            Signal::Clicks { every } => (frames(every, rate).max(1), 0),
            Signal::Noise { seed } => (1, seed),
            _ => (1, 0),
        };
        ToneSource {
            tone,
            amplitude: 10f64.powf(tone.level_db / 20.0),
            every,
            rng: Rng::fork(seed, "noise"),
            at: 0,
            end: tone.length.map(|length| frames(length, rate)),
        }
    }

    /// The value of all channels at sample frame `n`.
    fn value(&self, n: u64) -> f64 {
        let rate = u64::from(self.tone.stream.rate());
        match self.tone.signal {
            Signal::Sine(hertz) => {
                // Whole cycles are removed in integers: the phase after an hour is as exact as in the first second.
                let cycle = (n % rate) * u64::from(hertz) % rate;
                self.amplitude * (TAU * cycle as f64 / rate as f64).sin()
            }
            Signal::Sweep { from, to } => {
                // A. Farina, "Simultaneous measurement of impulse response and distortion with a swept-sine technique",
                // AES 108th Convention, 2000, equation 9.
                let seconds = self.end.unwrap_or(rate) as f64 / rate as f64;
                let growth = seconds / (f64::from(to) / f64::from(from)).ln();
                let elapsed = n as f64 / rate as f64;
                let cycles = f64::from(from) * growth * ((elapsed / growth).exp() - 1.0);
                self.amplitude * (TAU * cycles.fract()).sin()
            }
            Signal::Clicks { .. } if n > 0 && n.is_multiple_of(self.every) => self.amplitude,
            Signal::Clicks { .. } | Signal::Noise { .. } => 0.0,
        }
    }
}

impl Source for ToneSource {
    fn format(&self) -> StreamFormat {
        self.tone.stream
    }

    fn sample_format(&self) -> SampleFormat {
        self.tone.sample
    }

    fn length(&self) -> Option<u64> {
        self.end
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.tone.stream.channels();
        let left = self.end.map_or(u64::MAX, |end| end - self.at);
        let frames = (block.len() / channels).min(usize::try_from(left).unwrap_or(usize::MAX));
        if left == 0 {
            return Pull::End;
        }
        for frame in block.chunks_exact_mut(channels).take(frames) {
            if let Signal::Noise { .. } = self.tone.signal {
                for sample in frame {
                    let drawn = (2.0 * self.rng.unit() - 1.0) * self.amplitude * NOISE_OVER_SINE;
                    *sample = round(self.tone.sample, drawn);
                }
            } else {
                frame.fill(round(self.tone.sample, self.value(self.at)));
            }
            self.at += 1;
        }
        Pull::Frames(frames)
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

/// `x` rounded to what `sample` represents.
fn round(sample: SampleFormat, x: f64) -> f32 {
    RawFormat::from(sample).nearest(x as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(signal: Signal, level_db: f64, seconds: u64) -> Tone {
        Tone {
            signal,
            level_db,
            stream: StreamFormat::new(48_000, 2).unwrap(),
            sample: SampleFormat::L24,
            length: Some(Duration::from_secs(seconds)),
        }
    }

    fn play(tone: Tone) -> Vec<f32> {
        let mut source = ToneSource::new(tone);
        let mut out = Vec::new();
        let mut block = [0.0; 512];
        while let Pull::Frames(frames) = source.pull(&mut block) {
            out.extend(&block[..2 * frames]);
        }
        out
    }

    fn rms(samples: &[f32]) -> f64 {
        (samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / samples.len() as f64).sqrt()
    }

    #[test]
    fn a_tone_has_its_frequency_level_and_length() {
        let heard = play(tone(Signal::Sine(1_000), -20.0, 2));
        assert_eq!(heard.len(), 2 * 96_000);
        // Whole cycles, so the root mean square is 0.1/√2 except for rounding to 24 bits; 0.001 dB would be 1e-5.
        assert!((rms(&heard) - 0.1 / 2f64.sqrt()).abs() < 1e-7);
        let left = || heard.iter().step_by(2);
        let rising = left().zip(left().skip(1)).filter(|(a, b)| **a < 0.0 && **b >= 0.0).count();
        assert_eq!(rising, 1_999);
        // Exactly the same phase after an hour.
        let source = ToneSource::new(tone(Signal::Sine(441), 0.0, 1));
        assert_eq!(source.value(12_345), source.value(12_345 + 3_600 * 48_000));
    }

    #[test]
    fn a_sweep_begins_and_ends_where_it_should() {
        let heard = play(tone(Signal::Sweep { from: 100, to: 10_000 }, 0.0, 4));
        let left: Vec<f32> = heard.iter().step_by(2).copied().collect();
        let crossings = |part: &[f32]| part.windows(2).filter(|w| w[0] < 0.0 && w[1] >= 0.0).count() as f64;
        // Cycles in a tenth of a second at both ends, from the integral of 100 Hz · 100^(t/4 s): 10.6 and 944.3.
        assert!((crossings(&left[..4_800]) - 10.6).abs() <= 1.0);
        assert!((crossings(&left[left.len() - 4_800..]) - 944.3).abs() <= 1.5);
    }

    #[test]
    fn clicks_stand_alone_at_known_places() {
        let every = Duration::from_millis(250);
        let heard = play(tone(Signal::Clicks { every }, 0.0, 1));
        let places: Vec<usize> = (0..heard.len()).filter(|i| heard[*i] != 0.0).collect();
        assert_eq!(places, [24_000, 24_001, 48_000, 48_001, 72_000, 72_001]);
        assert!(places.iter().all(|i| heard[*i] == 8_388_607.0 / 8_388_608.0));
    }

    #[test]
    fn noise_has_its_level_and_repeats_by_seed() {
        let noise = |seed| play(tone(Signal::Noise { seed }, -20.0, 1));
        let heard = noise(7);
        // 96 000 draws: the standard error of the level is 0.15 %; 1 % is 0.09 dB.
        assert!((rms(&heard) / (0.1 / 2f64.sqrt()) - 1.0).abs() < 0.01);
        assert_eq!(heard, noise(7));
        assert_ne!(heard, noise(8));
        assert!(heard.chunks(2).any(|frame| frame[0] != frame[1]));
    }

    #[test]
    fn samples_are_rounded_to_their_format() {
        let sixteen = Tone { sample: SampleFormat::L16, ..tone(Signal::Sine(997), -3.0, 1) };
        assert!(play(sixteen).iter().all(|x| (x * 32_768.0).fract() == 0.0));
    }
}

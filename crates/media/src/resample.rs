//! Sample-rate conversion, by fixed ratios between 8 and 192 kHz and by the small difference of clocks.
//!
//! Band-limited interpolation by the `rubato` crate: 40 taps from 48 kHz on, 80 below, and more when the rate falls, so that the
//! filter keeps its steepness at the lower rate. From 44.1 kHz on it is flat up to 20 kHz, and images are below 16-bit noise.
//! Costs half its taps of delay: 0.42 ms at 48 kHz, 0.92 ms from there to 44.1 kHz. Allocates at construction only.

use antiphon_core::Ppm;
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Adjustable, Async, FixedAsync, Resizable, SincInterpolationParameters, SincInterpolationType};
use rubato::{Resampler as _, WindowFunction};

use crate::FormatError;

/// Converts blocks `[sample_frame][channel]` from one rate to another.
pub struct Resampler {
    inner: Async<f32>,
    channels: usize,
    max_block: usize,
    fixed: FixedAsync,
}

impl Resampler {
    /// For a sink that takes blocks of up to `max_block` sample frames: [`Self::needed`] returns how much to feed.
    pub fn pulling(from: u32, to: u32, channels: usize, max_block: usize) -> Result<Self, FormatError> {
        Self::new(from, to, channels, max_block, FixedAsync::Output)
    }

    /// For a source that gives blocks of up to `max_block` sample frames: as much as possible is output.
    pub fn pushing(from: u32, to: u32, channels: usize, max_block: usize) -> Result<Self, FormatError> {
        Self::new(from, to, channels, max_block, FixedAsync::Input)
    }

    fn new(
        from: u32,
        to: u32,
        channels: usize,
        max_block: usize,
        fixed: FixedAsync,
    ) -> Result<Self, FormatError> {
        crate::StreamFormat::new(from, channels as u32)?;
        crate::StreamFormat::new(to, channels as u32)?;
        if !(1..=MAX_BLOCK).contains(&max_block) {
            return Err(FormatError::Block { frames: max_block as u32 });
        }
        let ratio = f64::from(to) / f64::from(from);
        let Filter { taps, cutoff } = if from.min(to) >= WIDE { FILTER_OF_WIDE } else { FILTER };
        let parameters = SincInterpolationParameters {
            sinc_len: ((taps as f64 * (1.0 / ratio).max(1.0)) as usize).next_multiple_of(8),
            f_cutoff: Some(cutoff),
            oversampling_factor: 128,
            interpolation: SincInterpolationType::Cubic,
            window: WindowFunction::BlackmanHarris,
        };
        let inner = Async::new_sinc(ratio, MAX_RELATIVE, &parameters, max_block, channels, fixed)
            .expect("a ratio of rates within bounds and a block of at least one sample frame are accepted");
        Ok(Resampler { inner, channels, max_block, fixed })
    }

    /// When pulling: input sample frames that [`Self::process`] needs to fill `frames` of output.
    pub fn needed(&mut self, frames: usize) -> usize {
        self.set_block(frames);
        self.inner.input_frames_next()
    }

    /// When pushing: output sample frames that [`Self::process`] makes from `frames` of input.
    pub fn given(&mut self, frames: usize) -> usize {
        self.set_block(frames);
        self.inner.output_frames_next()
    }

    /// The most sample frames that one call needs (pulling) or gives (pushing); allocate this many.
    pub fn max_other_side(&self) -> usize {
        match self.fixed {
            FixedAsync::Output => self.inner.input_frames_max(),
            FixedAsync::Input => self.inner.output_frames_max(),
        }
    }

    /// Converts a block. Pulling: fills `out` from `input` of [`Self::needed`] sample frames. Pushing: uses up `input`;
    /// `out` holds [`Self::given`] sample frames. Returns the sample frames read and written, none of either if the
    /// block is longer than agreed or the other side too short.
    pub fn process(&mut self, input: &[f32], out: &mut [f32]) -> (usize, usize) {
        let (frames_in, frames_out) = (input.len() / self.channels, out.len() / self.channels);
        let block = if self.fixed == FixedAsync::Output { frames_out } else { frames_in };
        if !(1..=self.max_block).contains(&block) {
            return (0, 0);
        }
        self.set_block(block);
        let (Ok(input), Ok(mut out)) = (
            InterleavedSlice::new(input, self.channels, frames_in),
            InterleavedSlice::new_mut(out, self.channels, frames_out),
        ) else {
            return (0, 0);
        };
        self.inner.process_into_buffer(&input, &mut out, None).unwrap_or((0, 0))
    }

    /// Consumes input faster by `speed` than the rates say, changing over the next block. Limited to ±1000 ppm.
    pub fn set_speed(&mut self, speed: Ppm) {
        let bounded = if speed.0.is_finite() { speed.0.clamp(-MAX_SPEED_PPM, MAX_SPEED_PPM) } else { 0.0 };
        self.inner
            .set_resample_ratio_relative(1.0 / (1.0 + bounded / 1e6), true)
            .expect("the bound lies within what the resampler was made for");
    }

    /// Forgets all sound and the speed. Nothing is allocated.
    pub fn restart(&mut self) {
        rubato::Resampler::reset(&mut self.inner);
    }

    /// Sample frames of output by which sound is delayed.
    pub fn delay(&self) -> usize {
        self.inner.output_delay()
    }

    /// At a ratio of 1 the first sample frame that comes out of a new resampler lies as many before the first that is fed: so many further ones
    /// are let out before the sound goes on with that one.
    pub fn ahead(&self) -> usize {
        self.inner.output_delay().saturating_sub(FIRST)
    }

    fn set_block(&mut self, frames: usize) {
        self.inner
            .set_chunk_size(frames.clamp(1, self.max_block))
            .expect("the block is within what the resampler was made for");
    }
}

/// A windowed sinc.
struct Filter {
    /// At the lower rate, in sample frames.
    taps: usize,
    /// Where it is down by 6 dB, of half the lower rate: midway between 20 kHz and its image, but for what the window needs more.
    cutoff: f32,
}

/// With fewer taps it is not down by 96 dB at 24.1 kHz, where the image of 20 kHz at a rate of 44.1 kHz lies, or loses more than
/// 0.1 dB at 20 kHz; with 88 it delays by a millisecond at that rate.
const FILTER: Filter = Filter { taps: 80, cutoff: 0.98 };
/// From this lower rate on, in Hz, the image of 20 kHz lies at 28 kHz or above, and half the taps do.
const WIDE: u32 = 48_000;
/// Down by 109 dB at 28 kHz and by 0.09 dB at 20 kHz, by its Fourier transform.
const FILTER_OF_WIDE: Filter = Filter { taps: 40, cutoff: 0.955 };
/// Twice the largest block.
const MAX_BLOCK: usize = 8192;
/// Room for [`MAX_SPEED_PPM`], and a margin for rounding.
const MAX_RELATIVE: f64 = 1.0011;
const MAX_SPEED_PPM: f64 = 1000.0;
/// `rubato`'s first sample frame is one step of the filter after what its delay says, by its source and a test.
const FIRST: usize = 1;

#[cfg(test)]
mod tests {
    use antiphon_testkit::Sine;
    use proptest::prelude::*;

    use super::*;

    fn sine(frequency: f64, rate: f64, from: usize, frames: usize) -> Vec<f32> {
        let x = |n: usize| (std::f64::consts::TAU * frequency * n as f64 / rate).sin() * 0.5;
        (from..from + frames).map(|n| x(n) as f32).collect()
    }

    /// 90 dB below is 16-bit quality; a single wrong sample in a second would be at -60 dB.
    #[test]
    fn sines_stay_sines_at_all_rates() {
        for (from, to) in
            [(44_100, 48_000), (48_000, 44_100), (8_000, 48_000), (192_000, 8_000), (8_000, 192_000)]
        {
            let mut resampler = Resampler::pulling(from, to, 1, 256).unwrap();
            let (mut fed, mut out) = (0, vec![0.0; to as usize / 2 / 256 * 256]);
            for block in out.chunks_mut(256) {
                let needed = resampler.needed(256);
                assert_eq!(
                    resampler.process(&sine(997.0, f64::from(from), fed, needed), block),
                    (needed, 256)
                );
                fed += needed;
            }
            let settled = &out[out.len() / 4..];
            let db = Sine::fit(settled, 0, std::f64::consts::TAU * 997.0 / f64::from(to)).rest_db();
            assert!(db < -90.0, "{from} to {to}: {db} dB");
            let expected = (out.len() as f64 * f64::from(from) / f64::from(to)) as usize;
            assert!(
                fed.abs_diff(expected) <= 40 * (from as usize / to as usize).max(1) + 4,
                "{fed} of {expected}"
            );
        }
    }

    /// A full-scale sine of `frequency` from one rate to another: its level in dB, and what is there besides it, against full scale.
    fn passes(from: u32, to: u32, frequency: f64) -> (f64, f64) {
        let mut resampler = Resampler::pulling(from, to, 1, 256).unwrap();
        let (mut fed, mut out) = (0, vec![0.0; to as usize / 4 / 256 * 256]);
        for block in out.chunks_mut(256) {
            let needed = resampler.needed(256);
            let x = |n: usize| (std::f64::consts::TAU * frequency * n as f64 / f64::from(from)).sin() as f32;
            let input: Vec<f32> = (fed..fed + needed).map(x).collect();
            resampler.process(&input, block);
            fed += needed;
        }
        let settled = &out[out.len() / 4..];
        let fit = Sine::fit(settled, 0, std::f64::consts::TAU * frequency / f64::from(to));
        (20.0 * fit.level.log10(), 10.0 * fit.rest.log10())
    }

    #[test]
    fn up_to_20_khz_is_flat_and_images_are_96_db_below() {
        for (from, to) in
            [(48_000, 44_100), (44_100, 48_000), (48_000, 48_000), (48_000, 96_000), (96_000, 48_000)]
        {
            for frequency in [50.0, 997.0, 5_000.0, 10_000.0, 15_000.0, 18_000.0, 19_000.0, 20_000.0] {
                let (level, rest) = passes(from, to, frequency);
                assert!(level.abs() < 0.1, "{from} to {to} Hz, {frequency} Hz: {level} dB");
                assert!(rest < -96.0, "{from} to {to} Hz, {frequency} Hz: {rest} dB besides it");
            }
        }
    }

    #[test]
    fn it_delays_by_less_than_a_millisecond() {
        for (from, to) in [(48_000, 44_100), (44_100, 48_000), (48_000, 48_000)] {
            let delay = Resampler::pulling(from, to, 2, 256).unwrap().delay() as f64 / f64::from(to);
            let most = if from.min(to) >= WIDE { 0.45e-3 } else { 1e-3 };
            assert!(delay < most, "{from} to {to} Hz: {delay} s");
        }
    }

    #[test]
    fn a_new_one_begins_before_its_input_by_what_it_says() {
        for rate in [44_100, 48_000, 96_000] {
            let mut resampler = Resampler::pulling(rate, rate, 1, 64).unwrap();
            for again in [false, true] {
                let (mut heard, mut fed) = (Vec::new(), 0);
                while heard.len() < 512 {
                    let mut input = vec![0.0; resampler.needed(64)];
                    if let Some(click) = 200usize.checked_sub(fed).and_then(|at| input.get_mut(at)) {
                        *click = 1.0;
                    }
                    fed += input.len();
                    let mut block = [0.0; 64];
                    resampler.process(&input, &mut block);
                    heard.extend(block);
                }
                let loudest = (0..heard.len()).max_by(|a, b| heard[*a].total_cmp(&heard[*b])).unwrap();
                assert_eq!(loudest, 200 + resampler.ahead(), "{rate} Hz, again: {again}");
                assert!(heard[loudest] > 0.9, "between two sample frames: {}", heard[loudest]);
                resampler.set_speed(Ppm(300.0));
                resampler.restart();
            }
        }
    }

    #[test]
    fn speed_uses_input_up_faster() {
        let mut resampler = Resampler::pulling(48_000, 48_000, 1, 480).unwrap();
        resampler.set_speed(Ppm(500.0));
        let (mut fed, mut block) = (0, vec![0.0; 480]);
        for _ in 0..1000 {
            let needed = resampler.needed(480);
            resampler.process(&vec![0.0; needed], &mut block);
            fed += needed;
        }
        // 500 ppm of 480 000 are 240; the filter holds 32 to 64 ahead.
        assert!((fed as i64 - 480_240).abs() <= 64, "{fed}");
        resampler.set_speed(Ppm(f64::NAN));
        resampler.set_speed(Ppm(1e9));
    }

    #[test]
    fn refusals() {
        assert!(matches!(Resampler::pulling(4_000, 48_000, 1, 64), Err(FormatError::Rate { rate: 4_000 })));
        assert!(matches!(Resampler::pushing(48_000, 48_000, 0, 64), Err(FormatError::Channels { .. })));
        let mut resampler = Resampler::pushing(48_000, 44_100, 2, 64).unwrap();
        assert_eq!(resampler.process(&[0.0; 400], &mut [0.0; 400]), (0, 0), "longer than agreed");
        assert_eq!(resampler.process(&[0.0; 128], &mut []), (0, 0), "no room");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn blocks_of_any_size_pass(
            rates in prop::sample::select(vec![(8_000u32, 48_000u32), (48_000, 44_100), (44_100, 48_000), (96_000, 16_000)]),
            blocks in prop::collection::vec(1usize..=512, 1..40), channels in 1usize..4, pull in any::<bool>(),
        ) {
            let make = if pull { Resampler::pulling } else { Resampler::pushing };
            let mut resampler = make(rates.0, rates.1, channels, 512).unwrap();
            let max = resampler.max_other_side();
            for block in blocks {
                let other = if pull { resampler.needed(block) } else { resampler.given(block) };
                prop_assert!(other <= max, "{} of {}", other, max);
                let (frames_in, frames_out) = if pull { (other, block) } else { (block, other) };
                let mut out = vec![0.0; frames_out * channels];
                prop_assert_eq!(resampler.process(&vec![0.25; frames_in * channels], &mut out), (frames_in, frames_out));
            }
        }
    }
}

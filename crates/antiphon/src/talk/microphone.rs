//! The source of a call: it can be muted at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antiphon_media::{Pull, Source, pulled_through};

/// Mutes a source, on any thread.
#[derive(Clone, Debug, Default)]
pub struct MuteSwitch(Arc<AtomicBool>);

impl MuteSwitch {
    /// One that is muted from the beginning, or not.
    pub fn new(muted: bool) -> Self {
        MuteSwitch(Arc::new(AtomicBool::new(muted)))
    }

    /// Whether the source is muted.
    pub fn is_muted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Mutes it, or ends that.
    pub fn set(&self, muted: bool) {
        self.0.store(muted, Ordering::Relaxed);
    }

    /// Mutes a source that is not muted, and the other way round; returns whether it is muted now.
    pub fn toggle(&self) -> bool {
        !self.0.fetch_xor(true, Ordering::Relaxed)
    }

    /// `source`, as it is heard through this switch. It is pulled on while it is muted, and then gives silence: the stream, its
    /// clock and its delay go on.
    pub(super) fn source(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        let (mute, format) = (self.clone(), source.format());
        // A step would click.
        let step = 1.0 / (format.rate() as f32 * RAMP_S);
        // Of the last sample frame.
        let mut gain = if self.is_muted() { 0.0 } else { 1.0 };
        pulled_through(source, move |source, block| {
            let pulled = source.pull(block);
            let Pull::Frames(frames) = pulled else { return pulled };
            let goal: f32 = if mute.is_muted() { 0.0 } else { 1.0 };
            if gain == goal && goal == 1.0 {
                return pulled;
            }
            for frame in block[..frames * format.channels()].chunks_exact_mut(format.channels()) {
                gain += (goal - gain).clamp(-step, step);
                frame.iter_mut().for_each(|sample| *sample *= gain);
            }
            pulled
        })
    }
}

/// How long the sound fades, in seconds.
const RAMP_S: f32 = 0.005;

#[cfg(test)]
mod tests {
    use antiphon_media::StreamFormat;
    use antiphon_testkit::Noise;

    use super::*;

    #[test]
    fn mute_fades_to_silence_and_back_without_a_step() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let mute = MuteSwitch::default();
        let mut source = mute.source(Noise::like(format, 10_000, |_, _| 0.5));
        let mut heard = Vec::new();
        for block in 0..20 {
            if block == 5 || block == 12 {
                assert_eq!(mute.toggle(), block == 5);
            }
            let mut sound = [9.0; 512];
            assert_eq!(source.pull(&mut sound), Pull::Frames(256));
            heard.extend_from_slice(&sound);
        }
        let block = |number: usize| &heard[512 * number..512 * (number + 1)];
        assert!(block(4).iter().all(|sample| *sample == 0.5), "as it is");
        assert!(block(6).iter().all(|sample| *sample == 0.0), "the fade takes 240 sample frames");
        assert!(block(13).iter().all(|sample| *sample == 0.5), "as it is again");
        let steps = heard.chunks_exact(2).zip(heard.chunks_exact(2).skip(1));
        let highest = steps.map(|(one, next)| (next[0] - one[0]).abs()).fold(0.0, f32::max);
        assert!(highest < 0.003, "a step of {highest}");
        assert!(heard.chunks_exact(2).all(|frame| frame[0] == frame[1]), "both channels alike");
    }

    #[test]
    fn a_source_can_begin_muted() {
        let format = StreamFormat::new(48_000, 1).unwrap();
        let mut source = MuteSwitch::new(true).source(Noise::like(format, 1_000, |_, _| 0.5));
        let mut sound = [9.0; 64];
        source.pull(&mut sound);
        assert_eq!(sound, [0.0; 64]);
    }
}

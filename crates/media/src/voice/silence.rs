//! Pauses of a talker: how they are found, and the noise that is heard meanwhile (RFC 3389).

use std::time::Duration;

use antiphon_core::Rng;

use super::{QUIET, VOICE_RATE};
use crate::codec::{mulaw_encode, mulaw_expand};

/// The level of a block of mu-law.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Level(f32);

impl Level {
    /// The root mean square of `bytes`, relative to that of the loudest mu-law square wave (dBov); -127 dB and less are equal.
    pub fn of(bytes: &[u8]) -> Self {
        let power: u64 = bytes.iter().map(|byte| u64::from(POWER[usize::from(*byte)])).sum();
        let mean = power as f32 / bytes.len().max(1) as f32;
        Level((10.0 * (mean / POWER[0] as f32).log10()).max(LEAST))
    }

    /// In dB relative to overload.
    pub fn db(self) -> f32 {
        self.0
    }
}

/// A noise level as packets carry it: 0 to 127, in -dBov (RFC 3389 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoiseLevel(u8);

impl NoiseLevel {
    /// Of a level in dB relative to overload.
    pub fn of_db(db: f32) -> Self {
        NoiseLevel((-db).round().clamp(0.0, -LEAST) as u8)
    }

    /// Of a packet's byte, whose first bit is reserved.
    pub const fn from_byte(byte: u8) -> Self {
        NoiseLevel(byte & 0x7f)
    }

    /// As a packet's byte.
    pub fn to_byte(self) -> u8 {
        self.0
    }
}

/// Finds pauses in one channel.
///
/// A block is speech while it is louder than the threshold, and for 200 ms afterwards, so that the ends of words are
/// not cut off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilenceDetector {
    /// Bytes of quiet so far.
    quiet: u32,
    /// Level of the noise, smoothed.
    noise: f32,
}

impl Default for SilenceDetector {
    fn default() -> Self {
        SilenceDetector { quiet: 0, noise: LEAST }
    }
}

impl SilenceDetector {
    /// Looks at the channel's next bytes, which are speech if they are louder than `threshold` dB. Returns the level of the
    /// noise if they belong to a pause, and nothing if they are to be sent.
    pub fn look(&mut self, bytes: &[u8], threshold: f32) -> Option<NoiseLevel> {
        let Level(level) = Level::of(bytes);
        if level > threshold {
            self.quiet = 0;
            return None;
        }
        // The first quiet block sets the level: what came before it was speech.
        self.noise = if self.quiet == 0 { level } else { self.noise + (level - self.noise) / 4.0 };
        self.quiet = self.quiet.saturating_add(bytes.len() as u32);
        let hangover = (HANGOVER.as_millis() as u32) * VOICE_RATE / 1000;
        (self.quiet > hangover).then(|| NoiseLevel::of_db(self.noise))
    }
}

/// How long after the last speech sound is still sent: the usual 200 ms of voice activity detectors (ITU-T G.729 annex B has
/// some 60 ms and G.711 appendix II leaves it open).
pub const HANGOVER: Duration = Duration::from_millis(200);

/// White noise in mu-law that is heard in pauses.
#[derive(Clone, Debug)]
pub struct ComfortNoise {
    /// Of unit power.
    noise: Vec<f32>,
    at: usize,
}

impl ComfortNoise {
    /// The same for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "comfort noise");
        ComfortNoise { noise: (0..PERIOD).map(|_| rng.normal() as f32).collect(), at: 0 }
    }

    /// Fills `out` with noise of this level.
    pub fn fill(&mut self, level: NoiseLevel, out: &mut [u8]) {
        if f32::from(level.0) >= -LEAST {
            return out.fill(QUIET);
        }
        let gain = (POWER[0] as f32).sqrt() * 10f32.powf(-f32::from(level.0) / 20.0);
        for byte in out {
            *byte = mulaw_encode((gain * self.noise[self.at]).clamp(-32_767.0, 32_767.0) as i16);
            self.at = (self.at + 1) % PERIOD;
        }
    }
}

/// Samples until the noise repeats: half a second, and no multiple of a usual block, so that no rhythm is heard.
const PERIOD: usize = 4099;
/// The level of nothing: the least that RFC 3389 can express.
const LEAST: f32 = -127.0;

/// The square of each byte's sample.
static POWER: [u32; 256] = {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        let sample = mulaw_expand(code as u8) as i32;
        table[code] = (sample * sample) as u32;
        code += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(db: f32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        ComfortNoise::new(1).fill(NoiseLevel::of_db(db), &mut bytes);
        bytes
    }

    #[test]
    fn noise_has_the_level_that_was_asked_for() {
        for db in [-20.0, -40.0, -60.0] {
            let level = Level::of(&noise(db, 8000)).db();
            // Mu-law rounds towards zero, by half a step of a sixteenth on average: some 0.3 dB.
            assert!((level - db).abs() < 1.0, "{level} for {db}");
        }
        assert_eq!(noise(-127.0, 3), [QUIET; 3]);
        assert_eq!(Level::of(&[QUIET; 10]).db(), LEAST);
        assert_eq!(Level::of(&[0x00, 0x80]).db(), 0.0);
        assert_eq!(Level::of(&[]).db(), LEAST);
    }

    #[test]
    fn a_pause_begins_after_the_hangover_and_ends_at_once() {
        let (speech, quiet) = (noise(-20.0, 160), noise(-60.0, 160));
        let mut detector = SilenceDetector::default();
        assert_eq!(detector.look(&speech, -45.0), None);
        let pauses: Vec<_> = (0..12).map(|_| detector.look(&quiet, -45.0).is_some()).collect();
        // 200 ms are ten blocks of 20 ms.
        assert_eq!(pauses, [[false; 10].as_slice(), &[true; 2]].concat());
        let level = detector.look(&quiet, -45.0).expect("a pause").to_byte();
        assert!((58..=62).contains(&level), "{level}");
        assert_eq!(detector.look(&speech, -45.0), None);
        assert_eq!(detector.look(&quiet, -45.0), None);
    }
}

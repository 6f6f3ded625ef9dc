//! What channels say: pieces of mu-law that many channels share, each from a place of its own.

use std::sync::Arc;

use antiphon_core::Rng;

use super::{ComfortNoise, NoiseLevel, QUIET, VOICE_RATE};
use crate::codec::mulaw_encode;

/// Bytes of mu-law that channels read. They are made before the stream, so that a channel costs a copy.
#[derive(Clone, Debug)]
pub struct VoiceMaterial {
    /// Each is read by every so many-th channel.
    parts: Vec<Arc<[u8]>>,
    repeats: bool,
}

/// Material that is made and not read from a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum VoiceKind {
    /// Sines, those of successive channels a semitone apart.
    Tones,
    /// White noise.
    Noise,
    /// Talk spurts and pauses of conversations (ITU-T P.59: 1.004 s and 1.587 s on average), filled with noise that has the
    /// loudness of syllables.
    Speech,
}

impl VoiceMaterial {
    /// Sound that ends: the channels of a file, which voice channels read in turn.
    pub fn of_channels(channels: Vec<Vec<u8>>) -> Self {
        VoiceMaterial { parts: channels.into_iter().map(Arc::from).collect(), repeats: false }
    }

    /// Sound without an end, the same for the same seed.
    pub fn of_kind(kind: VoiceKind, seed: u64) -> Self {
        let parts = match kind {
            VoiceKind::Tones => (0..SEMITONES).map(tone).collect(),
            VoiceKind::Noise => vec![noise(seed)],
            VoiceKind::Speech => vec![speech(seed)],
        };
        VoiceMaterial { parts: parts.into_iter().map(Arc::from).collect(), repeats: true }
    }

    /// What the channel of this number says.
    pub fn channel(&self, number: usize) -> VoiceSource {
        let empty = || Arc::from([]);
        let bytes = self.parts.get(number % self.parts.len().max(1)).map_or_else(empty, Arc::clone);
        // Channels of made sound begin at different places; of a file, each begins at its beginning.
        let offset = if self.repeats { number * STRIDE % bytes.len().max(1) } else { 0 };
        VoiceSource { bytes, offset, repeats: self.repeats }
    }
}

/// What one channel says.
#[derive(Clone, Debug)]
pub struct VoiceSource {
    bytes: Arc<[u8]>,
    offset: usize,
    repeats: bool,
}

impl VoiceSource {
    /// Bytes in all; `None` without an end.
    pub fn len(&self) -> Option<u64> {
        (!self.repeats).then_some(self.bytes.len() as u64)
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies what the channel says from byte `position` on; beyond its end silence.
    pub fn read(&self, position: u64, out: &mut [u8]) {
        let len = self.bytes.len();
        if len == 0 {
            return out.fill(QUIET);
        }
        let mut done = 0;
        let mut at = match self.repeats {
            true => ((self.offset as u64 + position) % len as u64) as usize,
            false => usize::try_from(position).unwrap_or(usize::MAX).min(len),
        };
        while done < out.len() {
            let most = (len - at).min(out.len() - done);
            out[done..done + most].copy_from_slice(&self.bytes[at..at + most]);
            done += most;
            at = 0;
            if !self.repeats {
                return out[done..].fill(QUIET);
            }
        }
    }
}

/// A second of the sine `step` semitones above 220 Hz, rounded to a whole number of Hz so that it can be repeated.
fn tone(step: u32) -> Vec<u8> {
    let hertz = (220.0 * 2f64.powf(f64::from(step) / 12.0)).round();
    let sample = |n: u32| {
        let phase = f64::from(n) * hertz / f64::from(VOICE_RATE);
        mulaw_encode((TONE_LEVEL * (std::f64::consts::TAU * phase).sin()).round() as i16)
    };
    (0..VOICE_RATE).map(sample).collect()
}

fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::fork(seed, "voice noise");
    (0..NOISE).map(|_| mulaw_encode((NOISE_LEVEL * rng.normal()).clamp(-32_000.0, 32_000.0) as i16)).collect()
}

/// A minute of conversation of one talker.
fn speech(seed: u64) -> Vec<u8> {
    let (mut rng, mut quiet) = (Rng::fork(seed, "speech"), ComfortNoise::new(seed));
    let mut bytes = Vec::with_capacity(SPEECH);
    while bytes.len() < SPEECH {
        // Exponential, as P.59 has them, but neither shorter than a syllable nor longer than some seconds.
        let draw = |rng: &mut Rng, mean: f64| {
            ((rng.exponential() * mean).clamp(0.15, 6.0) * f64::from(VOICE_RATE)) as usize
        };
        let (talk, pause) = (draw(&mut rng, TALK_SPURT), draw(&mut rng, PAUSE));
        for n in 0..talk.min(SPEECH - bytes.len()) {
            let syllable = (std::f64::consts::PI * n as f64 / SYLLABLE).sin().abs();
            let sample = SPEECH_LEVEL * (0.2 + syllable) * rng.normal();
            bytes.push(mulaw_encode(sample.clamp(-32_000.0, 32_000.0) as i16));
        }
        let at = bytes.len();
        bytes.resize((at + pause).min(SPEECH), QUIET);
        quiet.fill(BACKGROUND, &mut bytes[at..]);
    }
    bytes
}

/// Two octaves.
const SEMITONES: u32 = 24;
/// Channels of made sound begin so many bytes apart: a prime, so that their places spread over the material.
const STRIDE: usize = 7919;
/// -12 dB.
const TONE_LEVEL: f64 = 8192.0;
/// -26 dB, the usual level of speech (ITU-T P.56).
const NOISE_LEVEL: f64 = 1642.0;
/// 8 s of noise.
const NOISE: usize = 1 << 16;
/// A minute.
const SPEECH: usize = 60 * VOICE_RATE as usize;
/// Mean durations of ITU-T P.59, table 1, in seconds.
const TALK_SPURT: f64 = 1.004;
const PAUSE: f64 = 1.587;
/// Samples of a syllable: 4 a second.
const SYLLABLE: f64 = 2000.0;
/// So that the mean level of a talk spurt is -26 dB.
const SPEECH_LEVEL: f64 = 1850.0;
/// A quiet room: -65 dB.
const BACKGROUND: NoiseLevel = NoiseLevel::from_byte(65);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::voice::Level;

    fn read(source: &VoiceSource, position: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        source.read(position, &mut out);
        out
    }

    #[test]
    fn channels_of_a_file_are_read_in_turn_and_end() {
        let material = VoiceMaterial::of_channels(vec![vec![1, 2, 3], vec![4, 5, 6]]);
        assert_eq!(read(&material.channel(0), 0, 3), [1, 2, 3]);
        assert_eq!(read(&material.channel(3), 1, 4), [5, 6, QUIET, QUIET]);
        assert_eq!(material.channel(2).len(), Some(3));
        assert_eq!(read(&material.channel(2), u64::MAX, 2), [QUIET; 2]);
        assert_eq!(read(&VoiceMaterial::of_channels(Vec::new()).channel(5), 0, 2), [QUIET; 2]);
    }

    #[test]
    fn made_sound_goes_on_and_differs_between_channels() {
        for kind in [VoiceKind::Tones, VoiceKind::Noise, VoiceKind::Speech] {
            let material = VoiceMaterial::of_kind(kind, 1);
            let (first, second) = (material.channel(0), material.channel(1));
            assert_eq!(first.len(), None);
            let whole = read(&first, 0, 200_000);
            assert_ne!(whole, read(&second, 0, 200_000));
            // Reading in pieces is reading it whole.
            let pieces: Vec<u8> = (0..200u64).flat_map(|piece| read(&first, 1000 * piece, 1000)).collect();
            assert_eq!(whole, pieces);
            assert_eq!(whole, read(&VoiceMaterial::of_kind(kind, 1).channel(0), 0, 200_000));
        }
    }

    #[test]
    fn speech_talks_two_fifths_of_the_time() {
        let speech = speech(1);
        let blocks = speech.chunks(160).map(|block| Level::of(block).db());
        let loud = blocks.filter(|db| *db > -45.0).count() as f64 / (speech.len() / 160) as f64;
        // P.59: 38.5 %; a minute has some 23 spurts, so the share varies.
        assert!((0.25..0.55).contains(&loud), "{loud}");
    }
}

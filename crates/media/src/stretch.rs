//! Lengthens and shortens sound without changing its pitch or level (WSOLA).
//!
//! Waveform-similarity overlap-add (Verhelst and Roelands 1993), by single pieces: where the sound resembles what was heard a few
//! milliseconds before, that piece is heard again; where it resembles what follows in a few milliseconds, the piece between is left
//! out. The two are blended over [`OVERLAP_MS`]. Of a periodic sound the pieces are whole periods. In silence everything resembles
//! everything, so pauses are lengthened and shortened without a trace.
//!
//! A piece is looked for by cross-correlation in the sum of the channels, first at about 12 kHz and then sample by sample, so that
//! all channels change at the same place. Allocates at construction only.

use crate::StreamFormat;
use crate::conceal::{frames, rise};

/// Lengthens and shortens one stream. Blocks are `[sample_frame][channel]`.
#[derive(Clone, Debug)]
pub struct Stretch {
    channels: usize,
    overlap: usize,
    context: usize,
    longest: usize,
    /// One in so many samples is looked at first.
    coarse: usize,
    /// What was heard last, `kept` sample frames up to `end`.
    heard: Vec<f32>,
    end: usize,
    /// Sum of the channels: the history, then what follows it.
    sum: Vec<f32>,
}

/// A piece of sound that can be heard twice or left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    /// Its sample frames.
    pub frames: usize,
    /// How much what is blended is alike: 1 the same, 0 unrelated, -1 inverted.
    pub alike: f32,
    /// Whether there is nothing to be heard.
    pub silent: bool,
}

impl Piece {
    /// Whether changing the sound here is inaudible.
    pub fn is_good(&self) -> bool {
        self.silent || self.alike >= GOOD
    }
}

impl Stretch {
    /// For sound of that format.
    pub fn new(format: StreamFormat) -> Self {
        let longest = frames(format, LONGEST_MS);
        let (overlap, context) = (frames(format, OVERLAP_MS).max(1), frames(format, CONTEXT_MS));
        let kept = longest + context;
        let channels = format.channels();
        Stretch {
            channels,
            overlap,
            context,
            longest,
            coarse: (format.rate() / 12_000).max(1) as usize,
            heard: vec![0.0; 4 * kept * channels],
            end: kept,
            sum: vec![0.0; kept + longest + overlap],
        }
    }

    /// Sample frames that follow what was heard and are needed to lengthen it.
    pub fn overlap(&self) -> usize {
        self.overlap
    }

    /// The longest piece, in sample frames. The shortest is [`Self::overlap`].
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The most sample frames of use to shorten the sound.
    pub fn most_ahead(&self) -> usize {
        self.longest + self.overlap
    }

    /// So much was heard.
    pub fn heard(&mut self, block: &[f32]) {
        let (channels, kept) = (self.channels, self.kept());
        let room = self.heard.len() / channels - kept;
        for part in block.chunks(room * channels) {
            let frames = part.len() / channels;
            if (self.end + frames) * channels > self.heard.len() {
                self.heard.copy_within((self.end - kept) * channels..self.end * channels, 0);
                self.end = kept;
            }
            self.heard[self.end * channels..][..frames * channels]
                .copy_from_slice(&part[..frames * channels]);
            self.end += frames;
        }
    }

    /// The piece of at most `most` sample frames that is best heard twice, before `next`, which follows what was heard and has at
    /// least [`Self::overlap`] sample frames; `None` if none is that short.
    pub fn to_lengthen(&mut self, next: &[f32], most: usize) -> Option<Piece> {
        let most = most.min(self.longest);
        if most < self.overlap || next.len() < self.overlap * self.channels {
            return None;
        }
        self.add_up(&next[..self.overlap * self.channels]);
        Some(self.search(most, |place, piece| place - piece))
    }

    /// The piece of at most `most` sample frames that is best left out of `next`, which follows what was heard; `None` if it is too
    /// short for that.
    pub fn to_shorten(&mut self, next: &[f32], most: usize) -> Option<Piece> {
        let ahead = (next.len() / self.channels).min(self.most_ahead());
        let most = most.min(self.longest).min(ahead.saturating_sub(self.overlap));
        if most < self.overlap {
            return None;
        }
        self.add_up(&next[..ahead * self.channels]);
        Some(self.search(most, |place, piece| place + piece))
    }

    /// Makes of `sound`, which begins with what follows what was heard, [`Self::overlap`] sample frames of it, what is heard before
    /// that instead: [`Piece::frames`] sample frames, for which `sound` has room. Not noted as heard.
    pub fn lengthen(&self, piece: Piece, sound: &mut [f32]) {
        let (channels, overlap) = (self.channels, self.overlap);
        let again = &self.heard[(self.end - piece.frames) * channels..self.end * channels];
        // What follows begins here too, and fades into what is heard again.
        for frame in 0..overlap {
            let (old, new) = gains(frame, overlap, piece.alike);
            for at in frame * channels..(frame + 1) * channels {
                sound[at] = sound[at] * old + again[at] * new;
            }
        }
        sound[overlap * channels..piece.frames * channels].copy_from_slice(&again[overlap * channels..]);
    }

    /// Leaves the piece out of the `frames` sample frames at the beginning of `sound`. What results is `frames - piece.frames`
    /// long.
    pub fn shorten(&self, piece: Piece, sound: &mut [f32], frames: usize) {
        let (channels, overlap) = (self.channels, self.overlap);
        let skip = piece.frames * channels;
        for frame in 0..overlap {
            let (old, new) = gains(frame, overlap, piece.alike);
            for at in frame * channels..(frame + 1) * channels {
                sound[at] = sound[at] * old + sound[skip + at] * new;
            }
        }
        sound.copy_within((piece.frames + overlap) * channels..frames * channels, overlap * channels);
    }

    /// Another stream begins.
    pub fn forget(&mut self) {
        self.heard.fill(0.0);
        self.end = self.kept();
    }

    fn kept(&self) -> usize {
        self.longest + self.context
    }

    /// Sums the channels of the history and of `next`.
    fn add_up(&mut self, next: &[f32]) {
        let (channels, kept) = (self.channels, self.kept());
        let heard = &self.heard[(self.end - kept) * channels..self.end * channels];
        let frames = heard.chunks_exact(channels).chain(next.chunks_exact(channels));
        for (sum, frame) in self.sum.iter_mut().zip(frames) {
            let total: f32 = frame.iter().sum();
            // What is no number in one sample is not to spread.
            *sum = if total.is_finite() { total } else { 0.0 };
        }
    }

    /// The best piece of [`Self::overlap`] to `most` sample frames: what is around the present place is compared with what is
    /// around the place that `other` gives for a piece.
    fn search(&self, most: usize, other: impl Fn(usize, usize) -> usize) -> Piece {
        let place = self.kept();
        let silent = |place: usize| {
            let heard = &self.sum[place - self.context..place + self.overlap];
            heard.iter().all(|x| x.abs() <= SILENT * self.channels as f32)
        };
        if silent(place) && silent(other(place, most)) {
            return Piece { frames: most, alike: 1.0, silent: true };
        }
        let alike = |piece: usize, step: usize| self.alike(place, other(place, piece), step);
        let better = |best: (usize, f32), new: (usize, f32)| if new.1 > best.1 { new } else { best };
        let first = (self.overlap, alike(self.overlap, self.coarse));
        let rough = (self.overlap..=most)
            .step_by(self.coarse)
            .map(|piece| (piece, alike(piece, self.coarse)))
            .fold(first, better);
        let near = rough.0.saturating_sub(self.coarse).max(self.overlap)..=(rough.0 + self.coarse).min(most);
        let exact = (rough.0, alike(rough.0, 1));
        let (frames, alike) = near.map(|piece| (piece, alike(piece, 1))).fold(exact, better);
        Piece { frames, alike, silent: false }
    }

    /// Normalised cross-correlation of what is around two places, of one in `step` samples.
    fn alike(&self, one: usize, other: usize, step: usize) -> f32 {
        let around =
            |place: usize| self.sum[place - self.context..place + self.overlap].iter().step_by(step).copied();
        let (mut product, mut power, mut other_power) = (0.0f32, 0.0f32, 0.0f32);
        for (a, b) in around(one).zip(around(other)) {
            product += a * b;
            power += a * a;
            other_power += b * b;
        }
        let norm = (power * other_power).sqrt();
        if norm > f32::MIN_POSITIVE { (product / norm).clamp(-1.0, 1.0) } else { 0.0 }
    }
}

/// The weights of what fades out and of what fades in, such that the level stays: of sounds that are alike, amplitudes add up, of
/// unrelated ones powers.
fn gains(step: usize, len: usize, alike: f32) -> (f32, f32) {
    let new = rise(step, len);
    let old = 1.0 - new;
    let alike = alike.clamp(0.0, 1.0);
    let power = old * old + new * new + 2.0 * alike * old * new;
    let scale = 1.0 / power.sqrt();
    (old * scale, new * scale)
}

/// As long as the joins of concealment are: smooth for music, too.
pub const OVERLAP_MS: f64 = 2.5;
/// What is compared before the place of the blend, so that periods are found that are longer than the blend.
const CONTEXT_MS: f64 = 7.5;
/// A period of 50 Hz.
const LONGEST_MS: f64 = 20.0;
/// Below -60 dBFS: what is lengthened or left out there is not heard.
const SILENT: f32 = 0.001;
/// What fits less well is a change that can be heard; it waits for a better place as long as there is time.
const GOOD: f32 = 0.85;

#[cfg(test)]
mod tests;

//! Leaves out sound without a click.

use crate::StreamFormat;
use crate::conceal::{JOIN_MS, frames, rise};

/// Joins the sound after an omission to the sound before it: the beginning of the omitted sound fades out while what
/// follows fades in, over 2.5 ms (as in [`crate::conceal`]).
///
/// Allocates at construction only.
#[derive(Clone, Debug)]
pub struct Splice {
    channels: usize,
    /// Sample frames that a fade takes at most.
    most: usize,
    /// The beginning of the sound that is left out.
    old: Vec<f32>,
    /// Its sample frames.
    len: usize,
    /// Of those, how many are already faded.
    at: usize,
}

impl Splice {
    /// For sound of that format.
    pub fn new(format: StreamFormat) -> Self {
        let most = frames(format, JOIN_MS);
        Splice { channels: format.channels(), most, old: vec![0.0; most * format.channels()], len: 0, at: 0 }
    }

    /// Samples of the omitted sound that [`Self::leave_out`] uses.
    pub fn samples(&self) -> usize {
        self.most * self.channels
    }

    /// Leaves out the sound that begins with `sound`, whole sample frames in two pieces. If it is shorter than a fade,
    /// the fade is shorter.
    pub fn leave_out(&mut self, sound: (&[f32], &[f32])) {
        let frames = ((sound.0.len() + sound.1.len()) / self.channels).min(self.most);
        let samples = sound.0.iter().chain(sound.1).take(frames * self.channels);
        for (index, new) in samples.enumerate() {
            // A running fade continues with the sound left out now. It is read ahead of the write position.
            let frame = self.at + index / self.channels;
            let weight = if frame < self.len { rise(frame, self.len) } else { 1.0 };
            let before = if frame < self.len { self.old[self.at * self.channels + index] } else { 0.0 };
            self.old[index] = new * weight + before * (1.0 - weight);
        }
        (self.len, self.at) = (frames, 0);
    }

    /// Blends the beginning of `block`, whole sample frames, which is played next.
    pub fn join(&mut self, block: &mut [f32]) {
        for frame in block.chunks_exact_mut(self.channels).take(self.len - self.at) {
            let weight = rise(self.at, self.len);
            let old = &self.old[self.at * self.channels..];
            for (sample, old) in frame.iter_mut().zip(old) {
                *sample = *sample * weight + old * (1.0 - weight);
            }
            self.at += 1;
        }
    }

    /// No sound has been played yet, or the last sound is not to be blended.
    pub fn forget(&mut self) {
        (self.len, self.at) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow sine, so that any step between neighbours shows.
    fn sine(from: usize, frames: usize) -> Vec<f32> {
        let x = |n: usize| (n as f32 * 0.005).sin() * 0.5;
        (from..from + frames).flat_map(|n| [x(n), -x(n)]).collect()
    }

    fn largest_step(sound: &[f32]) -> f32 {
        sound.windows(3).map(|w| (w[2] - w[0]).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn sound_left_out_leaves_no_step_behind() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        for (left_out, block) in [(700, 64), (700, 1), (40, 256), (1, 256)] {
            let mut splice = Splice::new(format);
            let mut heard = sine(0, 314);
            let gone = sine(314, left_out);
            splice.leave_out(gone.split_at(gone.len() / 4 * 2));
            let mut rest = sine(314 + left_out, 600);
            for block in rest.chunks_mut(2 * block) {
                splice.join(block);
            }
            heard.extend(&rest);
            // The sine itself steps by 0.0025 per sample frame, and the blend spreads a difference of at most 1 over
            // 2.5 ms; a hard cut steps by up to 0.9. The channels stay each other's mirror image.
            assert!(largest_step(&heard) < 0.05, "{left_out}: {}", largest_step(&heard));
            assert!(heard.chunks(2).all(|frame| frame[0] == -frame[1]));
            assert_eq!(heard[2 * (314 + 120)..], sine(314 + left_out + 120, 480), "{left_out}");
        }
    }

    #[test]
    fn a_splice_within_a_splice_leaves_no_step() {
        let mut splice = Splice::new(StreamFormat::new(48_000, 2).unwrap());
        let mut heard = sine(0, 314);
        let empty: &[f32] = &[];
        splice.leave_out((&sine(314, 700), empty));
        let mut between = sine(1_014, 50);
        splice.join(&mut between);
        splice.leave_out((empty, &sine(1_064, 300)));
        let mut rest = sine(1_364, 300);
        splice.join(&mut rest);
        heard.extend(between.iter().chain(&rest));
        assert!(largest_step(&heard) < 0.05, "{}", largest_step(&heard));
    }
}

//! A server whose rate is another one than its stream's, as after it was started again: sound is converted at the device's end of the ring,
//! so that the rest of the program goes on as it began.

use antiphon_media::{FormatError, Resampler, StreamFormat};

use super::{Cycle, Direction, End};

/// An [`End`] of a stream's rate in the cycles of a server with another one.
pub(crate) struct AtRate {
    end: Box<dyn End>,
    resampler: Resampler,
    channels: usize,
    /// The stream's rate, and the server's.
    rates: (u32, u32),
    direction: Direction,
    /// A piece of a cycle at the server's rate, and at the stream's.
    outer: Vec<f32>,
    inner: Vec<f32>,
    /// The server's position at which the next cycle begins, if none is lost.
    expected: Option<u32>,
    /// The same at the stream's rate, as its end sees it.
    position: u32,
}

impl AtRate {
    /// Around `end` of `stream`, for a server that runs at `rate` Hz.
    ///
    /// # Errors
    ///
    /// Rates that sound is not converted between.
    pub fn new(
        end: Box<dyn End>,
        direction: Direction,
        stream: StreamFormat,
        rate: u32,
    ) -> Result<Self, FormatError> {
        let (own, channels) = (stream.rate(), stream.channels());
        let resampler = match direction {
            Direction::Out => Resampler::pulling(own, rate, channels, PIECE)?,
            Direction::In => Resampler::pushing(rate, own, channels, PIECE)?,
        };
        let inner = vec![0.0; resampler.max_other_side() * channels];
        let outer = vec![0.0; PIECE * channels];
        let rates = (own, rate);
        Ok(AtRate { end, resampler, channels, rates, direction, outer, inner, expected: None, position: 0 })
    }

    /// Sample frames of the server at the stream's rate, rounded down.
    fn own(&self, frames: u64) -> u32 {
        let (own, server) = self.rates;
        (frames * u64::from(own) / u64::from(server)) as u32
    }

    /// Has the end handle a piece of the server's cycle, which begins `from` in it and has `frames` of its sample frames.
    fn piece(&mut self, cycle: &mut dyn Cycle, from: usize, frames: usize) {
        let frames_own = match self.direction {
            Direction::Out => self.resampler.needed(frames),
            Direction::In => self.resampler.given(frames),
        };
        let (outer, count) = (frames * self.channels, frames_own * self.channels);
        if self.direction == Direction::In {
            self.outer[..outer].fill(0.0);
            cycle.capture(from, &mut self.outer[..outer]);
            self.resampler.process(&self.outer[..outer], &mut self.inner[..count]);
        }
        let late = self.own(u64::from(cycle.late()).saturating_sub(from as u64));
        let next = self.own(cycle.next().min(PIECE) as u64) as usize + 1;
        let mut inner = Inner {
            sound: &mut self.inner[..count],
            channels: self.channels,
            next,
            late,
            position: self.position,
            slips: cycle.slips(),
            freewheels: cycle.freewheels(),
        };
        self.end.process(&mut inner);
        self.position = self.position.wrapping_add(frames_own as u32);
        if self.direction == Direction::Out {
            self.resampler.process(&self.inner[..count], &mut self.outer[..outer]);
            cycle.play(from, &self.outer[..outer]);
        }
    }
}

impl End for AtRate {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let (frames, position) = (cycle.frames(), cycle.position());
        let lost = self.expected.map_or(0, |expected| position.wrapping_sub(expected) as i32).max(0);
        self.position = self.position.wrapping_add(self.own(lost.unsigned_abs().into()));
        self.expected = Some(position.wrapping_add(frames as u32));
        let mut from = 0;
        while from < frames {
            let piece = (frames - from).min(PIECE);
            self.piece(cycle, from, piece);
            from += piece;
        }
    }

    fn idle(&mut self, now: u64) {
        self.end.idle(now);
    }

    fn lacks(&self, frames: usize) -> usize {
        self.end.lacks(self.own(frames as u64) as usize + 1)
    }
}

/// A cycle at the stream's rate.
struct Inner<'a> {
    sound: &'a mut [f32],
    channels: usize,
    next: usize,
    late: u32,
    position: u32,
    slips: bool,
    freewheels: bool,
}

impl Cycle for Inner<'_> {
    fn frames(&self) -> usize {
        self.sound.len() / self.channels
    }

    fn next(&self) -> usize {
        self.next
    }

    fn freewheels(&self) -> bool {
        self.freewheels
    }

    fn late(&self) -> u32 {
        self.late
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn slips(&self) -> bool {
        self.slips
    }

    fn play(&mut self, from: usize, sound: &[f32]) {
        self.sound[from * self.channels..][..sound.len()].copy_from_slice(sound);
    }

    fn play_silence(&mut self, from: usize) {
        self.sound[from * self.channels..].fill(0.0);
    }

    fn capture(&mut self, from: usize, sound: &mut [f32]) {
        sound.copy_from_slice(&self.sound[from * self.channels..][..sound.len()]);
    }
}

/// Sample frames that are converted at once; longer cycles are taken in pieces.
const PIECE: usize = 8192;

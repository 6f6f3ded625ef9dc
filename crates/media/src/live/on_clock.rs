//! A live source by another clock than its own: asynchronous sample rate conversion.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

use super::pace::Usual;
use crate::packet::MediaPacket;
use crate::playout::{ClockedError, ClockedPlayout, Clocking, MAX_PACKET_FRAMES, PlayoutConfig};
use crate::{Pull, SampleFormat, Source, StreamFormat, codec};

/// Gives the sound of a live source by the clock of the one who pulls.
///
/// A device samples by a clock of its own. Where a sender has promised that its time stamps count another one, such as PTP's (AES67), the sound is
/// resampled to that: it waits in a playout buffer as a receiver's does ([`ClockedPlayout`]), whose packets are the pieces that the source gives.
///
/// Each sample frame is to be pulled so long after its capture ([`Self::delay`]): the longest piece and a block, as the last
/// sample frame of a block may be the first of a piece, and a margin for a thread that wakes up late, which becomes longer where sound was missing. When a
/// piece comes, its last sample frame is taken to have been captured just now; how long a device itself holds sound before it gives it is not known.
pub struct OnClock {
    format: StreamFormat,
    playout: ClockedPlayout,
    /// Sample frames that are pulled at a time.
    block: usize,
    /// The longest piece so far, in sample frames.
    longest: usize,
    /// How long each piece waits beyond that.
    margin: Duration,
    /// The last block lacked sound.
    lacks: bool,
    usual: Usual,
    samples: Vec<f32>,
    payload: Vec<u8>,
    /// Packets made, and sample frames of the source up to the end of the last one, those included that were left out.
    packets: u64,
    taken: u64,
    /// Sample frames of the source in all, and those pulled.
    length: Option<u64>,
    given: u64,
    skipped: u64,
}

impl OnClock {
    /// For sound of `source` that is pulled in blocks of `block` sample frames. Allocates its memory.
    ///
    /// # Errors
    ///
    /// If the rate can't be resampled.
    pub fn new(source: &dyn Source, block: usize) -> Result<Self, ClockedError> {
        let (format, block) = (source.format(), block.max(1));
        let rate = format.rate();
        let piece = source.ready().piece.min(frames_of(MOST_BEHIND, rate));
        let longest = if piece > 0 { piece } else { frames_of(UNKNOWN, rate) };
        let delay = MediaTime::new((longest + block) as u64, rate).duration() + MARGIN;
        let config = PlayoutConfig::new(format, delay, Clocking::Sink);
        let samples = MAX_PACKET_FRAMES * format.channels();
        Ok(OnClock {
            format,
            playout: ClockedPlayout::new(config, rate, block)?,
            block,
            longest,
            margin: MARGIN,
            lacks: false,
            usual: Usual::default(),
            samples: vec![0.0; samples],
            payload: vec![0; samples * SampleFormat::F32.bytes()],
            packets: 0,
            taken: 0,
            length: source.length(),
            given: 0,
            skipped: 0,
        })
    }

    /// From the capture of a block's first sample frame until the block is to be pulled.
    pub fn delay(&self) -> Duration {
        self.playout.playout().config().playout_delay
    }

    /// The sound begins: what `source` gathered before is left out.
    pub fn begin(&mut self, source: &mut dyn Source) {
        source.keep_newest(0);
    }

    /// Takes what `source` has, at `now`: when it wakes the thread ([`Source::set_waker`]), and before each pull.
    pub fn gather(&mut self, now: Instant, source: &mut dyn Source) {
        let most = frames_of(MOST_BEHIND, self.format.rate());
        if source.ready().frames > most {
            let skipped = source.keep_newest(most);
            (self.skipped, self.taken) = (self.skipped + skipped, self.taken + skipped);
        }
        let ready = source.ready();
        let piece_of = |usual: &Usual| if ready.piece > 0 { ready.piece } else { usual.frames() };
        if ready.frames > 0 {
            self.usual.add(now, ready.frames);
            self.expect(piece_of(&self.usual).min(most));
        }
        let mut left = ready.frames;
        while left > 0 {
            let piece = if ready.piece > 0 { ready.piece } else { left };
            let frames = piece.min(left).min(MAX_PACKET_FRAMES);
            let captured = now - MediaTime::new(left as u64, self.format.rate()).duration();
            match source.pull(&mut self.samples[..frames * self.format.channels()]) {
                Pull::Frames(frames) => self.insert(captured, frames),
                Pull::Starved | Pull::End => return,
            }
            left -= frames;
        }
        self.follow(now);
    }

    /// Keeps the schedule on the line of the source's clock.
    fn follow(&mut self, now: Instant) {
        let delay = self.delay();
        let media = FIRST + self.taken;
        let playout = self.playout.playout_mut();
        if let Some(captured) = playout.clock().expected(now, media) {
            playout.keep_in_step(media as u32, captured, delay);
        }
    }

    /// Fills `block` with what is due at `at`: what a source does, and whether sound was missing. A source of which it is known how long it is has as many sample
    /// frames by the other clock; what its own lacks of them is silent.
    pub fn pull(&mut self, at: Instant, block: &mut [f32], source: &dyn Source) -> (Pull, bool) {
        let ready = source.ready();
        let has_ended = ready.ended && ready.frames == 0;
        if has_ended {
            self.playout.playout_mut().finish();
        }
        let frames = (block.len() / self.format.channels()) as u64;
        let left = match self.length.map(|length| length.saturating_sub(self.given)) {
            Some(left) => left,
            None if has_ended && self.playout.playout().level() == 0 => 0,
            None => frames,
        };
        if left == 0 {
            return (Pull::End, false);
        }
        let lacks = self.playout.pull(at, block).pulled.concealed > 0 && !has_ended;
        if lacks && !std::mem::replace(&mut self.lacks, lacks) {
            self.margin = (self.margin + MORE).min(MOST_MARGIN);
            self.set_delay();
        }
        self.lacks = lacks;
        let frames = frames.min(left);
        self.given += frames;
        (Pull::Frames(frames as usize), lacks)
    }

    /// Sample frames that were too old to be sent, or for which the source had no room.
    pub fn skipped_frames(&self) -> u64 {
        self.skipped
    }

    fn insert(&mut self, captured: Instant, frames: usize) {
        let samples = &self.samples[..frames * self.format.channels()];
        let bytes = codec::encode(SampleFormat::F32, samples, &mut self.payload);
        let packet = MediaPacket {
            sequence: FIRST + self.packets,
            timestamp: FIRST + self.taken,
            frames,
            lead: 0,
            coding: SampleFormat::F32.into(),
            channels: self.format.channels(),
            recovered: false,
            payload: &self.payload[..bytes],
        };
        self.playout.playout_mut().insert(captured, &packet);
        self.packets += 1;
        self.taken += frames as u64;
    }

    /// Pieces have so many sample frames: what is pulled waits for them, if they are longer than any before.
    fn expect(&mut self, piece: usize) {
        if piece > self.longest {
            self.longest = piece;
            self.set_delay();
        }
    }

    fn set_delay(&mut self) {
        let both = MediaTime::new((self.longest + self.block) as u64, self.format.rate());
        self.playout.playout_mut().set_playout_delay(both.duration() + self.margin);
    }
}

fn frames_of(time: Duration, rate: u32) -> usize {
    (time.as_nanos() * u128::from(rate) / 1_000_000_000) as usize
}

/// A piece of a source that does not say how long its pieces are, until some have come.
const UNKNOWN: Duration = Duration::from_millis(10);
/// For a thread that wakes up late, and the resampler's delay: as much as a receiver with JACK is given beyond its periods (`docs/jack.md`).
const MARGIN: Duration = Duration::from_millis(4);
/// So much is added each time that sound was missing, since the thread was held up for longer or the device's clock is off by more than sound cards' are.
const MORE: Duration = Duration::from_millis(2);
/// But no more than this: receivers of AES67 wait for hardly longer than 10 ms.
const MOST_MARGIN: Duration = Duration::from_millis(8);
/// Sound that is older is not sent: a sender catches up with no more.
const MOST_BEHIND: Duration = Duration::from_millis(250);
/// Before the first packet's numbers and time stamps: none of what comes is older.
const FIRST: u64 = 1 << 32;

#[cfg(test)]
mod tests;

//! Determines whether sound that comes through a pipe has a clock.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

/// What the pace of a pipe has shown so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// Not enough yet.
    Unknown,
    /// The pipe gives as much sound as time passes: a microphone, or a player at real time.
    Live,
    /// The pipe gives sound faster than time passes, so it has no clock: a file after a decoder. Final.
    Recorded,
}

/// Determines by its pace whether a pipe is live.
///
/// It keeps a *lead*: sound that has come, less the time that has passed. For a live source it is at most one of its
/// pieces plus what was in its pipe at the beginning; for a recording, read as fast as it comes, it grows until the
/// next buffer is full. Time in which a full buffer kept the pipe from being read is not counted.
#[derive(Clone, Debug)]
pub struct LiveMeter {
    rate: u32,
    /// Capacity of the buffer after it.
    room: Duration,
    last: Option<Instant>,
    /// Time observed so far.
    watched: Duration,
    lead: Duration,
    liveness: Liveness,
}

impl LiveMeter {
    /// For sound of `rate` sample frames per second that is read into a buffer of length `room`.
    pub fn new(rate: u32, room: Duration) -> Self {
        LiveMeter {
            rate,
            room,
            last: None,
            watched: Duration::ZERO,
            lead: Duration::ZERO,
            liveness: Liveness::Unknown,
        }
    }

    /// `frames` sample frames came at `now`.
    pub fn on_frames(&mut self, now: Instant, frames: usize) -> Liveness {
        let elapsed = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.last = Some(now);
        self.watched += elapsed;
        self.lead = self.lead.saturating_sub(elapsed + elapsed / CLOCKS_DIFFER);
        // Decided before this piece is added: a live source with large pieces has no lead left when the next one comes.
        let is_steady = self.watched >= self.room / 3 && self.lead <= self.room / 5;
        if self.liveness == Liveness::Unknown && is_steady {
            self.liveness = Liveness::Live;
        }
        self.lead += MediaTime::new(frames as u64, self.rate).duration();
        if self.lead > self.room / 2 {
            self.liveness = Liveness::Recorded;
        }
        self.liveness
    }

    /// The buffer was full until `now`, so nothing could be read.
    pub fn on_blocked(&mut self, now: Instant) {
        self.last = self.last.map(|_| now);
    }

    /// The result so far.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }
}

/// The lead shrinks by one part in this many of the time: ten times what sound cards differ by (±1000 ppm at worst), so
/// that a fast card's clock never adds up to a lead.
const CLOCKS_DIFFER: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 48_000;
    const ROOM: Duration = Duration::from_secs(3);

    /// Sound at `pace` times real time in pieces of `piece` sample frames, with `ahead` of them buffered at the
    /// beginning; the result after `seconds`.
    fn judged(pace: f64, piece: usize, ahead: usize, seconds: f64) -> LiveMeter {
        let mut meter = LiveMeter::new(RATE, ROOM);
        meter.on_frames(Instant::ZERO, ahead.max(piece));
        let period = piece as f64 / f64::from(RATE) / pace;
        for n in 1..(seconds / period) as u64 {
            meter.on_frames(Instant::from_nanos((n as f64 * period * 1e9) as u64), piece);
        }
        meter
    }

    #[test]
    fn a_microphone_is_live_within_one_second() {
        // A pipe of 64 KiB holds 0.34 s of 16-bit stereo; arecord gives 125 ms at once by default.
        for (piece, ahead) in [(64, 0), (256, 16_384), (6_000, 16_384), (24_000, 0)] {
            assert_eq!(judged(1.0, piece, ahead, 1.6).liveness(), Liveness::Live, "{piece} {ahead}");
        }
    }

    #[test]
    fn clocks_that_differ_stay_live_for_a_day() {
        for pace in [1.0 + 1e-3, 1.0 - 1e-3] {
            assert_eq!(judged(pace, 6_000, 0, 86_400.0).liveness(), Liveness::Live, "{pace}");
        }
    }

    #[test]
    fn a_decoder_is_recorded_before_its_buffer_is_full() {
        for pace in [1.5, 4.0, 50.0] {
            let mut meter = LiveMeter::new(RATE, ROOM);
            let period = 1_024.0 / f64::from(RATE) / pace;
            let mut read = 0.0;
            for n in 0.. {
                if meter.on_frames(Instant::from_nanos((n as f64 * period * 1e9) as u64), 1_024)
                    == Liveness::Recorded
                {
                    break;
                }
                assert!(meter.liveness() == Liveness::Unknown || pace < 2.0, "{pace}: taken for live");
                // Beyond what has been pulled at real time.
                read = (n + 1) as f64 * 1_024.0 / f64::from(RATE) * (1.0 - 1.0 / pace);
                assert!(read < ROOM.as_secs_f64(), "{pace}");
            }
            assert!(read > 0.0);
        }
    }

    #[test]
    fn time_behind_a_full_buffer_counts_for_nothing() {
        // A decoder at three times real time, blocked by a small buffer before the result is known.
        let mut meter = LiveMeter::new(RATE, ROOM);
        for n in 0..10u64 {
            meter.on_frames(Instant::from_millis(n * 33), 4_800);
        }
        assert_eq!(meter.liveness(), Liveness::Unknown);
        meter.on_blocked(Instant::from_millis(60_000));
        for n in 0..20u64 {
            meter.on_frames(Instant::from_millis(60_000 + n * 33), 4_800);
        }
        assert_eq!(meter.liveness(), Liveness::Recorded);
        meter.on_frames(Instant::from_millis(1_000_000), 4_800);
        assert_eq!(meter.liveness(), Liveness::Recorded, "the verdict is final");
    }
}

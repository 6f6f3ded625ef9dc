//! A playout buffer for a device that pulls by its own clock.
//!
//! Three clocks are involved: the sender's sampling clock, the run's, and the device's. The first against the second is
//! estimated from arrivals ([`crate::drift`]); the device's drift shows as a slowly growing lag behind the schedule,
//! which a proportional-integral controller corrects. Both together control a resampler.

mod direct;

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, Ppm};

use super::pull::CATCH_UP;
use super::{Clocking, Playout, PlayoutConfig, PlayoutError, Pulled};
use crate::drift::MAX_DRIFT_PPM;
use crate::packet::frames_together;
use crate::resample::Resampler;
use crate::{CyclePlace, FormatError, StreamFormat};
use direct::Direct;

/// Why no such playout can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockedError {
    /// The buffer cannot be made.
    #[error(transparent)]
    Playout(#[from] PlayoutError),
    /// The rates cannot be converted.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// What a pull gave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockedPull {
    /// Taken from the buffer so far, in sample frames of the stream.
    pub pulled: Pulled,
    /// How much faster than nominal the stream is being used up.
    pub speed: Ppm,
    /// How far the sound is behind its schedule, smoothed, in nanoseconds; negative when ahead.
    pub lag_nanos: i64,
}

/// [`Playout`] with conversion from the stream's rate to the device's, drift included.
pub struct ClockedPlayout {
    playout: Playout,
    resampler: Resampler,
    /// The device's.
    rate: u32,
    scratch: Vec<f32>,
    /// The resampler's delay.
    held: Duration,
    control: Control,
    /// Sound without the resampler, for a device whose cycles are known.
    direct: Option<Box<Direct>>,
    /// What the device's clock has lost at once so far, in nanoseconds.
    slipped: Option<i64>,
}

impl ClockedPlayout {
    /// For a device that takes `rate` sample frames per second in blocks of up to `max_block`, in as many channels as
    /// the stream has. The clocking in `config` is replaced by the sink's.
    pub fn new(config: PlayoutConfig, rate: u32, max_block: usize) -> Result<Self, ClockedError> {
        let format: StreamFormat = config.format;
        let playout = Playout::new(PlayoutConfig { clocking: Clocking::Sink, ..config })?;
        let resampler = Resampler::pulling(format.rate(), rate, format.channels(), max_block)?;
        Ok(ClockedPlayout {
            scratch: vec![0.0; resampler.max_other_side() * format.channels()],
            held: MediaTime::new(resampler.delay() as u64, rate).duration(),
            control: Control::default(),
            direct: None,
            slipped: None,
            playout,
            resampler,
            rate,
        })
    }

    /// Fills `out`, whole sample frames, at most as many as a block has.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) -> ClockedPull {
        self.pull_in_cycle(now, None, out)
    }

    /// The same for a device that takes whole cycles: `place` is where `out` stands in one, if it says.
    pub fn pull_in_cycle(&mut self, now: Instant, place: Option<CyclePlace>, out: &mut [f32]) -> ClockedPull {
        match self.pull_direct(now, place, out) {
            Some(pulled) => pulled,
            None => self.pull_resampled(now, out),
        }
    }

    fn pull_resampled(&mut self, now: Instant, out: &mut [f32]) -> ClockedPull {
        let channels = self.playout.config().format.channels();
        let rate = f64::from(self.playout.config().format.rate());
        // Sound taken from the buffer now is played after the resampler's delay.
        let due = now + self.held;
        let lag = self.playout.lag(due).filter(|_| self.playout.playing);
        self.control.update(now, lag.map(|frames| frames / rate), self.playout.clock().drift());
        self.resampler.set_speed(Ppm(self.control.speed));
        let needed = self.resampler.needed(out.len() / channels);
        let input = &mut self.scratch[..needed * channels];
        let pulled = self.playout.pull(due, input);
        self.resampler.process(input, out);
        ClockedPull { pulled, speed: Ppm(self.control.speed), lag_nanos: self.lag_nanos() }
    }

    /// The clock that paces the device has lost `slipped` nanoseconds at once, in all ([`crate::Wants::slipped`]).
    pub fn follow_slips(&mut self, now: Instant, slipped: i64) {
        let before = self.slipped.replace(slipped).unwrap_or(slipped);
        if slipped != before {
            self.playout.clock.on_slip(now, slipped.saturating_sub(before));
            self.direct.iter_mut().for_each(|direct| direct.on_slip(now));
        }
    }

    /// Whether all sound for the next `frames` sample frames has come, and nothing is to be decided about it until it is due: then it may be
    /// pulled before, with the time at which it is due.
    pub fn has_come(&self, frames: usize) -> bool {
        match &self.direct {
            Some(direct) if direct.on => !direct.observes() && self.playout.has_come(frames),
            _ => {
                let (from, to) = (self.playout.config().format.rate() as usize, self.rate as usize);
                self.playout.has_come((frames * from).div_ceil(to) + SURPLUS)
            }
        }
    }

    /// The device has gone without its next `frames` sample frames: what was for them is left out, so that the rest is heard in its time.
    pub fn skip(&mut self, frames: u64) {
        let to = u128::from(self.playout.config().format.rate());
        let frames = u128::from(frames) * to / u128::from(self.rate);
        self.playout.skip(u64::try_from(frames).unwrap_or(u64::MAX));
    }

    /// Another stream begins; the clock estimates are discarded.
    pub fn restart(&mut self) {
        self.playout.restart();
        self.control = Control::default();
        self.direct.iter_mut().for_each(|direct| direct.restart());
    }

    /// How far the sound is behind its schedule, smoothed, in nanoseconds; negative when ahead.
    pub fn lag_nanos(&self) -> i64 {
        let direct = self.direct.as_ref().filter(|direct| direct.on);
        let lag = direct.map_or(self.control.lag, |direct| direct.lag_now());
        (lag.unwrap_or(0.0) * 1e9) as i64
    }

    /// The buffer, for its counters and deadlines.
    pub fn playout(&self) -> &Playout {
        &self.playout
    }

    /// The same, to insert packets. When deadlines move, the sound follows at the resampler's limited speed.
    pub fn playout_mut(&mut self) -> &mut Playout {
        &mut self.playout
    }
}

/// How many sample frames to pull for a device at a time: those of a packet, or of the device's period where that is shorter
/// ([`crate::Sink::period`]), both at the stream's rate.
///
/// All sound that is pulled at once must have arrived when its first sample frame is due: more than a packet means
/// waiting for the next ones, 4 ms for 256 sample frames of packets of 64 at 48 kHz.
pub fn pull_frames(packet: usize, period: Option<usize>) -> usize {
    packet.min(period.unwrap_or(packet)).clamp(LEAST_PULL, MOST_PULL)
}

/// The same where many channels make packets short, at `rate` sample frames per second: several packets' at once, as senders hand over several
/// ([`crate::packet::PacketConfig::blocks_together`]). A thread that wakes for each would wake thousands of times a second.
pub fn pull_frames_of_many(packet: usize, period: Option<usize>, rate: u32) -> usize {
    let block = period.and_then(|period| u32::try_from(period).ok()).unwrap_or(u32::MAX);
    pull_frames(packet.max(frames_together(rate, block) as usize), period)
}

/// The controller: estimated drift of the sender, and a PI on the lag for everything else.
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    last: Option<Instant>,
    /// Smoothed lag in seconds.
    lag: Option<f64>,
    integral: f64,
    /// The correction requested of the resampler, in ppm.
    speed: f64,
}

impl Control {
    /// `lag` in seconds; `None` while nothing plays. What the buffer is going to leave out at once shows nothing of the clocks.
    fn update(&mut self, now: Instant, lag: Option<f64>, drift: Ppm) {
        let elapsed = self.last.map_or(0.0, |last| now.since(last).as_secs_f64().min(1.0));
        self.last = Some(now);
        let Some(lag) = lag.filter(|lag| lag.abs() < CATCH_UP.as_secs_f64()) else {
            self.lag = None;
            return;
        };
        let smooth = self.lag.map_or(lag, |old| old + (lag - old) * (elapsed / SMOOTHING_S).min(1.0));
        self.lag = Some(smooth);
        let proportional = (PROPORTIONAL * smooth).clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
        let wanted = drift.0 + proportional + self.integral;
        let bounded = wanted.clamp(-MAX_TOTAL_PPM, MAX_TOTAL_PPM);
        if wanted == bounded {
            // A correction beyond the limit must not accumulate (no integrator windup).
            self.integral =
                (self.integral + INTEGRAL * smooth * elapsed).clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
        }
        let slew = SLEW_PPM_PER_S * elapsed;
        self.speed += (bounded - self.speed).clamp(-slew, slew);
    }
}

/// What the resampler may need beyond as many sample frames as its output lasts: a fraction is rounded, and its speed changes.
const SURPLUS: usize = 2;
/// The length of the shortest block; shorter pulls cost more than they save.
const LEAST_PULL: usize = 16;
/// The length of the longest block.
const MOST_PULL: usize = 4096;
/// Time constant of the lag's smoothing: pulls come in bursts of a device's period.
const SMOOTHING_S: f64 = 1.0;
/// Critically damped with a natural period of 15 s, between the 10 and 30 s usual for such loops: 2/15 s and 1/(15 s)²,
/// in ppm.
const PROPORTIONAL: f64 = 2.0 / 15.0 * 1e6;
const INTEGRAL: f64 = 1e6 / (15.0 * 15.0);
/// The supported drift, 100 ppm for the device's own clock, and as much again to correct lag: a cent in pitch.
const MAX_TOTAL_PPM: f64 = MAX_DRIFT_PPM + 200.0;
/// A twentieth of a cent per second: inaudible. With a third of it, 500 ppm would cost 12 ms of buffer until corrected.
const SLEW_PPM_PER_S: f64 = 30.0;

#[cfg(test)]
mod tests;

//! A playout buffer for a device that pulls by a clock of its own.
//!
//! Three clocks meet here: the sender's sampling clock, the run's, and the device's. The first against the second is
//! estimated from arrivals ([`crate::drift`]); what the device adds shows as a slowly growing lag behind the schedule,
//! which a proportional-integral controller takes back. Both together steer a resampler.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, Ppm};

use super::{Clocking, Playout, PlayoutConfig, PlayoutError, Pulled};
use crate::drift::MAX_DRIFT_PPM;
use crate::packet::MediaPacket;
use crate::resample::Resampler;
use crate::{FormatError, StreamFormat};

/// Why no such playout can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockedError {
    /// The buffer cannot be.
    #[error(transparent)]
    Playout(#[from] PlayoutError),
    /// The rates cannot be converted.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// What a pull gave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockedPull {
    /// What was taken from the buffer, in sample frames of the stream.
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
    scratch: Vec<f32>,
    max_block: usize,
    channels: usize,
    /// How long the resampler keeps the sound.
    held: Duration,
    control: Control,
}

impl ClockedPlayout {
    /// For a device that takes `rate` sample frames per second in blocks of up to `max_block`, in as many channels as
    /// the stream has. The clocking in `config` is taken to be the sink's.
    pub fn new(config: PlayoutConfig, rate: u32, max_block: usize) -> Result<Self, ClockedError> {
        let format: StreamFormat = config.format;
        let playout = Playout::new(PlayoutConfig { clocking: Clocking::Sink, ..config })?;
        let resampler = Resampler::pulling(format.rate(), rate, format.channels(), max_block)?;
        Ok(ClockedPlayout {
            scratch: vec![0.0; resampler.max_other_side() * format.channels()],
            channels: format.channels(),
            held: MediaTime::new(resampler.delay() as u64, rate).duration(),
            control: Control::default(),
            playout,
            resampler,
            max_block,
        })
    }

    /// Takes a packet that arrived at `now`.
    pub fn insert(&mut self, now: Instant, packet: &MediaPacket<'_>) -> super::Inserted {
        self.playout.insert(now, packet)
    }

    /// Fills `out`, whole sample frames of any number.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) -> ClockedPull {
        let whole = out.len() / self.channels * self.channels;
        let out = &mut out[..whole];
        let rate = f64::from(self.playout.config().format.rate());
        // What is taken from the buffer now goes out when the resampler has let go of it.
        let due = now + self.held;
        let lag = self.playout.lag(due).filter(|_| self.playout.playing);
        self.control.update(now, lag.map(|frames| frames / rate), self.playout.clock().drift());
        self.resampler.set_speed(Ppm(self.control.speed));
        let mut sum: Option<Pulled> = None;
        for block in out.chunks_mut(self.max_block * self.channels) {
            let needed = self.resampler.needed(block.len() / self.channels);
            let input = &mut self.scratch[..needed * self.channels];
            let pulled = self.playout.pull(due, input);
            self.resampler.process(input, block);
            sum = Some(sum.map_or(pulled, |sum| add(sum, pulled)));
        }
        ClockedPull {
            pulled: sum.unwrap_or_default(),
            speed: Ppm(self.control.speed),
            lag_nanos: (self.control.lag.unwrap_or(0.0) * 1e9) as i64,
        }
    }

    /// Another stream begins; what is known of the clocks is forgotten with it.
    pub fn restart(&mut self) {
        self.playout.restart();
        self.control = Control::default();
    }

    /// The buffer, for its counters and deadlines.
    pub fn playout(&self) -> &Playout {
        &self.playout
    }

    /// Moves the deadlines; the sound follows as slowly as the resampler may.
    pub fn set_target(&mut self, target: Duration) {
        self.playout.set_target(target);
    }
}

fn add(a: Pulled, b: Pulled) -> Pulled {
    Pulled {
        frames: a.frames + b.frames,
        media: a.media.or(b.media),
        played: a.played + b.played,
        concealed: a.concealed + b.concealed,
        silent: a.silent + b.silent,
        cause: b.cause.or(a.cause),
    }
}

/// The controller: estimated drift of the sender, and a PI on the lag for everything else.
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    last: Option<Instant>,
    /// Smoothed lag in seconds.
    lag: Option<f64>,
    integral: f64,
    /// What is asked of the resampler, in ppm.
    speed: f64,
}

impl Control {
    /// `lag` in seconds; `None` while nothing plays.
    fn update(&mut self, now: Instant, lag: Option<f64>, drift: Ppm) {
        let elapsed = self.last.map_or(0.0, |last| now.since(last).as_secs_f64().min(1.0));
        self.last = Some(now);
        let Some(lag) = lag else {
            self.lag = None;
            return;
        };
        let smooth = self.lag.map_or(lag, |old| old + (lag - old) * (elapsed / SMOOTHING_S).min(1.0));
        self.lag = Some(smooth);
        let proportional = (PROPORTIONAL * smooth).clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
        let wanted = drift.0 + proportional + self.integral;
        let bounded = wanted.clamp(-MAX_TOTAL_PPM, MAX_TOTAL_PPM);
        if wanted == bounded {
            // What cannot be had must not pile up.
            self.integral =
                (self.integral + INTEGRAL * smooth * elapsed).clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
        }
        let slew = SLEW_PPM_PER_S * elapsed;
        self.speed += (bounded - self.speed).clamp(-slew, slew);
    }
}

/// Time constant of the lag's smoothing: pulls come in bursts of a device's period.
const SMOOTHING_S: f64 = 1.0;
/// Critically damped with a natural period of 15 s, between the 10 and 30 s usual for such loops: 2/15 s and 1/(15 s)²,
/// in ppm.
const PROPORTIONAL: f64 = 2.0 / 15.0 * 1e6;
const INTEGRAL: f64 = 1e6 / (15.0 * 15.0);
/// The drift of both clocks, and something to take lag back with.
const MAX_TOTAL_PPM: f64 = MAX_DRIFT_PPM + 100.0;
/// A twentieth of a cent per second: not heard. A third of it would let 500 ppm cost 12 ms of buffer before it is met.
const SLEW_PPM_PER_S: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;
    use antiphon_core::Rng;

    /// A mono sender `sender_ppm` fast with exponential queueing of 1 ms mean and `delay` by time, a device `sink_ppm` fast
    /// that pulls 40 sample frames of 8 kHz; target 30 ms. Returns (time, lag in ms, speed) twice a second, and the
    /// playout.
    fn run(
        sender_ppm: f64,
        sink_ppm: f64,
        seconds: f64,
        delay: impl Fn(f64) -> f64,
    ) -> (Vec<(f64, f64, f64)>, ClockedPlayout) {
        let format = StreamFormat::new(8_000, 1).unwrap();
        let config = PlayoutConfig::new(format, Duration::from_millis(30), Clocking::Sink);
        let mut clocked = ClockedPlayout::new(config, 8_000, 40).unwrap();
        let mut rng = Rng::new(11);
        let (packet_s, pull_s) = (0.005 / (1.0 + sender_ppm / 1e6), 0.005 / (1.0 + sink_ppm / 1e6));
        let (mut n, mut arrival, mut pulls, mut seen) = (0u64, 0.0f64, 0u64, Vec::new());
        let (payload, mut out) = ([0x10u8; 80], [0.0f32; 40]);
        let at = |t: f64| Instant::from_nanos((t * 1e9) as u64);
        let mut due = delay(0.0);
        loop {
            let pull = pulls as f64 * pull_s;
            if pull > seconds {
                return (seen, clocked);
            }
            while due <= pull {
                // Queueing delays but does not reorder.
                arrival = due.max(arrival);
                let packet = MediaPacket {
                    sequence: n,
                    timestamp: n * 40,
                    frames: 40,
                    sample: SampleFormat::L16,
                    channels: 1,
                    marker: false,
                    recovered: false,
                    ntp: None,
                    payload: &payload,
                };
                clocked.insert(at(arrival), &packet);
                n += 1;
                let sent = n as f64 * packet_s;
                due = sent + delay(sent) + 0.001 * rng.exponential().min(20.0);
            }
            let given = clocked.pull(at(pull), &mut out);
            if pulls.is_multiple_of(100) {
                seen.push((pull, given.lag_nanos as f64 / 1e6, given.speed.0));
            }
            pulls += 1;
        }
    }

    /// 1 ms of lag is a thirtieth of the buffer; without correction 200 ppm make 24 ms in two minutes.
    #[test]
    fn clocks_that_differ_are_followed() {
        for (sender, sink) in [(100.0, 0.0), (-100.0, 100.0), (0.0, -100.0), (450.0, 0.0), (-450.0, 0.0)] {
            let (seen, clocked) = run(sender, sink, 120.0, |_| 0.02);
            let bound = if (sender - sink).abs() < 300.0 { 4.0 } else { 9.0 };
            for (t, lag, speed) in &seen {
                assert!(lag.abs() < bound, "{sender} {sink}: lag of {lag} ms at {t} s");
                if *t > 90.0 {
                    assert!(
                        lag.abs() < 1.0 && (speed - (sender - sink)).abs() < 25.0,
                        "{sender} {sink}: {lag} ms, {speed} ppm at {t} s"
                    );
                }
            }
            let counters = clocked.playout().counters();
            assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{counters:?}");
            assert_eq!((counters.concealed_frames, counters.skipped_frames), (0, 0));
        }
    }

    /// A longer path by 10 ms takes its third of the buffer; the sound slows down by what the controller may, and no
    /// more, until the buffer is full again, then keeps still.
    #[test]
    fn a_change_of_route_ends_in_rest() {
        let (seen, clocked) = run(0.0, 0.0, 300.0, |t| if t < 60.0 { 0.02 } else { 0.03 });
        assert!(seen.iter().all(|(_, _, speed)| speed.abs() <= MAX_TOTAL_PPM));
        assert!(
            seen.iter()
                .filter(|(t, ..)| *t > 240.0)
                .all(|(_, lag, speed)| lag.abs() < 1.0 && speed.abs() < 60.0),
            "{:?}",
            &seen[480..]
        );
        assert_eq!(clocked.playout().counters().concealed_frames, 0);
    }
}

use super::*;
use crate::packet::MediaPacket;
use crate::playout::{AdaptiveDelay, Clocking, PlayoutConfig};
use crate::{SampleFormat, StreamFormat};

const RATE: f64 = 48_000.0;
const PERIOD: usize = 128;

/// A sender whose periods begin `sender_ppm` faster than the device's cycles, packets as long as both; a sink that pulls a cycle 0.25 ms before it begins
/// unless told otherwise.
struct Room {
    clocked: ClockedPlayout,
    path: f64,
    sender_ppm: f64,
    /// By how much every other packet comes later, in seconds.
    odd: f64,
    /// Sample frames by which a cycle is pulled before it begins.
    margin: usize,
    /// By how much cycles and packets come later than they did at first, in seconds.
    shift: f64,
    sent: u64,
    cycles: u64,
    heard: Vec<f32>,
}

impl Room {
    fn new(latency: Duration, path_ms: f64, sender_ppm: f64) -> Self {
        let format = StreamFormat::new(48_000, 1).unwrap();
        let config = PlayoutConfig::new(format, latency, Clocking::Sink);
        let clocked = ClockedPlayout::new(config, 48_000, PERIOD).unwrap().in_cycles();
        Room {
            clocked,
            path: path_ms / 1e3,
            sender_ppm,
            odd: 0.0,
            margin: 12,
            shift: 0.0,
            sent: 0,
            cycles: 0,
            heard: Vec::new(),
        }
    }

    fn run(&mut self, seconds: f64, sound: impl Fn(u64) -> i16) {
        let shift = self.shift;
        let at = |t: f64| Instant::from_nanos(((t + shift + 1.0) * 1e9) as u64);
        let period = PERIOD as f64 / RATE;
        while self.cycles as f64 * period < seconds {
            let margin = self.margin as f64 / RATE;
            let pull = self.cycles as f64 * period - margin;
            loop {
                let arrives = self.sent as f64 * period / (1.0 + self.sender_ppm / 1e6)
                    + self.path
                    + self.odd * (self.sent % 2) as f64;
                if arrives > pull {
                    break;
                }
                let first = self.sent * PERIOD as u64;
                let payload: Vec<u8> =
                    (first..first + PERIOD as u64).flat_map(|n| sound(n).to_be_bytes()).collect();
                let packet = MediaPacket {
                    sequence: self.sent,
                    timestamp: first,
                    frames: PERIOD,
                    lead: 0,
                    coding: SampleFormat::L16.into(),
                    channels: 1,
                    recovered: false,
                    payload: &payload,
                };
                self.clocked.playout_mut().insert(at(arrives), &packet);
                self.sent += 1;
            }
            let mut block = [0.0; PERIOD];
            let place = CyclePlace { rest: PERIOD, margin: self.margin };
            self.clocked.pull_in_cycle(at(pull), Some(place), &mut block);
            self.heard.extend(block);
            self.cycles += 1;
        }
    }

    /// The delay in sample frames at which the last tenth of a second is what was sent, to the bit.
    fn exact_delay(&self, sound: impl Fn(u64) -> i16) -> Option<usize> {
        let from = self.heard.len() - 4800;
        (0..4800).find(|delay| {
            (from..self.heard.len()).all(|n| self.heard[n] == f32::from(sound((n - delay) as u64)) / 32_768.0)
        })
    }
}

fn noise(n: u64) -> i16 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as i16
}

fn tone(n: u64) -> i16 {
    ((n as f64 * TONE).sin() * 16_000.0) as i16
}

/// 1 kHz.
const TONE: f64 = std::f64::consts::TAU * 1000.0 / RATE;

#[test]
fn one_clock_at_both_ends_leaves_sound_as_it_is() {
    // 10.1 ms of path, 4 ms and 0.25 ms of margin are 5.4 periods: five are enough.
    let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
    room.run(3.0, noise);
    assert_eq!(room.exact_delay(noise), Some(688), "at first as it was asked for");
    room.run(10.0, noise);
    assert!(room.clocked.is_direct());
    assert_eq!(room.exact_delay(noise), Some(5 * PERIOD));
    assert!((room.clocked.lag_nanos() + 1_020_000).abs() < 10_000, "{}", room.clocked.lag_nanos());
    let counters = room.clocked.playout().counters();
    assert_eq!(
        (counters.concealed_frames, counters.late, counters.skipped_frames),
        (0, 0, 48),
        "{counters:?}"
    );
    room.run(600.0, noise);
    assert_eq!(room.exact_delay(noise), Some(5 * PERIOD), "ten minutes later");
}

/// A tone fulfils x[n+1] = 2 cos(w) x[n] - x[n-1]: what is off by more than rounding and a slight change of pitch is a step: a sample frame too many or too few would be 0.064, and a
/// filter that is 0.02 dB louder 0.001.
#[test]
fn the_resampler_takes_over_without_a_step() {
    for sender_ppm in [-120.0, 50.0, 500.0] {
        let mut room = Room::new(Duration::from_millis(8), 10.1, sender_ppm);
        room.run(4.5, tone);
        assert!(room.clocked.is_direct(), "{sender_ppm} ppm");
        let mut seconds = 5.0;
        while room.clocked.is_direct() && seconds < 60.0 {
            seconds += 0.5;
            room.run(seconds, tone);
        }
        // Before that, what was too much may have been left out.
        let from = room.heard.len() - (0.6 * RATE) as usize;
        room.run(150.0, tone);
        assert!(!room.clocked.is_direct());
        let off = |x: &[f32]| (x[2] - 2.0 * TONE.cos() as f32 * x[1] + x[0]).abs();
        let worst = room.heard[from..].windows(3).map(off).fold(0.0, f32::max);
        assert!(worst < 0.001, "{sender_ppm} ppm: a step of {worst}");
        let lag = room.clocked.lag_nanos();
        assert!(lag.abs() < 100_000, "{sender_ppm} ppm: {lag} ns");
        let counters = room.clocked.playout().counters();
        assert_eq!((counters.concealed_frames, counters.late), (0, 0), "{sender_ppm} ppm: {counters:?}");
    }
}

/// As after an xrun that one end has taken for a cycle more than the other, and on a route that has become longer.
#[test]
fn after_a_step_it_settles_again() {
    for (by, cycles) in [(-1.6e-3, 4), (0.7e-3, 5), (2.2e-3, 6)] {
        let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
        room.run(20.0, noise);
        assert_eq!(room.exact_delay(noise), Some(5 * PERIOD));
        room.path += by;
        room.run(60.0, noise);
        let lag = room.clocked.lag_nanos();
        assert!(room.clocked.is_direct() && (-3_000_000..400_000).contains(&lag), "{by} s: {lag} ns");
        let delay = room.exact_delay(noise).expect("unchanged");
        assert_eq!((delay % PERIOD, delay / PERIOD), (0, cycles), "{by} s: {delay}");
    }
}

/// An xrun of one server at both ends: cycles and packets come later by a part of a period, the schedule stays for five seconds, and follows.
#[test]
fn an_xrun_of_both_ends_leaves_the_delay() {
    for by in [0.5e-3, 0.9e-3, 1.3e-3, 1.9e-3] {
        let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
        room.run(12.0, noise);
        let skipped = room.clocked.playout().counters().skipped_frames;
        for seconds in [30.0, 60.0] {
            room.shift += by;
            room.run(seconds, noise);
            let counters = room.clocked.playout().counters();
            assert_eq!(room.exact_delay(noise), Some(5 * PERIOD), "{by} s");
            assert_eq!((counters.skipped_frames, counters.concealed_frames), (skipped, 0), "{by} s");
            assert!(room.clocked.is_direct(), "{by} s");
        }
    }
}

#[test]
fn a_longer_margin_is_no_drift() {
    let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
    let mut seconds = 10.0;
    for _ in 0..6 {
        room.run(seconds, noise);
        room.margin += 12;
        seconds += 7.0;
    }
    room.run(seconds, noise);
    assert!(room.clocked.is_direct());
    assert_eq!(room.exact_delay(noise), Some(5 * PERIOD));
    assert_eq!(room.clocked.playout().counters().late, 0);
}

#[test]
fn where_a_longer_margin_has_packets_miss_their_cycles_the_sound_goes_back() {
    let mut room = Room::new(Duration::from_millis(3), 12.5, 0.0);
    room.run(10.0, noise);
    assert_eq!(room.exact_delay(noise), Some(5 * PERIOD));
    room.margin += 36;
    room.run(30.0, noise);
    let late = room.clocked.playout().counters().late;
    assert_eq!((room.clocked.is_direct(), room.exact_delay(noise)), (true, Some(6 * PERIOD)));
    // A tenth of a second, in which it is certain.
    assert!((1..45).contains(&late), "{late}");
    room.run(60.0, noise);
    assert_eq!(room.clocked.playout().counters().late, late);
}

#[test]
fn cycles_that_packets_miss_do_not_come_down_to_them() {
    // 4.5 periods of delay in all, but every other packet for the fourth cycle comes 0.1 ms after it was handed over.
    let mut room = Room::new(Duration::from_micros(1500), 10.3, 0.0);
    room.odd = 0.22e-3;
    room.run(10.0, noise);
    let lag = room.clocked.lag_nanos();
    assert!(room.clocked.is_direct() && lag.abs() < 30_000, "{lag} ns");
    assert_eq!(room.clocked.playout().counters().skipped_frames, 0);
}

/// Receivers in step are within 0.2 ms of each other, which the resampler does.
#[test]
fn a_schedule_that_is_told_takes_the_resampler() {
    let mut room = Room::new(Duration::from_millis(8), 10.1, 0.0);
    room.run(2.0, tone);
    assert!(room.clocked.is_direct());
    assert!(room.clocked.playout_mut().keep_in_step(0, 1_000_000_000, Duration::from_millis(20)));
    room.run(120.0, tone);
    let lag = room.clocked.lag_nanos();
    assert!(!room.clocked.is_direct() && lag.abs() < 100_000, "{} {lag} ns", room.clocked.is_direct());
}

#[test]
fn only_a_fixed_delay_at_one_rate_goes_without_the_resampler() {
    let format = StreamFormat::new(48_000, 1).unwrap();
    let config = PlayoutConfig::new(format, Duration::from_millis(4), Clocking::Sink);
    let direct = |config, rate| ClockedPlayout::new(config, rate, 64).unwrap().in_cycles().is_direct();
    assert!(direct(config, 48_000));
    assert!(!direct(config, 44_100), "another rate");
    assert!(!direct(PlayoutConfig { adapts: Some(AdaptiveDelay::default()), ..config }, 48_000), "auto");
}

/// Sound is handed over as it comes, so a long margin does not make it later where its packets come before that.
#[test]
fn a_margin_that_packets_come_before_is_no_delay() {
    for (margin, cycles) in [(12, 5), (60, 5), (140, 5), (170, 6)] {
        // 10.1 ms of path: packets come 3.2 ms, 155 sample frames, before the fifth cycle.
        let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
        room.margin = margin;
        room.run(40.0, noise);
        let late = room.clocked.playout().counters().late;
        assert_eq!((room.exact_delay(noise), late), (Some(cycles * PERIOD), 0), "{margin}");
    }
}

/// A server at both ends that loses up to two milliseconds every other second, as on a machine that is busy with other things; and servers of two machines, one
/// of which does that four times a minute.
#[test]
fn clocks_that_differ_are_told_from_one_that_loses_time() {
    for (sender_ppm, shared) in [(0.0, true), (100.0, false), (-100.0, false)] {
        let mut room = Room::new(Duration::from_millis(4), 10.1, sender_ppm);
        let (mut seconds, mut slipped) = (12.0, 0i64);
        room.run(seconds, noise);
        room.clocked.follow_slips(Instant::ZERO, 0);
        let late = room.clocked.playout().counters().late;
        for n in 0..30 {
            let by = [0.3e-3, 1.1e-3, 1.9e-3, 0.7e-3][n % 4];
            slipped += (by * 1e9) as i64;
            seconds += if shared { 2.0 } else { 15.0 };
            if shared {
                room.shift += by;
            } else {
                // Packets come sooner than the cycles that play them.
                room.path -= by;
            }
            let cycles = room.cycles as f64 * PERIOD as f64 / RATE;
            let now = Instant::from_nanos(((cycles + room.shift + 1.0) * 1e9) as u64);
            room.clocked.follow_slips(now, slipped);
            room.run(seconds, noise);
        }
        assert_eq!(room.clocked.is_direct(), shared, "{sender_ppm} ppm");
        let playout = room.clocked.playout();
        if shared {
            assert_eq!((room.exact_delay(noise), playout.counters().late), (Some(5 * PERIOD), late));
            assert!(playout.clock().drift().0.abs() < 2.0, "{:?}", playout.clock().drift());
        }
    }
}

/// Twenty minutes in which it happens every 100 s that a device's clock loses time and packets come later by and by, as on a busy machine.
#[test]
fn a_clock_that_loses_time_now_and_then_stays_the_same_clock() {
    let mut room = Room::new(Duration::from_millis(4), 10.1, 0.0);
    let (mut seconds, mut slipped) = (20.0, 0);
    room.run(seconds, noise);
    room.clocked.follow_slips(Instant::ZERO, 0);
    for n in 0..12 {
        slipped += 300_000;
        let cycles = room.cycles as f64 * PERIOD as f64 / RATE;
        room.clocked.follow_slips(Instant::from_nanos(((cycles + 1.0) * 1e9) as u64), slipped);
        for _ in 0..5 {
            room.path += if n % 2 == 0 { 0.12e-3 } else { -0.12e-3 };
            seconds += 1.0;
            room.run(seconds, noise);
        }
        seconds += 95.0;
        room.run(seconds, noise);
        assert!(room.clocked.is_direct(), "{n}");
    }
}

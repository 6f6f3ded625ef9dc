use std::f64::consts::TAU;

use super::*;
use crate::{Ready, Wake};

const RATE: u32 = 48_000;
/// Of the tone that is captured.
const HERTZ: f64 = 100.0;

/// A device in virtual time that samples a tone, `per_second` sample frames by the run's clock, and gives them `piece` at a time.
struct Device {
    per_second: f64,
    piece: u64,
    /// Whether it says how long that is.
    says: bool,
    given: u64,
    used: u64,
    ended: bool,
    length: Option<u64>,
}

impl Device {
    fn new(ppm: f64, piece: u64, says: bool) -> Self {
        let per_second = f64::from(RATE) * (1.0 + ppm / 1e6);
        Device { per_second, piece, says, given: 0, used: 0, ended: false, length: None }
    }

    /// Gives what has been captured by `now`.
    fn run_to(&mut self, now: Instant) {
        while self.next() <= now {
            self.given += self.piece;
        }
    }

    /// When the next piece has been captured.
    fn next(&self) -> Instant {
        Instant::from_nanos(((self.given + self.piece) as f64 / self.per_second * 1e9) as u64)
    }
}

impl Source for Device {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(RATE, 1).unwrap()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::F32
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let frames = block.len().min(self.ready().frames);
        for sample in &mut block[..frames] {
            let captured = self.used as f64 / self.per_second;
            *sample = (0.5 * (TAU * HERTZ * captured).sin()) as f32;
            self.used += 1;
        }
        if frames == 0 { Pull::Starved } else { Pull::Frames(frames) }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        let frames = (self.given - self.used) as usize;
        Ready { frames, ended: self.ended, piece: if self.says { self.piece as usize } else { 0 } }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let skipped = (self.given - self.used).saturating_sub(frames as u64);
        self.used += skipped;
        skipped
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// By how much later the tone in `sound` is than it would be had its first sample frame been captured at `captured`, in milliseconds; and how strong it is.
fn fit(sound: &[f32], captured: f64) -> (f64, f64) {
    let (mut sine, mut cosine) = (0.0, 0.0);
    for (n, sample) in sound.iter().enumerate() {
        let phase = TAU * HERTZ * (captured + n as f64 / f64::from(RATE));
        sine += f64::from(*sample) * phase.sin();
        cosine += f64::from(*sample) * phase.cos();
    }
    let strength = 2.0 * sine.hypot(cosine) / sound.len() as f64;
    (-cosine.atan2(sine) / (TAU * HERTZ) * 1e3, strength)
}

fn seconds_of(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// Pulls blocks of `block` by the run's clock, each as long after its capture as is to be waited for. Returns of each tenth of a second when it was captured,
/// how much later its sound is than that, how strong, and how many of its blocks lacked sound; and what is waited for at the end.
fn run(
    device: &mut Device,
    block: usize,
    seconds: u64,
    asleep: impl Fn(Instant) -> bool,
) -> (Vec<(f64, f64, f64, u32)>, Duration) {
    let mut on_clock = OnClock::new(device, block).unwrap();
    let (mut out, mut sound) = (vec![0.0; block], Vec::new());
    let (mut tenths, mut missing) = (Vec::new(), 0);
    let time = |frames: usize| MediaTime::new(frames as u64, RATE).duration();
    let mut pulled = 0;
    let mut now = Instant::ZERO;
    while seconds_of(now) < seconds as f64 {
        let due = Instant::ZERO + time(pulled) + on_clock.delay();
        // It wakes the thread when it gives something.
        now = due.min(device.next());
        device.run_to(now);
        if asleep(now) {
            pulled = pulled.max((now.as_nanos() * u64::from(RATE) / 1_000_000_000) as usize);
            continue;
        }
        on_clock.gather(now, device);
        if now < due {
            continue;
        }
        missing += u32::from(on_clock.pull(due, &mut out, device).1);
        sound.extend_from_slice(&out);
        pulled += block;
        if sound.len() >= 4_800 {
            let captured = time(pulled - sound.len()).as_secs_f64();
            let (later, strength) = fit(&sound, captured);
            tenths.push((captured, later, strength, missing));
            (missing, sound) = (0, Vec::new());
        }
    }
    (tenths, on_clock.delay())
}

/// Each sample frame comes out so long after its capture as promised, whatever the device's clock does and however it gives its sound.
#[test]
fn sound_comes_out_in_its_time_by_the_other_clock() {
    for (ppm, piece, says, block) in [
        (0.0, 256, true, 48),
        (300.0, 1024, true, 48),
        (-100.0, 64, true, 6),
        (-500.0, 64, true, 6),
        (500.0, 480, false, 48),
        (-100.0, 1200, false, 240),
    ] {
        let mut device = Device::new(ppm, piece, says);
        let (tenths, delay) = run(&mut device, block, 180, |_| false);
        let more = delay.saturating_sub(MediaTime::new(piece + block as u64, RATE).duration());
        assert!(
            more <= if says && ppm > -300.0 { MARGIN } else { MOST_MARGIN },
            "{ppm} ppm, {piece}: {delay:?}"
        );
        // The resampler follows a clock that is off by no more than is inaudible.
        let most = |at: f64| match at {
            ..60.0 => 0.5 + 0.01 * ppm.abs(),
            ..120.0 => 0.1 + 0.003 * ppm.abs(),
            _ => 0.05 + 0.0003 * ppm.abs(),
        };
        for (at, later, strength, missing) in tenths.iter().filter(|(at, ..)| *at > 0.3) {
            // Until its pieces are known, and where the clock is off by more than sound cards' are before it is followed.
            let begins = *at < 5.0 && !says || *at < 15.0 && ppm < -300.0;
            assert!(later.abs() < most(*at), "{ppm} ppm, {piece}: {later} ms at {at} s");
            assert!((strength - 0.5).abs() < 0.01 || begins, "{ppm} ppm, {piece}: {strength} at {at} s");
            assert!(*missing == 0 || begins, "{ppm} ppm, {piece}: missing at {at} s");
        }
    }
}

/// A thread that sleeps for ten seconds leaves out what is too old, and what follows stands in its time.
#[test]
fn what_was_captured_in_a_long_sleep_is_left_out() {
    let mut device = Device::new(50.0, 256, true);
    let sleeps = |at: Instant| (100.0..110.0).contains(&seconds_of(at));
    let (tenths, _) = run(&mut device, 48, 140, sleeps);
    let after = tenths.iter().filter(|(at, ..)| *at > 110.0);
    for (at, later, strength, missing) in after {
        assert!(later.abs() < 0.1 && (strength - 0.5).abs() < 0.02, "{later} ms, {strength} at {at} s");
        assert_eq!(*missing, 0, "{at}");
    }
}

/// One of unknown length ends when all has been pulled; another one has its length by the other clock, too.
#[test]
fn it_ends_with_the_device_or_after_its_length() {
    for (ppm, length, ends) in [
        (0.0, None, 48_000..48_960),
        (400.0, Some(48_010), 48_010..48_011),
        (-400.0, Some(48_010), 48_010..48_011),
    ] {
        let mut device = Device { length, ..Device::new(ppm, 256, true) };
        let mut on_clock = OnClock::new(&device, 48).unwrap();
        let (mut out, mut given) = (vec![0.0; 48], 0);
        for n in 1..=2_000u64 {
            let at = Instant::from_millis(n);
            let last = device.given.min(length.unwrap_or(48_000));
            device.run_to(at);
            device.ended = device.given >= length.unwrap_or(48_000);
            device.given = if device.ended { last.max(device.used) } else { device.given };
            on_clock.gather(at, &mut device);
            match on_clock.pull(at, &mut out, &device).0 {
                Pull::Frames(frames) => given += frames,
                _ => break,
            }
        }
        assert!(ends.contains(&given), "{ppm} ppm: {given}");
    }
}

//! The tone that passes from sound server to sound server, and what is left of it.

use std::f64::consts::TAU;
use std::path::Path;
use std::time::Duration;

use antiphon::media::Pull;
use antiphon::sound::open_source;
use antiphon_testkit::{Sine, longest_hold_up, wait_for_even_time};

/// Has the tone carried until it has arrived whole in `recording`, at `rate`; nothing is judged at its `edges`.
///
/// `carry` does so once, and returns whether the ends say that the machine or a server had no time, and all that they say. As
/// often as `untold` a defect may be one that no end and no server tells of.
pub fn arrives_whole(recorded: (&Path, u32, Duration), untold: u32, carry: impl FnMut() -> (bool, String)) {
    arrives_whole_at(FREQUENCY, recorded, (untold, WHOLE), carry);
}

/// The same at another frequency than was played, as clocks make it that differ. Returns the longest piece without a defect: all of the recording, or
/// at least `least` of it where the machine had no time.
pub fn arrives_whole_at(
    frequency: f64,
    (recording, rate, edges): (&Path, u32, Duration),
    (untold, least): (u32, Duration),
    mut carry: impl FnMut() -> (bool, String),
) -> Vec<f32> {
    let mut untold_so_far = 0;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            // The next one soon after would meet the same.
            wait_for_even_time(BEARS, EVEN, PATIENCE);
        }
        let ((was_held_up, said), late) = longest_hold_up(&mut carry);
        let said = format!("a thread was {late:.1?} late at most: {said}");
        let heard = listen(recording, rate, edges, frequency);
        assert!(heard.is_some() || was_held_up, "less than {LEAST_S} s are recorded: {said}");
        let Some(Heard { defect, whole }) = heard else {
            eprintln!("less than {LEAST_S} s are recorded: {said}");
            continue;
        };
        let Some(why) = defect else { return whole };
        untold_so_far += u32::from(!was_held_up);
        assert!(untold_so_far <= untold, "{why}: {said}");
        let lasts = Duration::from_secs_f64(whole.len() as f64 / 2.0 / f64::from(rate));
        // A fault of ours would be there between the cycles that the servers missed, too.
        if was_held_up && lasts >= least {
            return whole;
        }
        eprintln!("{why}, {lasts:?} without a defect: {said}");
    }
    panic!("{ATTEMPTS} times there was a defect in every {least:?}: this machine is too busy");
}

/// What is recorded of the tone.
struct Heard {
    /// The first defect, if there is one.
    defect: Option<String>,
    /// The longest piece without any, in both channels.
    whole: Vec<f32>,
}

/// Looks for the tone in every 10 ms of both channels but at the `edges` of the recording: at its level and its frequency, without
/// a jump of its phase. `None` if less is recorded than can be judged.
fn listen(recording: &Path, rate: u32, edges: Duration, frequency: f64) -> Option<Heard> {
    let sound = samples(recording, rate);
    let edge = 2 * (edges.as_secs_f64() * f64::from(rate)) as usize;
    if sound.len() < 2 * edge + 2 * LEAST_S * rate as usize {
        return None;
    }
    let sound = &sound[edge..sound.len() - edge];
    let length = rate as usize / 100;
    let (mut first_defect, mut run, mut longest) = (None, 0, 0..0);
    let mut phases: [Option<f64>; 2] = [None; 2];
    for (number, piece) in sound.chunks_exact(2 * length).enumerate() {
        let of_channel = |channel: usize, before: &mut Option<f64>| {
            let samples: Vec<f32> = piece.iter().skip(channel).step_by(2).copied().collect();
            defect(&samples, number * length, TAU * frequency / f64::from(rate), before)
        };
        let defects = [0, 1].map(|channel| of_channel(channel, &mut phases[channel]));
        match defects.into_iter().flatten().next() {
            Some(why) => {
                first_defect.get_or_insert(format!("{why} at {number}0 ms"));
                run = number + 1;
            }
            None if number + 1 - run > longest.len() => longest = run..number + 1,
            None => {}
        }
    }
    let whole = sound[longest.start * 2 * length..longest.end * 2 * length].to_vec();
    Some(Heard { defect: first_defect, whole })
}

/// The samples of both channels.
fn samples(recording: &Path, rate: u32) -> Vec<f32> {
    let mut source = open_source(&recording.display().to_string()).expect("a recording").source;
    assert_eq!((source.format().rate(), source.format().channels()), (rate, 2));
    let mut sound = Vec::new();
    let mut block = [0.0; 2 * 1024];
    loop {
        match source.pull(&mut block) {
            Pull::Frames(frames) => sound.extend_from_slice(&block[..2 * frames]),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return sound,
        }
    }
}

/// How the tone goes on over a whole recording without gaps.
pub struct Steadiness {
    /// By how much its frequency is above the nominal one.
    pub speed_ppm: f64,
    /// By how much its delay is off a steady one at most.
    pub off: Duration,
}

/// A delay that changes turns the phase of the tone in `sound`, of two channels at `rate`. Two clocks turn it evenly, which is not a change of the delay.
pub fn steadiness(sound: &[f32], rate: u32) -> Steadiness {
    let length = rate as usize / 100;
    let omega = TAU * FREQUENCY / f64::from(rate);
    let (mut turned, mut last) = (0.0, None);
    // Seconds from the beginning, and by how many seconds the tone is ahead.
    let points = sound.chunks_exact(2 * length).enumerate().map(|(number, piece)| {
        let left: Vec<f32> = piece.iter().step_by(2).copied().collect();
        let phase = Sine::fit(&left, number * length, omega).phase;
        let turn = last.replace(phase).map_or(0.0, |before| (phase - before).rem_euclid(TAU));
        turned += if turn > TAU / 2.0 { turn - TAU } else { turn };
        (number as f64 / 100.0, turned / (TAU * FREQUENCY))
    });
    let points: Vec<(f64, f64)> = points.collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
        / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    let off = points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).abs()).fold(0.0, f64::max);
    Steadiness { speed_ppm: slope * 1e6, off: Duration::from_secs_f64(off) }
}

/// What is wrong with 10 ms of a channel that begin at sample `first`, by a tone of `omega` a sample; `before`: the phase of the 10 ms before, if there was one.
fn defect(piece: &[f32], first: usize, omega: f64, before: &mut Option<f64>) -> Option<String> {
    let Sine { level, phase, rest } = Sine::fit(piece, first, omega);
    let noise = rest.sqrt();
    let before = before.replace(phase);
    // A lost sample frame leaves 6.5 % of the level at this frequency, times the root of the part of the piece behind it; the
    // resampler's ripple and 16 bits are well below.
    if (level / LEVEL - 1.0).abs() > 0.01 || noise > 0.002 {
        return Some(format!("level {level}, noise {noise}"));
    }
    // Phase against a clock of the nominal rate: both servers' clocks and the resampler's correction turn it slowly. 800 ppm of
    // 997 Hz are 0.05 in 10 ms; a lost sample frame is 0.13.
    let turn = (phase - before?).rem_euclid(TAU);
    let turn = if turn > TAU / 2.0 { turn - TAU } else { turn };
    (turn.abs() > 0.05).then(|| format!("the phase turns by {turn}"))
}

pub const FREQUENCY: f64 = 997.0;
pub const LEVEL: f64 = 0.5;
/// Fewer seconds are not judged.
const LEAST_S: usize = 3;
/// A server on a busy machine may miss cycles, which it says.
const ATTEMPTS: u32 = 5;
/// So long without a defect in a run with missed cycles.
const WHOLE: Duration = Duration::from_millis(1_000);
/// How late a thread may be that only waits, before the next attempt: less than a server's cycle, which is 5.3 ms at the shortest here.
const BEARS: Duration = Duration::from_millis(5);
/// A machine that has kept time for so long is tried again.
const EVEN: Duration = Duration::from_secs(5);
/// After so long it is tried whatever it does.
const PATIENCE: Duration = Duration::from_secs(60);

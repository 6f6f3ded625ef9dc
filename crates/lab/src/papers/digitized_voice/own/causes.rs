//! Checks of claims of ours on why figures depart from print: runs in which one cause is changed.

use super::super::super::compare::{Place, Statistic};
use super::super::super::judge::{Case, NotRun};
use super::super::checks::{MULTICAST_PRINTED, SPPT_RISES, TICK_MS, WORST_MS, mean_rise_is_about, unknown};
use super::super::{MPPT, SIZE, SIZES, SPPT, VOICE, period_of, under_load};
use super::{MULTICAST_TABLE, Outcome, printed};

pub(super) const JITTER: &str = "sppt_jitter";
pub(super) const TIMER: &str = "timer";
pub(super) const MULTICAST_CAUSES: &str = "multicast_causes";
pub(super) const MULTICAST_GENERATOR: &str = "multicast_generator";

/// A station's time for a packet that comes in: fitted, and so that the latency at 512 bytes is the printed one.
pub(super) const FITTED: &str = "1.329988ms";
pub(super) const PRINTED: &str = "1.403988ms";
/// The generator's periods in ticks of a timer.
pub(super) const IN_TICKS: [&str; 3] = ["19.84ms", "9.92ms", "6504us"];
/// The settings of the multicast that are tried together: the generator's jitter, the time that an acknowledgement takes its receiver, and
/// the second receiver's for a packet.
pub(super) const TRIED: [(&str, &str, &str); 8] = [
    ("0%", "0.766ms", "2.594896ms"),
    ("0%", "0.766ms", "5.189792ms"),
    ("0%", "1.532ms", "2.594896ms"),
    ("0%", "1.532ms", "5.189792ms"),
    ("10%", "0.766ms", "2.594896ms"),
    ("10%", "0.766ms", "5.189792ms"),
    ("10%", "1.532ms", "2.594896ms"),
    ("10%", "1.532ms", "5.189792ms"),
];

/// Half of a round trip's figure.
fn half(case: &mut Case<'_>, key: &str, place: Place, figure: &'static str) -> Result<f64, NotRun> {
    Ok(case.read(key, place, figure, Statistic::Mean)?.value / 2.0)
}

/// Two bands of as many packets each lie one standard deviation below and above the mean, and the upper one is where the slowest are.
pub(in super::super) fn two_bands(case: &mut Case<'_>) -> Outcome {
    let mut figure = |figure| {
        let place = under_load(MPPT, VOICE, 1024, 25).ok_or_else(|| unknown(25))?;
        half(case, MPPT, place, figure)
    };
    let (mean, deviation, slowest) = (figure("rtt_mean_ms")?, figure("jitter_sd_ms")?, figure("rtt_p99_ms")?);
    let (lower, upper) = (mean - deviation, mean + deviation);
    let as_named = (lower - 4.0).abs() <= 0.1 && (upper / 5.7 - 1.0).abs() <= 0.1;
    Ok(as_named && (slowest / upper - 1.0).abs() <= 0.02)
}

pub(in super::super) fn jitter_raises_thresholds_as_printed(case: &mut Case<'_>) -> Outcome {
    case.every(SPPT_RISES, |case, (load, about)| {
        let mut rises = Vec::new();
        for size in SIZES {
            let mut threshold = |period: &str, jitter: &str| {
                let point =
                    vec![("period", period.into()), ("jitter", jitter.into()), (SIZE, size.to_string())];
                half(case, JITTER, Place { stream: VOICE.into(), point }, "rtt_timed_p999_ms")
            };
            let loaded = period_of(SPPT, load).ok_or_else(|| unknown(load))?;
            rises.push(threshold(loaded, "10%")? - threshold("1s", "0%")?);
        }
        Ok(mean_rise_is_about(&rises, about))
    })
}

fn timed(
    case: &mut Case<'_>,
    (period, receive, rounds): (&str, &str, &str),
    size: u32,
    figure: &'static str,
) -> Result<f64, NotRun> {
    let settings = [("period", period), ("receive", receive), ("rounds", rounds)];
    let settings = settings.map(|(key, value)| (key, value.to_string()));
    let point = [(SIZE, size.to_string())].into_iter().chain(settings).collect();
    half(case, TIMER, Place { stream: VOICE.into(), point }, figure)
}

/// How far a threshold is above the latency, without load.
fn above(case: &mut Case<'_>, receive: &str, rounds: &str, size: u32) -> Result<f64, NotRun> {
    let setting = ("1s", receive, rounds);
    Ok(timed(case, setting, size, "rtt_timed_p999_ms")? - timed(case, setting, size, "rtt_mean_ms")?)
}

pub(in super::super) fn a_timer_that_rounds_down_is_near_the_mean(case: &mut Case<'_>) -> Outcome {
    let is_near = |above: f64| (0.0..=0.14).contains(&above);
    let all = case.every(SIZES, |case, size| Ok(is_near(above(case, FITTED, "down", size)?)))?;
    let down = is_near(above(case, PRINTED, "down", 512)?);
    let up = is_near(above(case, PRINTED, "up", 512)?);
    Ok(all && down && !up)
}

fn worst(case: &mut Case<'_>, periods: [&str; 3], rounds: &str) -> Result<f64, NotRun> {
    let mut worst: f64 = 0.0;
    for period in periods {
        for size in SIZES {
            worst = worst.max(timed(case, (period, FITTED, rounds), size, "rtt_timed_p999_ms")?);
        }
    }
    Ok(worst)
}

pub(in super::super) fn timer_and_period_give_the_worst_threshold(case: &mut Case<'_>) -> Outcome {
    let both = worst(case, IN_TICKS, "down")?;
    let period_alone = worst(case, IN_TICKS, "up")?;
    let within = |worst: f64| worst <= WORST_MS && WORST_MS - worst < TICK_MS;
    Ok(within(both) && !within(period_alone))
}

pub(in super::super) fn no_cause_gives_the_multicast_s_latencies(case: &mut Case<'_>) -> Outcome {
    case.every(TRIED, |case, (jitter, ack, other)| {
        let all = case.every(MULTICAST_PRINTED, |case, (size, load, about)| {
            let period = period_of(MPPT, load).ok_or_else(|| unknown(load))?;
            let settings =
                [("jitter", jitter), ("answers", "true"), ("ack", ack), ("other", other), ("period", period)];
            let settings = settings.map(|(key, value)| (key, value.to_string()));
            let point = [(SIZE, size.to_string())].into_iter().chain(settings).collect();
            let place = Place { stream: VOICE.into(), point };
            Ok((half(case, MULTICAST_CAUSES, place, "rtt_mean_ms")? / about - 1.0).abs() <= 0.05)
        })?;
        Ok(!all)
    })
}

/// How long a broadcast holds the generator up: not at all, and as fitted.
pub(super) const UNHELD: &str = "0ms";
pub(super) const HELD: &str = "1.8ms";
/// Sizes at which printed latencies hardly depend on the size, and loads from which nothing was fitted.
pub(super) const SMALL: [u32; 5] = [8, 16, 32, 64, 128];
pub(super) const NOT_FITTED: [u32; 2] = [25, 50];

pub(in super::super) fn a_generator_that_is_held_up_gives_the_multicast_s_latencies(
    case: &mut Case<'_>,
) -> Outcome {
    let latency = |case: &mut Case<'_>, held: &str, size: u32, load: u32| {
        let period = period_of(MPPT, load).ok_or_else(|| unknown(load))?;
        let point =
            vec![("held", held.to_string()), ("period", period.to_string()), (SIZE, size.to_string())];
        half(case, MULTICAST_GENERATOR, Place { stream: VOICE.into(), point }, "rtt_mean_ms")
    };
    let mut as_stated = |held| {
        case.every(MULTICAST_PRINTED, |case, (size, load, about)| {
            Ok((latency(case, held, size, load)? / about - 1.0).abs() <= 0.05)
        })
    };
    let (unheld, held) = (as_stated(UNHELD)?, as_stated(HELD)?);
    let others = case.every(NOT_FITTED, |case, load| {
        case.every(SMALL, |case, size| {
            Ok((latency(case, HELD, size, load)? / printed(MULTICAST_TABLE, size, load)? - 1.0).abs() <= 0.1)
        })
    })?;
    Ok(held && !unheld && others)
}

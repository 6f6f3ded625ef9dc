//! A check for each conclusion of the paper.
//!
//! Bounds are those of the claim's `check` in `claims.csv`; those that were chosen here are in `checks.toml`.

use super::super::compare::{Place, Statistic};
use super::super::judge::{Case, Check, NotRun};
use super::figures::{CHANNELS, FRAME, NETWORK_THROUGHPUT, PACKET_RATE, USER_THROUGHPUT};
use super::own;
use super::{BASIC_RUN, LOADS, LOSS, MPPT, MULTICAST, SIZES, SPPT, UP, VOICE, at, under_load, with_loss};

type Outcome = Result<bool, NotRun>;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("dv-01", the_rate_falls_from_470),
    ("dv-02", latency_rises_to_7_7_ms),
    ("dv-03", thresholds_are_near_the_mean),
    ("dv-04", the_smallest_are_too_slow),
    ("dv-05", channels_grow),
    ("dv-06", sixty_channels_take_2048_bytes),
    ("dv-07", overhead_falls),
    ("dv-08", sppt_takes_few_channels),
    ("dv-09", sppt_raises_thresholds_with_the_load),
    ("dv-10", sppt_raises_thresholds_by_less_than_half_a_ms),
    ("dv-11", mppt_raises_latency_with_the_load),
    ("dv-12", |case| Ok((case.worst(MPPT)? - WORST_MS).abs() < TICK_MS)),
    ("dv-13", mppt_is_worse_than_sppt),
    ("dv-14", a_tenth_lost_adds_little),
    ("dv-15", latency_hardly_depends_on_loss),
    ("dv-16", multicast_costs_less_than_two_unicasts),
    ("dv-17", multicast_gains_with_the_size),
    ("dv-18", multicast_rises_with_the_load),
    ("dv-19", multicast_spreads_with_the_load),
    ("dv-20", no_threshold_exceeds_10_ms),
    ("dv-21", up_to_1024_bytes_meet_the_delay),
    ("dv-22", |case| Ok(collecting_ms(4096) + case.idle_latency(4096)? > 500.0)),
    ("dv-23", large_packets_are_efficient),
    ("ours-dv-1", own::the_class_makes_no_difference),
    ("ours-dv-2", own::a_ping_pong_locks),
    ("ours-dv-3", own::a_voice_s_own_delay_rises),
    ("ours-dv-4", own::periods_in_ticks_give_the_printed_latencies),
    ("ours-dv-5", own::one_burst_at_most),
    ("ours-dv-6", own::allotted_time_bounds_the_wait),
    ("ours-dv-7", own::several_generators_add_up),
    ("ours-dv-8", own::a_lost_packet_waits_for_the_next),
    ("ours-dv-9", own::all_together_carry_twice_the_channels),
    ("ours-dv-10", own::without_silence_they_carry_less_than_twice),
    ("ours-dv-11", own::causes::two_bands),
    ("ours-dv-12", own::router::sorting_keeps_the_voice_whole),
    ("ours-dv-13", own::router::a_sorted_voice_waits_for_one_packet),
    ("ours-dv-14", own::router::a_voice_goes_before_a_file),
    ("ours-dv-15", own::router::sorting_saves_repairs),
    ("ours-dv-16", own::causes::jitter_raises_thresholds_as_printed),
    ("ours-dv-17", own::causes::a_timer_that_rounds_down_is_near_the_mean),
    ("ours-dv-18", own::causes::timer_and_period_give_the_worst_threshold),
    ("ours-dv-19", own::causes::no_cause_gives_the_multicast_s_latencies),
    ("ours-dv-20", own::causes::a_generator_that_is_held_up_gives_the_multicast_s_latencies),
];

/// The printed worst threshold of MPPT.
pub(super) const WORST_MS: f64 = 10.0;
/// Of the paper's timer.
pub(super) const TICK_MS: f64 = 1000.0 / 12_300.0;

/// Time in which so many bytes of sound come together: 64 kbit/s.
fn collecting_ms(size: u32) -> f64 {
    f64::from(size) * 0.125
}

impl Case<'_> {
    fn figure_at(&mut self, experiment: &str, place: Place, figure: &'static str) -> Result<f64, NotRun> {
        Ok(self.read(experiment, place, figure, Statistic::Mean)?.value)
    }

    fn transfer(&mut self, size: u32, figure: &'static str) -> Result<f64, NotRun> {
        self.figure_at(BASIC_RUN, at(UP, &size.to_string()), figure)
    }

    fn idle_latency(&mut self, size: u32) -> Result<f64, NotRun> {
        Ok(self.figure_at(BASIC_RUN, at(VOICE, &size.to_string()), "rtt_mean_ms")? / 2.0)
    }

    fn idle_threshold(&mut self, size: u32) -> Result<f64, NotRun> {
        Ok(self.figure_at(BASIC_RUN, at(VOICE, &size.to_string()), "rtt_timed_p999_ms")? / 2.0)
    }

    fn loaded(&mut self, kind: &str, size: u32, load: u32, figure: &'static str) -> Result<f64, NotRun> {
        let place = under_load(kind, VOICE, size, load).ok_or_else(|| unknown(load))?;
        Ok(self.figure_at(kind, place, figure)? / 2.0)
    }

    fn loaded_latency(&mut self, kind: &str, size: u32, load: u32) -> Result<f64, NotRun> {
        self.loaded(kind, size, load, "rtt_mean_ms")
    }

    fn loaded_threshold(&mut self, kind: &str, size: u32, load: u32) -> Result<f64, NotRun> {
        self.loaded(kind, size, load, "rtt_timed_p999_ms")
    }

    fn lossy_latency(&mut self, size: u32, percent: u32) -> Result<f64, NotRun> {
        let place = with_loss(&size.to_string(), &percent.to_string());
        Ok(self.figure_at(LOSS, place, "rtt_mean_ms")? / 2.0)
    }

    /// A figure for each size, in their order.
    fn by_size(&mut self, of: impl Fn(&mut Self, u32) -> Result<f64, NotRun>) -> Result<Vec<f64>, NotRun> {
        SIZES.into_iter().map(|size| of(self, size)).collect()
    }

    /// The worst threshold with load of this kind.
    fn worst(&mut self, kind: &str) -> Result<f64, NotRun> {
        let mut worst: f64 = 0.0;
        for (size, load) in loaded() {
            worst = worst.max(self.loaded_threshold(kind, size, load)?);
        }
        Ok(worst)
    }

    /// By how much thresholds rise with SPPT at this load, for each size.
    fn rises(&mut self, load: u32) -> Result<Vec<f64>, NotRun> {
        self.by_size(|case, size| {
            Ok(case.loaded_threshold(SPPT, size, load)? - case.loaded_threshold(SPPT, size, 0)?)
        })
    }
}

/// The experiments have no such load.
pub(super) fn unknown(load: u32) -> NotRun {
    NotRun(format!("there is no load of {load} Mbit/s"))
}

/// Sizes with each load above zero.
fn loaded() -> impl Iterator<Item = (u32, u32)> {
    SIZES.into_iter().flat_map(|size| LOADS[1..].iter().map(move |load| (size, *load)))
}

fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] < pair[1])
}

/// The two smallest are printed alike.
fn the_rate_falls_from_470(case: &mut Case<'_>) -> Outcome {
    let rates = case.by_size(|case, size| case.transfer(size, PACKET_RATE))?;
    Ok(rates.windows(2).all(|pair| pair[0] >= pair[1]) && (rates[0] - 470.0).abs() <= 0.5)
}

fn latency_rises_to_7_7_ms(case: &mut Case<'_>) -> Outcome {
    let latencies = case.by_size(Case::idle_latency)?;
    let ends = (latencies[0] - 2.7).abs() <= 0.05 && (latencies[9] - 7.7).abs() <= 0.05;
    Ok(rises(&latencies) && ends)
}

fn thresholds_are_near_the_mean(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        let above = case.idle_threshold(size)? - case.idle_latency(size)?;
        Ok((0.0..=0.14).contains(&above))
    })
}

fn the_smallest_are_too_slow(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        let too_slow = case.transfer(size, "gap_mean_ms")? > collecting_ms(size);
        Ok(too_slow == (size <= 16))
    })
}

fn channels_grow(case: &mut Case<'_>) -> Outcome {
    let channels = case.by_size(|case, size| case.transfer(size, CHANNELS))?;
    Ok(channels.windows(2).all(|pair| pair[0] <= pair[1]) && channels[0] == 0.0 && channels[9] > 0.0)
}

fn sixty_channels_take_2048_bytes(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| Ok((case.transfer(size, CHANNELS)? >= 60.0) == (size >= 2048)))
}

/// The printed shares, as far as they are printed.
fn overhead_falls(case: &mut Case<'_>) -> Outcome {
    let mut share = |size: u32| Ok(100.0 * (1.0 - f64::from(size) / case.transfer(size, FRAME)?));
    let (small, large): (f64, f64) = (share(8)?, share(4096)?);
    Ok((small - 90.0).abs() <= 0.05 && (large - 1.5).abs() <= 0.05)
}

fn sppt_takes_few_channels(case: &mut Case<'_>) -> Outcome {
    case.every(loaded(), |case, (size, load)| {
        let mut channels = |load: u32| {
            let place = under_load(SPPT, UP, size, load).ok_or_else(|| unknown(load))?;
            case.figure_at(SPPT, place, CHANNELS)
        };
        Ok((channels(load)? - channels(0)?).abs() <= 5.0)
    })
}

/// By about how much thresholds rise with SPPT, at each load.
pub(super) const SPPT_RISES: [(u32, f64); 3] = [(25, 0.15), (50, 0.3), (75, 0.5)];

pub(super) fn mean_rise_is_about(rises: &[f64], about: f64) -> bool {
    let mean = rises.iter().sum::<f64>() / rises.len() as f64;
    (mean / about - 1.0).abs() <= 0.5
}

fn sppt_raises_thresholds_with_the_load(case: &mut Case<'_>) -> Outcome {
    case.every(SPPT_RISES, |case, (load, about)| Ok(mean_rise_is_about(&case.rises(load)?, about)))
}

fn sppt_raises_thresholds_by_less_than_half_a_ms(case: &mut Case<'_>) -> Outcome {
    case.every([25, 50, 75], |case, load| Ok(case.rises(load)?.into_iter().all(|rise| rise < 0.5)))
}

fn mppt_raises_latency_with_the_load(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        let row: Result<Vec<f64>, NotRun> =
            LOADS.into_iter().map(|load| case.loaded_latency(MPPT, size, load)).collect();
        Ok(rises(&row?))
    })
}

fn mppt_is_worse_than_sppt(case: &mut Case<'_>) -> Outcome {
    case.every(loaded(), |case, (size, load)| {
        Ok(case.loaded_threshold(MPPT, size, load)? > case.loaded_threshold(SPPT, size, load)?)
    })
}

fn a_tenth_lost_adds_little(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| Ok(case.lossy_latency(size, 10)? - case.lossy_latency(size, 0)? < 0.1))
}

fn latency_hardly_depends_on_loss(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        let all: Result<Vec<f64>, NotRun> =
            [1, 5, 10].into_iter().map(|percent| case.lossy_latency(size, percent)).collect();
        let all = all?;
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(all.into_iter().fold(0.0, f64::max) - least <= 0.01)
    })
}

/// The latency of a multicast to two without load, as a share of two unicasts.
fn share_of_two_unicasts(case: &mut Case<'_>, size: u32) -> Result<f64, NotRun> {
    Ok(case.loaded_latency(MULTICAST, size, 0)? / (2.0 * case.idle_latency(size)?))
}

fn multicast_costs_less_than_two_unicasts(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| Ok(share_of_two_unicasts(case, size)? < 1.0))
}

fn multicast_gains_with_the_size(case: &mut Case<'_>) -> Outcome {
    let shares = case.by_size(share_of_two_unicasts)?;
    let ends = (shares[0] - 0.97).abs() <= 0.01 && (shares[9] - 0.68).abs() <= 0.01;
    Ok(shares.windows(2).all(|pair| pair[0] >= pair[1]) && ends)
}

/// Latencies at a size and a load as printed in the text.
pub(super) const MULTICAST_PRINTED: [(u32, u32, f64); 4] =
    [(8, 0, 5.2), (8, 75, 7.5), (4096, 0, 10.4), (4096, 75, 14.5)];

/// Within 5 %.
fn multicast_rises_with_the_load(case: &mut Case<'_>) -> Outcome {
    case.every(MULTICAST_PRINTED, |case, (size, load, about)| {
        Ok((case.loaded_latency(MULTICAST, size, load)? / about - 1.0).abs() <= 0.05)
    })
}

fn multicast_spreads_with_the_load(case: &mut Case<'_>) -> Outcome {
    let mut spread = |load: u32| {
        let above = case.by_size(|case, size| {
            Ok(case.loaded_threshold(MULTICAST, size, load)? - case.loaded_latency(MULTICAST, size, load)?)
        })?;
        Ok::<_, NotRun>(above.iter().sum::<f64>())
    };
    let [idle, loaded @ ..] = [spread(0)?, spread(25)?, spread(50)?, spread(75)?];
    Ok(loaded.iter().all(|loaded| *loaded > idle))
}

fn no_threshold_exceeds_10_ms(case: &mut Case<'_>) -> Outcome {
    let idle = case.by_size(Case::idle_threshold)?.into_iter().fold(0.0, f64::max);
    let worst = idle.max(case.worst(SPPT)?).max(case.worst(MPPT)?);
    Ok(worst <= WORST_MS)
}

fn up_to_1024_bytes_meet_the_delay(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        let meets = collecting_ms(size) + case.idle_latency(size)? < 250.0;
        Ok(meets == (size <= 1024))
    })
}

/// Headers of 69 bytes a packet, give or take 1.5 %.
fn large_packets_are_efficient(case: &mut Case<'_>) -> Outcome {
    let user = case.by_size(|case, size| case.transfer(size, USER_THROUGHPUT))?;
    let network = case.by_size(|case, size| case.transfer(size, NETWORK_THROUGHPUT))?;
    let ratios = SIZES.iter().zip(user.iter().zip(&network)).all(|(size, (user, network))| {
        let frame = f64::from(*size) + 69.0;
        (network / user / (frame / f64::from(*size)) - 1.0).abs() <= 0.015
    });
    Ok(rises(&user) && rises(&network) && ratios)
}

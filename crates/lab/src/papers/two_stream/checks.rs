//! A check for each conclusion of the paper.

use super::super::compare::Statistic;
use super::super::judge::{Case, Check, NotRun};
use super::figures::{AUDIO_DROPPED, AUDIO_LOST_S, PACKET_S};
use super::{AUDIO, DIALUP, EMULAB, NISTNET, TCP, UDP, UNRESTRICTED, VIDEO, at, main_queue, managed, own};

pub(super) type Outcome = Result<bool, NotRun>;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("ts-01", |case| Ok(1.0 - case.tcp_to_udp(NISTNET, AUDIO_DROPPED)? >= 0.23)),
    ("ts-02", |case| Ok(case.tcp_to_udp(NISTNET, "gaps_above_250ms")? * 30.0 <= 1.0)),
    ("ts-03", |case| Ok(case.tcp_to_udp(NISTNET, AUDIO_LOST_S)? * 2.0 <= 1.0)),
    ("ts-04", dropped_and_late_cost_eleven_seconds_each),
    ("ts-05", late_packets_are_later_than_half_a_second),
    ("ts-06", |case| Ok(case.tcp_to_udp(NISTNET, "gap_shared_ms")? * 6.0 <= 1.0)),
    ("ts-07", gaps_without_video_are_nearer_to_50_ms),
    ("ts-08", greatest_deviations),
    ("ts-09", |case| Ok(case.tcp_to_udp(NISTNET, "gap_sd_mean_ms")? * 4.0 <= 1.0)),
    ("ts-10", tcp_costs_little_video),
    ("ts-11", |case| {
        Ok(case.of_video(NISTNET, TCP, "delay_mean_ms")? < case.of_video(NISTNET, UDP, "delay_mean_ms")?)
    }),
    ("ts-12", an_ethernet_gives_all_to_both),
    ("ts-13", |case| Ok(case.tcp_to_udp(EMULAB, AUDIO_LOST_S)? * 1.7 <= 1.0)),
    ("ts-14", |case| Ok(case.tcp_to_udp(DIALUP, AUDIO_LOST_S)? * 2.0 <= 1.0)),
    ("ts-15", gaps_with_video_by_network),
    ("ts-16", |case| {
        case.every([EMULAB, DIALUP], |case, network| Ok(case.tcp_to_udp(network, "gap_sd_mean_ms")? <= 0.6))
    }),
    ("ts-17", video_rates_are_comparable),
    ("ts-18", every_frame_over_tcp_is_whole),
    ("ts-19", |case| {
        case.every([EMULAB, DIALUP], |case, network| {
            let whole = case.of_video(network, UDP, "frames_whole")?;
            Ok(whole < 0.01 * case.of_video(network, UDP, "frames_sent")?)
        })
    }),
    ("ts-20", |case| {
        case.every([EMULAB, DIALUP], |case, network| {
            Ok(case.of_video(network, TCP, "frames_sent")? < case.of_video(network, UDP, "frames_sent")?)
        })
    }),
    ("ts-21", |case| {
        let delay = case.of_video(EMULAB, TCP, "delay_mean_ms")?;
        Ok(delay < 0.5 * case.of_video(EMULAB, TCP, "frame_gap_mean_ms")?)
    }),
    ("ts-22", |case| {
        case.every([NISTNET, EMULAB, DIALUP], |case, network| {
            Ok(case.tcp_to_udp(network, AUDIO_LOST_S)? < 1.0)
        })
    }),
    ("ours-ts-1", own::a_small_buffer_keeps_delay_below_half_the_frame_gap),
    ("ours-ts-2", own::a_listener_misses_more_than_gaps_show),
    ("ours-ts-3", own::drops_that_just_begin_part_the_two),
    ("ours-ts-4", own::a_queue_in_bytes_is_nearer_to_emulab),
    ("ours-ts-5", own::one_interval_is_too_short_for_a_frame),
    ("ours-ts-6", own::newest_frames_over_sctp),
    ("ours-ts-7", own::four_streams_are_no_better_than_one),
    ("ours-ts-8", own::a_rate_leaves_audio_alone),
    ("ours-ts-9", own::priorities_leave_audio_alone),
    ("ours-ts-10", own::tcp_is_better_with_a_second_of_playout),
    ("ours-ts-11", own::neither_is_better_with_50_ms),
    ("ours-ts-12", own::udp_is_better_where_all_just_fits),
    ("ours-ts-13", own::a_tiny_buffer_leaves_audio_alone),
    ("ours-ts-14", managed::no_audio_is_late),
    ("ours-ts-15", managed::repairs_leave_half_a_second),
    ("ours-ts-16", managed::audio_twice_leaves_half_a_second),
    ("ours-ts-17", managed::as_much_video_as_over_tcp),
    ("ours-ts-18", managed::repairs_are_far_better_than_tcp),
    ("ours-ts-19", managed::the_manager_has_no_crossing),
    ("ours-ts-20", managed::no_length_of_packets_has_both),
];

impl Case<'_> {
    /// The mean of a stream's figure with the queue by which claims are judged.
    fn of_stream(
        &mut self,
        stream: &str,
        experiment: &str,
        transport: &str,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let place = at(stream, transport, main_queue(experiment));
        Ok(self.read(experiment, place, figure, Statistic::Mean)?.value)
    }

    pub(super) fn beside_video(
        &mut self,
        experiment: &str,
        transport: &str,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        self.of_stream(AUDIO, experiment, transport, figure)
    }

    fn of_video(&mut self, experiment: &str, transport: &str, figure: &'static str) -> Result<f64, NotRun> {
        self.of_stream(VIDEO, experiment, transport, figure)
    }

    /// A figure of the audio beside video over TCP as a multiple of that beside video over UDP.
    fn tcp_to_udp(&mut self, experiment: &str, figure: &'static str) -> Result<f64, NotRun> {
        Ok(self.beside_video(experiment, TCP, figure)? / self.beside_video(experiment, UDP, figure)?)
    }
}

/// "About 11 s": within a quarter. Bound chosen here.
fn dropped_and_late_cost_eleven_seconds_each(case: &mut Case<'_>) -> Outcome {
    case.every([AUDIO_DROPPED, "gaps_above_250ms"], |case, figure| {
        Ok((8.25..=13.75).contains(&(PACKET_S * case.beside_video(NISTNET, UDP, figure)?)))
    })
}

/// One in a hundred may be an exception. Bound chosen here.
fn late_packets_are_later_than_half_a_second(case: &mut Case<'_>) -> Outcome {
    let late = case.beside_video(NISTNET, UDP, "gaps_above_250ms")?;
    Ok(case.beside_video(NISTNET, UDP, "gaps_above_500ms")? >= 0.99 * late)
}

fn gaps_without_video_are_nearer_to_50_ms(case: &mut Case<'_>) -> Outcome {
    let mut from_ideal = |transport| -> Result<f64, NotRun> {
        Ok((case.beside_video(NISTNET, transport, "gap_unshared_ms")? - 50.0).abs())
    };
    Ok(from_ideal(TCP)? < from_ideal(UDP)?)
}

fn greatest_deviations(case: &mut Case<'_>) -> Outcome {
    let tcp = case.beside_video(NISTNET, TCP, "gap_sd_max_ms")?;
    Ok(case.beside_video(NISTNET, UDP, "gap_sd_max_ms")? > 300.0 && tcp < 100.0)
}

fn tcp_costs_little_video(case: &mut Case<'_>) -> Outcome {
    let share =
        case.of_video(NISTNET, TCP, "media_kbit_per_s")? / case.of_video(NISTNET, UDP, "media_kbit_per_s")?;
    Ok(share > 0.9 && share < 1.0)
}

/// The whole rate within 1 %, which the ends of the video's time make of it; a deviation of "about 5 ms" at most. Bounds
/// chosen here.
fn an_ethernet_gives_all_to_both(case: &mut Case<'_>) -> Outcome {
    case.every([UDP, TCP], |case, transport| {
        let rate = case.of_video(UNRESTRICTED, transport, "media_kbit_per_s")? / 264.436;
        let gap = case.beside_video(UNRESTRICTED, transport, "gap_mean_ms")?;
        let deviation = case.beside_video(UNRESTRICTED, transport, "gap_sd_mean_ms")?;
        Ok((0.99..=1.01).contains(&rate) && (gap - 50.0).abs() < 0.5 && deviation > 0.0 && deviation <= 5.0)
    })
}

/// "Slightly larger": by less than half. Bound chosen here.
fn gaps_with_video_by_network(case: &mut Case<'_>) -> Outcome {
    let dialup = case.tcp_to_udp(DIALUP, "gap_shared_ms")?;
    Ok(case.tcp_to_udp(EMULAB, "gap_shared_ms")? < 1.0 && dialup > 1.0 && dialup < 1.5)
}

fn video_rates_are_comparable(case: &mut Case<'_>) -> Outcome {
    case.every([EMULAB, DIALUP], |case, network| {
        let udp = case.of_video(network, UDP, "media_kbit_per_s")?;
        Ok((case.of_video(network, TCP, "media_kbit_per_s")? / udp - 1.0).abs() <= 0.15)
    })
}

fn every_frame_over_tcp_is_whole(case: &mut Case<'_>) -> Outcome {
    case.every([EMULAB, DIALUP], |case, network| {
        Ok(case.of_video(network, TCP, "frames_whole")? == case.of_video(network, TCP, "frames_sent")?)
    })
}

//! Checks of claims of ours: what the paper leaves open.

use super::super::compare::{Place, Statistic};
use super::super::judge::{Case, NotRun};
use super::checks::Outcome;
use super::figures::{AUDIO_DROPPED, AUDIO_LOST_S, FRAMES_WHOLE};
use super::{
    ALL, ALTERNATIVES, AUDIO, DCCP_2, DCCP_3, EMULAB, INTERVAL, NEWEST, NISTNET, NO_END, SCTP_1, SCTP_4, TCP,
    TWO_SECONDS, UDP, VIDEO, XTP_RATE, XTP_SORT, at,
};

const BUFFERS: &str = "buffers";
const PRIORITIES: &str = "priorities";
pub(super) const CROSSING: &str = "crossing";
/// The emulators as presets.
pub(super) const EMULATORS: [&str; 2] = ["nistnet", "dummynet"];
const LOSSES: [&str; 5] = ["0%", "1%", "2%", "3%", "5%"];

/// A way of sending the video: transport, which frames, and for how long each is of use.
pub(super) type Way = (&'static str, &'static str, &'static str);

pub(super) const OVER_TCP: Way = (TCP, NEWEST, NO_END);

impl Case<'_> {
    pub(super) fn mean_of(
        &mut self,
        experiment: &str,
        stream: &str,
        point: &[(&'static str, &str)],
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let point = point.iter().map(|(key, value)| (*key, value.to_string())).collect();
        let place = Place { stream: stream.into(), point };
        Ok(self.read(experiment, place, figure, Statistic::Mean)?.value)
    }

    pub(super) fn way(
        &mut self,
        path: &str,
        (video, choose, lifetime): Way,
        stream: &str,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let point = [("path", path), ("video", video), ("choose", choose), ("lifetime", lifetime)];
        self.mean_of(ALTERNATIVES, stream, &point, figure)
    }

    fn whole_frames(&mut self, path: &str, way: Way) -> Result<f64, NotRun> {
        self.way(path, way, VIDEO, "frames_whole")
    }

    /// What a listener with 200 ms of playout misses, in percent.
    pub(super) fn listener_misses(&mut self, path: &str, way: Way) -> Result<f64, NotRun> {
        self.way(path, way, AUDIO, "missed_200ms_percent")
    }

    fn crossing(
        &mut self,
        transport: &str,
        rate: &str,
        loss: &str,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        self.mean_of(CROSSING, AUDIO, &[("video", transport), ("rate", rate), ("loss", loss)], figure)
    }

    /// For each of these rates and each loss, UDP's figure and TCP's.
    fn at_rates(
        &mut self,
        rates: &[&str],
        figure: &'static str,
        holds: fn(f64, f64) -> bool,
    ) -> Result<bool, NotRun> {
        self.every(rates, |case, rate| {
            case.every(LOSSES, |case, loss| {
                let udp = case.crossing(UDP, rate, loss, figure)?;
                Ok(holds(udp, case.crossing(TCP, rate, loss, figure)?))
            })
        })
    }
}

pub(super) fn a_small_buffer_keeps_delay_below_half_the_frame_gap(case: &mut Case<'_>) -> Outcome {
    case.every(["0%", "5%"], |case, back| {
        let mut share = |buffer| -> Result<f64, NotRun> {
            let point = [("back", back), ("buffer", buffer)];
            let delay = case.mean_of(BUFFERS, VIDEO, &point, "delay_mean_ms")?;
            Ok(delay / case.mean_of(BUFFERS, VIDEO, &point, "frame_gap_mean_ms")?)
        };
        Ok(share("4KiB")? < 0.5 && share("16KiB")? > 1.0)
    })
}

/// Late packets are half a percent at most: 5 % are lost at random. Bound chosen here.
pub(super) fn a_tiny_buffer_leaves_audio_alone(case: &mut Case<'_>) -> Outcome {
    case.every(["0%", "5%"], |case, back| {
        let point = [("back", back), ("buffer", "2KiB")];
        let missed = case.mean_of(BUFFERS, AUDIO, &point, "missed_200ms_percent")?;
        let lost = case.mean_of(BUFFERS, AUDIO, &point, "lost_percent")?;
        let rate = case.mean_of(BUFFERS, VIDEO, &point, "media_kbit_per_s")?;
        let usual = [("back", back), ("buffer", "16KiB")];
        let enough = rate >= 0.8 * case.mean_of(BUFFERS, VIDEO, &usual, "media_kbit_per_s")?;
        Ok(missed - lost <= 0.5 && enough)
    })
}

pub(super) fn a_listener_misses_more_than_gaps_show(case: &mut Case<'_>) -> Outcome {
    let udp = case.beside_video(NISTNET, UDP, "missed_200ms_percent")?;
    Ok(udp > 50.0 && case.beside_video(NISTNET, TCP, "missed_200ms_percent")? > 25.0)
}

pub(super) fn drops_that_just_begin_part_the_two(case: &mut Case<'_>) -> Outcome {
    let mut dropped = |transport| -> Result<f64, NotRun> {
        let place = at(AUDIO, transport, Some("drd/1600/4000"));
        Ok(case.read(NISTNET, place, AUDIO_DROPPED, Statistic::Mean)?.value)
    };
    Ok(1.0 - dropped(TCP)? / dropped(UDP)? >= 0.23)
}

/// Within 15 % of 20 s and 115 ms, and at most 2 % of 209 frames whole. Bounds chosen here.
pub(super) fn a_queue_in_bytes_is_nearer_to_emulab(case: &mut Case<'_>) -> Outcome {
    let mut udp = |figure| -> Result<f64, NotRun> {
        Ok(case.read(EMULAB, at(AUDIO, UDP, Some("30kB")), figure, Statistic::Mean)?.value)
    };
    let near = |value: f64, printed: f64| (value / printed - 1.0).abs() <= 0.15;
    Ok(near(udp(AUDIO_LOST_S)?, 20.0)
        & near(udp("gap_sd_mean_ms")?, 115.0)
        & (udp(FRAMES_WHOLE)? <= 0.02 * 209.0))
}

pub(super) fn one_interval_is_too_short_for_a_frame(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        case.every([SCTP_4, SCTP_1, DCCP_2, DCCP_3], |case, transport| {
            Ok(case.whole_frames(path, (transport, ALL, INTERVAL))? < 0.05 * 209.0)
        })
    })
}

pub(super) fn newest_frames_over_sctp(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        let sctp = (SCTP_4, NEWEST, TWO_SECONDS);
        let enough = case.whole_frames(path, sctp)? >= 0.8 * case.whole_frames(path, OVER_TCP)?;
        Ok(case.listener_misses(path, sctp)? < case.listener_misses(path, OVER_TCP)? && enough)
    })
}

pub(super) fn four_streams_are_no_better_than_one(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        let four = case.whole_frames(path, (SCTP_4, NEWEST, TWO_SECONDS))?;
        Ok(four <= 1.05 * case.whole_frames(path, (SCTP_1, NEWEST, TWO_SECONDS))?)
    })
}

pub(super) fn a_rate_leaves_audio_alone(case: &mut Case<'_>) -> Outcome {
    let way = (XTP_RATE, NEWEST, TWO_SECONDS);
    case.every(EMULATORS, |case, path| {
        let late = case.listener_misses(path, way)? - case.way(path, way, AUDIO, "lost_percent")?;
        Ok(late <= 0.5 && case.whole_frames(path, way)? >= 0.8 * case.whole_frames(path, OVER_TCP)?)
    })
}

pub(super) fn priorities_leave_audio_alone(case: &mut Case<'_>) -> Outcome {
    let mut missed = |sorts| -> Result<f64, NotRun> {
        case.mean_of(PRIORITIES, AUDIO, &[("video", XTP_SORT), ("sorts", sorts)], "missed_200ms_percent")
    };
    Ok(missed("true")? < 6.0 && missed("false")? > 35.0)
}

pub(super) fn tcp_is_better_with_a_second_of_playout(case: &mut Case<'_>) -> Outcome {
    let rates = ["160kbit/s", "192kbit/s", "224kbit/s", "256kbit/s"];
    case.at_rates(&rates, "missed_1000ms_percent", |udp, tcp| tcp < udp / 4.0)
}

pub(super) fn neither_is_better_with_50_ms(case: &mut Case<'_>) -> Outcome {
    let rates = ["64kbit/s", "96kbit/s", "124kbit/s", "160kbit/s", "192kbit/s", "224kbit/s", "256kbit/s"];
    case.at_rates(&rates, "missed_50ms_percent", |udp, tcp| (udp - tcp).abs() < 4.0)
}

pub(super) fn udp_is_better_where_all_just_fits(case: &mut Case<'_>) -> Outcome {
    case.at_rates(&["288kbit/s"], "missed_200ms_percent", |udp, tcp| udp < tcp)
}

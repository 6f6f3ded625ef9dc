//! A check for each conclusion of ours on television sound over a wireless network, but those on causes (`causes.rs`).
//!
//! As in `checks.rs`, bounds are the claim's own, or marked as chosen here.

use super::super::compare::Statistic;
use super::super::judge::{Case, NotRun};
use super::checks::{LOSS_LIMIT_PERCENT, OVERLOADED, Outcome, SKEW_LIMIT_PER_1000, place};
use super::{
    ACCESS, AUDIO, CONTROL, HEADSET_TRANSPORTS, HEADSETS, IMPROVED, PROTECT, PUBLISHED, RETRIES, TICK,
    TRANSPORT, WORK,
};

/// Ten times what is lost at 12 Mbit/s (Table 6.3). Bound chosen here.
const FAR_TOO_MUCH_PERCENT: f64 = 10.0 * 1.9792;
/// Below the least mean longest gap from 14 Mbit/s, 0.6351 s (Table 6.2). Bound chosen here.
const NEARLY_PRINTED_MS: f64 = 500.0;

pub(super) fn rate_control_explains_nothing(case: &mut Case<'_>) -> Outcome {
    let mut mean = |control: &str, mbit_s, figure| -> Result<f64, NotRun> {
        let mut place = place(AUDIO, mbit_s);
        place.point.push((CONTROL, control.into()));
        Ok(case.read("rate_control", place, figure, Statistic::Mean)?.value)
    };
    let mut explains = false;
    for control in ["arf", "minstrel"] {
        explains |= mean(control, 12, "missing_percent")? <= FAR_TOO_MUCH_PERCENT;
        for rate in OVERLOADED {
            explains |= mean(control, rate, "gap_max_ms")? >= NEARLY_PRINTED_MS;
        }
    }
    Ok(!explains)
}

/// The paper's rates at which both layers are tried, and the numbers of MAC retransmissions.
const LAYERED: [u32; 5] = [6, 10, 12, 14, 20];
const MAC_RETRIES: [&str; 3] = ["3", "7", "15"];

impl Case<'_> {
    fn by_layer(
        &mut self,
        transport: &str,
        retries: &str,
        mbit_s: u32,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let mut place = place(AUDIO, mbit_s);
        place.point.extend([(RETRIES, retries.into()), (TRANSPORT, transport.into())]);
        Ok(self.read("which_layer", place, figure, Statistic::Mean)?.value)
    }
}

pub(super) fn repetition_belongs_into_the_protocol(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for rate in LAYERED {
        let alone = case.by_layer(IMPROVED, "0", rate, "missing_percent")?;
        for retries in MAC_RETRIES {
            confirmed &= alone <= case.by_layer(IMPROVED, retries, rate, "missing_percent")?;
        }
        if rate <= 14 {
            let empty = case.by_layer(IMPROVED, "0", rate, "buffer_empty_numbered_per_1000")?;
            let not_full = case.by_layer(IMPROVED, "0", rate, "buffer_not_full_numbered_per_1000")?;
            confirmed &= empty + not_full < SKEW_LIMIT_PER_1000;
        }
    }
    Ok(confirmed)
}

pub(super) fn the_published_protocol_does_better_alone(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for rate in [12, 14, 20] {
        let alone = case.by_layer(PUBLISHED, "0", rate, "missing_percent")?;
        confirmed &= alone < case.by_layer(PUBLISHED, "7", rate, "missing_percent")?;
    }
    Ok(confirmed)
}

impl Case<'_> {
    /// The greatest loss of any of so many headsets in any run.
    fn worst_headset(
        &mut self,
        access: &str,
        transport: &str,
        mbit_s: u32,
        headsets: u32,
    ) -> Result<f64, NotRun> {
        let mut worst: f64 = 0.0;
        for n in 1..=headsets {
            let mut place = place(&format!("{AUDIO}-{n}"), mbit_s);
            place.point.extend([
                (ACCESS, access.into()),
                (TRANSPORT, transport.into()),
                (HEADSETS, headsets.to_string()),
            ]);
            worst = worst.max(self.read("headsets", place, "missing_percent", Statistic::Max)?.value);
        }
        Ok(worst)
    }

    /// Whether every headset has what it needs over this transport.
    fn carries(&mut self, access: &str, transport: &str, mbit_s: u32, headsets: u32) -> Result<bool, NotRun> {
        Ok(self.worst_headset(access, transport, mbit_s, headsets)? <= LOSS_LIMIT_PERCENT)
    }
}

/// Of each transport, how many headsets an idle cell carries, and how many it does not.
pub(super) const ON_AN_IDLE_CELL: [(&str, u32, u32); 6] =
    [("rtp", 14, 16), ("srp", 12, 16), ("tcp", 8, 12), ("sctp", 10, 12), ("dccp", 8, 14), ("arq", 8, 12)];

pub(super) fn an_idle_cell_carries_so_many(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for (transport, fits, fails) in ON_AN_IDLE_CELL {
        confirmed &= case.carries("dcf", transport, 0, fits)?;
        confirmed &= !case.carries("dcf", transport, 0, fails)?;
    }
    Ok(confirmed)
}

pub(super) fn four_times_as_many_with_categories(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for transport in HEADSET_TRANSPORTS {
        confirmed &= !case.carries("dcf", transport, 10, 4)?;
        confirmed &= case.carries("edca", transport, 10, 8)?;
    }
    Ok(confirmed)
}

pub(super) fn nothing_is_left_of_the_losses_with_categories(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for transport in ["rtp", "tcp", PUBLISHED, IMPROVED] {
        for rate in [6, 10, 12, 14, 16, 20] {
            let mut mean = |figure| -> Result<f64, NotRun> {
                let mut place = place(AUDIO, rate);
                place.point.extend([(ACCESS, "edca".into()), (TRANSPORT, transport.into())]);
                Ok(case.read("edca", place, figure, Statistic::Mean)?.value)
            };
            let empty = mean("buffer_empty_numbered_per_1000")?;
            let not_full = mean("buffer_not_full_numbered_per_1000")?;
            confirmed &= mean("missing_percent")? <= LOSS_LIMIT_PERCENT;
            confirmed &= empty + not_full < SKEW_LIMIT_PER_1000;
        }
    }
    Ok(confirmed)
}

impl Case<'_> {
    /// The greatest loss of any headset of a multicast group in any run.
    fn worst_of_group(
        &mut self,
        access: &str,
        protect: &str,
        mbit_s: u32,
        headsets: u32,
    ) -> Result<f64, NotRun> {
        let mut worst: f64 = 0.0;
        for n in 1..=headsets {
            let stream = if n == 1 { AUDIO.into() } else { format!("{AUDIO}@client-{n}") };
            let mut place = place(&stream, mbit_s);
            place.point.extend([
                (ACCESS, access.into()),
                (PROTECT, protect.into()),
                (HEADSETS, headsets.to_string()),
            ]);
            worst = worst.max(self.read("multicast", place, "missing_percent", Statistic::Max)?.value);
        }
        Ok(worst)
    }
}

/// How often a packet of the multicast is sent.
const ONCE: &str = "none";
const TWICE: &str = "repeat:2,spacing=20ms";

pub(super) fn one_multicast_reaches_all_in_an_idle_cell(case: &mut Case<'_>) -> Outcome {
    let twice = case.worst_of_group("dcf", TWICE, 0, 32)?;
    let once = case.worst_of_group("dcf", ONCE, 0, 32)?;
    Ok(twice <= LOSS_LIMIT_PERCENT && once > LOSS_LIMIT_PERCENT)
}

pub(super) fn multicast_reaches_nobody_beside_a_disturbance(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = case.carries("dcf", "rtp", 10, 2)? && case.carries("edca", "rtp", 10, 8)?;
    for (access, protect) in ["dcf", "edca"].into_iter().flat_map(|one| [(one, ONCE), (one, TWICE)]) {
        confirmed &= case.worst_of_group(access, protect, 10, 2)? > LOSS_LIMIT_PERCENT;
    }
    Ok(confirmed)
}

/// The sender's timers that are tried, and the one of the listing.
const TICKS: [&str; 5] = ["0.1ms", "0.3ms", "1ms", "3ms", "10ms"];
const LISTED_TICK: &str = "1ms";
/// What keeps the loop: nothing, and the two that give the printed pace at 12 Mbit/s.
const NO_WORK: &str = "turn=0ms";
const SLOW_TURN: &str = "turn=4.7ms";
const SLOW_REPETITION: &str = "repetition=3ms";

impl Case<'_> {
    fn copies(&mut self, work: &str, tick: &str, mbit_s: u32, figure: &'static str) -> Result<f64, NotRun> {
        let mut place = place(AUDIO, mbit_s);
        place.point.extend([(WORK, work.into()), (TICK, tick.into())]);
        Ok(self.read("duplicates", place, figure, Statistic::Mean)?.value)
    }
}

pub(super) fn duplicates_come_from_late_packets(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for (work, tick) in [NO_WORK, SLOW_REPETITION].into_iter().flat_map(|work| TICKS.map(|tick| (work, tick)))
    {
        for rate in [12, 14, 20] {
            let all = case.copies(work, tick, rate, "duplicate")?;
            let late = case.copies(work, tick, rate, "duplicate_packet_late")?;
            let lost = case.copies(work, tick, rate, "duplicate_ack_lost")?;
            let unread = case.copies(work, tick, rate, "duplicate_ack_unread")?;
            confirmed &= late >= 0.8 * all && lost + unread <= 0.01 * all;
        }
    }
    Ok(confirmed)
}

/// Table 7.5 prints 26.7 at 6 Mbit/s, in 4055 packets.
pub(super) fn a_slow_loop_would_repeat_without_a_load(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = case.copies(NO_WORK, LISTED_TICK, 6, "duplicate")? < 100.0;
    confirmed &= case.copies(SLOW_TURN, LISTED_TICK, 6, "duplicate")? > 4055.0;
    for rate in [6, 12] {
        let all = case.copies(SLOW_TURN, LISTED_TICK, rate, "duplicate")?;
        confirmed &= case.copies(SLOW_TURN, LISTED_TICK, rate, "duplicate_ack_unread")? > 0.5 * all;
    }
    confirmed &= case.copies(SLOW_REPETITION, LISTED_TICK, 6, "duplicate")? < 100.0;
    Ok(confirmed)
}

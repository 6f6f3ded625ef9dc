//! Checks of claims of ours: what causes would give printed figures that the room does not have.

use super::super::compare::Statistic;
use super::super::find;
use super::super::judge::{Case, NotRun};
use super::checks::{OVERLOADED, Outcome, place};
use super::{AUDIO, IDLE, X};

/// The mean longest gaps of UDP by rate (Table 6.2), at 20 Mbit/s 4.87 s: those that a run of dozing comes near to.
const PRINTED_LONGEST_MS: [(u32, f64); 3] = [(14, 635.1), (16, 1257.4), (18, 2065.6)];
/// Where nothing is lost no gap is as long as from 14 Mbit/s on; the largest printed mean is 0.14 s. Bound chosen here.
const NO_LONG_GAP_MS: f64 = 300.0;
/// What dozing costs beyond the printed loss at 20 Mbit/s, 71.0 % (Table 6.3). Bound chosen here.
const LOSES_TOO_MUCH_PERCENT: f64 = 80.0;

pub(super) fn a_client_that_dozes_again_has_long_gaps(case: &mut Case<'_>) -> Outcome {
    let mut mean = |idle: &str, mbit_s, figure| -> Result<f64, NotRun> {
        let mut place = place(AUDIO, mbit_s);
        place.point.push((IDLE, idle.into()));
        Ok(case.read("dozing", place, figure, Statistic::Mean)?.value)
    };
    let mut confirmed = mean("60ms", 10, "gap_max_ms")? < NO_LONG_GAP_MS;
    for (rate, printed) in PRINTED_LONGEST_MS {
        let ours = mean("60ms", rate, "gap_max_ms")?;
        confirmed &= (printed / 2.0..=printed * 2.0).contains(&ours);
    }
    confirmed &= mean("60ms", 20, "missing_percent")? > LOSES_TOO_MUCH_PERCENT;
    confirmed &= mean("100ms", 14, "gaps_above_80ms")? < mean("60ms", 14, "gaps_above_80ms")? / 2.0;
    Ok(confirmed)
}

/// A printed figure of simple retransmission.
fn printed(file: &str, mbit_s: u32, column: &str) -> Result<f64, NotRun> {
    let cell = || {
        let table = find("tv-audio-wlan")?.table(file)?;
        let rate = mbit_s.to_string();
        let row = (0..table.rows.len()).find(|row| table.text(*row, X) == Some(&rate))?;
        table.number(row, column)
    };
    cell().ok_or_else(|| NotRun(format!("{file} has no '{column}' at {mbit_s} Mbit/s")))
}

const LOSS: (&str, &str) = ("table7-6-simple-loss.csv", "lost [%]");
const DUPLICATES: (&str, &str) = ("table7-5-simple-duplicates.csv", "duplicate [packets]");
const LONG_GAPS: (&str, &str) = ("table7-3-simple-above-threshold.csv", "above 80 ms [per 1000]");
const LONGEST_GAP: (&str, &str) = ("table7-2-simple-max-delay.csv", "mean max delay [s]");
/// Packets that a run of simple retransmission sends (section 7.3).
const PACKETS: f64 = 4055.0;

/// How far figures may be from print with the loads of repetitions left out, as a share. Bound chosen here.
const NEAR_WITHOUT_LOAD: f64 = 0.4;

pub(super) fn losses_that_do_not_depend_on_the_load(case: &mut Case<'_>) -> Outcome {
    let mut confirmed = true;
    for rate in OVERLOADED {
        for ((file, column), figure) in [(LOSS, "missing_percent"), (DUPLICATES, "duplicate")] {
            let ours = case.read("independent_losses", place(AUDIO, rate), figure, Statistic::Mean)?.value;
            let printed = printed(file, rate, column)?;
            confirmed &= (ours - printed).abs() <= NEAR_WITHOUT_LOAD * printed;
        }
    }
    Ok(confirmed)
}

/// How far the costs of a scan, and the longest gap without one, may be from print, as a share. Bound chosen here.
const NEAR_WITH_SCANS: f64 = 1.0 / 3.0;

pub(super) fn a_scan_costs_what_is_printed(case: &mut Case<'_>) -> Outcome {
    let mut mean =
        |mbit_s, figure| Ok(case.read("scanning", place(AUDIO, mbit_s), figure, Statistic::Mean)?.value);
    let near = |ours: f64, printed: f64| (ours - printed).abs() <= NEAR_WITH_SCANS * printed;
    // How many runs had a scan is chance and counts on both sides.
    let lost = mean(6, "missing_percent")? / 100.0 * PACKETS;
    let lost_in_gap = lost / mean(6, "gaps_above_80ms")?;
    let longest_ms = mean(10, "gap_max_ms")?;
    let read = |(file, column), mbit_s| printed(file, mbit_s, column);
    let (share_lost, share_gaps) = (read(LOSS, 6)? / 100.0, read(LONG_GAPS, 6)? / 1000.0);
    // Gaps are counted among the packets that came.
    let printed_in_gap = share_lost / (share_gaps * (1.0 - share_lost));
    Ok(near(lost_in_gap, printed_in_gap) && near(longest_ms, 1000.0 * read(LONGEST_GAP, 10)?))
}

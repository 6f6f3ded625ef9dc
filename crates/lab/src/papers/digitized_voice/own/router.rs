//! Checks of claims of ours on two rings and a router between them: what XTP's priorities bring.

use super::super::super::compare::{Place, Statistic};
use super::super::super::judge::{Case, NotRun};
use super::super::{SIZE, VOICE};
use super::{BURST_MS, FEW, FRAME_MS, Outcome};

pub(super) const TWO_RINGS: &str = "two_rings";

/// What the router's queue holds beside the voice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    None,
    /// Bursts of 15 frames, more of them than it can forward: 75 Mbit/s.
    Overload,
    File,
}

impl Load {
    pub(super) fn settings(self) -> [(&'static str, &'static str); 5] {
        let (frames, period, begins, window) = match self {
            Load::None => ("0", "1s", "60s", "1"),
            Load::Overload => ("15", "6666.667us", "60s", "1"),
            Load::File => ("0", "1s", "1s", "64"),
        };
        [("frames", frames), ("period", period), ("begins", begins), ("window", window), ("jitter", "0%")]
    }
}

/// What is lost stays lost, or is repaired.
pub(super) const PLAIN: &str = "acks=never";
pub(super) const REPAIRED: &str = "acks=all&reliability=full&wtimer=1s";
/// Time that the router takes for a packet.
const ROUTER_MS: f64 = 0.5;

#[derive(Clone, Copy)]
struct Setting {
    load: Load,
    sorted: bool,
    repairs: &'static str,
}

fn figure(
    case: &mut Case<'_>,
    setting: Setting,
    size: u32,
    stream: &str,
    figure: &'static str,
    statistic: Statistic,
) -> Result<f64, NotRun> {
    let settings = [("sorted", setting.sorted.to_string()), ("repairs", setting.repairs.into())];
    let load = setting.load.settings().map(|(key, value)| (key, value.to_string()));
    let point = settings.into_iter().chain([(SIZE, size.to_string())]).chain(load).collect();
    Ok(case.read(TWO_RINGS, Place { stream: stream.into(), point }, figure, statistic)?.value)
}

fn longest(case: &mut Case<'_>, load: Load, sorted: bool, size: u32) -> Result<f64, NotRun> {
    let setting = Setting { load, sorted, repairs: PLAIN };
    figure(case, setting, size, VOICE, "delay_max_ms", Statistic::Max)
}

fn slow(case: &mut Case<'_>, load: Load, sorted: bool, size: u32) -> Result<f64, NotRun> {
    let setting = Setting { load, sorted, repairs: PLAIN };
    figure(case, setting, size, VOICE, "delay_p99_ms", Statistic::Mean)
}

pub(in super::super) fn sorting_keeps_the_voice_whole(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        let mut lost = |load, sorted| {
            let setting = Setting { load, sorted, repairs: PLAIN };
            figure(case, setting, size, VOICE, "lost_percent", Statistic::Mean)
        };
        Ok(lost(Load::Overload, false)? > 5.0
            && lost(Load::Overload, true)? <= lost(Load::None, true)? + LAST_PERCENT)
    })
}

/// A packet may be lost in one run in five of 15000.
const LAST_PERCENT: f64 = 0.01;

/// On the first ring for a burst and a frame, in the router for one packet.
pub(in super::super) fn a_sorted_voice_waits_for_one_packet(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        let idle = longest(case, Load::None, true, size)?;
        let sorted = longest(case, Load::Overload, true, size)? - idle;
        let unsorted = longest(case, Load::Overload, false, size)? - idle;
        Ok(sorted < BURST_MS + FRAME_MS + ROUTER_MS && unsorted > 3.0 * (BURST_MS + FRAME_MS))
    })
}

pub(in super::super) fn a_voice_goes_before_a_file(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        let idle = slow(case, Load::None, true, size)?;
        let sorted = slow(case, Load::File, true, size)? - idle;
        let unsorted = slow(case, Load::File, false, size)? - idle;
        let mut arrived = |sorted| {
            let setting = Setting { load: Load::File, sorted, repairs: PLAIN };
            figure(case, setting, size, "file", "received", Statistic::Mean)
        };
        let costs_nothing = (arrived(true)? / arrived(false)? - 1.0).abs() < 0.05;
        Ok(sorted < ROUTER_MS + 2.0 * FRAME_MS && unsorted > 10.0 * ROUTER_MS && costs_nothing)
    })
}

pub(in super::super) fn sorting_saves_repairs(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        let mut of = |sorted, name| {
            let setting = Setting { load: Load::Overload, sorted, repairs: REPAIRED };
            figure(case, setting, size, VOICE, name, Statistic::Mean)
        };
        let suffers = of(false, "delay_p99_ms")? > SUFFERS_MS;
        Ok(of(true, "retransmissions")? == 0.0 && of(true, "lost_percent")? == 0.0 && suffers)
    })
}

/// No conversation waits for so long.
const SUFFERS_MS: f64 = 1_000.0;

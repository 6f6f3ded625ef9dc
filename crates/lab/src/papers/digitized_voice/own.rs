//! Checks of claims of ours: what bursts do to a voice, and to the ping-pong with which it was measured.

use super::super::compare::{Place, Statistic};
use super::super::find;
use super::super::judge::{Case, NotRun};
use super::checks::unknown;
use super::figures::PACKET_RATE;
use super::{HALF, LOADED, MPPT, SIZE, SIZES, Table, UP, VOICE, period_of};

pub(super) mod causes;
pub(super) mod router;

type Outcome = Result<bool, NotRun>;

/// Printed latencies with bursts, of a unicast and of the multicast.
const UNICAST_TABLE: &str = "table08-latency-mppt.csv";
const MULTICAST_TABLE: &str = "table12-latency-multicast.csv";

const LOCKING: &str = "locking";
const ONE_WAY: &str = "one_way";
const GENERATORS: &str = "generators";
const TRUE_LOSS: &str = "true_loss";
const CHANNELS: &str = "channels";

/// Sizes whose packets are further apart than a burst is long.
const APART: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Sizes of the smaller sweeps.
const FEW: [u32; 4] = [32, 256, 1024, 4096];
/// 15 frames of 4167 bytes, and one, at 100 Mbit/s.
const BURST_MS: f64 = 15.0 * FRAME_MS;
const FRAME_MS: f64 = 0.333_36;
const SYNCHRONOUS: &str = "synchronous";
const UNBOUNDED: &str = "unbounded";

/// Plain and compressed voice of 20 ms and 128 ms, in bytes.
const COMPRESSED: [(u32, u32); 2] = [(160, 40), (1024, 256)];
/// The share of the time in which one of two speakers talks.
const TALKING: f64 = 0.4;

/// A generator of the one-way experiment.
#[derive(Clone, Copy)]
struct Load {
    frames: &'static str,
    period: &'static str,
    class: &'static str,
    allotted: &'static str,
}

const IDLE: Load = Load { frames: "0", period: "1s", class: SYNCHRONOUS, allotted: UNBOUNDED };

/// The bursts of section 7 at so many Mbit/s.
fn mppt(load: u32) -> Result<Load, NotRun> {
    let period = period_of(MPPT, load).ok_or_else(|| unknown(load))?;
    Ok(Load { frames: "15", period, ..IDLE })
}

impl Case<'_> {
    fn one_way(
        &mut self,
        load: Load,
        size: u32,
        figure: &'static str,
        statistic: Statistic,
    ) -> Result<f64, NotRun> {
        let Load { frames, period, class, allotted } = load;
        let settings = [("frames", frames), ("period", period), ("class", class), ("allotted", allotted)];
        let settings = settings.map(|(key, value)| (key, value.to_string()));
        let point = [(SIZE, size.to_string())].into_iter().chain(settings).collect();
        Ok(self.read(ONE_WAY, Place { stream: VOICE.into(), point }, figure, statistic)?.value)
    }

    fn delay(&mut self, load: Load, size: u32) -> Result<f64, NotRun> {
        self.one_way(load, size, "delay_mean_ms", Statistic::Mean)
    }

    fn longest(&mut self, load: Load, size: u32) -> Result<f64, NotRun> {
        self.one_way(load, size, "delay_max_ms", Statistic::Max)
    }

    fn locked(&mut self, period: &str, size: u32) -> Result<f64, NotRun> {
        let point = vec![("period", period.into()), ("jitter", "0%".into()), (SIZE, size.to_string())];
        let place = Place { stream: VOICE.into(), point };
        Ok(self.read(LOCKING, place, "rtt_mean_ms", Statistic::Mean)?.value)
    }

    fn of_generators(&mut self, second: &str, third: &str, size: u32) -> Result<f64, NotRun> {
        let point = vec![(SIZE, size.to_string()), ("second", second.into()), ("third", third.into())];
        let place = Place { stream: "one-way".into(), point };
        Ok(self.read(GENERATORS, place, "delay_max_ms", Statistic::Max)?.value)
    }

    /// By which factor fewer acknowledgements and compression raise the number of packets a second; each packet holds the same time.
    fn gain(&mut self, (plain, compressed): (u32, u32)) -> Result<f64, NotRun> {
        let mut rate = |acks: &str, size: u32| {
            let point = vec![("acks", acks.into()), (SIZE, size.to_string())];
            let place = Place { stream: UP.into(), point };
            Ok(self.read(CHANNELS, place, PACKET_RATE, Statistic::Mean)?.value)
        };
        Ok(rate("16", compressed)? / rate("all", plain)?)
    }

    fn missed(
        &mut self,
        delivered: &str,
        loss: &str,
        size: u32,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let point = vec![("delivered", delivered.into()), (SIZE, size.to_string()), ("loss", loss.into())];
        let place = Place { stream: VOICE.into(), point };
        Ok(self.read(TRUE_LOSS, place, figure, Statistic::Mean)?.value)
    }
}

/// In the mean over the sizes: a voice meets few phases of a period, so that chance moves each alone.
pub(super) fn the_class_makes_no_difference(case: &mut Case<'_>) -> Outcome {
    let asynchronous = Load { class: "asynchronous", ..mppt(75)? };
    let (mut ratio, sizes) = (0.0, &SIZES[2..]);
    for size in sizes {
        ratio += case.delay(asynchronous, *size)? / case.delay(mppt(75)?, *size)?;
    }
    Ok((ratio / sizes.len() as f64 - 1.0).abs() < 0.05)
}

pub(super) fn a_ping_pong_locks(case: &mut Case<'_>) -> Outcome {
    case.every(SIZES, |case, size| {
        case.every([("10ms", 10.0), ("6666.667us", 20.0 / 3.0)], |case, (period, ms)| {
            let periods = case.locked(period, size)? / ms;
            Ok((periods / periods.round() - 1.0).abs() < 0.005)
        })
    })
}

pub(super) fn a_voice_s_own_delay_rises(case: &mut Case<'_>) -> Outcome {
    let falls = case.locked("6666.667us", 2048)? < case.locked("10ms", 2048)?;
    let rises =
        case.every(APART, |case, size| Ok(case.delay(mppt(75)?, size)? > case.delay(mppt(50)?, size)?))?;
    Ok(falls && rises)
}

pub(super) fn periods_in_ticks_give_the_printed_latencies(case: &mut Case<'_>) -> Outcome {
    case.every([("9.92ms", 50, 1024), ("6504us", 75, 4096)], |case, (period, load, left_out)| {
        case.every(SIZES.into_iter().filter(|size| *size != left_out), |case, size| {
            Ok((case.locked(period, size)? / 2.0 - printed(UNICAST_TABLE, size, load)?).abs() < 0.05)
        })
    })
}

/// A latency of Table 8 or 12.
fn printed(table: &str, size: u32, load: u32) -> Result<f64, NotRun> {
    let nothing = || NotRun(format!("{table} has nothing at {size} bytes and {load} Mbit/s"));
    let table = find("digitized-voice").and_then(|paper| paper.table(table));
    let (size, load) = (size.to_string(), load.to_string());
    let of = |table: &Table| {
        let row = table.row(&[(LOADED[0], &size), (LOADED[1], &load)])?;
        table.number(row, HALF.printed)
    };
    table.and_then(of).ok_or_else(nothing)
}

pub(super) fn one_burst_at_most(case: &mut Case<'_>) -> Outcome {
    case.every(APART, |case, size| {
        let idle = case.longest(IDLE, size)?;
        case.every([25, 50, 75], |case, load| {
            Ok(case.longest(mppt(load)?, size)? - idle < BURST_MS + FRAME_MS)
        })
    })
}

pub(super) fn allotted_time_bounds_the_wait(case: &mut Case<'_>) -> Outcome {
    let allotted = Load { allotted: "1.1ms", ..mppt(75)? };
    case.every(APART, |case, size| {
        Ok(case.longest(allotted, size)? - case.longest(IDLE, size)? < 4.0 * FRAME_MS)
    })
}

pub(super) fn several_generators_add_up(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        Ok(case.of_generators("15", "15", size)? - case.of_generators("0", "0", size)? > BURST_MS / 2.0)
    })
}

pub(super) fn a_lost_packet_waits_for_the_next(case: &mut Case<'_>) -> Outcome {
    case.every(FEW, |case, size| {
        let idle = case.missed("false", "0%", size, "delay_mean_ms")?;
        let (interval, late) = (f64::from(size) * 0.125, case.missed("false", "10%", size, "delay_p99_ms")?);
        let delivered = case.missed("true", "10%", size, "delay_mean_ms")? / idle;
        let is_late = (interval..interval + 3.0 * idle).contains(&late);
        Ok(is_late && (size < 256 || (delivered - 1.0).abs() < 0.01))
    })
}

pub(super) fn all_together_carry_twice_the_channels(case: &mut Case<'_>) -> Outcome {
    case.every(COMPRESSED, |case, sizes| Ok(case.gain(sizes)? / TALKING >= 2.0))
}

pub(super) fn without_silence_they_carry_less_than_twice(case: &mut Case<'_>) -> Outcome {
    case.every(COMPRESSED, |case, sizes| Ok(case.gain(sizes)? < 2.0))
}

#[cfg(test)]
mod tests;

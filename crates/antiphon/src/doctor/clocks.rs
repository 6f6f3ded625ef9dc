//! The clock that streams run by, and the one on the wall.

use std::time::Duration;

use antiphon_net::{OsClock, WallClockState, clock_resolution, wall_clock_state};

use super::Check;

const RUN_CLOCK: &str = "clock";
const WALL_CLOCK: &str = "wall clock";

/// Checks both. `clock` began before everything else.
pub(super) fn check(clock: OsClock) -> Vec<Check> {
    // Systems other than Linux do not name it.
    let source = std::fs::read_to_string(CLOCK_SOURCE).ok();
    let run = RunClock {
        source: source.as_deref().map(str::trim),
        resolution: clock_resolution(),
        reading: reading_takes(clock),
    };
    let step = clock.epoch_now().ntp_at_zero.signed_nanos_since(clock.epoch().ntp_at_zero);
    let wall = wall_clock_state().map_err(|error| error.to_string());
    vec![judge_run_clock(&run), judge_wall_clock(wall, step as f64 / 1e6)]
}

/// What was measured of the clock of runs.
pub(super) struct RunClock<'a> {
    /// What the kernel reads it from, where it says so.
    pub source: Option<&'a str>,
    pub resolution: Option<Duration>,
    /// How long it takes to read it.
    pub reading: Duration,
}

/// How long it takes to read the clock: the mean of many readings.
fn reading_takes(clock: OsClock) -> Duration {
    let start = clock.now();
    let last = (0..READINGS).fold(start, |_, _| clock.now());
    last.since(start) / READINGS
}

/// Judges the clock of runs.
pub(super) fn judge_run_clock(clock: &RunClock<'_>) -> Check {
    let source = clock.source.unwrap_or("of a source that the system does not tell");
    let nanos = clock.reading.as_nanos() as f64;
    let coarse = clock.resolution.filter(|resolution| *resolution > COARSE);
    let found = format!("the clock ({source}) is read in {nanos:.0} ns");
    let check = match coarse {
        Some(resolution) => Check::warning(
            RUN_CLOCK,
            format!("{found}, and counts in steps of {:.1} ms", resolution.as_secs_f64() * 1e3),
            "use a kernel with high-resolution timers (CONFIG_HIGH_RES_TIMERS, and no highres=off at boot)",
        ),
        None if clock.reading > SLOW => Check::warning(
            RUN_CLOCK,
            format!("{found}: each packet is stamped several times"),
            "have the kernel use the processor's own counter: boot with clocksource=tsc tsc=reliable, or on a virtual \
             machine with its hypervisor's clock (kvm-clock, hyperv_clocksource)",
        ),
        None => Check::ok(RUN_CLOCK, found),
    };
    let resolution = clock.resolution.map_or(f64::NAN, |resolution| resolution.as_nanos() as f64);
    let figures = [("reading_ns", nanos), ("resolution_ns", resolution)];
    check.with(if resolution.is_nan() { &figures[..1] } else { &figures })
}

/// Judges the wall clock. `step_ms`: by how much it went apart from the clock of runs while everything was checked.
pub(super) fn judge_wall_clock(state: Result<WallClockState, String>, step_ms: f64) -> Check {
    let check = match state {
        _ if step_ms.abs() > STEP_MS => Check::warning(
            WALL_CLOCK,
            format!("the wall clock was set by {step_ms:.1} ms while this machine was checked"),
            "have one time service slew the clock instead of setting it (chrony with makestep 1 3), and only one",
        ),
        Ok(WallClockState { synchronised: true, max_error }) => Check::ok(
            WALL_CLOCK,
            format!("a time service keeps the wall clock to {:.1} ms", max_error.as_secs_f64() * 1e3),
        )
        .with(&[("max_error_ms", max_error.as_secs_f64() * 1e3)]),
        Ok(_) => Check::warning(
            WALL_CLOCK,
            "no time service says that it keeps the wall clock: one-way delays between machines, and the times in \
             recordings, are as wrong as it is (the streams themselves do not need it)",
            "start a time service: sudo timedatectl set-ntp true, or install chrony",
        ),
        Err(why) => Check::not_checked(WALL_CLOCK, format!("the kernel does not tell its state: {why}")),
    };
    check.with(&[("step_ms", step_ms)])
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const READINGS: u32 = 10_000;
/// hpet and acpi_pm take about a microsecond, tsc some 25 ns.
const SLOW: Duration = Duration::from_nanos(700);
/// A kernel without high-resolution timers counts in ticks of 1 to 10 ms (time(7)).
const COARSE: Duration = Duration::from_micros(100);
/// Slewing is at most 0.5 ms in a second (adjtimex(2)), and the checks take less than 20 s.
const STEP_MS: f64 = 10.0;

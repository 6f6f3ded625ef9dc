//! Settings of a TCP: a kernel's, and differences from it.

use std::time::Duration;

use antiphon_core::ByteCount;

use super::error::Read;
use super::read::{Section, Value};
use crate::tcp::{
    AckRule, Algorithm, DelayedAck, LossDetection, Nagle, Profile, Reduction, RtoFloor, RtoSettings,
    WindowUnit,
};

/// A name and its profile.
type Kernel = (&'static str, fn() -> Profile);

/// The kernels that have a profile.
const PROFILES: [Kernel; 7] = [
    ("linux", Profile::linux),
    ("linux-reno", Profile::linux_reno),
    ("linux-2.6-cubic", Profile::linux_2_6_cubic),
    ("linux-2.6-reno", Profile::linux_2_6_reno),
    ("linux-2.4", Profile::linux_2_4),
    ("linux-2.2", Profile::linux_2_2),
    ("windows-xp", Profile::windows_xp),
];

/// `tcp = "linux"`, or `tcp = { profile = "linux", … }`; today's Linux by default.
pub(super) fn profile(section: &Section<'_>) -> Read<Profile> {
    let Some(value) = section.find("tcp")? else { return Ok(Profile::linux()) };
    let Some(section) = value.table() else { return named(&value) };
    let base = section.find("profile")?.map_or(Ok(Profile::linux()), |value| named(&value))?;
    let profile = changed(&section, base)?;
    section.finish()?;
    Ok(profile)
}

fn named(value: &Value<'_>) -> Read<Profile> {
    Ok(value.choice(&PROFILES)?())
}

fn changed(section: &Section<'_>, base: Profile) -> Read<Profile> {
    let truth = |key, before| section.or(key, before, Value::truth);
    let whole = |key, range, before| section.or(key, before, |value| value.whole32(range));
    let size = |key, before| section.or(key, before, size);
    Ok(Profile {
        mss: whole("mss", 88..=8960, base.mss)?,
        timestamps: truth("timestamps", base.timestamps)?,
        sack: truth("sack", base.sack)?,
        window_scale: section
            .or("window-scale", base.window_scale, |shift| Ok(Some(shift.whole(0..=14)? as u8)))?,
        algorithm: choice(section, "algorithm", &ALGORITHMS, base.algorithm)?,
        window_unit: choice(section, "window-unit", &WINDOW_UNITS, base.window_unit)?,
        initial_window: whole("initial-window", 1..=1000, base.initial_window)?,
        idle_restart: truth("idle-restart", base.idle_restart)?,
        loss_detection: choice(section, "loss-detection", &DETECTIONS, base.loss_detection)?,
        dup_threshold: whole("dup-threshold", 1..=100, base.dup_threshold)?,
        tail_loss_probe: truth("tail-loss-probe", base.tail_loss_probe)?,
        reduction: choice(section, "reduction", &REDUCTIONS, base.reduction)?,
        undo: truth("undo", base.undo)?,
        rto: rto(section, base.rto)?,
        delayed_ack: delayed_ack(section, base.delayed_ack)?,
        rto_stretch: truth("rto-stretch", base.rto_stretch)?,
        repairs_first: truth("repairs-first", base.repairs_first)?,
        no_delay: truth("no-delay", base.no_delay)?,
        nagle: choice(section, "nagle", &NAGLES, base.nagle)?,
        send_buffer: size("send-buffer", base.send_buffer)?,
        segment_memory: section.or("segment-memory", base.segment_memory, memory)?,
        receive_buffer: size("receive-buffer", base.receive_buffer)?,
        syn_retries: whole("syn-retries", 0..=100, base.syn_retries)?,
        retries: whole("retries", 0..=100, base.retries)?,
        user_timeout: section.or("user-timeout", base.user_timeout, |value| time(value).map(Some))?,
    })
}

const ALGORITHMS: [(&str, Algorithm); 2] = [("reno", Algorithm::Reno), ("cubic", Algorithm::Cubic)];
const WINDOW_UNITS: [(&str, WindowUnit); 2] =
    [("packets", WindowUnit::Packets), ("bytes", WindowUnit::Bytes)];
const DETECTIONS: [(&str, LossDetection); 3] =
    [("dup-acks", LossDetection::DupAcks), ("fack", LossDetection::Fack), ("rack", LossDetection::Rack)];
const REDUCTIONS: [(&str, Reduction); 2] =
    [("proportional", Reduction::Proportional), ("immediate", Reduction::Immediate)];
const NAGLES: [(&str, Nagle); 2] = [("minshall", Nagle::Minshall), ("half-segment", Nagle::HalfSegment)];
const FLOORS: [(&str, RtoFloor); 2] = [("variation", RtoFloor::Variation), ("total", RtoFloor::Total)];

fn choice<T: Copy>(section: &Section<'_>, key: &'static str, known: &[(&str, T)], before: T) -> Read<T> {
    section.or(key, before, |value| value.choice(known))
}

fn time(value: &Value<'_>) -> Read<Duration> {
    value.duration(Duration::from_micros(1)..=Duration::from_hours(1))
}

fn rto(section: &Section<'_>, base: RtoSettings) -> Read<RtoSettings> {
    let of = |key, before| section.or(key, before, time);
    let max = of("rto-max", base.max)?;
    let rto = RtoSettings {
        initial: of("rto-initial", base.initial)?,
        min: of("rto-min", base.min)?,
        max,
        longest: max,
        floor: choice(section, "rto-floor", &FLOORS, base.floor)?,
        granularity: of("clock", base.granularity)?,
    };
    if rto.min > rto.max {
        return Err(section.fault("rto-min is above rto-max: write a smaller rto-min or a greater rto-max"));
    }
    Ok(rto)
}

fn delayed_ack(section: &Section<'_>, base: DelayedAck) -> Read<DelayedAck> {
    let longest = Duration::from_secs(1);
    let segments = |value: &Value<'_>| Ok(AckRule::Segments(value.whole32(1..=1000)?));
    Ok(DelayedAck {
        rule: section.or("ack-every", base.rule, segments)?,
        timeout: section.or("delayed-ack", base.timeout, |value| value.duration(Duration::ZERO..=longest))?,
        quick_acks: section.or("quick-acks", base.quick_acks, |value| value.whole32(0..=10_000))?,
        on_read: section.or("ack-on-read", base.on_read, Value::truth)?,
        adaptive: section.or("adaptive-ack", base.adaptive, Value::truth)?,
    })
}

fn memory(value: &Value<'_>) -> Read<u32> {
    let size: ByteCount = value.parse()?;
    match u32::try_from(size.0) {
        Ok(bytes) if bytes == 0 || (256..=1 << 17).contains(&bytes) => Ok(bytes),
        _ => Err(value.fault(format!("{} bytes are impossible here: 0B, or 256B to 128KiB", size.0))),
    }
}

fn size(value: &Value<'_>) -> Read<usize> {
    let size: ByteCount = value.parse()?;
    match usize::try_from(size.0) {
        Ok(bytes) if (1024..=64 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(value.fault(format!("{} bytes are impossible here: 1kB (1024B) to 64MiB", size.0))),
    }
}

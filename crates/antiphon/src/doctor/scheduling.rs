//! What a media thread gets from the scheduler: its priority, and how late it wakes.

use std::time::Duration;

use antiphon_core::{DEFAULT_LATENCY, Input, Instant, Participant, PathId, Transmit, WireId};
use antiphon_measure::{Distribution, Histogram};
use antiphon_net::{
    DriveOptions, Lines, MEDIA_PRIORITY, OsClock, Scheduling, Stop, become_media_thread, drive,
    process_limits,
};

use super::Check;
use crate::run::spawn;

const PRIORITY: &str = "scheduling";
const WAKING: &str = "waking";

/// Measures both on a thread that is made like those of streams.
pub(super) fn check(clock: OsClock, stop: &Stop) -> Vec<Check> {
    let thread_stop = stop.clone();
    let measured = spawn("doctor", move || {
        let scheduling = become_media_thread();
        let mut ticker = Ticker::new(clock.now());
        drive(&mut Lines::new(), &mut ticker, &clock, &thread_stop, DriveOptions::default())
            .map(|_| (scheduling, Distribution::from(&ticker.late)))
    });
    let outcome = measured.map_err(|error| error.to_string()).and_then(|thread| {
        let ended = thread.join().map_err(|_| "its thread failed (panic)".to_string())?;
        ended.map_err(|error| error.to_string())
    });
    if stop.is_asked() {
        return Vec::new();
    }
    match outcome {
        Ok((scheduling, late)) => {
            vec![judge_priority(&scheduling, process_limits().realtime_priority), judge_waking(&late)]
        }
        Err(why) => {
            vec![Check::fault(PRIORITY, why, "close other programs, or raise the limits of this one")]
        }
    }
}

/// Judges what a media thread obtained. `limit`: the highest priority it may ask for; `None`: any.
pub(super) fn judge_priority(scheduling: &Scheduling, limit: Option<u64>) -> Check {
    let limited = limit.is_some_and(|limit| limit < MEDIA_PRIORITY as u64);
    let figures = [("priority_limit", limit.unwrap_or(MOST_PRIORITY) as f64)];
    let check = match scheduling {
        Scheduling::Fifo(_) | Scheduling::Multimedia(_) => {
            Check::ok(PRIORITY, format!("media threads are {scheduling}"))
        }
        Scheduling::Nice(_) | Scheduling::TimeCritical | Scheduling::Ordinary(_) => {
            let got = match scheduling {
                Scheduling::Nice(_) | Scheduling::TimeCritical => scheduling.to_string(),
                _ => "ordinary".into(),
            };
            let (limit, change) = match limit {
                Some(limit) if limited => (format!("the limit is {limit}"), RAISE_LIMIT),
                _ => ("though the limit allows it".into(), ALLOW_CONTAINER),
            };
            let found = format!(
                "media threads are {got}, not real-time: priority {MEDIA_PRIORITY} is refused ({limit}); other programs \
                 can hold them up"
            );
            Check::warning(PRIORITY, found, change)
        }
    };
    check.with(&figures)
}

/// Judges how late a thread woke that waited for each millisecond.
pub(super) fn judge_waking(late: &Distribution) -> Check {
    let (Some(p50), Some(p99), Some(max)) = (late.p50_ms, late.p99_ms, late.max_ms) else {
        return Check::not_checked(WAKING, "the thread never woke");
    };
    let found = format!("media threads wake {p50:.3} ms late (p99 {p99:.3} ms, at most {max:.3} ms)");
    let check = match p99 {
        p99 if p99 > DEFAULT_LATENCY.as_secs_f64() * 1e3 => Check::fault(
            WAKING,
            format!("{found}: later than the usual playout delay, so that sound breaks"),
            BUSY,
        ),
        p99 if p99 > LATE_MS => {
            Check::warning(WAKING, format!("{found}: each stream needs as much more playout delay"), BUSY)
        }
        _ => Check::ok(WAKING, found),
    };
    check.with(&[("late_p50_ms", p50), ("late_p99_ms", p99), ("late_max_ms", max)])
}

/// The highest real-time priority there is (sched(7)).
const MOST_PRIORITY: u64 = 99;
/// A packet of 64 sample frames at 48 kHz lasts 1.3 ms: a thread that wakes later than that sends two at once.
const LATE_MS: f64 = 1.3;
const RAISE_LIMIT: &str = "write the two lines '@audio - rtprio 80' and '@audio - memlock unlimited' into \
    /etc/security/limits.d/audio.conf, join that group with 'sudo usermod -aG audio $USER', and log in again; in a \
    systemd service set LimitRTPRIO=80";
const ALLOW_CONTAINER: &str = "in a container, start it with the capability SYS_NICE (--cap-add SYS_NICE); else let \
    the control group of this process run real-time threads (cpu.rt_runtime_us, or a kernel without RT_GROUP_SCHED)";
const BUSY: &str = "close what keeps the processors busy, allow real-time scheduling (see 'scheduling'), set the \
    governor to performance (see 'governor'), and on a virtual machine reserve processors for it";

/// A participant that wants to wake each millisecond, for a second.
struct Ticker {
    due: Instant,
    end: Instant,
    late: Histogram,
    stopped: bool,
}

impl Ticker {
    fn new(now: Instant) -> Self {
        Ticker { due: now + TICK, end: now + LENGTH, late: Histogram::new(), stopped: false }
    }
}

const TICK: Duration = Duration::from_millis(1);
const LENGTH: Duration = Duration::from_secs(1);

impl Participant for Ticker {
    fn handle_input(&mut self, _now: Instant, _wire: WireId, _input: Input<'_>) {}

    fn accept(&mut self, _now: Instant, _listener: WireId) -> Option<WireId> {
        None
    }

    fn advance(&mut self, now: Instant) {
        if now >= self.due {
            self.late.record(now.since(self.due));
            // Times that were missed are part of this lateness.
            while self.due <= now {
                self.due += TICK;
            }
        }
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        None
    }

    fn poll_transmit(&mut self, _now: Instant, _wire: WireId, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_close(&mut self) -> Option<WireId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.due)
    }

    fn knows(&self, _wire: WireId, _path: PathId) -> bool {
        false
    }

    fn takes(&self, _wire: WireId) -> bool {
        false
    }

    fn stop(&mut self, _now: Instant) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.stopped || self.due >= self.end
    }
}

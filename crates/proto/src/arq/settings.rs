//! The query keys of `arq://`.

use std::time::Duration;

use antiphon_core::uri::{Query, UriError};

use super::paper_loop::LoopSettings;
use super::{improved, published};
use crate::Key;
use crate::query::{bad, is_full, refuse, time, unknown};

/// Settings from a URI.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Settings {
    Published(published::Settings),
    Improved(improved::Settings),
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "mode",
        help: "improved (default) or as-published; a listener that names none takes its caller's: mode=as-published",
    },
    Key { name: "timeout", help: "as-published: time to the next repetition: timeout=20ms" },
    Key { name: "give-up", help: "as-published: age at which the last repetition goes out: give-up=60ms" },
    Key { name: "tick", help: "as-published: the report's sender loop with this longest wait: tick=1ms" },
    Key { name: "pace", help: "as-published, with tick: least time between new packets: pace=7.4ms" },
    Key { name: "turn", help: "as-published, with tick: what the work of a turn takes: turn=100us" },
    Key {
        name: "repetition",
        help: "as-published, with tick: what the work of a repetition takes beside that: repetition=1ms",
    },
    Key { name: "rto-floor", help: "improved: least retransmission time-out: rto-floor=10ms" },
    Key {
        name: "ack-delay",
        help: "improved: longest wait of an acknowledgement, at both ends alike: ack-delay=5ms",
    },
    Key {
        name: "congestion",
        help: "improved: window of packets on their way, none (default) or aimd: congestion=aimd",
    },
    Key {
        name: "reliability",
        help: "improved: how long a message is sent again: deadline (default) or full, at both ends: reliability=full",
    },
];

/// Reads the keys; refuses those of the other mode.
pub(super) fn read(query: &Query) -> Result<Settings, UriError> {
    match query.value("mode").unwrap_or("improved") {
        "as-published" => read_published(query).map(Settings::Published),
        "improved" => read_improved(query).map(Settings::Improved),
        other => Err(bad(query, "mode", unknown(other, &["improved", "as-published"]))),
    }
}

fn read_published(query: &Query) -> Result<published::Settings, UriError> {
    refuse(
        query,
        &["rto-floor", "ack-delay", "reliability"],
        "needs mode=improved: omit it or change the mode",
    )?;
    // `congestion` is also the name of a kernel TCP's control, so a URI may carry it for other transports.
    if query.value("congestion") == Some("aimd") {
        return Err(bad(query, "congestion", "needs mode=improved: use none or change the mode".into()));
    }
    let timeout = time(query, "timeout", SHORTEST, LONGEST)?.unwrap_or(TIMEOUT);
    let give_up = time(query, "give-up", Duration::ZERO, LONGEST)?.unwrap_or(GIVE_UP);
    let repetitions = (give_up.as_nanos() / timeout.as_nanos()) as u32;
    if repetitions > MAX_REPETITIONS {
        let why =
            format!("that is {repetitions} repetitions, more than {MAX_REPETITIONS}: use a longer timeout");
        return Err(bad(query, if query.value("give-up").is_some() { "give-up" } else { "timeout" }, why));
    }
    let tick = time(query, "tick", SHORTEST, LONGEST)?;
    let pace = time(query, "pace", Duration::ZERO, LONGEST)?;
    let turn = time(query, "turn", Duration::ZERO, LONGEST)?;
    let repetition = time(query, "repetition", Duration::ZERO, LONGEST)?;
    if tick.is_none() {
        refuse(query, &["pace", "turn", "repetition"], "belongs to the report's sender loop: add tick=1ms")?;
    }
    let paper_loop = tick.map(|tick| LoopSettings {
        tick,
        pace,
        turn: turn.unwrap_or(Duration::ZERO),
        repetition: repetition.unwrap_or(Duration::ZERO),
    });
    Ok(published::Settings { timeout, repetitions, paper_loop })
}

fn read_improved(query: &Query) -> Result<improved::Settings, UriError> {
    refuse(
        query,
        &["timeout", "give-up", "tick", "pace", "turn", "repetition"],
        "needs mode=as-published: omit it or change the mode",
    )?;
    let full = is_full(query)?;
    let window = match query.value("congestion") {
        None => full,
        Some("aimd") => true,
        Some("none") if full => {
            return Err(bad(query, "congestion", "reliability=full needs a window: use aimd".into()));
        }
        Some("none") => false,
        Some(_) => return Err(bad(query, "congestion", "use none or aimd".into())),
    };
    Ok(improved::Settings {
        rto_floor: time(query, "rto-floor", SHORTEST, LONGEST)?.unwrap_or(RTO_FLOOR),
        ack_delay: time(query, "ack-delay", Duration::ZERO, MAX_ACK_DELAY)?.unwrap_or(ACK_DELAY),
        window,
        full,
    })
}

/// `tur` and `maximum` of the listing (report, chapter 7).
const TIMEOUT: Duration = Duration::from_millis(20);
const GIVE_UP: Duration = Duration::from_millis(60);
/// A floor far under TCP's second, since playout budgets are under 200 ms: a block and a scheduler's slice.
const RTO_FLOOR: Duration = Duration::from_millis(10);
/// One acknowledgement for a block of 5 ms: waits less than the variation of usual paths.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// The age field reaches 655 ms; a longer wait would spoil the measured round trips.
const MAX_ACK_DELAY: Duration = Duration::from_millis(500);
/// A shorter time-out would be a busy loop.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_secs(60);
/// Bounds the cost of one message.
const MAX_REPETITIONS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        read(&text.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_are_the_reports_and_ours() {
        let published = published::Settings { timeout: TIMEOUT, repetitions: 3, paper_loop: None };
        assert_eq!(settings("mode=as-published"), Ok(Settings::Published(published)));
        let improved =
            improved::Settings { rto_floor: RTO_FLOOR, ack_delay: ACK_DELAY, window: false, full: false };
        assert_eq!(settings(""), Ok(Settings::Improved(improved)));
        let Ok(Settings::Published(whole)) = settings(
            "mode=as-published&timeout=25ms&give-up=60ms&tick=1ms&pace=7.4ms&turn=100us&repetition=3ms",
        ) else {
            panic!("refused");
        };
        assert_eq!((whole.timeout, whole.repetitions), (Duration::from_millis(25), 2));
        assert_eq!(whole.paper_loop.unwrap().pace, Some(Duration::from_micros(7400)));
        assert_eq!(whole.paper_loop.unwrap().repetition, Duration::from_millis(3));
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (text, remedy) in [
            ("mode=as-publshed", "did you mean 'as-published'"),
            ("timeout=20ms", "mode=as-published"),
            ("mode=as-published&ack-delay=1ms", "mode=improved"),
            ("mode=as-published&congestion=aimd", "mode=improved"),
            ("mode=as-published&pace=7.4ms", "tick=1ms"),
            ("mode=as-published&repetition=3ms", "tick=1ms"),
            ("mode=as-published&timeout=20", "20ms"),
            ("mode=as-published&timeout=0ms", "use 100µs to 60s"),
            ("mode=as-published&timeout=1ms", "more than 16"),
            ("congestion=cubic", "none or aimd"),
            ("reliability=ful", "did you mean 'full'"),
            ("reliability=full&congestion=none", "use aimd"),
            ("mode=as-published&reliability=full", "mode=improved"),
            ("ack-delay=1s", "500ms"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

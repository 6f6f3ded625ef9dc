//! The playout delay that a receiver is asked for: a time, or one that adapts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use antiphon_core::units::{format_duration, parse_duration};
use antiphon_core::{UnitError, did_you_mean, nearest};
use antiphon_media::playout::AdaptiveDelay;

/// A playout delay: `80ms`, or `auto` with `min=`, `max=` and `freeze=`, such as `auto,min=10ms,max=150ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// This long.
    Of(Duration),
    /// As long as the stream needs.
    Auto(AdaptiveDelay),
}

/// The text is no playout delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LatencyError {
    /// A time is not written as one.
    #[error(transparent)]
    Time(#[from] UnitError),
    /// A setting of `auto` is unknown.
    #[error("auto has min=TIME, max=TIME and freeze=TIME, and no '{word}'{}", did_you_mean(*.near))]
    Setting {
        /// What was written.
        word: String,
        /// The known name that it resembles.
        near: Option<&'static str>,
    },
    /// The longest delay is shorter than the shortest, or longer than a buffer holds.
    #[error("auto: use a max of 1ms to 5s that is not shorter than min ({})", format_duration(*.min))]
    Bounds {
        /// The shortest.
        min: Duration,
    },
}

impl Latency {
    /// The first one.
    pub fn start(self) -> Duration {
        match self {
            Latency::Of(delay) => delay,
            Latency::Auto(adapts) => adapts.start(),
        }
    }

    /// The longest that it may become.
    pub fn longest(self) -> Duration {
        match self {
            Latency::Of(delay) => delay,
            Latency::Auto(adapts) => adapts.max,
        }
    }
}

impl FromStr for Latency {
    type Err = LatencyError;

    fn from_str(text: &str) -> Result<Self, LatencyError> {
        let mut words = text.split(',').map(str::trim);
        if words.next() != Some("auto") {
            return Ok(Latency::Of(parse_duration(text)?));
        }
        let mut adapts = AdaptiveDelay::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name.trim() {
                "min" => adapts.min = parse_duration(value)?,
                "max" => adapts.max = parse_duration(value)?,
                "freeze" => adapts.freeze = Some(parse_duration(value)?),
                other => {
                    let word = other.chars().take(40).collect();
                    return Err(LatencyError::Setting { word, near: nearest(other, SETTINGS) });
                }
            }
        }
        if adapts.max < adapts.min || !(SHORTEST..=LONGEST).contains(&adapts.max) {
            return Err(LatencyError::Bounds { min: adapts.min });
        }
        Ok(Latency::Auto(adapts))
    }
}

impl fmt::Display for Latency {
    /// For people: `80ms`, or `adapts, 5ms to 200ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Of(delay) => f.write_str(&format_duration(*delay)),
            Latency::Auto(AdaptiveDelay { min, max, freeze }) => {
                write!(f, "adapts, {} to {}", format_duration(*min), format_duration(*max))?;
                match freeze {
                    Some(time) => write!(f, ", frozen after {}", format_duration(*time)),
                    None => Ok(()),
                }
            }
        }
    }
}

const SETTINGS: [&str; 3] = ["min", "max", "freeze"];
const SHORTEST: Duration = Duration::from_millis(1);
/// As long as a buffer holds at the usual rates.
const LONGEST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn times_and_auto_are_read() {
        let read = |text: &str| text.parse::<Latency>();
        assert_eq!(read("20ms"), Ok(Latency::Of(MS(20))));
        assert_eq!(read("auto"), Ok(Latency::Auto(AdaptiveDelay::default())));
        let all = AdaptiveDelay { min: MS(10), max: MS(150), freeze: Some(MS(30_000)) };
        assert_eq!(read("auto,min=10ms,max=150ms,freeze=30s"), Ok(Latency::Auto(all)));
        assert_eq!(Latency::Auto(all).to_string(), "adapts, 10ms to 150ms, frozen after 30s");
        assert_eq!((Latency::Auto(all).longest(), Latency::Of(MS(20)).longest()), (MS(150), MS(20)));
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let refused = |text: &str| text.parse::<Latency>().unwrap_err().to_string();
        assert!(refused("20").contains("20ms"));
        assert!(refused("auto,min=10").contains("10ms"));
        assert!(refused("auto,mim=10ms").contains("did you mean 'min'"));
        assert!(refused("auto,freeze").contains("20ms"));
        for text in ["auto,min=300ms", "auto,max=0ms,min=0ms", "auto,max=1h"] {
            assert!(refused(text).contains("not shorter than min"), "{text}");
        }
        assert!(refused("automatic").contains("automatic"));
    }
}

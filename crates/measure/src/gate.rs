//! Quality gates for scripts: `--require 'loss<0.1%,p99<25ms,late<=1%,lost<5'` against the figures of a run.

use std::fmt;
use std::str::FromStr;

use antiphon_core::{Ratio, UnitError, nearest, units};

use crate::figures::TransportFigures;
use crate::histogram::millis;

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    conditions: Vec<Condition>,
}

/// One condition: a figure, an operator, a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    figure: &'static Figure,
    operator: Operator,
    bound: f64,
}

/// How a figure is held against its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A figure that a gate can name.
struct Figure {
    name: &'static str,
    unit: Unit,
    read: fn(&TransportFigures) -> Option<f64>,
}

/// What a bound is written in. Times are held in milliseconds, shares in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Share,
    Time,
    Count,
}

/// A condition that did not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// Which.
    pub condition: Condition,
    /// What was measured, in milliseconds, percent or frames; `None` if nothing was.
    pub measured: Option<f64>,
}

/// Why a gate could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    /// Nothing in it.
    #[error("an empty requirement: write for example 'loss<0.1%,p99<25ms'")]
    Empty,
    /// Too long to be meant.
    #[error("a requirement of {len} bytes or more than {max} conditions is too long")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The most conditions.
        max: usize,
    },
    /// No operator.
    #[error("'{text}' compares nothing: write a name, one of < <= > >=, and a bound, such as p99<25ms")]
    NoOperator {
        /// What was read.
        text: String,
    },
    /// No figure of that name.
    #[error("no figure is called '{name}'{}; known: {known}", .nearest.map(|n| format!(", did you mean '{n}'?")).unwrap_or_default())]
    UnknownName {
        /// What was read.
        name: String,
        /// The likeliest meant.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// The bound is no quantity of the figure's kind.
    #[error("{name}: {source}{hint}")]
    BadQuantity {
        /// The figure.
        name: &'static str,
        /// What is wrong.
        source: UnitError,
        /// The name that takes what was written, if there is one.
        hint: &'static str,
    },
    /// The bound is no whole number of frames.
    #[error("{name}: '{text}' is not a number of frames: write a whole number, such as {name}<5")]
    BadCount {
        /// The figure.
        name: &'static str,
        /// What was read.
        text: String,
    },
}

impl Gate {
    /// The most conditions of a gate.
    pub const MAX_CONDITIONS: usize = 64;
    /// The longest text that is read, in bytes.
    pub const MAX_TEXT: usize = 4096;

    /// The conditions, in the order written.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The conditions that `figures` do not meet. A figure that was not measured meets none.
    pub fn check(&self, figures: &TransportFigures) -> Vec<Failure> {
        let failure = |condition: &Condition| {
            let measured = (condition.figure.read)(figures);
            let holds = measured.is_some_and(|value| condition.operator.holds(value, condition.bound));
            (!holds).then_some(Failure { condition: *condition, measured })
        };
        self.conditions.iter().filter_map(failure).collect()
    }

    /// Every name a gate understands, for help and manual.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        FIGURES.iter().map(|figure| figure.name)
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
        if text.len() > Self::MAX_TEXT || parts().count() > Self::MAX_CONDITIONS {
            return Err(GateError::TooLong { len: text.len(), max: Self::MAX_CONDITIONS });
        }
        let conditions = parts().map(Condition::parse).collect::<Result<Vec<_>, _>>()?;
        if conditions.is_empty() {
            return Err(GateError::Empty);
        }
        Ok(Gate { conditions })
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Condition, GateError> {
        let no_operator = || GateError::NoOperator { text: clip(text) };
        let at = text.find(['<', '>']).ok_or_else(no_operator)?;
        let (name, rest) = text.split_at(at);
        let (operator, bound) = Operator::split(rest).ok_or_else(no_operator)?;
        let name = name.trim();
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        let figure = figure.ok_or_else(|| GateError::UnknownName {
            name: clip(name),
            nearest: nearest(name, Gate::names())
                .and_then(|near| FIGURES.iter().find(|f| f.name == near).map(|f| f.name)),
            known: Gate::names().collect::<Vec<_>>().join(", "),
        })?;
        Ok(Condition { figure, operator, bound: figure.bound(bound.trim())? })
    }

    /// The name of its figure.
    pub fn name(&self) -> &'static str {
        self.figure.name
    }
}

impl Operator {
    fn split(text: &str) -> Option<(Operator, &str)> {
        let table = [
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let found = |(sign, operator)| text.strip_prefix(sign).map(|rest| (operator, rest));
        table.into_iter().find_map(found)
    }

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Operator::Less => value < bound,
            Operator::LessOrEqual => value <= bound,
            Operator::Greater => value > bound,
            Operator::GreaterOrEqual => value >= bound,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
        }
    }
}

impl Figure {
    fn bound(&self, text: &str) -> Result<f64, GateError> {
        let bad = |source| GateError::BadQuantity { name: self.name, source, hint: self.hint(text) };
        match self.unit {
            Unit::Share => text.parse::<Ratio>().map(percent).map_err(bad),
            Unit::Time => units::parse_duration(text).map(millis).map_err(bad),
            Unit::Count => text
                .parse::<u32>()
                .map(f64::from)
                .map_err(|_| GateError::BadCount { name: self.name, text: clip(text) }),
        }
    }

    /// A bare number for a share may have been meant as a count, which has a name of its own.
    fn hint(&self, text: &str) -> &'static str {
        match self.name {
            _ if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => "",
            "loss" => "; the number of frames is 'lost'",
            "late" => "; the number of frames is 'late_frames'",
            "expired" => "; the number of frames is 'expired_frames'",
            "concealed" => "; the number of frames is 'concealed_frames'",
            "duplicate" => "; the number of frames is 'duplicate_frames'",
            "reordered" => "; the number of frames is 'reordered_frames'",
            _ => "",
        }
    }
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Unit {
    fn suffix(self) -> &'static str {
        match self {
            Unit::Share => "%",
            Unit::Time => "ms",
            Unit::Count => "",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sign, unit) = (self.figure.name, self.operator.sign(), self.figure.unit.suffix());
        write!(f, "{name}{sign}{}{unit}", self.bound)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.condition.figure.unit;
        match self.measured {
            None => write!(f, "{}: not measured", self.condition),
            Some(value) if unit == Unit::Count => write!(f, "{}: measured {value}", self.condition),
            Some(value) => {
                // Three decimals, or as many as show that the bound was missed.
                let short = format!("{value:.3}");
                let shows = short.parse() != Ok(self.condition.bound);
                let value = if shows { short } else { value.to_string() };
                write!(f, "{}: measured {value}{}", self.condition, unit.suffix())
            }
        }
    }
}

/// A share in percent as it was written: 7 % over 100 times 100 is 7.000000000000001, and 7 % would be under it.
fn percent(share: Ratio) -> f64 {
    (share.percent() * 1e9).round() / 1e9
}

/// Error messages quote at most this much of what somebody else wrote.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

macro_rules! figures {
    ($($name:literal $unit:ident $read:expr;)*) => {
        &[$(Figure { name: $name, unit: Unit::$unit, read: $read }),*]
    };
}

/// Shares are of the frames sent, times of the round trip unless the name says otherwise.
static FIGURES: &[Figure] = figures! {
    "loss" Share |f| f.lost_percent;
    "late" Share |f| f.late_percent;
    "expired" Share |f| f.expired_percent;
    "refused" Share |f| f.refused_percent;
    "concealed" Share |f| f.concealed_percent;
    "duplicate" Share |f| f.duplicate_percent;
    "reordered" Share |f| f.reordered_percent;
    "mean" Time |f| f.rtt_ms.mean_ms;
    "p50" Time |f| f.rtt_ms.p50_ms;
    "p90" Time |f| f.rtt_ms.p90_ms;
    "p99" Time |f| f.rtt_ms.p99_ms;
    "p999" Time |f| f.rtt_ms.p999_ms;
    "max" Time |f| f.rtt_ms.max_ms;
    "min" Time |f| f.rtt_ms.min_ms;
    "one_way_p50" Time |f| f.one_way_ms?.p50_ms;
    "one_way_p99" Time |f| f.one_way_ms?.p99_ms;
    "one_way_max" Time |f| f.one_way_ms?.max_ms;
    "jitter" Time |f| f.jitter_mad_ms;
    "jitter_rfc3550" Time |f| f.jitter_rfc3550_ms;
    "rolling_deviation" Time |f| f.rolling_deviation_ms;
    "pdv" Time |f| f.pdv_ms;
    "gap_max" Time |f| f.gap_max_ms;
    "cpu" Time |f| f.cpu_ms_per_s;
    "lost" Count |f| Some(f.lost as f64);
    "received" Count |f| Some(f.frames_received as f64);
    "late_frames" Count |f| Some(f.late as f64);
    "expired_frames" Count |f| Some(f.expired as f64);
    "refused_frames" Count |f| Some(f.refused as f64);
    "concealed_frames" Count |f| Some(f.concealed as f64);
    "duplicate_frames" Count |f| Some(f.duplicate as f64);
    "reordered_frames" Count |f| Some(f.reordered as f64);
    "longest_loss_burst" Count |f| Some(f.longest_loss_burst as f64);
};

#[cfg(test)]
mod tests;

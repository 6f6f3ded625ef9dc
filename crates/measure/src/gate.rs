//! Quality gates for scripts: `--require 'loss<0.1%,p99<25ms,late<=1%,lost<5'` against the figures of a run.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use antiphon_core::{Ratio, UnitError, nearest, units};

use crate::figures::TransportFigures;
use crate::histogram::millis;
use crate::list::{FIGURES, FigureDef, Unit};

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    conditions: Vec<Condition>,
}

/// One condition: a figure, an operator, a bound in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    name: &'static str,
    figure: &'static FigureDef,
    operator: Operator,
    bound: f64,
}

/// How a figure is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    sign: &'static str,
    /// On which side of the bound the figure is.
    side: Ordering,
    or_equal: bool,
}

/// A longer sign comes before the shorter one that it begins with.
const OPERATORS: [Operator; 4] = [
    Operator { sign: "<=", side: Ordering::Less, or_equal: true },
    Operator { sign: ">=", side: Ordering::Greater, or_equal: true },
    Operator { sign: "<", side: Ordering::Less, or_equal: false },
    Operator { sign: ">", side: Ordering::Greater, or_equal: false },
];

/// A condition that did not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// The condition.
    pub condition: Condition,
    /// What was measured, in the figure's unit; `None` if nothing was.
    pub measured: Option<f64>,
}

/// Why a gate could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    /// The text is empty.
    #[error("an empty requirement: write for example 'loss<0.1%,p99<25ms'")]
    Empty,
    /// The text or the list is too long.
    #[error("a requirement of {len} bytes or more than {max} conditions is too long")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The most conditions.
        max: usize,
    },
    /// No operator.
    #[error("'{text}' is not a condition: write a name, one of < <= > >=, and a bound, such as p99<25ms")]
    NoOperator {
        /// What was read.
        text: String,
    },
    /// No figure of that name.
    #[error("unknown figure '{name}'{}; known: {known}", .nearest.map(|n| format!(", did you mean '{n}'?")).unwrap_or_default())]
    UnknownName {
        /// What was read.
        name: String,
        /// The most similar name.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// The bound is no quantity of the figure's kind.
    #[error("{name}: {source}{}", .hint.map(|n| format!("; the number of packets is '{n}'")).unwrap_or_default())]
    BadQuantity {
        /// The figure.
        name: &'static str,
        /// What is wrong.
        source: UnitError,
        /// The figure that takes such a value, if there is one.
        hint: Option<&'static str>,
    },
    /// The bound is no whole number of packets.
    #[error("{name}: '{text}' is not a number of packets: write a whole number, such as {name}<5")]
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

    /// Every name that a gate understands, for help and manual.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        FIGURES.iter().filter_map(|figure| figure.gate)
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
        let figure =
            FIGURES.iter().find_map(|figure| Some((figure.gate.filter(|gate| *gate == name)?, figure)));
        let (name, figure) = figure.ok_or_else(|| GateError::UnknownName {
            name: clip(name),
            nearest: nearest(name, Gate::names()),
            known: Gate::names().collect::<Vec<_>>().join(", "),
        })?;
        Ok(Condition { name, figure, operator, bound: read_bound(name, figure.unit, bound.trim())? })
    }
}

impl Operator {
    fn split(text: &str) -> Option<(Operator, &str)> {
        OPERATORS.into_iter().find_map(|operator| Some((operator, text.strip_prefix(operator.sign)?)))
    }

    fn holds(self, value: f64, bound: f64) -> bool {
        let order = value.partial_cmp(&bound);
        order.is_some_and(|order| order == self.side || self.or_equal && order.is_eq())
    }
}

fn read_bound(name: &'static str, unit: Unit, text: &str) -> Result<f64, GateError> {
    let bad = |source| GateError::BadQuantity { name, source, hint: hint(name, text) };
    match unit {
        Unit::Percent => text.parse::<Ratio>().map(percent).map_err(bad),
        Unit::Millis | Unit::MsPerS => units::parse_duration(text).map(millis).map_err(bad),
        _ => text.parse::<u32>().map(f64::from).map_err(|_| GateError::BadCount { name, text: clip(text) }),
    }
}

/// A bare number for a share may have been meant as a count, which has its own name.
fn hint(name: &str, text: &str) -> Option<&'static str> {
    let is_bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_count = |known: &&str| match name {
        "loss" => *known == "lost",
        _ => known.strip_suffix("_packets") == Some(name),
    };
    Gate::names().find(is_count).filter(|_| is_bare)
}

/// What follows a bound.
fn suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::Percent => "%",
        Unit::Millis | Unit::MsPerS => "ms",
        _ => "",
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}{}", self.name, self.operator.sign, self.bound, suffix(self.figure.unit))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = suffix(self.condition.figure.unit);
        match self.measured {
            None => write!(f, "{}: not measured", self.condition),
            Some(value) if unit.is_empty() => write!(f, "{}: measured {value}", self.condition),
            Some(value) => {
                // Three decimals, or as many as show that the bound was missed.
                let short = format!("{value:.3}");
                let shows = short.parse() != Ok(self.condition.bound);
                let value = if shows { short } else { value.to_string() };
                write!(f, "{}: measured {value}{unit}", self.condition)
            }
        }
    }
}

/// A share in percent as it was written: 7 % over 100 times 100 is 7.000000000000001, so that 7 % would be below it.
fn percent(share: Ratio) -> f64 {
    (share.percent() * 1e9).round() / 1e9
}

/// Error messages quote at most this much foreign input.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;

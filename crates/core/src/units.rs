//! Quantities that carry their unit, in the type and in the text: `20ms`, `64kbit/s`, `1.8%`, `55ppm`, `1500B`.
//!
//! A number without a unit is refused: a well-known tool broke when bytes were passed where milliseconds were meant.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number followed by a unit.
    #[error("'{text}' is not a quantity: write a number and a unit, such as {example}")]
    NotAQuantity {
        /// What was read.
        text: String,
        /// An example of the expected kind.
        example: &'static str,
    },
    /// A number without its unit.
    #[error("'{text}' has no unit: write {example}")]
    NoUnit {
        /// What was read.
        text: String,
        /// The same number with the one or two most usual units.
        example: String,
    },
    /// A unit of another kind, or an unknown one.
    #[error("'{unit}' in '{text}' is not a unit of {kind}: use one of {known}")]
    UnknownUnit {
        /// What was read.
        text: String,
        /// The part that was taken for a unit.
        unit: String,
        /// The expected kind.
        kind: &'static str,
        /// The known units.
        known: String,
    },
    /// Outside the accepted range.
    #[error("'{text}' is out of range: {range}")]
    OutOfRange {
        /// What was read.
        text: String,
        /// The accepted range.
        range: &'static str,
    },
}

/// One kind of quantity: its name, and its units with their factors to the base unit, the most usual first.
struct Kind {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
}

const TIME: Kind = Kind {
    name: "time",
    example: "20ms",
    units: &[("ms", 1e6), ("s", 1e9), ("us", 1e3), ("µs", 1e3), ("ns", 1.0), ("min", 60e9), ("h", 3600e9)],
};
const BIT_RATE: Kind = Kind {
    name: "bit rate",
    example: "20Mbit/s",
    units: &[("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0), ("Gbit/s", 1e9)],
};
const BYTES: Kind = Kind {
    name: "size",
    example: "64kB",
    units: &[("kB", 1e3), ("B", 1.0), ("MB", 1e6), ("GB", 1e9), ("KiB", 1024.0), ("MiB", 1_048_576.0)],
};
const RATIO: Kind = Kind { name: "share", example: "1.8%", units: &[("%", 1.0)] };
const DRIFT: Kind = Kind { name: "clock difference", example: "55ppm", units: &[("ppm", 1.0)] };
const FREQUENCY: Kind = Kind { name: "sampling rate", example: "48kHz", units: &[("kHz", 1e3), ("Hz", 1.0)] };

/// Reads a length of time: `20ms`, `1.5s`, `250us`, `2min`. Not negative; at most ten thousand hours.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let nanos = parse(text, &TIME)?;
    if !(0.0..=3.6e16).contains(&nanos) {
        return Err(UnitError::OutOfRange { text: text.into(), range: "0s to 10000h" });
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Writes a length of time in the form that [`parse_duration`] reads, in the unit that keeps it short.
pub fn format_duration(d: Duration) -> String {
    let nanos = d.as_nanos() as f64;
    let (worth, unit) = match nanos {
        n if n >= 1e9 => (1e9, "s"),
        n if n >= 1e6 => (1e6, "ms"),
        n if n >= 1e3 => (1e3, "us"),
        0.0 => (1e6, "ms"),
        _ => (1.0, "ns"),
    };
    format!("{}{unit}", nanos / worth)
}

/// Reads a sampling rate in Hz: `48kHz`, `44100Hz`.
pub fn parse_frequency(text: &str) -> Result<u32, UnitError> {
    let hertz = parse(text, &FREQUENCY)?;
    if !(1.0..=1e9).contains(&hertz) || (hertz - hertz.round()).abs() > 1e-6 {
        return Err(UnitError::OutOfRange { text: text.into(), range: "a whole number of Hz" });
    }
    Ok(hertz.round() as u32)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $kind:ident, $low:expr, $high:expr, $range:literal, $convert:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                let value = parse(text, &$kind)?;
                if !($low..=$high).contains(&value) {
                    return Err(UnitError::OutOfRange { text: text.into(), range: $range });
                }
                let convert: fn(f64) -> $inner = $convert;
                Ok($name(convert(value)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn($inner) -> String = $show;
                f.write_str(&show(self.0))
            }
        }
    };
}

quantity!(
    /// Bits per second.
    BitRate(u64), BIT_RATE, 0.0, 1e13, "0bit/s to 10000Gbit/s", |v| v.round() as u64,
    |v| scaled(v as f64, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")], "bit/s")
);
quantity!(
    /// A number of bytes.
    ByteCount(u64), BYTES, 0.0, 1e15, "0B to 1000000GB", |v| v.round() as u64,
    |v| scaled(v as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
);
quantity!(
    /// A share of a whole, 0.0 to 1.0, read and written in percent.
    Ratio(f64), RATIO, 0.0, 100.0, "0% to 100%", |v| v / 100.0,
    |v| format!("{}%", trim(v * 100.0))
);
quantity!(
    /// Parts per million, signed: how much faster one clock runs than another.
    Ppm(f64), DRIFT, -1e6, 1e6, "-1000000ppm to 1000000ppm", |v| v,
    |v| format!("{}ppm", trim(v))
);

impl BitRate {
    /// How long `bytes` take at this rate, rounded up to a nanosecond; `None` at rate zero.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        // 64-bit divisions are many times as fast, and suffice for packets.
        if let Some(bits) = bytes.checked_mul(8_000_000_000) {
            return (self.0 > 0).then(|| Duration::from_nanos(bits.div_ceil(self.0)));
        }
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0).max(1));
        (self.0 > 0).then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl Ratio {
    /// The share in percent.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

/// The number before the unit times the unit's factor.
fn parse(text: &str, kind: &Kind) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let not_a_quantity = || UnitError::NotAQuantity { text: clip(text), example: kind.example };
    let split = trimmed
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || *i == 0 && (*c == '-' || *c == '+')))
        .map_or(trimmed.len(), |(i, _)| i);
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| not_a_quantity())?;
    if !number.is_finite() {
        return Err(not_a_quantity());
    }
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(UnitError::NoUnit {
            text: clip(text),
            example: kind.units[..kind.units.len().min(2)]
                .iter()
                .map(|(unit, _)| format!("{}{unit}", clip(trimmed)))
                .collect::<Vec<_>>()
                .join(" or "),
        });
    }
    match kind.units.iter().find(|(name, _)| *name == unit) {
        Some((_, worth)) => Ok(number * worth),
        None => Err(UnitError::UnknownUnit {
            text: clip(text),
            unit: clip(unit),
            kind: kind.name,
            known: kind.units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Error messages quote at most this much foreign input.
fn clip(text: &str) -> String {
    const QUOTED: usize = 40;
    if text.chars().count() <= QUOTED {
        text.into()
    } else {
        text.chars().take(QUOTED).chain(['…']).collect()
    }
}

fn scaled(value: f64, steps: &[(f64, &str)], base: &str) -> String {
    let (worth, unit) = steps.iter().find(|(worth, _)| value >= *worth).copied().unwrap_or((1.0, base));
    format!("{}{unit}", trim(value / worth))
}

/// Up to three decimals, without trailing zeros.
fn trim(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_carry_units() {
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse_duration(" 250us ").unwrap(), Duration::from_micros(250));
        assert_eq!("64kbit/s".parse::<BitRate>().unwrap(), BitRate(64_000));
        assert!(("1.8%".parse::<Ratio>().unwrap().0 - 0.018).abs() < 1e-12);
        assert_eq!("-55ppm".parse::<Ppm>().unwrap(), Ppm(-55.0));
        assert_eq!("64KiB".parse::<ByteCount>().unwrap(), ByteCount(65_536));
        assert_eq!(parse_frequency("44.1kHz").unwrap(), 44_100);
    }

    #[test]
    fn bare_and_foreign_units_are_refused_with_the_remedy() {
        let bare = parse_duration("20").unwrap_err();
        assert_eq!(bare.to_string(), "'20' has no unit: write 20ms or 20s");
        let foreign = "20kB".parse::<BitRate>().unwrap_err().to_string();
        assert!(foreign.contains("'kB'") && foreign.contains("Mbit/s"), "{foreign}");
        for hostile in ["", "ms", "1e9ms", "..5s", "-3ms", "NaNms", "99999999999999999999h", "5 %%"] {
            assert!(parse_duration(hostile).is_err(), "{hostile}");
        }
        assert!("101%".parse::<Ratio>().is_err());
    }

    #[test]
    fn serialisation_time_is_whole() {
        // 1014 bytes at 100 Mbit/s: 81.12 µs (protocols/medusa §4).
        assert_eq!(BitRate(100_000_000).time_for(1014), Some(Duration::from_nanos(81_120)));
        assert_eq!(BitRate(0).time_for(1), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = parse_duration(&text);
            let _ = text.parse::<BitRate>();
            let _ = text.parse::<Ratio>();
            let _ = parse_frequency(&text);
        }

        #[test]
        fn durations_round_trip(nanos in 0u64..10_000_000_000_000) {
            let d = Duration::from_nanos(nanos);
            let back = parse_duration(&format_duration(d)).unwrap();
            let error = back.abs_diff(d);
            prop_assert!(error <= Duration::from_nanos(1), "{d:?} {back:?}");
        }
    }
}

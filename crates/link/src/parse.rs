//! Reads a link's specification from text. Every refusal says what would be valid.

use std::str::FromStr;
use std::time::Duration;

use antiphon_core::units::parse_duration;
use antiphon_core::{BitRate, ByteCount, Ratio, UnitError, did_you_mean, nearest};

use crate::presets::{PRESETS, preset};
use crate::spec::{
    DrdSpec, DuplexSpec, Jitter, KEYS, LinkSpec, LossModel, QueueLimit, RedSpec, ReorderSpec, Shape, Stall,
};

/// Why a specification was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A word without `=` that is not a preset, or not the first word.
    #[error("unknown link preset '{word}'{}; presets: {known}", did_you_mean(*.nearest))]
    UnknownPreset {
        /// The text.
        word: String,
        /// The most similar preset.
        nearest: Option<&'static str>,
        /// All presets.
        known: String,
    },
    /// A preset after something else.
    #[error("'{word}' must come first: keys after a preset change it")]
    PresetNotFirst {
        /// The preset.
        word: String,
    },
    /// A key that does not exist.
    #[error("unknown link key '{key}'{}; keys: {known}", did_you_mean(*.nearest))]
    UnknownKey {
        /// The text.
        key: String,
        /// The most similar key.
        nearest: Option<&'static str>,
        /// All keys.
        known: String,
    },
    /// A key given twice.
    #[error("'{key}' is given twice")]
    Repeated {
        /// The key.
        key: String,
    },
    /// A quantity that cannot be read.
    #[error("{key}: {why}")]
    Quantity {
        /// The key.
        key: &'static str,
        /// The error in its value.
        why: UnitError,
    },
    /// A value that can be read but is not possible.
    #[error("{key}={value}: {why}")]
    Impossible {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what would be valid.
        why: String,
    },
    /// One direction was expected, but the text describes two different ones.
    #[error("'{text}' differs by direction, but here one value applies to both")]
    TwoDirections {
        /// The text.
        text: String,
    },
    /// The specification is too long.
    #[error("a link specification of {len} bytes is too long: the limit is {max}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// The longest specification that is read, in bytes: every key twice, at length.
const MAX_SPEC: usize = 1024;

/// Error messages quote at most this many characters of foreign input.
const QUOTED: usize = 40;

/// A preset, keys, or a preset and keys that change it: `wifi-home,loss=5%,up.rate=2Mbit/s`.
impl FromStr for DuplexSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.len() > MAX_SPEC {
            return Err(SpecError::TooLong { len: text.len(), max: MAX_SPEC });
        }
        let mut spec = DuplexSpec::default();
        let mut seen: Vec<&str> = Vec::new();
        for (position, word) in text.split(',').map(str::trim).enumerate() {
            let Some((key, value)) = word.split_once('=') else {
                spec = preset_at(position, word)?.spec();
                continue;
            };
            let key = key.trim();
            if seen.contains(&key) {
                return Err(SpecError::Repeated { key: quote(key) });
            }
            seen.push(key);
            assign(&mut spec, key, value.trim())?;
        }
        spec.up.validate()?;
        spec.down.validate()?;
        Ok(spec)
    }
}

/// As [`DuplexSpec`], for links that are the same in both directions.
impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let both: DuplexSpec = text.parse()?;
        if both.up != both.down {
            return Err(SpecError::TwoDirections { text: quote(text) });
        }
        Ok(both.up)
    }
}

fn preset_at(position: usize, word: &str) -> Result<&'static crate::presets::Preset, SpecError> {
    match preset(word) {
        Some(preset) if position == 0 => Ok(preset),
        Some(_) => Err(SpecError::PresetNotFirst { word: quote(word) }),
        None => Err(SpecError::UnknownPreset {
            word: quote(word),
            nearest: nearest(word, PRESETS.iter().map(|preset| preset.name)),
            known: PRESETS.map(|preset| preset.name).join(", "),
        }),
    }
}

/// Sets one key in one direction (`up.`, `down.`) or both.
fn assign(spec: &mut DuplexSpec, key: &str, value: &str) -> Result<(), SpecError> {
    let (bare, up, down) = match key.split_once('.') {
        Some(("up", bare)) => (bare, true, false),
        Some(("down", bare)) => (bare, false, true),
        _ => (key, true, true),
    };
    let Some((known, ..)) = KEYS.iter().find(|(name, ..)| *name == bare) else {
        return Err(SpecError::UnknownKey {
            key: quote(key),
            nearest: nearest(bare, KEYS.iter().map(|(name, ..)| *name)),
            known: KEYS.map(|(name, ..)| name).join(", "),
        });
    };
    if up {
        set(&mut spec.up, known, value)?;
    }
    if down {
        set(&mut spec.down, known, value)?;
    }
    Ok(())
}

fn set(spec: &mut LinkSpec, key: &'static str, value: &str) -> Result<(), SpecError> {
    let unit = |why| SpecError::Quantity { key, why };
    let share = |value: &str| value.parse().map_err(unit);
    match key {
        "rate" => (spec.rate, spec.burst) = or_none(value, rate)?,
        "queue" => spec.queue = or_none(value, queue)?,
        "delay" => spec.delay = or_none(value, |value| parse_duration(value).map_err(unit))?,
        "jitter" => spec.jitter = or_none(value, jitter)?,
        "stall" => spec.stall = or_none(value, stall)?,
        "loss" => {
            let (model, before) = match value.strip_suffix(BEFORE_QUEUE) {
                Some(model) => (model, true),
                None => (value, false),
            };
            spec.loss = or_none(model, loss)?;
            spec.loss_before_queue = before && spec.loss != LossModel::None;
        }
        "reorder" => spec.reorder = or_none(value, reorder)?,
        "duplicate" => spec.duplicate = or_none(value, share)?,
        "corrupt" => spec.corrupt = or_none(value, share)?,
        other => unreachable!("'{other}' is in KEYS and not read here"),
    }
    Ok(())
}

/// What a value says; `none` is the default.
fn or_none<T: Default>(value: &str, read: impl Fn(&str) -> Result<T, SpecError>) -> Result<T, SpecError> {
    if value == "none" { Ok(T::default()) } else { read(value) }
}

/// `20Mbit/s`, or with the depth of a token bucket: `20Mbit/s/15kB`.
fn rate(value: &str) -> Result<(Option<BitRate>, Option<ByteCount>), SpecError> {
    let unit = |why| SpecError::Quantity { key: "rate", why };
    let (rate, depth) = match value.find("/s/") {
        Some(end) => (&value[..end + 2], Some(&value[end + 3..])),
        None => (value, None),
    };
    let rate = rate.parse().map_err(unit)?;
    Ok((Some(rate), depth.map(str::parse).transpose().map_err(unit)?))
}

fn queue(value: &str) -> Result<QueueLimit, SpecError> {
    let parts: Vec<&str> = value.split('/').map(str::trim).collect();
    match parts[..] {
        ["red", min, max, share] => return red(value, min, max, share, false),
        ["red", min, max, share, "gentle"] => return red(value, min, max, share, true),
        ["drd", min, max] => {
            let (min, max) = (level(value, min)?, level(value, max)?);
            return Ok(QueueLimit::Drd(DrdSpec { min, max }));
        }
        ["red" | "drd", ..] => return Err(impossible("queue", value, EARLY)),
        _ => {}
    }
    let number = value.strip_suffix("packets").or_else(|| value.strip_suffix("packet")).map(str::trim);
    match number.map(str::parse) {
        Some(Ok(packets)) => Ok(QueueLimit::Packets(packets)),
        Some(Err(_)) => Err(impossible("queue", value, "write a whole number of packets, such as 50packets")),
        None => {
            let bytes: Result<ByteCount, _> = value.parse();
            bytes.map(QueueLimit::Bytes).map_err(|why| SpecError::Quantity { key: "queue", why })
        }
    }
}

/// How RED and DRD are written.
const EARLY: &str = "write red/5/15/10%, red/5/15/10%/gentle or drd/10/50: thresholds in packets";

fn red(value: &str, min: &str, max: &str, share: &str, gentle: bool) -> Result<QueueLimit, SpecError> {
    let share = share.parse().map_err(|why| SpecError::Quantity { key: "queue", why })?;
    Ok(QueueLimit::Red(RedSpec { min: level(value, min)?, max: level(value, max)?, share, gentle }))
}

fn level(value: &str, number: &str) -> Result<u32, SpecError> {
    number.parse().map_err(|_| impossible("queue", value, EARLY))
}

fn jitter(value: &str) -> Result<Option<Jitter>, SpecError> {
    let (mean, shape) = value.split_once('/').unwrap_or((value, "uniform"));
    let mean = parse_duration(mean).map_err(|why| SpecError::Quantity { key: "jitter", why })?;
    let Some(shape) = Shape::ALL.into_iter().find(|known| known.name() == shape.trim()) else {
        let known = Shape::ALL.map(Shape::name);
        let hint = did_you_mean(nearest(shape, known));
        let why = format!("unknown distribution '{}'{hint}; use one of {}", quote(shape), known.join(", "));
        return Err(impossible("jitter", value, &why));
    };
    Ok((!mean.is_zero()).then_some(Jitter { mean, shape }))
}

fn stall(value: &str) -> Result<Option<Stall>, SpecError> {
    let unit = |why| SpecError::Quantity { key: "stall", why };
    let Some((length, every)) = value.split_once('/') else {
        return Err(impossible("stall", value, "write mean length and mean period, such as 40ms/4s"));
    };
    let stall =
        Stall { length: parse_duration(length).map_err(unit)?, every: parse_duration(every).map_err(unit)? };
    Ok((!stall.length.is_zero()).then_some(stall))
}

fn reorder(value: &str) -> Result<Option<ReorderSpec>, SpecError> {
    let unit = |why| SpecError::Quantity { key: "reorder", why };
    let Some((share, hold)) = value.split_once('/') else {
        return Err(impossible("reorder", value, "write share and delay, such as 1%/5ms"));
    };
    let share: Ratio = share.parse().map_err(unit)?;
    let hold = parse_duration(hold).map_err(unit)?;
    Ok((share.0 > 0.0).then_some(ReorderSpec { share, hold }))
}

/// `5%`, `5%/3` (bursts of 3 on average), or the four probabilities p/r/bad/good of the Gilbert-Elliott channel.
pub(crate) fn loss(value: &str) -> Result<LossModel, SpecError> {
    let ratio = |text: &str| -> Result<Ratio, SpecError> {
        text.parse().map_err(|why| SpecError::Quantity { key: "loss", why })
    };
    let parts: Vec<&str> = value.split('/').collect();
    match parts[..] {
        [share] => {
            let share = ratio(share)?;
            Ok(if share.0 == 0.0 { LossModel::None } else { LossModel::Independent(share) })
        }
        [share, burst] => bursts(value, ratio(share)?, burst.trim()),
        [good, fade, loss_bad, loss_good] if good.parse::<Ratio>().is_err() => {
            let time = |text: &str| {
                let time = parse_duration(text).map_err(|why| SpecError::Quantity { key: "loss", why })?;
                let possible = (LossModel::SHORTEST..=LossModel::LONGEST).contains(&time);
                possible.then_some(time).ok_or_else(|| impossible("loss", value, FADES))
            };
            Ok(LossModel::Fading {
                good: time(good)?,
                bad: time(fade)?,
                loss_bad: ratio(loss_bad)?,
                loss_good: ratio(loss_good)?,
            })
        }
        [p, r, bad, good] => Ok(LossModel::GilbertElliott {
            p: ratio(p)?,
            r: ratio(r)?,
            loss_bad: ratio(bad)?,
            loss_good: ratio(good)?,
        }),
        _ => Err(impossible(
            "loss",
            value,
            "write 5%, 5%/15ms (fades of 15 ms), 5%/3 (bursts of 3 packets), or p/r/bad/good, each in percent; and /before-queue behind it",
        )),
    }
}

/// Losses in fades of a mean time, or in bursts of a mean number of packets.
fn bursts(value: &str, share: Ratio, burst: &str) -> Result<LossModel, SpecError> {
    let refuse = |why: &str| Err(impossible("loss", value, why));
    if share.0 == 0.0 {
        return Ok(LossModel::None);
    }
    if share.0 >= 1.0 {
        return refuse("a link that loses everything has no bursts: write loss=100%");
    }
    if let Ok(packets) = burst.parse::<f64>() {
        let least = (share.0 / (1.0 - share.0)).max(1.0);
        return LossModel::bursts(share, packets)
            .map_or_else(|| refuse(&format!("at this loss bursts average at least {least:.2} packets")), Ok);
    }
    match parse_duration(burst) {
        Ok(fade) => LossModel::fades(share, fade).map_or_else(|| refuse(FADES), Ok),
        Err(_) => refuse(
            "after '/', write the mean length of a fade, such as 5%/15ms, or of a burst in packets, such as 5%/3",
        ),
    }
}

/// Where losses happen, written behind them.
pub(crate) const BEFORE_QUEUE: &str = "/before-queue";

const FADES: &str = "fades, and the times between them, last from 30 us to 1000000 s on average";

impl LinkSpec {
    /// Refuses impossible values; called when a text is read and when a [`Link`](crate::Link) is made.
    pub fn validate(&self) -> Result<(), SpecError> {
        let refuse = |key, why: &str| Err(impossible(key, &self.value(key).unwrap_or_default(), why));
        if self.rate.is_some_and(|rate| rate.0 < MIN_RATE) {
            return refuse("rate", "at least 1kbit/s, or rate=none for no limit");
        }
        match self.burst {
            Some(_) if self.rate.is_none() => {
                return Err(impossible("rate", "none", "a token bucket needs a rate, such as 20Mbit/s/15kB"));
            }
            Some(depth) if !(MIN_BURST..=1_000_000_000).contains(&depth.0) => {
                return refuse(
                    "rate",
                    "a token bucket is 1514B to 1GB deep: a longer packet would never pass",
                );
            }
            _ => {}
        }
        let most = crate::queue::MAX_PACKETS as u32;
        match self.queue {
            QueueLimit::Packets(0) if self.burst.is_some() => {}
            QueueLimit::Packets(n) if n == 0 || n > most => {
                return refuse(
                    "queue",
                    "1 to 32768 packets (none, for a policer: only with rate=20Mbit/s/15kB)",
                );
            }
            QueueLimit::Red(RedSpec { min, max, .. }) | QueueLimit::Drd(DrdSpec { min, max })
                if min == 0 || min >= max || max > most / 2 =>
            {
                return refuse(
                    "queue",
                    "the first level is at least 1 packet, the second above it, at most 16384",
                );
            }
            QueueLimit::Bytes(bytes) if !(64..=1_000_000_000).contains(&bytes.0) => {
                return refuse("queue", "64B to 1GB");
            }
            _ => {}
        }
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.mean);
        let hold = self.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
        for (key, time) in [("delay", self.delay), ("jitter", jitter), ("reorder", hold)] {
            if time > MAX_TIME {
                return refuse(key, "at most 60s");
            }
        }
        if self.stall.is_some_and(|stall| stall.every < MIN_PERIOD || stall.every > MAX_PERIOD) {
            return refuse("stall", "the period is 1ms to 1h");
        }
        if self.stall.is_some_and(|stall| stall.length >= stall.every) {
            return refuse("stall", "a stall is shorter than the period");
        }
        self.validate_shares()
    }

    /// Text can't give these values; programs that fill in the fields can.
    fn validate_shares(&self) -> Result<(), SpecError> {
        let reorder = self.reorder.map_or(Ratio(0.0), |reorder| reorder.share);
        let mut shares = vec![("reorder", reorder), ("duplicate", self.duplicate), ("corrupt", self.corrupt)];
        if let QueueLimit::Red(red) = self.queue {
            shares.push(("queue", red.share));
        }
        match self.loss {
            LossModel::None => {}
            LossModel::Independent(share) => shares.push(("loss", share)),
            LossModel::Fading { good, bad, loss_bad, loss_good } => {
                let possible = LossModel::SHORTEST..=LossModel::LONGEST;
                if ![good, bad].iter().all(|mean| possible.contains(mean)) {
                    return Err(impossible("loss", &self.value("loss").unwrap_or_default(), FADES));
                }
                shares.extend([("loss", loss_bad), ("loss", loss_good)]);
            }
            LossModel::GilbertElliott { p, r, loss_bad, loss_good } => {
                shares.extend([p, r, loss_bad, loss_good].map(|share| ("loss", share)));
                if p.0 + r.0 <= 0.0 {
                    return Err(impossible("loss", "", "with p = r = 0 the channel never changes its state"));
                }
            }
        }
        match shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(&share.0)) {
            Some((key, share)) => Err(impossible(key, &share.to_string(), "a share is 0% to 100%")),
            None => Ok(()),
        }
    }
}

/// Below this a packet takes over ten seconds, and a wrong unit is likelier than intent.
const MIN_RATE: u64 = 1_000;
/// A full Ethernet frame, as tools count it: header, 1500 bytes, no FCS.
const MIN_BURST: u64 = 1514;
/// More than a round trip to the moon (2.6 s).
const MAX_TIME: Duration = Duration::from_secs(60);
/// Shorter periods are jitter, and would cost computing time in proportion.
const MIN_PERIOD: Duration = Duration::from_millis(1);
const MAX_PERIOD: Duration = Duration::from_secs(3600);

fn impossible(key: &'static str, value: &str, why: &str) -> SpecError {
    SpecError::Impossible { key, value: quote(value), why: why.into() }
}

fn quote(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests;

//! The query keys of `srp://`.

use std::time::Duration;

use antiphon_core::uri::{Query, UriError};
use antiphon_core::{Ratio, units};

use super::decide::{Decide, EqualLossLatency, InTime, LatencyEstimate, Nearest, Never, OptimumQuality};
use super::estimate::KEEP;
use super::streams::Streams;
use crate::query::{bad, choose, is_full, refuse};

/// Protocol variant. Both sides need the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Exactly as in the report.
    AsPublished,
    /// With the improvements of the report's "future work".
    #[default]
    Improved,
}

/// The decision algorithms that have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// [`EqualLossLatency`].
    EqualLossLatency,
    /// [`OptimumQuality`].
    OptimumQuality,
    /// [`InTime`].
    Deadline,
    /// [`Nearest`].
    Nearest,
    /// [`Never`].
    Never,
}

impl Decision {
    /// All of them with their names in a URI.
    pub const ALL: [(&'static str, Decision); 5] = [
        ("deadline", Decision::Deadline),
        ("nearest", Decision::Nearest),
        ("ell", Decision::EqualLossLatency),
        ("oq", Decision::OptimumQuality),
        ("never", Decision::Never),
    ];

    /// Creates the algorithm.
    pub fn algorithm(self) -> Box<dyn Decide> {
        match self {
            Decision::EqualLossLatency => Box::new(EqualLossLatency(LatencyEstimate::Literal)),
            Decision::OptimumQuality => Box::new(OptimumQuality(LatencyEstimate::Literal)),
            Decision::Deadline => Box::new(InTime),
            Decision::Nearest => Box::new(Nearest),
            Decision::Never => Box::new(Never),
        }
    }
}

/// Settings of an SRP endpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Protocol variant.
    pub mode: Mode,
    /// Decision algorithm.
    pub decide: Decision,
    /// Tolerated loss, above 0 and below 1.
    pub desired_loss: f64,
    /// Tolerated latency, above 0. Improved: the playout delay, from the arrival of an undelayed message to its
    /// playout. As published: the age of a message when it is played.
    pub desired_latency: Duration,
    /// The peer's streams that are wanted; [`Streams::ALL`] as published.
    pub streams: Streams,
    /// Nothing is given up, whatever its deadline; only in the improved mode, with all streams.
    pub full: bool,
    /// As published: weights that the old averages of loss and of latency keep at a new message, which the report does not state.
    pub keep_loss: f64,
    /// See [`Self::keep_loss`].
    pub keep_latency: f64,
}

impl Settings {
    /// The defaults of a mode.
    pub fn new(mode: Mode, desired_latency: Duration) -> Self {
        let decide = match mode {
            Mode::AsPublished => Decision::OptimumQuality,
            Mode::Improved => Decision::Deadline,
        };
        // 10 %: the desired loss of all of the report's tests.
        Settings {
            mode,
            decide,
            desired_loss: 0.1,
            desired_latency,
            streams: Streams::ALL,
            full: false,
            keep_loss: KEEP,
            keep_latency: KEEP,
        }
    }

    /// Reads `mode`, `decide`, `loss`, `streams`, `reliability` and `latency`; the argument `latency` is the default of the last.
    pub fn read(query: &Query, latency: Duration) -> Result<Self, UriError> {
        let modes = [("improved", Mode::Improved), ("as-published", Mode::AsPublished)];
        let mode = query.read("mode", |text| choose(text, &modes))?.unwrap_or_default();
        let latency = query.read("latency", units::parse_duration)?.unwrap_or(latency);
        let mut settings = Settings::new(mode, latency);
        if let Some(decide) = query.read("decide", |text| choose(text, &Decision::ALL))? {
            settings.decide = decide;
        }
        if let Some(loss) = query.read("loss", loss)? {
            settings.desired_loss = loss;
        }
        if let Some(streams) = query.read("streams", str::parse)? {
            settings.streams = streams;
        }
        if mode == Mode::AsPublished && settings.streams != Streams::ALL {
            return Err(bad(query, "streams", NEEDS_IMPROVED.into()));
        }
        settings.full = is_full(query)?;
        if mode == Mode::AsPublished {
            refuse(query, &["reliability"], NEEDS_IMPROVED)?;
        }
        for (key, weight) in
            [("keep-loss", &mut settings.keep_loss), ("keep-latency", &mut settings.keep_latency)]
        {
            if let Some(kept) = query.read(key, kept)? {
                *weight = kept;
                if mode != Mode::AsPublished {
                    refuse(query, &[key], "needs mode=as-published: omit it or change the mode")?;
                }
            }
        }
        if settings.full {
            let why = "with reliability=full everything is requested: omit one";
            refuse(query, &["decide", "loss", "streams"], why)?;
        }
        if latency.is_zero() {
            let why = "SRP weighs delays against the desired latency: write more than zero, such as 80ms";
            // The query need not name it.
            let (key, value) = ("latency".into(), "0ms".into());
            return Err(UriError::BadValue { key, value, why: why.into() });
        }
        Ok(settings)
    }
}

const NEEDS_IMPROVED: &str = "needs mode=improved: omit it or change the mode";

fn loss(text: &str) -> Result<f64, String> {
    let share = text.parse::<Ratio>().map_err(|why| why.to_string())?.0;
    if share > 0.0 && share < 1.0 {
        return Ok(share);
    }
    Err("SRP weighs losses against the desired share: write more than 0% and less than 100%, such as 10%"
        .into())
}

fn kept(text: &str) -> Result<f64, String> {
    let share = text.parse::<Ratio>().map_err(|why| why.to_string())?.0;
    if (0.0..1.0).contains(&share) {
        return Ok(share);
    }
    Err("an average keeps a share of what it was: write 0% to less than 100%, such as 98%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut query = Query::default();
        text.split('&')
            .filter_map(|pair| pair.split_once('='))
            .for_each(|(key, value)| query.set(key, value));
        Settings::read(&query, Duration::from_millis(80)).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_read_and_defaults_hold() {
        let plain = read("").unwrap();
        assert_eq!((plain.mode, plain.decide), (Mode::Improved, Decision::Deadline));
        assert_eq!(plain.desired_latency, Duration::from_millis(80));
        let full = read("mode=as-published&decide=ell&loss=5%&latency=250ms").unwrap();
        let (decide, latency) = (Decision::EqualLossLatency, Duration::from_millis(250));
        assert_eq!(full.mode, Mode::AsPublished);
        assert_eq!((full.decide, full.desired_loss, full.desired_latency), (decide, 0.05, latency));
        assert_eq!((full.keep_loss, full.keep_latency), (0.98, 0.98));
        let kept = read("mode=as-published&keep-loss=98.7%&keep-latency=85%").unwrap();
        assert_eq!((kept.keep_loss, kept.keep_latency), (0.987, 0.85));
        assert_eq!(read("mode=as-published").unwrap().decide, Decision::OptimumQuality);
        assert_eq!((plain.streams, read("streams=1.3").unwrap().streams), (Streams::ALL, Streams(0b1010)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("mode=published", "did you mean 'as-published'"),
            ("decide=neverr", "did you mean 'never'"),
            ("decide=x", "deadline or nearest or ell or oq or never"),
            ("loss=0%", "more than 0%"),
            ("loss=100%", "less than 100%"),
            ("loss=10", "write 10%"),
            ("latency=0ms", "more than zero"),
            ("latency=250", "write 250ms"),
            ("streams=0,2", "such as 0.2"),
            ("streams=16", "0 to 15"),
            ("mode=as-published&streams=1", "mode=improved"),
            ("mode=as-published&reliability=full", "mode=improved"),
            ("keep-loss=98%", "mode=as-published"),
            ("mode=as-published&keep-latency=100%", "less than 100%"),
            ("mode=as-published&keep-loss=0.98", "write 0.98%"),
            ("reliability=ful", "did you mean 'full'"),
            ("reliability=full&decide=never", "omit one"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
        // Also where the query does not name it.
        let error = Settings::read(&Query::default(), Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("latency=0ms: "), "{error}");
    }
}

//! Runs as lines of JSON, one a line as each ends, so that what was interrupted can go on.

use serde_json::{Map, Value, json};

use super::{Finished, MediumCounts};
use crate::figures::{FIGURES, StreamFigures};
use crate::scenario::{Point, Run};

/// The first line of a journal: what its runs belong to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Of the program.
    pub version: String,
    /// Which build of the program; two builds may differ in what they compute.
    pub build: String,
    /// The scenario's title.
    pub title: String,
    /// [`digest`] of the scenario's text.
    pub digest: String,
    /// The command that made the journal.
    pub command: String,
    /// Where its runs were done, and what of them is not the scenario's: `model`, `real, 60s`.
    pub ground: String,
}

/// Why a line is none of a journal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    /// Not JSON, or cut off.
    #[error("no line of JSON: {0}")]
    Json(String),
    /// JSON of another kind.
    #[error("'{0}' is missing or has another type")]
    Field(&'static str),
}

/// Of the journal's form: goes up when older programs would misread it.
const SCHEMA: u64 = 1;

/// A text in 16 hexadecimal digits (FNV-1a, 64 bits): tells one scenario from another, and withstands no forger.
pub fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

impl Header {
    /// As a line, without its end.
    pub fn to_line(&self) -> String {
        json!({
            "record": "experiment",
            "schema": SCHEMA,
            "version": self.version,
            "build": self.build,
            "title": self.title,
            "digest": self.digest,
            "command": self.command,
            "ground": self.ground,
        })
        .to_string()
    }

    /// From a line.
    pub fn parse(line: &str) -> Result<Header, JournalError> {
        let value = object(line, "experiment")?;
        let text = |key| value[key].as_str().map(String::from).ok_or(JournalError::Field(key));
        Ok(Header {
            version: text("version")?,
            build: text("build")?,
            title: text("title")?,
            digest: text("digest")?,
            command: text("command")?,
            // Journals of before there were any others are the model's.
            ground: value["ground"].as_str().unwrap_or("model").into(),
        })
    }
}

impl Finished {
    /// As a line, without its end. `replay` is the command that runs this run again.
    pub fn to_line(&self, replay: &str) -> String {
        let figures = |figures: &StreamFigures| {
            let measured = FIGURES.iter().zip(figures.values());
            let fields =
                measured.filter_map(|(figure, value)| Some((figure.name.into(), Value::from(value?))));
            Value::Object(fields.collect::<Map<String, Value>>())
        };
        let streams: Vec<Value> =
            self.streams.iter().map(|(name, stream)| json!([name, figures(stream)])).collect();
        let media: Vec<Value> =
            self.media.iter().map(|medium| json!([medium.name, medium.counters])).collect();
        json!({
            "record": "run",
            "schema": SCHEMA,
            "run": self.run.index,
            "point": self.run.point,
            "repetition": self.run.repetition,
            "seed": self.run.seed,
            "streams": streams,
            "media": media,
            "events": self.events,
            "replay": replay,
        })
        .to_string()
    }

    /// From a line.
    pub fn parse(line: &str) -> Result<Finished, JournalError> {
        let value = object(line, "run")?;
        let whole = |key| value[key].as_u64().ok_or(JournalError::Field(key));
        let small = |key| u32::try_from(whole(key)?).map_err(|_| JournalError::Field(key));
        let run = Run {
            index: small("run")?,
            point: point(&value["point"]).ok_or(JournalError::Field("point"))?,
            repetition: small("repetition")?,
            seed: whole("seed")?,
        };
        let streams = pairs(&value["streams"], stream).ok_or(JournalError::Field("streams"))?;
        let media = pairs(&value["media"], counters).ok_or(JournalError::Field("media"))?;
        let media = media.into_iter().map(|(name, counters)| MediumCounts { name, counters }).collect();
        Ok(Finished { run, streams, media, events: whole("events")? })
    }
}

fn object(line: &str, record: &'static str) -> Result<Value, JournalError> {
    let value: Value = serde_json::from_str(line).map_err(|error| JournalError::Json(error.to_string()))?;
    if value["record"] != record {
        return Err(JournalError::Field("record"));
    }
    if value["schema"].as_u64() != Some(SCHEMA) {
        return Err(JournalError::Field("schema"));
    }
    Ok(value)
}

/// A list of names with something each, in order.
fn pairs<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<(String, T)>> {
    let pair = |pair: &Value| match pair.as_array()?.as_slice() {
        [name, value] => Some((name.as_str()?.to_string(), read(value)?)),
        _ => None,
    };
    value.as_array()?.iter().map(pair).collect()
}

fn point(value: &Value) -> Option<Point> {
    pairs(value, |value| value.as_str().map(String::from))
}

fn counters(value: &Value) -> Option<Vec<(String, f64)>> {
    pairs(value, Value::as_f64)
}

/// Figures by name; an unknown name is of another program.
fn stream(value: &Value) -> Option<StreamFigures> {
    let fields = value.as_object()?;
    let known = fields.keys().all(|key| FIGURES.iter().any(|figure| figure.name == key));
    let values: Option<Vec<Option<f64>>> = FIGURES
        .iter()
        .map(|figure| match fields.get(figure.name) {
            None => Some(None),
            Some(value) => value.as_f64().map(Some),
        })
        .collect();
    values.filter(|_| known).map(|values| StreamFigures::from_values(&values))
}

#[cfg(test)]
mod tests {
    use super::super::tests::finished;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_comes_back() {
        let header = Header {
            version: "0.1.0".into(),
            build: "abc".into(),
            title: "A \"title\"\nand more".into(),
            digest: digest("text"),
            command: "antiphon lab run x.toml".into(),
            ground: "real, 60s".into(),
        };
        assert_eq!(Header::parse(&header.to_line()), Ok(header.clone()));
        let older = header.to_line().replace(",\"ground\":\"real, 60s\"", "");
        assert_eq!(Header::parse(&older).unwrap().ground, "model");
        assert!(Header::parse(&finished(0, 1.0).to_line("")).is_err());
    }

    #[test]
    fn digests_tell_texts_apart() {
        // FNV-1a's own test vectors: the empty text and "a".
        assert_eq!((&*digest(""), &*digest("a")), ("cbf29ce484222325", "af63dc4c8601ec8c"));
    }

    #[test]
    fn a_line_that_was_cut_off_is_none() {
        let line = finished(7, 1.5).to_line("antiphon lab run x --run 7");
        for length in 0..line.len() {
            assert!(Finished::parse(&line[..length]).is_err(), "{length}");
        }
        for (right, wrong) in [
            ("\"seed\":281474976710655", "\"seed\":-1"),
            ("\"run\":7", "\"run\":4294967296"),
            ("\"sent\":100", "\"snet\":100"),
            ("[\"sent\",7.0]", "[\"sent\"]"),
            ("\"schema\":1", "\"schema\":2"),
        ] {
            assert!(line.contains(right), "{right}: {line}");
            assert!(Finished::parse(&line.replacen(right, wrong, 1)).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_number_comes_back_bit_for_bit(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let kept = finished(3, value);
            let back = Finished::parse(&kept.to_line("")).unwrap();
            prop_assert_eq!(back.media[0].counters[1].1.to_bits(), value.to_bits());
            prop_assert_eq!(back, kept);
        }

        #[test]
        fn no_line_panics(line in ".{0,200}", value in "[\\[\\]{}\",:a-z0-9]{0,60}") {
            let _ = (Header::parse(&line), Finished::parse(&line));
            let whole = finished(1, 2.0).to_line("");
            let _ = Finished::parse(&whole.replacen("[[", &value, 1));
        }
    }
}

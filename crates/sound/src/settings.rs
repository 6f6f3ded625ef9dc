//! Meanings of the query keys of sources and sinks, and recognition of a text as a URI, a path or a dash.

use std::path::PathBuf;

use antiphon_core::units::parse_frequency;
use antiphon_core::uri::{Query, Uri, UriError};

use crate::OpenError;

/// What a user wrote, before its keys are read.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// `-` or `-?key=value`: standard input or output.
    Dash(Query),
    /// A path, with or without `file:`.
    Path(PathBuf, Query),
    /// Any other scheme, with the text after it.
    Other { scheme: String, name: String, query: Query },
}

/// Schemes of sound cards and sound servers that are not in this version, their names, and what to use instead.
pub(crate) const CARDS: [(&str, &str, &str); 1] =
    [("pipewire", "PipeWire", "use pulse: or jack:, which PipeWire serves as well")];

impl Target {
    /// `exists` returns whether a path exists: an existing file called `a?b.wav` or `take:1.wav` is that file.
    pub fn parse(text: &str, schemes: &[&str], exists: fn(&str) -> bool) -> Result<Target, OpenError> {
        if text.is_empty() {
            return Err(OpenError::refused("an empty name", "write a path, a URI, or - for a pipe"));
        }
        if let Some(query) = text.strip_prefix('-')
            && (query.is_empty() || query.starts_with('?'))
        {
            return Ok(Target::Dash(query.trim_start_matches('?').parse()?));
        }
        let scheme = scheme_of(text);
        let known =
            scheme.is_some_and(|s| schemes.contains(&s.as_str()) || CARDS.iter().any(|(c, ..)| *c == s));
        if !known && (exists(text) || scheme_of(text).is_none() && !text.contains('?')) {
            return Ok(Target::Path(text.into(), Query::default()));
        }
        if scheme_of(text).is_none() {
            let (path, query) = text.split_once('?').unwrap_or((text, ""));
            return Ok(Target::Path(path.into(), query.parse()?));
        }
        let uri: Uri = text.parse()?;
        if uri.scheme != "file" {
            return Ok(Target::Other { scheme: uri.scheme, name: uri.path, query: uri.query });
        }
        if !uri.host.is_empty() && uri.host != "localhost" {
            return Err(OpenError::refused(
                format!("file://{}{} is on another machine", uri.host, uri.path),
                "write file:PATH, or file:///PATH with three slashes",
            ));
        }
        if uri.path.is_empty() {
            return Err(OpenError::refused("file: without a path", "write for example file:take.wav"));
        }
        Ok(Target::Path(uri.path.into(), uri.query))
    }
}

/// The text before the first colon, if it can be a scheme: at least two letters, as a single one is a drive.
fn scheme_of(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once(':')?;
    let sound = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    sound.then(|| scheme.to_ascii_lowercase())
}

/// The error for an unknown scheme, or one not yet supported. `pipe`: how to reach a sound card in this version.
pub(crate) fn refuse_scheme(kind: &'static str, scheme: &str, known: &[&str], pipe: &str) -> OpenError {
    match CARDS.iter().find(|(card, ..)| *card == scheme) {
        Some((_, name, instead)) => OpenError::NotInThisVersion {
            what: format!("{scheme}: ({name})"),
            instead: format!("{instead}; a pipe is for example: {pipe}"),
        },
        None => OpenError::unknown(kind, scheme, known.iter().copied()),
    }
}

/// What a user writes to use the device of that name.
#[cfg_attr(
    not(any(unix, feature = "cpal")),
    allow(dead_code, reason = "for PulseAudio and the system's devices")
)]
pub(crate) fn uri_of(scheme: &str, device: &str) -> String {
    let uri = Uri {
        scheme: scheme.into(),
        has_authority: false,
        listen: false,
        host: String::new(),
        port: None,
        path: device.into(),
        query: Query::default(),
    };
    uri.to_string()
}

/// `yes` or `no`; the key alone means yes.
pub(crate) fn flag(query: &Query, key: &str) -> Result<bool, UriError> {
    let read = |text: &str| match text {
        "yes" | "" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no"),
    };
    Ok(query.read(key, read)?.unwrap_or(false))
}

/// `rate=48kHz`, in Hz.
pub(crate) fn rate(query: &Query) -> Result<Option<u32>, UriError> {
    query.read("rate", parse_frequency)
}

/// `channels=2`: a plain count, as it has no unit.
pub(crate) fn channels(query: &Query) -> Result<Option<u32>, UriError> {
    query.read("channels", |text| text.parse::<u32>().map_err(|_| "write a number of channels from 1 to 64"))
}

/// `level=-20dB`: at or below full scale.
pub(crate) fn level(query: &Query, highest: f64) -> Result<Option<f64>, UriError> {
    query.read("level", |text| {
        let number = text.strip_suffix("dBFS").or_else(|| text.strip_suffix("dB"));
        let Some(number) = number else {
            return Err(format!("a level has a unit: write {text}dB"));
        };
        match number.trim().parse::<f64>() {
            Ok(level) if (-144.0..=highest).contains(&level) => Ok(level),
            Ok(_) => Err(format!("a level lies between -144dB and {highest}dB (full scale is 0dB)")),
            Err(_) => Err("write a level such as -20dB".into()),
        }
    })
}

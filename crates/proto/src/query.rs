//! Helpers for reading URI queries, common to the transports.

use std::time::Duration;

use antiphon_core::units::parse_duration;
use antiphon_core::uri::{Query, UriError};
use antiphon_core::{did_you_mean, nearest};

/// A time from `low` to `high`; `None` if the query does not set it.
pub(crate) fn time(
    query: &Query,
    key: &str,
    low: Duration,
    high: Duration,
) -> Result<Option<Duration>, UriError> {
    let read = query.read(key, parse_duration)?;
    match read {
        Some(time) if time < low || time > high => {
            Err(bad(query, key, format!("out of range: use {low:?} to {high:?}")))
        }
        _ => Ok(read),
    }
}

/// The same query with another value of `key`.
pub(crate) fn with(query: &Query, key: &str, value: &str) -> Query {
    let mut query = query.clone();
    query.set(key, value);
    query
}

/// An error for the value of `key`; `why` says what to do.
pub(crate) fn bad(query: &Query, key: &str, why: String) -> UriError {
    UriError::BadValue { key: key.into(), value: query.value(key).unwrap_or_default().into(), why }
}

/// What to do about a value that is none of the `known`.
pub(crate) fn unknown(value: &str, known: &[&str]) -> String {
    format!("use {}{}", known.join(" or "), did_you_mean(nearest(value, known.iter().copied())))
}

/// Refuses the first of `keys` that is given.
pub(crate) fn refuse(query: &Query, keys: &[&str], why: &str) -> Result<(), UriError> {
    match keys.iter().find(|key| query.value(key).is_some()) {
        Some(key) => Err(bad(query, key, why.into())),
        None => Ok(()),
    }
}

/// The value of the name `text` among the `known`.
pub(crate) fn choose<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        unknown(text, &names)
    })
}

/// Whether nothing is given up: `reliability=full`, where SRP and ARQ take it.
pub(crate) fn is_full(query: &Query) -> Result<bool, UriError> {
    let read = |text: &str| choose(text, &[("deadline", false), ("full", true)]);
    Ok(query.read("reliability", read)?.unwrap_or(false))
}

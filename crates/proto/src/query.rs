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

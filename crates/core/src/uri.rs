//! `scheme://host:port/path?key=value` as similar tools write it.
//!
//! IPv6 is in brackets. An empty host listens, a host calls (as in SRT); `@host` listens on that address (as in RIST).
//! Sources and sinks are URIs too: `file:take.wav`, `tone:440Hz`, `-`.

use std::fmt;

/// A parsed URI. Nothing is resolved or looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// In lower case, without the colon.
    pub scheme: String,
    /// Whether `//` and an authority followed the scheme.
    pub has_authority: bool,
    /// `@` before the host: listen on that address.
    pub listen: bool,
    /// Host name or address, IPv6 without brackets; empty for "any".
    pub host: String,
    /// Port, if one was written.
    pub port: Option<u16>,
    /// What follows the authority (or the scheme, if there is none), percent-decoded.
    pub path: String,
    /// Keys and values in the order written, percent-decoded.
    pub query: Query,
}

/// Keys and values after the `?`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

/// Why a URI was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// No `scheme:` at the beginning.
    #[error("'{text}' has no scheme: write for example {example}")]
    NoScheme {
        /// What was read.
        text: String,
        /// An example of a valid URI.
        example: &'static str,
    },
    /// The port is not a number from 1 to 65535.
    #[error("'{port}' is not a port: use a number from 1 to 65535")]
    BadPort {
        /// The text in its place.
        port: String,
    },
    /// An IPv6 address whose bracket does not close, or an address without brackets, or an invalid host name.
    #[error(
        "'{text}' is not a host: write a name or an address; IPv6 addresses need brackets, such as [::1]:7710"
    )]
    BadHost {
        /// What was read.
        text: String,
    },
    /// `%` without two hexadecimal digits, or not UTF-8 once decoded.
    #[error("'{text}': '%' needs two hexadecimal digits: write %25 for a percent sign")]
    BadEscape {
        /// What was read.
        text: String,
    },
    /// An unknown key.
    #[error("unknown key '{key}'{}; known: {known}", crate::did_you_mean(.nearest.as_ref()))]
    UnknownKey {
        /// The key.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
        /// All known keys.
        known: String,
    },
    /// A key given twice.
    #[error("key '{key}' is given twice")]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// A value that cannot be read.
    #[error("{key}={value}: {why}")]
    BadValue {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong and what would be valid.
        why: String,
    },
    /// Longer than any sensible URI.
    #[error("a URI of {len} bytes is too long: the limit is {max}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// The longest URI that is read, in bytes.
pub const MAX_URI: usize = 4096;

impl std::str::FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        if text.len() > MAX_URI {
            return Err(UriError::TooLong { len: text.len(), max: MAX_URI });
        }
        let no_scheme = || UriError::NoScheme { text: text.into(), example: "rtp://192.0.2.7:7710" };
        let (scheme, rest) = text.split_once(':').ok_or_else(no_scheme)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if scheme.is_empty()
            || !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            || !scheme.chars().all(plain)
        {
            return Err(no_scheme());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Uri {
            scheme: scheme.to_ascii_lowercase(),
            has_authority: false,
            listen: false,
            host: String::new(),
            port: None,
            path: String::new(),
            query: query.parse()?,
        };
        match rest.strip_prefix("//") {
            None => uri.path = decode(rest)?,
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                uri.has_authority = true;
                uri.read_authority(&rest[..end])?;
                uri.path = decode(&rest[end..])?;
            }
        }
        Ok(uri)
    }
}

impl Uri {
    fn read_authority(&mut self, text: &str) -> Result<(), UriError> {
        let bad_host = || UriError::BadHost { text: text.into() };
        let rest = text.strip_prefix('@');
        self.listen = rest.is_some();
        let rest = rest.unwrap_or(text);
        let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
            let (host, after) = inner.split_once(']').ok_or_else(bad_host)?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or_else(bad_host)?)),
            }
        } else {
            match rest.split_once(':') {
                Some((_, port)) if port.contains(':') => return Err(bad_host()),
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        self.host = decode(host)?;
        // Percent-encoded or in brackets these would be accepted, and the URI written back would mean something else.
        if self.host.contains(|c: char| "/?#@[]\\".contains(c) || c.is_whitespace() || c.is_control()) {
            return Err(bad_host());
        }
        self.listen |= host.is_empty();
        if let Some(port) = port {
            let parsed =
                port.parse::<u16>().ok().filter(|p| *p != 0 && port.bytes().all(|b| b.is_ascii_digit()));
            self.port = Some(parsed.ok_or_else(|| UriError::BadPort { port: port.into() })?);
        }
        Ok(())
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        if self.has_authority {
            f.write_str(if self.listen && !self.host.is_empty() { "//@" } else { "//" })?;
            if self.host.contains(':') {
                write!(f, "[{}]", encode(&self.host))?
            } else {
                f.write_str(&encode(&self.host))?
            }
            if let Some(port) = self.port {
                write!(f, ":{port}")?;
            }
        }
        match self.path.strip_prefix("//") {
            // Without an authority, two slashes at the start would be read as one.
            Some(rest) if !self.has_authority => write!(f, "/%2F{}", encode(rest))?,
            _ => f.write_str(&encode(&self.path))?,
        }
        for (i, (key, value)) in self.query.pairs.iter().enumerate() {
            write!(f, "{}{}={}", if i == 0 { '?' } else { '&' }, encode(key), encode(value))?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Query {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let key = decode(key)?;
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(UriError::RepeatedKey { key });
            }
            pairs.push((key, decode(value)?));
        }
        Ok(Query { pairs })
    }
}

impl Query {
    /// The value of `key`, if it was given.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Reads the value of `key` with `read`; `None` if it was not given. The error names key and value.
    pub fn read<T, E: fmt::Display>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, UriError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        read(value).map(Some).map_err(|why| UriError::BadValue {
            key: key.into(),
            value: value.into(),
            why: why.to_string(),
        })
    }

    /// Refuses every key that is not in `known`, suggesting the most similar.
    pub fn only<'a>(&self, known: impl IntoIterator<Item = &'a str> + Clone) -> Result<(), UriError> {
        for (key, _) in &self.pairs {
            if !known.clone().into_iter().any(|k| k == key) {
                return Err(UriError::UnknownKey {
                    key: key.clone(),
                    nearest: crate::nearest(key, known.clone()).map(Into::into),
                    known: known.into_iter().collect::<Vec<_>>().join(", "),
                });
            }
        }
        Ok(())
    }

    /// Sets `key`, replacing its earlier value.
    pub fn set(&mut self, key: &str, value: &str) {
        self.pairs.retain(|(known, _)| known != key);
        self.pairs.push((key.into(), value.into()));
    }

    /// Keys and values in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Percent-decoding (RFC 3986 §2.1).
fn decode(text: &str) -> Result<String, UriError> {
    let bad = || UriError::BadEscape { text: text.into() };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Escapes characters that would end a path, a key or a value.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' | '?' | '&' | '#' | '=' | ' ' => out.push_str(&format!("%{:02X}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn call_listen_and_sources() {
        let call = uri("RTP://studio.example:7710?latency=80ms&loss=1.8%25");
        assert_eq!(
            (call.scheme.as_str(), call.host.as_str(), call.port, call.listen),
            ("rtp", "studio.example", Some(7710), false)
        );
        assert_eq!(call.query.value("latency"), Some("80ms"));
        assert_eq!(call.query.value("loss"), Some("1.8%"));
        assert!(uri("rtp://:7710").listen && uri("rtp://@239.1.1.1:7710").listen);
        assert_eq!(uri("tcp://[fe80::1%25eth0]:7").host, "fe80::1%eth0");
        assert_eq!(uri("file:take one.wav").path, "take one.wav");
        assert_eq!(uri("file:///srv/take.wav").path, "/srv/take.wav");
        assert_eq!(uri("tone:440Hz?seconds=1s").path, "440Hz");
    }

    #[test]
    fn refusals_name_the_remedy() {
        let error = |text: &str| text.parse::<Uri>().unwrap_err().to_string();
        assert!(error("studio").contains("rtp://"));
        assert!(error("rtp://h:0").contains("1 to 65535"));
        assert!(error("rtp://h:99999").contains("1 to 65535"));
        assert!(error("rtp://::1:7710").contains("[::1]"));
        assert!(error("rtp://h:1?a=%zz").contains("hexadecimal"));
        assert!(error("rtp://h:1?a=1&a=2").contains("twice"));
        let unknown = uri("rtp://h:1?latncy=5ms").query.only(["latency", "loss"]).unwrap_err().to_string();
        assert!(unknown.contains("did you mean 'latency'"), "{unknown}");
    }

    /// Found by fuzzing: an escaped character must not become a separator when the URI is written back.
    #[test]
    fn a_host_holds_no_separators_and_a_path_begins_no_host() {
        for text in
            ["rt6://[0ms%2f6h]:500?r=", "rtp://%40a:1", "rtp://a%20b:1", "rtp://[a%5D]:1", "rtp://a%00:1"]
        {
            assert!(matches!(text.parse::<Uri>(), Err(UriError::BadHost { .. })), "{text}");
        }
        let path = uri("file:%2F%2Fsrv/take.wav");
        assert_eq!((path.has_authority, path.path.as_str()), (false, "//srv/take.wav"));
        assert_eq!(uri(&path.to_string()), path);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_round_trips(text in "[a-z]{1,5}:(//)?[@a-z0-9:\\[\\]./?&=%]{0,40}|.{0,50}") {
            if let Ok(uri) = text.parse::<Uri>() {
                let again: Uri = uri.to_string().parse().unwrap();
                prop_assert_eq!(again, uri);
            }
        }
    }
}

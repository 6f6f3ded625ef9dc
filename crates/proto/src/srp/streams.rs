//! The set of a sender's streams that a receiver wants.

use std::fmt;
use std::str::FromStr;

/// A set of streams, 0 to 15: one bit each.
///
/// Written as numbers with dots between them, `0.2`, since commas separate transports on a command line; `all` for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streams(pub u16);

impl Streams {
    /// Every stream.
    pub const ALL: Streams = Streams(u16::MAX);

    /// Whether the set contains `stream`.
    pub fn contains(self, stream: u8) -> bool {
        stream <= LAST_STREAM && self.0 >> stream & 1 == 1
    }
}

impl Default for Streams {
    fn default() -> Self {
        Streams::ALL
    }
}

impl FromIterator<u8> for Streams {
    /// Ignores numbers above [`LAST_STREAM`].
    fn from_iter<I: IntoIterator<Item = u8>>(streams: I) -> Self {
        let bit = |stream| if stream <= LAST_STREAM { 1u16 << stream } else { 0 };
        Streams(streams.into_iter().fold(0, |set, stream| set | bit(stream)))
    }
}

impl FromStr for Streams {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Streams::ALL);
        }
        let one = |text: &str| text.parse::<u8>().ok().filter(|stream| *stream <= LAST_STREAM);
        let all = text.split('.').map(one).collect::<Option<Streams>>();
        all.ok_or_else(|| {
            format!("use numbers from 0 to {LAST_STREAM} with dots between them, such as 0.2, or all")
        })
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Streams::ALL {
            return f.write_str("all");
        }
        let names: Vec<String> =
            (0..=LAST_STREAM).filter(|s| self.contains(*s)).map(|s| s.to_string()).collect();
        f.write_str(&names.join("."))
    }
}

/// The highest number that a packet can carry.
pub const LAST_STREAM: u8 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        for (text, set) in [("all", Streams::ALL), ("0", Streams(1)), ("0.2.15", Streams(0x8005))] {
            assert_eq!(text.parse(), Ok(set));
            assert_eq!(set.to_string(), text);
        }
        for wrong in ["", "16", "1,2", "1.", "-1", "one"] {
            assert!(wrong.parse::<Streams>().is_err_and(|why| why.contains("such as 0.2")), "{wrong}");
        }
        let some: Streams = [3, 200, 3].into_iter().collect();
        assert!(some.contains(3) && !some.contains(2) && !some.contains(200));
    }
}

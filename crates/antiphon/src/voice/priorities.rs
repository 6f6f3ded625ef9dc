//! Which voice channels are how urgent.

use std::ops::RangeInclusive;
use std::str::FromStr;

use antiphon_media::voice::MOST_CHANNELS;

/// Priorities of channels, such as `1-8=0,9-=3`: channels are counted from 1, and 0 is the most urgent, which all others
/// have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VoicePriorities(Vec<(RangeInclusive<usize>, u8)>);

impl VoicePriorities {
    /// Whether all channels are as urgent as can be.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of the channel of this number, counted from 0.
    pub fn of(&self, number: usize) -> u8 {
        let found = self.0.iter().find(|(channels, _)| channels.contains(&(number + 1)));
        found.map_or(0, |(_, priority)| *priority)
    }
}

impl FromStr for VoicePriorities {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(one).collect::<Result<Vec<_>, _>>().map(VoicePriorities)
    }
}

fn one(text: &str) -> Result<(RangeInclusive<usize>, u8), String> {
    let wrong = || {
        format!(
            "'{text}': write channels and their priority, 0 (most urgent) to 255, such as 1-8=0,9-=3 or 5=1"
        )
    };
    let (channels, priority) = text.trim().split_once('=').ok_or_else(wrong)?;
    let number = |text: &str| match text.parse() {
        Ok(number) if (1..=MOST_CHANNELS).contains(&number) => Ok(number),
        _ => Err(wrong()),
    };
    let (first, last) = match channels.split_once('-') {
        Some((first, "")) => (number(first)?, MOST_CHANNELS),
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(channels)?, number(channels)?),
    };
    if first > last {
        return Err(wrong());
    }
    Ok((first..=last, priority.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read() {
        let priorities: VoicePriorities = "1-2=1,5=2,7-=3".parse().unwrap();
        let of: Vec<u8> = (0..8).map(|number| priorities.of(number)).collect();
        assert_eq!(of, [1, 1, 0, 0, 2, 0, 3, 3]);
        for wrong in ["", "1", "=1", "0=1", "3-2=1", "1-=256", "131073=1", "1--2=1", "a-b=c"] {
            assert!(wrong.parse::<VoicePriorities>().is_err(), "{wrong}");
        }
    }
}

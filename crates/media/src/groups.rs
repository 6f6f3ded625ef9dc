//! Channel groups: the channels of a stream, divided among RTP streams of their own on one clock.
//!
//! Each group is a run of neighbouring channels with its own SSRC, sequence numbers, playout and concealment, so that a
//! packet lost in one group does not affect the sound of others. An undivided stream is one group of all channels.

use std::fmt;
use std::ops::Range;

use crate::FormatError;

/// How channels are divided into groups; at most 64 of both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChannelGroups {
    /// Bit *c* is set where a group begins with channel *c*; bit 0 is always set, none beyond `channels`.
    starts: u64,
    channels: u8,
}

/// Why channels can't be divided that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupsError {
    /// No or too many channels.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The text has no numbers of channels.
    #[error(
        "'{text}' is not a list of channel groups: write how many channels each has, such as 2,2,4, or one number for all, such as 2"
    )]
    Syntax {
        /// The text.
        text: String,
    },
    /// The list is for another stream.
    #[error("groups of {text} are {sum} channels, but the stream has {channels}: the numbers must add up")]
    Sum {
        /// The text.
        text: String,
        /// Channels in the list.
        sum: usize,
        /// Channels of the stream.
        channels: usize,
    },
    /// Groups of one size don't fit the number of channels.
    #[error("{channels} channels can't be divided into groups of {each}: write a list, such as {}", remainder(*.channels, *.each))]
    Uneven {
        /// Channels of a group.
        each: usize,
        /// Channels of the stream.
        channels: usize,
    },
}

impl ChannelGroups {
    /// One group of all `channels`, limited to 1 to 64.
    pub fn whole(channels: usize) -> Self {
        ChannelGroups { starts: 1, channels: channels.clamp(1, MOST) as u8 }
    }

    /// Reads how many channels each group has, `2,2,4`, or one number for groups of equal size, `2`.
    pub fn parse(channels: usize, text: &str) -> Result<Self, GroupsError> {
        if !(1..=MOST).contains(&channels) {
            return Err(FormatError::Channels { channels: channels as u32 }.into());
        }
        let syntax = || GroupsError::Syntax { text: text.chars().take(60).collect() };
        let width = |word: &str| word.trim().parse().ok().filter(|w| (1..=MOST).contains(w));
        let mut widths: Vec<usize> = Vec::new();
        for word in text.split(',').take(MOST + 1) {
            widths.push(width(word).ok_or_else(syntax)?);
        }
        if let [each] = widths[..] {
            if !channels.is_multiple_of(each) {
                return Err(GroupsError::Uneven { each, channels });
            }
            widths = vec![each; channels / each];
        }
        let sum: usize = widths.iter().sum();
        if sum != channels {
            return Err(GroupsError::Sum { text: text.chars().take(60).collect(), sum, channels });
        }
        let mut starts = 0;
        widths.iter().fold(0, |first, width| {
            starts |= 1 << first;
            first + width
        });
        Ok(ChannelGroups { starts, channels: channels as u8 })
    }

    /// Decodes the bits that mark where groups begin; `None` if they are invalid, as an unknown source may send them.
    pub fn from_starts(channels: usize, starts: u64) -> Option<Self> {
        let fits = (1..=MOST).contains(&channels) && starts & 1 == 1 && (starts >> (channels - 1)) <= 1;
        fits.then_some(ChannelGroups { starts, channels: channels as u8 })
    }

    /// The bits of [`Self::from_starts`].
    pub fn starts(self) -> u64 {
        self.starts
    }

    /// Channels in all.
    pub fn channels(self) -> usize {
        usize::from(self.channels)
    }

    /// How many groups there are.
    pub fn count(self) -> usize {
        self.starts.count_ones() as usize
    }

    /// The channels of each group, counted from 0.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let (mut rest, channels) = (self.starts, self.channels());
        std::iter::from_fn(move || {
            let first = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(first..if rest == 0 { channels } else { rest.trailing_zeros() as usize })
        })
    }

    /// The channels of group `index`; `None` beyond the last.
    pub fn range(self, index: usize) -> Option<Range<usize>> {
        self.ranges().nth(index)
    }
}

impl fmt::Display for ChannelGroups {
    /// The list that [`ChannelGroups::parse`] reads: `2,2,4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            write!(f, "{}{}", if index > 0 { "," } else { "" }, range.len())?;
        }
        Ok(())
    }
}

/// A list that would fit: `3,3,1`.
fn remainder(channels: usize, each: usize) -> String {
    let each = each.min(channels.saturating_sub(1)).max(1);
    let starts = (0..channels.min(MOST)).step_by(each).fold(0, |starts, first| starts | 1 << first);
    ChannelGroups::from_starts(channels, starts).map_or_else(String::new, |groups| groups.to_string())
}

/// As many as a stream has channels (`StreamFormat`).
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(groups: ChannelGroups) -> Vec<Range<usize>> {
        groups.ranges().collect()
    }

    #[test]
    fn lists_and_single_numbers() {
        let parse = |channels, text| ChannelGroups::parse(channels, text).unwrap();
        assert_eq!(ranges(parse(8, "2, 2,4")), [0..2, 2..4, 4..8]);
        assert_eq!(parse(8, "2"), parse(8, "2,2,2,2"));
        assert_eq!(parse(8, "8"), ChannelGroups::whole(8));
        assert_eq!(parse(64, "1").count(), 64);
        assert_eq!(parse(64, "32").range(1), Some(32..64));
        assert_eq!(parse(64, "32").range(2), None);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let error = |channels, text: &str| ChannelGroups::parse(channels, text).unwrap_err().to_string();
        assert!(error(8, "2,2").contains("4 channels, but the stream has 8"));
        assert!(error(7, "3").contains("such as 3,3,1"));
        assert!(error(2, "3").contains("such as 1,1"));
        for wrong in ["", "0", "2,,2", "2,-1", "65", "a", "2;2"] {
            assert!(error(4, wrong).contains("such as 2,2,4"), "{wrong}");
        }
        let long = error(4, &"1,".repeat(80));
        assert!(long.contains("add up") && long.len() < 200, "{long}");
        assert!(error(0, "1").contains("1 to 64"));
    }

    proptest! {
        #[test]
        fn groups_cover_all_channels_once(channels in 1usize..=64, starts in any::<u64>()) {
            let Some(groups) = ChannelGroups::from_starts(channels, starts) else {
                prop_assert!(starts & 1 == 0 || (channels < 64 && starts >> channels != 0));
                return Ok(());
            };
            let all: Vec<usize> = groups.ranges().flatten().collect();
            prop_assert_eq!(all, (0..channels).collect::<Vec<_>>());
            prop_assert_eq!(groups.ranges().count(), groups.count());
            // A single number means groups of that size.
            if groups.count() > 1 {
                prop_assert_eq!(ChannelGroups::parse(channels, &groups.to_string()), Ok(groups));
            }
        }

        #[test]
        fn no_text_panics(channels in 0usize..100, text in "[0-9, -]{0,40}") {
            if let Err(error) = ChannelGroups::parse(channels, &text) {
                prop_assert!(error.to_string().len() < 300);
            }
        }
    }
}

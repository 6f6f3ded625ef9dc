//! Maps the channels of the stream to those of the sink, each with a gain.

use crate::FormatError;

/// A matrix of gains from input to output channels.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelMap {
    inputs: usize,
    /// One row of `inputs` gains per output.
    gains: Vec<f32>,
}

/// Why a map cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelMapError {
    /// No or too many channels.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The list names a channel that does not exist.
    #[error("there is no channel {channel}: the source has channels 1 to {inputs}")]
    NoSuchChannel {
        /// The channel as written, counted from 1.
        channel: usize,
        /// Number of channels of the source.
        inputs: usize,
    },
    /// The text is not a list.
    #[error(
        "'{text}' is not a list of channels: write numbers from 1 and '-' for silence, such as 2,1 or 1,-"
    )]
    Syntax {
        /// The text.
        text: String,
    },
    /// Gains that do not make a matrix of numbers.
    #[error("a map from {inputs} to {outputs} channels needs {} finite gains, not {given}", inputs * outputs)]
    Gains {
        /// Channels of the source.
        inputs: usize,
        /// Channels of the sink.
        outputs: usize,
        /// Usable gains given.
        given: usize,
    },
}

impl ChannelMap {
    /// The default map. One to two channels: both at full gain. Two to one: half of each, so that nothing clips and
    /// sound that both have keeps its level. Otherwise by number: outputs without an input are silent, inputs without
    /// an output dropped.
    pub fn standard(inputs: usize, outputs: usize) -> Result<Self, ChannelMapError> {
        match (inputs, outputs) {
            (1, 2) => Self::matrix(1, 2, &[1.0, 1.0]),
            (2, 1) => Self::matrix(2, 1, &[0.5, 0.5]),
            _ => {
                let picks: Vec<Option<usize>> = (0..outputs).map(|o| (o < inputs).then_some(o)).collect();
                Self::pick(inputs, &picks)
            }
        }
    }

    /// Each output takes one input, counted from 0, or silence.
    pub fn pick(inputs: usize, picks: &[Option<usize>]) -> Result<Self, ChannelMapError> {
        let mut gains = vec![0.0; inputs.min(64) * picks.len().min(64)];
        for (row, pick) in gains.chunks_mut(inputs.clamp(1, 64)).zip(picks) {
            if let Some(input) = *pick {
                *row.get_mut(input).ok_or(ChannelMapError::NoSuchChannel { channel: input + 1, inputs })? =
                    1.0;
            }
        }
        Self::matrix(inputs, picks.len(), &gains)
    }

    /// Any gains, a row of `inputs` for each output.
    pub fn matrix(inputs: usize, outputs: usize, gains: &[f32]) -> Result<Self, ChannelMapError> {
        for channels in [inputs, outputs] {
            if !(1..=64).contains(&channels) {
                return Err(FormatError::Channels { channels: channels as u32 }.into());
            }
        }
        let given = gains.iter().filter(|gain| gain.is_finite()).count();
        if given != inputs * outputs || gains.len() != given {
            return Err(ChannelMapError::Gains { inputs, outputs, given });
        }
        Ok(ChannelMap { inputs, gains: gains.to_vec() })
    }

    /// Reads a list such as `2,1` or `1,-,1`: an input for each output, counted from 1.
    pub fn parse(inputs: usize, text: &str) -> Result<Self, ChannelMapError> {
        let syntax = || ChannelMapError::Syntax { text: text.chars().take(60).collect() };
        let mut picks = Vec::new();
        for word in text.split(',').map(str::trim).take(65) {
            picks.push(match word {
                "-" => None,
                number => {
                    Some(number.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).ok_or_else(syntax)?)
                }
            });
        }
        Self::pick(inputs, &picks)
    }

    /// Channels of the source.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Channels of the sink.
    pub fn outputs(&self) -> usize {
        self.gains.len() / self.inputs
    }

    /// Whether everything passes as it is.
    pub fn is_identity(&self) -> bool {
        let outputs = self.outputs();
        outputs == self.inputs
            && (0..outputs)
                .all(|o| (0..outputs).all(|i| self.gains[o * outputs + i] == f32::from(u8::from(o == i))))
    }

    /// Maps as many whole sample frames as both buffers hold; returns how many.
    pub fn apply(&self, input: &[f32], out: &mut [f32]) -> usize {
        let frames = input.chunks_exact(self.inputs).zip(out.chunks_exact_mut(self.outputs()));
        frames
            .map(|(from, to)| {
                for (x, row) in to.iter_mut().zip(self.gains.chunks_exact(self.inputs)) {
                    // A gain of zero also blocks infinite samples.
                    *x = row
                        .iter()
                        .zip(from)
                        .filter(|(gain, _)| **gain != 0.0)
                        .map(|(gain, y)| gain * y)
                        .sum();
                }
            })
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapped(map: &ChannelMap, input: &[f32]) -> Vec<f32> {
        let mut out = vec![9.0; input.len() / map.inputs() * map.outputs()];
        assert_eq!(map.apply(input, &mut out), input.len() / map.inputs());
        out
    }

    #[test]
    fn the_usual_ways() {
        let map = |i, o| ChannelMap::standard(i, o).unwrap();
        assert_eq!(mapped(&map(1, 2), &[0.5, -0.25]), [0.5, 0.5, -0.25, -0.25]);
        assert_eq!(mapped(&map(2, 1), &[1.0, 1.0, 0.5, -0.5]), [1.0, 0.0]);
        assert_eq!(mapped(&map(2, 4), &[0.1, 0.2]), [0.1, 0.2, 0.0, 0.0]);
        assert_eq!(mapped(&map(4, 2), &[0.1, 0.2, 0.3, 0.4]), [0.1, 0.2]);
        assert!(map(3, 3).is_identity() && !map(2, 1).is_identity());
    }

    #[test]
    fn lists_and_refusals() {
        let swapped = ChannelMap::parse(2, "2, 1,-").unwrap();
        assert_eq!(mapped(&swapped, &[0.1, 0.2]), [0.2, 0.1, 0.0]);
        let error = |text: &str| ChannelMap::parse(2, text).unwrap_err().to_string();
        assert!(error("3").contains("1 to 2"));
        assert!(
            error("0").contains("numbers from 1")
                && error("").contains("2,1")
                && error("1,,2").contains("2,1")
        );
        assert!(error(&"1,".repeat(70)).contains("1 to 64"));
        assert!(ChannelMap::matrix(2, 1, &[0.5, f32::NAN]).is_err());
        assert!(ChannelMap::standard(0, 2).is_err() && ChannelMap::standard(2, 65).is_err());
    }

    proptest! {
        #[test]
        fn by_number_keeps_what_both_have(inputs in 1usize..=64, outputs in 1usize..=64) {
            prop_assume!(!matches!((inputs, outputs), (1, 2) | (2, 1)));
            let frame: Vec<f32> = (1..=inputs).map(|n| n as f32).collect();
            let out = mapped(&ChannelMap::standard(inputs, outputs).unwrap(), &frame);
            for (i, x) in out.iter().enumerate() {
                prop_assert_eq!(*x, if i < inputs { frame[i] } else { 0.0 });
            }
        }
    }
}

//! The format of a stream of sound: rate, channels, and how a sample is stored.

use std::fmt;

/// Sampling rate and channel count of a stream; both within the bounds that Antiphon carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamFormat {
    rate: u32,
    channels: u16,
}

/// Why a format is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The rate is outside 8 kHz to 192 kHz.
    #[error("a sampling rate of {rate} Hz is not supported: use 8kHz to 192kHz")]
    Rate {
        /// The requested value, in Hz.
        rate: u32,
    },
    /// Outside 1 to 64.
    #[error("{channels} channels are not supported: use 1 to 64")]
    Channels {
        /// The requested value.
        channels: u32,
    },
    /// Outside 16 to 4096 sample frames.
    #[error("a block of {frames} sample frames is not supported: use 16 to 4096")]
    Block {
        /// The requested value, in sample frames.
        frames: u32,
    },
    /// Opus at another rate than its own.
    #[error("Opus is sent at 48 kHz, not at {rate} Hz: omit the rate, and the source is converted")]
    OpusRate {
        /// The requested value, in Hz.
        rate: u32,
    },
    /// Opus with more channels than an RTP stream of it has.
    #[error(
        "a stream of Opus has one or two channels, not {channels}: divide them into groups of two (--groups 2)"
    )]
    OpusChannels {
        /// The requested value.
        channels: usize,
    },
    /// Not the name of a coding.
    #[error("unknown format '{name}'{}; known: l16, l24, f32, mulaw, alaw, opus", antiphon_core::did_you_mean(*.nearest))]
    UnknownCoding {
        /// The text.
        name: String,
        /// The most similar known name.
        nearest: Option<&'static str>,
    },
    /// Not the name of a sample format.
    #[error("unknown sample format '{name}'{}; known: l16, l24, f32, mulaw, alaw", antiphon_core::did_you_mean(*.nearest))]
    UnknownSample {
        /// The text.
        name: String,
        /// The most similar known name.
        nearest: Option<&'static str>,
    },
}

impl StreamFormat {
    /// `rate` in Hz (8 000 to 192 000), `channels` from 1 to 64.
    pub fn new(rate: u32, channels: u32) -> Result<Self, FormatError> {
        if !(8_000..=192_000).contains(&rate) {
            return Err(FormatError::Rate { rate });
        }
        if !(1..=64).contains(&channels) {
            return Err(FormatError::Channels { channels });
        }
        Ok(StreamFormat { rate, channels: channels as u16 })
    }

    /// The format of a part of the stream: the same rate, fewer channels.
    pub(crate) fn with_channels(self, channels: usize) -> Self {
        StreamFormat { channels: channels.clamp(1, usize::from(self.channels)) as u16, ..self }
    }

    /// Sample frames per second.
    pub fn rate(self) -> u32 {
        self.rate
    }

    /// Samples per sample frame.
    pub fn channels(self) -> usize {
        usize::from(self.channels)
    }
}

impl fmt::Display for StreamFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz, {} channel{}", self.rate, self.channels, if self.channels == 1 { "" } else { "s" })
    }
}

/// How one sample is stored on the wire and in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SampleFormat {
    /// 16-bit signed integer, network order on the wire (RFC 3551 §4.5.11).
    L16,
    /// 24-bit signed integer, network order on the wire (RFC 3190 §4).
    L24,
    /// IEEE 754 binary32, network order on the wire. No RFC names it; our own peers understand it.
    F32,
    /// G.711 mu-law, 8 bits (RFC 3551 §4.5.14).
    MuLaw,
    /// G.711 A-law, 8 bits (RFC 3551 §4.5.14).
    ALaw,
}

impl SampleFormat {
    /// All of them, in the order that help texts list them.
    pub const ALL: [SampleFormat; 5] =
        [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32, SampleFormat::MuLaw, SampleFormat::ALaw];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            SampleFormat::L16 => "l16",
            SampleFormat::L24 => "l24",
            SampleFormat::F32 => "f32",
            SampleFormat::MuLaw => "mulaw",
            SampleFormat::ALaw => "alaw",
        }
    }

    /// Bytes per sample.
    pub fn bytes(self) -> usize {
        match self {
            SampleFormat::L16 => 2,
            SampleFormat::L24 => 3,
            SampleFormat::F32 => 4,
            SampleFormat::MuLaw | SampleFormat::ALaw => 1,
        }
    }
}

impl std::str::FromStr for SampleFormat {
    type Err = FormatError;

    /// The name, or what other tools call it (`s16`, `pcmu`, `pcma`, `ulaw`, …).
    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text.to_ascii_lowercase().as_str() {
            "l16" | "s16" | "s16le" | "s16be" | "pcm16" => Ok(SampleFormat::L16),
            "l24" | "s24" | "s24le" | "s24be" | "pcm24" => Ok(SampleFormat::L24),
            "f32" | "f32le" | "f32be" | "float" => Ok(SampleFormat::F32),
            "mulaw" | "ulaw" | "mu-law" | "pcmu" => Ok(SampleFormat::MuLaw),
            "alaw" | "a-law" | "pcma" => Ok(SampleFormat::ALaw),
            other => Err(FormatError::UnknownSample {
                name: text.chars().take(40).collect(),
                nearest: antiphon_core::nearest(other, Self::ALL.map(Self::name)),
            }),
        }
    }
}

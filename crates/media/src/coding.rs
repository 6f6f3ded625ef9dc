//! How sound is carried in packets: sample by sample, or compressed.

use crate::{FormatError, SampleFormat, StreamFormat, opus};

/// How the payload of a packet holds its sound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Coding {
    /// Sample by sample.
    Pcm(SampleFormat),
    /// Opus (RFC 6716) as RFC 7587 has it: 48 kHz, one or two channels in an RTP stream.
    Opus,
}

impl Coding {
    /// All of them, in the order that help texts list them. The index is what packets tell in band, so new ones come last.
    pub const ALL: [Coding; 6] = [
        Coding::Pcm(SampleFormat::L16),
        Coding::Pcm(SampleFormat::L24),
        Coding::Pcm(SampleFormat::F32),
        Coding::Pcm(SampleFormat::MuLaw),
        Coding::Pcm(SampleFormat::ALaw),
        Coding::Opus,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Pcm(sample) => sample.name(),
            Coding::Opus => "opus",
        }
    }

    /// The sample format in which a file holds what was received: that of the packets, or 16 bits of decoded Opus.
    pub fn sample_format(self) -> SampleFormat {
        match self {
            Coding::Pcm(sample) => sample,
            Coding::Opus => SampleFormat::L16,
        }
    }

    /// Sample frames in a payload of so many channels; `None` if it is broken, or empty.
    pub fn frames(self, payload: &[u8], channels: usize) -> Option<usize> {
        match self {
            Coding::Pcm(sample) => {
                let frame = sample.bytes() * channels;
                (!payload.is_empty() && payload.len().is_multiple_of(frame)).then(|| payload.len() / frame)
            }
            Coding::Opus => opus::packet_frames(payload),
        }
    }

    /// Sample frames by which our encoder's packets lie before the sound that it was given last.
    pub fn look_ahead(self) -> usize {
        match self {
            Coding::Pcm(_) => 0,
            Coding::Opus => opus::LOOK_AHEAD,
        }
    }

    /// Refuses a format that this coding does not carry in one RTP stream.
    pub fn check(self, format: StreamFormat) -> Result<(), FormatError> {
        match self {
            Coding::Opus if format.rate() != opus::RATE => Err(FormatError::OpusRate { rate: format.rate() }),
            Coding::Opus if format.channels() > opus::MOST_CHANNELS => {
                Err(FormatError::OpusChannels { channels: format.channels() })
            }
            _ => Ok(()),
        }
    }
}

impl From<SampleFormat> for Coding {
    fn from(sample: SampleFormat) -> Self {
        Coding::Pcm(sample)
    }
}

impl std::str::FromStr for Coding {
    type Err = FormatError;

    /// The name, or what other tools call it.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        if text.eq_ignore_ascii_case("opus") {
            return Ok(Coding::Opus);
        }
        text.parse().map(Coding::Pcm).map_err(|_| FormatError::UnknownCoding {
            name: text.chars().take(40).collect(),
            nearest: antiphon_core::nearest(&text.to_ascii_lowercase(), Self::ALL.map(Self::name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_mistakes_named() {
        for coding in Coding::ALL {
            assert_eq!(coding.name().to_uppercase().parse(), Ok(coding));
        }
        assert_eq!("pcmu".parse(), Ok(Coding::Pcm(SampleFormat::MuLaw)));
        let error = "opsu".parse::<Coding>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'opus'") && error.contains("l24"), "{error}");
    }

    #[test]
    fn pcm_in_the_order_of_its_formats() {
        // The index is on the wire.
        let pcm: Vec<Coding> = SampleFormat::ALL.into_iter().map(Coding::Pcm).collect();
        assert_eq!(Coding::ALL[..5], pcm);
        assert_eq!(Coding::ALL[5], Coding::Opus);
    }

    #[test]
    fn a_payload_is_whole_sample_frames() {
        let l24 = Coding::Pcm(SampleFormat::L24);
        assert_eq!(
            (l24.frames(&[0; 12], 2), l24.frames(&[0; 13], 2), l24.frames(&[], 2)),
            (Some(2), None, None)
        );
        assert_eq!((Coding::Opus.frames(&[0xf8, 1, 2], 2), Coding::Opus.frames(&[], 1)), (Some(960), None));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |rate, channels| Coding::Opus.check(StreamFormat::new(rate, channels).unwrap());
        assert_eq!((refused(48_000, 1), refused(48_000, 2)), (Ok(()), Ok(())));
        assert!(refused(44_100, 2).unwrap_err().to_string().contains("48 kHz"));
        assert!(refused(48_000, 6).unwrap_err().to_string().contains("groups"));
    }
}

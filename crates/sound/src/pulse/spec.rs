//! `pulse:` as it is written.

use std::time::Duration;

use antiphon_core::units::parse_duration;
use antiphon_core::uri::Query;
use antiphon_media::StreamFormat;

use crate::{OpenError, settings};

/// A stream of a PulseAudio server as requested. Nothing is opened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PulseSpec {
    /// The server's sink or source; `None` for its default.
    pub device: Option<String>,
    /// `name=`, as the server shows the stream. Several may have the same.
    pub name: String,
    /// `channels=`; otherwise those of the server's source, and to a sink as many as the stream has.
    pub channels: Option<u32>,
    /// `buffer=`: how much sound waits in the server and its device.
    pub buffer: Duration,
}

impl PulseSpec {
    /// Reads `pulse:NAME?channels=2&buffer=20ms&name=antiphon`.
    pub(crate) fn read(device: &str, query: &Query) -> Result<Self, OpenError> {
        if query.value("rate").is_some() {
            return Err(OpenError::refused(
                "the device of the PulseAudio server sets the rate",
                "omit rate=; the stream is converted, and 'antiphon send --rate 44.1kHz' sets the rate on the wire",
            ));
        }
        query.only(["channels", "buffer", "name"])?;
        let channels = settings::channels(query)?;
        if let Some(channels) = channels {
            // Refused here and not when the server has told its rate.
            StreamFormat::new(48_000, channels)?;
            check_channels(channels)?;
        }
        let buffer = query.read("buffer", |text| match parse_duration(text) {
            Ok(buffer) if (SHORTEST_BUFFER..=LONGEST_BUFFER).contains(&buffer) => Ok(buffer),
            Ok(_) => Err("a buffer lies between 2ms and 500ms".to_string()),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(PulseSpec {
            device: (!device.is_empty()).then(|| check_text(device, "sink or source")).transpose()?,
            name: check_text(query.value("name").unwrap_or("antiphon"), "stream")?,
            channels,
            buffer: buffer.unwrap_or(USUAL_BUFFER),
        })
    }
}

/// Refuses more channels than the protocol has room for.
pub(super) fn check_channels(channels: u32) -> Result<(), OpenError> {
    if channels > MOST_CHANNELS {
        return Err(OpenError::refused(
            format!("PulseAudio has no streams of {channels} channels"),
            format!("use at most {MOST_CHANNELS} (channels={MOST_CHANNELS})"),
        ));
    }
    Ok(())
}

fn check_text(text: &str, whose: &str) -> Result<String, OpenError> {
    if text.is_empty() || text.len() > LONGEST_NAME || text.chars().any(char::is_control) {
        return Err(OpenError::refused(
            format!(
                "'{}' can't be the name of a {whose} of PulseAudio",
                text.chars().filter(|c| !c.is_control()).take(80).collect::<String>()
            ),
            format!("use 1 to {LONGEST_NAME} bytes without control characters"),
        ));
    }
    Ok(text.into())
}

/// `PA_CHANNELS_MAX`.
const MOST_CHANNELS: u32 = pulseaudio::protocol::sample_spec::MAX_CHANNELS as u32;
/// `PA_NAME_MAX` of the server is 128 with the terminating zero.
const LONGEST_NAME: usize = 127;
/// Four requests of 5 ms: what servers on an idle machine keep without underruns.
const USUAL_BUFFER: Duration = Duration::from_millis(20);
/// Four requests of half a millisecond: less than that are more messages than sound.
const SHORTEST_BUFFER: Duration = Duration::from_millis(2);
/// More is a recording.
const LONGEST_BUFFER: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(device: &str, query: &str) -> Result<PulseSpec, OpenError> {
        PulseSpec::read(device, &query.parse().unwrap())
    }

    #[test]
    fn settings_are_read() {
        let plain = PulseSpec { device: None, name: "antiphon".into(), channels: None, buffer: USUAL_BUFFER };
        assert_eq!(read("", "").unwrap(), plain);
        let other = PulseSpec {
            device: Some("hall.monitor".into()),
            name: "stage".into(),
            channels: Some(6),
            buffer: Duration::from_millis(50),
        };
        assert_eq!(read("hall.monitor", "channels=6&name=stage&buffer=50ms").unwrap(), other);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let refused = |device: &str, query: &str| read(device, query).unwrap_err().to_string();
        assert!(refused("", "rate=48kHz").contains("omit rate="));
        assert!(refused("", "channels=0").contains("use 1 to 64"));
        assert!(refused("", "channels=200").contains("use 1 to 64"));
        assert!(refused("", "channels=33").contains("at most 32"));
        assert!(refused("", "buffer=20").contains("unit"));
        assert!(refused("", "buffer=1ms").contains("between 2ms and 500ms"));
        assert!(refused("", "buffer=2s").contains("between 2ms and 500ms"));
        assert!(refused("", "name=").contains("1 to 127 bytes"));
        assert!(refused("a\nb", "").contains("without control characters"));
        assert!(refused(&"x".repeat(128), "").contains("1 to 127 bytes"));
    }
}

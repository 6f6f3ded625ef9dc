//! A device of the system as it is written.

use std::time::Duration;

use antiphon_core::units::parse_duration;
use antiphon_core::uri::Query;
use antiphon_media::StreamFormat;

use super::{NAME, SCHEME};
use crate::{OpenError, settings};

/// A stream of a sound card as requested. Nothing is opened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardSpec {
    /// The system's name of the device, such as `hw:CARD=PCH,DEV=0`; `None` for its default.
    pub device: Option<String>,
    /// `channels=`; otherwise those of the device to capture, and as many as the stream has to play.
    pub channels: Option<u32>,
    /// `buffer=`: how much sound waits in the device, half of which is a period.
    pub buffer: Duration,
}

impl Default for CardSpec {
    fn default() -> Self {
        CardSpec { device: None, channels: None, buffer: USUAL_BUFFER }
    }
}

impl CardSpec {
    /// Reads `alsa:NAME?channels=2&buffer=20ms`.
    pub(crate) fn read(device: &str, query: &Query) -> Result<Self, OpenError> {
        if query.value("rate").is_some() {
            return Err(OpenError::refused(
                format!("the device of {NAME} sets the rate"),
                "omit rate=; the stream is converted, and 'antiphon send --rate 44.1kHz' sets the rate on the wire",
            ));
        }
        query.only(["channels", "buffer"])?;
        let channels = settings::channels(query)?;
        if let Some(channels) = channels {
            StreamFormat::new(48_000, channels)?;
        }
        if device == "null" && SCHEME == "alsa" {
            return Err(no_clock(device));
        }
        if device.len() > LONGEST_NAME || device.chars().any(char::is_control) {
            return Err(OpenError::refused(
                format!(
                    "a name of a device of {NAME} has at most {LONGEST_NAME} bytes and no control characters"
                ),
                "antiphon devices lists them",
            ));
        }
        let buffer = query.read("buffer", |text| match parse_duration(text) {
            Ok(buffer) if (SHORTEST_BUFFER..=LONGEST_BUFFER).contains(&buffer) => Ok(buffer),
            Ok(_) => Err("a buffer lies between 2ms and 500ms".to_string()),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(CardSpec {
            device: (!device.is_empty()).then(|| device.to_string()),
            channels,
            buffer: buffer.unwrap_or(USUAL_BUFFER),
        })
    }

    /// As it is written.
    pub(super) fn uri(&self) -> String {
        // No name is the default device.
        settings::uri_of(SCHEME, self.device.as_deref().unwrap_or_default())
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &str {
        self.device.as_deref().unwrap_or("default")
    }
}

/// Why a device is of no use.
pub(super) fn no_clock(device: &str) -> OpenError {
    OpenError::refused(
        format!("'{device}' of {NAME} has no clock: it takes and gives sound as fast as a program likes"),
        "use null: to discard sound, tone: for a test signal, or another device (antiphon devices)",
    )
}

/// Two periods of 10 ms, which cards keep on a machine with other work.
const USUAL_BUFFER: Duration = Duration::from_millis(20);
/// Two periods of a millisecond: less than that are more calls than sound.
const SHORTEST_BUFFER: Duration = Duration::from_millis(2);
/// More is a recording.
const LONGEST_BUFFER: Duration = Duration::from_millis(500);
/// No system has longer ones.
const LONGEST_NAME: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(device: &str, query: &str) -> Result<CardSpec, OpenError> {
        CardSpec::read(device, &query.parse().unwrap())
    }

    #[test]
    fn settings_are_read() {
        assert_eq!(read("", "").unwrap(), CardSpec::default());
        let other = CardSpec {
            device: Some("hw:CARD=PCH,DEV=0".into()),
            channels: Some(6),
            buffer: Duration::from_millis(50),
        };
        assert_eq!(read("hw:CARD=PCH,DEV=0", "channels=6&buffer=50ms").unwrap(), other);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let refused = |device: &str, query: &str| read(device, query).unwrap_err().to_string();
        assert!(refused("", "rate=48kHz").contains("omit rate="));
        assert!(refused("", "channels=200").contains("use 1 to 64"));
        assert!(refused("", "buffer=20").contains("unit"));
        assert!(refused("", "buffer=2s").contains("between 2ms and 500ms"));
        assert!(refused("a\nb", "").contains("no control characters"));
        #[cfg(target_os = "linux")]
        assert!(refused("null", "").contains("has no clock"));
    }
}

//! Sources to capture from and sinks to play to, as data for `antiphon devices`.

use crate::clip::Clip;
use crate::settings::CARDS;
use crate::{card, jack, pulse};

/// A device or other target that can be captured from, played to, or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// A short name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// A source URI to start from, if it can be captured from.
    pub source: Option<String>,
    /// A sink URI to start from, if it can be played to.
    pub sink: Option<String>,
    /// Whether it can be used now; if not, `about` says what is missing, or names an alternative.
    pub available: bool,
    /// Whether it runs at its own pace, as a sound card does.
    pub clocked: bool,
    /// Its rate in Hz, if it has one of its own.
    pub rate: Option<u32>,
    /// How many channels it has, if it says so.
    pub channels: Option<u32>,
    /// Whether it is what its sound server uses for programs that name none.
    pub default: bool,
}

/// Everything that this version can capture from and play to, then what it does not support yet. Looks for a JACK server and for
/// a PulseAudio server.
pub fn devices() -> Vec<Device> {
    let mut list = vec![
        device(
            "file",
            "plays WAV, FLAC, Ogg Vorbis and MP3; records WAV in 16 or 24 bits, float, mu-law or A-law",
            Some("file:take.wav?start=5s&loop=yes"),
            Some("file:take.wav?format=l24&number=yes"),
        ),
        device(
            "pipe",
            "standard input and output: raw samples, or a sound file on standard input; live=yes or no (default: detected from its pace)",
            Some("-?format=s16le&rate=48kHz&channels=2"),
            Some("-?format=s16le"),
        ),
        device("tone", "a sine", Some("tone:440Hz?level=-20dB&channels=2&rate=48kHz&seconds=10s"), None),
        device("sweep", "a sine sweep", Some("tone:sweep?from=20Hz&to=20kHz&seconds=10s"), None),
        device(
            "click",
            "clicks at known times, to measure the delay from mouth to ear",
            Some("tone:click?every=500ms"),
            None,
        ),
        device("noise", "white noise", Some("tone:noise?level=-20dB&seed=1"), None),
        device("null", "discards the sound, for measurements", None, Some("null:")),
    ];
    list.extend(Clip::ALL.map(|clip| {
        let uri = format!("clip:{}", clip.name());
        device(&uri, clip.about(), Some(&uri), None)
    }));
    list.push(jack_server());
    list.extend(pulse::describe());
    list.extend(card::describe());
    list.extend(CARDS.map(|(scheme, name, instead)| Device {
        available: false,
        clocked: true,
        ..device(scheme, &format!("{name}: not in this version; {instead}"), None, None)
    }));
    list
}

/// One that is there, and has no clock of its own.
pub(crate) fn device(name: &str, about: &str, source: Option<&str>, sink: Option<&str>) -> Device {
    Device {
        name: name.into(),
        about: about.into(),
        source: source.map(Into::into),
        sink: sink.map(Into::into),
        available: true,
        clocked: false,
        rate: None,
        channels: None,
        default: false,
    }
}

/// The JACK server that runs, or why none can be used.
fn jack_server() -> Device {
    let (rate, about) = match jack::describe() {
        Ok((rate, server)) => {
            (Some(rate), format!("JACK: {server}; connect=no, or PORT,PORT, instead of physical ports"))
        }
        Err(error) => (None, format!("JACK: {error}")),
    };
    let (source, sink) = ("jack:?channels=2&name=antiphon", "jack:?connect=yes&name=antiphon");
    Device {
        available: rate.is_some(),
        clocked: true,
        rate,
        ..device("jack", &about, Some(source), Some(sink))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenError, SinkSpec, SourceSpec};

    #[test]
    fn every_example_is_understood() {
        for device in devices() {
            let usable = device.source.is_some() || device.sink.is_some();
            assert!(usable || !device.available, "{}", device.name);
            if let Some(uri) = &device.source {
                uri.parse::<SourceSpec>().unwrap();
            }
            if let Some(uri) = &device.sink {
                uri.parse::<SinkSpec>().unwrap();
            }
        }
    }

    #[test]
    fn what_is_not_there_is_said_to_be_not_there() {
        for device in devices().iter().filter(|device| !device.available && device.source.is_none()) {
            let uri = format!("{}:default", device.name);
            let not_yet = |error| matches!(error, OpenError::NotInThisVersion { .. });
            assert!(uri.parse::<SourceSpec>().is_err_and(not_yet), "{uri}");
            assert!(uri.parse::<SinkSpec>().is_err_and(not_yet), "{uri}");
        }
    }
}

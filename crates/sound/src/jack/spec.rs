//! `jack:` as it is written.

use std::time::Duration;

use antiphon_core::units::parse_duration;
use antiphon_core::uri::Query;
use antiphon_media::StreamFormat;

use crate::{OpenError, settings};

/// A JACK client as requested. Nothing is opened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JackSpec {
    /// `name=`, the client's name. The server adds a number if it is in use.
    pub name: String,
    /// `channels=`: how many ports; otherwise two of a source, and of a sink as many as the stream has.
    pub channels: Option<u32>,
    /// `connect=`, to which ports of others its own are connected.
    pub connect: Connect,
    /// `margin=`, of a sink: how long before a cycle its sound is handed over, whatever comes too late; otherwise as long as it needs.
    pub margin: Option<Duration>,
}

/// Which ports are connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Connect {
    /// Those of hardware, one after the other.
    Physical,
    /// None: the user, or a patch bay, connects them.
    Nothing,
    /// Those that have one of these names or, if none has, match it as a pattern (an extended regular expression).
    Named(Vec<String>),
}

impl JackSpec {
    /// Reads `jack:?channels=2&connect=yes&margin=1ms&name=antiphon`.
    pub(crate) fn read(name: &str, query: &Query) -> Result<Self, OpenError> {
        if !name.is_empty() {
            return Err(OpenError::refused(
                format!("jack:{name} names no server"),
                "write jack: and set JACK_DEFAULT_SERVER to use another server; jack:?connect=PORT names ports",
            ));
        }
        if query.value("rate").is_some() {
            return Err(OpenError::refused(
                "the JACK server sets its own rate",
                "omit rate=; the stream is converted, and 'antiphon send --rate 44.1kHz' sets the rate on the wire",
            ));
        }
        query.only(["channels", "connect", "margin", "name"])?;
        let channels = settings::channels(query)?;
        // Refused here and not when the server has told its rate.
        StreamFormat::new(48_000, channels.unwrap_or(1))?;
        let margin = query.read("margin", |text| match parse_duration(text) {
            Ok(margin) if (SHORTEST_MARGIN..=LONGEST_MARGIN).contains(&margin) => Ok(margin),
            Ok(_) => Err("a margin lies between 50us and 100ms".to_string()),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(JackSpec {
            margin,
            name: client_name(query.value("name").unwrap_or("antiphon"))?,
            channels,
            connect: match query.value("connect") {
                None | Some("yes" | "") => Connect::Physical,
                Some("no") => Connect::Nothing,
                Some(ports) => {
                    Connect::Named(ports.split(',').filter(|port| !port.is_empty()).map(Into::into).collect())
                }
            },
        })
    }
}

fn client_name(name: &str) -> Result<String, OpenError> {
    let usable = |c: char| !c.is_control() && c != ':' && c != '/';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(usable) {
        return Err(OpenError::refused(
            format!("'{}' can't be the name of a JACK client", name.chars().take(80).collect::<String>()),
            format!("use 1 to {LONGEST_NAME} bytes without ':' and '/'"),
        ));
    }
    Ok(name.into())
}

/// No thread is woken with less.
const SHORTEST_MARGIN: Duration = Duration::from_micros(50);
/// As long as a margin that adapts.
const LONGEST_MARGIN: Duration = Duration::from_millis(100);
/// JACK's own limit is 63 bytes, and a name in use gets three more (`-01`).
const LONGEST_NAME: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn read_query(text: &str) -> Result<JackSpec, OpenError> {
        JackSpec::read("", &text.parse().unwrap())
    }

    #[test]
    fn settings_are_read() {
        let plain =
            JackSpec { name: "antiphon".into(), channels: None, connect: Connect::Physical, margin: None };
        assert_eq!(read_query("").unwrap(), plain);
        assert_eq!(read_query("connect=yes").unwrap(), plain);
        let margin = Some(Duration::from_micros(400));
        let other = JackSpec { name: "hall".into(), channels: Some(6), connect: Connect::Nothing, margin };
        assert_eq!(read_query("channels=6&connect=no&name=hall&margin=400us").unwrap(), other);
        let named = Connect::Named(vec!["system:playback_3".into(), "reverb:in_.*".into()]);
        assert_eq!(read_query("connect=system:playback_3,reverb:in_.*").unwrap().connect, named);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let refused = |text: &str| read_query(text).unwrap_err().to_string();
        assert!(refused("rate=48kHz").contains("omit rate="));
        assert!(refused("name=a:b").contains("without ':'"));
        assert!(refused(&format!("name={}", "x".repeat(61))).contains("1 to 60 bytes"));
        assert!(refused("name=").contains("1 to 60 bytes"));
        assert!(refused("margin=0ms").contains("50us") && refused("margin=1s").contains("100ms"));
        assert!(refused("channels=two").contains("channels"));
        assert!(refused("channels=0").contains("1 to 64") && refused("channels=200").contains("1 to 64"));
        assert!(refused("chanels=2").contains("did you mean") || refused("chanels=2").contains("channels"));
        let server = JackSpec::read("studio", &Query::default()).unwrap_err().to_string();
        assert!(server.contains("JACK_DEFAULT_SERVER"), "{server}");
    }
}

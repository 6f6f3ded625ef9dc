//! Sinks and sources of a server.

use std::ffi::CStr;
use std::time::Duration;

use pulseaudio::protocol::{
    ChannelMap, Command, DEFAULT_SINK, DEFAULT_SOURCE, GetSinkInfo, GetSourceInfo, PulseError, SampleSpec,
    ServerInfo, SinkInfo, SinkInfoList, SourceInfo, SourceInfoList,
};

use super::connection::{Connection, Failure};
use super::text::{c_text, text};
use crate::device::Direction;
use crate::settings::uri_of;

/// A sink (`Direction::Out`) or a source (`Direction::In`).
#[derive(Clone, Debug)]
pub(super) struct PulseDevice {
    pub direction: Direction,
    pub name: String,
    /// What it is, in the server's words.
    pub about: String,
    pub rate: u32,
    pub channels: u32,
    pub map: ChannelMap,
}

impl PulseDevice {
    fn new(
        direction: Direction,
        name: &CStr,
        about: Option<&CStr>,
        sample: SampleSpec,
        map: ChannelMap,
    ) -> Self {
        let (name, about) = (text(name), about.map(text).unwrap_or_default());
        PulseDevice {
            direction,
            about: if about.is_empty() { name.clone() } else { about },
            name,
            rate: sample.sample_rate,
            channels: sample.channels.into(),
            map,
        }
    }

    fn sink(info: &SinkInfo) -> Self {
        let about = info.description.as_deref();
        Self::new(Direction::Out, &info.name, about, info.sample_spec, info.channel_map)
    }

    fn source(info: &SourceInfo) -> Self {
        let about = info.description.as_deref();
        Self::new(Direction::In, &info.name, about, info.sample_spec, info.channel_map)
    }

    /// What a user writes to use it.
    pub fn uri(&self) -> String {
        uri_of("pulse", &self.name)
    }

    /// The one called `name`, or the default one.
    pub fn look_up(
        connection: &mut Connection,
        direction: Direction,
        name: Option<&str>,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let found = match direction {
            Direction::Out => {
                let name = name.map_or(DEFAULT_SINK.into(), c_text);
                let command = Command::GetSinkInfo(GetSinkInfo { index: None, name: Some(name) });
                connection.ask::<SinkInfo>(&command, patience).map(|info| Self::sink(&info))
            }
            Direction::In => {
                let name = name.map_or(DEFAULT_SOURCE.into(), c_text);
                let command = Command::GetSourceInfo(GetSourceInfo { index: None, name: Some(name) });
                connection.ask::<SourceInfo>(&command, patience).map(|info| Self::source(&info))
            }
        };
        match found {
            Err(Failure::Refused(PulseError::NoEntity | PulseError::Invalid)) => {
                let known = Self::list(connection, direction, patience)?;
                let known = known.into_iter().map(|device| device.name).collect();
                Err(Failure::NoDevice(name.unwrap_or_default().into(), known))
            }
            other => other,
        }
    }

    /// All that there are.
    pub fn list(
        connection: &mut Connection,
        direction: Direction,
        patience: Duration,
    ) -> Result<Vec<Self>, Failure> {
        Ok(match direction {
            Direction::Out => {
                let list: SinkInfoList = connection.ask(&Command::GetSinkInfoList, patience)?;
                list.iter().map(Self::sink).collect()
            }
            Direction::In => {
                let list: SourceInfoList = connection.ask(&Command::GetSourceInfoList, patience)?;
                list.iter().map(Self::source).collect()
            }
        })
    }
}

/// A server with all that it has.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    /// Its name and version, in its words.
    pub server: String,
    pub default_sink: String,
    pub default_source: String,
    pub devices: Vec<PulseDevice>,
}

impl Listing {
    /// Asks the server of this user.
    pub fn ask(name: &str, patience: Duration) -> Result<Self, Failure> {
        let mut connection = Connection::open(name, patience)?;
        let info: ServerInfo = connection.ask(&Command::GetServerInfo, patience)?;
        let words = |part: &Option<std::ffi::CString>| part.as_deref().map(text).unwrap_or_default();
        let mut devices = PulseDevice::list(&mut connection, Direction::Out, patience)?;
        devices.extend(PulseDevice::list(&mut connection, Direction::In, patience)?);
        Ok(Listing {
            server: format!("{} {}", words(&info.server_name), words(&info.server_version)),
            default_sink: words(&info.default_sink_name),
            default_source: words(&info.default_source_name),
            devices,
        })
    }
}

//! The programmes of a sender beside its first one, before they are sent.

use std::time::Duration;

use antiphon_media::{Source, StreamFormat};
use antiphon_session::{SendTrack, converted, limited};
use antiphon_sound::{DeviceMeter, Notes, open_source};

use super::SendPlan;
use crate::programmes::ProgrammeSource;
use crate::{Error, SendOptions};

/// A programme beside the first.
pub(crate) struct Further {
    pub name: String,
    pub source: Box<dyn Source>,
    pub notes: Notes,
    pub device: Option<DeviceMeter>,
}

/// The track of a programme, and its name.
type NamedTrack = (String, SendTrack);

impl SendPlan {
    /// The tracks of the programmes beside the first, and the first one's name.
    pub fn take_programmes(
        &mut self,
        options: &SendOptions,
        max_packet: usize,
    ) -> Result<Option<(String, Vec<NamedTrack>)>, Error> {
        // A track says by the plan whether it keeps anything.
        let Some((first, others)) = &mut self.programmes else { return Ok(None) };
        let (first, others) = (first.clone(), std::mem::take(others));
        let track = |other: Further| {
            let config = self.track(options, max_packet, other.source.is_live());
            Ok((other.name, SendTrack::new(other.source, config)?))
        };
        Ok(Some((first, others.into_iter().map(track).collect::<Result<_, Error>>()?)))
    }

    /// The devices of programmes beside the first.
    pub fn other_devices(&self) -> Vec<DeviceMeter> {
        let others = self.programmes.iter().flat_map(|(_, others)| others);
        others.filter_map(|other| other.device.clone()).collect()
    }

    /// What the sources have to say.
    pub fn all_notes(&self) -> Vec<Notes> {
        let others = self.programmes.iter().flat_map(|(_, others)| others);
        [&self.notes].into_iter().chain(others.map(|other| &other.notes)).cloned().collect()
    }
}

/// The name of the first programme, and the others, in the format of the first.
pub(super) fn further_programmes(
    options: &SendOptions,
    format: StreamFormat,
) -> Result<Option<(String, Vec<Further>)>, Error> {
    let Some((first, others)) = options.programmes.split_first() else { return Ok(None) };
    let open = |one: &ProgrammeSource| {
        let opened = open_source(&one.source)
            .map_err(|error| Error::usage(format!("--programme {}: {error}", one.name)))?;
        let source = converted(opened.source, format, None)?;
        let source = match options.length {
            Some(length) => limited(source, frames_of(length, format)),
            None => source,
        };
        Ok(Further { name: one.name.clone(), source, notes: opened.notes, device: opened.device })
    };
    Ok(Some((first.name.clone(), others.iter().map(open).collect::<Result<_, Error>>()?)))
}

pub(super) fn frames_of(length: Duration, format: StreamFormat) -> u64 {
    (length.as_secs_f64() * f64::from(format.rate())).round() as u64
}

/// Refuses what goes with no programmes.
pub(super) fn check_programmes(options: &SendOptions, serves: bool) -> Result<(), Error> {
    if options.programmes.is_empty() {
        return Ok(());
    }
    if !serves {
        return Err(Error::usage(format!(
            "--programme is for receivers that call and choose, and '{}' is one that is called: write rtp://:PORT",
            options.target
        )));
    }
    let given = [
        (options.backup.is_some(), "--backup"),
        (options.sdp.is_some(), "--sdp"),
        (options.channel_map.is_some(), "--channel-map"),
    ];
    if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
        return Err(Error::usage(format!(
            "{option} is about one stream, and --programme makes several: omit one of them"
        )));
    }
    let names: Vec<&str> = options.programmes.iter().map(|one| one.name.as_str()).collect();
    antiphon_session::check_programmes(&names).map_err(|error| Error::usage(format!("--programme: {error}")))
}

//! What is decided of a call before anything is opened.

use antiphon_net::{OsClock, Target};
use antiphon_session::PlayoutDelay;
use antiphon_sound::{Device, devices};

use super::{TalkOptions, group};
use crate::auto::is_auto;
use crate::receive::ReceivePlan;
use crate::send::SendPlan;
use crate::transport::{StackPlan, StreamUri, with_scheme};
use crate::{DEFAULT_LATENCY, Error, Latency, ReceiveOptions, SendOptions};

/// Both directions of a call.
pub(super) struct TalkPlan {
    pub uri: StreamUri,
    pub stack: StackPlan,
    pub send: SendPlan,
    pub receive: ReceivePlan,
    /// With the source that is used.
    pub options: TalkOptions,
    /// It is a call over a group: the peer is all that are there.
    pub in_group: bool,
}

impl TalkPlan {
    pub fn new(options: &TalkOptions, clock: OsClock) -> Result<Self, Error> {
        let target = &with_scheme(&options.send.target);
        if is_auto(target) {
            return Err(Error::usage(
                "auto:// chooses a transport for one direction: name one for a call, such as rtp:// or srp://",
            ));
        }
        if options.send.video_over.is_some() || options.receive.video_over.is_some() {
            return Err(Error::usage(
                "the pictures of a call go over its own transport: omit --video-over, or use send and receive at each end",
            ));
        }
        if !options.send.video_tracks.is_empty() || !options.receive.video_tracks.is_empty() {
            return Err(Error::usage(
                "a call has one track of pictures each way: omit --video-track, or use send and receive at each end",
            ));
        }
        let uri = StreamUri::read(target, &options.receive.socket)?.without_role()?;
        let in_group = uri.address().ip().is_multicast();
        if options.receive.announce.is_some() && (in_group || matches!(uri.target, Target::Call(_))) {
            return Err(Error::usage(format!(
                "--announce tells others where a call is waited for, and '{target}' waits for none: write {}://:PORT",
                uri.transport.scheme
            )));
        }
        let uri = if in_group { group::of_group(uri, options)? } else { uri };
        let options = with_devices(options)?;
        let mut receive = ReceivePlan::over(uri.clone(), Vec::new(), &options.receive)?;
        // A file gets what a listener would hear, in its time: in a call nothing is waited for.
        let latency = *receive.latency.get_or_insert(Latency::Of(DEFAULT_LATENCY));
        let told = options.send.latency.unwrap_or(PlayoutDelay::Of(DEFAULT_LATENCY));
        let send = SendPlan::over(uri.clone(), Some(told), &options.send, clock)?;
        let framing = receive.stack.framing;
        let stack = uri.stack(options.send.seed, latency.longest(), framing);
        let stack = StackPlan { groups: send.groups.count(), ..stack };
        if in_group {
            group::check(&send, &options.send, (&receive.sink, framing))?;
        }
        Ok(TalkPlan { uri, stack, send, receive, options, in_group })
    }

    /// Whether this end calls the other.
    pub fn calls(&self) -> bool {
        matches!(self.uri.target, Target::Call(_))
    }

    /// Whether each party of a group has a player or a file of its own.
    pub fn has_films(&self) -> bool {
        self.in_group && self.receive.sink.film().is_some()
    }

    pub fn describe(&self) -> String {
        let place = format!("{}://{}", self.uri.transport.scheme, self.uri.address());
        let verb = match (self.in_group, self.calls()) {
            (true, _) => "talking with everybody in",
            (false, true) => "calling",
            (false, false) => "waiting for a call on",
        };
        let (source, sink) = (&self.options.send.source, &self.options.receive.sink);
        let latency = self.receive.latency.map_or_else(String::new, |latency| latency.to_string());
        format!(
            "{verb} {place}; sending {source} ({}, {}){}, playing to {sink}; playout delay {latency}",
            self.send.format,
            self.send.coded(),
            self.send.described_video(&self.options.send)
        )
    }
}

/// The same with the default device where no source or sink is named.
pub(super) fn with_devices(options: &TalkOptions) -> Result<TalkOptions, Error> {
    let TalkOptions { send, receive, .. } = options;
    let (no_source, no_sink) = (send.source.is_empty(), receive.sink.is_empty());
    let devices = if no_source || no_sink { devices() } else { Vec::new() };
    let named = |given: &str, uri: fn(&Device) -> Option<&String>, option: &str, instead: &str| {
        if !given.is_empty() {
            return Ok(given.to_string());
        }
        default_device(&devices, uri).ok_or_else(|| {
            Error::usage(format!(
                "no sound server runs here (PulseAudio, PipeWire or JACK), which a call uses unless told otherwise: start one, or \
                 name {instead} with {option} ('antiphon devices' lists what there is)"
            ))
        })
    };
    let source =
        named(&send.source, |one| one.source.as_ref(), "--source", "what to send, such as tone:440Hz,")?;
    let sink =
        named(&receive.sink, |one| one.sink.as_ref(), "--sink", "where to play, such as file:peer.wav,")?;
    Ok(TalkOptions {
        send: SendOptions { source, ..send.clone() },
        receive: ReceiveOptions { sink, ..receive.clone() },
        ..options.clone()
    })
}

/// The URI of the sound device that is used where none is named, in the direction of `uri`: JACK's if a server runs, otherwise
/// the default of a PulseAudio server.
fn default_device(devices: &[Device], uri: fn(&Device) -> Option<&String>) -> Option<String> {
    let both = |one: &Device| one.source.is_some() && one.sink.is_some();
    let usable = |one: &&Device| one.available && one.clocked && (both(one) || one.default);
    let uri = devices.iter().filter(usable).find_map(uri)?;
    // Without a name it goes on to be the server's default.
    Some(format!("{}:", uri.split(':').next().unwrap_or(uri)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, source: Option<&str>, sink: Option<&str>) -> Device {
        Device {
            name: name.into(),
            about: String::new(),
            source: source.map(Into::into),
            sink: sink.map(Into::into),
            available: true,
            clocked: true,
            rate: None,
            channels: None,
            default: false,
        }
    }

    #[test]
    fn a_call_uses_jack_or_the_defaults_of_pulseaudio() {
        let file = Device { clocked: false, ..device("file", Some("file:a.wav"), Some("file:b.wav")) };
        let jack = device("jack", Some("jack:?channels=2"), Some("jack:?connect=yes"));
        let gone = Device { available: false, ..jack.clone() };
        let other = device("pulse", Some("pulse:hall.monitor"), None);
        let microphone = Device { default: true, ..device("pulse", Some("pulse:mic"), None) };
        let speaker = Device { default: true, ..device("pulse", None, Some("pulse:speaker")) };
        let found = |devices: &[&Device]| {
            let devices: Vec<Device> = devices.iter().map(|one| (*one).clone()).collect();
            [
                default_device(&devices, |one| one.source.as_ref()),
                default_device(&devices, |one| one.sink.as_ref()),
            ]
        };
        let some = |uri: &str| Some(uri.to_string());
        assert_eq!(found(&[&file, &jack, &microphone, &speaker]), [some("jack:"), some("jack:")]);
        assert_eq!(found(&[&file, &gone, &other, &microphone, &speaker]), [some("pulse:"), some("pulse:")]);
        assert_eq!(found(&[&gone, &other, &speaker]), [None, some("pulse:")]);
        assert_eq!(found(&[&file]), [None, None]);
    }
}

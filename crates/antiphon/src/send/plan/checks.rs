//! Refuses options that do not go together, before anything is opened.

use std::time::Duration;

use antiphon_core::units::format_duration;
use antiphon_media::Source;
use antiphon_net::Target;
use antiphon_session::{PlayoutDelay, StreamFraming};

use crate::transport::StreamUri;
use crate::{Error, SendOptions};

/// An option that concerns one receiver, if one is given.
pub(super) fn for_one_receiver(options: &SendOptions) -> Option<&'static str> {
    let given = [
        (!options.also.is_empty(), "--also"),
        (!options.switch.is_empty(), "--switch"),
        (options.complete.is_some(), "--complete"),
        (options.passport.is_some(), "--passport"),
        (options.video_over.is_some(), "--video-over"),
        (options.data_over.is_some(), "--data-over"),
    ];
    given.iter().find(|(given, _)| *given).map(|(_, option)| *option)
}

/// Refuses what is for sound alone.
pub(super) fn check_video(
    has_video: bool,
    framing: StreamFraming,
    options: &SendOptions,
) -> Result<(), Error> {
    if has_video && framing != StreamFraming::Rtp {
        return Err(Error::usage("pictures are sent as RTP packets: omit --framing, or --video"));
    }
    if has_video && options.plain {
        return Err(Error::usage(
            "pictures are tied to the sound by a header extension, which --plain leaves out: omit one of them",
        ));
    }
    if has_video && !options.programmes.is_empty() {
        return Err(Error::usage(
            "a sender of several programmes sends sound alone: omit --video, or --programme",
        ));
    }
    if let (Some(over), false) = (&options.video_over, has_video) {
        return Err(Error::usage(format!("--video-over {over} is for pictures: name them with --video")));
    }
    if options.video_rate.is_some() && !has_video {
        return Err(Error::usage("--video-rate is for a raw stream of pictures: name it with --video"));
    }
    Ok(())
}

/// Refuses data where nobody could take them.
pub(super) fn check_data(
    uri: &StreamUri,
    framing: StreamFraming,
    options: &SendOptions,
) -> Result<(), Error> {
    if let (true, Some(over)) = (options.data.is_empty(), &options.data_over) {
        return Err(Error::usage(format!("--data-over {over} is for data: name them with --data")));
    }
    let option = match (options.data.is_empty(), options.data_rate, options.data_deadline) {
        (true, None, None) => return Ok(()),
        (false, ..) => None,
        (true, Some(_), _) => Some("--data-rate"),
        (true, None, Some(_)) => Some("--data-deadline"),
    };
    if let Some(option) = option {
        return Err(Error::usage(format!("{option} is for data: name them with --data")));
    }
    let why = if framing != StreamFraming::Rtp {
        "data are sent as RTP packets: omit --framing"
    } else if options.plain {
        "data are told by a header extension, which --plain leaves out: omit one of them"
    } else if !options.programmes.is_empty() {
        "a sender of several programmes sends sound alone: omit --data, or --programme"
    } else if options.sdp.is_some() {
        "other programs, for which an SDP file is, know no data beside sound: omit --sdp, or --data"
    } else if matches!(uri.target, Target::Listen(_)) {
        "data are for one receiver, or a group, that is called: write rtp://HOST:PORT, or omit --data"
    } else {
        return Ok(());
    };
    Err(Error::usage(why))
}

/// Refuses times that receivers cannot keep.
pub(super) fn check_step(in_step: Option<Duration>, told: Option<PlayoutDelay>) -> Result<(), Error> {
    let Some(delay) = in_step else { return Ok(()) };
    if !IN_STEP.contains(&delay) {
        return Err(Error::usage(format!(
            "--in-step {}: use {} to {}, from a sample's capture to its playout",
            format_duration(delay),
            format_duration(*IN_STEP.start()),
            format_duration(*IN_STEP.end())
        )));
    }
    if told == Some(PlayoutDelay::Unbounded) {
        return Err(Error::usage("a recording waits for every packet and plays at no time: omit --in-step"));
    }
    Ok(())
}

/// Refuses to promise time stamps of a clock that the sound does not keep.
pub(super) fn check_ptp(uri: &StreamUri, source: &dyn Source, options: &SendOptions) -> Result<(), Error> {
    if options.ptp.is_none() {
        return Ok(());
    }
    let is_made = source.length().is_some() || options.source.starts_with("tone:");
    let why = if !source.is_live() && !is_made {
        format!(
            "{} comes as another program gives it: send a device, a file, a clip or a tone",
            options.source
        )
    } else if options.backup.is_some() || !options.programmes.is_empty() {
        "it is for one source: omit --backup and --programme".into()
    } else if options.complete.is_some() {
        "a recording is completed by time stamps that never jump, and these follow a clock that may be set: omit --complete".into()
    } else if matches!(uri.target, Target::Listen(_)) {
        "it is for a stream that is sent to an address or a group: write rtp://HOST:PORT".into()
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("--ptp: {why}, or omit it")))
}

/// From a few packets to what receivers' buffers hold beside their own delay.
const IN_STEP: std::ops::RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(400);

/// Refuses to describe to other programs what they can't read.
pub(super) fn check_described(
    uri: &StreamUri,
    framing: StreamFraming,
    options: &SendOptions,
) -> Result<(), Error> {
    if framing != StreamFraming::Rtp && options.sdp.is_some() {
        return Err(Error::usage(format!(
            "an SDP file describes plain RTP, and other players do not know the framing '{}': omit --sdp or the framing",
            framing.name()
        )));
    }
    // Its datagrams are RTP packets, as they are.
    let is_plain = uri.transport.profile_of("").message_overhead == 0 && framing == StreamFraming::Rtp;
    let serves = matches!(uri.target, Target::Listen(_));
    if options.announce.is_some() && !serves && !(is_plain && uri.address().ip().is_multicast()) {
        return Err(Error::usage(
            "--announce tells others of a stream that many can hear: send plain RTP to a group, such as rtp://239.1.2.3:5004, or \
             wait for receivers, as in rtp://:7710",
        ));
    }
    Ok(())
}

//! A call over a group: everybody sends once and hears all others, mixed.

use std::sync::mpsc::Sender;

use antiphon_core::{BrokenReason, Instant};
use antiphon_media::packet::static_payload_type;
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_net::Target;
use antiphon_session::{
    MOST_PARTIES, OpenSink, Parties, PartiesConfig, PartyNotice, ReceiveError, ReceiveTrackConfig, Session,
    StreamFraming,
};
use antiphon_sound::{FilmTarget, SinkKind, SinkSpec};

use super::TalkOptions;
use super::party_sinks::{FilmHow, FilmNews, FilmSinks, Finisher, Titles};
use crate::send::{SendPlan, unreachable_as};
use crate::transport::{StreamUri, with_scheme};
use crate::{Error, SendOptions};

/// Whether a call goes to a group.
pub(super) fn is_group(target: &str) -> bool {
    let uri = StreamUri::read(&with_scheme(target), &Default::default());
    uri.is_ok_and(|uri| uri.address().ip().is_multicast())
}

/// The same URI as everybody of the group uses it: to send, and to hear.
pub(super) fn of_group(uri: StreamUri, options: &TalkOptions) -> Result<StreamUri, Error> {
    let (address, scheme) = (uri.address(), uri.transport.scheme);
    let refused = |why: &str| Err(Error::usage(format!("a call over the group {}: {why}", address.ip())));
    if !uri.transport.multicast {
        return refused(&format!("{scheme} goes to one host: write rtp://{address}"));
    }
    if !uri.transport.profile_of("").bare {
        return refused(&format!(
            "{scheme} has one sender for a group, and here everybody sends: write rtp://{address}"
        ));
    }
    if uri.keys.socket.multicast.source.is_some() {
        return refused("source= hears one sender alone, and here everybody is heard: omit it");
    }
    if options.monitor {
        return refused("everybody hears you at another time, so --monitor has no delay to play: omit it");
    }
    if options.send.wait_for_peer {
        return refused("it waits for others anyway: omit --wait-for-peer");
    }
    let mut uri = uri;
    // A party of a call joins the group and sends to it, with or without an @ in the URI.
    uri.target = Target::Call(address);
    uri.keys.socket.multicast.joins = true;
    Ok(uri)
}

/// Refuses what others of a group would not understand.
pub(super) fn check(
    send: &SendPlan,
    options: &SendOptions,
    (sink, framing): (&SinkSpec, StreamFraming),
) -> Result<(), Error> {
    if send.video.len() > 1 {
        return Err(Error::usage(
            "versions of one film are chosen by what one receiver tells of its path, and in a group many receive: name one with --video",
        ));
    }
    check_sink(sink)?;
    if options.plain && static_payload_type(send.coding, send.format).is_none() {
        return Err(Error::usage(
            "the others of a group learn the format from the packets, which --plain leaves out: omit it, or use a format with a static \
             payload type (RFC 3551), such as --format l16 --rate 44.1kHz --channels 2",
        ));
    }
    if framing != StreamFraming::Rtp {
        return Err(Error::usage(format!(
            "a call over a group carries RTP as it is: omit the framing '{}'",
            framing.name()
        )));
    }
    if send.groups.count() > 1 {
        return Err(Error::usage(
            "a call over a group sends all channels of a party in one stream: omit --groups, or groups= in the URI",
        ));
    }
    Ok(())
}

/// Whether the parties can be shown, or recorded, each by itself.
fn check_sink(sink: &SinkSpec) -> Result<(), Error> {
    match (sink.film(), &sink.kind) {
        (Some(_), SinkKind::StdoutFilm) => Err(Error::usage(
            "standard output is one stream, and each party of a call over a group has its own: use --sink player: or NAME.mkv",
        )),
        (Some(FilmTarget::File(..)), _) => {
            (1..=MOST_PARTIES as u32).try_for_each(|number| Ok(sink.of_stream(number).check()?))
        }
        _ => Ok(()),
    }
}

/// Has `session` hear all that talk in its group, mixed for the sink that `open` opens: in the rate and channels that it asks
/// for, or in ours, and at least in stereo.
pub(super) fn hear(
    session: &mut Session,
    track: ReceiveTrackConfig,
    mut open: OpenSink,
    spec: &SinkSpec,
    now: Instant,
) -> Result<(), Error> {
    let own = session.send_track().expect("a party sends").packetiser().config().format;
    let channels = spec.channels.unwrap_or((own.channels() as u32).max(STEREO));
    let mix = StreamFormat::new(spec.rate.unwrap_or(own.rate()), channels)?;
    // A sum has more bits than what it is of.
    let sink = open(mix, SampleFormat::L24).map_err(Error::failed)?;
    session.set_parties(Parties::new(config(session, track), sink, now));
    Ok(())
}

/// The same, each of them in a sink of its own with its pictures: what finishes these, and is to be told where parties are.
pub(super) fn hear_apart(
    session: &mut Session,
    track: ReceiveTrackConfig,
    how: FilmHow,
    tell: Sender<FilmNews>,
) -> Result<(Finisher, Titles), Error> {
    let (sinks, finisher, titles) = FilmSinks::start(how, tell)?;
    session.set_parties(Parties::apart(config(session, track), Box::new(sinks)));
    Ok((finisher, titles))
}

fn config(session: &Session, track: ReceiveTrackConfig) -> PartiesConfig {
    let packet = session.send_track().expect("a party sends").packetiser().packet_frames();
    PartiesConfig { track, packet, most: MOST_PARTIES }
}

/// Finishes the sink, or those of all parties; returns what was not told yet.
pub(super) fn finish(
    session: &mut Session,
    finisher: Option<Finisher>,
    notes: &mut Vec<String>,
) -> Result<Vec<PartyNotice>, Error> {
    let Some(mut parties) = session.take_parties() else { return Ok(Vec::new()) };
    // Where each has its own sink, nothing was mixed.
    let mixed = parties.mixer().unwrap_or_default();
    if mixed.overrun_frames > 0 {
        notes.push(format!("{} sample frames dropped because the sink is too slow", mixed.overrun_frames));
    }
    if mixed.limited_frames > 0 {
        notes.push(format!(
            "the mix was turned down at {} sample frames, so that it was not clipped: several were loud at once",
            mixed.limited_frames
        ));
    }
    let refused = parties.counters().refused;
    if refused > 0 {
        notes.push(format!("{refused} packets came of parties for which there was no room"));
    }
    let error = parties.error().cloned();
    let notices = std::iter::from_fn(|| parties.poll_notice()).collect();
    let finished = parties.into_sink().map_or(Ok(()), |mut sink| sink.finish());
    let causes = finisher.map_or_else(Vec::new, Finisher::finish);
    finished.map_err(|cause| Error::failed(cause.to_string()))?;
    match error {
        None | Some(ReceiveError::SinkClosed) => Ok(notices),
        Some(error) => Err(Error::failed(causes.into_iter().next().unwrap_or_else(|| error.to_string()))),
    }
}

/// The error of a group to which nothing can be sent.
pub(super) fn unreachable(why: BrokenReason) -> Error {
    let why = unreachable_as(why);
    Error::unreachable(format!(
        "nothing can be sent to the group: {why}; choose a network interface with iface= in the URI"
    ))
}

/// Channels of a mix: a mono microphone should not make everybody mono.
const STEREO: u32 = 2;

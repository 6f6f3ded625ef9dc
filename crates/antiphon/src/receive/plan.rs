//! What a receiver is to do, decided before anything is opened.

use std::net::{IpAddr, UdpSocket};

use antiphon_core::{Profile, Role};
use antiphon_media::conceal::Concealment;
use antiphon_media::playout::AdaptiveDelay;
use antiphon_net::Target;
use antiphon_session::{LongGaps, MOST_VIDEO_TRACKS, ReceiveTrackConfig, SharedClock, StreamFraming};
use antiphon_sound::{FilmTarget, SinkKind, SinkSpec};

use crate::data::DataFiles;
use crate::passport::PassportFile;
use crate::pictures::{ForeignPictures, Overs};
use crate::send::SILENCE;
use crate::transport::{StackPlan, StreamUri};
use crate::{DEFAULT_LATENCY, Error, Latency, ReceiveOptions, SinkClock};

/// Everything that can be decided before the media thread starts.
pub(crate) struct ReceivePlan {
    pub uri: StreamUri,
    /// Where the same sender may come as well.
    pub also: Vec<StreamUri>,
    /// Where the pictures come, if not with the sound.
    pub overs: Overs,
    /// Where further tracks of pictures go.
    pub further: Vec<SinkSpec>,
    /// Where data beside them go.
    pub data: Option<DataFiles>,
    /// Pictures of another program.
    pub pictures: Option<ForeignPictures>,
    pub stack: StackPlan,
    pub sink: SinkSpec,
    /// `None` for a recording, which waits for everything.
    pub latency: Option<Latency>,
    pub conceal: Concealment,
    /// Whether it plays when the sender wishes: nobody has said how late it is to play.
    pub follows_step: bool,
    /// A clock that the time stamps count and this host follows.
    pub shared_clock: Option<SharedClock>,
    pub passport: Option<PassportFile>,
    /// The settings that are taken as they are.
    pub options: ReceiveOptions,
}

/// Where to wait, as a URI says it.
pub(crate) fn listening(text: &str, options: &ReceiveOptions) -> Result<StreamUri, Error> {
    let mut uri = StreamUri::read(text, &options.socket)?;
    let address = uri.address();
    let named = matches!(uri.target, Target::Call(_)) && !address.ip().is_multicast();
    let calls = uri.keys.role.map_or(named && is_elsewhere(address.ip()), |role| role == Role::Caller);
    if calls && !named {
        return Err(Error::usage(format!(
            "'{text}': name the sender to call, as HOST:PORT, or omit role=caller"
        )));
    }
    if !calls {
        // An address of this machine names where to listen, a group what to join.
        uri.target = Target::Listen(address);
        if !address.ip().is_multicast() && is_elsewhere(address.ip()) {
            let (scheme, port) = (uri.transport.scheme, address.port());
            return Err(Error::usage(format!(
                "'{text}': {} is not an address of this machine: write {scheme}://:{port} to listen, or \
                 {scheme}://HOST:{port} to call a sender that listens",
                address.ip(),
            )));
        }
    }
    // The description of the stream names who sends it (RFC 4570), unless the user does.
    let described = options.description.as_ref().and_then(|description| description.source);
    let socket = &mut uri.keys.socket;
    socket.multicast.source = socket.multicast.source.or(described);
    Ok(uri)
}

/// Whether no socket of this machine can have this address.
fn is_elsewhere(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
}

impl ReceivePlan {
    pub fn new(options: &ReceiveOptions) -> Result<Self, Error> {
        let uri = listening(&options.source, options)?;
        let also = options.also.iter().map(|uri| listening(uri, options)).collect::<Result<Vec<_>, _>>()?;
        if let Some(calling) = also.iter().chain([&uri]).find(|uri| matches!(uri.target, Target::Call(_)))
            && !also.is_empty()
        {
            return Err(Error::usage(format!(
                "with --also, the sender calls on each address: write {}://:PORT, without role=caller",
                calling.transport.scheme
            )));
        }
        if options.announce.is_some()
            && (matches!(uri.target, Target::Call(_)) || uri.address().ip().is_multicast())
        {
            return Err(Error::usage(format!(
                "--announce tells others where this receiver waits for a sender, and '{}' does not wait for a call: write {}://:PORT",
                options.source, uri.transport.scheme
            )));
        }
        if options.programme.wish().is_some() && !matches!(uri.target, Target::Call(_)) {
            return Err(Error::usage(format!(
                "--programme chooses among those of a sender that is called, and '{}' waits for one: write {}://HOST:PORT",
                options.source, uri.transport.scheme
            )));
        }
        Self::over(uri, also, options)
    }

    /// Over what `uri` names.
    pub fn over(uri: StreamUri, also: Vec<StreamUri>, options: &ReceiveOptions) -> Result<Self, Error> {
        let sink: SinkSpec = options.sink.parse()?;
        let is_file = matches!(sink.kind, SinkKind::File { .. });
        let overs = overs(&uri, &sink, options)?;
        let further = further_films(&sink, options)?;
        let data = data_files(options, framing_of(&uri, options))?;
        let pictures = ForeignPictures::of(&uri, &sink, options)?;
        let keeps_time = options.gaps == LongGaps::Silence && options.clock == SinkClock::Sender;
        if sink.film().is_some() && (!keeps_time || options.complete.is_some()) {
            return Err(Error::usage(
                "pictures have their places in the sound as it was sent: record or play them without --gaps cut, --clock system and \
                 --complete",
            ));
        }
        if let Some(over) = &options.complete {
            if !is_file || !keeps_time || options.forever {
                return Err(Error::usage(
                    "--complete is for one stream into a file, as it was sent: record into file:NAME.wav, without --gaps \
                     cut, --clock system and --forever",
                ));
            }
            over.check(&uri, true)?;
        }
        let shared_clock = shared_clock(&uri, &sink, options)?;
        // What this machine lacks is of interest where it would be used.
        sink.check()?;
        let latency = uri.keys.latency.or(options.latency);
        let asked = asked_latency(latency.or(options.in_step.map(Latency::Of)), &sink);
        let framing = framing_of(&uri, options);
        let latency = playout_delay(asked, &sink, options.clock);
        Ok(ReceivePlan {
            follows_step: asked.is_none(),
            shared_clock,
            stack: uri.stack(options.seed, latency.map_or(DEFAULT_LATENCY, Latency::longest), framing),
            conceal: uri.keys.conceal.or(options.conceal).unwrap_or(match (is_file, latency) {
                // What a recording misses is to be found, not to be hidden.
                (true, None) => Concealment::Silence,
                _ => Concealment::default(),
            }),
            uri,
            also,
            overs,
            further,
            data,
            pictures,
            latency,
            sink,
            passport: None,
            options: options.clone(),
        })
    }

    /// The track that comes over associations of this profile.
    pub fn track(&self, profile: Profile) -> ReceiveTrackConfig {
        let one = self.also.is_empty();
        ReceiveTrackConfig {
            latency: self.latency,
            conceal: self.conceal,
            completed_later: self.options.complete.is_some(),
            description: self.options.description.clone(),
            any_payload_type: self.options.any_payload_type,
            silence: SILENCE,
            // What comes over another transport may be in any order.
            ordered: profile.ordered && one,
            reliable: profile.reliable && one && self.stack.framing == StreamFraming::Rtp,
            long_gaps: self.options.gaps,
        }
    }

    /// Whether nothing is to be missing.
    pub fn records(&self) -> bool {
        self.latency.is_none() && self.options.gaps == LongGaps::Silence
    }

    /// Whether the sender is called.
    pub fn calls(&self) -> bool {
        matches!(self.uri.target, Target::Call(_))
    }

    pub fn describe(&self) -> String {
        let verb = match self.uri.target {
            Target::Listen(address) if address.ip().is_multicast() => "joining",
            Target::Listen(_) => "listening on",
            Target::Call(_) => "calling",
        };
        let latency = self
            .latency
            .map_or("recording: waits for late packets".into(), |latency| format!("playout delay {latency}"));
        let also = |uri: &StreamUri| format!(" and {}://{}", uri.transport.scheme, uri.address());
        let also: String = self.also.iter().map(also).collect();
        let over = self.overs.iter().map(|over| (over.text(), over.what().name()));
        let over = over.chain(self.pictures.as_ref().map(|pictures| (pictures.text(), "pictures")));
        let over: String = over.map(|(over, what)| format!(", and on {over} for {what}")).collect();
        let last = if self.options.forever { "" } else { "; stops when the sender ends the stream" };
        format!("{verb} {}://{}{also}{over}; {latency}{last}", self.uri.transport.scheme, self.uri.address())
    }
}

/// What is asked for, as far as the sink can have it: a delay that adapts changes the sound, and a file gets it as it was sent.
pub(crate) fn asked_latency(asked: Option<Latency>, sink: &SinkSpec) -> Option<Latency> {
    let is_file = matches!(sink.kind, SinkKind::File { .. });
    asked.filter(|asked| !is_file || matches!(asked, Latency::Of(_)))
}

/// The playout delay in force; `None` for a recording, which waits for everything.
pub(crate) fn playout_delay(asked: Option<Latency>, sink: &SinkSpec, clock: SinkClock) -> Option<Latency> {
    match (&sink.kind, clock) {
        (SinkKind::File { .. }, SinkClock::Sender) => asked,
        _ => Some(asked.unwrap_or_else(|| unasked_latency(sink))),
    }
}

/// The playout delay of a device where nobody asks for one.
pub(crate) fn device_latency() -> Latency {
    Latency::Auto(AdaptiveDelay::default())
}

/// The playout delay of sound that is not waited for, where nobody asks for one: a device's adapts to the path. What reads a pipe, and a player,
/// which gets pictures as well, get the samples that were sent.
pub(crate) fn unasked_latency(sink: &SinkSpec) -> Latency {
    match sink.kind {
        SinkKind::Jack(_) | SinkKind::Pulse(_) | SinkKind::Card(_) => device_latency(),
        SinkKind::File { .. }
        | SinkKind::Stdout(_)
        | SinkKind::StdoutFilm
        | SinkKind::Player(_)
        | SinkKind::Null => Latency::Of(DEFAULT_LATENCY),
    }
}

/// The clock that `--in-step` plays by.
fn shared_clock(
    uri: &StreamUri,
    sink: &SinkSpec,
    options: &ReceiveOptions,
) -> Result<Option<SharedClock>, Error> {
    let Some(delay) = options.in_step else { return Ok(None) };
    if uri.keys.latency.or(options.latency).is_some() {
        return Err(Error::usage(
            "--in-step says how long after its capture the sound is heard: omit --latency",
        ));
    }
    if matches!(sink.kind, SinkKind::File { .. }) {
        return Err(Error::usage(
            "--in-step is for what is heard, and a file waits for every packet: omit it, or play to jack:, pulse: or a pipe",
        ));
    }
    let Some(described) = &options.description else {
        return Err(Error::usage(
            "--in-step plays by the PTP clock that the sender's SDP names: give it with --sdp FILE. Receivers of 'antiphon \
             send --in-step' are in step without",
        ));
    };
    match described.ptp_offset() {
        Some(offset) => Ok(Some(SharedClock { offset, delay })),
        None => Err(Error::usage(
            "--in-step: the time stamps of this SDP do not count a PTP clock, as it lacks a=ts-refclk:ptp=… with \
             a=mediaclk:direct=…: omit it, or have the sender follow PTP",
        )),
    }
}

fn framing_of(uri: &StreamUri, options: &ReceiveOptions) -> StreamFraming {
    uri.keys.framing.unwrap_or(options.framing)
}

/// Reads where further tracks of pictures go.
fn further_films(sink: &SinkSpec, options: &ReceiveOptions) -> Result<Vec<SinkSpec>, Error> {
    let names = &options.video_tracks;
    let Some(first) = names.first() else { return Ok(Vec::new()) };
    let is_file = |sink: &SinkSpec| matches!(sink.film(), Some(FilmTarget::File(..)));
    let most = MOST_VIDEO_TRACKS - 1;
    let why = if !is_file(sink) {
        format!(
            "--video-track {first}: further tracks of pictures are recorded beside the first, and '{}' is no file with pictures: record into NAME.mkv",
            options.sink
        )
    } else if options.pictures.is_some() {
        format!("--video-track {first}: an SDP file describes one track of pictures: omit it")
    } else if names.len() > most {
        format!(
            "--video-track: a stream has {MOST_VIDEO_TRACKS} tracks of pictures at most: name {most} further ones at most"
        )
    } else {
        let read = |name: &String| {
            let further: SinkSpec = name.parse()?;
            further.check()?;
            match is_file(&further) {
                true => Ok(further),
                false => Err(Error::usage(format!(
                    "--video-track {name}: write NAME.mkv, a file of sound and pictures"
                ))),
            }
        };
        return names.iter().map(read).collect();
    };
    Err(Error::usage(why))
}

/// Opens where data go.
fn data_files(options: &ReceiveOptions, framing: StreamFraming) -> Result<Option<DataFiles>, Error> {
    if options.data.is_empty() {
        return Ok(None);
    }
    if framing != StreamFraming::Rtp {
        return Err(Error::usage("data come as RTP packets: omit --framing, or --data"));
    }
    if options.forever {
        return Err(Error::usage("data are those of one sender, and end with it: omit --forever, or --data"));
    }
    DataFiles::open(options).map(Some)
}

/// The transports that pictures and data have for themselves.
fn overs(sound: &StreamUri, sink: &SinkSpec, options: &ReceiveOptions) -> Result<Overs, Error> {
    let (video, data) = (options.video_over.as_deref(), options.data_over.as_deref());
    let overs = Overs::read((video, data), sound, (&options.socket, false), |text| listening(text, options));
    if let (true, Some(text)) = (options.data.is_empty(), data) {
        return Err(Error::usage(format!("--data-over {text} is for data: name their files with --data")));
    }
    if let (true, Some(text)) = (sink.film().is_none(), video) {
        return Err(Error::usage(format!(
            "--video-over {text} is for pictures, and '{}' takes sound alone: record into NAME.mkv, or watch with player:",
            options.sink
        )));
    }
    let option = if video.is_some() { "--video-over" } else { "--data-over" };
    let what = if video.is_some() { "pictures" } else { "data" };
    let is_given = video.is_some() || data.is_some();
    if is_given && matches!(sound.target, Target::Call(_)) {
        return Err(Error::usage(format!(
            "a sender that is called sends {what} with the sound: omit {option}, or have the sender call this receiver"
        )));
    }
    if is_given && !options.also.is_empty() {
        return Err(Error::usage(format!(
            "{option} gives sound and {what} a transport each, and --also is for both together: omit one of them"
        )));
    }
    overs
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use antiphon_media::{MediaClock, StreamDescription};

    use super::*;

    fn sink(text: &str) -> SinkSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[test]
    fn where_nobody_asks_a_device_adapts_and_other_sinks_do_not() {
        let auto = Some(Latency::Auto(AdaptiveDelay::default()));
        let of = |text: &str, clock| {
            let options = ReceiveOptions { sink: text.into(), ..ReceiveOptions::default() };
            let delay = playout_delay(None, &sink(text), clock);
            assert_eq!(options.playout_delay(), delay, "{text}");
            delay
        };
        for device in ["jack:", "pulse:", "jack:?connect=no", "pulse:?buffer=10ms"] {
            assert_eq!(of(device, SinkClock::Sender), auto, "{device}");
        }
        for other in ["null:", "-?format=s16le", "player:"] {
            assert_eq!(of(other, SinkClock::Sender), Some(Latency::Of(DEFAULT_LATENCY)), "{other}");
        }
        assert_eq!(of("file:take.wav", SinkClock::Sender), None);
        assert_eq!(ReceiveOptions::default().playout_delay(), auto, "the default device");
    }

    #[test]
    fn a_clock_to_play_by_must_be_described() {
        let plan = |latency, sink: &str, description: Option<StreamDescription>| {
            let options = ReceiveOptions {
                in_step: Some(Duration::from_millis(5)),
                latency,
                sink: sink.into(),
                description,
                ..ReceiveOptions::default()
            };
            let plan = ReceivePlan::new(&options).map_err(|error| error.to_string())?;
            Ok::<_, String>((plan.shared_clock, plan.latency, plan.follows_step))
        };
        let plain: StreamDescription = "l24/48000/2".parse().unwrap();
        let by_ptp = StreamDescription {
            reference_clock: Some("ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0".into()),
            media_clock: Some(MediaClock::Direct(7)),
            ..plain.clone()
        };
        let delay = Duration::from_millis(5);
        let clock = SharedClock { offset: 7, delay };
        assert_eq!(
            plan(None, "null:", Some(by_ptp.clone())),
            Ok((Some(clock), Some(Latency::Of(delay)), false))
        );
        let refused = |latency, sink, description, why: &str| {
            let error = plan(latency, sink, description).expect_err(why);
            assert!(error.contains(why), "{error}");
        };
        refused(None, "null:", None, "--sdp FILE");
        refused(None, "null:", Some(plain), "a=mediaclk:direct");
        refused(None, "file:take.wav", Some(by_ptp.clone()), "a file waits");
        refused(Some(Latency::Of(delay)), "null:", Some(by_ptp), "omit --latency");
    }

    #[test]
    fn a_receiver_plays_as_its_sender_wishes_unless_it_is_told_how() {
        let plan = |source: &str, latency: Option<Latency>| {
            let options = ReceiveOptions {
                source: source.into(),
                sink: "null:".into(),
                latency,
                ..ReceiveOptions::default()
            };
            ReceivePlan::new(&options).expect("a plan")
        };
        let asked = Latency::Of(Duration::from_millis(20));
        let auto = Latency::Auto(AdaptiveDelay::default());
        assert!(plan("rtp://:7710", None).follows_step);
        for (source, latency, is) in [
            ("rtp://:7710", Some(asked), asked),
            ("rtp://:7710", Some(auto), auto),
            ("rtp://:7710?latency=20ms", Some(auto), asked),
        ] {
            let plan = plan(source, latency);
            assert_eq!((plan.latency, plan.follows_step), (Some(is), false), "{source}");
            // What comes until then is of use.
            assert_eq!(plan.stack.playout_delay, is.longest(), "{source}");
        }
        assert_eq!(asked_latency(Some(auto), &sink("file:take.wav")), None, "it gets what was sent");
    }
}

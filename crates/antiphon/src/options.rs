//! Options: plain values, checked before anything is opened.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::pictures::FrameRate;
use crate::{Latency, SpoolPlace};
use antiphon_core::{BitRate, DEFAULT_LATENCY};
use antiphon_link::DuplexSpec;
use antiphon_measure::Purpose;
use antiphon_media::conceal::Concealment;
use antiphon_media::{Coding, PtpClock, SampleFormat, StreamDescription};
use antiphon_net::{SocketOptions, WaitStyle};
use antiphon_session::{LongGaps, PlayoutDelay, Repetition, StreamFraming};
use antiphon_sound::SinkSpec;
use antiphon_video::{VideoDescription, VideoSdpError};

use crate::backup::Backup;
use crate::change::Switch;
use crate::complete::CompleteOver;
use crate::programmes::{ProgrammeChoice, ProgrammeSource};
use crate::receive::{asked_latency, device_latency, playout_delay};

/// The port that `reflect` listens on and `compare HOST` calls, where none is given. Outside the ephemeral range of
/// Linux and away from the neighbours' defaults.
pub const DEFAULT_PORT: u16 = antiphon_proto::DEFAULT_PORT;

/// Receivers that a sender serves at once, unless told otherwise: plain stereo at 48 kHz is 1.6 Mbit/s to each.
pub const MOST_RECEIVERS: usize = 100;

/// How `compare` runs.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// `HOST:PORT` of a reflector; `None` for the embedded link.
    pub peer: Option<String>,
    /// Whether the figures of a peer say how much of the round trip is the two hosts'; it takes a second for each transport.
    pub hosts_part: bool,
    /// The embedded link, and the name it was asked for by.
    pub link: (String, DuplexSpec),
    /// How much of the source to stream; `None` for all of it.
    pub length: Option<Duration>,
    /// Channels to stream; `None` for those of the source.
    pub channels: Option<u32>,
    /// Sampling rate to stream at; `None` for that of the source.
    pub rate: Option<u32>,
    /// The transports: schemes, or schemes with keys of their own, `srp?mode=as-published`; empty for all.
    pub transports: Vec<String>,
    /// The one of them over which a stream runs already: if it does worse than the one recommended, the reason says so.
    pub current: Option<String>,
    /// URI of the source.
    pub source: String,
    /// Files whose pictures are sent beside it, for the first three quarters of its length, as by [`SendOptions::video`].
    pub video: Vec<PathBuf>,
    /// Frames a second of a raw H.264 or JPEG stream, which holds no times.
    pub video_rate: Option<FrameRate>,
    /// Seed of links and endpoints: the same seed gives the same losses at the same time.
    pub seed: u64,
    /// Directory of the report; `None` for none.
    pub out: Option<PathBuf>,
    /// Sample frames in a block, 16 to 4096.
    pub block_frames: u32,
    /// Sample format on the wire; `None` for what the source needs.
    pub sample: Option<SampleFormat>,
    /// Playout delay at the listener.
    pub latency: Duration,
    /// What the listener does about missing sound.
    pub conceal: Concealment,
    /// Whether the sender gives up packets that are older than the playout delay.
    pub expire: bool,
    /// How packets are protected against loss.
    pub protect: Repetition,
    /// How media threads wait.
    pub wait: WaitStyle,
    /// Socket options.
    pub socket: SocketOptions,
    /// Force one way of making the embedded link; `None` for the best one permitted.
    pub link_method: Option<LinkMethod>,
    /// File for a capture of the near ends' sockets.
    pub capture: Option<PathBuf>,
    /// File for a path passport: when each packet was sent and arrived, or that it was lost.
    pub passport: Option<PathBuf>,
    /// The command line, recorded in the report and the passport.
    pub command: String,
}

/// How the embedded link is put between two kernels' sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkMethod {
    /// Two network namespaces and a router between them: carries any IP traffic.
    Router,
    /// A proxy on loopback, for datagrams and, without losses, for byte streams.
    Proxy,
}

/// How a stream is announced: one to a group to those that may hear it (SAP, RFC 2974), one that receivers call to all in the network
/// (DNS-SD, RFC 6763).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Where receivers listen for announcements of streams to a group ([`crate::ANNOUNCEMENT_GROUPS`]).
    pub group: std::net::Ipv4Addr,
    /// What they show.
    pub name: String,
}

/// How `send` runs.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// URI of the source.
    pub source: String,
    /// Programmes among which receivers choose, in place of the one source; empty: there is no choice.
    pub programmes: Vec<ProgrammeSource>,
    /// What is sent while the source is silent, or gives nothing; `None`: the source alone.
    pub backup: Option<Backup>,
    /// URI of the transport: `rtp://HOST:PORT?…`.
    pub target: String,
    /// A file whose pictures are sent beside the sound, or a bundled clip such as `clip:h264-100`; several are versions of one film, the lowest bit
    /// rate first.
    pub video: Vec<PathBuf>,
    /// Frames a second of a raw H.264 or JPEG stream, which holds no times.
    pub video_rate: Option<FrameRate>,
    /// Further tracks of pictures beside that of [`Self::video`], each with its versions; each gives way to those before it. With that one they
    /// are [`antiphon_session::MOST_VIDEO_TRACKS`] at most.
    pub video_tracks: Vec<Vec<PathBuf>>,
    /// Another transport for the pictures than for the sound: `tcp`, `sctp?KEY=VALUE` at the sound's host, two ports above the sound's, or a
    /// whole URI.
    pub video_over: Option<String>,
    /// Files that are sent beside the sound, byte for byte; `-`, or what is no file, in lines as they come. At most
    /// [`antiphon_session::MOST_DATA_TRACKS`].
    pub data: Vec<String>,
    /// Another transport for the data than for the sound, as [`Self::video_over`]. The same text as there has them go together; otherwise they
    /// have one of their own, four ports above the sound's where pictures have one, too.
    pub data_over: Option<String>,
    /// No more of each of them is sent than this; `None`: what sound and pictures leave of the path, or 64 kbit/s where nobody tells what it
    /// carries.
    pub data_rate: Option<BitRate>,
    /// For how long a piece of them is of use after it was read; `None`: for ever.
    pub data_deadline: Option<Duration>,
    /// Where receivers call the sender, `rtp://:PORT`: the most that it serves at once.
    pub most_receivers: usize,
    /// URIs over which everything is sent as well, to the same receiver.
    pub also: Vec<String>,
    /// Transports that take the place of the first one in a running stream.
    pub switch: Vec<Switch>,
    /// What a target `auto://HOST:PORT` chooses the transport for; and [`Purpose::TvSound`] over any transport keeps receivers
    /// within 80 ms of the picture, and says when it can't.
    pub purpose: Purpose,
    /// All receivers that can play each sample frame so long after it was captured.
    pub in_step: Option<Duration>,
    /// Sample frames in a block; `None` for 256, and in Opus for packets of `ptime` or 20 ms.
    pub block_frames: Option<u32>,
    /// How packets hold the sound; `None` for the samples that the source needs.
    pub coding: Option<Coding>,
    /// Of Opus: bits of all channels in a second; `None` for 96 kbit/s for two channels and 64 kbit/s for one.
    pub bit_rate: Option<BitRate>,
    /// Channels to stream; `None` for those of the source.
    pub channels: Option<u32>,
    /// Which input channel goes to which output, such as `2,1`; `None` for the usual mapping.
    pub channel_map: Option<String>,
    /// How many channels go together in an RTP stream of their own, such as `2,2,4`, or `2` for all alike; `None` for all in
    /// one.
    pub groups: Option<String>,
    /// Sampling rate to stream at; `None` for that of the source.
    pub rate: Option<u32>,
    /// Longest duration of a packet.
    pub ptime: Option<Duration>,
    /// Framing around packets; the receiver needs the same.
    pub framing: StreamFraming,
    /// RTP payload type; `None` for the static one that fits, or 96.
    pub payload_type: Option<u8>,
    /// How old a packet may become before it is given up, until the receiver has reported its playout delay. `None`:
    /// [`DEFAULT_LATENCY`] for live sources, any age for others.
    pub latency: Option<PlayoutDelay>,
    /// How packets are protected against loss.
    pub protect: Repetition,
    /// Stop after so much sound.
    pub length: Option<Duration>,
    /// File for the SDP description for other players.
    pub sdp: Option<PathBuf>,
    /// Time stamps count this PTP clock, as AES67 asks: this host's wall clock follows it.
    pub ptp: Option<PtpClock>,
    /// Packets have no header extensions: some receivers refuse those that have, such as PulseAudio's.
    pub plain: bool,
    /// Announces a stream over RTP to a group, or one that receivers call.
    pub announce: Option<Announce>,
    /// Keep calling a peer that is absent.
    pub wait_for_peer: bool,
    /// Where sound of a live source waits that a recording cannot be sent for now, and memory has no room for.
    pub spool: SpoolPlace,
    /// Where to call a recording after the stream, to complete it.
    pub complete: Option<CompleteOver>,
    /// File for a capture of the socket.
    pub capture: Option<PathBuf>,
    /// File for a path passport: when each packet was sent and arrived, or that it was lost.
    pub passport: Option<PathBuf>,
    /// The command line, recorded in the passport.
    pub command: String,
    /// How the media thread waits.
    pub wait: WaitStyle,
    /// Socket options.
    pub socket: SocketOptions,
    /// Seed of SSRC, first numbers and endpoint.
    pub seed: u64,
}

/// How `receive` runs.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// URI of the transport: `rtp://:PORT`, `rtp://@239.1.2.3:PORT`, `tcp://:PORT`.
    pub source: String,
    /// Which of the programmes of a sender that is called is heard; can be changed at any time.
    pub programme: ProgrammeChoice,
    /// URIs on which the same sender may come as well: beside the first, or when it changes its transport.
    pub also: Vec<String>,
    /// URI of the sink.
    pub sink: String,
    /// Files for the sender's further tracks of pictures, in the order of [`SendOptions::video_tracks`], each with the sound as well.
    pub video_tracks: Vec<String>,
    /// The transport on which the pictures come, as the sender's [`SendOptions::video_over`]; `None`: they come with the sound.
    pub video_over: Option<String>,
    /// Where the data beside the sound are written, of each of the sender's [`SendOptions::data`] in their order; `-`: standard output.
    pub data: Vec<String>,
    /// The transport on which they come, as the sender's [`SendOptions::data_over`].
    pub data_over: Option<String>,
    /// Playout delay; `None`: files wait for everything (recordings), devices have one that adapts unless the sender wishes one, and other sinks
    /// take [`DEFAULT_LATENCY`]. For files, one that adapts is the same as `None`: they get exactly the samples that were sent.
    pub latency: Option<Latency>,
    /// Plays each sample frame so long after its capture, by the PTP clock that [`Self::description`] names and that this host's
    /// wall clock follows, in place of [`Self::latency`].
    pub in_step: Option<Duration>,
    /// What to do about missing sound; `None`: prediction, and silence in recordings that wait for everything.
    pub conceal: Option<Concealment>,
    /// What such a recording has in place of gaps that are longer than its buffer.
    pub gaps: LongGaps,
    /// Framing around packets; the same as the sender's.
    pub framing: StreamFraming,
    /// The clock that paces the sink.
    pub clock: SinkClock,
    /// The stream's format, from `--sdp FILE` or `--format`.
    pub description: Option<StreamDescription>,
    /// The pictures beside it that the SDP file describes, which another program sends in an RTP session of their own; or why they cannot be
    /// received, which does not keep the sound from being.
    pub pictures: Option<Result<VideoDescription, VideoSdpError>>,
    /// Whether the description holds under every dynamic payload type, as when its number is only a default.
    pub any_payload_type: bool,
    /// Continue to listen after the sender has ended the stream.
    pub forever: bool,
    /// Stop after so much time.
    pub length: Option<Duration>,
    /// Where the sender calls after the stream, to complete a recording.
    pub complete: Option<CompleteOver>,
    /// Tells the network that this receiver waits for a sender, under this name.
    pub announce: Option<String>,
    /// Give up after so much time without a packet.
    pub give_up: Option<Duration>,
    /// File for a capture of the socket.
    pub capture: Option<PathBuf>,
    /// File for a path passport: when each packet was sent and arrived, or that it was lost.
    pub passport: Option<PathBuf>,
    /// The command line, recorded in the passport.
    pub command: String,
    /// How the media thread waits.
    pub wait: WaitStyle,
    /// Socket options.
    pub socket: SocketOptions,
    /// Seed of SSRC and report intervals.
    pub seed: u64,
}

/// The clock that paces a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SinkClock {
    /// The sender's: the sink gets exactly the samples that were sent, as fast as the sender's sampling clock runs.
    #[default]
    Sender,
    /// This machine's: exactly the nominal rate here; the sender's drift is followed by resampling, up to ±500 ppm.
    System,
}

/// How `reflect` runs.
#[derive(Clone, Debug)]
pub struct ReflectOptions {
    /// Address to listen on; each transport adds its offset to the port.
    pub listen: SocketAddr,
    /// The transports, each at most once: schemes, or schemes with keys of their own; empty for all.
    pub transports: Vec<String>,
    /// Peers at once, per transport; those that proved nothing yet have half of these places, 8 at least.
    pub max_peers: usize,
    /// Tells the network of it, under this name.
    pub announce: Option<String>,
    /// Stop after so much time.
    pub length: Option<Duration>,
    /// File for a capture of the sockets.
    pub capture: Option<PathBuf>,
    /// Socket options.
    pub socket: SocketOptions,
}

/// The directory that `compare` writes its report into.
pub fn default_out() -> PathBuf {
    PathBuf::from("antiphon-report")
}

impl Default for CompareOptions {
    /// The bundled clip over `wifi-home`, 48 kHz stereo in blocks of 256, all transports.
    fn default() -> Self {
        let name = "wifi-home";
        CompareOptions {
            peer: None,
            hosts_part: true,
            link: (name.into(), name.parse().expect("a preset of this name")),
            length: None,
            channels: None,
            rate: None,
            transports: Vec::new(),
            current: None,
            source: "clip:demo".into(),
            video: Vec::new(),
            video_rate: None,
            seed: 1,
            out: Some(default_out()),
            block_frames: 256,
            sample: None,
            latency: DEFAULT_LATENCY,
            conceal: Concealment::default(),
            expire: true,
            protect: Repetition::default(),
            wait: WaitStyle::default(),
            socket: SocketOptions::default(),
            link_method: None,
            capture: None,
            passport: None,
            command: String::new(),
        }
    }
}

impl Default for SendOptions {
    /// The bundled clip in blocks of 256 sample frames; a target must be set.
    fn default() -> Self {
        SendOptions {
            source: "clip:demo".into(),
            programmes: Vec::new(),
            backup: None,
            target: String::new(),
            video: Vec::new(),
            video_rate: None,
            video_tracks: Vec::new(),
            video_over: None,
            data: Vec::new(),
            data_over: None,
            data_rate: None,
            data_deadline: None,
            most_receivers: MOST_RECEIVERS,
            also: Vec::new(),
            switch: Vec::new(),
            purpose: Purpose::PlayTogether,
            in_step: None,
            block_frames: None,
            coding: None,
            bit_rate: None,
            channels: None,
            channel_map: None,
            groups: None,
            rate: None,
            ptime: None,
            framing: StreamFraming::default(),
            payload_type: None,
            latency: None,
            protect: Repetition::default(),
            length: None,
            sdp: None,
            ptp: None,
            plain: false,
            announce: None,
            wait_for_peer: false,
            spool: SpoolPlace::default(),
            complete: None,
            capture: None,
            passport: None,
            command: String::new(),
            wait: WaitStyle::default(),
            socket: SocketOptions::default(),
            seed: 1,
        }
    }
}

impl ReceiveOptions {
    /// The playout delay that holds unless the URI or the sender says another one: the asked one, or the usual one of the sink; no sink stands for
    /// the default device. `None`: a recording has none, and nothing is played to a sink that can't be read.
    pub fn playout_delay(&self) -> Option<Latency> {
        if self.sink.is_empty() {
            return self.latency.or(Some(device_latency()));
        }
        // What is wrong with it `receive` says.
        let sink: SinkSpec = self.sink.parse().ok()?;
        playout_delay(asked_latency(self.latency, &sink), &sink, self.clock)
    }
}

impl Default for ReceiveOptions {
    /// From any sender on [`DEFAULT_PORT`]; a sink must be set.
    fn default() -> Self {
        ReceiveOptions {
            source: format!("rtp://:{DEFAULT_PORT}"),
            programme: ProgrammeChoice::default(),
            also: Vec::new(),
            sink: String::new(),
            video_tracks: Vec::new(),
            video_over: None,
            data: Vec::new(),
            data_over: None,
            latency: None,
            in_step: None,
            conceal: None,
            gaps: LongGaps::default(),
            framing: StreamFraming::default(),
            clock: SinkClock::default(),
            description: None,
            pictures: None,
            any_payload_type: false,
            forever: false,
            length: None,
            complete: None,
            announce: None,
            give_up: None,
            capture: None,
            passport: None,
            command: String::new(),
            wait: WaitStyle::default(),
            socket: SocketOptions::default(),
            seed: 1,
        }
    }
}

impl Default for ReflectOptions {
    /// All transports, for any peer, on [`DEFAULT_PORT`].
    fn default() -> Self {
        ReflectOptions {
            listen: SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT),
            transports: Vec::new(),
            max_peers: 64,
            announce: None,
            length: None,
            capture: None,
            socket: SocketOptions::default(),
        }
    }
}

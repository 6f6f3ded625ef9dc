//! Options of `receive`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use antiphon::core::units::parse_duration;
use antiphon::media::StreamDescription;
use antiphon::media::conceal::Concealment;
use antiphon::session::{LongGaps, StreamFraming};
use antiphon::video::{VideoDescription, VideoSdpError};
use antiphon::{Error, Latency, ProgrammeChoice, ReceiveOptions};
use clap::{Args, ValueHint};

use super::stream::{CaptureArgs, PaceArgs, PassportArgs, ScreenArgs, completing};
use super::{ListenSocketArgs, MetricsArgs, VoiceArgs, VoiceReceiveArgs, WaitArgs};
use crate::completions;
use crate::values::{self, WireFormat};

/// How to receive.
#[derive(Args, Debug)]
#[command(after_help = RECEIVE_EXAMPLES)]
pub struct ReceiveArgs {
    /// Where to listen: rtp://:PORT, rtp://@239.1.2.3:PORT, tcp://:PORT …; or
    /// a sender to call that listens itself: rtp://HOST:PORT; or an SDP file that
    /// tells it: FILE.sdp
    #[arg(value_parser = completions::completed(values::received_from, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url)]
    pub source: String,
    /// Where to play or record it: file:take.wav, jack:, pulse:, - …; with its
    /// pictures: film.mkv, player: (mpv or ffplay), '-?format=mkv'
    #[arg(value_parser = completions::completed(values::uri, completions::receive_sinks), hide_possible_values = true, value_hint = ValueHint::Other, required_unless_present_any = ["voice", "programmes"])]
    pub sink: Option<String>,

    /// Hear this programme of a sender that is called, by its name or number;
    /// -: names come as lines on standard input, the latest one counts
    #[arg(long, value_name = "NAME|-", conflicts_with = "voice", help_heading = "Transport")]
    pub programme: Option<String>,
    /// List the programmes of the sender that is called, and end
    #[arg(long, conflicts_with_all = ["voice", "programme", "screen"], help_heading = "Transport")]
    pub programmes: bool,
    /// Also listen for the same sender on this address or transport, for a
    /// sender with --also or --switch
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, help_heading = "Transport")]
    pub also: Vec<String>,
    /// Record the pictures that a sender sends with --video-track into this file,
    /// NAME.mkv, with the sound as well; again for each further one of the sender's
    #[arg(long, value_name = "NAME.mkv", value_hint = ValueHint::FilePath, conflicts_with_all = ["voice", "programmes"], help_heading = "Transport")]
    pub video_track: Vec<String>,
    /// Listen for the pictures on another transport than for the sound: tcp,
    /// sctp …, two ports above the sound's, or a URI: tcp://:7720. For a sender
    /// with the same
    #[arg(long, value_name = "SCHEME|URI", value_parser = completions::completed(values::uri, completions::transports), hide_possible_values = true, value_hint = ValueHint::Url, conflicts_with_all = ["voice", "also"], help_heading = "Transport")]
    pub video_over: Option<String>,
    /// Write what a sender sends with --data into this file, or - to standard
    /// output, line by line; again for each further one of the sender's
    #[arg(long, value_name = "FILE|-", allow_hyphen_values = true, value_hint = ValueHint::FilePath, conflicts_with_all = ["voice", "forever", "programmes"], help_heading = "Data")]
    pub data: Vec<String>,
    /// Listen for the data on another transport than for the sound, as the
    /// sender's --data-over
    #[arg(long, value_name = "SCHEME|URI", value_parser = completions::completed(values::uri, completions::transports), hide_possible_values = true, value_hint = ValueHint::Url, requires = "data", conflicts_with = "also", help_heading = "Data")]
    pub data_over: Option<String>,

    /// Playout delay; packets that arrive later are late. auto: adapts to the
    /// path, by stretching the sound: auto,min=10ms,max=150ms; freeze=30s keeps
    /// what it is after that time [default: auto for jack:, pulse: and alsa:,
    /// unless the sender keeps its receivers in step; 80ms for pipes and players;
    /// a file waits for every packet]
    #[arg(long, value_name = "TIME|auto", value_parser = str::parse::<Latency>, help_heading = "Listener")]
    pub latency: Option<Latency>,
    /// Play each sample this long after its capture by the PTP clock that the SDP
    /// names (AES67) and that this machine's clock follows (ptp4l, phc2sys): all
    /// such receivers play at the same time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["latency", "voice", "programme", "programmes"], help_heading = "Listener")]
    pub in_step: Option<Duration>,
    /// What is played in place of missing sound: silence, repetition or
    /// prediction [default: prediction; silence in a file that waits for every
    /// packet]
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<Concealment>, completions::concealments), hide_possible_values = true, help_heading = "Listener")]
    pub conceal: Option<Concealment>,
    /// What a file that waits for every packet has in place of a long gap.
    /// silence: it is as long as the performance. cut: nothing
    #[arg(long, value_name = "HOW", value_parser = completions::one_of([("silence", LongGaps::Silence), ("cut", LongGaps::Cut)]), default_value = "silence", help_heading = "Listener")]
    pub gaps: LongGaps,
    #[command(flatten)]
    pub pace: PaceArgs,

    /// Read the format of the sound, and of pictures beside it, from an SDP file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "format", help_heading = "Stream")]
    pub sdp: Option<PathBuf>,
    /// The stream's format, such as l24/48000/2 [default: from the sender or
    /// the payload type]
    #[arg(short, long, value_name = "FORMAT", value_parser = completions::completed(str::parse::<WireFormat>, completions::formats), hide_possible_values = true, help_heading = "Stream")]
    pub format: Option<WireFormat>,
    /// Framing around RTP packets, the same as the sender's: rtp or medusa
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<StreamFraming>, completions::framings), hide_possible_values = true, default_value = "rtp", help_heading = "Stream")]
    pub framing: StreamFraming,
    /// The stream's RTP payload type, together with --format
    #[arg(long, value_name = "N", value_parser = values::payload_type, requires = "format", help_heading = "Stream")]
    pub payload_type: Option<u8>,
    /// Keep listening after the sender has ended the stream
    #[arg(long, help_heading = "Stream")]
    pub forever: bool,
    /// Stop after this time [default: when the sender ends the stream]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, help_heading = "Stream")]
    pub seconds: Option<Duration>,
    /// Complete the recording after the stream: ask a sender with --complete
    /// for what is missing, over TCP on the same port, or on this address
    #[arg(long, value_name = "URI", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Stream")]
    pub complete: Option<String>,
    /// Tell the network by mDNS, under this name, that this waits for a sender:
    /// 'antiphon peers' shows it
    #[arg(long, value_name = "NAME", value_parser = values::session_name, conflicts_with = "voice", help_heading = "Stream")]
    pub announce: Option<String>,
    /// Give up after this time without a packet, with exit code 4 [default:
    /// wait]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Stream")]
    pub give_up: Option<Duration>,
    #[command(flatten)]
    pub capture: CaptureArgs,
    #[command(flatten)]
    pub recorded: PassportArgs,
    /// Seed of the SSRC and the report intervals [default: random]
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, help_heading = "Stream")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub shown: ScreenArgs,

    #[command(flatten)]
    pub listens: VoiceReceiveArgs,
    #[command(flatten)]
    pub voice: VoiceArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub socket: ListenSocketArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

impl ReceiveArgs {
    /// Converts to the facade's options; reads the SDP file. `fresh_seed` is used if no seed was given.
    pub fn options(&self, fresh_seed: u64) -> Result<ReceiveOptions, Error> {
        let named = described_by(&self.source);
        if named.is_some() && (self.sdp.is_some() || self.format.is_some()) {
            return Err(Error::usage(format!("{} tells the format: omit --sdp and --format", self.source)));
        }
        let (mut source, mut pictures) = (self.source.clone(), None);
        let description = match (named.as_deref().or(self.sdp.as_deref()), self.format) {
            (Some(path), _) => {
                let option = || format!("--sdp {}", path.display());
                let name = named.as_ref().map_or_else(option, |path| path.display().to_string());
                let described = read_sdp(path, &name)?;
                if named.is_some() {
                    source = where_to_listen(&described.0);
                }
                pictures = described.1;
                Some(described.0)
            }
            (None, Some(format)) => Some(self.describe(format)?),
            (None, None) => None,
        };
        Ok(ReceiveOptions {
            source,
            pictures,
            also: self.also.clone(),
            video_tracks: self.video_track.clone(),
            video_over: self.video_over.clone(),
            data: self.data.clone(),
            data_over: self.data_over.clone(),
            sink: self.sink.clone().unwrap_or_else(|| "null:".into()),
            programme: ProgrammeChoice::new(self.programme.clone().filter(|name| name != "-")),
            latency: self.latency,
            in_step: self.in_step,
            conceal: self.conceal,
            gaps: self.gaps,
            framing: self.framing,
            clock: self.pace.clock,
            description,
            any_payload_type: self.format.is_some() && self.payload_type.is_none(),
            forever: self.forever,
            length: self.seconds,
            complete: completing(self.complete.as_deref()),
            announce: self.announce.clone(),
            give_up: self.give_up,
            capture: self.capture.capture.clone(),
            passport: self.recorded.passport.clone(),
            command: String::new(),
            wait: self.wait.style(),
            socket: self.socket.options(),
            seed: self.seed.unwrap_or(fresh_seed),
        })
    }

    fn describe(&self, format: WireFormat) -> Result<StreamDescription, Error> {
        let described = format.description()?;
        Ok(match self.payload_type {
            Some(payload_type) => described.with_payload_type(payload_type.into())?,
            None => described,
        })
    }
}

/// Ten times the longest SDP that describes a stream of 64 channels.
const MAX_SDP: u64 = 64 * 1024;

/// Pictures that SDP describes, or why they can't be received.
type Pictures = Result<VideoDescription, VideoSdpError>;

/// The file, if the source is one with SDP.
fn described_by(source: &str) -> Option<PathBuf> {
    let is_file = !source.contains("://") && Path::new(source).extension().is_some_and(|end| end == "sdp");
    is_file.then(|| source.into())
}

/// Where a stream comes: to a group, or to this machine.
fn where_to_listen(described: &StreamDescription) -> String {
    let port = described.port.map_or_else(String::new, |port| format!(":{port}"));
    let host = |address: IpAddr| if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    match described.address {
        Some(address) if address.is_multicast() => format!("rtp://@{}{port}", host(address)),
        Some(address) if address.is_loopback() => format!("rtp://{}{port}", host(address)),
        // The sender's file names this machine as the sender knows it.
        _ => format!("rtp://{port}"),
    }
}

/// The sound that an SDP file describes, and the pictures beside it. `name`: as the user gave it.
fn read_sdp(path: &Path, name: &str) -> Result<(StreamDescription, Option<Pictures>), Error> {
    use std::io::Read;
    let unreadable =
        |error: std::io::Error| Error::usage(format!("{name}: {error}; give a file that 'send --sdp' wrote"));
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_SDP + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_SDP {
        return Err(Error::usage(format!("{name}: larger than {MAX_SDP} bytes, so it is not an SDP file")));
    }
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("{name}: {error}"));
    let sound = StreamDescription::from_sdp(&text).map_err(|error| wrong(&error))?;
    let pictures = match VideoDescription::from_sdp(&text) {
        Err(VideoSdpError::NoVideo) => None,
        // Without them the sound goes on.
        read => Some(read),
    };
    Ok((sound, pictures))
}

const RECEIVE_EXAMPLES: &str = "\
Examples, as a musician:
  antiphon receive rtp://:7710 file:take.wav
      record the first sender until it ends the stream
  antiphon receive tcp://:7710 file:take.wav --latency 40ms
      record what a listener with a buffer of 40 ms would hear
  antiphon receive rtp://:7710 jack: --latency 5ms
      play to a JACK server
  antiphon receive rtp://:7710 'pulse:?buffer=10ms' --latency 10ms
      play through PipeWire or PulseAudio
  antiphon receive rtp://:7710 player:
      watch a stream with pictures in mpv or ffplay; film.mkv records it
  antiphon receive rtp://tv.local:7710 --programmes
      list what that sender serves; --programme NAME chooses
As an engineer:
  antiphon receive rtp://@239.1.2.3:7710 '-?format=s16le' --forever | aplay ...
      join a group and keep playing when senders change
  antiphon receive xtp://@239.1.2.3 file:take.wav
      join a group and request what is lost; from: send … xtp://239.1.2.3
  antiphon receive 'dccp://:5004?over=ip' file:take.wav
      directly over IP, without UDP (sctp, dccp, xtp); needs root
  antiphon receive --voice xtp://:5004 file:call.wav
      record telephone channels, each in a file: call-0001.wav …
  antiphon receive rtp://:7710 null: --format l24/48000/2 --payload-type 97
      a stream of another program; --sdp FILE takes the format from its SDP
  antiphon receive film.sdp player:
      sound and pictures of another program, as its SDP file tells
  antiphon receive tcp://:7710 file:take.wav --framing medusa
      from a sender with the same framing";

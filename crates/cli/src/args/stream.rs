//! Options of `send` and `receive`.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::units::{parse_duration, parse_frequency};
use antiphon::measure::Purpose;
use antiphon::media::conceal::Concealment;
use antiphon::media::{SdpError, StreamDescription};
use antiphon::net::SocketOptions;
use antiphon::session::{LongGaps, PlayoutDelay, Repetition, StreamFraming};
use antiphon::{CompleteOver, Error, ReceiveOptions, SendOptions, SinkClock, SpoolPlace, Switch};
use clap::{Args, ValueHint};

use super::{AllowArgs, SocketArgs, VoiceArgs, VoiceReceiveArgs, VoiceSendArgs, WaitArgs};
use crate::completions;
use crate::values::{self, WireFormat};

/// How to send.
#[derive(Args, Debug)]
#[command(after_help = SEND_EXAMPLES)]
pub struct SendArgs {
    /// What to send: file:song.flac, clip:demo, tone:440Hz, - …
    #[arg(value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other)]
    pub source: String,
    /// Where to send it: rtp://HOST:PORT, tcp://HOST:PORT …
    #[arg(value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, required_unless_present = "voice")]
    pub target: Option<String>,

    /// Also send the stream over this address or transport; the receiver needs
    /// a matching --also
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, help_heading = "Transport")]
    pub also: Vec<String>,
    /// Switch to another transport after this much sound, without a gap:
    /// sctp://HOST:PORT@10s; the receiver needs --also for it
    #[arg(long, value_name = "URI@TIME", help_heading = "Transport")]
    pub switch: Vec<Switch>,
    /// What auto://HOST:PORT chooses the transport for
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = completions::purpose(),
        default_value = Purpose::PlayTogether.name(),
        help_heading = "Transport"
    )]
    pub purpose: Purpose,

    /// Sample format on the wire: l16, l24, f32, mulaw or alaw; with rate and
    /// channels as in SDP: l16/48000/2 [default: what the source needs]
    #[arg(short, long, value_name = "FORMAT", value_parser = completions::completed(str::parse::<WireFormat>, completions::formats), hide_possible_values = true, help_heading = "Sound")]
    pub format: Option<WireFormat>,
    /// Channels, 1 to 64 [default: those of the source]
    #[arg(short, long, value_name = "N", value_parser = values::channels, help_heading = "Sound")]
    pub channels: Option<u32>,
    /// Channels of the source to send, in order, such as 2,1
    #[arg(long, value_name = "MAP", help_heading = "Sound")]
    pub channel_map: Option<String>,
    /// Split the channels into groups, each a stream of its own, such as 2,2,4,
    /// or 2 for pairs: a loss affects one group only [default: one group]
    #[arg(long, value_name = "N,N…", value_parser = values::groups, help_heading = "Sound")]
    pub groups: Option<String>,
    /// Sampling rate, such as 48kHz [default: that of the source]
    #[arg(short, long, value_name = "RATE", value_parser = parse_frequency, help_heading = "Sound")]
    pub rate: Option<u32>,
    /// Sample frames in a block, 16 to 4096
    #[arg(short, long, value_name = "FRAMES", value_parser = values::block, default_value = "256", help_heading = "Sound")]
    pub block: u32,
    /// Stop after this much sound [default: at the end of the source]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, help_heading = "Sound")]
    pub seconds: Option<Duration>,

    /// Longest packet, such as 1ms for AES67 [default: one block]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Stream")]
    pub ptime: Option<Duration>,
    /// Framing around RTP packets. rtp: none. medusa: each packet follows a
    /// key, in blocks of 1024 bytes, so that the receiver resynchronises after
    /// missing or corrupt bytes. Both sides need the same
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<StreamFraming>, completions::framings), hide_possible_values = true, default_value = "rtp", help_heading = "Stream")]
    pub framing: StreamFraming,
    /// RTP payload type [default: the static one that fits, or 96]
    #[arg(long, value_name = "N", value_parser = values::payload_type, help_heading = "Stream")]
    pub payload_type: Option<u8>,
    /// Discard packets that have waited longer than this; the receiver's
    /// playout delay replaces it once reported [default: 80ms for live sources,
    /// none for others]
    #[arg(long, value_name = "TIME", value_parser = values::playout_delay, help_heading = "Stream")]
    pub latency: Option<PlayoutDelay>,
    /// Send each packet several times, with this time between the copies:
    /// repeat:2,spacing=10ms
    #[arg(long, value_name = "HOW", value_parser = completions::completed(str::parse::<Repetition>, completions::protections), hide_possible_values = true, default_value = "none", help_heading = "Stream")]
    pub protect: Repetition,
    /// Write an SDP file for other players
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub sdp: Option<PathBuf>,
    /// Where sound of a live source waits while a recording cannot be reached
    /// and memory is full, up to 1 GB: a directory, or off [default: the cache
    /// directory]
    #[arg(long, value_name = "DIR|off", value_parser = values::spool, value_hint = ValueHint::DirPath, help_heading = "Stream")]
    pub spool: Option<SpoolPlace>,
    /// After the stream, send a recording that is received with --complete
    /// what it misses, over TCP on the same port, or to this address
    #[arg(long, value_name = "URI", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Stream")]
    pub complete: Option<String>,
    /// Keep trying until the peer answers
    #[arg(short, long, help_heading = "Stream")]
    pub wait_for_peer: bool,
    /// Capture the packets at this end as pcapng for Wireshark, with their
    /// content: SCTP and DCCP without UDP, and the RTP of any transport
    #[arg(long, value_name = "FILE.pcapng", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub capture: Option<PathBuf>,
    /// Record when each packet was sent and received, or that it was lost, as
    /// JSON lines for `lab replay` and scripts
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub passport: Option<PathBuf>,
    /// Seed of the SSRC and the first sequence number [default: random]
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, help_heading = "Stream")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub calls: VoiceSendArgs,
    #[command(flatten)]
    pub voice: VoiceArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// How to receive.
#[derive(Args, Debug)]
#[command(after_help = RECEIVE_EXAMPLES)]
pub struct ReceiveArgs {
    /// Where to listen: rtp://:PORT, rtp://@239.1.2.3:PORT, tcp://:PORT …
    #[arg(value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url)]
    pub source: String,
    /// Where to play or record it: file:take.wav, - …
    #[arg(value_parser = completions::completed(values::uri, completions::sinks), hide_possible_values = true, value_hint = ValueHint::Other, required_unless_present = "voice")]
    pub sink: Option<String>,

    /// Also listen for the same sender on this address or transport, for a
    /// sender with --also or --switch
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, help_heading = "Transport")]
    pub also: Vec<String>,

    /// Playout delay; packets that arrive later are late [default: 80ms; a file
    /// waits for every packet]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Listener")]
    pub latency: Option<Duration>,
    /// What is played in place of missing sound: silence or repetition
    /// [default: repetition; silence in a file that waits for every packet]
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<Concealment>, completions::concealments), hide_possible_values = true, help_heading = "Listener")]
    pub conceal: Option<Concealment>,
    /// What a file that waits for every packet has in place of a long gap.
    /// silence: it is as long as the performance. cut: nothing
    #[arg(long, value_name = "HOW", value_parser = completions::one_of([("silence", LongGaps::Silence), ("cut", LongGaps::Cut)]), default_value = "silence", help_heading = "Listener")]
    pub gaps: LongGaps,

    /// Clock that paces the sink. sender: plays exactly the samples that were
    /// sent. system: resamples to follow the sender's drift
    #[arg(long, value_name = "WHOSE", value_parser = completions::one_of([("sender", SinkClock::Sender), ("system", SinkClock::System)]), default_value = "sender", help_heading = "Listener")]
    pub clock: SinkClock,

    /// Read the stream's format from an SDP file
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
    /// Give up after this time without a packet, with exit code 4 [default:
    /// wait]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Stream")]
    pub give_up: Option<Duration>,
    /// Capture the packets at this end as pcapng for Wireshark, with their
    /// content: SCTP and DCCP without UDP, and the RTP of any transport
    #[arg(long, value_name = "FILE.pcapng", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub capture: Option<PathBuf>,
    /// Record when each packet was sent and received, or that it was lost, as
    /// JSON lines for `lab replay` and scripts
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub passport: Option<PathBuf>,
    /// Seed of the SSRC and the report intervals [default: random]
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, help_heading = "Stream")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub listens: VoiceReceiveArgs,
    #[command(flatten)]
    pub voice: VoiceArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub allow: AllowArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// Where a recording is completed; without a URI on the port of the stream.
fn completing(uri: Option<&str>) -> Option<CompleteOver> {
    uri.map(|uri| match uri {
        "" => CompleteOver::SamePort,
        uri => CompleteOver::Uri(uri.into()),
    })
}

impl SendArgs {
    /// Converts to the facade's options. `fresh_seed` is used if no seed was given.
    pub fn options(&self, fresh_seed: u64) -> Result<SendOptions, Error> {
        // Not given: each part stays open, and the source decides.
        let format = self.format.unwrap_or_default();
        Ok(SendOptions {
            source: self.source.clone(),
            target: self.target.clone().expect("clap asks for a target where there is no --voice"),
            also: self.also.clone(),
            switch: self.switch.clone(),
            purpose: self.purpose,
            block_frames: self.block,
            sample: format.sample,
            channels: agree("--channels", self.channels, format.channels)?,
            channel_map: self.channel_map.clone(),
            groups: self.groups.clone(),
            rate: agree("--rate", self.rate, format.rate)?,
            ptime: self.ptime,
            framing: self.framing,
            payload_type: self.payload_type,
            latency: self.latency,
            protect: self.protect,
            length: self.seconds,
            sdp: self.sdp.clone(),
            wait_for_peer: self.wait_for_peer,
            spool: self.spool.clone().unwrap_or_default(),
            complete: completing(self.complete.as_deref()),
            capture: self.capture.clone(),
            passport: self.passport.clone(),
            command: String::new(),
            wait: self.wait.style(),
            socket: self.socket.options(),
            seed: self.seed.unwrap_or(fresh_seed),
        })
    }
}

impl ReceiveArgs {
    /// Converts to the facade's options; reads the SDP file. `fresh_seed` is used if no seed was given.
    pub fn options(&self, fresh_seed: u64) -> Result<ReceiveOptions, Error> {
        let description = match (&self.sdp, self.format) {
            (Some(path), _) => Some(read_sdp(path)?),
            (None, Some(format)) => Some(self.describe(format)?),
            (None, None) => None,
        };
        Ok(ReceiveOptions {
            source: self.source.clone(),
            also: self.also.clone(),
            sink: self.sink.clone().expect("clap asks for a sink where there is no --voice"),
            latency: self.latency,
            conceal: self.conceal,
            gaps: self.gaps,
            framing: self.framing,
            clock: self.clock,
            description,
            any_payload_type: self.format.is_some() && self.payload_type.is_none(),
            forever: self.forever,
            length: self.seconds,
            complete: completing(self.complete.as_deref()),
            give_up: self.give_up,
            capture: self.capture.clone(),
            passport: self.passport.clone(),
            command: String::new(),
            wait: self.wait.style(),
            socket: self.socket_options(),
            seed: self.seed.unwrap_or(fresh_seed),
        })
    }

    /// The socket's options, with whom it hears.
    pub fn socket_options(&self) -> SocketOptions {
        SocketOptions { allow: self.allow.list(), ..self.socket.options() }
    }

    fn describe(&self, format: WireFormat) -> Result<StreamDescription, Error> {
        let described = format.description()?;
        Ok(match self.payload_type {
            Some(payload_type) => described.with_payload_type(payload_type.into())?,
            None => described,
        })
    }
}

/// One value from two options, which must not contradict each other.
fn agree(option: &str, given: Option<u32>, format: Option<u32>) -> Result<Option<u32>, Error> {
    match (given, format) {
        (Some(given), Some(format)) if given != format => {
            Err(Error::usage(format!("{option} says {given} and --format says {format}: give one of them")))
        }
        _ => Ok(given.or(format)),
    }
}

/// Ten times the longest SDP that describes a stream of 64 channels.
const MAX_SDP: u64 = 64 * 1024;

fn read_sdp(path: &std::path::Path) -> Result<StreamDescription, Error> {
    use std::io::Read;
    let unreadable = |error: std::io::Error| {
        Error::usage(format!("--sdp {}: {error}; give a file that 'send --sdp' wrote", path.display()))
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_SDP + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_SDP {
        return Err(Error::usage(format!(
            "--sdp {}: larger than {MAX_SDP} bytes, so it is not an SDP file",
            path.display()
        )));
    }
    let wrong = |error: SdpError| Error::usage(format!("--sdp {}: {error}", path.display()));
    StreamDescription::from_sdp(&text).map_err(wrong)
}

const SEND_EXAMPLES: &str = "\
Examples, as a musician:
  antiphon send file:song.flac rtp://192.0.2.7:7710
      to a computer that runs: antiphon receive rtp://:7710 file:take.wav
  antiphon send file:song.flac sctp://studio.local --wait-for-peer
      without loss; starts when the receiver is running
As an engineer:
  antiphon send tone:440Hz rtp://239.1.2.3:7710 --ttl 4 --sdp tone.sdp
      to a group; play it: ffplay -protocol_whitelist file,rtp,udp tone.sdp
  antiphon send file:concert.wav sctp://stage.local --groups 2,2,4
      eight channels in three groups; a loss in one does not delay the others
  antiphon send file:song.flac tcp://studio.local:7710 --framing medusa
      resynchronises after missing or corrupt bytes
  antiphon send tone:440Hz 'sctp://192.0.2.7:5004?over=ip'
      directly over IP, without UDP (sctp, dccp); needs root
  antiphon send --voice 24 xtp://exchange.local:5004 --voice-size 80B
      24 telephone channels, both ways if the receiver has --voice-send 24
  arecord -f S16_LE -r 48000 -c 2 -t raw |
    antiphon send '-?format=s16le&rate=48kHz&channels=2' rtp://host:7710
      from a sound card; --block 64 reduces the delay";

const RECEIVE_EXAMPLES: &str = "\
Examples, as a musician:
  antiphon receive rtp://:7710 file:take.wav
      record the first sender until it ends the stream
  antiphon receive tcp://:7710 file:take.wav --latency 40ms
      record what a listener with a buffer of 40 ms would hear
As an engineer:
  antiphon receive rtp://@239.1.2.3:7710 '-?format=s16le' --forever | aplay ...
      join a group and keep playing when senders change
  antiphon receive 'dccp://:5004?over=ip' file:take.wav
      directly over IP, without UDP (sctp, dccp); needs root
  antiphon receive --voice xtp://:5004 file:call.wav
      record telephone channels, each in a file: call-0001.wav …
  antiphon receive rtp://:7710 null: --format l24/48000/2 --payload-type 97
      a stream of another program; --sdp FILE takes the format from its SDP
  antiphon receive tcp://:7710 file:take.wav --framing medusa
      from a sender with the same framing";

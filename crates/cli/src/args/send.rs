//! Options of `send`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use antiphon::core::BitRate;
use antiphon::core::units::parse_duration;
use antiphon::measure::Purpose;
use antiphon::media::PtpClock;
use antiphon::session::PlayoutDelay;
use antiphon::{
    ANNOUNCEMENT_GROUPS, Announce, Backup, Error, MOST_RECEIVERS, ProgrammeSource, SendOptions, SpoolPlace,
    Switch,
};
use clap::{Args, ValueHint};

use super::stream::{
    CaptureArgs, PacketArgs, PassportArgs, PictureArgs, ScreenArgs, SoundArgs, completing, stream_options,
};
use super::{ListenSocketArgs, MetricsArgs, VoiceArgs, VoiceSendArgs, WaitArgs};
use crate::completions;
use crate::values;

/// How to send.
#[derive(Args, Debug)]
#[command(after_help = SEND_EXAMPLES)]
pub struct SendArgs {
    /// What to send: file:song.flac, clip:demo, tone:440Hz, jack:, pulse:, - …
    /// With --audio or --programme only the target follows
    #[arg(value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other)]
    pub source: String,
    /// Where to send it: rtp://HOST:PORT, tcp://HOST:PORT …; or where many
    /// receivers can call: rtp://:PORT, tcp://:PORT …
    #[arg(value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, required_unless_present_any = ["voice", "programme", "audio"])]
    pub target: Option<String>,

    /// What to send, in place of the first argument:
    /// antiphon send --audio FILE --video FILE rtp://HOST
    #[arg(long, value_name = "SOURCE", value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other, conflicts_with_all = ["voice", "programme"], help_heading = "Sound")]
    pub audio: Option<String>,
    /// Also send the stream over this address or transport; the receiver needs
    /// a matching --also
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, help_heading = "Transport")]
    pub also: Vec<String>,
    /// Switch to another transport after this much sound, without a gap:
    /// sctp://HOST:PORT@10s; the receiver needs --also for it
    #[arg(long, value_name = "URI@TIME", help_heading = "Transport")]
    pub switch: Vec<Switch>,
    /// Serve this source under this name; given several times, receivers choose
    /// among them (receive --programme). All are sent in the first one's format
    #[arg(long, value_name = "NAME=SOURCE", value_parser = str::parse::<ProgrammeSource>, conflicts_with_all = ["voice", "also", "switch", "complete", "passport"], help_heading = "Transport")]
    pub programme: Vec<ProgrammeSource>,
    /// Receivers that may call at once, of a sender that listens (rtp://:PORT);
    /// others are refused. A file starts with the first one
    #[arg(long, value_name = "N", value_parser = values::peers, default_value_t = MOST_RECEIVERS, help_heading = "Transport")]
    pub most_receivers: usize,
    /// What auto://HOST:PORT chooses the transport for. tv (or tv-sound), over
    /// any transport: receivers play within 80 ms of the picture, in step, and
    /// the sender says who can't or misses over 1.8 %
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = completions::purpose(),
        default_value = Purpose::PlayTogether.name(),
        help_heading = "Transport"
    )]
    pub purpose: Purpose,

    /// Have all receivers play each sample this long after its capture, at the
    /// same time [default: 80ms with --purpose tv, otherwise each as it likes]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Stream")]
    pub in_step: Option<Duration>,

    /// What to send while the source is silent or gives nothing: file:, tone: …
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other, help_heading = "Sound")]
    pub backup: Option<String>,
    /// How long the source may be silent before the backup is sent
    #[arg(long, value_name = "TIME", value_parser = values::seconds, requires = "backup", default_value = "2s", help_heading = "Sound")]
    pub backup_after: Duration,
    #[command(flatten)]
    pub pictures: PictureArgs,
    /// A further track of pictures beside that of --video: another camera, slides
    /// … Again for further ones, 3 at most; each gives way to those before it, and
    /// the receiver needs as many --video-track. The same film at several bit
    /// rates: FILE,FILE…, the lowest first
    #[arg(long, value_name = "FILE[,FILE…]", value_hint = ValueHint::FilePath, requires = "video", help_heading = "Pictures")]
    pub video_track: Vec<String>,
    /// Send the pictures over another transport than the sound: tcp, sctp, dccp,
    /// xtp, srp, arq or rtp, at the same host, two ports above the sound's; or a
    /// URI: 'sctp://HOST:7720?streams=4'. The receiver needs the same
    #[arg(long, value_name = "SCHEME|URI", value_parser = completions::completed(values::uri, completions::transports), hide_possible_values = true, value_hint = ValueHint::Url, requires = "video", help_heading = "Pictures")]
    pub video_over: Option<String>,
    /// A file that is sent beside the sound, byte for byte, behind sound and
    /// pictures; or - (a pipe): lines as they come. Again for further ones, 4 at
    /// most; the receiver needs as many --data
    #[arg(long, value_name = "FILE|-", allow_hyphen_values = true, value_hint = ValueHint::FilePath, conflicts_with_all = ["voice", "programme"], help_heading = "Data")]
    pub data: Vec<String>,
    /// Send the data over another transport than the sound, as --video-over. The
    /// same as there: together with the pictures; another: four ports above the
    /// sound's
    #[arg(long, value_name = "SCHEME|URI", value_parser = completions::completed(values::uri, completions::transports), hide_possible_values = true, value_hint = ValueHint::Url, requires = "data", help_heading = "Data")]
    pub data_over: Option<String>,
    /// Send no more of each of them than this: 64kbit/s [default: what sound and
    /// pictures leave; 64kbit/s where nobody tells what the path carries, as over
    /// tcp]
    #[arg(long, value_name = "RATE", value_parser = str::parse::<BitRate>, requires = "data", help_heading = "Data")]
    pub data_rate: Option<BitRate>,
    /// Leave out what has waited for so long since it was read [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "data", help_heading = "Data")]
    pub data_deadline: Option<Duration>,
    #[command(flatten)]
    pub sound: SoundArgs,
    #[command(flatten)]
    pub packets: PacketArgs,

    /// Discard packets that have waited longer than this; the receiver's
    /// playout delay replaces it once reported [default: 80ms for live sources,
    /// none for others]
    #[arg(long, value_name = "TIME", value_parser = values::playout_delay, help_heading = "Stream")]
    pub latency: Option<PlayoutDelay>,
    /// Write an SDP file for other players; with --video, pictures then have a
    /// port of their own, two above the sound's
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub sdp: Option<PathBuf>,
    /// Have RTP time stamps count a PTP clock, for AES67 devices that insist on
    /// one: its grandmaster and domain, 39-A7-94-FF-FE-07-CB-D0:0, or traceable.
    /// ptp4l and phc2sys must steer this machine's clock to it
    #[arg(long, value_name = "CLOCK", value_parser = str::parse::<PtpClock>, help_heading = "Stream")]
    pub ptp: Option<PtpClock>,
    /// Leave out RTP header extensions, for receivers that refuse them, such as
    /// PulseAudio and PipeWire
    #[arg(long, conflicts_with = "groups", help_heading = "Stream")]
    pub plain: bool,
    /// Tell the network of a stream under this name, which 'antiphon peers'
    /// shows: one to a group by SAP, so that AES67 devices, PulseAudio and
    /// PipeWire show it, too; one that receivers call by mDNS
    #[arg(long, value_name = "NAME", value_parser = values::session_name, help_heading = "Stream")]
    pub announce: Option<String>,
    /// Group to announce to; PulseAudio and PipeWire listen to 224.0.0.56
    #[arg(long, value_name = "GROUP", value_parser = values::announcement_group, requires = "announce", default_value_t = ANNOUNCEMENT_GROUPS[0], help_heading = "Stream")]
    pub announce_to: Ipv4Addr,
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
    #[command(flatten)]
    pub capture: CaptureArgs,
    #[command(flatten)]
    pub recorded: PassportArgs,
    /// Seed of the SSRC and the first sequence number [default: random]
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, help_heading = "Stream")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub shown: ScreenArgs,

    #[command(flatten)]
    pub calls: VoiceSendArgs,
    #[command(flatten)]
    pub voice: VoiceArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub socket: ListenSocketArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

impl SendArgs {
    /// Converts to the facade's options. `fresh_seed` is used if no seed was given.
    pub fn options(&self, fresh_seed: u64) -> Result<SendOptions, Error> {
        let (source, target) = self.source_and_target()?;
        Ok(SendOptions {
            source,
            programmes: self.programme.clone(),
            backup: self.backup.clone().map(|source| Backup { source, after: self.backup_after }),
            target,
            video_tracks: self.video_track.iter().map(|files| versions(files)).collect(),
            video_over: self.video_over.clone(),
            data: self.data.clone(),
            data_over: self.data_over.clone(),
            data_rate: self.data_rate,
            data_deadline: self.data_deadline,
            most_receivers: self.most_receivers,
            also: self.also.clone(),
            switch: self.switch.clone(),
            purpose: self.purpose,
            in_step: self.in_step,
            latency: self.latency,
            sdp: self.sdp.clone(),
            ptp: self.ptp,
            plain: self.plain,
            announce: self.announce.clone().map(|name| Announce { group: self.announce_to, name }),
            wait_for_peer: self.wait_for_peer,
            spool: self.spool.clone().unwrap_or(SpoolPlace::Default),
            complete: completing(self.complete.as_deref()),
            capture: self.capture.capture.clone(),
            passport: self.recorded.passport.clone(),
            wait: self.wait.style(),
            socket: self.socket.options(),
            seed: self.seed.unwrap_or(fresh_seed),
            ..stream_options(&self.sound, &self.pictures, &self.packets)?
        })
    }
}

impl SendArgs {
    fn source_and_target(&self) -> Result<(String, String), Error> {
        if let Some(source) = &self.audio {
            return match &self.target {
                None => Ok((source.clone(), self.source.clone())),
                Some(target) => Err(Error::usage(format!(
                    "two sources, --audio {source} and {}: write one of them before {target}",
                    self.source
                ))),
            };
        }
        match (&self.target, self.programme.first()) {
            // With a single argument that is the target.
            (None, Some(first)) => Ok((first.source.clone(), self.source.clone())),
            (Some(target), Some(first)) => Err(Error::usage(format!(
                "a source and --programme: write each source as a programme, --programme {}={} --programme MORE={} {target}",
                first.name, first.source, self.source
            ))),
            (Some(target), None) => Ok((self.source.clone(), target.clone())),
            (None, None) => {
                unreachable!("clap asks for a target without --voice, --programme and --audio")
            }
        }
    }
}

const SEND_EXAMPLES: &str = "\
Examples, as a musician:
  antiphon send file:song.flac rtp://192.0.2.7:7710
      to a computer that runs: antiphon receive rtp://:7710 file:take.wav
  antiphon send file:song.flac sctp://studio.local --wait-for-peer
      without loss; starts when the receiver is running
  antiphon send file:film.flac rtp://192.0.2.7:7710 --video film.mp4
      with its pictures, to: antiphon receive rtp://:7710 film.mkv
  antiphon send file:film.flac rtp://192.0.2.7 --video film.mp4 --video-over tcp
      pictures over TCP, to: antiphon receive rtp:// film.mkv --video-over tcp
  captions | antiphon send pulse: rtp://192.0.2.7:7710 --data -
      lines beside the sound, to: antiphon receive rtp://:7710 pulse: --data -
  antiphon send pulse: rtp://:7710 --purpose tv
      to the headsets that run: antiphon receive rtp://THIS_HOST:7710 pulse:
  antiphon send --programme News=file:a.flac --programme Film=jack: rtp://:7710
      receivers choose: antiphon receive rtp://THIS_HOST:7710 --programme Film …
As an engineer:
  antiphon send tone:440Hz rtp://239.1.2.3:7710 --ttl 4 --sdp tone.sdp
      to a group; play it: ffplay -protocol_whitelist file,rtp,udp tone.sdp
  antiphon send file:film.flac rtp://192.0.2.7:7710 --video film.mp4 --sdp f.sdp
      for ffplay -protocol_whitelist file,rtp,udp f.sdp, with pictures
  antiphon send file:song.flac xtp://239.1.2.3
      to a group, repaired, to: antiphon receive xtp://@239.1.2.3 file:take.wav
  antiphon send file:concert.wav sctp://stage.local --groups 2,2,4
      eight channels in three groups; a loss in one does not delay the others
  antiphon send file:song.flac tcp://studio.local:7710 --framing medusa
      resynchronises after missing or corrupt bytes
  antiphon send tone:440Hz 'sctp://192.0.2.7:5004?over=ip'
      directly over IP, without UDP (sctp, dccp, xtp); needs root
  antiphon send --voice 24 xtp://exchange.local:5004 --voice-size 80B
      24 telephone channels, both ways if the receiver has --voice-send 24
  antiphon send jack: rtp://host:7710 --block 64
      from the inputs of a JACK server, in packets of 64 sample frames
  antiphon send pulse: rtp://host:7710
      from the microphone, by PipeWire or PulseAudio
  antiphon send jack: rtp://host:7710 --backup 'file:pause.flac?loop=yes'
      music while the input has been silent for 2 s
  arecord -f S16_LE -r 48000 -c 2 -t raw |
    antiphon send '-?format=s16le&rate=48kHz&channels=2' rtp://host:7710
      from a sound card; --block 64 reduces the delay";

/// The files of a track of pictures; a name that has a comma itself is that of a file that is there.
fn versions(files: &str) -> Vec<PathBuf> {
    match Path::new(files).exists() {
        true => vec![files.into()],
        false => files.split(',').map(PathBuf::from).collect(),
    }
}

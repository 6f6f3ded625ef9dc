//! Options of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::units::{parse_duration, parse_frequency};
use antiphon::link::DuplexSpec;
use antiphon::media::SampleFormat;
use antiphon::media::conceal::Concealment;
use antiphon::session::Repetition;
use antiphon::{CompareOptions, FrameRate, LinkMethod, Requirement};
use clap::{Args, ValueHint};

use super::{SocketArgs, WaitArgs};
use crate::completions;
use crate::values::{self, Directory};

/// How to compare.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Host that runs `antiphon reflect`; without it, an emulated link on this
    /// machine is used
    #[arg(value_name = "HOST[:PORT]")]
    pub peer: Option<String>,

    /// Emulated link: a preset, keys, or a preset with keys that change it,
    /// such as lte,loss=2% (antiphon link --list shows all)
    #[arg(
        short,
        long,
        value_name = "SPEC",
        value_parser = completions::completed(values::link, completions::presets),
        hide_possible_values = true,
        default_value = "wifi-home",
        conflicts_with = "peer",
        help_heading = "What to compare"
    )]
    pub link: String,
    /// Transports, separated by commas; each can have settings:
    /// 'srp?mode=as-published,srp' [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = completions::transport_with_keys(), help_heading = "What to compare")]
    pub transports: Vec<String>,
    /// How much of the source to stream [default: all of it]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, help_heading = "What to compare")]
    pub seconds: Option<Duration>,
    /// Random seed: the same seed makes the same losses at the same time
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, default_value = "1", help_heading = "What to compare")]
    pub seed: u64,
    /// How to emulate the link [default: router where permitted]
    #[arg(long, value_name = "HOW", value_parser = completions::one_of([("router", LinkMethod::Router), ("proxy", LinkMethod::Proxy)]), conflicts_with = "peer", help_heading = "What to compare")]
    pub link_method: Option<LinkMethod>,

    /// Sound source, such as file:song.flac (antiphon devices lists them)
    #[arg(short = 'i', long, value_name = "URI", value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, default_value = "clip:demo", value_hint = ValueHint::Other, help_heading = "Sound")]
    pub source: String,
    /// Channels, 1 to 64 [default: those of the source]
    #[arg(short, long, value_name = "N", value_parser = values::channels, help_heading = "Sound")]
    pub channels: Option<u32>,
    /// Sampling rate, such as 48kHz [default: that of the source]
    #[arg(short, long, value_name = "RATE", value_parser = parse_frequency, help_heading = "Sound")]
    pub rate: Option<u32>,
    /// Sample frames in a block, 16 to 4096
    #[arg(short, long, value_name = "FRAMES", value_parser = values::block, default_value = "256", help_heading = "Sound")]
    pub block: u32,
    /// Sample format on the wire: l16, l24, f32, mulaw or alaw [default: what
    /// the source needs]
    #[arg(short, long, value_name = "NAME", value_parser = completions::completed(values::compared, completions::sample_formats), hide_possible_values = true, help_heading = "Sound")]
    pub format: Option<SampleFormat>,

    /// A file whose pictures are sent beside the first three quarters of the
    /// sound over each transport: MP4, Matroska, WebM, IVF, raw H.264 or JPEGs;
    /// again for the same film at a higher bit rate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Pictures")]
    pub video: Vec<PathBuf>,
    /// Frames a second of a raw stream of pictures: 25, 30000/1001 …
    #[arg(long, value_name = "FPS", value_parser = antiphon::parse_frame_rate, requires = "video", help_heading = "Pictures")]
    pub video_rate: Option<FrameRate>,

    /// Playout delay of the listener; packets that arrive later are late
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "80ms", help_heading = "Listener")]
    pub latency: Duration,
    /// What is played in place of missing sound: silence, repetition or
    /// prediction
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<Concealment>, completions::concealments), hide_possible_values = true, default_value = "prediction", help_heading = "Listener")]
    pub conceal: Concealment,
    /// Keep packets that are older than the playout delay in the sender's
    /// queue: none expires, and those behind them may be late
    #[arg(long, help_heading = "Listener")]
    pub no_expire: bool,
    /// Send each packet several times over every transport, with this time
    /// between the copies: repeat:2,spacing=10ms
    #[arg(long, value_name = "HOW", value_parser = completions::completed(str::parse::<Repetition>, completions::protections), hide_possible_values = true, default_value = "none", help_heading = "Listener")]
    pub protect: Repetition,

    /// Also say whether so many receivers fit on one 802.11g cell, a stream to
    /// each, from the laboratory's figures
    #[arg(long, value_name = "N", value_parser = values::peers, help_heading = "Results")]
    pub receivers: Option<usize>,
    /// Directory for the report, or none
    #[arg(short, long, value_name = "DIR", default_value = "antiphon-report", value_hint = ValueHint::DirPath, help_heading = "Results")]
    pub out: Directory,
    /// Exit with code 3 unless this holds for all transports, such as
    /// 'loss<0.1%,p99<25ms', or for one: 'rtp:loss<1%'. Can be repeated
    #[arg(long, value_name = "GATE", help_heading = "Results")]
    pub require: Vec<Requirement>,

    /// Capture the packets at this end as pcapng for Wireshark, with their
    /// content: SCTP and DCCP without UDP, and the RTP of any transport
    #[arg(long, value_name = "FILE.pcapng", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub capture: Option<PathBuf>,
    /// Record when each packet was sent and received, or that it was lost, as
    /// JSON lines for `lab replay` and scripts
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub passport: Option<PathBuf>,

    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

impl CompareArgs {
    /// Converts to the facade's options. `command`: the command line, recorded in the report.
    pub fn options(&self, command: String) -> Result<CompareOptions, antiphon::Error> {
        let spec: DuplexSpec = self.link.parse()?;
        Ok(CompareOptions {
            current: None,
            peer: self.peer.clone(),
            hosts_part: true,
            link: (self.link.clone(), spec),
            length: self.seconds,
            channels: self.channels,
            rate: self.rate,
            transports: self.transports.clone(),
            source: self.source.clone(),
            video: self.video.clone(),
            video_rate: self.video_rate,
            seed: self.seed,
            out: self.out.0.clone(),
            block_frames: self.block,
            sample: self.format,
            latency: self.latency,
            conceal: self.conceal,
            expire: !self.no_expire,
            protect: self.protect,
            wait: self.wait.style(),
            socket: self.socket.options(),
            link_method: self.link_method,
            capture: self.capture.clone(),
            passport: self.passport.clone(),
            command,
        })
    }
}

const EXAMPLES: &str = "\
Examples, as a musician:
  antiphon compare
      a clip over an emulated home WLAN; the report is in antiphon-report/
  antiphon compare --receivers 8
      the same, and whether eight headsets fit on one Wi-Fi cell
  antiphon compare studio.local --source file:song.flac --seconds 30s
      over the real network, to a computer that runs antiphon reflect
  antiphon compare --video film.mp4 --source file:film.flac
      with pictures beside the sound, and what they cost it
As an engineer:
  antiphon compare --link lte,loss=2%/4 --seed 7 --block 64 --out none
      a mobile network with 2 % loss in bursts of 4; packets of 1.3 ms
  antiphon compare -t 'srp,srp?mode=as-published,arq?congestion=aimd'
      modes of one transport, compared with another transport
  antiphon compare -t rtp,tcp --json --require 'rtp:loss<1%,p99<40ms'
      one JSON object per line; exit code 3 if a limit is exceeded";

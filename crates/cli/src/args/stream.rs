//! Options that several commands have which send or receive.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::BitRate;
use antiphon::core::units::{parse_duration, parse_frequency};
use antiphon::session::{Repetition, StreamFraming};
use antiphon::{CompleteOver, Error, FrameRate, SendOptions, SinkClock};
use clap::{Args, ValueHint};

use crate::completions;
use crate::values::{self, WireFormat};

/// What sound is sent, and in which form.
#[derive(Args, Debug)]
pub struct SoundArgs {
    /// Sample format on the wire: l16, l24, f32, mulaw or alaw; or opus, which
    /// compresses, for paths too slow for these; with rate and channels as in
    /// SDP: l16/48000/2 [default: what the source needs]
    #[arg(short, long, value_name = "FORMAT", value_parser = completions::completed(str::parse::<WireFormat>, completions::formats), hide_possible_values = true, help_heading = "Sound")]
    pub format: Option<WireFormat>,
    /// Bit rate of Opus, all channels together, such as 128kbit/s [default:
    /// 96kbit/s for two channels, 64kbit/s for one]
    #[arg(long, value_name = "RATE", help_heading = "Sound")]
    pub bitrate: Option<BitRate>,
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
    /// Sample frames in a block, 16 to 4096 [default: 256, or 20 ms of Opus,
    /// which takes 120, 240, 480, 960, 1920 and 2880]
    #[arg(short, long, value_name = "FRAMES", value_parser = values::block, help_heading = "Sound")]
    pub block: Option<u32>,
    /// Stop after this much sound [default: at the end of the source]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, help_heading = "Sound")]
    pub seconds: Option<Duration>,
}

/// How sound becomes packets.
#[derive(Args, Debug)]
pub struct PacketArgs {
    /// Longest packet, such as 1ms for AES67; of Opus each packet: 2.5ms, 5ms,
    /// 10ms, 20ms, 40ms or 60ms [default: one block]
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
    /// Send each packet several times, with this time between the copies:
    /// repeat:2,spacing=10ms
    #[arg(long, value_name = "HOW", value_parser = completions::completed(str::parse::<Repetition>, completions::protections), hide_possible_values = true, default_value = "none", help_heading = "Stream")]
    pub protect: Repetition,
}

/// What is shown beside the sound.
#[derive(Args, Debug)]
pub struct PictureArgs {
    /// A file whose pictures are sent beside the sound: MP4, Matroska, WebM, IVF,
    /// raw H.264 or JPEGs, or clip:h264-100, clip:h264-1000, clip:h264-264,
    /// clip:vp8-100, clip:av1-100 (their sound is clip:clapper); the other end
    /// plays both to player:, or records both into one file, NAME.mkv.
    /// Again for the same film at a higher bit rate: sent is what the path carries
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Pictures")]
    pub video: Vec<PathBuf>,
    /// Frames a second of a raw stream of pictures: 25, 30000/1001 …
    #[arg(long, value_name = "FPS", value_parser = antiphon::parse_frame_rate, requires = "video", help_heading = "Pictures")]
    pub video_rate: Option<FrameRate>,
}

/// What paces what is played.
#[derive(Args, Debug)]
pub struct PaceArgs {
    /// Clock that paces the sink. sender: plays exactly the samples that were
    /// sent. system: resamples to follow the sender's drift
    #[arg(long, value_name = "WHOSE", value_parser = completions::one_of([("sender", SinkClock::Sender), ("system", SinkClock::System)]), default_value = "sender", help_heading = "Listener")]
    pub clock: SinkClock,
}

/// What is captured.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    /// Capture the packets at this end as pcapng for Wireshark, with their
    /// content: SCTP and DCCP without UDP, and the RTP of any transport
    #[arg(long, value_name = "FILE.pcapng", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub capture: Option<PathBuf>,
}

/// What is recorded of each packet.
#[derive(Args, Debug)]
pub struct PassportArgs {
    /// Record when each packet was sent and received, or that it was lost, as
    /// JSON lines for `lab replay` and scripts
    #[arg(long, value_name = "FILE", value_parser = values::new_file, value_hint = ValueHint::FilePath, help_heading = "Stream")]
    pub passport: Option<PathBuf>,
}

/// Whether a stream is shown on the whole terminal.
#[derive(Args, Debug)]
pub struct ScreenArgs {
    /// Show levels, delays, losses and what happens on the whole terminal; ? lists
    /// the keys
    #[arg(long, conflicts_with = "voice", help_heading = "Stream")]
    pub screen: bool,
}

/// Where a recording is completed; without a URI on the port of the stream.
pub fn completing(uri: Option<&str>) -> Option<CompleteOver> {
    uri.map(|uri| match uri {
        "" => CompleteOver::SamePort,
        uri => CompleteOver::Uri(uri.into()),
    })
}

/// The options of what is sent, whatever command sends it.
pub fn stream_options(
    sound: &SoundArgs,
    pictures: &PictureArgs,
    packets: &PacketArgs,
) -> Result<SendOptions, Error> {
    // Without --format each of its parts is `None`, and the source decides.
    let format = sound.format.unwrap_or_default();
    Ok(SendOptions {
        block_frames: sound.block,
        coding: format.coding,
        bit_rate: sound.bitrate,
        channels: agree("--channels", sound.channels, format.channels)?,
        channel_map: sound.channel_map.clone(),
        groups: sound.groups.clone(),
        rate: agree("--rate", sound.rate, format.rate)?,
        length: sound.seconds,
        video: pictures.video.clone(),
        video_rate: pictures.video_rate,
        ptime: packets.ptime,
        framing: packets.framing,
        payload_type: packets.payload_type,
        protect: packets.protect,
        ..SendOptions::default()
    })
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

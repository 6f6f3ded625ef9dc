//! What streams send.

use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_measure::VideoLayout;
use antiphon_media::ChannelGroups;
use antiphon_media::medusa::BlockMode;
use antiphon_session::Repetition;

/// Content of a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// Frames of one size at regular intervals, as from a packet generator: RTP headers and filling.
    Packets {
        /// Whole frame in bytes, RTP header included: what the transport is handed.
        frame: usize,
        /// Between frames.
        interval: Duration,
        /// How many; `None`: as many as the duration holds.
        count: Option<u64>,
    },
    /// Frames of one size that no clock sends.
    SelfPaced {
        /// Whole frame in bytes: as much of an RTP header as it holds, and filling.
        frame: usize,
        /// How many.
        count: u64,
        /// When the next one is sent.
        pacing: Pacing,
    },
    /// Sound as the program of paper `transport-alternatives` sends it: blocks of JACK at 48 kHz, resampled, in Medusa's
    /// framing. Reflected, always; `patience` is the program's `SO_SNDTIMEO`, counted from the first try to write.
    Medusa {
        /// Each has packets of its own.
        channels: u16,
        /// Of JACK, 512 sample frames each; fewer if the duration holds fewer.
        blocks: u64,
        /// How a block is sent.
        mode: BlockMode,
    },
    /// Video frames of one size at regular intervals, each in several packets with RTP headers. `patience` is how long after it was
    /// due a frame may still be sent.
    Video(VideoSpec),
    /// Sound through the whole sending and receiving pipeline, playout and concealment included, as users send it.
    Sound(SoundSpec),
}

/// When a frame is sent that no clock sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// When the one before has come back from a reflector, or was waited for as long as the stream's patience.
    PingPong,
    /// While fewer than so many have no outcome yet: over a transport that acknowledges, as fast as both ends take them.
    Window(u64),
}

/// A video.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoSpec {
    /// Its frames and packets; a packet's bytes include its RTP header.
    pub layout: VideoLayout,
    /// Which frames are sent.
    pub choice: FrameChoice,
    /// Streams of an association over which frames go in turn; fewer where the transport has fewer.
    pub streams: u16,
}

/// Which frames of a video are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameChoice {
    /// Each, when it is due; over a byte stream when all before it are written.
    All,
    /// The newest one whenever nothing of the one before waits any more: over a byte stream all of it is written, elsewhere it has
    /// arrived or was given up, as far as the transport tells.
    Newest,
}

/// Pictures that a session sends beside its sound, held back by its congestion manager so that no queue grows in front of the sound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PicturesSpec {
    /// The name of their figures: unique among traffic and streams of the setup.
    pub name: String,
    /// When the first picture is due, after the beginning of the stream.
    pub start: Duration,
    /// Pictures and packets, in bytes without any header. Each picture can be shown without the others.
    pub layout: VideoLayout,
}

/// Sound of signed 16-bit samples, or compressed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SoundSpec {
    /// Sample frames per second.
    pub sample_rate: u32,
    /// Channels, and how they are divided among RTP streams.
    pub groups: ChannelGroups,
    /// Sample frames in a packet.
    pub block: u32,
    /// Compressed with Opus to so many bits a second; `None`: the samples themselves.
    pub opus: Option<BitRate>,
    /// How packets are protected against loss.
    pub protect: Repetition,
}

impl Default for SoundSpec {
    /// The defaults of `antiphon compare`.
    fn default() -> Self {
        SoundSpec {
            sample_rate: 48_000,
            groups: ChannelGroups::whole(2),
            block: 256,
            opus: None,
            protect: Repetition::default(),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::Sound(SoundSpec::default())
    }
}

//! How a track is sent, and its counters.

use antiphon_core::Epoch;
use antiphon_media::ChannelGroups;
use antiphon_media::packet::PacketConfig;

use crate::protect::Repetition;

/// How a track is sent.
#[derive(Clone, Copy, Debug)]
pub struct SendTrackConfig {
    /// How blocks become packets, all channels together.
    pub packet: PacketConfig,
    /// How the channels are divided among RTP streams.
    pub groups: ChannelGroups,
    /// How messages are protected against loss.
    pub protect: Repetition,
    /// Wall-clock time of the run's clock, for the header extension.
    pub epoch: Epoch,
    /// Seed of the first numbers, time stamps and SSRC.
    pub seed: u64,
    /// Whether the participant is woken when a live source has sound; otherwise the source is asked every millisecond.
    pub woken: bool,
    /// Bytes of messages that are kept for a recording until it has confirmed them; 0: none, and what a transport does not
    /// take or loses in a break is not sent again.
    pub keeps: usize,
}

/// A track's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendTrackCounters {
    /// Blocks pulled.
    pub blocks: u64,
    /// Messages made.
    pub messages: u64,
    /// Bytes of sound in them.
    pub media_bytes: u64,
    /// Times the source had no block when one was due (underruns), counted every millisecond.
    pub starved: u64,
    /// Times the thread was so late that the schedule was moved.
    pub stalls: u64,
    /// Sample frames of a live source that were dropped because they were too old to be sent.
    pub skipped_frames: u64,
    /// Times a clock that the time stamps count was set while they did: they jumped.
    pub clock_steps: u64,
}

impl std::ops::AddAssign for SendTrackCounters {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.messages += other.messages;
        self.media_bytes += other.media_bytes;
        self.starved += other.starved;
        self.stalls += other.stalls;
        self.skipped_frames += other.skipped_frames;
        self.clock_steps += other.clock_steps;
    }
}

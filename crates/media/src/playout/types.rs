//! Configuration, results and counters of a playout buffer.

use std::time::Duration;

use super::target::AdaptiveDelay;
use crate::conceal::Concealment;
use crate::{ChannelGroups, FormatError, StreamFormat};

/// What decides when sound is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clocking {
    /// The sender's media clock: for sinks without a clock, such as files. Samples come out unchanged.
    Sender,
    /// The sink, which takes a full block with every pull.
    Sink,
    /// No clock: sound that is in order is played at once, nothing is late. A missing packet is waited for until this
    /// many later ones have arrived, or the stream ends.
    Unhurried {
        /// Later packets; 0 for a transport that keeps the order.
        patience: usize,
    },
}

/// Configuration of a playout buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayoutConfig {
    /// Rate and channels of the stream.
    pub format: StreamFormat,
    /// How the channels are divided among RTP streams.
    pub groups: ChannelGroups,
    /// From the arrival of an undelayed packet to its deadline.
    pub playout_delay: Duration,
    /// What keeps time.
    pub clocking: Clocking,
    /// How missing sound is concealed.
    pub conceal: Concealment,
    /// Packets are Opus: they wait as they came, and are decoded in order when they are played.
    pub opus: bool,
    /// Room beyond the playout delay, for senders ahead of their time and sinks that stall.
    pub headroom: Duration,
    /// The playout delay adapts, in place of [`Self::playout_delay`]: with a clock of the sender or of the sink, for live
    /// sinks. Samples then do not come out unchanged.
    pub adapts: Option<AdaptiveDelay>,
}

impl PlayoutConfig {
    /// One channel group, repetition, and half a second of headroom.
    pub fn new(format: StreamFormat, playout_delay: Duration, clocking: Clocking) -> Self {
        PlayoutConfig {
            format,
            groups: ChannelGroups::whole(format.channels()),
            playout_delay,
            clocking,
            conceal: Concealment::default(),
            opus: false,
            headroom: Duration::from_millis(500),
            adapts: None,
        }
    }
}

/// Why no such buffer can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayoutError {
    /// The playout delay asks for more memory than a buffer may have.
    #[error("a playout delay of {playout_delay:?} at {format} needs too much memory: use at most {max:?}")]
    TooLong {
        /// The requested value.
        playout_delay: Duration,
        /// For which stream.
        format: StreamFormat,
        /// The possible values.
        max: Duration,
    },
    /// Opus does not have this format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The channel groups are those of another stream.
    #[error("channel groups {groups} do not fit a stream of {format}: the numbers must add up")]
    Groups {
        /// The requested value.
        groups: ChannelGroups,
        /// For which stream.
        format: StreamFormat,
    },
}

/// Result of inserting a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It will be played.
    Buffered,
    /// Its deadline had passed; the part of it that is not yet due is played.
    Late {
        /// Sample frames that are still played.
        salvaged: usize,
    },
    /// It arrived before.
    Duplicate,
    /// Too far ahead of the playout position for the buffer to hold.
    Early,
    /// Too old to know whether it was received, or it overlaps another packet's sound.
    Discarded,
    /// The stream has moved permanently: the buffer starts again with this packet.
    Resynced,
    /// No room, in [`Clocking::Unhurried`]: pull, then insert it again. Not counted.
    Full,
}

/// Why sound was concealed. What the network did is known only afterwards: a missing packet is *late* if it still
/// arrives and *lost* if not; [`PlayoutCounters`] counts both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet is missing between others.
    Missing,
    /// No packet has come at all: the network or the sender stalled.
    Starved,
    /// The stream was taken up again, and its sound is not due yet.
    Resync,
}

/// What a pull gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulled {
    /// Sample frames written.
    pub frames: usize,
    /// Media time of the first of them, in sample frames of the unwrapped time stamp; `None` before the stream begins.
    pub media: Option<u64>,
    /// Of them, those played as the sender sent them.
    pub played: usize,
    /// Those of them that were concealed, even if only in one of several channel groups.
    pub concealed: usize,
    /// Of them, silence because the sender paused or the stream has not begun.
    pub silent: usize,
    /// The reason of the last concealment.
    pub cause: Option<Cause>,
}

/// Totals since construction. `inserted` = `played` + `late` + `duplicate` + `early` + `discarded` + `buffered`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlayoutCounters {
    /// Packets received.
    pub inserted: u64,
    /// Packets played in time.
    pub played: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Packets that had arrived before.
    pub duplicate: u64,
    /// Packets for which the buffer had no room.
    pub early: u64,
    /// Packets discarded: by a new start, too old, or overlapping another.
    pub discarded: u64,
    /// Packets waiting.
    pub buffered: u64,
    /// Packets that did not arrive although later ones were played. One that still arrives moves to `late`.
    pub lost: u64,
    /// Packets that came after one with a higher number (RFC 4737); each is in one of the above as well.
    pub reordered: u64,
    /// Packets recovered by error correction in time; each is in one of the above as well.
    pub recovered: u64,
    /// Packets recovered too late; each is in one of the above as well.
    pub recovered_late: u64,
    /// Sample frames played as sent.
    pub played_frames: u64,
    /// Concealed sample frames.
    pub concealed_frames: u64,
    /// Gaps that were concealed.
    pub concealments: u64,
    /// Sample frames of silence while the sender paused.
    pub paused_frames: u64,
    /// Sample frames skipped to catch up.
    pub skipped_frames: u64,
    /// Times the stream was taken up again.
    pub resyncs: u64,
}

impl std::ops::Add for PlayoutCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        PlayoutCounters {
            inserted: self.inserted + other.inserted,
            played: self.played + other.played,
            late: self.late + other.late,
            duplicate: self.duplicate + other.duplicate,
            early: self.early + other.early,
            discarded: self.discarded + other.discarded,
            buffered: self.buffered + other.buffered,
            lost: self.lost + other.lost,
            reordered: self.reordered + other.reordered,
            recovered: self.recovered + other.recovered,
            recovered_late: self.recovered_late + other.recovered_late,
            played_frames: self.played_frames + other.played_frames,
            concealed_frames: self.concealed_frames + other.concealed_frames,
            concealments: self.concealments + other.concealments,
            paused_frames: self.paused_frames + other.paused_frames,
            skipped_frames: self.skipped_frames + other.skipped_frames,
            resyncs: self.resyncs + other.resyncs,
        }
    }
}

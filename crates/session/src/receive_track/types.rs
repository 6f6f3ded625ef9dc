//! Settings, counters, notices and errors of a receive track.

use std::ops::Range;
use std::time::Duration;

use antiphon_media::conceal::Concealment;
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{Coding, SampleFormat, Sink, StreamDescription, StreamFormat};

use crate::framing::StreamFraming;
use crate::gaps::Gaps;
use crate::latency::Latency;

/// Opens the sink once the stream's format is known: for a file, how it stores samples.
pub type OpenSink = Box<dyn FnMut(StreamFormat, SampleFormat) -> Result<Box<dyn Sink>, String>>;

/// Whether a sink for such a stream can be opened without waiting for it. Called with each packet until it says so.
pub type MayOpen = Box<dyn FnMut(StreamFormat, SampleFormat) -> bool>;

/// How a stream is received.
#[derive(Clone, Debug)]
pub struct ReceiveTrackConfig {
    /// Playout delay: from the arrival of an undelayed packet to its playout. `None` for a recording, which waits for
    /// everything that the transport repairs. One that adapts is for live sinks, whose samples then are not exactly those that were
    /// sent.
    pub latency: Option<Latency>,
    /// What to do about missing sound.
    pub conceal: Concealment,
    /// Missing sound will come later: until then there is silence, and the sound beside it stays as it came.
    pub completed_later: bool,
    /// The format, where SDP or a flag gave it; otherwise Antiphon's senders tell it in band, and static payload types
    /// (RFC 3551) imply it.
    pub description: Option<StreamDescription>,
    /// Whether `description` holds under every dynamic payload type: a flag gave it, without a number.
    pub any_payload_type: bool,
    /// Silence after which another sender may take over.
    pub silence: Duration,
    /// Whether the transport keeps frames in order, so that a gap is known to be a loss at once.
    pub ordered: bool,
    /// Whether the transport loses nothing, so that a recording waits for what is missing for as long as it has room.
    pub reliable: bool,
    /// What a recording has in place of a gap that is longer than its buffer.
    pub long_gaps: LongGaps,
}

/// What a recording has in place of a gap that is longer than its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LongGaps {
    /// Silence, so that it is as long as the performance.
    #[default]
    Silence,
    /// Nothing: the sound after the gap follows the sound before it.
    Cut,
}

/// A receiver's counters besides those of its playout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveTrackCounters {
    /// RTP packets of our stream, each counted once.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// RTP packets of our stream that had been received before.
    pub duplicates: u64,
    /// Frames that are neither RTP nor RTCP, or broken.
    pub malformed: u64,
    /// Packets whose format is not known yet.
    pub unknown_format: u64,
    /// Packets in another format than the sink was opened for.
    pub other_format: u64,
    /// Packets of pictures, which are not received.
    pub pictures: u64,
    /// Sample frames dropped because the sink was too slow.
    pub overrun_frames: u64,
    /// Sample frames of silence in place of gaps longer than the buffer.
    pub gap_frames: u64,
}

impl std::ops::AddAssign for ReceiveTrackCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.duplicates += other.duplicates;
        self.malformed += other.malformed;
        self.unknown_format += other.unknown_format;
        self.other_format += other.other_format;
        self.pictures += other.pictures;
        self.overrun_frames += other.overrun_frames;
        self.gap_frames += other.gap_frames;
    }
}

/// Figures of a channel group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupFigures {
    /// Its channels, counted from 0.
    pub channels: Range<usize>,
    /// What its part of the playout buffer counted.
    pub playout: PlayoutCounters,
}

/// A notice for the user. Without a string, so that the media thread does not allocate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Notice {
    /// Sound begins: the format, and how packets carry it.
    Began(StreamFormat, Coding),
    /// Another sender, or the same one restarted.
    NewStream {
        /// Its SSRC.
        ssrc: u32,
    },
    /// Another source also sends here; its packets are ignored.
    UnknownSource {
        /// Its SSRC.
        ssrc: u32,
    },
    /// The sender changed the format, which the sink can't follow.
    OtherFormat(StreamFormat, Coding),
    /// The format can't be told from the packets.
    UnknownFormat {
        /// The payload type seen.
        payload_type: u8,
    },
    /// Packets are in another framing than the one expected.
    OtherFraming {
        /// The expected framing.
        ours: StreamFraming,
    },
    /// The sender sends pictures as well, and they are not received.
    Pictures,
    /// The sender ended its stream.
    Bye,
}

/// Why receiving ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The sink could not be opened.
    #[error("{0}")]
    Sink(String),
    /// Packets are in another framing than the one expected.
    #[error("{}", .ours.mismatch())]
    OtherFraming {
        /// The expected framing.
        ours: StreamFraming,
    },
    /// The sink failed; its `finish` says why.
    #[error("the sink failed")]
    SinkFailed,
    /// Its user closed the sink.
    #[error("the sink was closed")]
    SinkClosed,
}

/// What was written to a sink without a clock.
#[derive(Debug)]
pub struct Written {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How packets held the sound.
    pub coding: Coding,
    /// Sample frames.
    pub frames: u64,
    /// Those that are not of the sender.
    pub gaps: Gaps,
    /// The sender's SSRC, and the RTP time stamp of the first sample frame; none if not all of it is of one sender, each sample
    /// frame at its time.
    pub origin: Option<(u32, u32)>,
}

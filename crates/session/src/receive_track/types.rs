//! What a receiver is told, and what it tells.

use std::ops::Range;
use std::time::Duration;

use antiphon_media::conceal::Concealment;
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{SampleFormat, Sink, StreamDescription, StreamFormat};

use crate::framing::StreamFraming;

/// Opens the sink once the stream's format is known.
pub type OpenSink = Box<dyn FnMut(StreamFormat, SampleFormat) -> Result<Box<dyn Sink>, String>>;

/// How a stream is received.
#[derive(Clone, Debug)]
pub struct ReceiveTrackConfig {
    /// Playout target: from the arrival of an undelayed packet to its sound. `None` for a recording that waits for
    /// everything, as far as the transport repairs.
    pub latency: Option<Duration>,
    /// What to do about missing sound.
    pub conceal: Concealment,
    /// The format, where SDP or a flag gave it; else our own senders tell it in band, and static payload types
    /// (RFC 3551) speak for themselves.
    pub description: Option<StreamDescription>,
    /// Whether `description` holds under every dynamic payload type: a flag gave it, and no number.
    pub any_payload_type: bool,
    /// Silence after which another sender may take over.
    pub silence: Duration,
    /// Whether the transport keeps frames in order, so that a gap is known at once for a loss.
    pub ordered: bool,
}

/// What a receiver has counted beside its playout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveTrackCounters {
    /// RTP packets of our stream, each counted once.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// RTP packets of our stream that had come before.
    pub duplicates: u64,
    /// Frames that are neither RTP nor RTCP, or broken.
    pub malformed: u64,
    /// Packets whose format is not known yet.
    pub unknown_format: u64,
    /// Packets in another format than the sink was opened for.
    pub other_format: u64,
    /// Sample frames that the sink was too slow for.
    pub overrun_frames: u64,
}

/// How a channel group fares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupFigures {
    /// Its channels, counted from 0.
    pub channels: Range<usize>,
    /// What its part of the playout buffer counted.
    pub playout: PlayoutCounters,
}

/// Something a user wants to hear of.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// Sound begins: the format, and how packets carry it.
    Began(StreamFormat, SampleFormat),
    /// Another sender, or the same one started anew.
    NewStream {
        /// Its SSRC.
        ssrc: u32,
    },
    /// Somebody else sends here, too; it is not mixed in.
    UnknownSource {
        /// Its SSRC.
        ssrc: u32,
    },
    /// The sender changed the format, which the sink can't follow.
    OtherFormat(StreamFormat, SampleFormat),
    /// The format can't be told from the packets.
    UnknownFormat {
        /// The payload type seen.
        payload_type: u8,
    },
    /// What comes is in another framing than what is awaited.
    OtherFraming {
        /// What is awaited.
        ours: StreamFraming,
    },
    /// The sender took leave.
    Bye,
}

/// Why receiving ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The sink could not be opened.
    #[error("{0}")]
    Sink(String),
    /// What comes is in another framing than what is awaited.
    #[error("{}", .ours.mismatch())]
    OtherFraming {
        /// What is awaited.
        ours: StreamFraming,
    },
    /// The sink gave up; its `finish` says why.
    #[error("the sink failed")]
    SinkFailed,
}

//! How a video track is sent, and its counters.

use antiphon_core::Epoch;
use antiphon_media::packet::EncodingName;

/// How a video track is sent.
#[derive(Clone, Copy, Debug)]
pub struct VideoTrackConfig {
    /// The payload format.
    pub encoding: EncodingName,
    /// RTP's number for it.
    pub payload_type: u8,
    /// SSRC of the sound that was captured with it; 0 without any.
    pub sound: u32,
    /// Wall-clock time of the run's clock.
    pub epoch: Epoch,
    /// Seed of the first numbers, time stamps and SSRC.
    pub seed: u64,
    /// Longest packet, in bytes.
    pub max_packet: usize,
}

/// A video track's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VideoTrackCounters {
    /// Access units begun.
    pub units: u64,
    /// Access units that were left out: they were too late, or could not be decoded without one that was.
    pub left_out: u64,
    /// Packets handed to transports, to each peer.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that transports refused.
    pub refused: u64,
    /// Packets that transports gave up since their deadline had passed.
    pub expired: u64,
    /// Times at which a peer was sent everything since the last key frame again, as it had come later or asked for it.
    pub caught_up: u64,
}

//! State of voice channels: what the media thread shows of them, and what users see.

use std::path::PathBuf;
use std::time::Duration;

use antiphon_core::{BrokenReason, CloseReason, Instant, PathStats};
use antiphon_media::voice::VOICE_RATE;
use antiphon_session::{VoicePort, VoiceReceived, VoiceSent};

use super::sinks::Sinks;
use crate::send::{ANSWER_PATIENCE, Shortfall};

/// State of voice channels; reported about ten times a second. Bytes are of voice: 8000 are a second of a channel.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct VoiceStatus {
    /// Since the run began, in seconds.
    pub elapsed_s: f64,
    /// What this end sends.
    pub sent: VoiceSentStatus,
    /// What it receives.
    pub received: VoiceReceivedStatus,
    /// Round trip, where the transport measures it, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Packets that the transport sent again.
    pub retransmitted: u64,
}

/// The channels that an end sends.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct VoiceSentStatus {
    /// Channels.
    pub channels: u64,
    /// Sound that the sources of all channels have given, in seconds of one channel.
    pub captured_s: f64,
    /// Packets handed to the transport.
    pub packets: u64,
    /// Bytes in them.
    pub voice_bytes: u64,
    /// Bytes that found no room in their FIFO.
    pub overflow_bytes: u64,
    /// Bytes of pauses, which were not sent.
    pub paused_bytes: u64,
    /// Bytes that the transport refused.
    pub refused_bytes: u64,
    /// Packets that the peer has confirmed, where the transport tells of it.
    pub acked: u64,
    /// Packets given up because their time was over.
    pub expired: u64,
    /// Packets given up otherwise.
    pub lost: u64,
}

/// The channels that an end receives.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct VoiceReceivedStatus {
    /// Channels that have begun.
    pub channels: u64,
    /// Those that have ended.
    pub ended: u64,
    /// Packets of voice.
    pub packets: u64,
    /// Bytes in them.
    pub voice_bytes: u64,
    /// Bytes that sinks have taken as they were sent.
    pub taken_bytes: u64,
    /// Bytes that had not come when it was their turn.
    pub missing_bytes: u64,
    /// Bytes that sinks wanted from an empty FIFO.
    pub underflow_bytes: u64,
    /// Bytes that found no room in their FIFO.
    pub overflow_bytes: u64,
    /// Bytes that came after their turn, or twice.
    pub late_bytes: u64,
    /// Bytes of noise in pauses.
    pub comfort_noise_bytes: u64,
    /// Messages that are no voice.
    pub malformed: u64,
}

/// Voice channels that have ended.
#[derive(Clone, Debug, serde::Serialize)]
pub struct VoiceSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: VoiceStatus,
    /// Whether they were stopped.
    pub interrupted: bool,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Why the channels did not come to their end, or what came is not in the files.
    pub shortfall: Option<Shortfall>,
}

/// What the media thread shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    /// Why the peer cannot be reached now.
    pub broken: Option<BrokenReason>,
    /// Why it has never answered.
    pub unanswered: Option<BrokenReason>,
    /// The same, if it had so much time for it that it is given up.
    pub absent: Option<BrokenReason>,
    /// Why the channels ended before their time.
    pub ended: Option<CloseReason>,
    /// Whether the sink takes nothing any more.
    pub sink_failed: bool,
    pub elapsed: Duration,
    pub channels: usize,
    pub sent: VoiceSent,
    pub received: VoiceReceived,
    pub path: PathStats,
}

impl Snapshot {
    pub fn of(now: Instant, port: &VoicePort<Sinks>) -> Self {
        Snapshot {
            broken: port.broken(now),
            unanswered: port.never_answered(now, Duration::ZERO),
            absent: port.never_answered(now, ANSWER_PATIENCE),
            ended: port.ended(),
            sink_failed: port.sink().has_failed(),
            elapsed: now.since(Instant::ZERO),
            channels: port.channels_sent(),
            sent: port.sent(now),
            received: port.received(),
            path: port.stats(),
        }
    }

    pub fn status(&self) -> VoiceStatus {
        let Snapshot { sent, received, path, .. } = self;
        let fifos = received.fifos;
        VoiceStatus {
            elapsed_s: self.elapsed.as_secs_f64(),
            sent: VoiceSentStatus {
                channels: self.channels as u64,
                captured_s: sent.captured as f64 / f64::from(VOICE_RATE),
                packets: sent.packets,
                voice_bytes: sent.bytes,
                overflow_bytes: sent.overflow,
                paused_bytes: sent.paused,
                refused_bytes: sent.refused,
                acked: sent.acked,
                expired: sent.expired,
                lost: sent.lost,
            },
            received: VoiceReceivedStatus {
                channels: received.channels,
                ended: received.ended,
                packets: received.packets,
                voice_bytes: received.bytes,
                taken_bytes: fifos.taken,
                missing_bytes: fifos.missing,
                underflow_bytes: fifos.underflow,
                overflow_bytes: fifos.overflow,
                late_bytes: fifos.late,
                comfort_noise_bytes: fifos.pause,
                malformed: received.malformed,
            },
            rtt_ms: path.srtt.map(|srtt| srtt.as_secs_f64() * 1e3),
            retransmitted: path.counters.retransmitted,
        }
    }
}

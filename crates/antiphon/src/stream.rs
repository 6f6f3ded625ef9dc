use crate::{Error, ReceiveOptions, SendOptions};
use antiphon_net::Stop;
use std::time::Duration;

/// How a stream being sent is doing; told about ten times a second.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendStatus {
    /// Sound sent so far.
    pub sent_s: f64,
    /// Sound in all, where known.
    pub total_s: Option<f64>,
    /// Frames handed to the transport.
    pub frames_sent: u64,
    /// Frames that expired in the send queue.
    pub expired: u64,
    /// Frames that the transport refused.
    pub refused: u64,
    /// Times the source had nothing in time.
    pub starved: u64,
    /// Round trip as the receiver's reports tell, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Loss as the receiver's reports tell, in percent of the last interval.
    pub remote_loss_percent: Option<f64>,
    /// Jitter as the receiver's reports tell (RFC 3550), in milliseconds.
    pub remote_jitter_ms: Option<f64>,
}

/// A stream that was sent.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: SendStatus,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// What the user should know (scheduling obtained, a truncated file …).
    pub notes: Vec<String>,
}

/// How a stream being received is doing; told about ten times a second.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReceiveStatus {
    /// Sound played so far.
    pub played_s: f64,
    /// RTP packets received of the stream.
    pub frames_received: u64,
    /// Packets that never came though later ones were played.
    pub lost: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Packets that came twice.
    pub duplicate: u64,
    /// Packets overtaken by later ones.
    pub reordered: u64,
    /// Holes filled with made-up sound.
    pub concealed: u64,
    /// Packets of other senders, not mixed in.
    pub strangers: u64,
    /// Frames that are no RTP or RTCP.
    pub malformed: u64,
    /// RFC 3550 interarrival jitter, in milliseconds.
    pub jitter_rfc3550_ms: Option<f64>,
    /// How much faster the sender's sampling clock runs than ours.
    pub drift_ppm: Option<f64>,
    /// Playout target in force, in milliseconds; none for a recording.
    pub latency_ms: Option<f64>,
}

/// A stream that was received.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReceiveSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: ReceiveStatus,
    /// Whether it was stopped before the sender took leave.
    pub interrupted: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Something to tell the user at once, in a sentence (a stream began, a stranger was heard, listening on …).
pub type StreamNotice = String;

/// Sends a source to a peer until its end, or until stopped.
pub fn send(
    options: &SendOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(StreamNotice),
    status: &mut dyn FnMut(&SendStatus),
) -> Result<SendSummary, Error> {
    let _ = (options, stop, notice, status);
    Err(Error::failed("not built yet"))
}

/// Receives a stream into a sink until the sender takes leave, or until stopped.
pub fn receive(
    options: &ReceiveOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(StreamNotice),
    status: &mut dyn FnMut(&ReceiveStatus),
) -> Result<ReceiveSummary, Error> {
    let _ = (options, stop, notice, status);
    Err(Error::failed("not built yet"))
}

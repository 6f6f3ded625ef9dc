//! What a station tells of its packets as they pass, for those who record the path.

use antiphon_core::{Instant, NtpTime, Outcome, Received};
use antiphon_media::packet::RtpView;

/// Called on the media thread, so it may neither allocate nor lock nor wait: copy what is told into a bounded queue.
pub type Witness = Box<dyn FnMut(Passing)>;

/// What passes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Passing {
    /// The packets that follow are of another sender, or of the same one that started anew.
    Began {
        /// Of its time stamps, in Hz.
        rate: u32,
    },
    /// An RTP packet of our sender arrived, perhaps not for the first time.
    Arrived {
        /// RTP's sequence number.
        sequence: u16,
        /// RTP's time stamp.
        timestamp: u32,
        /// The sender's clock at sending, if it says so.
        ntp: Option<NtpTime>,
        /// When it arrived.
        at: Instant,
        /// Bytes of the frame.
        len: usize,
    },
    /// A frame was handed to the transport, which took it.
    Sent {
        /// Counts all frames of the stream, refused ones included.
        number: u64,
        /// When.
        at: Instant,
        /// Bytes of the frame.
        len: usize,
    },
    /// The transport said what became of a frame.
    Outcome {
        /// Of the frame.
        number: u64,
        /// When it said so.
        at: Instant,
        /// What.
        outcome: Outcome,
    },
}

impl Passing {
    pub(crate) fn arrived(received: &Received, view: &RtpView<'_>) -> Self {
        Passing::Arrived {
            sequence: view.sequence,
            timestamp: view.timestamp,
            ntp: view.ntp,
            at: received.received_at,
            len: received.len,
        }
    }
}

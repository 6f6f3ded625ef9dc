//! The last minute of a stream, second by second.

use std::collections::VecDeque;

use antiphon_core::Instant;

/// What happened in one second, and the last figures of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came after their time.
    pub late: u64,
    /// Packets that came in time as the transport sent them again.
    pub repaired: u64,
    /// Gaps filled by concealment.
    pub concealed: u64,
    /// Packets that the sender did not send, as they had grown too old or the transport did not take them.
    pub unsent: u64,
    /// Sound that waits to be played, in milliseconds.
    pub buffer_ms: Option<f64>,
    /// Playout delay in force, in milliseconds; of a stream that is sent, the receiver's.
    pub delay_ms: Option<f64>,
    /// Jitter (RFC 3550), in milliseconds; of a stream that is only sent, the receiver's.
    pub jitter_ms: Option<f64>,
    /// Round trip, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// How much faster the sender's clock runs, in millionths.
    pub drift_ppm: Option<f64>,
    /// Loss in the receiver's last report, in percent; of a group, the highest.
    pub remote_loss_percent: Option<f64>,
    /// Rate of the stream's RTP packets, in kbit/s.
    pub kbit_per_s: Option<f64>,
}

/// The last minute, the second that has begun included.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    seconds: VecDeque<Second>,
    /// Number of the last of them, since the run began.
    number: u64,
}

impl Minute {
    /// How many seconds it holds at most.
    pub const SECONDS: usize = 60;

    /// The seconds, the oldest first.
    pub fn seconds(&self) -> impl ExactSizeIterator<Item = &Second> {
        self.seconds.iter()
    }

    /// The second at `now`; those in between, of which nothing was told, are empty.
    pub(super) fn at(&mut self, now: Instant) -> &mut Second {
        let number = now.as_nanos() / 1_000_000_000;
        if self.seconds.is_empty() {
            self.number = number;
            self.seconds.push_back(Second::default());
        }
        let passed = number.saturating_sub(self.number).min(Self::SECONDS as u64);
        for _ in 0..passed {
            if self.seconds.len() >= Self::SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second::default());
        }
        self.number = self.number.max(number);
        self.seconds.back_mut().expect("one was pushed")
    }
}

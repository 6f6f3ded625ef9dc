//! How much may be on its way from a sender that gives nothing up (ARQ and SRP with `reliability=full`), and how it probes a
//! path that delivers nothing. ARQ's window of `congestion=aimd` as well.

use std::time::Duration;

use antiphon_core::Instant;

use crate::cc::{Controller, Reno, Window, is_validated};
use crate::rtt::backed_off;

/// The optional congestion window, and what is on its way.
#[derive(Debug)]
pub(crate) struct Limit {
    reno: Option<Reno>,
    /// Bytes of the largest packet.
    segment: f64,
    /// Bytes that a loss leaves at least.
    least: f64,
    /// Bytes of messages whose last transmission is neither answered nor lost.
    on_way: u64,
    /// Losses before this belong to the loss for which the window was reduced: a transmission, or the number of a message.
    recovered_at: u64,
    /// The window was reduced, and the event is still to be reported.
    halved: bool,
    /// Time-outs in a row without an answer to anything.
    silent: u32,
    /// When the last of them was.
    silent_at: Instant,
    /// When the peer last answered with something new.
    heard_at: Option<Instant>,
}

impl Limit {
    /// With a window, or none; `segment`: bytes of the largest packet; `least`: packets that a loss leaves at least.
    pub fn new(window: bool, segment: usize, least: u32) -> Self {
        let segment = segment.max(1) as f64;
        let reno = window.then(|| Reno::new(Window::new(segment, INITIAL_PACKETS)));
        Limit {
            reno,
            segment,
            least: segment * f64::from(least),
            on_way: 0,
            recovered_at: 0,
            halved: false,
            silent: 0,
            silent_at: Instant::ZERO,
            heard_at: None,
        }
    }

    /// The congestion window in bytes, if there is one.
    pub fn cwnd(&self) -> Option<u64> {
        self.reno.as_ref().map(|reno| reno.window().cwnd as u64)
    }

    /// Whether another packet may leave where nothing is given up.
    pub fn allows(&self) -> bool {
        if self.silent > 0 { self.on_way == 0 } else { self.allows_beside(self.on_way) }
    }

    /// Whether another packet may leave beside so many bytes.
    pub fn allows_beside(&self, bytes: u64) -> bool {
        self.reno.as_ref().is_none_or(|reno| (bytes as f64) < reno.window().cwnd)
    }

    /// Whether the window was reduced since the last call.
    pub fn take_halved(&mut self) -> bool {
        std::mem::take(&mut self.halved)
    }

    /// A packet with a message of `len` bytes leaves.
    pub fn on_send(&mut self, len: usize) {
        self.on_way += len as u64;
    }

    /// The transmission of a message of `len` bytes is answered, lost or no longer of interest.
    pub fn on_end(&mut self, len: usize) {
        self.on_way -= len as u64;
    }

    /// The peer has answered.
    pub fn on_heard(&mut self, received_at: Instant) {
        (self.silent, self.heard_at) = (0, Some(received_at));
    }

    /// A message of `len` bytes is acknowledged, when so many bytes were on their way.
    pub fn on_ack(&mut self, received_at: Instant, len: usize, on_way: u64) {
        self.on_heard(received_at);
        // A stream that does not fill its window learns nothing about the path (RFC 7661 §1).
        if let Some(reno) = &mut self.reno
            && is_validated(on_way as f64, reno.window().cwnd)
        {
            reno.on_ack(received_at, len as f64, Duration::ZERO);
        }
    }

    /// Bytes on their way.
    pub fn on_way(&self) -> u64 {
        self.on_way
    }

    /// Transmission or message `lost` was lost; `next` will be the next one. Reduces the window once per window.
    pub fn on_loss(&mut self, lost: u64, next: u64) {
        let Some(reno) = self.reno.as_mut().filter(|_| lost >= self.recovered_at) else { return };
        self.recovered_at = next;
        reno.on_congestion_event();
        let window = reno.window_mut();
        window.ssthresh = window.ssthresh.max(self.least);
        window.cwnd = window.ssthresh;
        self.halved = true;
    }

    /// Nothing that was sent since `last_sent` has been answered by `now`: only a probe is sent, ever more rarely.
    ///
    /// The threshold stays (RFC 5681 §3.1 halves it): a path that is gone says nothing about what it carries when it is there
    /// again, and slow start finds that out.
    pub fn on_silence(&mut self, now: Instant, last_sent: Instant, next: u64) {
        // The time-outs of one flight are one.
        if self.silent > 0 && last_sent < self.silent_at {
            return;
        }
        (self.silent, self.silent_at) = (self.silent.saturating_add(1), now);
        let Some(reno) = &mut self.reno else { return };
        self.recovered_at = next;
        let window = reno.window_mut();
        self.halved |= window.cwnd > self.segment;
        window.cwnd = window.cwnd.min(self.segment);
    }

    /// Whether nothing has been acknowledged since `sent_at`.
    pub fn is_silent_since(&self, sent_at: Instant) -> bool {
        self.heard_at.is_none_or(|heard| heard < sent_at)
    }

    /// A time-out that grows with each silence.
    pub fn time_out(&self, rto: Duration) -> Duration {
        backed_off(rto, self.silent, LONGEST)
    }
}

/// The longest distance of probes: a path that is there again is used within a second.
const LONGEST: Duration = Duration::from_secs(1);
/// What a loss leaves at least, in packets: RFC 5681 §3.1, equation 4.
pub(crate) const LEAST_PACKETS: u32 = 2;
/// The same for recordings, which losses of the path itself must not slow down below their own rate: RFC 9260 §7.2.3.
pub(crate) const LEAST_PACKETS_FULL: u32 = 4;
/// RFC 6928 §2.
pub(crate) const INITIAL_PACKETS: u32 = 10;

//! State of one path: round trip, congestion window, time-out, and whether it works.

use std::time::Duration;

use antiphon_core::{ByteCount, Instant, PathId, PathStats, Seq32};

use super::mtu::Mtu;
use super::settings::Settings;
use super::tail::TailProbe;
use super::wire::HEADER;
use super::wire::chunks::DataHeader;
use crate::cc::tfrc::{LossIntervals, f};
use crate::cc::{PipeAck, is_validated};
use crate::rack::Rack;
use crate::rtt::RttEstimator;

/// A path to the peer.
#[derive(Debug)]
pub(super) struct Path {
    pub id: PathId,
    /// Whether the peer has answered on it; an unconfirmed address gets only heartbeats (RFC 9260 §5.4).
    pub confirmed: bool,
    /// Whether the driver knows that this path leads to the peer.
    pub told: bool,
    /// Time-outs and unanswered heartbeats since the last answer.
    pub errors: u32,
    /// Errors tolerated before the path counts as failed (Path.Max.Retrans, or PotentiallyFailed.Max.Retrans of RFC
    /// 7829).
    forgiven: u32,
    /// RFC 9260 §6.3.1; samples include the peer's acknowledgement delay.
    pub rtt: RttEstimator,
    pub window: Window,
    /// How much of the window is used.
    pipe: PipeAck,
    /// When the window last held something back, other than during the recovery from a loss.
    blocked_at: Option<Instant>,
    /// Whether the window was filled when the recovery began.
    filled: bool,
    /// Bytes acknowledged between losses.
    losses: LossIntervals,
    /// The order of the transmissions, and what of it has arrived.
    pub rack: Rack,
    /// When an overtaken chunk counts as lost.
    pub overtaken_at: Option<Instant>,
    pub mtu: Mtu,
    /// Whether payload is sent as I-DATA, which has longer headers.
    interleaved: bool,
    /// Payload bytes in flight.
    pub flight: usize,
    /// When the chunks in flight count as lost.
    pub t3: Option<Instant>,
    pub tail: TailProbe,
    /// When the next heartbeat is due.
    pub heartbeat_at: Instant,
    /// Whether a heartbeat is to be sent.
    pub probe: bool,
    /// The unanswered heartbeat.
    pub heartbeat: Option<(u64, Instant)>,
    /// Contents of the peer's heartbeat, to be returned; empty for none.
    pub echo: Vec<u8>,
}

impl Path {
    /// `packet`: largest packet in bytes.
    pub fn new(id: PathId, packet: usize, interleaved: bool, settings: &Settings, now: Instant) -> Self {
        Path {
            id,
            confirmed: false,
            told: false,
            errors: 0,
            rtt: RttEstimator::new(settings.rto),
            forgiven: settings.path_max_retrans,
            window: Window::new(payload_of(packet, interleaved)),
            pipe: PipeAck::default(),
            blocked_at: None,
            filled: false,
            losses: LossIntervals::default(),
            rack: Rack::default(),
            overtaken_at: None,
            mtu: Mtu::new(packet, now),
            interleaved,
            flight: 0,
            t3: None,
            tail: TailProbe::default(),
            heartbeat_at: now,
            probe: false,
            heartbeat: None,
            echo: Vec::with_capacity(USUAL_HEARTBEAT),
        }
    }

    /// Resets the path for a peer that has restarted (RFC 9260 §5.2.4, action A).
    pub fn restart(&mut self, packet: usize, interleaved: bool, settings: &Settings, now: Instant) {
        let (confirmed, told, echo) = (self.confirmed, self.told, std::mem::take(&mut self.echo));
        *self = Path { confirmed, told, echo, ..Path::new(self.id, packet, interleaved, settings, now) };
    }

    /// Whether the path is confirmed and works, as far as is known.
    pub fn is_good(&self) -> bool {
        self.confirmed && self.errors <= self.forgiven
    }

    /// Statistics of this path alone.
    pub fn stats(&self) -> PathStats {
        PathStats {
            srtt: self.rtt.smoothed().srtt(),
            rttvar: self.rtt.smoothed().rttvar(),
            min_rtt: self.rtt.smoothed().min(),
            cwnd: Some(ByteCount(self.window.cwnd as u64)),
            in_flight: Some(ByteCount(self.flight as u64)),
            ..PathStats::default()
        }
    }

    /// The peer has answered a packet sent on this path.
    pub fn answered(&mut self) {
        self.confirmed = true;
        self.errors = 0;
        self.rtt.reset_backoff();
    }

    /// Adapts the window to the packet size that passes.
    pub fn fit_window(&mut self) {
        self.window.full = payload_of(self.mtu.size(), self.interleaved);
    }

    /// A transmission was lost: reduces the window, once for all losses of one window. Returns whether it did.
    /// `highest`: the last TSN sent.
    pub fn on_loss(&mut self, now: Instant, highest: Seq32, sending: u64) -> bool {
        if self.window.has_answered(sending) {
            return false;
        }
        self.losses.on_loss_event();
        self.note_filling(now);
        self.window.reduce(self.used(), self.kept());
        self.window.recover(highest, self.rack.sent());
        true
    }

    /// The window holds something back.
    pub fn on_blocked(&mut self, now: Instant) {
        if !self.window.in_recovery() {
            self.blocked_at = Some(now);
        }
    }

    /// A loss: notes whether the window was filled in the last two round trips before the recovery.
    fn note_filling(&mut self, now: Instant) {
        let recent = 2 * self.rtt.smoothed().srtt().unwrap_or_default();
        if !self.window.in_recovery() {
            self.filled = self.blocked_at.is_some_and(|at| now.since(at) <= recent);
        }
    }

    /// T3-rtx has expired.
    pub fn on_timeout(&mut self, now: Instant) {
        self.losses.on_loss_event();
        self.note_filling(now);
        self.window.on_timeout(self.used(), self.kept());
        self.rtt.back_off();
    }

    /// Bytes of the window that a loss leaves to an application which has not filled it for two round trips: what it
    /// uses and a packet more, as far as a TCP would have this window on average at this rate of losses (RFC 5348 §3.1).
    ///
    /// Without it, sound at a constant rate below its fair share would come to a halt after every other loss: halving is
    /// meant for a window that had grown until it no longer fitted. Bytes are counted as full packets, as small ones
    /// would make losses seem rarer.
    fn kept(&self) -> usize {
        let full = self.window.full;
        match self.losses.mean().filter(|_| !self.filled) {
            Some(mean) => (self.used() + full).min((full as f64 / f((full as f64 / mean).min(1.0))) as usize),
            None => 0,
        }
    }

    /// `acked` bytes were acknowledged, up to `cumulative` if that moved; `flight` bytes were in flight before.
    pub fn on_ack(&mut self, now: Instant, acked: usize, flight: usize, cumulative: Option<Seq32>) {
        self.pipe.on_ack(now, acked as f64, self.rtt.smoothed().srtt());
        self.losses.on_ack(acked as f64);
        if let Some(cumulative) = cumulative {
            self.window.on_ack(acked, flight.max(self.pipe.most() as usize), cumulative);
        }
    }

    /// Bytes of the window that are used: acknowledged in a recent round trip, or in flight.
    fn used(&self) -> usize {
        self.flight.max(self.pipe.most() as usize)
    }

    /// Starts or restarts T3-rtx (RFC 9260 §6.3.2 and §6.3.3) for a chunk sent at `since`.
    pub fn start_t3(&mut self, since: Instant) {
        self.t3 = Some(since + self.rtt.rto());
    }
}

/// Payload bytes of a packet with one chunk.
fn payload_of(packet: usize, interleaved: bool) -> usize {
    packet - HEADER - DataHeader::len(interleaved)
}

/// Congestion control (RFC 9260 §7.2), in bytes of payload.
///
/// Differences: RFC 9260 lets a window grow only while it is full. Here it grows while half of it is used, up to twice
/// what is used (RFC 7661): sound at a constant rate does not fill its window, and one that only just suffices is too
/// small after the first loss. What was never used does not remain after a loss. RFC 7661 §4.4.1 then takes half of what
/// was used; here it is all, since SCTP halves the window and not the flight (§7.2.3): where exactly half of the window
/// is used, that is the same.
///
/// No proportional rate reduction (RFC 6937): it spreads a reduction over a round trip, for senders that fill their
/// window. An application-limited flight is below the reduced window at once, and a full one continues as soon as half of
/// it was acknowledged or found lost.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// Payload bytes of a full packet.
    full: usize,
    /// Fast recovery ends when this TSN is acknowledged.
    recovery: Option<Seq32>,
    /// Transmissions up to this one left before the last reduction, which answers their losses.
    answered: u64,
    /// When payload last went out.
    last_sent: Option<Instant>,
}

impl Window {
    /// `full`: payload bytes of a full packet (PMDCS).
    pub fn new(full: usize) -> Self {
        // §7.2.1, for IPv4.
        let cwnd = (4 * full).min((2 * full).max(4404));
        Window {
            cwnd,
            ssthresh: usize::MAX,
            partial_bytes_acked: 0,
            full,
            recovery: None,
            answered: 0,
            last_sent: None,
        }
    }

    /// Payload was sent at `now`. A window unused for long may no longer fit the path: it halves for each time-out
    /// without sending.
    pub fn on_send(&mut self, now: Instant, patience: Duration) {
        if let Some(last) = self.last_sent {
            let silent = now.since(last).as_nanos() / patience.as_nanos().max(1);
            let floor = (4 * self.full).min(self.cwnd);
            // 32 halvings reduce any window to 0.
            self.cwnd = (self.cwnd >> silent.min(32) as u32).max(floor);
        }
        self.last_sent = Some(now);
    }

    /// `acked` bytes were acknowledged, up to `cumulative`; `used` bytes of the window are used.
    pub fn on_ack(&mut self, acked: usize, used: usize, cumulative: Seq32) {
        if self.recovery.is_some_and(|exit| !cumulative.is_before(exit)) {
            self.recovery = None;
            self.partial_bytes_acked = 0;
        }
        if self.recovery.is_some() {
            return;
        }
        if self.cwnd <= self.ssthresh {
            let step = acked.min(self.full);
            if is_validated(used as f64, (self.cwnd + step) as f64) {
                self.cwnd += step;
            }
            return;
        }
        self.partial_bytes_acked += acked;
        if self.partial_bytes_acked >= self.cwnd {
            if is_validated(used as f64, (self.cwnd + self.full) as f64) {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += self.full;
            } else {
                self.partial_bytes_acked = self.cwnd;
            }
        }
    }

    /// Everything sent was acknowledged (§7.2.2).
    pub fn on_all_acked(&mut self) {
        self.partial_bytes_acked = 0;
    }

    /// Whether the last reduction answers the loss of a transmission: it left before. A retransmission that is lost as
    /// well is a new sign of congestion (RFC 5681 §4.3).
    fn has_answered(&self, sending: u64) -> bool {
        self.recovery.is_some() && sending <= self.answered
    }

    /// Halves the window, of which `used` bytes are used; `kept` bytes of it remain in any case.
    fn reduce(&mut self, used: usize, kept: usize) {
        self.ssthresh = (self.cwnd / 2).min(used).max(kept.min(self.cwnd)).max(4 * self.full);
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    /// Enters fast recovery until `highest`, the last TSN sent, is acknowledged; `sent`: transmissions so far.
    fn recover(&mut self, highest: Seq32, sent: u64) {
        (self.recovery, self.answered) = (Some(highest), sent);
    }

    /// T3-rtx has expired: as for a loss, from a window of one packet.
    fn on_timeout(&mut self, used: usize, kept: usize) {
        self.reduce(used, kept);
        self.cwnd = self.full;
        self.recovery = None;
    }

    /// Whether one packet may hold so many bytes.
    pub fn holds_in_one_packet(&self, bytes: usize) -> bool {
        bytes <= self.full
    }

    pub fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }
}

/// Bytes reserved for a heartbeat's contents: Linux sends an address, a time and a number, some fifty bytes.
const USUAL_HEARTBEAT: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::settings::live_rto;
    use super::*;
    use crate::rtt::RtoSettings;

    const FULL: usize = 1424;
    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const LIVE: RtoSettings = live_rto(Duration::from_millis(10));

    #[test]
    fn the_time_out_follows_the_round_trip_and_backs_off() {
        let mut rtt = RttEstimator::new(LIVE);
        assert_eq!(rtt.rto(), 250 * MS);
        rtt.on_sample(40 * MS);
        // 40 + 4 · 20.
        assert_eq!((rtt.rto(), rtt.smoothed().min()), (120 * MS, Some(40 * MS)));
        (0..100).for_each(|_| rtt.on_sample(40 * MS));
        assert_eq!(rtt.base_rto(), 70 * MS, "the margin is what is left of the variation");
        (0..3).for_each(|_| rtt.back_off());
        assert_eq!((rtt.rto(), rtt.base_rto()), (560 * MS, 70 * MS));
        rtt.back_off();
        assert_eq!(rtt.rto(), SECOND);
        (0..400).for_each(|_| rtt.on_sample(1500 * MS));
        // Averages of nanoseconds are rounded down.
        let long = rtt.rto();
        assert!(
            long.abs_diff(1530 * MS) < MS / 1000,
            "a long path is not asked faster than it answers: {long:?}"
        );
        (0..100).for_each(|_| rtt.on_sample(5000 * MS));
        assert_eq!(rtt.rto(), 2 * SECOND, "up to a bound");
    }

    #[test]
    fn rfc_9260_time_outs_range_from_a_second_to_a_minute() {
        let mut rtt = RttEstimator::new(RtoSettings {
            initial: 3 * SECOND,
            min: SECOND,
            max: 60 * SECOND,
            longest: 60 * SECOND,
            ..LIVE
        });
        assert_eq!(rtt.rto(), 3 * SECOND);
        (0..100).for_each(|_| rtt.on_sample(40 * MS));
        assert_eq!(rtt.rto(), SECOND);
        (0..5).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), 32 * SECOND);
        rtt.back_off();
        assert_eq!(rtt.rto(), 60 * SECOND);
    }

    #[test]
    fn the_window_opens_and_closes_by_the_rules() {
        let mut window = Window::new(FULL);
        assert_eq!(window.cwnd, 4404);
        window.on_ack(2 * FULL, 0, Seq32(1));
        assert_eq!(window.cwnd, 4404, "the window was not used");
        window.on_ack(2 * FULL, 4404, Seq32(3));
        assert_eq!(window.cwnd, 4404 + FULL, "slow start, one packet for each acknowledgement");
        while window.cwnd < 20 * FULL {
            window.on_ack(FULL, window.cwnd, Seq32(4));
        }
        let before = window.cwnd;
        assert!(!window.has_answered(1));
        window.reduce(before, 0);
        window.recover(Seq32(100), 9);
        assert!(window.has_answered(9) && !window.has_answered(10), "once for a window");
        assert_eq!(window.cwnd, before / 2);
        window.on_ack(FULL, window.cwnd, Seq32(99));
        assert_eq!((window.cwnd, window.in_recovery()), (before / 2, true));
        window.on_ack(FULL, window.cwnd, Seq32(100));
        assert_eq!(
            (window.cwnd, window.in_recovery()),
            (before / 2 + FULL, false),
            "at the threshold still slow start"
        );
        // Congestion avoidance: one more packet for each acknowledged window.
        let half = window.cwnd;
        let acks = (0..).take_while(|_| {
            window.on_ack(FULL, window.cwnd, Seq32(100));
            window.cwnd == half
        });
        assert_eq!(acks.count() + 1, half.div_ceil(FULL));
        window.on_timeout(window.cwnd, 0);
        assert_eq!(window.cwnd, FULL);
    }

    #[test]
    fn silence_closes_the_window() {
        let mut window = Window::new(FULL);
        window.cwnd = 100 * FULL;
        window.on_send(Instant::from_millis(0), 70 * MS);
        window.on_send(Instant::from_millis(69), 70 * MS);
        assert_eq!(window.cwnd, 100 * FULL);
        window.on_send(Instant::from_millis(69 + 140), 70 * MS);
        assert_eq!(window.cwnd, 25 * FULL);
        window.on_send(Instant::from_millis(3_600_000), 70 * MS);
        assert_eq!(window.cwnd, 4 * FULL);
    }
}

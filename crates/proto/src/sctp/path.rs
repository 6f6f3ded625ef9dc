//! State of one path: round trip, congestion window, time-out, and whether it works.

use antiphon_core::{ByteCount, Instant, PathId, PathStats, Seq32};

use super::mtu::Mtu;
use super::settings::Settings;
use super::tail::TailProbe;
use super::window::Window;
use super::wire::HEADER;
use super::wire::chunks::DataHeader;
use crate::cc::PipeAck;
use crate::cc::tfrc::{LossIntervals, f};
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
        }
    }

    /// Resets the path for a peer that has restarted (RFC 9260 §5.2.4, action A).
    pub fn restart(&mut self, packet: usize, interleaved: bool, settings: &Settings, now: Instant) {
        let (confirmed, told) = (self.confirmed, self.told);
        *self = Path { confirmed, told, ..Path::new(self.id, packet, interleaved, settings, now) };
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rtt::RtoSettings;
    use crate::rtt::live_rto;

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
        (0..2).for_each(|_| rtt.back_off());
        assert_eq!((rtt.rto(), rtt.base_rto()), (280 * MS, 70 * MS));
        rtt.back_off();
        assert_eq!(rtt.rto(), 500 * MS);
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

    /// Live stereo with a round trip of 40 ms; every hundredth packet is lost. Returns the least window after a loss.
    fn stereo(path: &mut Path, is_blocked: bool) -> usize {
        let (flight, packet) = (8 * 1052, 1052);
        let mut least = usize::MAX;
        for n in 0..2_000u64 {
            let now = Instant::from_micros(5_333 * n);
            path.rtt.on_sample(40 * MS);
            path.flight = flight;
            if is_blocked {
                path.on_blocked(now);
            }
            let sending = path.rack.on_send();
            if n % 100 != 99 {
                path.on_ack(now, packet, flight, Some(Seq32(n as u32)));
            } else if path.on_loss(now, Seq32(n as u32), sending) && n > 500 {
                least = least.min(path.window.cwnd);
            }
        }
        least
    }

    #[test]
    fn a_loss_leaves_an_application_limited_stream_its_window() {
        let settings = super::super::settings::read(&"".parse().unwrap(), None).unwrap();
        let new = || Path::new(PathId(0), 1452, false, &settings, Instant::ZERO);
        let full = new().window.full;
        assert!(stereo(&mut new(), false) > 8 * 1052, "what is in flight fits");
        let blocked = stereo(&mut new(), true);
        assert!((4 * full..=8 * 1052).contains(&blocked), "a filled window is halved: {blocked}");
    }

    #[test]
    fn frequent_losses_leave_no_more_than_a_tcp_would_have() {
        let settings = super::super::settings::read(&"".parse().unwrap(), None).unwrap();
        let mut path = Path::new(PathId(0), 1452, false, &settings, Instant::ZERO);
        path.flight = 40 * path.window.full;
        for n in 0..10 {
            path.losses.on_ack(20.0 * path.window.full as f64);
            let sending = path.rack.on_send();
            assert!(path.on_loss(Instant::ZERO, Seq32(n), sending));
        }
        // A loss in 20 packets: 1 / f(0.05) = 3.69 packets, computed independently.
        assert_eq!(path.kept() * 100 / path.window.full, 368);
    }
}

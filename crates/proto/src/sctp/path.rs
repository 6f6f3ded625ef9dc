//! One way to the peer: its round trip, its congestion window, its time-out, and whether it works.

use std::time::Duration;

use antiphon_core::{Instant, PathId, Seq32};

use super::mtu::Mtu;
use super::settings::{Rto, Settings};
use super::wire::HEADER;
use super::wire::chunks::DataHeader;

/// A way to the peer.
#[derive(Debug)]
pub(super) struct Path {
    pub id: PathId,
    /// Whether the peer has answered on it: nothing but heartbeats goes to an address that has not (RFC 9260 §5.4).
    pub confirmed: bool,
    /// Time-outs and unanswered heartbeats since the last answer.
    pub errors: u32,
    /// So many of them change nothing yet (Path.Max.Retrans, or PotentiallyFailed.Max.Retrans of RFC 7829).
    forgiven: u32,
    pub rtt: Rtt,
    pub window: Window,
    pub mtu: Mtu,
    /// Whether payload goes as I-DATA, whose headers are longer.
    interleaved: bool,
    /// Payload bytes on their way.
    pub flight: usize,
    /// When what is on its way counts as lost.
    pub t3: Option<Instant>,
    /// When the next heartbeat is due.
    pub heartbeat_at: Instant,
    /// Whether one is to be sent.
    pub probe: bool,
    /// The heartbeat that is not answered yet.
    pub heartbeat: Option<(u64, Instant)>,
    /// What the peer's heartbeat carried and is to be returned; empty for none.
    pub echo: Vec<u8>,
}

impl Path {
    /// `packet`: bytes of a packet at most.
    pub fn new(id: PathId, packet: usize, interleaved: bool, settings: &Settings, now: Instant) -> Self {
        Path {
            id,
            confirmed: false,
            errors: 0,
            rtt: Rtt::new(settings.rto),
            forgiven: settings.path_max_retrans,
            window: Window::new(payload_of(packet, interleaved)),
            mtu: Mtu::new(packet, now),
            interleaved,
            flight: 0,
            t3: None,
            heartbeat_at: now,
            probe: false,
            heartbeat: None,
            echo: Vec::with_capacity(USUAL_HEARTBEAT),
        }
    }

    /// Begins anew, for a peer that has (RFC 9260 §5.2.4, action A).
    pub fn restart(&mut self, packet: usize, interleaved: bool, settings: &Settings, now: Instant) {
        let (confirmed, echo) = (self.confirmed, std::mem::take(&mut self.echo));
        *self = Path { confirmed, echo, ..Path::new(self.id, packet, interleaved, settings, now) };
    }

    /// Whether frames may go here as far as is known.
    pub fn is_good(&self) -> bool {
        self.confirmed && self.errors <= self.forgiven
    }

    /// The peer has answered something that went this way.
    pub fn answered(&mut self) {
        self.confirmed = true;
        self.errors = 0;
        self.rtt.backoff = 0;
    }

    /// The window counts in packets of the size that passes.
    pub fn fit_window(&mut self) {
        self.window.full = payload_of(self.mtu.size(), self.interleaved);
    }

    /// T3-rtx (RFC 9260 §6.3.2 and §6.3.3) begins, or begins anew, for what set out at `since`.
    pub fn start_t3(&mut self, since: Instant) {
        self.t3 = Some(since + self.rtt.timeout());
    }
}

/// Payload bytes of a packet with one chunk.
fn payload_of(packet: usize, interleaved: bool) -> usize {
    packet - HEADER - DataHeader::len(interleaved)
}

/// Round-trip time and retransmission time-out (RFC 9260 §6.3.1).
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    srtt: Option<Duration>,
    rttvar: Duration,
    min: Duration,
    rto: Rto,
    /// Time-outs since the last answer: each doubles the next.
    pub backoff: u32,
}

impl Rtt {
    fn new(rto: Rto) -> Self {
        Rtt { srtt: None, rttvar: Duration::ZERO, min: Duration::MAX, rto, backoff: 0 }
    }

    /// Takes a measurement of something that was sent once; the peer's wait with the acknowledgement is in it.
    pub fn sample(&mut self, rtt: Duration) {
        self.min = self.min.min(rtt);
        let Some(srtt) = self.srtt else {
            (self.srtt, self.rttvar) = (Some(rtt), rtt / 2);
            return;
        };
        // RTO.Alpha 1/8, RTO.Beta 1/4 (§16).
        self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
        self.srtt = Some((srtt * 7 + rtt) / 8);
    }

    /// The time-out without backing off.
    pub fn patience(&self) -> Duration {
        let Rto { initial, min, longest, margin, .. } = self.rto;
        match self.srtt {
            Some(srtt) => (srtt + (self.rttvar * 4).max(margin)).clamp(min, longest),
            None => initial.max(margin),
        }
    }

    /// The time-out now.
    pub fn timeout(&self) -> Duration {
        self.rto.backed_off(self.patience(), self.backoff)
    }

    /// Doubles the time-out until the next answer.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }

    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub fn rttvar(&self) -> Option<Duration> {
        self.srtt.map(|_| self.rttvar)
    }

    pub fn min(&self) -> Option<Duration> {
        self.srtt.map(|_| self.min)
    }
}

/// Congestion control (RFC 9260 §7.2), in bytes of payload.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// Payload of a full packet.
    full: usize,
    /// Fast recovery ends when this TSN is acknowledged.
    recovery: Option<Seq32>,
    /// When payload last went out.
    last_sent: Option<Instant>,
}

impl Window {
    /// `full`: payload bytes of a full packet (PMDCS).
    pub fn new(full: usize) -> Self {
        // §7.2.1, for IPv4.
        let cwnd = (4 * full).min((2 * full).max(4404));
        Window { cwnd, ssthresh: usize::MAX, partial_bytes_acked: 0, full, recovery: None, last_sent: None }
    }

    /// Payload went out at `now`. After a silence the window is an old story: it halves for each time-out of silence.
    pub fn on_send(&mut self, now: Instant, patience: Duration) {
        if let Some(last) = self.last_sent {
            let silent = now.since(last).as_nanos() / patience.as_nanos().max(1);
            let floor = (4 * self.full).min(self.cwnd);
            // Past 32 halvings nothing is left of any window.
            self.cwnd = (self.cwnd >> silent.min(32) as u32).max(floor);
        }
        self.last_sent = Some(now);
    }

    /// `acked` bytes were acknowledged and the cumulative point moved to `cumulative`; `flight` was on its way before.
    pub fn on_ack(&mut self, acked: usize, flight: usize, cumulative: Seq32) {
        if self.recovery.is_some_and(|exit| !cumulative.is_before(exit)) {
            self.recovery = None;
            self.partial_bytes_acked = 0;
        }
        let in_use = flight + self.full > self.cwnd;
        if self.recovery.is_some() {
            return;
        }
        if self.cwnd <= self.ssthresh {
            if in_use {
                self.cwnd += acked.min(self.full);
            }
            return;
        }
        self.partial_bytes_acked += acked;
        if self.partial_bytes_acked >= self.cwnd {
            if in_use {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += self.full;
            } else {
                self.partial_bytes_acked = self.cwnd;
            }
        }
    }

    /// All was acknowledged (§7.2.2).
    pub fn on_all_acked(&mut self) {
        self.partial_bytes_acked = 0;
    }

    /// Fast retransmission: once for all that is lost of one window. Whether this is the first. `highest`: the last TSN
    /// sent.
    pub fn on_loss(&mut self, highest: Seq32) -> bool {
        if self.recovery.is_some() {
            return false;
        }
        self.ssthresh = (self.cwnd / 2).max(4 * self.full);
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
        self.recovery = Some(highest);
        true
    }

    /// T3-rtx has expired.
    pub fn on_timeout(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(4 * self.full);
        self.cwnd = self.full;
        self.partial_bytes_acked = 0;
        self.recovery = None;
    }

    pub fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }
}

/// Bytes for what a heartbeat carries: an address, a time and a number, as Linux sends them, are some fifty.
const USUAL_HEARTBEAT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = 1424;
    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const LIVE: Rto = Rto::live(Duration::from_millis(10));

    #[test]
    fn the_time_out_follows_the_round_trip_and_backs_off() {
        let mut rtt = Rtt::new(LIVE);
        assert_eq!(rtt.timeout(), 250 * MS);
        rtt.sample(40 * MS);
        // 40 + 4 · 20.
        assert_eq!((rtt.timeout(), rtt.min()), (120 * MS, Some(40 * MS)));
        (0..100).for_each(|_| rtt.sample(40 * MS));
        assert_eq!(rtt.patience(), 70 * MS, "the margin is what is left of the variation");
        (0..3).for_each(|_| rtt.back_off());
        assert_eq!((rtt.timeout(), rtt.patience()), (560 * MS, 70 * MS));
        rtt.back_off();
        assert_eq!(rtt.timeout(), SECOND);
        (0..400).for_each(|_| rtt.sample(1500 * MS));
        // Averages of nanoseconds are rounded down.
        let long = rtt.timeout();
        assert!(
            long.abs_diff(1530 * MS) < MS / 1000,
            "a long path is not asked faster than it answers: {long:?}"
        );
        (0..100).for_each(|_| rtt.sample(5000 * MS));
        assert_eq!(rtt.timeout(), 2 * SECOND, "up to a bound");
    }

    #[test]
    fn with_the_time_outs_of_rfc_9260_it_waits_a_second_at_least_and_doubles_to_a_minute() {
        let mut rtt = Rtt::new(Rto {
            initial: 3 * SECOND,
            min: SECOND,
            max: 60 * SECOND,
            longest: 60 * SECOND,
            ..LIVE
        });
        assert_eq!(rtt.timeout(), 3 * SECOND);
        (0..100).for_each(|_| rtt.sample(40 * MS));
        assert_eq!(rtt.timeout(), SECOND);
        (0..5).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), 32 * SECOND);
        rtt.back_off();
        assert_eq!(rtt.timeout(), 60 * SECOND);
    }

    #[test]
    fn the_window_opens_and_closes_by_the_rules() {
        let mut window = Window::new(FULL);
        assert_eq!(window.cwnd, 4404);
        window.on_ack(2 * FULL, 0, Seq32(1));
        assert_eq!(window.cwnd, 4404, "nobody used it");
        window.on_ack(2 * FULL, 4404, Seq32(3));
        assert_eq!(window.cwnd, 4404 + FULL, "slow start, one packet for each acknowledgement");
        while window.cwnd < 20 * FULL {
            window.on_ack(FULL, window.cwnd, Seq32(4));
        }
        let before = window.cwnd;
        assert!(window.on_loss(Seq32(100)) && !window.on_loss(Seq32(120)), "once for a window");
        assert_eq!(window.cwnd, before / 2);
        window.on_ack(FULL, window.cwnd, Seq32(99));
        assert_eq!((window.cwnd, window.in_recovery()), (before / 2, true));
        window.on_ack(FULL, window.cwnd, Seq32(100));
        assert_eq!(
            (window.cwnd, window.in_recovery()),
            (before / 2 + FULL, false),
            "at the threshold still slow start"
        );
        // Avoidance: a packet more when a window is acknowledged.
        let half = window.cwnd;
        let acks = (0..).take_while(|_| {
            window.on_ack(FULL, window.cwnd, Seq32(100));
            window.cwnd == half
        });
        assert_eq!(acks.count() + 1, half.div_ceil(FULL));
        window.on_timeout();
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

//! The sending half: the buffer, and the choice of the next segment.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_proto::cc::{Controller, Cubic, Reno, Window};
use antiphon_proto::rtt::RttEstimator;

use super::detect::Rack;
use super::profile::{Algorithm, Nagle, Profile, WindowUnit};
use super::receiver::{copy_in, copy_out};
use super::recovery::{Phase, Recovery};
use super::scoreboard::Scoreboard;
use super::timers::Timer;

/// Sends a stream under flow and congestion control. Its parts live in `ack`, `detect`, `recovery` and `timers`.
#[derive(Debug)]
pub struct Sender {
    pub(super) profile: Profile,
    ring: Box<[u8]>,
    memory: Memory,
    /// First position not acknowledged.
    pub(super) una: u64,
    /// Next position to send.
    pub(super) next: u64,
    /// Position after the last byte written.
    written: u64,
    closing: bool,
    fin_sent: bool,
    pub(super) scoreboard: Scoreboard,
    pub(super) rtt: RttEstimator,
    pub(super) congestion: Box<dyn Controller>,
    pub(super) recovery: Recovery,
    pub(super) rack: Rack,
    /// Right edge of the peer's window.
    pub(super) edge: u64,
    pub(super) largest_window: u64,
    /// Bytes of payload in a full segment.
    pub(super) mss: u32,
    /// The peer does SACK.
    pub(super) sack: bool,
    pub(super) dup_threshold: u32,
    pub(super) timer: Option<Timer>,
    pub(super) reorder_timer: Option<Instant>,
    /// A segment that is sent whatever the window says: a probe.
    pub(super) forced: Option<Forced>,
    pub(super) tail_probe: Option<TailProbe>,
    pub(super) retries: u32,
    /// There was a time-out, and not all that was sent by then is acknowledged.
    pub(super) timed_out: bool,
    /// When the wait for the head's acknowledgement began: first sent, or the last advance.
    pub(super) waits_since: Instant,
    last_sent: Instant,
    pub(super) usage: Usage,
    small_end: u64,
    pub(super) counts: Counts,
}

/// A send buffer as Linux counts it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What a segment takes; zero: nothing is counted here.
    each: u64,
    /// `sk_sndbuf`.
    limit: u64,
    /// A writer waits (`SOCK_NOSPACE`).
    waited_for: bool,
}

impl Memory {
    fn new(profile: &Profile) -> Self {
        let (each, limit) = (u64::from(profile.segment_memory), profile.send_buffer as u64);
        Memory { each, limit, waited_for: false }
    }

    /// The connection is established: room for an initial window (`tcp_fixup_sndbuf`).
    fn open(&mut self, profile: &Profile) {
        let least = u64::from(profile.initial_window) * full_segment(profile);
        self.limit = self.limit.max(least.min(MOST_SEND_MEMORY));
    }

    /// Bytes that may be written. A segment may begin while less than the whole is taken (`sk_stream_memory_free`), and the
    /// last unsent one is filled first.
    fn room(&self, held: u64, unsent: u64, mss: u32) -> usize {
        if self.each == 0 {
            return usize::MAX;
        }
        let (taken, mss) = (held * self.each, u64::from(mss));
        if self.waited_for && !self.wakes(taken) {
            return 0;
        }
        let begin = self.limit.saturating_sub(taken).div_ceil(self.each);
        (begin * mss + (mss - unsent % mss) % mss) as usize
    }

    /// `sk_stream_write_space`: at least half as much is free as is taken.
    fn wakes(&self, taken: u64) -> bool {
        self.limit.saturating_sub(taken) >= taken / 2
    }

    /// `tcp_new_space`: twice the window, unless the window is full (`tcp_should_expand_sndbuf`).
    fn check(&mut self, held: u64, has_window: bool, demanded: u64, profile: &Profile) {
        if !self.waited_for {
            return;
        }
        if has_window {
            self.limit = self.limit.max((2 * demanded * full_segment(profile)).min(MOST_SEND_MEMORY));
        }
        self.waited_for = !self.wakes(held * self.each);
    }
}

/// `SKB_TRUESIZE(mss_clamp + MAX_TCP_HEADER)`, with what Linux adds on 64 bits: headers of 304 bytes, where tunnels and
/// wireless meshes are compiled in (`include/linux/netdevice.h`: `LL_MAX_HEADER` 128 and 48; `include/net/tcp.h`: 128), and an
/// `sk_buff` with its `skb_shared_info` of 256 and 320.
fn full_segment(profile: &Profile) -> u64 {
    u64::from(profile.mss) + 304 + 256 + 320
}

/// Bytes of payload that the ring must hold.
fn ring(profile: &Profile) -> usize {
    match u64::from(profile.segment_memory) {
        0 => profile.send_buffer.max(1),
        each => {
            ((MOST_SEND_MEMORY.max(profile.send_buffer as u64) / each + 2) * u64::from(profile.mss)) as usize
        }
    }
}

/// The last of `tcp_wmem` where memory is not short (`tcp_init`: 4 MiB at most).
const MOST_SEND_MEMORY: u64 = 4 << 20;

/// Kinds of probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forced {
    /// New data, or the last segment again (RFC 8985 §7.3).
    Tail,
    /// What the window permits, or nothing at an old position to provoke an answer (RFC 9293 §3.8.6.1).
    Window,
}

/// A tail loss probe whose outcome is open.
#[derive(Clone, Copy, Debug)]
pub struct TailProbe {
    pub(super) high: u64,
    pub(super) retransmission: bool,
}

/// Whether the application uses the window (RFC 7661's concern; Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The window stopped a segment in this round.
    pub(super) limited: bool,
    /// Most segments in flight in this round.
    pub(super) most: usize,
    round_end: u64,
    used: usize,
    stamp: Instant,
}

/// Totals of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub(super) retransmitted_segments: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    pub(super) tail_probes: u64,
    pub(super) window_probes: u64,
    pub(super) undone: u64,
}

/// A part of the stream that is sent in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First position.
    pub seq: u64,
    /// Bytes of payload.
    pub len: usize,
    /// A FIN follows.
    pub fin: bool,
    /// No more data waits.
    pub push: bool,
}

impl Sender {
    /// A sender before the handshake; [`Self::open`] makes it ready.
    pub fn new(profile: &Profile) -> Self {
        Sender {
            profile: *profile,
            ring: vec![0; ring(profile)].into_boxed_slice(),
            memory: Memory::new(profile),
            una: 1,
            next: 1,
            written: 1,
            closing: false,
            fin_sent: false,
            scoreboard: Scoreboard::with_room(SEGMENTS_READY),
            rtt: RttEstimator::new(profile.rto),
            congestion: controller(profile),
            recovery: Recovery::new(profile.reduction),
            rack: Rack::default(),
            edge: 1,
            largest_window: 0,
            mss: profile.mss.max(1),
            sack: false,
            dup_threshold: profile.dup_threshold.max(1),
            timer: None,
            reorder_timer: None,
            forced: None,
            tail_probe: None,
            retries: 0,
            timed_out: false,
            waits_since: Instant::ZERO,
            last_sent: Instant::ZERO,
            usage: Usage::default(),
            small_end: 0,
            counts: Counts::default(),
        }
    }

    /// The handshake is done: payload of `mss` bytes, SACK or not.
    pub fn open(&mut self, now: Instant, mss: u32, sack: bool) {
        (self.mss, self.sack) = (mss.max(1), sack);
        (self.last_sent, self.waits_since) = (now, now);
        self.memory.open(&self.profile);
    }

    /// Takes as many of `bytes` as the buffer has room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let n = if self.closing { 0 } else { bytes.len().min(self.room()) };
        copy_in(&mut self.ring, self.written, &bytes[..n]);
        self.written += n as u64;
        n
    }

    /// Bytes that [`Self::write`] would take.
    pub fn room(&self) -> usize {
        let free = self.ring.len() - (self.written - self.una.min(self.written)) as usize;
        free.min(self.memory.room(self.segments_held(), self.unsent(), self.mss))
    }

    /// Segments that the buffer holds: those in flight, and those that the unsent rest will make.
    fn segments_held(&self) -> u64 {
        self.scoreboard.len() as u64 + self.unsent().div_ceil(u64::from(self.mss))
    }

    /// The application waits for room.
    pub fn note_waiting(&mut self) {
        self.memory.waited_for |= self.room() == 0;
    }

    /// An acknowledgement was processed: the buffer may grow, and its writer go on.
    pub(super) fn check_space(&mut self) {
        let (held, cwnd) = (self.segments_held(), self.window().cwnd as u64);
        let demanded = cwnd.max(u64::from(self.dup_threshold) + 1);
        // Linux looks after it has sent what it may (`tcp_data_snd_check`), so all that is held counts as sent.
        self.memory.check(held, held < cwnd, demanded, &self.profile);
    }

    /// No more will be written; a FIN follows what was.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The FIN was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }

    /// Copies the payload of `piece`.
    pub fn fill(&self, piece: &Piece, buf: &mut Vec<u8>) {
        buf.resize(piece.len, 0);
        copy_out(&self.ring, piece.seq, buf);
    }

    /// Bytes written and not yet sent.
    pub fn unsent(&self) -> u64 {
        self.written - self.next.min(self.written)
    }

    /// The next segment to send, if the windows permit one.
    pub fn poll(&mut self, now: Instant) -> Option<Piece> {
        if let Some(forced) = self.forced.take() {
            return self.poll_forced(now, forced);
        }
        if let Some(index) = self.scoreboard.next_lost() {
            let weight = self.scoreboard.at(index)?.weight;
            return if self.fits(weight) { self.resend(now, index) } else { None };
        }
        self.poll_new(now)
    }

    fn poll_forced(&mut self, now: Instant, forced: Forced) -> Option<Piece> {
        let room = self.edge.saturating_sub(self.next);
        let len = self.unsent().min(u64::from(self.mss)).min(room);
        match forced {
            Forced::Tail if len > 0 && len == self.unsent().min(u64::from(self.mss)) => {
                Some(self.send_new(now, len, false))
            }
            Forced::Tail => {
                let index = self.scoreboard.tail_index()?;
                self.resend(now, index)
            }
            Forced::Window if len > 0 => Some(self.send_new(now, len, false)),
            // Like Linux (`tcp_xmit_probe_skb`): an old position is out of window and must be answered.
            Forced::Window => {
                Some(Piece { seq: self.una.saturating_sub(1), len: 0, fin: false, push: false })
            }
        }
    }

    fn poll_new(&mut self, now: Instant) -> Option<Piece> {
        if self.profile.repairs_first && self.timed_out {
            return None;
        }
        let full = u64::from(self.mss);
        let unsent = self.unsent();
        let mut len = unsent.min(full);
        let fin = self.closing && !self.fin_sent && len == unsent;
        if len == 0 {
            return fin.then(|| self.send_new(now, 0, true));
        }
        let room = self.edge.saturating_sub(self.next);
        if room < len {
            if room == 0 || room < self.largest_window / 2 {
                self.arm_persist(now);
                return None;
            }
            len = room;
        }
        if !self.profile.no_delay && !fin && self.must_wait(len) {
            return None;
        }
        self.restart_if_idle(now);
        if !self.fits(self.weight(len)) {
            self.usage.limited = true;
            return None;
        }
        Some(self.send_new(now, len, fin && len == unsent))
    }

    /// Nagle's rule for a segment of `len` bytes.
    fn must_wait(&self, len: u64) -> bool {
        let full = u64::from(self.mss);
        match self.profile.nagle {
            // One small segment unacknowledged at a time.
            Nagle::Minshall => len < full && self.small_end > self.una,
            Nagle::HalfSegment => 2 * len < full && !self.scoreboard.is_empty(),
        }
    }

    /// The retransmission time-out, back-off included.
    pub(super) fn rto(&self) -> Duration {
        if !self.profile.rto_stretch {
            return self.rtt.rto();
        }
        let doublings = (self.window().cwnd.max(1.0) as i32).min(32) - 1;
        self.rtt.rto_times(1.25 + 0.5f64.powi(doublings))
    }

    fn weight(&self, len: u64) -> u64 {
        match self.profile.window_unit {
            WindowUnit::Packets => u64::from(self.mss),
            WindowUnit::Bytes => len,
        }
    }

    /// Segments, by weight, in flight.
    pub fn in_flight(&self) -> f64 {
        self.segments(self.scoreboard.in_flight())
    }

    pub(super) fn segments(&self, weight: u64) -> f64 {
        weight as f64 / f64::from(self.mss)
    }

    fn fits(&self, weight: u64) -> bool {
        let in_flight = self.scoreboard.in_flight();
        in_flight == 0 || self.segments(in_flight + weight) <= self.window().cwnd
    }

    fn send_new(&mut self, now: Instant, len: u64, fin: bool) -> Piece {
        let seq = self.next;
        let was_empty = self.scoreboard.is_empty();
        self.next = seq + len + u64::from(fin);
        self.fin_sent |= fin;
        let weight = self.weight(len);
        self.scoreboard.push(seq, self.next, fin, now, weight);
        if len < u64::from(self.mss) {
            self.small_end = self.next;
        }
        if was_empty {
            self.waits_since = now;
        }
        self.last_sent = now;
        self.note_usage(now);
        self.recovery.on_sent(self.segments(weight));
        self.arm(now, false);
        Piece { seq, len: len as usize, fin, push: self.unsent() == 0 }
    }

    fn resend(&mut self, now: Instant, index: usize) -> Option<Piece> {
        let sent = *self.scoreboard.at(index)?;
        self.scoreboard.on_retransmit(index, now);
        self.recovery.on_retransmit(now);
        self.recovery.on_sent(self.segments(sent.weight));
        self.last_sent = now;
        let len = (sent.end - sent.seq - u64::from(sent.fin)) as usize;
        self.counts.retransmitted_segments += 1;
        self.counts.retransmitted_bytes += len as u64;
        if index == 0 {
            self.arm_rto(now);
        }
        Some(Piece { seq: sent.seq, len, fin: sent.fin, push: sent.end == self.next })
    }

    fn note_usage(&mut self, now: Instant) {
        let out = self.scoreboard.len();
        let full = self.in_flight() >= self.window().cwnd.floor();
        let window = *self.window();
        let usage = &mut self.usage;
        if self.una >= usage.round_end || out > usage.most || full && !usage.limited {
            usage.limited = full;
            usage.most = out;
            usage.round_end = self.next;
        }
        if full || window.in_slow_start() && window.cwnd < 2.0 * out as f64 {
            (usage.used, usage.stamp) = (0, now);
            return;
        }
        usage.used = usage.used.max(out);
        let long = now.since(usage.stamp) >= self.rtt.base_rto();
        if self.profile.idle_restart && long && self.recovery.phase() == Phase::Open {
            let used = usage.used.max(self.profile.initial_window as usize) as f64;
            (usage.used, usage.stamp) = (0, now);
            if used < window.cwnd {
                let window = self.congestion.window_mut();
                window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
                window.cwnd = ((window.cwnd + used) / 2.0).floor();
            }
        }
    }

    /// Congestion window and threshold, in segments.
    pub(super) fn window(&self) -> &Window {
        self.congestion.window()
    }

    /// Whether acknowledgements may grow the window: it is in use.
    pub(super) fn uses_window(&self) -> bool {
        let window = self.window();
        self.usage.limited || window.in_slow_start() && window.cwnd < 2.0 * self.usage.most as f64
    }

    /// RFC 5681 §4.1, halved for each idle time-out as in Linux (`tcp_cwnd_restart`).
    fn restart_if_idle(&mut self, now: Instant) {
        let idle = now.since(self.last_sent);
        if !self.scoreboard.is_empty() || idle.is_zero() {
            return;
        }
        self.congestion.on_idle(idle);
        let rto = self.rtt.base_rto().max(Duration::from_millis(1));
        if !self.profile.idle_restart || idle <= rto {
            return;
        }
        let window = self.congestion.window_mut();
        let least = f64::from(self.profile.initial_window).min(window.cwnd);
        window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(32) as i32;
        window.cwnd = (window.cwnd / 2f64.powi(halvings)).floor().max(least);
    }
}

/// Congestion control in segments.
fn controller(profile: &Profile) -> Box<dyn Controller> {
    let window = Window::new(1.0, profile.initial_window);
    match profile.algorithm {
        Algorithm::Reno => Box::new(Reno::new(window)),
        Algorithm::Cubic => Box::new(Cubic::new(window)),
    }
}

/// Segments in flight for which memory is reserved: a window of 190 kB.
const SEGMENTS_READY: usize = 128;

//! The receiving half: reassembly in a ring, the advertised window, SACK blocks, and when to acknowledge.

use std::time::Duration;

use antiphon_core::Instant;

use super::profile::{AckRule, DelayedAck, Profile};
use super::segment::SackBlocks;

/// Reassembles the stream and decides when to acknowledge.
#[derive(Clone, Debug)]
pub struct Receiver {
    ring: Box<[u8]>,
    /// Next position the application reads.
    read: u64,
    /// Next position expected.
    next: u64,
    /// Data received beyond a hole, in order, not adjacent to each other.
    ranges: Vec<Range>,
    stamp: u64,
    fin: Option<u64>,
    /// Right edge of the window as advertised; never moves back (RFC 9293 §3.8.6).
    edge: u64,
    scale: u8,
    mss: u32,
    duplicate: Option<(u64, u64)>,
    policy: AckPolicy,
    /// Bytes that arrived a second time.
    pub duplicate_bytes: u64,
    /// Segments dropped because they were outside the window or could not be noted.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// Larger is more recent: RFC 2018 §4 wants the latest first.
    stamp: u64,
}

#[derive(Clone, Debug)]
struct AckPolicy {
    settings: DelayedAck,
    now_due: bool,
    deadline: Option<Instant>,
    quick: u32,
    unacked_bytes: u64,
    unacked_segments: u32,
    /// Largest segment seen, as Linux estimates the peer's (`icsk_ack.rcv_mss`).
    full: u32,
    /// Small pushed segments since the last acknowledgement (`ICSK_ACK_PUSHED`, `ICSK_ACK_PUSHED2`).
    small_pushed: u32,
    /// Data flows both ways, so acknowledgements are sent with it (`icsk_ack.pingpong`).
    interactive: bool,
    last_received: Option<Instant>,
    /// How long an acknowledgement waits where that adapts (`tp->ato`).
    ato: Duration,
}

impl Receiver {
    /// A receiver that waits for position 1.
    pub fn new(profile: &Profile) -> Self {
        let policy = AckPolicy {
            settings: profile.delayed_ack,
            now_due: false,
            deadline: None,
            quick: profile.delayed_ack.quick_acks,
            unacked_bytes: 0,
            unacked_segments: 0,
            full: profile.mss.min(SMALLEST_FULL),
            small_pushed: 0,
            interactive: false,
            last_received: None,
            ato: TICK,
        };
        let mut receiver = Receiver {
            ring: vec![0; profile.receive_buffer.max(1)].into_boxed_slice(),
            read: 1,
            next: 1,
            ranges: Vec::with_capacity(MAX_RANGES),
            stamp: 0,
            fin: None,
            edge: 1,
            scale: 0,
            mss: profile.mss,
            duplicate: None,
            policy,
            duplicate_bytes: 0,
            refused: 0,
        };
        receiver.move_edge();
        receiver
    }

    /// The handshake agreed on scaling by `scale` bits.
    pub fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
        self.move_edge();
    }

    /// Next position expected, sent in acknowledgements.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The window to advertise, bytes.
    pub fn window(&mut self) -> u32 {
        self.move_edge();
        (self.edge - self.next.min(self.edge)) as u32
    }

    fn free_edge(&self) -> u64 {
        let limit = 65_535u64 << self.scale;
        let free = (self.ring.len() as u64 - (self.next.min(self.read_limit()) - self.read)).min(limit);
        self.next + ((free >> self.scale) << self.scale)
    }

    fn read_limit(&self) -> u64 {
        self.fin.map_or(u64::MAX, |fin| fin)
    }

    /// Silly window avoidance (RFC 9293 §3.8.6.2.2): the edge moves by a segment or half the buffer, or not at all.
    fn move_edge(&mut self) {
        let candidate = self.free_edge();
        let step = u64::from(self.mss).min(self.ring.len() as u64 / 2);
        if candidate >= self.edge + step {
            self.edge = candidate;
        }
    }

    /// A segment of data arrived: `seq` and `payload`, and whether a FIN follows it.
    pub fn on_data(&mut self, now: Instant, seq: u64, payload: &[u8], fin: bool, pushed: bool) {
        let end = seq.saturating_add(payload.len() as u64);
        if end.saturating_add(u64::from(fin)) <= self.next {
            self.duplicate_bytes += payload.len() as u64;
            self.duplicate = Some((seq, end + u64::from(fin)));
            self.policy.disorder();
            return;
        }
        if end > self.edge.max(self.next) || seq > self.edge {
            self.refused += 1;
            self.policy.disorder();
            return;
        }
        let in_order = seq <= self.next && self.ranges.is_empty();
        if !self.store(seq, payload) {
            self.refused += 1;
            self.policy.disorder();
            return;
        }
        if fin {
            self.fin = Some(end);
        }
        let finished = self.fin == Some(self.next);
        self.next += u64::from(finished);
        if in_order && !finished {
            self.policy.on_in_order(now, payload.len() as u32, pushed);
        } else {
            self.policy.disorder();
        }
    }

    /// Writes into the ring and joins ranges; false if there is no room to note another range.
    fn store(&mut self, seq: u64, payload: &[u8]) -> bool {
        let (start, end) = (seq.max(self.next), seq + payload.len() as u64);
        if start > self.next && !self.note_range(start, end) {
            return false;
        }
        let skip = (start - seq) as usize;
        copy_in(&mut self.ring, start, payload.get(skip..).unwrap_or(&[]));
        if start == self.next {
            self.duplicate_bytes += skip as u64;
            self.next = end.max(self.next);
            while self.ranges.first().is_some_and(|range| range.start <= self.next) {
                let range = self.ranges.remove(0);
                self.next = self.next.max(range.end);
            }
        }
        true
    }

    fn note_range(&mut self, start: u64, end: u64) -> bool {
        self.stamp += 1;
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        let mut joined = Range { start, end, stamp: self.stamp };
        for range in &self.ranges[first..last] {
            if range.start <= start && end <= range.end {
                self.duplicate_bytes += end - start;
                self.duplicate = Some((start, end));
            }
            joined.start = joined.start.min(range.start);
            joined.end = joined.end.max(range.end);
        }
        if first == last {
            if self.ranges.len() == MAX_RANGES {
                return false;
            }
            self.ranges.insert(first, joined);
        } else {
            self.ranges[first] = joined;
            self.ranges.drain(first + 1..last);
        }
        true
    }

    /// Bytes the application can read.
    pub fn readable(&self) -> usize {
        (self.next.min(self.read_limit()) - self.read) as usize
    }

    /// Takes what has arrived in order.
    pub fn read(&mut self, buf: &mut [u8]) -> usize {
        let n = self.readable().min(buf.len());
        copy_out(&self.ring, self.read, &mut buf[..n]);
        let before = self.edge.saturating_sub(self.next);
        self.read += n as u64;
        if n > 0 {
            self.policy.on_read(self.readable() == 0);
            // Linux reports a window that has at least doubled (`__tcp_cleanup_rbuf`).
            if 2 * before <= self.ring.len() as u64 && self.free_edge() - self.next >= (2 * before).max(1) {
                self.move_edge();
                self.policy.now_due |= self.edge - self.next > before;
            }
        }
        n
    }

    /// Whether the peer's FIN has arrived and all before it was read.
    pub fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin && self.read >= fin)
    }

    /// Blocks for the acknowledgement that is sent now: a duplicate first (RFC 2883), then the latest.
    pub fn sack_blocks(&mut self, limit: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if let Some(duplicate) = self.duplicate.take() {
            blocks.push(duplicate, limit);
        }
        let mut below = u64::MAX;
        for _ in 0..limit {
            let latest =
                self.ranges.iter().filter(|range| range.stamp < below).max_by_key(|range| range.stamp);
            let Some(range) = latest else { break };
            blocks.push((range.start, range.end), limit);
            below = range.stamp;
        }
        blocks
    }

    /// An acknowledgement is asked for, whatever the policy says.
    pub fn ack_now(&mut self) {
        self.policy.now_due = true;
    }

    /// Whether an acknowledgement is due.
    pub fn ack_is_due(&self, now: Instant) -> bool {
        self.policy.now_due || self.policy.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// When a delayed acknowledgement is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.policy.deadline
    }

    /// A segment with an acknowledgement was sent; `with_data` if it carried data.
    pub fn on_ack_sent(&mut self, now: Instant, with_data: bool) {
        let policy = &mut self.policy;
        policy.now_due = false;
        policy.deadline = None;
        policy.unacked_bytes = 0;
        policy.unacked_segments = 0;
        policy.small_pushed = 0;
        policy.quick = policy.quick.saturating_sub(1);
        // Linux `tcp_event_data_sent`: an answer within the delay makes the connection interactive.
        let answers = policy.last_received.is_some_and(|at| now.since(at) < policy.settings.timeout);
        policy.interactive |= with_data && answers;
    }
}

impl AckPolicy {
    fn disorder(&mut self) {
        self.now_due = true;
        // Linux `tcp_enter_quickack_mode`.
        self.interactive = false;
        self.quick = self.quick.max(self.settings.quick_acks);
    }

    fn on_in_order(&mut self, now: Instant, len: u32, pushed: bool) {
        if let Some(before) = self.last_received {
            self.ato = self.ato / 2 + now.since(before).max(TICK);
        }
        self.last_received = Some(now);
        self.unacked_bytes += u64::from(len);
        self.unacked_segments += 1;
        if len >= self.full {
            self.full = len;
        } else {
            self.small_pushed += u32::from(pushed);
            // `tcp_remember_ack`: small ones are answered sooner.
            if pushed && 2 * len < self.full {
                self.ato = 2 * TICK;
            }
        }
        let enough = match self.settings.rule {
            AckRule::FullSegments => self.unacked_bytes > u64::from(self.full),
            AckRule::Segments(n) => self.unacked_segments >= n,
        };
        self.now_due |= enough || self.settings.timeout.is_zero() || self.quick > 0 && !self.interactive;
        if !self.now_due && self.deadline.is_none() {
            let longest = self.settings.timeout;
            self.deadline = Some(now + if self.settings.adaptive { self.ato.min(longest) } else { longest });
        }
    }

    fn on_read(&mut self, emptied: bool) {
        let waits = self.deadline.is_some();
        let enough = if self.interactive { 2 } else { 1 };
        self.now_due |= self.settings.on_read && waits && emptied && self.small_pushed >= enough;
    }
}

/// Copies `bytes` to position `at` of a stream kept in `ring`; `bytes` is no longer than the ring.
pub fn copy_in(ring: &mut [u8], at: u64, bytes: &[u8]) {
    let from = (at % ring.len() as u64) as usize;
    let first = bytes.len().min(ring.len() - from);
    ring[from..from + first].copy_from_slice(&bytes[..first]);
    ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
}

/// Copies the bytes at position `at` of a stream kept in `ring`.
pub fn copy_out(ring: &[u8], at: u64, bytes: &mut [u8]) {
    let from = (at % ring.len() as u64) as usize;
    let first = bytes.len().min(ring.len() - from);
    bytes[..first].copy_from_slice(&ring[from..from + first]);
    let rest = bytes.len() - first;
    bytes[first..].copy_from_slice(&ring[..rest]);
}

/// Linux starts its estimate of the peer's segment here (`TCP_MSS_DEFAULT`, RFC 1122 §4.2.2.6).
const SMALLEST_FULL: u32 = 536;

/// Linux 2.2's clock: 100 Hz.
const TICK: Duration = Duration::from_millis(10);

/// Ranges beyond a hole that are noted at once; more are dropped and counted. A path that loses every second segment
/// of a megabyte in flight makes some 360.
const MAX_RANGES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        Receiver::new(&Profile { receive_buffer: 10_000, ..Profile::linux() })
    }

    #[test]
    fn latest_block_first_and_duplicates_before_it() {
        let mut receiver = receiver();
        for seq in [501, 1501, 901] {
            receiver.on_data(Instant::ZERO, seq, &[0; 100], false, false);
        }
        assert_eq!(receiver.sack_blocks(3).as_slice(), [(901, 1001), (1501, 1601), (501, 601)]);
        receiver.on_data(Instant::ZERO, 1501, &[0; 100], false, false);
        assert_eq!(receiver.sack_blocks(3).as_slice()[0], (1501, 1601), "a duplicate, RFC 2883");
        assert_eq!(receiver.sack_blocks(4).as_slice().len(), 3, "told once");
        receiver.on_data(Instant::ZERO, 1, &[1; 700], false, false);
        assert_eq!((receiver.next(), receiver.readable()), (701, 700));
    }

    #[test]
    fn holes_close_and_the_bytes_are_in_place() {
        let mut receiver = receiver();
        let data: Vec<u8> = (0..=255).cycle().take(900).collect();
        for start in [600, 300, 0] {
            receiver.on_data(Instant::ZERO, 1 + start as u64, &data[start..start + 300], false, false);
        }
        let mut read = vec![0; 2000];
        assert_eq!(receiver.read(&mut read), 900);
        assert_eq!(read[..900], data);
    }

    #[test]
    fn beyond_the_window_is_refused() {
        let mut receiver = receiver();
        let edge = 1 + u64::from(receiver.window());
        receiver.on_data(Instant::ZERO, edge - 50, &[0; 100], false, false);
        assert_eq!((receiver.refused, receiver.sack_blocks(4).as_slice().len()), (1, 0));
    }

    /// Twice the time between segments (`tcp_delack_estimator`: a = a/2 + gap), half a second at most; two full ones are
    /// acknowledged at once (`__tcp_ack_snd_check` of Linux 2.2).
    #[test]
    fn linux_2_2_waits_for_twice_the_time_between_segments() {
        let wait = |gap: u64, pushed: usize| {
            let mut receiver = Receiver::new(&Profile::linux_2_2());
            let (mut seq, mut now, mut waits) = (1, Instant::ZERO, Vec::new());
            for n in 0..30 {
                now += Duration::from_millis(gap);
                let len = if n < 28 { 1282 } else { pushed };
                receiver.on_data(now, seq, &vec![0; len], false, true);
                receiver.read(&mut vec![0; len]);
                seq += len as u64;
                waits.push(receiver.poll_timeout().map(|at| at.since(now).as_millis()));
                if receiver.ack_is_due(now) {
                    receiver.on_ack_sent(now, false);
                }
            }
            waits
        };
        // The first one is acknowledged at once, then every second one.
        assert_eq!(wait(160, 1282)[..3], [None, Some(165), Some(5)]);
        // One of two that follow each other is the first of a pair.
        assert_eq!(wait(160, 1282)[26..28].iter().max(), Some(&Some(319)));
        assert_eq!(wait(400, 1282)[26..28].iter().max(), Some(&Some(500)));
        // Small pushed ones are answered after two ticks.
        assert!(wait(160, 600)[28..].contains(&Some(20)));
    }
}

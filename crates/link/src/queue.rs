//! A sender of a given rate with a queue before it: the only part of a link where packets wait for others.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{BitRate, ByteCount, Instant, Rng};

use crate::bucket::TokenBucket;
use crate::early::{Drd, Early, Red};
use crate::packet::{Counters, Packet};
use crate::spec::{DrdSpec, QueueLimit, RedSpec, Stall};

/// Rate, queue and stalls.
///
/// A packet starts when it has arrived, the one before it is done and there is no stall; it is done 8 L / C later. The
/// limit counts waiting packets, **not the one being sent**, as a device takes a packet out of its queue to send it; so
/// a drop-tail queue never drops a packet that finds the sender idle.
///
/// With a bucket ([`Self::with_bucket`]) it is a shaper instead: a packet waits for the one before it and for its
/// tokens, and then takes no time. A packet longer than the bucket's depth never conforms, and is dropped.
pub struct Queue<P> {
    sender: Sender,
    /// Gap after each packet, in bytes.
    gap: usize,
    limit: QueueLimit,
    early: Option<Early>,
    /// [`Self::has_room`] has promised to take the next packet.
    granted: bool,
    stalls: Option<Stalls>,
    /// In the order of arrival; the first `started` of them are being sent or done.
    entries: VecDeque<Entry<P>>,
    started: usize,
    waiting_bytes: u64,
    /// When the last of the started packets will be done.
    free: Instant,
    /// The length of the last packet, and how long it took without and with the gap: most are as long as the one before, and each
    /// takes a division.
    last: (usize, Duration, Duration),
    counters: Counters,
}

/// What a packet waits for.
enum Sender {
    /// Sending takes no time.
    Instant,
    /// One packet after the other.
    Serial(BitRate),
    /// Tokens.
    Bucket(BitRate, TokenBucket),
}

struct Entry<P> {
    packet: P,
    len: usize,
    start: Instant,
    done: Instant,
}

impl<P: Packet> Queue<P> {
    /// A sender of `rate` (`None`: takes no time). Stalls and early drops each draw from their own fork of `seed`.
    pub fn new(rate: Option<BitRate>, limit: QueueLimit, stall: Option<Stall>, seed: u64) -> Self {
        Queue {
            sender: rate.map_or(Sender::Instant, Sender::Serial),
            gap: 0,
            limit,
            early: match limit {
                QueueLimit::Red(spec) => Some(Early::Red(Red::new(spec, seed))),
                QueueLimit::Drd(spec) => Some(Early::Drd(Drd::new(spec, seed))),
                QueueLimit::Packets(_) | QueueLimit::Bytes(_) => None,
            },
            granted: false,
            stalls: stall.map(|stall| Stalls::new(stall, Rng::fork(seed, "stall"))),
            entries: VecDeque::with_capacity(ROOM),
            started: 0,
            waiting_bytes: 0,
            free: Instant::ZERO,
            last: (usize::MAX, Duration::ZERO, Duration::ZERO),
            counters: Counters::default(),
        }
    }

    /// Turns it into a shaper: a token bucket of that depth, which begins full, in place of the sender.
    ///
    /// With a limit of 0 packets it is a policer: a packet that does not conform on arrival is dropped.
    pub fn with_bucket(mut self, rate: BitRate, depth: ByteCount) -> Self {
        self.sender = Sender::Bucket(rate, TokenBucket::new(rate, depth));
        self
    }

    /// Adds a silence of `bytes` bytes after each packet: the next packet waits for its end; the packet itself is done
    /// before it.
    pub fn with_gap(mut self, bytes: usize) -> Self {
        self.gap = bytes;
        self
    }

    /// Takes a packet, or returns it if the queue is full or drops it early. `now` never goes back.
    pub fn offer(&mut self, now: Instant, packet: P) -> Option<P> {
        let len = packet.wire_len();
        self.counters.count_offered(len);
        self.note_started(now);
        let granted = std::mem::take(&mut self.granted);
        let early = self.drops_early(now, len) && !granted;
        let start =
            self.next_start(now, len).filter(|(start, _)| granted || *start <= now || !self.is_full(len));
        let Some((start, stalls)) = start.filter(|_| !early) else {
            self.counters.overflowed += 1;
            self.counters.dropped_early += u64::from(early);
            return Some(packet);
        };
        self.stalls = stalls;
        if let Sender::Bucket(_, bucket) = &mut self.sender {
            bucket.take(start, len);
        }
        let (time, with_gap) = self.times_for(len);
        let done = start + time;
        self.free = start + with_gap;
        if start > now {
            self.waiting_bytes += len as u64;
        } else {
            self.started += 1;
        }
        self.entries.push_back(Entry { packet, len, start, done });
        self.counters.queued += 1;
        None
    }

    /// Whether there is room for a packet of `len` bytes at `now`: for callers that can wait.
    ///
    /// If so, [`Self::offer`] takes the next packet of at most that length. An early drop tells a sender to slow down;
    /// a sender that asks first has to wait instead, when the queue has reached the length from which RED or DRD drop
    /// most. With a bucket whose queue is empty, one packet may wait for its tokens, whatever the limit. If there is no
    /// room, ask again when [`Self::poll_timeout`] is due (never, for a packet longer than the bucket's depth).
    pub fn has_room(&mut self, now: Instant, len: usize) -> bool {
        self.note_started(now);
        let held = match self.limit {
            QueueLimit::Red(RedSpec { max, gentle, .. }) => max << u32::from(gentle),
            QueueLimit::Drd(DrdSpec { max, .. }) => max,
            QueueLimit::Packets(_) | QueueLimit::Bytes(_) => u32::MAX,
        };
        let first = matches!(self.sender, Sender::Bucket(..)) && self.waiting() == 0;
        let room = first || (!self.is_full(len) && self.waiting() < held as usize);
        self.granted = self.next_start(now, len).is_some_and(|(start, _)| start <= now || room);
        self.granted
    }

    /// The packet for which [`Self::has_room`] was asked does not come: it was lost before the queue.
    pub(crate) fn forget_grant(&mut self) {
        self.granted = false;
    }

    /// The next packet done by `now`, with its instant.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.entries.front().filter(|entry| entry.done <= now)?;
        self.note_started(now);
        let entry = self.entries.pop_front()?;
        self.started -= 1;
        self.counters.queued -= 1;
        self.counters.count_delivered(entry.len);
        Some((entry.done, entry.packet))
    }

    /// When the first packet will be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.done)
    }

    /// Counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When a packet that comes now starts, and the state of the stalls then; `None`: never.
    ///
    /// Stalls advance only with a packet that is taken: a longer one, dropped, would have waited longer for tokens.
    fn next_start(&mut self, now: Instant, len: usize) -> Option<(Instant, Option<Stalls>)> {
        let ready = self.free.max(now);
        let ready = match &self.sender {
            Sender::Bucket(_, bucket) => bucket.ready(ready, len)?,
            Sender::Instant | Sender::Serial(_) => ready,
        };
        let Some(stalls) = &mut self.stalls else {
            return Some((ready, None));
        };
        stalls.pass(now);
        let mut then = stalls.clone();
        Some((then.release(ready), Some(then)))
    }

    /// How long a packet of `len` bytes takes to send, without and with the gap after it.
    fn times_for(&mut self, len: usize) -> (Duration, Duration) {
        let Sender::Serial(rate) = self.sender else { return (Duration::ZERO, Duration::ZERO) };
        if self.last.0 != len {
            let time_for = |bytes: usize| rate.time_for(bytes as u64).unwrap_or(Duration::MAX);
            self.last = (len, time_for(len), time_for(len + self.gap));
        }
        (self.last.1, self.last.2)
    }

    /// Whether RED or DRD drops the packet that comes now. Drawn for every packet.
    fn drops_early(&mut self, now: Instant, len: usize) -> bool {
        if self.early.is_none() {
            return false;
        }
        let waiting = self.waiting();
        let idle = (waiting == 0 && self.free <= now).then_some(self.free);
        let packet = match self.sender {
            Sender::Serial(rate) | Sender::Bucket(rate, _) => rate.time_for(len as u64),
            Sender::Instant => None,
        };
        match &mut self.early {
            Some(Early::Red(red)) => red.strikes(now, waiting, idle, packet.unwrap_or_default()),
            Some(Early::Drd(drd)) => drd.strikes(waiting),
            None => false,
        }
    }

    fn waiting(&self) -> usize {
        self.entries.len() - self.started
    }

    /// Moves the boundary between waiting packets and those being sent up to `now`.
    fn note_started(&mut self, now: Instant) {
        while let Some(entry) = self.entries.get(self.started).filter(|entry| entry.start <= now) {
            self.waiting_bytes -= entry.len as u64;
            self.started += 1;
        }
    }

    fn is_full(&self, len: usize) -> bool {
        self.waiting() >= MAX_PACKETS
            || match self.limit {
                QueueLimit::Packets(limit) => self.waiting() + 1 > limit as usize,
                QueueLimit::Bytes(limit) => self.waiting_bytes + len as u64 > limit.0,
                QueueLimit::Red(_) | QueueLimit::Drd(_) => false,
            }
    }
}

/// Limit of any queue of the link in packets, whatever its limit in bytes, as packets may be tiny.
/// At 1 Gbit/s and 1500 bytes it is 390 ms of traffic.
pub(crate) const MAX_PACKETS: usize = 32_768;
/// Packets for which memory is reserved from the beginning, so that typical queues never grow.
pub(crate) const ROOM: usize = 64;

/// Times at which nothing is sent: exponential gaps between stalls of exponential length.
///
/// Stalls follow time, not packets, so that they do not depend on the traffic.
#[derive(Clone)]
struct Stalls {
    spec: Stall,
    rng: Rng,
    /// The next stall, or the current one.
    from: Instant,
    until: Instant,
}

impl Stalls {
    fn new(spec: Stall, rng: Rng) -> Self {
        let mut stalls = Stalls { spec, rng, from: Instant::ZERO, until: Instant::ZERO };
        stalls.draw();
        stalls
    }

    fn draw(&mut self) {
        let gap = self.spec.every.saturating_sub(self.spec.length);
        self.from = self.until + gap.mul_f64(self.rng.exponential());
        self.until = self.from + self.spec.length.mul_f64(self.rng.exponential()) + Duration::from_nanos(1);
    }

    /// Drops the stalls that are over by `now`.
    fn pass(&mut self, now: Instant) {
        while self.until <= now && self.until < Instant::from_nanos(u64::MAX) {
            self.draw();
        }
    }

    /// `ready`, or the end of the stall that contains it. Called with instants that never go back.
    fn release(&mut self, ready: Instant) -> Instant {
        self.pass(ready);
        if self.from <= ready { self.until } else { ready }
    }
}

#[cfg(test)]
mod tests {
    use antiphon_core::ByteCount;

    use super::*;

    fn queue(rate: &str, limit: QueueLimit) -> Queue<Vec<u8>> {
        Queue::new(Some(rate.parse().expect("a rate")), limit, None, 1)
    }

    #[test]
    fn back_to_back_packets_follow_at_their_serialisation_time() {
        // 1354 bytes at 100 Mbit/s: 108.32 µs each (1300 bytes of UDP payload on Ethernet).
        let mut queue = queue("100Mbit/s", QueueLimit::Packets(10));
        for _ in 0..3 {
            assert!(queue.offer(Instant::from_micros(50), vec![0; 1354]).is_none());
        }
        for n in 1..=3 {
            let at = queue.poll_timeout().expect("packets wait");
            assert_eq!(at, Instant::from_nanos(50_000 + n * 108_320));
            assert!(queue.poll(at - Duration::from_nanos(1)).is_none());
            assert_eq!(queue.poll(at).map(|(when, _)| when), Some(at));
        }
        assert_eq!(queue.poll_timeout(), None);
    }

    #[test]
    fn the_packet_being_sent_does_not_count_for_the_limit() {
        let mut by_packets = queue("8kbit/s", QueueLimit::Packets(2));
        let refused =
            |queue: &mut Queue<Vec<u8>>, ms| queue.offer(Instant::from_millis(ms), vec![0; 100]).is_some();
        // One in service, two wait, the fourth is dropped; 100 ms later one is done, one in service, one waits.
        assert_eq!([0, 0, 0, 0].map(|ms| refused(&mut by_packets, ms)), [false, false, false, true]);
        assert_eq!([99, 100, 100].map(|ms| refused(&mut by_packets, ms)), [true, false, true]);
        let mut by_bytes = queue("8kbit/s", QueueLimit::Bytes(ByteCount(250)));
        assert_eq!([0, 0, 0, 0].map(|ms| refused(&mut by_bytes, ms)), [false, false, false, true]);
        assert!(by_bytes.counters().balances());
        // A limit below the packet's length still lets a packet through that finds the sender idle.
        let mut tiny = queue("8kbit/s", QueueLimit::Bytes(ByteCount(64)));
        assert!(tiny.has_room(Instant::ZERO, 100));
        assert!(!refused(&mut tiny, 0) && refused(&mut tiny, 1));
        assert!(
            !tiny.has_room(Instant::from_millis(99), 100) && tiny.has_room(Instant::from_millis(100), 100)
        );
    }

    #[test]
    fn stalls_take_the_share_of_time_that_they_should() {
        let spec = Stall { length: Duration::from_millis(10), every: Duration::from_millis(100) };
        let mut queue: Queue<Vec<u8>> = Queue::new(None, QueueLimit::Packets(10_000), Some(spec), 3);
        // A packet each 1 ms for 4000 s: those that do not leave at once met a stall. Some 40 000 stalls of exponential
        // length and gap: relative standard error of the share about √(2/40 000) = 0.7 %; tolerance three of them.
        // Mistaking the period for the gap would be off by 9 %. The mean wait of a stalled packet is, for exponential
        // lengths, their mean; for fixed ones half of it.
        let (mut stalled, mut wait) = (0u32, 0.0);
        let mut last = Instant::ZERO;
        for ms in 0..4_000_000u64 {
            let at = Instant::from_millis(ms);
            queue.offer(at, vec![]);
            let due = queue.free;
            assert!(due >= last, "stalls keep the order");
            last = due;
            if due > at {
                stalled += 1;
                wait += due.since(at).as_secs_f64();
            }
            while queue.poll(at).is_some() {}
        }
        let share = f64::from(stalled) / 4e6;
        assert!((share / 0.1 - 1.0).abs() < 0.022, "share {share}");
        let mean = wait / f64::from(stalled);
        assert!((mean / 0.010 - 1.0).abs() < 0.03, "{mean}");
    }
}

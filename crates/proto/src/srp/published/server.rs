//! The server as published: sends messages, keeps the recent ones, answers NACKs, returns probes.
//!
//! It has no flow control and makes no decisions: the client does nearly all the work.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Seq32};

use super::{Counts, clock_ms};
use crate::pool::Pool;
use crate::srp::halves::{AnyPacket, SendingHalf};
use crate::srp::wire::{HEADER, MAX_PACKET, Packet, STATUS_RESEND};
use crate::srp::{Message, position};

/// A server of one client.
///
/// Limits of its own, since the report has none: a message is retransmitted at most [`MAX_ANSWERS`] times, so NACKs
/// never cost more than that multiple of the data itself; and probes are returned at most ten times a second.
#[derive(Debug)]
pub struct Server {
    next: Seq32,
    /// Recent messages with consecutive ids, the newest at the back.
    kept: VecDeque<Kept>,
    spare: Pool,
    /// Answers due: id and the NACK's time.
    answers: VecDeque<(u32, u32)>,
    probe: Option<u32>,
    probe_allowance: f64,
    probe_refilled: Instant,
    capacity: usize,
    counts: Counts,
}

#[derive(Debug)]
struct Kept {
    id: u32,
    data: Vec<u8>,
    answered: u32,
}

impl Server {
    /// A server that keeps the last `capacity` messages (at least one); its first data id is 1.
    pub fn new(capacity: usize) -> Self {
        Server::starting_at(1, capacity)
    }

    /// A server whose first data id is `id`, for tests of the wrap.
    pub fn starting_at(id: u32, capacity: usize) -> Self {
        Server {
            next: Seq32(id),
            kept: VecDeque::new(),
            spare: Pool::new(capacity.max(1)),
            answers: VecDeque::with_capacity(MAX_DUE),
            probe: None,
            probe_allowance: PROBE_BURST,
            probe_refilled: Instant::ZERO,
            capacity: capacity.max(1),
            counts: Counts::default(),
        }
    }

    /// Writes the data packet of a message and keeps a copy; returns the packet's length.
    ///
    /// `None` if the message is empty, longer than 1480 bytes, or `buf` too short.
    pub fn send(&mut self, now: Instant, message: &[u8], buf: &mut [u8]) -> Option<usize> {
        if message.is_empty() || message.len() > MAX_PACKET - HEADER {
            return None;
        }
        let id = self.next.0;
        let len = Packet::Data { time: clock_ms(now), id, data: message }.emit(buf)?;
        self.next = self.next.next();
        if self.kept.len() >= self.capacity
            && let Some(oldest) = self.kept.pop_front()
        {
            self.spare.give(oldest.data);
        }
        let mut data = self.spare.take();
        data.extend_from_slice(message);
        self.kept.push_back(Kept { id, data, answered: 0 });
        Some(len)
    }

    /// Processes a client's packet. Requests for messages that are not kept are ignored.
    pub fn handle(&mut self, now: Instant, packet: &Packet<'_>) {
        match *packet {
            Packet::Nack { time, status: STATUS_RESEND, id } => self.on_nack(time, id),
            Packet::Probe { time } => self.on_probe(now, time),
            Packet::Nack { .. } | Packet::Data { .. } | Packet::Answer { .. } => {}
        }
    }

    fn on_nack(&mut self, time: u32, id: u32) {
        match self.position(id) {
            Some(at) if self.kept[at].answered < MAX_ANSWERS && self.answers.len() < MAX_DUE => {
                self.kept[at].answered += 1;
                self.answers.push_back((id, time));
            }
            _ => self.counts.nacks_ignored += 1,
        }
    }

    fn on_probe(&mut self, now: Instant, time: u32) {
        let gained = now.since(self.probe_refilled).as_secs_f64() / PROBE_SPACING.as_secs_f64();
        self.probe_allowance = (self.probe_allowance + gained).min(PROBE_BURST);
        self.probe_refilled = now;
        if self.probe_allowance >= 1.0 {
            self.probe_allowance -= 1.0;
            self.probe = Some(time);
        } else {
            self.counts.probes_ignored += 1;
        }
    }

    fn position(&self, id: u32) -> Option<usize> {
        position(self.kept.front().map(|kept| kept.id), self.kept.len(), id)
    }

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl SendingHalf for Server {
    fn handle_packet(&mut self, now: Instant, packet: &AnyPacket<'_>) -> bool {
        if let AnyPacket::AsPublished(packet) = packet {
            self.handle(now, packet);
        }
        false
    }

    fn max_message(&self) -> usize {
        MAX_PACKET - HEADER
    }

    fn parts(&self, _len: usize) -> usize {
        1
    }

    fn send_part(&mut self, now: Instant, message: &Message<'_>, _: usize, buf: &mut [u8]) -> Option<usize> {
        self.send(now, message.bytes, buf)
    }

    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<usize> {
        if let Some(time) = self.probe.take() {
            return Packet::Probe { time }.emit(buf);
        }
        while let Some((id, time)) = self.answers.pop_front() {
            if let Some(at) = self.position(id) {
                self.counts.retransmitted += 1;
                return Packet::Answer { time, id, data: &self.kept[at].data }.emit(buf);
            }
        }
        None
    }

    /// For all messages kept.
    fn reserve(&mut self, _packets: usize, typical: usize) {
        self.kept.reserve_exact(self.capacity - self.kept.len());
        self.spare.fill(self.capacity, self.capacity, typical);
    }

    fn retransmitted(&self) -> u64 {
        self.counts.retransmitted
    }
}

/// Retransmissions of one message: at the report's worst loss (15 % each way) a request with its answer fails 28 times
/// of 100, and 16 times in a row once in 10⁹.
pub const MAX_ANSWERS: u32 = 16;
/// Answers that may wait to be sent.
const MAX_DUE: usize = 256;
/// Interval of returned probes: ten times as many as the report's client sends.
const PROBE_SPACING: Duration = Duration::from_millis(100);
const PROBE_BURST: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(5);

    fn sent(count: u32, start: u32, capacity: usize) -> Server {
        let mut server = Server::starting_at(start, capacity);
        let mut buf = [0; MAX_PACKET];
        for n in 0..count {
            server.send(NOW, &[n as u8; 100], &mut buf).unwrap();
        }
        server
    }

    fn nack(id: u32) -> Packet<'static> {
        Packet::Nack { time: 77, status: STATUS_RESEND, id }
    }

    #[test]
    fn answers_carry_the_time_of_their_nack_and_ids_wrap_to_zero() {
        let mut server = sent(4, u32::MAX - 1, 10);
        let mut buf = [0; MAX_PACKET];
        for (n, id) in [u32::MAX - 1, u32::MAX, 0, 1].into_iter().enumerate() {
            server.handle(NOW, &nack(id));
            let len = server.poll_transmit(Instant::ZERO, &mut buf).unwrap();
            let data = &[n as u8; 100][..];
            assert_eq!(Packet::parse(&buf[..len]), Ok(Packet::Answer { time: 77, id, data }));
        }
    }

    #[test]
    fn nacks_for_what_is_not_there_cost_nothing() {
        let mut server = sent(100, 1, 10);
        for id in [0, 1, 90, 101, 1 << 31, u32::MAX] {
            server.handle(NOW, &nack(id));
        }
        assert_eq!(server.poll_transmit(Instant::ZERO, &mut [0; MAX_PACKET]), None);
        assert_eq!(server.counts().nacks_ignored, 6);
    }

    #[test]
    fn a_flood_of_nacks_costs_a_stated_multiple_of_what_was_sent() {
        let mut server = sent(10, 1, 10);
        let (mut buf, mut bytes) = ([0; MAX_PACKET], 0);
        for n in 0..100_000u32 {
            server.handle(NOW, &nack(n % 12));
            assert!(server.answers.len() <= MAX_DUE);
            if n % 3 == 0 {
                bytes += server.poll_transmit(Instant::ZERO, &mut buf).unwrap_or(0);
            }
        }
        bytes += std::iter::from_fn(|| server.poll_transmit(Instant::ZERO, &mut buf)).sum::<usize>();
        assert_eq!(bytes, 10 * 116 * MAX_ANSWERS as usize);
    }

    #[test]
    fn probes_come_back_unchanged_and_not_without_limit() {
        let mut server = sent(0, 1, 10);
        let mut buf = [0; MAX_PACKET];
        let mut returned = 0;
        for n in 0..1000 {
            // A thousand probes in a second: the first four, then ten a second.
            server.handle(Instant::from_millis(n), &Packet::Probe { time: 5 });
            if let Some(len) = server.poll_transmit(Instant::ZERO, &mut buf) {
                assert_eq!(Packet::parse(&buf[..len]), Ok(Packet::Probe { time: 5 }));
                returned += 1;
            }
        }
        assert!((13..=14).contains(&returned), "{returned}");
    }
}

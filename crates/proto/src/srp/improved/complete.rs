//! The sender of `reliability=full`: keeps every packet until the receiver's reports confirm it, under a congestion window.
//!
//! The receiver asks for what it misses, as in the other modes, for as long as it is missing, and reports after a few
//! packets up to where it has everything. Where nothing is confirmed for a time-out, the newest packet is sent once more:
//! what the receiver misses before it, it asks for. While nothing is answered, these probes double their distance up to a
//! second.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Rng, Tag};

use super::clock_us;
use super::requests::{BLIND_WAIT, REPORT_EVERY};
use super::sender::{MAX_KEPT, MAX_KEPT_BYTES, Message};
use crate::limit::{LEAST_PACKETS_FULL, Limit};
use crate::pool::Pool;
use crate::rtt::Rtt;
use crate::srp::wire::HEADER;
use crate::srp::wire::extended::{
    Extended, LAST_EPOCH, LEAST_URGENT, MAX_PARTS, Nack, Part, Report, make_answer,
};

/// A sender for one receiver that is to get everything.
#[derive(Debug)]
pub(crate) struct CompleteSender {
    max_datagram: usize,
    epoch: u32,
    next: u32,
    last_priority: u8,
    /// Consecutive ids, the newest at the back: unconfirmed, or before one that is.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    spare: Pool,
    /// Ids that were asked for, each once.
    due: VecDeque<u32>,
    echo: Option<(u32, u32)>,
    probe_due: bool,
    limit: Limit,
    rtt: Rtt,
    /// Packets sent so far.
    sendings: u64,
    /// When nothing has been confirmed for too long.
    timer: Option<Instant>,
    /// The receiver has shown that it knows the epoch, or was called by us. To another address nothing is repeated.
    is_proved: bool,
    /// It has shown that.
    heard: bool,
    confirmed: VecDeque<Tag>,
    retransmitted: u64,
    progress: Instant,
}

#[derive(Debug)]
struct Kept {
    id: u32,
    packet: Vec<u8>,
    /// Of the message whose last part it is.
    tag: Option<Tag>,
    sent_at: Instant,
    sending: u64,
    repeated: bool,
    /// Neither reported nor asked for since it was sent.
    flying: bool,
    /// The time in the NACK that asks for it.
    asked: Option<u32>,
}

impl CompleteSender {
    /// `max_datagram`: the largest datagram, header included, at least 17; `called`: the receiver was called by us.
    pub fn new(max_datagram: usize, called: bool, seed: u64) -> Self {
        CompleteSender {
            max_datagram,
            epoch: Rng::fork(seed, "srp epoch").next_u32() & LAST_EPOCH,
            next: Rng::fork(seed, "srp first id").next_u32(),
            last_priority: 0,
            kept: VecDeque::with_capacity(FIRST_ROOM),
            kept_bytes: 0,
            spare: Pool::new(MAX_KEPT),
            due: VecDeque::with_capacity(FIRST_ROOM),
            echo: None,
            probe_due: false,
            limit: Limit::new(true, max_datagram, LEAST_PACKETS_FULL),
            rtt: Rtt::default(),
            sendings: 0,
            timer: None,
            is_proved: called,
            heard: false,
            confirmed: VecDeque::with_capacity(FIRST_ROOM),
            retransmitted: 0,
            progress: Instant::ZERO,
        }
    }

    /// Reserves memory for `packets` unconfirmed packets of `typical` bytes.
    pub fn reserve(&mut self, packets: usize, typical: usize) {
        let packets = packets.min(MAX_KEPT);
        self.spare.fill(packets, packets, typical + HEADER);
        self.due.reserve_exact(packets.saturating_sub(self.due.len()));
        self.kept.reserve_exact(packets.saturating_sub(self.kept.len()));
        self.confirmed.reserve_exact(packets.saturating_sub(self.confirmed.len()));
    }

    /// The longest message, in bytes.
    pub fn max_message(&self) -> usize {
        (self.part_len() * MAX_PARTS).min(usize::from(u16::MAX))
    }

    /// Packets that a message of `len` bytes takes.
    pub fn parts(&self, len: usize) -> usize {
        len.div_ceil(self.part_len())
    }

    fn part_len(&self) -> usize {
        self.max_datagram.saturating_sub(HEADER).max(1)
    }

    /// Whether a message of `len` bytes may be sent now.
    pub fn admits(&self, len: usize) -> bool {
        let (parts, most) = (self.parts(len), if self.heard { MAX_KEPT } else { FIRST_FLIGHT });
        self.kept.len() + parts <= most
            && self.kept_bytes + len + parts * HEADER <= MAX_KEPT_BYTES
            && self.limit.allows()
    }

    /// Writes part `index` of a message and keeps it; returns the packet's length. `tag`: of the message. `None` if there is no
    /// such part or `buf` is too short.
    pub fn send_part(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        tag: Tag,
        index: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        let data = message.bytes.chunks(self.part_len()).nth(index)?;
        let (count, priority) = (self.parts(message.bytes.len()), message.priority.min(LEAST_URGENT));
        let part = Part {
            epoch: self.epoch,
            age: u8::try_from(self.kept.len()).unwrap_or(u8::MAX),
            index: index as u8,
            count: count as u8,
            priority,
            previous_priority: self.last_priority,
            stream: message.stream,
            time: clock_us(now),
            id: self.next,
            data,
        };
        let len = Extended::Data(part).emit(buf)?;
        self.next = self.next.wrapping_add(1);
        self.last_priority = priority;
        let mut packet = self.spare.take();
        packet.extend_from_slice(&buf[..len]);
        self.kept_bytes += len;
        self.limit.on_send(len);
        self.sendings += 1;
        self.kept.push_back(Kept {
            id: part.id,
            packet,
            tag: (index + 1 == count).then_some(tag),
            sent_at: now,
            sending: self.sendings,
            repeated: false,
            flying: true,
            asked: None,
        });
        let due = now + self.time_out();
        self.timer.get_or_insert(due);
        Some(len)
    }

    fn time_out(&self) -> Duration {
        let timeout =
            self.rtt.timeout().map_or(BLIND_WAIT, |timeout| (timeout + REPORT_EVERY).max(LEAST_TIMEOUT));
        self.limit.time_out(timeout)
    }

    /// Processes a request; of another epoch, it is not from our receiver.
    pub fn on_nack(&mut self, now: Instant, nack: &Nack<'_>) {
        if nack.epoch != self.epoch {
            return;
        }
        self.on_heard(now);
        let least = self.rtt.min().unwrap_or_default();
        for id in nack.ids() {
            let Some(at) = self.position(id) else { continue };
            let kept = &mut self.kept[at];
            // Sooner than any round trip, it asks for an earlier transmission.
            let too_soon = kept.repeated && now.since(kept.sent_at) < least;
            if kept.asked.is_some() || too_soon {
                continue;
            }
            kept.asked = Some(nack.time);
            if std::mem::take(&mut kept.flying) {
                self.limit.on_end(kept.packet.len());
                self.limit.on_loss(kept.sending, self.sendings + 1);
            }
            self.due.push_back(id);
        }
    }

    fn on_heard(&mut self, now: Instant) {
        (self.heard, self.is_proved) = (true, true);
        self.limit.on_heard(now);
        self.timer = (!self.kept.is_empty()).then(|| now + self.time_out());
    }

    /// Processes a receiver's probe with its report.
    pub fn on_probe(&mut self, now: Instant, epoch: u32, time: u32, report: &Report) {
        self.echo = Some((epoch, time));
        let Some(first) = self.kept.front().map(|kept| kept.id).filter(|_| epoch == self.epoch) else {
            return;
        };
        let settled = report.settled.wrapping_sub(first) as usize;
        let before_first = settled > MAX_KEPT;
        if !before_first && settled > self.kept.len() {
            return;
        }
        if let Some(at) = self.position(report.highest) {
            self.on_arrivals(now, at);
        }
        if !before_first && settled > 0 {
            self.confirm(now, settled);
        }
        self.on_heard(now);
    }

    /// Packets up to the kept one at `highest` have arrived, or are going to be asked for.
    fn on_arrivals(&mut self, now: Instant, highest: usize) {
        let newest = &self.kept[highest];
        if newest.flying && !newest.repeated {
            self.rtt.on_sample(now.since(newest.sent_at).max(Duration::from_micros(1)));
        }
        for kept in self.kept.iter_mut().take(highest + 1).filter(|kept| kept.flying && !kept.repeated) {
            kept.flying = false;
            self.limit.on_end(kept.packet.len());
        }
    }

    /// The first `count` packets have arrived.
    fn confirm(&mut self, now: Instant, count: usize) {
        for _ in 0..count {
            let Some(kept) = self.kept.pop_front() else { break };
            let len = kept.packet.len();
            self.limit.on_ack(now, len, self.kept_bytes as u64);
            if kept.flying {
                self.limit.on_end(len);
            }
            self.kept_bytes -= len;
            self.confirmed.extend(kept.tag);
            self.spare.give(kept.packet);
        }
        self.progress = now;
    }

    /// A message that was confirmed since the last call.
    pub fn take_confirmed(&mut self) -> Option<Tag> {
        self.confirmed.pop_front()
    }

    /// Gives everything up; returns a message that was not confirmed.
    pub fn abandon(&mut self) -> Option<Tag> {
        self.timer = None;
        while let Some(kept) = self.kept.pop_front() {
            if kept.tag.is_some() {
                return kept.tag;
            }
        }
        None
    }

    /// Whether everything is confirmed.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// When something was last confirmed.
    pub fn progress(&self) -> Instant {
        self.progress
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|timer| timer > now) {
            return;
        }
        for kept in self.kept.iter_mut().filter(|kept| kept.flying) {
            kept.flying = false;
            self.limit.on_end(kept.packet.len());
        }
        self.limit.on_silence(now, now, self.sendings + 1);
        self.probe_due = self.is_proved;
        self.timer = self.is_proved.then(|| now + self.time_out());
    }

    /// Writes the next packet due to the receiver: an echo, a retransmission or a probe of the path.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if let Some((epoch, time)) = self.echo.take() {
            return Extended::Echo { epoch, time }.emit(buf);
        }
        while let Some(id) = self.due.front().copied().filter(|_| self.limit.allows()) {
            self.due.pop_front();
            let Some(at) = self.position(id) else { continue };
            let Some(time) = self.kept[at].asked.take() else { continue };
            let len = self.repeat(now, at, buf)?;
            make_answer(&mut buf[..len], time);
            return Some(len);
        }
        if !std::mem::take(&mut self.probe_due) || !self.limit.allows() {
            return None;
        }
        let len = self.repeat(now, self.kept.len().checked_sub(1)?, buf)?;
        buf[4..8].copy_from_slice(&clock_us(now).to_be_bytes());
        Some(len)
    }

    /// Writes the packet at `at` again.
    fn repeat(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<usize> {
        let kept = &mut self.kept[at];
        let len = kept.packet.len();
        buf.get_mut(..len)?.copy_from_slice(&kept.packet);
        // The receiver need not ask for what was confirmed meanwhile.
        buf[AGE_AT] = u8::try_from(at).unwrap_or(u8::MAX);
        self.sendings += 1;
        (kept.sent_at, kept.sending, kept.repeated) = (now, self.sendings, true);
        if !std::mem::replace(&mut kept.flying, true) {
            self.limit.on_send(len);
        }
        self.retransmitted += 1;
        let due = now + self.time_out();
        self.timer.get_or_insert(due);
        Some(len)
    }

    fn position(&self, id: u32) -> Option<usize> {
        let at = id.wrapping_sub(self.kept.front()?.id) as usize;
        (at < self.kept.len()).then_some(at)
    }

    /// Packets sent more than once.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// The congestion window, and what is on its way, in bytes.
    pub fn window(&self) -> (Option<u64>, u64) {
        (self.limit.cwnd(), self.limit.on_way())
    }

    /// Round trips, the receiver's delay of a report included.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }
}

/// Where the age stands in a packet.
const AGE_AT: usize = 11;
/// Packets with reserved places at first: a sixth of a second of 256-frame blocks at 48 kHz.
const FIRST_ROOM: usize = 32;
/// Packets before the receiver's first answer: each tells its distance to the first one, which has 8 bits.
const FIRST_FLIGHT: usize = 250;
/// A shorter time-out than a busy machine's scheduler needs would be a copy each time.
const LEAST_TIMEOUT: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests;

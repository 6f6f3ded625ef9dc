//! The sender of `reliability=full`: keeps every packet until the receiver's reports confirm it, under a congestion window.
//!
//! The receiver asks for what it misses, as in the other modes, for as long as it is missing, and reports after a few
//! packets up to where it has everything. Where nothing is confirmed for a time-out, the newest packet is sent once more:
//! what the receiver misses before it, it asks for. While nothing is answered, these probes double their distance up to a
//! second.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{ByteCount, Instant, PathStats, Tag};

use super::clock_us;
use super::cutter::{Cutter, first_id};
use super::pace::Admission;
use super::requests::{BLIND_WAIT, REPORT_EVERY};
use super::sender::{MAX_KEPT, MAX_KEPT_BYTES, Message};
use crate::limit::{LEAST_PACKETS_FULL, Limit};
use crate::pool::Pool;
use crate::rtt::Rtt;
use crate::srp::halves::{AnyPacket, SendingHalf};
use crate::srp::position;
use crate::srp::wire::HEADER;
use crate::srp::wire::extended::{Extended, Nack, Report, make_answer};

/// A sender for one receiver that is to get everything.
#[derive(Debug)]
pub(crate) struct CompleteSender {
    cutter: Cutter,
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
            cutter: Cutter::starting_at(first_id(seed), max_datagram, seed),
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

    /// Whether a message of `len` bytes may be sent now.
    pub fn admits(&self, len: usize) -> bool {
        let (parts, most) = (self.parts(len), if self.heard { MAX_KEPT } else { FIRST_FLIGHT });
        self.kept.len() + parts <= most
            && self.kept_bytes + len + parts * HEADER <= MAX_KEPT_BYTES
            && self.limit.allows()
    }

    fn time_out(&self) -> Duration {
        let timeout =
            self.rtt.timeout().map_or(BLIND_WAIT, |timeout| (timeout + REPORT_EVERY).max(LEAST_TIMEOUT));
        self.limit.time_out(timeout)
    }

    /// Processes a request; of another epoch, it is not from our receiver.
    pub fn on_nack(&mut self, now: Instant, nack: &Nack<'_>) {
        if nack.epoch != self.cutter.epoch {
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
        let Some(first) = self.kept.front().map(|kept| kept.id).filter(|_| epoch == self.cutter.epoch) else {
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
        position(self.kept.front().map(|kept| kept.id), self.kept.len(), id)
    }
}

impl SendingHalf for CompleteSender {
    fn handle_packet(&mut self, now: Instant, packet: &AnyPacket<'_>) -> bool {
        match packet {
            AnyPacket::Improved(Extended::Nack(nack)) => self.on_nack(now, nack),
            AnyPacket::Improved(Extended::Probe { epoch, time, report, .. }) => {
                self.on_probe(now, *epoch, *time, report);
            }
            _ => {}
        }
        false
    }

    fn max_message(&self) -> usize {
        self.cutter.max_message()
    }

    fn parts(&self, len: usize) -> usize {
        self.cutter.parts(len)
    }

    fn admit(&mut self, _now: Instant, message: &Message<'_>) -> Admission {
        if self.admits(message.bytes.len()) { Admission::Send } else { Admission::Hold }
    }

    fn send_part(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        index: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        let (id, len) = self.cutter.write(now, message, index, self.kept.len() as u64, buf)?;
        let is_last = index + 1 == self.parts(message.bytes.len());
        let mut packet = self.spare.take();
        packet.extend_from_slice(&buf[..len]);
        self.kept_bytes += len;
        self.limit.on_send(len);
        self.sendings += 1;
        self.kept.push_back(Kept {
            id,
            packet,
            tag: is_last.then_some(message.tag),
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

    /// An echo, a retransmission or a probe of the path.
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
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

    fn reserve(&mut self, packets: usize, typical: usize) {
        let packets = packets.min(MAX_KEPT);
        self.spare.fill(packets, packets, typical + HEADER);
        self.due.reserve_exact(packets.saturating_sub(self.due.len()));
        self.kept.reserve_exact(packets.saturating_sub(self.kept.len()));
        self.confirmed.reserve_exact(packets.saturating_sub(self.confirmed.len()));
    }

    fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    fn handle_timeout(&mut self, now: Instant) {
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

    fn take_confirmed(&mut self) -> Option<Tag> {
        self.confirmed.pop_front()
    }

    fn abandon(&mut self) -> Option<Tag> {
        self.timer = None;
        while let Some(kept) = self.kept.pop_front() {
            if kept.tag.is_some() {
                return kept.tag;
            }
        }
        None
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn progress(&self) -> Option<Instant> {
        Some(self.progress)
    }

    /// The receiver's delay of a report is part of the round trips.
    fn path(&self) -> Option<PathStats> {
        Some(PathStats {
            srtt: Some(self.rtt.srtt()?),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min(),
            cwnd: self.limit.cwnd().map(ByteCount),
            in_flight: Some(ByteCount(self.limit.on_way())),
            ..PathStats::default()
        })
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

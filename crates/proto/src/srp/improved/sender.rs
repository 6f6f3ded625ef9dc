//! The sender: cuts messages into packets, keeps them for a while, and retransmits them on request within limits.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Tag};

use super::chances;
use super::cutter::{Cutter, first_id};
use super::pace::{Admission, Pace, QUEUED};
use crate::pool::Pool;
use crate::srp::halves::{AnyPacket, SendingHalf};
use crate::srp::wire::HEADER;
use crate::srp::wire::extended::{Extended, Nack, Report, Wanted, make_answer};
use crate::srp::{Streams, position};

/// Settings of a sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SenderConfig {
    /// The largest datagram, header included; at least 17.
    pub max_datagram: usize,
    /// How long packets are kept for retransmission.
    pub keep: Duration,
    /// The receiver's playout delay: packets queued for longer are useless.
    pub latency: Duration,
    /// Seed of the random epoch and first id.
    pub seed: u64,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its content: at least one byte, at most [`Sender::max_message`].
    pub bytes: &'a [u8],
    /// 0 is most urgent.
    pub priority: u8,
    /// No retransmission after this.
    pub deadline: Option<Instant>,
    /// Its stream, 0 to [`LAST_STREAM`](crate::srp::LAST_STREAM).
    pub stream: u8,
    /// Names it when it is confirmed, where nothing is given up.
    pub tag: Tag,
}

/// Totals of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounts {
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Requests for packets that are not kept: never sent, too old, or of another epoch.
    pub unknown: u64,
    /// Requests for packets that are too late to be played.
    pub too_late: u64,
    /// Requests beyond a packet's limit of retransmissions, or for a second copy of one.
    pub refused: u64,
    /// Requests that exceeded the allowance.
    pub over_allowance: u64,
    /// Packets dropped early, for lack of space.
    pub dropped: u64,
    /// Messages of streams that the receiver does not want.
    pub unwanted: u64,
    /// Messages that the path could not carry, according to the receiver's reports.
    pub thinned: u64,
}

/// A sender for one receiver.
///
/// Three limits bound the cost of requests: the retransmissions of each packet, the packets kept ([`MAX_KEPT`],
/// [`MAX_KEPT_BYTES`]), and an allowance. New data adds to it, byte for byte; retransmissions use it up. So NACKs never
/// cost more bytes than the data itself, beyond [`START_ALLOWANCE`]. In congestion (losses while the delay has grown)
/// the share added is halved at each report, down to 1/16, and recovers by eighths: retransmissions are reduced first.
///
/// Where reports show that the path can't carry the offered data, new data is reduced as well: [`Self::admit`] then
/// drops messages, the less urgent first, so that a growing queue does not delay all of them.
pub struct Sender {
    config: SenderConfig,
    cutter: Cutter,
    /// Consecutive ids, the newest at the back.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    spare: Pool,
    /// Ids to retransmit, each once.
    due: VecDeque<u32>,
    echo: Option<(u32, u32)>,
    allowance: f64,
    share: f64,
    report: Option<Report>,
    /// Packets first sent: in total, at the last report, and at the one before it.
    sent: u64,
    sent_before: [u64; 2],
    congested: bool,
    pace: Pace,
    wanted: Streams,
    /// The receiver has shown that it knows the epoch.
    heard: bool,
    /// Packets for which places and buffers are reserved.
    room: usize,
    /// Of these, those reserved beyond what the pace requires.
    late: usize,
    /// Bytes of the longest packet, where memory is held ready: packets after a stall may be longer than the first ones.
    longest: usize,
    counts: SenderCounts,
}

struct Kept {
    id: u32,
    packet: Vec<u8>,
    sent_at: Instant,
    deadline: Option<Instant>,
    left: u32,
    /// The time in the NACK being answered, or answered last.
    asked_time: Option<u32>,
    due: bool,
}

impl Sender {
    /// A sender whose first data id is random, as its epoch.
    pub fn new(config: SenderConfig) -> Self {
        Sender::starting_at(first_id(config.seed), config)
    }

    /// A sender whose first data id is `id`.
    pub fn starting_at(id: u32, config: SenderConfig) -> Self {
        let mut spare = Pool::new(MAX_KEPT);
        spare.fill(FIRST_ROOM, 0, 0);
        Sender {
            cutter: Cutter::starting_at(id, config.max_datagram, config.seed),
            config,
            kept: VecDeque::with_capacity(FIRST_ROOM),
            kept_bytes: 0,
            spare,
            due: VecDeque::with_capacity(64),
            echo: None,
            allowance: START_ALLOWANCE,
            share: 1.0,
            report: None,
            sent: 0,
            sent_before: [0; 2],
            congested: false,
            pace: Pace::new(config.latency),
            wanted: Streams::ALL,
            heard: false,
            room: FIRST_ROOM,
            late: 0,
            longest: 0,
            counts: SenderCounts::default(),
        }
    }

    fn keep(&mut self, now: Instant, id: u32, packet: &[u8], deadline: Option<Instant>, left: u32) {
        while let Some(oldest) = self.kept.front() {
            let full = self.kept.len() >= MAX_KEPT || self.kept_bytes + packet.len() > MAX_KEPT_BYTES;
            if !full && now.since(oldest.sent_at) <= self.config.keep {
                break;
            }
            self.counts.dropped += u64::from(full);
            if let Some(oldest) = self.kept.pop_front() {
                self.kept_bytes -= oldest.packet.len();
                self.spare.give(oldest.packet);
            }
        }
        self.make_room(now, packet.len());
        let mut copy = self.spare.take();
        if copy.capacity() < packet.len() {
            copy.reserve_exact(packet.len() + HEADROOM);
        }
        copy.extend_from_slice(packet);
        self.kept_bytes += packet.len();
        self.kept.push_back(Kept {
            id,
            packet: copy,
            sent_at: now,
            deadline,
            left,
            asked_time: None,
            due: false,
        });
    }

    /// Once a few packets show the stream's pace, reserves memory for all that will be kept: a running stream allocates
    /// nothing.
    fn make_room(&mut self, now: Instant, len: usize) {
        let Some(oldest) = self.kept.front() else { return };
        let (kept, elapsed) = (self.kept.len(), now.since(oldest.sent_at));
        // A slow stream shows its pace with less than fills the room.
        let shows_pace = self.room == FIRST_ROOM && kept >= FEW && elapsed >= PACE_AFTER;
        if kept < self.room && !shows_pace {
            return;
        }
        let elapsed = elapsed.as_secs_f64();
        let all = kept as f64 * MARGIN * self.config.keep.as_secs_f64() / elapsed + self.late as f64;
        let most = MAX_KEPT.min(MAX_KEPT_BYTES / len.max(1) + 1).min(MOST_GROWTH * self.room + self.late);
        // With no time between the packets, reserves the maximum.
        let more = if all < most as f64 { all as usize } else { most }.max(self.room + 1) - self.room;
        self.room += more;
        self.kept.reserve(more + 1);
        self.spare.fill(self.room, self.room, (len + HEADROOM).max(self.longest));
    }

    /// Processes a request.
    pub fn on_nack(&mut self, now: Instant, nack: &Nack<'_>) {
        if nack.epoch != self.cutter.epoch {
            self.counts.unknown += 1;
            return;
        }
        self.heard = true;
        self.pace.on_heard();
        for id in nack.ids() {
            let Some(at) = self.position(id) else {
                self.counts.unknown += 1;
                continue;
            };
            let kept = &mut self.kept[at];
            if kept.deadline.is_some_and(|deadline| now > deadline) {
                self.counts.too_late += 1;
            } else if kept.due || kept.left == 0 || kept.asked_time == Some(nack.time) {
                self.counts.refused += 1;
            } else {
                kept.left -= 1;
                kept.due = true;
                kept.asked_time = Some(nack.time);
                self.due.push_back(id);
            }
        }
    }

    /// Processes a receiver's probe with its report; returns whether the phase (congested or not) changed.
    ///
    /// The streams sent are changed only by a client that knows the epoch, or that asks before any data was received.
    pub fn on_probe(&mut self, now: Instant, epoch: u32, time: u32, report: Report, wanted: Wanted) -> bool {
        self.echo = Some((epoch, time));
        let knows = epoch == self.cutter.epoch && !wanted.blind;
        if knows || (wanted.blind && !self.heard) {
            self.wanted = wanted.streams;
        }
        if !knows {
            return false;
        }
        self.heard = true;
        let [before, then] = self.sent_before;
        self.sent_before = [then, self.sent];
        let last = self.report.replace(report).unwrap_or(report);
        let lost = report.lost.wrapping_sub(last.lost);
        let received = report.received.wrapping_sub(last.received);
        let queueing = Duration::from_micros(report.queueing_us.into());
        // The peer can't have received more since the last report than was sent since the one before it.
        let most = u32::try_from(self.sent - before).unwrap_or(u32::MAX);
        self.pace.on_report(now, received.min(most), lost.min(most), queueing);
        let (lost, received) = (f64::from(lost), f64::from(received));
        let heavy = lost > CONGESTION_LOSS * (lost + received);
        let congested = heavy && queueing > QUEUED;
        self.share =
            if congested { (self.share / 2.0).max(LEAST_SHARE) } else { (self.share + 0.125).min(1.0) };
        std::mem::replace(&mut self.congested, congested) != congested
    }

    fn position(&self, id: u32) -> Option<usize> {
        position(self.kept.front().map(|kept| kept.id), self.kept.len(), id)
    }

    /// The receiver's last report.
    pub fn report(&self) -> Option<Report> {
        self.report
    }

    /// Whether the last report indicated congestion: a source that can send less should.
    pub fn is_congested(&self) -> bool {
        self.congested
    }

    /// The streams that the receiver wants.
    pub fn wanted(&self) -> Streams {
        self.wanted
    }

    /// The epoch in all packets.
    pub fn epoch(&self) -> u32 {
        self.cutter.epoch
    }

    /// Packets sent so far.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }
}

impl SendingHalf for Sender {
    fn handle_packet(&mut self, now: Instant, packet: &AnyPacket<'_>) -> bool {
        match packet {
            AnyPacket::Improved(Extended::Nack(nack)) => {
                self.on_nack(now, nack);
                false
            }
            AnyPacket::Improved(Extended::Probe { epoch, time, report, wanted }) => {
                self.on_probe(now, *epoch, *time, *report, *wanted)
            }
            _ => false,
        }
    }

    fn max_message(&self) -> usize {
        self.cutter.max_message()
    }

    fn parts(&self, len: usize) -> usize {
        self.cutter.parts(len)
    }

    fn admit(&mut self, now: Instant, message: &Message<'_>) -> Admission {
        if !self.wanted.contains(message.stream) {
            self.counts.unwanted += 1;
            return Admission::Drop;
        }
        let bytes = message.bytes.len() + self.parts(message.bytes.len()) * HEADER;
        let admission = self.pace.admit(now, bytes, message.priority == 0, message.deadline.is_some());
        self.counts.thinned += u64::from(admission == Admission::Drop);
        admission
    }

    fn send_part(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        index: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        let (id, len) = self.cutter.write(now, message, index, self.sent, buf)?;
        self.sent += 1;
        self.pace.on_sent(now, len);
        self.allowance = (self.allowance + self.share * len as f64).min(MAX_ALLOWANCE);
        self.keep(now, id, &buf[..len], message.deadline, chances(message.priority));
        Some(len)
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if let Some((epoch, time)) = self.echo.take() {
            return Extended::Echo { epoch, time }.emit(buf);
        }
        while let Some(id) = self.due.pop_front() {
            let Some(at) = self.position(id) else { continue };
            let kept = &mut self.kept[at];
            kept.due = false;
            if kept.deadline.is_some_and(|deadline| now > deadline) {
                self.counts.too_late += 1;
                continue;
            }
            let len = kept.packet.len();
            if self.allowance < len as f64 || !self.pace.admits_repair(now) {
                self.counts.over_allowance += 1;
                continue;
            }
            self.allowance -= len as f64;
            self.pace.on_sent(now, len);
            self.counts.retransmitted += 1;
            let packet = buf.get_mut(..len)?;
            packet.copy_from_slice(&kept.packet);
            make_answer(packet, kept.asked_time.unwrap_or_default());
            return Some(len);
        }
        None
    }

    /// For `packets` requested at once, and, when the stream's pace is known, for as many that are sent late and
    /// together. Until then, for the packets that show the pace, of `typical` bytes: this direction may carry few reports
    /// and no sound.
    fn reserve(&mut self, packets: usize, typical: usize) {
        (self.late, self.longest) = (packets, typical);
        self.spare.fill(FIRST_ROOM, FIRST_ROOM, typical);
        self.due.reserve_exact(packets.min(MAX_KEPT).saturating_sub(self.due.len()));
    }

    fn retransmitted(&self) -> u64 {
        self.counts.retransmitted
    }

    fn limit(&self) -> Option<f64> {
        self.pace.limit()
    }
}

/// Space beyond a packet's size in a new buffer: packets that name their format are a little longer.
const HEADROOM: usize = 64;

/// Packets kept at most: somewhat more than a second of the smallest blocks at 48 kHz (64 sample frames).
pub const MAX_KEPT: usize = 1024;
/// Bytes kept at most.
pub const MAX_KEPT_BYTES: usize = 1 << 20;
/// Allowance in bytes before any data was sent, for losses at the very beginning.
pub const START_ALLOWANCE: f64 = 16_000.0;
/// Largest allowance: for a burst of losses of some 40 full packets.
const MAX_ALLOWANCE: f64 = 64_000.0;
const LEAST_SHARE: f64 = 1.0 / 16.0;
/// A lower loss is attributed to the link, not to congestion.
const CONGESTION_LOSS: f64 = 0.02;
/// Packets kept before their pace is estimated: a sixth of a second of 256-frame blocks at 48 kHz.
const FIRST_ROOM: usize = 32;
/// So many packets in so long a time show the pace of a stream.
const FEW: usize = 8;
const PACE_AFTER: Duration = Duration::from_millis(250);
/// Factor above the pace, which is never quite even.
const MARGIN: f64 = 1.25;
/// A burst looks like a fast stream: at most this many places are added at once.
const MOST_GROWTH: usize = 8;

#[cfg(test)]
mod tests;

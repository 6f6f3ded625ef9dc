//! Gives up messages that are too late or were retransmitted too often (RFC 3758 §3.5, RFC 7496): always the whole
//! message, and the peer is told.

use antiphon_core::{Instant, Outcome, Seq32};

use super::super::path::Path;
use super::super::settings::Reliability;
use super::super::wire::HEADER;
use super::super::wire::chunks::{DataHeader, Skipped};
use super::{ChunkState, NEVER_AGAIN, Outgoing, Sent};
use crate::deadline::last_chance;
use crate::queue::SendQueue;

impl Outgoing {
    /// Outcome of a lost chunk's message, if it is to be given up. `full`: bytes of chunks in a packet at most.
    pub(super) fn is_to_be_given_up(&self, at: usize, now: Instant, full: usize) -> Option<Outcome> {
        let sent = &self.sent[at];
        let message = &self.messages[sent.message as usize];
        if !self.rules.may_give_up {
            return None;
        }
        match self.rules.reliability {
            Reliability::Deadline if message.deadline.is_some_and(|deadline| now > deadline) => {
                return Some(Outcome::Expired { maybe_received: message.cut == message.bytes.len() });
            }
            Reliability::Retransmissions(most) if sent.tries > most => {
                return Some(Outcome::RetriesExhausted);
            }
            _ => {}
        }
        // The path's packets have become smaller than this chunk, and a chunk with a TSN is not cut again (RFC 9260
        // §6.9).
        let fits = DataHeader::len(self.rules.interleaved) + usize::from(sent.len) <= full;
        (!fits).then_some(Outcome::RetriesExhausted)
    }

    /// Whether a chunk that awaits retransmission is too large for packets of `most` bytes and can't be given up.
    pub fn must_resend_larger(&self, most: usize) -> bool {
        let full = most.saturating_sub(HEADER + DataHeader::len(self.rules.interleaved));
        let too_large = |sent: &Sent| sent.state == ChunkState::Lost && usize::from(sent.len) > full;
        self.lost > 0 && !self.rules.may_give_up && self.sent.iter().any(too_large)
    }

    /// Gives up messages past their deadlines: lost, only partly sent, or in flight for longer than an answer takes.
    /// Just before the deadline, chunks that later ones have overtaken are retransmitted. Returns whether a congestion
    /// window was reduced.
    pub fn expire(&mut self, now: Instant, paths: &mut [Path], queue: &mut SendQueue) -> bool {
        if self.check_at.is_none_or(|at| now < at) {
            return false;
        }
        self.check_at = None;
        let (mut next, mut closed) = (None::<Instant>, false);
        for at in 0..self.sent.len() {
            if self.last_chance(at, paths).is_some_and(|last| now > last) {
                closed |= self.take_last_chance(now, at, paths);
            }
            let Some(due) = self.due(at, paths) else { continue };
            if now > due {
                let message = &self.messages[self.sent[at].message as usize];
                let outcome = Outcome::Expired { maybe_received: message.cut == message.bytes.len() };
                self.give_up(now, (self.sent[at].message, outcome), paths, queue);
            } else {
                next = next.into_iter().chain(self.last_chance(at, paths)).chain([due]).min();
            }
        }
        // Just after the deadline, as the deadline itself is still in time.
        self.check_at = next.map(|next| Instant::from_nanos(next.max(now).as_nanos().saturating_add(1)));
        closed
    }

    /// When a chunk's message is given up if nothing is acknowledged before; `None` where messages have no deadlines.
    fn due(&self, at: usize, paths: &[Path]) -> Option<Instant> {
        if !self.rules.may_give_up || self.rules.reliability != Reliability::Deadline {
            return None;
        }
        let sent = &self.sent[at];
        let message = &self.messages[sent.message as usize];
        let deadline = message.deadline.filter(|_| !message.given_up)?;
        let in_parts = message.cut < message.bytes.len();
        // A chunk that holds back later ones at the peer waits until the deadline, not for an answer that is not
        // expected.
        let awaited = !in_parts && (sent.misses == 0 || !self.rules.ordered);
        let answered = sent.at + paths[usize::from(sent.path)].rtt.base_rto();
        match sent.state {
            ChunkState::Flying if awaited => Some(deadline.max(answered)),
            ChunkState::Flying | ChunkState::Lost => Some(deadline),
            ChunkState::Acked if in_parts => Some(deadline),
            ChunkState::Acked | ChunkState::GivenUp => None,
        }
    }

    /// Latest retransmission time of a chunk that was overtaken or already retransmitted.
    fn last_chance(&self, at: usize, paths: &[Path]) -> Option<Instant> {
        let sent = &self.sent[at];
        let is_missed = sent.state == ChunkState::Flying && sent.misses > 0;
        self.due(at, paths).filter(|_| is_missed)?;
        let last = last_chance(self.messages[sent.message as usize].deadline?);
        (sent.at < last).then_some(last)
    }

    /// Schedules [`Self::expire`] in time for a chunk.
    pub(super) fn check_in_time(&mut self, at: usize, paths: &[Path]) {
        let look = self.last_chance(at, paths).or_else(|| self.due(at, paths));
        self.check_at = [self.check_at, look].into_iter().flatten().min();
    }

    /// Three misses would come too late: one is enough to count the chunk as lost. A chunk already retransmitted is
    /// sent once more. Returns whether a congestion window was reduced.
    fn take_last_chance(&mut self, now: Instant, at: usize, paths: &mut [Path]) -> bool {
        let sent = self.sent[at];
        self.set_state(at, ChunkState::Lost, paths);
        let path = &mut paths[usize::from(sent.path)];
        if sent.misses == NEVER_AGAIN {
            return false;
        }
        path.mtu.on_loss(usize::from(sent.packet));
        path.on_loss(now, self.highest(), sent.sending)
    }

    /// Gives up messages of which a part would be sent after their deadlines.
    pub(super) fn drop_late(&mut self, now: Instant, paths: &mut [Path], queue: &mut SendQueue) {
        if !self.rules.may_give_up || self.rules.reliability != Reliability::Deadline {
            return;
        }
        let mut at = 0;
        while let Some(place) = self.cutting.get(at).copied() {
            if self.messages[place as usize].deadline.is_some_and(|deadline| now > deadline) {
                self.give_up(now, (place, Outcome::Expired { maybe_received: false }), paths, queue);
            } else {
                at += 1;
            }
        }
    }

    /// Gives up a message; the peer is told not to wait for any part of it.
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        (place, outcome): (u32, Outcome),
        paths: &mut [Path],
        queue: &mut SendQueue,
    ) {
        let message = &mut self.messages[place as usize];
        message.given_up = true;
        self.forward_due = true;
        if !std::mem::replace(&mut message.told, true) {
            queue.settle(message.tag, outcome);
        }
        if message.cut < message.bytes.len() {
            // The peer may have all chunks so far, and must learn that no more follow: a TSN that is never sent stands
            // for the rest.
            message.chunks += 1;
            let (offset, state) = (message.cut as u32, ChunkState::GivenUp);
            self.sent.push_back(Sent { message: place, offset, state, at: now, ..Sent::default() });
            self.next_tsn = self.next_tsn.next();
        }
        self.cutting.retain(|other| *other != place);
        let (first, mut left) = (message.first, message.chunks);
        let from = first.distance(self.first_tsn()).max(0) as usize;
        for at in from..self.sent.len() {
            let sent = self.sent[at];
            if left == 0 {
                break;
            }
            if sent.message != place {
                continue;
            }
            left -= 1;
            let path = &mut paths[usize::from(sent.path)];
            if sent.state == ChunkState::Flying && now >= sent.at + path.rtt.base_rto() {
                path.mtu.on_loss(usize::from(sent.packet));
            }
            self.set_state(at, ChunkState::GivenUp, paths);
        }
    }

    /// Advanced.Peer.Ack.Point, if a FORWARD TSN is due, with the messages skipped in each stream.
    pub fn forward_point(&self, skipped: &mut Vec<Skipped>) -> Option<Seq32> {
        skipped.clear();
        let mut point = None;
        for (at, sent) in self.sent.iter().enumerate() {
            match sent.state {
                ChunkState::Acked => {}
                ChunkState::GivenUp => {
                    if !self.note_skipped(sent.message, skipped) {
                        break;
                    }
                    point = Some(at);
                }
                ChunkState::Flying | ChunkState::Lost => break,
            }
        }
        // Chunks after it that the peer already has need no FORWARD TSN.
        point.map(|at| self.first_tsn().plus(at as u32))
    }

    /// The latest deadline of a message that is being sent; `None`: there is none that is not given up.
    pub fn last_deadline(&self) -> Option<Instant> {
        let sent =
            self.sent.iter().filter(|sent| matches!(sent.state, ChunkState::Flying | ChunkState::Lost));
        let places = sent.map(|sent| sent.message).chain(self.cutting.iter().copied());
        let deadline = |place: u32| self.messages[place as usize].deadline;
        places.map(|place| deadline(place).unwrap_or(Instant::from_nanos(u64::MAX))).max()
    }

    /// Whether a given-up chunk still needs a FORWARD TSN.
    pub fn has_given_up(&self) -> bool {
        self.sent.front().is_some_and(|sent| sent.state == ChunkState::GivenUp)
    }

    fn note_skipped(&self, place: u32, skipped: &mut Vec<Skipped>) -> bool {
        let message = &self.messages[place as usize];
        let unordered = !self.rules.ordered;
        if unordered && !self.rules.interleaved {
            return true;
        }
        match skipped.iter().position(|entry| entry.stream == message.stream) {
            Some(at) => skipped[at].number = message.number,
            None if skipped.len() >= MOST_SKIPPED => return false,
            None => skipped.push(Skipped { stream: message.stream, unordered, number: message.number }),
        }
        true
    }

    /// Ends every message being sent.
    pub fn abort_all(&mut self, queue: &mut SendQueue) {
        for at in 0..self.sent.len() {
            self.abort(self.sent[at].message, queue);
        }
        while let Some(place) = self.cutting.pop() {
            self.abort(place, queue);
        }
        self.sent.clear();
        (self.flight, self.lost, self.ahead, self.check_at) = (0, 0, 0, None);
    }

    fn abort(&mut self, place: u32, queue: &mut SendQueue) {
        let message = &mut self.messages[place as usize];
        if !std::mem::replace(&mut message.told, true) {
            queue.settle(message.tag, Outcome::Aborted);
        }
    }
}

/// Streams skipped in one FORWARD TSN: as many as fit the smallest packet.
pub(in super::super) const MOST_SKIPPED: usize = 12;

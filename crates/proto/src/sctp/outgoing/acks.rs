//! Processes SACKs for the chunks sent (RFC 9260 §6.2.1, §7.2.4).

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, Seq32};

use super::super::path::Path;
use super::super::settings::MAX_PATHS;
use super::super::wire::chunks::Sack;
use super::losses::Losses;
use super::{ChunkState, Outgoing};
use crate::queue::SendQueue;

/// Effects of one SACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acked {
    /// The cumulative TSN has advanced.
    pub moved: bool,
    /// Payload bytes acknowledged for the first time, by the path on which they were last sent.
    pub bytes: [usize; MAX_PATHS],
    /// From a chunk that was sent only once: its path, when it was sent, and the round trip.
    round_trip: Option<(usize, Instant, Duration)>,
    /// The highest TSN acknowledged for the first time, and its path.
    pub(super) newest: Option<(Seq32, u8)>,
    /// A retransmitted chunk was acknowledged for the first time.
    pub(super) repaired: bool,
    /// Chunks found lost.
    pub lost: Losses,
}

/// The peer acknowledged a TSN that was never sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation;

impl Outgoing {
    /// Processes a SACK that arrived at `now`; returns `None` if it is older than one already processed.
    pub fn on_sack(
        &mut self,
        now: Instant,
        sack: &Sack<'_>,
        paths: &mut [Path],
        queue: &mut SendQueue,
    ) -> Result<Option<Acked>, Violation> {
        if self.is_outdated(sack) {
            return Ok(None);
        }
        let Some(mut acked) = self.on_cumulative(now, sack.cumulative, paths, queue)? else {
            return Ok(None);
        };
        let seen_to = self.take_gaps(now, sack, &mut acked, paths, queue);
        if let Some((path, _, rtt)) = acked.round_trip {
            paths[path].rtt.on_sample(rtt);
        }
        self.count_misses(seen_to, &mut acked, paths);
        if self.ahead > 0 || acked.repaired {
            self.find_overtaken(now, &mut acked.lost, paths);
        }
        self.peer_window = (sack.window as usize).saturating_sub(self.flight);
        Ok(Some(acked))
    }

    /// Processes the part that SACK and SHUTDOWN have in common.
    pub fn on_cumulative(
        &mut self,
        now: Instant,
        cumulative: Seq32,
        paths: &mut [Path],
        queue: &mut SendQueue,
    ) -> Result<Option<Acked>, Violation> {
        let steps = cumulative.distance(self.cumulative());
        if steps < 0 {
            return Ok(None);
        }
        if steps as usize > self.sent.len() {
            return Err(Violation);
        }
        let mut acked = Acked { moved: steps > 0, ..Acked::default() };
        for _ in 0..steps {
            self.acknowledge(0, now, &mut acked, paths, queue);
            self.drop_front(queue);
        }
        if self.sent.is_empty() {
            self.check_at = None;
        }
        Ok(Some(acked))
    }

    /// Whether a SACK acknowledges nothing new, and less than was acknowledged beyond the gap: it was overtaken by a
    /// later one.
    ///
    /// A peer that reneges (RFC 9260 §6.2) may send the same. It is believed as soon as the cumulative TSN advances,
    /// which the chunk at the gap must do in any case: until it is acknowledged it is retransmitted, at T3 at the latest.
    fn is_outdated(&self, sack: &Sack<'_>) -> bool {
        if self.ahead == 0 || sack.cumulative != self.cumulative() {
            return false;
        }
        let mut covered = 0;
        for at in blocks(sack, self.sent.len()).flatten() {
            match self.sent[at].state {
                ChunkState::Acked => covered += 1,
                ChunkState::GivenUp => {}
                ChunkState::Flying | ChunkState::Lost => return false,
            }
        }
        covered < self.ahead
    }

    /// Processes the gap blocks; returns how many chunks from the first they reach.
    fn take_gaps(
        &mut self,
        now: Instant,
        sack: &Sack<'_>,
        acked: &mut Acked,
        paths: &mut [Path],
        queue: &mut SendQueue,
    ) -> usize {
        let mut walked = 0;
        for block in blocks(sack, self.sent.len()) {
            (walked..block.start).for_each(|at| self.take_back(at, now, paths));
            walked = block.end;
            block.for_each(|at| self.acknowledge(at, now, acked, paths, queue));
        }
        if self.ahead > 0 {
            (walked..self.sent.len()).for_each(|at| self.take_back(at, now, paths));
        }
        walked
    }

    /// Marks the chunk at `at` as acknowledged.
    fn acknowledge(
        &mut self,
        at: usize,
        now: Instant,
        acked: &mut Acked,
        paths: &mut [Path],
        queue: &mut SendQueue,
    ) {
        let tsn = self.first_tsn().plus(at as u32);
        let (sent, path) = (self.sent[at], usize::from(self.sent[at].path));
        if matches!(sent.state, ChunkState::Acked | ChunkState::GivenUp) {
            return;
        }
        self.set_state(at, ChunkState::Acked, paths);
        acked.bytes[path] += usize::from(sent.len);
        acked.newest = Some((tsn, sent.path));
        let is_first = sent.tries == 1 && sent.timed;
        acked.repaired |= !is_first;
        if is_first && acked.round_trip.is_none_or(|(_, before, _)| sent.at >= before) {
            acked.round_trip = Some((path, sent.at, now.since(sent.at)));
        }
        let path = &mut paths[path];
        path.mtu.on_pass(usize::from(sent.packet));
        path.rack.on_arrival(sent.sending, !is_first, now.since(sent.at), path.rtt.smoothed());
        if is_first {
            path.rack.note_order(sent.sending);
        }
        let message = &mut self.messages[sent.message as usize];
        message.unacked -= 1;
        if message.unacked == 0 && message.cut == message.bytes.len() && !message.told {
            message.told = true;
            queue.settle(message.tag, Outcome::Acked);
        }
    }

    /// The peer has dropped a chunk that it had acknowledged beyond a gap: it counts as outstanding again, from now on
    /// (RFC 9260 §6.2.1, D iii; §7.2.4).
    fn take_back(&mut self, at: usize, now: Instant, paths: &mut [Path]) {
        let sent = &mut self.sent[at];
        if sent.state != ChunkState::Acked {
            return;
        }
        (sent.misses, sent.timed) = (0, false);
        (sent.at, sent.sending) = (now, paths[usize::from(sent.path)].rack.on_send());
        self.messages[sent.message as usize].unacked += 1;
        self.set_state(at, ChunkState::Flying, paths);
        self.check_in_time(at, paths);
    }

    /// Removes the first chunk, which needs no more tracking.
    fn drop_front(&mut self, queue: &mut SendQueue) {
        let Some(sent) = self.sent.pop_front() else { return };
        self.ahead -= usize::from(sent.state == ChunkState::Acked);
        let message = &mut self.messages[sent.message as usize];
        message.chunks -= 1;
        if message.chunks == 0 && (message.given_up || message.cut == message.bytes.len()) {
            let bytes = std::mem::take(&mut message.bytes);
            self.kept_bytes -= bytes.len();
            queue.recycle(bytes);
            self.free.push(sent.message);
        }
    }

    /// When the first chunk in flight on this path was sent.
    pub fn first_sent(&self, by: usize) -> Option<Instant> {
        let mut flying = self.sent.iter().filter(|sent| sent.state == ChunkState::Flying);
        flying.find(|sent| usize::from(sent.path) == by).map(|sent| sent.at)
    }

    /// The last TSN sent.
    pub fn highest(&self) -> Seq32 {
        Seq32(self.next_tsn.0.wrapping_sub(1))
    }
}

/// The gap blocks as ranges of the `sent` chunks from the cumulative TSN on; those that are empty, go back, or cover
/// TSNs never sent are ignored.
fn blocks(sack: &Sack<'_>, sent: usize) -> impl Iterator<Item = Range<usize>> {
    let mut walked = 0;
    sack.gaps().filter_map(move |(first, last)| {
        let (first, last) = (usize::from(first), usize::from(last).min(sent));
        let is_next = first > walked && first <= last;
        is_next.then(|| {
            walked = last;
            first - 1..last
        })
    })
}

//! Processes SACKs for the chunks sent (RFC 9260 §6.2.1, §7.2.4).

use std::time::Duration;

use antiphon_core::{Instant, Outcome, Seq32};

use super::super::path::Path;
use super::super::settings::MAX_PATHS;
use super::super::wire::chunks::Sack;
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
    newest: Option<(Seq32, u8)>,
    /// Paths on which a chunk was found lost.
    pub lost_on: [bool; MAX_PATHS],
}

impl Acked {
    /// A round trip and the path it was measured on.
    pub fn round_trip(&self) -> Option<(usize, Duration)> {
        self.round_trip.map(|(path, _, rtt)| (path, rtt))
    }
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
        let Some(mut acked) = self.on_cumulative(now, sack.cumulative, paths, queue)? else {
            return Ok(None);
        };
        let seen_to = self.take_gaps(now, sack, &mut acked, paths, queue);
        self.count_misses(seen_to, &mut acked, paths);
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
        for (first, last) in sack.gaps() {
            let (first, last) = (usize::from(first), usize::from(last).min(self.sent.len()));
            // Ignores blocks that are empty, go back, or cover TSNs never sent.
            if first <= walked || first > last {
                continue;
            }
            (walked..first - 1).for_each(|at| self.take_back(at));
            (first - 1..last).for_each(|at| self.acknowledge(at, now, acked, paths, queue));
            walked = last;
        }
        if self.ahead > 0 {
            (walked..self.sent.len()).for_each(|at| self.take_back(at));
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
        let sent = &mut self.sent[at];
        let (len, path) = (usize::from(sent.len), usize::from(sent.path));
        match sent.state {
            ChunkState::Acked | ChunkState::GivenUp => return,
            ChunkState::Flying => {
                paths[path].flight -= len;
                self.flight -= len;
            }
            ChunkState::Lost => self.lost -= 1,
        }
        sent.state = ChunkState::Acked;
        self.ahead += 1;
        paths[path].mtu.on_pass(usize::from(sent.packet));
        acked.bytes[path] += len;
        acked.newest = Some((tsn, sent.path));
        if sent.tries == 1 && acked.round_trip.is_none_or(|(_, before, _)| sent.at >= before) {
            acked.round_trip = Some((path, sent.at, now.since(sent.at)));
        }
        let message = &mut self.messages[sent.message as usize];
        message.unacked -= 1;
        if message.unacked == 0 && message.cut == message.bytes.len() && !message.told {
            message.told = true;
            queue.settle(message.tag, Outcome::Acked);
        }
    }

    /// The peer has dropped a chunk that it had acknowledged beyond a gap.
    fn take_back(&mut self, at: usize) {
        let sent = &mut self.sent[at];
        if sent.state == ChunkState::Acked {
            sent.state = ChunkState::Lost;
            self.ahead -= 1;
            self.lost += 1;
            self.messages[sent.message as usize].unacked += 1;
        }
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

    /// Counts chunks that later ones have overtaken three times as lost (fast retransmit).
    fn count_misses(&mut self, seen_to: usize, acked: &mut Acked, paths: &mut [Path]) {
        let Some((newest, path)) = acked.newest else { return };
        let in_recovery = acked.moved && paths[usize::from(path)].window.in_recovery();
        let below = if in_recovery { seen_to } else { newest.distance(self.first_tsn()).max(0) as usize };
        for at in 0..below.min(seen_to) {
            let sent = &mut self.sent[at];
            // Chunks sent on another path have not been overtaken.
            if sent.state != ChunkState::Flying || sent.misses == super::NEVER_AGAIN || sent.path != path {
                continue;
            }
            sent.misses += 1;
            match sent.misses {
                1 => self.check_in_time(at, paths),
                MISSES => {
                    let (path, packet) = (usize::from(sent.path), usize::from(sent.packet));
                    self.take_for_lost(at, paths);
                    acked.lost_on[path] = true;
                    paths[path].mtu.on_loss(packet);
                }
                _ => {}
            }
        }
    }

    /// Marks a chunk in flight for retransmission.
    pub(super) fn take_for_lost(&mut self, at: usize, paths: &mut [Path]) {
        let sent = &mut self.sent[at];
        let len = usize::from(sent.len);
        sent.state = ChunkState::Lost;
        paths[usize::from(sent.path)].flight -= len;
        self.flight -= len;
        self.lost += 1;
    }

    /// T3-rtx of a path has expired: marks all its chunks in flight for retransmission.
    pub fn on_timeout(&mut self, by: usize, paths: &mut [Path]) {
        for sent in &mut self.sent {
            if sent.state == ChunkState::Flying && usize::from(sent.path) == by {
                sent.state = ChunkState::Lost;
                self.flight -= usize::from(sent.len);
                self.lost += 1;
                paths[by].mtu.on_loss(usize::from(sent.packet));
            }
        }
        paths[by].flight = 0;
    }

    /// The path no longer takes packets as large as some in flight.
    pub fn on_smaller_path(&mut self, by: usize, paths: &mut [Path]) {
        let size = paths[by].mtu.size();
        for at in 0..self.sent.len() {
            let sent = self.sent[at];
            let too_large = usize::from(sent.path) == by && usize::from(sent.packet) > size;
            if sent.state == ChunkState::Flying && too_large {
                self.take_for_lost(at, paths);
            }
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

/// Miss indications that make a chunk lost (RFC 9260 §7.2.4).
const MISSES: u8 = 3;

//! Finds chunks that are lost: by later arrivals (RFC 9260 §7.2.4), by time (RFC 8985), by T3 (RFC 9260 §6.3.3), and by
//! packets that the path no longer takes.

use antiphon_core::Instant;

use super::super::path::Path;
use super::super::settings::MAX_PATHS;
use super::acks::Acked;
use super::{ChunkState, NEVER_AGAIN, Outgoing};
use crate::rack::{MISSES, loss_delay};

/// The latest transmission found lost on each path, if any was; a congestion window is reduced by it.
pub type Losses = [Option<u64>; MAX_PATHS];

impl Outgoing {
    /// Counts chunks that later ones have overtaken three times as lost (fast retransmit), on paths that are not known
    /// to reorder.
    pub(super) fn count_misses(&mut self, seen_to: usize, acked: &mut Acked, paths: &mut [Path]) {
        let Some((newest, path)) = acked.newest else { return };
        let overtaken_on = &paths[usize::from(path)];
        let (in_recovery, counts) = (overtaken_on.window.in_recovery(), overtaken_on.rack.counts_misses());
        let below = match acked.moved && in_recovery {
            true => seen_to,
            false => newest.distance(self.first_tsn()).max(0) as usize,
        };
        for at in 0..below.min(seen_to) {
            let sent = &mut self.sent[at];
            // Chunks sent on another path have not been overtaken.
            if sent.state != ChunkState::Flying || sent.misses == NEVER_AGAIN || sent.path != path {
                continue;
            }
            sent.misses = (sent.misses + 1).min(MISSES);
            if sent.misses == 1 {
                self.check_in_time(at, paths);
            } else if counts && sent.misses == MISSES {
                self.lose(at, &mut acked.lost, paths);
            }
        }
    }

    /// Counts chunks as lost that left before one that has arrived, when the path had its time to reorder them, and
    /// notes when others will be.
    pub fn find_overtaken(&mut self, now: Instant, losses: &mut Losses, paths: &mut [Path]) {
        let mut delays = [None; MAX_PATHS];
        for (path, delay) in paths.iter_mut().zip(&mut delays) {
            (path.overtaken_at, *delay) = (None, loss_delay(path.rtt.smoothed()));
        }
        for at in 0..self.sent.len() {
            let (sent, by) = (&self.sent[at], usize::from(self.sent[at].path));
            if sent.state != ChunkState::Flying || !paths[by].rack.has_overtaken(sent.sending) {
                continue;
            }
            let Some(delay) = delays[by] else { continue };
            let lost_at = sent.at + delay;
            if lost_at <= now {
                self.lose(at, losses, paths);
            } else {
                let soonest = paths[by].overtaken_at.map_or(lost_at, |soonest| soonest.min(lost_at));
                paths[by].overtaken_at = Some(soonest);
            }
        }
    }

    fn lose(&mut self, at: usize, losses: &mut Losses, paths: &mut [Path]) {
        let sent = self.sent[at];
        let path = usize::from(sent.path);
        self.set_state(at, ChunkState::Lost, paths);
        paths[path].mtu.on_loss(usize::from(sent.packet));
        losses[path] = losses[path].max(Some(sent.sending));
    }

    /// Tells path MTU discovery of packets whose answers are overdue, though they do not count as lost yet.
    pub fn suspect_overdue(&self, now: Instant, path: &mut Path) {
        let patience = path.rtt.base_rto();
        let overdue =
            self.sent.iter().filter(|sent| sent.state == ChunkState::Flying && now >= sent.at + patience);
        overdue.for_each(|sent| path.mtu.on_loss(usize::from(sent.packet)));
    }

    /// T3-rtx of a path has expired: marks all its chunks in flight for retransmission.
    pub fn on_timeout(&mut self, by: usize, paths: &mut [Path]) {
        for at in 0..self.sent.len() {
            let sent = self.sent[at];
            if sent.state == ChunkState::Flying && usize::from(sent.path) == by {
                self.set_state(at, ChunkState::Lost, paths);
                paths[by].mtu.on_loss(usize::from(sent.packet));
            }
        }
    }

    /// The path no longer takes packets as large as some in flight.
    pub fn on_smaller_path(&mut self, by: usize, paths: &mut [Path]) {
        let size = paths[by].mtu.size();
        for at in 0..self.sent.len() {
            let sent = self.sent[at];
            let too_large = usize::from(sent.path) == by && usize::from(sent.packet) > size;
            if sent.state == ChunkState::Flying && too_large {
                self.set_state(at, ChunkState::Lost, paths);
            }
        }
    }
}

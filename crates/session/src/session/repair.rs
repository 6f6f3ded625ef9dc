//! Tells the receive track what its transport needs to send a lost packet again.

use std::time::Duration;

use antiphon_core::Instant;

use super::Session;

impl Session {
    /// Tells a track whose playout delay adapts how long its transport needs for repairs.
    pub(super) fn tell_repair(&mut self, now: Instant) {
        let Some(track) = self.receive.as_mut().filter(|track| track.adapts()) else { return };
        if self.repair_told.is_some_and(|told| now.since(told) < REPAIR_TOLD) {
            return;
        }
        self.repair_told = Some(now);
        // In a call the caller hears, too.
        let id = self.peers.iter().flatten().find_map(|peer| peer.association);
        let endpoint = id.and_then(|id| self.associations.endpoint(id));
        let Some(endpoint) = endpoint.filter(|endpoint| endpoint.profile().retransmits) else { return };
        track.set_repair(Some(endpoint.stats().answer_time().unwrap_or(UNKNOWN_REPAIR)));
    }
}

/// How often a track is told the time that repairs need.
const REPAIR_TOLD: Duration = Duration::from_millis(250);
/// Repairs take so long before a round trip has been measured: one across a continent.
const UNKNOWN_REPAIR: Duration = Duration::from_millis(50);

//! How associations end: by themselves, in favour of others, and with their participant.

use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Instant, Wire, WireId};

use super::{Association, AssociationId, Associations};

/// Since when the associations that are ending have made no progress.
#[derive(Clone, Copy)]
pub(super) struct Stopping {
    since: Instant,
    /// The progress count at that instant.
    progress: u64,
}

impl Associations {
    /// Ends an association at once, without telling its peer. Its outcomes and its end are reported.
    pub(crate) fn end(&mut self, now: Instant, id: AssociationId, reason: CloseReason) {
        self.detach(id);
        self.groups.retain(|_, group| *group != id);
        if let Some(association) = &mut self.slots[id.index()] {
            association.endpoint.close(now, CloseMode::Abort);
            association.ending = Some(reason);
            self.to_hear.set(id.index());
        }
    }

    /// Removes the routes and wire of an association: nothing is received or sent for it any more.
    pub(super) fn detach(&mut self, id: AssociationId) {
        if self.is_group(id) {
            // Each of its members has a route.
            self.routes.retain(|_, (other, _)| *other != id);
        }
        let Some(association) = &mut self.slots[id.index()] else { return };
        let (wire, listener) = (association.wire.take(), association.listener.take());
        if let Some(wire) = wire {
            for known in &association.paths {
                self.routes.remove(&(wire, known.path, association.flow));
            }
            if listener.is_some_and(|listener| listener != wire) {
                self.wires.close(wire);
            }
            for name in &association.names {
                let key = (wire, *name);
                if self.ids.get(&key) == Some(&id) {
                    self.ids.remove(&key);
                }
            }
        }
        association.names.clear();
        if let Some(admission) = listener.and_then(|listener| self.admissions.get_mut(&listener)) {
            admission.remove(id, association.presence.began, association.proved);
        }
        self.timers.set(id.index(), None);
        self.to_fetch.clear(id.index());
    }

    pub(super) fn remove(&mut self, id: AssociationId) {
        self.detach(id);
        self.groups.retain(|_, group| *group != id);
        if let Some(association) = self.slots[id.index()].take().filter(|one| !one.is_aside) {
            self.last_stats = association.endpoint.stats();
        }
        self.to_hear.clear(id.index());
        self.opened.retain(|opened| *opened != id);
        self.free.push(id.0);
    }

    /// Another peer may take the place of `id` at once: its peer has ended the stream.
    pub fn release(&mut self, id: AssociationId) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.released = true;
        }
    }

    /// The driver closes `wire`, which an association used that has ended.
    pub fn close_wire(&mut self, wire: WireId) {
        self.wires.close(wire);
    }

    /// No association begins any more; the existing ones end, each as it was closed. An association whose peer takes
    /// nothing more ends 15 s after the last progress.
    pub fn stop(&mut self, now: Instant) {
        self.stopping = Some(Stopping { since: now, progress: self.progress() });
    }

    /// Grows with what is received, and with what a byte stream accepts. Datagrams sent do not count: they may reach no
    /// peer.
    pub(super) fn progress(&self) -> u64 {
        let passed = |one: &Association| {
            let counters = one.endpoint.stats().counters;
            let taken = one.endpoint.profile().wire == Wire::ByteStream;
            counters.bytes_received + if taken { counters.bytes_sent } else { 0 }
        };
        self.slots.iter().flatten().map(passed).sum()
    }

    /// Ends associations that have delayed the end for too long.
    pub(super) fn look_after_stopping(&mut self, now: Instant) {
        let late = |stopping: &Stopping| now.since(stopping.since) >= STOP_PATIENCE;
        let Some(stopping) = self.stopping.filter(late) else { return };
        let progress = self.progress();
        if progress == stopping.progress {
            (0..self.slots.len() as u32).for_each(|at| self.close(now, AssociationId(at), CloseMode::Abort));
        }
        self.stopping = Some(Stopping { since: now, progress });
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        self.stopping.filter(|_| !self.is_empty()).map(|stopping| stopping.since + STOP_PATIENCE)
    }
}

/// Time without progress after which an association that is ending is given up: longer than any transport waits for a
/// peer that is gone (10 s, SCTP).
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(15);

//! Connections that come in on a listening wire, and who gets its places: whoever sends something of use, not who came first.

use std::rc::Rc;

use antiphon_core::{CloseMode, CloseReason, Instant, PathId, Role, WireId};

use super::admission::{Admission, Policy};
use super::{AssociationId, Associations};

impl Associations {
    /// A connection came in on the listening wire `listener`: returns its wire, or `None` to refuse it.
    pub fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        if self.stopping.is_some() {
            return None;
        }
        let admission = self.admissions.get(&listener)?;
        let current = admission.current.filter(|current| self.slots[current.index()].is_some());
        let single = matches!(admission.policy, Policy::Single { .. });
        let current = current.filter(|_| single);
        if let Some(current) = current.filter(|current| self.wire_of(*current).is_none()) {
            return Some(self.continue_with(current));
        }
        if !self.has_place_for_connection(now, listener) {
            self.admission_mut(listener).counters.no_room += 1;
            return None;
        }
        let wire = self.wires.fresh();
        let stack = Rc::clone(&self.admissions[&listener].stack);
        let id = self.open(now, &*stack, Role::Listener, Some(wire), Some(listener), 0);
        if let Some(association) = &mut self.slots[id.index()] {
            association.waiting = current.is_some();
        }
        self.add_path(id, PathId::default(), true);
        // A connection shows that its peer receives what is sent to its address, not that it has anything to send.
        self.admitted(listener, id, false);
        Some(wire)
    }

    /// The next connection of a stream that continues: the same association.
    fn continue_with(&mut self, current: AssociationId) -> WireId {
        let wire = self.wires.fresh();
        if let Some(association) = &mut self.slots[current.index()] {
            association.wire = Some(wire);
        }
        self.routes.insert((wire, PathId::default(), 0), (current, PathId::default()));
        wire
    }

    /// Whether there is a place for one more connection; ends the oldest that has sent nothing of use if that makes room.
    fn has_place_for_connection(&mut self, now: Instant, listener: WireId) -> bool {
        let admission = &self.admissions[&listener];
        if let (Policy::Many { idle, .. }, false) = (admission.policy, admission.has_place(false))
            && now >= admission.no_peer_idle_before
        {
            self.end_idle(now, listener, idle);
        }
        let has_place = |admission: &Admission| match admission.policy {
            Policy::Single { .. } => admission.has_place_to_wait(),
            Policy::Many { .. } => admission.has_place(false),
        };
        if !has_place(&self.admissions[&listener])
            && let Some(oldest) = self.admissions[&listener].oldest_heard_once()
        {
            self.end(now, oldest, CloseReason::TimedOut);
        }
        has_place(&self.admissions[&listener])
    }

    /// The participant can use a message of this association. Returns whether it has a place: one that waits for the place
    /// of a single peer gets it if that one is silent, and is ended if not.
    pub fn on_used(&mut self, now: Instant, id: AssociationId) -> bool {
        let Some(association) = self.slots.get_mut(id.index()).and_then(Option::as_mut) else { return false };
        association.presence.on_used(now);
        let (waiting, listener) = (association.waiting, association.listener);
        if !association.proved && listener != association.wire {
            self.prove(id);
        }
        match listener.filter(|_| waiting) {
            Some(listener) => self.claim(now, listener, id),
            None => true,
        }
    }

    /// Whether an association waits for the place of a listening wire's single peer.
    pub fn is_waiting(&self, id: AssociationId) -> bool {
        self.get(id).is_some_and(|one| one.waiting)
    }

    fn claim(&mut self, now: Instant, listener: WireId, id: AssociationId) -> bool {
        let admission = &self.admissions[&listener];
        let Policy::Single { silence, streams } = admission.policy else { return true };
        let current = admission.current.filter(|current| *current != id);
        let holder = current.and_then(|current| self.slots[current.index()].as_ref());
        let held = holder.is_some_and(|holder| {
            let presence = &holder.presence;
            let lives = if streams { presence.streams(now, silence) } else { presence.is_used() };
            !holder.released && lives
        });
        if held {
            self.admission_mut(listener).counters.no_room += 1;
            self.close(now, id, CloseMode::Abort);
            return false;
        }
        if let Some(current) = current {
            self.end(now, current, CloseReason::TimedOut);
        }
        self.admission_mut(listener).current = Some(id);
        if let Some(association) = &mut self.slots[id.index()] {
            association.waiting = false;
        }
        true
    }

    /// An accepted connection is gone: one of many ends, and one that waits; a single one waits for the next connection.
    pub(super) fn on_broken(&mut self, now: Instant, id: AssociationId, wire: WireId) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        let Some(listener) = association.listener.filter(|listener| *listener != wire) else { return };
        association.wire = None;
        self.routes.remove(&(wire, PathId::default(), 0));
        self.wires.close(wire);
        let single =
            self.admissions.get(&listener).is_some_and(|one| matches!(one.policy, Policy::Single { .. }));
        if !single || association.waiting || self.stopping.is_some() {
            association.endpoint.close(now, CloseMode::Abort);
            self.touch(id);
        }
    }
}

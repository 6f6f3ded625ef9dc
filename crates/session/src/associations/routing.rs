//! Which association a datagram belongs to, and whether a datagram of an unknown source begins an association.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Input, Instant, PathId, Role, WireId};

use super::admission::{Decision, Policy};
use super::{Association, AssociationId, Associations, Handled};

impl Associations {
    /// Something happened on a wire.
    pub fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) -> Handled {
        match input {
            Input::Datagram { path, bytes, received_at } => {
                self.handle_datagram(now, wire, path, bytes, received_at)
            }
            other => {
                // Errors of a socket that several peers share cannot be attributed to one of them.
                let alone = self.routes.range((wire, PathId(0), 0)..=(wire, PathId(u32::MAX), u16::MAX));
                let mut alone = alone.map(|(_, (id, _))| *id);
                if let Some(id) = alone.next().filter(|id| alone.all(|other| other == *id)) {
                    let broken = matches!(other, Input::Broken(_));
                    self.give(now, id, other);
                    if broken {
                        self.on_broken(now, id, wire);
                    }
                }
                Handled::Taken
            }
        }
    }

    fn handle_datagram(
        &mut self,
        now: Instant,
        wire: WireId,
        path: PathId,
        bytes: &mut [u8],
        received_at: Instant,
    ) -> Handled {
        let flow = self.admissions.get(&wire).map_or(0, |admission| admission.flow_label(bytes));
        let known = self.routes.get(&(wire, path, flow)).copied();
        if let Some((id, local)) = known.or_else(|| self.by_id(now, wire, path, flow, bytes)) {
            self.heard(now, id, local);
            self.give(now, id, Input::Datagram { path: local, bytes, received_at });
            return Handled::Taken;
        }
        self.admit(now, wire, path, flow, bytes, received_at)
    }

    /// A datagram of an unknown source.
    fn admit(
        &mut self,
        now: Instant,
        wire: WireId,
        path: PathId,
        flow: u16,
        bytes: &mut [u8],
        received_at: Instant,
    ) -> Handled {
        let Some(admission) = self.admissions.get_mut(&wire) else { return Handled::UnknownSource };
        let decision =
            if self.stopping.is_some() { Decision::Ignore } else { admission.decide(now, path, bytes) };
        let (with_block, proved) = match decision {
            Decision::Ignore => {
                admission.counters.not_admitted += 1;
                return Handled::UnknownSource;
            }
            Decision::Answered => {
                self.wires.mark_reply(wire);
                return Handled::Taken;
            }
            Decision::Accept { with_block, proved } => (with_block, proved),
        };
        if !self.makes_room(now, wire, path, proved) {
            let admission = self.admission_mut(wire);
            admission.counters.no_room += 1;
            admission.release();
            return Handled::UnknownSource;
        }
        let stack = Rc::clone(&self.admissions[&wire].stack);
        let id = self.open(now, &*stack, Role::Listener, Some(wire), Some(wire), flow);
        let local = self.add_path(id, path, true);
        self.admitted(wire, id, proved);
        if with_block {
            let block = self.admission_mut(wire).take_block();
            self.give(now, id, Input::Accepted { path: local, block: &block });
            self.admission_mut(wire).keep_block(block);
        } else {
            self.give(now, id, Input::Datagram { path: local, bytes, received_at });
        }
        Handled::Taken
    }

    /// A connection came in on the listening wire `listener`: returns its wire, or `None` to refuse it.
    pub fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        if self.stopping.is_some() {
            return None;
        }
        let admission = self.admissions.get_mut(&listener)?;
        let wire = self.wires.fresh();
        if let (Policy::Single { .. }, Some(current)) = (admission.policy, admission.current)
            && let Some(association) = self.slots[current.index()].as_mut()
        {
            if association.wire.is_some() {
                admission.counters.no_room += 1;
                return None;
            }
            // The next connection of a stream that continues: the same association.
            association.wire = Some(wire);
            self.routes.insert((wire, PathId::default(), 0), (current, PathId::default()));
            return Some(wire);
        }
        if !admission.has_place(true) {
            admission.counters.no_room += 1;
            return None;
        }
        let stack = Rc::clone(&admission.stack);
        let id = self.open(now, &*stack, Role::Listener, Some(wire), Some(listener), 0);
        self.add_path(id, PathId::default(), true);
        // A connection shows that its peer receives what is sent to its address.
        self.admitted(listener, id, true);
        Some(wire)
    }

    pub(super) fn admitted(&mut self, listener: WireId, id: AssociationId, proved: bool) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        association.proved = proved;
        let began = association.began;
        self.admission_mut(listener).add(id, began, proved);
    }

    /// Marks an association as proved: its peer is no stray datagram.
    pub(super) fn prove(&mut self, id: AssociationId) {
        let Some(association) = self.slots[id.index()].as_mut().filter(|one| !one.proved) else { return };
        association.proved = true;
        if let Some(admission) = association.listener.and_then(|one| self.admissions.get_mut(&one)) {
            admission.prove(id, association.began);
        }
    }

    /// Whether `listener` has a place for one more peer, proved or not; ends another association if that makes room.
    fn makes_room(&mut self, now: Instant, listener: WireId, path: PathId, proved: bool) -> bool {
        let admission = &self.admissions[&listener];
        match admission.policy {
            Policy::Single { silence } => {
                let Some(current) = admission.current else { return true };
                let Some(association) = &self.slots[current.index()] else { return true };
                // One that has shown that it receives what is sent there is no forgery: behind the same address it is the
                // program that was started again, and from another address it need not wait as long as others.
                let same = proved && association.paths.iter().any(|known| known.path == path);
                let patience = match (same, proved) {
                    (true, _) => RESTART_SILENCE.min(silence),
                    (false, true) => silence / 2,
                    (false, false) => silence,
                };
                let free = association.released || now.since(association.last_heard) >= patience;
                let heard_twice = association.heard_twice;
                let second = self.admission_mut(listener).came_again(path);
                if !free && (heard_twice || !second) {
                    return false;
                }
                self.end(now, current, CloseReason::TimedOut);
                true
            }
            Policy::Many { idle, .. } => {
                if !admission.has_place(proved) && now >= admission.no_peer_idle_before {
                    self.end_idle(now, listener, idle);
                }
                self.admissions[&listener].has_place(proved) || self.end_heard_once(now, listener, path)
            }
        }
    }

    /// Ends an association that was heard only once, if the source that needs its place came again.
    fn end_heard_once(&mut self, now: Instant, listener: WireId, path: PathId) -> bool {
        let admission = self.admission_mut(listener);
        let oldest = admission.came_again(path).then(|| admission.oldest_heard_once()).flatten();
        oldest.into_iter().for_each(|id| self.end(now, id, CloseReason::TimedOut));
        oldest.is_some()
    }

    /// Ends associations that have been idle for too long. Looks at all of them, but no more often than one can have
    /// become idle, so that unknown sources cannot cause needless searches.
    fn end_idle(&mut self, now: Instant, listener: WireId, idle: Duration) {
        let patience = |one: &Association| if one.proved { idle } else { idle.min(UNPROVED_IDLE) };
        let (mut ended, mut next) = (Vec::new(), now + idle.min(UNPROVED_IDLE));
        for (id, one) in self.of_listener(listener) {
            if now.since(one.last_heard) >= patience(one) {
                ended.push(id);
            } else {
                next = next.min(one.last_heard + patience(one));
            }
        }
        for id in &ended {
            self.end(now, *id, CloseReason::TimedOut);
        }
        let admission = self.admission_mut(listener);
        admission.counters.idle += ended.len() as u64;
        admission.no_peer_idle_before = next;
    }

    fn of_listener(&self, listener: WireId) -> impl Iterator<Item = (AssociationId, &Association)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter_map(|(at, slot)| Some((AssociationId(at as u32), slot.as_ref()?)))
            .filter(move |(_, one)| one.listener == Some(listener))
    }

    fn heard(&mut self, now: Instant, id: AssociationId, local: PathId) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        association.last_heard = now;
        let known = association.paths.iter_mut().find(|known| known.local == local);
        known.into_iter().for_each(|known| known.last_heard = now);
        let (began, again) = (association.began, !std::mem::replace(&mut association.heard_twice, true));
        let admission = association.listener.and_then(|listener| self.admissions.get_mut(&listener));
        if let Some(admission) = admission.filter(|_| again) {
            admission.heard_again(id, began);
        }
        if now.since(began) >= PROOF_TIME {
            self.prove(id);
        }
    }

    fn give(&mut self, now: Instant, id: AssociationId, input: Input<'_>) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.endpoint.handle_input(now, input);
            self.touch(id);
        }
    }

    /// An accepted connection is gone: one of many ends, a single one waits for the next connection.
    fn on_broken(&mut self, now: Instant, id: AssociationId, wire: WireId) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        let Some(listener) = association.listener.filter(|listener| *listener != wire) else { return };
        association.wire = None;
        self.routes.remove(&(wire, PathId::default(), 0));
        self.wires.close(wire);
        let single =
            matches!(self.admissions.get(&listener).map(|one| one.policy), Some(Policy::Single { .. }));
        if !single || self.stopping.is_some() {
            association.endpoint.close(now, CloseMode::Abort);
            self.touch(id);
        }
    }
}

/// Silence after which a program behind the address of the current peer takes its place: a live stream is not silent for so
/// long, so that a second sender of the same machine does not end the first one's.
const RESTART_SILENCE: Duration = Duration::from_millis(200);
/// A peer that is heard again after this time is proved. A stray datagram is not, nor is a flood's random address.
const PROOF_TIME: Duration = Duration::from_millis(200);
/// Silence after which an unproved association makes room: twice as long as a sender may be silent before another takes
/// over.
const UNPROVED_IDLE: Duration = Duration::from_secs(4);

//! Which association a datagram belongs to, and whether a datagram of an unknown source begins an association.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseReason, Input, Instant, PathId, Role, WireId};

use super::admission::{Decision, Policy};
use super::{Association, AssociationId, Associations, Handled};

/// A datagram that came on a wire.
pub(super) struct Datagram<'a> {
    pub now: Instant,
    pub wire: WireId,
    pub path: PathId,
    pub bytes: &'a mut [u8],
    pub received_at: Instant,
}

impl<'a> Datagram<'a> {
    /// The same as its endpoint gets it, which numbers its paths itself.
    fn on(self, path: PathId) -> Input<'a> {
        Input::Datagram { path, bytes: self.bytes, received_at: self.received_at }
    }
}

impl Associations {
    /// Something happened on a wire.
    pub fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) -> Handled {
        match input {
            Input::Datagram { path, bytes, received_at } => {
                self.handle_datagram(Datagram { now, wire, path, bytes, received_at })
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

    fn handle_datagram(&mut self, datagram: Datagram<'_>) -> Handled {
        let Datagram { now, wire, path, .. } = datagram;
        let admission = self.admissions.get(&wire);
        let flow = admission.map_or(0, |admission| admission.validator.flow_label(datagram.bytes));
        let known = self.routes.get(&(wire, path, flow)).copied();
        let known = known.or_else(|| self.groups.get(&wire).map(|id| (*id, path)));
        let known = known.or_else(|| self.by_id(&datagram, flow)).or_else(|| self.move_to(&datagram));
        let Some((id, local)) = known else { return self.admit(datagram, flow) };
        self.heard(now, id, local, datagram.bytes);
        self.give(now, id, datagram.on(local));
        Handled::Taken
    }

    /// A datagram from an unknown source that goes on with the stream of the single peer: a translator has changed the
    /// peer's address, which is then the only one.
    fn move_to(&mut self, datagram: &Datagram<'_>) -> Option<(AssociationId, PathId)> {
        let Datagram { now, wire, path, .. } = *datagram;
        let admission = self.admissions.get(&wire)?;
        let id = admission.current?;
        let place = admission.validator.place_of(datagram.bytes)?;
        let association = self.slots[id.index()].as_mut()?;
        let [known] = &mut association.paths[..] else { return None };
        if association.released || !association.presence.goes_on_at(now, place) {
            return None;
        }
        self.routes.remove(&(wire, known.path, association.flow));
        self.routes.insert((wire, path, association.flow), (id, known.local));
        known.path = path;
        Some((id, known.local))
    }

    /// A datagram of an unknown source.
    fn admit(&mut self, datagram: Datagram<'_>, flow: u16) -> Handled {
        let Datagram { now, wire, path, ref bytes, .. } = datagram;
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
            admission.validator.release();
            return Handled::UnknownSource;
        }
        let stack = Rc::clone(&self.admissions[&wire].stack);
        let id = self.open(now, &*stack, Role::Listener, Some(wire), Some(wire), flow);
        let local = self.add_path(id, path, true);
        self.note_place(id, bytes);
        self.admitted(wire, id, proved);
        if with_block {
            let block = std::mem::take(&mut self.admission_mut(wire).block);
            self.give(now, id, Input::Accepted { path: local, block: &block });
            self.admission_mut(wire).block = block;
        } else {
            self.give(now, id, datagram.on(local));
        }
        Handled::Taken
    }

    pub(super) fn admitted(&mut self, listener: WireId, id: AssociationId, proved: bool) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        association.proved = proved;
        association.validated |= proved;
        let (began, waits) = (association.presence.began, association.waiting);
        self.admission_mut(listener).add(id, began, proved, waits);
    }

    /// Marks an association as proved: its peer is no stray datagram.
    pub(super) fn prove(&mut self, id: AssociationId) {
        let Some(association) = self.slots[id.index()].as_mut().filter(|one| !one.proved) else { return };
        association.proved = true;
        if let Some(admission) = association.listener.and_then(|one| self.admissions.get_mut(&one)) {
            admission.prove(id, association.presence.began);
        }
    }

    /// Whether `listener` has a place for one more peer, proved or not; ends another association if that makes room.
    fn makes_room(&mut self, now: Instant, listener: WireId, path: PathId, proved: bool) -> bool {
        let admission = &self.admissions[&listener];
        match admission.policy {
            Policy::Single { silence, streams } => {
                let Some(current) = admission.current else { return true };
                let Some(association) = &self.slots[current.index()] else { return true };
                let presence = association.presence;
                // One that has shown that it receives what is sent there is no forgery: behind the same address it is the
                // program that was started again, and from another address it need not wait as long as others.
                let same = proved && association.paths.iter().any(|known| known.path == path);
                let patience = match (same, proved) {
                    (true, _) => RESTART_SILENCE.min(silence),
                    (false, true) => silence / 2,
                    (false, false) => silence,
                };
                let free = association.released || now.since(presence.last_heard) >= patience;
                let times = self.admission_mut(listener).turn_away(now, path, now - silence);
                // A stray sender does not keep out one that comes again and again, as streams do.
                let insists = times >= if proved { 1 } else { STREAM_BEGINS };
                let stray = insists && !presence.is_there(now, patience, streams);
                if !free && !stray && (presence.heard_twice || times < 2) {
                    return false;
                }
                self.end(now, current, CloseReason::TimedOut);
                true
            }
            Policy::Many { idle, .. } => {
                if !admission.has_place(proved) && now >= admission.no_peer_idle_before {
                    self.end_idle(now, listener, idle);
                }
                self.admissions[&listener].has_place(proved) || self.end_stray(now, listener, path)
            }
        }
    }

    /// Ends an association that was heard only once, if the source that needs its place came again; or one that is heard now
    /// and then, if the source came again and again, as streams do.
    fn end_stray(&mut self, now: Instant, listener: WireId, path: PathId) -> bool {
        let admission = self.admission_mut(listener);
        let times = admission.turn_away(now, path, now - STRAY);
        let once = if times > 1 { admission.oldest_heard_once() } else { None };
        // A flood from one address must not cause a search each time.
        let insists = times.is_multiple_of(STREAM_BEGINS);
        let stray = once.or_else(|| {
            let all = self.of_listener(listener).filter(|_| insists);
            let strays = all.filter(|(_, one)| !one.validated && one.presence.is_stray(now, STRAY));
            strays.min_by_key(|(_, one)| one.presence.last_heard).map(|(id, _)| id)
        });
        stray.into_iter().for_each(|id| self.end(now, id, CloseReason::TimedOut));
        stray.is_some()
    }

    /// Ends associations that have been idle for too long. Looks at all of them, but no more often than one can have
    /// become idle, so that unknown sources cannot cause needless searches.
    pub(super) fn end_idle(&mut self, now: Instant, listener: WireId, idle: Duration) {
        let patience = |one: &Association| if one.proved { idle } else { idle.min(UNPROVED_IDLE) };
        let (mut ended, mut next) = (Vec::new(), now + idle.min(UNPROVED_IDLE));
        for (id, one) in self.of_listener(listener) {
            if now.since(one.presence.last_heard) >= patience(one) {
                ended.push(id);
            } else {
                next = next.min(one.presence.last_heard + patience(one));
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

    fn heard(&mut self, now: Instant, id: AssociationId, local: PathId, bytes: &[u8]) {
        self.note_place(id, bytes);
        let Some(association) = &mut self.slots[id.index()] else { return };
        let presence = &mut association.presence;
        presence.last_heard = now;
        let (began, again) = (presence.began, !std::mem::replace(&mut presence.heard_twice, true));
        let known = association.paths.iter_mut().find(|known| known.local == local);
        known.into_iter().for_each(|known| known.last_heard = now);
        let admission = association.listener.and_then(|listener| self.admissions.get_mut(&listener));
        if let Some(admission) = admission.filter(|_| again) {
            admission.heard_again(id, began);
        }
        if now.since(began) >= PROOF_TIME {
            self.prove(id);
        }
    }

    /// Remembers where the stream of a single peer stands.
    fn note_place(&mut self, id: AssociationId, bytes: &[u8]) {
        let Some(association) = &mut self.slots[id.index()] else { return };
        let admission = association.listener.and_then(|listener| self.admissions.get(&listener));
        let Some(place) =
            admission.filter(|one| one.current.is_some()).and_then(|one| one.validator.place_of(bytes))
        else {
            return;
        };
        let presence = &mut association.presence;
        if presence.place.is_none_or(|before| before.stream != place.stream || place.follows(before)) {
            presence.place = Some(place);
        }
    }

    fn give(&mut self, now: Instant, id: AssociationId, input: Input<'_>) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.endpoint.handle_input(now, input);
            self.touch(id);
        }
    }
}

/// Silence after which a program behind the address of the current peer takes its place: a live stream is not silent for so
/// long, so that a second sender of the same machine does not end the first one's.
const RESTART_SILENCE: Duration = Duration::from_millis(200);
/// A peer that is heard again after this time is proved. A stray datagram is not, nor is a flood's random address.
const PROOF_TIME: Duration = Duration::from_millis(200);
/// Datagrams within the permitted silence by which a sender shows that it streams, and the current one does not: twice as
/// many as keep a stream's place.
const STREAM_BEGINS: u32 = 8;
/// Time in which one of many that sends fewer packets than a stream makes room for one that streams.
const STRAY: Duration = Duration::from_secs(2);
/// Silence after which an unproved association makes room: twice as long as a sender may be silent before another takes
/// over.
const UNPROVED_IDLE: Duration = Duration::from_secs(4);

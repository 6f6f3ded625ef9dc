//! The table of associations of one participant: which association a datagram belongs to, who may begin one, when each
//! must be called, and which wire has something to send.
//!
//! The cost of a datagram hardly depends on the number of associations: routes, ids and timers are trees, and only
//! associations that received something, sent something or are due are asked.

mod admission;
mod connections;
mod ending;
mod paths;
mod presence;
mod replies;
mod routing;
mod timers;
mod wires;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, ConnectionId, Endpoint, Event, Instant, Message, PathId, PathStats, Profile,
    Received, Role, SendError, Stack, StreamId, Tag, Transmit, WireId, sooner,
};

pub use admission::{AdmissionCounters, Policy};
pub(crate) use timers::Timers;

use crate::marks::Marks;
use admission::Admission;
pub(crate) use ending::STOP_PATIENCE;
use ending::Stopping;
use paths::KnownPath;
use presence::Presence;
use wires::Wires;

/// Names an association of a participant until its [`Event::Closed`] has been fetched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId(pub u32);

impl AssociationId {
    /// Its index in a list: below the largest number of associations that existed at once.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a datagram belonged to an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// An association took the datagram, or a validator answered it.
    Taken,
    /// The datagram is of an unknown source and begins no association.
    UnknownSource,
}

/// The associations of one participant.
#[derive(Default)]
pub struct Associations {
    /// An association keeps its slot until its end has been reported.
    slots: Vec<Option<Association>>,
    /// Slots without an association.
    free: Vec<u32>,
    /// By wire, path and flow label: the association, and which of its paths it is.
    routes: BTreeMap<(WireId, PathId, u16), (AssociationId, PathId)>,
    ids: BTreeMap<(WireId, ConnectionId), AssociationId>,
    /// Associations with a group: all that comes on their wires is theirs, and their paths are numbered as the wire's.
    groups: BTreeMap<WireId, AssociationId>,
    admissions: BTreeMap<WireId, Admission>,
    wires: Wires,
    timers: Timers,
    /// Taken from the timers, each to be called once.
    due: Vec<AssociationId>,
    /// May have messages.
    to_fetch: Marks,
    /// May have events.
    to_hear: Marks,
    /// Associations that began and were not reported yet.
    opened: VecDeque<AssociationId>,
    /// Path statistics of the association that ended last.
    last_stats: PathStats,
    stopping: Option<Stopping>,
}

struct Association {
    endpoint: Box<dyn Endpoint>,
    /// `None` after an accepted connection is gone and before the next one comes.
    wire: Option<WireId>,
    /// The listening wire on which it began.
    listener: Option<WireId>,
    /// Flow label: which of the parties behind its addresses it is.
    flow: u16,
    /// The endpoint's paths.
    paths: Vec<KnownPath>,
    /// The endpoint's number of the next path.
    next_path: u32,
    /// Connection ids by which its peer's packets name it.
    names: Vec<ConnectionId>,
    presence: Presence,
    /// Whether the peer is known not to be a stray datagram: its validator replied, it has a connection, or it was
    /// heard for a while.
    proved: bool,
    /// Whether the peer has shown that it receives what is sent to its address.
    validated: bool,
    /// A connection beside that of a listening wire's single peer, until it has sent anything that is of use.
    waiting: bool,
    /// Whether another peer may take its place at once.
    released: bool,
    /// Whether its path statistics are of no more interest once it has ended.
    is_aside: bool,
    /// The first of its events, fetched to see whether there is any.
    news: Option<Event>,
    /// It was closed on this side: the outcomes of its messages are reported first, then this reason.
    ending: Option<CloseReason>,
}

impl Association {
    fn poll_event(&mut self) -> Option<Event> {
        if self.news.is_some() {
            return self.news.take();
        }
        match self.endpoint.poll_event() {
            None => self.ending.map(Event::Closed),
            event => event,
        }
    }
}

impl Associations {
    /// An empty table.
    pub fn new() -> Self {
        Associations::default()
    }

    /// Reserves memory for so many associations.
    pub fn reserve(&mut self, associations: usize) {
        self.slots.reserve(associations);
        self.due.reserve(associations);
        self.free.reserve(associations);
        self.timers.reserve(associations);
        self.to_fetch.reserve(associations);
        self.to_hear.reserve(associations);
    }

    /// Calls a peer over `wire`, on which it has these paths: the endpoint's are numbered in the same order.
    pub fn call(&mut self, now: Instant, wire: WireId, paths: &[PathId], stack: &dyn Stack) -> AssociationId {
        let id = self.open(now, stack, Role::Caller, Some(wire), None, 0);
        for path in paths {
            self.add_path(id, *path, true);
        }
        id
    }

    /// Calls a multicast group over `wire`, whose path 0 leads to all members, and further ones to each.
    pub fn call_group(&mut self, now: Instant, wire: WireId, stack: &dyn Stack) -> AssociationId {
        let id = self.call(now, wire, &[PathId::default()], stack);
        self.groups.insert(wire, id);
        id
    }

    /// Whether it is one with a multicast group.
    pub(crate) fn is_group(&self, id: AssociationId) -> bool {
        self.groups.values().any(|group| *group == id)
    }

    /// Lets peers begin associations on `wire`, as `policy` says.
    pub fn listen(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, policy: Policy) {
        self.admissions.insert(wire, Admission::new(now, stack, policy));
    }

    fn open(
        &mut self,
        now: Instant,
        stack: &dyn Stack,
        role: Role,
        wire: Option<WireId>,
        listener: Option<WireId>,
        flow: u16,
    ) -> AssociationId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // All of them may be due, or may end, at the same instant.
            self.due.reserve(self.slots.len());
            self.free.reserve(self.slots.len());
            self.slots.len() as u32 - 1
        });
        let id = AssociationId(at);
        self.slots[id.index()] = Some(Association {
            endpoint: stack.open(now, role),
            wire,
            listener,
            flow,
            paths: Vec::with_capacity(1),
            next_path: 0,
            names: Vec::with_capacity(2),
            presence: Presence::new(now),
            proved: false,
            validated: listener.is_none_or(|listener| Some(listener) != wire),
            waiting: false,
            released: false,
            is_aside: false,
            news: None,
            ending: None,
        });
        self.opened.push_back(id);
        self.touch(id);
        id
    }

    /// Does what is due, each association at most once.
    pub fn advance(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(at) = self.timers.pop_due(now) {
            due.push(AssociationId(at as u32));
        }
        for id in due.drain(..) {
            if let Some(association) = &mut self.slots[id.index()] {
                association.endpoint.handle_timeout(now);
                self.touch(id);
            }
        }
        self.due = due;
        self.look_after_stopping(now);
    }

    /// The next message of any association, copied into `buf`.
    #[inline]
    pub fn poll_message(&mut self, buf: &mut [u8]) -> Option<(AssociationId, Received)> {
        // Called far more often than there is a message.
        if self.to_fetch.is_empty() { None } else { self.next_message(buf) }
    }

    fn next_message(&mut self, buf: &mut [u8]) -> Option<(AssociationId, Received)> {
        while let Some(at) = self.to_fetch.next_from(0) {
            let association = self.slots[at].as_mut();
            if let Some(received) = association.and_then(|one| one.endpoint.poll_message(buf)) {
                return Some((AssociationId(at as u32), received));
            }
            self.to_fetch.clear(at);
        }
        None
    }

    /// Nothing is fetched from `id` until it is [touched](Self::touch): its owner has no room.
    pub fn pause(&mut self, id: AssociationId) {
        self.to_fetch.clear(id.index());
    }

    /// Nothing is fetched from any association until it is [touched](Self::touch).
    pub fn pause_all(&mut self) {
        while let Some(at) = self.to_fetch.next_from(0) {
            self.to_fetch.clear(at);
        }
    }

    /// All associations may have messages.
    pub fn resume_all(&mut self) {
        for at in 0..self.slots.len() {
            if self.slots[at].is_some() {
                self.to_fetch.set(at);
            }
        }
    }

    /// The next event of any association. Fetch messages first, so that messages received before the end are delivered.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        // Called far more often than there is an event.
        if self.to_hear.is_empty() { None } else { self.next_event() }
    }

    fn next_event(&mut self) -> Option<(AssociationId, Event)> {
        while let Some(at) = self.to_hear.next_from(0) {
            let id = AssociationId(at as u32);
            let Some(event) = self.slots[at].as_mut().and_then(Association::poll_event) else {
                self.to_hear.clear(at);
                self.set_timer(id);
                continue;
            };
            self.on_event(id, &event);
            return Some((id, event));
        }
        None
    }

    fn on_event(&mut self, id: AssociationId, event: &Event) {
        let is_group = self.is_group(id);
        let Some(association) = &mut self.slots[id.index()] else { return };
        match event {
            Event::IdAdded(name) => {
                if let Some(wire) = association.wire {
                    self.ids.insert((wire, *name), id);
                    association.names.push(*name);
                }
            }
            Event::IdRetired(name) => {
                association.names.retain(|known| known != name);
                let key = association.wire.map(|wire| (wire, *name));
                if let Some(key) = key.filter(|key| self.ids.get(key) == Some(&id)) {
                    self.ids.remove(&key);
                }
            }
            Event::PathProved(member) if is_group => {
                if let Some(wire) = association.wire {
                    self.routes.insert((wire, *member, association.flow), (id, *member));
                }
            }
            Event::MemberLeft { member, .. } => {
                if let Some(wire) = association.wire {
                    self.routes.remove(&(wire, *member, association.flow));
                }
            }
            Event::PathProved(local) => {
                let known = association.paths.iter_mut().find(|known| known.local == *local);
                if let (Some(known), Some(wire)) = (known, association.wire) {
                    known.routed = true;
                    self.routes.insert((wire, known.path, association.flow), (id, *local));
                }
                self.prove(id);
            }
            Event::Closed(_) => self.remove(id),
            _ => {}
        }
    }

    /// An association that began since this was last asked.
    pub fn poll_opened(&mut self) -> Option<AssociationId> {
        self.opened.pop_front()
    }

    /// Something may have changed for `id`: it is asked for messages, events and what to send.
    pub fn touch(&mut self, id: AssociationId) {
        let Some(association) = &self.slots[id.index()] else { return };
        self.to_fetch.set(id.index());
        self.to_hear.set(id.index());
        if let Some(wire) = association.wire {
            self.wires.mark_ready(wire, id);
        }
        self.set_timer(id);
    }

    fn set_timer(&mut self, id: AssociationId) {
        let association = self.slots[id.index()].as_ref().filter(|one| one.ending.is_none());
        let due = association.and_then(|one| one.endpoint.poll_timeout());
        self.timers.set(id.index(), due);
    }

    /// Hands a message to an association.
    pub fn send(&mut self, now: Instant, id: AssociationId, message: Message<'_>) -> Result<(), SendError> {
        let association = self.slots.get_mut(id.index()).and_then(Option::as_mut).ok_or(SendError::Closed)?;
        let sent = association.endpoint.send(now, message);
        if let Some(wire) = association.wire {
            self.wires.mark_ready(wire, id);
        }
        self.to_hear.set(id.index());
        self.set_timer(id);
        sent
    }

    /// Hands over a message of a track, on the stream of its channel group.
    pub(crate) fn send_media(
        &mut self,
        now: Instant,
        id: AssociationId,
        group: usize,
        message: Message<'_>,
    ) -> Result<(), SendError> {
        let stream = self.profile(id).map_or_else(StreamId::default, |profile| profile.media_stream(group));
        self.send(now, id, Message { stream, ..message })
    }

    /// Hands over an RTCP packet: on the stream beside the sound, as a lost packet must not hold up sound where each
    /// stream keeps its own order, or on that of a channel group. It may get lost (RFC 3550 §6.4: reports repeat; so do
    /// tokens and receipts).
    pub(crate) fn send_control(
        &mut self,
        now: Instant,
        id: AssociationId,
        group: Option<usize>,
        bytes: &[u8],
    ) {
        self.send_control_until(now, id, group, bytes, now + CONTROL_LIFE);
    }

    /// The same, of use until `deadline`.
    pub(crate) fn send_control_until(
        &mut self,
        now: Instant,
        id: AssociationId,
        group: Option<usize>,
        bytes: &[u8],
        deadline: Instant,
    ) {
        let Some(profile) = self.profile(id) else { return };
        let stream = group.map_or_else(|| profile.control_stream(), |group| profile.media_stream(group));
        let message = Message { stream, ..Message::new(Tag::NONE, bytes, Some(deadline)) };
        let _the_next_one_tells_it_again = self.send(now, id, message);
    }

    /// Ends an association; [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant, id: AssociationId, mode: CloseMode) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.endpoint.close(now, mode);
            self.touch(id);
        }
    }

    /// See [`antiphon_core::Participant::poll_ready`].
    pub fn poll_ready(&mut self) -> Option<WireId> {
        self.wires.poll_ready()
    }

    /// See [`antiphon_core::Participant::poll_close`].
    pub fn poll_close(&mut self) -> Option<WireId> {
        self.wires.poll_close()
    }

    /// See [`antiphon_core::Participant::poll_transmit`]. Associations that share a wire take turns.
    pub fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        if let Some(reply) = self.admissions.get_mut(&wire).and_then(|one| one.replies.poll_transmit(buf)) {
            return Some(reply);
        }
        while let Some(id) = self.wires.next_ready(wire) {
            let Some(association) = &mut self.slots[id.index()] else {
                self.wires.not_ready(wire);
                continue;
            };
            let transmit = association.endpoint.poll_transmit(now, buf);
            let Some(transmit) = transmit else {
                // The endpoint may have let messages expire while it looked for something to send. If not, there are no
                // events, and no round is run.
                if !self.to_hear.contains(id.index()) {
                    association.news = association.endpoint.poll_event();
                    if association.news.is_some() {
                        self.to_hear.set(id.index());
                    }
                }
                self.wires.not_ready(wire);
                self.set_timer(id);
                continue;
            };
            // An endpoint that sent something may have events.
            self.to_hear.set(id.index());
            let known = association.paths.iter().find(|known| known.local == transmit.path);
            let path = known.map(|known| known.path);
            let was_forgotten = path.is_none() && transmit.path.0 < association.next_path;
            self.wires.next_turn(wire);
            self.set_timer(id);
            if was_forgotten {
                continue;
            }
            return Some(Transmit { path: path.unwrap_or(transmit.path), ..transmit });
        }
        None
    }

    /// When [`Self::advance`] must be called; unfinished work counts as a time-out that has come.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let undone = !self.to_fetch.is_empty() || !self.to_hear.is_empty() || !self.opened.is_empty();
        if undone { Some(Instant::ZERO) } else { sooner(self.timers.soonest(), self.next_look()) }
    }

    /// Whether `path` of `wire` leads to one of these associations.
    pub fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.routes.range((wire, path, 0)..=(wire, path, u16::MAX)).next().is_some()
    }

    /// The endpoint of an association.
    pub fn endpoint(&self, id: AssociationId) -> Option<&dyn Endpoint> {
        self.get(id).map(|one| &*one.endpoint)
    }

    /// What its endpoint offers.
    pub fn profile(&self, id: AssociationId) -> Option<Profile> {
        self.endpoint(id).map(Endpoint::profile)
    }

    fn get(&self, id: AssociationId) -> Option<&Association> {
        self.slots.get(id.index())?.as_ref()
    }

    /// The wire that an association uses now.
    pub fn wire_of(&self, id: AssociationId) -> Option<WireId> {
        self.get(id)?.wire
    }

    /// The wire that an association uses now, and the wire's number of the association's first path.
    pub fn first_path_of(&self, id: AssociationId) -> Option<(WireId, PathId)> {
        let association = self.get(id)?;
        Some((association.wire?, association.paths.first()?.path))
    }

    /// The listening wire on which an association began.
    pub fn listener_of(&self, id: AssociationId) -> Option<WireId> {
        self.get(id)?.listener
    }

    /// Whether the peer of an association has sent its stream within `silence`, or has just begun, and has not ended it.
    pub fn is_alive(&self, now: Instant, id: AssociationId, silence: Duration) -> bool {
        self.get(id).is_some_and(|one| !one.released && one.presence.is_there(now, silence, true))
    }

    /// Whether so many bytes may be sent to its peer without being asked for. To an address that has not shown that it
    /// receives them, no more goes than came from there (RFC 9000 §8 allows three times as much), and nothing after
    /// `silence`: who forged it pays for each byte.
    pub fn may_tell(&self, now: Instant, id: AssociationId, len: usize, silence: Duration) -> bool {
        let Some(association) = self.get(id) else { return false };
        let counters = association.endpoint.stats().counters;
        let len = len + association.endpoint.profile().message_overhead;
        association.validated
            || counters.bytes_sent + len as u64 <= counters.bytes_received
                && now.since(association.presence.last_heard) < silence
    }

    /// The peer has shown that it receives what is sent to its address.
    pub(crate) fn validate(&mut self, id: AssociationId) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.validated = true;
            self.prove(id);
        }
    }

    /// It stands beside another, whose statistics count at the end.
    pub(crate) fn set_aside(&mut self, id: AssociationId) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.is_aside = true;
        }
    }

    /// No other peer may take its place after all: see [`Self::release`].
    pub(crate) fn keep(&mut self, id: AssociationId) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.released = false;
        }
    }

    /// When anything last came from its peer, or it began.
    pub(crate) fn heard_at(&self, id: AssociationId) -> Option<Instant> {
        self.get(id).map(|association| association.presence.last_heard)
    }

    /// How long nothing has come from its peer.
    pub(crate) fn silence_of(&self, now: Instant, id: AssociationId) -> Duration {
        self.get(id).map_or(Duration::ZERO, |association| now.since(association.presence.last_heard))
    }

    /// Whether the peer is known to receive what is sent to its address.
    pub(crate) fn is_validated(&self, id: AssociationId) -> bool {
        self.get(id).is_some_and(|association| association.validated)
    }

    /// Whether `len` bytes of sound may be sent: to an address that is not validated at most three times as much as came from it
    /// (RFC 9000 §8), so that nobody has us flood another.
    pub(crate) fn may_stream(&self, id: AssociationId, len: usize) -> bool {
        let Some(association) = self.get(id) else { return false };
        if association.validated {
            return true;
        }
        let counters = association.endpoint.stats().counters;
        let len = len + association.endpoint.profile().message_overhead;
        counters.bytes_sent + len as u64 <= 3 * counters.bytes_received
    }

    /// Path statistics of the association that ended last.
    pub fn last_stats(&self) -> PathStats {
        self.last_stats
    }

    /// Has the endpoint reserve memory for so many messages that wait at once (`Endpoint::reserve`).
    pub fn reserve_messages(&mut self, id: AssociationId, messages: usize) {
        if let Some(association) = &mut self.slots[id.index()] {
            association.endpoint.reserve(messages);
        }
    }

    /// All associations.
    pub fn iter(&self) -> impl Iterator<Item = AssociationId> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.is_some()).map(|(at, _)| AssociationId(at as u32))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// What the admission of a listening wire has counted.
    pub fn admission(&self, wire: WireId) -> AdmissionCounters {
        self.admissions.get(&wire).map_or_else(AdmissionCounters::default, |admission| admission.counters)
    }

    fn admission_mut(&mut self, listener: WireId) -> &mut Admission {
        self.admissions.get_mut(&listener).expect("it listens")
    }
}

/// A report, a token or a receipt that waited this long is out of date.
const CONTROL_LIFE: Duration = Duration::from_secs(1);

//! Which wires have something to send, and whose turn it is on each.

use std::collections::{BTreeMap, VecDeque};

use antiphon_core::WireId;

use super::AssociationId;

/// The wires of a table of associations.
#[derive(Debug)]
pub(super) struct Wires {
    wires: BTreeMap<WireId, Ready>,
    /// To be named by [`Self::poll_ready`].
    to_name: VecDeque<WireId>,
    to_close: VecDeque<WireId>,
    next: WireId,
}

#[derive(Debug, Default)]
struct Ready {
    /// Associations that may have something to send, in the order of their turns.
    turns: VecDeque<AssociationId>,
    /// Which of all associations stand in `turns`.
    waiting: crate::marks::Marks,
    /// Stands in `to_name`.
    named: bool,
}

impl Default for Wires {
    fn default() -> Self {
        Wires {
            wires: BTreeMap::new(),
            to_name: VecDeque::new(),
            to_close: VecDeque::new(),
            next: FIRST_ACCEPTED,
        }
    }
}

impl Wires {
    /// An id for a connection that came in.
    pub fn fresh(&mut self) -> WireId {
        let wire = self.next;
        self.next = WireId(wire.0.checked_add(1).unwrap_or(FIRST_ACCEPTED.0));
        wire
    }

    /// `id` may have something to send on `wire`.
    pub fn mark_ready(&mut self, wire: WireId, id: AssociationId) {
        let ready = self.wires.entry(wire).or_default();
        if !ready.waiting.contains(id.index()) {
            ready.waiting.set(id.index());
            ready.turns.push_back(id);
        }
        self.name(wire);
    }

    /// A validator has a reply for `wire`.
    pub fn mark_reply(&mut self, wire: WireId) {
        self.wires.entry(wire).or_default();
        self.name(wire);
    }

    fn name(&mut self, wire: WireId) {
        if let Some(ready) = self.wires.get_mut(&wire).filter(|ready| !ready.named) {
            ready.named = true;
            self.to_name.push_back(wire);
        }
    }

    pub fn poll_ready(&mut self) -> Option<WireId> {
        while let Some(wire) = self.to_name.pop_front() {
            if let Some(ready) = self.wires.get_mut(&wire) {
                ready.named = false;
                return Some(wire);
            }
        }
        None
    }

    /// The association whose turn it is on `wire`.
    pub fn next_ready(&self, wire: WireId) -> Option<AssociationId> {
        self.wires.get(&wire)?.turns.front().copied()
    }

    /// The association that had the turn has sent something and goes to the end.
    pub fn next_turn(&mut self, wire: WireId) {
        if let Some(ready) = self.wires.get_mut(&wire).filter(|ready| ready.turns.len() > 1) {
            ready.turns.rotate_left(1);
        }
    }

    /// The association that has the turn has nothing to send.
    pub fn not_ready(&mut self, wire: WireId) {
        if let Some(ready) = self.wires.get_mut(&wire)
            && let Some(id) = ready.turns.pop_front()
        {
            ready.waiting.clear(id.index());
        }
    }

    /// `wire` is not used any more.
    pub fn close(&mut self, wire: WireId) {
        self.wires.remove(&wire);
        self.to_close.push_back(wire);
    }

    pub fn poll_close(&mut self) -> Option<WireId> {
        self.to_close.pop_front()
    }
}

/// Ids of accepted connections begin here; the driver gives those below to the wires that it opens.
const FIRST_ACCEPTED: WireId = WireId(1 << 16);

//! The paths of an association: each endpoint numbers its own, and a translator may add one at any time.

use std::time::Duration;

use antiphon_core::{Instant, PathId};

use super::routing::Datagram;
use super::{AssociationId, Associations};

/// A path of an association.
#[derive(Clone, Copy)]
pub(super) struct KnownPath {
    /// The endpoint's number. A number is never given to another path.
    pub local: PathId,
    /// The wire's number.
    pub path: PathId,
    pub last_heard: Instant,
    /// Whether what comes from there goes to the association without a look at its id.
    pub routed: bool,
}

impl Associations {
    pub(super) fn add_path(&mut self, id: AssociationId, path: PathId, route: bool) -> PathId {
        let association = self.slots[id.index()].as_mut().expect("it is there");
        let local = PathId(association.next_path);
        association.next_path += 1;
        association.paths.push(KnownPath {
            local,
            path,
            last_heard: association.presence.last_heard,
            routed: route,
        });
        if let (true, Some(wire)) = (route, association.wire) {
            self.routes.insert((wire, path, association.flow), (id, local));
        }
        local
    }

    /// The association of a known peer that sends from a new path. The path is no route until the peer has proved it.
    pub(super) fn by_id(&mut self, datagram: &Datagram<'_>, flow: u16) -> Option<(AssociationId, PathId)> {
        let Datagram { now, wire, path, .. } = *datagram;
        let name = self.admissions.get(&wire)?.validator.id_of(datagram.bytes)?;
        let id = *self.ids.get(&(wire, name))?;
        let association = self.slots[id.index()].as_mut().filter(|association| association.flow == flow)?;
        if let Some(known) = association.paths.iter().find(|known| known.path == path) {
            return Some((id, known.local));
        }
        if association.paths.len() >= MOST_PATHS {
            self.forget_path(now, id)?;
        }
        Some((id, self.add_path(id, path, false)))
    }

    /// Forgets a path on which nothing was heard for a while: a translator that changes its port again and again leaves
    /// one each time. Those that were not proved go first. `None`: all are in use.
    fn forget_path(&mut self, now: Instant, id: AssociationId) -> Option<()> {
        let association = self.slots[id.index()].as_mut()?;
        let idle = association.paths.iter().enumerate();
        let idle = idle.filter(|(_, known)| now.since(known.last_heard) >= PATH_SILENCE);
        let (at, _) = idle.min_by_key(|(_, known)| (known.routed, known.last_heard))?;
        let known = association.paths.remove(at);
        let key = association.wire.map(|wire| (wire, known.path, association.flow));
        if let Some(key) = key.filter(|key| self.routes.get(key).is_some_and(|(other, _)| *other == id)) {
            self.routes.remove(&key);
        }
        Some(())
    }
}

/// The most paths of one association, in line with what transports of several paths keep.
pub(crate) const MOST_PATHS: usize = 4;
/// Silence after which a path makes room for a further one: twice the interval at which a peer with several paths probes
/// each (RFC 9260 §8.3, a second here).
const PATH_SILENCE: Duration = Duration::from_secs(2);

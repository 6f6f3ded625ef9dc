//! Reports the driver's routes: the id in the peer's packets, and the paths that were proved.

use antiphon_core::{ConnectionId, Event};

use super::endpoint::Sctp;

impl Sctp {
    /// Reports changes since the last call.
    pub(super) fn report_routes(&mut self) {
        // Our verification tag, which is in all packets of the peer (RFC 9260 §8.5) once both sides know each other's
        // tags.
        let association = self.association.as_ref().filter(|association| association.tcb.peer_tag != 0);
        let id = association.map(|association| ConnectionId::from(association.tcb.local_tag));
        if id != self.told_id {
            let retired = std::mem::replace(&mut self.told_id, id).map(Event::IdRetired);
            retired.into_iter().chain(id.map(Event::IdAdded)).for_each(|event| self.queue.report(event));
        }
        let paths = self.association.iter_mut().flat_map(|association| &mut association.paths);
        for path in paths.filter(|path| path.confirmed && !path.told) {
            path.told = true;
            self.queue.report(Event::PathProved(path.id));
        }
    }
}

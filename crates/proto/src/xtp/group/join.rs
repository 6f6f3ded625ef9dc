//! Which datagrams begin an association with a receiver on a group's address: those that a sender sends to the whole group.

use antiphon_core::{ConnectionId, Instant, PathId, StreamPlace, Validator, Verdict};

use crate::xtp::wire::{self, Segment, option};

/// Takes what a sender to the group sends to all. Nothing is proved by that: what is sent back to it is less, until it has
/// answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::xtp) struct GroupValidator {
    pub port: u16,
}

impl Validator for GroupValidator {
    fn validate(&mut self, _now: Instant, _path: PathId, datagram: &[u8], _out: &mut [u8]) -> Verdict {
        let Some((header, segment)) = wire::parse(datagram) else { return Verdict::Ignore };
        let begins =
            matches!(segment, Segment::First { .. } | Segment::Data { .. } | Segment::Traffic { .. });
        let to_all = header.has(option::MULTI) && !header.returned && !header.has(option::END);
        if begins && to_all && header.ports().1 == self.port { Verdict::Accept } else { Verdict::Ignore }
    }

    fn release(&mut self) {
        // The sender goes on sending.
    }

    fn flow_label(&self, datagram: &[u8]) -> u16 {
        wire::header(datagram).map_or(0, |(header, _)| header.ports().0)
    }

    fn id_of(&self, _datagram: &[u8]) -> Option<ConnectionId> {
        None
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }
}

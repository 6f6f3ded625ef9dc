//! Where the caller is: a translator may give it another address in the middle of a connection.
//!
//! RFC 6773 §5 leaves the outer port free to change. Packets carry no id that only the two ends know, so a listener finds
//! the connection by its DCCP ports and by where the caller's sequence numbers are (RFC 4340 §7.5): their upper half
//! changes once in 2^24 packets. What comes from a further address is used if its numbers are valid. Answers go there only
//! after a Sync round (RFC 4340 §7.5.4): a Sync to that address, whose SyncAck came from there.

use antiphon_core::{ConnectionId, Event, Instant, PathId, Role};

use super::endpoint::DccpEndpoint;
use super::seq::Seq48;
use super::validator::cookie_of;
use super::wire::{Header, Kind, Packet};

/// The caller's address, and one to which it may have moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whereabouts {
    /// The driver's number of the path on which the connection began; here it is path 0.
    first: Option<PathId>,
    /// Where packets go.
    pub path: PathId,
    /// A further path on which a valid packet came, and the number of the Sync that was sent there.
    candidate: Option<(PathId, Option<Seq48>)>,
    /// The ranges of numbers that were reported as ids.
    told: Option<(u64, u64)>,
}

impl DccpEndpoint {
    /// A valid packet came on `path`. `newest`: its number is the greatest so far, so it tells where the caller is now.
    pub(super) fn on_path(&mut self, now: Instant, path: PathId, header: &Header, newest: bool) {
        let at = &mut self.whereabouts;
        let first = *at.first.get_or_insert(path);
        let path = if path == first { PathId::default() } else { path };
        if path == at.path || self.role == Role::Caller {
            return;
        }
        if let (Kind::SyncAck { ack }, Some((candidate, Some(sync)))) = (header.kind, at.candidate)
            && (candidate, sync) == (path, ack)
        {
            (at.path, at.candidate) = (path, None);
            return self.queue.report(Event::PathProved(path));
        }
        if newest && self.sequence.may_sync(now) {
            self.whereabouts.candidate = Some((path, None));
        }
    }

    /// The path to which a Sync is due, as the caller may be there now.
    pub(super) fn path_to_prove(&self) -> Option<PathId> {
        self.whereabouts.candidate.filter(|(_, sync)| sync.is_none()).map(|(path, _)| path)
    }

    /// That Sync goes out as packet `seq`.
    pub(super) fn on_path_asked(&mut self, seq: Seq48) {
        if let Some((_, sync)) = &mut self.whereabouts.candidate {
            *sync = Some(seq);
        }
    }

    /// Reports the ids by which a listener's driver finds the connection, when they change: the range of numbers in which
    /// the caller is, and in its second half the next one.
    pub(super) fn tell_ids(&mut self) {
        let gsr = self.sequence.gsr;
        let wanted = (range(gsr), range(gsr.plus(1 << (RANGE_BITS - 1))));
        let told = self.whereabouts.told;
        if self.role == Role::Caller || told == Some(wanted) {
            return;
        }
        self.tell(Some(wanted));
    }

    /// The connection has ended: its packets name it no more.
    pub(super) fn retire_ids(&mut self) {
        self.tell(None);
    }

    fn tell(&mut self, wanted: Option<(u64, u64)>) {
        let told = std::mem::replace(&mut self.whereabouts.told, wanted);
        let ranges = |pair: Option<(u64, u64)>| {
            pair.into_iter().flat_map(|(one, other)| [Some(one), (other != one).then_some(other)]).flatten()
        };
        for new in ranges(wanted).filter(|new| ranges(told).all(|old| old != *new)) {
            self.queue.report(Event::IdAdded(name(self.ports, new)));
        }
        for old in ranges(told).filter(|old| ranges(wanted).all(|new| new != *old)) {
            self.queue.report(Event::IdRetired(name(self.ports, old)));
        }
    }
}

/// The id of the connection that a packet may belong to; packets that may begin one name none.
pub(super) fn id_of(packet: &Packet<'_>) -> Option<ConnectionId> {
    let Header { source, destination, seq, .. } = packet.header;
    let begins = matches!(
        packet.header.kind,
        Kind::Request { .. } | Kind::Response { .. } | Kind::Listen { .. } | Kind::Reset { .. }
    );
    let begins = begins || cookie_of(packet).is_some();
    (!begins).then(|| name((destination, source), range(seq)))
}

fn range(seq: Seq48) -> u64 {
    seq.value() >> RANGE_BITS
}

/// `ports`: the listener's and the caller's.
fn name((ours, theirs): (u16, u16), range: u64) -> ConnectionId {
    let number = u64::from(ours) << 48 | u64::from(theirs) << 32 | range;
    ConnectionId::new(&number.to_be_bytes()).expect("eight bytes are no more than 20")
}

/// Half of a sequence number: the other 24 bits and the caller's port must be guessed before a packet from elsewhere is
/// looked at, and 2^24 packets take a stream of 200 packets a second a day.
const RANGE_BITS: u32 = 24;

//! Congestion management across the associations and tracks of a session, after RFC 3124: who shares a path shares what is known
//! of it.
//!
//! Each transport's endpoint has a congestion control of its own, or none. A manager stands above them: it hears what they report,
//! and says how much each track may send. A session asks it before it sends; what may not leave yet waits in the track's store, and
//! expires there by its deadline.

use antiphon_core::{Event, Instant};

use crate::associations::AssociationId;

/// A send track of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TrackId(pub u16);

impl TrackId {
    /// The sound of a session.
    pub const SOUND: TrackId = TrackId(0);
}

/// How much a track may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Budget {
    /// All that it has.
    All,
    /// Messages of so many bytes together; the last one may exceed it. After them it asks again at this instant.
    Bytes(usize, Instant),
}

/// Shares out what the paths of a session carry. Called on the media thread: it neither allocates nor locks nor waits.
pub trait CongestionManager {
    /// An association reports an event.
    fn on_event(&mut self, now: Instant, on: AssociationId, event: &Event);

    /// A message of `track` was handed to an association.
    fn on_sent(&mut self, now: Instant, on: AssociationId, track: TrackId, bytes: usize);

    /// What `track` may send now.
    fn budget(&mut self, now: Instant, track: TrackId) -> Budget;
}

/// Leaves congestion to the endpoint of each association: with a single track there is nothing to share out.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantAll;

impl CongestionManager for GrantAll {
    fn on_event(&mut self, _now: Instant, _on: AssociationId, _event: &Event) {}

    fn on_sent(&mut self, _now: Instant, _on: AssociationId, _track: TrackId, _bytes: usize) {}

    fn budget(&mut self, _now: Instant, _track: TrackId) -> Budget {
        Budget::All
    }
}

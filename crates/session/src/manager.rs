//! Congestion management across the associations and tracks of a session, after RFC 3124: who shares a path shares what is known
//! of it.
//!
//! Each transport's endpoint has a congestion control of its own, or none. A manager stands above them: it hears what they report,
//! and says how much each track may send. A session asks it before it sends; what may not leave yet waits in the track's store, and
//! expires there by its deadline.

mod beginning;
mod copa;
mod group_paths;
mod shared_path;
mod shared_paths;
mod slow_path;

use std::time::Duration;

use antiphon_core::{Event, Instant};
use antiphon_media::rtcp::ArrivalReport;

use crate::associations::AssociationId;
pub use group_paths::GroupPaths;
pub use shared_path::SharedPath;
pub use shared_paths::SharedPaths;

/// What a path is at its best, its shortest round trip and the most that it takes, is that of half a minute: a queue that others fill is
/// not always full. It is kept in spans of this length, so many of them.
const SPAN: Duration = Duration::from_secs(5);
const SPANS: usize = 6;

/// A send track of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TrackId(pub u16);

impl TrackId {
    /// The sound of a session.
    pub const SOUND: TrackId = TrackId(0);
    /// The first track of pictures; the others follow.
    pub const FIRST_PICTURES: TrackId = TrackId(1);
    /// Data beside sound and pictures, which come before them.
    pub const DATA: TrackId = TrackId(u16::MAX);
}

/// How much a track may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Budget {
    /// All that it has.
    All,
    /// Messages of so many bytes together; the last one may exceed it. After them it asks again at this instant.
    Bytes(usize, Instant),
}

/// Shares out what the paths of a session carry. Called on the media thread: it neither allocates nor locks nor waits. What it has no use for
/// it leaves out.
pub trait CongestionManager {
    /// An association reports an event.
    fn on_event(&mut self, _now: Instant, _on: AssociationId, _event: &Event) {}

    /// An RTP packet of `track` was handed to an association.
    fn on_sent(&mut self, _now: Instant, _on: AssociationId, _track: TrackId, _packet: &[u8]) {}

    /// The peer of an association tells which packets have arrived.
    fn on_report(&mut self, _now: Instant, _on: AssociationId, _report: &ArrivalReport<'_>) {}

    /// A receiver says that it leaves, of which reports came under this SSRC. Anybody can say that of it: its next report shows that it is there.
    fn on_left(&mut self, _ssrc: u32) {}

    /// How the first track of pictures has fared by now: pictures that were begun, and that were left out.
    fn on_pictures(&mut self, _now: Instant, _begun: u64, _left_out: u64) {}

    /// What `track` may send now.
    fn budget(&mut self, now: Instant, track: TrackId) -> Budget;

    /// Whether a picture of so many bytes, of which all packets leave as they are due, is for one of several receivers: the last of them has to wait no longer
    /// than `patience`, or nothing is in its way.
    fn takes(&mut self, _now: Instant, _on: AssociationId, _bytes: usize, _patience: Duration) -> bool {
        true
    }

    /// Since when pictures leave as fast as the paths carry, if they had to wait until that was known: `now` while they wait.
    fn known_since(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// What is known of the path.
    fn figures(&self) -> PathFigures {
        PathFigures::default()
    }
}

/// What a manager knows of a path.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathFigures {
    /// What may be sent, in bytes a second.
    pub rate: Option<f64>,
    /// What arrived in the last second, in bytes a second.
    pub delivered: Option<f64>,
    /// How long packets wait at least, beyond the shortest round trip.
    pub queueing: Option<Duration>,
    /// Whether another sender fills the queue.
    pub competes: bool,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Members of a group that slow the pictures no longer.
    pub uncounted: Uncounted,
}

/// Members of a group whose reports slow its pictures no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uncounted {
    /// Their reports contradict themselves, or what was sent.
    pub contradicting: u16,
    /// What they tell was far below what the others carry for too long.
    pub far_below: u16,
    /// Their paths have no room for pictures beside the sound, and others' have.
    pub without_room: u16,
}

/// Leaves congestion to the endpoint of each association: with a single track there is nothing to share out.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantAll;

impl CongestionManager for GrantAll {
    fn budget(&mut self, _now: Instant, _track: TrackId) -> Budget {
        Budget::All
    }
}

//! Errors in a setup.

use std::time::Duration;

use antiphon_core::SendError;
use antiphon_core::uri::UriError;
use antiphon_link::wlan::CellError;
use antiphon_link::{RingError, SpecError};
use antiphon_proto::OpenError;

/// Why a setup is invalid. Names are those of the setup.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// Nothing to run.
    #[error("the run has no duration: say for how long streams and traffic send")]
    NoDuration,
    /// So long that no clock of the run could count it.
    #[error("duration and drain of {0:?} are longer than the 100 years that a run can last")]
    TooLong(Duration),
    /// Two elements of one name.
    #[error("two {what} are called '{name}'; names must be unique")]
    Duplicate {
        /// Nodes, media, or streams and traffic.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An index beyond the nodes.
    #[error("'{who}' names node number {node}, but there are {count} (counted from 0)")]
    NoSuchNode {
        /// The medium, stream or traffic.
        who: String,
        /// The index.
        node: usize,
        /// How many there are.
        count: usize,
    },
    /// A node is twice on one medium.
    #[error("node '{node}' is on medium '{medium}' twice")]
    TwiceOnMedium {
        /// The node.
        node: String,
        /// The medium.
        medium: String,
    },
    /// More than one path between two nodes.
    #[error(
        "medium '{medium}' makes a loop: '{node}' and its other nodes are already connected; remove one link"
    )]
    Circle {
        /// The medium that closes the circle.
        medium: String,
        /// A node that was connected before.
        node: String,
    },
    /// No path at all.
    #[error("'{who}' has no route from '{from}' to '{to}'")]
    Unreachable {
        /// The stream or traffic.
        who: String,
        /// The sender's node.
        from: String,
        /// The receiver's node.
        to: String,
    },
    /// The sender is the receiver.
    #[error("'{who}' goes from node '{node}' to itself")]
    ToItself {
        /// The stream or traffic.
        who: String,
        /// The node.
        node: String,
    },
    /// No receiver.
    #[error("stream '{0}' has no receiver")]
    NoReceiver(String),
    /// A group for a transport or content that has no groups.
    #[error("stream '{stream}' has {receivers} receivers, but {what} goes to one")]
    NoGroup {
        /// The stream.
        stream: String,
        /// How many.
        receivers: usize,
        /// The transport or content.
        what: &'static str,
    },
    /// The number of nodes differs from that of the description.
    #[error("medium '{medium}' has {nodes} nodes, but its description has {stations} stations")]
    Stations {
        /// The medium.
        medium: String,
        /// Nodes that are on it.
        nodes: usize,
        /// Stations that are described.
        stations: usize,
    },
    /// A rate, size or interval of zero, or another that makes no sense.
    #[error("'{who}': {what}")]
    Quantity {
        /// The medium, stream, traffic or node.
        who: String,
        /// What, and what would be right.
        what: String,
    },
    /// A link's settings contradict each other.
    #[error("link '{medium}': {error}")]
    Link {
        /// The medium.
        medium: String,
        /// The reason.
        error: Box<SpecError>,
    },
    /// An invalid cell.
    #[error("cell '{medium}': {error}")]
    Cell {
        /// The medium.
        medium: String,
        /// The reason.
        error: Box<CellError>,
    },
    /// An invalid ring.
    #[error("ring '{medium}': {error}")]
    Ring {
        /// The medium.
        medium: String,
        /// The reason.
        error: Box<RingError>,
    },
    /// A transport that does not exist, or does not take its settings.
    #[error("stream '{stream}': {error}")]
    Transport {
        /// The stream.
        stream: String,
        /// The reason.
        error: Box<OpenError>,
    },
    /// A query key that the transport does not have.
    #[error("stream '{stream}': {error}")]
    Query {
        /// The stream.
        stream: String,
        /// The reason.
        error: Box<UriError>,
    },
    /// Frames that the transport cannot carry.
    #[error("stream '{stream}': {error}")]
    Frame {
        /// The stream.
        stream: String,
        /// The reason.
        error: SendError,
    },
}

impl WorldError {
    /// An invalid quantity of `who`.
    pub(crate) fn quantity(who: &str, what: impl Into<String>) -> Self {
        WorldError::Quantity { who: who.into(), what: what.into() }
    }
}

/// Why nothing can be captured.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// No medium of that name.
    #[error("there is no medium '{name}'{}", antiphon_core::did_you_mean(.nearest.as_ref()))]
    NoSuchMedium {
        /// The requested name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// No node of that name on the medium.
    #[error("node '{name}' is not on medium '{medium}'{}", antiphon_core::did_you_mean(.nearest.as_ref()))]
    NoSuchNode {
        /// The requested name.
        name: String,
        /// The medium.
        medium: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The file could not be created.
    #[error("the capture cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

//! What is wrong with a setup.

use std::time::Duration;

use antiphon_core::SendError;
use antiphon_core::uri::UriError;
use antiphon_link::wlan::CellError;
use antiphon_link::{RingError, SpecError};
use antiphon_proto::OpenError;

/// Why there can be no such world. Names are those of the setup.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// Nothing to run.
    #[error("the run has no duration: say for how long streams and traffic send")]
    NoDuration,
    /// So long that no clock of the run could count it.
    #[error("duration and drain of {0:?} are longer than the 100 years that a run can last")]
    TooLong(Duration),
    /// Two of one name.
    #[error("two {what} are called '{name}'; names are how results are told apart")]
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
    /// More than one way between two nodes.
    #[error(
        "medium '{medium}' makes a circle: '{node}' and its other nodes are joined already; take one link away"
    )]
    Circle {
        /// The medium that closes it.
        medium: String,
        /// A node that was joined before.
        node: String,
    },
    /// No way at all.
    #[error("'{who}' cannot get from '{from}' to '{to}': no media join them")]
    Unreachable {
        /// The stream or traffic.
        who: String,
        /// The sender's node.
        from: String,
        /// The receiver's node.
        to: String,
    },
    /// To itself.
    #[error("'{who}' goes from node '{node}' to itself")]
    ToItself {
        /// The stream or traffic.
        who: String,
        /// The node.
        node: String,
    },
    /// Nobody to receive.
    #[error("stream '{0}' has no receiver")]
    NoReceiver(String),
    /// A group for a transport or content that has no groups.
    #[error("stream '{stream}' has {receivers} receivers, but {what} goes to one")]
    NoGroup {
        /// The stream.
        stream: String,
        /// How many.
        receivers: usize,
        /// What cannot.
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
        /// Which.
        medium: String,
        /// How.
        error: Box<SpecError>,
    },
    /// A cell that cannot be.
    #[error("cell '{medium}': {error}")]
    Cell {
        /// Which.
        medium: String,
        /// Why.
        error: Box<CellError>,
    },
    /// A ring that cannot be.
    #[error("ring '{medium}': {error}")]
    Ring {
        /// Which.
        medium: String,
        /// Why.
        error: Box<RingError>,
    },
    /// A transport that is not there, or does not take its settings.
    #[error("stream '{stream}': {error}")]
    Transport {
        /// Which.
        stream: String,
        /// Why.
        error: Box<OpenError>,
    },
    /// A query key that the transport does not have.
    #[error("stream '{stream}': {error}")]
    Query {
        /// Which.
        stream: String,
        /// Why.
        error: Box<UriError>,
    },
    /// Frames that the transport cannot carry.
    #[error("stream '{stream}': {error}")]
    Frame {
        /// Which.
        stream: String,
        /// Why.
        error: SendError,
    },
}

impl WorldError {
    /// A quantity of `who` that cannot be.
    pub(crate) fn quantity(who: &str, what: impl Into<String>) -> Self {
        WorldError::Quantity { who: who.into(), what: what.into() }
    }
}

/// Why nothing can be captured there.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// No medium of that name.
    #[error("there is no medium '{name}'{}", antiphon_core::did_you_mean(.nearest.as_ref()))]
    NoSuchMedium {
        /// What was asked for.
        name: String,
        /// The likeliest meant.
        nearest: Option<String>,
    },
    /// No node of that name on the medium.
    #[error("node '{name}' is not on medium '{medium}'{}", antiphon_core::did_you_mean(.nearest.as_ref()))]
    NoSuchNode {
        /// What was asked for.
        name: String,
        /// Where.
        medium: String,
        /// The likeliest meant.
        nearest: Option<String>,
    },
    /// The file could not be begun.
    #[error("the capture cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

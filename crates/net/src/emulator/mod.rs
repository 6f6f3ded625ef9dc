//! The link models, live: as a proxy for datagrams, as a proxy for byte streams, and as a router between network
//! namespaces that carries any IP traffic.
//!
//! Each runs one thread that waits for sockets and for an absolute timer of nanosecond resolution. A seed fixes what
//! happens at each millisecond of the clock; packets arrive in real time, so runs are alike and not equal.

mod pool;
mod reactor;
mod router;
mod stream_proxy;
mod udp_proxy;

pub use reactor::Proxy;
pub use router::{Lane, LaneConfig, LaneReport, Router, RouterConfig, RouterReport, Side, Sides};
pub use stream_proxy::{ConnectionReport, StreamProxy, StreamProxyConfig, StreamReport};
pub use udp_proxy::{FlowReport, Slowest, UdpProxy, UdpProxyConfig, UdpReport};

use antiphon_link::SpecError;

use crate::netns::NetnsError;

/// Why an emulator could not start.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The link is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// The operation, with the address or name.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Namespaces or their devices are not available.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
}

impl EmulatorError {
    fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        EmulatorError::System { what: what.into(), source: source.into() }
    }
}

//! From names and URIs to transports, endpoints and lines.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Instant};
use antiphon_net::{Line, LineError, SocketOptions, Target, TcpLine, UdpLine};
use antiphon_proto::{Beneath, OpenArgs, Role, TRANSPORTS, Transport, find};

use crate::Error;

/// The transports of these schemes, in the order of the registry; all of them if none is named.
pub(crate) fn chosen(schemes: &[String]) -> Result<Vec<&'static Transport>, Error> {
    for scheme in schemes {
        find(scheme)?;
    }
    let wanted = |t: &&&Transport| schemes.is_empty() || schemes.iter().any(|s| s == t.scheme);
    Ok(TRANSPORTS.iter().filter(wanted).copied().collect())
}

/// A line, and the largest datagram that goes out on it whole.
pub(crate) struct OpenedLine {
    pub line: Box<dyn Line>,
    pub max_datagram: usize,
}

/// Opens the socket that `transport` needs. On the thread that will drive it, in the namespace it is to live in.
pub(crate) fn open_line(
    transport: &Transport,
    target: Target,
    options: &SocketOptions,
) -> Result<OpenedLine, LineError> {
    Ok(match transport.beneath {
        Beneath::Udp => {
            let line = UdpLine::open(target, options)?;
            OpenedLine { max_datagram: line.max_datagram(), line: Box::new(line) }
        }
        Beneath::Tcp => {
            let line = TcpLine::open(target, options)?;
            OpenedLine { max_datagram: SEGMENT, line: Box::new(line) }
        }
    })
}

/// What every endpoint of a run shares.
#[derive(Clone, Debug)]
pub(crate) struct EndpointPlan {
    pub transport: &'static Transport,
    pub role: Role,
    pub query: Query,
    pub seed: u64,
    pub latency: Duration,
}

impl EndpointPlan {
    /// Opens the endpoint; it stays on the calling thread.
    pub fn open(&self, now: Instant, max_datagram: usize) -> Result<Box<dyn Endpoint>, Error> {
        let args = OpenArgs {
            role: self.role,
            query: &self.query,
            seed: self.seed,
            now,
            max_datagram,
            latency: self.latency,
        };
        Ok((self.transport.open)(&args)?)
    }
}

/// Frames on a byte stream are kept to what an Ethernet segment carries, as on the datagram transports beside it.
pub(crate) const SEGMENT: usize = 1448;

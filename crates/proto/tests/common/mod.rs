//! Transports as the tests open them.

#![allow(dead_code, reason = "each test uses what it needs")]

pub mod ends;

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Instant, PathId, Role, Stack};
use antiphon_proto::StackArgs;

/// The datagram size of the tests: an Ethernet path over IPv6.
pub const MAX_DATAGRAM: usize = 1452;
/// The playout delay of the tests.
pub const PLAYOUT_DELAY: Duration = Duration::from_millis(80);

/// The stack of `scheme` or `scheme?key=value`.
pub fn stack(uri: &str, seed: u64) -> Rc<dyn Stack> {
    stack_for(uri, seed, PLAYOUT_DELAY)
}

/// The same, for a receiver with this playout delay.
pub fn stack_for(uri: &str, seed: u64, playout_delay: Duration) -> Rc<dyn Stack> {
    let (scheme, query) = uri.split_once('?').unwrap_or((uri, ""));
    let query: Query = query.parse().expect("a query as in a URI");
    let args = StackArgs::new(&query, seed, MAX_DATAGRAM, playout_delay);
    antiphon_proto::stack(scheme, &args).expect("the transport opens")
}

/// The first endpoint of a stack of its own.
pub fn endpoint(uri: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    stack(uri, seed).open(Instant::ZERO, role)
}

/// Hands in a datagram that came by the first path.
pub fn hear(endpoint: &mut dyn Endpoint, now: Instant, bytes: &[u8]) {
    endpoint.handle_input(now, antiphon_testkit::datagram(&mut bytes.to_vec(), PathId::default(), now));
}

//! A transport with its layers, opened as a whole.

use crate::dissector::Dissector;
use crate::endpoint::Endpoint;
use crate::over_ip::OverIp;
use crate::time::Instant;
use crate::validator::Validator;

/// Which side sends first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This side connects.
    Caller,
    /// This side waits for a caller.
    Listener,
}

/// A transport with its settings and layers.
///
/// Everything that handles wire bytes comes from here, so that a layer wraps it in one place: a layer's stack holds
/// another stack and wraps what it makes. Endpoints of a stack serve the callers that its validators accept.
pub trait Stack {
    /// Opens an endpoint. Cannot fail: settings are checked when the stack is made.
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint>;

    /// Makes a validator for a listening wire.
    fn validator(&self, now: Instant) -> Box<dyn Validator>;

    /// Makes a dissector that shows an analyser the messages on one wire.
    fn dissector(&self) -> Box<dyn Dissector>;

    /// How its packets are carried directly over IP; `None` if they are not.
    fn over_ip(&self) -> Option<&dyn OverIp>;
}

//! A transport with its layers, opened as a whole.

use crate::dissector::Dissector;
use crate::endpoint::Endpoint;
use crate::over_ip::OverIp;
use crate::time::Instant;
use crate::validator::Validator;

/// Which side sends first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This side calls.
    Caller,
    /// This side waits to be called.
    Listener,
}

/// A transport with settings of its own and with its layers.
///
/// All that sees bytes of the wire comes from here, so that a layer wraps it once: a layer's stack holds another stack and
/// wraps what that one makes. Endpoints of one stack serve the callers that its validators accept.
pub trait Stack {
    /// Opens an endpoint. Cannot fail: settings are checked when the stack is made.
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint>;

    /// Makes a validator for a listening wire.
    fn validator(&self, now: Instant) -> Box<dyn Validator>;

    /// Makes what shows an analyser the messages in what crosses one wire.
    fn dissector(&self) -> Box<dyn Dissector>;

    /// How its packets travel directly over IP; `None` where they don't.
    fn over_ip(&self) -> Option<&dyn OverIp>;
}

//! The listening side of paper `transport-alternatives`' loopback program, which returns what it receives without
//! decoding it: where datagrams hold parts of a stream of bytes, none of them looks like a message.

use std::rc::Rc;

use antiphon_core::{
    ConnectionId, Dissector, Endpoint, Instant, OverIp, PathId, Role, Stack, StreamPlace, Validator, Verdict,
};

/// `stack` as that program listens on it: any datagram begins an association, unless the transport validates addresses.
pub fn unread(stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
    Rc::new(Unread(stack))
}

struct Unread(Rc<dyn Stack>);

impl Stack for Unread {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        self.0.open(now, role)
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        let bare = self.open(now, Role::Listener).profile().bare;
        if bare { Box::new(TakesAll) } else { self.0.validator(now) }
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        self.0.dissector()
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        self.0.over_ip()
    }
}

struct TakesAll;

impl Validator for TakesAll {
    fn validate(&mut self, _now: Instant, _path: PathId, _datagram: &[u8], _out: &mut [u8]) -> Verdict {
        Verdict::Accept
    }

    fn release(&mut self) {}

    fn flow_label(&self, _datagram: &[u8]) -> u16 {
        0
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }

    fn id_of(&self, _datagram: &[u8]) -> Option<ConnectionId> {
        None
    }
}

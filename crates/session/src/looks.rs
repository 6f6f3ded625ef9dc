//! Which datagrams begin an association where a transport adds nothing to its datagrams: their content decides.

use std::rc::Rc;

use antiphon_core::{
    ConnectionId, Dissector, Endpoint, Instant, OverIp, PathId, Role, Stack, StreamPlace, Validator, Verdict,
};

/// A validator that judges datagrams by their content, and otherwise leaves the decision to the transport's.
pub(crate) struct ByLooks {
    pub inner: Box<dyn Validator>,
    pub looks: fn(&[u8]) -> bool,
}

impl Validator for ByLooks {
    fn validate(&mut self, _now: Instant, _path: PathId, datagram: &[u8], _out: &mut [u8]) -> Verdict {
        if (self.looks)(datagram) { Verdict::Accept } else { Verdict::Ignore }
    }

    fn release(&mut self) {}

    fn flow_label(&self, datagram: &[u8]) -> u16 {
        self.inner.flow_label(datagram)
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }

    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId> {
        self.inner.id_of(datagram)
    }
}

/// `stack` for an application's messages: on bare datagrams every byte is the application's, so that any datagram begins an
/// association.
pub fn of_messages(stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
    Rc::new(OfMessages { inner: stack })
}

struct OfMessages {
    inner: Rc<dyn Stack>,
}

impl Stack for OfMessages {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        self.inner.open(now, role)
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        let inner = self.inner.validator(now);
        if !self.inner.open(now, Role::Listener).profile().bare {
            return inner;
        }
        Box::new(ByLooks { inner, looks: |datagram| !datagram.is_empty() })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        self.inner.dissector()
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        self.inner.over_ip()
    }
}

//! Which datagrams begin an association where a transport adds nothing to its datagrams: their content decides.

use std::rc::Rc;

use antiphon_core::{
    ConnectionId, Dissector, Endpoint, Instant, OverIp, PathId, Role, Stack, StreamPlace, Validator, Verdict,
};
use antiphon_media::rtcp::{App, AppKind};

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
    Rc::new(Looking { inner: stack, looks: |datagram| !datagram.is_empty() })
}

/// `stack` for a sender that receivers call: on bare datagrams, a receiver's question begins an association, and no sound.
pub(crate) fn of_receivers(stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
    let asks = |datagram: &[u8]| App::parse(datagram).is_some_and(|app| app.kind == AppKind::Ask);
    Rc::new(Looking { inner: stack, looks: asks })
}

/// `stack` for pictures of a sender whose sound comes over another one: on bare datagrams, what shows a token begins an association.
pub(crate) fn of_pictures(stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
    let joins = |datagram: &[u8]| App::parse(datagram).is_some_and(|app| app.kind == AppKind::Join);
    Rc::new(Looking { inner: stack, looks: joins })
}

/// A stack that judges bare datagrams by their content.
struct Looking {
    inner: Rc<dyn Stack>,
    looks: fn(&[u8]) -> bool,
}

impl Stack for Looking {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        self.inner.open(now, role)
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        let inner = self.inner.validator(now);
        if !self.inner.open(now, Role::Listener).profile().bare {
            return inner;
        }
        Box::new(ByLooks { inner, looks: self.looks })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        self.inner.dissector()
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        self.inner.over_ip()
    }
}

//! Transports with two modes, and listeners that take their caller's.

use std::rc::Rc;

use antiphon_core::uri::{Query, UriError};
use antiphon_core::{
    CloseMode, Dissector, Endpoint, Event, Input, Instant, Layer, Message, OverIp, Profile, Role, SendError,
    Stack, Validator,
};

use crate::dissect::EachDatagram;
use crate::looks::ByLooks;
use crate::query::with;
use crate::seeds::Seeds;
use crate::{OpenError, StackArgs};

/// A transport whose URIs name one of two modes: `mode=as-published`, or the improved one.
pub(crate) struct TwoModes<S> {
    /// Reads the settings of a query.
    pub read: fn(&StackArgs<'_>, &Query) -> Result<S, UriError>,
    /// Opens an endpoint; the last arguments are the largest datagram, the seed and the time.
    pub open: fn(&S, Role, usize, u64, Instant) -> Box<dyn Endpoint>,
    /// Whether a datagram is as published, improved, or (`None`) neither.
    pub is_published: fn(&[u8]) -> Option<bool>,
    /// Recognises datagrams that begin an association.
    pub looks: ByLooks,
    /// Finds the messages in datagrams of both modes.
    pub dissector: EachDatagram,
}

/// Endpoints of one URI of such a transport: of the mode that it names, or that the caller uses.
struct TwoModesStack<S: 'static> {
    transport: &'static TwoModes<S>,
    settings: S,
    /// The mode to which a listener changes if its caller uses it, and the profile of its endpoints.
    other: Option<(S, Profile)>,
    max_datagram: usize,
    seeds: Seeds,
}

impl<S: Copy + 'static> TwoModes<S> {
    /// A stack of these settings.
    pub fn stack(&'static self, args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
        let settings = (self.read)(args, args.query)?;
        // Settings that only the improved mode has restrict a listener to it.
        let published = match args.query.value("mode") {
            Some(_) => None,
            None => (self.read)(args, &with(args.query, "mode", "as-published")).ok(),
        };
        let (max_datagram, seeds) = (args.max_datagram, Seeds::new(args.secret));
        let open = |settings: &S| (self.open)(settings, Role::Listener, max_datagram, 0, Instant::ZERO);
        let other = published.map(|settings| (settings, open(&settings).profile()));
        Ok(Rc::new(TwoModesStack { transport: self, settings, other, max_datagram, seeds }))
    }
}

impl<S: Copy + 'static> Stack for TwoModesStack<S> {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        let (open, max_datagram, seed) = (self.transport.open, self.max_datagram, self.seeds.next());
        let own = open(&self.settings, role, max_datagram, seed, now);
        let Some((published, profile)) = self.other.filter(|_| role == Role::Listener) else { return own };
        let open = Box::new(move |now| open(&published, role, max_datagram, seed, now));
        Box::new(Adaptive::new(own, Other { speaks: self.transport.is_published, profile, open }))
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(self.transport.looks)
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(self.transport.dissector)
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

/// An endpoint of a transport's default mode that changes to the other mode if its caller uses that.
///
/// The first datagram that can be read in either mode decides, or a message that is sent before. For listeners whose
/// URI names no mode: both ends need the same, and a protocol without a handshake cannot negotiate it.
///
/// Its profile never changes: it has the properties that both modes have. Only `max_message` follows the mode, once
/// there is one.
pub(crate) struct Adaptive {
    endpoint: Box<dyn Endpoint>,
    other: Option<Other>,
    profile: Profile,
    /// The application was told [`Event::Connected`].
    connected: bool,
    /// Messages that may wait at once, to be reserved in an endpoint of the other mode.
    reserved: usize,
}

/// The mode that is not the default.
pub(crate) struct Other {
    /// Whether a datagram is of this mode, of the default one, or (`None`) of neither.
    pub speaks: fn(&[u8]) -> Option<bool>,
    /// The profile of endpoints of this mode.
    pub profile: Profile,
    /// Opens an endpoint of this mode.
    pub open: Box<dyn FnOnce(Instant) -> Box<dyn Endpoint>>,
}

impl Adaptive {
    /// `endpoint` is of the default mode and just opened.
    pub fn new(endpoint: Box<dyn Endpoint>, other: Other) -> Self {
        let profile = of_both(endpoint.profile(), other.profile);
        Adaptive { endpoint, other: Some(other), profile, connected: false, reserved: 0 }
    }

    fn adapt(&mut self, now: Instant, datagram: &[u8]) {
        let decision = self.other.as_ref().and_then(|other| (other.speaks)(datagram));
        if let Some(speaks_other) = decision
            && let Some(other) = self.other.take()
            && speaks_other
        {
            self.endpoint = (other.open)(now);
            self.endpoint.reserve(self.reserved);
            if self.connected {
                // The application was told before that messages flow.
                let _connected_again = self.endpoint.poll_event();
            }
        }
    }
}

/// The profile of an endpoint that may take either mode: the weaker of both, and room for the larger received messages.
fn of_both(one: Profile, other: Profile) -> Profile {
    Profile {
        wire: one.wire,
        max_message: one.max_message.min(other.max_message),
        max_receive: one.max_receive.max(other.max_receive),
        message_overhead: one.message_overhead.max(other.message_overhead),
        bare: one.bare && other.bare,
        acknowledged: one.acknowledged && other.acknowledged,
        ordered: one.ordered && other.ordered,
        retransmits: one.retransmits && other.retransmits,
        priorities: one.priorities && other.priorities,
        reliable: one.reliable && other.reliable,
        streams: one.streams.min(other.streams),
        calls_with_first_message: one.calls_with_first_message || other.calls_with_first_message,
        paces_itself: one.paces_itself || other.paces_itself,
        capabilities: one.capabilities.and(other.capabilities),
    }
}

impl Layer for Adaptive {
    fn inner(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn on_profile(&self, inner: Profile) -> Profile {
        let max_message = if self.other.is_some() { self.profile.max_message } else { inner.max_message };
        Profile { max_message, ..self.profile }
    }

    fn on_reserve(&mut self, messages: usize) {
        self.reserved = messages;
        self.endpoint.reserve(messages);
    }

    fn on_send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        // The limit of the profile; a refused message decides nothing.
        let (len, max) = (message.bytes.len(), self.profile().max_message);
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        let sent = self.endpoint.send(now, message);
        if sent.is_ok() {
            self.other = None;
        }
        sent
    }

    fn on_close(&mut self, now: Instant, mode: CloseMode) {
        self.other = None;
        self.endpoint.close(now, mode);
    }

    fn on_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { bytes, .. } = &input {
            self.adapt(now, bytes);
        }
        self.endpoint.handle_input(now, input);
    }

    fn on_event(&mut self) -> Option<Event> {
        let event = self.endpoint.poll_event();
        self.connected |= event == Some(Event::Connected);
        event
    }
}

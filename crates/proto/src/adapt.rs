//! Listeners that take their caller's mode.

use antiphon_core::{CloseMode, Endpoint, Event, Input, Instant, Layer, Message, Profile, SendError};

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

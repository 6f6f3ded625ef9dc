//! Listeners that take their caller's mode.

use antiphon_core::{
    CloseMode, Endpoint, Event, Frame, FrameId, Input, Instant, PathStats, Profile, Received, SendError,
    Transmit,
};

/// An endpoint of a transport's default mode that turns into one of the other mode if that is what its caller speaks.
///
/// The first datagram that can be read in either mode decides, and so does a frame that is sent before. For listeners
/// whose URI names no mode: both ends need the same, and a caller can't ask for it in a protocol without a greeting.
pub(crate) struct Adaptive {
    endpoint: Box<dyn Endpoint>,
    other: Option<Other>,
    /// The application has heard [`Event::Connected`].
    connected: bool,
    /// Frames that may wait at once, of which an endpoint of the other mode must know.
    reserved: usize,
}

/// The mode that is not the default.
pub(crate) struct Other {
    /// Whether a datagram is of this mode, of the default one, or (`None`) of neither.
    pub speaks: fn(&[u8]) -> Option<bool>,
    /// Opens an endpoint of this mode.
    pub open: Box<dyn FnOnce(Instant) -> Box<dyn Endpoint>>,
}

impl Adaptive {
    /// `endpoint` is of the default mode and just opened.
    pub fn new(endpoint: Box<dyn Endpoint>, other: Other) -> Self {
        Adaptive { endpoint, other: Some(other), connected: false, reserved: 0 }
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
                // It was told before that frames flow.
                let _connected_again = self.endpoint.poll_event();
            }
        }
    }
}

impl Endpoint for Adaptive {
    fn profile(&self) -> Profile {
        self.endpoint.profile()
    }

    fn send(&mut self, now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        self.other = None;
        self.endpoint.send(now, frame)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        self.other = None;
        self.endpoint.close(now, mode);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { bytes, .. } = input {
            self.adapt(now, bytes);
        }
        self.endpoint.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.endpoint.poll_frame(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.endpoint.poll_event();
        self.connected |= event == Some(Event::Connected);
        event
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn reserve(&mut self, frames: usize) {
        self.reserved = frames;
        self.endpoint.reserve(frames);
    }

    fn path_stats(&self) -> PathStats {
        self.endpoint.path_stats()
    }
}

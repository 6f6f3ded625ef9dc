//! A station that receives a stream.

use antiphon_core::{CloseMode, Endpoint, Event, Input, Instant, PathStats, Transmit};

use crate::receiver::SoundReceiver;
use crate::station::{Station, sooner};

/// Receives from one association and plays to a sink.
pub struct ReceiveStation {
    endpoint: Box<dyn Endpoint>,
    receiver: SoundReceiver,
    buf: Vec<u8>,
    /// Whether the end of the stream is the end of the station (recordings), or another may follow.
    ends_with_stream: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Receiving,
    Closing,
    Finished,
}

impl ReceiveStation {
    /// A station that plays what `endpoint` brings.
    pub fn new(endpoint: Box<dyn Endpoint>, receiver: SoundReceiver, ends_with_stream: bool) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        ReceiveStation { endpoint, receiver, buf, ends_with_stream, state: State::Receiving }
    }

    /// The receiving half.
    pub fn receiver(&self) -> &SoundReceiver {
        &self.receiver
    }

    /// The receiving half, to fetch notices and the sink.
    pub fn receiver_mut(&mut self) -> &mut SoundReceiver {
        &mut self.receiver
    }

    /// What the transport knows of the path.
    pub fn path_stats(&self) -> PathStats {
        self.endpoint.path_stats()
    }

    fn close(&mut self, now: Instant) {
        if self.state == State::Receiving {
            self.receiver.leave(now, &mut *self.endpoint);
            self.endpoint.close(now, CloseMode::Graceful);
            self.state = State::Closing;
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::Closed(_) = event {
                self.state = State::Finished;
            }
        }
    }
}

impl Station for ReceiveStation {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            self.receiver.on_frame(now, received, &self.buf[..received.len]);
        }
        self.receiver.advance(now, &mut *self.endpoint);
        let over = self.ends_with_stream && self.receiver.is_over();
        if over || self.receiver.error().is_some() {
            self.close(now);
        }
        self.events();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = if self.state == State::Receiving { self.receiver.poll_timeout() } else { None };
        sooner(own, self.endpoint.poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.receiver.finish_playout(now);
        self.close(now);
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

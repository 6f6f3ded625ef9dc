//! The far end of a comparison: returns every frame as it came, on the same transport.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{CloseMode, Endpoint, Event, Frame, Input, Instant, Transmit};

use crate::board::ArrivalBoard;
use crate::sender::frames_of_a_stall;
use crate::station::Station;

/// Returns every frame that arrives, as received (paper 000 §3: the loopback computer opens nothing).
pub struct Reflector {
    endpoint: Box<dyn Endpoint>,
    scratch: Scratch,
    patience: Duration,
    ends_with_peer: bool,
    one_at_a_time: bool,
    /// Frames handed back that have no outcome yet.
    open: u64,
    board: Option<ArrivalBoard>,
    returned: Option<Arc<AtomicU64>>,
    counters: ReflectorCounters,
    finished: bool,
}

/// What a reflector has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReflectorCounters {
    /// Frames received.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// Frames handed back to the transport.
    pub returned: u64,
    /// Frames that could not be returned: the transport had no room, or they were too large for it.
    pub refused: u64,
}

/// How a reflector behaves.
#[derive(Clone, Debug)]
pub struct ReflectorConfig {
    /// How long a frame may wait here for the way back.
    pub patience: Duration,
    /// Whether the reflector ends when the connection beneath does (servers of one connection each).
    pub ends_with_peer: bool,
    /// Takes a frame only when the one before it has left, as a program does whose write blocks: its patience begins then.
    pub one_at_a_time: bool,
    /// Time from one frame to the next, where it is known that there is but one stream: its endpoint then holds ready what
    /// waits when a machine stands still.
    pub interval: Option<Duration>,
    /// Where to note arrivals.
    pub board: Option<ArrivalBoard>,
    /// Counts frames returned, for another thread to see.
    pub returned: Option<Arc<AtomicU64>>,
    /// Where a frame lies on its way through: to be shared by the reflectors of a hub.
    pub scratch: Scratch,
}

/// Room for one frame, as long as the longest of the transports that use it; clones share it.
///
/// A frame passes through within one call, so that one room does for all reflectors of a thread: 64 kB, were each to
/// have its own, that a thousand of them would hold for nothing.
#[derive(Clone, Debug, Default)]
pub struct Scratch(Rc<RefCell<Vec<u8>>>);

impl Scratch {
    fn hold(&self, len: usize) {
        let mut room = self.0.borrow_mut();
        if room.len() < len {
            room.resize(len, 0);
        }
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        // A second: nobody wants an echo older than that back, and no path here queues for longer.
        ReflectorConfig {
            patience: Duration::from_secs(1),
            ends_with_peer: false,
            one_at_a_time: false,
            interval: None,
            board: None,
            returned: None,
            scratch: Scratch::default(),
        }
    }
}

impl Reflector {
    /// A reflector on `endpoint`.
    pub fn new(mut endpoint: Box<dyn Endpoint>, config: ReflectorConfig) -> Self {
        if let Some(interval) = config.interval {
            endpoint.reserve(frames_of_a_stall(interval));
        }
        config.scratch.hold(endpoint.profile().max_receive);
        Reflector {
            endpoint,
            scratch: config.scratch,
            patience: config.patience,
            ends_with_peer: config.ends_with_peer,
            one_at_a_time: config.one_at_a_time,
            open: 0,
            board: config.board,
            returned: config.returned,
            counters: ReflectorCounters::default(),
            finished: false,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> ReflectorCounters {
        self.counters
    }

    /// The endpoint beneath.
    pub fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Frame { .. } => {
                    self.open -= 1;
                    self.reflect(now);
                }
                Event::Closed(_) => self.finished = true,
                Event::Broken(_) if self.ends_with_peer => self.endpoint.close(now, CloseMode::Abort),
                _ => {}
            }
        }
    }

    fn reflect(&mut self, now: Instant) {
        let buf = &mut *self.scratch.0.borrow_mut();
        while !(self.one_at_a_time && self.open > 0) {
            let Some(received) = self.endpoint.poll_frame(buf) else { break };
            let frame = &buf[..received.len];
            self.counters.received += 1;
            self.counters.received_bytes += received.len as u64;
            if let Some(board) = &self.board {
                board.note(frame, received.received_at);
            }
            let sent = self.endpoint.send(now, Frame::new(frame, Some(now + self.patience)));
            self.open += u64::from(sent.is_ok());
            self.counters.returned += u64::from(sent.is_ok());
            if let Some(returned) = &self.returned {
                returned.fetch_add(u64::from(sent.is_ok()), Ordering::Relaxed);
            }
            self.counters.refused += u64::from(sent.is_err());
        }
    }
}

impl Station for Reflector {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn association(&self) -> Option<u64> {
        self.endpoint.association()
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        self.reflect(now);
        self.events(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        loop {
            let sent = self.endpoint.poll_transmit(now, buf);
            if sent.is_some() || !self.one_at_a_time {
                return sent;
            }
            // What was sent has left, and the next frame need not wait for the driver's next round.
            let before = self.counters.received;
            self.events(now);
            if self.counters.received == before {
                return None;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint.close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

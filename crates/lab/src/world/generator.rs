//! Loads of the laboratory: a packet generator, and its receiver, which measures.

use std::time::Duration;

use antiphon_core::{
    CloseMode, Endpoint, Event, Input, Instant, Message, OnEndpoint, OneWire, Transmit, handle_due, sooner,
};
use antiphon_media::packet::RTP_HEADER;

use super::meter::{Arrival, SharedLog, SharedMeter};
use crate::setup::Pacing;

/// Ticks of the time stamps per second; what video uses, and no worse for a filling that is no sound.
const CLOCK: u64 = 90_000;

/// How a generator sends.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Whole frame in bytes.
    pub frame: usize,
    /// When frames are due.
    pub law: Law,
    /// How many at most.
    pub count: u64,
    /// No frame is due then or later.
    pub until: Instant,
    /// A frame is given up if its transmission could not begin for this long.
    pub patience: Option<Duration>,
    /// Wait at a frame until the transport has taken all of it, like a program whose write blocks; delayed frames then
    /// follow without a pause.
    pub blocks: bool,
    /// The far end returns the frames: times count from when they were handed over, not from when they were due.
    pub reflected: bool,
    /// Of each message, 0 the most urgent.
    pub priority: u8,
}

/// When frames are due.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// At regular intervals.
    Every(Duration),
    /// By what became of those before; a frame that should come back is not waited for longer than this.
    Paced(Pacing, Option<Duration>),
    /// The transport sets the pace: it gets a frame whenever it has begun the one before, and frames are due when it
    /// first sends them. For transports that send one datagram a frame and nothing else.
    Asked,
}

/// Sends frames of one size.
pub struct Generator {
    endpoint: Box<dyn Endpoint>,
    pace: Pace,
    log: SharedLog,
    /// Measures frames that come back.
    meter: Option<SharedMeter>,
    frame: Vec<u8>,
    buf: Vec<u8>,
    first: u16,
    /// When frame 0 was due: as soon as the transport was connected.
    begun: Option<Instant>,
    next: u64,
    /// Frames that the transport has taken and not yet sent.
    waiting: u64,
    /// Frames sent for the first time, where the transport sets the pace.
    first_sent: u64,
    /// When the last frame was handed over, or sent for the first time where the transport sets the pace.
    last_sent: Instant,
    /// When the frame sent last came back.
    back: Option<Instant>,
    /// The time for sending has passed.
    over: bool,
    finished: bool,
    closing: bool,
}

impl Generator {
    /// A generator whose first number is `first`.
    pub fn new(
        endpoint: Box<dyn Endpoint>,
        pace: Pace,
        log: &SharedLog,
        meter: Option<SharedMeter>,
        first: u16,
    ) -> Self {
        let mut frame = vec![0; pace.frame.max(RTP_HEADER)];
        // Version 2, payload type 96, then number, time stamp and SSRC (RFC 3550 §5.1).
        frame[..2].copy_from_slice(&[2 << 6, 96]);
        frame[8..12].copy_from_slice(&[0x4c, 0x41, 0x42, first as u8]);
        let buf = vec![0; if meter.is_some() { endpoint.profile().max_receive } else { 0 }];
        Generator {
            endpoint,
            pace,
            log: SharedLog::clone(log),
            meter,
            frame,
            buf,
            first,
            begun: None,
            next: 0,
            waiting: 0,
            first_sent: 0,
            last_sent: Instant::ZERO,
            back: None,
            over: false,
            finished: false,
            closing: false,
        }
    }

    /// The endpoint below.
    pub fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    /// When the next frame is due; `None` when there is none.
    fn due(&self) -> Option<Instant> {
        let begun = self.begun?;
        let due = match self.pace.law {
            Law::Every(interval) => {
                let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.next);
                Some(Instant::from_nanos(begun.as_nanos().saturating_add(nanos)))
            }
            Law::Paced(Pacing::PingPong, _) if self.next == 0 => Some(begun),
            Law::Paced(Pacing::PingPong, patience) => self.back.or_else(|| Some(self.last_sent + patience?)),
            Law::Paced(Pacing::Window(most), _) => (self.waiting < most).then_some(begun.max(self.last_sent)),
            Law::Asked => {
                return (self.next == self.first_sent && self.next < self.pace.count)
                    .then(|| begun.max(self.last_sent));
            }
        }?;
        (self.next < self.pace.count && due < self.pace.until).then_some(due)
    }

    fn is_blocked(&self) -> bool {
        self.pace.blocks && self.waiting > 0
    }

    fn send_due(&mut self, now: Instant) {
        while let Some(due) =
            self.due().filter(|due| *due <= now && now < self.pace.until && !self.is_blocked())
        {
            let sequence = self.first.wrapping_add(self.next as u16);
            let since = match self.pace.law {
                Law::Every(interval) => u128::from(self.next) * interval.as_nanos(),
                Law::Paced(..) => u128::from(now.as_nanos()),
                Law::Asked => 0,
            };
            let ticks = since * u128::from(CLOCK) / 1_000_000_000;
            self.frame[2..4].copy_from_slice(&sequence.to_be_bytes());
            self.frame[4..8].copy_from_slice(&(ticks as u32).to_be_bytes());
            let deadline = self.pace.patience.map(|patience| due + patience);
            let tag = self.log.borrow().next_tag();
            let message = Message::new(tag, &self.frame[..self.pace.frame], deadline);
            let sent = self.endpoint.send(now, Message { priority: self.pace.priority, ..message });
            self.waiting += u64::from(sent.is_ok());
            self.next += 1;
            let paced = matches!(self.pace.law, Law::Paced(..));
            if paced {
                (self.back, self.last_sent) = (None, now);
            }
            let at = if self.pace.reflected || paced { now } else { due };
            self.log.borrow_mut().on_sent(0, sequence, at, sent);
        }
    }

    /// The transport has sent a frame for the first time, or retransmitted one.
    fn on_sending(&mut self, now: Instant) {
        let counters = self.endpoint.stats().counters;
        let first = counters.datagrams_sent.saturating_sub(counters.retransmitted);
        if first > self.first_sent {
            self.first_sent = first;
            self.last_sent = now;
            self.log.borrow_mut().on_first_sending(first, now);
        }
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => _ = self.begun.get_or_insert(now),
                Event::Broken(_) => self.log.borrow_mut().broken |= !self.is_done(),
                Event::Outcome { tag, outcome } => {
                    self.waiting -= 1;
                    self.log.borrow_mut().on_outcome(tag.0, outcome);
                }
                Event::Closed(_) => self.finished = true,
                _ => {}
            }
        }
    }

    /// The last frame of a ping-pong has come back.
    fn is_ping_pong_over(&self) -> bool {
        matches!(self.pace.law, Law::Paced(Pacing::PingPong, _)) && self.back.is_some()
    }

    /// Nothing is left to be sent.
    fn is_done(&self) -> bool {
        let over = self.over || (self.begun.is_some() && self.next >= self.pace.count);
        over && self.waiting == 0
    }
}

impl OneWire for Generator {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        handle_due(&mut *self.endpoint, now);
        if let Some(meter) = &self.meter {
            while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
                on_frame(meter, received.received_at, &self.buf[..received.len]);
                let last = self.first.wrapping_add(self.next.wrapping_sub(1) as u16);
                if number(&self.buf[..received.len]) == Some(last) {
                    self.back.get_or_insert(now);
                }
            }
        }
        self.over |= now >= self.pace.until;
        self.events(now);
        self.send_due(now);
        // The association is still needed for frames that come back.
        let awaits = self.meter.is_some() && !self.is_ping_pong_over();
        if self.is_done() && !awaits && !self.closing {
            self.closing = true;
            self.endpoint.close(now, CloseMode::Graceful);
            self.events(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let sent = self.endpoint.poll_transmit(now, buf);
        if sent.is_some() && matches!(self.pace.law, Law::Asked) {
            self.on_sending(now);
        }
        sent
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // When the time is over, frames that are due are not sent any more.
        let due = self.due().filter(|_| !self.is_blocked() && !self.over);
        let end = (!self.over && self.meter.is_none() && due.is_none()).then_some(self.pace.until);
        sooner(due.or(end), self.endpoint.poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint.close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Receives frames and measures them.
pub struct Listener {
    endpoint: Box<dyn Endpoint>,
    meter: SharedMeter,
    buf: Vec<u8>,
    /// A frame has arrived when the transport delivers it, not when its last byte came: what waits for others before it is late.
    when_delivered: bool,
}

impl Listener {
    /// A receiver on `endpoint`.
    pub fn new(endpoint: Box<dyn Endpoint>, meter: SharedMeter) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        Listener { endpoint, meter, buf, when_delivered: false }
    }

    /// The same, for which a frame has arrived when the transport delivers it.
    pub fn when_delivered(self, when_delivered: bool) -> Self {
        Listener { when_delivered, ..self }
    }
}

impl OnEndpoint for Listener {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn endpoint_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn work(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            let at = if self.when_delivered { now } else { received.received_at };
            on_frame(&self.meter, at, &self.buf[..received.len]);
        }
        while self.endpoint.poll_event().is_some() {}
    }
}

/// A received frame: only its number is read.
fn on_frame(meter: &SharedMeter, at: Instant, frame: &[u8]) {
    if let Some(sequence) = number(frame) {
        meter.borrow_mut().on_arrival(Arrival { at, group: 0, sequence });
    }
}

/// The RTP number of a frame.
fn number(frame: &[u8]) -> Option<u16> {
    let [_, _, high, low, ..] = frame else { return None };
    Some(u16::from_be_bytes([*high, *low]))
}

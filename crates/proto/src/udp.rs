//! `rtp://`: frames as bare UDP datagrams (RFC 3550 over UDP), so that any RTP player can listen.
//!
//! One frame is one datagram, sent once, in order, never acknowledged: outcomes are `Released` or `Expired`.

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Frame, FrameId, Input, Instant, Outcome, PathStats, Profile,
    Received, SendError, Transmit, Unwrap, Wire,
};

use crate::inbox::Inbox;
use crate::queue::{Room, SendQueue};
use crate::tally::Tally;
use crate::{Beneath, HOUSE_PORT, OpenArgs, OpenError, Strengths, Transport};

/// UDP as the rest of the house sees it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "rtp",
    title: "UDP/RTP",
    summary: "bare RTP over UDP: lowest delay, loses what the network loses, any RTP player listens",
    beneath: Beneath::Udp,
    over_ip: None,
    default_port: HOUSE_PORT,
    reflect_offset: 0,
    strengths: Strengths { reliable: false, ordered: false, multicast: true },
    keys: &[],
    open,
    admits: looks_like_rtp,
    unwrap: Unwrap::Plain,
};

fn open(args: &OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError> {
    Ok(Box::new(Udp::new(args.max_datagram)))
}

/// Whether a datagram has RTP's version number and shortest header (RFC 3550 §5.1). RTCP makes no association: it may
/// come from a port of its own (§11), and reports would go there instead of to where the sound is from.
fn looks_like_rtp(datagram: &[u8]) -> bool {
    datagram.len() >= 12 && datagram[0] >> 6 == 2 && !RTCP_TYPES.contains(&datagram[1])
}

/// The second octet of RTCP, which no RTP packet beside it has (RFC 5761 §4).
const RTCP_TYPES: std::ops::RangeInclusive<u8> = 192..=223;

#[derive(Debug)]
struct Udp {
    queue: SendQueue,
    inbox: Inbox,
    max_datagram: usize,
    tally: Tally,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    Closing,
    Closed,
}

impl Udp {
    fn new(max_datagram: usize) -> Self {
        let mut queue = SendQueue::new(Room::LEAN, max_datagram);
        // UDP needs no answer: frames flow from the first moment.
        queue.report(Event::Connected);
        Udp {
            queue,
            inbox: Inbox::new(Room::LEAN, max_datagram),
            max_datagram,
            tally: Tally::default(),
            state: State::Open,
        }
    }

    fn finish_closing(&mut self) {
        if self.state == State::Closing && self.queue.is_empty() {
            self.state = State::Closed;
            self.inbox.clear();
            self.queue.report(Event::Closed(CloseReason::Local));
        }
    }
}

impl Endpoint for Udp {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_frame: self.max_datagram,
            max_receive: MAX_UDP_PAYLOAD,
            frame_overhead: 0,
            acknowledged: false,
            ordered: false,
            retransmits: false,
            streams: 1,
        }
    }

    fn send(&mut self, _now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        match self.state {
            State::Open => self.queue.push(frame, self.max_datagram),
            State::Closing | State::Closed => Err(SendError::Closed),
        }
    }

    fn close(&mut self, _now: Instant, mode: CloseMode) {
        if self.state == State::Open {
            self.state = State::Closing;
        }
        if mode == CloseMode::Abort {
            self.queue.finish_all(Outcome::Aborted);
        }
        self.finish_closing();
    }

    fn handle_input(&mut self, _now: Instant, input: Input<'_>) {
        if self.state == State::Closed {
            return;
        }
        let Some(datagram) = self.tally.take(input, &mut self.queue) else { return };
        if datagram.bytes.is_empty() || datagram.bytes.len() > MAX_UDP_PAYLOAD {
            self.tally.on_malformed();
        } else {
            self.inbox.push(datagram.bytes, &[], datagram.path, datagram.received_at);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.expire(now);
        self.finish_closing();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let frame = self.queue.pop(now);
        let sent = frame.map(|frame| {
            let len = frame.bytes.len();
            buf[..len].copy_from_slice(&frame.bytes);
            self.queue.finish(frame, Outcome::Released);
            self.tally.transmit(len)
        });
        self.finish_closing();
        sent
    }

    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.next_expiry()
    }

    fn reserve(&mut self, frames: usize) {
        self.queue.make_room(Room::of(frames), self.max_datagram);
        self.inbox.make_room(Room::of(frames), self.max_datagram);
    }

    fn path_stats(&self) -> PathStats {
        PathStats { counters: self.tally.counters(&self.queue, &self.inbox), ..PathStats::default() }
    }
}

/// The largest UDP payload over IPv4: 65 535 less 20 bytes of IP and 8 of UDP header (RFC 768, RFC 791).
const MAX_UDP_PAYLOAD: usize = 65_507;

//! `rtp://`: messages as bare UDP datagrams (RFC 3550 over UDP), so that any RTP player can listen.
//!
//! One message is one datagram, sent once, in order, never acknowledged: outcomes are `Released` or `Expired`.

use std::rc::Rc;

use antiphon_core::{
    Capabilities, CloseMode, CloseReason, Dissector, Endpoint, Event, Input, Instant, Message, Outcome,
    OverIp, PathId, PathStats, Plain, Profile, Received, Role, SendError, Stack, StreamPlace, Transmit,
    Validator, Wire,
};

use crate::inbox::Inbox;
use crate::looks::ByLooks;
use crate::queue::{Room, SendQueue};
use crate::registry::one_address;
use crate::tally::Tally;
use crate::{DEFAULT_PORT, Substrate, Transport};

/// UDP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "rtp",
    title: "UDP/RTP",
    plain: "plain UDP: sends once, resends nothing",
    summary: "RTP over UDP: lowest delay, no retransmission, works with any RTP player",
    substrate: Substrate::Udp,
    over_ip: None,
    default_port: DEFAULT_PORT,
    reflect_offset: 0,
    multicast: true,
    broadcast: true,
    variants: &[],
    keys: &[],
    other_peers: one_address,
    stack: |args| Ok(Rc::new(UdpStack { max_datagram: args.max_datagram })),
    dissector: || Box::new(Plain),
};

#[derive(Debug)]
struct UdpStack {
    max_datagram: usize,
}

impl Stack for UdpStack {
    fn open(&self, _now: Instant, _role: Role) -> Box<dyn Endpoint> {
        Box::new(Udp::new(self.max_datagram))
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(ByLooks { begins: looks_like_rtp, place: place_of })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(Plain)
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

/// Whether a datagram has RTP's version number and shortest header (RFC 3550 §5.1). RTCP makes no association: it may
/// come from a port of its own (§11), and reports would go there instead of to where the sound is from.
fn looks_like_rtp(datagram: &[u8]) -> bool {
    datagram.len() >= 12 && datagram[0] >> 6 == 2 && !RTCP_TYPES.contains(&datagram[1])
}

/// The stream is named by its SSRC.
fn place_of(datagram: &[u8]) -> Option<StreamPlace> {
    let header = datagram.first_chunk::<12>().filter(|_| looks_like_rtp(datagram))?;
    let (number, ssrc) = (u16::from_be_bytes([header[2], header[3]]), &header[8..]);
    let stream = ssrc.iter().fold(0, |stream, byte| stream << 8 | u64::from(*byte));
    Some(StreamPlace { stream, number: number.into(), bits: 16 })
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
        // UDP needs no answer: messages flow from the first moment.
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
            max_message: self.max_datagram,
            max_receive: MAX_UDP_PAYLOAD,
            message_overhead: 0,
            bare: true,
            acknowledged: false,
            ordered: false,
            retransmits: false,
            reliable: false,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities::OF_UDP,
        }
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        match self.state {
            State::Open => self.queue.push(message, self.max_datagram),
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
        if let Input::MaxDatagram(most) = input {
            self.max_datagram = self.max_datagram.min(most);
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
        let message = self.queue.pop(now);
        let sent = message.map(|message| {
            let len = message.bytes.len();
            buf[..len].copy_from_slice(&message.bytes);
            self.queue.finish(message, Outcome::Released);
            self.tally.transmit(len)
        });
        self.finish_closing();
        sent
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.next_expiry()
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.max_datagram);
        self.inbox.make_room(Room::of(messages), self.max_datagram);
    }

    fn stats(&self) -> PathStats {
        PathStats { counters: self.tally.counters(&self.queue, &self.inbox), ..PathStats::default() }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

/// The largest UDP payload over IPv4.
const MAX_UDP_PAYLOAD: usize = antiphon_core::wire::MAX_UDP_PAYLOAD;

//! `tcp://`: messages on a TCP connection with RFC 4571 framing.
//!
//! The kernel retransmits; what is ours is to keep its send buffer short and to choose late: a message whose deadline
//! has passed is never begun, and one that was begun is always completed, since a byte stream can't take a byte back.
//! The connection may break and come back (the driver reconnects); messages wait meanwhile, as long as their deadlines
//! allow.

mod wire;

use std::rc::Rc;

use antiphon_core::{
    BrokenReason, Capabilities, CloseMode, CloseReason, Dissected, Dissector, Endpoint, Event, Input,
    Instant, KernelReport, Message, Outcome, OverIp, PathId, PathStats, Plain, Profile, Received, Role,
    SendError, Stack, Transmit, Validator, Wire,
};

use crate::inbox::Inbox;
use crate::looks::ByLooks;
use crate::queue::{Queued, Room, SendQueue};
use crate::registry::one_address;
use crate::tally::Tally;
use crate::{DEFAULT_PORT, StackArgs, Substrate, Transport};
use wire::Deframer;

/// TCP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "tcp",
    title: "TCP",
    plain: "TCP: resends everything that is lost, may pause",
    summary: "RTP over TCP (RFC 4571): delivers everything, may pause to retransmit, passes firewalls",
    substrate: Substrate::Tcp,
    over_ip: None,
    default_port: DEFAULT_PORT,
    reflect_offset: 0,
    multicast: false,
    members: false,
    broadcast: false,
    variants: &[],
    keys: &[],
    other_peers: one_address,
    stack: |args| Ok(Rc::new(TcpStack::new(args))),
    dissector: || Box::new(Lengths),
};

#[derive(Debug)]
struct TcpStack {
    /// See [`StackArgs::undelimited`].
    undelimited: bool,
    /// Bytes of a message for which endpoints hold memory ready.
    typical: usize,
}

impl TcpStack {
    fn new(args: &StackArgs<'_>) -> Self {
        TcpStack { undelimited: args.undelimited, typical: args.max_datagram }
    }
}

impl Stack for TcpStack {
    fn open(&self, _now: Instant, _role: Role) -> Box<dyn Endpoint> {
        Box::new(Tcp { undelimited: self.undelimited, ..Tcp::new(self.typical) })
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        // A stream is admitted by the kernel's handshake, never by a datagram.
        Box::new(ByLooks { begins: |_| false, place: |_| None })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        if self.undelimited { Box::new(Plain) } else { Box::new(Lengths) }
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

/// Messages behind the lengths of RFC 4571.
#[derive(Clone, Copy, Debug)]
struct Lengths;

impl Dissector for Lengths {
    fn dissect(&mut self, _datagram: &[u8], _each: &mut dyn FnMut(Dissected<'_>)) {}

    fn stream_header(&self) -> Option<usize> {
        Some(wire::HEADER)
    }

    fn message_len(&self, header: &[u8]) -> usize {
        wire::message_len(header)
    }

    fn priority(&self, _datagram: &[u8]) -> Option<u16> {
        None
    }
}

#[derive(Debug)]
struct Tcp {
    /// Bytes of a message for which memory is held ready.
    typical: usize,
    queue: SendQueue,
    inbox: Inbox,
    deframer: Deframer,
    /// See [`StackArgs::undelimited`].
    undelimited: bool,
    /// The message under way and how many bytes of it, header included, have been written.
    current: Option<(Queued, usize)>,
    kernel: Option<KernelReport>,
    tally: Tally,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Connected,
    /// Closing gracefully: what was accepted is still sent.
    Closing,
    Closed,
}

impl Tcp {
    fn new(typical: usize) -> Self {
        Tcp {
            typical,
            queue: SendQueue::new(Room::FULL, typical),
            inbox: Inbox::new(Room::FULL, typical),
            deframer: Deframer::new(typical),
            undelimited: false,
            current: None,
            kernel: None,
            tally: Tally::default(),
            state: State::Waiting,
        }
    }

    /// Writes as much of the message under way as fits; answers the bytes written.
    fn write_current(&mut self, buf: &mut [u8]) -> usize {
        let Some((message, written)) = &mut self.current else {
            return 0;
        };
        let lengths = wire::header(message.bytes.len());
        let header = if self.undelimited { &[] } else { &lengths[..] };
        let parts = [header, &message.bytes[..]];
        let mut filled = 0;
        let mut skip = *written;
        for part in parts {
            let rest = &part[skip.min(part.len())..];
            skip -= skip.min(part.len());
            let n = rest.len().min(buf.len() - filled);
            buf[filled..filled + n].copy_from_slice(&rest[..n]);
            filled += n;
        }
        *written += filled;
        if *written == header.len() + message.bytes.len()
            && let Some((message, _)) = self.current.take()
        {
            self.queue.finish(message, Outcome::Released);
        }
        filled
    }

    fn handle_broken(&mut self, reason: BrokenReason) {
        if let Some((message, _)) = self.current.take() {
            self.queue.finish(message, Outcome::Aborted);
        }
        if self.deframer.is_amid_packet() {
            self.tally.on_malformed();
        }
        self.deframer.reset();
        match self.state {
            State::Waiting | State::Connected => {
                self.state = State::Waiting;
                self.queue.report(Event::Broken(reason));
            }
            State::Closing => self.finish(CloseReason::Peer),
            State::Closed => {}
        }
    }

    fn finish(&mut self, reason: CloseReason) {
        if let Some((message, _)) = self.current.take() {
            self.queue.finish(message, Outcome::Aborted);
        }
        self.queue.finish_all(Outcome::Aborted);
        self.inbox.clear();
        self.state = State::Closed;
        self.queue.report(Event::Closed(reason));
    }

    fn finish_closing(&mut self) {
        if self.state == State::Closing && self.current.is_none() && self.queue.is_empty() {
            self.finish(CloseReason::Local);
        }
    }
}

impl Endpoint for Tcp {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::ByteStream,
            max_message: wire::MAX_PACKET,
            max_receive: wire::MAX_PACKET,
            message_overhead: if self.undelimited { 0 } else { wire::HEADER },
            bare: false,
            acknowledged: false,
            ordered: true,
            retransmits: true,
            priorities: false,
            reliable: true,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities {
                message_oriented: !self.undelimited,
                connection_oriented: true,
                full_duplex: true,
                unordered: false,
                // The driver reads whatever has come: late sound is of no use, so an inbox that is not emptied drops.
                flow_control: false,
                // The others are the kernel's.
                congestion_control: true,
                path_mtu_discovery: true,
                fragmentation: true,
                checksum: true,
            },
        }
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        match self.state {
            State::Waiting | State::Connected => self.queue.push(message, wire::MAX_PACKET),
            State::Closing | State::Closed => Err(SendError::Closed),
        }
    }

    fn close(&mut self, _now: Instant, mode: CloseMode) {
        match (self.state, mode) {
            (State::Closed, _) => {}
            // Without a connection there is nothing to flush into.
            (_, CloseMode::Abort) | (State::Waiting, _) => self.finish(CloseReason::Local),
            (State::Connected | State::Closing, CloseMode::Graceful) => {
                self.state = State::Closing;
                self.finish_closing();
            }
        }
    }

    fn handle_input(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            _ if self.state == State::Closed => {}
            Input::Stream { bytes, received_at } => {
                self.tally.on_received(bytes.len());
                let inbox = &mut self.inbox;
                let mut take =
                    |head: &[u8], tail: &[u8]| inbox.push(head, tail, PathId::default(), received_at);
                if self.undelimited {
                    // Where messages end is not kept; pieces fit the buffers that are held ready.
                    let most = self.typical.clamp(1, wire::MAX_PACKET);
                    bytes.chunks(most).for_each(|piece| take(piece, &[]));
                } else {
                    self.deframer.push(bytes, take);
                }
            }
            Input::Connected => {
                if self.state == State::Waiting {
                    self.state = State::Connected;
                    self.queue.report(Event::Connected);
                }
            }
            Input::Broken(reason) => self.handle_broken(reason),
            Input::Report(report) => self.kernel = Some(report),
            Input::Datagram { .. } => self.tally.on_malformed(),
            // No validator accepts callers here, and a stream has no datagrams.
            Input::Accepted { .. } | Input::MaxDatagram(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.expire(now);
        self.finish_closing();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if !matches!(self.state, State::Connected | State::Closing) {
            return None;
        }
        let mut len = 0;
        while len < buf.len() {
            if self.current.is_none() {
                self.current = self.queue.pop(now).map(|message| (message, 0));
            }
            if self.current.is_none() {
                break;
            }
            len += self.write_current(&mut buf[len..]);
        }
        self.finish_closing();
        (len > 0).then(|| self.tally.transmit(len))
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
        self.queue.make_room(Room::of(messages), self.typical);
        self.inbox.make_room(Room::of(messages), self.typical);
    }

    fn stats(&self) -> PathStats {
        let mut counters = self.tally.counters(&self.queue, &self.inbox);
        let Some(kernel) = self.kernel else {
            return PathStats { counters, ..PathStats::default() };
        };
        counters.retransmitted = kernel.retransmitted;
        // The kernel counts its repairs and acknowledgements, too.
        counters.bytes_sent = counters.bytes_sent.max(kernel.sent_bytes);
        counters.datagrams_sent = kernel.segments_sent;
        PathStats {
            srtt: Some(kernel.srtt),
            rttvar: Some(kernel.rttvar),
            min_rtt: Some(kernel.min_rtt),
            cwnd: Some(kernel.cwnd),
            in_flight: Some(kernel.in_flight),
            pacing_rate: None,
            counters,
        }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

#[cfg(test)]
mod tests {
    use antiphon_core::Tag;

    use super::*;

    fn connected() -> Tcp {
        let mut tcp = Tcp::new(100);
        tcp.handle_input(Instant::ZERO, Input::Connected);
        assert_eq!(tcp.poll_event(), Some(Event::Connected));
        tcp
    }

    /// The defect that Schiavoni et al. 2013 describe: a send time-out in the middle of a packet. What has begun must end, whatever the clock says.
    #[test]
    fn a_begun_message_is_completed_after_its_deadline() {
        let mut tcp = connected();
        let deadline = Some(Instant::from_millis(10));
        tcp.send(Instant::ZERO, Message::new(Tag(10), &[1; 50], deadline)).unwrap();
        tcp.send(Instant::ZERO, Message::new(Tag(5), &[2; 50], deadline)).unwrap();
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::from_millis(9), &mut buf).map(|t| t.len), Some(20));
        let late = Instant::from_millis(11);
        let mut rest = [0; 100];
        assert_eq!(tcp.poll_transmit(late, &mut rest).map(|t| t.len), Some(32));
        assert!(rest[..32].iter().all(|b| *b == 1));
        assert_eq!(tcp.poll_event(), Some(Event::Outcome { tag: Tag(10), outcome: Outcome::Released }));
        let expired = Outcome::Expired { maybe_received: false };
        assert_eq!(tcp.poll_event(), Some(Event::Outcome { tag: Tag(5), outcome: expired }));
    }

    #[test]
    fn without_lengths_the_stream_is_the_messages_bytes_alone() {
        let mut tcp = Tcp { undelimited: true, ..connected() };
        for message in [&[1; 3][..], &[2; 2]] {
            tcp.send(Instant::ZERO, Message::new(Tag::NONE, message, None)).unwrap();
        }
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::ZERO, &mut buf).map(|t| t.len), Some(5));
        assert_eq!((buf[..5].to_vec(), tcp.profile().message_overhead), (vec![1, 1, 1, 2, 2], 0));
        tcp.handle_input(
            Instant::ZERO,
            Input::Stream { bytes: &mut [7; 65_536], received_at: Instant::ZERO },
        );
        let mut message = vec![0; wire::MAX_PACKET];
        let lengths: Vec<usize> =
            std::iter::from_fn(|| tcp.poll_message(&mut message).map(|received| received.len)).collect();
        // Pieces as long as the buffers that are held ready, 100 bytes here: a long read makes none grow.
        assert_eq!(lengths, [vec![100; 655], vec![36]].concat());
    }

    #[test]
    fn a_broken_stream_aborts_only_the_message_under_way() {
        let mut tcp = connected();
        tcp.send(Instant::ZERO, Message::new(Tag(10), &[1; 50], None)).unwrap();
        tcp.send(Instant::ZERO, Message::new(Tag::NONE, &[2; 3], None)).unwrap();
        tcp.poll_transmit(Instant::ZERO, &mut [0; 20]).unwrap();
        tcp.handle_input(Instant::ZERO, Input::Stream { bytes: &mut [0, 9, 1], received_at: Instant::ZERO });
        tcp.handle_input(Instant::ZERO, Input::Broken(BrokenReason::Refused));
        assert_eq!(tcp.poll_event(), Some(Event::Outcome { tag: Tag(10), outcome: Outcome::Aborted }));
        assert_eq!(tcp.poll_event(), Some(Event::Broken(BrokenReason::Refused)));
        assert!(tcp.poll_transmit(Instant::ZERO, &mut [0; 20]).is_none());
        tcp.handle_input(Instant::ZERO, Input::Connected);
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::ZERO, &mut buf).map(|t| t.len), Some(5));
        assert_eq!(buf[..5], [0, 3, 2, 2, 2]);
        // The half packet of the old connection does not leak into the new one.
        tcp.handle_input(Instant::ZERO, Input::Stream { bytes: &mut [0, 1, 7], received_at: Instant::ZERO });
        let mut message = vec![0; wire::MAX_PACKET];
        assert_eq!(tcp.poll_message(&mut message).map(|r| r.len), Some(1));
        assert_eq!((message[0], tcp.stats().counters.malformed), (7, 1));
    }
}

//! `tcp://`: frames on a TCP connection with RFC 4571 framing.
//!
//! The kernel retransmits; what is ours is to keep its send buffer short and to choose late: a frame whose deadline
//! has passed is never begun, and one that was begun is always completed, since a byte stream can't take a byte back.
//! The connection may break and come back (the driver reconnects); frames wait meanwhile, as long as their deadlines
//! allow.

mod wire;

use antiphon_core::{
    BrokenReason, CloseMode, CloseReason, Counters, Ecn, Endpoint, Event, Frame, FrameId, Input, Instant,
    KernelReport, Outcome, PathId, PathStats, Profile, Received, SendError, Transmit, Unwrap, Wire,
};

use crate::inbox::Inbox;
use crate::queue::{Queued, Room, SendQueue};
use crate::{Beneath, HOUSE_PORT, OpenArgs, OpenError, Strengths, Transport};
use wire::Deframer;

/// TCP as the rest of the house sees it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "tcp",
    title: "TCP",
    summary: "RTP over TCP (RFC 4571): loses nothing while it lives, waits for what was lost, passes firewalls",
    beneath: Beneath::Tcp,
    over_ip: None,
    default_port: HOUSE_PORT,
    reflect_offset: 0,
    strengths: Strengths { reliable: true, ordered: true, multicast: false },
    keys: &[],
    open,
    // A stream is admitted by the kernel's handshake, never by a datagram.
    admits: |_| false,
    unwrap: Unwrap::Stream { header: wire::HEADER, frame_len: wire::frame_len },
};

fn open(args: &OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError> {
    let bare = args.query.value(WITHOUT_LENGTHS.0) == Some(WITHOUT_LENGTHS.1);
    Ok(Box::new(Tcp { bare, ..Tcp::new(args.max_datagram) }))
}

/// Key and value of a query with which TCP carries frames without RFC 4571's lengths, for framings that find their packets
/// in a stream of bytes by themselves: where frames end is not kept. Both sides need it. For programs: it is no key that
/// users may write, as frames that are bare RTP would be lost.
pub const WITHOUT_LENGTHS: (&str, &str) = ("lengths", "no");

#[derive(Debug)]
struct Tcp {
    /// Bytes of a frame for which memory is held ready.
    typical: usize,
    queue: SendQueue,
    inbox: Inbox,
    deframer: Deframer,
    /// See [`WITHOUT_LENGTHS`].
    bare: bool,
    /// The frame under way and how many bytes of it, header included, have been written.
    current: Option<(Queued, usize)>,
    kernel: Option<KernelReport>,
    counters: Counters,
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
            bare: false,
            current: None,
            kernel: None,
            counters: Counters::default(),
            state: State::Waiting,
        }
    }

    /// Writes as much of the frame under way as fits; answers the bytes written.
    fn write_current(&mut self, buf: &mut [u8]) -> usize {
        let Some((frame, written)) = &mut self.current else {
            return 0;
        };
        let lengths = wire::header(frame.bytes.len());
        let header = if self.bare { &[] } else { &lengths[..] };
        let parts = [header, &frame.bytes[..]];
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
        if *written == header.len() + frame.bytes.len()
            && let Some((frame, _)) = self.current.take()
        {
            self.queue.finish(frame, Outcome::Released);
        }
        filled
    }

    fn handle_broken(&mut self, reason: BrokenReason) {
        if let Some((frame, _)) = self.current.take() {
            self.queue.finish(frame, Outcome::Aborted);
        }
        self.counters.malformed += u64::from(self.deframer.is_amid_packet());
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
        if let Some((frame, _)) = self.current.take() {
            self.queue.finish(frame, Outcome::Aborted);
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
            max_frame: wire::MAX_PACKET,
            max_receive: wire::MAX_PACKET,
            frame_overhead: if self.bare { 0 } else { wire::HEADER },
            acknowledged: false,
            ordered: true,
            retransmits: true,
            streams: 1,
        }
    }

    fn send(&mut self, _now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        match self.state {
            State::Waiting | State::Connected => self.queue.push(frame, wire::MAX_PACKET),
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
                self.counters.datagrams_received += 1;
                self.counters.bytes_received += bytes.len() as u64;
                let inbox = &mut self.inbox;
                let mut take =
                    |head: &[u8], tail: &[u8]| inbox.push(head, tail, PathId::default(), received_at);
                if self.bare {
                    bytes.chunks(wire::MAX_PACKET).for_each(|piece| take(piece, &[]));
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
            Input::Datagram { .. } => self.counters.malformed += 1,
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
                self.current = self.queue.pop(now).map(|frame| (frame, 0));
            }
            if self.current.is_none() {
                break;
            }
            len += self.write_current(&mut buf[len..]);
        }
        self.finish_closing();
        if len == 0 {
            return None;
        }
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += len as u64;
        Some(Transmit { path: PathId::default(), len, ecn: Ecn::NotCapable })
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
        self.queue.make_room(Room::of(frames), self.typical);
        self.inbox.make_room(Room::of(frames), self.typical);
    }

    fn path_stats(&self) -> PathStats {
        let mut counters = Counters {
            frames_accepted: self.queue.accepted(),
            frames_expired: self.queue.expired(),
            frames_delivered: self.inbox.delivered(),
            frames_dropped: self.inbox.dropped(),
            ..self.counters
        };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> Tcp {
        let mut tcp = Tcp::new(100);
        tcp.handle_input(Instant::ZERO, Input::Connected);
        assert_eq!(tcp.poll_event(), Some(Event::Connected));
        tcp
    }

    /// Paper 000's trap: a send time-out in the middle of a packet. What has begun must end, whatever the clock says.
    #[test]
    fn a_frame_begun_is_completed_after_its_deadline_and_the_next_one_is_not_begun() {
        let mut tcp = connected();
        let deadline = Some(Instant::from_millis(10));
        tcp.send(Instant::ZERO, Frame::new(&[1; 50], deadline)).unwrap();
        tcp.send(Instant::ZERO, Frame::new(&[2; 50], deadline)).unwrap();
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::from_millis(9), &mut buf).map(|t| t.len), Some(20));
        let late = Instant::from_millis(11);
        let mut rest = [0; 100];
        assert_eq!(tcp.poll_transmit(late, &mut rest).map(|t| t.len), Some(32));
        assert!(rest[..32].iter().all(|b| *b == 1));
        assert_eq!(tcp.poll_event(), Some(Event::Frame { id: FrameId(0), outcome: Outcome::Released }));
        let expired = Outcome::Expired { maybe_received: false };
        assert_eq!(tcp.poll_event(), Some(Event::Frame { id: FrameId(1), outcome: expired }));
    }

    #[test]
    fn without_lengths_the_stream_is_the_frames_bytes_and_no_more() {
        let mut tcp = Tcp { bare: true, ..connected() };
        for frame in [&[1; 3][..], &[2; 2]] {
            tcp.send(Instant::ZERO, Frame::new(frame, None)).unwrap();
        }
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::ZERO, &mut buf).map(|t| t.len), Some(5));
        assert_eq!((buf[..5].to_vec(), tcp.profile().frame_overhead), (vec![1, 1, 1, 2, 2], 0));
        tcp.handle_input(Instant::ZERO, Input::Stream { bytes: &[7; 65_536], received_at: Instant::ZERO });
        let mut frame = vec![0; wire::MAX_PACKET];
        let lengths = [(); 3].map(|()| tcp.poll_frame(&mut frame).map(|r| r.len));
        assert_eq!(lengths, [Some(65_535), Some(1), None]);
    }

    #[test]
    fn a_broken_stream_aborts_the_frame_under_way_and_keeps_the_others() {
        let mut tcp = connected();
        tcp.send(Instant::ZERO, Frame::new(&[1; 50], None)).unwrap();
        tcp.send(Instant::ZERO, Frame::new(&[2; 3], None)).unwrap();
        tcp.poll_transmit(Instant::ZERO, &mut [0; 20]).unwrap();
        tcp.handle_input(Instant::ZERO, Input::Stream { bytes: &[0, 9, 1], received_at: Instant::ZERO });
        tcp.handle_input(Instant::ZERO, Input::Broken(BrokenReason::Refused));
        assert_eq!(tcp.poll_event(), Some(Event::Frame { id: FrameId(0), outcome: Outcome::Aborted }));
        assert_eq!(tcp.poll_event(), Some(Event::Broken(BrokenReason::Refused)));
        assert!(tcp.poll_transmit(Instant::ZERO, &mut [0; 20]).is_none());
        tcp.handle_input(Instant::ZERO, Input::Connected);
        let mut buf = [0; 20];
        assert_eq!(tcp.poll_transmit(Instant::ZERO, &mut buf).map(|t| t.len), Some(5));
        assert_eq!(buf[..5], [0, 3, 2, 2, 2]);
        // The half packet of the old connection does not leak into the new one.
        tcp.handle_input(Instant::ZERO, Input::Stream { bytes: &[0, 1, 7], received_at: Instant::ZERO });
        let mut frame = vec![0; wire::MAX_PACKET];
        assert_eq!(tcp.poll_frame(&mut frame).map(|r| r.len), Some(1));
        assert_eq!((frame[0], tcp.path_stats().counters.malformed), (7, 1));
    }
}

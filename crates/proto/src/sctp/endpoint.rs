//! SCTP as an endpoint: frames are handed to the library one by one, when it can send them at once.
//!
//! A frame waits in the house's own queue, where its deadline can still drop it, until the association stands and the
//! library's queue for its stream is empty. From then on the library sends and repeats it, within the frame's lifetime
//! or number of tries, and reports its end under the number that the ledger gave it.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    ByteCount, CloseMode, CloseReason, Counters, Doorkeeper, Ecn, Endpoint, Event, Frame, FrameId, Input,
    Instant, Meeting, Outcome, PathId, PathStats, Profile, Received, SendError, StreamId, Transmit, Wire,
};
use dcsctp::api::{ErrorKind, SocketEvent, SocketState};

use super::association::{Association, Order};
use super::door::{Door, Gate};
use super::ledger::Ledger;
use super::settings::{self, MAX_MESSAGE, Reliability, Settings};
use super::wire::{self, chunk};
use crate::queue::{Inbox, MAX_FRAMES, Queued, SendQueue};
use crate::{OpenArgs, Role};

/// One association, called or to be called.
pub(super) struct Sctp {
    settings: Settings,
    door: Door,
    association: Option<Association>,
    /// Whither packets go; 0 until somebody called.
    path: PathId,
    /// The path that the peer's cookie was baked for, as the doorkeeper saw it.
    cookie_path: Option<PathId>,
    queue: SendQueue,
    ledger: Ledger,
    inbox: Inbox,
    /// Packets that the library has made.
    out: VecDeque<(PathId, Vec<u8>)>,
    rewritten: Vec<u8>,
    cwnd: usize,
    measured: bool,
    counters: Counters,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No association yet; frames wait.
    Waiting,
    Open,
    /// We asked for the end; what was accepted still goes out, until nothing has moved for a while.
    Closing {
        patience_ends: Instant,
    },
    /// The association is over; its last packets and frames may still be fetched, for a while.
    Ending {
        reason: CloseReason,
        patience_ends: Instant,
    },
    Closed,
}

impl Sctp {
    pub fn new(settings: Settings, args: &OpenArgs<'_>) -> Self {
        let mut rng = antiphon_core::Rng::fork(args.seed, "sctp port");
        let caller_port = FIRST_PRIVATE_PORT + rng.below(u32::from(u16::MAX - FIRST_PRIVATE_PORT)) as u16;
        let ports = match args.role {
            Role::Caller => [caller_port, settings.sctp_port],
            Role::Listener => [settings.sctp_port, 0],
        };
        let gate = Gate::new(settings::options(&settings, ports, args.max_datagram), args.seed, args.role);
        let mut sctp = Sctp {
            settings,
            association: None,
            path: PathId::default(),
            cookie_path: None,
            queue: SendQueue::new(args.max_datagram),
            ledger: Ledger::new(MAX_FRAMES),
            inbox: Inbox::new(args.max_datagram),
            out: VecDeque::with_capacity(64),
            rewritten: Vec::with_capacity(args.max_datagram),
            cwnd: 0,
            measured: false,
            counters: Counters::default(),
            state: State::Waiting,
            door: Door::new(gate, args.now),
        };
        if args.role == Role::Caller {
            sctp.begin(args.now, settings.sctp_port);
            if !settings.implicit {
                sctp.connect(args.now);
            }
        }
        sctp
    }

    fn begin(&mut self, now: Instant, remote_port: u16) {
        self.association = Some(Association::new(self.door.gate.socket(remote_port), now, remote_port));
    }

    fn connect(&mut self, now: Instant) {
        if let Some(association) = &mut self.association {
            self.door.gate.draw(|| association.connect(now));
        }
        self.drain(now);
    }

    /// Packets of an association, or of one that is to become ours.
    fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        let (Some(header), Some(kind)) = (wire::header(packet), wire::first_kind(packet)) else {
            self.counters.malformed += 1;
            return;
        };
        if kind == chunk::COOKIE_ECHO {
            return self.handle_cookie(now, path, packet);
        }
        let Some(association) = &mut self.association else { return self.meet(now, path, packet) };
        if header.destination != self.door.gate.local_port() || header.source != association.remote_port {
            self.counters.malformed += 1;
            return;
        }
        match kind {
            // Only these have the library draw tags and numbers.
            chunk::INIT | chunk::INIT_ACK => {
                self.door.gate.draw(|| association.handle_packet(now, packet));
            }
            _ => association.handle_packet(now, packet),
        }
    }

    /// Somebody who has no association with us: nothing is kept of it.
    fn meet(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        match self.door.meet_packet(now, path, packet) {
            Meeting::Answered { .. } if self.out.len() < MAX_OUT => {
                self.out.push_back((path, self.door.answer().to_vec()));
            }
            Meeting::Answered { .. } | Meeting::Admitted => {}
            Meeting::Ignored => self.counters.malformed += 1,
        }
    }

    /// A cookie comes back: ours, fresh, and for this path, or it is counted and forgotten.
    fn handle_cookie(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        let echo = wire::first_chunk(packet).filter(|f| f.header.destination == self.door.gate.local_port());
        let opened = echo.and_then(|echo| Some((echo, self.door.gate.open(now, &echo).ok()?)));
        // Behind a doorkeeper every path is 0 and was compared by it; a peer keeps the one it had.
        let is_ours = |claimed| {
            (path == PathId::default() || claimed == path)
                && self.cookie_path.is_none_or(|kept| kept == claimed)
        };
        let Some((echo, opened)) = opened.filter(|(_, opened)| is_ours(opened.path)) else {
            // Tells a peer whose cookie is stale.
            return self.meet(now, path, packet);
        };
        wire::echo_with_cookie(&echo, opened.inner, &mut self.rewritten);
        if self.association.is_none() {
            self.door.gate.stir(echo.value);
            self.begin(now, echo.header.source);
        }
        (self.cookie_path, self.path) = (Some(opened.path), path);
        if let Some(association) = &mut self.association {
            let packet = &self.rewritten;
            self.door.gate.draw(|| association.handle_packet(now, packet));
        }
    }

    /// Takes from the library what it has made, at `now`, of a datagram that came at `received_at`.
    fn drain(&mut self, now: Instant) {
        while let Some(event) = self.association.as_mut().and_then(Association::poll_event) {
            self.handle_event(now, event);
        }
        self.watch_congestion();
    }

    fn handle_event(&mut self, now: Instant, event: SocketEvent) {
        match event {
            SocketEvent::SendPacket(mut packet) => {
                let baked_for = self.cookie_path.unwrap_or(self.path);
                // What does not fit is lost as on the wire, and repaired as there.
                if self.out.len() < MAX_OUT && self.door.gate.finish(now, baked_for, &mut packet) {
                    self.out.push_back((self.path, packet));
                }
            }
            SocketEvent::OnConnected() => {
                if self.state == State::Waiting {
                    self.state = State::Open;
                }
                self.queue.report(Event::Connected);
            }
            SocketEvent::OnLifecycleMessageFullySent(id) => self.ledger.mark_sent(id.value()),
            SocketEvent::OnLifecycleMessageDelivered(id) => {
                self.measured = true;
                self.settle(now, id.value(), Outcome::Acked);
            }
            SocketEvent::OnLifecycleMessageExpired(id) => self.settle(now, id.value(), self.given_up(false)),
            SocketEvent::OnLifecycleMessageMaybeExpired(id) => {
                self.settle(now, id.value(), self.given_up(true))
            }
            SocketEvent::OnLifecycleEnd(id) => self.settle(now, id.value(), Outcome::Aborted),
            SocketEvent::OnConnectionRestarted() => self.abort_sent(now),
            SocketEvent::OnError(..) => self.counters.malformed += 1,
            SocketEvent::OnClosed() => self.end(now, self.closed_by()),
            SocketEvent::OnAborted(kind, _) => self.end(now, self.aborted_by(kind)),
            _ => {}
        }
    }

    /// What it means that the library gave a frame up.
    fn given_up(&self, maybe_received: bool) -> Outcome {
        match self.settings.reliability {
            Reliability::Retransmissions(_) => Outcome::RetriesExhausted,
            Reliability::Deadline | Reliability::Full => Outcome::Expired { maybe_received },
        }
    }

    /// The library tells the end of some messages twice (what became of them, and that this was all): the first counts.
    fn settle(&mut self, now: Instant, number: u64, outcome: Outcome) {
        if let Some(entry) = self.ledger.close(number) {
            self.queue.settle(entry.id, outcome);
            if let State::Closing { patience_ends } = &mut self.state {
                *patience_ends = now + CLOSE_PATIENCE;
            }
        }
    }

    /// The peer began anew: the library has forgotten what was on its way.
    fn abort_sent(&mut self, now: Instant) {
        let mut from = 0;
        while let Some(number) = self.ledger.next_open(from, |entry| entry.sent) {
            self.settle(now, number, Outcome::Aborted);
            from = number + 1;
        }
    }

    fn closed_by(&self) -> CloseReason {
        if matches!(self.state, State::Closing { .. }) { CloseReason::Local } else { CloseReason::Peer }
    }

    fn aborted_by(&self, kind: ErrorKind) -> CloseReason {
        match kind {
            _ if matches!(self.state, State::Closing { .. }) => CloseReason::Local,
            ErrorKind::TooManyRetries => CloseReason::TimedOut,
            ErrorKind::PeerReported if self.state == State::Waiting => CloseReason::Refused,
            ErrorKind::PeerReported => CloseReason::Peer,
            _ => CloseReason::Protocol,
        }
    }

    /// A smaller window is what congestion control tells of a loss.
    fn watch_congestion(&mut self) {
        let cwnd = self.association.as_ref().and_then(Association::metrics).map_or(0, |m| m.cwnd_bytes);
        if cwnd < self.cwnd && self.state != State::Closed {
            self.queue.report(Event::Congestion(self.path_stats()));
        }
        self.cwnd = cwnd;
    }

    fn fetch_messages(&mut self, received_at: Instant) {
        while let Some(message) = self.association.as_mut().and_then(Association::next_message) {
            if message.payload.len() <= MAX_MESSAGE {
                let stream = StreamId(message.stream_id.0);
                self.inbox.push_of_stream(&message.payload, self.path, stream, received_at);
            } else {
                self.counters.frames_dropped += 1;
            }
        }
    }

    /// Hands over the next frame whose stream is free; `false` when there is none.
    fn hand_over(&mut self, now: Instant) -> bool {
        let Some(association) = self.association.as_mut().filter(|a| a.state() == SocketState::Connected)
        else {
            return false;
        };
        if self.ledger.kept() >= MAX_FRAMES {
            return false;
        }
        let streams = self.settings.streams;
        let drained = |stream: StreamId| match self.settings.interleaving {
            true => association.is_drained(stream.0 % streams),
            false => (0..streams).all(|stream| association.is_drained(stream)),
        };
        let Some(Queued { id, bytes, deadline, stream, .. }) = self.queue.pop_ready(now, drained) else {
            return false;
        };
        let number = self.ledger.enter(id, bytes.len());
        // A repetition that arrives after the deadline helps nobody: it must set out half a round trip before.
        let half_way = if self.measured {
            association.metrics().map_or(Duration::ZERO, |m| m.srtt / 2)
        } else {
            Duration::ZERO
        };
        let left = deadline.map(|deadline| deadline.since(now).saturating_sub(half_way));
        let order = Order {
            stream: stream.0 % streams,
            unordered: !self.settings.ordered,
            lifetime: left.filter(|_| self.settings.reliability == Reliability::Deadline),
            max_retransmissions: match self.settings.reliability {
                Reliability::Retransmissions(times) => Some(times),
                Reliability::Deadline | Reliability::Full => None,
            },
            number,
        };
        // The library keeps what it sends: this copy is the one allocation of ours for a frame.
        let taken = association.send(now, bytes.as_slice().to_vec(), &order);
        self.queue.recycle(bytes);
        if !taken {
            self.settle(now, number, Outcome::Aborted);
        }
        self.drain(now);
        true
    }

    /// The association is over. Its last packets and, unless we ended it, its last frames are still to be fetched.
    fn end(&mut self, now: Instant, reason: CloseReason) {
        if matches!(self.state, State::Ending { .. } | State::Closed) {
            return;
        }
        self.abort_everything();
        self.state = State::Ending { reason, patience_ends: now + CLOSE_PATIENCE };
    }

    fn abort_everything(&mut self) {
        while let Some(number) = self.ledger.next_open(0, |_| true) {
            if let Some(entry) = self.ledger.close(number) {
                self.queue.settle(entry.id, Outcome::Aborted);
            }
        }
        self.queue.finish_all(Outcome::Aborted);
    }

    /// Goes on with closing as far as it has come.
    fn move_on(&mut self, now: Instant) {
        if let State::Closing { patience_ends } = self.state {
            let all_told = self.queue.is_empty() && self.ledger.is_empty();
            let state = self.association.as_ref().map(Association::state);
            match &mut self.association {
                _ if now >= patience_ends => self.abort(now),
                Some(association) if state == Some(SocketState::Connected) && all_told => {
                    association.shut_down(now);
                    self.drain(now);
                }
                // Nothing was promised to anybody yet.
                Some(_) if state != Some(SocketState::ShuttingDown) && all_told => self.abort(now),
                None if all_told => self.end(now, CloseReason::Local),
                _ => {}
            }
        }
        if let State::Ending { reason, patience_ends } = self.state {
            let fetched = self.inbox.is_empty() || reason == CloseReason::Local;
            if now >= patience_ends || (self.out.is_empty() && fetched) {
                self.finish(reason);
            }
        }
    }

    fn abort(&mut self, now: Instant) {
        if let Some(association) = &mut self.association {
            association.abort();
        }
        self.drain(now);
        self.end(now, CloseReason::Local);
    }

    fn finish(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.association = None;
        self.out.clear();
        self.inbox.clear();
        self.queue.report(Event::Closed(reason));
    }

    fn patience_ends(&self) -> Option<Instant> {
        match self.state {
            State::Closing { patience_ends } | State::Ending { patience_ends, .. } => Some(patience_ends),
            State::Waiting | State::Open | State::Closed => None,
        }
    }
}

impl Endpoint for Sctp {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_frame: MAX_MESSAGE,
            max_receive: MAX_MESSAGE,
            frame_overhead: FRAME_OVERHEAD,
            acknowledged: true,
            ordered: self.settings.ordered && self.settings.streams == 1,
            retransmits: self.settings.reliability != Reliability::Retransmissions(0),
        }
    }

    fn send(&mut self, now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        if !matches!(self.state, State::Waiting | State::Open) {
            return Err(SendError::Closed);
        }
        let id = self.queue.push(frame, MAX_MESSAGE)?;
        if self.settings.implicit && self.state == State::Waiting && id == FrameId(0) {
            self.connect(now);
        }
        Ok(id)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if matches!(self.state, State::Ending { .. } | State::Closed) {
            return;
        }
        self.state = State::Closing { patience_ends: now + CLOSE_PATIENCE };
        if mode == CloseMode::Abort {
            self.abort_everything();
            self.abort(now);
        }
        self.move_on(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            _ if self.state == State::Closed => {}
            Input::Datagram { path, bytes, received_at, .. } => {
                self.counters.datagrams_received += 1;
                self.counters.bytes_received += bytes.len() as u64;
                if !matches!(self.state, State::Ending { .. }) {
                    self.handle_packet(now, path, bytes);
                }
                self.fetch_messages(received_at);
                self.drain(now);
                self.move_on(now);
            }
            Input::Broken(reason) => self.queue.report(Event::Broken(reason)),
            Input::Stream { .. } => self.counters.malformed += 1,
            Input::Connected | Input::Report(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.expire(now);
        if let Some(association) = &mut self.association {
            association.advance(now);
        }
        self.drain(now);
        self.move_on(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        loop {
            if let Some((path, packet)) = self.out.pop_front() {
                buf[..packet.len()].copy_from_slice(&packet);
                self.counters.datagrams_sent += 1;
                self.counters.bytes_sent += packet.len() as u64;
                self.move_on(now);
                return Some(Transmit { path, len: packet.len(), ecn: Ecn::NotCapable });
            }
            if !self.hand_over(now) {
                self.move_on(now);
                if self.out.is_empty() {
                    return None;
                }
            }
        }
    }

    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let State::Ending { reason, .. } = self.state
            && self.out.is_empty()
            && self.inbox.is_empty()
        {
            self.finish(reason);
        }
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let association = self.association.as_ref().and_then(Association::poll_timeout);
        [association, self.queue.next_expiry(), self.patience_ends()].into_iter().flatten().min()
    }

    fn path_stats(&self) -> PathStats {
        let metrics = self.association.as_ref().and_then(Association::metrics);
        let counters = Counters {
            frames_accepted: self.queue.accepted(),
            frames_expired: self.queue.expired(),
            frames_delivered: self.inbox.delivered(),
            frames_dropped: self.counters.frames_dropped + self.inbox.dropped(),
            retransmitted: metrics.as_ref().map_or(0, |m| m.rtx_packets_count as u64),
            ..self.counters
        };
        PathStats {
            srtt: metrics.as_ref().filter(|_| self.measured).map(|m| m.srtt),
            rttvar: None,
            min_rtt: None,
            cwnd: metrics.as_ref().map(|m| ByteCount(m.cwnd_bytes as u64)),
            in_flight: Some(ByteCount(self.ledger.bytes() as u64)),
            pacing_rate: None,
            counters,
        }
    }

    fn doorkeeper(&mut self, now: Instant) -> Option<Box<dyn Doorkeeper>> {
        Some(Box::new(self.door.sibling(now)))
    }
}

/// Where ephemeral ports begin (RFC 6335 §6).
const FIRST_PRIVATE_PORT: u16 = 49_152;
/// Common header and the header of a DATA chunk (RFC 9260 §3.1, §3.3.1); padding comes to it.
const FRAME_OVERHEAD: usize = 12 + 16;
/// Packets that may wait for the driver: the library makes four for every acknowledgement, and a driver that hands in
/// many before it fetches any must not lose them; one that never fetches gets no more.
const MAX_OUT: usize = 1024;
/// How long an end may take with nothing moving; T5-shutdown-guard (RFC 9260 §9.2) is five times the largest time-out,
/// which is 2 s here.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

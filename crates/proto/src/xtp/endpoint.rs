//! The XTP endpoint: one association of a reliable, partly reliable or unreliable stream of messages.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    BitRate, BrokenReason, ByteCount, Capabilities, CloseMode, CloseReason, Endpoint, Event, Input, Instant,
    Message, Outcome, PathId, PathStats, Profile, Received, Rng, Role, SendError, Transmit, Wire,
};

use super::incoming::{Arrival, Incoming, MOST_SPANS, Taken};
use super::outgoing::{LARGE, Outgoing};
use super::pace::Pace;
use super::settings::{Acks, Flow, Reliability, Settings};
use super::validator::{Introduction, XtpValidator, id};
use super::wire::{
    self, HEADER, Header, Key, SPAN, STATUS, Segment, Status, TAG, Traffic, Writer, diag, format, option,
    service,
};
use super::{FIRST_PRIVATE_PORT, MAX_MESSAGE, WINDOW};
use crate::inbox::Inbox;
use crate::patience::{GONE, LONGEST_LEAVE, LONGEST_PAUSE, UNANSWERED, leave_by};
use crate::queue::{Room, SendQueue};
use crate::rack::probe_timeout;
use crate::rtt::{RtoFloor, RtoSettings, RttEstimator, backed_off};
use crate::seeds::Seeds;
use crate::tally::Tally;

/// One association, of a caller or a listener.
pub(super) struct Xtp {
    settings: Settings,
    role: Role,
    packet: usize,
    validator: XtpValidator,
    queue: SendQueue,
    inbox: Inbox,
    tally: Tally,
    out: Outgoing,
    incoming: Incoming,
    rtt: RttEstimator,
    pace: Pace,
    stage: Stage,
    /// Keys: what the peer's packets carry, and what ours carry once the peer is known.
    own_key: Key,
    peer_key: Option<Key>,
    /// Sequence number of the first byte of each direction.
    own_first: u64,
    peer_first: u64,
    /// Number of the first byte that we may not send.
    alloc: u64,
    /// Position of our byte that the peer waits for.
    peer_next: u64,
    /// The greatest `sync` of the peer.
    echo: Option<u32>,
    /// Option EDGE of its last packet.
    edge: bool,
    /// Position up to which the peer asked for a status once all is fetched (DREQ).
    asked_fetched: Option<u64>,
    /// Packets with a request: their numbers, and when they left.
    requests: VecDeque<(u64, Instant)>,
    /// The number of the request for which the round trip was measured last.
    measured: u64,
    since_request: u32,
    last_request: Option<Instant>,
    due: Due,
    timers: Timers,
    path: PathId,
    /// A path on which the peer may be now, and the number of the packet that asks.
    candidate: Option<(PathId, Option<u64>)>,
    /// Replies to what belongs to no association.
    answers: VecDeque<(PathId, Vec<u8>)>,
    closing: Option<Instant>,
    /// Until when packets are small, as large ones were lost one after another.
    narrow_until: Option<Instant>,
    /// The peer sends nothing more, and has received everything of ours.
    peer_closed: bool,
    reserved: usize,
    told_id: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// A listener without a caller.
    Waiting,
    /// FIRST is to be answered.
    Calling,
    /// TCNTL, the proof of address, is to be answered.
    Proving,
    Open,
    /// The association has ended; its last packets and messages may be fetched for a while.
    Ending {
        reason: CloseReason,
        until: Instant,
    },
    Closed,
}

/// Packets that must be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    /// FIRST or TCNTL of the handshake.
    step: bool,
    /// TCNTL that answers the peer's.
    traffic: bool,
    status: bool,
    /// What the peer lacks before the first unsettled byte is given up.
    gap: bool,
    probe: bool,
    close: bool,
    /// The last packet; of a graceful close or not.
    end: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timers {
    /// When a handshake's packet, a probe or a close is repeated.
    repeat: Option<Instant>,
    /// Repetitions in a row.
    times: u32,
    /// When the first request left that nothing has answered.
    asked: Option<Instant>,
    heard: Instant,
    /// The application knows that a call goes unanswered.
    told_unanswered: bool,
    /// When the peer was last told that what it lacks is given up.
    gap_told: Option<Instant>,
    /// When a hole at the receiver of what is never repeated is passed over.
    hole: Option<Instant>,
}

impl Xtp {
    /// `packet`: bytes of the largest packet.
    pub fn new(settings: Settings, packet: usize, role: Role, seeds: &Seeds, now: Instant) -> Self {
        let mut draws =
            Rng::fork(seeds.next(), if role == Role::Caller { "xtp caller" } else { "xtp listener" });
        let port = FIRST_PRIVATE_PORT + draws.below(u32::from(u16::MAX - FIRST_PRIVATE_PORT)) as u16;
        let mut xtp = Xtp {
            settings,
            role,
            packet,
            validator: XtpValidator::new(&seeds.shared(), settings.port, false),
            queue: SendQueue::new(Room::LEAN, packet),
            inbox: Inbox::new(Room::LEAN, packet),
            tally: Tally::default(),
            out: Outgoing::new(settings.reliability, packet),
            incoming: Incoming::new(settings.ordered),
            rtt: RttEstimator::new(RTO),
            pace: Pace::new(settings.traffic.out_rate, settings.traffic.out_burst, now),
            stage: if role == Role::Caller { Stage::Calling } else { Stage::Waiting },
            own_key: Key::new(draws.next_u32(), settings.port, port),
            peer_key: None,
            own_first: draws.next_u64(),
            peer_first: 0,
            alloc: 0,
            peer_next: 0,
            echo: None,
            edge: false,
            asked_fetched: None,
            requests: VecDeque::with_capacity(MOST_REQUESTS),
            measured: 0,
            since_request: 0,
            last_request: None,
            due: Due { step: role == Role::Caller, ..Due::default() },
            timers: Timers { heard: now, ..Timers::default() },
            path: PathId::default(),
            candidate: None,
            answers: VecDeque::new(),
            closing: None,
            narrow_until: None,
            peer_closed: false,
            reserved: 0,
            told_id: false,
        };
        if xtp.due.step {
            xtp.arm(now);
        }
        xtp
    }

    /// A listener takes a caller whose address is proved.
    fn begin(&mut self, now: Instant, path: PathId, introduction: Introduction) {
        let Introduction { caller, listener, caller_seq, listener_seq } = introduction;
        (self.own_key, self.peer_key) = (listener, Some(caller));
        // The peer counts our first number as received.
        (self.own_first, self.peer_first) = (listener_seq, caller_seq);
        self.path = path;
        self.told_id = true;
        id(listener).map(Event::IdAdded).into_iter().for_each(|event| self.queue.report(event));
        self.open(now);
    }

    fn open(&mut self, now: Instant) {
        self.stage = Stage::Open;
        self.timers = Timers { heard: now, ..Timers::default() };
        // Allocated only now, so that unknown sources cost no memory.
        self.queue.make_room(Room::PROVED, self.packet);
        self.inbox.make_room(Room::PROVED, self.packet);
        self.reserve_halves();
        self.queue.report(Event::Connected);
    }

    fn reserve_halves(&mut self) {
        let messages = self.reserved.max(LEAST_RESERVED);
        self.out.reserve(messages);
        self.incoming.reserve(if self.settings.ordered { messages } else { 1 }, self.packet);
    }

    fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8], received_at: Instant) {
        let Some((header, segment)) = wire::parse(packet) else { return self.tally.on_malformed() };
        if self.stage == Stage::Waiting {
            match self.validator.open(now, path, packet) {
                Some(introduction) => self.begin(now, path, introduction),
                None => return self.answer(now, path, packet),
            }
        } else if let Segment::Diag { code, .. } = segment {
            return self.handle_diag(now, &header, code);
        } else if !header.returned || header.key != self.own_key {
            return self.answer(now, path, packet);
        }
        if !self.is_plausible(&header, &segment) {
            return self.tally.on_malformed();
        }
        self.timers.heard = received_at;
        (self.timers.asked, self.timers.told_unanswered) = (None, false);
        let newest = self.echo.is_none_or(|echo| header.sync.wrapping_sub(echo) as i32 > 0);
        if newest {
            self.echo = Some(header.sync);
        }
        self.on_path(path, newest);
        match segment {
            Segment::Traffic { status, key, traffic } => {
                self.handle_traffic(now, received_at, &header, (status, key, traffic));
            }
            Segment::Status(status, spans) => {
                self.prove_path(path, status.echo);
                self.handle_status(now, received_at, status, spans.iter());
            }
            Segment::Data { tag, bytes } => self.handle_data(now, received_at, &header, (tag, bytes)),
            Segment::First { .. } | Segment::Join { .. } | Segment::Diag { .. } => {}
        }
        self.handle_options(now, &header, &segment);
    }

    /// Whether the numbers in a packet with our key fit this association. The key has few random bits beside its ports, so a
    /// packet that has it alone must change nothing.
    fn is_plausible(&self, header: &Header, segment: &Segment<'_>) -> bool {
        match segment {
            Segment::Data { bytes, .. } => {
                let end = header.seq.wrapping_sub(self.peer_first).checked_add(bytes.len() as u64);
                end.is_some_and(|end| end <= self.incoming.next() + WINDOW as u64)
            }
            Segment::Status(status, _) | Segment::Traffic { status, .. } => {
                let told = status.rseq.wrapping_sub(self.own_first);
                told <= self.out.next() && self.number_of(status.echo).is_some()
            }
            Segment::Join { .. } | Segment::First { .. } | Segment::Diag { .. } => false,
        }
    }

    /// What requests and the end of the association need, whatever the packet.
    fn handle_options(&mut self, now: Instant, header: &Header, segment: &Segment<'_>) {
        let edge = header.has(option::EDGE);
        let flipped = std::mem::replace(&mut self.edge, edge) != edge;
        let is_traffic = matches!(segment, Segment::Traffic { .. });
        self.due.status |= (header.has(option::SREQ) || flipped) && !is_traffic;
        if header.has(option::DREQ) {
            let len = if let Segment::Data { bytes, .. } = segment { bytes.len() as u64 } else { 0 };
            self.asked_fetched = Some(header.seq.wrapping_sub(self.peer_first).wrapping_add(len));
            self.tell_fetched();
        }
        let control = !matches!(segment, Segment::Data { .. });
        if control && header.has(option::NOERR) || header.has(option::WCLOSE) {
            let position = header.seq.wrapping_sub(self.peer_first);
            self.incoming.give_up(position, &mut self.inbox);
            self.due.status |= control && header.has(option::NOERR);
        }
        if header.has(option::END) {
            let graceful = header.has(option::WCLOSE | option::RCLOSE);
            let ours = graceful && self.closing.is_some();
            return self.end(now, if ours { CloseReason::Local } else { CloseReason::Peer });
        }
        if header.has(option::WCLOSE) {
            if !self.peer_closed && self.closing.is_none() {
                // What waits is still sent, and nothing more is accepted.
                self.timers.times = 0;
            }
            self.peer_closed = true;
            if header.has(option::RCLOSE) && self.has_drained() && self.is_leaving() {
                let reason = if self.closing.is_some() { CloseReason::Local } else { CloseReason::Peer };
                self.due.end = Some(true);
                return self.end(now, reason);
            }
            self.due.close |= self.has_drained();
        }
    }

    fn handle_diag(&mut self, now: Instant, header: &Header, code: u32) {
        let names_peer = !header.returned && self.peer_key == Some(header.key);
        let names_us = header.returned && header.key == self.own_key;
        match (code, self.stage) {
            // The proof was lost on its way, and data came without it.
            (diag::INVALID_CONTEXT, Stage::Proving) if names_peer => self.due.step = true,
            (diag::INVALID_CONTEXT, Stage::Open) if names_peer && self.role == Role::Caller => {
                self.end(now, CloseReason::Restarted);
            }
            (diag::CONTEXT_REFUSED, Stage::Calling | Stage::Proving) if names_us || names_peer => {
                self.end(now, CloseReason::Refused);
            }
            (diag::CONTEXT_ABANDONED, Stage::Open) if names_us => self.end(now, CloseReason::Peer),
            _ => self.tally.on_malformed(),
        }
    }

    /// Replies to a packet that belongs to no association of ours.
    fn answer(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        let mut buf = [0; wire::FIRST];
        let len = match self.role {
            Role::Listener => self.validator.answer(now, path, packet, &mut buf),
            Role::Caller => 0,
        };
        let is_call = len > wire::DIAG;
        if !is_call {
            self.tally.on_malformed();
        }
        if len > 0 && self.answers.len() < MOST_ANSWERS {
            self.answers.push_back((path, buf[..len].to_vec()));
        }
    }

    fn handle_traffic(
        &mut self,
        now: Instant,
        received_at: Instant,
        header: &Header,
        (status, key, traffic): (Status, Key, Traffic),
    ) {
        match (self.stage, self.peer_key) {
            (Stage::Calling, _) => {
                // The listener's offer. It takes data once its key and number have come back.
                (self.peer_key, self.peer_first) = (Some(key), header.seq);
                self.measure(status.echo, received_at);
                self.stage = Stage::Proving;
                (self.due.step, self.timers.times) = (true, 0);
                self.arm(now);
                return;
            }
            (_, Some(known)) if known != key => return self.tally.on_malformed(),
            (Stage::Proving, _) if status.alloc == status.rseq => return self.tally.on_duplicate(),
            _ => {}
        }
        self.pace.limit(traffic.in_rate, traffic.in_burst);
        self.due.traffic |= self.role == Role::Listener;
        self.handle_status(now, received_at, status, std::iter::empty());
    }

    fn handle_status(
        &mut self,
        now: Instant,
        received_at: Instant,
        status: Status,
        spans: impl Iterator<Item = (u64, u64)>,
    ) {
        let first = self.own_first;
        let rseq = status.rseq.wrapping_sub(first);
        let Some(echo) = self.number_of(status.echo) else { return };
        let mut sound = true;
        let next = self.out.next();
        let spans = spans.map(|(left, right)| (left.wrapping_sub(first), right.wrapping_sub(first)));
        let spans = spans.take_while(|(_, right)| {
            sound &= *right <= next;
            sound
        });
        if self.stage == Stage::Proving {
            self.open(now);
        }
        // Statuses overtake one another: the farthest counts.
        self.alloc = self.alloc.max(status.alloc.wrapping_sub(first).min(next + (WINDOW as u64) * 4));
        self.peer_next = self.peer_next.max(rseq);
        let echoed_at = self.measure(status.echo, received_at);
        self.out.limit.on_heard(received_at);
        let settled =
            self.out.on_status(received_at, rseq, spans, (echo, echoed_at), &self.rtt, &mut self.queue);
        if !sound {
            self.tally.on_malformed();
        }
        if self.out.limit.take_halved() {
            let stats = self.stats();
            self.queue.report(Event::Congestion(stats));
        }
        self.timers.times = 0;
        if settled || self.out.is_empty() {
            self.timers.repeat = None;
        }
        self.note_gap(now);
        if !self.out.is_empty() || self.closing.is_some() {
            self.arm(now);
        }
    }

    /// The number of our packet with this `sync`; `None` if none had it.
    fn number_of(&self, sync: u32) -> Option<u64> {
        let sent = self.out.rack.sent();
        let back = (sent as u32).wrapping_sub(sync);
        sent.checked_sub(u64::from(back))
    }

    /// Measures the round trip by the echo of a request; returns when that left. A status goes out as soon as it is asked
    /// for, and each packet has a number of its own.
    fn measure(&mut self, echo: u32, received_at: Instant) -> Option<Instant> {
        let number = self.number_of(echo)?;
        while self.requests.pop_front_if(|(asked, _)| *asked < number).is_some() {}
        let (_, sent_at) = *self.requests.front().filter(|(asked, _)| *asked == number)?;
        if number > self.measured {
            self.measured = number;
            self.rtt.on_sample(received_at.since(sent_at));
        }
        Some(sent_at)
    }

    /// Whether the peer must be told, now, that what it waits for is given up.
    fn note_gap(&mut self, now: Instant) {
        let may = self.timers.gap_told.is_none_or(|told| now.since(told) >= self.rtt.base_rto());
        self.due.gap |= may && self.out.must_tell_of_gap(self.peer_next);
    }

    fn handle_data(
        &mut self,
        now: Instant,
        received_at: Instant,
        header: &Header,
        data: (Option<u64>, &[u8]),
    ) {
        let (tag, bytes) = data;
        let sort = if header.has(option::SORT) { header.sort } else { u16::MAX };
        let arrival = Arrival {
            from: header.seq.wrapping_sub(self.peer_first),
            bytes,
            begins: tag.is_some(),
            ends: header.has(option::EOM),
            sort: if self.settings.sort { sort } else { 0 },
            path: self.path,
            received_at,
        };
        match self.incoming.take(arrival, WINDOW as u64, &mut self.inbox) {
            Taken::New { gap } => self.due.status |= gap && header.has(option::FASTNAK),
            Taken::Duplicate => self.tally.on_duplicate(),
            Taken::Refused => {}
            Taken::Malformed => self.tally.on_malformed(),
        }
        if header.has(option::NOERR) {
            let holes = self.incoming.spans().count();
            if holes > MOST_HOLES {
                self.pass_over_hole(now);
            } else if holes == 0 {
                self.timers.hole = None;
            } else {
                self.timers.hole.get_or_insert(now + HOLE);
            }
        }
    }

    /// Nothing fills the first hole any more.
    fn pass_over_hole(&mut self, now: Instant) {
        let first = self.incoming.spans().next();
        if let Some((from, _)) = first {
            self.incoming.give_up(from, &mut self.inbox);
        }
        let more = self.incoming.spans().next().is_some();
        self.timers.hole = more.then(|| now + HOLE);
    }

    /// The peer sent a packet on `path`, the `newest` so far or not. It may have moved there: it is asked.
    fn on_path(&mut self, path: PathId, newest: bool) {
        let known = self.candidate.is_some_and(|(candidate, _)| candidate == path);
        if path != self.path && newest && !known && self.role == Role::Listener {
            self.candidate = Some((path, None));
        }
    }

    /// A status came on `path` that echoes our packet `echo`: it proves a new path if that is where it was asked.
    fn prove_path(&mut self, path: PathId, echo: u32) {
        let echo = self.number_of(echo);
        if let Some((candidate, Some(asked))) = self.candidate
            && candidate == path
            && echo == Some(asked)
        {
            (self.path, self.candidate) = (path, None);
            self.queue.report(Event::PathProved(path));
        }
    }

    fn tell_fetched(&mut self) {
        if self.asked_fetched.is_some_and(|position| self.incoming.next() >= position)
            && self.inbox.is_empty()
        {
            self.asked_fetched = None;
            self.due.status = true;
        }
    }

    /// Whether this side, or the peer, has said that it ends the association.
    fn is_leaving(&self) -> bool {
        self.closing.is_some() || self.peer_closed
    }

    fn has_drained(&self) -> bool {
        self.queue.is_empty() && self.out.is_empty()
    }

    fn move_on(&mut self, now: Instant) {
        if let Stage::Ending { reason, until } = self.stage {
            let fetched = self.inbox.is_empty() || reason == CloseReason::Local;
            if now >= until || (fetched && self.has_said_all()) {
                self.finish(reason);
            }
            return;
        }
        let Some(until) = self.leave_by().filter(|_| self.stage != Stage::Closed) else { return };
        match self.stage {
            _ if now >= until => self.leave(now),
            Stage::Open if self.has_drained() && self.timers.repeat.is_none() => {
                (self.due.close, self.timers.times) = (true, 0);
                self.arm(now);
            }
            // No peer waits for an end.
            Stage::Waiting | Stage::Calling if self.has_drained() => self.leave(now),
            _ => {}
        }
    }

    /// Until when closing waits: for a peer that says something for [`GONE`], as it may have to say what it has accepted.
    fn leave_by(&self) -> Option<Instant> {
        let closing = self.closing?;
        let since = closing.max(self.timers.heard);
        let until = if self.settings.reliability == Reliability::Full {
            since + LONGEST_LEAVE
        } else {
            leave_by(since, self.out.last_deadline().max(self.queue.last_deadline()), LONGEST_LEAVE)
        };
        Some(until.min(closing + GONE))
    }

    /// Ends it without the peer's consent.
    fn leave(&mut self, now: Instant) {
        self.due.end = self.peer_key.map(|_| false);
        self.end(now, CloseReason::Local);
    }

    fn end(&mut self, now: Instant, reason: CloseReason) {
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed) {
            return;
        }
        self.out.abort(&mut self.queue);
        self.queue.finish_all(Outcome::Aborted);
        self.due = Due { end: self.due.end, ..Due::default() };
        self.timers = Timers { heard: self.timers.heard, ..Timers::default() };
        self.stage = Stage::Ending { reason, until: now + LONGEST_LEAVE };
    }

    fn has_said_all(&self) -> bool {
        self.due.end.is_none() && self.answers.is_empty()
    }

    fn finish(&mut self, reason: CloseReason) {
        self.stage = Stage::Closed;
        (self.due, self.candidate) = (Due::default(), None);
        self.answers.clear();
        self.inbox.clear();
        if std::mem::take(&mut self.told_id) {
            id(self.own_key).map(Event::IdRetired).into_iter().for_each(|event| self.queue.report(event));
        }
        self.queue.report(Event::Closed(reason));
    }

    /// Starts the timer for what has been asked.
    fn arm(&mut self, now: Instant) {
        let wait = match self.stage {
            Stage::Calling | Stage::Proving => self.rtt.base_rto(),
            _ => probe_timeout(self.rtt.smoothed(), false, Duration::ZERO).unwrap_or(RTO.initial),
        };
        let wait = backed_off(wait, self.timers.times, LONGEST_PAUSE);
        self.timers.repeat = Some(now + wait);
    }

    fn run_timers(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed | Stage::Waiting) {
            return;
        }
        if self.timers.asked.is_some_and(|asked| now.since(asked) >= GONE) {
            self.due.end = self.peer_key.map(|_| false);
            return self
                .end(now, if self.closing.is_some() { CloseReason::Local } else { CloseReason::TimedOut });
        }
        if self.timers.repeat.is_some_and(|at| at <= now) {
            self.repeat(now);
        }
        if self.timers.hole.is_some_and(|at| at <= now) {
            self.pass_over_hole(now);
        }
        if self.stage == Stage::Open && now.since(self.timers.heard) >= IDLE && self.timers.repeat.is_none() {
            self.due.probe = self.settings.acks != Acks::Never || self.timers.asked.is_none();
            self.arm(now);
        }
        self.pace.on_timeout(now);
        self.out.find_losses(now, &self.rtt);
        self.due.probe |= self.out.expire(now, &self.rtt, &mut self.queue);
        self.note_gap(now);
    }

    /// Nothing has answered for a while.
    fn repeat(&mut self, now: Instant) {
        self.timers.times = self.timers.times.saturating_add(1);
        self.timers.repeat = None;
        match self.stage {
            Stage::Calling | Stage::Proving => {
                let asked = self.timers.asked.unwrap_or(now);
                self.due.step = true;
                if now.since(asked) >= UNANSWERED
                    && !std::mem::replace(&mut self.timers.told_unanswered, true)
                {
                    self.queue.report(Event::Broken(BrokenReason::Unreachable));
                }
                self.arm(now);
            }
            _ if self.is_leaving() && self.has_drained() => {
                self.due.close = true;
                self.arm(now);
            }
            _ if !self.out.is_empty() || self.timers.asked.is_some() => {
                self.due.probe = true;
                let sent_at = self.last_request.unwrap_or(now);
                if self.out.limit.is_silent_since(sent_at) {
                    self.out.limit.on_silence(now, sent_at, self.out.rack.sent() + 1);
                }
                self.arm(now);
            }
            _ => {}
        }
    }

    /// Bytes that the peer may still send.
    fn window(&self) -> u64 {
        let held = self.incoming.held() + self.inbox.fill();
        let most = match self.settings.flow {
            // A message longer than all buffers could never come.
            Flow::Reserved => (self.reserved * self.packet).clamp(MAX_MESSAGE + self.packet, WINDOW),
            Flow::Window | Flow::Off => WINDOW,
        };
        most.saturating_sub(held) as u64
    }

    fn status(&self) -> Status {
        let next = self.incoming.next();
        Status {
            rseq: self.peer_first.wrapping_add(next),
            alloc: self.peer_first.wrapping_add(next + self.window()),
            echo: self.echo.unwrap_or(0),
        }
    }

    /// Options of every packet.
    fn common_options(&self) -> u32 {
        let mut options = 0;
        let mut set = |condition, option| options |= if condition { option } else { 0 };
        set(self.settings.nocheck, option::NOCHECK);
        set(self.settings.flow == Flow::Off, option::NOFLOW);
        set(self.settings.flow == Flow::Reserved, option::RES);
        set(self.settings.sort, option::SORT);
        options
    }

    /// The header of a control packet, which takes the next number. `position`: what its `seq` says.
    fn control(&mut self, now: Instant, options: u32, position: u64) -> Header {
        let number = self.out.rack.on_send();
        if options & option::SREQ != 0 {
            self.note_request(now, number);
        }
        let seq = self.own_first.wrapping_add(position);
        let key = self.peer_key.unwrap_or(self.own_key);
        let returned = self.peer_key.is_some();
        Header { key, returned, options: options | self.common_options(), sort: 0, sync: number as u32, seq }
    }

    fn note_request(&mut self, now: Instant, number: u64) {
        if self.requests.len() == MOST_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back((number, now));
        self.timers.asked.get_or_insert(now);
        (self.last_request, self.since_request) = (Some(now), 0);
        self.out.on_request(now);
        if self.timers.repeat.is_none() {
            self.arm(now);
        }
    }

    /// Writes the next packet; returns its path and length.
    fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        if let Some((path, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Some((path, answer.len()));
        }
        if let Some(graceful) = self.due.end.take() {
            let options = if graceful { option::RCLOSE | option::WCLOSE | option::END } else { option::END };
            return Some((self.path, self.write_status(now, options, buf)));
        }
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed | Stage::Waiting) {
            return None;
        }
        if std::mem::take(&mut self.due.step) {
            return Some((self.path, self.write_step(now, buf)));
        }
        if self.stage == Stage::Calling {
            return None;
        }
        if std::mem::take(&mut self.due.traffic) {
            self.due.status = false;
            return Some((self.path, self.write_traffic(now, 0, self.out.next(), buf)));
        }
        if let Some((path, asked @ None)) = self.candidate.as_mut().map(|(path, asked)| (*path, asked)) {
            *asked = Some(self.out.rack.sent() + 1);
            return Some((path, self.write_status(now, option::SREQ, buf)));
        }
        if std::mem::take(&mut self.due.close) {
            let both = self.is_leaving() && self.peer_closed;
            let options = option::WCLOSE | option::SREQ | if both { option::RCLOSE } else { 0 };
            self.due.status = false;
            if self.timers.repeat.is_none() {
                self.arm(now);
            }
            return Some((self.path, self.write_status(now, options, buf)));
        }
        if std::mem::take(&mut self.due.status) {
            return Some((self.path, self.write_status(now, 0, buf)));
        }
        if std::mem::take(&mut self.due.gap) {
            self.timers.gap_told = Some(now);
            let options = option::NOERR;
            return Some((self.path, self.write_status_at(now, options, self.out.settled_to(), buf)));
        }
        if std::mem::take(&mut self.due.probe) {
            return Some((self.path, self.write_status(now, option::SREQ, buf)));
        }
        let len = self.write_data(now, buf)?;
        Some((self.path, len))
    }

    /// FIRST, or the proof that answers the listener's offer.
    fn write_step(&mut self, now: Instant, buf: &mut [u8]) -> usize {
        if self.stage == Stage::Proving {
            return self.write_traffic(now, option::SREQ, 0, buf);
        }
        let header = self.control(now, option::SREQ, 0);
        let mut writer = Writer::new(buf, &header, format::FIRST);
        writer.address([0; 4], (self.own_key.owner(), self.own_key.other()));
        writer.traffic(service::RELIABLE_STREAM, Some(&self.settings.traffic));
        writer.finish()
    }

    fn write_traffic(&mut self, now: Instant, options: u32, position: u64, buf: &mut [u8]) -> usize {
        let header = self.control(now, options, position);
        let mut writer = Writer::new(buf, &header, format::TCNTL);
        writer.keyed_status(&self.status(), self.own_key);
        writer.traffic(service::RELIABLE_STREAM, Some(&self.settings.traffic));
        writer.finish()
    }

    fn write_status(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> usize {
        self.write_status_at(now, options, self.out.next(), buf)
    }

    /// CNTL, or ECNTL where something is missing.
    fn write_status_at(&mut self, now: Instant, options: u32, position: u64, buf: &mut [u8]) -> usize {
        let header = self.control(now, options, position);
        let spans = self.incoming.spans().count().min((self.packet - HEADER - STATUS - 4) / SPAN);
        let kind = if spans == 0 { format::CNTL } else { format::ECNTL };
        let mut writer = Writer::new(buf, &header, kind);
        writer.status(&self.status());
        if spans > 0 {
            writer.u32(spans as u32);
            for (left, right) in self.incoming.spans().take(spans) {
                writer.u64(self.peer_first.wrapping_add(left));
                writer.u64(self.peer_first.wrapping_add(right));
            }
        }
        writer.finish()
    }

    /// Whether nothing new leaves until a request is answered: where nothing is given up, a path that does not answer is
    /// only asked.
    fn is_held(&self) -> bool {
        self.settings.reliability == Reliability::Full && (self.timers.times > 0 || !self.out.limit.allows())
    }

    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if self.is_held() || (self.stage == Stage::Proving && self.settings.reliability == Reliability::Full)
        {
            return None;
        }
        self.due.probe |= self.out.expire(now, &self.rtt, &mut self.queue);
        if self.out.take_black_hole() {
            self.narrow_until = Some(now + RAISE);
        }
        self.narrow_until = self.narrow_until.filter(|until| *until > now);
        let most = self.packet - HEADER - TAG;
        let most = if self.narrow_until.is_some() { most.min(LARGE) } else { most };
        if let Some(len) = self.out.peek_repeat(most) {
            if !self.pace.take(now, HEADER + TAG + len) {
                return None;
            }
            self.tally.on_repeat();
            return Some(self.write_part(now, true, most, buf));
        }
        if !self.out.is_cutting() {
            let waiting = match self.settings.sort {
                true => self.queue.peek_urgent(now),
                false => self.queue.peek_len(now, false),
            };
            let len = waiting?.min(most);
            if !self.may_send(len) || !self.pace.take(now, HEADER + TAG + len) {
                return None;
            }
            let message = if self.settings.sort { self.queue.pop_urgent(now) } else { self.queue.pop(now) };
            self.out.begin(message?);
        } else {
            let len = self.out.uncut(most);
            if !self.may_send(len) || !self.pace.take(now, HEADER + len) {
                return None;
            }
        }
        Some(self.write_part(now, false, most, buf))
    }

    /// Whether the peer takes so many more bytes.
    fn may_send(&self, len: usize) -> bool {
        let before_any_status = self.stage == Stage::Proving || self.alloc == 0;
        self.settings.flow == Flow::Off
            || self.out.next() + len as u64 <= if before_any_status { FIRST_WINDOW } else { self.alloc }
    }

    /// Writes a packet with data: a part that is sent again, or the next of the message begun last.
    fn write_part(&mut self, now: Instant, again: bool, most: usize, buf: &mut [u8]) -> usize {
        self.since_request += 1;
        let tracked = self.settings.reliability != Reliability::None;
        if tracked && self.timers.asked.is_none() && !self.is_leaving() {
            // What leaves later shows what became of what left before.
            self.arm(now);
        }
        let settings = &self.settings;
        let last = !again && self.queue.is_empty() && self.out.uncut(usize::MAX) <= most;
        let asks = match settings.acks {
            Acks::Never => false,
            Acks::Every(packets) => again || self.since_request >= packets || last,
            Acks::OnGap => again || self.since_request >= REQUEST_AT_LEAST,
            Acks::Interval(interval) => again || self.last_request.is_none_or(|at| now.since(at) >= interval),
        };
        let mut options = self.common_options() | if asks { option::SREQ } else { 0 };
        options |= match (settings.reliability, settings.acks) {
            (Reliability::None, _) => option::NOERR,
            (_, Acks::Never) => 0,
            _ => option::FASTNAK,
        };
        let (own_first, peer_key) = (self.own_first, self.peer_key.unwrap_or(self.own_key));
        let data = match again {
            true => self.out.repeat(now, most, &self.rtt),
            false => self.out.cut(now, most),
        };
        let data = data.expect("there is a part");
        options |=
            if data.ends { option::EOM } else { 0 } | if data.tag.is_some() { option::BTAG } else { 0 };
        let header = Header {
            key: peer_key,
            returned: true,
            options,
            sort: data.sort,
            sync: 0,
            seq: own_first.wrapping_add(data.from),
        };
        let (tag, bytes) = (data.tag, data.bytes);
        let len = bytes.len();
        buf[HEADER + if tag.is_some() { TAG } else { 0 }..][..len].copy_from_slice(bytes);
        let number = self.out.rack.sent();
        let mut writer = Writer::new(buf, &Header { sync: number as u32, ..header }, format::DATA);
        if let Some(tag) = tag {
            writer.u64(tag);
        }
        writer.skip(len);
        let written = writer.finish();
        if asks {
            self.note_request(now, number);
        }
        self.out.release(&mut self.queue);
        written
    }
}

#[cfg(test)]
impl Xtp {
    /// The position of the next byte to send.
    pub fn sequence(&self) -> u64 {
        self.out.next()
    }

    /// The number of our first byte.
    pub fn first(&self) -> u64 {
        self.own_first
    }

    /// The key by which the peer is called, and the number of our next byte.
    pub fn peer(&self) -> (Key, u64) {
        (self.peer_key.expect("it is known"), self.own_first.wrapping_add(self.out.next()))
    }

    /// Has the caller's numbers continue from these, at both ends.
    pub fn wrap_soon(&mut self, is_caller: bool, first: u64, sync: u32) {
        if is_caller {
            self.own_first = first;
            self.out.rack.skip_to(u64::from(sync));
        } else {
            (self.peer_first, self.echo) = (first, Some(sync));
        }
    }
}

impl Endpoint for Xtp {
    fn profile(&self) -> Profile {
        let Settings { reliability, ordered, flow, .. } = self.settings;
        let full = reliability == Reliability::Full;
        Profile {
            wire: Wire::Datagram,
            max_message: MAX_MESSAGE,
            max_receive: MAX_MESSAGE,
            message_overhead: HEADER + TAG,
            bare: false,
            acknowledged: reliability != Reliability::None,
            ordered,
            retransmits: reliability != Reliability::None,
            reliable: reliability != Reliability::None,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities {
                message_oriented: true,
                connection_oriented: true,
                full_duplex: true,
                unordered: !ordered,
                flow_control: flow != Flow::Off,
                congestion_control: full,
                path_mtu_discovery: true,
                fragmentation: true,
                checksum: true,
            },
        }
    }

    fn reserve(&mut self, messages: usize) {
        self.reserved = messages;
        self.queue.make_room(Room::of(messages), self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.reserve_halves();
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.is_leaving() || matches!(self.stage, Stage::Ending { .. } | Stage::Closed) {
            return Err(SendError::Closed);
        }
        self.queue.push(message, MAX_MESSAGE)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed) {
            return;
        }
        self.closing.get_or_insert(now);
        self.timers.repeat = self.timers.repeat.filter(|_| !self.has_drained());
        if mode == CloseMode::Abort {
            self.leave(now);
        }
        self.move_on(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.stage == Stage::Closed {
            return;
        }
        match input {
            Input::Accepted { path, block } => {
                self.tally.on_received(block.len());
                if self.stage == Stage::Waiting
                    && let Some((header, segment)) = wire::parse(block)
                    && let Some(introduction) = Introduction::read(&header, &segment)
                {
                    self.begin(now, path, introduction);
                    self.handle_packet(now, path, block, now);
                }
            }
            Input::MaxDatagram(most) => self.packet = self.packet.min(most.max(super::MIN_PACKET)),
            input => {
                let Some(datagram) = self.tally.take(input, &mut self.queue) else { return };
                if !matches!(self.stage, Stage::Ending { .. }) {
                    self.handle_packet(now, datagram.path, datagram.bytes, datagram.received_at.min(now));
                }
            }
        }
        self.move_on(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.expire(now);
        self.run_timers(now);
        self.move_on(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let sent = self.next_packet(now, buf);
        // Closing may have waited for the last packet.
        self.move_on(now);
        let (path, len) = sent.or_else(|| self.next_packet(now, buf))?;
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        let before = self.window();
        let received = self.inbox.pop(buf)?;
        self.incoming.resume(&mut self.inbox);
        // A peer that saw a small window waits to hear of room.
        self.due.status |= before < WINDOW as u64 / 4 && self.window() >= WINDOW as u64 / 4;
        self.tell_fetched();
        Some(received)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Stage::Ending { reason, .. } = self.stage
            && self.has_said_all()
            && self.inbox.is_empty()
        {
            self.finish(reason);
        }
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Closed => return None,
            Stage::Ending { until, .. } => return Some(until),
            _ => {}
        }
        let Timers { repeat, asked, heard, hole, .. } = self.timers;
        let open = self.stage == Stage::Open;
        let idle = (open && repeat.is_none()).then(|| heard + IDLE);
        let gap = self.timers.gap_told.map(|told| told + self.rtt.base_rto());
        let gap = gap.filter(|_| self.out.gave_up() && !self.due.gap);
        let all = [
            repeat,
            asked.map(|asked| asked + GONE),
            idle,
            hole,
            gap,
            self.leave_by(),
            self.queue.next_expiry(),
            self.out.next_timeout(&self.rtt),
            self.pace.next(),
        ];
        all.into_iter().flatten().min()
    }

    fn stats(&self) -> PathStats {
        let smoothed = self.rtt.smoothed();
        PathStats {
            srtt: smoothed.srtt(),
            rttvar: smoothed.rttvar(),
            min_rtt: smoothed.min(),
            cwnd: self.out.limit.cwnd().map(ByteCount),
            in_flight: Some(ByteCount(self.out.in_flight())),
            pacing_rate: self.pace.rate().map(BitRate),
            counters: self.tally.counters(&self.queue, &self.inbox),
        }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        (path == self.path).then(|| self.stats())
    }
}

/// Time-outs for budgets under 200 ms, as of our other transports: the round trip and four times its variation, at least
/// 20 ms more than the round trip.
const RTO: RtoSettings = RtoSettings {
    initial: Duration::from_millis(250),
    min: Duration::ZERO,
    max: LONGEST_PAUSE,
    longest: Duration::from_secs(2),
    floor: RtoFloor::Total,
    granularity: Duration::from_millis(20),
};
/// Requests whose times are remembered: a packet each for a round trip of 300 ms at 5 ms a packet.
const MOST_REQUESTS: usize = 64;
/// Packets after which a sender asks where the receiver reports gaps by itself.
const REQUEST_AT_LEAST: u32 = 32;
/// Most replies to what belongs to no association that wait for the driver.
const MOST_ANSWERS: usize = 16;
/// Bytes that may leave before the first status: the initial window of RFC 6928 §2.
const FIRST_WINDOW: u64 = 14_600;
/// How long a hole of what is never repeated waits for packets that were reordered.
const HOLE: Duration = Duration::from_millis(20);
/// How long packets are small before large ones are tried again: PMTU_RAISE_TIMER (RFC 8899 §5.1.1).
const RAISE: Duration = Duration::from_secs(600);
/// Holes that wait at once.
const MOST_HOLES: usize = MOST_SPANS / 4;
/// Silence after which the peer is asked whether it is there.
const IDLE: Duration = Duration::from_secs(15);
/// Messages on their way for which memory is reserved.
const LEAST_RESERVED: usize = 32;

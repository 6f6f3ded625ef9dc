//! Packets of the peer.

use std::time::Duration;

use antiphon_core::{CloseReason, Endpoint, Event, Instant, PathId, Role};

use super::endpoint::{Stage, Xtp};
use super::incoming::{Arrival, MOST_SPANS, Taken};
use super::settings::Flow;
use super::wire::{self, Header, Key, Segment, Status, Traffic, diag, option};
use super::{MAX_MESSAGE, WINDOW};

impl Xtp {
    pub(super) fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8], received_at: Instant) {
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
        self.timers.asked = None;
        self.timers.told_unanswered = false;
        let newest = self.echo.is_none_or(|echo| header.sync.wrapping_sub(echo) as i32 > 0);
        if newest {
            self.echo = Some(header.sync);
        }
        self.on_path(path, newest);
        match segment {
            Segment::Traffic { status, key, traffic, .. } => {
                self.handle_traffic(now, received_at, &header, (status, key, traffic));
            }
            Segment::Status(status, spans) => {
                self.prove_path(path, status.echo);
                self.handle_status(now, received_at, status, spans.iter());
            }
            Segment::Data { tag, bytes } => self.handle_data(now, received_at, &header, (tag, bytes)),
            Segment::First { .. }
            | Segment::Join { .. }
            | Segment::Diag { .. }
            | Segment::Repair(_)
            | Segment::Report(..) => {}
        }
        self.handle_options(now, &header, &segment);
    }

    /// Whether the numbers in a packet with our key fit this association. The key has few random bits beside its ports, so a
    /// packet that has it alone must change nothing.
    pub(super) fn is_plausible(&self, header: &Header, segment: &Segment<'_>) -> bool {
        match segment {
            Segment::Data { bytes, .. } => {
                let end = header.seq.wrapping_sub(self.peer_first).checked_add(bytes.len() as u64);
                end.is_some_and(|end| self.incoming.is_in_window(end))
            }
            Segment::Status(status, _) | Segment::Traffic { status, .. } => {
                let told = status.rseq.wrapping_sub(self.own_first);
                told <= self.out.next() && self.number_of(status.echo).is_some()
            }
            Segment::Join { .. }
            | Segment::First { .. }
            | Segment::Diag { .. }
            | Segment::Repair(_)
            | Segment::Report(..) => false,
        }
    }

    /// What requests and the end of the association need, whatever the packet.
    pub(super) fn handle_options(&mut self, now: Instant, header: &Header, segment: &Segment<'_>) {
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

    pub(super) fn handle_diag(&mut self, now: Instant, header: &Header, code: u32) {
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
    pub(super) fn answer(&mut self, now: Instant, path: PathId, packet: &[u8]) {
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

    pub(super) fn handle_traffic(
        &mut self,
        now: Instant,
        received_at: Instant,
        header: &Header,
        (status, key, traffic): (Status, Key, Traffic),
    ) {
        match (self.stage, self.peer_key) {
            (Stage::Calling, _) => {
                // The listener's offer. It takes data once its key and number have come back.
                self.peer_key = Some(key);
                self.peer_first = header.seq;
                self.measure(status.echo, received_at);
                self.stage = Stage::Proving;
                self.due.step = true;
                self.timers.times = 0;
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

    pub(super) fn handle_status(
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
        let mut ranges = 0;
        let next = self.out.next();
        let spans = spans.map(|(left, right)| (left.wrapping_sub(first), right.wrapping_sub(first)));
        let spans = spans.take_while(|(_, right)| {
            sound &= *right <= next;
            ranges += usize::from(sound);
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
        self.peer_ranges = ranges;
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
    pub(super) fn number_of(&self, sync: u32) -> Option<u64> {
        let sent = self.out.rack.sent();
        let back = (sent as u32).wrapping_sub(sync);
        sent.checked_sub(u64::from(back))
    }

    /// Measures the round trip by the echo of a request; returns when that left. A status goes out as soon as it is asked
    /// for, and each packet has a number of its own.
    pub(super) fn measure(&mut self, echo: u32, received_at: Instant) -> Option<Instant> {
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
    pub(super) fn note_gap(&mut self, now: Instant) {
        let may = self.timers.gap_told.is_none_or(|told| now.since(told) >= self.rtt.base_rto());
        self.due.gap |= may && self.out.must_tell_of_gap(self.peer_next);
    }

    pub(super) fn handle_data(
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
        match self.incoming.take(arrival, &mut self.inbox) {
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
    pub(super) fn pass_over_hole(&mut self, now: Instant) {
        let first = self.incoming.spans().next();
        if let Some((from, _)) = first {
            self.incoming.give_up(from, &mut self.inbox);
        }
        let more = self.incoming.spans().next().is_some();
        self.timers.hole = more.then(|| now + HOLE);
    }

    /// The peer sent a packet on `path`, the `newest` so far or not. It may have moved there: it is asked.
    pub(super) fn on_path(&mut self, path: PathId, newest: bool) {
        let known = self.candidate.is_some_and(|(candidate, _)| candidate == path);
        if path != self.path && newest && !known && self.role == Role::Listener {
            self.candidate = Some((path, None));
        }
    }

    /// A status came on `path` that echoes our packet `echo`: it proves a new path if that is where it was asked.
    pub(super) fn prove_path(&mut self, path: PathId, echo: u32) {
        let echo = self.number_of(echo);
        if let Some((candidate, Some(asked))) = self.candidate
            && candidate == path
            && echo == Some(asked)
        {
            self.path = path;
            self.candidate = None;
            self.queue.report(Event::PathProved(path));
        }
    }

    pub(super) fn tell_fetched(&mut self) {
        if self.asked_fetched.is_some_and(|position| self.incoming.next() >= position)
            && self.inbox.is_empty()
        {
            self.asked_fetched = None;
            self.due.status = true;
        }
    }

    /// Bytes that the peer may send while nothing is held here.
    pub(super) fn largest_window(&self) -> usize {
        match self.settings.flow {
            // A message longer than all buffers could never come.
            Flow::Reserved => (self.reserved * self.packet).clamp(MAX_MESSAGE + self.packet, WINDOW),
            Flow::Window | Flow::Off => WINDOW,
        }
    }

    /// Bytes that the peer may still send.
    pub(super) fn window(&self) -> usize {
        self.largest_window().saturating_sub(self.incoming.held() + self.inbox.fill())
    }

    pub(super) fn status(&self) -> Status {
        let next = self.incoming.next();
        Status {
            rseq: self.peer_first.wrapping_add(next),
            alloc: self.peer_first.wrapping_add(next + self.window() as u64),
            echo: self.echo.unwrap_or(0),
        }
    }
}

/// Most replies to what belongs to no association that wait for the driver.
const MOST_ANSWERS: usize = 16;
/// How long a hole of what is never repeated waits for packets that were reordered.
const HOLE: Duration = Duration::from_millis(20);
/// Holes that wait at once.
const MOST_HOLES: usize = MOST_SPANS / 4;

//! The SCTP endpoint: how an association begins and ends, and the interface to the driver.

use std::collections::VecDeque;

use antiphon_core::{
    ByteCount, Capabilities, CloseMode, CloseReason, ConnectionId, Counters, Endpoint, Event, Input, Instant,
    Message, Outcome, PathId, PathStats, Profile, Received, Rng, Role, SendError, Transmit, Wire,
};

use super::association::{Association, Phase};
use super::outgoing::MOST_SKIPPED;
use super::path::Path;
use super::settings::{MAX_MESSAGE, MAX_PATHS, Reliability, Settings, WINDOW};
use super::validator::{SctpValidator, Terms};
use super::wire::chunks::Skipped;
use crate::inbox::Inbox;
use crate::patience::{LONGEST_LEAVE, leave_by};
use crate::queue::{Room, SendQueue};
use crate::seeds::{Seeds, dynamic_port};
use crate::tally::Tally;

/// One association, of a caller or a listener.
pub(super) struct Sctp {
    pub(super) settings: Settings,
    /// Largest packet in bytes.
    pub(super) packet: usize,
    pub(super) validator: SctpValidator,
    pub(super) association: Option<Box<Association>>,
    /// The id by which the driver recognises the peer's packets.
    pub(super) told_id: Option<ConnectionId>,
    /// The path that the peer's cookie was sealed for, in the validator's numbering.
    pub(super) cookie_path: Option<PathId>,
    pub(super) queue: SendQueue,
    pub(super) inbox: Inbox,
    /// Answers to sources without an association.
    pub(super) answers: VecDeque<(PathId, Vec<u8>)>,
    /// The packet that is sent on all paths, and the paths still to be used.
    pub(super) copy: (Vec<u8>, Vec<PathId>),
    pub(super) skipped: Vec<Skipped>,
    pub(super) tally: Tally,
    /// From associations that a restart ended.
    retransmitted: u64,
    /// Messages that may wait at once, for the association still to be made.
    reserved: usize,
    pub(super) stage: Stage,
    /// This side closes; accepted messages are still sent, until there is no progress for a while. The last progress.
    pub(super) closing: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// No association yet; messages wait.
    Waiting,
    Open,
    /// The association has ended; its last packets and messages may still be fetched for a while.
    Ending {
        reason: CloseReason,
        patience_ends: Instant,
    },
    Closed,
}

impl Stage {
    /// Whether the association has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Ending { .. } | Stage::Closed)
    }
}

impl Sctp {
    /// `packet`: largest packet in bytes.
    pub fn new(settings: Settings, packet: usize, role: Role, seeds: &Seeds, now: Instant) -> Self {
        let seed = seeds.next();
        let mut rng = Rng::fork(seed, "sctp port");
        let local_port = match role {
            Role::Caller => dynamic_port(&mut rng),
            Role::Listener => settings.sctp_port,
        };
        let terms = Terms::new(&settings, local_port, packet);
        let mut sctp = Sctp {
            settings,
            packet,
            validator: SctpValidator::new(terms, (seeds.shared(), seed), role, now),
            association: None,
            told_id: None,
            cookie_path: None,
            queue: SendQueue::new(Room::LEAN, packet),
            inbox: Inbox::new(Room::LEAN, packet),
            answers: VecDeque::new(),
            copy: (Vec::new(), Vec::with_capacity(MAX_PATHS)),
            skipped: Vec::with_capacity(MOST_SKIPPED),
            tally: Tally::default(),
            retransmitted: 0,
            reserved: 0,
            stage: Stage::Waiting,
            closing: None,
        };
        if role == Role::Caller {
            let drawn = sctp.validator.draw();
            let association =
                Association::calling(&settings, (local_port, settings.sctp_port), drawn, packet, now);
            sctp.association = Some(Box::new(association));
            if !settings.implicit {
                sctp.call(now);
            }
        }
        sctp
    }

    /// The association is established.
    pub(super) fn open(&mut self) {
        if self.stage == Stage::Waiting {
            self.stage = Stage::Open;
            // Allocated only now, so that unknown sources cost no memory.
            self.queue.make_room(Room::PROVED, self.packet);
            self.inbox.make_room(Room::PROVED, self.packet);
        }
        self.prepare_association();
        self.queue.report(Event::Connected);
    }

    /// Reserves memory in an open association.
    fn prepare_association(&mut self) {
        if let Some(association) = self.association.as_mut().filter(|_| self.stage == Stage::Open) {
            association.out.reserve(self.reserved);
            association.log.reserve(self.reserved);
            if self.settings.ordered {
                // One loss holds back all later messages.
                association.assembly.make_ready(self.reserved, self.packet);
            }
        }
    }

    /// The peer restarted: messages in flight are lost.
    pub(super) fn forget_sent(&mut self) {
        if let Some(association) = &mut self.association {
            association.out.abort_all(&mut self.queue);
            self.retransmitted += association.out.retransmitted;
        }
    }

    pub(super) fn closed_by(&self, otherwise: CloseReason) -> CloseReason {
        if self.closing.is_some() { CloseReason::Local } else { otherwise }
    }

    /// Ends the association. Its last packets and, unless this side ended it, its last messages can still be fetched.
    pub(super) fn end(&mut self, now: Instant, reason: CloseReason) {
        if self.stage.is_over() {
            return;
        }
        self.abort_messages();
        self.stage = Stage::Ending { reason, patience_ends: now + LONGEST_LEAVE };
    }

    fn abort_messages(&mut self) {
        self.forget_sent();
        self.queue.finish_all(Outcome::Aborted);
    }

    /// Ends it with an ABORT that states the causes, if there is a peer to receive it.
    pub(super) fn abort(&mut self, now: Instant, causes: Vec<u8>, reason: CloseReason) {
        self.end(now, reason);
        match &mut self.association {
            Some(association) if association.tcb.peer_tag != 0 => association.due.abort = Some(causes),
            _ => self.association = None,
        }
    }

    /// Continues closing as far as possible.
    pub(super) fn move_on(&mut self, now: Instant) {
        self.end_if_due(now);
        self.report_routes();
    }

    fn end_if_due(&mut self, now: Instant) {
        if let Some(patience_ends) = self.leave_by()
            && !self.stage.is_over()
        {
            let drained = self.queue.is_empty() && self.association.as_ref().is_none_or(|a| a.out.is_empty());
            match self.association.as_ref().map(|a| a.phase) {
                _ if now >= patience_ends => self.abort_by_user(now),
                Some(Phase::Established) if drained => self.shut_down(Phase::ShutdownSent),
                // No peer expects the messages yet.
                Some(Phase::CookieWait | Phase::CookieEchoed) | None if drained => self.abort_by_user(now),
                _ => {}
            }
        }
        if let Some(association) = &self.association
            && association.phase == Phase::ShutdownReceived
            && self.queue.is_empty()
            && association.out.is_empty()
        {
            self.shut_down(Phase::ShutdownAckSent);
        }
        if let Stage::Ending { reason, patience_ends } = self.stage {
            let fetched = self.inbox.is_empty() || reason == CloseReason::Local;
            if now >= patience_ends || (fetched && self.has_said_all()) {
                self.finish(reason);
            }
        }
    }

    /// Until when closing waits for progress.
    pub(super) fn leave_by(&self) -> Option<Instant> {
        let since = self.closing?;
        if self.settings.reliability == Reliability::Full {
            return Some(since + LONGEST_LEAVE);
        }
        let sent = self.association.as_ref().and_then(|association| association.out.last_deadline());
        Some(leave_by(since, sent.max(self.queue.last_deadline()), LONGEST_LEAVE))
    }

    fn shut_down(&mut self, phase: Phase) {
        if let Some(association) = &mut self.association {
            (association.phase, association.due.step, association.tries) = (phase, true, 0);
        }
    }

    fn abort_by_user(&mut self, now: Instant) {
        let mut causes = Vec::new();
        super::wire::writer::push_tlv(&mut causes, super::wire::cause::USER_ABORT, &[]);
        self.abort(now, causes, CloseReason::Local);
    }

    fn has_said_all(&self) -> bool {
        let owes_reply =
            |a: &Association| a.due.abort.is_some() || a.due.shutdown_complete || a.due.cookie_ack.is_some();
        self.answers.is_empty() && !self.association.as_ref().is_some_and(|a| owes_reply(a))
    }

    fn finish(&mut self, reason: CloseReason) {
        self.stage = Stage::Closed;
        self.association = None;
        self.answers.clear();
        self.copy.1.clear();
        self.inbox.clear();
        self.report_routes();
        self.queue.report(Event::Closed(reason));
    }

    /// Bytes that the peer may still send.
    pub(super) fn window(&self) -> usize {
        let held = self.association.as_ref().map_or(0, |association| association.assembly.charged);
        WINDOW.saturating_sub(held + self.inbox.fill())
    }
}

impl Endpoint for Sctp {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: MAX_MESSAGE,
            max_receive: MAX_MESSAGE,
            message_overhead: FRAME_OVERHEAD,
            bare: false,
            acknowledged: true,
            ordered: self.settings.ordered && self.settings.streams == 1,
            retransmits: self.settings.reliability != Reliability::Retransmissions(0),
            priorities: false,
            // Except for chunks cut for a path that now takes only smaller packets (see the module's comment).
            reliable: matches!(self.settings.reliability, Reliability::Deadline | Reliability::Full),
            streams: self.settings.streams,
            calls_with_first_message: self.settings.implicit,
            paces_itself: false,
            capabilities: Capabilities {
                message_oriented: true,
                connection_oriented: true,
                full_duplex: true,
                unordered: !self.settings.ordered,
                flow_control: true,
                congestion_control: true,
                path_mtu_discovery: true,
                fragmentation: true,
                checksum: true,
            },
        }
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.stage.is_over() || self.closing.is_some() {
            return Err(SendError::Closed);
        }
        self.queue.push(message, MAX_MESSAGE)?;
        if self.settings.implicit && self.stage == Stage::Waiting && self.queue.accepted() == 1 {
            self.call(now);
        }
        Ok(())
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if self.stage.is_over() {
            return;
        }
        self.closing = Some(now);
        if mode == CloseMode::Abort {
            self.abort_by_user(now);
        }
        self.move_on(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.stage == Stage::Closed {
            return;
        }
        // A cookie that the validator accepted before comes in a datagram as well.
        let Some(datagram) = self.tally.take(input, &mut self.queue) else { return };
        if !self.stage.is_over() {
            self.handle_packet(now, datagram.path, datagram.bytes, datagram.received_at.min(now));
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
        // Closing may have waited for expired messages or for the last packet.
        self.move_on(now);
        let (path, len) = sent.or_else(|| self.next_packet(now, buf))?;
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        let received = self.inbox.pop(buf)?;
        let window = self.window();
        if let Some(association) = &mut self.association {
            // A peer that saw a small window waits for an update.
            association.sack.now |= association.sack.window < WINDOW / 4 && window >= WINDOW / 2;
        }
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
        self.next_timeout()
    }

    fn reserve(&mut self, messages: usize) {
        self.reserved = messages;
        self.queue.make_room(Room::of(messages), self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.prepare_association();
    }

    fn stats(&self) -> PathStats {
        let association = self.association.as_ref().filter(|a| a.phase != Phase::CookieWait);
        let path = association.map(|association| &association.paths[association.best_path()]);
        let retransmitted = association.map_or(0, |association| association.out.retransmitted);
        PathStats {
            in_flight: Some(ByteCount(association.map_or(0, |association| association.out.flight) as u64)),
            counters: Counters {
                retransmitted: self.retransmitted + retransmitted,
                ..self.tally.counters(&self.queue, &self.inbox)
            },
            ..path.map_or_else(PathStats::default, Path::stats)
        }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        let association = self.association.as_ref()?;
        association.paths.iter().find(|own| own.id == path).map(Path::stats)
    }
}

/// Common header and the header of a DATA chunk (RFC 9260 §3.1, §3.3.1), without padding.
const FRAME_OVERHEAD: usize = 12 + 16;

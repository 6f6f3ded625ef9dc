//! The XTP endpoint: one association of a reliable, partly reliable or unreliable stream of messages.

mod leaving;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    BitRate, ByteCount, Capabilities, CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message,
    PathId, PathStats, Profile, Received, Rng, Role, SendError, Transmit, Wire, sooner,
};

use super::MAX_MESSAGE;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::pace::Pace;
use super::settings::{Flow, Reliability, Settings};
use super::timers::IDLE;
use super::transmit::FIRST_NARROW;
use super::validator::{Introduction, XtpValidator, id};
use super::wire::{self, HEADER, Key, TAG};
use crate::inbox::Inbox;
use crate::patience::GONE;
use crate::queue::{Room, SendQueue};
use crate::rtt::{RtoSettings, RttEstimator, live_rto};
use crate::seeds::{Seeds, dynamic_port};
use crate::tally::Tally;

/// One association, of a caller or a listener.
pub(super) struct Xtp {
    pub(super) settings: Settings,
    pub(super) role: Role,
    pub(super) packet: usize,
    pub(super) validator: XtpValidator,
    pub(super) queue: SendQueue,
    pub(super) inbox: Inbox,
    pub(super) tally: Tally,
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) rtt: RttEstimator,
    pub(super) pace: Pace,
    pub(super) stage: Stage,
    /// Keys: what the peer's packets carry, and what ours carry once the peer is known.
    pub(super) own_key: Key,
    pub(super) peer_key: Option<Key>,
    /// Sequence number of the first byte of each direction.
    pub(super) own_first: u64,
    pub(super) peer_first: u64,
    /// Number of the first byte that we may not send.
    pub(super) alloc: u64,
    /// Position of our byte that the peer waits for.
    pub(super) peer_next: u64,
    /// Ranges above the first gap that the peer holds, by its latest status.
    pub(super) peer_ranges: usize,
    /// The greatest `sync` of the peer.
    pub(super) echo: Option<u32>,
    /// Option EDGE of its last packet.
    pub(super) edge: bool,
    /// Position up to which the peer asked for a status once all is fetched (DREQ).
    pub(super) asked_fetched: Option<u64>,
    /// Packets with a request: their numbers, and when they left.
    pub(super) requests: VecDeque<(u64, Instant)>,
    /// The number of the request for which the round trip was measured last.
    pub(super) measured: u64,
    pub(super) since_request: u32,
    pub(super) last_request: Option<Instant>,
    pub(super) due: Due,
    pub(super) timers: Timers,
    pub(super) path: PathId,
    /// A path on which the peer may be now, and the number of the packet that asks.
    pub(super) candidate: Option<(PathId, Option<u64>)>,
    /// Replies to what belongs to no association.
    pub(super) answers: VecDeque<(PathId, Vec<u8>)>,
    pub(super) closing: Option<Instant>,
    /// Until when packets are small, as large ones were lost one after another.
    pub(super) narrow_until: Option<Instant>,
    /// How long they are small when that happens again.
    pub(super) narrow_for: Duration,
    /// The peer sends nothing more, and has received everything of ours.
    pub(super) peer_closed: bool,
    pub(super) reserved: usize,
    pub(super) told_id: bool,
    pub(super) draws: Rng,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
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
pub(super) struct Due {
    /// FIRST or TCNTL of the handshake.
    pub step: bool,
    /// TCNTL that answers the peer's.
    pub traffic: bool,
    pub status: bool,
    /// What the peer lacks before the first unsettled byte is given up.
    pub gap: bool,
    pub probe: bool,
    pub close: bool,
    /// The last packet; of a graceful close or not.
    pub end: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    /// When a handshake's packet, a probe or a close is repeated.
    pub repeat: Option<Instant>,
    /// Repetitions in a row.
    pub times: u32,
    /// When the first request left that nothing has answered.
    pub asked: Option<Instant>,
    pub heard: Instant,
    /// The application knows that a call goes unanswered.
    pub told_unanswered: bool,
    /// When the peer was last told that what it lacks is given up.
    pub gap_told: Option<Instant>,
    /// When a hole at the receiver of what is never repeated is passed over.
    pub hole: Option<Instant>,
}

impl Xtp {
    /// `packet`: bytes of the largest packet.
    pub fn new(settings: Settings, packet: usize, role: Role, seeds: &Seeds, now: Instant) -> Self {
        let mut draws =
            Rng::fork(seeds.next(), if role == Role::Caller { "xtp caller" } else { "xtp listener" });
        let port = dynamic_port(&mut draws);
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
            peer_ranges: 0,
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
            narrow_for: FIRST_NARROW,
            peer_closed: false,
            reserved: 0,
            told_id: false,
            draws,
        };
        if xtp.due.step {
            xtp.arm(now);
        }
        xtp
    }

    /// A listener takes a caller whose address is proved.
    pub(super) fn begin(&mut self, now: Instant, path: PathId, introduction: Introduction) {
        let Introduction { caller, listener, caller_seq, listener_seq } = introduction;
        self.own_key = listener;
        self.peer_key = Some(caller);
        // The peer counts our first number as received.
        self.own_first = listener_seq;
        self.peer_first = caller_seq;
        self.path = path;
        self.told_id = true;
        id(listener).map(Event::IdAdded).into_iter().for_each(|event| self.queue.report(event));
        self.open(now);
    }

    pub(super) fn open(&mut self, now: Instant) {
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
            priorities: self.settings.sort,
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
        let small = self.largest_window() / 4;
        self.due.status |= before < small && self.window() >= small;
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
        let gap = gap.filter(|_| self.out.must_tell_of_gap(self.peer_next) && !self.due.gap);
        // Asked after each packet and each message.
        let of_peer = sooner(sooner(repeat, asked.map(|asked| asked + GONE)), sooner(idle, hole));
        let of_end = sooner(gap, self.leave_by());
        let of_data = sooner(self.queue.next_expiry(), self.out.next_timeout(&self.rtt));
        sooner(sooner(of_peer, of_end), sooner(of_data, self.pace.next()))
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

/// A status goes out as soon as it is asked for.
pub(super) const RTO: RtoSettings = live_rto(Duration::ZERO);
/// Requests whose times are remembered: a packet each for a round trip of 300 ms at 5 ms a packet.
pub(super) const MOST_REQUESTS: usize = 64;
/// Messages on their way for which memory is reserved.
const LEAST_RESERVED: usize = 32;

//! A member of a group: receives what one sender sends to all, and asks for what it lacks.

use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, PathStats, Profile,
    Received, Rng, SendError, Transmit,
};

use super::backoff::draw;
use super::combination::{Combination, Content};
use super::decoder::Decoder;
use super::{STATUS_SIZE, WINDOW};
use crate::inbox::Inbox;
use crate::queue::{Room, SendQueue};
use crate::seeds::Seeds;
use crate::tally::{Datagram, Tally};
use crate::xtp::incoming::{Arrival, Incoming, MOST_SPANS, Taken};
use crate::xtp::settings::Settings;
use crate::xtp::wire::{
    self, HEADER, Header, JOIN, Key, Segment, Status, Traffic, Writer, diag, format, option, service,
};
use crate::xtp::{MAX_MESSAGE, MIN_PACKET};

/// The association of a receiver with the sender to its group.
pub(in crate::xtp) struct GroupMember {
    settings: Settings,
    packet: usize,
    queue: SendQueue,
    inbox: Inbox,
    tally: Tally,
    incoming: Incoming,
    decoder: Decoder,
    rng: Rng,
    /// Key and path of the sender; `None` before it was heard.
    sender: Option<(Key, PathId)>,
    own: Key,
    membership: Membership,
    /// Whether a message has begun, so that positions are known.
    started: bool,
    /// Number of the sender's latest packet.
    echo: u32,
    heard: Instant,
    /// Position behind the farthest byte that has left the sender.
    sent_to: u64,
    /// The sender repairs nothing.
    no_repairs: bool,
    /// Over how long requests are spread, how often reports are sent, and how many members there are, as the sender says.
    spread: Duration,
    interval: Duration,
    members: f64,
    rtt: Duration,
    /// When it asks for what it lacks, and how long it waits before it asks again.
    ask_at: Option<Instant>,
    ask_again: Duration,
    /// When it asked last, and the position up to which all had come then.
    asked: (Instant, u64),
    report_at: Option<Instant>,
    /// A packet has come behind a gap that was not there before.
    new_gap: bool,
    /// A report is to be sent now.
    report: bool,
    leave: bool,
    /// Reports that are still to say that packets were passed over.
    passed_over: u32,
    /// Number of its own latest packet.
    sync: u32,
    closed: bool,
}

/// How far a member is on its way into the group.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Membership {
    /// It asks to become one: when next, how often it has asked, when it last did, and the bytes that the sender has sent it more than it
    /// has answered: an address that has proved nothing gets no more than that.
    Asking {
        at: Instant,
        due: bool,
        times: u32,
        asked: Instant,
        credit: usize,
    },
    /// It returns what it was offered.
    Proving {
        at: Instant,
        due: bool,
        times: u32,
        key: Key,
        number: u64,
        sync: u32,
    },
    Member {
        key: Key,
        number: u64,
    },
    /// The sender takes no more; it listens, and asks again later.
    Refused {
        until: Instant,
    },
    /// No sender has been heard.
    Unheard,
}

impl GroupMember {
    /// `packet`: bytes of the largest packet.
    pub fn open(settings: Settings, packet: usize, seeds: &Seeds, now: Instant) -> Self {
        let mut rng = Rng::fork(seeds.next(), "xtp member");
        let own = Key::new(rng.next_u32(), 0, settings.port);
        GroupMember {
            settings,
            packet,
            queue: SendQueue::new(Room::LEAN, packet),
            inbox: Inbox::new(Room::LEAN, packet),
            tally: Tally::default(),
            incoming: Incoming::new(settings.ordered).with_window(WINDOW),
            decoder: Decoder::new(),
            rng,
            sender: None,
            own,
            membership: Membership::Unheard,
            started: false,
            echo: 0,
            heard: now,
            sent_to: 0,
            no_repairs: false,
            spread: Duration::ZERO,
            interval: FIRST_INTERVAL,
            members: 1.0,
            rtt: FIRST_RTT,
            ask_at: None,
            ask_again: LEAST_AGAIN,
            asked: (now, 0),
            report_at: None,
            new_gap: false,
            report: false,
            leave: false,
            passed_over: 0,
            sync: 0,
            closed: false,
        }
    }

    fn handle_packet(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram { path, bytes, received_at } = datagram;
        let parsed = wire::parse(bytes).filter(|(header, _)| header.has(option::MULTI));
        let Some((header, segment)) = parsed else { return self.tally.on_malformed() };
        if let (Segment::Diag { code: diag::INVALID_CONTEXT, .. }, Membership::Member { key, .. }) =
            (segment, self.membership)
            && header.key == key
            && self.sender.is_some_and(|(_, sender)| sender == path)
        {
            // It was silent for so long that it counts as gone.
            let (at, asked) = (now + FIRST_AGAIN, now);
            self.membership = Membership::Asking { at, due: false, times: 0, asked, credit: 0 };
            return;
        }
        if header.returned {
            return self.handle_own(now, path, &header, &segment);
        }
        let (key, sender) = *self.sender.get_or_insert((header.key, path));
        if (key, sender) != (header.key, path) || !self.is_plausible(&header, &segment) {
            // Another sender behind the same address: ours has been started again.
            if sender == path && now.since(self.heard) >= RESTART_SILENCE && key != header.key {
                return self.end(CloseReason::Restarted);
            }
            return self.tally.on_malformed();
        }
        if self.membership == Membership::Unheard {
            self.begin(now, key);
        }
        self.heard = received_at;
        if header.sync.wrapping_sub(self.echo) as i32 > 0 {
            self.echo = header.sync;
        }
        if let Membership::Asking { credit, .. } = &mut self.membership {
            *credit = (*credit + bytes.len()).min(MOST_CREDIT);
        }
        self.no_repairs = header.has(option::NOERR);
        match segment {
            Segment::Data { tag, bytes } => {
                let content = Content { tag, ends: header.has(option::EOM), sort: header.sort, bytes };
                self.take(header.seq, content, (path, received_at));
            }
            Segment::Repair(body) => self.handle_repair(now, header.seq, body, (path, received_at)),
            Segment::Traffic { status, spread, traffic, .. } => {
                self.handle_announcement(header.seq, &status, spread, &traffic);
            }
            Segment::First { .. } => self.sent_to = self.sent_to.max(header.seq),
            _ => self.tally.on_malformed(),
        }
        self.look_for_gaps(now);
        if header.has(option::END) {
            self.end(CloseReason::Peer);
        }
    }

    /// The sender is heard for the first time.
    fn begin(&mut self, now: Instant, key: Key) {
        self.own = Key::new(self.own.rest(), key.owner(), self.settings.port);
        self.queue.make_room(Room::PROVED, self.packet);
        self.inbox.make_room(Room::PROVED, self.packet);
        self.incoming.reserve(LEAST_RESERVED, self.packet);
        self.decoder.reserve(self.packet);
        // All hear the sender at once, and need not all ask at once.
        let at = now + SPREAD_JOINS.mul_f64(self.rng.unit());
        self.membership = Membership::Asking { at, due: false, times: 0, asked: now, credit: 0 };
        self.queue.report(Event::Connected);
    }

    /// Whether the numbers of a packet fit the stream so far.
    fn is_plausible(&self, header: &Header, segment: &Segment<'_>) -> bool {
        let len = if let Segment::Data { bytes, .. } = segment { bytes.len() as u64 } else { 0 };
        let Some(end) = header.seq.checked_add(len).filter(|end| *end < 1 << 62) else { return false };
        // Far ahead of what has come: a sender after an outage, whose announcement says so, or a forgery.
        !self.started || self.incoming.is_in_window(end) || matches!(segment, Segment::Traffic { .. })
    }

    /// Takes a data packet; `via`: its path, and when it came.
    fn take(&mut self, from: u64, content: Content<'_>, via: (PathId, Instant)) {
        let Content { tag, ends, sort, bytes } = content;
        if !self.started {
            // The middle of a message is of no use.
            if tag.is_none() {
                return;
            }
            self.started = true;
            self.incoming.start_at(from);
        }
        let (path, received_at) = via;
        let arrival = Arrival { from, bytes, begins: tag.is_some(), ends, sort, path, received_at };
        match self.incoming.take(arrival, &mut self.inbox) {
            Taken::New { gap } => {
                self.new_gap |= gap;
                self.sent_to = self.sent_to.max(from + bytes.len() as u64);
                self.decoder.keep(from, content);
                self.take_found(via);
            }
            Taken::Duplicate => self.tally.on_duplicate(),
            Taken::Refused => {}
            Taken::Malformed => self.tally.on_malformed(),
        }
    }

    /// Takes what combinations have brought to light.
    fn take_found(&mut self, (path, received_at): (PathId, Instant)) {
        while let Some(found) = self.decoder.poll_found() {
            let Content { tag, ends, sort, bytes } = found.content();
            let from = found.from;
            let arrival = Arrival { from, bytes, begins: tag.is_some(), ends, sort, path, received_at };
            if let Taken::New { .. } = self.incoming.take(arrival, &mut self.inbox) {
                self.decoder.keep_found(found);
            }
        }
    }

    fn handle_repair(&mut self, now: Instant, seq: u64, body: &[u8], via: (PathId, Instant)) {
        let Some(combination) = Combination::read(seq, body) else { return self.tally.on_malformed() };
        if !self.started {
            return;
        }
        let incoming = &self.incoming;
        let of_use = self.decoder.take(&combination, |from| !incoming.has(from));
        self.take_found(via);
        if of_use {
            self.put_off(now);
        }
    }

    /// Others have asked for what this member lacks: it waits for what comes of that.
    fn put_off(&mut self, now: Instant) {
        if self.ask_at.is_some() && self.spread > Duration::ZERO {
            let wait = self.rtt + draw(&mut self.rng, self.spread, self.members);
            self.ask_at = self.ask_at.max(Some(now + wait));
        }
    }

    fn handle_announcement(&mut self, seq: u64, status: &Status, spread: u32, traffic: &Traffic) {
        self.sent_to = self.sent_to.max(seq);
        self.set_pace(spread, traffic);
        self.members = f64::from(status.echo);
        let given_up = status.rseq.min(seq);
        if self.started && given_up > self.incoming.next() {
            self.incoming.give_up(given_up, &mut self.inbox);
            self.decoder.give_up(given_up);
            self.passed_over = TIMES_TOLD;
        }
    }

    fn set_pace(&mut self, spread: u32, traffic: &Traffic) {
        self.spread = Duration::from_micros(u64::from(spread)).min(super::MOST_SPREAD);
        let rate = f64::from(traffic.in_rate.max(1));
        let interval = Duration::from_secs_f64(STATUS_SIZE as f64 / rate);
        self.interval = interval.clamp(FIRST_INTERVAL, LONGEST_INTERVAL);
    }

    /// Packets to this member alone.
    fn handle_own(&mut self, now: Instant, path: PathId, header: &Header, segment: &Segment<'_>) {
        let ours = header.key == self.own && self.sender.is_some_and(|(_, sender)| sender == path);
        if !ours {
            return self.tally.on_malformed();
        }
        self.heard = now;
        match (*segment, self.membership) {
            (Segment::Join { status, key, .. }, Membership::Asking { asked, .. }) => {
                self.rtt = now.since(asked).clamp(LEAST_AGAIN / 20, LONGEST_INTERVAL);
                if !self.started && status.rseq < 1 << 62 {
                    // Where the stream was when it asked: from there on it gets everything.
                    self.started = true;
                    self.incoming.start_at(status.rseq);
                } else if self.incoming.is_in_window(status.rseq) {
                    self.incoming.give_up(status.rseq, &mut self.inbox);
                }
                let (number, sync) = (header.seq, header.sync);
                self.membership = Membership::Proving { at: now, due: true, times: 0, key, number, sync };
            }
            (Segment::Traffic { status, spread, traffic, .. }, Membership::Proving { key, number, .. }) => {
                self.membership = Membership::Member { key, number };
                self.handle_announcement(header.seq, &status, spread, &traffic);
                self.report_at = Some(now + self.interval.mul_f64(self.rng.unit()));
                self.look_for_gaps(now);
            }
            (Segment::Traffic { .. } | Segment::Join { .. }, _) => {}
            (Segment::Diag { code: diag::CONTEXT_ABANDONED, .. }, Membership::Member { .. }) => {
                self.end(CloseReason::Refused);
            }
            (
                Segment::Diag { code: diag::JOIN_REFUSED, .. },
                Membership::Asking { .. } | Membership::Proving { .. },
            ) => {
                self.membership = Membership::Refused { until: now + REFUSED };
            }
            _ => self.tally.on_malformed(),
        }
    }

    fn is_member(&self) -> bool {
        matches!(self.membership, Membership::Member { .. })
    }

    /// Plans to ask for what is missing.
    fn look_for_gaps(&mut self, now: Instant) {
        let lacks = self.started && self.incoming.next() < self.sent_to && !self.no_repairs;
        if !lacks || !self.is_member() {
            self.ask_at = None;
        } else if self.ask_at.is_none() || std::mem::take(&mut self.new_gap) {
            // What is newly missing does not wait for the time at which the rest is asked for again.
            let spread = draw(&mut self.rng, self.spread, self.members);
            let between = (self.interval / ASKS_PER_REPORT).max(BETWEEN_ASKS);
            let at = (now + REORDERED).max(self.asked.0 + between) + spread;
            self.ask_at = Some(self.ask_at.map_or(at, |before| before.min(at)));
        }
    }

    fn end(&mut self, reason: CloseReason) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.queue.finish_all(Outcome::Aborted);
        self.queue.report(Event::Closed(reason));
    }

    /// Options of its packets.
    fn options(&self) -> u32 {
        option::MULTI | if self.settings.nocheck { option::NOCHECK } else { 0 }
    }

    /// The header of a packet to the sender.
    fn header(&mut self, options: u32) -> Option<Header> {
        let Membership::Member { key, number } = self.membership else { return None };
        self.sync = self.sync.wrapping_add(1);
        let options = self.options() | options;
        Some(Header { key, returned: true, options, sort: 0, sync: self.sync, seq: number })
    }

    fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let (sender, _) = self.sender?;
        match &mut self.membership {
            Membership::Asking { at, due, times, asked, credit }
                if *credit >= JOIN && (*due || now >= *at) =>
            {
                *credit -= JOIN;
                (*due, *asked) = (false, now);
                let again = (FIRST_AGAIN * (1 << *times.min(&mut 5))).min(LONGEST_JOIN);
                *at = now + again.mul_f64(0.5 + self.rng.unit());
                *times += 1;
                let join =
                    Header { key: sender, returned: true, options: 0, sort: 0, sync: self.echo, seq: 0 };
                return Some(self.write_join(&join, self.echo, buf));
            }
            Membership::Proving { at, due, times, key, number, sync } if *due => {
                *due = false;
                // Soon, as the sender waits for a member that it knows; it counts as silent after half a second.
                *at = now + (self.rtt.mul_f64(1.5).max(LEAST_AGAIN) * (1 << *times)).min(FIRST_AGAIN);
                *times += 1;
                let (key, number, echo) = (*key, *number, *sync);
                let proof = Header { key, returned: true, options: 0, sort: 0, sync: self.sync, seq: number };
                return Some(self.write_join(&proof, echo, buf));
            }
            Membership::Member { .. } => {}
            _ => return None,
        }
        if std::mem::take(&mut self.leave) {
            let len = self.write_report(now, option::END, buf);
            self.end(CloseReason::Local);
            return len;
        }
        if std::mem::take(&mut self.report) {
            return self.write_report(now, 0, buf);
        }
        let message = self.queue.pop(now)?;
        let header = self.header(option::EOM | option::NOERR)?;
        let mut writer = Writer::new(buf, &header, format::DATA);
        writer.bytes(&message.bytes);
        let len = writer.finish();
        self.queue.finish(message, Outcome::Released);
        Some(len)
    }

    /// Asks to become a member, or proves the address.
    fn write_join(&self, header: &Header, echo: u32, buf: &mut [u8]) -> usize {
        let header = Header { options: self.options(), ..*header };
        let mut writer = Writer::new(buf, &header, format::JCNTL);
        let next = if self.started { self.incoming.next() } else { self.sent_to };
        writer.keyed_status(&Status { rseq: next, alloc: next + WINDOW as u64, echo }, self.own);
        writer.address([0; 4], (self.own.owner(), self.own.other()));
        writer.traffic(service::RELIABLE_MULTICAST, None);
        writer.finish()
    }

    /// What has come and what is missing: CNTL, or ECNTL where something is.
    fn write_report(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> Option<usize> {
        let options = options | if self.passed_over > 0 { option::NOERR } else { 0 };
        self.passed_over = self.passed_over.saturating_sub(1);
        // How many fewer combinations it lacks than packets.
        let header = Header { sort: self.decoder.waiting() as u16, ..self.header(options)? };
        let next = if self.started { self.incoming.next() } else { self.sent_to };
        let room = WINDOW.saturating_sub(self.incoming.held() + self.inbox.fill());
        let status = Status { rseq: next, alloc: next + room as u64, echo: self.echo };
        let spans = self.incoming.spans().count().min(MOST_SPANS);
        let spans = spans.min((self.packet - HEADER - wire::STATUS - 4) / wire::SPAN);
        let mut writer = Writer::new(buf, &header, if spans == 0 { format::CNTL } else { format::ECNTL });
        writer.status(&status);
        if spans > 0 {
            writer.u32(spans as u32);
            for (left, right) in self.incoming.spans().take(spans) {
                writer.u64(left);
                writer.u64(right);
            }
        }
        self.report_at = Some(now + self.interval.mul_f64(0.5 + self.rng.unit()));
        Some(writer.finish())
    }
}

impl Endpoint for GroupMember {
    fn profile(&self) -> Profile {
        let max_message = self.packet - HEADER;
        let base = Profile::of_datagrams(max_message, MAX_MESSAGE, HEADER);
        Profile { ordered: self.settings.ordered, ..base }
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.incoming.reserve(messages.max(LEAST_RESERVED), self.packet);
        self.decoder.reserve(self.packet);
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.closed || self.leave {
            return Err(SendError::Closed);
        }
        self.queue.push(message, self.packet - HEADER)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if self.closed {
            return;
        }
        while mode == CloseMode::Abort
            && let Some(message) = self.queue.pop(now)
        {
            self.queue.finish(message, Outcome::Aborted);
        }
        match self.is_member() {
            true => self.leave = true,
            false => self.end(CloseReason::Local),
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.closed {
            return;
        }
        match input {
            Input::MaxDatagram(most) => self.packet = self.packet.min(most.max(MIN_PACKET)),
            input => {
                if let Some(datagram) = self.tally.take(input, &mut self.queue) {
                    let received_at = datagram.received_at.min(now);
                    self.handle_packet(now, Datagram { received_at, ..datagram });
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.queue.expire(now);
        if self.ask_at.is_some_and(|at| at <= now) {
            self.report = true;
            // Repairs come: it asks as soon as ever.
            let least = self.rtt.mul_f64(1.5).max(LEAST_AGAIN).max(self.interval / ASKS_PER_REPORT);
            let next = self.incoming.next();
            self.ask_again = if next > self.asked.1 {
                least
            } else {
                (2 * self.ask_again).clamp(least, MOST_AGAIN.max(least))
            };
            self.asked = (now, next);
            self.ask_at = Some(now + self.ask_again + draw(&mut self.rng, self.spread, self.members));
        }
        if self.report_at.is_some_and(|at| at <= now) {
            self.report = true;
            self.report_at = Some(now + self.interval);
        }
        match &mut self.membership {
            Membership::Asking { at, due, credit, .. } if *at <= now => {
                // Without packets of the sender nothing is asked.
                *due = *credit >= JOIN;
                *at = now + FIRST_AGAIN;
            }
            Membership::Proving { at, times, .. } if *at <= now && *times >= MOST_PROOFS => {
                self.membership =
                    Membership::Asking { at: now + FIRST_AGAIN, due: false, times: 0, asked: now, credit: 0 };
            }
            Membership::Proving { at, due, .. } if *at <= now => {
                *due = true;
                *at = now + FIRST_AGAIN;
            }
            Membership::Refused { until } if *until <= now => {
                self.membership =
                    Membership::Asking { at: now + FIRST_AGAIN, due: false, times: 0, asked: now, credit: 0 };
            }
            _ => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.closed {
            return None;
        }
        let len = self.next_packet(now, buf)?;
        let (_, path) = self.sender?;
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        let received = self.inbox.pop(buf)?;
        self.incoming.resume(&mut self.inbox);
        Some(received)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let membership = match self.membership {
            Membership::Asking { at, due: false, credit, .. } if credit >= JOIN => Some(at),
            Membership::Proving { at, due: false, .. } => Some(at),
            Membership::Refused { until } => Some(until),
            _ => None,
        };
        let report = self.report_at.filter(|_| self.is_member());
        [membership, self.ask_at, report, self.queue.next_expiry()].into_iter().flatten().min()
    }

    fn stats(&self) -> PathStats {
        let rtt = self.is_member().then_some(self.rtt);
        let counters = self.tally.counters(&self.queue, &self.inbox);
        PathStats { srtt: rtt, min_rtt: rtt, counters, ..PathStats::default() }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        self.sender.is_some_and(|(_, sender)| sender == path).then(|| self.stats())
    }
}

/// A packet that comes this late is not asked for: packets overtake each other by little.
const REORDERED: Duration = Duration::from_millis(2);
/// So many requests at most in the time from one report to the next: all members' requests together have a quarter of the data's rate.
const ASKS_PER_REPORT: u32 = 5;
/// The shortest time from one request to the next.
const BETWEEN_ASKS: Duration = Duration::from_millis(10);
/// The shortest and the longest wait before what is still missing is asked for again.
const LEAST_AGAIN: Duration = Duration::from_millis(20);
const MOST_AGAIN: Duration = Duration::from_millis(500);
/// How often reports are sent before the sender has said so, and at least.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);
/// Before the offer has come.
const FIRST_RTT: Duration = Duration::from_millis(20);
/// A join without an answer is repeated first after this, then ever more rarely.
const FIRST_AGAIN: Duration = Duration::from_millis(250);
const LONGEST_JOIN: Duration = Duration::from_secs(1);
/// Joins are spread over this.
const SPREAD_JOINS: Duration = Duration::from_millis(50);
/// Reports in a row that say that packets were passed over, as one may be lost.
const TIMES_TOLD: u32 = 3;
/// Proofs without an answer, after which a member asks anew.
const MOST_PROOFS: u32 = 8;
/// Bytes of a sender's packets that its own packets are weighed against.
const MOST_CREDIT: usize = 10_000;
/// How long a member that was refused waits.
const REFUSED: Duration = Duration::from_secs(30);
/// Silence after which another sender behind the same address is the one of before, started again.
const RESTART_SILENCE: Duration = Duration::from_millis(200);
const LEAST_RESERVED: usize = 256;

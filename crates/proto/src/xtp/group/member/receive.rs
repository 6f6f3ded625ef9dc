//! Packets of the sender, to all or to this member alone.

use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant, PathId};

use super::super::backoff::draw;
use super::super::combination::{Combination, Content};
use super::super::{MOST_SPREAD, STATUS_SIZE};
use super::{FIRST_INTERVAL, GroupMember, LEAST_AGAIN, LEAST_RESERVED, LONGEST_INTERVAL, Membership};
use crate::queue::Room;
use crate::tally::Datagram;
use crate::xtp::incoming::{Arrival, Taken};
use crate::xtp::wire::{self, Header, Key, Segment, Status, Traffic, diag, option};

impl GroupMember {
    pub(super) fn handle_packet(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram { path, bytes, received_at } = datagram;
        let parsed = wire::parse(bytes).filter(|(header, _)| header.has(option::MULTI));
        let Some((header, segment)) = parsed else { return self.tally.on_malformed() };
        if let (Segment::Diag { code: diag::INVALID_CONTEXT, .. }, Membership::Member { key, .. }) =
            (segment, self.membership)
            && header.key == key
            && self.sender.is_some_and(|(_, sender)| sender == path)
        {
            // It was silent for so long that it counts as gone.
            return self.ask_anew(now);
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
            self.echo = header.sync;
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
                self.handle_announcement(now, header.seq, &status, spread, &traffic);
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
    pub(super) fn begin(&mut self, now: Instant, key: Key) {
        self.own = Key::new(self.own.rest(), key.owner(), self.own.owner());
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
    pub(super) fn is_plausible(&self, header: &Header, segment: &Segment<'_>) -> bool {
        let len = if let Segment::Data { bytes, .. } = segment { bytes.len() as u64 } else { 0 };
        let Some(end) = header.seq.checked_add(len).filter(|end| *end < 1 << 62) else { return false };
        // Far ahead of what has come: a sender after an outage, whose announcement says so, or a forgery.
        !self.started || self.incoming.is_in_window(end) || matches!(segment, Segment::Traffic { .. })
    }

    /// Takes a data packet; `via`: its path, and when it came.
    pub(super) fn take(&mut self, from: u64, content: Content<'_>, via: (PathId, Instant)) {
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
                self.decoder.keep(self.incoming.next(), from, content);
                self.take_found(via);
            }
            Taken::Duplicate => self.tally.on_duplicate(),
            Taken::Refused => {}
            Taken::Malformed => self.tally.on_malformed(),
        }
    }

    /// Takes packets that were found from combinations.
    pub(super) fn take_found(&mut self, (path, received_at): (PathId, Instant)) {
        while let Some(found) = self.decoder.poll_found() {
            let Content { tag, ends, sort, bytes } = found.content();
            let from = found.from;
            let arrival = Arrival { from, bytes, begins: tag.is_some(), ends, sort, path, received_at };
            let taken = self.incoming.take(arrival, &mut self.inbox);
            self.decoder.return_found(self.incoming.next(), found, matches!(taken, Taken::New { .. }));
        }
    }

    pub(super) fn handle_repair(&mut self, now: Instant, seq: u64, body: &[u8], via: (PathId, Instant)) {
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
    pub(super) fn put_off(&mut self, now: Instant) {
        if self.ask_at.is_some() && self.spread > Duration::ZERO {
            let wait = self.rtt + draw(&mut self.rng, self.spread, self.members);
            self.ask_at = self.ask_at.max(Some(now + wait));
        }
    }

    pub(super) fn handle_announcement(
        &mut self,
        now: Instant,
        seq: u64,
        status: &Status,
        spread: u32,
        traffic: &Traffic,
    ) {
        self.sent_to = self.sent_to.max(seq);
        self.set_pace(now, spread, traffic);
        self.members = f64::from(status.echo);
        self.skip_to(status.rseq.min(seq));
    }

    /// What is missing before `position` does not come any more.
    fn skip_to(&mut self, position: u64) {
        if self.started && position > self.incoming.next() {
            self.incoming.skip_to(position, &mut self.inbox);
            self.decoder.give_up(position);
            self.passed_over = TIMES_TOLD;
        }
    }

    pub(super) fn set_pace(&mut self, now: Instant, spread: u32, traffic: &Traffic) {
        self.spread = Duration::from_micros(u64::from(spread)).min(MOST_SPREAD);
        self.rate = f64::from(traffic.in_rate.max(1));
        let interval = Duration::from_secs_f64(STATUS_SIZE as f64 / self.rate);
        let before = self.interval;
        self.interval = interval.clamp(FIRST_INTERVAL, LONGEST_INTERVAL);
        if self.interval < before {
            // The sender waits for reports that a faster stream makes more urgent (as in RFC 3550 §6.3.4).
            let share = self.interval.as_secs_f64() / before.as_secs_f64();
            self.report_at = self.report_at.map(|at| at.min(now + at.since(now).mul_f64(share)));
        }
    }

    /// Packets to this member alone.
    pub(super) fn handle_own(&mut self, now: Instant, path: PathId, header: &Header, segment: &Segment<'_>) {
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
                } else if status.rseq < 1 << 62 {
                    self.skip_to(status.rseq);
                }
                let (number, sync) = (header.seq, header.sync);
                self.membership = Membership::Proving { at: now, due: true, times: 0, key, number, sync };
            }
            (Segment::Traffic { status, spread, traffic, .. }, Membership::Proving { key, number, .. }) => {
                self.membership = Membership::Member { key, number };
                self.handle_announcement(now, header.seq, &status, spread, &traffic);
                self.report_at = Some(now + self.interval.mul_f64(self.rng.unit()));
                self.look_for_gaps(now);
            }
            (Segment::Traffic { .. }, Membership::Member { .. }) => self.report |= header.has(option::SREQ),
            (Segment::Traffic { .. } | Segment::Join { .. }, _) => {}
            (Segment::Diag { code: diag::CONTEXT_ABANDONED, .. }, Membership::Member { .. })
            | (
                Segment::Diag { code: diag::JOIN_REFUSED, .. },
                Membership::Asking { .. } | Membership::Proving { .. },
            ) => {
                self.lose_membership(Membership::Refused { until: now + REFUSED });
            }
            _ => self.tally.on_malformed(),
        }
    }

    /// Plans to ask for what is missing.
    pub(super) fn look_for_gaps(&mut self, now: Instant) {
        let lacks = self.started && self.incoming.next() < self.sent_to && !self.no_repairs;
        if !lacks || !self.is_member() {
            self.ask_at = None;
        } else if self.ask_at.is_none() || std::mem::take(&mut self.new_gap) {
            // What is newly missing does not wait for the time at which the rest is asked for again.
            let spread = draw(&mut self.rng, self.spread, self.members);
            let between = self.ask_pause.max(BETWEEN_ASKS);
            let at = (now + REORDERED).max(self.asked.0 + between) + spread;
            self.ask_at = Some(self.ask_at.map_or(at, |before| before.min(at)));
        }
    }
}

/// A packet that comes this late is not asked for: packets overtake each other by little.
const REORDERED: Duration = Duration::from_millis(2);
/// The shortest time from one request to the next.
const BETWEEN_ASKS: Duration = Duration::from_millis(10);
/// Joins are spread over this.
const SPREAD_JOINS: Duration = Duration::from_millis(50);
/// Reports in a row that say that packets were passed over, as one may be lost.
const TIMES_TOLD: u32 = 3;
/// Bytes of a sender's packets that its own packets are weighed against.
const MOST_CREDIT: usize = 10_000;
/// How long a member that was refused waits.
const REFUSED: Duration = Duration::from_secs(30);
/// Silence after which another sender behind the same address is the one of before, started again.
const RESTART_SILENCE: Duration = Duration::from_millis(200);

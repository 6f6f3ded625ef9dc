//! Packets to send.

use std::time::Duration;

use antiphon_core::{Instant, PathId};

use super::endpoint::{MOST_REQUESTS, Stage, Xtp};
use super::incoming::MOST_SPANS;
use super::outgoing::{LARGE, part_len};
use super::settings::{Acks, Flow, Reliability};
use super::wire::{HEADER, Header, SPAN, STATUS, TAG, Writer, format, option, service};
use crate::limit::INITIAL_PACKETS;
use crate::mtu::RAISE_TIMER;

impl Xtp {
    /// Options of every packet.
    pub(super) fn common_options(&self) -> u32 {
        let mut options = 0;
        let mut set = |condition, option| options |= if condition { option } else { 0 };
        set(self.settings.nocheck, option::NOCHECK);
        set(self.settings.flow == Flow::Off, option::NOFLOW);
        set(self.settings.flow == Flow::Reserved, option::RES);
        set(self.settings.sort, option::SORT);
        options
    }

    /// The header of a control packet, which takes the next number. `position`: what its `seq` says.
    pub(super) fn control(&mut self, now: Instant, options: u32, position: u64) -> Header {
        let number = self.out.rack.on_send();
        if options & option::SREQ != 0 {
            self.note_request(now, number);
        }
        let seq = self.own_first.wrapping_add(position);
        let key = self.peer_key.unwrap_or(self.own_key);
        let returned = self.peer_key.is_some();
        Header { key, returned, options: options | self.common_options(), sort: 0, sync: number as u32, seq }
    }

    pub(super) fn note_request(&mut self, now: Instant, number: u64) {
        if self.requests.len() == MOST_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back((number, now));
        self.timers.asked.get_or_insert(now);
        self.last_request = Some(now);
        self.since_request = 0;
        self.out.on_request(now);
        if self.timers.repeat.is_none() {
            self.arm(now);
        }
    }

    /// Writes the next packet; returns its path and length.
    pub(super) fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
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
    pub(super) fn write_step(&mut self, now: Instant, buf: &mut [u8]) -> usize {
        if self.stage == Stage::Proving {
            return self.write_traffic(now, option::SREQ, 0, buf);
        }
        let header = self.control(now, option::SREQ, 0);
        let mut writer = Writer::new(buf, &header, format::FIRST);
        writer.address([0; 4], (self.own_key.owner(), self.own_key.other()));
        writer.traffic(service::RELIABLE_STREAM, Some(&self.settings.traffic));
        writer.finish()
    }

    pub(super) fn write_traffic(
        &mut self,
        now: Instant,
        options: u32,
        position: u64,
        buf: &mut [u8],
    ) -> usize {
        let header = self.control(now, options, position);
        let mut writer = Writer::new(buf, &header, format::TCNTL);
        writer.keyed_status(&self.status(), self.own_key);
        writer.traffic(service::RELIABLE_STREAM, Some(&self.settings.traffic));
        writer.finish()
    }

    pub(super) fn write_status(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> usize {
        self.write_status_at(now, options, self.out.next(), buf)
    }

    /// CNTL, or ECNTL where something is missing.
    pub(super) fn write_status_at(
        &mut self,
        now: Instant,
        options: u32,
        position: u64,
        buf: &mut [u8],
    ) -> usize {
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
    pub(super) fn is_held(&self) -> bool {
        self.settings.reliability == Reliability::Full && (self.timers.times > 0 || !self.out.limit.allows())
    }

    /// Whether only repairs leave: the peer holds many ranges, and more packets could make more of them than it holds, of
    /// which it would drop the last. Where things are given up, the gaps are too, and live sound waits for none.
    fn must_repair_first(&self) -> bool {
        let full = self.settings.reliability == Reliability::Full;
        full && self.peer_ranges >= MANY_RANGES && self.out.unsettled_parts() >= SAFE_PARTS
    }

    pub(super) fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if self.is_held() || (self.stage == Stage::Proving && self.settings.reliability == Reliability::Full)
        {
            return None;
        }
        self.due.probe |= self.out.expire(now, &self.rtt, &mut self.queue);
        self.find_narrow_path(now);
        let most = self.packet - HEADER - TAG;
        let most = if self.narrow_until.is_some() { most.min(LARGE) } else { most };
        if let Some(len) = self.out.peek_repeat(most) {
            if !self.pace.take(now, HEADER + TAG + len) {
                return None;
            }
            self.tally.on_repeat();
            return Some(self.write_part(now, true, most, buf));
        }
        if self.must_repair_first() {
            return None;
        }
        if self.out.uncut() == 0 {
            let waiting = match self.settings.sort {
                true => self.queue.peek_urgent(now),
                false => self.queue.peek_len(now, false),
            };
            let len = part_len(waiting?, 0, most);
            if !self.may_send(len) || !self.pace.take(now, HEADER + TAG + len) {
                return None;
            }
            let message = if self.settings.sort { self.queue.pop_urgent(now) } else { self.queue.pop(now) };
            self.out.begin(message?);
        } else {
            let len = self.out.next_part(most);
            if !self.may_send(len) || !self.pace.take(now, HEADER + len) {
                return None;
            }
        }
        Some(self.write_part(now, false, most, buf))
    }

    /// Packets are small for a while where large ones are lost one after another. Congestion and outages lose as many, so they are
    /// tried again soon, and ever more rarely while none arrives.
    fn find_narrow_path(&mut self, now: Instant) {
        if self.out.take_large_arrived() && self.narrow_until.is_none() {
            self.narrow_for = FIRST_NARROW;
        }
        if self.out.take_black_hole() {
            self.narrow_until = Some(now + self.narrow_for);
            self.narrow_for = (2 * self.narrow_for).min(RAISE_TIMER);
        }
        self.narrow_until = self.narrow_until.filter(|until| *until > now);
    }

    /// Whether the peer takes so many more bytes.
    pub(super) fn may_send(&self, len: usize) -> bool {
        // What the peer takes is not known before its first status: then as much as a TCP sends at first.
        let first_window = u64::from(INITIAL_PACKETS) * self.packet as u64;
        let before_any_status = self.stage == Stage::Proving || self.alloc == 0;
        self.settings.flow == Flow::Off
            || self.out.next() + len as u64 <= if before_any_status { first_window } else { self.alloc }
    }

    /// Whether the next packet of new data asks for a status; `last`: no other waits.
    fn asks_with_next(&self, now: Instant, last: bool) -> bool {
        match self.settings.acks {
            Acks::Never => false,
            Acks::Every(packets) => self.since_request >= packets || last,
            Acks::OnGap => self.since_request >= REQUEST_AT_LEAST,
            Acks::Interval(interval) => self.last_request.is_none_or(|at| now.since(at) >= interval),
        }
    }

    /// Writes a packet with data: a part that is sent again, or the next of the message begun last.
    pub(super) fn write_part(&mut self, now: Instant, again: bool, most: usize, buf: &mut [u8]) -> usize {
        self.since_request += 1;
        let tracked = self.settings.reliability != Reliability::None;
        if tracked && self.timers.asked.is_none() && !self.is_leaving() {
            // What leaves later shows what became of what left before.
            self.arm(now);
        }
        let last = self.queue.is_empty() && self.out.uncut() <= most;
        // What is sent again always asks.
        let asks = self.settings.acks != Acks::Never && (again || self.asks_with_next(now, last));
        let mut options = self.common_options() | if asks { option::SREQ } else { 0 };
        options |= if tracked { option::FASTNAK } else { option::NOERR };
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

/// How long packets are small at first: no longer than a burst of losses costs anyway.
pub(super) const FIRST_NARROW: Duration = Duration::from_secs(1);
/// Ranges that a path which loses little does not leave.
const MANY_RANGES: usize = MOST_SPANS / 4;
/// So many parts make no more ranges than a peer holds.
const SAFE_PARTS: usize = 2 * MOST_SPANS;
/// Packets after which a sender asks where the receiver reports gaps by itself.
const REQUEST_AT_LEAST: u32 = 32;

//! Packets to the group: announcements, data and repairs.

use std::time::Duration;

use antiphon_core::Instant;

use super::super::combination::OVERHEAD;
use super::super::held::{ENTRY, Packet};
use super::super::{FEW_MEMBERS, LARGE_GROUP, MOST_SPREAD, NEVER_SPREAD, STATUS_SHARE, STATUS_SIZE, WINDOW};
use super::{GroupSender, LEAST_ANNOUNCEMENT, MOST_ANNOUNCEMENT, SHORTEST_STATUS, Welcome};
use crate::xtp::wire::{HEADER, Header, Key, Status, TAG, Traffic, Writer, format, option, service};

impl GroupSender {
    /// Options of every packet to the group.
    pub(super) fn options(&self) -> u32 {
        let mut options = option::MULTI;
        let mut set = |condition, option| options |= if condition { option } else { 0 };
        set(self.settings.nocheck, option::NOCHECK);
        set(self.settings.sort, option::SORT);
        set(!self.repairs_anything(), option::NOERR);
        options
    }

    /// The header of a packet to the group, which takes the next number.
    pub(super) fn group_header(&mut self, options: u32, sort: u16, seq: u64) -> Header {
        self.number += 1;
        let options = options | self.options();
        Header { key: self.key, returned: false, options, sort, sync: self.number as u32, seq }
    }

    /// The share of each member's reports, in bytes a second: together 5 % of the data's, as RFC 3550 §6.2 has it for RTCP.
    pub(super) fn status_rate(&self, now: Instant) -> u32 {
        let members = self.roster.len().max(1) as f64;
        let share = STATUS_SHARE * self.repairs.budget().peak_rate(now) / members;
        share.max(STATUS_SIZE as f64 / LONGEST_STATUS.as_secs_f64()) as u32
    }

    pub(super) fn status_interval(&self, now: Instant) -> Duration {
        let interval = Duration::from_secs_f64(STATUS_SIZE as f64 / f64::from(self.status_rate(now)));
        interval.max(SHORTEST_STATUS)
    }

    /// Over how long members spread their requests.
    pub(super) fn spread(&self) -> Duration {
        let members = self.roster.len();
        if members <= FEW_MEMBERS {
            return NEVER_SPREAD;
        }
        // Not so long that repairs come too late. Where members lack the same the first request is early, and where the bytes of
        // repairs are used up requests are not answered soon; otherwise each waits for its own.
        let alone = if members > LARGE_GROUP { ALONE_SPREAD } else { 0.0 };
        // Without deadlines nothing is sent unasked, so that requests are needed all the same.
        let exhaustion = self.horizon.map_or(0.0, |_| self.repairs.exhaustion());
        let degree = self.alike.degree().max(exhaustion);
        let horizon = self.horizon.unwrap_or(4 * MOST_SPREAD);
        let most = horizon.mul_f64(alone + degree * (ALIKE_SPREAD - alone));
        // Four times the longest round trip (RFC 5740 §5.4), and the time for which requests are collected before they are answered: members
        // that wait for less ask before the repair for the first request can come.
        let answered = 4 * self.roster.longest_rtt() + self.repairs.round(self.horizon);
        answered.min(most).min(MOST_SPREAD)
    }

    /// Whether the members' room allows a further packet. Without repairs nobody's does not.
    pub(super) fn has_window(&self, now: Instant, len: usize) -> bool {
        if !self.repairs_anything() {
            return true;
        }
        let end = self.held.next() + len as u64;
        let fits = |from: u64| self.held.cost_from(from) + len + ENTRY <= WINDOW;
        // What is not repaired any more is not waited for.
        let least =
            self.roster.least_next().is_none_or(|least| fits(least.max(self.held.repaired_from(now))));
        least && self.roster.least_alloc().is_none_or(|alloc| end <= alloc)
    }

    pub(super) fn write_first(&mut self, buf: &mut [u8]) -> usize {
        let header = self.group_header(0, 0, self.held.next());
        let mut writer = Writer::new(buf, &header, format::FIRST);
        writer.address([0; 4], (self.key.owner(), self.key.other()));
        writer.traffic(self.service(), Some(&self.settings.traffic));
        writer.finish()
    }

    pub(super) fn service(&self) -> u8 {
        if self.repairs_anything() { service::RELIABLE_MULTICAST } else { service::UNACKNOWLEDGED_MULTICAST }
    }

    /// How far the stream is, what is no longer repaired, and how members are to report.
    pub(super) fn write_announcement(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> usize {
        let header = self.group_header(options, 0, self.held.next());
        self.write_traffic(now, &header, self.key, buf)
    }

    /// Tells one that it is a member.
    pub(super) fn write_welcome(&mut self, now: Instant, welcome: &Welcome, buf: &mut [u8]) -> usize {
        let Welcome { own, key, polls, .. } = *welcome;
        let (seq, sync) = (self.held.next(), self.number as u32);
        let options = self.options() | if polls { option::SREQ } else { 0 };
        let header = Header { key: own, returned: true, options, sort: 0, sync, seq };
        self.write_traffic(now, &header, key, buf)
    }

    pub(super) fn write_traffic(&mut self, now: Instant, header: &Header, key: Key, buf: &mut [u8]) -> usize {
        let mut writer = Writer::new(buf, header, format::TCNTL);
        let (rseq, alloc) = (self.held.repaired_from(now), self.held.next());
        self.given_up_to = self.given_up_to.max(rseq);
        let status = Status { rseq, alloc, echo: self.roster.len() as u32 };
        writer.group_status(&status, self.spread().as_micros() as u32, key);
        let burst = STATUS_SIZE as u32;
        let traffic = Traffic { in_rate: self.status_rate(now), in_burst: burst, ..self.settings.traffic };
        writer.traffic(self.service(), Some(&traffic));
        writer.finish()
    }

    pub(super) fn write_repair(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.repairs.has_any() {
            return None;
        }
        let (number, options, key) = (self.number + 1, self.options(), self.key);
        let header = Header { key, returned: false, options, sort: 0, sync: number as u32, seq: 0 };
        let plain = |buf: &mut [u8], packet: &Packet<'_>| write_packet(buf, &header, packet);
        let start = |buf, first| Writer::new(buf, &Header { seq: first, ..header }, format::REPAIR);
        let len = self.repairs.write(now, number, &mut self.held, buf, plain, start)?;
        self.number = number;
        self.tally.on_repeat();
        Some(len)
    }

    pub(super) fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.held.expire_cutting(now, &mut self.queue);
        let most = self.max_data();
        let waiting = match self.held.uncut() {
            0 if self.settings.sort => self.queue.peek_urgent(now),
            0 => self.queue.peek(now).map(|message| message.bytes.len()),
            uncut => Some(uncut),
        };
        let len = waiting?.min(most);
        if !self.has_window(now, len) {
            self.blocked_since.get_or_insert(now);
            return None;
        }
        if !self.pace.take(now, HEADER + TAG + len) {
            return None;
        }
        self.blocked_since = None;
        if self.held.uncut() == 0 {
            let message = if self.settings.sort { self.queue.pop_urgent(now) } else { self.queue.pop(now) }?;
            self.horizon = message.deadline.map(|deadline| deadline.since(now)).or(self.horizon);
            self.held.begin(message);
        }
        self.held.make_room(len, WINDOW, &mut self.queue);
        let number = self.number + 1;
        let (options, key) = (self.options(), self.key);
        let packet = self.held.cut(most, number, &mut self.queue)?;
        self.number = number;
        let header = Header { key, returned: false, options, sort: 0, sync: number as u32, seq: 0 };
        let hurries = packet.deadline().is_some();
        let written = write_packet(buf, &header, &packet);
        self.repairs.on_data(now, written);
        self.repairs.add_unasked(hurries && self.repairs_anything(), &self.held);
        let gap = self.last_data.replace(now).map_or(LEAST_ANNOUNCEMENT, |before| now.since(before));
        // An announcement soon after the last packet tells members that lost it.
        let soon = (2 * gap).clamp(LEAST_ANNOUNCEMENT, MOST_ANNOUNCEMENT);
        self.announce_every = soon;
        let regular = self.announced_at.map_or(now, |told| told + MOST_ANNOUNCEMENT);
        self.announce_at = (now + soon).min(regular.max(now + Duration::from_nanos(1)));
        // The window has room for as much as is sent until members report by the interval that follows from the rate.
        self.announce |= self.intervals.is_to_be_told(self.status_interval(now));
        if !self.repairs_anything() || self.roster.len() == 0 {
            self.settle(now);
        }
        Some(written)
    }

    pub(super) fn max_data(&self) -> usize {
        self.packet - HEADER - OVERHEAD
    }
}

fn write_packet(buf: &mut [u8], header: &Header, packet: &Packet<'_>) -> usize {
    let content = packet.content();
    let options = header.options
        | if content.ends { option::EOM } else { 0 }
        | if content.tag.is_some() { option::BTAG } else { 0 };
    let header = Header { options, sort: content.sort, seq: packet.from, ..*header };
    let mut writer = Writer::new(buf, &header, format::DATA);
    content.tag.into_iter().for_each(|tag| writer.u64(tag));
    writer.bytes(content.bytes);
    writer.finish()
}

/// The share of the time that a message has over which requests are spread: where each member lacks its own packets, and where all lack the same.
const ALONE_SPREAD: f64 = 0.25;
const ALIKE_SPREAD: f64 = 1.0;
const LONGEST_STATUS: Duration = Duration::from_secs(15);

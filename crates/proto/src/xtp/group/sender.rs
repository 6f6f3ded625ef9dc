//! The sender to a group.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    ByteCount, Capabilities, CloseMode, CloseReason, Counters, Endpoint, Event, Input, Instant, Message,
    Outcome, PathId, PathStats, Profile, Received, Rng, SendError, Transmit,
};

use super::combination::OVERHEAD;
use super::held::{Held, Known, Packet};
use super::repair::Repairs;
use super::roster::{Joined, Joiner, Report, Roster};
use super::{LARGE_GROUP, MOST_MEMBERS, MOST_SPREAD, NEVER_SPREAD, STATUS_SHARE, STATUS_SIZE};
use crate::inbox::Inbox;
use crate::patience::{LONGEST_LEAVE, leave_by};
use crate::queue::{Room, SendQueue};
use crate::seeds::{Seeds, dynamic_port};
use crate::tally::{Datagram, Tally};
use crate::xtp::pace::Pace;
use crate::xtp::settings::{Reliability, Settings};
use crate::xtp::validator::{Introduction, XtpValidator};
use crate::xtp::wire::{
    self, DIAG, HEADER, Header, JOIN, Key, Segment, Spans, Status, TAG, Traffic, Writer, diag, format,
    option, service,
};
use crate::xtp::{MAX_MESSAGE, MIN_PACKET};

/// The association of a sender with a group.
pub(in crate::xtp) struct GroupSender {
    settings: Settings,
    packet: usize,
    validator: XtpValidator,
    queue: SendQueue,
    inbox: Inbox,
    tally: Tally,
    held: Held,
    roster: Roster,
    repairs: Repairs,
    pace: Pace,
    key: Key,
    /// Number of the latest packet to the group.
    number: u64,
    stage: Stage,
    /// Packets to single members and to those who want to be.
    answers: VecDeque<(PathId, Vec<u8>)>,
    /// Members that are to be told that they are: path, own key and the key for their packets.
    welcomes: VecDeque<(PathId, Key, Key)>,
    /// When the group is told how far the stream is.
    announce_at: Instant,
    announced_at: Option<Instant>,
    /// Position before which members were told that nothing is repaired.
    given_up_to: u64,
    /// From one announcement to the next, while nothing new is sent.
    announce_every: Duration,
    announce: bool,
    /// When members were looked at last.
    checked_at: Instant,
    /// New data wait since then for members that lag behind.
    blocked_since: Option<Instant>,
    last_data: Option<Instant>,
    /// From when a message is handed over to its deadline, of the latest that had one.
    horizon: Option<Duration>,
    /// How often members report: the longer of what they were told last and before.
    interval: Duration,
    told: Duration,
    closing: Option<Instant>,
    ends: Ends,
}

/// Packets that end the association.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Still to be sent.
    left: u32,
    /// When the next is sent.
    at: Instant,
    /// It is to be sent now.
    due: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Members that must be there before anything is sent are not.
    Gathering,
    Open,
    Closed,
}

impl GroupSender {
    /// `packet`: bytes of the largest packet.
    pub fn open(settings: Settings, packet: usize, seeds: &Seeds, now: Instant) -> Self {
        let mut draws = Rng::fork(seeds.next(), "xtp group");
        let port = dynamic_port(&mut draws);
        let mut sender = GroupSender {
            settings,
            packet,
            validator: XtpValidator::new(&seeds.shared(), port, false),
            queue: SendQueue::new(Room::PROVED, packet),
            inbox: Inbox::new(Room::PROVED, packet),
            tally: Tally::default(),
            // Positions never wrap: a stream begins low in their range.
            held: Held::new(u64::from(draws.next_u32())),
            roster: Roster::new(MOST_MEMBERS),
            repairs: Repairs::new(now, settings.parity),
            pace: Pace::new(settings.traffic.out_rate, settings.traffic.out_burst, now),
            key: Key::new(draws.next_u32(), settings.port, port),
            number: 0,
            stage: Stage::Gathering,
            answers: VecDeque::new(),
            welcomes: VecDeque::new(),
            announce_at: now,
            announced_at: None,
            given_up_to: 0,
            announce_every: FIRST_ANNOUNCEMENTS,
            announce: false,
            checked_at: now,
            blocked_since: None,
            last_data: None,
            horizon: None,
            interval: SHORTEST_STATUS,
            told: SHORTEST_STATUS,
            closing: None,
            ends: Ends { left: 0, at: now, due: false },
        };
        sender.held.reserve(LEAST_RESERVED);
        sender.repairs.reserve(LEAST_RESERVED);
        sender.begin_if_ready(now);
        sender
    }

    /// Key and number of the member on a path.
    #[cfg(test)]
    pub fn member_for_tests(&self, path: PathId) -> (Key, u64) {
        self.roster.on_path(path).map(|member| (member.key, member.number)).expect("a member")
    }

    fn repairs_anything(&self) -> bool {
        self.settings.reliability != Reliability::None
    }

    fn begin_if_ready(&mut self, now: Instant) {
        if self.stage == Stage::Gathering && self.roster.len() >= self.settings.wait_for {
            self.stage = Stage::Open;
            self.announce_at = now;
            self.queue.report(Event::Connected);
        }
    }

    /// Options of every packet to the group.
    fn options(&self) -> u32 {
        let mut options = option::MULTI;
        let mut set = |condition, option| options |= if condition { option } else { 0 };
        set(self.settings.nocheck, option::NOCHECK);
        set(self.settings.sort, option::SORT);
        set(!self.repairs_anything(), option::NOERR);
        options
    }

    /// The header of a packet to the group, which takes the next number.
    fn group_header(&mut self, options: u32, sort: u16, seq: u64) -> Header {
        self.number += 1;
        let options = options | self.options();
        Header { key: self.key, returned: false, options, sort, sync: self.number as u32, seq }
    }

    /// The number of the packet with this `sync`; `None` if none was sent in the last half of them.
    fn number_of(&self, sync: u32) -> Option<u64> {
        let back = (self.number as u32).wrapping_sub(sync);
        self.number.checked_sub(u64::from(back)).filter(|_| back < 1 << 31)
    }

    /// The share of each member's reports, in bytes a second: together 5 % of the data's, as RFC 3550 §6.2 has it for RTCP.
    fn status_rate(&self, now: Instant) -> u32 {
        let members = self.roster.len().max(1) as f64;
        let fastest = STATUS_SIZE as f64 / SHORTEST_STATUS.as_secs_f64();
        let share = STATUS_SHARE * self.repairs.rate(now) / members;
        share.clamp(STATUS_SIZE as f64 / LONGEST_STATUS.as_secs_f64(), fastest) as u32
    }

    fn status_interval(&self, now: Instant) -> Duration {
        Duration::from_secs_f64(STATUS_SIZE as f64 / f64::from(self.status_rate(now)))
    }

    /// Over how long members spread their requests.
    fn spread(&self) -> Duration {
        if self.roster.len() <= LARGE_GROUP {
            return NEVER_SPREAD;
        }
        // Four times the longest round trip (RFC 5740 §5.4), and not so long that repairs come too late.
        let most = self.horizon.map_or(MOST_SPREAD, |horizon| horizon / 4).min(MOST_SPREAD);
        (4 * self.roster.longest_rtt()).min(most)
    }

    /// How long after its deadline a packet's fate is asked for.
    fn patience(&self) -> Duration {
        (3 * self.interval + 2 * self.roster.longest_rtt()).min(MOST_PATIENCE)
    }

    fn handle_packet(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram { path, bytes, received_at } = datagram;
        let Some((header, segment)) = wire::parse(bytes).filter(|(header, _)| header.has(option::MULTI))
        else {
            return self.tally.on_malformed();
        };
        if let Segment::Join { status, key, .. } = segment {
            return self.handle_join(now, received_at, path, (&header, status, key));
        }
        let member = if header.returned { self.roster.index_of(header.key) } else { None };
        let Some(at) = member else {
            self.tally.on_malformed();
            return self.deny(path, &header, bytes.len());
        };
        let last = self.held.next();
        let member = self.roster.get_mut(at);
        // Key, number and path are known to the member alone.
        if member.path != path || member.number != header.seq {
            return self.tally.on_malformed();
        }
        member.heard = received_at;
        member.suspended = false;
        let newest = member.is_newest(header.sync);
        if header.has(option::END) {
            return self.remove(at);
        }
        match segment {
            Segment::Status(status, spans) if status.rseq <= last && newest => {
                self.handle_status(now, at, &header, (status, spans));
            }
            Segment::Status(status, _) if status.rseq <= last => {}
            Segment::Data { bytes, .. } if header.has(option::EOM) && !bytes.is_empty() => {
                self.inbox.push(bytes, &[], path, received_at);
            }
            _ => self.tally.on_malformed(),
        }
    }

    /// Someone asks to become a member, or proves its address.
    fn handle_join(
        &mut self,
        now: Instant,
        received_at: Instant,
        path: PathId,
        (header, status, own): (&Header, Status, Key),
    ) {
        if self.closing.is_some() {
            return;
        }
        let introduction =
            Introduction { caller: own, listener: header.key, caller_seq: 0, listener_seq: header.seq };
        if !header.returned || !self.validator.is_offer(now, path, &introduction) {
            // A request carries the key of the packets to the group. The answer has the length of the request.
            let asks = header.returned && header.key == self.key && own.other() == self.key.owner();
            return if asks { self.offer(now, path, status.rseq, own) } else { self.tally.on_malformed() };
        }
        let sent = u32_micros(now.since(Instant::ZERO)).wrapping_sub(status.echo);
        let rtt = Duration::from_micros(u64::from(sent) << TICK_SHIFT).saturating_sub(now.since(received_at));
        let next = status.rseq.clamp(self.held.repaired_from(now), self.held.next());
        let rtt = rtt.clamp(Duration::from_micros(100), LONGEST_RTT);
        let joiner = Joiner { path, key: header.key, number: header.seq, own, rtt, next };
        let joined = self.roster.join(now, joiner, &self.held);
        if joined == Joined::TooMany {
            return self.refuse(path, own, (diag::JOIN_REFUSED, diag::NO_RESOURCE));
        }
        if self.welcomes.len() < MOST_ANSWERS {
            self.welcomes.push_back((path, own, header.key));
        }
        if let Joined::Now { replaces } = joined {
            if replaces {
                self.queue.report(Event::MemberLeft(path));
            }
            self.queue.report(Event::PathProved(path));
            self.begin_if_ready(now);
        }
    }

    /// Offers a key and a number, which prove an address when they come back.
    fn offer(&mut self, now: Instant, path: PathId, wanted: u64, own: Key) {
        let (offered, number) = self.validator.offer(now, path, own, 0);
        let rseq = wanted.clamp(self.held.repaired_from(now), self.held.next());
        let sync = u32_micros(now.since(Instant::ZERO));
        let header = Header { key: own, returned: true, options: option::MULTI, sort: 0, sync, seq: number };
        let status = Status { rseq, alloc: self.held.next(), echo: 0 };
        self.answer(path, |buf| {
            let mut writer = Writer::new(buf, &header, format::JCNTL);
            writer.keyed_status(&status, offered);
            writer.address([0; 4], (own.other(), own.owner()));
            writer.traffic(service::RELIABLE_MULTICAST, None);
            writer.finish()
        });
    }

    /// Tells a receiver that believes it is a member that it is not. The answer is no longer than the packet received.
    fn deny(&mut self, path: PathId, header: &Header, len: usize) {
        if header.returned && header.key != self.key && !header.has(option::END) && len >= DIAG {
            self.write_diag(path, header.key, false, (diag::INVALID_CONTEXT, diag::UNSPECIFIED));
        }
    }

    fn refuse(&mut self, path: PathId, own: Key, why: (u32, u32)) {
        self.write_diag(path, own, true, why);
    }

    fn write_diag(&mut self, path: PathId, key: Key, returned: bool, (code, value): (u32, u32)) {
        let header = Header { key, returned, options: option::MULTI, sort: 0, sync: 0, seq: 0 };
        self.answer(path, |buf| {
            let mut writer = Writer::new(buf, &header, format::DIAG);
            writer.u32(code);
            writer.u32(value);
            writer.finish()
        });
    }

    fn answer(&mut self, path: PathId, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut buf = [0; JOIN];
        let len = write(&mut buf);
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back((path, buf[..len].to_vec()));
        }
    }

    fn handle_status(
        &mut self,
        now: Instant,
        at: usize,
        header: &Header,
        (status, spans): (Status, Spans<'_>),
    ) {
        let (combinations, passed_over) = (usize::from(header.sort), header.has(option::NOERR));
        let Some(echo) = self.number_of(status.echo) else { return self.tally.on_malformed() };
        let Status { rseq, alloc, .. } = status;
        let member = self.roster.get_mut(at);
        if passed_over {
            member.on_passed_over(now, rseq.min(self.given_up_to), &mut self.held);
        }
        member.on_report(now, Report { rseq, alloc, echo, combinations, spans: spans.iter() }, &self.held);
        if member.is_overrun(now) && self.repairs_anything() {
            // Repairs cannot help a member that lacks more than half, and the bytes they take are missing for the others.
            return self.expel(at);
        }
        if !self.repairs_anything() {
            return self.settle(now);
        }
        let given_up = self.held.repaired_from(now);
        let member = self.roster.get_mut(at);
        let lacks_old = rseq < given_up;
        let held = &self.held;
        let wanted = member.missing.iter().filter_map(|from| held.at(*from));
        let wanted = wanted.filter(|packet| !packet.queued && packet.sent <= echo && !packet.is_past(now));
        let urgent = wanted.map(|packet| packet.deadline.unwrap_or(END_OF_TIME)).min();
        if let Some(deadline) = urgent {
            self.repairs.begin(now, Some(deadline).filter(|deadline| *deadline < END_OF_TIME));
        }
        // It waits for what is not repaired any more.
        let told = self.announced_at.is_some_and(|told| now.since(told) < LEAST_ANNOUNCEMENT);
        self.announce |= lacks_old && !told;
        self.settle(now);
    }

    /// A member is told that it gets no repairs any more, and is none.
    fn expel(&mut self, at: usize) {
        let (path, own) = (self.roster.get_mut(at).path, self.roster.get_mut(at).own);
        self.refuse(path, own, (diag::CONTEXT_ABANDONED, diag::NO_RESOURCE));
        self.remove(at);
    }

    fn remove(&mut self, at: usize) {
        let member = self.roster.remove(at);
        self.queue.report(Event::MemberLeft(member.path));
    }

    fn settle(&mut self, now: Instant) {
        let patience = self.patience();
        let GroupSender { held, queue, roster, settings, repairs, .. } = self;
        let asks = settings.reliability != Reliability::None;
        held.settle(now, patience, queue, |packet, ordinal| match asks {
            true => roster.known(packet),
            false if repairs.needs(ordinal) => Known::NotAll { lacking: false },
            false => Known::Nobody,
        });
    }

    /// Looks after members that are silent or lag behind.
    fn check_members(&mut self, now: Instant) {
        self.checked_at = now;
        let interval = self.interval;
        let silence = STALL.max(4 * self.roster.longest_rtt()).max(2 * interval);
        let gone = GONE.max(3 * interval);
        let mut at = 0;
        while at < self.roster.len() {
            let member = self.roster.get_mut(at);
            let silent = now.since(member.heard);
            member.suspended = silent >= silence;
            if silent >= gone {
                self.remove(at);
            } else {
                at += 1;
            }
        }
        if self.blocked_since.is_some_and(|since| now.since(since) >= LAG) {
            self.blocked_since = None;
            // Some have room for more: those that have none hold them up.
            let farthest = self.roster.active().map(|member| member.next).max().unwrap_or(0);
            let slow = |next: u64| next + (WINDOW / 2) as u64 <= farthest;
            let find = |roster: &Roster| roster.all().position(|member| slow(member.next));
            while let Some(at) = find(&self.roster) {
                self.expel(at);
            }
        }
    }

    /// Whether the members' room allows a further packet.
    fn has_window(&self, len: usize) -> bool {
        let end = self.held.next() + len as u64;
        let least = self.roster.least_next().is_none_or(|least| end <= least + WINDOW as u64);
        least && self.roster.least_alloc().is_none_or(|alloc| end <= alloc)
    }

    fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        if let Some((path, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Some((path, answer.len()));
        }
        if let Some((path, own, key)) = self.welcomes.pop_front() {
            return Some((path, self.write_welcome(now, own, key, buf)));
        }
        if std::mem::take(&mut self.ends.due) {
            self.ends = Ends { left: self.ends.left - 1, at: now + BETWEEN_ENDS, due: false };
            return Some((GROUP, self.write_announcement(now, option::END | option::WCLOSE, buf)));
        }
        if self.stage == Stage::Closed {
            return None;
        }
        if self.announce || now >= self.announce_at {
            self.announce = false;
            if self.last_data.is_some_and(|at| now.since(at) >= LEAST_ANNOUNCEMENT) {
                // The block before a pause is complete.
                self.repairs.end_block();
            }
            self.announced_at = Some(now);
            self.announce_at = now + self.announce_every;
            self.announce_every = (2 * self.announce_every).min(MOST_ANNOUNCEMENT);
            let told = self.status_interval(now);
            self.interval = told.max(std::mem::replace(&mut self.told, told));
            let before_data = self.held.count() == 0;
            let len = if before_data { self.write_first(buf) } else { self.write_announcement(now, 0, buf) };
            return Some((GROUP, len));
        }
        if self.stage != Stage::Open {
            return None;
        }
        self.repairs.end_round(now, &mut self.held, &self.roster, self.roster.len() > LARGE_GROUP);
        let len = self.write_repair(now, buf).or_else(|| self.write_data(now, buf))?;
        Some((GROUP, len))
    }

    fn write_first(&mut self, buf: &mut [u8]) -> usize {
        let header = self.group_header(0, 0, self.held.next());
        let mut writer = Writer::new(buf, &header, format::FIRST);
        writer.address([0; 4], (self.key.owner(), self.key.other()));
        writer.traffic(self.service(), Some(&self.settings.traffic));
        writer.finish()
    }

    fn service(&self) -> u8 {
        if self.repairs_anything() { service::RELIABLE_MULTICAST } else { service::UNACKNOWLEDGED_MULTICAST }
    }

    /// How far the stream is, what is no longer repaired, and how members are to report.
    fn write_announcement(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> usize {
        let header = self.group_header(options, 0, self.held.next());
        self.write_traffic(now, &header, self.key, buf)
    }

    /// Tells one that it is a member.
    fn write_welcome(&mut self, now: Instant, own: Key, key: Key, buf: &mut [u8]) -> usize {
        let (seq, sync) = (self.held.next(), self.number as u32);
        let header = Header { key: own, returned: true, options: self.options(), sort: 0, sync, seq };
        self.write_traffic(now, &header, key, buf)
    }

    fn write_traffic(&mut self, now: Instant, header: &Header, key: Key, buf: &mut [u8]) -> usize {
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

    fn write_repair(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.repairs.has_any() {
            return None;
        }
        let (number, options, key) = (self.number + 1, self.options(), self.key);
        let header = Header { key, returned: false, options, sort: 0, sync: number as u32, seq: 0 };
        let plain = |buf: &mut [u8], packet: &Packet| write_packet(buf, &header, packet);
        let start = |buf, first| Writer::new(buf, &Header { seq: first, ..header }, format::REPAIR);
        let len = self.repairs.write(now, number, &mut self.held, buf, plain, start)?;
        self.number = number;
        self.tally.on_repeat();
        Some(len)
    }

    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.held.expire_cutting(now, &mut self.queue);
        let most = self.max_data();
        let waiting = match self.held.uncut() {
            0 if self.settings.sort => self.queue.peek_urgent(now),
            0 => self.queue.peek(now).map(|message| message.bytes.len()),
            uncut => Some(uncut),
        };
        let len = waiting?.min(most);
        if !self.has_window(len) {
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
        while self.held.bytes() + len > WINDOW {
            self.held.give_up_first(&mut self.queue);
        }
        let number = self.number + 1;
        let (options, key) = (self.options(), self.key);
        let packet = self.held.cut(most, number, &mut self.queue)?;
        self.number = number;
        let header = Header { key, returned: false, options, sort: 0, sync: number as u32, seq: 0 };
        let written = write_packet(buf, &header, packet);
        self.repairs.on_data(now, written);
        self.repairs.add_to_block(&self.held);
        let gap = self.last_data.replace(now).map_or(LEAST_ANNOUNCEMENT, |before| now.since(before));
        // An announcement soon after the last packet tells members that lost it.
        let soon = (2 * gap).clamp(LEAST_ANNOUNCEMENT, MOST_ANNOUNCEMENT);
        self.announce_every = soon;
        let regular = self.announced_at.map_or(now, |told| told + MOST_ANNOUNCEMENT);
        self.announce_at = (now + soon).min(regular.max(now + Duration::from_nanos(1)));
        if !self.repairs_anything() || self.roster.len() == 0 {
            self.settle(now);
        }
        Some(written)
    }

    fn max_data(&self) -> usize {
        self.packet - HEADER - OVERHEAD
    }

    fn leave_by(&self) -> Option<Instant> {
        let closing = self.closing?;
        let last = self.held.last_deadline().max(self.queue.last_deadline());
        Some(leave_by(closing, last.map(|last| last.min(closing + LONGEST_LEAVE)), LONGEST_LEAVE))
    }

    fn move_on(&mut self, now: Instant) {
        let Some(leave) = self.leave_by().filter(|_| self.stage != Stage::Closed) else { return };
        let drained = self.held.is_empty() && self.queue.is_empty();
        if drained || now >= leave {
            self.stop(now);
        }
    }

    /// Sends nothing more but END, several times, as it is not acknowledged.
    fn stop(&mut self, now: Instant) {
        self.held.abort(&mut self.queue);
        self.queue.finish_all(Outcome::Aborted);
        self.repairs.clear();
        self.stage = Stage::Closed;
        self.ends = Ends { left: TIMES_ENDED, at: now, due: true };
    }

    fn report_closed(&mut self) {
        if self.stage == Stage::Closed && self.ends.left == 0 && self.closing.take().is_some() {
            self.answers.clear();
            self.inbox.clear();
            self.queue.report(Event::Closed(CloseReason::Local));
        }
    }

    fn is_over(&self) -> bool {
        self.stage == Stage::Closed && self.closing.is_none()
    }
}

fn write_packet(buf: &mut [u8], header: &Header, packet: &Packet) -> usize {
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

/// Time in units of 16 µs, which wraps after 19 hours.
fn u32_micros(time: Duration) -> u32 {
    (time.as_micros() >> TICK_SHIFT) as u32
}

impl Endpoint for GroupSender {
    fn profile(&self) -> Profile {
        let repairs = self.repairs_anything();
        let ordered = self.settings.ordered;
        Profile {
            acknowledged: repairs,
            ordered,
            retransmits: repairs,
            capabilities: Capabilities {
                unordered: !ordered,
                flow_control: repairs,
                fragmentation: true,
                ..Capabilities::OF_UDP
            },
            // It leaves room for what a combination adds to a packet. It is not `reliable`, as members that leave or lag behind may
            // miss messages.
            ..Profile::of_datagrams(MAX_MESSAGE, MAX_MESSAGE, HEADER + OVERHEAD)
        }
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.held.reserve(messages.max(LEAST_RESERVED));
        self.repairs.reserve(messages.max(LEAST_RESERVED));
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.closing.is_some() || self.stage == Stage::Closed {
            return Err(SendError::Closed);
        }
        // `full` repeats whatever the deadline.
        let deadline = message.deadline.filter(|_| self.settings.reliability != Reliability::Full);
        self.queue.push(Message { deadline, ..message }, MAX_MESSAGE)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if self.closing.is_some() || self.stage == Stage::Closed {
            return;
        }
        self.closing = Some(now);
        if mode == CloseMode::Abort {
            self.stop(now);
        }
        self.move_on(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.is_over() {
            return;
        }
        match input {
            Input::MaxDatagram(most) => self.packet = self.packet.min(most.max(MIN_PACKET + OVERHEAD)),
            input => {
                if let Some(datagram) = self.tally.take(input, &mut self.queue) {
                    let received_at = datagram.received_at.min(now);
                    self.handle_packet(now, Datagram { received_at, ..datagram });
                }
            }
        }
        self.move_on(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.stage == Stage::Closed {
            self.ends.due |= self.ends.left > 0 && now >= self.ends.at;
            return;
        }
        self.queue.expire(now);
        self.pace.on_timeout(now);
        self.repairs.on_silence(now);
        self.settle(now);
        if now.since(self.checked_at) >= CHECK {
            self.check_members(now);
            self.settle(now);
        }
        self.announce |= now >= self.announce_at;
        self.repairs.end_round(now, &mut self.held, &self.roster, self.roster.len() > LARGE_GROUP);
        self.move_on(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.is_over() {
            return None;
        }
        let (path, len) = self.next_packet(now, buf)?;
        self.move_on(now);
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.report_closed();
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.stage == Stage::Closed {
            return (self.ends.left > 0 && !self.ends.due).then_some(self.ends.at);
        }
        let all = [
            (!self.announce).then_some(self.announce_at),
            (self.roster.len() > 0).then(|| self.checked_at + CHECK),
            self.repairs.next_round(),
            self.repairs.next_credit(),
            self.queue.next_expiry(),
            self.held.next_settling(self.patience()),
            self.pace.next(),
            self.leave_by(),
        ];
        all.into_iter().flatten().min()
    }

    fn stats(&self) -> PathStats {
        let rtt = self.roster.all().map(|member| member.rtt);
        PathStats {
            srtt: rtt.max(),
            min_rtt: self.roster.all().map(|member| member.rtt).min(),
            in_flight: Some(ByteCount(self.held.bytes() as u64)),
            counters: Counters { ..self.tally.counters(&self.queue, &self.inbox) },
            ..PathStats::default()
        }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        match path {
            GROUP => Some(self.stats()),
            path => self.roster.on_path(path).map(super::roster::Member::stats),
        }
    }
}

/// The path to the group itself; those to its members have other numbers.
const GROUP: PathId = PathId(0);
/// Bytes that may be sent before the slowest member has them: 20 s of stereo at 48 kHz and 16 bits.
const WINDOW: usize = super::WINDOW;
/// Before the first data, announcements follow each other at twice this, and so on.
const FIRST_ANNOUNCEMENTS: Duration = Duration::from_millis(50);
/// The shortest and the longest time from one announcement to the next. At the longest they take 1.4 kbit/s.
const LEAST_ANNOUNCEMENT: Duration = Duration::from_millis(20);
const MOST_ANNOUNCEMENT: Duration = Duration::from_millis(500);
/// Members are looked at so often.
const CHECK: Duration = Duration::from_millis(100);
/// Members report at most and at least so often.
const SHORTEST_STATUS: Duration = Duration::from_millis(100);
const LONGEST_STATUS: Duration = Duration::from_secs(15);
/// Silence after which nothing waits for a member, and after which it has left, if it may report often enough.
const STALL: Duration = Duration::from_millis(500);
const GONE: Duration = Duration::from_secs(3);
/// New data wait so long for members that lag behind others.
const LAG: Duration = Duration::from_secs(1);
/// The longest that a packet's fate is asked for after its deadline.
const MOST_PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_RTT: Duration = Duration::from_secs(2);
/// Answers that wait to be sent; further ones are dropped, and asked for again.
const MOST_ANSWERS: usize = 256;
/// The end is said so often, with so much time in between.
const TIMES_ENDED: u32 = 3;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);
/// Packets for which memory is reserved.
const LEAST_RESERVED: usize = 256;
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);
/// Times in joins are in units of 2⁴ µs.
const TICK_SHIFT: u32 = 4;

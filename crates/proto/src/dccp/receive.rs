//! Processes an arriving packet: the steps of RFC 4340 §8.5, in their order.

use antiphon_core::{CloseReason, Event, Instant, Outcome, PathId, Role, Verdict as Validated};

use super::ccid::Incoming;
use super::cookie::Tcb;
use super::endpoint::{DccpEndpoint, Due, State};
use super::features::{self, Location};
use super::logs::Arrived;
use super::read::{Fault, Seen};
use super::seq::Seq48;
use super::sequence::{Sequence, Verdict};
use super::timers;
use super::validator::{LONGEST_RESPONSE, cookie_of, refusal};
use super::wire::checksum::crc32c;
use super::wire::{DccpOption, Header, Kind, OptionWriter, Packet, ResetCode};
use crate::tally::Datagram;

impl DccpEndpoint {
    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        if let State::Finishing(_) | State::Closed = self.state {
            return;
        }
        let Some(packet) = Packet::parse(datagram.bytes, self.checksum) else {
            return self.tally.on_malformed();
        };
        let header = &packet.header;
        match self.state {
            State::Listen => self.on_unknown_source(now, &packet, datagram),
            _ if (header.destination, header.source) != self.ports => self.on_foreign(now, header),
            State::Request => self.on_answer(now, &packet),
            _ => self.on_packet(now, &packet, datagram),
        }
    }

    /// Steps 2 and 3: no connection yet.
    fn on_unknown_source(&mut self, now: Instant, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let mut reply = std::mem::take(&mut self.reply);
        reply.resize(self.max_datagram.max(LONGEST_RESPONSE), 0);
        let len = datagram.bytes.len();
        match self.validator.validate_packet(now, PathId::default(), packet, len, &mut reply) {
            Validated::Accept => self.admit(now, packet, datagram),
            Validated::AcceptWith { len } => {
                let completed = Packet::parse(&reply[..len], self.checksum).expect("what was emitted parses");
                self.admit(now, &completed, datagram);
            }
            Validated::Reply { len } => {
                reply.truncate(len);
                self.reply = reply;
                self.count_unknown_source(&packet.header);
            }
            Validated::Ignore => self.count_unknown_source(&packet.header),
        }
    }

    fn count_unknown_source(&mut self, header: &Header) {
        if !matches!(header.kind, Kind::Request { .. } | Kind::Listen { .. }) {
            self.tally.on_malformed();
        }
    }

    /// A packet with a valid cookie: the connection gets the state that it would have if it had been kept since the
    /// Request.
    fn admit(&mut self, now: Instant, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let header = &packet.header;
        let Some(cookie) = cookie_of(packet) else { return self.tally.on_malformed() };
        let Some((opened, ahead)) = self.validator.open(now, PathId::default(), header, cookie) else {
            return self.tally.on_malformed();
        };
        let Tcb { isr, iss, told_all, .. } = opened.tcb;
        self.ports = (header.destination, header.source);
        self.sequence = Sequence::new(iss);
        self.sequence.start_receiving(isr);
        // Each Request until now may have had its Response. As packets without data, they are no loss to the client.
        (self.sequence.gss, self.ndp) = (iss.plus(ahead as i64 - 1), ahead);
        self.sequence.osr = header.seq;
        self.features = self.validator.agreed(now, &opened.tcb);
        if told_all {
            self.cookie.extend_from_slice(cookie);
            // Not where the validator has inserted the cookie: that client does not wait for the answer.
            self.due.ack = matches!(header.kind, Kind::Ack { .. });
        }
        if ahead == 1 {
            self.rtt.on_sample(opened.age);
        }
        self.state = State::Open;
        self.begin_flow(now, isr);
        self.queue.report(Event::Connected);
        self.on_packet(now, packet, datagram);
    }

    /// Another pair of DCCP ports in the same UDP flow: two connections can't be told apart (RFC 6773 §5.1).
    fn on_foreign(&mut self, now: Instant, header: &Header) {
        let code = match header.kind {
            Kind::Request { .. } => ResetCode::ENCAPSULATED_PORT_REUSE,
            _ => ResetCode::NO_CONNECTION,
        };
        self.answer(now, header, (code, [0; 3]));
    }

    /// Answers a packet that belongs to no connection with a Reset; a Reset never. No more often than Syncs.
    fn answer(&mut self, now: Instant, header: &Header, fault: Fault) {
        self.tally.on_malformed();
        if matches!(header.kind, Kind::Reset { .. }) || !self.sequence.may_sync(now) {
            return;
        }
        self.due.answer = refusal(header, fault);
    }

    /// Step 4: REQUEST.
    fn on_answer(&mut self, now: Instant, packet: &Packet<'_>) {
        let header = &packet.header;
        let window = self.features.value(Location::Local, features::SEQUENCE_WINDOW);
        let fits = header.kind.ack().is_some_and(|ack| self.sequence.acknowledges(ack, window));
        match header.kind {
            Kind::Response { ack, service } if fits => {
                if service != self.settings.service {
                    return self.answer(now, header, (ResetCode::BAD_SERVICE, [0; 3]));
                }
                self.sequence.start_receiving(header.seq);
                self.sequence.gar = ack;
                self.features.start(self.sequence.iss, Some(header.seq));
                self.sample_handshake(now, ack);
                self.state = State::PartOpen;
                match self.read_options(now, packet) {
                    Err(fault) => return self.reset(now, fault.0, fault.1, CloseReason::Protocol),
                    Ok(seen) => self.keep_cookies(&seen),
                }
                self.begin_flow(now, header.seq);
                self.timers.start(now, timers::PARTOPEN_WAIT, timers::PARTOPEN);
                self.alive.on_heard(now);
                self.due.step = false;
                self.due.ack = true;
                self.queue.report(Event::Connected);
                self.close_when_flushed(now);
            }
            Kind::Reset { code, data, .. } if fits => self.on_reset(now, code, data),
            kind => self.answer(now, header, (ResetCode::PACKET_ERROR, [kind.number(), 0, 0])),
        }
    }

    /// What the server wants returned with every packet until it has received one.
    fn keep_cookies(&mut self, seen: &Seen<'_>) {
        for cookie in &seen.cookies[..seen.cookie_count] {
            let mut option = OptionWriter::default();
            option.write(DccpOption::InitCookie(cookie));
            self.cookie.extend_from_slice(option.as_written());
        }
    }

    /// Reads all options; a time stamp among them wants an echo.
    fn read_options<'a>(&mut self, now: Instant, packet: &Packet<'a>) -> Result<Seen<'a>, Fault> {
        let seen = Seen::read(packet, &mut self.features, self.role)?;
        self.echo = seen.stamp.map(|stamp| (stamp, now)).or(self.echo);
        Ok(seen)
    }

    /// A round trip, if `ack` acknowledges the latest packet of the handshake.
    fn sample_handshake(&mut self, now: Instant, ack: Seq48) {
        if let Some(at) = self.timers.stepped_at
            && ack == self.sequence.gss
        {
            self.rtt.on_sample(now.since(at));
        }
    }

    /// Steps 5 to 16.
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let header = &packet.header;
        if !self.is_in_place(now, header) {
            return self.tally.on_malformed();
        }
        self.alive.on_heard(now);
        let received_at = datagram.received_at.min(now);
        let arrived = self.flow.as_mut().map(|flow| flow.received.on_packet(header.seq, IS_MARKED));
        let newest = matches!(arrived, Some(Arrived::New { newest: true, .. }));
        self.on_path(now, datagram.path, header, newest);
        self.tell_ids();
        if arrived == Some(Arrived::Again) {
            if header.kind.carries_data() {
                self.tally.on_duplicate();
            }
            return;
        }
        let seen = match self.read_options(now, packet) {
            Ok(seen) => seen,
            Err(fault) => return self.reset(now, fault.0, fault.1, CloseReason::Protocol),
        };
        if self.role == Role::Listener
            && let [cookie, ..] = seen.cookies[..seen.cookie_count]
            && !self.cookie.is_empty()
        {
            if cookie != self.cookie {
                return self.reset(now, ResetCode::BAD_INIT_COOKIE, [0; 3], CloseReason::Protocol);
            }
            // A client that still sends it has not received anything since the Response.
            self.due.ack |= matches!(header.kind, Kind::Ack { .. });
        }
        self.feed_back(now, header, &seen);
        if let Some(Arrived::New { beyond_gap, newest }) = arrived {
            let incoming = Incoming {
                seq: header.seq,
                ccval: header.ccval,
                data: header.kind.carries_data().then_some(packet.data.len()),
                ndp: seen.ndp,
                beyond_gap,
                newest,
                marked: IS_MARKED,
                received_at,
            };
            self.tell_receiver(&incoming);
        }
        self.take_data(packet, &seen, datagram.path, received_at);
        self.step(now, header);
    }

    /// Steps 5 to 7: whether the packet's numbers and type are valid here; otherwise a Sync may be due.
    fn is_in_place(&mut self, now: Instant, header: &Header) -> bool {
        let window = |location| self.features.value(location, features::SEQUENCE_WINDOW);
        let windows = (window(Location::Remote), window(Location::Local));
        // An unexpected type is judged by where things stood before it.
        let unexpected = self.is_unexpected(header);
        let verdict = match self.sequence.check(&header.kind, header.seq, windows) {
            Verdict::Valid if unexpected => Verdict::Sync(header.seq),
            verdict => verdict,
        };
        match verdict {
            Verdict::Valid => self.has_coverage(header),
            Verdict::Drop => false,
            Verdict::Sync(number) => {
                if self.sequence.may_sync(now) {
                    self.due.sync = Some(number);
                }
                false
            }
        }
    }

    fn is_unexpected(&self, header: &Header) -> bool {
        let open = self.state != State::PartOpen;
        let late = !header.seq.is_before(self.sequence.osr);
        match header.kind {
            Kind::Listen { .. } => true,
            Kind::CloseReq { .. } => self.role == Role::Listener,
            Kind::Response { .. } => self.role == Role::Listener || open && late,
            Kind::Request { .. } => self.role == Role::Caller || open && late,
            _ => false,
        }
    }

    /// Less coverage than was agreed on is not accepted (RFC 4340 §9.2.1).
    fn has_coverage(&self, header: &Header) -> bool {
        let least = self.features.value(Location::Local, features::MIN_COVERAGE);
        header.coverage == 0 || least > 0 && u64::from(header.coverage) >= least
    }

    /// Acknowledgements go to the sending half. A Sync only names a number, which need not have been in place.
    fn feed_back(&mut self, now: Instant, header: &Header, seen: &Seen<'_>) {
        let Some(ack) = header.kind.ack().filter(|_| !matches!(header.kind, Kind::Sync { .. })) else {
            return;
        };
        let Some(flow) = &mut self.flow else { return };
        flow.received.on_acknowledged(ack);
        self.congestion_changed |= flow.sender.on_feedback(now, ack, seen, &mut flow.sent, &mut self.rtt);
        if let Kind::SyncAck { ack } = header.kind {
            self.on_sync_answered(now, ack);
        }
        self.run_sizes(now);
    }

    fn tell_receiver(&mut self, incoming: &Incoming) {
        let Some(flow) = &mut self.flow else { return };
        let ratio = self.features.value(Location::Remote, features::ACK_RATIO);
        flow.receiver.on_packet(incoming, ratio, &self.rtt);
    }

    /// Step 16: data to the application.
    fn take_data(&mut self, packet: &Packet<'_>, seen: &Seen<'_>, path: PathId, received_at: Instant) {
        if !packet.header.kind.carries_data() || packet.data.is_empty() {
            return;
        }
        let code = if seen.data_checksum.is_some_and(|crc| crc != crc32c(packet.data)) {
            self.tally.on_malformed();
            CORRUPT
        } else {
            let before = self.inbox.dropped();
            self.inbox.push(packet.data, &[], path, received_at);
            if self.inbox.dropped() == before {
                return;
            }
            NO_ROOM
        };
        if let Some(flow) = &mut self.flow {
            flow.dropped = Some((packet.header.seq, code));
        }
    }

    /// Steps 9 to 15: the effect of the packet's type on the state.
    fn step(&mut self, now: Instant, header: &Header) {
        if self.state == State::PartOpen
            && !matches!(header.kind, Kind::Response { .. } | Kind::Reset { .. } | Kind::Sync { .. })
        {
            self.state = State::Open;
            self.sequence.osr = header.seq;
            self.timers.stop();
            // The server has received our packet, and with it the echo of its Response.
            self.echo = self.echo.filter(|(_, at)| *at == now);
        }
        match header.kind {
            Kind::Reset { code, data, .. } => self.on_reset(now, code, data),
            Kind::Response { .. } => self.due.ack |= self.state == State::PartOpen,
            Kind::CloseReq { .. } => {
                // The server takes no more: what waits has nowhere to go.
                self.queue.finish_all(Outcome::Aborted);
                if self.state != State::Closing {
                    self.state = State::Closing;
                    self.timers.start(now, self.close_wait(), self.closing_patience());
                    self.timers.closed_by_peer = self.timers.flush_since.is_none();
                }
                self.due.step = true;
            }
            Kind::Close { .. } => {
                let reason = self.reason(CloseReason::Peer);
                self.reset(now, ResetCode::CLOSED, [0; 3], reason);
            }
            Kind::Sync { .. } => self.due.sync_ack = Some(header.seq),
            _ => {}
        }
    }

    fn on_reset(&mut self, now: Instant, code: ResetCode, data: [u8; 3]) {
        // A caller that has just been started answers our Sync so: it waits for a Response.
        let calls = code == ResetCode::PACKET_ERROR && data[0] == SYNC_TYPE;
        let reason = match code {
            ResetCode::NO_CONNECTION if self.state != State::Request => self.reason(CloseReason::Restarted),
            _ if calls => self.reason(CloseReason::Restarted),
            ResetCode::UNSPECIFIED | ResetCode::CLOSED | ResetCode::ABORTED => self.reason(CloseReason::Peer),
            ResetCode::NO_CONNECTION
            | ResetCode::REFUSED
            | ResetCode::BAD_SERVICE
            | ResetCode::TOO_BUSY
            | ResetCode::ENCAPSULATED_PORT_REUSE => self.reason(CloseReason::Refused),
            _ => CloseReason::Protocol,
        };
        self.due = Due::default();
        self.end(now, reason);
    }

    /// Which end closed it: this end, if it had begun to.
    fn reason(&self, otherwise: CloseReason) -> CloseReason {
        let ours = self.timers.flush_since.is_some()
            || matches!(self.state, State::CloseReq | State::Closing) && !self.timers.closed_by_peer;
        if ours { CloseReason::Local } else { otherwise }
    }

    /// Ends the connection with a Reset.
    pub(super) fn reset(&mut self, now: Instant, code: ResetCode, data: [u8; 3], reason: CloseReason) {
        self.due = Due { reset: Some((code, data)), ..Due::default() };
        self.end(now, reason);
    }
}

/// Number of a Sync's type (RFC 4340 §5.1), as a Reset 4 names it.
const SYNC_TYPE: u8 = 8;
/// Congestion marks (RFC 3168), which no socket here reports; the congestion controls would obey them.
const IS_MARKED: bool = false;
/// Drop Codes (RFC 4340 §11.7.1).
pub(super) const NO_ROOM: u8 = 2;
const CORRUPT: u8 = 3;

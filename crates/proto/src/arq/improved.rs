//! `mode=improved`: what the report's chapter on future work lists, as an endpoint.
//!
//! * A frame is sent again when a packet sent *later* has been acknowledged and the path's reordering has had its time
//!   (RFC 8985), or after SRTT + 4 RTTVAR; never when it would come too late: its age and half a round trip must fit
//!   into its deadline.
//! * One acknowledgement tells of many packets, rides on frames of the way back, waits a bounded time at most, and goes
//!   at once when a gap shows.
//! * The receiver hands on every frame once, as soon as it has it: order is the playout buffer's business.
//! * Numbers start anywhere and belong to an *epoch* drawn at opening, so that neither a restarted peer nor a forger
//!   who does not see the packets confuses them.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    ByteCount, CloseMode, CloseReason, Counters, Ecn, Endpoint, Event, Frame, FrameId, Input, Instant,
    Outcome, PathId, PathStats, Profile, Received, Rng, SendError, Transmit, Wire,
};

use super::aimd::Aimd;
use super::ring::Ring;
use super::rtt::{MAX_RTO, Rtt};
use super::window::{Arrival, Window};
use super::wire::{self, AGE_UNIT_NANOS, Ack, DATA_HEADER, Data, Packet};
use super::{MAX_UDP_PAYLOAD, State};
use crate::queue::{Inbox, MAX_FRAMES, Queued, SendQueue};

/// What a URI lets one choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Least retransmission time-out.
    pub rto_floor: Duration,
    /// Longest wait of an acknowledgement, here and at the peer.
    pub ack_delay: Duration,
    /// Whether a window bounds what is on its way.
    pub aimd: bool,
}

#[derive(Debug)]
pub(super) struct Improved {
    queue: SendQueue,
    inbox: Inbox,
    flight: Ring<Entry>,
    in_flight_bytes: u64,
    /// Numbers to be sent again, as soon as the wire takes them.
    repeats: VecDeque<u64>,
    /// No entry is due before this.
    next_due: Option<Instant>,
    /// Sendings so far; names each of them.
    sendings: u64,
    /// The latest sending of which an arrival is known.
    arrived_sending: u64,
    rtt: Rtt,
    aimd: Option<Aimd>,
    window: Window,
    epoch: u32,
    max_datagram: usize,
    counters: Counters,
    state: State,
}

/// A frame on its way.
#[derive(Debug)]
struct Entry {
    frame: Queued,
    first_sent: Instant,
    last_sent: Instant,
    sending: u64,
    tries: u32,
    due: Instant,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Under way; taken for lost when due.
    Sent,
    /// Stands in `repeats`; no time-out runs.
    Repeats,
    /// Not sent again; an acknowledgement may still come until it is due.
    GivenUp,
}

impl Improved {
    pub fn new(settings: Settings, max_datagram: usize, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "arq");
        // Above 2³², so that a number behind the first stays positive.
        let first = (1 << 32) + u64::from(rng.next_u32());
        Self::starting_at(settings, max_datagram, rng.next_u32(), first)
    }

    pub fn starting_at(settings: Settings, max_datagram: usize, epoch: u32, first: u64) -> Self {
        let mut queue = SendQueue::new(max_datagram);
        // There is no greeting: frames flow from the first moment.
        queue.report(Event::Connected);
        Improved {
            queue,
            inbox: Inbox::new(max_datagram),
            flight: Ring::new(first),
            in_flight_bytes: 0,
            repeats: VecDeque::with_capacity(MAX_FRAMES),
            next_due: None,
            sendings: 0,
            arrived_sending: 0,
            rtt: Rtt::new(settings.rto_floor, settings.ack_delay),
            aimd: settings.aimd.then(|| Aimd::new(max_datagram)),
            window: Window::new(settings.ack_delay),
            epoch,
            max_datagram,
            counters: Counters::default(),
            state: State::Open,
        }
    }

    fn max_frame(&self) -> usize {
        self.max_datagram.saturating_sub(DATA_HEADER)
    }

    fn handle_data(&mut self, now: Instant, data: &Data<'_>, path: PathId, received_at: Instant, len: usize) {
        match self.window.receive(now, data, received_at, len) {
            Arrival::New => self.inbox.push_repaired(data.payload, path, received_at, data.repeated),
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::Stale => self.counters.malformed += 1,
        }
        if self.state == State::Closing {
            self.window.hurry();
        }
    }

    /// Settles what has arrived, measures the round trip, and sees what must be lost by now.
    fn handle_ack(&mut self, ack: &Ack<'_>, received_at: Instant) {
        let next = self.flight.next();
        let floor = wire::unwrap(next, ack.floor).filter(|floor| ack.epoch == self.epoch && *floor <= next);
        // Numbers never sent, in the floor or in the map, are a forger's or another peer's.
        let last = ack
            .map
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |i| 8 * i as u64 + u64::from(7 - ack.map[i].leading_zeros()) + 1);
        let Some(floor) = floor.filter(|floor| last == 0 || floor + last < next) else {
            self.counters.malformed += 1;
            return;
        };
        let latest = floor.saturating_add_signed(i64::from(ack.latest));
        self.measure(latest, ack, received_at);
        let before = self.counters_of_flight();
        for number in self.flight.first()..floor {
            self.settle(number, received_at);
        }
        self.settle(latest, received_at);
        for (i, byte) in ack.map.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                self.settle(floor + 1 + 8 * i as u64 + bit, received_at);
            }
        }
        if self.counters_of_flight() != before {
            self.see_what_was_overtaken();
        }
    }

    fn counters_of_flight(&self) -> (u64, u64) {
        (self.in_flight_bytes, self.flight.first())
    }

    /// A round trip, where it is sure to which sending the answer belongs (Karn's rule): to the first, which the
    /// receiver tells from repeats, or to the only repeat.
    fn measure(&mut self, latest: u64, ack: &Ack<'_>, received_at: Instant) {
        let Some(entry) = self.flight.entry(latest) else { return };
        let sent = match (ack.latest_repeated, entry.tries) {
            (false, _) => entry.first_sent,
            (true, 2) => entry.last_sent,
            (true, _) => return,
        };
        let elapsed = received_at.since(sent);
        let age = Duration::from_nanos(u64::from(ack.age) * AGE_UNIT_NANOS);
        // An age beyond the whole round trip is no age.
        self.rtt.on_sample(elapsed.checked_sub(age).unwrap_or(elapsed));
    }

    fn settle(&mut self, number: u64, received_at: Instant) {
        let in_flight = self.in_flight_bytes;
        let Some(entry) = self.take(number) else { return };
        // An answer sooner than any round trip was to an earlier sending, and says nothing of when the last arrived.
        let to_last = entry.tries == 1 || Some(received_at.since(entry.last_sent)) >= self.rtt.min();
        if to_last {
            self.arrived_sending = self.arrived_sending.max(entry.sending);
        }
        if let Some(aimd) = &mut self.aimd {
            aimd.on_acked(entry.frame.bytes.len() as u64, in_flight);
        }
        self.queue.finish(entry.frame, Outcome::Acked);
    }

    fn take(&mut self, number: u64) -> Option<Entry> {
        let entry = self.flight.take(number)?;
        self.in_flight_bytes -= entry.frame.bytes.len() as u64;
        Some(entry)
    }

    /// What was sent before a packet that has arrived is lost once the path's reordering has had its time.
    fn see_what_was_overtaken(&mut self) {
        let wait = self.rtt.srtt().unwrap_or_default() + self.rtt.reordering();
        let mut soonest = None;
        for (_, entry) in self.flight.iter_mut().filter(|(_, entry)| entry.fate != Fate::Repeats) {
            if entry.fate == Fate::Sent && entry.sending < self.arrived_sending {
                entry.due = entry.due.min(entry.last_sent + wait);
            }
            soonest = sooner(soonest, entry.due);
        }
        self.next_due = soonest;
    }

    /// Sends again or gives up what is due.
    fn handle_due(&mut self, now: Instant) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        let mut soonest = None;
        for number in self.flight.first()..self.flight.next() {
            let Some(entry) = self.flight.entry_mut(number) else { continue };
            match entry.fate {
                Fate::Repeats => continue,
                _ if entry.due > now => soonest = sooner(soonest, entry.due),
                Fate::Sent => {
                    self.answer_congestion(number);
                    let due = self.repeat_or_give_up(now, number);
                    soonest = due.map_or(soonest, |due| sooner(soonest, due));
                }
                Fate::GivenUp => {
                    let entry = self.take(number);
                    if let Some(frame) = entry.map(|entry| entry.frame) {
                        let expired = frame.deadline.is_some_and(|deadline| deadline < now);
                        let outcome = if expired {
                            Outcome::Expired { maybe_received: true }
                        } else {
                            Outcome::RetriesExhausted
                        };
                        self.queue.finish(frame, outcome);
                    }
                }
            }
        }
        self.next_due = soonest;
    }

    fn answer_congestion(&mut self, number: u64) {
        let next = self.flight.next();
        if self.aimd.as_mut().is_some_and(|aimd| aimd.on_lost(number, next)) {
            let stats = self.path_stats();
            self.queue.report(Event::Congestion(stats));
        }
    }

    /// What becomes of a frame taken for lost; when to look again, if it was given up.
    fn repeat_or_give_up(&mut self, now: Instant, number: u64) -> Option<Instant> {
        let (half, rto) = (self.rtt.srtt().unwrap_or_default() / 2, self.rtt.rto());
        let entry = self.flight.entry_mut(number)?;
        let in_time = entry.frame.deadline.is_none_or(|deadline| now + half <= deadline);
        if in_time && entry.tries < MAX_TRIES {
            entry.fate = Fate::Repeats;
            self.repeats.push_back(number);
            return None;
        }
        entry.fate = Fate::GivenUp;
        // Until an answer to the last sending can't come any more; just after the deadline, which itself is in time.
        let after = entry.frame.deadline.unwrap_or_default() + Duration::from_nanos(1);
        entry.due = after.max(entry.last_sent + rto);
        Some(entry.due)
    }

    fn write_repeat(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        while let Some(number) = self.repeats.pop_front() {
            let half = self.rtt.srtt().unwrap_or_default() / 2;
            let Some(entry) = self.flight.entry(number) else { continue };
            if entry.frame.deadline.is_some_and(|deadline| now + half > deadline) {
                // The wire stood still for too long.
                if let Some(due) = self.repeat_or_give_up(now, number) {
                    self.next_due = sooner(self.next_due, due);
                }
                continue;
            }
            self.sendings += 1;
            let sending = self.sendings;
            let rto = self.rtt.rto();
            let entry = self.flight.entry_mut(number)?;
            entry.tries += 1;
            // A deadline bounds the tries by itself; without one they must get rarer.
            let doublings = if entry.frame.deadline.is_some() { 0 } else { (entry.tries - 1).min(16) };
            let wait = (rto * (1 << doublings)).min(MAX_RTO.max(rto));
            (entry.last_sent, entry.sending, entry.fate) = (now, sending, Fate::Sent);
            entry.due = now + wait;
            self.next_due = sooner(self.next_due, entry.due);
            self.counters.retransmitted += 1;
            return self.write_data(now, number, buf);
        }
        None
    }

    fn write_first(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let allowed = self.aimd.is_none_or(|aimd| aimd.allows(self.in_flight_bytes));
        if !allowed || !self.flight.has_room() {
            return None;
        }
        let frame = self.queue.pop(now)?;
        self.rtt.on_packet(now);
        self.sendings += 1;
        self.in_flight_bytes += frame.bytes.len() as u64;
        let due = now + self.rtt.rto();
        self.next_due = sooner(self.next_due, due);
        let (number, sending) = (self.flight.next(), self.sendings);
        let fate = Fate::Sent;
        self.flight.push(Entry { frame, first_sent: now, last_sent: now, sending, tries: 1, due, fate });
        self.write_data(now, number, buf)
    }

    /// Writes the packet of a frame on its way, with an acknowledgement if one is owed and fits.
    fn write_data(&mut self, now: Instant, number: u64, buf: &mut [u8]) -> Option<usize> {
        let back = (number - self.flight.first()) as u16;
        let entry = self.flight.entry(number)?;
        let payload = &entry.frame.bytes[..];
        let repeated = entry.tries > 1;
        let data = Data { epoch: self.epoch, number: number as u32, back, repeated, payload };
        let fits = DATA_HEADER + payload.len() + self.window.ack_len() <= self.max_datagram;
        let ack = if fits { self.window.take_ack(now) } else { None };
        Some(wire::emit(&Packet { ack, data: Some(data) }, buf))
    }

    fn write_ack(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.window.is_due() {
            return None;
        }
        let ack = Some(self.window.take_ack(now)?);
        Some(wire::emit(&Packet { ack, data: None }, buf))
    }

    fn finish(&mut self) {
        for number in self.flight.first()..self.flight.next() {
            if let Some(entry) = self.take(number) {
                self.queue.finish(entry.frame, Outcome::Aborted);
            }
        }
        self.queue.finish_all(Outcome::Aborted);
        self.inbox.clear();
        self.repeats.clear();
        self.state = State::Closed;
        self.queue.report(Event::Closed(CloseReason::Local));
    }

    fn finish_closing(&mut self) {
        let idle = self.flight.is_empty() && self.queue.is_empty() && !self.window.is_owed();
        if self.state == State::Closing && idle {
            self.finish();
        }
    }
}

impl Endpoint for Improved {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_frame: self.max_frame(),
            max_receive: MAX_UDP_PAYLOAD,
            frame_overhead: DATA_HEADER,
            acknowledged: true,
            ordered: false,
            retransmits: true,
        }
    }

    fn send(&mut self, _now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        match self.state {
            State::Open => self.queue.push(frame, self.max_frame()),
            State::Closing | State::Closed => Err(SendError::Closed),
        }
    }

    fn close(&mut self, _now: Instant, mode: CloseMode) {
        match (self.state, mode) {
            (State::Closed, _) => {}
            (_, CloseMode::Abort) => self.finish(),
            (_, CloseMode::Graceful) => {
                self.state = State::Closing;
                self.window.hurry();
                self.finish_closing();
            }
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            _ if self.state == State::Closed => {}
            Input::Datagram { path, bytes, received_at, .. } => {
                self.counters.datagrams_received += 1;
                self.counters.bytes_received += bytes.len() as u64;
                let Some(packet) = wire::parse(bytes) else {
                    self.counters.malformed += 1;
                    return;
                };
                if let Some(ack) = &packet.ack {
                    self.handle_ack(ack, received_at);
                }
                if let Some(data) = &packet.data {
                    self.handle_data(now, data, path, received_at, bytes.len());
                }
                self.finish_closing();
            }
            Input::Broken(reason) => self.queue.report(Event::Broken(reason)),
            Input::Stream { .. } => self.counters.malformed += 1,
            Input::Connected | Input::Report(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.queue.expire(now);
        self.handle_due(now);
        self.window.handle_timeout(now);
        self.finish_closing();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.state == State::Closed {
            return None;
        }
        let data = self.write_repeat(now, buf).or_else(|| self.write_first(now, buf));
        let written = data.or_else(|| self.write_ack(now, buf));
        self.finish_closing();
        let len = written?;
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += len as u64;
        Some(Transmit { path: PathId::default(), len, ecn: Ecn::NotCapable })
    }

    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Closed {
            return None;
        }
        let due = [self.next_due, self.window.poll_timeout(), self.queue.next_expiry()];
        due.into_iter().flatten().min()
    }

    fn path_stats(&self) -> PathStats {
        let counters = Counters {
            frames_accepted: self.queue.accepted(),
            frames_expired: self.queue.expired(),
            frames_delivered: self.inbox.delivered(),
            frames_dropped: self.inbox.dropped(),
            ..self.counters
        };
        PathStats {
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min(),
            cwnd: self.aimd.map(|aimd| ByteCount(aimd.cwnd())),
            in_flight: Some(ByteCount(self.in_flight_bytes)),
            pacing_rate: None,
            counters,
        }
    }
}

fn sooner(soonest: Option<Instant>, due: Instant) -> Option<Instant> {
    Some(soonest.map_or(due, |s| s.min(due)))
}

/// Sendings of one frame at most: bounds what a peer that never answers costs, some 10 s without a deadline.
const MAX_TRIES: u32 = 16;

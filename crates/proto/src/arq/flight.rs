//! The sender's half of the improved mode: messages in flight, loss detection, retransmissions.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, sooner};

use super::improved::Settings;
use super::ring::Ring;
use super::rtt::{MAX_RTO, Rtt};
use super::wire::{self, AGE_UNIT_NANOS, Ack};
use crate::deadline::last_chance;
use crate::limit::{LEAST_PACKETS, LEAST_PACKETS_FULL, Limit};
use crate::queue::{LEAN_PLACES, MAX_FRAMES, Queued, SendQueue};
use crate::rack::{Rack, loss_delay};
use crate::rtt::backed_off;

/// Messages in flight.
#[derive(Debug)]
pub(super) struct Flight {
    epoch: u32,
    ring: Ring<Entry>,
    bytes: u64,
    /// Numbers to retransmit, as soon as the wire takes them.
    repeats: VecDeque<u64>,
    /// No entry is due before this.
    next_due: Option<Instant>,
    /// Order of the transmissions, which reveals losses.
    rack: Rack,
    rtt: Rtt,
    limit: Limit,
    repeated: u64,
    /// What may be repeated while nothing is answered.
    breaker: Breaker,
    /// Nothing is ever given up, and what is repeated has to fit the window, too.
    full: bool,
    /// Whether the peer has acknowledged something, or was called by us. To another address nothing is repeated: a forged packet
    /// would make us send its owner many times what it cost.
    is_proved: bool,
}

/// A message in flight.
#[derive(Debug)]
struct Entry {
    message: Queued,
    first_sent: Instant,
    last_sent: Instant,
    sending: u64,
    tries: u32,
    due: Instant,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// In flight; counts as lost when due.
    Sent,
    /// Listed in `repeats`; no time-out runs.
    Repeats,
    /// Not retransmitted any more; an acknowledgement may still come until it is due.
    GivenUp,
}

/// An acknowledgement of a message that was never sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NeverSent;

/// Fields of a data packet's header, besides its epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub number: u64,
    pub back: u16,
    pub repeated: bool,
    pub payload: &'a [u8],
}

impl Flight {
    /// Nothing in flight yet; the first packet will have number `first`.
    /// `is_proved`: whether the peer need not prove that it hears us.
    pub fn new(settings: &Settings, max_datagram: usize, epoch: u32, first: u64, is_proved: bool) -> Self {
        let least = if settings.full { LEAST_PACKETS_FULL } else { LEAST_PACKETS };
        Flight {
            epoch,
            ring: Ring::new(first),
            bytes: 0,
            repeats: VecDeque::with_capacity(LEAN_PLACES),
            next_due: None,
            rack: Rack::default(),
            rtt: Rtt::new(settings.rto_floor, settings.ack_delay),
            limit: Limit::new(settings.window, max_datagram, least),
            repeated: 0,
            breaker: Breaker::default(),
            full: settings.full,
            is_proved,
        }
    }

    /// Reserves memory for `messages` in flight, all of which may be retransmitted.
    pub fn reserve(&mut self, messages: usize) {
        self.ring.reserve(messages);
        self.repeats.reserve_exact(messages.min(MAX_FRAMES).saturating_sub(self.repeats.len()));
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Bytes of messages in flight.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets retransmitted so far.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Round-trip estimates.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes, if there is one.
    pub fn cwnd(&self) -> Option<u64> {
        self.limit.cwnd()
    }

    /// Whether the window was halved since the last call.
    pub fn take_halved(&mut self) -> bool {
        self.limit.take_halved()
    }

    /// When [`Self::handle_due`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due
    }

    /// Processes an acknowledgement: settles arrivals, measures the round trip, detects losses. Whether it settled anything.
    pub fn handle_ack(
        &mut self,
        ack: &Ack<'_>,
        received_at: Instant,
        queue: &mut SendQueue,
    ) -> Result<bool, NeverSent> {
        let next = self.ring.next();
        let floor = wire::unwrap(next, ack.floor).filter(|floor| ack.epoch == self.epoch && *floor <= next);
        let floor = floor.ok_or(NeverSent)?;
        let latest = floor.saturating_add_signed(i64::from(ack.latest));
        // Numbers never sent, in the floor or in the map, are forged or another peer's.
        if latest >= next || last_of(ack.map).is_some_and(|last| floor + 1 + last >= next) {
            return Err(NeverSent);
        }
        // Our epoch is random: who knows it has heard us.
        self.is_proved = true;
        self.measure(latest, ack, received_at);
        let before = self.ring.held();
        for number in self.ring.first()..floor {
            self.settle(number, received_at, queue);
        }
        self.settle(latest, received_at, queue);
        for (i, byte) in ack.map.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                self.settle(floor + 1 + 8 * i as u64 + bit, received_at, queue);
            }
        }
        let settled = self.ring.held() != before;
        if settled {
            self.breaker.on_answer(received_at);
            self.see_what_was_overtaken();
        }
        Ok(settled)
    }

    /// A round trip, if it is certain which transmission was answered (Karn's rule): the first, which the receiver
    /// distinguishes from repeats, or the only repeat.
    fn measure(&mut self, latest: u64, ack: &Ack<'_>, received_at: Instant) {
        let Some(entry) = self.ring.entry(latest) else { return };
        let sent = match (ack.latest_repeated, entry.tries) {
            (false, _) => entry.first_sent,
            (true, 2) => entry.last_sent,
            (true, _) => return,
        };
        let elapsed = received_at.since(sent);
        let age = Duration::from_nanos(u64::from(ack.age) * AGE_UNIT_NANOS);
        // An age longer than the whole round trip is invalid.
        self.rtt.on_sample(elapsed.checked_sub(age).unwrap_or(elapsed));
    }

    fn settle(&mut self, number: u64, received_at: Instant, queue: &mut SendQueue) {
        let on_way = if self.full { self.limit.on_way() } else { self.bytes };
        let Some(entry) = self.take(number) else { return };
        let elapsed = received_at.since(entry.last_sent);
        self.rack.on_arrival(entry.sending, entry.tries > 1, elapsed, self.rtt.smoothed());
        self.limit.on_ack(received_at, entry.message.bytes.len(), on_way);
        queue.finish(entry.message, Outcome::Acked);
    }

    fn take(&mut self, number: u64) -> Option<Entry> {
        let entry = self.ring.take(number)?;
        let len = entry.message.bytes.len();
        self.bytes -= len as u64;
        if entry.fate == Fate::Sent {
            self.limit.on_end(len);
        }
        Some(entry)
    }

    /// A message sent before a packet that has arrived counts as lost once the path's reordering time has passed, or
    /// when its deadline leaves no more time.
    fn see_what_was_overtaken(&mut self) {
        let wait = loss_delay(self.rtt.smoothed());
        self.next_due = None;
        for (_, entry) in self.ring.iter_mut().filter(|(_, entry)| entry.fate != Fate::Repeats) {
            if entry.fate == Fate::Sent && self.rack.has_overtaken(entry.sending) {
                entry.due = wait.map_or(entry.due, |wait| entry.due.min(entry.last_sent + wait));
                entry.leave_last_chance();
            }
            self.next_due = sooner(self.next_due, Some(entry.due));
        }
    }

    /// Retransmits, or gives up, messages that are due.
    pub fn handle_due(&mut self, now: Instant, queue: &mut SendQueue) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        self.next_due = None;
        for number in self.ring.first()..self.ring.next() {
            let Some(entry) = self.ring.entry(number) else { continue };
            match entry.fate {
                Fate::Repeats => {}
                _ if entry.due > now => self.next_due = sooner(self.next_due, Some(entry.due)),
                Fate::Sent => {
                    self.note_loss(now, number);
                    match self.repeat_or_give_up(now, number) {
                        Some(until) if until <= now => self.end(now, number, queue),
                        Some(until) => self.next_due = sooner(self.next_due, Some(until)),
                        None => {}
                    }
                }
                Fate::GivenUp => self.end(now, number, queue),
            }
        }
    }

    /// The last transmission of packet `number` was lost.
    fn note_loss(&mut self, now: Instant, number: u64) {
        let Some(entry) = self.ring.entry(number) else { return };
        let (last_sent, sending) = (entry.last_sent, entry.sending);
        self.limit.on_end(entry.message.bytes.len());
        let (overtaken, next) = (self.rack.has_overtaken(sending), self.rack.sent() + 1);
        if !self.full {
            self.limit.on_loss(number, self.ring.next());
        } else if !overtaken && self.limit.is_silent_since(last_sent) {
            self.limit.on_silence(now, last_sent, next);
        } else {
            self.limit.on_loss(sending, next);
        }
    }

    fn end(&mut self, now: Instant, number: u64, queue: &mut SendQueue) {
        let Some(Entry { message, .. }) = self.take(number) else { return };
        let outcome = if message.deadline.is_some_and(|deadline| deadline < now) {
            Outcome::Expired { maybe_received: true }
        } else {
            Outcome::RetriesExhausted
        };
        queue.finish(message, outcome);
    }

    /// Handles a message that counts as lost. If it is given up, returns until when an answer to it may still come.
    fn repeat_or_give_up(&mut self, now: Instant, number: u64) -> Option<Instant> {
        let rto = self.rtt.rto();
        let most = if self.is_proved { MAX_TRIES } else { 1 };
        let entry = self.ring.entry_mut(number)?;
        if self.full || entry.is_in_time(now) && entry.tries < most {
            entry.fate = Fate::Repeats;
            self.repeats.push_back(number);
            return None;
        }
        entry.fate = Fate::GivenUp;
        // Until an answer to the last transmission cannot come any more; just after the deadline, which itself is in
        // time.
        let after = entry.message.deadline.map_or(now, |deadline| deadline + Duration::from_nanos(1));
        entry.due = after.max(entry.last_sent + rto);
        Some(entry.due)
    }

    /// The next packet to send at `now`: retransmissions first, then a message of `queue`, as far as the window allows.
    pub fn next(&mut self, now: Instant, queue: &mut SendQueue) -> Option<Outgoing<'_>> {
        let number = self.next_repeat(now).or_else(|| self.next_first(now, queue))?;
        let back = (number - self.ring.first()) as u16;
        let entry = self.ring.entry(number)?;
        Some(Outgoing { number, back, repeated: entry.tries > 1, payload: &entry.message.bytes })
    }

    fn next_repeat(&mut self, now: Instant) -> Option<u64> {
        if self.full && !(self.is_proved && self.limit.allows()) {
            return None;
        }
        while let Some(number) = self.repeats.pop_front() {
            let rto = self.rtt.rto();
            let Some(entry) = self.ring.entry_mut(number) else { continue };
            if !entry.is_in_time(now) {
                // The wire took nothing for too long.
                if let Some(until) = self.repeat_or_give_up(now, number) {
                    self.next_due = sooner(self.next_due, Some(until));
                }
                continue;
            }
            let len = entry.message.bytes.len();
            entry.tries += 1;
            self.limit.on_send(len);
            if entry.message.deadline.is_some() && !self.breaker.allows(now, rto, len) {
                // As if it were sent and lost: an answer to anything shows that it was overtaken.
                (entry.fate, entry.due) = (Fate::Sent, now + rto);
                self.next_due = sooner(self.next_due, Some(entry.due));
                continue;
            }
            self.repeated += 1;
            // A deadline bounds the retransmissions; without one their interval must grow.
            let wait = match entry.message.deadline {
                None if self.full => self.limit.time_out(rto),
                Some(_) => backed_off(rto, 0, MAX_RTO),
                None => backed_off(rto, entry.tries - 1, MAX_RTO),
            };
            // On a path that delivers nothing, a copy would only add load.
            let overtaken = self.rack.has_overtaken(entry.sending);
            (entry.last_sent, entry.sending, entry.fate) = (now, self.rack.on_send(), Fate::Sent);
            entry.due = now + wait;
            if overtaken {
                entry.leave_last_chance();
            }
            self.next_due = sooner(self.next_due, Some(entry.due));
            return Some(number);
        }
        None
    }

    fn next_first(&mut self, now: Instant, queue: &mut SendQueue) -> Option<u64> {
        // What may be given up is sent again beside the window, and counts until it is settled.
        let allowed = if self.full { self.limit.allows() } else { self.limit.allows_beside(self.bytes) };
        if !allowed || !self.ring.has_room() {
            return None;
        }
        let mut message = queue.pop(now)?;
        if self.full {
            message.deadline = None;
        }
        self.rtt.on_packet(now);
        self.bytes += message.bytes.len() as u64;
        self.breaker.on_first(now, self.ring.is_empty(), message.bytes.len());
        self.limit.on_send(message.bytes.len());
        let due = now + if self.full { self.limit.time_out(self.rtt.rto()) } else { self.rtt.rto() };
        self.next_due = sooner(self.next_due, Some(due));
        let (number, sending) = (self.ring.next(), self.rack.on_send());
        let fate = Fate::Sent;
        self.ring.push(Entry { message, first_sent: now, last_sent: now, sending, tries: 1, due, fate });
        Some(number)
    }

    /// Ends everything in flight with `outcome`.
    pub fn finish_all(&mut self, outcome: Outcome, queue: &mut SendQueue) {
        for number in self.ring.first()..self.ring.next() {
            if let Some(entry) = self.take(number) {
                queue.finish(entry.message, outcome);
            }
        }
        self.repeats.clear();
        self.next_due = None;
    }
}

/// Bounds what is repeated on a path that answers nothing, where each message would be sent as often as its deadline allows: to a
/// quarter of what is sent anyway, which is what shows that the path is back.
#[derive(Debug, Default)]
struct Breaker {
    /// Since when nothing was answered, though something was in flight.
    quiet_since: Instant,
    /// Bytes that may be repeated in silence.
    allowance: usize,
}

impl Breaker {
    /// A message of `len` bytes is sent for the first time; `idle`: nothing was in flight.
    fn on_first(&mut self, now: Instant, idle: bool, len: usize) {
        if idle {
            self.quiet_since = now;
        }
        self.allowance = (self.allowance + len / 4).min(MOST_ALLOWANCE);
    }

    fn on_answer(&mut self, now: Instant) {
        (self.quiet_since, self.allowance) = (now, 0);
    }

    /// Whether a message of `len` bytes may be repeated at `now`; it then is.
    fn allows(&mut self, now: Instant, rto: Duration, len: usize) -> bool {
        if now.since(self.quiet_since) <= (2 * rto).max(LEAST_SILENCE) {
            return true;
        }
        let allows = self.allowance >= len;
        self.allowance -= if allows { len } else { 0 };
        allows
    }
}

/// Shorter than this is a gap, not a path that answers nothing: a station that scans is away for two beacons of 102.4 ms.
const LEAST_SILENCE: Duration = Duration::from_millis(250);
/// The most bytes that silence saves up: a few packets.
const MOST_ALLOWANCE: usize = 4 * 1500;

impl Entry {
    /// Whether a packet sent now can still be played.
    fn is_in_time(&self, now: Instant) -> bool {
        self.message.deadline.is_none_or(|deadline| now <= deadline)
    }

    /// Due just before its deadline at the latest, unless it has been sent since then.
    fn leave_last_chance(&mut self) {
        if let Some(last) = self.message.deadline.map(last_chance).filter(|last| self.last_sent < *last) {
            self.due = self.due.min(last);
        }
    }
}

/// The index of the last bit that is set.
fn last_of(map: &[u8]) -> Option<u64> {
    let at = map.iter().rposition(|byte| *byte != 0)?;
    Some(8 * at as u64 + 7 - u64::from(map[at].leading_zeros()))
}

/// The most transmissions of one message: bounds the cost of a peer that never answers, some 10 s without a deadline.
pub(super) const MAX_TRIES: u32 = 16;

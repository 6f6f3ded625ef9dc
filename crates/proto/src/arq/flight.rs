//! The sender's half of the improved mode: what is on its way, what of it is lost, what is sent again and when not.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Outcome};

use super::aimd::Aimd;
use super::improved::Settings;
use super::ring::Ring;
use super::rtt::{MAX_RTO, Rtt};
use super::wire::{self, AGE_UNIT_NANOS, Ack};
use crate::queue::{LEAN_PLACES, MAX_FRAMES, Queued, SendQueue};

/// Frames on their way.
#[derive(Debug)]
pub(super) struct Flight {
    epoch: u32,
    ring: Ring<Entry>,
    bytes: u64,
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
    repeated: u64,
    /// The window has closed by half, and nobody was told yet.
    halved: bool,
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

/// An acknowledgement of what was never sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NeverSent;

/// What goes into the header of a data packet, beside its epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub number: u64,
    pub back: u16,
    pub repeated: bool,
    pub payload: &'a [u8],
}

impl Flight {
    /// Nothing on its way yet; the first packet will have number `first`.
    pub fn new(settings: &Settings, max_datagram: usize, epoch: u32, first: u64) -> Self {
        Flight {
            epoch,
            ring: Ring::new(first),
            bytes: 0,
            repeats: VecDeque::with_capacity(LEAN_PLACES),
            next_due: None,
            sendings: 0,
            arrived_sending: 0,
            rtt: Rtt::new(settings.rto_floor, settings.ack_delay),
            aimd: settings.aimd.then(|| Aimd::new(max_datagram)),
            repeated: 0,
            halved: false,
        }
    }

    /// Makes room for `frames` on their way, all to be sent again.
    pub fn reserve(&mut self, frames: usize) {
        self.ring.reserve(frames);
        self.repeats.reserve_exact(frames.min(MAX_FRAMES).saturating_sub(self.repeats.len()));
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Bytes of frames on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets sent again so far.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// What is known of round trips.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes, if there is one.
    pub fn cwnd(&self) -> Option<u64> {
        self.aimd.map(|aimd| aimd.cwnd())
    }

    /// Whether the window has closed by half since the last call.
    pub fn take_halved(&mut self) -> bool {
        std::mem::take(&mut self.halved)
    }

    /// When [`Self::handle_due`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due
    }

    /// Settles what has arrived, measures the round trip, and sees what must be lost by now.
    pub fn handle_ack(
        &mut self,
        ack: &Ack<'_>,
        received_at: Instant,
        queue: &mut SendQueue,
    ) -> Result<(), NeverSent> {
        let next = self.ring.next();
        let floor = wire::unwrap(next, ack.floor).filter(|floor| ack.epoch == self.epoch && *floor <= next);
        let floor = floor.ok_or(NeverSent)?;
        let latest = floor.saturating_add_signed(i64::from(ack.latest));
        // Numbers never sent, in the floor or in the map, are a forger's or another peer's.
        if latest >= next || last_of(ack.map).is_some_and(|last| floor + 1 + last >= next) {
            return Err(NeverSent);
        }
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
        if self.ring.held() != before {
            self.see_what_was_overtaken();
        }
        Ok(())
    }

    /// A round trip, where it is sure to which sending the answer belongs (Karn's rule): to the first, which the
    /// receiver tells from repeats, or to the only repeat.
    fn measure(&mut self, latest: u64, ack: &Ack<'_>, received_at: Instant) {
        let Some(entry) = self.ring.entry(latest) else { return };
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

    fn settle(&mut self, number: u64, received_at: Instant, queue: &mut SendQueue) {
        let on_their_way = self.bytes;
        let Some(entry) = self.take(number) else { return };
        // An answer sooner than any round trip was to an earlier sending, and says nothing of when the last arrived.
        let to_last = entry.tries == 1 || Some(received_at.since(entry.last_sent)) >= self.rtt.min();
        if to_last {
            self.arrived_sending = self.arrived_sending.max(entry.sending);
        }
        if let Some(aimd) = &mut self.aimd {
            aimd.on_acked(entry.frame.bytes.len() as u64, on_their_way);
        }
        queue.finish(entry.frame, Outcome::Acked);
    }

    fn take(&mut self, number: u64) -> Option<Entry> {
        let entry = self.ring.take(number)?;
        self.bytes -= entry.frame.bytes.len() as u64;
        Some(entry)
    }

    /// What was sent before a packet that has arrived is lost once the path's reordering has had its time.
    fn see_what_was_overtaken(&mut self) {
        let wait = self.rtt.srtt().unwrap_or_default() + self.rtt.reordering();
        self.next_due = None;
        for (_, entry) in self.ring.iter_mut().filter(|(_, entry)| entry.fate != Fate::Repeats) {
            if entry.fate == Fate::Sent && entry.sending < self.arrived_sending {
                entry.due = entry.due.min(entry.last_sent + wait);
            }
            self.next_due = sooner(self.next_due, entry.due);
        }
    }

    /// Marks for repetition, or gives up, what is due.
    pub fn handle_due(&mut self, now: Instant, queue: &mut SendQueue) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        self.next_due = None;
        for number in self.ring.first()..self.ring.next() {
            let Some(entry) = self.ring.entry(number) else { continue };
            match entry.fate {
                Fate::Repeats => {}
                _ if entry.due > now => self.next_due = sooner(self.next_due, entry.due),
                Fate::Sent => {
                    let next = self.ring.next();
                    self.halved |= self.aimd.as_mut().is_some_and(|aimd| aimd.on_lost(number, next));
                    self.repeat_or_give_up(now, number);
                }
                Fate::GivenUp => self.end(now, number, queue),
            }
        }
    }

    fn end(&mut self, now: Instant, number: u64, queue: &mut SendQueue) {
        let Some(Entry { frame, .. }) = self.take(number) else { return };
        let outcome = if frame.deadline.is_some_and(|deadline| deadline < now) {
            Outcome::Expired { maybe_received: true }
        } else {
            Outcome::RetriesExhausted
        };
        queue.finish(frame, outcome);
    }

    /// What becomes of a frame taken for lost.
    fn repeat_or_give_up(&mut self, now: Instant, number: u64) {
        let (half, rto) = (self.half_trip(), self.rtt.rto());
        let Some(entry) = self.ring.entry_mut(number) else { return };
        if entry.is_in_time(now, half) && entry.tries < MAX_TRIES {
            entry.fate = Fate::Repeats;
            self.repeats.push_back(number);
            return;
        }
        entry.fate = Fate::GivenUp;
        // Until an answer to the last sending can't come any more; just after the deadline, which itself is in time.
        let after = entry.frame.deadline.unwrap_or_default() + Duration::from_nanos(1);
        entry.due = after.max(entry.last_sent + rto);
        self.next_due = sooner(self.next_due, entry.due);
    }

    fn half_trip(&self) -> Duration {
        self.rtt.srtt().unwrap_or_default() / 2
    }

    /// The next packet to send at `now`: repetitions first, then a frame of `queue`, as far as the window allows.
    pub fn next(&mut self, now: Instant, queue: &mut SendQueue) -> Option<Outgoing<'_>> {
        let number = self.next_repeat(now).or_else(|| self.next_first(now, queue))?;
        let back = (number - self.ring.first()) as u16;
        let entry = self.ring.entry(number)?;
        Some(Outgoing { number, back, repeated: entry.tries > 1, payload: &entry.frame.bytes })
    }

    fn next_repeat(&mut self, now: Instant) -> Option<u64> {
        while let Some(number) = self.repeats.pop_front() {
            let (half, rto) = (self.half_trip(), self.rtt.rto());
            let Some(entry) = self.ring.entry_mut(number) else { continue };
            if !entry.is_in_time(now, half) {
                // The wire stood still for too long.
                self.repeat_or_give_up(now, number);
                continue;
            }
            self.sendings += 1;
            self.repeated += 1;
            entry.tries += 1;
            // A deadline bounds the tries by itself; without one they must get rarer.
            let doublings = if entry.frame.deadline.is_some() { 0 } else { entry.tries - 1 };
            let wait = (rto * (1 << doublings)).min(MAX_RTO.max(rto));
            (entry.last_sent, entry.sending, entry.fate) = (now, self.sendings, Fate::Sent);
            entry.due = now + wait;
            self.next_due = sooner(self.next_due, entry.due);
            return Some(number);
        }
        None
    }

    fn next_first(&mut self, now: Instant, queue: &mut SendQueue) -> Option<u64> {
        let allowed = self.aimd.is_none_or(|aimd| aimd.allows(self.bytes));
        if !allowed || !self.ring.has_room() {
            return None;
        }
        let frame = queue.pop(now)?;
        self.rtt.on_packet(now);
        self.sendings += 1;
        self.bytes += frame.bytes.len() as u64;
        let due = now + self.rtt.rto();
        self.next_due = sooner(self.next_due, due);
        let (number, sending) = (self.ring.next(), self.sendings);
        let fate = Fate::Sent;
        self.ring.push(Entry { frame, first_sent: now, last_sent: now, sending, tries: 1, due, fate });
        Some(number)
    }

    /// Ends everything that is on its way with `outcome`.
    pub fn finish_all(&mut self, outcome: Outcome, queue: &mut SendQueue) {
        for number in self.ring.first()..self.ring.next() {
            if let Some(entry) = self.take(number) {
                queue.finish(entry.frame, outcome);
            }
        }
        self.repeats.clear();
        self.next_due = None;
    }
}

impl Entry {
    /// Whether what is sent now can still be played: half a round trip lies before it.
    fn is_in_time(&self, now: Instant, half_trip: Duration) -> bool {
        self.frame.deadline.is_none_or(|deadline| now + half_trip <= deadline)
    }
}

/// The index of the last bit that is set.
fn last_of(map: &[u8]) -> Option<u64> {
    let at = map.iter().rposition(|byte| *byte != 0)?;
    Some(8 * at as u64 + 7 - u64::from(map[at].leading_zeros()))
}

fn sooner(soonest: Option<Instant>, due: Instant) -> Option<Instant> {
    Some(soonest.map_or(due, |s| s.min(due)))
}

/// Sendings of one frame at most: bounds what a peer that never answers costs, some 10 s without a deadline.
pub(super) const MAX_TRIES: u32 = 16;

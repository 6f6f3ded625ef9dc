//! The sending half: messages cut into packets, what of them has arrived, and what is sent again.
//!
//! Positions count from 0, the first byte of this direction. Every packet, control packets included, has a number: the low
//! 32 bits of it are its `sync`, so a status tells by its echo which packets left before one that has arrived, and what it
//! does not list of these was lost (the synchronising handshake).

mod parts;
mod settled;
mod timeouts;

use std::cell::Cell;
use std::collections::VecDeque;

use antiphon_core::{Instant, Outcome, Tag, sooner};

use super::settings::Reliability;
use super::wire::{HEADER, TAG};
use crate::deadline::last_chance;
use crate::limit::{LEAST_PACKETS_FULL, Limit};
use crate::mtu::{BASE, SUSPICIOUS};
use crate::queue::{Queued, SendQueue};
use crate::rack::{MISSES, Rack};
use crate::rtt::RttEstimator;
pub(super) use parts::part_len;
use timeouts::{Known, lost_at};

/// Messages on their way.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Ascending by position, from the first that is not settled.
    parts: VecDeque<Part>,
    /// The messages of `parts`; the first has number `first_message`.
    messages: VecDeque<Sent>,
    first_message: u64,
    /// Position of the next new byte.
    next: u64,
    pub rack: Rack,
    pub limit: Limit,
    reliability: Reliability,
    /// Whether any part is lost.
    any_lost: bool,
    /// Bytes that were sent and are not settled.
    in_flight: u64,
    /// End of the last bytes that were given up, which the receiver may still wait for.
    given_up_to: u64,
    /// Transmissions of large parts that were lost since one arrived, and the latest that arrived.
    large_lost: (u32, u64),
    /// A large part has arrived since this was asked.
    large_arrived: bool,
    /// Parts of `parts` that were sent more than once. Where there are none, those that left later stand behind those that left
    /// earlier.
    repeated: usize,
    /// Messages that are settled and not reported; at least so many are looked for.
    unreported: usize,
    /// No message is past its deadline before this.
    first_deadline: Option<Instant>,
    /// What [`Outgoing::next_timeout`] has found, or earlier; `None`: it must look.
    known: Cell<Option<Known>>,
}

#[derive(Debug)]
struct Sent {
    tag: Tag,
    bytes: Vec<u8>,
    deadline: Option<Instant>,
    sort: u16,
    /// Bytes of it that were cut into parts.
    cut: usize,
    /// Parts that are not settled.
    open: u32,
    given_up: bool,
}

impl Sent {
    fn is_past(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }
}

#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    len: usize,
    message: u64,
    /// Where it begins in its message.
    at: usize,
    sending: u64,
    sent_at: Instant,
    times: u32,
    state: State,
    /// When another copy leaves, as its deadline comes before an answer could.
    copy_at: Option<Instant>,
    /// When the peer was first asked what has come, this part included.
    asked_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Flight,
    Lost,
    Settled,
}

impl Part {
    fn to(&self) -> u64 {
        self.from + self.len as u64
    }
}

/// Data of a packet to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data<'a> {
    pub from: u64,
    pub bytes: &'a [u8],
    /// The message's number, where the packet begins it.
    pub tag: Option<u64>,
    pub ends: bool,
    pub sort: u16,
}

impl Outgoing {
    /// `packet`: bytes of the largest packet.
    pub fn new(reliability: Reliability, packet: usize) -> Self {
        Outgoing {
            parts: VecDeque::new(),
            messages: VecDeque::new(),
            first_message: 0,
            next: 0,
            rack: Rack::default(),
            limit: Limit::new(reliability == Reliability::Full, packet, LEAST_PACKETS_FULL),
            reliability,
            any_lost: false,
            in_flight: 0,
            given_up_to: 0,
            large_lost: (0, 0),
            large_arrived: false,
            repeated: 0,
            unreported: 0,
            first_deadline: None,
            known: Cell::new(None),
        }
    }

    /// Whether large packets are lost, one after another, while small ones arrive: the path is narrower than it was thought
    /// to be, and does not say so (RFC 8899 §4.3). Counting begins anew.
    pub fn take_black_hole(&mut self) -> bool {
        let found = self.large_lost.0 >= SUSPICIOUS;
        if found {
            self.large_lost.0 = 0;
        }
        found
    }

    /// Whether a large packet has arrived since the last call.
    pub fn take_large_arrived(&mut self) -> bool {
        std::mem::take(&mut self.large_arrived)
    }

    /// Reserves memory for so many messages on their way.
    pub fn reserve(&mut self, messages: usize) {
        self.parts.reserve_exact(messages.saturating_sub(self.parts.len()));
        self.messages.reserve_exact(messages.saturating_sub(self.messages.len()));
    }

    /// Position of the next new byte.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes sent and not settled.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Parts from the first that is not settled to the last that was sent.
    pub fn unsettled_parts(&self) -> usize {
        self.parts.len()
    }

    /// The latest deadline of what is on its way; the end of time where there is none.
    pub fn last_deadline(&self) -> Option<Instant> {
        self.messages.iter().map(|sent| sent.deadline.unwrap_or(Instant::from_nanos(u64::MAX))).max()
    }

    /// Everything before this is settled. What the peer lacks of it was given up.
    pub fn settled_to(&self) -> u64 {
        self.parts.front().map_or(self.next, |part| part.from)
    }

    /// Bytes of the message begun last that are still to be cut; 0 where it is settled already.
    pub fn uncut(&self) -> usize {
        let cutting = self.messages.back().filter(|sent| sent.cut < sent.bytes.len() && !sent.given_up);
        cutting.map_or(0, |sent| sent.bytes.len() - sent.cut)
    }

    /// Begins a message.
    pub fn begin(&mut self, message: Queued) {
        let Queued { tag, bytes, deadline, priority, .. } = message;
        let sort = u16::from(priority);
        self.first_deadline = sooner(self.first_deadline, deadline);
        let due = self.expires_at(deadline);
        let with_it = |known: Known| Known { at: sooner(known.at, due), ..known };
        self.known.set(self.known.get().map(with_it));
        self.messages.push_back(Sent { tag, bytes, deadline, sort, cut: 0, open: 0, given_up: false });
    }

    /// Bytes of the next part of the message begun last, at most `most`.
    pub fn next_part(&self, most: usize) -> usize {
        self.messages.back().map_or(0, |sent| part_len(sent.bytes.len(), sent.cut, most))
    }

    /// The next part of the message begun last, of at most `most` bytes, which leaves now.
    pub fn cut(&mut self, now: Instant, most: usize) -> Option<Data<'_>> {
        let number = self.first_message + self.messages.len() as u64 - 1;
        let sent = self.messages.back_mut()?;
        let (at, len) = (sent.cut, part_len(sent.bytes.len(), sent.cut, most));
        sent.cut += len;
        let from = self.next;
        self.next += len as u64;
        let sending = self.rack.on_send();
        if self.reliability != Reliability::None {
            sent.open += 1;
            self.in_flight += len as u64;
            self.limit.on_send(len);
            let (state, copy_at, asked_at) = (State::Flight, None, None);
            let (message, sent_at, times) = (number, now, 1);
            let part = Part { from, len, message, at, sending, sent_at, times, state, copy_at, asked_at };
            self.parts.push_back(part);
        }
        Some(self.data(number, at, from, len))
    }

    fn data(&self, message: u64, at: usize, from: u64, len: usize) -> Data<'_> {
        let sent = &self.messages[(message - self.first_message) as usize];
        let bytes = &sent.bytes[at..at + len];
        let ends = at + len == sent.bytes.len();
        Data { from, bytes, tag: (at == 0).then_some(message), ends, sort: sent.sort }
    }

    /// Messages whose outcome is that they left, where nothing is repeated.
    pub fn release(&mut self, queue: &mut SendQueue) {
        while self.reliability == Reliability::None
            && let Some(sent) = self.messages.pop_front_if(|sent| sent.cut == sent.bytes.len())
        {
            self.first_message += 1;
            queue.recycle(sent.bytes);
            queue.settle(sent.tag, Outcome::Released);
        }
    }

    /// Bytes of the next part to send again, at most `most`; `None` if there is none.
    pub fn peek_repeat(&mut self, most: usize) -> Option<usize> {
        let at = self.next_repeat()?;
        Some(self.parts[at].len.min(most))
    }

    fn next_repeat(&mut self) -> Option<usize> {
        if !self.any_lost {
            return None;
        }
        let found = self.parts.iter().position(|part| part.state == State::Lost);
        self.any_lost = found.is_some();
        found
    }

    /// The next part to send again, of at most `most` bytes: what is longer is cut anew.
    pub fn repeat(&mut self, now: Instant, most: usize, rtt: &RttEstimator) -> Option<Data<'_>> {
        let at = self.next_repeat()?;
        if self.parts[at].len > most {
            self.split(at, most);
        }
        let sending = self.rack.on_send();
        self.known.set(None);
        let part = &mut self.parts[at];
        self.repeated += usize::from(part.times == 1);
        let deadline = self.messages[(part.message - self.first_message) as usize].deadline;
        self.limit.on_send(part.len);
        part.state = State::Flight;
        part.sending = sending;
        part.sent_at = now;
        part.times += 1;
        // What is sent again always asks.
        part.asked_at = Some(now);
        // If this one is lost as well, that is not known in time: one more copy leaves at the last moment.
        let answer_by = now + rtt.base_rto();
        let last = deadline.filter(|deadline| answer_by > *deadline).map(last_chance);
        part.copy_at = last.filter(|last| *last > now);
        let Part { message, at, from, len, .. } = *part;
        Some(self.data(message, at, from, len))
    }

    /// Cuts a part that no longer fits a packet.
    fn split(&mut self, at: usize, most: usize) {
        let part = self.parts[at];
        let rest = Part { from: part.from + most as u64, len: part.len - most, at: part.at + most, ..part };
        self.parts[at].len = most;
        self.repeated += usize::from(part.times > 1);
        self.messages[(part.message - self.first_message) as usize].open += 1;
        self.parts.insert(at + 1, rest);
    }

    /// Parts that left before a packet which has arrived, and that had their time, are lost.
    pub fn find_losses(&mut self, now: Instant, rtt: &RttEstimator) {
        for part in self.parts.iter_mut().filter(|part| part.state == State::Flight) {
            if !self.rack.has_overtaken(part.sending) && self.repeated == 0 {
                // Nor is any behind it overtaken, and copies are made of what was sent again.
                break;
            }
            self.known.set(None);
            let missed =
                self.rack.counts_misses() && self.rack.has_overtaken(part.sending + u64::from(MISSES - 1));
            if missed || lost_at(part, &self.rack, rtt).is_some_and(|at| at <= now) {
                part.state = State::Lost;
                self.any_lost = true;
                // Something that left later has arrived.
                self.large_lost.0 += u32::from(part.len > LARGE && part.sending > self.large_lost.1);
                self.limit.on_end(part.len);
                self.limit.on_loss(part.sending, self.rack.sent() + 1);
            } else if part.copy_at.is_some_and(|at| at <= now) {
                part.state = State::Lost;
                part.copy_at = None;
                self.any_lost = true;
                self.limit.on_end(part.len);
            }
        }
    }

    /// A request leaves: it is about all that has left.
    pub fn on_request(&mut self, now: Instant) {
        for part in self.parts.iter_mut().rev().take_while(|part| part.asked_at.is_none()) {
            part.asked_at = Some(now);
        }
    }
}

/// Bytes of data beyond which a packet is larger than every path carries.
pub(super) const LARGE: usize = BASE - HEADER - TAG;

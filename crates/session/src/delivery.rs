//! What a peer that records is still owed: which messages it has confirmed, which were handed over, which it misses.
//!
//! A recording over a reliable transport is to get every message, through any break of its association. Our own receivers
//! send receipts ([`Receipt`]); what they have not confirmed stays in the track's store, and is handed over again after a
//! break, or where a receiver names it as missing. Receivers that send none are believed to have what the transport says
//! that it delivered.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Outcome};
use antiphon_media::rtcp::Receipt;

use crate::store::{Store, Stored};

/// What one peer has of a track.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// One for each channel group.
    groups: Vec<Group>,
    /// Every earlier message has been confirmed, or cannot be sent any more.
    confirmed: u64,
    /// The next message to hand over.
    next: u64,
    /// No message from this one on was ever handed over, or lost.
    reached: u64,
    /// The same, without those that were lost.
    handed: u64,
    /// To be handed over once more before the next one: those from the first number on that the receiver misses.
    again: Option<Again>,
    /// The transport takes nothing until it says so.
    blocked: bool,
    proof: Proof,
    /// Every earlier message has an outcome, if they come in order.
    settled: u64,
    /// When the first message was handed over.
    began: Option<Instant>,
    /// When something was last confirmed or, before that, handed over.
    progress: Instant,
    /// Messages that could not be kept until they were confirmed.
    lost: u64,
    /// Those of them that had been handed over: the next receipt may say that they have arrived.
    in_doubt: Range<u64>,
}

/// A channel group.
#[derive(Clone, Debug, Default)]
struct Group {
    /// The last message handed over for the first time: its index and sequence number.
    last: Option<(u64, u16)>,
    /// Messages with lower indices have arrived.
    complete: u64,
    /// Indices from `complete` on that are missing: first and count.
    missing: Vec<(u64, u64)>,
    /// Up to this index it is known what is missing.
    known: u64,
    /// Since when the first of them has been missing.
    stuck: Option<Instant>,
}

/// What shows that a message has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// The first receipt may still come.
    Unknown,
    /// The receiver's receipts.
    Receipts,
    /// The transport's outcomes.
    Outcomes,
}

/// A second pass over messages that the receiver misses.
#[derive(Clone, Copy, Debug)]
struct Again {
    next: u64,
    until: u64,
}

impl Delivery {
    /// Of a track with so many channel groups, from message `number` on.
    pub fn new(groups: usize, number: u64, now: Instant) -> Self {
        Delivery {
            groups: vec![Group { missing: Vec::with_capacity(MOST_MISSING), ..Group::default() }; groups],
            confirmed: number,
            next: number,
            reached: number,
            handed: number,
            again: None,
            blocked: false,
            proof: Proof::Unknown,
            settled: number,
            began: None,
            progress: now,
            lost: 0,
            in_doubt: 0..0,
        }
    }

    /// Every earlier message has been confirmed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Every earlier message has arrived, or cannot be sent any more, as far as is known by now.
    pub fn arrived(&self) -> u64 {
        if self.has_receipts() { self.confirmed } else { self.confirmed.max(self.settled) }
    }

    /// Messages that could not be kept until they were confirmed.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the receiver confirms what it has.
    pub fn has_receipts(&self) -> bool {
        self.proof == Proof::Receipts
    }

    /// When something was last confirmed or, before that, handed over.
    pub fn progress(&self) -> Instant {
        self.progress
    }

    /// Whether everything in `store` has been handed over and, as far as the receiver tells, has arrived.
    pub fn is_complete(&self, now: Instant, store: &Store) -> bool {
        let handed = self.next >= store.next() && self.again.is_none();
        match self.proof {
            Proof::Receipts => self.confirmed >= store.next(),
            Proof::Outcomes => handed,
            Proof::Unknown => handed && self.began.is_none_or(|began| now.since(began) >= FIRST_RECEIPT),
        }
    }

    /// When [`Self::is_complete`] may change by itself.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.began.filter(|_| self.proof == Proof::Unknown).map(|began| began + FIRST_RECEIPT)
    }

    /// The next message to hand over; `None` while as many are unconfirmed as a receiver can tell apart.
    pub fn next(&mut self, now: Instant, store: &Store) -> Option<u64> {
        if self.blocked {
            return None;
        }
        self.decide_proof(now);
        self.skip_forgotten(store);
        while let Some(again) = &mut self.again {
            let number = again.next;
            if number >= again.until {
                self.again = None;
                break;
            }
            if store.get(number).is_some_and(|(stored, _)| self.groups[stored.group].misses(stored.index)) {
                return Some(number);
            }
            again.next += 1;
        }
        let window = MOST_UNCONFIRMED * self.groups.len() as u64;
        while self.next < store.held() && self.next < self.confirmed + window {
            if store.get(self.next).is_some() {
                return Some(self.next);
            }
            // A spool has dropped it.
            self.on_unsendable();
        }
        None
    }

    /// The message that [`Self::next`] named was handed over. Returns whether it was the first time.
    pub fn on_handed(&mut self, now: Instant, stored: &Stored) -> bool {
        if let Some(again) = &mut self.again {
            again.next += 1;
            return false;
        }
        self.next = stored.number + 1;
        if stored.number < self.reached {
            return false;
        }
        self.reached = self.next;
        self.handed = self.next;
        self.groups[stored.group].last = Some((stored.index, stored.info.sequence));
        if self.began.is_none() {
            self.began = Some(now);
            self.progress = now;
        }
        true
    }

    /// The transport took nothing: there is no [`Self::next`] until [`Self::on_writable`].
    pub fn on_blocked(&mut self) {
        self.blocked = true;
    }

    /// The transport takes messages again.
    pub fn on_writable(&mut self) {
        self.blocked = false;
    }

    /// The message that [`Self::next`] named cannot be sent at all.
    pub fn on_unsendable(&mut self) {
        match &mut self.again {
            Some(again) => again.next += 1,
            None => {
                self.next += 1;
                self.reached = self.reached.max(self.next);
            }
        }
        self.lost += 1;
    }

    /// The association has broken: what is not confirmed is handed over again.
    pub fn rewind(&mut self) {
        self.next = self.confirmed;
        self.settled = self.confirmed;
        (self.again, self.blocked) = (None, false);
    }

    /// The receiver tells what it has of channel group `group`.
    pub fn on_receipt(&mut self, now: Instant, group: usize, receipt: &Receipt, store: &Store) {
        self.proof = Proof::Receipts;
        let Some(group) = self.groups.get_mut(group) else { return };
        if !group.take(now, receipt) {
            return;
        }
        if group.stuck.is_some_and(|since| now.since(since) >= STUCK) && self.again.is_none() {
            group.stuck = Some(now);
            self.again = Some(Again { next: self.confirmed, until: self.reached });
        }
        self.settle_doubts();
        self.confirm(now, store);
    }

    /// A message has this outcome.
    pub fn on_outcome(&mut self, now: Instant, outcome: Outcome) {
        if !matches!(outcome, Outcome::Acked | Outcome::Released) {
            return;
        }
        self.settled = (self.settled + 1).min(self.reached);
        if self.proof == Proof::Outcomes {
            self.confirmed = self.confirmed.max(self.settled);
            self.progress = now;
        }
    }

    /// A receiver that has sent no receipt by now sends none.
    fn decide_proof(&mut self, now: Instant) {
        let late = self.began.is_some_and(|began| now.since(began) >= FIRST_RECEIPT);
        if self.proof == Proof::Unknown && late {
            self.proof = Proof::Outcomes;
            self.confirmed = self.confirmed.max(self.settled);
        }
    }

    /// What the store has no room for is lost.
    fn skip_forgotten(&mut self, store: &Store) {
        if self.confirmed < store.first() {
            self.lost += store.first() - self.confirmed;
            if self.in_doubt.is_empty() {
                self.in_doubt.start = self.confirmed;
            }
            self.in_doubt.end = store.first().min(self.handed);
            self.confirmed = store.first();
            self.next = self.next.max(self.confirmed);
            self.reached = self.reached.max(self.next);
        }
    }

    /// Of what could not be kept, some may have arrived before the break. Each block of a stream is one message of each group.
    fn settle_doubts(&mut self) {
        let groups = self.groups.len() as u64;
        let arrived = self
            .in_doubt
            .clone()
            .filter(|number| self.groups[(number % groups) as usize].has(number / groups));
        self.lost -= (arrived.count() as u64).min(self.lost);
        self.in_doubt = 0..0;
    }

    fn confirm(&mut self, now: Instant, store: &Store) {
        let before = self.confirmed;
        // What the store does not have was dropped, and counted as lost.
        let settled = |number: u64| {
            store.get(number).is_none_or(|(stored, _)| self.groups[stored.group].has(stored.index))
        };
        while self.confirmed < self.reached && settled(self.confirmed) {
            self.confirmed += 1;
        }
        if self.confirmed > before {
            self.progress = now;
            self.next = self.next.max(self.confirmed);
        }
    }
}

impl Group {
    /// Takes what a receipt says; false if it names messages that were never sent.
    fn take(&mut self, now: Instant, receipt: &Receipt) -> bool {
        let Some((index, sequence)) = self.last else { return false };
        // The receiver counts from the first packet that it received: the low bits say which one it means, near the last
        // one that was sent. What is missing may be a long way behind that.
        let ahead = (receipt.next as u16).wrapping_sub(sequence) as i16;
        let Some(seen) = index.checked_add_signed(ahead.into()).filter(|seen| *seen <= index + 1) else {
            return false;
        };
        let span = u64::from(receipt.next.wrapping_sub(receipt.complete));
        let Some(complete) = seen.checked_sub(span) else { return false };
        if complete < self.complete {
            // It is older than the last one.
            return true;
        }
        if complete > self.complete || complete == seen {
            self.stuck = None;
        }
        self.complete = complete;
        self.missing.clear();
        self.known = seen;
        for (first, count) in receipt.missing() {
            let from = complete + u64::from(first.wrapping_sub(receipt.complete));
            self.missing.push((from, u64::from(*count)));
        }
        if let (Some((first, count)), MOST_MISSING..) = (self.missing.last(), self.missing.len()) {
            self.known = first + count;
        }
        if !self.missing.is_empty() {
            self.stuck.get_or_insert(now);
        }
        true
    }

    /// Whether a message is known to have arrived.
    fn has(&self, index: u64) -> bool {
        index < self.complete || index < self.known && !self.misses(index)
    }

    fn misses(&self, index: u64) -> bool {
        self.missing.iter().any(|(first, count)| (*first..first + count).contains(&index))
    }
}

/// Unconfirmed messages of each channel group at most: half of what a receiver remembers (`recover`), and far less than half
/// of the sequence numbers.
const MOST_UNCONFIRMED: u64 = 4096;
/// How long the first receipt is waited for: receivers send one a quarter of a second after the first packet.
const FIRST_RECEIPT: Duration = Duration::from_secs(1);
/// How long a message is missing behind later ones until the association counts as having dropped it: reliable transports
/// take seconds to repair a message of which several copies were lost.
const STUCK: Duration = Duration::from_secs(3);
/// Missing runs that a receipt names at most.
const MOST_MISSING: usize = 32;

#[cfg(test)]
mod tests;

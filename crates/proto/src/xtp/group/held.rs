//! Data packets of a group's sender, kept until every member has them or until they are of no more use.
//!
//! However short packets are, each takes its bytes and an [`ENTRY`] of memory, about what its headers take on the wire.

mod entry;

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Outcome};

use super::blocks::{Blocks, Chunks};
use super::combination::Content;
use crate::queue::{Queued, SendQueue};
pub(super) use entry::ENTRY;
use entry::{BEGINS, ENDS, Entry, GIVEN_UP, NEVER, QUEUED, widened};

/// Packets that were sent and are not settled, and the message that is being cut.
#[derive(Debug)]
pub(super) struct Held {
    /// Ascending by position, without gaps.
    entries: Chunks<Entry>,
    /// Their bytes.
    blocks: Blocks,
    /// Position of the next new byte.
    next: u64,
    bytes: usize,
    /// Data packets sent so far.
    count: u64,
    /// Messages begun so far.
    messages: u64,
    cutting: Option<(Queued, usize)>,
    /// What is missing of the message whose packets are being settled.
    incomplete: bool,
    unknown: bool,
}

/// A data packet that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub from: u64,
    /// How many data packets were sent before it.
    pub ordinal: u64,
    entry: &'a Entry,
    held: &'a Held,
}

impl<'a> Packet<'a> {
    pub fn len(&self) -> usize {
        usize::from(self.entry.len)
    }

    pub fn to(&self) -> u64 {
        self.from + u64::from(self.entry.len)
    }

    pub fn content(&self) -> Content<'a> {
        let Packet { entry, held, .. } = *self;
        Content {
            tag: entry.is(BEGINS).then(|| widened(entry.message, held.messages)),
            ends: entry.is(ENDS),
            sort: u16::from(entry.priority),
            bytes: held.blocks.get(entry.place, self.len()),
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        Some(self.entry.deadline).filter(|deadline| *deadline != NEVER)
    }

    /// Number of its latest transmission, repairs included.
    pub fn sent(&self) -> u64 {
        self.entry.sent
    }

    /// Whether a repair of it waits to be sent.
    pub fn is_queued(&self) -> bool {
        self.entry.is(QUEUED)
    }

    #[cfg(test)]
    pub fn is_given_up(&self) -> bool {
        self.entry.is(GIVEN_UP)
    }

    pub fn is_past(&self, now: Instant) -> bool {
        now > self.entry.deadline
    }
}

/// What is known of a packet at all members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// There is no member to have it, or none is asked.
    Nobody,
    /// All have it.
    All,
    /// Not all have said that they have it; whether one lacks it.
    NotAll { lacking: bool },
}

impl Held {
    /// `first`: position of the first byte.
    pub fn new(first: u64) -> Self {
        Held {
            entries: Chunks::new(),
            blocks: Blocks::default(),
            next: first,
            bytes: 0,
            count: 0,
            messages: 0,
            cutting: None,
            incomplete: false,
            unknown: false,
        }
    }

    /// Makes room for so many packets, and for data.
    pub fn reserve(&mut self, packets: usize, bytes: usize) {
        self.entries.reserve(packets);
        self.blocks.reserve(bytes);
    }

    /// Position of the next new byte.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Data packets sent so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that packets from a position on take.
    pub fn cost_from(&self, position: u64) -> usize {
        let at = self.index_from(position);
        let bytes = self.entries.get(at).map_or(0, |entry| entry.place.until(self.blocks.end()));
        bytes + (self.entries.len() - at) * ENTRY
    }

    fn all(&self) -> impl Iterator<Item = Packet<'_>> {
        self.packets(0..self.entries.len())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0 && self.cutting.is_none()
    }

    /// Bytes of the message begun last that are still to be cut.
    pub fn uncut(&self) -> usize {
        self.cutting.as_ref().map_or(0, |(message, at)| message.bytes.len() - at)
    }

    pub fn begin(&mut self, message: Queued) {
        self.messages += 1;
        self.cutting = Some((message, 0));
    }

    /// The next packet of the message begun last, of at most `most` bytes, which is transmission `number`.
    pub fn cut(&mut self, most: usize, number: u64, queue: &mut SendQueue) -> Option<Packet<'_>> {
        let (message, at) = self.cutting.as_mut()?;
        let len = (message.bytes.len() - *at).min(most).min(usize::from(u16::MAX));
        let ends = *at + len == message.bytes.len();
        let entry = Entry {
            deadline: message.deadline.unwrap_or(NEVER),
            sent: number,
            tag: message.tag,
            message: self.messages as u32,
            from: self.next as u32,
            place: self.blocks.push(&message.bytes[*at..*at + len]),
            len: len as u16,
            priority: message.priority,
            marks: if *at == 0 { BEGINS } else { 0 } | if ends { ENDS } else { 0 },
        };
        self.entries.push(entry);
        *at += len;
        self.count += 1;
        self.next += len as u64;
        self.bytes += len;
        if ends && let Some((message, _)) = self.cutting.take() {
            queue.recycle(message.bytes);
        }
        self.packets(self.entries.len() - 1..self.entries.len()).next()
    }

    /// What is not cut yet of a message past its deadline is never sent.
    pub fn expire_cutting(&mut self, now: Instant, queue: &mut SendQueue) {
        let past =
            |(message, _): &mut (Queued, usize)| message.deadline.is_some_and(|deadline| now > deadline);
        if let Some((message, at)) = self.cutting.take_if(past) {
            queue.finish(message, Outcome::Expired { maybe_received: at > 0 });
        }
    }

    fn packets(&self, range: Range<usize>) -> impl Iterator<Item = Packet<'_>> + Clone {
        let packet = |at| {
            let entry = self.entries.get(at)?;
            let from = self.position(entry);
            Some(Packet { from, ordinal: self.first_ordinal() + at as u64, entry, held: self })
        };
        range.map_while(packet)
    }

    fn position(&self, entry: &Entry) -> u64 {
        widened(entry.from, self.next)
    }

    /// Of the first that ends behind a position.
    fn index_from(&self, position: u64) -> usize {
        self.entries.partition_point(|entry| self.position(entry) + u64::from(entry.len) <= position)
    }

    /// Those from this position on.
    pub fn from(&self, position: u64) -> impl Iterator<Item = Packet<'_>> {
        self.packets(self.index_from(position)..self.entries.len())
    }

    /// How many data packets were sent before the first that is held. It is that one's *ordinal*.
    pub fn first_ordinal(&self) -> u64 {
        self.count - self.entries.len() as u64
    }

    /// The ordinal of the first packet from this position on, or of the next one that will be sent.
    pub fn ordinal_from(&self, position: u64) -> u64 {
        self.first_ordinal() + self.index_from(position) as u64
    }

    fn index(&self, ordinal: u64) -> Option<usize> {
        ordinal.checked_sub(self.first_ordinal()).map(|at| at as usize)
    }

    /// The packet with this ordinal.
    pub fn get(&self, ordinal: u64) -> Option<Packet<'_>> {
        let at = self.index(ordinal)?;
        self.packets(at..at + 1).next()
    }

    /// The packet with this ordinal, if it is to be sent again for a member that lacked it when it reported and had heard transmission `echo`.
    pub fn wanted(&self, now: Instant, ordinal: u64, echo: u64) -> Option<Packet<'_>> {
        self.get(ordinal)
            .filter(|packet| !packet.is_queued() && packet.sent() <= echo && !packet.is_past(now))
    }

    /// The 64 packets from this ordinal on, as far as they are held, each with how far behind `first` it is.
    pub fn ordinals(&self, first: u64) -> impl Iterator<Item = (usize, Packet<'_>)> + Clone {
        let gone = self.first_ordinal().saturating_sub(first) as usize;
        let at = first.saturating_sub(self.first_ordinal()) as usize;
        (gone..64).zip(self.packets(at..self.entries.len()))
    }

    /// Those of them that a mask chooses.
    pub fn chosen(&self, first: u64, mask: u64) -> impl Iterator<Item = Packet<'_>> {
        self.ordinals(first).filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, packet)| packet)
    }

    fn change_chosen(&mut self, first: u64, mask: u64, change: impl Fn(&mut Entry)) {
        for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
            let at = self.index(first + bit);
            at.and_then(|at| self.entries.get_mut(at)).into_iter().for_each(&change);
        }
    }

    /// Repairs of the packets that a mask chooses wait to be sent, or don't any more.
    pub fn set_queued(&mut self, first: u64, mask: u64, queued: bool) {
        self.change_chosen(first, mask, |entry| entry.mark(QUEUED, queued));
    }

    /// The packets that a mask chooses left again in transmission `number`.
    pub fn set_sent(&mut self, first: u64, mask: u64, number: u64) {
        self.change_chosen(first, mask, |entry| entry.sent = number);
    }

    /// The packet was past its deadline when a member passed over packets, and may be one of them.
    pub fn give_up(&mut self, ordinal: u64) {
        self.change_chosen(ordinal, 1, |entry| entry.mark(GIVEN_UP, true));
    }

    /// Everything before this is not repaired any more: it has arrived everywhere, or is past its deadline.
    pub fn repaired_from(&self, now: Instant) -> u64 {
        self.all().find(|packet| !packet.is_past(now)).map_or(self.next, |packet| packet.from)
    }

    /// Reports outcomes of what is settled and forgets it. `known` is asked for each packet from the first on; `patience`: how
    /// long after its deadline an answer is waited for.
    pub fn settle(
        &mut self,
        now: Instant,
        patience: Duration,
        queue: &mut SendQueue,
        known: impl Fn(&Packet<'_>) -> Known,
    ) {
        while let Some(packet) = self.get(self.first_ordinal()) {
            let known = known(&packet);
            let Entry { marks, deadline, .. } = *packet.entry;
            let late = now > deadline && now.since(deadline) >= patience;
            if marks & BEGINS != 0 {
                // What the message before left, if it was never sent to its end.
                (self.incomplete, self.unknown) = (false, false);
            }
            match known {
                Known::All => self.incomplete |= marks & GIVEN_UP != 0,
                Known::Nobody => self.unknown = true,
                Known::NotAll { .. } if !late => return,
                Known::NotAll { lacking: true } => self.incomplete = true,
                Known::NotAll { lacking: false } => self.unknown = true,
            }
            self.pop(queue);
        }
    }

    /// Gives up the first ones until a packet of `len` bytes takes memory below `most`.
    pub fn make_room(&mut self, len: usize, most: usize, queue: &mut SendQueue) {
        while self.entries.len() > 0 && self.cost_from(0) + len + ENTRY > most {
            (self.incomplete, self.unknown) = (true, false);
            self.pop(queue);
        }
    }

    fn pop(&mut self, queue: &mut SendQueue) {
        let Some(entry) = self.entries.pop() else { return };
        self.bytes -= usize::from(entry.len);
        self.blocks.release_before(self.entries.get(0).map_or(self.blocks.end(), |first| first.place));
        if entry.is(ENDS) {
            let outcome = match (self.incomplete, self.unknown) {
                (true, _) => Outcome::Expired { maybe_received: true },
                (false, true) => Outcome::Released,
                (false, false) => Outcome::Acked,
            };
            (self.incomplete, self.unknown) = (false, false);
            queue.settle(entry.tag, outcome);
        }
    }

    /// The latest deadline of what is held; the end of time where there is none.
    pub fn last_deadline(&self) -> Option<Instant> {
        let held = self.all().map(|packet| packet.entry.deadline);
        let cutting = self.cutting.iter().map(|(message, _)| message.deadline.unwrap_or(NEVER));
        held.chain(cutting).max()
    }

    /// When the first is past its deadline, and when an answer about it is no longer waited for.
    pub fn next_settling(&self, patience: Duration) -> Option<Instant> {
        self.all().next()?.deadline().map(|deadline| deadline + patience.max(Duration::from_nanos(1)))
    }

    /// Ends everything with this outcome.
    pub fn abort(&mut self, queue: &mut SendQueue) {
        while let Some(entry) = self.entries.pop() {
            if entry.is(ENDS) {
                queue.settle(entry.tag, Outcome::Aborted);
            }
        }
        if let Some((message, _)) = self.cutting.take() {
            queue.finish(message, Outcome::Aborted);
        }
        self.blocks.clear();
        self.bytes = 0;
    }
}

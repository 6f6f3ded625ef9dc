//! Data packets of a group's sender, kept until every member has them or until they are of no more use.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, Tag};

use super::combination::Content;
use crate::queue::{Queued, SendQueue};

/// Packets that were sent and are not settled, and the message that is being cut.
#[derive(Debug)]
pub(super) struct Held {
    /// Ascending by position, without gaps.
    packets: VecDeque<Packet>,
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

/// A data packet.
#[derive(Debug)]
pub(super) struct Packet {
    pub from: u64,
    pub bytes: Vec<u8>,
    tag: Option<u64>,
    pub ends: bool,
    sort: u16,
    message: Tag,
    pub deadline: Option<Instant>,
    /// Number of its latest transmission, repairs included.
    pub sent: u64,
    /// A repair of it waits to be sent.
    pub queued: bool,
    /// It was past its deadline when a member passed over packets, and may be one of them.
    pub given_up: bool,
}

impl Packet {
    pub fn to(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    pub fn content(&self) -> Content<'_> {
        Content { tag: self.tag, ends: self.ends, sort: self.sort, bytes: &self.bytes }
    }

    pub fn is_past(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
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
            packets: VecDeque::new(),
            next: first,
            bytes: 0,
            count: 0,
            messages: 0,
            cutting: None,
            incomplete: false,
            unknown: false,
        }
    }

    pub fn reserve(&mut self, packets: usize) {
        self.packets.reserve_exact(packets.saturating_sub(self.packets.len()));
    }

    /// Position of the next new byte.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Data packets sent so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.cutting.is_none()
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
    pub fn cut(&mut self, most: usize, number: u64, queue: &mut SendQueue) -> Option<&Packet> {
        let (message, at) = self.cutting.as_mut()?;
        let len = (message.bytes.len() - *at).min(most);
        let ends = *at + len == message.bytes.len();
        let mut bytes = queue.buffer();
        bytes.extend_from_slice(&message.bytes[*at..*at + len]);
        self.count += 1;
        let packet = Packet {
            from: self.next,
            bytes,
            tag: (*at == 0).then_some(self.messages),
            ends,
            sort: u16::from(message.priority),
            message: message.tag,
            deadline: message.deadline,
            sent: number,
            queued: false,
            given_up: false,
        };
        *at += len;
        self.next += len as u64;
        self.bytes += len;
        if ends && let Some((message, _)) = self.cutting.take() {
            queue.recycle(message.bytes);
        }
        self.packets.push_back(packet);
        self.packets.back()
    }

    /// What is not cut yet of a message past its deadline is never sent.
    pub fn expire_cutting(&mut self, now: Instant, queue: &mut SendQueue) {
        let past =
            |(message, _): &mut (Queued, usize)| message.deadline.is_some_and(|deadline| now > deadline);
        if let Some((message, at)) = self.cutting.take_if(past) {
            queue.finish(message, Outcome::Expired { maybe_received: at > 0 });
        }
    }

    /// Those from this position on.
    pub fn from(&self, position: u64) -> impl Iterator<Item = &Packet> {
        let at = self.packets.partition_point(|packet| packet.to() <= position);
        self.packets.range(at..)
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Packet> {
        self.packets.iter_mut()
    }

    /// How many data packets were sent before the first that is held. It is that one's *ordinal*.
    fn first_ordinal(&self) -> u64 {
        self.count - self.packets.len() as u64
    }

    /// The ordinal of the packet at exactly this position.
    pub fn ordinal_of(&self, from: u64) -> Option<u64> {
        let at = self.packets.binary_search_by_key(&from, |packet| packet.from).ok()?;
        Some(self.first_ordinal() + at as u64)
    }

    /// The 64 packets from this ordinal on, as far as they are held, each with how far behind `first` it is.
    pub fn ordinals(&self, first: u64) -> impl Iterator<Item = (usize, &Packet)> {
        let gone = self.first_ordinal().saturating_sub(first) as usize;
        let at = first.saturating_sub(self.first_ordinal()) as usize;
        let held = self.packets.range(at.min(self.packets.len())..);
        (gone..64).zip(held)
    }

    /// Those of them that a mask chooses.
    pub fn chosen(&self, first: u64, mask: u64) -> impl Iterator<Item = &Packet> {
        self.ordinals(first).filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, packet)| packet)
    }

    /// The same, mutable.
    pub fn chosen_mut(&mut self, first: u64, mask: u64) -> impl Iterator<Item = &mut Packet> {
        let gone = self.first_ordinal().saturating_sub(first) as usize;
        let at = first.saturating_sub(self.first_ordinal()) as usize;
        let at = at.min(self.packets.len());
        let held = self.packets.range_mut(at..);
        (gone..64).zip(held).filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, packet)| packet)
    }

    /// The packet at exactly this position.
    pub fn at(&self, from: u64) -> Option<&Packet> {
        let at = self.packets.binary_search_by_key(&from, |packet| packet.from).ok()?;
        self.packets.get(at)
    }

    pub fn at_mut(&mut self, from: u64) -> Option<&mut Packet> {
        let at = self.packets.binary_search_by_key(&from, |packet| packet.from).ok()?;
        self.packets.get_mut(at)
    }

    /// Everything before this is not repaired any more: it has arrived everywhere, or is past its deadline.
    pub fn repaired_from(&self, now: Instant) -> u64 {
        self.packets.iter().find(|packet| !packet.is_past(now)).map_or(self.next, |packet| packet.from)
    }

    /// Reports outcomes of what is settled and forgets it. `known` is asked for each packet from the first on, with its ordinal; `patience`: how
    /// long after its deadline an answer is waited for.
    pub fn settle(
        &mut self,
        now: Instant,
        patience: Duration,
        queue: &mut SendQueue,
        known: impl Fn(&Packet, u64) -> Known,
    ) {
        while let Some(packet) = self.packets.front() {
            if packet.tag.is_some() {
                // What the message before left, if it was never sent to its end.
                (self.incomplete, self.unknown) = (false, false);
            }
            let ordinal = self.first_ordinal();
            let late =
                packet.deadline.is_some_and(|deadline| now.since(deadline) >= patience && now > deadline);
            match known(packet, ordinal) {
                Known::All => self.incomplete |= packet.given_up,
                Known::Nobody => self.unknown = true,
                Known::NotAll { .. } if !late => return,
                Known::NotAll { lacking: true } => self.incomplete = true,
                Known::NotAll { lacking: false } => self.unknown = true,
            }
            self.pop(queue);
        }
    }

    /// The first is given up, as there is no room for more.
    pub fn give_up_first(&mut self, queue: &mut SendQueue) {
        (self.incomplete, self.unknown) = (true, false);
        self.pop(queue);
    }

    fn pop(&mut self, queue: &mut SendQueue) {
        let Some(packet) = self.packets.pop_front() else { return };
        self.bytes -= packet.bytes.len();
        queue.recycle(packet.bytes);
        if packet.ends {
            let outcome = match (self.incomplete, self.unknown) {
                (true, _) => Outcome::Expired { maybe_received: true },
                (false, true) => Outcome::Released,
                (false, false) => Outcome::Acked,
            };
            (self.incomplete, self.unknown) = (false, false);
            queue.settle(packet.message, outcome);
        }
    }

    /// The latest deadline of what is held; the end of time where there is none.
    pub fn last_deadline(&self) -> Option<Instant> {
        let held = self.packets.iter().map(|packet| packet.deadline);
        let cutting = self.cutting.iter().map(|(message, _)| message.deadline);
        held.chain(cutting).map(|deadline| deadline.unwrap_or(Instant::from_nanos(u64::MAX))).max()
    }

    /// When the first is past its deadline, and when an answer about it is no longer waited for.
    pub fn next_settling(&self, patience: Duration) -> Option<Instant> {
        self.packets.front()?.deadline.map(|deadline| deadline + patience.max(Duration::from_nanos(1)))
    }

    /// Ends everything with this outcome.
    pub fn abort(&mut self, queue: &mut SendQueue) {
        while let Some(packet) = self.packets.pop_front() {
            queue.recycle(packet.bytes);
            if packet.ends {
                queue.settle(packet.message, Outcome::Aborted);
            }
        }
        if let Some((message, _)) = self.cutting.take() {
            queue.finish(message, Outcome::Aborted);
        }
        self.bytes = 0;
    }
}

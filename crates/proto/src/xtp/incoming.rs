//! The receiving half: which bytes have come, and messages put together from them.
//!
//! Positions count from 0, the first byte that the sender numbers. A message begins with a tagged packet and ends with EOM.

use std::collections::VecDeque;

use antiphon_core::{Instant, PathId, Received, StreamId};

use crate::inbox::Inbox;
use crate::pool::Pool;

/// Received bytes of one direction.
#[derive(Debug)]
pub(super) struct Incoming {
    /// All before this has come or is given up.
    next: u64,
    /// Ranges above `next` that have come: ascending, neither touching nor overlapping.
    spans: VecDeque<(u64, u64)>,
    /// Parts of messages that are not complete, or that wait for earlier ones: ascending.
    parts: VecDeque<Part>,
    /// Bytes in them.
    held: usize,
    spare: Pool,
    ordered: bool,
    /// The end of the farthest byte that has come.
    farthest: u64,
    /// Bytes that may come ahead of what is missing.
    window: u64,
    /// Spans that there may be.
    most_spans: usize,
}

/// Part of a message.
#[derive(Debug)]
struct Part {
    from: u64,
    bytes: Vec<u8>,
    /// It begins, and ends, its message.
    begins: bool,
    ends: bool,
    sort: u16,
    path: PathId,
    received_at: Instant,
    repaired: bool,
}

impl Part {
    fn to(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// Data of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub from: u64,
    pub bytes: &'a [u8],
    pub begins: bool,
    pub ends: bool,
    pub sort: u16,
    pub path: PathId,
    pub received_at: Instant,
}

/// What came of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// New bytes; whether they left a gap before them.
    New { gap: bool },
    /// All of it had come.
    Duplicate,
    /// There is no room: as if it had not come.
    Refused,
    /// Empty, beyond the window, or part of a message that is too long.
    Malformed,
}

impl Incoming {
    pub fn new(ordered: bool) -> Self {
        Incoming {
            next: 0,
            spans: VecDeque::new(),
            parts: VecDeque::new(),
            held: 0,
            spare: Pool::new(MOST_SPARE),
            ordered,
            farthest: 0,
            window: super::WINDOW as u64,
            most_spans: MOST_SPANS,
        }
    }

    /// With another window than [`super::WINDOW`], in bytes, and more spans than [`MOST_SPANS`].
    pub fn with_bounds(self, window: usize, most_spans: usize) -> Self {
        Incoming { window: window as u64, most_spans, ..self }
    }

    /// The first byte of interest is at this position: for a stream that had begun before.
    pub fn start_at(&mut self, position: u64) {
        (self.next, self.farthest) = (position, position);
    }

    /// Whether the byte at this position has come, or is given up.
    pub fn has(&self, position: u64) -> bool {
        position < self.next || self.span_with(position).is_some()
    }

    fn span_with(&self, position: u64) -> Option<(u64, u64)> {
        let at = self.spans.partition_point(|span| span.1 <= position);
        self.spans.get(at).copied().filter(|span| span.0 <= position)
    }

    /// The first span that begins at this position or behind it.
    fn span_from(&self, position: u64) -> Option<(u64, u64)> {
        self.spans.get(self.spans.partition_point(|span| span.0 < position)).copied()
    }

    /// Whether bytes of these positions would be a further span.
    fn is_further_span(&self, from: u64, to: u64) -> bool {
        let before = self.spans.get(self.spans.partition_point(|span| span.1 < from));
        let extends = self.next >= from || before.is_some_and(|span| span.0 <= from);
        !extends && self.span_from(to).is_none_or(|span| span.0 != to)
    }

    /// Reserves memory for `parts` of `typical` bytes.
    pub fn reserve(&mut self, parts: usize, typical: usize) {
        self.spans.reserve_exact(MOST_SPANS + 1 - self.spans.len());
        self.parts.reserve_exact(parts.saturating_sub(self.parts.len()));
        self.spare.fill(parts, parts, typical);
    }

    /// All before this has come or is given up.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What has come above it.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().copied()
    }

    /// Bytes that are held for messages not yet delivered.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether a sender may have sent bytes up to this position.
    pub fn is_in_window(&self, to: u64) -> bool {
        to <= self.next.saturating_add(self.window)
    }

    /// Takes what has come; complete messages go to `inbox`.
    pub fn take(&mut self, arrival: Arrival<'_>, inbox: &mut Inbox) -> Taken {
        let len = arrival.bytes.len() as u64;
        let Some(to) = arrival.from.checked_add(len).filter(|to| len > 0 && self.is_in_window(*to)) else {
            return Taken::Malformed;
        };
        let around = self.span_with(arrival.from);
        if to <= self.next || around.is_some_and(|span| to <= span.1) {
            return Taken::Duplicate;
        }
        // A path that became narrower makes the sender cut anew: only what is new counts.
        let from = around.map_or(arrival.from, |span| span.1).max(self.next);
        if let Some(limit) = self.span_from(from + 1).map(|span| span.0).filter(|limit| *limit < to) {
            // Some of it in the middle has come: what is before and what is behind are taken as two packets.
            let (before, behind) = arrival.bytes.split_at((limit - arrival.from) as usize);
            let head = self.take(Arrival { bytes: before, ends: false, ..arrival }, inbox);
            let tail = Arrival { from: limit, bytes: behind, begins: false, ..arrival };
            return match self.take(tail, inbox) {
                Taken::Duplicate => head,
                tail => tail,
            };
        }
        if self.held as u64 + (to - from) > self.window.max(MOST_HELD) {
            return Taken::Refused;
        }
        let whole = from == arrival.from && arrival.begins && arrival.ends;
        // What is held may become complete by this.
        let room = inbox.has_room(arrival.bytes.len() + if self.ordered { 0 } else { self.held });
        if (whole && !room) || self.spans.len() >= self.most_spans && self.is_further_span(from, to) {
            return Taken::Refused;
        }
        let repaired = arrival.from < self.farthest;
        let gap = arrival.from > self.farthest.max(self.next);
        self.farthest = self.farthest.max(to);
        if whole && !self.ordered {
            self.cover(from, to);
            let received = received(arrival.bytes.len(), arrival.path, arrival.received_at, repaired);
            inbox.push_joined(std::iter::once(arrival.bytes), received, arrival.sort);
            return Taken::New { gap };
        }
        self.cover(from, to);
        self.hold(arrival, from, repaired);
        let sound = if self.ordered { self.deliver_in_order(inbox) } else { self.join_at(from, inbox) };
        if sound { Taken::New { gap } } else { Taken::Malformed }
    }

    /// What is missing before `position` is given up by the sender.
    pub fn give_up(&mut self, position: u64, inbox: &mut Inbox) {
        // It may all have been lost, but it was sent.
        if self.is_in_window(position) {
            self.skip_to(position, inbox);
        }
    }

    /// The same where a sender may have sent more than the window since it was heard last.
    pub fn skip_to(&mut self, position: u64, inbox: &mut Inbox) {
        if position <= self.next {
            return;
        }
        self.next = position;
        self.farthest = self.farthest.max(position);
        self.absorb();
        if self.ordered {
            self.deliver_in_order(inbox);
        }
        self.forget_incomplete();
    }

    /// The inbox has room again.
    pub fn resume(&mut self, inbox: &mut Inbox) {
        if self.ordered && !self.parts.is_empty() {
            self.deliver_in_order(inbox);
        }
    }

    /// Notes that these bytes have come.
    fn cover(&mut self, from: u64, to: u64) {
        let at = self.spans.partition_point(|span| span.1 < from);
        match self.spans.get_mut(at) {
            Some(span) if span.0 <= to => {
                *span = (span.0.min(from), span.1.max(to));
                if let Some(next) = self.spans.get(at + 1).copied()
                    && next.0 <= self.spans[at].1
                {
                    self.spans[at].1 = self.spans[at].1.max(next.1);
                    self.spans.remove(at + 1);
                }
            }
            _ => self.spans.insert(at, (from, to)),
        }
        self.absorb();
    }

    /// Moves [`Self::next`] over what has come.
    fn absorb(&mut self) {
        while let Some(span) = self.spans.front().filter(|span| span.0 <= self.next) {
            self.next = self.next.max(span.1);
            self.spans.pop_front();
        }
    }

    /// Keeps the new part of an arrival, from `from`.
    fn hold(&mut self, arrival: Arrival<'_>, from: u64, repaired: bool) {
        let new = &arrival.bytes[(from - arrival.from) as usize..];
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(new);
        self.held += new.len();
        let Arrival { ends, sort, path, received_at, .. } = arrival;
        let begins = arrival.begins && from == arrival.from;
        let part = Part { from, bytes, begins, ends, sort, path, received_at, repaired };
        let at = self.parts.partition_point(|held| held.from < from);
        self.parts.insert(at, part);
    }

    /// The last part of those of one message that follow the part at `first` without a gap.
    fn run_end(&self, first: usize) -> usize {
        let mut last = first;
        while let (part, Some(next)) = (&self.parts[last], self.parts.get(last + 1))
            && !part.ends
            && !next.begins
            && part.to() == next.from
        {
            last += 1;
        }
        last
    }

    /// The first of those that precede it.
    fn run_start(&self, last: usize) -> usize {
        let mut first = last;
        while first > 0 && !self.parts[first].begins && self.run_end(first - 1) >= first {
            first -= 1;
        }
        first
    }

    fn is_too_long(&self, first: usize, last: usize) -> bool {
        self.parts[last].to() - self.parts[first].from > super::MAX_MESSAGE as u64
    }

    fn is_complete(&self, first: usize, last: usize) -> bool {
        self.parts[first].begins && self.parts[last].ends
    }

    /// Delivers the message around the part that begins at `from` if it is complete. False: it is too long.
    fn join_at(&mut self, from: u64, inbox: &mut Inbox) -> bool {
        let at = self.parts.partition_point(|part| part.from < from);
        let (first, last) = (self.run_start(at), self.run_end(at));
        if self.is_too_long(first, last) {
            self.remove(first, last);
            return false;
        }
        if self.is_complete(first, last) {
            self.deliver(first, last, inbox);
        }
        true
    }

    /// Delivers the complete messages before [`Self::next`]. False: one is too long.
    fn deliver_in_order(&mut self, inbox: &mut Inbox) -> bool {
        while self.parts.front().is_some_and(|part| part.to() <= self.next) {
            let last = self.run_end(0);
            if self.is_too_long(0, last) {
                self.remove(0, last);
                return false;
            }
            if self.is_complete(0, last) {
                let len = self.parts[last].to() - self.parts[0].from;
                if !inbox.has_room(len as usize) {
                    return true;
                }
                self.deliver(0, last, inbox);
            } else if self.parts[0].begins && !self.parts[last].ends && self.parts[last].to() >= self.next {
                return true;
            } else {
                self.remove(0, last);
            }
        }
        true
    }

    fn deliver(&mut self, first: usize, last: usize, inbox: &mut Inbox) {
        let len = (self.parts[last].to() - self.parts[first].from) as usize;
        let repaired = self.parts.range(first..=last).any(|part| part.repaired);
        let latest =
            self.parts.range(first..=last).max_by_key(|part| part.received_at).expect("one part at least");
        let received = received(len, latest.path, latest.received_at, repaired);
        let sort = self.parts[first].sort;
        let slices = self.parts.range(first..=last).map(|part| &part.bytes[..]);
        inbox.push_joined(slices, received, sort);
        self.remove(first, last);
    }

    /// Parts before [`Self::next`] of messages that can't become complete.
    fn forget_incomplete(&mut self) {
        let mut at = 0;
        while at < self.parts.len() && self.parts[at].from < self.next {
            let last = self.run_end(at);
            let lacks_end = !self.parts[last].ends && self.parts[last].to() < self.next;
            if !self.parts[at].begins || lacks_end {
                self.remove(at, last);
            } else {
                at = last + 1;
            }
        }
    }

    fn remove(&mut self, first: usize, last: usize) {
        for _ in first..=last {
            if let Some(part) = self.parts.remove(first) {
                self.held -= part.bytes.len();
                self.spare.give(part.bytes);
            }
        }
    }
}

fn received(len: usize, path: PathId, received_at: Instant, repaired: bool) -> Received {
    Received { len, path, stream: StreamId(0), received_at, repaired }
}

/// Ranges above the first gap that are told: more gaps at once than a path that loses half of its packets leaves in 100 ms
/// of 5 ms packets. A packet that would make another is dropped and comes again.
pub(super) const MOST_SPANS: usize = 64;
/// Most bytes held for messages that are not complete, or that wait for others, where the window is not larger.
const MOST_HELD: u64 = 1 << 20;
/// Most spare buffers.
const MOST_SPARE: usize = 1024;

#[cfg(test)]
mod tests;

//! Reassembles messages from fragments and orders them within streams (RFC 9260 §6.5, §6.9; RFC 8260 §2.2.3).

use std::cmp::Ordering;

use antiphon_core::Seq32;

use super::wire::chunks::{DataHeader, Skipped};
use crate::pool::Pool;

/// Fragments of incomplete messages, and complete messages that wait for earlier ones.
#[derive(Debug)]
pub(super) struct Assembly {
    /// In the order of [`Held::order`].
    held: Vec<Held>,
    spare: Pool,
    /// Bytes that count against the receiver window: payload held, plus an overhead for each fragment.
    pub charged: usize,
    /// The next SSN or MID to deliver in each stream.
    next: Vec<u32>,
    /// SSNs wrap after 16 bits, MIDs after 32.
    interleaved: bool,
    joined: Vec<u8>,
}

#[derive(Debug)]
struct Held {
    stream: u16,
    unordered: bool,
    /// SSN or MID; 0 for an unordered DATA chunk, which has none.
    number: Seq32,
    /// TSN of DATA, FSN of I-DATA: consecutive over the fragments of a message.
    position: Seq32,
    begin: bool,
    end: bool,
    bytes: Vec<u8>,
}

impl Held {
    fn order(&self, other: &Held) -> Ordering {
        let serial = |a: Seq32, b: Seq32| a.distance(b).cmp(&0);
        let kinds = (self.stream, self.unordered).cmp(&(other.stream, other.unordered));
        kinds
            .then_with(|| serial(self.number, other.number))
            .then_with(|| serial(self.position, other.position))
    }

    fn is_followed_by(&self, next: &Held) -> bool {
        (self.stream, self.unordered, self.number) == (next.stream, next.unordered, next.number)
            && self.position.next() == next.position
            && !self.end
            && !next.begin
    }
}

impl Assembly {
    pub fn new(interleaved: bool) -> Self {
        let mut spare = Pool::new(MOST_SPARE);
        spare.fill(READY, 0, 0);
        let (held, next) = (Vec::with_capacity(READY), Vec::with_capacity(4));
        Assembly { held, spare, charged: 0, next, interleaved, joined: Vec::new() }
    }

    /// Reserves memory for messages that wait for earlier ones: `messages` of `typical` bytes, and as many in any
    /// stream.
    pub fn make_ready(&mut self, messages: usize, typical: usize) {
        let messages = messages.clamp(READY, MOST_SPARE);
        self.held.reserve_exact(messages.saturating_sub(self.held.len()));
        self.spare.fill(messages, messages, typical);
    }

    /// Takes the payload of a new chunk, and passes every message that is now deliverable to `deliver`.
    pub fn take(&mut self, header: &DataHeader, payload: &[u8], mut deliver: impl FnMut(u16, &[u8])) {
        let whole = header.begin && header.end;
        let number = self.extend(header);
        if whole && header.unordered {
            return deliver(header.stream, payload);
        }
        if !header.unordered {
            let next = self.next(header.stream);
            if number.is_before(next) {
                // The message was delivered or given up before.
                return;
            }
            if whole && number == next {
                deliver(header.stream, payload);
                self.step(header.stream, number);
                return self.release(header.stream, deliver);
            }
        }
        self.hold(header, number, payload, deliver);
    }

    fn hold(
        &mut self,
        header: &DataHeader,
        number: Seq32,
        payload: &[u8],
        mut deliver: impl FnMut(u16, &[u8]),
    ) {
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(payload);
        let position = if self.interleaved { Seq32(header.fragment) } else { header.tsn };
        let (stream, unordered) = (header.stream, header.unordered);
        let held = Held { stream, unordered, number, position, begin: header.begin, end: header.end, bytes };
        let Err(at) = self.held.binary_search_by(|other| other.order(&held)) else {
            // Two fragments at the same position: a broken peer.
            return self.spare.give(held.bytes);
        };
        self.charged += held.bytes.len() + OVERHEAD;
        self.held.insert(at, held);
        let Some((first, last)) = self.whole_around(at) else { return };
        if unordered {
            self.give(first, last, &mut deliver);
        } else if number == self.next(stream) {
            self.give(first, last, &mut deliver);
            self.step(stream, number);
            self.release(stream, deliver);
        }
    }

    /// The peer has given up everything up to `cumulative` that has not arrived; in these streams, up to these
    /// messages.
    pub fn forward(
        &mut self,
        cumulative: Seq32,
        skipped: impl Iterator<Item = Skipped>,
        mut deliver: impl FnMut(u16, &[u8]),
    ) {
        for skip in skipped {
            let Skipped { stream, unordered, number } = skip;
            if unordered {
                let number = Seq32(number);
                self.drop_where(|held| {
                    held.stream == stream && held.unordered && !number.is_before(held.number)
                });
                continue;
            }
            let last = self.extend_number(stream, number);
            if last.is_before(self.next(stream)) {
                continue;
            }
            // Delivers complete messages up to `last`, drops the rest.
            while let Some(at) = self.first_of(stream).filter(|at| !last.is_before(self.held[*at].number)) {
                match self.whole_around(at) {
                    Some((first, last)) => self.give(first, last, &mut deliver),
                    None => self.discard(at),
                }
            }
            self.step(stream, last);
            self.release(stream, &mut deliver);
        }
        if !self.interleaved {
            self.drop_unfinished(cumulative);
        }
    }

    /// Drops fragments whose messages can't become complete: the peer sends nothing up to `cumulative` again.
    fn drop_unfinished(&mut self, cumulative: Seq32) {
        let mut at = 0;
        while at < self.held.len() {
            if cumulative.is_before(self.held[at].position) {
                at += 1;
            } else if let Some((_, last)) = self.whole_around(at) {
                // Its other fragments need no check, which would take quadratic time for a long message.
                at = last + 1;
            } else {
                self.discard(at);
            }
        }
    }

    /// Delivers the messages of `stream` that are next in order.
    fn release(&mut self, stream: u16, mut deliver: impl FnMut(u16, &[u8])) {
        while let Some(at) = self.first_of(stream).filter(|at| self.held[*at].number == self.next(stream)) {
            let Some((first, last)) = self.whole_around(at) else { return };
            let number = self.held[at].number;
            self.give(first, last, &mut deliver);
            self.step(stream, number);
        }
    }

    /// The first ordered fragment of `stream`.
    fn first_of(&self, stream: u16) -> Option<usize> {
        let at = self.held.partition_point(|held| held.stream < stream);
        self.held.get(at).filter(|held| held.stream == stream && !held.unordered).map(|_| at)
    }

    /// Positions of the first and last fragment of the message around the fragment at `at`, if it is complete.
    fn whole_around(&self, at: usize) -> Option<(usize, usize)> {
        let follows =
            |at: usize| self.held.get(at + 1).is_some_and(|next| self.held[at].is_followed_by(next));
        let (mut first, mut last) = (at, at);
        // Checks the end first: a long message that arrives in order lacks only its end.
        while !self.held[last].end {
            if !follows(last) {
                return None;
            }
            last += 1;
        }
        while !self.held[first].begin {
            if first == 0 || !follows(first - 1) {
                return None;
            }
            first -= 1;
        }
        Some((first, last))
    }

    fn give(&mut self, first: usize, last: usize, deliver: &mut impl FnMut(u16, &[u8])) {
        let stream = self.held[first].stream;
        if first == last {
            deliver(stream, &self.held[first].bytes);
        } else {
            self.joined.clear();
            for held in &self.held[first..=last] {
                self.joined.extend_from_slice(&held.bytes);
            }
            deliver(stream, &self.joined);
        }
        for held in self.held.drain(first..=last) {
            self.charged -= held.bytes.len() + OVERHEAD;
            self.spare.give(held.bytes);
        }
    }

    fn discard(&mut self, at: usize) {
        let held = self.held.remove(at);
        self.charged -= held.bytes.len() + OVERHEAD;
        self.spare.give(held.bytes);
    }

    fn drop_where(&mut self, gone: impl Fn(&Held) -> bool) {
        // In one pass: a peer chooses how much is dropped.
        let (charged, spare) = (&mut self.charged, &mut self.spare);
        self.held.retain_mut(|held| {
            let stays = !gone(held);
            if !stays {
                *charged -= held.bytes.len() + OVERHEAD;
                spare.give(std::mem::take(&mut held.bytes));
            }
            stays
        });
    }

    fn next(&self, stream: u16) -> Seq32 {
        // Numbers begin at 0 in every stream; streams without any message yet have no entry.
        Seq32(self.next.get(usize::from(stream)).copied().unwrap_or(0))
    }

    fn step(&mut self, stream: u16, delivered: Seq32) {
        let stream = usize::from(stream);
        if self.next.len() <= stream {
            self.next.resize(stream + 1, 0);
        }
        self.next[stream] = delivered.next().0;
    }

    fn extend(&self, header: &DataHeader) -> Seq32 {
        match (header.unordered, self.interleaved) {
            (true, false) => Seq32(0),
            (true, true) => Seq32(header.number),
            (false, _) => self.extend_number(header.stream, header.number),
        }
    }

    /// Extends an SSN to a number that does not wrap after 16 bits: the nearest one to the stream's next.
    fn extend_number(&self, stream: u16, number: u32) -> Seq32 {
        if self.interleaved {
            return Seq32(number);
        }
        let next = self.next(stream);
        let ahead = (number as u16).wrapping_sub(next.0 as u16) as i16;
        Seq32(next.0.wrapping_add_signed(i32::from(ahead)))
    }
}

/// Charged for a fragment beside its payload, so that many small ones can't fill memory uncounted: a window of 1 MiB
/// holds at most 4096 of them.
const OVERHEAD: usize = 256;
/// Places reserved at the start, for what waits in a stream until a retransmission.
const READY: usize = 32;
/// Buffers kept for fragments of later messages: a message of 256 KiB takes 180.
const MOST_SPARE: usize = 192;

#[cfg(test)]
mod tests;

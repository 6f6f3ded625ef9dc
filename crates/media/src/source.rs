//! Whose packets these are: holds on to one sender, keeps strangers out, and notices when a sender starts anew.
//!
//! RFC 3550 A.1 with two departures. The first source heard is taken at its first packet, not its second: a recording
//! must not lack its beginning. Until it has shown two packets in a row its place is not safe, so that a stray datagram
//! cannot lock the true sender out. And a source is a pair of SSRC and path: the same SSRC from elsewhere is a stranger
//! until the one we know falls silent.

use std::time::Duration;

use antiphon_core::{Instant, PathId, Seq16};

/// What to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is of the stream we follow.
    Accepted,
    /// It is the first of a stream: a first sender, another after the old one fell silent, or the same one started anew.
    NewStream,
    /// It is of our source, but its number is far off: dropped, unless the next one follows it.
    Jump,
    /// It is of another sender: dropped.
    Stranger {
        /// Whether this one was not heard of before, as far as memory goes.
        first: bool,
    },
    /// It bears our own SSRC: our own packet come back, or a collision.
    Own,
}

/// Totals since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceCounters {
    /// Packets of the stream we follow.
    pub accepted: u64,
    /// Streams begun, the first included.
    pub streams: u64,
    /// Packets dropped since their number was far off.
    pub jumps: u64,
    /// Packets of strangers.
    pub strangers: u64,
    /// Packets with our own SSRC.
    pub own: u64,
}

/// Follows one sender.
#[derive(Clone, Debug)]
pub struct SourceTracker {
    own_ssrc: Option<u32>,
    silence: Duration,
    current: Option<Source>,
    /// Where the current source would go on if it jumped.
    jump_next: Option<Seq16>,
    candidate: Option<Candidate>,
    counters: SourceCounters,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    ssrc: u32,
    path: PathId,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    key: Key,
    highest: Seq16,
    last_heard: Instant,
    /// Whether two of its packets came in a row.
    proven: bool,
}

/// A stranger who may become the source.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: Key,
    next: Seq16,
    in_a_row: u32,
}

impl SourceTracker {
    /// `own_ssrc`: what we send under, if we do. A source gives way to another when it was silent for `silence`.
    pub fn new(own_ssrc: Option<u32>, silence: Duration) -> Self {
        SourceTracker {
            own_ssrc,
            silence,
            current: None,
            jump_next: None,
            candidate: None,
            counters: SourceCounters::default(),
        }
    }

    /// A packet came in. After [`Verdict::NewStream`] the caller starts everything behind anew. `path` is what tells one
    /// origin from another: a session that hears one sender on two networks passes the same for both.
    pub fn on_packet(&mut self, now: Instant, ssrc: u32, path: PathId, sequence: u16) -> Verdict {
        let (key, sequence) = (Key { ssrc, path }, Seq16(sequence));
        let verdict = match self.current {
            _ if self.own_ssrc == Some(ssrc) => Verdict::Own,
            None => self.begin(now, key, sequence, false),
            Some(source) if source.key == key => self.follow(now, source, sequence),
            Some(source) => self.stranger(now, source, key, sequence),
        };
        match verdict {
            Verdict::Accepted => self.counters.accepted += 1,
            Verdict::NewStream => {
                self.counters.accepted += 1;
                self.counters.streams += 1;
            }
            Verdict::Jump => self.counters.jumps += 1,
            Verdict::Stranger { .. } => self.counters.strangers += 1,
            Verdict::Own => self.counters.own += 1,
        }
        verdict
    }

    /// The sender took leave: the next one to be heard is a new stream at once.
    pub fn on_bye(&mut self, ssrc: u32) {
        if self.current.is_some_and(|source| source.key.ssrc == ssrc) {
            self.current = None;
            self.candidate = None;
        }
    }

    /// The source we follow.
    pub fn ssrc(&self) -> Option<u32> {
        self.current.map(|source| source.key.ssrc)
    }

    /// Since when nothing of it was heard.
    pub fn last_heard(&self) -> Option<Instant> {
        self.current.map(|source| source.last_heard)
    }

    /// Our own SSRC changed.
    pub fn set_own_ssrc(&mut self, ssrc: Option<u32>) {
        self.own_ssrc = ssrc;
    }

    /// Totals.
    pub fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn begin(&mut self, now: Instant, key: Key, sequence: Seq16, proven: bool) -> Verdict {
        self.current = Some(Source { key, highest: sequence, last_heard: now, proven });
        (self.jump_next, self.candidate) = (None, None);
        Verdict::NewStream
    }

    fn follow(&mut self, now: Instant, mut source: Source, sequence: Seq16) -> Verdict {
        let ahead = i32::from(sequence.distance(source.highest));
        if (-MAX_MISORDER..MAX_DROPOUT).contains(&ahead) {
            source.proven |= ahead == 1;
            if ahead > 0 {
                source.highest = sequence;
            }
            source.last_heard = now;
            self.current = Some(source);
            self.jump_next = None;
            return Verdict::Accepted;
        }
        if self.jump_next == Some(sequence) {
            return self.begin(now, source.key, sequence, true);
        }
        self.jump_next = Some(sequence.next());
        Verdict::Jump
    }

    fn stranger(&mut self, now: Instant, source: Source, key: Key, sequence: Seq16) -> Verdict {
        let known = self.candidate.filter(|candidate| candidate.key == key);
        let in_a_row = match known {
            Some(candidate) if candidate.next == sequence => candidate.in_a_row + 1,
            _ => 1,
        };
        let gone = now.since(source.last_heard) >= self.silence;
        if in_a_row >= MIN_SEQUENTIAL && (gone || !source.proven) {
            return self.begin(now, key, sequence, true);
        }
        // One stranger at a time is remembered: many cost no memory, and two that alternate never get in.
        self.candidate = Some(Candidate { key, next: sequence.next(), in_a_row });
        Verdict::Stranger { first: known.is_none() }
    }
}

/// Packets in a row that make a source (RFC 3550 A.1).
const MIN_SEQUENTIAL: u32 = 2;
/// Packets that may be missing in a row before it is a jump (A.1).
const MAX_DROPOUT: i32 = 3000;
/// Packets by which one may come late (A.1).
const MAX_MISORDER: i32 = 100;

#[cfg(test)]
mod tests;

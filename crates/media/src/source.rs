//! Determines to which sender packets belong: follows one sender, rejects unknown sources, and detects when a sender
//! restarts.
//!
//! RFC 3550 A.1 with two departures. The first source heard is accepted at its first packet, not its second: a
//! recording must not lack its beginning. Until two packets in a row have come, another source may replace it, so that
//! a stray datagram cannot lock the true sender out. And a source is a pair of SSRC and path: the same SSRC on another
//! path is an unknown source until the current one falls silent.
//!
//! A sender whose stream is divided into channel groups has an SSRC for each. The first group's identifies it, and each
//! group keeps its own sequence state: packets of one SSRC can't affect the others.

use std::time::Duration;

use antiphon_core::{Instant, PathId, Seq16};

/// What to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It belongs to the stream we follow.
    Accepted,
    /// It belongs to the stream we follow, but its group continues with other numbers or under another SSRC: only this
    /// group's sequence numbers are to be forgotten. Never returned for an undivided stream.
    Resumed,
    /// It is the first of a stream: a first sender, another after the old one fell silent, or the same one restarted.
    NewStream,
    /// It belongs to our source, but its number is far off: dropped, unless the next one follows it.
    Jump,
    /// It belongs to another sender: dropped.
    UnknownSource {
        /// Whether this one is new, as far as remembered.
        first: bool,
    },
    /// It has our own SSRC: our own packet returned, or a collision.
    Own,
}

/// Totals since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceCounters {
    /// Packets of the stream we follow.
    pub accepted: u64,
    /// Streams begun, the first included.
    pub streams: u64,
    /// Packets dropped because their number was far off.
    pub jumps: u64,
    /// Packets of unknown sources.
    pub unknown_sources: u64,
    /// Packets with our own SSRC.
    pub own: u64,
}

/// To whom a packet belongs, according to its SSRC and in-band data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Its own SSRC.
    pub ssrc: u32,
    /// That of the sender's first channel group; its own if there is only one.
    pub sender: u32,
    /// Which group it is of, below `groups`.
    pub group: usize,
    /// How many groups the sender has.
    pub groups: usize,
}

impl Origin {
    /// The origin of a packet of an undivided stream.
    pub fn undivided(ssrc: u32) -> Self {
        Origin { ssrc, sender: ssrc, group: 0, groups: 1 }
    }
}

/// Follows one sender.
#[derive(Clone, Debug)]
pub struct SourceTracker {
    own_ssrc: Option<u32>,
    silence: Duration,
    current: Option<Source>,
    /// One for each group of the current source; `None` before its first packet.
    members: Vec<Option<Member>>,
    candidate: Option<Candidate>,
    counters: SourceCounters,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    sender: u32,
    groups: usize,
    path: PathId,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    key: Key,
    last_heard: Instant,
    /// Whether two packets of a group came in a row.
    proven: bool,
}

/// A group of the source.
#[derive(Clone, Copy, Debug)]
struct Member {
    ssrc: u32,
    highest: Seq16,
    last_heard: Instant,
    proven: bool,
    /// The next number if it has jumped.
    jump_next: Option<Seq16>,
}

/// An unknown source that may become the source, or one of its groups.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: Key,
    ssrc: u32,
    next: Seq16,
    in_a_row: u32,
    last_heard: Instant,
}

impl SourceTracker {
    /// `own_ssrc`: what we send under, if we do. After `silence` of the current source, another may take over.
    pub fn new(own_ssrc: Option<u32>, silence: Duration) -> Self {
        SourceTracker {
            own_ssrc,
            silence,
            current: None,
            // An undivided stream needs no more; a divided one allocates its memory when it begins.
            members: Vec::with_capacity(1),
            candidate: None,
            counters: SourceCounters::default(),
        }
    }

    /// Judges a packet. After [`Verdict::NewStream`] the caller restarts everything behind it. `path` distinguishes
    /// origins: a session that hears one sender on two networks passes the same for both.
    pub fn on_packet(&mut self, now: Instant, ssrc: u32, path: PathId, sequence: u16) -> Verdict {
        self.on_packet_of(now, Origin::undivided(ssrc), path, sequence)
    }

    /// The same for a packet of a sender that may have several groups.
    pub fn on_packet_of(&mut self, now: Instant, origin: Origin, path: PathId, sequence: u16) -> Verdict {
        let key = Key { sender: origin.sender, groups: origin.groups, path };
        let sequence = Seq16(sequence);
        let verdict = match self.current {
            _ if self.own_ssrc == Some(origin.ssrc) => Verdict::Own,
            _ if origin.group >= origin.groups => Verdict::UnknownSource { first: false },
            None => self.begin(now, key, origin, sequence, false),
            Some(source) if source.key == key => self.follow(now, key, origin, sequence),
            Some(source) => {
                let free = !source.proven || now.since(source.last_heard) >= self.silence;
                match self.contend(now, key, origin.ssrc, sequence, free) {
                    Ok(()) => self.begin(now, key, origin, sequence, true),
                    Err(first) => Verdict::UnknownSource { first },
                }
            }
        };
        match verdict {
            Verdict::Accepted | Verdict::Resumed => self.counters.accepted += 1,
            Verdict::NewStream => {
                self.counters.accepted += 1;
                self.counters.streams += 1;
            }
            Verdict::Jump => self.counters.jumps += 1,
            Verdict::UnknownSource { .. } => self.counters.unknown_sources += 1,
            Verdict::Own => self.counters.own += 1,
        }
        verdict
    }

    /// The sender has ended its stream: the next source heard is a new stream at once. If only one of its groups ended,
    /// another SSRC may take its place.
    pub fn on_bye(&mut self, ssrc: u32) {
        if self.current.is_some_and(|source| source.key.sender == ssrc) {
            self.current = None;
            self.candidate = None;
        } else if let Some(member) = self.members.iter_mut().flatten().find(|member| member.ssrc == ssrc) {
            member.proven = false;
        }
    }

    /// The next packet of the source's group, however far its number has jumped, has this one: other data show that it
    /// continues the stream.
    pub fn continue_at(&mut self, group: usize, sequence: u16) {
        if let Some(member) = self.members.get_mut(group).and_then(Option::as_mut) {
            member.highest = Seq16(sequence.wrapping_sub(1));
        }
    }

    /// The source we follow, by the SSRC of its first group.
    pub fn ssrc(&self) -> Option<u32> {
        self.current.map(|source| source.key.sender)
    }

    /// Which of its groups has that SSRC, if any.
    pub fn group_of(&self, ssrc: u32) -> Option<usize> {
        self.current?;
        self.members.iter().position(|member| member.is_some_and(|member| member.ssrc == ssrc))
    }

    /// The groups of the source from which packets have come: bit *n* for group *n*.
    pub fn heard_groups(&self) -> u64 {
        let heard = self.members.iter().map(|member| u64::from(member.is_some()));
        if self.current.is_some() { heard.rev().fold(0, |groups, bit| groups << 1 | bit) } else { 0 }
    }

    /// When it was last heard.
    pub fn last_heard(&self) -> Option<Instant> {
        self.current.map(|source| source.last_heard)
    }

    /// Totals.
    pub fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn begin(&mut self, now: Instant, key: Key, origin: Origin, sequence: Seq16, proven: bool) -> Verdict {
        self.current = Some(Source { key, last_heard: now, proven });
        self.members.clear();
        self.members.resize(key.groups, None);
        self.members[origin.group] = Some(Member::new(now, origin.ssrc, sequence, proven));
        self.candidate = None;
        Verdict::NewStream
    }

    fn follow(&mut self, now: Instant, key: Key, origin: Origin, sequence: Seq16) -> Verdict {
        let Some(member) = &mut self.members[origin.group] else {
            self.members[origin.group] = Some(Member::new(now, origin.ssrc, sequence, false));
            self.heard(now, false);
            return Verdict::Accepted;
        };
        if member.ssrc != origin.ssrc {
            let free = !member.proven || now.since(member.last_heard) >= self.silence;
            return match self.contend(now, key, origin.ssrc, sequence, free) {
                Ok(()) => self.resume(now, origin, sequence),
                Err(first) => Verdict::UnknownSource { first },
            };
        }
        let ahead = i32::from(sequence.distance(member.highest));
        if (-MAX_MISORDER..MAX_DROPOUT).contains(&ahead) {
            member.proven |= ahead == 1;
            if ahead > 0 {
                member.highest = sequence;
            }
            (member.last_heard, member.jump_next) = (now, None);
            let proven = member.proven;
            self.heard(now, proven);
            return Verdict::Accepted;
        }
        if member.jump_next != Some(sequence) {
            member.jump_next = Some(sequence.next());
            return Verdict::Jump;
        }
        match key.groups {
            1 => self.begin(now, key, origin, sequence, true),
            _ => self.resume(now, origin, sequence),
        }
    }

    fn heard(&mut self, now: Instant, proven: bool) {
        if let Some(source) = &mut self.current {
            (source.last_heard, source.proven) = (now, source.proven || proven);
        }
    }

    fn resume(&mut self, now: Instant, origin: Origin, sequence: Seq16) -> Verdict {
        self.members[origin.group] = Some(Member::new(now, origin.ssrc, sequence, true));
        self.candidate = None;
        self.heard(now, true);
        Verdict::Resumed
    }

    /// A packet of another sender than the followed one, which takes over after two packets in a row if the place is
    /// `free`. Otherwise whether this one is new, as far as remembered.
    fn contend(
        &mut self,
        now: Instant,
        key: Key,
        ssrc: u32,
        sequence: Seq16,
        free: bool,
    ) -> Result<(), bool> {
        let (mut in_a_row, mut first) = (1, true);
        if let Some(candidate) = self.candidate.filter(|candidate| candidate.key == key) {
            first = false;
            // The groups of one sender alternate: the first one represents all while packets of it come.
            if candidate.ssrc != ssrc && now.since(candidate.last_heard) < TURN {
                return Err(false);
            }
            if candidate.ssrc == ssrc && candidate.next == sequence {
                in_a_row = candidate.in_a_row + 1;
            }
        }
        // Only one unknown source is remembered at a time: many cost no memory, and two that alternate never take over.
        self.candidate = Some(Candidate { key, ssrc, next: sequence.next(), in_a_row, last_heard: now });
        if in_a_row >= MIN_SEQUENTIAL && free { Ok(()) } else { Err(first) }
    }
}

impl Member {
    fn new(now: Instant, ssrc: u32, sequence: Seq16, proven: bool) -> Self {
        Member { ssrc, highest: sequence, last_heard: now, proven, jump_next: None }
    }
}

/// Packets in a row that make a source (RFC 3550 A.1).
const MIN_SEQUENTIAL: u32 = 2;
/// Packets that may be missing in a row before it is a jump (A.1).
const MAX_DROPOUT: i32 = 3000;
/// Packets by which one may be late (A.1).
const MAX_MISORDER: i32 = 100;
/// Silence after which another group represents an unknown source: many packets of any stream.
const TURN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;

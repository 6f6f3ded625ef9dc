//! The members of a group as its sender knows them: who has proved its address, what each has and lacks, and who has left.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Counters, Instant, PathId, PathStats};

use super::gaps::{Gaps, Range};
use super::held::{Held, Known, Packet};
use super::missing::Missing;
use super::round_trips::RoundTrips;
use crate::xtp::wire::Key;

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub path: PathId,
    /// What its packets must carry: the key and the number that were offered to it.
    pub key: Key,
    pub number: u64,
    /// Its own key, which packets to it carry.
    pub own: Key,
    pub heard: Instant,
    /// When it was last asked to report.
    pub polled: Instant,
    pub round_trips: RoundTrips,
    /// All before this position has come to it or is given up.
    pub next: u64,
    /// Position behind the last byte that it takes.
    pub alloc: u64,
    /// Number of the latest packet of ours that it had when it reported last.
    pub echo: u64,
    /// Number of its own latest packet.
    sync: Option<u32>,
    pub missing: Missing,
    /// Position up to which that list is complete.
    pub told: u64,
    /// Nothing waits for it any more, as it has been silent.
    pub suspended: bool,
    losses: Losses,
    counters: Counters,
}

/// Bytes of a while that a member lacked when it first told of them.
#[derive(Clone, Copy, Debug)]
struct Losses {
    since: Instant,
    /// Data packets that it told of.
    packets: u64,
    sent: u64,
    lost: u64,
    /// Up to which position they are counted.
    counted: u64,
}

impl Losses {
    /// Nothing is counted yet.
    fn from(since: Instant, counted: u64) -> Self {
        Losses { since, packets: 0, sent: 0, lost: 0, counted }
    }

    /// The share lost; less while few packets say so.
    fn share(&self) -> f64 {
        let sure = (self.packets as f64 / FEW_PACKETS as f64).min(1.0);
        sure * self.lost as f64 / self.sent.max(1) as f64
    }
}

/// What a member reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    pub rseq: u64,
    pub alloc: u64,
    pub echo: u64,
    pub gaps: Gaps<'a>,
}

/// All members.
#[derive(Debug, Default)]
pub(super) struct Roster {
    members: Vec<Member>,
    by_key: BTreeMap<u64, usize>,
    most: usize,
}

/// Introduces a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joiner {
    pub path: PathId,
    pub key: Key,
    pub number: u64,
    pub own: Key,
    /// From the offer to its answer.
    pub rtt: Duration,
    pub next: u64,
}

impl Roster {
    /// At most so many members.
    pub fn new(most: usize) -> Self {
        Roster { most, ..Roster::default() }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Members for which the sender waits.
    pub fn active(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.suspended)
    }

    pub fn index_of(&self, key: Key) -> Option<usize> {
        self.by_key.get(&key.0).copied()
    }

    pub fn get_mut(&mut self, at: usize) -> &mut Member {
        &mut self.members[at]
    }

    /// The member on a path.
    pub fn on_path(&self, path: PathId) -> Option<&Member> {
        self.members.iter().find(|member| member.path == path)
    }

    /// Adds a member. A member that is already on the same path was started again, and is replaced.
    pub fn join(&mut self, now: Instant, joiner: Joiner, held: &Held) -> Joined {
        if let Some(at) = self.index_of(joiner.key) {
            let same = self.members[at].path == joiner.path;
            return if same { Joined::Before } else { Joined::KeyTaken };
        }
        let before = self.members.iter().position(|member| member.path == joiner.path);
        if let Some(at) = before {
            self.remove(at);
        } else if self.members.len() >= self.most {
            return Joined::TooMany;
        }
        let Joiner { path, key, number, own, rtt, next } = joiner;
        let losses = Losses::from(now, held.next());
        self.by_key.insert(key.0, self.members.len());
        self.members.push(Member {
            path,
            key,
            number,
            own,
            heard: now,
            polled: now,
            round_trips: RoundTrips::new(rtt),
            next,
            alloc: u64::MAX,
            echo: 0,
            sync: None,
            missing: Missing::new(),
            told: 0,
            suspended: false,
            losses,
            counters: Counters::default(),
        });
        Joined::Now { replaces: before.is_some() }
    }

    pub fn remove(&mut self, at: usize) -> Member {
        let member = self.members.swap_remove(at);
        self.by_key.remove(&member.key.0);
        if let Some(moved) = self.members.get(at) {
            self.by_key.insert(moved.key.0, at);
        }
        member
    }

    /// The longest round trip to any.
    pub fn longest_rtt(&self) -> Duration {
        self.active().map(|member| member.rtt()).max().unwrap_or(LEAST_RTT)
    }

    /// The first position that some active member lacks; `None` without one.
    pub fn least_next(&self) -> Option<u64> {
        self.active().map(|member| member.next).min()
    }

    /// The first position that some active member does not take.
    pub fn least_alloc(&self) -> Option<u64> {
        self.active().map(|member| member.alloc).min()
    }

    /// The greatest [`Member::loss`] of any active one.
    pub fn worst_loss(&self) -> f64 {
        self.active().map(Member::loss).fold(0.0, f64::max)
    }

    /// What is known of a packet.
    pub fn known(&self, packet: &Packet<'_>) -> Known {
        let mut any = false;
        let (mut all, mut lacking) = (true, false);
        for member in self.active() {
            any = true;
            if member.next < packet.to() {
                lacking |= member.lacks(packet);
                all &= member.has(packet);
            }
        }
        match (any, all) {
            (false, _) => Known::Nobody,
            (true, true) => Known::All,
            (true, false) => Known::NotAll { lacking },
        }
    }
}

/// What came of a join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joined {
    /// It is a member now; whether it takes the place of one on the same path.
    Now {
        replaces: bool,
    },
    /// It was one already, and has not heard that it is.
    Before,
    /// Another member was offered the same key, by chance.
    KeyTaken,
    TooMany,
}

impl Member {
    /// Whether a packet of the member with this number is its latest; the number is then noted.
    pub fn is_newest(&mut self, sync: u32) -> bool {
        let newest = self.sync.is_none_or(|latest| sync.wrapping_sub(latest) as i32 > 0);
        if newest {
            self.sync = Some(sync);
        }
        newest
    }

    /// The share of the data that it lacked lately when it first told of it.
    pub fn loss(&self) -> f64 {
        self.losses.share()
    }

    pub fn rtt(&self) -> Duration {
        self.round_trips.shortest()
    }

    /// Whether it said so when it reported last.
    fn lacks(&self, packet: &Packet<'_>) -> bool {
        self.missing.contains(packet.ordinal)
    }

    /// Whether it has told of packets that left later, and not that it lacks this one.
    fn has(&self, packet: &Packet<'_>) -> bool {
        self.echo > packet.sent() && packet.to() <= self.told && !self.lacks(packet)
    }

    /// It has passed over packets since its last report: those before `end` that are past their deadline may be among them.
    pub fn on_passed_over(&self, now: Instant, end: u64, held: &mut Held) {
        for ordinal in held.ordinal_from(self.next)..held.count() {
            let Some(packet) = held.get(ordinal).filter(|packet| packet.from < end) else { break };
            if packet.is_past(now) && !self.has(&packet) {
                held.give_up(ordinal);
            }
        }
    }

    /// Notes what it has and lacks.
    pub fn on_report(&mut self, now: Instant, report: Report<'_>, held: &Held) {
        let Report { alloc, echo, gaps, .. } = report;
        // What it had once it still has.
        let rseq = self.next.max(report.rseq);
        (self.next, self.alloc, self.echo) = (rseq, alloc, self.echo.max(echo));
        self.missing.restart(held.ordinal_from(rseq));
        let end = if gaps.is_cut { gaps.ranges().last().map_or(rseq, |range| range.to) } else { u64::MAX };
        self.told = end;
        // Up to where what is not reported is missing.
        let told = held
            .from(rseq)
            .find(|packet| packet.sent() > echo)
            .map_or(held.next(), |packet| packet.from)
            .min(end);
        self.count_losses(now, told, held, gaps);
        self.find_missing(echo, (rseq, end), gaps, held);
        self.counters.datagrams_received += 1;
    }

    /// Notes what it lacks of what left before its report.
    fn find_missing(&mut self, echo: u64, (rseq, end): (u64, u64), gaps: Gaps<'_>, held: &Held) {
        let mut ranges = gaps.ranges().peekable();
        // Of the gap before the next range, or of what is behind the last.
        let seen_before = |range: Option<&Range>| range.map_or(gaps.seen_behind, |range| range.seen);
        let mut seen = seen_before(ranges.peek());
        for packet in held.from(rseq).take_while(|packet| packet.to() <= end) {
            while ranges.next_if(|range| range.to <= packet.from).is_some() {
                seen = seen_before(ranges.peek());
            }
            let has = ranges.peek().is_some_and(|range| range.from <= packet.from && packet.to() <= range.to);
            if has || packet.sent() > echo {
                continue;
            }
            let is_seen = seen > 0;
            seen = seen.saturating_sub(1);
            if !self.missing.push(packet.ordinal, is_seen) {
                self.told = packet.from;
                break;
            }
        }
        self.missing.doubt_last();
    }

    /// Counts what it lacks of the bytes before `told` that were not counted yet.
    fn count_losses(&mut self, now: Instant, told: u64, held: &Held, gaps: Gaps<'_>) {
        let counted = self.losses.counted;
        if now.since(self.losses.since) >= LOSS_TIME {
            self.losses = Losses::from(now, counted);
        }
        if told > counted {
            self.losses.packets += held.ordinal_from(told).saturating_sub(held.ordinal_from(counted));
            let within = |(from, to): (u64, u64)| to.min(told).saturating_sub(from.max(counted));
            let ranges = gaps.ranges().map(|range| (range.from, range.to));
            let has: u64 = std::iter::once((0, self.next)).chain(ranges).map(within).sum();
            self.losses.sent += told - counted;
            self.losses.lost += (told - counted).saturating_sub(has);
            self.losses.counted = told;
        }
    }

    /// Whether it lacked more than half of what was sent for a while: repairs do not help it.
    pub fn is_overrun(&self, now: Instant) -> bool {
        let Losses { since, packets, sent, lost, .. } = self.losses;
        now.since(since) >= LOSS_TIME / 2 && packets >= FEW_PACKETS && 2 * lost > sent
    }

    /// As figures of its path.
    pub fn stats(&self) -> PathStats {
        PathStats {
            srtt: Some(self.rtt()),
            min_rtt: Some(self.rtt()),
            counters: self.counters,
            ..PathStats::default()
        }
    }
}

/// Before a member has answered.
const LEAST_RTT: Duration = Duration::from_millis(1);
/// Losses are counted for so long; after half of it a member may be told that it lacks too much.
const LOSS_TIME: Duration = Duration::from_secs(4);
/// Packets that tell little about losses.
const FEW_PACKETS: u64 = 50;

#[cfg(test)]
mod tests;

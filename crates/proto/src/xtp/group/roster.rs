//! The members of a group as its sender knows them: who has proved its address, what each has and lacks, and who has left.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Counters, Instant, PathId, PathStats};

use super::held::{Held, Known, Packet};
use crate::xtp::incoming::MOST_SPANS;
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
    /// From its answer to the offer.
    pub rtt: Duration,
    /// All before this position has come to it or is given up.
    pub next: u64,
    /// Position behind the last byte that it takes.
    pub alloc: u64,
    /// Number of the latest packet of ours that it had when it reported last.
    pub echo: u64,
    /// Number of its own latest packet.
    sync: Option<u32>,
    /// Positions of the packets that it lacked when it reported last.
    pub missing: Vec<u64>,
    /// Combinations that it had then and could not use alone: of so many fewer it lacks.
    pub combinations: usize,
    /// Nothing waits for it any more, as it has been silent.
    pub suspended: bool,
    losses: Losses,
    counters: Counters,
}

/// Bytes of a while that a member lacked when it first told of them.
#[derive(Clone, Copy, Debug)]
struct Losses {
    since: Instant,
    sent: u64,
    lost: u64,
    /// Up to which position they are counted.
    counted: u64,
}

/// What a member reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<S> {
    pub rseq: u64,
    pub alloc: u64,
    pub echo: u64,
    pub combinations: usize,
    pub spans: S,
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
        if self.index_of(joiner.key).is_some() {
            return Joined::Before;
        }
        let before = self.members.iter().position(|member| member.path == joiner.path);
        if let Some(at) = before {
            self.remove(at);
        } else if self.members.len() >= self.most {
            return Joined::TooMany;
        }
        let Joiner { path, key, number, own, rtt, next } = joiner;
        let losses = Losses { since: now, sent: 0, lost: 0, counted: held.next() };
        self.by_key.insert(key.0, self.members.len());
        self.members.push(Member {
            path,
            key,
            number,
            own,
            heard: now,
            rtt,
            next,
            alloc: u64::MAX,
            echo: 0,
            sync: None,
            missing: Vec::with_capacity(MOST_MISSING),
            combinations: 0,
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
        self.active().map(|member| member.rtt).max().unwrap_or(LEAST_RTT)
    }

    /// The first position that some active member lacks; `None` without one.
    pub fn least_next(&self) -> Option<u64> {
        self.active().map(|member| member.next).min()
    }

    /// The first position that some active member does not take.
    pub fn least_alloc(&self) -> Option<u64> {
        self.active().map(|member| member.alloc).min()
    }

    /// The greatest share of the data that any active member lacked lately when it first told of it.
    pub fn worst_loss(&self) -> f64 {
        self.active()
            .map(|member| member.losses.lost as f64 / member.losses.sent.max(FEW_BYTES) as f64)
            .fold(0.0, f64::max)
    }

    /// What is known of a packet.
    pub fn known(&self, packet: &Packet) -> Known {
        let mut any = false;
        let (mut all, mut lacking) = (true, false);
        for member in self.active() {
            any = true;
            if member.next < packet.to() {
                let lacks = member.missing.contains(&packet.from);
                lacking |= lacks;
                // It has told of packets that left later, and not that it lacks this one.
                all &= !lacks && member.echo > packet.sent && member.missing.len() < MOST_MISSING;
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

    /// It has passed over packets since its last report: those before `end` that are past their deadline may be among them.
    pub fn on_passed_over(&self, now: Instant, end: u64, held: &mut Held) {
        let before = |packet: &&mut Packet| packet.from < end && packet.to() > self.next;
        held.all_mut().filter(before).for_each(|packet| packet.given_up |= packet.is_past(now));
    }

    /// Notes what it has and lacks.
    pub fn on_report(
        &mut self,
        now: Instant,
        report: Report<impl Iterator<Item = (u64, u64)> + Clone>,
        held: &Held,
    ) {
        let Report { rseq, alloc, echo, combinations, spans } = report;
        self.combinations = combinations;
        (self.next, self.alloc, self.echo) = (self.next.max(rseq), alloc, self.echo.max(echo));
        self.missing.clear();
        let told = spans.clone().count();
        // Behind the last of as many as a report holds nothing is known.
        let end =
            if told >= MOST_SPANS { spans.clone().last().map_or(rseq, |span| span.1) } else { u64::MAX };
        // Up to where what is not reported is missing.
        let told = held
            .from(rseq)
            .find(|packet| packet.sent > echo)
            .map_or(held.next(), |packet| packet.from)
            .min(end);
        self.count_losses(now, told, rseq, spans.clone());
        let mut spans = spans.peekable();
        for packet in held.from(rseq).take_while(|packet| packet.to() <= end) {
            while spans.next_if(|span| span.1 <= packet.from).is_some() {}
            let has = spans.peek().is_some_and(|span| span.0 <= packet.from && packet.to() <= span.1);
            if has || packet.sent > echo {
                continue;
            }
            if self.missing.len() < MOST_MISSING {
                self.missing.push(packet.from);
            }
        }
        self.counters.datagrams_received += 1;
    }

    /// Counts what it lacks of the bytes before `told` that were not counted yet.
    fn count_losses(&mut self, now: Instant, told: u64, rseq: u64, spans: impl Iterator<Item = (u64, u64)>) {
        if now.since(self.losses.since) >= LOSS_TIME {
            self.losses = Losses { since: now, sent: 0, lost: 0, ..self.losses };
        }
        let Losses { counted, .. } = self.losses;
        if told > counted {
            let within = |(from, to): (u64, u64)| to.min(told).saturating_sub(from.max(counted));
            let has: u64 = std::iter::once((0, rseq)).chain(spans).map(within).sum();
            self.losses.sent += told - counted;
            self.losses.lost += (told - counted).saturating_sub(has);
            self.losses.counted = told;
        }
    }

    /// Whether it lacked more than half of what was sent for a while: repairs do not help it.
    pub fn is_overrun(&self, now: Instant) -> bool {
        let Losses { since, sent, lost, .. } = self.losses;
        now.since(since) >= LOSS_TIME / 2 && sent >= FEW_BYTES && 2 * lost > sent
    }

    /// As figures of its path.
    pub fn stats(&self) -> PathStats {
        PathStats {
            srtt: Some(self.rtt),
            min_rtt: Some(self.rtt),
            counters: self.counters,
            ..PathStats::default()
        }
    }
}

/// Positions of missing packets that are remembered for a member; further ones are found in its next report.
const MOST_MISSING: usize = 256;
/// Before a member has answered.
const LEAST_RTT: Duration = Duration::from_millis(1);
/// Losses are counted for so long; after half of it a member may be told that it lacks too much.
const LOSS_TIME: Duration = Duration::from_secs(4);
/// Bytes that tell little about losses: of 50 packets.
const FEW_BYTES: u64 = 50_000;

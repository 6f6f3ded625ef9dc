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
mod tests {
    use antiphon_core::{Message, Tag};

    use super::*;
    use crate::queue::{Room, SendQueue};
    use crate::xtp::group::gaps::{self, MOST_RANGES};

    const LEN: u64 = 100;

    /// So many ranges of one packet, behind a gap of one each.
    fn every_other(ranges: usize) -> Vec<(u64, u64)> {
        (0..ranges as u64).map(|n| ((2 * n + 1) * LEN, (2 * n + 2) * LEN)).collect()
    }

    /// So many packets of 100 bytes from position 0 on.
    fn held(packets: u64) -> Held {
        held_until(packets, None)
    }

    fn held_until(packets: u64, deadline: Option<Instant>) -> Held {
        let (mut held, mut queue) = (Held::new(0), SendQueue::new(Room::of(10_000), 100));
        for number in 0..packets {
            queue.push(Message::new(Tag(number), &[0; LEN as usize], deadline), 100).expect("room");
            held.begin(queue.pop(Instant::ZERO).expect("it was pushed"));
            held.cut(100, number + 1, &mut queue).expect("a packet");
        }
        held
    }

    fn joiner(path: u32, key: u64) -> Joiner {
        let rtt = Duration::from_millis(1);
        Joiner { path: PathId(path), key: Key(key), number: 1, own: Key(key), rtt, next: 0 }
    }

    fn roster() -> Roster {
        let mut roster = Roster::new(10);
        assert_eq!(roster.join(Instant::ZERO, joiner(1, 5), &held(0)), Joined::Now { replaces: false });
        roster
    }

    /// A member reports that these ranges have come above `rseq`, and which of the packets between them it sees.
    fn report(
        member: &mut Member,
        now: Instant,
        (rseq, echo): (u64, u64),
        ranges: &[(u64, u64)],
        seen: &[u64],
        held: &Held,
    ) {
        let mut buf = [0; 2_000];
        let len = gaps::write(&mut buf, rseq, ranges.iter().copied(), seen);
        let gaps = Gaps::read(rseq, &buf[..len]).expect("our own");
        member.on_report(now, Report { rseq, alloc: u64::MAX, echo, gaps }, held);
    }

    #[test]
    fn who_is_offered_another_members_key_does_not_take_its_place() {
        let mut roster = roster();
        assert_eq!(roster.join(Instant::ZERO, joiner(1, 5), &held(0)), Joined::Before);
        assert_eq!(roster.join(Instant::ZERO, joiner(2, 5), &held(0)), Joined::KeyTaken);
        assert_eq!(roster.len(), 1);
    }

    #[test]
    fn what_a_member_had_it_does_not_lack_later() {
        let (mut roster, held) = (roster(), held(10));
        let member = roster.get_mut(0);
        report(member, Instant::ZERO, (8 * LEN, 10), &[], &[], &held);
        report(member, Instant::ZERO, (0, 10), &[], &[], &held);
        assert_eq!((member.next, member.missing.all().collect::<Vec<_>>()), (8 * LEN, vec![8, 9]));
    }

    #[test]
    fn behind_a_list_that_may_have_been_cut_nothing_is_known() {
        let (mut roster, held) = (roster(), held(400));
        report(roster.get_mut(0), Instant::ZERO, (0, 400), &every_other(MOST_RANGES + 1), &[], &held);
        assert_eq!(roster.get_mut(0).missing.all().count(), MOST_RANGES);
        report(roster.get_mut(0), Instant::ZERO, (0, 100), &every_other(20), &[], &held);
        assert_eq!(roster.get_mut(0).missing.all().count(), 20 + 60);
    }

    #[test]
    fn of_packets_that_are_seen_no_repair_is_needed() {
        let (mut roster, held) = (roster(), held(20));
        let member = roster.get_mut(0);
        // 0, 1 and 2 are missing, 5 and 6, and 10 to 19; of the last nothing has come when it reports.
        let ranges = [(3 * LEN, 5 * LEN), (7 * LEN, 10 * LEN)];
        report(member, Instant::ZERO, (0, 19), &ranges, &[0, LEN, 6 * LEN, 12 * LEN], &held);
        assert!(member.missing.all().eq([0, 1, 2, 5, 6].into_iter().chain(10..19)));
        // Of a gap it counts how many are seen, not which.
        assert!(member.missing.unseen_from(0).eq([2, 6].into_iter().chain(11..19)));
    }

    #[test]
    fn what_a_list_that_may_have_been_cut_does_not_tell_is_not_known_to_have_come() {
        let (mut roster, mut held) = (roster(), held_until(400, Some(Instant::ZERO)));
        report(roster.get_mut(0), Instant::ZERO, (0, 401), &every_other(MOST_RANGES + 1), &[], &held);
        let known = |roster: &Roster, held: &Held, at: u64| roster.known(&held.get(at).expect("held"));
        assert_eq!(known(&roster, &held, 1), Known::All);
        assert_eq!(known(&roster, &held, 0), Known::NotAll { lacking: true });
        assert_eq!(known(&roster, &held, 399), Known::NotAll { lacking: false });
        // It gives up what it lacks: that may be the last one, but not what it had.
        let late = Instant::ZERO + Duration::from_nanos(1);
        roster.get_mut(0).on_passed_over(late, 400 * LEN, &mut held);
        let given_up: Vec<bool> = [0, 1, 399].map(|at| held.get(at).expect("held").is_given_up()).to_vec();
        assert_eq!(given_up, [true, false, true]);
    }

    #[test]
    fn sixty_packets_tell_of_losses_however_short_they_are() {
        let (mut roster, held) = (roster(), held(60));
        let (losses, member) = (Losses::from(Instant::ZERO, 0), roster.get_mut(0));
        member.losses = losses;
        let now = Instant::ZERO + LOSS_TIME / 2;
        report(member, now, (20 * LEN, 60), &[], &[], &held);
        assert!(member.is_overrun(now));
        assert!((roster.worst_loss() - 40.0 / 60.0).abs() < 1e-9, "{}", roster.worst_loss());
    }
}

//! What a group's sender sends again: in rounds, so that what several members asked for is mended together.
//!
//! A round begins when a member lacks something, and waits a while for what others lack. Packets near each other are mended together: as
//! many combinations leave as the worst-off member lacks packets of them, and each mends a different loss at every member. Where as
//! many packets are missing as combinations would be sent, the packets themselves leave, which need no decoding.
//!
//! In large groups members that hear of a repair don't ask (`backoff.rs`), so a combination there is of all packets of its stretch,
//! whether anybody asked for them or not.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use super::combination::{FIXED, MOST_NAMED, coefficient, names, write_names};
use super::held::{Held, Packet};
use super::roster::Roster;
use crate::xtp::wire::Writer;

/// Repairs that are due, and what they may cost.
#[derive(Debug)]
pub(super) struct Repairs {
    queue: VecDeque<Repair>,
    /// When the round that has begun is over.
    round: Option<Instant>,
    /// Bytes that repairs may have.
    credit: f64,
    /// Bytes of data a second, smoothed over about a second, and when the last were counted.
    rate: f64,
    counted: Instant,
    /// When the first data left.
    began: Option<Instant>,
    /// Index of the next combination.
    index: u32,
    /// What is missing somewhere, while a round is made.
    wanted: Vec<u64>,
    /// Share of combinations that leave unasked, and the packets that wait for theirs: how many, and the first one's position.
    parity: f64,
    block: (usize, u64),
    /// Combinations that each member has and that are not yet counted for a stretch.
    spare: Vec<usize>,
}

/// A repair to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repair {
    /// The packet at this position.
    Packet(u64),
    /// A combination of packets from this position on: which of them.
    Combination(u64, u64),
    /// The same, which nobody asked for.
    Parity(u64, u64),
}

impl Repairs {
    /// `parity`: the share of combinations that leave unasked.
    pub fn new(now: Instant, parity: f64) -> Self {
        Repairs {
            queue: VecDeque::new(),
            round: None,
            credit: INITIAL_CREDIT,
            rate: 0.0,
            counted: now,
            began: None,
            index: 0,
            wanted: Vec::new(),
            parity,
            block: (0, 0),
            spare: Vec::new(),
        }
    }

    pub fn reserve(&mut self, packets: usize) {
        self.queue.reserve_exact(packets);
        self.wanted.reserve_exact(packets);
    }

    /// A data packet of so many bytes leaves for the first time.
    pub fn on_data(&mut self, now: Instant, len: usize) {
        self.credit = (self.credit + SHARE * len as f64).min(MOST_CREDIT);
        self.began.get_or_insert(now);
        let gap = now.since(self.counted).as_secs_f64();
        let weight = (gap / RATE_TIME).min(1.0);
        if gap > 0.0 {
            self.rate += weight * (len as f64 / gap.max(1e-6) - self.rate);
            self.counted = now;
        } else {
            self.rate += len as f64 / RATE_TIME;
        }
    }

    /// A packet at this position waits for its combinations, if there are to be any.
    pub fn add_to_block(&mut self, from: u64, held: &Held) {
        if self.parity == 0.0 {
            return;
        }
        if self.block.0 == 0 {
            self.block.1 = from;
        }
        self.block.0 += 1;
        if self.block.0 >= BLOCK {
            self.end_block(held);
        }
    }

    /// Adds the combinations of the packets that wait for some.
    pub fn end_block(&mut self, held: &Held) {
        let (count, from) = std::mem::take(&mut self.block);
        let Some(first) = held.from(from).next().filter(|_| count > 0) else { return };
        let mask = u64::MAX >> (64 - held.from(from).take(BLOCK).count());
        let parity = (self.parity * count as f64).ceil() as usize;
        self.queue.extend((0..parity).map(|_| Repair::Parity(first.from, mask)));
    }

    /// Whether the packet waits for its combinations.
    pub fn needs(&self, packet: &Packet) -> bool {
        let parity = |repair: &Repair| match repair {
            Repair::Parity(first, _) => Some(*first),
            Repair::Packet(_) | Repair::Combination(..) => None,
        };
        let first = self.queue.iter().find_map(parity).or((self.block.0 > 0).then_some(self.block.1));
        first.is_some_and(|first| packet.from >= first)
    }

    /// Nothing new is sent: what repairs may have grows as if the stream went on.
    pub fn on_silence(&mut self, now: Instant) {
        let gap = now.since(self.counted);
        if gap >= SILENCE {
            self.counted = now;
            self.credit = (self.credit + SHARE * self.rate * gap.as_secs_f64()).min(MOST_CREDIT);
        }
    }

    /// Bytes of data a second; before it is known, that of stereo sound.
    pub fn rate(&self, now: Instant) -> f64 {
        let known = self.began.is_some_and(|began| now.since(began).as_secs_f64() >= 2.0 * RATE_TIME);
        if known { self.rate } else { self.rate.max(USUAL_RATE) }
    }

    /// Some member lacks packets, of which the first must be mended by `deadline`.
    pub fn begin(&mut self, now: Instant, deadline: Option<Instant>) {
        // The fewer bytes are granted, the longer it waits, since combinations of many packets mend more.
        let scarcity = 1.0 - (self.credit / ENOUGH_CREDIT).clamp(0.0, 1.0);
        let share = SHORT_ROUND + scarcity * (LONG_ROUND - SHORT_ROUND);
        let most = deadline.map_or(UNHURRIED, |deadline| deadline.since(now).mul_f64(share)).min(UNHURRIED);
        let over = now + most.max(LEAST_ROUND);
        self.round = Some(self.round.map_or(over, |round| round.min(over)));
    }

    /// When the round is over.
    pub fn next_round(&self) -> Option<Instant> {
        self.round
    }

    pub fn has_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Nothing is repaired any more.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.round = None;
    }

    /// Ends a round that is due: says what will be sent.
    pub fn end_round(&mut self, now: Instant, held: &mut Held, roster: &Roster, whole_stretches: bool) {
        if self.round.is_none_or(|round| round > now) {
            return;
        }
        self.round = None;
        let is_wanted =
            |packet: &Packet, echo: u64| !packet.queued && packet.sent <= echo && !packet.is_past(now);
        self.wanted.clear();
        for member in roster.all() {
            let of_use = |from: &&u64| held.at(**from).is_some_and(|packet| is_wanted(packet, member.echo));
            self.wanted.extend(member.missing.iter().filter(of_use));
        }
        self.wanted.sort_unstable();
        self.wanted.dedup();
        self.spare.clear();
        self.spare.extend(roster.all().map(|member| member.combinations));
        let mut done = 0;
        while done < self.wanted.len() {
            let stretch = &self.wanted[done..];
            let first = stretch[0];
            let end = held.from(first).nth(MOST_NAMED).map_or(u64::MAX, |packet| packet.from);
            let count = stretch.iter().take_while(|from| **from < end).count();
            let stretch = &stretch[..count];
            let lacking = roster.all().zip(&mut self.spare).map(|(member, spare)| {
                let lacks = member.missing.iter().filter(|from| stretch.binary_search(from).is_ok());
                let of_use =
                    |from: &&u64| held.at(**from).is_some_and(|packet| is_wanted(packet, member.echo));
                let lacks = lacks.filter(of_use).count();
                // What it has of them was not enough, so one more at least is.
                let has = (*spare).min(lacks.saturating_sub(1));
                *spare -= has;
                lacks - has
            });
            let needed = lacking.max().unwrap_or(0);
            let alone = needed >= count;
            let last = stretch[count - 1];
            let mut mask = 0u64;
            for (at, packet) in held.from(first).take_while(|packet| packet.from <= last).enumerate() {
                if whole_stretches && !packet.is_past(now) || stretch.binary_search(&packet.from).is_ok() {
                    mask |= 1 << at;
                }
            }
            // If this repair is lost as well, nobody can ask for another in time: where many are lost and bytes are left, one more leaves.
            let answer_by = now + 2 * roster.longest_rtt();
            let is_last =
                held.at(first).and_then(|packet| packet.deadline).is_some_and(|last| last < answer_by);
            let spare = is_last && self.credit >= ENOUGH_CREDIT / 2.0 && roster.worst_loss() >= MANY_LOST;
            if spare {
                self.queue.push_back(Repair::Combination(first, mask));
            }
            if alone {
                self.queue.extend(stretch.iter().map(|from| Repair::Packet(*from)));
            } else {
                self.queue.extend((0..needed).map(|_| Repair::Combination(first, mask)));
            }
            for from in stretch {
                if let Some(packet) = held.at_mut(*from) {
                    packet.queued = true;
                }
            }
            done += count;
        }
    }

    /// The next repair that can still be of use, if its bytes are granted.
    fn next(&mut self, now: Instant, held: &mut Held) -> Option<Repair> {
        while let Some(repair) = self.queue.front().copied() {
            let of_use = match repair {
                Repair::Packet(from) => held.at(from).is_some_and(|packet| !packet.is_past(now)),
                Repair::Combination(first, mask) | Repair::Parity(first, mask) => {
                    held.at(first).is_some() && chosen(held, first, mask).any(|packet| !packet.is_past(now))
                }
            };
            if of_use {
                let free = matches!(repair, Repair::Parity(..));
                return (free || self.credit >= 0.0).then_some(repair);
            }
            self.drop_first(held);
        }
        None
    }

    fn drop_first(&mut self, held: &mut Held) {
        match self.queue.pop_front() {
            Some(Repair::Packet(from)) => {
                if let Some(packet) = held.at_mut(from) {
                    packet.queued = false;
                }
            }
            Some(Repair::Combination(first, mask))
                if !self.queue.contains(&Repair::Combination(first, mask)) =>
            {
                for (at, packet) in
                    held.all_mut().skip_while(|packet| packet.from < first).take(64).enumerate()
                {
                    packet.queued &= mask >> at & 1 == 0;
                }
            }
            _ => {}
        }
    }

    /// Writes the next repair if there is one whose bytes are granted. `plain` writes a packet's own data packet; `start` begins a packet
    /// with coded repairs at a position. Returns the length.
    pub fn write<'a>(
        &mut self,
        now: Instant,
        number: u64,
        held: &mut Held,
        buf: &'a mut [u8],
        plain: impl FnOnce(&'a mut [u8], &Packet) -> usize,
        start: impl FnOnce(&'a mut [u8], u64) -> Writer<'a>,
    ) -> Option<usize> {
        let repair = self.next(now, held)?;
        let len = match repair {
            Repair::Packet(from) => {
                let packet = held.at_mut(from)?;
                (packet.sent, packet.sent_at) = (number, now);
                packet.repairs += 1;
                plain(buf, packet)
            }
            Repair::Combination(first, mask) | Repair::Parity(first, mask) => {
                let index = self.index;
                self.index = self.index.wrapping_add(1);
                let count = 64 - mask.leading_zeros() as usize;
                let longest = chosen(held, first, mask).map(|packet| packet.bytes.len()).max()?;
                let mut writer = start(buf, first);
                let body = writer.space(names(count) + FIXED + longest);
                let lens = held.from(first).take(count).enumerate();
                write_names(
                    body,
                    index,
                    count,
                    lens.map(|(at, packet)| (packet.bytes.len(), mask >> at & 1 == 1)),
                );
                let sum = &mut body[names(count)..];
                sum.fill(0);
                chosen(held, first, mask)
                    .for_each(|packet| packet.content().add_to(sum, coefficient(index, packet.from)));
                for (at, packet) in
                    held.all_mut().skip_while(|packet| packet.from < first).take(count).enumerate()
                {
                    if mask >> at & 1 == 1 {
                        (packet.sent, packet.sent_at) = (number, now);
                        packet.repairs += 1;
                    }
                }
                writer.finish()
            }
        };
        self.drop_first(held);
        if !matches!(repair, Repair::Parity(..)) {
            self.credit -= len as f64;
        }
        Some(len)
    }

    /// When the next repair is granted, if one waits for that while nothing new is sent.
    pub fn next_credit(&self) -> Option<Instant> {
        let waits = self.credit < 0.0 && self.has_any() && self.rate > 0.0;
        let wait = Duration::from_secs_f64((-self.credit / (SHARE * self.rate.max(1.0))).clamp(0.0, 1.0));
        waits.then(|| self.counted + wait.max(SILENCE))
    }
}

/// The packets that a mask chooses, of those from a position on.
fn chosen(held: &Held, first: u64, mask: u64) -> impl Iterator<Item = &Packet> {
    held.from(first)
        .take(MOST_NAMED)
        .enumerate()
        .filter(move |(at, _)| mask >> at & 1 == 1)
        .map(|(_, packet)| packet)
}

/// Packets that have combinations of their own, unasked.
const BLOCK: usize = 16;
/// Repairs have at most a quarter of the data's rate.
const SHARE: f64 = 0.25;
/// Bytes of repairs before much data has left: ten packets, as a TCP's first window (RFC 6928).
const INITIAL_CREDIT: f64 = 10.0 * 1500.0;
/// Bytes of repairs that may be saved up.
const MOST_CREDIT: f64 = 64.0 * 1500.0;
/// Bytes of repairs that let a round be short.
const ENOUGH_CREDIT: f64 = 32.0 * 1500.0;
/// A member that lacks this share of the packets loses repairs, too.
const MANY_LOST: f64 = 0.05;
/// A round's share of the time until the deadline.
const SHORT_ROUND: f64 = 0.25;
const LONG_ROUND: f64 = 0.7;
/// Bytes a second of stereo sound of 16 bits at 48 kHz.
const USUAL_RATE: f64 = 192_000.0;
/// Seconds over which the rate is smoothed.
const RATE_TIME: f64 = 1.0;
/// Nothing new was sent for a while.
const SILENCE: Duration = Duration::from_millis(50);
/// A round takes so long where nothing is urgent: enough packets for combinations to be of many, as the fewer the larger share they have.
const UNHURRIED: Duration = Duration::from_millis(200);
/// A round takes so long at least: a little more than the time between packets that leave at once.
const LEAST_ROUND: Duration = Duration::from_millis(2);

//! What a group's sender sends again: in rounds, so that what several members asked for is mended together.
//!
//! A round begins when a member lacks something, and waits a while for what others lack. Packets near each other are mended together: as
//! many combinations leave as the worst-off member lacks packets of them, and each mends a different loss at every member. Where as
//! many packets are missing as combinations would be sent, the packets themselves leave, which need no decoding.
//!
//! In large groups members that hear of a repair don't ask (`backoff.rs`), so a combination there is of all packets of its stretch,
//! whether anybody asked for them or not.

mod budget;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use super::combination::{FIXED, MOST_NAMED, Names, coefficient};
use super::decoder::MOST_KEPT;
use super::held::{Held, Packet};
use super::roster::Roster;
use super::unasked::{Unasked, Window};
use super::wanted::Wanted;
use crate::xtp::wire::Writer;
use budget::{Budget, SHARE};

/// Repairs that are due, and what they may cost.
#[derive(Debug)]
pub(super) struct Repairs {
    queue: VecDeque<Repair>,
    /// When the round that has begun is over.
    round: Option<Instant>,
    budget: Budget,
    /// Index of the next combination.
    index: u32,
    wanted: Wanted,
    unasked: Unasked,
}

/// Repairs to be sent, of the packets that a mask chooses from this ordinal on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Repair {
    first: u64,
    mask: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The packets themselves, one after another.
    Packets,
    /// So many combinations of them.
    Sums(u8),
    /// One that no member asked for.
    Unasked,
}

impl Repair {
    fn is_asked(&self) -> bool {
        self.kind != Kind::Unasked
    }
}

impl Repairs {
    /// `parity`: the share of combinations that is always sent, unasked.
    pub fn new(now: Instant, parity: f64) -> Self {
        Repairs {
            queue: VecDeque::new(),
            round: None,
            budget: Budget::new(now),
            index: 0,
            wanted: Wanted::default(),
            unasked: Unasked::new(parity),
        }
    }

    pub fn reserve(&mut self, packets: usize) {
        // Each is of up to 64, and some begin within those of another.
        self.queue.reserve_exact((packets / 16).saturating_sub(self.queue.len()));
        self.wanted.reserve(packets);
    }

    /// The bytes that repairs may have, and the rate of the data.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A data packet of so many bytes leaves for the first time.
    pub fn on_data(&mut self, now: Instant, len: usize) {
        self.budget.on_data(now, len);
    }

    /// Nothing new is sent.
    pub fn on_silence(&mut self, now: Instant) {
        self.budget.on_silence(now);
    }

    /// The data packet sent last may make a combination due. `hurries`: members may ask for repairs, but what is asked for may come too late.
    pub fn add_unasked(&mut self, hurries: bool, held: &Held) {
        // What is asked for may go beyond what is granted by one packet.
        let may = hurries && self.budget.overdrawn() < MOST_OVERDRAWN;
        self.unasked.follow(if may { SHARE * self.budget.scarcity(SCARCE_CREDIT) } else { 0.0 });
        let due = self.unasked.on_data(held.count() - 1);
        self.queue_unasked(due);
    }

    /// Nothing new follows for a while.
    pub fn on_pause(&mut self) {
        let due = self.unasked.on_pause();
        self.queue_unasked(due);
    }

    fn queue_unasked(&mut self, due: Option<Window>) {
        if let Some((first, count)) = due {
            let mask = u64::MAX >> (64 - count);
            self.queue.push_front(Repair { first, mask, kind: Kind::Unasked });
        }
    }

    /// Whether the packet with this ordinal may be in a combination that is still to come.
    pub fn needs(&self, ordinal: u64) -> bool {
        let mut unasked = self.queue.iter().filter(|repair| !repair.is_asked());
        self.unasked.needs(ordinal) || unasked.any(|repair| ordinal >= repair.first)
    }

    /// Some member lacks packets, of which the first must be mended by `deadline`.
    pub fn begin(&mut self, now: Instant, deadline: Option<Instant>) {
        let most = self.round(deadline.map(|deadline| deadline.since(now)));
        let over = now + most.max(LEAST_ROUND);
        self.round = Some(self.round.map_or(over, |round| round.min(over)));
    }

    /// How long requests are collected where the first packet must be mended within so much time.
    pub fn round(&self, within: Option<Duration>) -> Duration {
        // The fewer bytes are granted, the longer, since combinations of many packets mend more.
        let share = SHORT_ROUND + self.budget.scarcity(ENOUGH_CREDIT) * (LONG_ROUND - SHORT_ROUND);
        let unhurried = UNHURRIED.min(self.budget.time_of(ENOUGH_PACKETS));
        within.map_or(unhurried, |within| within.mul_f64(share)).min(unhurried)
    }

    /// 0 where requests can be answered, 1 where the bytes of repairs are used up.
    pub fn exhaustion(&self) -> f64 {
        self.budget.scarcity(SCARCE_CREDIT / 2.0)
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
    pub fn end_round(&mut self, now: Instant, held: &mut Held, roster: &Roster) {
        if self.round.is_none_or(|round| round > now) {
            return;
        }
        self.round = None;
        self.wanted.restart(held.first_ordinal(), (held.count() - held.first_ordinal()) as usize);
        for member in roster.all() {
            let wanted = member.missing.all().filter_map(|ordinal| held.wanted(now, ordinal, member.echo));
            wanted.for_each(|packet| self.wanted.insert(packet.ordinal));
        }
        while let Some(stretch) = self.wanted.take_stretch() {
            self.add_stretch(now, stretch, held, roster);
        }
    }

    /// Queues the repairs of the wanted packets of a stretch: its first ordinal, and which are wanted.
    fn add_stretch(&mut self, now: Instant, (first, wanted): (u64, u64), held: &mut Held, roster: &Roster) {
        let Some(packet) = held.get(first) else { return };
        let count = wanted.count_ones();
        let needed = Self::needed(now, first, held, roster);
        if needed == 0 {
            // It follows from what is behind this stretch.
            return;
        }
        // Of packets that long ago a member may no longer have those that come in the combination besides the missing ones.
        let is_old = held.count() - first > MOST_KEPT as u64 / 2;
        let alone = needed >= count || is_old;
        // If this repair is lost, no request for another comes in time. Where losses are frequent, one more is sent now.
        let answer_by = now + 2 * roster.longest_rtt();
        let is_last = packet.deadline().is_some_and(|last| last < answer_by);
        let more = is_last && self.budget.scarcity(ENOUGH_CREDIT) <= 0.5 && roster.worst_loss() >= MANY_LOST;
        let mut mask = wanted;
        if roster.len() > WHOLE_STRETCHES {
            let up_to_last = u64::MAX >> wanted.leading_zeros();
            let in_time = held.chosen(first, up_to_last).filter(|packet| !packet.is_past(now));
            in_time.for_each(|packet| mask |= 1 << (packet.ordinal - first));
        }
        if alone {
            self.queue.push_back(Repair { first, mask: wanted, kind: Kind::Packets });
        }
        let sums = if alone { 0 } else { needed as u8 } + u8::from(more);
        if sums > 0 {
            self.queue.push_back(Repair { first, mask, kind: Kind::Sums(sums) });
        }
        held.set_queued(first, wanted, true);
    }

    /// Combinations of the 64 packets from an ordinal on that must leave, so that as many come as the member needs which lacks most of them.
    fn needed(now: Instant, first: u64, held: &Held, roster: &Roster) -> u32 {
        let needed = roster.all().map(|member| {
            let of_stretch = member.missing.unseen_from(first).take_while(|ordinal| *ordinal < first + 64);
            let lacks =
                of_stretch.filter(|ordinal| held.wanted(now, *ordinal, member.echo).is_some()).count();
            // Of these, too, it loses a part.
            (lacks as f64 / (1.0 - member.loss().min(MOST_ADDED))).round() as u32
        });
        needed.max().unwrap_or(0)
    }

    /// The next repair that can still be of use, if its bytes are granted: one combination, or one packet.
    fn next(&mut self, now: Instant, held: &mut Held) -> Option<Repair> {
        while let Some(repair) = self.queue.front().copied() {
            let Repair { first, mask, kind } = repair;
            let mask = if kind == Kind::Packets { mask & mask.wrapping_neg() } else { mask };
            if let Some((first, mask)) = of_use(now, held, first, mask) {
                let granted = !repair.is_asked() || self.budget.overdrawn() <= 0.0;
                return granted.then_some(Repair { first, mask, kind });
            }
            self.drop_first(held);
        }
        None
    }

    /// The first repair was sent, or is of no use.
    fn drop_first(&mut self, held: &mut Held) {
        let Some(repair) = self.queue.front_mut() else { return };
        let Repair { first, mask, ref mut kind } = *repair;
        match kind {
            Kind::Packets => {
                let lowest = mask & mask.wrapping_neg();
                held.set_queued(first, lowest, false);
                repair.mask ^= lowest;
                if repair.mask != 0 {
                    return;
                }
            }
            Kind::Sums(left) if *left > 1 => return *left -= 1,
            Kind::Sums(_) => held.set_queued(first, mask, false),
            Kind::Unasked => {}
        }
        self.queue.pop_front();
    }

    /// Writes the next repair if there is one whose bytes are granted. `plain` writes a packet's own data packet; `start` begins a packet
    /// with coded repairs at a position. Returns the length.
    pub fn write<'a>(
        &mut self,
        now: Instant,
        number: u64,
        held: &mut Held,
        buf: &'a mut [u8],
        plain: impl FnOnce(&'a mut [u8], &Packet<'_>) -> usize,
        start: impl FnOnce(&'a mut [u8], u64) -> Writer<'a>,
    ) -> Option<usize> {
        let repair = self.next(now, held)?;
        let Repair { first, mask, kind } = repair;
        let packet = held.get(first)?;
        let len = if kind == Kind::Packets {
            plain(buf, &packet)
        } else {
            let index = self.index;
            self.index = self.index.wrapping_add(1);
            write_sum(start(buf, packet.from), index, held, first, mask)
        };
        // What a member lacks behind an unasked one it asks for.
        if repair.is_asked() {
            held.set_sent(first, mask, number);
        }
        self.drop_first(held);
        let charged = if repair.is_asked() { 1.0 } else { self.unasked.charged() };
        self.budget.spend(charged * len as f64);
        Some(len)
    }

    /// When the next repair is granted, if one waits for that while nothing new is sent.
    pub fn next_credit(&self) -> Option<Instant> {
        if self.has_any() { self.budget.next_credit() } else { None }
    }
}

/// What is left of a combination: packets that are still held and not past their deadline. It begins with the first of these.
fn of_use(now: Instant, held: &Held, first: u64, mask: u64) -> Option<(u64, u64)> {
    let mut left = 0u64;
    for (bit, packet) in held.ordinals(first) {
        if mask >> bit & 1 == 1 && !packet.is_past(now) {
            left |= 1 << bit;
        }
    }
    let begins = u64::from(left.trailing_zeros());
    (left != 0).then(|| (first + begins, left >> begins))
}

/// Writes a combination of the packets that a mask chooses, which begins with a chosen one. Returns the packet's length.
fn write_sum(mut writer: Writer<'_>, index: u32, held: &Held, first: u64, mask: u64) -> usize {
    let count = 64 - mask.leading_zeros() as usize;
    let longest = held.chosen(first, mask).map(|packet| packet.len()).max().unwrap_or(0);
    let named = held.ordinals(first).take(count);
    let names = Names::of(named.clone().map(|(_, packet)| packet.len()));
    let body = writer.space(names.len() + FIXED + longest);
    names.write(body, index, named.map(|(bit, packet)| (packet.len(), mask >> bit & 1 == 1)));
    let sum = &mut body[names.len()..];
    sum.fill(0);
    held.chosen(first, mask).for_each(|packet| packet.content().add_to(sum, coefficient(index, packet.from)));
    writer.finish()
}

/// A mask has a bit for each packet that a combination may name.
const _: () = assert!(MOST_NAMED == u64::BITS as usize);
/// Bytes of repairs that let a round be short.
const ENOUGH_CREDIT: f64 = 32.0 * 1500.0;
/// Bytes of repairs below which a part of them is sent unasked.
const SCARCE_CREDIT: f64 = ENOUGH_CREDIT / 2.0;
/// Bytes beyond what is granted from which on nothing is sent unasked: two packets.
const MOST_OVERDRAWN: f64 = 2.0 * 1500.0;
/// Members beyond which a combination is of all packets of its stretch. In groups of 5 to 16 members that wait before they ask this brings nothing on
/// a cell that loses a twelfth, nor on lines.
const WHOLE_STRETCHES: usize = 16;
/// Of repairs no more than this share is expected to be lost.
const MOST_ADDED: f64 = 0.5;
/// A member that lacks this share of the packets loses repairs, too.
const MANY_LOST: f64 = 0.05;
/// A round's share of the time until the deadline.
const SHORT_ROUND: f64 = 0.25;
const LONG_ROUND: f64 = 0.7;
/// A round takes so long at most where nothing is urgent, as the fewer packets combinations are of, the larger is their share; and no longer than so many
/// packets do, as no combination is of more than half of them.
const UNHURRIED: Duration = Duration::from_millis(200);
const ENOUGH_PACKETS: f64 = 2.0 * MOST_NAMED as f64;
/// A round takes so long at least: a little more than the time between packets that leave at once.
const LEAST_ROUND: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests;

//! One direction of a link, built from its elements; and both directions together.

use std::time::Duration;

use antiphon_core::{Instant, Rng, soonest};

use crate::chance::Chance;
use crate::delay::{Delay, Variation};
use crate::loss::Loss;
use crate::packet::{Counters, Discard, Packet};
use crate::parse::SpecError;
use crate::queue::{MAX_PACKETS, Queue};
use crate::reorder::Reorder;
use crate::spec::{DuplexSpec, LinkSpec, LossModel};

/// One direction of a link.
///
/// `offer` packets, and `poll` them when `poll_timeout` is due. If polled late, it catches up: it reports the model's
/// instants, not the caller's. Nothing is allocated per packet once the queues have grown to their size.
pub struct Link<P> {
    queue: Queue<Fated<P>>,
    loss: Loss,
    loss_before_queue: bool,
    corruption: Chance,
    duplication: Chance,
    variation: Variation,
    delay: Delay<Fated<P>>,
    reorder: Reorder<Fated<P>>,
    alternate: Option<Alternate>,
    total: Counters,
}

/// A delay and a loss in turn with those of a link: its own in the first period, the other in the second, and so on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alternation {
    /// Length of a period.
    pub every: Duration,
    /// Propagation time in every second period.
    pub delay: Duration,
    /// Loss in every second period.
    pub loss: LossModel,
}

struct Alternate {
    every: Duration,
    loss: Loss,
    /// Beyond the line's propagation time, in the two kinds of periods.
    extra: [Duration; 2],
}

impl Alternate {
    /// Whether `now` is in a period of the other kind.
    fn is_other(&self, now: Instant) -> bool {
        now.since(Instant::ZERO).as_nanos() / self.every.as_nanos() % 2 == 1
    }
}

/// Random numbers drawn for a packet on its arrival; applied after the queue.
#[derive(Clone, Copy)]
struct Fate {
    lost: bool,
    corrupt: Option<u64>,
    duplicate: bool,
    extra: Duration,
    hold: bool,
}

struct Fated<P> {
    packet: P,
    fate: Fate,
}

/// Counters of every element of a link, by name, in the order in which packets pass them.
pub type StageCounters = [(&'static str, Counters); 6];

impl<P: Packet> Link<P> {
    /// A link as specified by `spec`; `seed` is forked for each element by name.
    pub fn new(spec: &LinkSpec, seed: u64) -> Result<Self, SpecError> {
        spec.validate()?;
        let mut queue = Queue::new(spec.rate, spec.queue, spec.stall, seed);
        if let (Some(rate), Some(depth)) = (spec.rate, spec.burst) {
            queue = queue.with_bucket(rate, depth);
        }
        Ok(Link {
            queue,
            loss: Loss::new(spec.loss, seed),
            loss_before_queue: spec.loss_before_queue,
            corruption: Chance::new("corrupt", spec.corrupt, seed),
            duplication: Chance::new("duplicate", spec.duplicate, seed),
            variation: Variation::new(spec.jitter, seed),
            delay: Delay::new(spec.delay),
            reorder: Reorder::new(spec.reorder, seed),
            alternate: None,
            total: Counters::default(),
        })
    }

    /// A link whose delay and loss alternate with others, counted from [`Instant::ZERO`]. What a packet meets depends on when it is
    /// offered; after a change to a shorter delay, packets wait for those before them.
    pub fn alternating(spec: &LinkSpec, with: Alternation, seed: u64) -> Result<Self, SpecError> {
        LinkSpec { delay: with.delay, loss: with.loss, ..*spec }.validate()?;
        let shortest = spec.delay.min(with.delay);
        let mut link = Link::new(&LinkSpec { delay: shortest, ..*spec }, seed)?;
        link.alternate = Some(Alternate {
            every: with.every.max(SHORTEST_PERIOD),
            loss: Loss::new(with.loss, Rng::fork(seed, "alternate").next_u64()),
            extra: [spec.delay - shortest, with.delay - shortest],
        });
        Ok(link)
    }

    /// Takes a packet at `now`, which never goes back; returns it if the queue is full or drops it early.
    ///
    /// What each element draws for a packet depends on `now` and not on the other elements.
    pub fn offer(&mut self, now: Instant, packet: P) -> Option<P> {
        self.total.count_offered(packet.wire_len());
        // Both are asked, so that neither depends on the periods.
        let mut lost = self.loss.strikes(now);
        let mut later = Duration::ZERO;
        if let Some(alternate) = &mut self.alternate {
            let other = alternate.loss.strikes(now);
            let is_other = alternate.is_other(now);
            lost = if is_other { other } else { lost };
            later = alternate.extra[usize::from(is_other)];
        }
        let fate = Fate {
            lost,
            corrupt: self.corruption.strikes_bit(now),
            duplicate: self.duplication.strikes(now),
            extra: self.variation.extra(now) + later,
            hold: self.reorder.strikes(now),
        };
        if self.loss_before_queue && self.loses(packet.wire_len(), lost) {
            self.queue.forget_grant();
            packet.discard(Discard::Lost);
            return None;
        }
        let refused = self.queue.offer(now, Fated { packet, fate });
        self.total.overflowed += u64::from(refused.is_some());
        refused.map(|fated| fated.packet)
    }

    /// Whether there is room for a packet of `len` bytes at `now`: for callers that can wait. If it returns true,
    /// [`Self::offer`] takes the packet, even where RED or DRD would drop it.
    pub fn has_room(&mut self, now: Instant, len: usize) -> bool {
        let held = self.queue.counters().queued + self.delay.counters().in_flight;
        held < MAX_PACKETS as u64 && self.queue.has_room(now, len)
    }

    /// The next packet that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        self.poll_at(now).map(|(_, packet)| packet)
    }

    /// The next packet that has arrived by `now`, with the model's instant of arrival.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.advance(now);
        let (at, Fated { packet, .. }) = self.reorder.poll(now)?;
        self.total.count_delivered(packet.wire_len());
        Some((at, packet))
    }

    /// When to poll next; `None` when the link is empty. After a loss, that poll may return nothing.
    pub fn poll_timeout(&self) -> Option<Instant> {
        soonest([self.queue.poll_timeout(), self.delay.poll_timeout(), self.reorder.poll_timeout()])
    }

    /// Counters of the link as a whole.
    pub fn counters(&self) -> Counters {
        Counters {
            queued: self.queue.counters().queued,
            dropped_early: self.queue.counters().dropped_early,
            in_flight: self.delay.counters().in_flight + self.reorder.counters().in_flight,
            held_back: self.reorder.counters().held_back,
            ..self.total
        }
    }

    /// Counters of each element; each balances by itself.
    pub fn stages(&self) -> StageCounters {
        let (queue, loss) = (("queue", self.queue.counters()), ("loss", self.loss.counters));
        let [first, second] = if self.loss_before_queue { [loss, queue] } else { [queue, loss] };
        [
            first,
            second,
            ("corrupt", self.corruption.counters),
            ("duplicate", self.duplication.counters),
            ("delay", self.delay.counters()),
            ("reorder", self.reorder.counters()),
        ]
    }

    /// Moves every packet to its position at `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((at, fated)) = self.queue.poll(now) {
            self.carry_out(at, fated);
        }
        while let Some((at, fated)) = self.delay.poll(now) {
            let hold = fated.fate.hold;
            self.reorder.offer(at, fated, hold);
        }
    }

    /// Applies a packet's drawn fate between the queue and the line.
    fn carry_out(&mut self, at: Instant, mut fated: Fated<P>) {
        let (len, fate) = (fated.packet.wire_len(), fated.fate);
        if !self.loss_before_queue && self.loses(len, fate.lost) {
            fated.packet.discard(Discard::Lost);
            return;
        }
        self.corruption.counters.count_offered(len);
        if let Some(bit) = fate.corrupt {
            fated.packet.flip_bit(bit);
            self.corruption.counters.corrupted += 1;
            self.total.corrupted += 1;
        }
        self.corruption.counters.count_delivered(len);
        self.duplication.counters.count_offered(len);
        let copy = fate.duplicate.then(|| fated.duplicate());
        self.enter_line(at, fated);
        if let Some(copy) = copy {
            self.duplication.counters.duplicated += 1;
            self.total.duplicated += 1;
            self.enter_line(at, copy);
        }
    }

    /// Counts a packet of `len` bytes at the element that loses some; returns whether it is `lost`.
    fn loses(&mut self, len: usize, lost: bool) -> bool {
        self.loss.counters.count_offered(len);
        if lost {
            self.loss.counters.lost += 1;
            self.total.lost += 1;
        } else {
            self.loss.counters.count_delivered(len);
        }
        lost
    }

    fn enter_line(&mut self, at: Instant, fated: Fated<P>) {
        self.duplication.counters.count_delivered(fated.wire_len());
        let extra = fated.fate.extra;
        let refused = self.delay.offer(at, fated, extra);
        if let Some(refused) = refused {
            self.total.overflowed += 1;
            refused.packet.discard(Discard::Overflowed);
        }
    }
}

impl<P: Packet> Packet for Fated<P> {
    fn wire_len(&self) -> usize {
        self.packet.wire_len()
    }

    fn priority(&self) -> Option<u16> {
        self.packet.priority()
    }

    fn duplicate(&self) -> Self {
        Fated { packet: self.packet.duplicate(), fate: self.fate }
    }

    fn flip_bit(&mut self, bit: u64) {
        self.packet.flip_bit(bit);
    }

    fn discard(self, why: Discard) {
        self.packet.discard(why);
    }
}

/// As short as a stall's period may be.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// Direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From the near end to the far end.
    Up,
    /// From the far end to the near end.
    Down,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The name in specifications and reports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// Both directions of a link, each with its own seed forked from one.
pub struct Duplex<P> {
    /// From the near end to the far end.
    pub up: Link<P>,
    /// From the far end to the near end.
    pub down: Link<P>,
}

impl<P: Packet> Duplex<P> {
    /// Both directions as specified by `spec`.
    pub fn new(spec: &DuplexSpec, seed: u64) -> Result<Self, SpecError> {
        Ok(Duplex {
            up: Link::new(&spec.up, Rng::fork(seed, "up").next_u64())?,
            down: Link::new(&spec.down, Rng::fork(seed, "down").next_u64())?,
        })
    }

    /// The same, where delay and loss of both directions alternate with others.
    pub fn alternating(spec: &DuplexSpec, with: Alternation, seed: u64) -> Result<Self, SpecError> {
        Ok(Duplex {
            up: Link::alternating(&spec.up, with, Rng::fork(seed, "up").next_u64())?,
            down: Link::alternating(&spec.down, with, Rng::fork(seed, "down").next_u64())?,
        })
    }

    /// Takes a packet at `now`; returns it if the queue is full.
    pub fn offer(&mut self, now: Instant, direction: Direction, packet: P) -> Option<P> {
        self.direction_mut(direction).offer(now, packet)
    }

    /// The next packet of either direction that has arrived by `now`: the earlier one, at one instant `Up` first.
    pub fn poll(&mut self, now: Instant) -> Option<(Direction, P)> {
        self.poll_at(now).map(|(_, direction, packet)| (direction, packet))
    }

    /// The same, with the model's instant of arrival.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, Direction, P)> {
        // A link may be due and return nothing (a loss); then the other may still have a packet.
        while let Some((direction, due)) = self.first() {
            if due > now {
                return None;
            }
            if let Some((at, packet)) = self.direction_mut(direction).poll_at(due) {
                return Some((at, direction, packet));
            }
        }
        None
    }

    /// When to poll next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.first().map(|(_, due)| due)
    }

    /// One of the two links.
    pub fn direction(&self, direction: Direction) -> &Link<P> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    fn direction_mut(&mut self, direction: Direction) -> &mut Link<P> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn first(&self) -> Option<(Direction, Instant)> {
        let up = self.up.poll_timeout().map(|due| (Direction::Up, due));
        let down = self.down.poll_timeout().map(|due| (Direction::Down, due));
        match (up, down) {
            (Some(up), Some(down)) => Some(if down.1 < up.1 { down } else { up }),
            (up, down) => up.or(down),
        }
    }
}

//! Largest packet size of a path: packetization layer path MTU discovery (RFC 8899), for transports that can send an
//! acknowledged packet of any size that carries no data (RFC 8899 §4.1).
//!
//! Live sound does not wait for a search: a path begins at the driver's size, which one probe confirms. Only when large
//! packets are lost in a row while small ones arrive is it reduced to [`BASE`], and the search begins there.

use std::time::Duration;

use antiphon_core::Instant;

/// The packet size of a path, as far as known.
///
/// `M`: the mark by which a transport recognises answers to the probes of one size; empty where its packet numbers are
/// enough.
#[derive(Clone, Debug)]
pub(crate) struct Mtu<M = ()> {
    /// The driver's size: no larger packet is ever tried.
    most: usize,
    /// Packet size in use (PLPMTU).
    size: usize,
    /// A size that did not arrive, or that must not be tried.
    fails: usize,
    stage: Stage,
    probe: Probe<M>,
    /// Whether the first probe of a size is sent without a small packet beside it.
    is_sparing: bool,
    /// When the probe counts as lost, or the next one is due.
    at: Option<Instant>,
    /// Packets above [`BASE`] lost in a row, and the size of the smallest.
    losses: (u32, usize),
    /// When larger sizes are tried again.
    raise_at: Option<Instant>,
    /// When `size` was last tested completely.
    tried_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Tests the initial size, once.
    Confirm,
    /// Tests the size in use again, since large packets are lost.
    Doubt,
    /// Tests a larger size.
    Search,
    /// The maximum is reached; waits for the raise timer.
    Settled,
}

/// The size being probed.
#[derive(Clone, Copy, Debug, Default)]
struct Probe<M> {
    size: usize,
    tries: u32,
    /// Must be sent.
    due: bool,
    /// The same for each try, so that late answers are recognised.
    mark: M,
    /// A small probe is due beside it: only if that one arrives is the size the reason for the large one's loss.
    small_due: bool,
    small_mark: M,
    small_sent_at: Option<Instant>,
    small_passed: bool,
}

impl<M: Copy + Default> Mtu<M> {
    /// `most`: the driver's packet size in bytes.
    pub fn new(most: usize, now: Instant) -> Self {
        Mtu {
            most,
            size: most,
            fails: most + WORD,
            stage: Stage::Confirm,
            probe: Probe { size: most, ..Probe::default() },
            is_sparing: false,
            at: (most > BASE).then(|| now + PROBE_TIMER),
            losses: NONE_LOST,
            raise_at: None,
            tried_at: None,
        }
    }

    /// As [`Self::new`], but the first probe of a size is sent without a small one: if it is answered, one packet is
    /// enough.
    pub fn sparing(most: usize, now: Instant) -> Self {
        Mtu { is_sparing: true, ..Mtu::new(most, now) }
    }

    /// Largest packet in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// When [`Self::run`] must be called.
    pub fn next(&self) -> Option<Instant> {
        self.at
    }

    /// A packet of at least `size` bytes was lost.
    pub fn on_loss(&mut self, size: usize) {
        if size > BASE && size <= self.size {
            self.losses = (self.losses.0.saturating_add(1), self.losses.1.min(size));
        }
    }

    /// A packet of at least `size` bytes arrived at the peer.
    pub fn on_pass(&mut self, size: usize) {
        if size >= self.losses.1 {
            self.losses = NONE_LOST;
        }
    }

    /// Handles time and losses; returns whether the size was reduced. `patience`: longest time until an answer.
    pub fn run(&mut self, now: Instant, patience: Duration) -> bool {
        let rested = self.tried_at.is_none_or(|at| now.since(at) >= PROBE_TIMER);
        let probing = self.is_in_use() && self.probe.tries > 0;
        if self.losses.0 >= SUSPICIOUS && rested && !probing {
            (self.stage, self.at) = (Stage::Doubt, Some(now));
            self.probe = Probe { size: self.size, ..Probe::default() };
        }
        if self.stage == Stage::Doubt && self.losses.0 == 0 {
            // A packet at least as large as a missed one has arrived.
            self.tried_at = Some(now);
            self.search(now);
        }
        let mut fell = false;
        // One step may make the next one due at once: a failed size is followed by another.
        while self.at.is_some_and(|at| at <= now) {
            fell |= self.step(now, patience);
        }
        fell
    }

    /// Takes the step that is due; returns whether the size was reduced.
    fn step(&mut self, now: Instant, patience: Duration) -> bool {
        if self.stage == Stage::Settled {
            self.fails = self.most + WORD;
            self.raise_at = None;
            self.search(now);
        }
        if self.probe.tries >= MAX_PROBES {
            return self.give_in(now);
        }
        self.probe.tries += 1;
        (self.probe.due, self.probe.small_due) = (true, !self.is_sparing || self.probe.tries > 1);
        // Sound is lost while a size in use is in doubt; the test of a larger one may take longer.
        self.at = Some(now + if self.is_in_use() { patience } else { patience.max(PROBE_TIMER) });
        false
    }

    /// Whether the size in use is being tested.
    fn is_in_use(&self) -> bool {
        matches!(self.stage, Stage::Confirm | Stage::Doubt)
    }

    /// No probe of this size was answered; returns whether the size in use was reduced.
    fn give_in(&mut self, now: Instant) -> bool {
        let in_use = self.is_in_use();
        if in_use {
            (self.losses, self.tried_at) = (NONE_LOST, Some(now));
        }
        if !self.probe.small_passed {
            // If no probe arrives, the packet size is not the cause.
            match in_use {
                true => self.settle(now),
                false => (self.probe.tries, self.at) = (0, Some(now + PROBE_TIMER)),
            }
            return false;
        }
        self.fails = self.probe.size;
        if in_use {
            (self.size, self.raise_at) = (BASE, None);
        }
        self.search(now);
        in_use
    }

    /// Tries a size halfway to one that fails; ends the search when no such size is worth a probe.
    fn search(&mut self, now: Instant) {
        let half_way = ((self.size + self.fails) / 2) & !(WORD - 1);
        let (next, worth_it) = match self.fails > self.most {
            true => (self.most, self.size < self.most),
            false => (half_way, self.fails - self.size > GRAIN),
        };
        if !worth_it {
            return self.settle(now);
        }
        (self.stage, self.at) = (Stage::Search, Some(now));
        self.probe = Probe { size: next, ..Probe::default() };
    }

    fn settle(&mut self, now: Instant) {
        self.stage = Stage::Settled;
        // The last probe may still be answered.
        self.probe = Probe { tries: 0, due: false, small_due: false, ..self.probe };
        let raise_at = *self.raise_at.get_or_insert(now + RAISE_TIMER);
        self.at = (self.size < self.most).then_some(raise_at);
    }

    /// The probe to send now: its packet size, 0 for one without padding, and its mark.
    pub fn take_due(&mut self, now: Instant) -> Option<(usize, &mut M)> {
        let probe = &mut self.probe;
        if std::mem::take(&mut probe.small_due) {
            // The round trip of a repeated probe is ambiguous (Karn's rule).
            probe.small_sent_at = (probe.tries == 1).then_some(now);
            Some((0, &mut probe.small_mark))
        } else if std::mem::take(&mut probe.due) {
            Some((probe.size, &mut probe.mark))
        } else {
            None
        }
    }

    /// The mark of the probe of this size, 0 for the small one, if there is one.
    pub fn mark(&self, size: usize) -> Option<&M> {
        match size {
            0 => Some(&self.probe.small_mark),
            size => Some(&self.probe.mark).filter(|_| size == self.probe.size),
        }
    }

    /// A probe of this size (0: the small one) was answered; returns the round trip, if it can be measured from it.
    /// Other sizes than those being tried are ignored.
    pub fn on_answered(&mut self, now: Instant, size: usize) -> Option<Duration> {
        let probe = &mut self.probe;
        if size == 0 {
            probe.small_passed = true;
            return probe.small_sent_at.take().map(|sent| now.since(sent));
        }
        if size != probe.size {
            return None;
        }
        self.on_pass(size);
        match self.stage {
            Stage::Search => {
                self.size = size;
                self.search(now);
            }
            Stage::Confirm | Stage::Doubt => {
                self.tried_at = Some(now);
                self.search(now);
            }
            // Answers an earlier try.
            Stage::Settled => {}
        }
        None
    }
}

/// BASE_PLPMTU (RFC 8899 §5.1.2). Smaller sizes are not tried: every IPv6 path takes 1280 bytes.
pub(crate) const BASE: usize = 1200;
/// MAX_PROBES (RFC 8899 §5.1.2).
const MAX_PROBES: u32 = 3;
/// The minimum in RFC 8899 §5.1.1.
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// PMTU_RAISE_TIMER (RFC 8899 §5.1.1).
pub(crate) const RAISE_TIMER: Duration = Duration::from_secs(600);
/// Packets lost in a row: as many misses make a loss (RFC 9260 §7.2.4, RFC 4341 §5). Congestion drops as many now and
/// then, which costs a probe.
pub(crate) const SUSPICIOUS: u32 = 3;
const NONE_LOST: (u32, usize) = (0, usize::MAX);
/// The search ends when a size is this close to one that fails: half a percent of a packet.
pub(crate) const GRAIN: usize = 8;
/// Packets are built in words of 4 bytes.
const WORD: usize = 4;

//! A receiver's account of a stream by its sequence numbers alone: what came, what did not, in what order.

use serde::{Deserialize, Serialize};

use crate::bursts::{BurstTotals, LossRuns};

/// What a packet's number says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// First of its number, and the highest so far.
    InOrder,
    /// First of its number, but a higher one came before it, `by` packets ahead.
    Reordered {
        /// Distance to the highest number seen.
        by: u64,
    },
    /// Its number came before.
    Duplicate,
    /// Too far behind the highest number to tell a duplicate from an overtaken packet; counted apart. A second one
    /// right after it in number makes a [`Arrival::Jump`].
    TooOld,
    /// Implausibly far ahead: not believed until the number after it comes too.
    Stray,
    /// The second of two successive implausible numbers: the sender began anew, and so did the account.
    Jump,
}

/// Accounts for a stream of 64-bit extended sequence numbers in fixed memory.
///
/// Within the last [`StreamAccount::WINDOW`] numbers duplicates and reordering are told apart exactly. A packet is
/// *reordered* if a higher number came before it (RFC 4737 §3: Type-P-Reordered). A single number far ahead changes
/// nothing; two successive ones restart the account (RFC 3550 appendix A.1), so that neither a restart nor a forged
/// packet can make 2⁴⁸ losses. What was received is counted by the caller's word; *late*, *concealed* and the like
/// by [`Self::totals_mut`].
#[derive(Clone, Debug)]
pub struct StreamAccount {
    /// One bit per number of the window: whether it came. Bit `seq % WINDOW`.
    came: Box<[u64]>,
    segment: Option<Segment>,
    /// The number that would confirm a jump.
    confirms: Option<u64>,
    settled: LossRuns,
    totals: Totals,
    reorder_extent: u64,
}

/// Numbers from `first` to `highest` without a jump; those below `settled_to` have left the window.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    highest: u64,
    settled_to: u64,
}

/// What is counted as it happens. Each is apart from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Packets received, each number once.
    pub received: u64,
    /// Received more than once, the extra ones.
    pub duplicate: u64,
    /// Received after a higher number.
    pub reordered: u64,
    /// Received too far behind to be told from a duplicate.
    pub too_old: u64,
    /// Received with a number implausibly far ahead, and not believed.
    pub stray: u64,
    /// Restarts of the sequence.
    pub jumps: u64,
    /// Of those received, how many came by retransmission or redundancy.
    pub recovered: u64,
    /// Of those received, how many came after their time.
    pub late: u64,
    /// Given up by the sender, where it says so.
    pub expired: u64,
    /// Holes the receiver filled with something else.
    pub concealed: u64,
}

/// The account at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct AccountReport {
    /// Numbers from the first to the highest, over all restarts.
    pub expected: u64,
    /// Expected and not received, so far.
    pub lost: u64,
    /// Everything counted.
    #[serde(flatten)]
    pub totals: Totals,
    /// Longest run of loss in packets.
    pub longest_loss_burst: u64,
    /// Mean run of loss in packets; `None` without loss.
    pub mean_loss_burst: Option<f64>,
    /// RFC 3611's bursts.
    pub bursts: BurstTotals,
    /// The furthest any packet was behind, in packets (RFC 4737 §4.2 counts the same by position).
    pub reorder_extent: u64,
}

impl Default for StreamAccount {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamAccount {
    /// How many numbers below the highest are remembered: 11 s of 2.7 ms packets.
    pub const WINDOW: u64 = 4096;

    /// A step ahead of more than this is a jump. RFC 3550 appendix A.1 has 3000 (MAX_DROPOUT), a minute of 20 ms
    /// packets; ours lasts as long with the 2.7 ms packets of a musician.
    pub const MAX_STEP: u64 = 22_500;

    /// Higher numbers are strays: no stream lasts so long, and sums of numbers below it cannot overflow.
    pub const HIGHEST: u64 = 1 << 62;

    /// An account that begins with the first packet it is told of.
    pub fn new() -> Self {
        StreamAccount {
            came: vec![0; (Self::WINDOW / 64) as usize].into_boxed_slice(),
            segment: None,
            confirms: None,
            settled: LossRuns::default(),
            totals: Totals::default(),
            reorder_extent: 0,
        }
    }

    /// An account of a stream known to begin with `first`, so that its loss counts too. `first` is at least 1, as
    /// every number of an `Unwrapper` is.
    pub fn starting_at(first: u64) -> Self {
        let mut account = Self::new();
        account.segment =
            first.checked_sub(1).map(|before| Segment { first, highest: before, settled_to: first });
        account
    }

    /// A packet with the extended number `seq` came.
    pub fn on_received(&mut self, seq: u64) -> Arrival {
        if seq > Self::HIGHEST {
            self.totals.stray += 1;
            return Arrival::Stray;
        }
        let Some(segment) = self.segment else {
            self.begin(seq);
            return Arrival::InOrder;
        };
        let arrival =
            if seq > segment.highest { self.on_ahead(segment, seq) } else { self.on_behind(segment, seq) };
        match arrival {
            Arrival::TooOld | Arrival::Stray => self.confirms = seq.checked_add(1),
            _ => self.confirms = None,
        }
        arrival
    }

    fn on_ahead(&mut self, mut segment: Segment, seq: u64) -> Arrival {
        if seq - segment.highest > Self::MAX_STEP {
            if self.confirms == Some(seq) {
                self.totals.stray -= 1;
                return self.restart(seq);
            }
            self.totals.stray += 1;
            return Arrival::Stray;
        }
        self.settle(&mut segment, (seq + 1).saturating_sub(Self::WINDOW));
        for passed in (segment.highest + 1).max(segment.settled_to)..=seq {
            self.mark(passed, passed == seq);
        }
        segment.highest = seq;
        self.segment = Some(segment);
        self.totals.received += 1;
        Arrival::InOrder
    }

    fn on_behind(&mut self, mut segment: Segment, seq: u64) -> Arrival {
        let by = segment.highest - seq;
        let none_yet = segment.highest < segment.first;
        if none_yet || by >= Self::WINDOW || seq < segment.settled_to && seq >= segment.first {
            if self.confirms == Some(seq) {
                self.totals.too_old -= 1;
                return self.restart(seq);
            }
            self.totals.too_old += 1;
            return Arrival::TooOld;
        }
        if seq < segment.first {
            // Overtaken by the packet that began the account: it began earlier than we knew.
            for earlier in seq..segment.first {
                self.mark(earlier, false);
            }
            segment.first = seq;
            segment.settled_to = seq;
            self.segment = Some(segment);
        }
        if self.has(seq) {
            self.totals.duplicate += 1;
            return Arrival::Duplicate;
        }
        self.mark(seq, true);
        self.totals.received += 1;
        self.totals.reordered += 1;
        self.reorder_extent = self.reorder_extent.max(by);
        Arrival::Reordered { by }
    }

    /// Closes the old segment and opens one with the unbelieved number before `seq`, and `seq`.
    fn restart(&mut self, seq: u64) -> Arrival {
        if let Some(mut segment) = self.segment {
            let end = segment.highest + 1;
            self.settle(&mut segment, end);
        }
        self.settled.cut();
        self.totals.jumps += 1;
        self.begin(seq - 1);
        self.mark(seq, true);
        self.totals.received += 1;
        self.segment = Some(Segment { first: seq - 1, highest: seq, settled_to: seq - 1 });
        Arrival::Jump
    }

    fn begin(&mut self, seq: u64) {
        self.mark(seq, true);
        self.totals.received += 1;
        self.segment = Some(Segment { first: seq, highest: seq, settled_to: seq });
    }

    /// Passes judgement on the numbers below `to`, which leave the window. Bounded work: at most the window bit by
    /// bit, the rest at once.
    fn settle(&mut self, segment: &mut Segment, to: u64) {
        let known = to.min(segment.highest.saturating_add(1));
        for seq in segment.settled_to..known {
            if self.has(seq) {
                self.settled.on_received(1);
            } else {
                self.settled.on_lost(1);
            }
        }
        self.settled.on_lost(to.saturating_sub(known.max(segment.settled_to)));
        segment.settled_to = segment.settled_to.max(to);
    }

    fn mark(&mut self, seq: u64, came: bool) {
        let (word, bit) = place(seq);
        if came {
            self.came[word] |= 1 << bit;
        } else {
            self.came[word] &= !(1 << bit);
        }
    }

    fn has(&self, seq: u64) -> bool {
        let (word, bit) = place(seq);
        self.came[word] >> bit & 1 == 1
    }

    /// The counters that only the caller can keep: late, expired, concealed, recovered.
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// The highest number received in the present segment.
    pub fn highest(&self) -> Option<u64> {
        self.segment.filter(|s| s.highest >= s.first).map(|s| s.highest)
    }

    /// Runs of loss up to the highest number; what is missing in the window counts as lost so far.
    pub fn loss_runs(&self) -> LossRuns {
        self.loss_runs_to(None)
    }

    fn loss_runs_to(&self, last_sent: Option<u64>) -> LossRuns {
        let mut all = self.clone();
        if let Some(mut segment) = self.segment {
            let end = segment.highest.max(last_sent.unwrap_or(0).min(Self::HIGHEST)) + 1;
            all.settle(&mut segment, end);
        }
        all.settled
    }

    /// The account so far. `last_sent` is the sender's last number, where it is known: what it sent after the
    /// highest number received is lost too.
    pub fn report(&self, last_sent: Option<u64>) -> AccountReport {
        let runs = self.loss_runs_to(last_sent);
        AccountReport {
            expected: runs.lost() + runs.received(),
            lost: runs.lost(),
            totals: self.totals,
            longest_loss_burst: runs.longest(),
            mean_loss_burst: runs.mean_burst(),
            bursts: runs.bursts(),
            reorder_extent: self.reorder_extent,
        }
    }
}

fn place(seq: u64) -> (usize, u32) {
    let slot = seq % StreamAccount::WINDOW;
    ((slot / 64) as usize, (slot % 64) as u32)
}

#[cfg(test)]
mod tests;

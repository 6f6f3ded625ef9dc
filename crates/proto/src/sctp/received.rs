//! Records which TSNs have arrived, for SACKs (RFC 9260 §6.2).

use antiphon_core::Seq32;

/// How a [`TsnLog`] classifies a TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Not received before; `in_order` when it is the next one and nothing is missing.
    New {
        in_order: bool,
    },
    Again,
    /// Too far ahead to be acknowledged, or a gap more than is kept: treated as lost.
    Refused,
}

/// The TSNs that have arrived, as a cumulative TSN and runs beyond it.
#[derive(Debug)]
pub(super) struct TsnLog {
    /// All TSNs up to this one have arrived or are given up.
    pub cumulative: Seq32,
    /// First and last of each run beyond, ascending, with gaps between.
    runs: Vec<(Seq32, Seq32)>,
    /// TSNs received again since the last SACK.
    pub duplicates: Vec<Seq32>,
}

impl TsnLog {
    /// A log that expects `first` next.
    pub fn new(first: Seq32) -> Self {
        let (runs, duplicates) = (Vec::with_capacity(16), Vec::with_capacity(MOST_DUPLICATES));
        TsnLog { cumulative: Seq32(first.0.wrapping_sub(1)), runs, duplicates }
    }

    /// Reserves memory for the runs that `messages` can make when every other one is lost.
    pub fn reserve(&mut self, messages: usize) {
        self.runs.reserve_exact((messages / 2).min(MOST_RUNS).saturating_sub(self.runs.len()));
    }

    /// Classifies `tsn` without entering it.
    pub fn peek(&self, tsn: Seq32) -> Heard {
        let ahead = tsn.distance(self.cumulative);
        if ahead <= 0 || self.runs.iter().rev().any(|(first, last)| holds((*first, *last), tsn)) {
            return Heard::Again;
        }
        let touches = |(first, last): &(Seq32, Seq32)| last.next() == tsn || tsn.next() == *first;
        if ahead > MOST_AHEAD || (self.runs.len() >= MOST_RUNS && ahead > 1 && !self.runs.iter().any(touches))
        {
            return Heard::Refused;
        }
        Heard::New { in_order: ahead == 1 && self.runs.is_empty() }
    }

    /// Enters a TSN that is [new](Heard::New).
    pub fn enter(&mut self, tsn: Seq32) {
        if tsn == self.cumulative.next() {
            self.cumulative = tsn;
            return self.close_up();
        }
        // Nearly always extends the last run.
        let at = self.runs.iter().rposition(|(first, _)| first.is_before(tsn)).map_or(0, |at| at + 1);
        let joins_before = at > 0 && self.runs[at - 1].1.next() == tsn;
        let joins_after = self.runs.get(at).is_some_and(|(first, _)| tsn.next() == *first);
        match (joins_before, joins_after) {
            (true, true) => {
                self.runs[at - 1].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 = tsn,
            (false, true) => self.runs[at].0 = tsn,
            (false, false) => self.runs.insert(at, (tsn, tsn)),
        }
    }

    /// Records a duplicate TSN for the next SACK.
    pub fn note_duplicate(&mut self, tsn: Seq32) {
        if self.duplicates.len() < MOST_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// The peer has given up everything up to `cumulative`; returns whether that changes the log.
    pub fn forward(&mut self, cumulative: Seq32) -> bool {
        if !self.cumulative.is_before(cumulative) {
            return false;
        }
        self.cumulative = cumulative;
        while let Some((first, last)) = self.runs.first_mut() {
            if !cumulative.is_before(*last) {
                self.runs.remove(0);
            } else {
                if !cumulative.is_before(*first) {
                    *first = cumulative.next();
                }
                break;
            }
        }
        self.close_up();
        true
    }

    fn close_up(&mut self) {
        if let Some((first, last)) = self.runs.first()
            && *first == self.cumulative.next()
        {
            self.cumulative = *last;
            self.runs.remove(0);
        }
    }

    /// The highest TSN received.
    pub fn highest(&self) -> Seq32 {
        self.runs.last().map_or(self.cumulative, |(_, last)| *last)
    }

    /// Whether TSNs are missing below the highest.
    pub fn has_gaps(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The runs as a SACK's gap blocks.
    pub fn gaps(&self) -> impl Iterator<Item = (u16, u16)> {
        let offset = |tsn: Seq32| tsn.distance(self.cumulative) as u16;
        self.runs.iter().map(move |(first, last)| (offset(*first), offset(*last)))
    }
}

fn holds((first, last): (Seq32, Seq32), tsn: Seq32) -> bool {
    !tsn.is_before(first) && !last.is_before(tsn)
}

/// Gap blocks have 16-bit offsets.
const MOST_AHEAD: i32 = 65_535;
/// Runs kept: more than fit a SACK in one packet.
const MOST_RUNS: usize = 360;
/// Duplicates reported in one SACK: enough for a peer that repeats itself to notice.
const MOST_DUPLICATES: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use antiphon_core::Rng;

    #[test]
    fn any_order_gives_the_same_runs_as_a_set() {
        let mut rng = Rng::fork(1, "tsn log");
        for round in 0..200u32 {
            // Across the wrap of the numbers.
            let start = u32::MAX - 40 - round % 40;
            let (mut log, mut set, mut floor) = (TsnLog::new(Seq32(start)), BTreeSet::new(), 0u32);
            for _ in 0..120 {
                let n = rng.below(100);
                let tsn = Seq32(start.wrapping_add(n));
                if rng.chance(0.05) {
                    assert_eq!(log.forward(tsn), n >= floor);
                    floor = floor.max(n + 1);
                } else {
                    let heard = log.peek(tsn);
                    let old = n < floor || set.contains(&n);
                    assert_eq!(heard == Heard::Again, old, "{n} {floor} {set:?} {log:?}");
                    if !old {
                        log.enter(tsn);
                        set.insert(n);
                    }
                }
                while set.contains(&floor) {
                    floor += 1;
                }
                set.retain(|n| *n >= floor);
                assert_eq!(log.cumulative, Seq32(start.wrapping_add(floor).wrapping_sub(1)));
                let cumulative = log.cumulative;
                let told: BTreeSet<u32> = log
                    .gaps()
                    .flat_map(|(a, b)| a..=b)
                    .map(|offset| cumulative.plus(u32::from(offset)).0.wrapping_sub(start))
                    .collect();
                assert_eq!(told, set);
                assert_eq!(log.has_gaps(), !set.is_empty());
            }
        }
    }

    #[test]
    fn what_a_peer_may_have_us_keep_is_bounded() {
        let mut log = TsnLog::new(Seq32(0));
        assert_eq!(log.peek(Seq32(65_534)), Heard::New { in_order: false });
        assert_eq!(log.peek(Seq32(65_535)), Heard::Refused);
        for n in 0..10_000u32 {
            let tsn = Seq32(2 * n + 1);
            if matches!(log.peek(tsn), Heard::New { .. }) {
                log.enter(tsn);
            }
            log.note_duplicate(tsn);
        }
        assert_eq!((log.gaps().count(), log.duplicates.len()), (MOST_RUNS, MOST_DUPLICATES));
        assert_eq!(log.peek(Seq32(0)), Heard::New { in_order: false }, "what closes a gap is taken");
        assert_eq!(log.peek(Seq32(2)), Heard::New { in_order: false });
    }
}

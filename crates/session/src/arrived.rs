//! Which packets of an RTP stream a recording has: what its receipts tell the sender.

use std::collections::VecDeque;
use std::ops::Range;

use antiphon_core::Unwrapper;
use antiphon_media::rtcp::Receipt;

/// The packets of one source, since the first one that came.
#[derive(Debug)]
pub(crate) struct ArrivedPackets {
    ssrc: u32,
    numbers: Unwrapper<16>,
    /// The number after the highest that has arrived.
    next: Option<u64>,
    /// Runs of missing numbers below it, in their order.
    missing: VecDeque<Range<u64>>,
}

impl ArrivedPackets {
    pub fn new(ssrc: u32) -> Self {
        let missing = VecDeque::with_capacity(MOST_RUNS);
        ArrivedPackets { ssrc, numbers: Unwrapper::default(), next: None, missing }
    }

    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// So many packets did not come, more than sequence numbers alone show.
    pub fn skip(&mut self, packets: u64) {
        self.numbers.skip(packets);
    }

    /// A packet has arrived, for the first time or again.
    pub fn on_packet(&mut self, sequence: u16) {
        let number = self.numbers.extend(sequence.into());
        let next = *self.next.get_or_insert(number);
        if number >= next {
            if number > next {
                self.miss(next..number);
            }
            self.next = Some(number + 1);
            return;
        }
        // A run that a repair ends or divides: the newest ones are repaired first, or all in their order.
        let Some(at) = self.missing.iter().position(|run| run.contains(&number)) else { return };
        let run = self.missing[at].clone();
        match (run.start == number, number + 1 == run.end) {
            (true, true) => drop(self.missing.remove(at)),
            (true, false) => self.missing[at].start = number + 1,
            (false, true) => self.missing[at].end = number,
            (false, false) => {
                self.missing[at].end = number;
                if self.missing.len() < MOST_RUNS {
                    self.missing.insert(at + 1, number + 1..run.end);
                }
            }
        }
    }

    /// Remembers missing packets; the oldest are given up where there are too many runs.
    fn miss(&mut self, run: Range<u64>) {
        if self.missing.len() == MOST_RUNS {
            self.missing.pop_front();
        }
        self.missing.push_back(run);
    }

    /// What is told of it, in the name of `ssrc`; `None` before the first packet.
    pub fn receipt(&self, ssrc: u32) -> Option<Receipt> {
        let next = self.next?;
        let complete = self.missing.front().map_or(next, |run| run.start);
        let mut receipt = Receipt::new(ssrc, self.ssrc, complete as u32, next as u32);
        for run in &self.missing {
            if !receipt.add(run.start as u32..run.end as u32) {
                break;
            }
        }
        Some(receipt)
    }
}

/// Missing runs that are remembered. Over a transport that loses nothing there are none, except after a fault.
const MOST_RUNS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;

    use antiphon_core::Rng;

    fn told(arrived: &ArrivedPackets) -> (u32, u32, Vec<(u32, u32)>) {
        let receipt = arrived.receipt(9).expect("something has come");
        (
            receipt.complete & 0xffff,
            receipt.next & 0xffff,
            receipt.missing().iter().map(|(first, n)| (first & 0xffff, *n)).collect(),
        )
    }

    #[test]
    fn receipts_name_what_is_missing() {
        let mut arrived = ArrivedPackets::new(5);
        assert_eq!(arrived.receipt(9), None);
        [65_534, 65_535, 3, 4, 9].into_iter().for_each(|number| arrived.on_packet(number));
        assert_eq!(told(&arrived), (0, 10, vec![(0, 3), (5, 4)]));
        // Repairs at both ends of a run, and in its middle.
        [0, 2, 7, 7].into_iter().for_each(|number| arrived.on_packet(number));
        assert_eq!(told(&arrived), (1, 10, vec![(1, 1), (5, 2), (8, 1)]));
        [1, 5, 6, 8].into_iter().for_each(|number| arrived.on_packet(number));
        assert_eq!(told(&arrived), (10, 10, vec![]));
    }

    #[test]
    fn what_is_told_is_what_has_come() {
        let (mut rng, mut arrived) = (Rng::fork(1, "arrived"), ArrivedPackets::new(5));
        let (mut have, mut highest, mut repaired) = (BTreeSet::from([1000u64]), 1000u64, 1000u64);
        arrived.on_packet(1000);
        for _ in 0..100_000 {
            let number = if rng.chance(0.7) {
                highest + 1 + u64::from(rng.below(3))
            } else {
                highest - u64::from(rng.below(200)).min(highest - 1000)
            };
            highest = highest.max(number);
            have.insert(number);
            arrived.on_packet(number as u16);
            // What is never repaired would fill the list.
            if rng.chance(0.01) {
                let missing = (repaired..highest).filter(|old| !have.contains(old));
                missing.for_each(|old| arrived.on_packet(old as u16));
                have.extend(repaired..highest);
                repaired = highest;
            }
            if rng.chance(0.01) {
                let complete = (repaired..).find(|number| !have.contains(number)).unwrap_or(0);
                let (told_complete, told_next, runs) = told(&arrived);
                assert_eq!(
                    (told_complete, told_next),
                    (complete as u32 & 0xffff, (highest + 1) as u32 & 0xffff)
                );
                let missing = (repaired..highest).filter(|number| !have.contains(number)).count();
                let named: u32 = runs.iter().map(|(_, count)| count).sum();
                assert!(named as usize == missing || runs.len() == 32, "{named} of {missing}");
            }
            if highest > 60_000 {
                break;
            }
        }
    }
}

//! Estimates the fate of single packets from CCID 3's reports, which contain rates and name one packet each.

use crate::dccp::logs::{Fate, SentLog};
use crate::dccp::seq::Seq48;

/// Counts every packet before the one that a report names as lost if the reported losses have increased, and otherwise
/// as arrived. Single estimates may be wrong, but a search for packets of one size that never arrive also finds those
/// named.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guess {
    /// Losses have increased since packets were last settled.
    is_worse: bool,
    /// Consecutive reports that named a packet without data, so that they say nothing about a message's size.
    vague: u32,
}

impl Guess {
    /// The peer has packet `ack`, and reports losses, increased (`worse`) or not.
    pub fn on_report(&mut self, ack: Seq48, worse: bool, log: &mut SentLog) {
        let Some(named) = log.entry_mut(ack) else { return };
        named.fate = Fate::Acked;
        self.is_worse |= worse;
        self.vague = if named.data { 0 } else { self.vague + 1 };
        if named.data || self.vague >= MOST_VAGUE {
            let fate = if self.is_worse { Fate::Lost } else { Fate::Acked };
            log.settle(ack, fate);
            *self = Guess::default();
        }
    }
}

/// If as many acknowledgements as messages are sent, every other report is inconclusive; five in a row then happen once
/// in 32.
const MOST_VAGUE: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dccp::logs::Sent;

    #[test]
    fn unnamed_packets_share_the_reported_fate() {
        let mut log = SentLog::new(Seq48::new(0));
        (0..40).for_each(|n| log.push(log.next, Sent { data: n < 20, ..Sent::default() }));
        let mut guess = Guess::default();
        let mut fates = |ack: u64, worse: bool| {
            guess.on_report(Seq48::new(ack), worse, &mut log);
            let fates: Vec<Fate> = std::iter::from_fn(|| log.next_settled()).map(|sent| sent.fate).collect();
            (fates.iter().filter(|fate| **fate == Fate::Lost).count(), fates.len())
        };
        assert_eq!(fates(5, false), (0, 6));
        assert_eq!(fates(9, true), (3, 4), "the named one arrived");
        assert_eq!(fates(10, false), (0, 1));
        // Reports that name no data packet settle nothing until there are many.
        assert_eq!(fates(21, true), (0, 0));
        assert_eq!((22..25).map(|ack| fates(ack, false).1).sum::<usize>(), 0);
        assert_eq!(fates(25, false), (10, 15));
        assert_eq!(fates(99, true), (0, 0), "never sent");
    }
}

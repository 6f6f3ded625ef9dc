//! Fates of packets: every packet handed over has exactly one fate, and the counts must add up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The fate of a packet. *Lost* is caused by the network, *expired*, *refused* by the sender, *late* by the receiver.
///
/// A concealment is not a fate but the receiver's replacement for a missing packet; a duplicate is an extra.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Fate {
    /// In flight; counts as lost when the run is over.
    #[default]
    Pending,
    /// Arrived in time.
    Played,
    /// Arrived in time by retransmission or redundancy; counts as played where the two are not distinguished.
    Recovered,
    /// Arrived after it should have been played.
    Late,
    /// Never arrived.
    Lost,
    /// Its deadline passed before the sender's transport put it on the wire.
    Expired,
    /// The transport did not take it (queue full, congestion control).
    Refused,
}

impl Fate {
    /// All of them, in the order of [`FateCounts`].
    pub const ALL: [Fate; 7] =
        [Fate::Pending, Fate::Played, Fate::Recovered, Fate::Late, Fate::Lost, Fate::Expired, Fate::Refused];

    /// Whether the packet reached the receiver at all.
    pub fn arrived(self) -> bool {
        matches!(self, Fate::Played | Fate::Recovered | Fate::Late)
    }

    /// As a word of `packets.csv`.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Pending => "pending",
            Fate::Played => "played",
            Fate::Recovered => "recovered",
            Fate::Late => "late",
            Fate::Lost => "lost",
            Fate::Expired => "expired",
            Fate::Refused => "refused",
        }
    }

    /// Which fate holds when both ends report: the receiver knows best, so an arrival overrides the sender's report,
    /// and the receiver's last report overrides its first.
    pub fn revised_by(self, report: Fate) -> Fate {
        let standing = |f: Fate| match f {
            Fate::Pending => 0,
            Fate::Lost => 1,
            Fate::Refused | Fate::Expired => 2,
            Fate::Played | Fate::Recovered | Fate::Late => 3,
        };
        if standing(report) >= standing(self) { report } else { self }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many packets had each fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FateCounts([u64; Fate::ALL.len()]);

impl FateCounts {
    /// Counts one packet.
    pub fn add(&mut self, fate: Fate) {
        self.0[fate as usize] += 1;
    }

    /// A packet counted under `from` is now known to have the fate `to`.
    pub fn change(&mut self, from: Fate, to: Fate) {
        self.0[from as usize] -= 1;
        self.0[to as usize] += 1;
    }

    /// How many had the fate `fate`.
    pub fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize]
    }

    /// How many reached the receiver.
    pub fn arrived(&self) -> u64 {
        self.of(Fate::Played) + self.of(Fate::Recovered) + self.of(Fate::Late)
    }

    /// All packets counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Compares the counts with `sent`, the number of packets handed over.
    pub fn balance(&self, sent: u64) -> Result<(), Unbalanced> {
        let ended = self.total() - self.of(Fate::Pending);
        if ended == sent { Ok(()) } else { Err(Unbalanced { sent, ended }) }
    }
}

/// Packets and fates do not add up: a bug here, never an effect of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{sent} packets were sent but {ended} fates are known")]
pub struct Unbalanced {
    /// Packets handed over.
    pub sent: u64,
    /// Packets whose fate is known.
    pub ended: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_overrides_the_senders_report() {
        assert_eq!(Fate::Expired.revised_by(Fate::Played), Fate::Played);
        assert_eq!(Fate::Played.revised_by(Fate::Expired), Fate::Played);
        assert_eq!(Fate::Played.revised_by(Fate::Late), Fate::Late);
        assert_eq!(Fate::Expired.revised_by(Fate::Lost), Fate::Expired);
        assert_eq!(Fate::Pending.revised_by(Fate::Lost), Fate::Lost);
    }

    #[test]
    fn counts_stand_in_the_order_of_the_list_and_balance() {
        let mut counts = FateCounts::default();
        for (i, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, i);
            counts.add(fate);
        }
        assert_eq!(counts.balance(6), Ok(()));
        assert_eq!(counts.balance(7), Err(Unbalanced { sent: 7, ended: 6 }));
        assert_eq!(counts.arrived(), 3);
    }
}

//! What a cell counts.

use std::time::Duration;

/// Counters of one station. Totals, except `queued` and `waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// Packets handed in for sending.
    pub offered: u64,
    /// Packets that this access point took from a station to relay.
    pub relayed: u64,
    /// Packets that the next station acknowledged.
    pub acknowledged: u64,
    /// Multicast packets sent, whether or not they were received.
    pub multicast: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
    /// Packets dropped because the last retry had failed.
    pub exhausted: u64,
    /// Of those, how many had arrived: only their acknowledgements were lost.
    pub exhausted_after_arrival: u64,
    /// Packets in its queues now, the one being sent included.
    pub queued: u64,

    /// Packets for this station that it acknowledged (those to be relayed are in `relayed`), each once.
    pub received: u64,
    /// Frames that this station discarded because it had received them before: their acknowledgement was lost, and they
    /// were sent again.
    pub duplicates: u64,
    /// Copies of multicast packets sent to this station.
    pub copies: u64,
    /// Of those copies, how many it did not receive.
    pub missed: u64,
    /// Packets dropped because they were not taken out of the cell.
    pub unclaimed: u64,
    /// Packets that have arrived but were not taken out yet.
    pub waiting: u64,
    /// Packets taken out at this station.
    pub delivered: u64,

    /// Frames sent, retries included.
    pub attempts: u64,
    /// Of those, how many collided with another station's.
    pub collisions: u64,
    /// Attempts to reach one station that were not acknowledged, because of collision or error.
    pub failures: u64,
    /// Of those, how many were received, and only their acknowledgement was lost.
    pub unacknowledged: u64,
    /// Accesses lost to a more urgent category of the same station: no frame was sent, but each counts as a failure.
    pub virtual_collisions: u64,
    /// Failures, virtual collisions included, that led to another attempt.
    pub retries: u64,
    /// Time for which this station's attempts kept the channel busy, acknowledgements and the wait for them included.
    pub airtime: Duration,
}

impl StationCounters {
    /// Whether every packet is accounted for, as sender and as receiver, and every failure has led to a retry or a drop.
    pub fn balances(&self) -> bool {
        let sent = self.acknowledged + self.multicast + self.overflowed + self.exhausted + self.queued;
        let heard = self.delivered + self.waiting + self.missed + self.unclaimed;
        self.offered + self.relayed == sent
            && self.received + self.copies == heard
            && self.failures + self.virtual_collisions == self.retries + self.exhausted
    }

    /// The sums of both; summed airtime of colliding stations exceeds the time that passed.
    pub fn plus(self, other: StationCounters) -> StationCounters {
        StationCounters {
            offered: self.offered + other.offered,
            relayed: self.relayed + other.relayed,
            acknowledged: self.acknowledged + other.acknowledged,
            multicast: self.multicast + other.multicast,
            overflowed: self.overflowed + other.overflowed,
            exhausted: self.exhausted + other.exhausted,
            exhausted_after_arrival: self.exhausted_after_arrival + other.exhausted_after_arrival,
            queued: self.queued + other.queued,
            received: self.received + other.received,
            duplicates: self.duplicates + other.duplicates,
            copies: self.copies + other.copies,
            missed: self.missed + other.missed,
            unclaimed: self.unclaimed + other.unclaimed,
            waiting: self.waiting + other.waiting,
            delivered: self.delivered + other.delivered,
            attempts: self.attempts + other.attempts,
            collisions: self.collisions + other.collisions,
            failures: self.failures + other.failures,
            unacknowledged: self.unacknowledged + other.unacknowledged,
            virtual_collisions: self.virtual_collisions + other.virtual_collisions,
            retries: self.retries + other.retries,
            airtime: self.airtime + other.airtime,
        }
    }
}

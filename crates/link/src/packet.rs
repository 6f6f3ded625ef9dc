//! What a link carries, and the counters of every element.

/// Properties of a packet that a link needs.
pub trait Packet {
    /// Bytes of this packet on the link, including the headers that the link's rate counts.
    fn wire_len(&self) -> usize;

    /// What stations that honour priorities go by, 0 the most urgent; `None`: it has none, and comes after all that do.
    fn priority(&self) -> Option<u16>;

    /// A second packet with the same content.
    fn duplicate(&self) -> Self;

    /// Inverts one bit. `bit` is uniform over all 64-bit numbers; the packet takes it modulo its own bits.
    fn flip_bit(&mut self, bit: u64);

    /// Called when an element drops the packet without returning it. By default nothing else happens; an implementation
    /// can count drops per flow here.
    fn discard(self, _why: Discard)
    where
        Self: Sized,
    {
    }
}

/// Why an element drops a packet that it had taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// A loss model dropped it.
    Lost,
    /// A queue was full, or RED or DRD dropped it early.
    Overflowed,
    /// The last retry of an 802.11 station had failed.
    Exhausted,
}

/// Where a packet of this priority stands: before all that have a larger number.
///
/// As XTP sorts (SORT): those with a priority first, by its value.
pub fn rank(priority: Option<u16>) -> u32 {
    priority.map_or(u32::MAX, u32::from)
}

impl Packet for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flip_bit(&mut self, bit: u64) {
        if !self.is_empty() {
            let bit = bit % (self.len() as u64 * 8);
            self[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

/// An element's counters, or a whole link's. Totals, except `queued` and `in_flight`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets handed in.
    pub offered: u64,
    /// Copies made beyond the packets handed in.
    pub duplicated: u64,
    /// Packets, copies included, that came out at the far end.
    pub delivered: u64,
    /// Packets that a loss model dropped.
    pub lost: u64,
    /// Packets dropped because a queue was full, or early (RED, DRD).
    pub overflowed: u64,
    /// Those of `overflowed` that RED or DRD dropped before the queue was full.
    pub dropped_early: u64,
    /// Packets in a queue now, the one being sent included.
    pub queued: u64,
    /// Packets in propagation now.
    pub in_flight: u64,
    /// Packets that left with one bit inverted.
    pub corrupted: u64,
    /// Packets held back so that others may overtake them.
    pub held_back: u64,
    /// Bytes handed in.
    pub offered_bytes: u64,
    /// Bytes that came out.
    pub delivered_bytes: u64,
}

impl Counters {
    /// Packets that will never arrive: lost or overflowed.
    pub fn dropped(&self) -> u64 {
        self.lost + self.overflowed
    }

    /// Whether every packet is accounted for: offered + duplicated = delivered + dropped + queued + in flight.
    pub fn balances(&self) -> bool {
        self.offered + self.duplicated == self.delivered + self.dropped() + self.queued + self.in_flight
    }

    pub(crate) fn count_offered(&mut self, bytes: usize) {
        self.offered += 1;
        self.offered_bytes += bytes as u64;
    }

    pub(crate) fn count_delivered(&mut self, bytes: usize) {
        self.delivered += 1;
        self.delivered_bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_one_bit_and_flips_back() {
        let plain = vec![0u8; 5];
        for bit in [0, 7, 39, 40, u64::MAX] {
            let mut packet = plain.clone();
            packet.flip_bit(bit);
            assert_eq!(packet.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
            packet.flip_bit(bit);
            assert_eq!(packet, plain);
        }
        let mut empty = Vec::new();
        empty.flip_bit(3);
        assert!(empty.is_empty());
    }
}

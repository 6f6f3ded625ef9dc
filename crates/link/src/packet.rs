//! What a link carries, and what every element counts.

/// Properties of a packet that a link needs.
pub trait Packet {
    /// Bytes that this packet takes on the link, headers included as far as the link's rate counts them.
    fn wire_len(&self) -> usize;

    /// A second packet with the same content.
    fn duplicate(&self) -> Self;

    /// Inverts one bit. `bit` is uniform over all 64-bit numbers; the packet takes it modulo its own bits.
    fn flip_bit(&mut self, bit: u64);

    /// An element gives the packet up, and does not hand it back. By default it is dropped; those who want to know of
    /// which flow it was find out here.
    fn discard(self, _why: Discard)
    where
        Self: Sized,
    {
    }
}

/// Why an element gives a packet up that it had taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// A loss model took it.
    Lost,
    /// A queue was full, or filling.
    Overflowed,
    /// The last retry of an 802.11 station had failed.
    Exhausted,
}

impl Packet for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
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

/// What an element, or a whole link, has done with its packets. Totals, but for `queued` and `in_flight`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets handed in.
    pub offered: u64,
    /// Copies made beyond the packets handed in.
    pub duplicated: u64,
    /// Packets, copies included, that came out at the far end.
    pub delivered: u64,
    /// Packets that a loss model took.
    pub lost: u64,
    /// Packets dropped since a queue was full, or filling (RED, DRD).
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
    /// Packets that will never come out: lost or overflowed.
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

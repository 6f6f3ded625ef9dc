//! Coded repair: one packet that mends different losses at different members.
//!
//! A *combination* is the sum of several data packets, each multiplied by a coefficient from the field of 256 elements
//! (random linear coding; RFC 8681 does so with windows of fixed size). A member that misses one of them recovers it from one combination, a
//! member that misses three from any three. Which packets are in it stands in the packet as their lengths, one after another from a position in the stream: those in
//! between that are not in it are named as well, so that every packet's position follows.
//!
//! XTP has no such packet. Its format is 9, which XTP 4.0 does not use; only members of our own ask for repairs.
//!
//! ```text
//! header, seq: position of the first packet named
//! | index (4) | count (2) | for each named packet (2): bit 15: it is in the sum, bits 14 to 0: its bytes of data |
//! | sum of: flags (1), sort (2), tag (8), data, the shorter ones filled with zeros |
//! ```

use crate::gf256;

/// What a data packet consists of, besides its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Content<'a> {
    /// Number of the message that it begins.
    pub tag: Option<u64>,
    pub ends: bool,
    pub sort: u16,
    pub bytes: &'a [u8],
}

impl<'a> Content<'a> {
    /// Adds `factor` times this to a sum that is long enough.
    pub fn add_to(&self, sum: &mut [u8], factor: u8) {
        let mut head = [0; FIXED];
        head[0] = if self.ends { ENDS } else { 0 } | if self.tag.is_some() { BEGINS } else { 0 };
        head[1..3].copy_from_slice(&self.sort.to_be_bytes());
        head[3..].copy_from_slice(&self.tag.unwrap_or(0).to_be_bytes());
        gf256::add_multiple(sum, factor, &head);
        gf256::add_multiple(&mut sum[FIXED..], factor, self.bytes);
    }

    /// Reads one with `len` bytes of data from a sum of it alone.
    pub fn read(sum: &'a [u8], len: usize) -> Option<Self> {
        let (head, bytes) = sum.split_first_chunk::<FIXED>()?;
        let (bytes, filling) = bytes.split_at_checked(len)?;
        if head[0] & !(ENDS | BEGINS) != 0 || filling.iter().any(|byte| *byte != 0) {
            return None;
        }
        let tag = head[3..].iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        let sort = u16::from_be_bytes([head[1], head[2]]);
        let tag = (head[0] & BEGINS != 0).then_some(tag);
        Some(Content { tag, ends: head[0] & ENDS != 0, sort, bytes })
    }
}

/// The coefficient of the packet at `from` in combination `index`: never 0, and as if drawn at random.
pub(super) fn coefficient(index: u32, from: u64) -> u8 {
    // SplitMix64's finaliser (Steele, Lea, Flood 2014).
    let mut mixed = from.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) % 255) as u8 + 1
}

/// A combination as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Combination<'a> {
    pub index: u32,
    /// Position of the first named packet.
    first: u64,
    named: &'a [[u8; 2]],
    pub sum: &'a [u8],
}

impl<'a> Combination<'a> {
    /// Reads the body of a packet whose `seq` is `first`.
    pub fn read(first: u64, body: &'a [u8]) -> Option<Self> {
        let (index, rest) = body.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_be_bytes(*count));
        let (named, sum) = rest.split_at_checked(2 * count)?;
        let named = named.as_chunks().0;
        // No position behind the first is past the last one there is.
        named.iter().try_fold(first, |at, name| at.checked_add(length(*name) as u64))?;
        let combination = Combination { index: u32::from_be_bytes(*index), first, named, sum };
        let longest = combination.packets().map(|(_, len)| len).max()?;
        let fits = (1..=MOST_NAMED).contains(&count) && sum.len() == FIXED + longest;
        let empty = combination.packets().any(|(_, len)| len == 0);
        (fits && !empty).then_some(combination)
    }

    /// Position and length of each packet in the sum.
    pub fn packets(&self) -> impl Iterator<Item = (u64, usize)> + 'a {
        let mut at = self.first;
        self.named.iter().filter_map(move |name| {
            let from = at;
            at += length(*name) as u64;
            (u16::from_be_bytes(*name) & INCLUDED != 0).then(|| (from, length(*name)))
        })
    }
}

fn length(name: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(name) & !INCLUDED)
}

/// Bytes that name `count` packets, and the combination's index.
pub(super) fn names(count: usize) -> usize {
    4 + 2 + 2 * count
}

/// Writes what precedes the sum: `named` are the lengths of the packets, and whether each is in it.
pub(super) fn write_names(
    buf: &mut [u8],
    index: u32,
    count: usize,
    named: impl Iterator<Item = (usize, bool)>,
) {
    buf[..4].copy_from_slice(&index.to_be_bytes());
    buf[4..6].copy_from_slice(&(count as u16).to_be_bytes());
    for (place, (len, included)) in buf[6..].chunks_exact_mut(2).zip(named) {
        place.copy_from_slice(&(len as u16 | if included { INCLUDED } else { 0 }).to_be_bytes());
    }
}

/// Bytes before the data in a sum.
pub(super) const FIXED: usize = 1 + 2 + 8;
/// Most packets that a combination names: at 5 ms a packet 320 ms of sound, at 16 of 64 lost.
pub(super) const MOST_NAMED: usize = 64;
/// Bytes that a combination has beside the data of its longest packet, at most.
pub(super) const OVERHEAD: usize = 4 + 2 + 2 * MOST_NAMED + FIXED;
const INCLUDED: u16 = 1 << 15;
/// Most bytes of data in a packet that combinations name.
pub(super) const MOST_LENGTH: usize = INCLUDED as usize - 1;
const ENDS: u8 = 1;
const BEGINS: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_names_its_packets_and_holds_their_sum() {
        let packets = [(100, vec![1, 2, 3], true), (103, vec![4; 5], false), (108, vec![6], true)];
        let mut body = vec![0; names(3) + FIXED + 3];
        write_names(&mut body, 77, 3, packets.iter().map(|(_, bytes, included)| (bytes.len(), *included)));
        let contents: Vec<Content<'_>> = packets
            .iter()
            .map(|(from, bytes, _)| Content { tag: Some(*from), ends: true, sort: 3, bytes })
            .collect();
        for ((from, _, _), content) in packets.iter().zip(&contents).filter(|((_, _, included), _)| *included)
        {
            content.add_to(&mut body[names(3)..], coefficient(77, *from));
        }
        let read = Combination::read(100, &body).expect("a combination");
        assert_eq!(read.packets().collect::<Vec<_>>(), [(100, 3), (108, 1)]);
        // The second of two is what is left without the first.
        let mut sum = read.sum.to_vec();
        contents[0].add_to(&mut sum, coefficient(77, 100));
        gf256::scale(&mut sum, gf256::inverse(coefficient(77, 108)));
        assert_eq!(Content::read(&sum, 1), Some(contents[2]));
        assert_eq!(Content::read(&sum, 4), None, "longer than the sum");
        sum[FIXED + 2] = 1;
        assert_eq!(Content::read(&sum, 1), None, "what fills it up is not zero");
    }

    #[test]
    fn coefficients_are_spread_and_never_zero() {
        let mut seen = [0u32; 256];
        for index in 0..100 {
            (0..255).for_each(|from| seen[usize::from(coefficient(index, 1_000 * from))] += 1);
        }
        assert_eq!(seen[0], 0);
        // 100 expected of each; the standard deviation is 10.
        assert!(seen[1..].iter().all(|count| (50..=150).contains(count)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(first: u64, body in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(read) = Combination::read(first, &body) {
                prop_assert!(read.packets().count() <= MOST_NAMED);
                prop_assert!(read.packets().all(|(from, len)| from >= first && len > 0 && FIXED + len <= read.sum.len()));
            }
        }
    }
}

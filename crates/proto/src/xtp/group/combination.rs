//! Coded repair: one packet that mends different losses at different members.
//!
//! A *combination* is the sum of several data packets, each multiplied by a coefficient from the field of 256 elements
//! (random linear coding; RFC 8681 does so with windows of fixed size). A member that misses one of them recovers it from one combination, a
//! member that misses three from any three. Which packets are in it stands in the packet as their lengths, one after another from a position in the stream: those in
//! between that are not in it are named as well, so that every packet's position follows.
//!
//! Most streams have packets of one length, and short packets have no room for 64 lengths beside their data: so a length stands there as how much shorter than
//! the longest the packet is, in as few bytes as all of them need, which are none where all are equally long.
//!
//! XTP has no such packet. Its format is 9, which XTP 4.0 does not use; only members of our own ask for repairs.
//!
//! ```text
//! header, seq: position of the first packet named
//! | index (4) | longest: bytes of data of the longest packet named (2) | count (1) | width (1) |
//! | a bit for each named packet: it is in the sum; the first is bit 7 of the first byte (count / 8, rounded up) |
//! | for each named packet: bytes of data that it has less than the longest (width: 0, 1 or 2) |
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
    names: Names,
    included: &'a [u8],
    shorter: &'a [u8],
    pub sum: &'a [u8],
}

impl<'a> Combination<'a> {
    /// Reads the body of a packet whose `seq` is `first`.
    pub fn read(first: u64, body: &'a [u8]) -> Option<Self> {
        let (index, rest) = body.split_first_chunk::<4>()?;
        let (&[high, low, count, width], rest) = rest.split_first_chunk::<4>()?;
        let names =
            Names { longest: u16::from_be_bytes([high, low]), count: count.into(), width: width.into() };
        if !(1..=MOST_NAMED).contains(&names.count) || names.width > 2 {
            return None;
        }
        let (included, rest) = rest.split_at_checked(names.count.div_ceil(8))?;
        let (shorter, sum) = rest.split_at_checked(names.count * names.width)?;
        let combination =
            Combination { index: u32::from_be_bytes(*index), first, names, included, shorter, sum };
        // None is empty, and no position behind the first is past the last one there is.
        (0..names.count).try_fold(first, |at, named| {
            let len = combination.length(named).filter(|len| *len > 0)?;
            at.checked_add(len as u64)
        })?;
        let fits = sum.len() == FIXED + combination.packets().map(|(_, len)| len).max()?;
        fits.then_some(combination)
    }

    /// Bytes of data of a named packet; `None` if the longest is said to be shorter than that.
    fn length(&self, named: usize) -> Option<usize> {
        let Names { longest, width, .. } = self.names;
        let bytes = &self.shorter[named * width..][..width];
        let less = bytes.iter().fold(0, |less, byte| less << 8 | usize::from(*byte));
        usize::from(longest).checked_sub(less)
    }

    /// Position and length of each packet in the sum.
    pub fn packets(&self) -> impl Iterator<Item = (u64, usize)> + 'a {
        let (combination, mut at) = (*self, self.first);
        (0..self.names.count).filter_map(move |named| {
            let (from, len) = (at, combination.length(named)?);
            at += len as u64;
            (combination.included[named / 8] & bit(named) != 0).then_some((from, len))
        })
    }
}

/// How the packets of a combination are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Names {
    longest: u16,
    count: usize,
    width: usize,
}

impl Names {
    /// For packets of these bytes of data, at least one, and at most [`MOST_NAMED`].
    pub fn of(lengths: impl Iterator<Item = usize>) -> Self {
        let (mut count, mut shortest, mut longest) = (0, usize::MAX, 0);
        for len in lengths {
            count += 1;
            shortest = shortest.min(len);
            longest = longest.max(len);
        }
        let width = match longest.saturating_sub(shortest) {
            0 => 0,
            1..=0xff => 1,
            _ => 2,
        };
        // A packet's data have 16 bits of length (`held`).
        Names { longest: longest as u16, count, width }
    }

    /// Bytes before the sum.
    pub fn len(&self) -> usize {
        INDEX_AND_FORM + self.count.div_ceil(8) + self.count * self.width
    }

    /// Writes what precedes the sum: of each named packet its length, and whether it is in the sum.
    pub fn write(&self, buf: &mut [u8], index: u32, named: impl Iterator<Item = (usize, bool)>) {
        let Names { longest, count, width } = *self;
        buf[..4].copy_from_slice(&index.to_be_bytes());
        buf[4..6].copy_from_slice(&longest.to_be_bytes());
        buf[6..INDEX_AND_FORM].copy_from_slice(&[count as u8, width as u8]);
        let (marks, shorter) = buf[INDEX_AND_FORM..self.len()].split_at_mut(count.div_ceil(8));
        marks.fill(0);
        for (at, (len, included)) in named.take(count).enumerate() {
            let less = (usize::from(longest) - len).to_be_bytes();
            shorter[at * width..][..width].copy_from_slice(&less[less.len() - width..]);
            if included {
                marks[at / 8] |= bit(at);
            }
        }
    }
}

fn bit(named: usize) -> u8 {
    0x80 >> (named % 8)
}

const INDEX_AND_FORM: usize = 4 + 2 + 1 + 1;
/// Bytes before the data in a sum.
pub(super) const FIXED: usize = 1 + 2 + 8;
/// Most packets that a combination names: at 5 ms a packet 320 ms of sound, at 16 of 64 lost.
pub(super) const MOST_NAMED: usize = 64;
/// Bytes that a combination has beside the data of its longest packet, at most.
pub(super) const OVERHEAD: usize = INDEX_AND_FORM + MOST_NAMED / 8 + 2 * MOST_NAMED + FIXED;
const ENDS: u8 = 1;
const BEGINS: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_names_its_packets_and_holds_their_sum() {
        let packets = [(100, vec![1, 2, 3], true), (103, vec![4; 5], false), (108, vec![6], true)];
        let names = Names::of(packets.iter().map(|(_, bytes, _)| bytes.len()));
        let mut body = vec![0; names.len() + FIXED + 3];
        names.write(&mut body, 77, packets.iter().map(|(_, bytes, included)| (bytes.len(), *included)));
        let contents: Vec<Content<'_>> = packets
            .iter()
            .map(|(from, bytes, _)| Content { tag: Some(*from), ends: true, sort: 3, bytes })
            .collect();
        for ((from, _, _), content) in packets.iter().zip(&contents).filter(|((_, _, included), _)| *included)
        {
            content.add_to(&mut body[names.len()..], coefficient(77, *from));
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

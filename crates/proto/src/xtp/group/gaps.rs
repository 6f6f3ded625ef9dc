//! What a member tells of the packets that it lacks: short, as members that lack much tell of it often.
//!
//! An ECNTL of XTP takes 16 bytes for each gap, more than a short packet brings. These take three to five. Beside what is missing a member tells how
//! many packets of each gap follow from combinations as soon as it has the others of them (*seen* packets: Sundararajan, Shah, Médard 2008):
//! of so many fewer repairs must be sent.
//!
//! XTP has no such packet. Its format is 10, which XTP 4.0 does not use.
//!
//! ```text
//! header, rseq (8), alloc (8), echo (4)
//! | flags (1): bit 0: more is missing than is told | seen (1): packets seen behind the last range |
//! | for each range that has come: bytes missing before it (1 to 9), seen (1): how many packets of these are seen, bytes of the range (1 to 9) |
//! ```
//!
//! Bytes are counted in groups of seven bits, the lowest first; a group that is not the last has bit 7 (as LEB128).

/// Ranges above `rseq` that have come, ascending and disjoint, and what is known of the gaps between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gaps<'a> {
    rseq: u64,
    /// Behind the last range nothing is known.
    pub is_cut: bool,
    /// Packets seen behind the last range.
    pub seen_behind: u8,
    ranges: &'a [u8],
}

/// A range that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub from: u64,
    pub to: u64,
    /// Packets seen in the gap before it.
    pub seen: u8,
}

impl<'a> Gaps<'a> {
    /// Nothing is missing below what has come.
    pub fn none(rseq: u64) -> Self {
        Gaps { rseq, is_cut: false, seen_behind: 0, ranges: &[] }
    }

    /// Reads what follows the status of a report.
    pub fn read(rseq: u64, body: &'a [u8]) -> Option<Self> {
        let (&[flags, seen_behind], ranges) = body.split_first_chunk::<2>()?;
        let gaps = Gaps { rseq, is_cut: flags & CUT != 0, seen_behind, ranges };
        let mut rest = ranges;
        let mut at = rseq;
        while !rest.is_empty() {
            at = take_range(&mut rest, at).filter(|range| range.to < 1 << 62)?.to;
        }
        Some(gaps)
    }

    /// The ranges that have come.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + Clone + 'a {
        let (mut rest, mut at) = (self.ranges, self.rseq);
        std::iter::from_fn(move || {
            let range = take_range(&mut rest, at)?;
            at = range.to;
            Some(range)
        })
    }
}

/// Takes the range behind `at` from the front.
fn take_range(rest: &mut &[u8], at: u64) -> Option<Range> {
    let missing = take_number(rest)?;
    let seen = *rest.split_off_first()?;
    let len = take_number(rest)?;
    let from = at.checked_add(missing).filter(|_| missing > 0)?;
    let to = from.checked_add(len).filter(|_| len > 0)?;
    Some(Range { from, to, seen })
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for group in 0..MOST_GROUPS {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << (7 * group);
        if byte & MORE == 0 {
            return Some(number);
        }
    }
    None
}

/// Writes what follows the status of a report, into a buffer for the whole of it. Returns the length. `ranges` have come above `rseq`; `seen`: first
/// bytes of the packets that are seen, ascending.
pub(super) fn write(
    buf: &mut [u8],
    rseq: u64,
    ranges: impl Iterator<Item = (u64, u64)>,
    seen: &[u64],
) -> usize {
    let mut out = Out { buf, len: 2 };
    let mut ranges = ranges.peekable();
    let (mut at, mut seen) = (rseq, seen);
    let mut told = 0;
    while let Some((from, to)) = ranges.next_if(|_| told < MOST_RANGES && out.has_room()) {
        let (of_gap, behind) = seen.split_at(seen.partition_point(|seen| *seen < from));
        out.put_number(from - at);
        out.put(of_gap.len().min(255) as u8);
        out.put_number(to - from);
        (at, seen, told) = (to, behind, told + 1);
    }
    let is_cut = ranges.peek().is_some();
    let behind = if is_cut { 0 } else { seen.len().min(255) as u8 };
    out.buf[..2].copy_from_slice(&[if is_cut { CUT } else { 0 }, behind]);
    out.len
}

struct Out<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    fn has_room(&self) -> bool {
        self.buf.len() - self.len > 2 * MOST_GROUPS
    }

    fn put(&mut self, byte: u8) {
        self.buf[self.len] = byte;
        self.len += 1;
    }

    fn put_number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.put(number as u8 | MORE);
            number >>= 7;
        }
        self.put(number as u8);
    }
}

/// Ranges in a report: of 2000 packets a second, a tenth of which is lost, those of 0.6 s.
pub(super) const MOST_RANGES: usize = 128;
/// More is missing than is told.
const CUT: u8 = 1;
/// Another group follows.
const MORE: u8 = 0x80;
/// Groups of a number below 2⁶³.
const MOST_GROUPS: usize = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is read of what was written, as a list.
    fn told(rseq: u64, ranges: &[(u64, u64)], seen: &[u64], room: usize) -> (Vec<(u64, u64, u8)>, bool, u8) {
        let mut buf = vec![0; room];
        let len = write(&mut buf, rseq, ranges.iter().copied(), seen);
        let gaps = Gaps::read(rseq, &buf[..len]).expect("our own");
        (
            gaps.ranges().map(|Range { from, to, seen }| (from, to, seen)).collect(),
            gaps.is_cut,
            gaps.seen_behind,
        )
    }

    #[test]
    fn ranges_and_what_is_seen_between_them_are_read_as_written() {
        let ranges = [(1_100, 2_000), (2_300, 1 << 40)];
        let seen = [1_000, 2_000, 2_200, 1 << 40];
        let all = (vec![(1_100, 2_000, 1), (2_300, 1 << 40, 2)], false, 1);
        assert_eq!(told(1_000, &ranges, &seen, 1_400), all);
        assert_eq!(told(1_000, &[], &[1_000], 1_400), (vec![], false, 1));
        // Room for one of them.
        assert_eq!(told(1_000, &ranges, &seen, 23), (vec![(1_100, 2_000, 1)], true, 0));
        let many: Vec<(u64, u64)> = (1..=200).map(|n| (n * 10, n * 10 + 5)).collect();
        let (ranges, is_cut, _) = told(0, &many, &[], 1_400);
        assert_eq!((ranges.len(), is_cut), (MOST_RANGES, true));
    }

    #[test]
    fn gaps_that_are_empty_or_end_early_are_refused() {
        for body in [&[][..], &[0], &[0, 0, 5], &[0, 0, 0, 0, 5], &[0, 0, 5, 0, 0], &[0, 0, 0xff, 0xff]] {
            assert_eq!(Gaps::read(7, body), None, "{body:?}");
        }
        assert_eq!(Gaps::read(u64::MAX, &[0, 0, 5, 0, 5]), None, "behind the last position");
        let endless = [[0; 2].as_slice(), &[0xff; 12]].concat();
        assert_eq!(Gaps::read(7, &endless), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(rseq: u64, body in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(gaps) = Gaps::read(rseq, &body) {
                let mut last = rseq;
                for Range { from, to, .. } in gaps.ranges() {
                    prop_assert!(last < from && from < to && to < 1 << 62);
                    last = to;
                }
            }
        }
    }
}

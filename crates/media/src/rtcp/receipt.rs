//! The application-defined RTCP packet (RFC 3550 §6.7) by which a recording tells its sender what has arrived, so that the
//! sender keeps the rest and sends it again after an outage. It is sent by itself, as RFC 5506 permits.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|    0    |  PT=APP=204   |            length             |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of the receiver                           |
//! +---------------------------------------------------------------+
//! |                name "ANTR"                                    |
//! +---------------------------------------------------------------+
//! |                SSRC of the source                             |
//! +---------------------------------------------------------------+
//! |                complete: every earlier packet has arrived     |
//! +---------------------------------------------------------------+
//! |                next: no packet from here on has arrived       |
//! +---------------------------------------------------------------+
//! |                first packet of a missing run                  |
//! +---------------------------------------------------------------+  for each run, at most MOST_RUNS
//! |                packets in it                                  |
//! +---------------------------------------------------------------+
//! ```
//!
//! Packets are named by extended sequence numbers (RFC 3550 §6.4.1) as the receiver counts them, from the first packet that
//! it received.

use std::ops::Range;

use super::wire::{read_app, u32_at, write_app};

/// What has arrived of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Who sends it.
    pub ssrc: u32,
    /// The source.
    pub source: u32,
    /// Every earlier packet since the first one received has arrived.
    pub complete: u32,
    /// No packet from this one on has arrived.
    pub next: u32,
    runs: [(u32, u32); MOST_RUNS],
    count: usize,
}

impl Receipt {
    /// Bytes of the longest one.
    pub const MOST: usize = HEADER + 8 * MOST_RUNS;

    /// One without missing runs.
    pub fn new(ssrc: u32, source: u32, complete: u32, next: u32) -> Self {
        Receipt { ssrc, source, complete, next, runs: [(0, 0); MOST_RUNS], count: 0 }
    }

    /// Adds a run of packets that are missing; false if there is no room for it.
    pub fn add(&mut self, missing: Range<u32>) -> bool {
        let Some(run) = self.runs.get_mut(self.count) else { return false };
        *run = (missing.start, missing.end.wrapping_sub(missing.start));
        self.count += 1;
        true
    }

    /// The runs of missing packets between [`Self::complete`] and [`Self::next`]: first packet and number of packets.
    pub fn missing(&self) -> &[(u32, u32)] {
        &self.runs[..self.count]
    }

    /// Writes it; `buf` holds at least [`Self::MOST`] bytes. Returns its length.
    pub fn write(&self, buf: &mut [u8]) -> usize {
        let runs = self.missing().iter().flat_map(|(first, count)| [*first, *count]);
        let words = [self.source, self.complete, self.next].into_iter().chain(runs);
        write_app(buf, 0, self.ssrc, NAME, words).expect("it is no longer than the longest one")
    }

    /// Reads one; `None` for any other packet, and for one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Option<Receipt> {
        let (0, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let (fixed, runs) = data.split_first_chunk::<12>()?;
        let mut receipt = Receipt::new(ssrc, u32_at(fixed, 0), u32_at(fixed, 4), u32_at(fixed, 8));
        let span = receipt.next.wrapping_sub(receipt.complete);
        // Runs ascend between `complete` and `next`; numbers wrap.
        let mut before = 0;
        for run in runs.chunks(8) {
            let run = run.first_chunk::<8>()?;
            let (first, count) = (u32_at(run, 0), u32_at(run, 4));
            let from = first.wrapping_sub(receipt.complete);
            let to = from.checked_add(count)?;
            if count == 0 || from < before || to > span || !receipt.add(first..first.wrapping_add(count)) {
                return None;
            }
            before = to;
        }
        (span < MOST_SPAN).then_some(receipt)
    }
}

/// Missing runs that one packet can name. More than that are told later: the first ones come first.
const MOST_RUNS: usize = 32;
/// Bytes before the runs.
const HEADER: usize = 24;
/// Numbers are compared in a circle: a span of half of it has no direction.
const MOST_SPAN: u32 = 1 << 31;
const NAME: [u8; 4] = *b"ANTR";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_rfc_3550() {
        let mut receipt = Receipt::new(0x0102_0304, 0x0506_0708, 0x1_0000, 0x1_0010);
        assert!(receipt.add(0x1_0000..0x1_0002));
        let mut buf = [0; Receipt::MOST];
        let len = receipt.write(&mut buf);
        let expected =
            b"\x80\xcc\x00\x07\x01\x02\x03\x04ANTR\x05\x06\x07\x08\0\x01\0\0\0\x01\0\x10\0\x01\0\0\0\0\0\x02";
        assert_eq!(&buf[..len], expected);
        assert!(crate::packet::classify(&buf[..len]) == Some(crate::packet::PacketKind::Rtcp));
    }

    #[test]
    fn contradictions_are_refused() {
        let written = |runs: &[(u32, u32)], next: u32| {
            let mut receipt = Receipt::new(1, 2, 10, next);
            runs.iter().for_each(|(first, end)| assert!(receipt.add(*first..*end)));
            let mut buf = [0; Receipt::MOST];
            let len = receipt.write(&mut buf);
            Receipt::parse(&buf[..len])
        };
        assert!(written(&[(10, 12), (13, 20)], 20).is_some());
        assert!(written(&[(10, 12), (11, 14)], 20).is_none(), "they overlap");
        assert!(written(&[(10, 21)], 20).is_none(), "beyond the end");
        assert!(written(&[(9, 11)], 20).is_none(), "before the beginning");
        assert!(written(&[(12, 12)], 20).is_none(), "empty");
        assert!(written(&[], 9).is_none(), "backwards");
    }

    proptest! {
        #[test]
        fn receipts_are_read_as_written(
            (ssrc, source, complete) in any::<(u32, u32, u32)>(),
            steps in prop::collection::vec((1u32..1000, 1u32..1000), 0..MOST_RUNS),
        ) {
            let mut at = complete;
            let runs: Vec<Range<u32>> = steps.iter().map(|(gap, len)| {
                let first = at.wrapping_add(*gap);
                at = first.wrapping_add(*len);
                first..at
            }).collect();
            let mut receipt = Receipt::new(ssrc, source, complete, at);
            for run in &runs {
                prop_assert!(receipt.add(run.clone()));
            }
            let mut buf = [0; Receipt::MOST];
            let len = receipt.write(&mut buf);
            prop_assert_eq!(Receipt::parse(&buf[..len]), Some(receipt));
            for cut in 0..len {
                prop_assert_eq!(Receipt::parse(&buf[..cut]), None);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), frame in any::<bool>()) {
            if frame && bytes.len() >= HEADER {
                let words = bytes.len() / 4;
                bytes.truncate(4 * words);
                bytes[..4].copy_from_slice(&[0x80, 204, 0, (words - 1) as u8]);
                bytes[8..12].copy_from_slice(&NAME);
            }
            if let Some(receipt) = Receipt::parse(&bytes) {
                let mut buf = [0; Receipt::MOST];
                let len = receipt.write(&mut buf);
                prop_assert_eq!(&buf[..len], &bytes[..]);
            }
        }
    }
}

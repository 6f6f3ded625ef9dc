//! Extended reports (RFC 3611), only the block on the de-jitter buffer (RFC 7005), by which a receiver tells its sender
//! how long a packet is of use.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---+-+---------+-------------------------------+
//! |     BT=23     | I |C|  resv   |       block length = 3        |
//! +---------------+---+-+---------+-------------------------------+
//! |                        SSRC of source                         |
//! +-------------------------------+-------------------------------+
//! |          JB nominal           |          JB maximum           |
//! +-------------------------------+-------------------------------+
//! |     JB high-water mark        |      JB low-water mark        |
//! +-------------------------------+-------------------------------+
//! ```

use std::time::Duration;

use antiphon_core::Instant;

use super::wire::u32_at;

/// How long a receiver's buffer holds a packet that arrives exactly on time (RFC 7005 §3.2, *JB nominal*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NominalDelay {
    /// The source whose packets are buffered.
    pub source: u32,
    /// The delay; unbounded if over the block's range (65.5 s).
    pub delay: PlayoutDelay,
}

/// How long a packet is of use to a receiver; the longer, the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PlayoutDelay {
    /// It plays each packet so long after an undelayed one arrived.
    Of(Duration),
    /// It waits for every packet, however late: a recording.
    Unbounded,
}

impl PlayoutDelay {
    /// The latest instant at which a message that was captured at `due` may leave (`Message::deadline`).
    pub fn deadline(self, due: Instant) -> Option<Instant> {
        match self {
            PlayoutDelay::Of(delay) => Some(due + delay),
            PlayoutDelay::Unbounded => None,
        }
    }
}

/// An extended report after its header: the SSRC and the block.
pub(super) fn words(ssrc: u32, told: NominalDelay) -> [u32; 5] {
    let nominal = match told.delay {
        PlayoutDelay::Of(delay) => {
            u16::try_from(delay.as_micros().div_ceil(1000)).unwrap_or(OVER_RANGE).min(OVER_RANGE)
        }
        PlayoutDelay::Unbounded => OVER_RANGE,
    };
    // The buffer does not adapt: it has one size, and the marks equal it (RFC 7005 §3.2).
    let sizes = u32::from(nominal) << 16 | u32::from(nominal);
    [ssrc, u32::from(BLOCK_TYPE) << 24 | u32::from(SAMPLED) << 22 | 3, told.source, sizes, sizes]
}

/// The delays in the blocks of an extended report; `body` is what follows its header. Blocks that are truncated, of
/// another type or unavailable are skipped.
pub(super) fn read(body: &[u8]) -> impl Iterator<Item = NominalDelay> {
    let mut rest = body.get(4..).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let (header, after) = rest.split_first_chunk::<4>()?;
            let len = 4 * usize::from(u16::from_be_bytes([header[2], header[3]]));
            let (block, after) = after.split_at_checked(len)?;
            rest = after;
            if header[0] == BLOCK_TYPE
                && let Some(block) = block.first_chunk::<12>()
            {
                let delay = match u16::from_be_bytes([block[4], block[5]]) {
                    UNAVAILABLE => continue,
                    OVER_RANGE => PlayoutDelay::Unbounded,
                    millis => PlayoutDelay::Of(Duration::from_millis(millis.into())),
                };
                return Some(NominalDelay { source: u32_at(block, 0), delay });
            }
        }
    })
}

/// Type of the de-jitter buffer block (RFC 7005 §5.1).
const BLOCK_TYPE: u8 = 23;
/// *I*: the figures are of one moment (RFC 7005 §3.2).
const SAMPLED: u8 = 0b01;
/// Longer than the field can say, 65 533 ms.
const OVER_RANGE: u16 = 0xfffe;
const UNAVAILABLE: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_delay_stands_where_rfc_7005_has_it() {
        let told = NominalDelay { source: 0x0a0b_0c0d, delay: PlayoutDelay::Of(Duration::from_millis(80)) };
        let body = words(0x0102_0304, told).map(u32::to_be_bytes).concat();
        let expected = [1, 2, 3, 4, 23, 0x40, 0, 3, 0x0a, 0x0b, 0x0c, 0x0d, 0, 80, 0, 80, 0, 80, 0, 80];
        assert_eq!(body, expected);
    }

    #[test]
    fn other_blocks_are_passed_over_and_unavailable_tells_nothing() {
        let mut body = vec![9, 9, 9, 9];
        body.extend([4, 0, 0, 2, 1, 1, 1, 1, 2, 2, 2, 2]);
        body.extend([23, 0x40, 0, 3, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        body.extend([23, 0x40, 0, 3, 0, 0, 0, 8, 0xff, 0xfe, 0, 0, 0, 0, 0, 0]);
        body.extend([23, 0x40, 0, 9, 0, 0]);
        assert_eq!(
            read(&body).collect::<Vec<_>>(),
            [NominalDelay { source: 8, delay: PlayoutDelay::Unbounded }]
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ssrc: u32, source: u32, millis in proptest::option::of(0u64..65_534)) {
            let of = |millis| PlayoutDelay::Of(Duration::from_millis(millis));
            let told = NominalDelay { source, delay: millis.map_or(PlayoutDelay::Unbounded, of) };
            let body = words(ssrc, told).map(u32::to_be_bytes).concat();
            prop_assert_eq!(read(&body).collect::<Vec<_>>(), [told]);
        }

        #[test]
        fn anything_can_be_read(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&body).count() <= body.len() / 4);
        }
    }
}

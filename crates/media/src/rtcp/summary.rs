//! Receiver summary information (RFC 5760), only the sub-report on the size of the group: members of a multicast group
//! that report by unicast do not hear each other, and scale their intervals by it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                        summarised SSRC                        |
//! +---------------------------------------------------------------+
//! |                  NTP time stamp, 64 bits                      |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |    SRBT=12    |   length = 2  |  average packet size, bytes   |
//! +---------------+---------------+-------------------------------+
//! |                          group size                           |
//! +---------------------------------------------------------------+
//! ```

use antiphon_core::NtpTime;

/// How many receivers a group has, as its sender knows them (RFC 5760 §7.1.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupSize {
    /// Receivers.
    pub receivers: u32,
    /// Average size of a compound packet in bytes, with UDP's and IP's headers.
    pub average_size: u16,
}

/// The packet after its header: the summary of `ssrc`'s stream by its sender.
pub(super) fn words(ssrc: u32, ntp: NtpTime, size: GroupSize) -> [u32; 6] {
    let ntp = ntp.to_bits();
    let block = u32::from(GROUP_BLOCK) << 24 | 2 << 16 | u32::from(size.average_size);
    [ssrc, ssrc, (ntp >> 32) as u32, ntp as u32, block, size.receivers]
}

/// The size of the group in a packet's body; other sub-reports are skipped.
pub(super) fn read(body: &[u8]) -> Option<GroupSize> {
    let mut rest = body.get(FIXED..)?;
    loop {
        let [block, words, s0, s1, ..] = *rest else { return None };
        // The length counts the header's word, so zero would never end.
        let (sub_report, after) = rest.split_at_checked(4 * usize::from(words).max(1))?;
        if let (GROUP_BLOCK, Some([g0, g1, g2, g3])) = (block, sub_report.get(4..8)) {
            let receivers = u32::from_be_bytes([*g0, *g1, *g2, *g3]);
            return Some(GroupSize { receivers, average_size: u16::from_be_bytes([s0, s1]) });
        }
        rest = after;
    }
}

/// Sub-report block type (RFC 5760 §7.1.1).
const GROUP_BLOCK: u8 = 12;
/// SSRC of the packet's sender, summarised SSRC and NTP time stamp.
const FIXED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_blocks_are_skipped() {
        let size = GroupSize { receivers: 1_000_000, average_size: 112 };
        let body = words(7, NtpTime::default(), size).map(u32::to_be_bytes).concat();
        assert_eq!(read(&body), Some(size));
        let mut longer = body[..FIXED].to_vec();
        longer.extend([11, 2, 0x80, 0, 0, 1, 0, 0]);
        longer.extend(&body[FIXED..]);
        assert_eq!(read(&longer), Some(size));
    }

    #[test]
    fn broken_blocks_end_the_reading() {
        for block in [&[12, 3, 0, 1, 0, 0, 0, 9][..], &[12, 1, 0, 1], &[0, 0, 0, 0], &[12, 2, 0], &[]] {
            let mut body = vec![0; FIXED];
            body.extend(block);
            assert_eq!(read(&body), None, "{block:?}");
        }
        assert_eq!(read(&[0; 15]), None);
    }
}

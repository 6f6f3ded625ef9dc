//! Sources on probation (RFC 3550 A.1): a packet or two prove no stream, and a flood of SSRCs must neither cost memory nor
//! displace a party that streams.

use antiphon_core::{Instant, Seq16};

/// Sources that have sent little yet. Of too many, the one that was silent for longest makes room.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    ssrc: u32,
    next: Seq16,
    in_a_row: u32,
    heard: Instant,
}

impl Candidates {
    /// A packet came; returns whether its source has sent enough packets in a row to stream.
    pub fn on_packet(&mut self, now: Instant, ssrc: u32, sequence: u16) -> bool {
        let sequence = Seq16(sequence);
        let fresh = Candidate { ssrc, next: sequence.next(), in_a_row: 1, heard: now };
        if let Some(known) = self.list.iter_mut().find(|known| known.ssrc == ssrc) {
            let in_a_row = if known.next == sequence { known.in_a_row + 1 } else { known.in_a_row.min(1) };
            *known = Candidate { in_a_row: in_a_row.min(MIN_SEQUENTIAL), ..fresh };
            return in_a_row >= MIN_SEQUENTIAL;
        }
        if self.list.len() < MOST {
            self.list.push(fresh);
        } else if let Some(oldest) = self.list.iter_mut().min_by_key(|known| known.heard) {
            *oldest = fresh;
        }
        false
    }

    /// A source has a track now.
    pub fn forget(&mut self, ssrc: u32) {
        self.list.retain(|known| known.ssrc != ssrc);
    }
}

/// Packets in a row that make a source (RFC 3550 A.1).
const MIN_SEQUENTIAL: u32 = 2;
/// The most sources on probation at once.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_packets_in_a_row_make_a_source() {
        let mut candidates = Candidates::default();
        let mut came = |ssrc, sequence| candidates.on_packet(Instant::ZERO, ssrc, sequence);
        assert!(!came(1, 65_535) && came(1, 0) && came(1, 1));
        assert!(!came(2, 10) && !came(3, 11), "of one source");
        assert!(!came(2, 12) && came(2, 13));
    }

    #[test]
    fn a_source_that_has_streamed_does_so_again_after_two_packets() {
        let mut candidates = Candidates::default();
        let mut came = |sequence| candidates.on_packet(Instant::ZERO, 1, sequence);
        (0..40).for_each(|n| {
            came(n);
        });
        assert!(!came(500) && came(501));
    }

    #[test]
    fn a_flood_of_sources_is_bounded() {
        let mut candidates = Candidates::default();
        for n in 0..100_000 {
            candidates.on_packet(Instant::from_millis(u64::from(n)), n, 7);
        }
        assert_eq!(candidates.list.len(), MOST);
        assert!(candidates.list.iter().all(|one| one.ssrc >= 100_000 - MOST as u32), "the newest stay");
    }
}

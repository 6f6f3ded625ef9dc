//! Numberings that are not the known one, for SRP and ARQ: a restarted sender's, or a forged or replayed packet's.
//!
//! No packet proves who sent it, so a numbering has to show what a forger off the path can't: that the known one has
//! ended. RFC 3550 A.1 has the same probation for sources.

use std::time::Duration;

use antiphon_core::Instant;

/// Numberings on probation. Nothing of them is delivered or acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    candidates: [Option<Candidate>; CANDIDATES],
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    epoch: u32,
    last: u32,
    /// Consecutive numbers that arrived, `last` being the last of them.
    in_a_row: u32,
    /// When the row last grew.
    grew_at: Instant,
}

impl Probation {
    /// Notes a packet, sent for the first time, of a numbering that is not the known one, of which something new last came at
    /// `known_at`. Whether its numbering now takes the known one's place. (What nobody acknowledges is sent again between new
    /// numbers.)
    pub fn is_proved_by(&mut self, epoch: u32, number: u32, at: Instant, known_at: Instant) -> bool {
        let in_a_row = self.note(epoch, number, at);
        in_a_row >= IN_A_ROW && at.since(known_at) > SILENCE
    }

    /// The known numbering goes on, or has been replaced: all others begin anew.
    pub fn clear(&mut self) {
        self.candidates = Default::default();
    }

    /// Notes a number; how many have now come in a row.
    fn note(&mut self, epoch: u32, number: u32, at: Instant) -> u32 {
        let known = self.candidates.iter_mut().flatten().find(|c| c.epoch == epoch);
        if let Some(candidate) = known {
            let follows = number == candidate.last.wrapping_add(1);
            candidate.in_a_row = if follows { candidate.in_a_row.saturating_add(1) } else { 1 };
            candidate.last = number;
            if follows {
                candidate.grew_at = at;
            }
            return candidate.in_a_row;
        }
        // A free place, or that of the candidate whose row has not grown for longest.
        let place = self.candidates.iter_mut().min_by_key(|place| place.map(|c| c.grew_at));
        if let Some(place) = place {
            *place = Some(Candidate { epoch, last: number, in_a_row: 1, grew_at: at });
        }
        1
    }
}

/// So many consecutive numbers prove a numbering. RFC 3550 A.1 has two (`MIN_SEQUENTIAL`); a session of 400 packets that
/// is replayed in random order at 20 000 a second has two in a row fifty times a second, and three every 8 seconds.
const IN_A_ROW: u32 = 3;
/// The known numbering must have brought nothing new for longer than this. Shorter outages are common; a restarted sender
/// is heard this much later.
const SILENCE: Duration = Duration::from_secs(1);
/// Numberings on probation at once, so that a replayed session can't keep out a sender that has restarted.
const CANDIDATES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    #[test]
    fn a_row_and_silence_are_both_needed() {
        let mut probation = Probation::default();
        let numbers = [u32::MAX - 1, u32::MAX, 0, 1];
        for (i, number) in numbers.into_iter().enumerate() {
            assert!(!probation.is_proved_by(8, number, ms(1000), ms(0)), "{i}: silent for 1 s");
        }
        assert!(!probation.is_proved_by(8, 9, ms(1001), ms(0)), "a row begins");
        assert!(!probation.is_proved_by(8, 10, ms(1001), ms(0)));
        assert!(probation.is_proved_by(8, 11, ms(1001), ms(0)));
        probation.clear();
        assert!(!probation.is_proved_by(8, 12, ms(1001), ms(0)), "refuted");
    }

    #[test]
    fn single_packets_of_many_numberings_keep_none_out() {
        let mut probation = Probation::default();
        let mut proved = false;
        for n in 0..3 {
            proved = probation.is_proved_by(8, n, ms(2000 + u64::from(n)), ms(0));
            // The first of each round has a place of its own, the others share what is left.
            for epoch in 0..CANDIDATES as u32 - 1 {
                assert!(!probation.is_proved_by(100 * n + 20 + epoch, 5, ms(2000), ms(0)));
            }
        }
        assert!(proved);
    }
}

//! Recovery on the receiving side of a track, over any transport: decides which received packets are passed on.

/// Decides which of a track's packets are passed on to playout.
pub trait Recoverer {
    /// A packet of channel group `group` came, with this sequence number and time stamp.
    fn on_packet(&mut self, group: usize, sequence: u16, timestamp: u32) -> Got;

    /// Whether a packet is one of those remembered, received or missing, and later than most: it is behind the newest
    /// one both by its number and by its time stamp. A sender that restarts near its old numbers does not start near
    /// its old time stamps.
    fn remembers(&self, group: usize, sequence: u16, timestamp: u32) -> bool;

    /// A group continues with other numbers.
    fn restart(&mut self, group: usize);
}

/// What a recoverer decides about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// It is passed on.
    Deliver,
    /// It was received before, perhaps over another association, and is dropped.
    Duplicate,
}

/// Drops packets received before: repetitions, copies made by the network, and copies from a second association.
#[derive(Debug, Default)]
pub struct Distinct {
    /// One for each channel group.
    seen: Vec<Window>,
}

/// Which of the last [`WINDOW`] sequence numbers were received.
#[derive(Clone, Debug)]
struct Window {
    /// The newest packet's number and time stamp.
    highest: Option<(u16, u32)>,
    /// Bit `number % WINDOW`.
    bits: [u64; WINDOW / 64],
}

impl Window {
    fn new() -> Self {
        Window { highest: None, bits: [0; WINDOW / 64] }
    }

    fn bit(&mut self, sequence: u16) -> (&mut u64, u64) {
        let at = usize::from(sequence) % WINDOW;
        (&mut self.bits[at / 64], 1 << (at % 64))
    }

    fn remembers(&self, sequence: u16, timestamp: u32) -> bool {
        let Some((highest, newest)) = self.highest else { return false };
        let (back, ticks) = (highest.wrapping_sub(sequence), newest.wrapping_sub(timestamp));
        let frames = |each: u32| u32::from(back) * each;
        (LATE..WINDOW as u16).contains(&back) && (frames(LEAST_FRAMES)..=frames(MOST_FRAMES)).contains(&ticks)
    }

    /// Whether `sequence` is new.
    fn note(&mut self, sequence: u16, timestamp: u32) -> bool {
        let Some((highest, _)) = self.highest else {
            self.highest = Some((sequence, timestamp));
            let (word, bit) = self.bit(sequence);
            *word |= bit;
            return true;
        };
        let ahead = sequence.wrapping_sub(highest) as i16;
        if ahead > 0 {
            // The numbers in between have not been received yet.
            if usize::from(ahead as u16) >= WINDOW {
                self.bits.fill(0);
            } else {
                for skipped in 1..=ahead as u16 {
                    let (word, bit) = self.bit(highest.wrapping_add(skipped));
                    *word &= !bit;
                }
            }
            self.highest = Some((sequence, timestamp));
        } else if usize::from(ahead.unsigned_abs()) >= WINDOW {
            // Too old for the window: playout drops duplicates itself.
            return true;
        }
        let (word, bit) = self.bit(sequence);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}

impl Distinct {
    /// For a stream of so many channel groups.
    pub fn new(groups: usize) -> Self {
        Distinct { seen: vec![Window::new(); groups] }
    }
}

impl Recoverer for Distinct {
    fn on_packet(&mut self, group: usize, sequence: u16, timestamp: u32) -> Got {
        let fresh = self.seen.get_mut(group).is_none_or(|window| window.note(sequence, timestamp));
        if fresh { Got::Deliver } else { Got::Duplicate }
    }

    fn remembers(&self, group: usize, sequence: u16, timestamp: u32) -> bool {
        self.seen.get(group).is_some_and(|window| window.remembers(sequence, timestamp))
    }

    fn restart(&mut self, group: usize) {
        if let Some(window) = self.seen.get_mut(group) {
            *window = Window::new();
        }
    }
}

/// Sequence numbers remembered, as many as a sender can repeat (`protect`): 7 s of the shortest packets, at 64 sample
/// frames and 48 kHz.
const WINDOW: usize = 8192;

/// Packets by which any packet may come late (RFC 3550 A.1), so that its time stamp need not be checked.
const LATE: u16 = 100;
/// The fewest and the most sample frames in a packet (`PacketConfig::block_frames`, `opus::MOST_FRAMES`).
const LEAST_FRAMES: u32 = 16;
const MOST_FRAMES: u32 = 5760;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use antiphon_core::Rng;

    #[test]
    fn only_the_first_copy_of_a_number_is_delivered() {
        let (mut rng, mut distinct) = (Rng::fork(1, "distinct"), Distinct::new(1));
        let (mut base, mut seen) = (65_000u64, BTreeSet::new());
        for _ in 0..200_000 {
            base += u64::from(rng.next_u32() % 2);
            let number = base.saturating_sub(u64::from(rng.next_u32() % 100));
            let fresh = seen.insert(number);
            let got = distinct.on_packet(0, number as u16, 0);
            assert_eq!(got == Got::Deliver, fresh, "{number}");
            seen.retain(|old| *old + 400 > base);
        }
    }

    #[test]
    fn a_copy_is_known_as_long_as_senders_repeat() {
        let mut distinct = Distinct::new(1);
        for number in 0..60_000u64 {
            assert_eq!(distinct.on_packet(0, number as u16, 0), Got::Deliver);
            if let Some(copy) = number.checked_sub(8_000) {
                assert_eq!(distinct.on_packet(0, copy as u16, 0), Got::Duplicate);
            }
        }
    }

    #[test]
    fn a_sender_that_begins_anew_behind_its_numbers_is_no_copy() {
        let mut distinct = Distinct::new(1);
        (0..2_000u32).for_each(|n| assert_eq!(distinct.on_packet(0, n as u16, 7 + 256 * n), Got::Deliver));
        assert!(distinct.remembers(0, 1_000, 7 + 256 * 1_000) && distinct.remembers(0, 1, 7 + 256));
        assert!(!distinct.remembers(0, 1_000, 123_456_789) && !distinct.remembers(0, 1_000, 7 + 256 * 2_500));
        assert!(!distinct.remembers(0, 2_500, 7 + 256 * 2_500) && !distinct.remembers(1, 1_000, 7));
    }

    #[test]
    fn a_restarted_group_begins_anew_and_unknown_groups_pass() {
        let mut distinct = Distinct::new(1);
        assert_eq!([7, 7].map(|n| distinct.on_packet(0, n, 0)), [Got::Deliver, Got::Duplicate]);
        distinct.restart(0);
        assert_eq!(distinct.on_packet(0, 7, 0), Got::Deliver);
        assert_eq!([7, 7].map(|n| distinct.on_packet(9, n, 0)), [Got::Deliver; 2]);
        distinct.restart(9);
    }
}

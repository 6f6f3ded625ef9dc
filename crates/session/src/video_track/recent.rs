//! The packets of a track since its last key frame, for peers that come later.

use std::time::Duration;

use antiphon_core::Instant;

/// Which part of which unit a packet is, of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub unit: u64,
    pub part: u32,
    pub parts: u32,
}

/// They, in the order of sending. Each key frame begins anew.
pub(super) struct Recent {
    bytes: Vec<u8>,
    /// Where each packet ends, and which part of which unit it is.
    ends: Vec<(usize, Part)>,
    /// More came than there is room for.
    is_full: bool,
    /// When the key frame began.
    since: Instant,
}

impl Recent {
    /// All memory is taken now; what is never written costs none.
    pub fn new() -> Self {
        Recent {
            bytes: vec![0; MOST_BYTES],
            ends: Vec::with_capacity(MOST_PACKETS),
            is_full: false,
            since: Instant::ZERO,
        }
    }

    /// A key frame begins.
    pub fn begin(&mut self, now: Instant) {
        self.ends.clear();
        (self.is_full, self.since) = (false, now);
    }

    /// A packet was sent.
    pub fn push(&mut self, packet: &[u8], part: Part) {
        let (begin, end) = (self.len(), self.len() + packet.len());
        match self.bytes.get_mut(begin..end) {
            Some(place) if !self.is_full && self.ends.len() < MOST_PACKETS => {
                place.copy_from_slice(packet);
                self.ends.push((end, part));
            }
            _ => self.is_full = true,
        }
    }

    /// Whether nothing since the key frame is missing.
    pub fn is_whole(&self) -> bool {
        !self.is_full && !self.ends.is_empty()
    }

    /// Bytes of all.
    pub fn len(&self) -> usize {
        self.ends.last().map_or(0, |(end, _)| *end)
    }

    /// How many there are.
    pub fn packets(&self) -> usize {
        self.ends.len()
    }

    /// When the key frame began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// How many bytes a second they are, by now.
    pub fn rate(&self, now: Instant) -> f64 {
        self.len() as f64 / now.since(self.since).max(SHORTEST).as_secs_f64()
    }

    /// One of the packets.
    pub fn packet(&mut self, index: usize) -> Option<(&mut [u8], Part)> {
        let (end, part) = *self.ends.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before].0);
        self.bytes.get_mut(begin..end).map(|packet| (packet, part))
    }
}

/// In less time there may be the key frame alone, which tells nothing of the rate.
const SHORTEST: Duration = Duration::from_millis(500);
/// As much as 2 s of 8 Mbit/s: files often have a key frame so often.
const MOST_BYTES: usize = 2 << 20;
/// As many as these bytes are of packets of 1200 bytes, and as many again, as pictures end with shorter ones.
const MOST_PACKETS: usize = 2 * MOST_BYTES / 1200;

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { unit: 3, part: 0, parts: 2 };

    #[test]
    fn packets_are_kept_since_the_last_key_frame() {
        let mut recent = Recent::new();
        assert!(!recent.is_whole());
        for n in 0..3 {
            recent.push(&[n; 5], PART);
        }
        assert_eq!((recent.is_whole(), recent.len()), (true, 15));
        let rates = [0, 500, 1_500].map(|millis| recent.rate(Instant::from_millis(millis)));
        assert_eq!(rates, [30.0, 30.0, 10.0]);
        assert_eq!(recent.packet(1).unwrap(), (&mut [1; 5][..], PART));
        recent.begin(Instant::ZERO);
        recent.push(&[7; 3], PART);
        assert_eq!(recent.packet(0).unwrap(), (&mut [7; 3][..], PART));
        assert!(recent.packet(1).is_none());
    }

    #[test]
    fn what_has_no_room_is_not_whole_until_the_next_key_frame() {
        for (packets, bytes) in [(MOST_PACKETS, 1), (MOST_BYTES / 1000, 1000)] {
            let mut recent = Recent::new();
            let packet = vec![1; bytes];
            for _ in 0..packets {
                recent.push(&packet, PART);
                assert!(recent.is_whole());
            }
            recent.push(&[2; 1000], PART);
            recent.push(&[3], PART);
            assert!(!recent.is_whole() && recent.packet(packets).is_none());
            recent.begin(Instant::ZERO);
            recent.push(&packet, PART);
            assert!(recent.is_whole());
        }
    }
}

//! When each frame arrived at the far end, for one-way figures where both ends read the same clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_core::Instant;

/// Arrivals by RTP sequence number, shared without locks between a reflector's thread and a caller's.
///
/// Only for two ends in one process (or one virtual world): two clocks are never subtracted as if they were one.
#[derive(Clone, Debug)]
pub struct ArrivalTable {
    arrivals: Arc<[AtomicU64]>,
    /// The source whose packets are noted; [`ANY`] for all.
    of: Arc<AtomicU64>,
}

impl ArrivalTable {
    /// An empty table of 65 536 entries, half a megabyte.
    pub fn new() -> Self {
        let arrivals = (0..=u16::MAX).map(|_| AtomicU64::new(NEVER)).collect();
        ArrivalTable { arrivals, of: Arc::new(AtomicU64::new(ANY)) }
    }

    /// Packets of this source (SSRC) alone are noted: others beside it have numbers of their own.
    pub fn follow(&self, ssrc: u32) {
        self.of.store(ssrc.into(), Ordering::Relaxed);
    }

    /// A frame of that number is about to be sent: clears what the previous cycle of sequence numbers stored in its
    /// entry.
    pub fn clear(&self, sequence: u16) {
        self.arrivals[usize::from(sequence)].store(NEVER, Ordering::Relaxed);
    }

    /// A frame arrived; the first arrival counts.
    pub fn note(&self, frame: &[u8], at: Instant) {
        // RTP: version 2, and a payload type that is none of RTCP's (RFC 5761 §4); the sequence number is at 2..4.
        if frame.len() < 12 || frame[0] >> 6 != 2 || (64..=95).contains(&(frame[1] & 0x7f)) {
            return;
        }
        let of = self.of.load(Ordering::Relaxed);
        if of != ANY && frame[8..12] != (of as u32).to_be_bytes() {
            return;
        }
        let place = &self.arrivals[usize::from(u16::from_be_bytes([frame[2], frame[3]]))];
        let _was_there_before =
            place.compare_exchange(NEVER, at.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When the frame of that number arrived, if it did.
    pub fn arrival(&self, sequence: u16) -> Option<Instant> {
        let nanos = self.arrivals[usize::from(sequence)].load(Ordering::Relaxed);
        (nanos != NEVER).then(|| Instant::from_nanos(nanos))
    }
}

impl Default for ArrivalTable {
    fn default() -> Self {
        ArrivalTable::new()
    }
}

const NEVER: u64 = u64::MAX;
/// No SSRC: those have 32 bits.
const ANY: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_another_source_with_the_same_number_are_not_noted() {
        let frame = |ssrc: u32| {
            let mut frame = vec![0x90, 96, 0, 7, 0, 0, 0, 0];
            frame.extend(ssrc.to_be_bytes());
            frame
        };
        let table = ArrivalTable::new();
        table.note(&frame(1), Instant::from_millis(1));
        assert_eq!(table.arrival(7), Some(Instant::from_millis(1)), "all, unless told otherwise");
        table.clear(7);
        table.follow(2);
        table.note(&frame(1), Instant::from_millis(2));
        assert_eq!(table.arrival(7), None);
        table.note(&frame(2), Instant::from_millis(3));
        assert_eq!(table.arrival(7), Some(Instant::from_millis(3)));
    }
}

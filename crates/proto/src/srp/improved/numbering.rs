//! Decides which packets belong to the stream, and at which position.

use super::missing::{MAX_GAP, WINDOW};
use crate::srp::wire::extended::Part;

/// The known stream, and an unknown source that may turn out to be its restart.
#[derive(Default)]
pub(super) struct Numbering {
    pub stream: Option<Stream>,
    /// An epoch and id that did not belong to the stream: the next id in order proves a restart.
    probation: Option<(u8, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub epoch: u8,
    /// The id after the last one known: received, missing or suspected.
    pub horizon: u64,
    /// The id after the last part of the newest message.
    pub message_end: u64,
    /// Consecutive suspected packets after the last one received.
    pub suspected: u32,
}

/// Position of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the stream, with this extended id.
    Known(u64),
    /// Too far from the stream, or of another epoch.
    Unknown,
    /// At the start of a new stream; `skipped` ids of the old one never arrived.
    Restarted { id: u64, skipped: u64 },
}

impl Numbering {
    /// Places a packet; the first one begins the stream, whatever its id.
    pub fn place(&mut self, part: &Part<'_>, answer: bool) -> Place {
        let Some(stream) = self.stream else {
            return if answer { Place::Unknown } else { Place::Known(self.begin(part)) };
        };
        let ahead = i64::from(part.id.wrapping_sub(stream.horizon as u32) as i32);
        let near = ahead <= MAX_GAP as i64 && ahead >= -((WINDOW - MAX_GAP) as i64);
        // An answer to a packet not yet sent was not requested, so it is forged.
        if stream.epoch == part.epoch && near && !(answer && ahead >= 0) {
            return Place::Known(stream.horizon.wrapping_add_signed(ahead));
        }
        // As RFC 3550 A.1: only two packets in a row prove that the sender restarted; one may be forged.
        let follows = |(epoch, id): (u8, u32)| {
            epoch == part.epoch && (1..=PROOF_STEP).contains(&part.id.wrapping_sub(id))
        };
        if answer || !self.probation.replace((part.epoch, part.id)).is_some_and(follows) {
            return Place::Unknown;
        }
        self.probation = None;
        let skipped = if stream.epoch == part.epoch { u64::try_from(ahead).unwrap_or(0) } else { 0 };
        Place::Restarted { id: self.begin(part), skipped }
    }

    /// Begins a stream with this packet; earlier packets do not count as lost, except the first few of a stream.
    fn begin(&mut self, part: &Part<'_>) -> u64 {
        // Far from 0, so that ids before the first stay positive.
        let id = (1 << 40) + u64::from(part.id);
        let message_start = id - u64::from(part.index);
        let from_one = (1..=FIRST_IDS).contains(&part.id).then(|| id - u64::from(part.id) + 1);
        let horizon = from_one.unwrap_or(message_start).min(message_start);
        self.stream = Some(Stream { epoch: part.epoch, horizon, message_end: 0, suspected: 0 });
        id
    }
}

/// Largest distance of the two packets that prove a restart: those between may be reordered or lost.
const PROOF_STEP: u32 = 16;
/// Up to this id, a first packet belongs to a stream that has just begun: the ones before it are missing.
const FIRST_IDS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(epoch: u8, id: u32, index: u8) -> Part<'static> {
        Part { epoch, index, count: 4, priority: 0, previous_priority: 0, stream: 0, time: 0, id, data: b"x" }
    }

    fn horizon(numbering: &Numbering) -> u32 {
        numbering.stream.unwrap().horizon as u32
    }

    #[test]
    fn a_stream_is_taken_up_anywhere_with_its_whole_message() {
        let mut numbering = Numbering::default();
        assert_eq!(numbering.place(&part(1, 700, 2), true), Place::Unknown);
        assert!(matches!(numbering.place(&part(1, 700, 2), false), Place::Known(_)));
        assert_eq!(horizon(&numbering), 698);
        let mut early = Numbering::default();
        early.place(&part(1, 5, 0), false);
        assert_eq!(horizon(&early), 1);
    }

    #[test]
    fn near_numbers_are_known_and_far_ones_unknown_across_zero() {
        let mut numbering = Numbering::default();
        let Place::Known(start) = numbering.place(&part(1, u32::MAX, 0), false) else { panic!("begun") };
        let far = [(255, true), (256, true), (257, false), (-1792, true), (-1793, false), (1 << 31, false)];
        for (ahead, known) in far {
            let id = (i64::from(u32::MAX) + ahead) as u32;
            let expected =
                if known { Place::Known(start.wrapping_add_signed(ahead)) } else { Place::Unknown };
            assert_eq!(numbering.place(&part(1, id, 0), false), expected, "{ahead}");
        }
        assert_eq!(numbering.place(&part(1, 4, 0), true), Place::Unknown, "an answer ahead of everything");
    }

    #[test]
    fn two_in_a_row_prove_a_new_beginning() {
        let mut numbering = Numbering::default();
        numbering.place(&part(1, 100, 0), false);
        for (epoch, id) in [(2, 50), (3, 51), (2, 49), (2, 49)] {
            assert_eq!(numbering.place(&part(epoch, id, 0), false), Place::Unknown);
        }
        assert!(matches!(numbering.place(&part(2, 51, 0), false), Place::Restarted { skipped: 0, .. }));
        numbering.place(&part(2, 5000, 0), false);
        let outage = numbering.place(&part(2, 5001, 0), false);
        assert!(matches!(outage, Place::Restarted { skipped: 4950, .. }), "{outage:?}");
    }
}

//! Decides which packets belong to the stream, and at which position.

use antiphon_core::Instant;

use super::missing::{MAX_FULL_GAP, MAX_GAP, WINDOW};
use crate::probation::Probation;
use crate::srp::wire::extended::Part;

/// The known stream, and unknown sources that may turn out to be its restart.
#[derive(Default)]
pub(super) struct Numbering {
    pub stream: Option<Stream>,
    /// Other epochs.
    probation: Probation,
    /// Nothing is given up.
    full: bool,
    /// The last id of the known epoch that was far ahead: the next ones prove that the stream went on meanwhile.
    ahead: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub epoch: u32,
    /// The id after the last one known: received, missing or suspected.
    pub horizon: u64,
    /// The id after the last part of the newest message.
    pub message_end: u64,
    /// Consecutive suspected packets after the last one received.
    pub suspected: u32,
    /// When something new last came.
    pub new_at: Instant,
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
    /// Where nothing is given up, a stream begins with what its sender keeps.
    pub fn full() -> Self {
        Numbering { full: true, ..Numbering::default() }
    }

    /// Places a packet that arrived at `at`; the first one begins the stream, whatever its id.
    pub fn place(&mut self, part: &Part<'_>, answer: bool, at: Instant) -> Place {
        let Some(stream) = self.stream else {
            return if answer { Place::Unknown } else { Place::Known(self.begin(part, at)) };
        };
        let ahead = i64::from(part.id.wrapping_sub(stream.horizon as u32) as i32);
        let most = if self.full { MAX_FULL_GAP } else { MAX_GAP };
        let near = ahead <= most as i64 && ahead >= -((WINDOW - most) as i64);
        let same = stream.epoch == part.epoch;
        // An answer to a packet not yet sent was not requested, so it is forged.
        if same && near && !(answer && ahead >= 0) {
            return Place::Known(stream.horizon.wrapping_add_signed(ahead));
        }
        if answer {
            return Place::Unknown;
        }
        let skipped = match u64::try_from(ahead) {
            // A stream does not go back.
            Err(_) if same => return Place::Unknown,
            // As RFC 3550 A.1: one packet may be damaged, two in a row are not.
            Ok(ahead) if same => {
                let follows = |id: u32| (1..=PROOF_STEP).contains(&part.id.wrapping_sub(id));
                if !self.ahead.replace(part.id).is_some_and(follows) {
                    return Place::Unknown;
                }
                ahead
            }
            _ if !self.probation.is_proved_by(part.epoch, part.id, at, stream.new_at) => {
                return Place::Unknown;
            }
            _ => 0,
        };
        Place::Restarted { id: self.begin(part, at), skipped }
    }

    /// Something new of the known stream has come.
    pub fn on_new(&mut self, at: Instant) {
        self.probation.clear();
        if let Some(stream) = &mut self.stream {
            stream.new_at = at;
        }
    }

    /// Begins a stream with this packet; earlier packets do not count as lost, except the first few of a stream.
    fn begin(&mut self, part: &Part<'_>, at: Instant) -> u64 {
        self.ahead = None;
        // Far from 0, so that ids before the first stay positive.
        let id = (1 << 40) + u64::from(part.id);
        let message_start = id - u64::from(part.index);
        let most = if self.full { u8::MAX - 1 } else { FIRST_IDS };
        let from_first = (part.age <= most).then(|| id - u64::from(part.age));
        let horizon = from_first.unwrap_or(message_start).min(message_start);
        self.stream = Some(Stream { epoch: part.epoch, horizon, message_end: 0, suspected: 0, new_at: at });
        id
    }
}

/// Largest distance of the two packets that prove that a stream has gone on: those between may be reordered or lost.
const PROOF_STEP: u32 = 16;
/// A first packet with no more before it belongs to a stream that has just begun: the ones before it are missing.
const FIRST_IDS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(epoch: u32, id: u32, index: u8) -> Part<'static> {
        Part {
            epoch,
            age: 255,
            index,
            count: 4,
            priority: 0,
            previous_priority: 0,
            stream: 0,
            time: 0,
            id,
            data: b"x",
        }
    }

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn horizon(numbering: &Numbering) -> u32 {
        numbering.stream.unwrap().horizon as u32
    }

    #[test]
    fn a_stream_is_taken_up_anywhere_with_its_whole_message() {
        let mut numbering = Numbering::default();
        assert_eq!(numbering.place(&part(1, 700, 2), true, ms(0)), Place::Unknown);
        assert!(matches!(numbering.place(&part(1, 700, 2), false, ms(0)), Place::Known(_)));
        assert_eq!(horizon(&numbering), 698);
        let mut early = Numbering::default();
        early.place(&Part { age: 4, ..part(1, 5, 0) }, false, ms(0));
        assert_eq!(horizon(&early), 1);
    }

    #[test]
    fn near_numbers_are_known_and_far_ones_unknown_across_zero() {
        let mut numbering = Numbering::default();
        let Place::Known(start) = numbering.place(&part(1, u32::MAX, 0), false, ms(0)) else {
            panic!("begun")
        };
        let far = [(255, true), (256, true), (257, false), (-1792, true), (-1793, false), (1 << 31, false)];
        for (ahead, known) in far {
            let id = (i64::from(u32::MAX) + ahead) as u32;
            let expected =
                if known { Place::Known(start.wrapping_add_signed(ahead)) } else { Place::Unknown };
            assert_eq!(numbering.place(&part(1, id, 0), false, ms(0)), expected, "{ahead}");
        }
        assert_eq!(
            numbering.place(&part(1, 4, 0), true, ms(0)),
            Place::Unknown,
            "an answer ahead of everything"
        );
    }

    #[test]
    fn another_epoch_takes_over_when_this_one_has_been_silent() {
        let mut numbering = Numbering::default();
        numbering.place(&part(1, 100, 0), false, ms(0));
        for (n, (epoch, id)) in [(2, 50), (2, 51), (2, 52), (3, 7), (2, 49)].into_iter().enumerate() {
            assert_eq!(numbering.place(&part(epoch, id, 0), false, ms(1000)), Place::Unknown, "{n}");
        }
        numbering.place(&part(2, 50, 0), false, ms(1001));
        let restart = numbering.place(&Part { age: 2, ..part(2, 51, 0) }, false, ms(1001));
        assert!(matches!(restart, Place::Restarted { skipped: 0, .. }), "{restart:?}");
        assert_eq!(horizon(&numbering), 49, "its first ones are missing");
        // It goes on: no other begins a row while it does.
        for n in 0..100 {
            numbering.on_new(ms(2000 + n));
            assert_eq!(numbering.place(&part(5, n as u32, 0), false, ms(3500 + n)), Place::Unknown);
        }
    }

    #[test]
    fn a_stream_goes_on_after_an_outage_and_never_goes_back() {
        let mut numbering = Numbering::default();
        numbering.place(&part(2, 5, 0), false, ms(0));
        assert_eq!(numbering.place(&part(2, 5000, 0), false, ms(0)), Place::Unknown);
        let outage = numbering.place(&part(2, 5001, 0), false, ms(0));
        assert!(matches!(outage, Place::Restarted { skipped: 4996, .. }), "{outage:?}");
        for id in [5, 6, 7, 8, 9] {
            assert_eq!(numbering.place(&part(2, id, 0), false, ms(9000)), Place::Unknown);
        }
    }
}

//! The application-defined RTCP packets (RFC 3550 §6.7) by which a sender tells its receivers when its sound was captured, by
//! its own clock, and by which a receiver measures that clock and tells how it fares. They are sent by themselves, as RFC 5506
//! permits.
//!
//! A receiver's question (subtype 0), whose answer measures the sender's clock as NTP does (RFC 5905 §8):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|    0    |  PT=APP=204   |            length = 9         |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of the receiver                           |
//! +---------------------------------------------------------------+
//! |                name "ANTC"                                    |
//! +---------------------------------------------------------------+
//! |                its clock at sending, in nanoseconds (64 bits) |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                packets received                               |
//! +---------------------------------------------------------------+
//! |                packets lost                                   |
//! +---------------------------------------------------------------+
//! |                packets that came too late                     |
//! +---------------------------------------------------------------+
//! |                capture to playout in µs, all ones: unknown    |
//! +---------------------------------------------------------------+
//! |                error of that in µs                            |
//! +---------------------------------------------------------------+
//! ```
//!
//! A sender's word (subtype 1), with answers to the receivers that asked:
//!
//! ```text
//! |                SSRC of the sender, name "ANTC"                |
//! +---------------------------------------------------------------+
//! |                its clock at sending, in nanoseconds (64 bits) |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                an RTP time stamp                              |
//! +---------------------------------------------------------------+
//! |                when that sample frame was captured, in        |
//! |                nanoseconds of its clock (64 bits)             |
//! +---------------------------------------------------------------+
//! |                capture to playout that it wishes, in µs;      |
//! |                0: each receiver chooses                       |
//! +---------------------------------------------------------------+
//! |      for each answer: the receiver's SSRC, the time in its    |
//! |      question (64 bits), and when that came (64 bits)         |
//! ```

use std::time::Duration;

use antiphon_core::Instant;

use super::wire::{read_app, u32_at, write_app};

/// A receiver asks for the time, and tells how it fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockQuestion {
    /// SSRC of the receiver that asks.
    pub ssrc: u32,
    /// When, by its clock.
    pub asked: Instant,
    /// How it fares.
    pub heard: Hearing,
}

/// How a receiver fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hearing {
    /// Packets that came.
    pub received: u32,
    /// Packets that never came although later ones were played.
    pub lost: u32,
    /// Packets that came too late.
    pub late: u32,
    /// From a sample's capture to its playout; `None` before the clocks are known, and of a recording.
    pub delay: Option<Duration>,
    /// By how much that may be wrong.
    pub error: Duration,
}

/// What a sender tells of its clock and its sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockWord {
    /// SSRC of the sender.
    pub ssrc: u32,
    /// When, by its clock.
    pub told: Instant,
    /// An RTP time stamp.
    pub timestamp: u32,
    /// When that sample frame was captured, by the same clock.
    pub captured: Instant,
    /// From capture to playout, if it wishes that all receivers play at one time.
    pub delay: Option<Duration>,
}

/// An answer to a receiver's question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockAnswer {
    /// Who asked.
    pub ssrc: u32,
    /// When, by its clock.
    pub asked: Instant,
    /// When the question came, by the sender's clock.
    pub came: Instant,
}

impl ClockQuestion {
    /// Bytes of every such packet.
    pub const LEN: usize = 40;

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let Hearing { received, lost, late, delay, error } = self.heard;
        let mut bytes = [0; Self::LEN];
        let figures = [received, lost, late, delay.map_or(UNKNOWN, micros), micros(error)];
        let words = pair(self.asked).into_iter().chain(figures);
        write_app(&mut bytes, 0, self.ssrc, NAME, words).expect("it has this length");
        bytes
    }

    /// Reads one; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<ClockQuestion> {
        let (0, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let data: &[u8; Self::LEN - 12] = data.try_into().ok()?;
        let delay = u32_at(data, 20);
        let heard = Hearing {
            received: u32_at(data, 8),
            lost: u32_at(data, 12),
            late: u32_at(data, 16),
            delay: (delay != UNKNOWN).then(|| Duration::from_micros(delay.into())),
            error: Duration::from_micros(u32_at(data, 24).into()),
        };
        Some(ClockQuestion { ssrc, asked: instant_at(data, 0), heard })
    }
}

impl ClockWord {
    /// The longest packet.
    pub const MOST: usize = HEAD + MOST_ANSWERS * ANSWER;

    /// Writes it with at most [`MOST_ANSWERS`] answers; returns its length.
    pub fn write(&self, answers: &[ClockAnswer], buf: &mut [u8; Self::MOST]) -> usize {
        let [told, captured] = [pair(self.told), pair(self.captured)];
        let delay = self.delay.map_or(0, |delay| micros(delay).max(1));
        let head = [told[0], told[1], self.timestamp, captured[0], captured[1], delay];
        let answer = |one: &ClockAnswer| {
            let [asked, came] = [pair(one.asked), pair(one.came)];
            [one.ssrc, asked[0], asked[1], came[0], came[1]]
        };
        let answers = answers.iter().take(MOST_ANSWERS).flat_map(answer);
        write_app(buf, 1, self.ssrc, NAME, head.into_iter().chain(answers))
            .expect("there is room for the most")
    }

    /// Reads one, and the answers in it; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<(ClockWord, impl Iterator<Item = ClockAnswer>)> {
        let (1, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let (head, answers) = data.split_first_chunk::<{ HEAD - 12 }>()?;
        let (answers, []) = answers.as_chunks::<ANSWER>() else { return None };
        let delay = u32_at(head, 20);
        let word = ClockWord {
            ssrc,
            told: instant_at(head, 0),
            timestamp: u32_at(head, 8),
            captured: instant_at(head, 12),
            delay: (delay != 0).then(|| Duration::from_micros(delay.into())),
        };
        let answer = |one: &[u8; ANSWER]| ClockAnswer {
            ssrc: u32_at(one, 0),
            asked: instant_at(one, 4),
            came: instant_at(one, 12),
        };
        Some((word, answers.iter().map(answer)))
    }
}

fn pair(at: Instant) -> [u32; 2] {
    let nanos = at.as_nanos();
    [(nanos >> 32) as u32, nanos as u32]
}

fn instant_at(data: &[u8], at: usize) -> Instant {
    let nanos = u64::from(u32_at(data, at)) << 32 | u64::from(u32_at(data, at + 4));
    // A run lasts less than a century; sums and differences of what others tell must not overflow.
    Instant::from_nanos(nanos.min(MOST_NANOS))
}

/// Microseconds, up to over an hour.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(UNKNOWN).min(UNKNOWN - 1)
}

/// The most answers in a packet: it fits into any datagram that a path carries.
pub const MOST_ANSWERS: usize = 40;
/// Bytes before the answers.
const HEAD: usize = 36;
/// Bytes of an answer.
const ANSWER: usize = 20;
const NAME: [u8; 4] = *b"ANTC";
const UNKNOWN: u32 = u32::MAX;
/// A century.
const MOST_NANOS: u64 = 3_153_600_000_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times() -> impl Strategy<Value = Instant> {
        (0..=MOST_NANOS).prop_map(Instant::from_nanos)
    }

    proptest! {
        #[test]
        fn questions_are_read_as_written(
            ssrc: u32, asked in times(), figures: [u32; 3], delay in proptest::option::of(0u64..4_000_000_000), error in 0u64..4_000_000_000,
        ) {
            let [received, lost, late] = figures;
            let (delay, error) = (delay.map(Duration::from_micros), Duration::from_micros(error));
            let question = ClockQuestion { ssrc, asked, heard: Hearing { received, lost, late, delay, error } };
            let bytes = question.to_bytes();
            prop_assert_eq!(ClockQuestion::parse(&bytes), Some(question));
            prop_assert!(ClockWord::parse(&bytes).is_none());
            prop_assert_eq!(crate::packet::classify(&bytes), Some(crate::packet::PacketKind::Rtcp));
            prop_assert!((0..bytes.len()).all(|len| ClockQuestion::parse(&bytes[..len]).is_none()));
        }

        #[test]
        fn words_are_read_as_written(
            ssrc: u32, told in times(), timestamp: u32, captured in times(), delay in proptest::option::of(1u64..4_000_000_000),
            answers in prop::collection::vec((any::<u32>(), times(), times()), 0..MOST_ANSWERS + 2),
        ) {
            let word = ClockWord { ssrc, told, timestamp, captured, delay: delay.map(Duration::from_micros) };
            let answers: Vec<_> =
                answers.into_iter().map(|(ssrc, asked, came)| ClockAnswer { ssrc, asked, came }).collect();
            let mut buf = [0; ClockWord::MOST];
            let len = word.write(&answers, &mut buf);
            let (read, there) = ClockWord::parse(&buf[..len]).expect("it is one");
            prop_assert_eq!(read, word);
            prop_assert_eq!(there.collect::<Vec<_>>(), &answers[..answers.len().min(MOST_ANSWERS)]);
            prop_assert!(ClockQuestion::parse(&buf[..len]).is_none());
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if bytes.len() >= 12 {
                bytes[8..12].copy_from_slice(&NAME);
            }
            let _any = ClockQuestion::parse(&bytes);
            if let Some((_, answers)) = ClockWord::parse(&bytes) {
                prop_assert!(answers.count() <= bytes.len() / ANSWER);
            }
        }
    }
}

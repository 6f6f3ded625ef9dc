//! The messages by which a recording is completed after its stream.
//!
//! ```text
//! all     "ANTC"  version 1  kind   …
//! offer   kind 1  SSRC (32 bits)  RTP time stamp of the first sample frame (32)  rate in Hz (32)  channels (16)
//!                 sample format (8, its place in the list)  sample frames (64)
//! ask     kind 2  1 if more follow, or 0  stretches: sample frames left out since the last one, and sample frames, LEB128
//! sound   kind 3  its first sample frame (64)  samples as on the wire
//! end     kind 4  nothing more will come
//! done    kind 5  sample frames that are still missing (64)
//! ```
//!
//! In network byte order. Stretches are in ascending order, counted from the sender's first sample frame.

use crate::{SampleFormat, StreamFormat};

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// The sender: what it has.
    Offer(Offer),
    /// The receiver: what it misses, in ascending order.
    Ask {
        /// Whether another message names further stretches.
        more: bool,
        /// Each of at least one sample frame; none begins before the end of the one before.
        stretches: Vec<Stretch>,
    },
    /// The sender: a part of that.
    Sound {
        /// Its first sample frame.
        at: u64,
        /// At least one byte, in the offer's sample format.
        samples: &'a [u8],
    },
    /// The sender: nothing more will come.
    End,
    /// The receiver: it has taken all that it will.
    Done {
        /// Sample frames that are still missing.
        missing: u64,
    },
}

/// What a sender has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The stream's source.
    pub ssrc: u32,
    /// RTP time stamp of the first sample frame.
    pub first: u32,
    /// Rate and channels.
    pub format: StreamFormat,
    /// How samples are written.
    pub sample: SampleFormat,
    /// Sample frames.
    pub frames: u64,
}

/// Sample frames of a sender, the first of which is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The first one.
    pub at: u64,
    /// How many.
    pub frames: u64,
}

impl Stretch {
    /// The first sample frame behind it.
    pub fn end(self) -> u64 {
        self.at + self.frames
    }
}

/// Bytes before the samples of a message with sound.
pub const SOUND_HEADER: usize = HEADER + 8;
const HEADER: usize = 6;
const MAGIC: &[u8; 5] = b"ANTC\x01";

/// Reads a message; `None` if it is none, or contradicts itself.
pub fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let (&kind, rest) = bytes.strip_prefix(MAGIC)?.split_first()?;
    match (kind, rest) {
        (1, rest) => parse_offer(rest).map(Message::Offer),
        (2, [more @ (0 | 1), rest @ ..]) => {
            Some(Message::Ask { more: *more == 1, stretches: parse_stretches(rest)? })
        }
        (3, rest) => {
            let (at, samples) = rest.split_first_chunk()?;
            (!samples.is_empty()).then_some(Message::Sound { at: u64::from_be_bytes(*at), samples })
        }
        (4, []) => Some(Message::End),
        (5, rest) => Some(Message::Done { missing: u64::from_be_bytes(rest.try_into().ok()?) }),
        _ => None,
    }
}

fn parse_offer(bytes: &[u8]) -> Option<Offer> {
    let bytes: &[u8; 23] = bytes.try_into().ok()?;
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let channels = u16::from_be_bytes([bytes[12], bytes[13]]);
    Some(Offer {
        ssrc: word(0),
        first: word(4),
        format: StreamFormat::new(word(8), channels.into()).ok()?,
        sample: *SampleFormat::ALL.get(usize::from(bytes[14]))?,
        frames: u64::from(word(15)) << 32 | u64::from(word(19)),
    })
}

fn parse_stretches(mut bytes: &[u8]) -> Option<Vec<Stretch>> {
    let (mut stretches, mut end) = (Vec::new(), 0_u64);
    while !bytes.is_empty() {
        let at = end.checked_add(take_number(&mut bytes)?)?;
        let frames = take_number(&mut bytes)?;
        end = at.checked_add(frames).filter(|_| frames > 0)?;
        stretches.push(Stretch { at, frames });
    }
    Some(stretches)
}

/// Writes a message in place of what `out` holds.
pub fn write(message: &Message<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend(MAGIC);
    match message {
        Message::Offer(offer) => {
            out.push(1);
            for word in [offer.ssrc, offer.first, offer.format.rate()] {
                out.extend(word.to_be_bytes());
            }
            out.extend((offer.format.channels() as u16).to_be_bytes());
            let place = SampleFormat::ALL.iter().position(|one| *one == offer.sample);
            out.push(place.unwrap_or_default() as u8);
            out.extend(offer.frames.to_be_bytes());
        }
        Message::Ask { more, stretches } => {
            out.extend([2, u8::from(*more)]);
            let mut end = 0;
            for stretch in stretches {
                put_number(stretch.at - end, out);
                put_number(stretch.frames, out);
                end = stretch.end();
            }
        }
        Message::Sound { at, samples } => {
            out.push(3);
            out.extend(at.to_be_bytes());
            out.extend(*samples);
        }
        Message::End => out.push(4),
        Message::Done { missing } => {
            out.push(5);
            out.extend(missing.to_be_bytes());
        }
    }
}

/// LEB128 (DWARF 5 §7.6).
fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for place in 0..LONGEST {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        number |= part
            .checked_mul(1_u64.checked_shl(7 * place)?)
            .filter(|part| part >> (7 * place) != 0 || *part == 0)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Bytes of the longest number.
const LONGEST: u32 = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
        proptest::collection::vec((0..1_u64 << 40, 1..1_u64 << 40), 0..50).prop_map(|pairs| {
            let mut end = 0;
            let place = |(left, frames)| {
                let at = end + left;
                end = at + frames;
                Stretch { at, frames }
            };
            pairs.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn messages_come_back(ssrc: u32, first: u32, frames: u64, at: u64, more: bool, asked in stretches(), place in 0_usize..5) {
            let format = StreamFormat::new(48_000, 6).unwrap();
            let offer = Offer { ssrc, first, format, sample: SampleFormat::ALL[place], frames };
            let mut bytes = vec![7; 3];
            for message in [
                Message::Offer(offer),
                Message::Ask { more, stretches: asked },
                Message::Sound { at, samples: &[1, 2] },
                Message::End,
                Message::Done { missing: frames },
            ] {
                write(&message, &mut bytes);
                prop_assert_eq!(parse(&bytes), Some(message.clone()));
                if !matches!(message, Message::Ask { .. } | Message::Sound { .. }) {
                    bytes.push(0);
                    prop_assert_eq!(parse(&bytes), None);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(kind: u8, bytes: Vec<u8>) {
            let message = [MAGIC, &[kind][..], &bytes].concat();
            if let Some(Message::Ask { stretches, .. }) = parse(&message) {
                prop_assert!(stretches.windows(2).all(|two| two[0].end() <= two[1].at));
                prop_assert!(stretches.len() <= bytes.len() / 2);
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for bytes in [
            &[0xff; 9][..],
            &[0xff; 11],
            &[0x80, 0x80],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(take_number(&mut &bytes[..]), None, "{bytes:?}");
        }
        let mut all = Vec::new();
        put_number(u64::MAX, &mut all);
        assert_eq!((all.len(), take_number(&mut &all[..])), (10, Some(u64::MAX)));
        // Two stretches whose end is beyond all numbers, and an empty one.
        for asked in [[&all[..], &[1]].concat(), vec![5, 0]] {
            assert_eq!(parse(&[MAGIC, &[2, 0][..], &asked].concat()), None);
        }
    }
}

//! Picture loss indication (RFC 4585 §6.3.1): a receiver of pictures can decode none until the next key frame, and asks for one. To
//! Antiphon it is sent by itself, as RFC 5506 permits, to other programs behind a report. These may also ask by a full intra request
//! (RFC 5104 §4.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|  FMT=1  |   PT=206      |           length=2            |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of the receiver                           |
//! +---------------------------------------------------------------+
//! |                SSRC of the pictures                           |
//! +---------------------------------------------------------------+
//! ```

use super::wire::{u32_at, write_header};

/// A receiver has lost pictures of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PictureLoss {
    /// Who asks.
    pub ssrc: u32,
    /// The stream of pictures.
    pub pictures: u32,
}

impl PictureLoss {
    /// Bytes of the packet.
    pub const BYTES: usize = 12;

    /// Writes it.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        write_header(&mut bytes, PAYLOAD_FEEDBACK, FORMAT);
        bytes[4..8].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes[8..].copy_from_slice(&self.pictures.to_be_bytes());
        bytes
    }

    /// Reads one; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_one =
            bytes.len() == Self::BYTES && bytes[..4] == [0x80 | FORMAT as u8, PAYLOAD_FEEDBACK, 0, 2];
        is_one.then(|| PictureLoss { ssrc: u32_at(bytes, 4), pictures: u32_at(bytes, 8) })
    }
}

/// The questions for a key frame in one packet of a compound: a picture loss indication has one, a full intra request one for each of its
/// entries.
pub(super) fn questions(packet: &[u8]) -> impl Iterator<Item = PictureLoss> {
    let padding = match packet.first() {
        Some(first) if first & 0x20 != 0 => usize::from(packet[packet.len() - 1]),
        _ => 0,
    };
    let body = packet.get(..packet.len().saturating_sub(padding)).unwrap_or(packet);
    let is_feedback = body.len() >= PictureLoss::BYTES && body[1] == PAYLOAD_FEEDBACK;
    let format = if is_feedback { usize::from(body[0] & 31) } else { 0 };
    let asked = match format {
        FORMAT => &body[8..PictureLoss::BYTES],
        FULL_INTRA => &body[PictureLoss::BYTES..],
        _ => &[],
    };
    // An entry of a full intra request has a number and reserved bytes behind the SSRC.
    let entry = if format == FULL_INTRA { 8 } else { 4 };
    asked
        .chunks_exact(entry)
        .map(move |entry| PictureLoss { ssrc: u32_at(body, 4), pictures: u32_at(entry, 0) })
}

/// Payload-specific feedback (RFC 4585 §6.3), its format for this, and that of a full intra request (RFC 5104 §4.3.1.1).
const PAYLOAD_FEEDBACK: u8 = 206;
const FORMAT: usize = 1;
const FULL_INTRA: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_rfc_4585() {
        let asked = PictureLoss { ssrc: 0x0102_0304, pictures: 0xf506_0708 };
        assert_eq!(asked.to_bytes(), *b"\x81\xce\0\x02\x01\x02\x03\x04\xf5\x06\x07\x08");
        assert!(crate::packet::classify(&asked.to_bytes()) == Some(crate::packet::PacketKind::Rtcp));
    }

    #[test]
    fn loss_indications_and_full_intra_requests_are_questions() {
        let of = |packet: &[u8]| questions(packet).map(|one| (one.ssrc, one.pictures)).collect::<Vec<_>>();
        assert_eq!(of(b"\x81\xce\0\x02\0\0\0\x01\0\0\0\x07"), [(1, 7)]);
        // Its second word names no stream; each entry names one.
        let twice = b"\x84\xce\0\x06\0\0\0\x01\0\0\0\0\0\0\0\x07\x05\0\0\0\0\0\0\x08\x06\0\0\0";
        assert_eq!(of(twice), [(1, 7), (1, 8)]);
        let padded = b"\xa4\xce\0\x05\0\0\0\x01\0\0\0\0\0\0\0\x07\x05\0\0\0\0\0\0\x04";
        assert_eq!(of(padded), [(1, 7)]);
        for other in [
            &b""[..],
            b"\x81\xce\0\0",
            b"\x82\xce\0\x02\0\0\0\x01\0\0\0\x07",
            b"\x81\xcd\0\x02\0\0\0\x01\0\0\0\x07",
        ] {
            assert_eq!(of(other), []);
        }
    }

    proptest! {
        #[test]
        fn questions_are_read_from_any_bytes_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..60), frame in any::<bool>()) {
            if frame && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[0x84, 206, 0, 2]);
            }
            prop_assert!(questions(&bytes).count() <= bytes.len() / 4);
        }

        #[test]
        fn what_is_asked_is_read_as_written((ssrc, pictures) in any::<(u32, u32)>()) {
            let asked = PictureLoss { ssrc, pictures };
            let bytes = asked.to_bytes();
            prop_assert_eq!(PictureLoss::parse(&bytes), Some(asked));
            for cut in 0..bytes.len() {
                prop_assert!(PictureLoss::parse(&bytes[..cut]).is_none());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..40), frame in any::<bool>()) {
            if frame && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[0x81, 206, 0, 2]);
            }
            let read = PictureLoss::parse(&bytes);
            prop_assert!(read.is_none() || read.map(PictureLoss::to_bytes).is_some_and(|own| own[..] == bytes[..]));
        }
    }
}

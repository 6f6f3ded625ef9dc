//! The application-defined RTCP packet (RFC 3550 §6.7) by which a caller whose transport has no handshake asks whether
//! anybody is there. It is sent by itself, as RFC 5506 permits.

use super::wire::{read_app, write_app};

/// What a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Presence {
    /// Is anybody there?
    Question = 0,
    /// Yes. Nothing is replied to it.
    Answer,
}

impl Presence {
    /// Bytes of every such packet: an answer is as long as its question.
    pub const LEN: usize = 12;

    /// The packet that `ssrc` sends.
    pub fn to_bytes(self, ssrc: u32) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        write_app(&mut bytes, self as u8, ssrc, NAME, []).expect("it has this length");
        bytes
    }

    /// Reads one, whoever sent it; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<Presence> {
        match read_app(bytes, NAME)? {
            (0, _, []) => Some(Presence::Question),
            (1, _, []) => Some(Presence::Answer),
            _ => None,
        }
    }
}

const NAME: [u8; 4] = *b"ANTP";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_rfc_3550() {
        // Version 2, subtype 0 or 1, APP = 204, 2 words after the first, the source, and the name.
        assert_eq!(&Presence::Question.to_bytes(0x0102_0304), b"\x80\xcc\x00\x02\x01\x02\x03\x04ANTP");
        assert_eq!(&Presence::Answer.to_bytes(0x0102_0304), b"\x81\xcc\x00\x02\x01\x02\x03\x04ANTP");
    }

    proptest! {
        #[test]
        fn packets_are_read_as_written_and_no_others(
            ssrc in any::<u32>(),
            other in prop::collection::vec(any::<u8>(), 0..16),
            at in 0usize..12,
            bit in 1u8..8,
        ) {
            for kind in [Presence::Question, Presence::Answer] {
                let bytes = kind.to_bytes(ssrc);
                prop_assert_eq!(Presence::parse(&bytes), Some(kind));
                prop_assert!(Presence::parse(&[&bytes[..], &other].concat()).is_none() || other.is_empty());
                let mut changed = bytes;
                changed[at] ^= 1 << bit;
                // Of the SSRC every value is right.
                prop_assert!(Presence::parse(&changed).is_none() || (4..8).contains(&at));
            }
            prop_assert_eq!(Presence::parse(&other), None);
        }
    }
}

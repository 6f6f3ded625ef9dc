//! RTP packets of a data track: a piece of a file or of lines beside the sound, with its place in them.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------+-+-+-------------------------------+
//! |  track        |  zero     |E|B|  offset of the piece (48)     |
//! +---------------+-----------+-+-+-------------------------------+
//! |  .. offset                    |  bytes of the piece           |
//! +---------------------------------------------------------------+
//! ```
//!
//! `B`: a record begins with the piece, from which a reader can go on after a hole. `E`: the data end with it. The header extension is that of
//! pictures ([`InBandVideo`]) with the encoding name [`DATA`]; time stamps are 0, as each piece counts from when it comes.

use antiphon_core::Rng;
use rtp_types::RtpPacketBuilder;

use super::extension::{self, Elements, MAX_BODY, ONE_BYTE_PROFILE};
use super::{EncodingName, ExtensionIds, InBandVideo, RTP_HEADER, RtpView};

/// The encoding name of data.
pub const DATA: &str = "DATA";

/// Bytes in front of a piece: the RTP header, its extension with the encoding name, and the piece's place.
pub const DATA_HEADER: usize = RTP_HEADER + 4 + 16 + PLACE;

/// A piece is at an offset below this.
pub const MOST_DATA: u64 = 1 << 48;

/// Where a piece of a data track belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataPlace {
    /// Which of the sender's data tracks.
    pub track: u8,
    /// Its first byte, counted from the beginning of the data.
    pub offset: u64,
    /// A record begins with it.
    pub begins: bool,
    /// The data end with it.
    pub ends: bool,
}

/// Numbers and names of a data track's packets.
#[derive(Clone, Debug)]
pub struct DataStream {
    ssrc: u32,
    sequence: u16,
    payload_type: u8,
    in_band: InBandVideo,
}

impl DataStream {
    /// Sequence number and SSRC start at random values drawn from `seed` and the number of the track. `sound`: the SSRC of the sound that it
    /// goes beside.
    pub fn new(track: u8, payload_type: u8, sound: u32, seed: u64) -> Self {
        let mut rng = Rng::fork(seed.wrapping_add(u64::from(track)), "data");
        let encoding = EncodingName::new(DATA).expect("it is a short word");
        DataStream {
            ssrc: rng.next_u32(),
            sequence: rng.next_u32() as u16,
            payload_type: payload_type & 0x7f,
            in_band: InBandVideo { sound, encoding, track: 0, again: None },
        }
    }

    /// The track's synchronisation source.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Goes on beside sound of another SSRC (RFC 3550 §8.2).
    pub fn set_sound(&mut self, sound: u32) {
        self.in_band.sound = sound;
    }

    /// Makes the next packet in `buf`; returns its length, or `None` where it does not fit or the offset is none. It is the next one until
    /// [`Self::advance`].
    pub fn packet(&self, place: DataPlace, bytes: &[u8], buf: &mut [u8]) -> Option<usize> {
        let len = DATA_HEADER + bytes.len();
        let mut body = [0; MAX_BODY];
        let elements = Elements { video: Some(self.in_band), ..Elements::default() };
        let extension = extension::write(ExtensionIds::default(), &elements, &mut body);
        let header = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.payload_type)
            .sequence_number(self.sequence)
            .ssrc(self.ssrc)
            .extension(ONE_BYTE_PROFILE, &body[..extension]);
        let written = header.write_into(buf.get_mut(..len)?).ok()?;
        let word = u64::from(place.track) << 56
            | u64::from(place.ends) << 49
            | u64::from(place.begins) << 48
            | Some(place.offset).filter(|offset| *offset < MOST_DATA)?;
        buf.get_mut(written..written + PLACE)?.copy_from_slice(&word.to_be_bytes());
        buf.get_mut(written + PLACE..len)?.copy_from_slice(bytes);
        Some(len)
    }

    /// The packet was sent.
    pub fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// The piece in a packet of a data track, the sound that it goes beside, and its bytes; `None` for a packet of anything else.
pub fn parse_data<'a>(view: &RtpView<'a>) -> Option<(u32, DataPlace, &'a [u8])> {
    let video = view.video.filter(|video| video.encoding.as_str() == DATA)?;
    let (place, bytes) = view.payload.split_first_chunk::<PLACE>()?;
    let word = u64::from_be_bytes(*place);
    let place = DataPlace {
        track: (word >> 56) as u8,
        offset: word & (MOST_DATA - 1),
        begins: word >> 48 & 1 == 1,
        ends: word >> 49 & 1 == 1,
    };
    Some((video.sound, place, bytes))
}

/// Bytes of a piece's place.
const PLACE: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::parse_rtp;

    #[test]
    fn a_piece_says_where_it_belongs() {
        let mut stream = DataStream::new(3, 126, 0x1122_3344, 1);
        let mut buf = [0; 100];
        let place = DataPlace { track: 3, offset: MOST_DATA - 1, begins: true, ends: false };
        for (place, bytes) in [(place, &b"abc"[..]), (DataPlace { ends: true, begins: false, ..place }, b"")]
        {
            let len = stream.packet(place, bytes, &mut buf).unwrap();
            let view = parse_rtp(&buf[..len], ExtensionIds::default()).unwrap();
            assert_eq!((len, view.ssrc, view.payload_type), (DATA_HEADER + bytes.len(), stream.ssrc(), 126));
            assert_eq!(parse_data(&view), Some((0x1122_3344, place, bytes)));
            let before = view.sequence;
            stream.advance();
            let len = stream.packet(place, bytes, &mut buf).unwrap();
            let after = parse_rtp(&buf[..len], ExtensionIds::default()).unwrap().sequence;
            assert_eq!(after, before.wrapping_add(1));
        }
        let far = DataPlace { offset: MOST_DATA, ..place };
        assert_eq!(stream.packet(far, b"abc", &mut buf), None);
        assert_eq!(stream.packet(place, b"abc", &mut buf[..DATA_HEADER + 2]), None);
        assert_ne!(DataStream::new(2, 126, 0, 1).ssrc(), DataStream::new(3, 126, 0, 1).ssrc());
    }

    #[test]
    fn packets_of_other_media_and_short_ones_are_no_pieces() {
        let stream = DataStream::new(0, 126, 7, 1);
        let mut buf = [0; 100];
        let len = stream.packet(DataPlace::default(), b"", &mut buf).unwrap();
        for cut in RTP_HEADER + 20..len {
            let view = parse_rtp(&buf[..cut], ExtensionIds::default());
            assert!(view.is_err() || parse_data(&view.unwrap()).is_none(), "{cut} bytes");
        }
        let pictures = crate::packet::VideoStream::new(EncodingName::new("VP8").unwrap(), 97, 7, 1);
        let (marking, ntp) = Default::default();
        let len = pictures.packet((0, marking), ntp, &[9; 20], &mut buf).unwrap();
        assert_eq!(parse_data(&parse_rtp(&buf[..len], ExtensionIds::default()).unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_packet_is_read_or_refused(
            changes in proptest::collection::vec((0_usize..DATA_HEADER + 9, any::<u8>()), 0..9),
            len in 0_usize..DATA_HEADER + 9,
        ) {
            let mut buf = [0; DATA_HEADER + 9];
            DataStream::new(0, 126, 7, 1).packet(DataPlace::default(), &[1; 9], &mut buf).unwrap();
            for (at, byte) in changes {
                buf[at] = byte;
            }
            let view = parse_rtp(&buf[..len], ExtensionIds::default());
            if let Some((_, place, bytes)) = view.ok().as_ref().and_then(parse_data) {
                prop_assert!(place.offset < MOST_DATA && bytes.len() + PLACE <= len);
            }
        }
    }
}

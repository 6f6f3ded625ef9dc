//! RTP packets of a video track: the header around a payload that its format has made.

use antiphon_core::{NtpTime, Rng};
use rtp_types::RtpPacketBuilder;

use super::extension::{self, Elements, MAX_BODY, ONE_BYTE_PROFILE};
use super::{EncodingName, ExtensionIds, InBandVideo, Marking, RTP_HEADER};

/// Numbers and names of a video track's packets.
#[derive(Clone, Debug)]
pub struct VideoStream {
    ssrc: u32,
    sequence: u16,
    timestamp_offset: u32,
    payload_type: u8,
    in_band: InBandVideo,
    /// SSRC and next number of packets that are sent again to a group.
    again: (u32, u16),
}

impl VideoStream {
    /// Sequence number, time stamp and SSRC start at random values drawn from `seed` (RFC 3550 §5.1, §8.1). `sound`: the
    /// SSRC of the sound that was captured with it.
    pub fn new(encoding: EncodingName, payload_type: u8, sound: u32, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "video");
        VideoStream {
            ssrc: rng.next_u32(),
            sequence: rng.next_u32() as u16,
            timestamp_offset: rng.next_u32(),
            payload_type: payload_type & 0x7f,
            in_band: InBandVideo { sound, encoding, track: 0, again: None },
            again: (rng.next_u32(), rng.next_u32() as u16),
        }
    }

    /// It is the sender's track of this number, 0 for the first.
    pub fn set_track(&mut self, track: u8) {
        self.in_band.track = track;
    }

    /// The track's synchronisation source.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Takes another SSRC after a collision (RFC 3550 §8.2), of this track or of its sound.
    pub fn set_ssrc(&mut self, ssrc: u32, sound: u32) {
        (self.ssrc, self.in_band.sound) = (ssrc, sound);
    }

    /// The RTP time stamp of what is shown so many ticks of [`VIDEO_CLOCK`] after the track began.
    pub fn timestamp_at(&self, ticks: u64) -> u32 {
        self.timestamp_offset.wrapping_add(ticks as u32)
    }

    /// Makes the next packet in `buf`; returns its length, or `None` where it does not fit. `ntp`: when the picture was
    /// captured. It is the next one until [`Self::advance`].
    pub fn packet(
        &self,
        (ticks, marking): (u64, Marking),
        ntp: NtpTime,
        payload: &[u8],
        buf: &mut [u8],
    ) -> Option<usize> {
        let len = VIDEO_HEADER + payload.len();
        let mut body = [0; MAX_BODY];
        let (ntp, video, marks) = (Some(ntp), Some(self.in_band), Some(marking));
        let elements = Elements { ntp, video, marking: marks, ..Elements::default() };
        let extension = extension::write(ExtensionIds::default(), &elements, &mut body);
        let header = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .marker_bit(marking.end)
            .payload_type(self.payload_type)
            .sequence_number(self.sequence)
            .timestamp(self.timestamp_at(ticks))
            .ssrc(self.ssrc)
            .extension(ONE_BYTE_PROFILE, &body[..extension]);
        let written = header.write_into(buf.get_mut(..VIDEO_HEADER)?).ok()?;
        buf.get_mut(written..len)?.copy_from_slice(payload);
        Some(len)
    }

    /// The SSRC of packets that are sent again to a group.
    pub fn again_ssrc(&self) -> u32 {
        self.again.0
    }

    /// Makes a packet of this track one that repeats it, beside the track: under an SSRC and a number of its own, as RFC 4588 has it, with the number
    /// that it had where receivers find it ([`InBandVideo::again`]). It is no byte longer. Returns its number, or `None` for a packet that has no room for that.
    pub fn repeat(&mut self, packet: &mut [u8]) -> Option<u16> {
        let (ssrc, number) = self.again;
        let name = packet.get_mut(NAME_AT..NAME_AT + 8)?;
        if name[4] != 0 || name[5] > 1 {
            return None;
        }
        let before = u16::from_be_bytes([packet[2], packet[3]]);
        let name = &mut packet[NAME_AT..NAME_AT + 8];
        if std::mem::replace(&mut name[5], 1) == 0 {
            name[6..].copy_from_slice(&before.to_be_bytes());
        }
        renumber(packet, number);
        packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
        self.again.1 = number.wrapping_add(1);
        Some(number)
    }

    /// The number of the next packet.
    pub fn number(&self) -> u16 {
        self.sequence
    }

    /// The packet was sent.
    pub fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// Gives an RTP packet another number (RFC 3550 §5.1).
pub fn renumber(packet: &mut [u8], number: u16) {
    if let Some(field) = packet.get_mut(2..4) {
        field.copy_from_slice(&number.to_be_bytes());
    }
}

/// A packet that repeats another gets back the name that it had: the SSRC of the track, and the number that [`InBandVideo::again`] tells.
pub fn restore(packet: &mut [u8], ssrc: u32, number: u16) {
    renumber(packet, number);
    if let Some(field) = packet.get_mut(8..12) {
        field.copy_from_slice(&ssrc.to_be_bytes());
    }
}

/// Where the encoding name stands in our packets: behind the headers, the clock, and the SSRC of the sound.
const NAME_AT: usize = RTP_HEADER + 4 + 9 + 1 + 4;

/// Bytes in front of a video payload: the RTP header, and its extension with the clock, the encoding name and the marks.
pub const VIDEO_HEADER: usize = RTP_HEADER + 4 + 28;

/// Rate of a video track's time stamps, in Hz, as its payload formats have it (RFC 6184, 7741, 9628, 2435).
pub const VIDEO_CLOCK: u32 = 90_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::parse_rtp;

    #[test]
    fn a_packet_says_what_it_is_of() {
        let encoding = EncodingName::new("H264").unwrap();
        let mut stream = VideoStream::new(encoding, 97, 0x1122_3344, 1);
        let (mut buf, ntp) = ([0; 100], NtpTime::from_bits(7 << 32));
        let begins = Marking { start: true, independent: true, ..Marking::default() };
        let ends = Marking { end: true, ..Marking::default() };
        let first = stream.packet((0, begins), ntp, b"abc", &mut buf).unwrap();
        let parsed = parse_rtp(&buf[..first], ExtensionIds::default()).unwrap();
        let (sequence, timestamp) = (parsed.sequence, parsed.timestamp);
        assert_eq!((first, parsed.payload, parsed.marker), (VIDEO_HEADER + 3, &b"abc"[..], false));
        assert_eq!((parsed.payload_type, parsed.ntp, parsed.ssrc), (97, Some(ntp), stream.ssrc()));
        assert_eq!(parsed.marking, Some(begins));
        assert_eq!(parsed.video, Some(InBandVideo { sound: 0x1122_3344, encoding, track: 0, again: None }));
        stream.set_track(3);
        let other = stream.packet((0, begins), ntp, b"abc", &mut buf).unwrap();
        let parsed = parse_rtp(&buf[..other], ExtensionIds::default()).unwrap();
        assert_eq!((other, parsed.video.map(|video| video.track)), (first, Some(3)), "no byte longer");
        stream.set_track(0);
        let again = stream.packet((0, begins), ntp, b"abc", &mut buf).unwrap();
        assert_eq!(parse_rtp(&buf[..again], ExtensionIds::default()).unwrap().sequence, sequence);
        stream.advance();
        let second = stream.packet((3_000, ends), ntp, b"d", &mut buf).unwrap();
        let parsed = parse_rtp(&buf[..second], ExtensionIds::default()).unwrap();
        assert_eq!(parsed.sequence, sequence.wrapping_add(1));
        assert_eq!((parsed.timestamp.wrapping_sub(timestamp), parsed.marker), (3_000, true));
    }

    #[test]
    fn a_packet_that_repeats_another_has_a_name_of_its_own_and_tells_that_of_the_other() {
        let mut stream = VideoStream::new(EncodingName::new("H264").unwrap(), 97, 5, 1);
        stream.set_track(2);
        let mut buf = [0; VIDEO_HEADER + 3];
        let marking = Marking { start: true, independent: true, ..Marking::default() };
        let len = stream.packet((7, marking), NtpTime::from_bits(9), b"abc", &mut buf).unwrap();
        let sent = buf;
        let read = |bytes: &[u8]| parse_rtp(bytes, ExtensionIds::default()).unwrap().video.unwrap();
        assert_eq!(read(&sent[..len]).again, None);
        // Again and again: it is always the first number that is told.
        let numbers = [0, 1].map(|_| stream.repeat(&mut buf[..len]).unwrap());
        assert_eq!(numbers[1], numbers[0].wrapping_add(1));
        let view = parse_rtp(&buf[..len], ExtensionIds::default()).unwrap();
        assert_eq!((view.ssrc, view.sequence, view.payload), (stream.again_ssrc(), numbers[1], &b"abc"[..]));
        assert_eq!((view.marking, view.ntp), (Some(marking), Some(NtpTime::from_bits(9))));
        let told = InBandVideo { again: Some(stream.number()), ..read(&sent[..len]) };
        assert_eq!(view.video, Some(told));
        restore(&mut buf[..len], stream.ssrc(), stream.number());
        assert_eq!(buf[..NAME_AT + 5], sent[..NAME_AT + 5]);
        assert_eq!(buf[NAME_AT + 8..], sent[NAME_AT + 8..]);
        // A name that leaves no room, and what is no packet.
        let long = VideoStream::new(EncodingName::new("ABCDEFGH").unwrap(), 97, 5, 1);
        long.packet((7, marking), NtpTime::from_bits(9), b"abc", &mut buf).unwrap();
        assert_eq!((stream.repeat(&mut buf), stream.repeat(&mut [0; 20])), (None, None));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let stream = VideoStream::new(EncodingName::new("VP8").unwrap(), 97, 0, 1);
        let ntp = NtpTime::from_bits(0);
        assert_eq!(stream.packet((0, Marking::default()), ntp, &[0; 10], &mut [0; VIDEO_HEADER + 9]), None);
        assert_eq!(stream.packet((0, Marking::default()), ntp, &[], &mut [0; 20]), None);
    }
}

//! Header extensions (RFC 8285, one-byte form): the sender's clock, the format in band, the channel group, and what a
//! picture is coded in.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------------------------------------------+
//! |  ID   | L = 7 |  NTP seconds (32), fraction (32): RFC 6051    |
//! +-------+-------+-----------------------------------------------+
//! |  ID   | L = 5 |Version|Coding |         rate in Hz (20)       |
//! +-------+-------+-------+-------+-------+-----------------------+
//! |  .. rate      |  channels - 1 (8)     |  frames - 1 (12)      |
//! +---------------+---------------+-------+-----------------------+
//! |  ID   | L = 13|  group index  | channels - 1  |   SSRC of ..  |
//! +-------+-------+---------------+---------------+---------------+
//! |  .. the first group (32)                      |  starts (64)  |
//! +-----------------------------------------------+---------------+
//! |  .. bit c counted from the lowest: a group begins with channel c
//! +---------------------------------------------------------------
//! ```
//!
//! The second element is ours. With it a receiver plays our own sender without any SDP. `Version` is 0; `Coding` is the
//! index in [`Coding::ALL`]; `frames` are the sample frames of a block of the sender. With the clock it fills
//! four words without padding; the clock alone takes three.
//!
//! The third is also ours, and accompanies the second in streams that are divided into channel groups: the index of
//! this group, the number of channels in all, how they are divided, and the SSRC of the first group, which identifies
//! the sender of all of them. One such packet describes the whole stream.
//!
//! ```text
//! +-------+-------+-----------------------------------------------+
//! |  ID   | L = 11|  SSRC of the sound, or 0 without any (32)     |
//! +-------+-------+-----------------------------------------------+
//! |  .. SSRC      |  encoding name (64), filled up with zeros     |
//! +---------------+-----------------------------------------------+
//! |  track        |  where it is not the sender's first
//! +---------------+
//! ```
//!
//! The fourth, ours as well, is in every packet of a video track and in no other: the encoding name of its payload format
//! as SDP has it (`H264`, `VP8`), and the sound that it belongs to. Of a sender with several tracks L is 12 in those behind the first, whose
//! number follows. A packet that is sent again to a group (RFC 4588 keeps such a stream apart by its SSRC, too) has, where the name leaves room,
//! a one in the sixth byte of the name and the number of the packet that it repeats in the last two.

use antiphon_core::NtpTime;

use super::Marking;
use crate::{ChannelGroups, Coding, StreamFormat};

/// Which header extension elements to write and to look for: local identifiers 1 to 14 (RFC 8285 §4.2), `None` to omit
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtensionIds {
    /// The 64-bit NTP time of sending (RFC 6051), [`Self::NTP_URI`].
    pub ntp: Option<u8>,
    /// The format in band, [`Self::FORMAT_URI`].
    pub format: Option<u8>,
    /// The channel group, [`Self::GROUP_URI`].
    pub group: Option<u8>,
    /// What a picture is coded in.
    pub video: Option<u8>,
    /// Marks of a video frame ([`Marking`]).
    pub marking: Option<u8>,
}

impl ExtensionIds {
    /// What SDP calls the sender's clock (RFC 6051 §3.3).
    pub const NTP_URI: &'static str = "urn:ietf:params:rtp-hdrext:ntp-64";
    /// What SDP calls the format in band.
    pub const FORMAT_URI: &'static str = "urn:x-antiphon:rtp-hdrext:format";
    /// What SDP calls the channel group.
    pub const GROUP_URI: &'static str = "urn:x-antiphon:rtp-hdrext:group";
    /// Identifier of our picture element in SDP `extmap`.
    pub const VIDEO_URI: &'static str = "urn:x-antiphon:rtp-hdrext:video";
    /// No extension at all.
    pub const NONE: ExtensionIds =
        ExtensionIds { ntp: None, format: None, group: None, video: None, marking: None };
    /// Clock 1 and format 2: what an undivided stream writes.
    pub const UNDIVIDED: ExtensionIds =
        ExtensionIds { ntp: Some(1), format: Some(2), group: None, video: None, marking: None };

    /// Whether all are 1 to 14 and distinct.
    pub fn are_valid(self) -> bool {
        let ids = [self.ntp, self.format, self.group, self.video, self.marking];
        let twice = |at: usize| ids[at].is_some() && ids[..at].contains(&ids[at]);
        ids.iter().flatten().all(|id| (1..=14).contains(id)) && !(0..ids.len()).any(twice)
    }

    /// Bytes of the extension with all elements, its own header included.
    pub fn max_len(self) -> usize {
        let body = self.ntp.map_or(0, |_| 1 + NTP_BYTES)
            + self.format.map_or(0, |_| 1 + InBandFormat::BYTES)
            + self.group.map_or(0, |_| 1 + InBandGroup::BYTES);
        if body == 0 { 0 } else { 4 + body.next_multiple_of(4) }
    }
}

impl Default for ExtensionIds {
    /// Clock 1, format 2, group 3: what our receivers look for.
    fn default() -> Self {
        ExtensionIds { group: Some(3), video: Some(4), marking: Some(5), ..Self::UNDIVIDED }
    }
}

/// Contents of every sixteenth packet that our senders send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InBandFormat {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How packets hold the sound.
    pub coding: Coding,
    /// Sample frames in a block of the sender, 1 to 4096; a packet holds a block or a part of one.
    pub block_frames: u16,
}

impl InBandFormat {
    /// Bytes of the element's data.
    const BYTES: usize = 6;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let coding = Coding::ALL.iter().position(|coding| *coding == self.coding).unwrap_or(0) as u64;
        let bits = (coding << 40)
            | (u64::from(self.format.rate()) << 20)
            | ((self.format.channels() as u64 - 1) << 12)
            | u64::from(self.block_frames.clamp(1, 4096) - 1);
        let bytes = bits.to_be_bytes();
        [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
    }

    /// `None` for another version, an unknown coding, or numbers that Antiphon does not carry.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Self::BYTES] = bytes.try_into().ok()?;
        let bits = bytes.iter().fold(0u64, |bits, b| (bits << 8) | u64::from(*b));
        if bits >> 44 != 0 {
            return None;
        }
        let coding = *Coding::ALL.get((bits >> 40) as usize & 15)?;
        let format =
            StreamFormat::new((bits >> 20) as u32 & 0xf_ffff, ((bits >> 12) as u32 & 0xff) + 1).ok()?;
        coding.check(format).ok()?;
        Some(InBandFormat { coding, format, block_frames: (bits as u16 & 0xfff) + 1 })
    }
}

/// The part of a divided stream to which a packet belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InBandGroup {
    /// The SSRC of the first group, which identifies the sender of all groups.
    pub sender: u32,
    /// Which of `groups`, below their count.
    pub index: u8,
    /// How all channels are divided.
    pub groups: ChannelGroups,
}

impl InBandGroup {
    /// Bytes of the element's data.
    const BYTES: usize = 14;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.index, self.groups.channels() as u8 - 1);
        bytes[2..6].copy_from_slice(&self.sender.to_be_bytes());
        bytes[6..].copy_from_slice(&self.groups.starts().to_be_bytes());
        bytes
    }

    /// `None` for an invalid division, or a group outside it.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Self::BYTES] = bytes.try_into().ok()?;
        let [index, channels, s0, s1, s2, s3, starts @ ..] = bytes;
        let groups = ChannelGroups::from_starts(usize::from(channels) + 1, u64::from_be_bytes(starts))?;
        let sender = u32::from_be_bytes([s0, s1, s2, s3]);
        (usize::from(index) < groups.count()).then_some(InBandGroup { sender, index, groups })
    }
}

/// What a picture is coded in, and which sound it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InBandVideo {
    /// SSRC of the sound that was captured with it; 0 without any.
    pub sound: u32,
    /// Encoding name of its payload format.
    pub encoding: EncodingName,
    /// Which of the sender's video tracks, 0 for the first.
    pub track: u8,
    /// The number of the packet that this one repeats, under another SSRC. Names of at most four letters leave room for it.
    pub again: Option<u16>,
}

impl InBandVideo {
    const BYTES: usize = 12;

    fn to_bytes(self) -> [u8; Self::BYTES + 1] {
        let mut bytes = [0; Self::BYTES + 1];
        bytes[..4].copy_from_slice(&self.sound.to_be_bytes());
        bytes[4..Self::BYTES].copy_from_slice(&self.encoding.0);
        if let (Some(number), [0, 0, ..]) = (self.again, &bytes[AGAIN - 1..]) {
            bytes[AGAIN] = 1;
            bytes[AGAIN + 1..Self::BYTES].copy_from_slice(&number.to_be_bytes());
        }
        bytes[Self::BYTES] = self.track;
        bytes
    }

    /// Bytes of the element.
    fn len(self) -> usize {
        Self::BYTES + usize::from(self.track > 0)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, track) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let (sound, name) = fixed.split_first_chunk::<4>()?;
        let again = match fixed[AGAIN - 1..] {
            [0, 1, first, second] => Some(u16::from_be_bytes([first, second])),
            _ => None,
        };
        let name = name.iter().position(|byte| *byte == 0).map_or(name, |end| &name[..end]);
        let encoding = EncodingName::new(std::str::from_utf8(name).ok()?)?;
        let track = match track {
            [] => 0,
            [track] if *track > 0 => *track,
            _ => return None,
        };
        Some(InBandVideo { sound: u32::from_be_bytes(*sound), encoding, track, again })
    }
}

/// Where in the element it stands whether the packet repeats another, and which.
const AGAIN: usize = 9;

/// The name of a payload format in SDP's `rtpmap`, of at most eight letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodingName([u8; 8]);

impl EncodingName {
    /// `None` if it is empty, too long, or has other characters.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        valid.then_some(EncodingName(bytes))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..len]).expect("it has letters and digits alone")
    }
}

impl std::fmt::Debug for EncodingName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The elements of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Elements {
    pub ntp: Option<NtpTime>,
    pub format: Option<InBandFormat>,
    pub group: Option<InBandGroup>,
    pub video: Option<InBandVideo>,
    pub marking: Option<Marking>,
}

/// The profile of header extensions with one-byte element headers (RFC 8285 §4.2).
pub(super) const ONE_BYTE_PROFILE: u16 = 0xbede;
const NTP_BYTES: usize = 8;
/// All three elements, padded.
pub(super) const MAX_BODY: usize = 32;

/// Writes the elements that are present and have an identifier; returns the whole words written.
pub(super) fn write(ids: ExtensionIds, elements: &Elements, out: &mut [u8; MAX_BODY]) -> usize {
    let mut len = 0;
    let mut put = |id: u8, data: &[u8]| {
        out[len] = (id << 4) | (data.len() as u8 - 1);
        out[len + 1..len + 1 + data.len()].copy_from_slice(data);
        len += 1 + data.len();
    };
    if let (Some(id), Some(ntp)) = (ids.ntp, elements.ntp) {
        put(id, &ntp.to_bits().to_be_bytes());
    }
    if let (Some(id), Some(format)) = (ids.format, elements.format) {
        put(id, &format.to_bytes());
    }
    if let (Some(id), Some(group)) = (ids.group, elements.group) {
        put(id, &group.to_bytes());
    }
    if let (Some(id), Some(video)) = (ids.video, elements.video) {
        put(id, &video.to_bytes()[..video.len()]);
    }
    if let (Some(id), Some(marking)) = (ids.marking, elements.marking) {
        put(id, &marking.to_bytes());
    }
    let padded = len.next_multiple_of(4);
    out[len..padded].fill(0);
    padded
}

/// Looks for our elements among what the peer wrote. Truncated or unknown elements are skipped, as RFC 8285 §4.1.2
/// asks.
pub(super) fn read(ids: ExtensionIds, mut body: &[u8]) -> Elements {
    let mut found = Elements::default();
    while let [head, rest @ ..] = body {
        let (id, len) = (head >> 4, usize::from(head & 15) + 1);
        match id {
            // One byte of padding.
            0 => body = rest,
            // Reserved: stop here (RFC 8285 §4.2).
            15 => break,
            _ => {
                let Some((data, after)) = rest.split_at_checked(len) else {
                    break;
                };
                if ids.ntp == Some(id) {
                    found.ntp = data.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
                } else if ids.format == Some(id) {
                    found.format = InBandFormat::from_bytes(data);
                } else if ids.group == Some(id) {
                    found.group = InBandGroup::from_bytes(data);
                } else if ids.video == Some(id) {
                    found.video = InBandVideo::from_bytes(data);
                } else if ids.marking == Some(id) {
                    found.marking = Marking::from_bytes(data);
                }
                body = after;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clock_agrees_with_the_checked_vector() {
        // bede0003 17e5a1b2c380000000 000000, which an analyser reads as ntp-64.
        let mut body = [0xff; MAX_BODY];
        let ids = ExtensionIds::default();
        let ntp = Some(NtpTime::from_bits(0xe5a1_b2c3_8000_0000));
        let len = write(ids, &Elements { ntp, ..Elements::default() }, &mut body);
        assert_eq!(body[..len], [0x17, 0xe5, 0xa1, 0xb2, 0xc3, 0x80, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(ids, &body[..len]).ntp, ntp);
    }

    #[test]
    fn identifiers_are_checked() {
        let ids =
            |ntp, format| ExtensionIds { ntp, format, group: Some(7), ..ExtensionIds::NONE }.are_valid();
        assert!(ids(Some(1), Some(14)) && ids(None, None));
        assert!(!ids(Some(0), None) && !ids(Some(15), None) && !ids(Some(3), Some(3)));
        assert!(!ids(Some(7), None) && !ids(None, Some(7)));
        // Four bytes of header, and 16 or 31 of elements: groups cost an undivided stream nothing.
        assert_eq!((ExtensionIds::UNDIVIDED.max_len(), ExtensionIds::default().max_len()), (20, 36));
        assert_eq!(ExtensionIds::NONE.max_len(), 0);
    }

    #[test]
    fn opus_is_told_only_as_it_can_be() {
        let told = |rate, channels| {
            let format = StreamFormat::new(rate, channels).unwrap();
            let bytes = InBandFormat { format, coding: Coding::Opus, block_frames: 960 }.to_bytes();
            InBandFormat::from_bytes(&bytes).map(|told| (told.coding, told.block_frames))
        };
        assert_eq!(told(48_000, 2), Some((Coding::Opus, 960)));
        assert_eq!((told(44_100, 2), told(48_000, 3)), (None, None));
    }

    #[test]
    fn encoding_names_are_short_words() {
        let valid = |name| EncodingName::new(name).is_some();
        assert!(valid("H264") && valid("VP8") && valid("12345678"));
        assert!(!valid("") && !valid("123456789") && !valid("H 264") && !valid("\u{1b}[2J") && !valid("é"));
        let read = |name: &[u8]| InBandVideo::from_bytes(&[&[0; 4], name].concat());
        assert_eq!(read(b"VP8\0\0\0\0\0").unwrap().encoding.as_str(), "VP8");
        assert!(read(b"VP8").is_none() && read(&[0; 8]).is_none() && read(b"VP8\n\0\0\0\0").is_none());
    }

    #[test]
    fn padding_is_skipped_and_the_reserved_id_ends_the_list() {
        let clock = [0x17, 0, 0, 0, 5, 0, 0, 0, 0];
        let body = |before: &[u8]| [before, &clock].concat();
        let ids = ExtensionIds::default();
        let expected = Some(NtpTime::from_bits(5 << 32));
        assert_eq!(read(ids, &body(&[])).ntp, expected);
        assert_eq!(read(ids, &body(&[0, 0])).ntp, expected);
        assert_eq!(read(ids, &body(&[0x91, 1, 2])).ntp, expected, "an element of others");
        assert_eq!(read(ids, &body(&[0xf0, 1])).ntp, None);
    }

    proptest! {
        #[test]
        fn formats_round_trip(rate in 8_000u32..=192_000, channels in 1u32..=64, coding in 0usize..6, frames in 1u16..=4096, clock in any::<u64>()) {
            let coding = Coding::ALL[coding];
            let (rate, channels) = if coding == Coding::Opus { (48_000, channels.min(2)) } else { (rate, channels) };
            let format = StreamFormat::new(rate, channels).unwrap();
            let format = InBandFormat { format, coding, block_frames: frames };
            let mut body = [0; MAX_BODY];
            let elements = Elements { ntp: Some(NtpTime::from_bits(clock)), format: Some(format), group: None, video: None, marking: None };
            let len = write(ExtensionIds::default(), &elements, &mut body);
            prop_assert_eq!(len, 16);
            prop_assert_eq!(read(ExtensionIds::default(), &body), elements);
        }

        #[test]
        fn groups_round_trip(channels in 1usize..=64, starts in any::<u64>(), sender in any::<u32>(), index in any::<u8>()) {
            let starts = (starts | 1) & (u64::MAX >> (64 - channels));
            let groups = ChannelGroups::from_starts(channels, starts).unwrap();
            let index = index % groups.count() as u8;
            let group = Some(InBandGroup { sender, index, groups });
            let mut body = [0; MAX_BODY];
            let elements = Elements { ntp: Some(NtpTime::from_bits(1)), group, ..Elements::default() };
            let len = write(ExtensionIds::default(), &elements, &mut body);
            prop_assert_eq!(len, 24);
            prop_assert_eq!(read(ExtensionIds::default(), &body[..len]), elements);
            // A group outside the division.
            let beyond = body.iter().position(|b| *b == 0x3d).unwrap() + 1;
            body[beyond] = groups.count() as u8;
            prop_assert_eq!(read(ExtensionIds::default(), &body[..len]).group, None);
        }

        #[test]
        fn pictures_round_trip(name in "[A-Za-z0-9]{1,8}", sound in any::<u32>(), track in any::<u8>(), again in any::<Option<u16>>()) {
            let encoding = EncodingName::new(&name).unwrap();
            let again = again.filter(|_| name.len() <= 4);
            let video = Some(InBandVideo { sound, encoding, track, again });
            let mut body = [0; MAX_BODY];
            let marking = Some(Marking { start: true, temporal_layer: (sound % 8) as u8, base_pictures: sound as u8, ..Marking::default() });
            let elements = Elements { ntp: Some(NtpTime::from_bits(1)), video, marking, ..Elements::default() };
            let len = write(ExtensionIds::default(), &elements, &mut body);
            prop_assert_eq!(len, 28);
            prop_assert_eq!(read(ExtensionIds::default(), &body[..len]), elements);
            prop_assert_eq!(encoding.as_str(), name);
        }

        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let found = read(ExtensionIds::default(), &body);
            prop_assert!(found.format.is_none_or(|f| f.block_frames <= 4096));
            prop_assert!(found.group.is_none_or(|g| usize::from(g.index) < g.groups.count()));
        }
    }
}

//! The bytes of a voice datum: an RTP packet (RFC 3550 §5.1) of payload type 0, PCMU (RFC 3551 §4.5.14), or 13, comfort
//! noise (RFC 3389), or 111, Opus (RFC 7587, whose clock counts 48 000 a second; the number is not fixed, and this one usual).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+-+-------+-+-------------+-------------------------------+
//! |V=2|0|0|   0   |M|      PT     |        sequence number        |
//! +---+-+-+-------+-+-------------+-------------------------------+
//! |         time stamp: bytes of this channel before it           |
//! +-------------------------------+-------------------------------+
//! |  SSRC: of all of a sender's   |      number of the channel    |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! A sender draws the upper half of its SSRCs, which is the same for all its channels, so that a receiver needs neither a
//! table nor signalling to know a datum's channel. The marker says that the datum begins a talk spurt.
//!
//! Channels from 65 536 on are on a *page* of their own: the upper half of their SSRCs is greater by the page's number, as SSRCs are unique, and
//! bit X announces a header extension without data, whose identifier names the page (RFC 3550 §5.3.1 leaves these 16 bits to the
//! profile, for parameters as well):
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |  0xc4 (8)     |    page (8)   |            length: 0          |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! A receiver that knows nothing of pages takes them for data of another sender: it hears the first 65 536 channels and counts
//! all others as malformed.

use super::silence::NoiseLevel;
use crate::packet::{ExtensionIds, RTP_HEADER, parse_rtp};

/// Most bytes in front of a datum's voice.
pub const VOICE_HEADER: usize = RTP_HEADER + PAGE_HEADER;

/// The most channels of a sender: two pages of those that the lower half of an SSRC tells apart.
pub const MOST_CHANNELS: usize = 2 << PAGE_BITS;

/// A voice datum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Datum<'a> {
    /// The upper half of the SSRCs of its first page.
    pub sender: u16,
    /// Its channel, below [`MOST_CHANNELS`].
    pub channel: u32,
    /// Counts the channel's packets.
    pub sequence: u16,
    /// Bytes of the channel before this datum, from a random number on; of Opus six times as many.
    pub timestamp: u32,
    /// Whether it begins a talk spurt.
    pub marker: bool,
    /// What it carries.
    pub content: VoiceContent<'a>,
}

/// What a datum carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum VoiceContent<'a> {
    /// Bytes of mu-law.
    Sound(&'a [u8]),
    /// A packet of Opus.
    Opus(&'a [u8]),
    /// A pause begins or goes on: nothing is sent until the next talk spurt, and this noise is heard meanwhile.
    Pause(NoiseLevel),
}

/// Writes the header of a datum in front of its voice, which the caller places behind it; of a pause all of it. Returns the
/// bytes written, or `None` if `buf` is too small.
pub fn write_voice_header(datum: &Datum<'_>, buf: &mut [u8]) -> Option<usize> {
    let (payload_type, level) = match datum.content {
        VoiceContent::Sound(_) => (PCMU, None),
        VoiceContent::Opus(_) => (OPUS, None),
        VoiceContent::Pause(level) => (COMFORT_NOISE, Some(level)),
    };
    let header = voice_header_len(datum.channel);
    let buf = buf.get_mut(..header + usize::from(level.is_some()))?;
    buf[0] = VERSION_2;
    if header > RTP_HEADER {
        buf[0] |= EXTENDED;
        buf[RTP_HEADER..header].copy_from_slice(&[PAGE, page_of(datum.channel) as u8, 0, 0]);
    }
    buf[1] = u8::from(datum.marker) << 7 | payload_type;
    buf[2..4].copy_from_slice(&datum.sequence.to_be_bytes());
    buf[4..8].copy_from_slice(&datum.timestamp.to_be_bytes());
    buf[8..12].copy_from_slice(&voice_ssrc(datum.sender, datum.channel).to_be_bytes());
    if let Some(level) = level {
        buf[header] = level.to_byte();
    }
    Some(buf.len())
}

/// Bytes in front of the voice of a datum of this channel.
pub fn voice_header_len(channel: u32) -> usize {
    RTP_HEADER + if page_of(channel) > 0 { PAGE_HEADER } else { 0 }
}

/// The SSRC of a sender's channel.
pub fn voice_ssrc(sender: u16, channel: u32) -> u32 {
    u32::from(sender.wrapping_add(page_of(channel) as u16)) << PAGE_BITS | channel & CHANNEL_OF_PAGE
}

/// The channel of a sender that has this SSRC, whatever its page.
pub fn voice_channel(sender: u16, ssrc: u32) -> Option<u32> {
    let page = u32::from(((ssrc >> PAGE_BITS) as u16).wrapping_sub(sender));
    (page < PAGES).then_some(page << PAGE_BITS | ssrc & CHANNEL_OF_PAGE)
}

fn page_of(channel: u32) -> u32 {
    channel >> PAGE_BITS
}

/// The page that a packet names; `None` for one that there is not.
fn named_page(packet: &[u8]) -> Option<u32> {
    let named = packet.get(RTP_HEADER + 4 * usize::from(packet[0] & CONTRIBUTORS)..)?;
    match named {
        // A header extension of somebody else's means nothing here.
        [PAGE, page, 0, 0, ..] if packet[0] & EXTENDED != 0 => {
            Some(u32::from(*page)).filter(|page| (1..PAGES).contains(page))
        }
        _ => Some(0),
    }
}

/// Reads a datum; `None` for anything else, an empty one included.
pub fn parse_voice(bytes: &[u8]) -> Option<Datum<'_>> {
    let packet = parse_rtp(bytes, ExtensionIds::default()).ok()?;
    let content = match (packet.payload_type, packet.payload) {
        (PCMU, sound) if !sound.is_empty() => VoiceContent::Sound(sound),
        (OPUS, packet) if !packet.is_empty() => VoiceContent::Opus(packet),
        // The spectrum behind the level may be left out by a sender, and ignored by a receiver (RFC 3389 §3).
        (COMFORT_NOISE, [level, ..]) => VoiceContent::Pause(NoiseLevel::from_byte(*level)),
        _ => return None,
    };
    let page = named_page(bytes)?;
    Some(Datum {
        sender: ((packet.ssrc >> PAGE_BITS) as u16).wrapping_sub(page as u16),
        channel: page << PAGE_BITS | packet.ssrc & CHANNEL_OF_PAGE,
        sequence: packet.sequence,
        timestamp: packet.timestamp,
        marker: packet.marker,
        content,
    })
}

const VERSION_2: u8 = 0x80;
/// A header extension follows.
const EXTENDED: u8 = 0x10;
/// How many contributing sources stand before it.
const CONTRIBUTORS: u8 = 0x0f;
/// Begins the identifier of a header extension that names a page.
const PAGE: u8 = 0xc4;
const PAGE_HEADER: usize = 4;
/// Bits of an SSRC that tell the channels of a page apart.
const PAGE_BITS: u32 = 16;
const CHANNEL_OF_PAGE: u32 = (1 << PAGE_BITS) - 1;
const PAGES: u32 = (MOST_CHANNELS >> PAGE_BITS) as u32;
/// RFC 3551 §6, table 4.
const PCMU: u8 = 0;
/// RFC 3389 §4.
const COMFORT_NOISE: u8 = 13;
/// The number that most senders of Opus choose (RFC 7587 leaves it to them).
const OPUS: u8 = 111;
/// Time stamps of Opus in a byte of mu-law.
pub const OPUS_TICKS: u32 = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{PacketKind, classify};

    fn bytes_of(datum: &Datum<'_>) -> Vec<u8> {
        let mut buf = vec![0; VOICE_HEADER + 1];
        let len = write_voice_header(datum, &mut buf).expect("room");
        buf.truncate(len);
        if let VoiceContent::Sound(sound) | VoiceContent::Opus(sound) = datum.content {
            buf.extend(sound);
        }
        buf
    }

    #[test]
    fn the_bytes_are_those_of_rfc_3550_and_3389() {
        let sound = VoiceContent::Sound(&[1, 2, 3]);
        let (sender, channel, sequence) = (0xabcd, 0x0102, 0x0304);
        let datum = Datum { sender, channel, sequence, timestamp: 0x0506_0708, marker: true, content: sound };
        let bytes = b"\x80\x80\x03\x04\x05\x06\x07\x08\xab\xcd\x01\x02\x01\x02\x03";
        assert_eq!(bytes_of(&datum), bytes);
        assert_eq!(classify(bytes), Some(PacketKind::Rtp));
        let pause = Datum { content: VoiceContent::Pause(NoiseLevel::of_db(-60.0)), marker: false, ..datum };
        assert_eq!(bytes_of(&pause), b"\x80\x0d\x03\x04\x05\x06\x07\x08\xab\xcd\x01\x02\x3c");
        assert_eq!(write_voice_header(&pause, &mut [0; RTP_HEADER]), None);
    }

    #[test]
    fn channels_behind_the_first_page_name_theirs() {
        let sound = VoiceContent::Sound(&[1, 2, 3]);
        let (sender, channel, sequence) = (0xffff, 0x1_0102, 0x0304);
        let datum =
            Datum { sender, channel, sequence, timestamp: 0x0506_0708, marker: false, content: sound };
        let bytes = b"\x90\x00\x03\x04\x05\x06\x07\x08\x00\x00\x01\x02\xc4\x01\x00\x00\x01\x02\x03";
        assert_eq!(bytes_of(&datum), bytes);
        assert_eq!(parse_voice(bytes), Some(datum));
        assert_eq!((voice_header_len(0xffff), voice_header_len(channel)), (12, 16));
        assert_eq!(voice_channel(sender, voice_ssrc(sender, channel)), Some(channel));
        assert_eq!((voice_channel(7, 0x0007_0001), voice_channel(7, 0x0006_0001)), (Some(1), None));
        // Pages that there are not: one behind the last, and the first, which needs no name.
        for page in [0, 2, 255] {
            let mut wrong = bytes.to_vec();
            wrong[13] = page;
            assert_eq!(parse_voice(&wrong), None, "page {page}");
        }
        // An extension of others is passed over, and so are contributing sources.
        let other = b"\x90\x00\x03\x04\x05\x06\x07\x08\x00\x00\x01\x02\xbe\xde\x00\x00\x01";
        assert_eq!(parse_voice(other).map(|datum| (datum.sender, datum.channel)), Some((0, 0x0102)));
        let mixed = [&b"\x91"[..], &bytes[1..12], &[9; 4], &bytes[12..]].concat();
        assert_eq!(parse_voice(&mixed).map(|datum| (datum.sender, datum.channel)), Some((0xffff, channel)));
    }

    proptest! {
        #[test]
        fn data_are_read_as_written(
            sender: u16, channel in 0..MOST_CHANNELS as u32, sequence: u16, timestamp: u32, marker: bool,
            sound in prop::collection::vec(any::<u8>(), 1..50), level in 0u8..128, kind in 0..3,
        ) {
            let content = match kind {
                0 => VoiceContent::Pause(NoiseLevel::from_byte(level)),
                1 => VoiceContent::Sound(&sound),
                _ => VoiceContent::Opus(&sound),
            };
            let datum = Datum { sender, channel, sequence, timestamp, marker, content };
            let bytes = bytes_of(&datum);
            prop_assert_eq!(parse_voice(&bytes), Some(datum));
        }

        #[test]
        fn hostile_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _read_or_refused = parse_voice(&bytes);
        }
    }
}

//! Header extensions (RFC 8285, one-byte form): the sender's clock, and the format in band.
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
//! +---------------+-----------------------+-----------------------+
//! ```
//!
//! The second element is ours. It lets a receiver play our own sender without any SDP. `Version` is 0; `Coding` counts
//! the sample formats in the order of [`SampleFormat::ALL`]; `frames` are the sample frames of a block of the sender.
//! With the clock it fills four words without padding; the clock alone takes three.

use antiphon_core::NtpTime;

use crate::{SampleFormat, StreamFormat};

/// Which header extension elements to write and to look for: local identifiers 1 to 14 (RFC 8285 §4.2), `None` to do
/// without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtensionIds {
    /// The 64-bit NTP time of sending (RFC 6051), [`Self::NTP_URI`].
    pub ntp: Option<u8>,
    /// The format in band, [`Self::FORMAT_URI`].
    pub format: Option<u8>,
}

impl ExtensionIds {
    /// What SDP calls the sender's clock (RFC 6051 §3.3).
    pub const NTP_URI: &'static str = "urn:ietf:params:rtp-hdrext:ntp-64";
    /// What SDP calls the format in band.
    pub const FORMAT_URI: &'static str = "urn:x-antiphon:rtp-hdrext:format";
    /// No extension at all.
    pub const NONE: ExtensionIds = ExtensionIds { ntp: None, format: None };

    /// Whether both are 1 to 14 and different.
    pub fn are_valid(self) -> bool {
        let fits = |id: Option<u8>| id.is_none_or(|id| (1..=14).contains(&id));
        fits(self.ntp) && fits(self.format) && (self.ntp.is_none() || self.ntp != self.format)
    }

    /// Bytes that the extension takes when everything is in it, its own header included.
    pub fn max_len(self) -> usize {
        let body = self.ntp.map_or(0, |_| 1 + NTP_BYTES) + self.format.map_or(0, |_| 1 + InBandFormat::BYTES);
        if body == 0 { 0 } else { 4 + body.next_multiple_of(4) }
    }
}

impl Default for ExtensionIds {
    /// Clock 1, format 2.
    fn default() -> Self {
        ExtensionIds { ntp: Some(1), format: Some(2) }
    }
}

/// What our sender says of its stream in every sixteenth packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InBandFormat {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How samples are stored.
    pub sample: SampleFormat,
    /// Sample frames in a block of the sender, 1 to 4096; a packet holds a block or a part of one.
    pub block_frames: u16,
}

impl InBandFormat {
    /// Bytes of the element's data.
    const BYTES: usize = 6;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let coding = SampleFormat::ALL.iter().position(|f| *f == self.sample).unwrap_or(0) as u64;
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
        Some(InBandFormat {
            sample: *SampleFormat::ALL.get((bits >> 40) as usize & 15)?,
            format: StreamFormat::new((bits >> 20) as u32 & 0xf_ffff, ((bits >> 12) as u32 & 0xff) + 1)
                .ok()?,
            block_frames: (bits as u16 & 0xfff) + 1,
        })
    }
}

/// The profile of RFC 8285 §4.2.
pub(super) const ONE_BYTE_PROFILE: u16 = 0xbede;
const NTP_BYTES: usize = 8;
/// Both elements, padded.
pub(super) const MAX_BODY: usize = 16;

/// Writes the elements that are wanted and have an identifier; returns the whole words written.
pub(super) fn write(
    ids: ExtensionIds,
    ntp: NtpTime,
    format: Option<InBandFormat>,
    out: &mut [u8; MAX_BODY],
) -> usize {
    let mut len = 0;
    let mut put = |id: u8, data: &[u8]| {
        out[len] = (id << 4) | (data.len() as u8 - 1);
        out[len + 1..len + 1 + data.len()].copy_from_slice(data);
        len += 1 + data.len();
    };
    if let Some(id) = ids.ntp {
        put(id, &ntp.to_bits().to_be_bytes());
    }
    if let (Some(id), Some(format)) = (ids.format, format) {
        put(id, &format.to_bytes());
    }
    let padded = len.next_multiple_of(4);
    out[len..padded].fill(0);
    padded
}

/// Looks for our two elements among whatever a peer wrote. What is torn or unknown is passed over, as RFC 8285 §4.1.2
/// asks.
pub(super) fn read(ids: ExtensionIds, mut body: &[u8]) -> (Option<NtpTime>, Option<InBandFormat>) {
    let (mut ntp, mut format) = (None, None);
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
                    ntp = data.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
                } else if ids.format == Some(id) {
                    format = InBandFormat::from_bytes(data);
                }
                body = after;
            }
        }
    }
    (ntp, format)
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
        let len = write(ids, NtpTime::from_bits(0xe5a1_b2c3_8000_0000), None, &mut body);
        assert_eq!(body[..len], [0x17, 0xe5, 0xa1, 0xb2, 0xc3, 0x80, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(ids, &body[..len]).0, Some(NtpTime::from_bits(0xe5a1_b2c3_8000_0000)));
    }

    #[test]
    fn identifiers_are_checked() {
        let ids = |ntp, format| ExtensionIds { ntp, format }.are_valid();
        assert!(ids(Some(1), Some(14)) && ids(None, None));
        assert!(!ids(Some(0), None) && !ids(Some(15), None) && !ids(Some(3), Some(3)));
        assert_eq!(ExtensionIds::default().max_len(), 20);
        assert_eq!(ExtensionIds::NONE.max_len(), 0);
    }

    #[test]
    fn padding_is_skipped_and_the_reserved_identifier_ends_the_list() {
        let clock = [0x17, 0, 0, 0, 5, 0, 0, 0, 0];
        let body = |before: &[u8]| [before, &clock].concat();
        let ids = ExtensionIds::default();
        let expected = Some(NtpTime::from_bits(5 << 32));
        assert_eq!(read(ids, &body(&[])).0, expected);
        assert_eq!(read(ids, &body(&[0, 0])).0, expected);
        assert_eq!(read(ids, &body(&[0x91, 1, 2])).0, expected, "an element of others");
        assert_eq!(read(ids, &body(&[0xf0, 1])).0, None);
    }

    proptest! {
        #[test]
        fn formats_round_trip(rate in 8_000u32..=192_000, channels in 1u32..=64, coding in 0usize..5, frames in 1u16..=4096, clock in any::<u64>()) {
            let format = InBandFormat {
                format: StreamFormat::new(rate, channels).unwrap(),
                sample: SampleFormat::ALL[coding],
                block_frames: frames,
            };
            let mut body = [0; MAX_BODY];
            let len = write(ExtensionIds::default(), NtpTime::from_bits(clock), Some(format), &mut body);
            prop_assert_eq!(len, 16);
            prop_assert_eq!(read(ExtensionIds::default(), &body), (Some(NtpTime::from_bits(clock)), Some(format)));
        }

        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let (_, format) = read(ExtensionIds::default(), &body);
            prop_assert!(format.is_none_or(|f| f.block_frames <= 4096));
        }
    }
}

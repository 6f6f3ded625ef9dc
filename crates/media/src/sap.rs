//! Session announcements (SAP, RFC 2974): what tells receivers in a network which streams there are. AES67 devices, PulseAudio and
//! PipeWire send and hear them.
//!
//! ```text
//! V=1 A R T E C | authentication length | message identifier hash   (§6)
//! originating source: 4 bytes, or 16 with A
//! authentication data
//! payload type ("application/sdp", NUL), which may be left out before SDP
//! payload: the SDP description
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An announcement, or what takes one back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement<'a> {
    /// The session is over; the description is that of its announcement, or empty.
    pub deletion: bool,
    /// Tells versions of an announcement of one host apart; not zero (§3).
    pub hash: u16,
    /// The host that the announcement is of.
    pub origin: IpAddr,
    /// SDP.
    pub description: &'a [u8],
}

/// Why a packet is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SapError {
    /// Shorter than its own fields say.
    #[error("the announcement is cut short")]
    Short,
    /// Of another version.
    #[error("SAP version {version}; only 1 is known")]
    Version {
        /// The field's value.
        version: u8,
    },
    /// Encrypted or compressed, as nobody does (RFC 2974 §6 advises against both).
    #[error("the announcement is encrypted or compressed")]
    Unreadable,
    /// It announces something else than SDP.
    #[error("the announcement is not of SDP")]
    OtherPayload,
}

impl<'a> Announcement<'a> {
    /// Reads a datagram.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SapError> {
        let (flags, rest) = bytes.split_first().ok_or(SapError::Short)?;
        let version = flags >> 5;
        if version != VERSION {
            return Err(SapError::Version { version });
        }
        if flags & (ENCRYPTED | COMPRESSED) != 0 {
            return Err(SapError::Unreadable);
        }
        let (&[authentication, high, low], rest) = rest.split_first_chunk().ok_or(SapError::Short)?;
        let (origin, rest) = if flags & IPV6 == 0 {
            let (address, rest) = rest.split_first_chunk::<4>().ok_or(SapError::Short)?;
            (IpAddr::from(Ipv4Addr::from(*address)), rest)
        } else {
            let (address, rest) = rest.split_first_chunk::<16>().ok_or(SapError::Short)?;
            (IpAddr::from(Ipv6Addr::from(*address)), rest)
        };
        let payload = rest.get(4 * usize::from(authentication)..).ok_or(SapError::Short)?;
        let deletion = flags & DELETION != 0;
        let description = match payload.iter().position(|byte| *byte == 0) {
            _ if payload.starts_with(b"v=0") => payload,
            Some(end) if payload[..end].eq_ignore_ascii_case(PAYLOAD_TYPE) => &payload[end + 1..],
            // PulseAudio takes back without a description.
            None if deletion && payload.is_empty() => payload,
            _ => return Err(SapError::OtherPayload),
        };
        Ok(Announcement { deletion, hash: u16::from_be_bytes([high, low]), origin, description })
    }

    /// The datagram.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION << 5 | if self.deletion { DELETION } else { 0 }, 0];
        bytes.extend(self.hash.to_be_bytes());
        match self.origin {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => {
                bytes[0] |= IPV6;
                bytes.extend(address.octets());
            }
        }
        bytes.extend(PAYLOAD_TYPE);
        bytes.push(0);
        bytes.extend(self.description);
        bytes
    }
}

/// A hash of a description for [`Announcement::hash`]: FNV-1a, folded; never zero.
pub fn description_hash(description: &[u8]) -> u16 {
    let hash = description
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    ((hash >> 16) as u16 ^ hash as u16).max(1)
}

/// The port of announcements (RFC 2974 §3).
pub const SAP_PORT: u16 = 9875;
/// The longest announcement (RFC 2974 §6 advises 1 kB).
pub const MAX_SAP: usize = 8 * 1024;

const VERSION: u8 = 1;
const IPV6: u8 = 0x10;
const DELETION: u8 = 0x04;
const ENCRYPTED: u8 = 0x02;
const COMPRESSED: u8 = 0x01;
const PAYLOAD_TYPE: &[u8] = b"application/sdp";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SDP: &[u8] = b"v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\n";

    #[test]
    fn the_bytes_are_those_of_the_rfc() {
        let origin = Ipv4Addr::new(192, 0, 2, 7).into();
        let announced = Announcement { deletion: false, hash: 0x1234, origin, description: SDP };
        let bytes = announced.to_bytes();
        assert_eq!(bytes[..8], [0x20, 0, 0x12, 0x34, 192, 0, 2, 7]);
        assert_eq!(bytes[8..24], *b"application/sdp\0");
        assert_eq!(bytes[24..], *SDP);
        assert_eq!(Announcement { deletion: true, ..announced }.to_bytes()[0], 0x24);
    }

    #[test]
    fn the_type_of_the_payload_may_be_left_out_and_authentication_is_passed_over() {
        let bytes = [&[0x20, 1, 0, 1, 192, 0, 2, 7, 9, 9, 9, 9][..], SDP].concat();
        let read = Announcement::read(&bytes).expect("an announcement");
        assert_eq!((read.description, read.hash), (SDP, 1));
        let taken_back = Announcement::read(&[0x24, 0, 0, 1, 192, 0, 2, 7]).expect("a deletion");
        assert!(taken_back.deletion && taken_back.description.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let start = [0x20, 0, 0, 1, 192, 0, 2, 7];
        let with = |flags, more: &[u8]| [&[flags][..], &start[1..], more].concat();
        for (bytes, why) in [
            (vec![], SapError::Short),
            (with(0x20, b"")[..6].to_vec(), SapError::Short),
            (with(0x30, b"v=0")[..11].to_vec(), SapError::Short),
            (with(0x40, b"v=0"), SapError::Version { version: 2 }),
            (with(0x22, b"v=0"), SapError::Unreadable),
            (with(0x21, b"v=0"), SapError::Unreadable),
            (with(0x20, b"text/plain\0v=0"), SapError::OtherPayload),
            (with(0x20, b""), SapError::OtherPayload),
        ] {
            assert_eq!(Announcement::read(&bytes), Err(why), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(hash: u16, deletion: bool, v6: bool, octets: [u8; 16], text in "v=0[ -~]{0,200}") {
            let origin = if v6 { octets.into() } else { Ipv4Addr::from(octets.first_chunk::<4>().copied().unwrap()).into() };
            let announced = Announcement { deletion, hash, origin, description: text.as_bytes() };
            let bytes = announced.to_bytes();
            prop_assert_eq!(Announcement::read(&bytes), Ok(announced));
        }

        #[test]
        fn what_is_read_of_any_bytes_can_be_written(
            head in prop::sample::select(vec![vec![], vec![0x20, 0], vec![0x30, 1], vec![0x24, 0]]),
            rest in prop::collection::vec(any::<u8>(), 0..80),
            sdp in prop::sample::select(vec!["", "v=0", "application/sdp\0v=0"]),
        ) {
            let bytes = [&head[..], &rest[..], sdp.as_bytes()].concat();
            if let Ok(announced) = Announcement::read(&bytes) {
                let written = announced.to_bytes();
                prop_assert_eq!(Announcement::read(&written), Ok(announced));
            }
        }
    }
}

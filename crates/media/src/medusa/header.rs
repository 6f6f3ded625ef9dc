//! The header before each packet.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                   key: "MDSA" + channel                       |
//! +---------------------------------------------------------------+
//! |                            seq                                |
//! +---------------------------------------------------------------+
//! |             timestamp: microseconds of the sender's           |
//! |                            clock                              |
//! +---------------------------------------------------------------+
//! |                          data size                            |
//! +---------------------------------------------------------------+
//! ```
//!
//! The paper names the fields; their widths and order are our reading, as its figure is lost. Each channel counts its
//! own packets from 1, so the key names the channel as well: `MDSA`, `MDSB` and so on. All fields are big-endian.

/// Bytes of a header.
pub const HEADER: usize = 20;
/// The most data in a packet, in bytes: four times the paper's; a larger size means that the key is part of the sound.
pub const MAX_DATA: usize = 4096;
/// Channels that have a key.
pub const MAX_CHANNELS: u8 = 16;

/// Key of the first channel.
pub(super) const KEY: [u8; 4] = *b"MDSA";

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// From 0, below [`MAX_CHANNELS`].
    pub channel: u8,
    /// Counts the channel's packets from 1; wraps.
    pub seq: u32,
    /// When the packet was made, in microseconds of the sender's clock.
    pub timestamp: u64,
    /// Bytes of data after the header, 1 to [`MAX_DATA`].
    pub size: u32,
}

impl Header {
    /// As on the wire.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&KEY);
        bytes[3] += self.channel.min(MAX_CHANNELS - 1);
        bytes[4..8].copy_from_slice(&self.seq.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[16..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`; `None` if they are too few, have no key, or name an impossible size.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let channel = key_channel(bytes)?;
        let [_, _, _, _, seq @ .., _, _, _, _, _, _, _, _, _, _, _, _] = *bytes;
        let [_, _, _, _, _, _, _, _, timestamp @ .., _, _, _, _] = *bytes;
        let [.., a, b, c, d] = *bytes;
        let size = u32::from_be_bytes([a, b, c, d]);
        let (seq, timestamp) = (u32::from_be_bytes(seq), u64::from_be_bytes(timestamp));
        (1..=MAX_DATA as u32).contains(&size).then_some(Header { channel, seq, timestamp, size })
    }
}

/// Number of headers in `bytes`, at any position.
pub fn count_headers(bytes: &[u8]) -> usize {
    let begins = |at: &usize| bytes[*at] == KEY[0] && Header::parse(&bytes[*at..]).is_some();
    (0..bytes.len()).filter(begins).count()
}

/// The channel whose key `bytes` begin with.
pub(super) fn key_channel(bytes: &[u8]) -> Option<u8> {
    let [a, b, c, last, ..] = *bytes else { return None };
    let channel = last.wrapping_sub(KEY[3]);
    ([a, b, c] == KEY[..3] && channel < MAX_CHANNELS).then_some(channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Worked out by hand from the paper: key, seq 1, 1 s, 940 bytes.
    #[test]
    fn the_header_of_a_packet_of_the_paper() {
        let header = Header { channel: 0, seq: 1, timestamp: 1_000_000, size: 940 };
        let hex: String = header.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "4d4453410000000100000000000f4240000003ac");
        let second = Header { channel: 1, ..header };
        assert_eq!(&second.to_bytes()[..4], b"MDSB");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = Header { channel: 15, seq: u32::MAX, timestamp: u64::MAX, size: 4096 };
        assert_eq!(Header::parse(&good.to_bytes()), Some(good));
        assert_eq!(Header::parse(&good.to_bytes()[..19]), None);
        for (place, value) in [(0, b'm'), (1, 0), (2, b'T'), (3, b'A' + 16), (3, b'@'), (17, 1), (19, 1)] {
            let mut bytes = good.to_bytes();
            bytes[place] = value;
            assert_eq!(Header::parse(&bytes), None, "byte {place}");
        }
        let empty = Header { size: 0, ..good };
        assert_eq!(Header::parse(&empty.to_bytes()), None);
        let within = [b"MDSA.MDS", &good.to_bytes()[..]].concat();
        assert_eq!((count_headers(&within), count_headers(&within[..27]), count_headers(&[])), (1, 0, 0));
    }

    proptest! {
        #[test]
        fn headers_come_back(channel in 0..MAX_CHANNELS, seq: u32, timestamp: u64, size in 1..=MAX_DATA as u32) {
            let header = Header { channel, seq, timestamp, size };
            prop_assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        }
    }
}

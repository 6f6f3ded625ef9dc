//! The report's packets: parse and emit, without state or time. All fields are 32 bits in network order.
//!
//! ```text
//!           word 0    word 1                    word 2    word 3       then
//! DATA      type 1    time                      data id   data size    data
//! NACK      type 2    time                      status    data id
//! PROBE     type 3    time
//! ANSWER    type 4    time, copied from the NACK data id  data size    data
//! ```
//!
//! *Readings.* The report names the fields and the sizes of the headers (16, 16 and 8 bytes), but neither the widths
//! nor the type numbers. It shows one data packet; but a client that cannot tell the answer to a NACK from a normal
//! message can compute neither its intervals nor its last normal reception time, so an answer has a type of its own.
//! The time is the sender's clock in milliseconds. NACK status is not explained: 0 requests the message.

pub mod extended;

/// Bytes before the data of a DATA or ANSWER packet, and all of a NACK (report, section 3).
pub const HEADER: usize = 16;
/// Bytes of a probe.
pub const PROBE_LEN: usize = 8;
/// The longest data packet, header included (report, section 3).
pub const MAX_PACKET: usize = 1496;
/// The longest message that keeps a packet whole on an Ethernet path: 1500 bytes less IPv4, UDP and SRP headers. The
/// report's 1496 bytes make 1524 with IP and UDP, which fragments.
pub const MAX_WHOLE_MESSAGE: usize = 1500 - 20 - 8 - HEADER;

/// NACK status 0: requests a retransmission.
pub const STATUS_RESEND: u32 = 0;
/// NACK status 1, reserved: the client has given up the message, the server may drop it.
pub const STATUS_GIVEN_UP: u32 = 1;

pub(crate) const DATA: u8 = 1;
pub(crate) const NACK: u8 = 2;
pub(crate) const PROBE: u8 = 3;
pub(crate) const ANSWER: u8 = 4;

/// A packet of SRP as published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// A message, sent for the first time.
    Data {
        /// The server's clock in milliseconds.
        time: u32,
        /// Counts up from 1 and wraps to 0.
        id: u32,
        /// 1 to 1480 bytes.
        data: &'a [u8],
    },
    /// Requests a message that the client misses.
    Nack {
        /// The client's clock in milliseconds, to be copied into the answer.
        time: u32,
        /// [`STATUS_RESEND`] or [`STATUS_GIVEN_UP`].
        status: u32,
        /// Id of the message.
        id: u32,
    },
    /// Measures the round trip: the server returns it unchanged.
    Probe {
        /// The client's clock in milliseconds.
        time: u32,
    },
    /// A message retransmitted on request.
    Answer {
        /// The NACK's time.
        time: u32,
        /// The id of the first transmission.
        id: u32,
        /// 1 to 1480 bytes.
        data: &'a [u8],
    },
}

/// Why bytes are not an SRP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the header of its type, or an impossible length for it.
    #[error("malformed packet of type {kind} ({len} bytes)")]
    Length {
        /// The type found.
        kind: u32,
        /// Bytes found.
        len: usize,
    },
    /// The first word is no type of this format; the peer may run in another mode.
    #[error("unknown packet type {0:#010x}: do both sides run SRP in the same mode?")]
    Type(u32),
    /// The data size does not match the datagram.
    #[error("a packet announces {told} bytes of data but has {found}")]
    Size {
        /// The size field.
        told: u32,
        /// Bytes after the header.
        found: usize,
    },
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let kind = word(bytes, 0).ok_or(WireError::Length { kind: 0, len: bytes.len() })?;
        let length = WireError::Length { kind, len: bytes.len() };
        let field = |n| word(bytes, n).ok_or(length);
        match u8::try_from(kind).map_err(|_| WireError::Type(kind))? {
            DATA => Ok(Packet::Data { time: field(1)?, id: field(2)?, data: data(bytes, kind)? }),
            ANSWER => Ok(Packet::Answer { time: field(1)?, id: field(2)?, data: data(bytes, kind)? }),
            NACK if bytes.len() == HEADER => {
                Ok(Packet::Nack { time: field(1)?, status: field(2)?, id: field(3)? })
            }
            PROBE if bytes.len() == PROBE_LEN => Ok(Packet::Probe { time: field(1)? }),
            NACK | PROBE => Err(length),
            _ => Err(WireError::Type(kind)),
        }
    }

    /// Writes the packet and returns its length; `None` if `buf` is too short.
    pub fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        match *self {
            Packet::Data { time, id, data } => put(buf, &[DATA.into(), time, id, data.len() as u32], data),
            Packet::Answer { time, id, data } => {
                put(buf, &[ANSWER.into(), time, id, data.len() as u32], data)
            }
            Packet::Nack { time, status, id } => put(buf, &[NACK.into(), time, status, id], &[]),
            Packet::Probe { time } => put(buf, &[PROBE.into(), time], &[]),
        }
    }
}

/// The data after a data header, whose size field must match.
fn data(bytes: &[u8], kind: u32) -> Result<&[u8], WireError> {
    let length = WireError::Length { kind, len: bytes.len() };
    let told = word(bytes, 3).ok_or(length)?;
    let data = &bytes[HEADER..];
    if data.is_empty() || bytes.len() > MAX_PACKET {
        return Err(length);
    }
    if told as usize != data.len() {
        return Err(WireError::Size { told, found: data.len() });
    }
    Ok(data)
}

/// The `n`th 32-bit word.
pub(crate) fn word(bytes: &[u8], n: usize) -> Option<u32> {
    let four = bytes.get(4 * n..4 * n + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// Writes words, then data.
pub(crate) fn put(buf: &mut [u8], words: &[u32], data: &[u8]) -> Option<usize> {
    let len = 4 * words.len() + data.len();
    let buf = buf.get_mut(..len)?;
    let (head, tail) = buf.split_at_mut(4 * words.len());
    for (at, word) in head.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_be_bytes());
    }
    tail.copy_from_slice(data);
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    /// Put together by hand from the layout above.
    #[test]
    fn packets_are_written_as_specified() {
        let cases = [
            (
                "00000001000003e8000000010000000568656c6c6f",
                Packet::Data { time: 1000, id: 1, data: b"hello" },
            ),
            ("00000002000004880000000000000007", Packet::Nack { time: 1160, status: 0, id: 7 }),
            (
                "0000000400000488000000070000000568656c6c6f",
                Packet::Answer { time: 1160, id: 7, data: b"hello" },
            ),
            ("00000003000007d0", Packet::Probe { time: 2000 }),
        ];
        for (text, packet) in cases {
            let mut buf = [0; 64];
            let len = packet.emit(&mut buf).unwrap();
            assert_eq!(buf[..len], hex(text), "{packet:?}");
            assert_eq!(Packet::parse(&hex(text)), Ok(packet));
            assert_eq!(packet.emit(&mut buf[..len - 1]), None);
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_with_the_reason() {
        assert_eq!(Packet::parse(&[]), Err(WireError::Length { kind: 0, len: 0 }));
        assert_eq!(Packet::parse(&hex("0000000500000488")), Err(WireError::Type(5)));
        assert_eq!(Packet::parse(&hex("8000000100000488")), Err(WireError::Type(0x8000_0001)));
        let sizes = "00000001000003e8000000010000000668656c6c6f";
        assert_eq!(Packet::parse(&hex(sizes)), Err(WireError::Size { told: 6, found: 5 }));
        let empty = "00000001000003e80000000100000000";
        assert_eq!(Packet::parse(&hex(empty)), Err(WireError::Length { kind: 1, len: 16 }));
        let mut long = vec![0; MAX_PACKET + 1];
        Packet::Data { time: 0, id: 1, data: &[1; MAX_PACKET - HEADER] }.emit(&mut long).unwrap();
        assert!(Packet::parse(&long[..MAX_PACKET]).is_ok() && Packet::parse(&long).is_err());
    }

    proptest! {
        #[test]
        fn what_is_parsed_was_written_so(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0u8..6, fit in any::<bool>()) {
            let mut bytes = bytes;
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[0, 0, 0, kind]);
            }
            if fit && bytes.len() >= 16 {
                let size = bytes.len() as u32 - 16;
                bytes[12..16].copy_from_slice(&size.to_be_bytes());
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                let mut again = [0; 64];
                let len = packet.emit(&mut again).unwrap();
                prop_assert_eq!(&again[..len], &bytes[..]);
            }
        }
    }
}

//! DCCP's packets on the wire (RFC 4340 §5): parse and emit, without state or time.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |           Dest Port           |
//! +---------------+-------+-------+-------------------------------+
//! |  Data Offset  | CCVal | CsCov |           Checksum            |
//! +-----+-------+-+-------+-------+-------------------------------+
//! | Res | Type  |1|   Reserved    |  Sequence Number (high bits)  |
//! +-----+-------+-+---------------+-------------------------------+
//! |                  Sequence Number (low bits)                   |
//! +---------------------------------------------------------------+
//! |  by type: acknowledgement number 8, service code 4, reset 4   |
//! |  options, padded with zeros to 32 bits; then data             |
//! +---------------------------------------------------------------+
//! ```
//!
//! Only headers with 48-bit sequence numbers (X = 1) are supported: short ones need a feature that this side never
//! grants.

pub mod checksum;
pub mod options;

use checksum::Checksum;

use super::seq::Seq48;
pub use options::{DccpOption, OptionWriter, Options, tens_of_micros};

/// The first part of every packet, in bytes.
pub const GENERIC_HEADER: usize = 16;
/// Header of a Data packet without options, in bytes.
pub const DATA_HEADER: usize = GENERIC_HEADER;
/// Header of Ack, DataAck, Close, CloseReq, Sync and SyncAck without options, in bytes.
pub const ACK_HEADER: usize = GENERIC_HEADER + 8;
/// Header of a Reset, in bytes (RFC 4340 §5.6).
pub const RESET_HEADER: usize = ACK_HEADER + 4;
/// The longest header that the data offset can tell, in bytes.
pub const MAX_HEADER: usize = 255 * 4;

/// What a packet is, with what its type adds to the generic header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Asks for a connection.
    Request {
        /// What for (RFC 5595).
        service: u32,
    },
    /// Answers a Request.
    Response {
        /// The Request's number.
        ack: Seq48,
        /// The service code, repeated.
        service: u32,
    },
    /// Data alone.
    Data,
    /// An acknowledgement alone.
    Ack {
        /// Greatest number received.
        ack: Seq48,
    },
    /// Data and an acknowledgement.
    DataAck {
        /// Greatest number received.
        ack: Seq48,
    },
    /// The server asks for a Close.
    CloseReq {
        /// Greatest number received.
        ack: Seq48,
    },
    /// Ends the connection.
    Close {
        /// Greatest number received.
        ack: Seq48,
    },
    /// The connection is over, or never was.
    Reset {
        /// Greatest number received, or that of the packet that this answers.
        ack: Seq48,
        /// Why.
        code: ResetCode,
        /// More on why, by code (RFC 4340 §5.6).
        data: [u8; 3],
    },
    /// Asks for the other side's state.
    Sync {
        /// The number that was invalid.
        ack: Seq48,
    },
    /// Answers a Sync.
    SyncAck {
        /// The Sync's number.
        ack: Seq48,
    },
    /// Opens a middlebox for a Request to come (RFC 5596).
    Listen {
        /// The service that listens.
        service: u32,
    },
}

impl Kind {
    /// The number on the wire.
    pub fn number(&self) -> u8 {
        match self {
            Kind::Request { .. } => 0,
            Kind::Response { .. } => 1,
            Kind::Data => 2,
            Kind::Ack { .. } => 3,
            Kind::DataAck { .. } => 4,
            Kind::CloseReq { .. } => 5,
            Kind::Close { .. } => 6,
            Kind::Reset { .. } => 7,
            Kind::Sync { .. } => 8,
            Kind::SyncAck { .. } => 9,
            Kind::Listen { .. } => 10,
        }
    }

    /// The acknowledgement number, if the type has one.
    pub fn ack(&self) -> Option<Seq48> {
        match *self {
            Kind::Request { .. } | Kind::Data | Kind::Listen { .. } => None,
            Kind::Response { ack, .. }
            | Kind::Ack { ack }
            | Kind::DataAck { ack }
            | Kind::CloseReq { ack }
            | Kind::Close { ack }
            | Kind::Reset { ack, .. }
            | Kind::Sync { ack }
            | Kind::SyncAck { ack } => Some(ack),
        }
    }

    /// Whether the data behind the header is the application's (RFC 4340 §5.2–5.7: elsewhere it is ignored).
    pub fn carries_data(&self) -> bool {
        matches!(self, Kind::Data | Kind::DataAck { .. })
    }

    /// Header length without options, in bytes.
    pub fn header_len(&self) -> usize {
        match self {
            Kind::Data => DATA_HEADER,
            Kind::Request { .. } | Kind::Listen { .. } => GENERIC_HEADER + 4,
            Kind::Response { .. } | Kind::Reset { .. } => ACK_HEADER + 4,
            _ => ACK_HEADER,
        }
    }
}

/// Why a connection is over (RFC 4340 §5.6, table 2; 12: RFC 6773 §5.1). Any number may come from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetCode(pub u8);

impl ResetCode {
    /// No reason given.
    pub const UNSPECIFIED: ResetCode = ResetCode(0);
    /// In answer to a Close.
    pub const CLOSED: ResetCode = ResetCode(1);
    /// The connection is no longer of use.
    pub const ABORTED: ResetCode = ResetCode(2);
    /// There is no such connection.
    pub const NO_CONNECTION: ResetCode = ResetCode(3);
    /// A packet of a type that has no place here; data 1: the type.
    pub const PACKET_ERROR: ResetCode = ResetCode(4);
    /// An option that makes no sense; data: the option and its first two bytes.
    pub const OPTION_ERROR: ResetCode = ResetCode(5);
    /// A mandatory option that is not understood; data as before.
    pub const MANDATORY_ERROR: ResetCode = ResetCode(6);
    /// No server accepts connections here.
    pub const REFUSED: ResetCode = ResetCode(7);
    /// Not that service.
    pub const BAD_SERVICE: ResetCode = ResetCode(8);
    /// Not now.
    pub const TOO_BUSY: ResetCode = ResetCode(9);
    /// An Init Cookie that this side did not issue.
    pub const BAD_INIT_COOKIE: ResetCode = ResetCode(10);
    /// Response to misbehaviour.
    pub const AGGRESSION: ResetCode = ResetCode(11);
    /// The UDP ports belong to another connection.
    pub const ENCAPSULATED_PORT_REUSE: ResetCode = ResetCode(12);
}

/// The header without its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// DCCP port of the sender.
    pub source: u16,
    /// DCCP port of the receiver.
    pub destination: u16,
    /// For the sender's congestion control, 0 to 15.
    pub ccval: u8,
    /// Checksum coverage, 0 to 15 (RFC 4340 §9.2).
    pub coverage: u8,
    /// Type and what it adds.
    pub kind: Kind,
    /// The packet's number.
    pub seq: Seq48,
}

/// A packet as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Its header.
    pub header: Header,
    /// Its options, as they stand; read them with [`Packet::options`].
    pub raw_options: &'a [u8],
    /// What follows the header.
    pub data: &'a [u8],
}

impl Header {
    /// Of a packet without CCVal that the checksum covers whole; `ports`: source and destination.
    pub const fn new((source, destination): (u16, u16), kind: Kind, seq: Seq48) -> Self {
        Header { source, destination, ccval: 0, coverage: 0, kind, seq }
    }

    /// The header of an answer to this packet, as by [`Self::new`].
    pub fn answer(&self, kind: Kind, seq: Seq48) -> Self {
        Header::new((self.destination, self.source), kind, seq)
    }
}

impl<'a> Packet<'a> {
    /// Reads a packet of whatever carrier. `None`: it is dropped without an answer (RFC 4340 §8.5 step 1), as it is
    /// shorter than its header, its type is not assigned (11 to 15), it has a short sequence number, its data offset or
    /// coverage contradicts its length, or its checksum is wrong.
    pub fn parse(bytes: &'a [u8], checksum: Checksum) -> Option<Self> {
        let generic = bytes.first_chunk::<GENERIC_HEADER>()?;
        let has_long_sequence = generic[8] & 1 == 1;
        let kind =
            read_kind((generic[8] >> 1) & 0x0f, &bytes[GENERIC_HEADER..]).filter(|_| has_long_sequence)?;
        let offset = usize::from(generic[4]) * 4;
        let (raw_options, data) = (bytes.get(kind.header_len()..offset)?, &bytes[offset..]);
        let coverage = generic[5] & 0x0f;
        let covered = checksum::covered(offset, bytes.len(), coverage)?;
        if !checksum.verifies(bytes, covered) {
            return None;
        }
        let header = Header {
            source: u16::from_be_bytes([generic[0], generic[1]]),
            destination: u16::from_be_bytes([generic[2], generic[3]]),
            ccval: generic[5] >> 4,
            coverage,
            kind,
            seq: read_seq(&generic[10..16]),
        };
        Some(Packet { header, raw_options, data })
    }

    /// The options, one after the other.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.raw_options)
    }
}

fn read_kind(number: u8, rest: &[u8]) -> Option<Kind> {
    let word = |at: usize| rest.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let ack = || rest.get(2..8).map(read_seq);
    Some(match number {
        0 => Kind::Request { service: word(0)? },
        1 => Kind::Response { ack: ack()?, service: word(8)? },
        2 => Kind::Data,
        3 => Kind::Ack { ack: ack()? },
        4 => Kind::DataAck { ack: ack()? },
        5 => Kind::CloseReq { ack: ack()? },
        6 => Kind::Close { ack: ack()? },
        7 => {
            let [code, data @ ..] = *rest.get(8..12)?.first_chunk::<4>()?;
            Kind::Reset { ack: ack()?, code: ResetCode(code), data }
        }
        8 => Kind::Sync { ack: ack()? },
        9 => Kind::SyncAck { ack: ack()? },
        10 => Kind::Listen { service: word(0)? },
        _ => return None,
    })
}

fn read_seq(bytes: &[u8]) -> Seq48 {
    Seq48::new(big_endian(&bytes[..6]))
}

/// The number that these bytes are, the most significant first.
pub(super) fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte))
}

/// Writes a packet into `buf`: header, the options that stand in `options`, data. Answers its length; `None` if `buf` is
/// too short or the header would be too long.
pub fn emit(
    header: &Header,
    options: &OptionWriter,
    data: &[u8],
    checksum: Checksum,
    buf: &mut [u8],
) -> Option<usize> {
    emit_with(header, options, data.len(), checksum, buf, |place| place.copy_from_slice(data))
}

/// The same with zeros for data, until the packet has `len` bytes.
pub fn emit_padded(
    header: &Header,
    options: &OptionWriter,
    len: usize,
    checksum: Checksum,
    buf: &mut [u8],
) -> Option<usize> {
    let offset = header.kind.header_len() + options.padded().len();
    emit_with(header, options, len.saturating_sub(offset), checksum, buf, |place| place.fill(0))
}

/// The same with `data_len` bytes that `write_data` writes.
fn emit_with(
    header: &Header,
    options: &OptionWriter,
    data_len: usize,
    checksum: Checksum,
    buf: &mut [u8],
    write_data: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let fixed = header.kind.header_len();
    let offset = fixed + options.padded().len();
    let len = offset + data_len;
    if offset > MAX_HEADER || len > buf.len() {
        return None;
    }
    let buf = &mut buf[..len];
    buf[0..2].copy_from_slice(&header.source.to_be_bytes());
    buf[2..4].copy_from_slice(&header.destination.to_be_bytes());
    buf[4] = (offset / 4) as u8;
    buf[5] = (header.ccval << 4) | (header.coverage & 0x0f);
    buf[6..8].fill(0);
    buf[8] = (header.kind.number() << 1) | 1;
    buf[9] = 0;
    write_seq(&mut buf[10..16], header.seq);
    write_kind(&mut buf[GENERIC_HEADER..fixed], &header.kind);
    buf[fixed..offset].copy_from_slice(options.padded());
    write_data(&mut buf[offset..]);
    // Coverage beyond the data cannot be: what is asked for is cut to all of it.
    let covered = match checksum::covered(offset, len, header.coverage) {
        Some(covered) => covered,
        None => {
            buf[5] &= 0xf0;
            len
        }
    };
    let sum = checksum.compute(buf, covered);
    buf[6..8].copy_from_slice(&sum.to_be_bytes());
    Some(len)
}

fn write_kind(rest: &mut [u8], kind: &Kind) {
    if let Some(ack) = kind.ack() {
        rest[..2].fill(0);
        write_seq(&mut rest[2..8], ack);
    }
    match *kind {
        Kind::Request { service } | Kind::Listen { service } => {
            rest[..4].copy_from_slice(&service.to_be_bytes());
        }
        Kind::Response { service, .. } => rest[8..12].copy_from_slice(&service.to_be_bytes()),
        Kind::Reset { code, data, .. } => {
            rest[8] = code.0;
            rest[9..12].copy_from_slice(&data);
        }
        _ => {}
    }
}

fn write_seq(bytes: &mut [u8], seq: Seq48) {
    bytes.copy_from_slice(&seq.value().to_be_bytes()[2..]);
}

#[cfg(test)]
mod tests;

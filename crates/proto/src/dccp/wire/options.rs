//! DCCP's options (RFC 4340 §5.8; CCID 3's: RFC 4342 §8).

use std::time::Duration;

use super::big_endian;

/// An option as it stands in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawOption<'a> {
    /// Its number.
    pub number: u8,
    /// Whether Mandatory stood before it.
    pub mandatory: bool,
    /// Its value, without number and length.
    pub value: &'a [u8],
}

/// An option, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DccpOption<'a> {
    /// The receiver is short of something other than bandwidth.
    SlowReceiver,
    /// Feature negotiation: option number 32 to 35, feature, values.
    Feature {
        /// Which of the four.
        verb: FeatureVerb,
        /// Which feature.
        feature: u8,
        /// Preferences, or value and preferences.
        value: &'a [u8],
    },
    /// State that a server keeps at its client.
    InitCookie(&'a [u8]),
    /// So many packets without data stood just before this one.
    NdpCount(u64),
    /// Which packets arrived.
    AckVector(&'a [u8]),
    /// What became of data that arrived.
    DataDropped(&'a [u8]),
    /// A time stamp to be echoed, unit 10 µs.
    Timestamp(u32),
    /// A time stamp's echo.
    TimestampEcho {
        /// The time stamp.
        stamp: u32,
        /// How long it was kept, unit 10 µs.
        elapsed: u32,
    },
    /// How long the acknowledged packet was kept, unit 10 µs.
    ElapsedTime(u32),
    /// CRC-32c of the data.
    DataChecksum(u32),
    /// CCID 3: 1/p, rounded up; all ones: no loss yet.
    LossEventRate(u32),
    /// CCID 3: skip length and intervals of 9 bytes, newest first.
    LossIntervals(&'a [u8]),
    /// CCID 3: bytes per second.
    ReceiveRate(u32),
    /// Not known here.
    Unknown,
    /// Known, and of a length that it can't have.
    Malformed,
}

/// The four options of feature negotiation (RFC 4340 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FeatureVerb {
    /// The feature's location would like to change it.
    ChangeL = CHANGE_L,
    /// The feature's location confirms.
    ConfirmL,
    /// The other end would like to change it.
    ChangeR,
    /// The other end confirms.
    ConfirmR = CONFIRM_R,
}

impl FeatureVerb {
    const ALL: [FeatureVerb; 4] =
        [FeatureVerb::ChangeL, FeatureVerb::ConfirmL, FeatureVerb::ChangeR, FeatureVerb::ConfirmR];
}

/// The options of a packet, one after the other; padding is passed over.
///
/// An option whose length makes no sense ends them (RFC 4340 §5.8).
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    mandatory: bool,
}

impl<'a> Options<'a> {
    /// The options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes, mandatory: false }
    }

    /// Whether Mandatory stood at the end, with no option behind it: a fault (RFC 4340 §5.8.2).
    pub fn ends_mandatory(&self) -> bool {
        self.rest.is_empty() && self.mandatory
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = RawOption<'a>;

    fn next(&mut self) -> Option<RawOption<'a>> {
        loop {
            let (number, rest) = self.rest.split_first()?;
            match *number {
                PADDING => self.rest = rest,
                MANDATORY => {
                    self.rest = rest;
                    // Twice in a row is the same as before an unknown option.
                    if std::mem::replace(&mut self.mandatory, true) {
                        return Some(RawOption { number: MANDATORY, mandatory: true, value: &[] });
                    }
                }
                number => {
                    // Numbers below 32 are bare; others carry their length, number and length included.
                    let len = if number < 32 { 1 } else { usize::from(*rest.first().unwrap_or(&0)) };
                    let head = if number < 32 { 1 } else { 2 };
                    let Some(value) = self.rest.get(head..len) else {
                        self.rest = &[];
                        return None;
                    };
                    self.rest = &self.rest[len..];
                    return Some(RawOption { number, mandatory: std::mem::take(&mut self.mandatory), value });
                }
            }
        }
    }
}

impl<'a> RawOption<'a> {
    /// What it means.
    pub fn read(&self) -> DccpOption<'a> {
        self.known().unwrap_or(DccpOption::Malformed)
    }

    fn known(&self) -> Option<DccpOption<'a>> {
        let value = self.value;
        Some(match self.number {
            SLOW_RECEIVER => DccpOption::SlowReceiver,
            number @ CHANGE_L..=CONFIRM_R => {
                let (feature, value) = value.split_first()?;
                let verb = FeatureVerb::ALL[usize::from(number - CHANGE_L)];
                DccpOption::Feature { verb, feature: *feature, value }
            }
            INIT_COOKIE => DccpOption::InitCookie(value),
            NDP_COUNT if (1..=6).contains(&value.len()) => DccpOption::NdpCount(big_endian(value)),
            ACK_VECTOR_0 | ACK_VECTOR_1 => DccpOption::AckVector(value),
            DATA_DROPPED => DccpOption::DataDropped(value),
            TIMESTAMP => DccpOption::Timestamp(exactly_32(value)?),
            TIMESTAMP_ECHO if [4, 6, 8].contains(&value.len()) => DccpOption::TimestampEcho {
                stamp: big_endian(&value[..4]) as u32,
                elapsed: big_endian(&value[4..]) as u32,
            },
            ELAPSED_TIME if [2, 4].contains(&value.len()) => {
                DccpOption::ElapsedTime(big_endian(value) as u32)
            }
            DATA_CHECKSUM => DccpOption::DataChecksum(exactly_32(value)?),
            LOSS_EVENT_RATE => DccpOption::LossEventRate(exactly_32(value)?),
            LOSS_INTERVALS if value.len() % INTERVAL_LEN == 1 => DccpOption::LossIntervals(value),
            RECEIVE_RATE => DccpOption::ReceiveRate(exactly_32(value)?),
            NDP_COUNT | TIMESTAMP_ECHO | ELAPSED_TIME | LOSS_INTERVALS => return None,
            _ => DccpOption::Unknown,
        })
    }

    /// Whether RFC 4340 table 3 bars it from Data packets: it is ignored there.
    pub fn is_barred_from_data(&self) -> bool {
        let fine = [SLOW_RECEIVER, NDP_COUNT, TIMESTAMP, TIMESTAMP_ECHO, DATA_CHECKSUM];
        self.mandatory || !fine.contains(&self.number) && self.number < FIRST_CCID_OPTION
    }
}

fn exactly_32(value: &[u8]) -> Option<u32> {
    <[u8; 4]>::try_from(value).ok().map(u32::from_be_bytes)
}

/// Options on their way out.
#[derive(Clone, Debug)]
pub struct OptionWriter {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for OptionWriter {
    fn default() -> Self {
        OptionWriter { bytes: [0; ROOM], len: 0 }
    }
}

impl OptionWriter {
    /// The options, padded to whole 32-bit words.
    pub fn padded(&self) -> &[u8] {
        &self.bytes[..self.len.next_multiple_of(4)]
    }

    /// The options without padding.
    pub fn as_written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Pads until there are at least `len` bytes, as far as there is room.
    pub fn pad_to(&mut self, len: usize) {
        self.len = self.len.max(len.min(ROOM));
    }

    /// Bytes written, unpadded.
    pub fn written(&self) -> usize {
        self.len
    }

    /// Puts an option of any number from 32 on; answers whether there was room.
    pub fn put(&mut self, number: u8, parts: &[&[u8]]) -> bool {
        let len = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
        if len > 255 || self.len + len > ROOM {
            return false;
        }
        self.bytes[self.len] = number;
        self.bytes[self.len + 1] = len as u8;
        let mut at = self.len + 2;
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.len = at;
        true
    }

    /// Copies options as they stand in a packet; answers whether there was room.
    pub fn copy(&mut self, raw: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(self.len..self.len + raw.len()) else { return false };
        room.copy_from_slice(raw);
        self.len += raw.len();
        true
    }

    /// An option of feature negotiation.
    pub fn feature(&mut self, verb: FeatureVerb, feature: u8, value: &[&[u8]]) -> bool {
        let mut parts: [&[u8]; 4] = [&[]; 4];
        let given = value.len().min(3);
        let feature = [feature];
        parts[0] = &feature;
        parts[1..=given].copy_from_slice(&value[..given]);
        self.put(verb as u8, &parts)
    }

    /// An option as [`RawOption::read`] reads it, as short as it may be and without ECN nonces; answers whether there was
    /// room.
    pub fn write(&mut self, option: DccpOption<'_>) -> bool {
        match option {
            DccpOption::Feature { verb, feature, value } => self.feature(verb, feature, &[value]),
            DccpOption::InitCookie(cookie) => self.put(INIT_COOKIE, &[cookie]),
            // In as few bytes as it takes (RFC 4340 §7.7).
            DccpOption::NdpCount(count) => {
                let bytes = count.min((1 << 48) - 1).to_be_bytes();
                let first = (2..7).find(|i| bytes[*i] != 0).unwrap_or(7);
                self.put(NDP_COUNT, &[&bytes[first..]])
            }
            // In several options where one is too short.
            DccpOption::AckVector(runs) => runs.chunks(MAX_VALUE).all(|part| self.put(ACK_VECTOR_0, &[part])),
            DccpOption::DataDropped(runs) => self.put(DATA_DROPPED, &[runs]),
            DccpOption::Timestamp(stamp) => self.put(TIMESTAMP, &[&stamp.to_be_bytes()]),
            // A zero may be left out altogether (RFC 4340 §13.3).
            DccpOption::TimestampEcho { stamp, elapsed } => {
                let elapsed = elapsed.to_be_bytes();
                let told = if elapsed == [0; 4] { &[] } else { shortest(&elapsed) };
                self.put(TIMESTAMP_ECHO, &[&stamp.to_be_bytes(), told])
            }
            DccpOption::ElapsedTime(elapsed) => self.put(ELAPSED_TIME, &[shortest(&elapsed.to_be_bytes())]),
            DccpOption::DataChecksum(crc) => self.put(DATA_CHECKSUM, &[&crc.to_be_bytes()]),
            DccpOption::LossEventRate(inverse) => self.put(LOSS_EVENT_RATE, &[&inverse.to_be_bytes()]),
            DccpOption::LossIntervals(value) => self.put(LOSS_INTERVALS, &[value]),
            DccpOption::ReceiveRate(rate) => self.put(RECEIVE_RATE, &[&rate.to_be_bytes()]),
            DccpOption::SlowReceiver | DccpOption::Unknown | DccpOption::Malformed => false,
        }
    }
}

/// Times have two bytes or four.
fn shortest(elapsed: &[u8; 4]) -> &[u8] {
    if elapsed[..2] == [0, 0] { &elapsed[2..] } else { elapsed }
}

/// A time as options tell it: in units of 10 µs.
pub fn tens_of_micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros() / 10).unwrap_or(u32::MAX)
}

/// Bytes of one of CCID 3's loss intervals (RFC 4342 §8.6).
pub const INTERVAL_LEN: usize = 9;
/// Room for options: as much as one header may hold beside its longest fixed part would cost each packet a kilobyte of
/// zeros; half of that carries a cookie of any length and an Ack Vector of thousands of packets.
pub(crate) const ROOM: usize = 512;
/// The longest value of an option.
pub(crate) const MAX_VALUE: usize = 253;

const PADDING: u8 = 0;
const MANDATORY: u8 = 1;
const SLOW_RECEIVER: u8 = 2;
pub(crate) const CHANGE_L: u8 = 32;
pub(crate) const CONFIRM_R: u8 = 35;
const INIT_COOKIE: u8 = 36;
const NDP_COUNT: u8 = 37;
const ACK_VECTOR_0: u8 = 38;
const ACK_VECTOR_1: u8 = 39;
const DATA_DROPPED: u8 = 40;
const TIMESTAMP: u8 = 41;
const TIMESTAMP_ECHO: u8 = 42;
const ELAPSED_TIME: u8 = 43;
const DATA_CHECKSUM: u8 = 44;
const FIRST_CCID_OPTION: u8 = 128;
const LOSS_EVENT_RATE: u8 = 192;
const LOSS_INTERVALS: u8 = 193;
const RECEIVE_RATE: u8 = 194;

//! The binary packets of the improved mode, in network byte order.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     0xD1      |0 0 0 0|O|R|A|D|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                epoch of the numbers acknowledged              |  if A: acknowledgement
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |              floor: all numbers before it are settled         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   latest arrival less floor   |     its age in units of 10 us |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | bytes of map  | map: bit i (lowest first) is floor + 1 + i   ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                   epoch of the sender's numbers               |  if D: data
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             number                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  number less oldest unsettled |            message              ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! D: it contains a message. A: it contains an acknowledgement. R: the message is a retransmission. O: the latest
//! arrival that the acknowledgement names was a retransmission. RTP, STUN, DTLS and TURN never begin with the first
//! byte (RFC 7983).

/// Contents of a datagram: an acknowledgement, a message, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet<'a> {
    pub ack: Option<Ack<'a>>,
    pub data: Option<Data<'a>>,
}

/// The receiver's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ack<'a> {
    /// The numbering that it acknowledges.
    pub epoch: u32,
    /// Every number before this one has arrived, or the sender has said that it is given up.
    pub floor: u32,
    /// The packet that arrived last, less `floor`.
    pub latest: i16,
    /// Whether that was a retransmission.
    pub latest_repeated: bool,
    /// How long ago it arrived, in units of [`AGE_UNIT_NANOS`].
    pub age: u16,
    /// Bit i, lowest first: number `floor + 1 + i` has arrived. At most [`MAX_MAP`] bytes.
    pub map: &'a [u8],
}

/// A message with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Data<'a> {
    /// The numbering: drawn when the sender opened.
    pub epoch: u32,
    /// Its number, wrapping.
    pub number: u32,
    /// Distance back to the oldest number that the sender may still send; under [`SPAN`].
    pub back: u16,
    /// Whether it was sent before.
    pub repeated: bool,
    /// The message; never empty.
    pub payload: &'a [u8],
}

/// Numbers that can be in flight at once.
pub(super) const SPAN: u64 = 1024;
/// A map over all of them.
pub(super) const MAX_MAP: usize = SPAN as usize / 8;
/// Bytes before the message when there is no acknowledgement.
pub(super) const DATA_HEADER: usize = 2 + 10;
/// Bytes of an acknowledgement without its map, inside a packet.
pub(super) const ACK_PART: usize = 13;
/// The unit of [`Ack::age`], in nanoseconds: 16 bits reach 0.65 s.
pub(super) const AGE_UNIT_NANOS: u64 = 10_000;

/// First byte; its low half is the version.
const MAGIC: u8 = 0xD1;
const DATA: u8 = 1;
const ACK: u8 = 2;
const REPEATED: u8 = 4;
const LATEST_REPEATED: u8 = 8;

/// Reads a datagram; `None` if it is not a packet of this protocol.
pub(super) fn parse(datagram: &[u8]) -> Option<Packet<'_>> {
    let (&[magic, flags], mut rest) = datagram.split_first_chunk()?;
    let has = |flag| flags & flag != 0;
    let known = flags & !(DATA | ACK | REPEATED | LATEST_REPEATED) == 0;
    let owned = (has(DATA) || !has(REPEATED)) && (has(ACK) || !has(LATEST_REPEATED));
    if magic != MAGIC || !known || !owned || !(has(DATA) || has(ACK)) {
        return None;
    }
    let mut ack = None;
    if has(ACK) {
        let (head, after) = rest.split_first_chunk::<ACK_PART>()?;
        let (map, after) = after.split_at_checked(usize::from(head[12]))?;
        if map.len() > MAX_MAP {
            return None;
        }
        rest = after;
        ack = Some(Ack {
            epoch: long(&head[..4])?,
            floor: long(&head[4..8])?,
            latest: short(&head[8..10])? as i16,
            latest_repeated: has(LATEST_REPEATED),
            age: short(&head[10..12])?,
            map,
        });
    }
    let mut data = None;
    if has(DATA) {
        let (head, payload) = rest.split_first_chunk::<10>()?;
        let back = short(&head[8..])?;
        if payload.is_empty() || u64::from(back) >= SPAN {
            return None;
        }
        let (epoch, number) = (long(&head[..4])?, long(&head[4..8])?);
        data = Some(Data { epoch, number, back, repeated: has(REPEATED), payload });
    } else if !rest.is_empty() {
        return None;
    }
    Some(Packet { ack, data })
}

/// Writes a packet and returns its length; `buf` must have room for it.
pub(super) fn emit(packet: &Packet<'_>, buf: &mut [u8]) -> usize {
    let (mut flags, mut at) = (0, 2);
    if let Some(ack) = &packet.ack {
        flags |= ACK | if ack.latest_repeated { LATEST_REPEATED } else { 0 };
        put(&mut at, buf, &ack.epoch.to_be_bytes());
        put(&mut at, buf, &ack.floor.to_be_bytes());
        put(&mut at, buf, &ack.latest.to_be_bytes());
        put(&mut at, buf, &ack.age.to_be_bytes());
        put(&mut at, buf, &[ack.map.len() as u8]);
        put(&mut at, buf, ack.map);
    }
    if let Some(data) = &packet.data {
        flags |= DATA | if data.repeated { REPEATED } else { 0 };
        put(&mut at, buf, &data.epoch.to_be_bytes());
        put(&mut at, buf, &data.number.to_be_bytes());
        put(&mut at, buf, &data.back.to_be_bytes());
        put(&mut at, buf, data.payload);
    }
    buf[..2].copy_from_slice(&[MAGIC, flags]);
    at
}

/// The number nearest `reference` whose low half is `low`; `None` before the first or after the last 64-bit number.
pub(super) fn unwrap(reference: u64, low: u32) -> Option<u64> {
    reference.checked_add_signed(i64::from(low.wrapping_sub(reference as u32) as i32))
}

fn put(at: &mut usize, buf: &mut [u8], bytes: &[u8]) {
    buf[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

fn long(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn short(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_as_drawn() {
        let ack = Ack {
            epoch: 0x01020304,
            floor: 0x11121314,
            latest: -2,
            latest_repeated: true,
            age: 7,
            map: &[5],
        };
        let data = Data { epoch: 0x21222324, number: 0x31323334, back: 3, repeated: true, payload: b"xy" };
        let mut buf = [0; 64];
        let len = emit(&Packet { ack: Some(ack), data: Some(data) }, &mut buf);
        let expected = [
            0xD1, 15, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0xff, 0xfe, 0, 7, 1, 5, 0x21, 0x22, 0x23, 0x24,
            0x31, 0x32, 0x33, 0x34, 0, 3, b'x', b'y',
        ];
        assert_eq!(buf[..len], expected);
        assert_eq!(len, DATA_HEADER + ACK_PART + 1 + 2);
    }

    #[test]
    fn what_breaks_the_format_is_refused() {
        let data = Data { epoch: 1, number: 2, back: 0, repeated: false, payload: b"x" };
        let mut buf = [0; 64];
        let len = emit(&Packet { ack: None, data: Some(data) }, &mut buf);
        assert!(parse(&buf[..len]).is_some());
        assert_eq!(parse(&buf[..len - 1]), None, "an empty message");
        for (at, value) in [(0, 0x80), (1, 0), (1, 16 | DATA), (1, DATA | LATEST_REPEATED), (10, 4)] {
            let mut bad = buf;
            bad[at] = value;
            assert_eq!(parse(&bad[..len]), None, "byte {at} = {value}");
        }
        let ack = Ack { epoch: 1, floor: 2, latest: 0, latest_repeated: false, age: 0, map: &[] };
        let len = emit(&Packet { ack: Some(ack), data: None }, &mut buf);
        assert!(parse(&buf[..len]).is_some());
        assert_eq!(parse(&buf[..len + 1]), None, "a tail behind an acknowledgement");
        buf[14] = 255;
        assert_eq!(parse(&buf), None, "a map longer than the span");
    }

    #[test]
    fn numbers_unwrap_to_the_nearest() {
        let cycle = 1u64 << 32;
        assert_eq!(unwrap(cycle - 1, 2), Some(cycle + 2));
        assert_eq!(unwrap(cycle + 2, u32::MAX), Some(cycle - 1));
        assert_eq!(unwrap(1, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            ack in prop::option::of((any::<(u32, u32, i16, bool, u16)>(), prop::collection::vec(any::<u8>(), 0..=MAX_MAP))),
            data in prop::option::of((any::<(u32, u32, bool)>(), 0..SPAN as u16, prop::collection::vec(any::<u8>(), 1..50))),
        ) {
            prop_assume!(ack.is_some() || data.is_some());
            let ack = ack.as_ref().map(|((epoch, floor, latest, latest_repeated, age), map)| Ack {
                epoch: *epoch, floor: *floor, latest: *latest, latest_repeated: *latest_repeated, age: *age, map,
            });
            let data = data.as_ref().map(|((epoch, number, repeated), back, payload)| Data {
                epoch: *epoch, number: *number, back: *back, repeated: *repeated, payload,
            });
            let packet = Packet { ack, data };
            let mut buf = [0; 300];
            let len = emit(&packet, &mut buf);
            prop_assert_eq!(parse(&buf[..len]), Some(packet));
        }

        #[test]
        fn no_bytes_panic_and_what_parses_is_written_alike(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), flags in 0u8..16, shaped: bool,
        ) {
            if shaped && bytes.len() > 1 {
                bytes[..2].copy_from_slice(&[MAGIC, flags]);
            }
            if let Some(packet) = parse(&bytes) {
                let mut buf = [0; 300];
                let len = emit(&packet, &mut buf);
                prop_assert_eq!(&buf[..len], &bytes[..]);
            }
        }
    }
}

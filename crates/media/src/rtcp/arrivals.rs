//! Feedback for congestion control (RFC 8888): when each packet of a peer's streams arrived. It is sent by itself, as RFC 5506
//! permits.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P| FMT=11  |   PT=205      |            length             |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of the receiver                           |
//! +---------------------------------------------------------------+
//! |                SSRC of a stream                               |  for each stream
//! +-------------------------------+-------------------------------+
//! |        first number           |        packets                |
//! +-+---+-------------------------+-+---+-------------------------+
//! |R|ECN|  arrived so long before |R|ECN|  in 1/1024 s            |  for each packet, filled up to a whole word
//! +-+---+-------------------------+-+---+-------------------------+
//! |                when this was written                          |  middle 32 bits of the NTP time
//! +---------------------------------------------------------------+
//! ```

use std::time::Duration;

use super::wire::{u32_at, write_header};

/// What a receiver knows of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketArrival {
    /// It has not arrived.
    Missing,
    /// It has arrived; how long before the report was written, if that tells about the path: not of a packet that had to be sent
    /// again, nor of one that came 8 s ago.
    Arrived(Option<Duration>),
}

/// Writes the report of `ssrc` into a lent buffer.
pub struct ArrivalReportWriter<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> ArrivalReportWriter<'a> {
    /// Begins the report; `None` if the buffer is too small for any.
    pub fn new(ssrc: u32, buf: &'a mut [u8]) -> Option<Self> {
        buf.get_mut(4..8)?.copy_from_slice(&ssrc.to_be_bytes());
        Some(ArrivalReportWriter { buf, len: 8 })
    }

    /// How many packets of one more stream find room.
    pub fn room(&self) -> usize {
        // The head of the stream, and the time at the end.
        self.buf.len().saturating_sub(self.len + 8 + 4) / 4 * 2
    }

    /// Adds packets of a stream from the number `first` on; those without room are left out.
    pub fn stream(&mut self, ssrc: u32, first: u16, packets: impl ExactSizeIterator<Item = PacketArrival>) {
        let count = packets.len().min(self.room()).min(usize::from(u16::MAX / 2));
        if count == 0 {
            return;
        }
        self.put(&ssrc.to_be_bytes());
        self.put(&first.to_be_bytes());
        self.put(&(count as u16).to_be_bytes());
        for packet in packets.take(count) {
            let word = match packet {
                PacketArrival::Missing => 0,
                PacketArrival::Arrived(None) => ARRIVED | NO_TIME,
                PacketArrival::Arrived(Some(ago)) => {
                    let units = (ago.as_nanos() * UNITS / 1_000_000_000).min(u128::from(LONGEST));
                    ARRIVED | units as u16
                }
            };
            self.put(&word.to_be_bytes());
        }
        if !count.is_multiple_of(2) {
            self.put(&[0; 2]);
        }
    }

    /// Ends the report, written at this time: the middle bits of the NTP time. Returns its length.
    pub fn finish(mut self, written: u32) -> usize {
        self.put(&written.to_be_bytes());
        write_header(&mut self.buf[..self.len], FEEDBACK, FORMAT);
        self.len
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// A report that was received.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalReport<'a> {
    /// Who sends it.
    pub ssrc: u32,
    /// When it was written by the receiver's clock: the middle bits of the NTP time.
    pub written: u32,
    streams: &'a [u8],
}

impl<'a> ArrivalReport<'a> {
    /// Units of [`Self::written`] in a second (RFC 3550 §4, the middle bits of the NTP time).
    pub const UNITS_PER_SECOND: u32 = 1 << 16;
    /// Units in the finest time that a report tells apart, 1/1024 s (RFC 8888 §3.1).
    pub const FINEST: u32 = Self::UNITS_PER_SECOND / UNITS as u32;

    /// Reads one; `None` for any other packet, and for one that contradicts itself.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = bytes.split_first_chunk::<8>()?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let fits =
            header[0] == 0x80 | FORMAT as u8 && header[1] == FEEDBACK && bytes.len() == 4 * (length + 1);
        let (streams, written) = body.split_last_chunk::<4>().filter(|_| fits)?;
        let mut rest = streams;
        while !rest.is_empty() {
            (_, rest) = split_stream(rest)?;
        }
        Some(ArrivalReport { ssrc: u32_at(header, 4), written: u32::from_be_bytes(*written), streams })
    }

    /// When a packet arrived that came so long before it was written, as [`Self::written`].
    pub fn arrived_at(&self, ago: Duration) -> u32 {
        let units = ago.as_nanos() * u128::from(Self::UNITS_PER_SECOND) / 1_000_000_000;
        // It begins anew every 18 hours.
        self.written.wrapping_sub(units as u32)
    }

    /// Its packets: SSRC, number, and what became of each.
    pub fn packets(&self) -> impl Iterator<Item = (u32, u16, PacketArrival)> + 'a {
        let mut rest = self.streams;
        let streams = std::iter::from_fn(move || {
            let (stream, after) = split_stream(rest)?;
            rest = after;
            Some(stream)
        });
        streams.flat_map(|Stream { ssrc, first, words }| {
            words.chunks_exact(2).zip(0..).map(move |(word, at)| {
                let word = u16::from_be_bytes([word[0], word[1]]);
                (ssrc, first.wrapping_add(at), read_word(word))
            })
        })
    }
}

fn read_word(word: u16) -> PacketArrival {
    let units = word & NO_TIME;
    match word & ARRIVED {
        0 => PacketArrival::Missing,
        _ if units >= LONGEST => PacketArrival::Arrived(None),
        _ => PacketArrival::Arrived(Some(Duration::from_nanos(
            u64::from(units) * 1_000_000_000 / UNITS as u64,
        ))),
    }
}

struct Stream<'a> {
    ssrc: u32,
    first: u16,
    words: &'a [u8],
}

fn split_stream(bytes: &[u8]) -> Option<(Stream<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let count = usize::from(u16::from_be_bytes([head[6], head[7]]));
    let (words, after) = rest.split_at_checked((2 * count).next_multiple_of(4))?;
    let first = u16::from_be_bytes([head[4], head[5]]);
    Some((Stream { ssrc: u32_at(head, 0), first, words: &words[..2 * count] }, after))
}

/// Transport-layer feedback (RFC 4585 §6.2), and its format for congestion control (RFC 8888 §3.1).
const FEEDBACK: u8 = 205;
const FORMAT: usize = 11;
const ARRIVED: u16 = 0x8000;
/// Arrived, without a time.
const NO_TIME: u16 = 0x1fff;
/// Longer than can be told.
const LONGEST: u16 = 0x1ffe;
/// Of a second.
const UNITS: u128 = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_rfc_8888() {
        let mut buf = [0xff; 64];
        let mut writer = ArrivalReportWriter::new(0x0102_0304, &mut buf).unwrap();
        let arrived = |millis| PacketArrival::Arrived(Some(Duration::from_millis(millis)));
        writer.stream(
            0x0506_0708,
            0xffff,
            [arrived(1000), PacketArrival::Missing, arrived(9000)].into_iter(),
        );
        let len = writer.finish(0x1122_3344);
        let expected = b"\x8b\xcd\0\x06\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\0\x03\x84\0\0\0\x9f\xfe\0\0\x11\x22\x33\x44";
        assert_eq!(&buf[..len], expected);
        assert!(crate::packet::classify(&buf[..len]) == Some(crate::packet::PacketKind::Rtcp));
        let read = ArrivalReport::parse(&buf[..len]).unwrap();
        let packets: Vec<_> = read.packets().collect();
        assert_eq!((read.ssrc, read.written), (0x0102_0304, 0x1122_3344));
        let numbers: Vec<u16> = packets.iter().map(|packet| packet.1).collect();
        assert_eq!(numbers, [0xffff, 0, 1]);
        let what: Vec<_> = packets.iter().map(|packet| packet.2).collect();
        assert_eq!(what, [arrived(1000), PacketArrival::Missing, PacketArrival::Arrived(None)]);
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let mut buf = [0; 30];
        let mut writer = ArrivalReportWriter::new(1, &mut buf).unwrap();
        assert_eq!(writer.room(), 4);
        writer.stream(2, 7, [PacketArrival::Arrived(None); 9].into_iter());
        assert_eq!(writer.room(), 0);
        writer.stream(3, 7, [PacketArrival::Arrived(None); 9].into_iter());
        let len = writer.finish(0);
        assert_eq!(ArrivalReport::parse(&buf[..len]).unwrap().packets().count(), 4);
        assert!(ArrivalReportWriter::new(1, &mut [0; 7]).is_none());
    }

    fn arrival() -> impl Strategy<Value = PacketArrival> {
        prop_oneof![
            Just(PacketArrival::Missing),
            Just(PacketArrival::Arrived(None)),
            (0..u64::from(LONGEST)).prop_map(|units| {
                let nanos = (units * 1_000_000_000).div_ceil(UNITS as u64);
                PacketArrival::Arrived(Some(Duration::from_nanos(nanos)))
            }),
        ]
    }

    proptest! {
        #[test]
        fn reports_are_read_as_written(
            (ssrc, written) in any::<(u32, u32)>(),
            streams in prop::collection::vec((any::<u32>(), any::<u16>(), prop::collection::vec(arrival(), 1..40)), 0..4),
        ) {
            let mut buf = [0; 1200];
            let mut writer = ArrivalReportWriter::new(ssrc, &mut buf).unwrap();
            let mut expected = Vec::new();
            for (of, first, packets) in &streams {
                writer.stream(*of, *first, packets.iter().copied());
                expected.extend(packets.iter().zip(0..).map(|(packet, at)| (*of, first.wrapping_add(at), *packet)));
            }
            let len = writer.finish(written);
            let read = ArrivalReport::parse(&buf[..len]).unwrap();
            prop_assert_eq!((read.ssrc, read.written), (ssrc, written));
            // A unit is nearly a millisecond.
            let near = |a: PacketArrival, b: PacketArrival| match (a, b) {
                (PacketArrival::Arrived(Some(a)), PacketArrival::Arrived(Some(b))) => {
                    a.abs_diff(b) < Duration::from_micros(1)
                }
                _ => a == b,
            };
            let read: Vec<_> = read.packets().collect();
            prop_assert_eq!(read.len(), expected.len());
            for (a, b) in read.iter().zip(&expected) {
                prop_assert!((a.0, a.1) == (b.0, b.1) && near(a.2, b.2), "{:?} for {:?}", a, b);
            }
            for cut in 0..len {
                prop_assert!(ArrivalReport::parse(&buf[..cut]).is_none());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), frame in any::<bool>()) {
            if frame && bytes.len() >= 12 {
                let words = bytes.len() / 4;
                bytes.truncate(4 * words);
                bytes[..4].copy_from_slice(&[0x8b, 205, 0, (words - 1) as u8]);
            }
            if let Some(report) = ArrivalReport::parse(&bytes) {
                prop_assert!(report.packets().count() <= bytes.len() / 2);
            }
        }
    }
}

//! The application-defined RTCP packet (RFC 3550 §6.7) by which each end of a call tells the other how long sound takes to it,
//! by clocks that need not agree: what neither end can measure alone. It is sent by itself, as RFC 5506 permits.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|    0    |  PT=APP=204   |            length             |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of who tells it                           |
//! +---------------------------------------------------------------+
//! |                name "ANTD"                                    |
//! +---------------------------------------------------------------+
//! |                SSRC of the sender that it hears, 0: none      |
//! +---------------------------------------------------------------+
//! |                wall-clock time of sending (NTP, 64 bits)      |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                least transit, in nanoseconds (64 bits)        |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                stamp to ear, in nanoseconds (64 bits)         |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                mouth to stamp, in microseconds                |
//! +---------------------------------------------------------------+
//! |                error of both, in microseconds                 |
//! +---------------------------------------------------------------+
//! |                queueing: mean less least transit, in µs       |
//! +---------------------------------------------------------------+
//! |                additional transit of 1000 bytes, in µs        |
//! +---------------------------------------------------------------+
//! |                how often the wall clock was set               |
//! +---------------------------------------------------------------+
//! ```
//!
//! Transit and stamp-to-ear are differences between two clocks, the teller's less its peer's, so they may be negative. While the
//! teller has heard no sound yet, both are the smallest 64-bit number. An unknown time is all ones.

use std::time::Duration;

use antiphon_core::NtpTime;

use super::wire::{read_app, u32_at, write_app};

/// What one end of a call knows of its own side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// Who tells it.
    pub ssrc: u32,
    /// Whom it hears; who names it has received what it sends.
    pub hears: Option<u32>,
    /// The teller's clock at sending.
    pub sent: NtpTime,
    /// What it has measured of the sound that it hears; `None` before there is any.
    pub heard: Option<HeardDelays>,
    /// From the capture of a sample to the stamp in its packet.
    pub captured: Duration,
    /// By how much the teller's delays may be wrong.
    pub error: Duration,
    /// How often its wall clock was set.
    pub steps: u32,
}

/// Delays of sound that is heard. The first two are by the hearer's clock less the sender's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeardDelays {
    /// The least time from a packet's stamp to its arrival, in nanoseconds.
    pub transit: i64,
    /// From a packet's stamp to the instant at which its last sample is heard, in nanoseconds.
    pub ear: i64,
    /// Mean transit of packets of sound less the least.
    pub queueing: Duration,
    /// By how much longer 1000 bytes more take; `None` where packets of different sizes are not there to tell.
    pub per_kilobyte: Option<Duration>,
}

impl Delays {
    /// Bytes of every such packet.
    pub const LEN: usize = 60;

    /// Its bytes. Times beyond an hour are shown as an hour.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let heard = self.heard.unwrap_or(HeardDelays {
            transit: NONE,
            ear: NONE,
            queueing: Duration::ZERO,
            per_kilobyte: None,
        });
        let pairs = [self.sent.to_bits(), heard.transit as u64, heard.ear as u64];
        let pairs = pairs.into_iter().flat_map(|bits| [(bits >> 32) as u32, bits as u32]);
        let singles = [
            micros(self.captured),
            micros(self.error),
            micros(heard.queueing),
            heard.per_kilobyte.map_or(UNKNOWN, micros),
            self.steps,
        ];
        let mut bytes = [0; Self::LEN];
        let words = std::iter::once(self.hears.unwrap_or(0)).chain(pairs).chain(singles);
        write_app(&mut bytes, 0, self.ssrc, NAME, words).expect("it has this length");
        bytes
    }

    /// Reads one; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<Delays> {
        let (0, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let data: &[u8; Self::LEN - 12] = data.try_into().ok()?;
        let (hears, data) = (u32_at(data, 0), &data[4..]);
        let pair = |at: usize| u64::from(u32_at(data, at)) << 32 | u64::from(u32_at(data, at + 4));
        let time = |at: usize| Duration::from_micros(u32_at(data, at).into());
        let (transit, ear) = (pair(8) as i64, pair(16) as i64);
        let heard = (transit != NONE && ear != NONE).then(|| HeardDelays {
            transit,
            ear,
            queueing: time(32),
            per_kilobyte: (u32_at(data, 36) != UNKNOWN).then(|| time(36)),
        });
        let sent = NtpTime::from_bits(pair(0));
        let hears = (hears != 0).then_some(hears);
        Some(Delays {
            ssrc,
            hears,
            sent,
            heard,
            captured: time(24),
            error: time(28),
            steps: u32_at(data, 40),
        })
    }
}

fn micros(time: Duration) -> u32 {
    time.min(LONGEST).as_micros() as u32
}

const NAME: [u8; 4] = *b"ANTD";
/// No sound has been heard.
const NONE: i64 = i64::MIN;
const UNKNOWN: u32 = u32::MAX;
/// Longer than any delay of a call; it fits into 32 bits of microseconds.
const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_diagram() {
        let heard = HeardDelays {
            transit: -2,
            ear: 0x0102_0304_0506_0708,
            queueing: Duration::from_micros(3),
            per_kilobyte: None,
        };
        let told = Delays {
            ssrc: 0x0a0b_0c0d,
            hears: Some(0x3132_3334),
            sent: NtpTime::from_bits(0x1112_1314_1516_1718),
            heard: Some(heard),
            captured: Duration::from_micros(0x21),
            error: Duration::from_micros(0x22),
            steps: 0x23,
        };
        let bytes = b"\x80\xcc\x00\x0e\x0a\x0b\x0c\x0dANTD1234\x11\x12\x13\x14\x15\x16\x17\x18\
            \xff\xff\xff\xff\xff\xff\xff\xfe\x01\x02\x03\x04\x05\x06\x07\x08\
            \0\0\0\x21\0\0\0\x22\0\0\0\x03\xff\xff\xff\xff\0\0\0\x23";
        assert_eq!(&told.to_bytes(), bytes);
        assert_eq!(Delays::parse(bytes), Some(told));
    }

    #[test]
    fn before_sound_is_heard_nothing_is_told_of_it() {
        let (sent, zero) = (NtpTime::from_bits(5), Duration::ZERO);
        let told = Delays { ssrc: 7, hears: None, sent, heard: None, captured: zero, error: zero, steps: 0 };
        let bytes = told.to_bytes();
        assert_eq!(Delays::parse(&bytes), Some(told));
        assert!((0..bytes.len()).all(|len| Delays::parse(&bytes[..len]).is_none()));
        assert_eq!(Delays::parse(&[&bytes[..], &[0; 4]].concat()), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            ssrc: u32, sent: u64, transit in -i64::MAX.., ear in -i64::MAX.., times in any::<[u16; 4]>(), steps: u32,
        ) {
            let time = |at: usize| Duration::from_micros(times[at].into());
            let (queueing, per_kilobyte) = (time(0), Some(time(1)));
            let told = Delays {
                ssrc,
                hears: Some(7),
                sent: NtpTime::from_bits(sent),
                heard: Some(HeardDelays { transit, ear, queueing, per_kilobyte }),
                captured: time(2),
                error: time(3),
                steps,
            };
            prop_assert_eq!(Delays::parse(&told.to_bytes()), Some(told));
            prop_assert!(crate::packet::classify(&told.to_bytes()) == Some(crate::packet::PacketKind::Rtcp));
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(bytes.len() == Delays::LEN || Delays::parse(&bytes).is_none());
        }
    }
}

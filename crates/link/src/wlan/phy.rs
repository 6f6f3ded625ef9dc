//! How long things take on the air.

use std::time::Duration;

use antiphon_core::BitRate;

/// Short interframe space at 2.4 GHz (IEEE 802.11-2007 tables 15-2, 18-5 and 19-8).
pub const SIFS: Duration = Duration::from_micros(10);

/// Bytes that the MAC adds to an IP packet: header 24, LLC/SNAP 8, FCS 4.
pub const MAC_OVERHEAD: usize = 36;

/// The QoS control field, additional in EDCA's data frames (IEEE 802.11-2007 §7.1.3.5).
pub const QOS_CONTROL: usize = 2;

/// An acknowledgement: frame control 2, duration 2, address 6, FCS 4.
pub const ACK_BYTES: usize = 14;

/// A rate of 802.11g: the four of 802.11b (DSSS and CCK) and the eight of ERP-OFDM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rate {
    /// DSSS, 1 Mbit/s.
    Dsss1,
    /// DSSS, 2 Mbit/s.
    Dsss2,
    /// CCK, 5.5 Mbit/s.
    Dsss5,
    /// CCK, 11 Mbit/s.
    Dsss11,
    /// OFDM, 6 Mbit/s.
    Ofdm6,
    /// OFDM, 9 Mbit/s.
    Ofdm9,
    /// OFDM, 12 Mbit/s.
    Ofdm12,
    /// OFDM, 18 Mbit/s.
    Ofdm18,
    /// OFDM, 24 Mbit/s.
    Ofdm24,
    /// OFDM, 36 Mbit/s.
    Ofdm36,
    /// OFDM, 48 Mbit/s.
    Ofdm48,
    /// OFDM, 54 Mbit/s.
    Ofdm54,
}

/// The preamble of DSSS frames; OFDM has one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preamble {
    /// 144 µs and a header of 48 µs: every receiver understands it.
    #[default]
    Long,
    /// Half of it, for all rates but 1 Mbit/s.
    Short,
}

/// What all stations of a cell agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phy {
    /// 9 µs if all stations are ERP and the cell says so, else 20 µs; an ad-hoc cell always 20 µs.
    pub slot: Duration,
    /// Preamble of DSSS frames, acknowledgements included.
    pub preamble: Preamble,
    /// Rate of multicast: it has to reach every station.
    pub multicast_rate: Rate,
}

impl Rate {
    /// All of them, DSSS first.
    pub const ALL: [Rate; 12] = [
        Rate::Dsss1,
        Rate::Dsss2,
        Rate::Dsss5,
        Rate::Dsss11,
        Rate::Ofdm6,
        Rate::Ofdm9,
        Rate::Ofdm12,
        Rate::Ofdm18,
        Rate::Ofdm24,
        Rate::Ofdm36,
        Rate::Ofdm48,
        Rate::Ofdm54,
    ];

    /// Data bits per second.
    pub fn bit_rate(self) -> BitRate {
        BitRate(self.half_megabits() * 500_000)
    }

    /// The rate of `bits` per second exactly, if 802.11g has one.
    pub fn of(bits: BitRate) -> Option<Rate> {
        Rate::ALL.into_iter().find(|rate| rate.bit_rate() == bits)
    }

    /// Rate at which a frame of this rate is acknowledged: the highest mandatory rate of the same modulation that is
    /// not above it (IEEE 802.11-2007 §9.6); for DSSS 1 or 2 Mbit/s, which every 802.11 receiver supports.
    pub fn acknowledgement(self) -> Rate {
        match self {
            Rate::Dsss1 => Rate::Dsss1,
            Rate::Dsss2 | Rate::Dsss5 | Rate::Dsss11 => Rate::Dsss2,
            Rate::Ofdm6 | Rate::Ofdm9 => Rate::Ofdm6,
            Rate::Ofdm12 | Rate::Ofdm18 => Rate::Ofdm12,
            Rate::Ofdm24 | Rate::Ofdm36 | Rate::Ofdm48 | Rate::Ofdm54 => Rate::Ofdm24,
        }
    }

    fn half_megabits(self) -> u64 {
        [2, 4, 11, 22, 12, 18, 24, 36, 48, 72, 96, 108][self as usize]
    }

    fn is_dsss(self) -> bool {
        self <= Rate::Dsss11
    }
}

impl Phy {
    /// A cell that 802.11b stations may join: slots of 20 µs, long preambles, multicast at 1 Mbit/s.
    pub const COMPATIBLE: Phy =
        Phy { slot: Duration::from_micros(20), preamble: Preamble::Long, multicast_rate: Rate::Dsss1 };

    /// A cell with ERP stations only: slots of 9 µs, multicast at 6 Mbit/s.
    pub const ERP_ONLY: Phy =
        Phy { slot: Duration::from_micros(9), preamble: Preamble::Short, multicast_rate: Rate::Ofdm6 };

    /// Time on the air of a frame of `bytes`, MAC header and FCS included: a whole number of microseconds.
    ///
    /// OFDM (IEEE 802.11-2007 §19.8.3): 20 µs of preamble and SIGNAL, symbols of 4 µs that carry 16 service bits, the
    /// frame and 6 tail bits, and 6 µs of silence (signal extension). DSSS: preamble and header, then the bits.
    pub fn airtime(&self, rate: Rate, bytes: usize) -> Duration {
        let (bits, half_megabits) = (8 * bytes as u64, rate.half_megabits());
        let micros = if rate.is_dsss() {
            let short = self.preamble == Preamble::Short && rate != Rate::Dsss1;
            (if short { 96 } else { 192 }) + (2 * bits).div_ceil(half_megabits)
        } else {
            20 + 4 * (16 + bits + 6).div_ceil(2 * half_megabits) + 6
        };
        Duration::from_micros(micros)
    }

    /// Time on the air of the acknowledgement to a frame sent at `rate`.
    pub fn acknowledgement(&self, rate: Rate) -> Duration {
        self.airtime(rate.acknowledgement(), ACK_BYTES)
    }

    /// Interframe space of `aifsn` slots; DIFS is that of two.
    pub fn aifs(&self, aifsn: u32) -> Duration {
        SIFS + self.slot * aifsn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP payload of `bytes` at `rate`: 8 UDP, 20 IP, and what the MAC adds.
    fn micros(rate: Rate, bytes: usize) -> u128 {
        Phy::COMPATIBLE.airtime(rate, bytes + 28 + MAC_OVERHEAD).as_micros()
    }

    #[test]
    fn frames_take_the_airtime_of_the_table() {
        // Exact: protocols/links §4. A symbol more or less is 4 µs.
        let ofdm: Vec<_> = Rate::ALL[4..].iter().rev().map(|rate| micros(*rate, 1300)).collect();
        assert_eq!(ofdm, [230, 254, 330, 482, 634, 938, 1242, 1850]);
        assert_eq!(
            Rate::ALL[..4].iter().map(|rate| micros(*rate, 1300)).collect::<Vec<_>>(),
            [11104, 5648, 2176, 1184]
        );
        assert_eq!([1470, 964, 7].map(|bytes| micros(Rate::Ofdm54, bytes)), [254, 182, 38]);
    }

    #[test]
    fn acknowledgements_go_at_a_mandatory_rate() {
        let of = |rate| Phy::COMPATIBLE.acknowledgement(rate).as_micros();
        assert_eq!(
            [Rate::Ofdm54, Rate::Ofdm18, Rate::Ofdm9, Rate::Dsss1, Rate::Dsss11].map(of),
            [34, 38, 50, 304, 248]
        );
        assert!(Rate::ALL.iter().all(|rate| rate.acknowledgement().bit_rate() <= rate.bit_rate()));
        // The short preamble saves 96 µs, except at 1 Mbit/s, and nothing with OFDM.
        let saved =
            |rate| (Phy::COMPATIBLE.airtime(rate, 500) - Phy::ERP_ONLY.airtime(rate, 500)).as_micros();
        assert_eq!([Rate::Dsss1, Rate::Dsss2, Rate::Dsss11, Rate::Ofdm6].map(saved), [0, 96, 96, 0]);
    }

    #[test]
    fn spaces_and_rates_are_those_of_the_standard() {
        assert_eq!(Phy::COMPATIBLE.aifs(2).as_micros(), 50);
        assert_eq!(Phy::ERP_ONLY.aifs(2).as_micros(), 28);
        assert!(Rate::ALL.into_iter().all(|rate| Rate::of(rate.bit_rate()) == Some(rate)));
        assert_eq!(Rate::of(BitRate(7_000_000)), None);
        assert_eq!(Rate::Dsss5.bit_rate(), BitRate(5_500_000));
    }
}

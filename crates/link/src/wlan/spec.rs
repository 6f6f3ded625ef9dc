//! Description of a cell.

use std::time::Duration;

use antiphon_core::Ratio;

use super::absence::{DozeAgain, PowerSave, Scan};
use super::phy::{Phy, Rate};
use super::rate::RateControl;
use crate::queue::MAX_PACKETS;

/// A station of a cell: its index in [`CellSpec::stations`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StationId(pub u16);

/// Destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To one station, acknowledged; through the access point if there is one and it is neither end.
    Station(StationId),
    /// To all others. A station sends it to the access point, which sends it to all but the origin; the access point
    /// does not deliver it to itself.
    Multicast,
}

/// EDCA's access categories, the most urgent first (IEEE 802.11-2007 table 9-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Category {
    /// AC_VO.
    Voice,
    /// AC_VI.
    Video,
    /// AC_BE.
    #[default]
    BestEffort,
    /// AC_BK.
    Background,
}

impl Category {
    /// All four, the most urgent first.
    pub const ALL: [Category; 4] =
        [Category::Voice, Category::Video, Category::BestEffort, Category::Background];

    /// The name in scenarios and reports.
    pub fn name(self) -> &'static str {
        match self {
            Category::Voice => "voice",
            Category::Video => "video",
            Category::BestEffort => "best-effort",
            Category::Background => "background",
        }
    }
}

/// How a queue contends for the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Slots that the channel must be idle beyond SIFS; 2 makes it DIFS.
    pub aifsn: u32,
    /// First contention window: back-off is uniform over `0..=cw_min` slots.
    pub cw_min: u32,
    /// Limit of the doubling `cw = 2 cw + 1`.
    pub cw_max: u32,
    /// Time for which a queue that has won may send further frames, SIFS apart; zero: one frame.
    pub txop: Duration,
}

impl Access {
    /// DCF in a cell of ERP rates: CWmin 15, CWmax 1023 (IEEE 802.11-2007 table 19-8). 31 with 802.11b rates in the
    /// basic set.
    pub const DCF: Access = Access { aifsn: 2, cw_min: 15, cw_max: 1023, txop: Duration::ZERO };

    /// EDCA's defaults for OFDM, by [`Category`] (IEEE 802.11-2007 table 7-37 for aCWmin 15).
    pub const EDCA: [Access; 4] = [
        Access { aifsn: 2, cw_min: 3, cw_max: 7, txop: Duration::from_micros(1504) },
        Access { aifsn: 2, cw_min: 7, cw_max: 15, txop: Duration::from_micros(3008) },
        Access { aifsn: 3, cw_min: 15, cw_max: 1023, txop: Duration::ZERO },
        Access { aifsn: 7, cw_min: 15, cw_max: 1023, txop: Duration::ZERO },
    ];
}

/// The channel access function of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessMode {
    /// One queue for all categories.
    Dcf(Access),
    /// A queue for each [`Category`], in its order. They contend like stations, but the more urgent wins a collision
    /// within the station.
    Edca([Access; 4]),
}

/// Outages: times in which no frame of a station gets through, of exponential length and gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fade {
    /// Mean length of an outage.
    pub mean: Duration,
    /// Share of time in outage, below 1.
    pub share: Ratio,
}

/// One station.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StationSpec {
    /// Rate at which it sends to one station, or the greatest with a rate control.
    pub rate: Rate,
    /// How it chooses among the rates up to that.
    pub rate_control: RateControl,
    /// The lowest of them.
    pub lowest_rate: Rate,
    /// Its channel access function.
    pub access: AccessMode,
    /// Attempts beyond the first, 0 to 30, before a packet is dropped; the standard's default is 7. (Drivers that count attempts mean one less.)
    pub retry_limit: u8,
    /// Packets that each of its queues holds, the one being sent included.
    pub queue: u32,
    /// Share of frames lost between this station and any other, whatever their length. A frame fails at either end:
    /// between stations of p and q its share is p + q - pq, so give an access point none. Of the acknowledgements of
    /// frames that got through, `1 - (1 - p)^(a/f)` are lost, `a` the acknowledgement's airtime and `f` the frame's.
    pub frame_error: Ratio,
    /// By which factor that share differs from run to run, with the place where the station stands: the geometric
    /// standard deviation of a logarithmic normal distribution with that mean; 1: not at all.
    pub frame_error_spread: f64,
    /// Additional outages.
    pub fade: Option<Fade>,
    /// Absences; only for clients of an access point.
    pub scan: Option<Scan>,
    /// How it saves power; only for clients of an access point, and not beside `scan`.
    pub power_save: Option<PowerSave>,
}

impl Default for StationSpec {
    /// 54 Mbit/s, DCF, 7 retries, a queue of 100 packets, a clean channel.
    fn default() -> Self {
        StationSpec {
            rate: Rate::Ofdm54,
            rate_control: RateControl::Fixed,
            lowest_rate: Rate::Ofdm6,
            access: AccessMode::Dcf(Access::DCF),
            retry_limit: 7,
            queue: 100,
            frame_error: Ratio(0.0),
            frame_error_spread: 1.0,
            fade: None,
            scan: None,
            power_save: None,
        }
    }
}

/// A whole cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellSpec {
    /// What all stations share.
    pub phy: Phy,
    /// The stations; their indices are their [`StationId`]s.
    pub stations: Vec<StationSpec>,
    /// The station through which the others reach one another; none in an ad-hoc cell.
    pub access_point: Option<StationId>,
}

/// Stations of one cell: an access point has 2007 association identifiers (IEEE 802.11-2007 §7.3.1.8), plus itself.
pub const MAX_STATIONS: usize = 2008;

/// The greatest retry limit. The standard's dot11ShortRetryLimit is 7 by default and may be 255; with 30 a packet waits
/// for half a second in a busy cell.
pub const MAX_RETRY_LIMIT: u8 = 30;

/// Shorter absences change nothing that anyone has measured.
const SHORTEST_ABSENCE: Duration = Duration::from_millis(1);

/// The shortest mean outage: anything shorter would be a frame error.
const SHORTEST_FADE: Duration = Duration::from_micros(100);

/// What is wrong with a cell's description.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CellError {
    /// No station to talk to, or too many.
    #[error("a cell has 2 to {MAX_STATIONS} stations, not {0}")]
    Stations(usize),
    /// The access point is not a station of the cell.
    #[error("access point {0} is not a station of the cell, whose stations are 0 to {1}")]
    AccessPoint(u16, usize),
    /// No slot, or one out of range.
    #[error("a slot is 9 µs (ERP) or 20 µs, not {0:?}; anything from 1 µs to 1 ms is taken")]
    Slot(Duration),
    /// A retry limit that the standard doesn't have.
    #[error("station {0}: the retry limit is 0 to {MAX_RETRY_LIMIT}, not {1}")]
    RetryLimit(usize, u8),
    /// A queue that holds nothing, or too much.
    #[error("station {0}: a queue holds 1 to {MAX_PACKETS} packets, not {1}")]
    Queue(usize, u32),
    /// Contention windows that are not 2ⁿ - 1, out of order or out of range.
    #[error("station {0}: contention windows are 2ⁿ - 1 with CWmin ≤ CWmax ≤ 32767, not {1} and {2}")]
    Window(usize, u32, u32),
    /// An interframe space that the standard doesn't have.
    #[error("station {0}: AIFSN is 1 to 15 slots, not {1}")]
    Aifsn(usize, u32),
    /// A spread that is no factor, or a wild one.
    #[error("station {0}: its frame errors differ by a factor of 1 to 10, not {1}")]
    Spread(usize, f64),
    /// A share outside 0 % to 100 %.
    #[error("station {0}: {1} is a share of 0 % to 100 %, not {2}")]
    Share(usize, &'static str, f64),
    /// A lowest rate above the highest.
    #[error("station {0}: its lowest rate, {1}, is above its rate, {2}")]
    Rates(usize, antiphon_core::BitRate, antiphon_core::BitRate),
    /// Absences that leave no time, or of a station without an access point to keep its packets.
    #[error(
        "station {0}: only a client of an access point scans, for 1 ms or more, with more time than that between; not {1:?} \
         every {2:?}"
    )]
    Scan(usize, Duration, Duration),
    /// Beacons in no time, or a station without an access point to keep its packets, or one that scans.
    #[error(
        "station {0}: only a client of an access point saves power, one that does not scan, with 1 ms or more between \
         beacons; not {1:?}"
    )]
    PowerSave(usize, Duration),
    /// A client that dozes again at once, or never hears a beacon.
    #[error(
        "station {0}: a client dozes again after 1 ms or more without a frame and misses less than all beacons, not {1:?} and {2}"
    )]
    DozeAgain(usize, Duration, f64),
    /// An outage that is too short, or never ends.
    #[error("station {0}: outages last 100 µs or more and take less than all of the time, not {1:?} and {2}")]
    Fade(usize, Duration, f64),
}

impl CellSpec {
    /// A cell with an access point, station 0, that 802.11b stations may join ([`Phy::COMPATIBLE`]).
    pub fn infrastructure(stations: Vec<StationSpec>) -> Self {
        CellSpec { phy: Phy::COMPATIBLE, stations, access_point: Some(StationId(0)) }
    }

    /// A cell without an access point: each station reaches every other.
    pub fn ad_hoc(stations: Vec<StationSpec>) -> Self {
        CellSpec { phy: Phy::COMPATIBLE, stations, access_point: None }
    }

    /// Returns the first error in it.
    pub fn validate(&self) -> Result<(), CellError> {
        let count = self.stations.len();
        if !(2..=MAX_STATIONS).contains(&count) {
            return Err(CellError::Stations(count));
        }
        if let Some(StationId(id)) = self.access_point.filter(|id| usize::from(id.0) >= count) {
            return Err(CellError::AccessPoint(id, count - 1));
        }
        if !(Duration::from_micros(1)..=Duration::from_millis(1)).contains(&self.phy.slot) {
            return Err(CellError::Slot(self.phy.slot));
        }
        self.stations.iter().enumerate().try_for_each(|(n, station)| {
            let is_client = self.access_point.is_some_and(|id| usize::from(id.0) != n);
            station.validate(n)?;
            if let Some(Scan { length, every }) = station.scan
                && !(is_client && length >= SHORTEST_ABSENCE && length < every)
            {
                return Err(CellError::Scan(n, length, every));
            }
            if let Some(PowerSave { listen, .. }) = station.power_save
                && !(is_client && station.scan.is_none() && listen >= SHORTEST_ABSENCE)
            {
                return Err(CellError::PowerSave(n, listen));
            }
            if let Some(DozeAgain { idle, beacon_loss }) = station.power_save.and_then(|save| save.again)
                && !(idle >= SHORTEST_ABSENCE && (0.0..1.0).contains(&beacon_loss.0))
            {
                return Err(CellError::DozeAgain(n, idle, beacon_loss.0));
            }
            Ok(())
        })
    }
}

impl StationSpec {
    /// The parameters of each of its queues: one with DCF, four with EDCA.
    pub(super) fn accesses(&self) -> &[Access] {
        match &self.access {
            AccessMode::Dcf(access) => std::slice::from_ref(access),
            AccessMode::Edca(accesses) => accesses,
        }
    }

    fn validate(&self, n: usize) -> Result<(), CellError> {
        if self.retry_limit > MAX_RETRY_LIMIT {
            return Err(CellError::RetryLimit(n, self.retry_limit));
        }
        if self.queue == 0 || self.queue as usize > MAX_PACKETS {
            return Err(CellError::Queue(n, self.queue));
        }
        if !(0.0..=1.0).contains(&self.frame_error.0) {
            return Err(CellError::Share(n, "frame_error", self.frame_error.0));
        }
        if !(1.0..=10.0).contains(&self.frame_error_spread) {
            return Err(CellError::Spread(n, self.frame_error_spread));
        }
        let (lowest, highest) = (self.lowest_rate.bit_rate(), self.rate.bit_rate());
        if self.rate_control != RateControl::Fixed && lowest.0 > highest.0 {
            return Err(CellError::Rates(n, lowest, highest));
        }
        if let Some(Fade { mean, share }) = self.fade
            && (mean < SHORTEST_FADE || !(0.0..1.0).contains(&share.0))
        {
            return Err(CellError::Fade(n, mean, share.0));
        }
        self.accesses().iter().try_for_each(|access| access.validate(n))
    }
}

impl Access {
    fn validate(&self, n: usize) -> Result<(), CellError> {
        let (min, max) = (self.cw_min, self.cw_max);
        let is_window = |cw: u32| cw <= 32_767 && (cw + 1).is_power_of_two();
        if !is_window(min) || !is_window(max) || min > max {
            return Err(CellError::Window(n, min, max));
        }
        if !(1..=15).contains(&self.aifsn) {
            return Err(CellError::Aifsn(n, self.aifsn));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut CellSpec)) -> Result<(), CellError> {
        let mut spec = CellSpec::infrastructure(vec![StationSpec::default(); 3]);
        change(&mut spec);
        spec.validate()
    }

    #[test]
    fn impossible_cells_are_refused_with_the_reason() {
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|spec| spec.stations.truncate(1)), Err(CellError::Stations(1)));
        assert_eq!(with(|spec| spec.access_point = Some(StationId(3))), Err(CellError::AccessPoint(3, 2)));
        assert_eq!(with(|spec| spec.phy.slot = Duration::ZERO), Err(CellError::Slot(Duration::ZERO)));
        assert_eq!(with(|spec| spec.stations[1].retry_limit = 31), Err(CellError::RetryLimit(1, 31)));
        assert_eq!(with(|spec| spec.stations[2].queue = 0), Err(CellError::Queue(2, 0)));
        assert!(matches!(
            with(|spec| spec.stations[0].frame_error = Ratio(f64::NAN)),
            Err(CellError::Share(0, ..))
        ));
        assert_eq!(with(|spec| spec.stations[1].frame_error_spread = 0.9), Err(CellError::Spread(1, 0.9)));
        assert!(with(|spec| spec.stations[1].frame_error_spread = f64::NAN).is_err());
        let fade = |micros, share| Some(Fade { mean: Duration::from_micros(micros), share: Ratio(share) });
        assert_eq!(with(|spec| spec.stations[0].fade = fade(100, 0.999)), Ok(()));
        assert!(with(|spec| spec.stations[0].fade = fade(99, 0.1)).is_err());
        assert!(with(|spec| spec.stations[0].fade = fade(1000, 1.0)).is_err());
    }

    #[test]
    fn contention_parameters_are_those_that_the_standard_can_say() {
        let access = |access| with(|spec| spec.stations[1].access = AccessMode::Dcf(access));
        for (min, max) in [(14, 1023), (31, 15), (15, 65_535), (u32::MAX, u32::MAX)] {
            assert_eq!(
                access(Access { cw_min: min, cw_max: max, ..Access::DCF }),
                Err(CellError::Window(1, min, max))
            );
        }
        assert_eq!(access(Access { cw_min: 0, cw_max: 0, ..Access::DCF }), Ok(()));
        assert_eq!(access(Access { aifsn: 0, ..Access::DCF }), Err(CellError::Aifsn(1, 0)));
        assert_eq!(with(|spec| spec.stations[0].access = AccessMode::Edca(Access::EDCA)), Ok(()));
    }
}

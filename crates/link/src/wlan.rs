//! An 802.11g cell: stations that share one channel by listening before they talk.
//!
//! DCF and EDCA of IEEE 802.11-2007 §9, frame by frame: contention, collisions, binary exponential back-off,
//! post-backoff, MAC acknowledgements (which get lost, too) and retries, an access point through which stations reach one
//! another (such a packet uses the air twice), multicast without acknowledgement or retry, frame errors and outages, rate
//! control, clients that scan or save power.
//!
//! The cell advances from event to event (an access, the end of a frame, the end of its acknowledgement), not from slot
//! to slot, so that an idle cell costs nothing. Not modelled: RTS/CTS, fragments, beacons, capture, hidden stations,
//! propagation delay (0.3 µs per 100 m).
//!
//! ```
//! use antiphon_core::Instant;
//! use antiphon_link::wlan::{Category, Cell, CellSpec, Destination, StationId, StationSpec};
//!
//! let [access_point, listener] = [StationId(0), StationId(1)];
//! let spec = CellSpec::infrastructure(vec![StationSpec::default(); 2]);
//! let mut cell = Cell::new(&spec, 42)?;
//! let packet = vec![0u8; 1328];
//! cell.offer(Instant::ZERO, access_point, Destination::Station(listener), Category::BestEffort, packet);
//! while let Some(at) = cell.poll_timeout() {
//!     while let Some((at, station, _packet)) = cell.poll_at(at) {
//!         // DIFS with slots of 20 µs, then 230 µs of air.
//!         assert_eq!((at, station), (Instant::from_micros(280), listener));
//!     }
//! }
//! # Ok::<(), antiphon_link::wlan::CellError>(())
//! ```

mod absence;
mod cell;
mod channel;
mod contender;
mod counters;
mod phy;
mod rate;
mod spec;

pub use absence::{DozeAgain, PowerSave, Scan};
pub use cell::Cell;
pub use counters::StationCounters;
pub use phy::{ACK_BYTES, MAC_OVERHEAD, Phy, Preamble, QOS_CONTROL, Rate, SIFS};
pub use rate::RateControl;
pub use spec::{
    Access, AccessMode, Category, CellError, CellSpec, Destination, Fade, MAX_RETRY_LIMIT, MAX_STATIONS,
    StationId, StationSpec,
};

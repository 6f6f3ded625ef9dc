//! Link models that compose: rate or token bucket with a queue (drop-tail, RED, DRD), stalls, propagation, delay
//! variation, loss, reordering, duplication, corruption.
//!
//! [`Link`] is a chain of them, made from text. Media that several stations share are separate: Ethernet ([`Port`],
//! [`Switch`]) and the FDDI [`Ring`].
//!
//! The laboratory drives them in virtual time, the emulator in `net` in real time; neither models nor packets see a
//! difference. Four rules hold throughout:
//!
//! * **Every element has its own random numbers**, forked from the link's seed by the element's name. Adding an element
//!   never changes what the others draw.
//! * **A fate belongs to a time, not to a packet's number**: what is drawn for a packet depends on the millisecond in which
//!   it comes, and fades and stalls come and go with time. Streams over links of equal seed meet the same losses and delays
//!   at the same time, however many packets each sends. (The one exception is [`LossModel::GilbertElliott`], which moves at
//!   each packet, as published.) A fate is drawn on arrival and applied where it belongs, behind the queue.
//! * **Counters balance**: offered + duplicated = delivered + dropped + queued + in flight, in every element.
//! * **Order is kept** by every element but [`Reorder`]: delay variation that reorders would distort results.
//!
//! [`Replay`] has no parameters: it replays a recording of a real path.
//!
//! [`wlan`] models what no chain of elements can: a cell whose stations share one channel.
//!
//! ```
//! use antiphon_core::Instant;
//! use antiphon_link::{DuplexSpec, Link};
//!
//! let spec: DuplexSpec = "wifi-home,loss=5%/15ms".parse()?;
//! let mut link = Link::new(&spec.up, 42)?;
//! link.offer(Instant::ZERO, vec![0u8; 1000]);
//! while let Some(at) = link.poll_timeout() {
//!     if let Some(packet) = link.poll(at) {
//!         assert_eq!(packet.len(), 1000);
//!     }
//! }
//! assert!(link.counters().balances());
//! # Ok::<(), antiphon_link::SpecError>(())
//! ```

mod bucket;
mod chance;
mod delay;
mod draws;
mod early;
mod ethernet;
mod fddi;
mod link;
mod loss;
mod packet;
mod parse;
mod presets;
mod queue;
mod reorder;
mod replay;
mod spec;
mod travelling;
pub mod wlan;

pub use bucket::TokenBucket;
pub use chance::Chance;
pub use delay::{Delay, Variation};
pub use early::{Drd, Red, WEIGHT as RED_WEIGHT};
pub use ethernet::{ETHERNET_10, ETHERNET_100, ETHERNET_1000, Port, Switch, frame_len};
pub use fddi::{
    FDDI_MAX_FRAME, FDDI_OVERHEAD, FDDI_RATE, Ring, RingClass, RingError, RingSpec, Rotations, Sent,
    StationSpec,
};
pub use link::{Alternation, Direction, Duplex, Link, StageCounters};
pub use loss::{BURST_MEMORY, Loss};
pub use packet::{Counters, Discard, Packet, rank};
pub use parse::SpecError;
pub use presets::{PRESETS, Preset, Setting, preset};
pub use queue::Queue;
pub use reorder::Reorder;
pub use replay::{Replay, ReplayEnd, ReplayError, ReplayPath, ReplaySample};
pub use spec::{
    DrdSpec, DuplexSpec, Jitter, KEYS, LinkSpec, LossModel, QueueLimit, RedSpec, ReorderSpec, Shape, Stall,
};
pub use travelling::Travelling;

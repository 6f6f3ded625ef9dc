//! Sound between its source and the transport: sample formats, packetising, playout, concealment, drift.
//!
//! ```text
//! source ─ blocks ─ Packetiser ─► transport ─► classify ─ parse_rtp ─ SourceTracker ─ Depacketiser ─ Playout ─ sink
//!                                                   └─ RtcpSession            ClockedPlayout for devices ─┘
//! ```
//!
//! State machines only: the caller passes the time in; no socket, no thread, and after construction no allocation.

mod channels;
pub mod codec;
pub mod completion;
pub mod conceal;
pub mod drift;
mod format;
mod groups;
mod io;
mod live;
pub mod medusa;
pub mod packet;
pub mod playout;
mod resample;
pub mod rtcp;
mod sdp;
mod source;
mod splice;
pub mod voice;

pub use channels::{ChannelMap, ChannelMapError};
pub use format::{FormatError, SampleFormat, StreamFormat};
pub use groups::{ChannelGroups, GroupsError};
pub use io::{NullSink, Pull, Ready, Sink, SinkError, Source, Wake};
pub use live::{LiveMeter, LivePace, Liveness};
pub use resample::Resampler;
pub use sdp::{MediaClock, SdpError, SdpOptions, StreamDescription, sdp_of};
pub use source::{Origin, SourceCounters, SourceTracker, Verdict};
pub use splice::Splice;

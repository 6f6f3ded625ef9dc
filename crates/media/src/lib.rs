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
mod coding;
pub mod completion;
pub mod conceal;
pub mod drift;
mod format;
mod groups;
mod io;
mod live;
pub mod medusa;
pub mod opus;
pub mod packet;
pub mod playout;
mod ptp;
mod remote_clock;
mod resample;
pub mod rtcp;
pub mod sap;
mod sdp;
mod source;
mod splice;
mod stretch;
mod through;
pub mod voice;

pub use channels::{ChannelMap, ChannelMapError};
pub use coding::Coding;
pub use format::{FormatError, SampleFormat, StreamFormat};
pub use groups::{ChannelGroups, GroupsError};
pub use io::{CyclePlace, NullSink, Pull, Ready, Sink, SinkError, Source, Wake, Wants};
pub use live::{LiveMeter, LivePace, Liveness, OnClock};
pub use ptp::{PtpClock, PtpClockError};
pub use remote_clock::RemoteClock;
pub use resample::Resampler;
pub use sdp::{MAX_SESSION_NAME, MediaClock, SdpError, SdpOptions, StreamDescription, sdp_of, session_name};
/// Lines of SDP, for descriptions of other media than sound.
pub mod sdp_lines {
    pub use crate::sdp::{MAX_SDP, address_of, is_plain_rtp, one_line, rtpmap};
}

pub use source::{Origin, SourceCounters, SourceTracker, Verdict};
pub use splice::Splice;
pub use stretch::{Piece, Stretch};
pub use through::{pulled_through, pushed_through};

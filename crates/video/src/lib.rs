//! Video beside the sound: frames, their RTP payload formats, and the files they come from and go to.
//!
//! ```text
//! file ─ open ─► Frame ─ VideoPacketiser ─► transport ─► Depacketiser ─► ReceivedFrame ─ MatroskaWriter ─► file
//! ```
//!
//! Pictures are neither encoded nor decoded here. State machines and readers of `Read + Seek`; no socket, clock, thread
//! or file of their own.

mod av1;
mod bits;
mod clip;
mod codec;
mod cut;
mod depacketiser;
mod ebml;
mod frame;
pub mod h264;
mod inspect;
pub mod jpeg;
mod marking;
mod packetiser;
mod payload;
mod read;
mod sdp;
mod vp8;
mod vp9;
mod write;

pub use clip::{Clip, UnknownClip};
pub use codec::{CLOCK_RATE, Codec};
pub use cut::FrameCutter;
pub use depacketiser::{Depacketiser, DepacketiserConfig, ReceivedFrame, VideoCounters};
pub use frame::{Frame, MAX_FRAME, Picture, PictureSize, StreamInfo, video_time};
pub use inspect::Inspector;
pub use marking::{MARKING_ID, Marking};
pub use packetiser::{VideoPacketConfig, VideoPacketError, VideoPacketInfo, VideoPacketiser};
pub use read::{FrameRate, OpenOptions, VideoFileError, VideoReader};
pub use sdp::{VideoDescription, VideoSdpError};
pub use write::{AudioCodec, AudioTrack, MatroskaWriter, WriteError};

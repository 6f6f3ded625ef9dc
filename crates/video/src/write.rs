//! Files with video out.

mod matroska;

pub use matroska::{AudioCodec, AudioTrack, MatroskaWriter, WriteError};

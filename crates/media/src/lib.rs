//! Sound between its source and the transport: sample formats, packetising, playout, concealment, drift.
//!
//! State machines only: time is passed in, no socket, no thread, and after construction no allocation.

mod format;
mod io;

pub use format::{FormatError, SampleFormat, StreamFormat};
pub use io::{Pull, Sink, SinkError, Source};

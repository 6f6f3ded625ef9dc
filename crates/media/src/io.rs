//! Where sound comes from and goes to, as the media thread sees it.
//!
//! Blocks are interleaved 32-bit float, `[sample_frame][channel]`, full scale ±1.0. 16- and 24-bit integers pass
//! through unchanged: both fit into the 24-bit significand, with `x / 2¹⁵` and `x / 2²³` exact.

use crate::{SampleFormat, StreamFormat};

/// Something that gives sound. Called on the media thread: neither blocks nor allocates nor locks; what reads a disk
/// does so on a thread of its own and hands over through a queue.
pub trait Source: Send {
    /// Rate and channels of what [`Self::pull`] gives.
    fn format(&self) -> StreamFormat;

    /// The precision of the material, so that a lossless stream can choose its format.
    fn sample_format(&self) -> SampleFormat;

    /// Fills `block` (whole sample frames) as far as possible.
    fn pull(&mut self, block: &mut [f32]) -> Pull;

    /// Sample frames in all, where known.
    fn length(&self) -> Option<u64> {
        None
    }
}

/// What [`Source::pull`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pull {
    /// That many sample frames were written, at least one. Fewer than asked: the end follows, or the source is live.
    Frames(usize),
    /// Nothing yet: the source could not keep up (an underrun).
    Starved,
    /// Nothing any more.
    End,
}

/// Something that takes sound. Called on the media thread, under the same rule as [`Source`].
pub trait Sink: Send {
    /// Rate and channels of what [`Self::push`] takes.
    fn format(&self) -> StreamFormat;

    /// Takes whole sample frames.
    fn push(&mut self, block: &[f32]) -> Result<(), SinkError>;

    /// Whether it takes sound at a pace of its own, as a sound card does; a file takes whatever comes.
    fn clocked(&self) -> bool {
        false
    }

    /// Of a clocked sink: sample frames that it would take now to have as much in hand as it means to. Asked before every
    /// push, which is how its clock is followed; `None` where it cannot tell, and sound comes at the run's pace.
    fn wants(&self) -> Option<usize> {
        None
    }

    /// Called off the media thread at the end: waits until everything is where it belongs.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Discards what it is given and counts it. Without a clock: it takes sound as fast as it comes.
#[derive(Debug)]
pub struct NullSink {
    stream: StreamFormat,
    frames: u64,
}

impl NullSink {
    /// For a stream of `stream`.
    pub fn new(stream: StreamFormat) -> Self {
        NullSink { stream, frames: 0 }
    }

    /// Sample frames discarded so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

impl Sink for NullSink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.frames += (block.len() / self.stream.channels()) as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink could not take sound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The sink is slower than the stream and its queue is full; these sample frames were dropped.
    #[error("the sink is too slow: {dropped} sample frames dropped")]
    Overrun {
        /// Sample frames dropped by this call.
        dropped: usize,
    },
    /// The sink is gone (disk full, pipe closed). What it had taken stays readable; [`Sink::finish`] says why.
    #[error("the sink failed")]
    Failed,
    /// The same with the cause; from [`Sink::finish`], off the media thread.
    #[error("{0}")]
    Cause(String),
}

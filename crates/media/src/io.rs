//! Where sound comes from and goes to, as the media thread sees it.
//!
//! Blocks are interleaved 32-bit float, `[sample_frame][channel]`, full scale ±1.0. 16- and 24-bit integers pass
//! through unchanged: both fit into the 24-bit significand, with `x / 2¹⁵` and `x / 2²³` exact.

use crate::{SampleFormat, StreamFormat};

/// Something that gives sound. Called on the media thread: neither blocks nor allocates nor locks; what reads a disk
/// does so on a thread of its own and hands over through a queue.
///
/// A *recording* can be pulled at any pace, and none of it may be left out: the run's clock paces the sender. A *live*
/// source has a clock of its own, which paces the sender ([`crate::LivePace`]): what is not pulled when it comes grows
/// old. No method has a default, since sources are wrapped and a wrapper would forget it.
pub trait Source: Send {
    /// Rate and channels of what [`Self::pull`] gives.
    fn format(&self) -> StreamFormat;

    /// The precision of the material, so that a lossless stream can choose its format.
    fn sample_format(&self) -> SampleFormat;

    /// Fills `block` (whole sample frames) as far as possible.
    fn pull(&mut self, block: &mut [f32]) -> Pull;

    /// Sample frames in all, where known.
    fn length(&self) -> Option<u64>;

    /// Whether a clock of its own is behind it, as far as can be told by now. A pipe shows only by its pace whether a
    /// microphone or a file is at its other end, so that the answer may change while it is pulled: ask each time.
    fn is_live(&self) -> bool;

    /// What can be pulled now.
    fn ready(&self) -> Ready;

    /// Of a live source: leaves out all but the newest `frames` sample frames of what is ready, fewer if what is ready is
    /// stale altogether. What is pulled next is faded over from what would have followed, where sound was pulled before.
    /// Answers the sample frames left out since the last call, those that found no room in the meantime included. A
    /// recording keeps everything and answers 0.
    fn keep_newest(&mut self, frames: usize) -> u64;

    /// Of a live source: has `wake` called whenever more can be pulled, and at the end, on the thread that feeds it. To be
    /// set before sound is waited for, not while it flows; [`Self::ready`] is asked after it, as sound may have come before.
    fn set_waker(&mut self, wake: Wake);
}

/// Wakes the thread that pulls. Neither allocates nor waits, and costs one system call at most.
pub type Wake = Box<dyn Fn() + Send>;

/// What can be pulled from a [`Source`] at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// Sample frames; `usize::MAX` where they are made when they are asked for.
    pub frames: usize,
    /// Nothing will follow them.
    pub ended: bool,
}

impl Ready {
    /// Of a source that makes its sound when it is asked for, and never has to be waited for.
    pub const ALWAYS: Ready = Ready { frames: usize::MAX, ended: false };
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

/// Something that takes sound. Called on the media thread, under the same rules as [`Source`].
pub trait Sink: Send {
    /// Rate and channels of what [`Self::push`] takes.
    fn format(&self) -> StreamFormat;

    /// Takes whole sample frames.
    fn push(&mut self, block: &[f32]) -> Result<(), SinkError>;

    /// Whether it takes sound at a pace of its own, as a sound card does; a file takes whatever comes.
    fn clocked(&self) -> bool;

    /// Of a clocked sink: sample frames that it would take now to have as much in hand as it means to. Asked before every
    /// push, which is how its clock is followed; `None` where it cannot tell, and sound comes at the run's pace.
    fn wants(&self) -> Option<usize>;

    /// Sample frames that it takes at a time, such as a sound card's period; `None` where it takes any number. More than a
    /// period handed over at once only waits there ([`crate::playout::pull_frames`]).
    fn period(&self) -> Option<usize>;

    /// Called off the media thread at the end: waits until everything is where it belongs.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Discards samples and counts them. Without a clock: it takes sound as fast as it comes.
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

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<usize> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
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
    /// The sink failed (disk full, pipe closed). What it had taken stays readable; [`Sink::finish`] returns the reason.
    #[error("the sink failed")]
    Failed,
    /// The same with the cause; from [`Sink::finish`], off the media thread.
    #[error("{0}")]
    Cause(String),
}

//! Where sound comes from and where it is played or stored, as the media thread sees it.
//!
//! Blocks are interleaved 32-bit float, `[sample_frame][channel]`, full scale ±1.0. 16- and 24-bit integers pass
//! through unchanged: both fit into the 24-bit significand, with `x / 2¹⁵` and `x / 2²³` exact.

use crate::{SampleFormat, StreamFormat};

/// A source of sound. Called on the media thread: does not block, allocate or lock; a source that reads a disk does so
/// on its own thread and passes the sound on through a queue.
///
/// A *recording* can be pulled at any pace, and none of it may be left out: the run's clock paces the sender. A *live*
/// source has its own clock, which paces the sender ([`crate::LivePace`]): sound that is not pulled when it is ready
/// becomes old. No method has a default, since sources are wrapped and a wrapper would forget it.
pub trait Source: Send {
    /// Rate and channels of what [`Self::pull`] gives.
    fn format(&self) -> StreamFormat;

    /// The sample format of the material, so that a lossless stream can choose its own.
    fn sample_format(&self) -> SampleFormat;

    /// Fills `block` (whole sample frames) as far as possible.
    fn pull(&mut self, block: &mut [f32]) -> Pull;

    /// Sample frames in all, where known.
    fn length(&self) -> Option<u64>;

    /// Whether the source has its own clock, as far as is known by now. A pipe shows only by its pace whether a
    /// microphone or a file is at its other end, so the answer may change while it is pulled: ask each time.
    fn is_live(&self) -> bool;

    /// What can be pulled now.
    fn ready(&self) -> Ready;

    /// Of a live source: leaves out all but the newest `frames` sample frames of what is ready, or more if all of it is
    /// stale. The next sound pulled is cross-faded with what would have followed the last sound pulled, if any. Returns
    /// the sample frames left out since the last call, including those dropped for lack of room. A recording keeps
    /// everything and returns 0.
    fn keep_newest(&mut self, frames: usize) -> u64;

    /// Of a live source: `wake` is called whenever more can be pulled, and at the end, on the thread that feeds the
    /// source. Set it once, before waiting for sound, not while sound flows; then check [`Self::ready`], as sound may have
    /// come before.
    fn set_waker(&mut self, wake: Wake);
}

/// Wakes the thread that pulls. Neither allocates nor waits, and costs one system call at most.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// What can be pulled from a [`Source`] at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// Sample frames; `usize::MAX` for sound that is made on request.
    pub frames: usize,
    /// No more sample frames will follow.
    pub ended: bool,
    /// Of a live source that knows: sample frames that it gives at a time, as a sound server's period; 0 where it does not know. More than that waits only after
    /// a stall.
    pub piece: usize,
}

impl Ready {
    /// For a source that makes its sound on request and never has to be waited for.
    pub const ALWAYS: Ready = Ready { frames: usize::MAX, ended: false, piece: 0 };
}

/// What [`Source::pull`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pull {
    /// That many sample frames were written, at least one. Fewer than asked: the end follows, or the source is live.
    Frames(usize),
    /// Nothing yet: the source could not keep up (an underrun).
    Starved,
    /// The source has ended.
    End,
}

/// A sink of sound. Called on the media thread, under the same rules as [`Source`].
pub trait Sink: Send {
    /// Rate and channels of what [`Self::push`] takes.
    fn format(&self) -> StreamFormat;

    /// Takes whole sample frames.
    fn push(&mut self, block: &[f32]) -> Result<(), SinkError>;

    /// Whether it takes sound at a pace of its own, as a sound card does; a file takes whatever comes.
    fn clocked(&self) -> bool;

    /// Of a clocked sink: what it would take now. Queried before every push, which is how its clock is followed; `None` if
    /// it cannot tell, and sound comes at the run's pace.
    fn wants(&self) -> Option<Wants>;

    /// Sample frames that the sink takes at a time, such as a sound card's period; `None` if it takes any number. More
    /// than a period pushed at once only waits in the sink ([`crate::playout::pull_frames`]).
    fn period(&self) -> Option<usize>;

    /// Sample frames that a sink without a clock takes now and drops none of; `usize::MAX` if it takes any number. A recording
    /// of which nothing may be lost is held up by it.
    fn room(&self) -> usize;

    /// Takes so many sample frames of silence at once, however many: a gap in a recording.
    fn silence(&mut self, frames: u64) -> Result<(), SinkError>;

    /// Called off the media thread at the end: waits until everything is played or written.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// What a clocked sink would take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wants {
    /// Sample frames that it lacks to reach its own target level.
    pub frames: usize,
    /// Sample frames of the next block at most: up to the end of the cycle that the sink takes next, so that no cycle
    /// ends within a block. `usize::MAX` if blocks of any length do.
    pub block: usize,
    /// Sample frames, in all, that the sink has gone without as they came too late: their time is over, and the sound goes on
    /// behind them.
    pub missed: u64,
    /// Sample frames by which the last block of a cycle is handed over before the cycle begins.
    pub margin: usize,
    /// Sample frames that wait in the sink beyond its target level, handed over before they were due.
    pub ahead: usize,
    /// Sample frames beyond its target level that it takes at most, of sound that has come already: a thread that is held up
    /// until they are due costs nothing then, and their delay is the same.
    pub early: usize,
    /// Of a sink that takes whole cycles: nanoseconds by which all cycles begin later since its clock lost time at once, in all, less what [`Self::missed`]
    /// tells of it.
    pub slipped: i64,
}

/// Where a block stands in a cycle of a sink that takes whole cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CyclePlace {
    /// Sample frames from the first of the block to the end of the cycle.
    pub rest: usize,
    /// See [`Wants::margin`].
    pub margin: usize,
}

impl Wants {
    /// So many sample frames, in blocks of any length, by a sink that waits for all of them.
    pub fn any(frames: usize) -> Self {
        Wants { frames, block: usize::MAX, missed: 0, margin: 0, ahead: 0, early: 0, slipped: 0 }
    }

    /// Where the next block stands in the cycle that the sink takes next, if it takes whole cycles.
    pub fn cycle(&self) -> Option<CyclePlace> {
        (self.block < usize::MAX).then_some(CyclePlace { rest: self.block, margin: self.margin })
    }
}

/// Discards samples and counts them. It has no clock: it takes sound as fast as it comes.
#[derive(Debug)]
pub struct NullSink {
    stream: StreamFormat,
    frames: u64,
}

impl NullSink {
    /// Creates a sink for this stream.
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

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.frames += frames;
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
    /// The sink failed (disk full, pipe closed). What it wrote stays readable; [`Sink::finish`] returns the reason.
    #[error("the sink failed")]
    Failed,
    /// Its user closed it: nothing failed, and it takes no more.
    #[error("the sink was closed")]
    Closed,
    /// The same with the cause; from [`Sink::finish`], off the media thread.
    #[error("{0}")]
    Cause(String),
}

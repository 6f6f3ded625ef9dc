//! A sink that needs no file.

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use rtrb::{Consumer, Producer, RingBuffer};

/// Stores its samples, for tests and measurements.
pub struct MemorySink {
    stream: StreamFormat,
    ring: Producer<f32>,
}

/// The contents of a [`MemorySink`]; usable on any thread.
pub struct Memory {
    ring: Consumer<f32>,
}

impl MemorySink {
    /// A sink with room for `frames` sample frames, all of it allocated here, and the [`Memory`] to read it.
    pub fn new(stream: StreamFormat, frames: usize) -> (Self, Memory) {
        let (producer, consumer) = RingBuffer::new(frames * stream.channels());
        let sink = MemorySink { stream, ring: producer };
        (sink, Memory { ring: consumer })
    }
}

impl Memory {
    /// All samples since the last call, `[sample_frame][channel]`; makes room for as many.
    pub fn take(&mut self) -> Vec<f32> {
        let mut samples = vec![0.0; self.ring.slots()];
        let (taken, _) = self.ring.pop_partial_slice(&mut samples);
        debug_assert_eq!(taken.len(), samples.len(), "the only reader found fewer samples than it counted");
        samples
    }
}

impl Sink for MemorySink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.ring
            .push_entire_slice(block)
            .map_err(|_| SinkError::Overrun { dropped: block.len() / self.stream.channels() })
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
        self.ring.slots() / self.stream.channels()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let room = self.room();
        let taken = usize::try_from(frames).unwrap_or(usize::MAX).min(room);
        if let Ok(chunk) = self.ring.write_chunk(taken * self.stream.channels()) {
            // A new chunk is full of zeros.
            chunk.commit_all();
        }
        if frames > room as u64 {
            return Err(SinkError::Overrun { dropped: usize::try_from(frames).unwrap_or(usize::MAX) - room });
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

//! What happened to the bytes of a FIFO.

/// What a FIFO has counted, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FifoCounters {
    /// Taken by the sink as they were sent.
    pub taken: u64,
    /// Had not come when the sink passed their place.
    pub missing: u64,
    /// Taken from the empty FIFO.
    pub underflow: u64,
    /// Dropped at the full FIFO.
    pub overflow: u64,
    /// Came after their place was passed, or twice.
    pub late: u64,
    /// Of pauses.
    pub pause: u64,
}

impl FifoCounters {
    /// Adds those of another FIFO.
    pub fn add(&mut self, other: &FifoCounters) {
        let FifoCounters { taken, missing, underflow, overflow, late, pause } = other;
        self.taken += taken;
        self.missing += missing;
        self.underflow += underflow;
        self.overflow += overflow;
        self.late += late;
        self.pause += pause;
    }
}

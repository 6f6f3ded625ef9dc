//! A frame's row: as it is kept, and as it is shown.

use std::fmt;
use std::time::Duration;

use antiphon_core::Instant;

use crate::fate::Fate;
use crate::histogram::millis;

/// A frame as the log keeps it; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub sent: u64,
    pub arrived: u64,
    pub one_way: u64,
    pub duplicates: u32,
    /// Of the frame; no datagram is larger.
    pub bytes: u16,
    pub fate: Fate,
}

/// Stands for "none" in a row; an instant 584 years into the run.
pub(super) const NONE: u64 = u64::MAX;

/// A number that was never sent.
pub(super) const EMPTY: Row =
    Row { sent: NONE, arrived: NONE, one_way: NONE, duplicates: 0, bytes: 0, fate: Fate::Pending };

/// One frame of the log, and one line of `frames.csv` when displayed (empty fields for what is not known).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FrameRow {
    /// Extended sequence number.
    pub seq: u64,
    /// When it was handed to the transport.
    pub sent: Instant,
    /// When it first came.
    pub received: Option<Instant>,
    /// Time one way, where the clocks agree; known also of frames that were lost on their way back.
    pub one_way: Option<Duration>,
    /// Bytes of the frame as it was handed to the transport; 0 where that was not told.
    pub bytes: u32,
    /// How often it came again.
    pub duplicates: u32,
    /// What became of it.
    pub fate: Fate,
}

impl FrameRow {
    /// Names of the columns, as [`FrameRow`] displays them. Times are milliseconds since the run began.
    pub const COLUMNS: &'static str = "seq,sent_ms,received_ms,rtt_ms,one_way_ms,duplicates,fate";

    pub(super) fn new(seq: u64, row: &Row) -> Option<FrameRow> {
        let known = |nanos: u64| (nanos != NONE).then_some(nanos);
        Some(FrameRow {
            seq,
            sent: Instant::from_nanos(known(row.sent)?),
            received: known(row.arrived).map(Instant::from_nanos),
            one_way: known(row.one_way).map(Duration::from_nanos),
            bytes: row.bytes.into(),
            duplicates: row.duplicates,
            fate: row.fate,
        })
    }

    /// The round trip, if it came.
    pub fn rtt(&self) -> Option<Duration> {
        self.received.map(|at| at.since(self.sent))
    }
}

impl fmt::Display for FrameRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{:.6}", self.seq, self.sent.as_nanos() as f64 / 1e6)?;
        let received = self.received.map(|at| at.since(Instant::ZERO));
        for time in [received, self.rtt(), self.one_way] {
            f.write_str(",")?;
            if let Some(time) = time {
                write!(f, "{:.6}", millis(time))?;
            }
        }
        write!(f, ",{},{}", self.duplicates, self.fate)
    }
}

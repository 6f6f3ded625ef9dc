//! A packet's row: as stored, and as shown.

use std::time::Duration;

use antiphon_core::Instant;

use crate::fate::Fate;
use crate::histogram::millis;

/// A packet as the log stores it; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub sent: u64,
    pub arrived: u64,
    pub one_way: u64,
    pub duplicates: u32,
    /// Size of the packet; no datagram is larger.
    pub bytes: u16,
    pub fate: Fate,
}

/// Means "none" in a row; an instant 584 years into the run.
pub(super) const NONE: u64 = u64::MAX;

/// A number that was never sent.
pub(super) const EMPTY: Row =
    Row { sent: NONE, arrived: NONE, one_way: NONE, duplicates: 0, bytes: 0, fate: Fate::Pending };

/// One packet of the log, and one line of `packets.csv`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoggedPacket {
    /// Extended sequence number.
    pub seq: u64,
    /// When it was handed to the transport.
    pub sent: Instant,
    /// When it first arrived.
    pub received: Option<Instant>,
    /// One-way delay, if the clocks agree; known also for packets that were lost on their way back.
    pub one_way: Option<Duration>,
    /// Bytes of the packet handed to the transport; 0 if unknown.
    pub bytes: u32,
    /// How often it arrived again.
    pub duplicates: u32,
    /// Its fate.
    pub fate: Fate,
}

impl LoggedPacket {
    /// Names of the columns of [`Self::fields`]. Times are milliseconds since the run began.
    pub const COLUMNS: [&'static str; 7] =
        ["seq", "sent_ms", "received_ms", "rtt_ms", "one_way_ms", "duplicates", "fate"];

    pub(super) fn new(seq: u64, row: &Row) -> Option<LoggedPacket> {
        let known = |nanos: u64| (nanos != NONE).then_some(nanos);
        Some(LoggedPacket {
            seq,
            sent: Instant::from_nanos(known(row.sent)?),
            received: known(row.arrived).map(Instant::from_nanos),
            one_way: known(row.one_way).map(Duration::from_nanos),
            bytes: row.bytes.into(),
            duplicates: row.duplicates,
            fate: row.fate,
        })
    }

    /// The round trip, if it arrived.
    pub fn rtt(&self) -> Option<Duration> {
        self.received.map(|at| at.since(self.sent))
    }

    /// As a line of `packets.csv`: an unknown value is an empty field.
    pub fn fields(&self) -> [String; 7] {
        let time = |time: Option<Duration>| time.map_or(String::new(), |time| format!("{:.6}", millis(time)));
        [
            self.seq.to_string(),
            time(Some(self.sent.since(Instant::ZERO))),
            time(self.received.map(|at| at.since(Instant::ZERO))),
            time(self.rtt()),
            time(self.one_way),
            self.duplicates.to_string(),
            self.fate.to_string(),
        ]
    }
}

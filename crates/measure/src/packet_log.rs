//! One row per packet, filled by the media thread without allocation; every figure of a run is computed from it.

use std::time::Duration;

use antiphon_core::Instant;

use crate::buffer_check::{BufferCheck, BufferRule};
use crate::bursts::LossRuns;
use crate::fate::{Fate, FateCounts};
use crate::histogram::{Histogram, millis, nanos};
use crate::jitter::{DelayVariation, Gaps, InterarrivalJitter, RollingDeviation, mean_absolute_deviation};

mod row;

pub use row::LoggedPacket;
use row::{EMPTY, NONE, Row};

/// Configuration of a [`PacketLog`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketLogConfig {
    /// Rows kept, 40 bytes each. A longer run continues in the histograms and counters.
    pub capacity: usize,
    /// Rate of the media clock in Hz, for RFC 3550's jitter.
    pub clock_rate: u32,
    /// How long the sound in one packet lasts.
    pub packet: Duration,
    /// Bytes of sound in one packet.
    pub packet_bytes: u32,
}

/// A packet that arrived (or came back).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketArrival {
    /// Its extended sequence number.
    pub seq: u64,
    /// When it came, on the clock of [`PacketLog::on_sent`].
    pub at: Instant,
    /// Its RTP time stamp.
    pub timestamp: u32,
    /// Bytes of sound in it.
    pub len: u32,
    /// One-way delay, only if the clocks of both ends are known to agree.
    pub one_way: Option<Duration>,
    /// Whether it came by retransmission or redundancy.
    pub repaired: bool,
}

/// The log of one stream over one transport.
///
/// Packets are identified by number: [`Self::on_sent`] in rising order, arrivals and fates in any order. Every packet
/// has one fate at any time, and [`Self::counts`] always add up to [`Self::packets_sent`]. An arrival with a number
/// that was never sent is counted as unknown and changes nothing else.
#[derive(Clone, Debug)]
pub struct PacketLog {
    config: PacketLogConfig,
    /// The first `capacity` packets, then a ring of [`PacketLog::RECENT`] for those after them.
    rows: Box<[Row]>,
    first: u64,
    /// Numbers logged so far, from `first`.
    logged: u64,
    /// Index of the first packet that [`PacketLog::expect_by`] has not looked at.
    judged: u64,
    counts: FateCounts,
    left: LossRuns,
    highest_arrived: Option<u64>,
    pub(crate) tallies: Tallies,
    pub(crate) live: Live,
}

/// Counters besides the fates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tallies {
    /// Arrivals beyond the first of a number.
    pub duplicate: u64,
    /// First arrivals after a higher number (RFC 4737 §3).
    pub reordered: u64,
    /// Gaps that the receiver filled with other sound.
    pub concealed: u64,
    /// Arrivals with a number that was never sent, or sent too long ago to be known.
    pub unknown: u64,
    /// Packets whose number was not above the last, or implausibly far above it: not logged. The caller's mistake.
    pub misnumbered: u64,
}

/// Accumulators that are updated during the run.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub rtt: DelayVariation,
    pub one_way: Histogram,
    /// The same for all packets that reached the far end, whether they came back or not.
    pub reached: Histogram,
    pub jitter: InterarrivalJitter,
    pub gaps: Gaps,
    pub rolling: RollingDeviation,
    pub by_bytes: BufferCheck,
    pub by_sequence: BufferCheck,
}

impl PacketLog {
    /// How many packets back an arrival is still matched with its sending, whatever the capacity: 40 s of 5 ms packets.
    /// A packet that has not arrived by then is lost permanently.
    pub const RECENT: usize = 8192;

    /// The most rows kept, whatever the configuration says: 400 MB.
    pub const MAX_ROWS: usize = 10_000_000;

    /// The most numbers that may be skipped between two packets sent.
    pub const MAX_STEP: u64 = 8192;

    /// An empty log; allocates all the memory that it will ever need.
    pub fn new(config: PacketLogConfig) -> Self {
        let config = PacketLogConfig { capacity: config.capacity.min(Self::MAX_ROWS), ..config };
        let rule = BufferRule::for_packets(config.packet, config.packet_bytes);
        PacketLog {
            config,
            rows: vec![EMPTY; config.capacity + Self::RECENT].into_boxed_slice(),
            first: 0,
            logged: 0,
            judged: 0,
            counts: FateCounts::default(),
            left: LossRuns::default(),
            highest_arrived: None,
            tallies: Tallies::default(),
            live: Live {
                rtt: DelayVariation::default(),
                one_way: Histogram::new(),
                reached: Histogram::new(),
                jitter: InterarrivalJitter::new(config.clock_rate),
                gaps: Gaps::default(),
                rolling: RollingDeviation::default(),
                by_bytes: BufferCheck::by_bytes(rule),
                by_sequence: BufferCheck::by_sequence(rule, None),
            },
        }
    }

    /// The packet `seq` was handed to the transport at `now`. The first one begins the log.
    pub fn on_sent(&mut self, seq: u64, now: Instant) {
        if self.logged == 0 {
            self.first = seq;
        }
        let index = match seq.checked_sub(self.first) {
            Some(index) if index >= self.logged && index - self.logged <= Self::MAX_STEP => index,
            _ => {
                self.tallies.misnumbered += 1;
                return;
            }
        };
        while self.logged <= index {
            self.open_row();
        }
        self.row(index).sent = now.as_nanos().min(NONE - 1);
        self.counts.add(Fate::Pending);
    }

    /// Sets the size of packet `seq`, just sent: `bytes` bytes, its header included.
    pub fn on_size(&mut self, seq: u64, bytes: usize) {
        if let Some(index) = self.known(seq) {
            self.row(index).bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        }
    }

    /// Packet `seq` reached the far end after `one_way`, whether it comes back or not. Only if the clocks of both ends
    /// are known to agree. Fates and histograms of packets that came back stay unchanged.
    pub fn on_reached(&mut self, seq: u64, one_way: Duration) {
        if let Some(index) = self.known(seq) {
            self.note_one_way(index, one_way);
        }
    }

    /// The transport refused packet `seq`, offered at `now`.
    pub fn on_refused(&mut self, seq: u64, now: Instant) {
        self.on_sent(seq, now);
        self.on_fate(seq, Fate::Refused);
    }

    /// Adds an arrival. Returns its round trip, if it is the first arrival of a packet that was sent.
    pub fn on_received(&mut self, arrival: PacketArrival) -> Option<Duration> {
        let PacketArrival { seq, at, .. } = arrival;
        let Some(index) = self.known(seq) else {
            self.tallies.unknown += 1;
            return None;
        };
        let row = self.row(index);
        if row.arrived != NONE {
            row.duplicates = row.duplicates.saturating_add(1);
            self.tallies.duplicate += 1;
            return None;
        }
        row.arrived = at.as_nanos().min(NONE - 1);
        let rtt = at.since(Instant::from_nanos(row.sent));
        let fate = if arrival.repaired { Fate::Recovered } else { Fate::Played };
        if let Some(one_way) = arrival.one_way {
            self.note_one_way(index, one_way);
        }
        self.revise(index, fate);
        self.tallies.reordered += u64::from(self.highest_arrived.is_some_and(|highest| seq < highest));
        self.highest_arrived = self.highest_arrived.max(Some(seq));
        self.live.on_first_arrival(arrival, rtt);
        Some(rtt)
    }

    fn note_one_way(&mut self, index: u64, one_way: Duration) {
        let row = self.row(index);
        if row.one_way == NONE {
            row.one_way = nanos(one_way).min(NONE - 1);
            self.live.reached.record(one_way);
        }
    }

    /// One end reports the fate of packet `seq`: late (the receiver), expired, refused (the sender). A fate that needs
    /// an arrival is ignored before it; [`Fate::revised_by`] decides which of two fates counts.
    pub fn on_fate(&mut self, seq: u64, fate: Fate) {
        if let Some(index) = self.known(seq)
            && (!fate.arrived() || self.row(index).arrived != NONE)
        {
            self.revise(index, fate);
        }
    }

    /// The receiver filled `n` gaps.
    pub fn on_concealed(&mut self, n: u64) {
        self.tallies.concealed += n;
    }

    /// Packets sent before `instant` and not received since are lost. One that still arrives is counted as arrived.
    pub fn expect_by(&mut self, instant: Instant) {
        self.judged = self.judged.max(self.oldest());
        while self.judged < self.logged {
            let row = *self.row(self.judged);
            if row.sent != NONE && row.sent >= instant.as_nanos() {
                break;
            }
            if row.sent != NONE && row.fate == Fate::Pending {
                self.revise(self.judged, Fate::Lost);
            }
            self.judged += 1;
        }
    }

    /// The run is over: packets still in flight are lost.
    pub fn finish(&mut self) {
        self.expect_by(Instant::from_nanos(NONE));
    }

    /// When packet `seq` was handed over; `None` if it was not, or too long ago.
    pub fn sent_at(&self, seq: u64) -> Option<Instant> {
        self.known(seq).map(|index| Instant::from_nanos(self.rows[self.place(index)].sent))
    }

    /// How many packets met each fate so far; together they are [`Self::packets_sent`].
    pub fn counts(&self) -> FateCounts {
        self.counts
    }

    /// Packets handed over, refused ones included.
    pub fn packets_sent(&self) -> u64 {
        self.counts.total()
    }

    /// Counters besides the fates.
    pub fn tallies(&self) -> Tallies {
        self.tallies
    }

    /// Round-trip times so far.
    pub fn rtt(&self) -> &Histogram {
        self.live.rtt.delays()
    }

    /// One-way delays so far.
    pub fn one_way(&self) -> &Histogram {
        &self.live.one_way
    }

    /// One-way delays of all packets that reached the far end, whether they came back or not.
    pub fn reached(&self) -> &Histogram {
        &self.live.reached
    }

    /// Whether one clock measures both the sending of packets and their arrival at the far end.
    pub fn has_one_clock(&self) -> bool {
        // One packet that came back without its one-way delay would look like one that never reached the far end.
        self.one_way().count() > 0 && self.one_way().count() == self.rtt().count()
    }

    /// Whether every packet has its row. If not, rows cover the beginning of the run, percentiles all of it.
    pub fn is_complete(&self) -> bool {
        self.logged <= self.config.capacity as u64
    }

    /// Its settings.
    pub fn config(&self) -> PacketLogConfig {
        self.config
    }

    /// Loss in the order of sending, over the whole run. Only *lost* packets count: expired and refused ones were never
    /// on the network, and packets in flight are left out.
    pub fn loss_runs(&self) -> LossRuns {
        let mut runs = self.left.clone();
        for index in self.oldest()..self.logged {
            feed(&mut runs, &self.rows[self.place(index)]);
        }
        runs
    }

    /// Jitter as Schiavoni, Queiroz and Wanderley 2013 define it, over the round trips, in milliseconds: exact if the log is
    /// complete, otherwise within [`Histogram::PRECISION`] of the mean. `None` if nothing arrived.
    pub fn jitter_mad_ms(&self) -> Option<f64> {
        if !self.is_complete() {
            return self.rtt().mean_absolute_deviation().map(|nanos| nanos / 1e6);
        }
        let round_trips: Vec<f64> = self.rows().filter_map(|row| row.rtt().map(millis)).collect();
        mean_absolute_deviation(&round_trips)
    }

    /// The packets that have a row, in the order of sending: the first `capacity`.
    pub fn rows(&self) -> impl Iterator<Item = LoggedPacket> + '_ {
        let kept = self.logged.min(self.config.capacity as u64);
        let row = |index: u64| LoggedPacket::new(self.first + index, &self.rows[index as usize]);
        (0..kept).filter_map(row)
    }

    /// Index of `seq`, if it was sent and is recent enough for its fate to change.
    fn known(&self, seq: u64) -> Option<u64> {
        let index = seq.checked_sub(self.first)?;
        let there = index < self.logged && index >= self.oldest();
        (there && self.rows[self.place(index)].sent != NONE).then_some(index)
    }

    /// The oldest index that [`Self::left`] does not include: its fate may still change.
    fn oldest(&self) -> u64 {
        self.logged.saturating_sub(Self::RECENT as u64)
    }

    fn place(&self, index: u64) -> usize {
        match index.checked_sub(self.config.capacity as u64) {
            None => index as usize,
            Some(beyond) => self.config.capacity + (beyond % Self::RECENT as u64) as usize,
        }
    }

    fn row(&mut self, index: u64) -> &mut Row {
        let place = self.place(index);
        &mut self.rows[place]
    }

    /// Makes room for the next number, deciding the fate of the packet that is no longer recent.
    fn open_row(&mut self) {
        if let Some(leaving) = self.logged.checked_sub(Self::RECENT as u64) {
            let row = *self.row(leaving);
            if row.sent != NONE && row.fate == Fate::Pending {
                self.revise(leaving, Fate::Lost);
            }
            let row = *self.row(leaving);
            feed(&mut self.left, &row);
        }
        *self.row(self.logged) = EMPTY;
        self.logged += 1;
    }

    fn revise(&mut self, index: u64, report: Fate) {
        let row = self.row(index);
        let before = row.fate;
        row.fate = before.revised_by(report);
        let after = row.fate;
        self.counts.change(before, after);
    }
}

impl Live {
    fn on_first_arrival(&mut self, arrival: PacketArrival, rtt: Duration) {
        let PacketArrival { seq, at, len, .. } = arrival;
        self.rtt.on_delay(seq, rtt);
        if let Some(delay) = arrival.one_way {
            self.one_way.record(delay);
        }
        self.jitter.on_packet(at, arrival.timestamp);
        if let Some(gap) = self.gaps.on_arrival(at) {
            self.rolling.on_gap(gap);
        }
        self.by_bytes.on_arrival(at, seq, len);
        self.by_sequence.on_arrival(at, seq, len);
    }
}

fn feed(runs: &mut LossRuns, row: &Row) {
    match row.fate {
        Fate::Lost => runs.on_lost(1),
        Fate::Played | Fate::Recovered | Fate::Late => runs.on_received(1),
        Fate::Pending | Fate::Expired | Fate::Refused => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Converts a passport to what a path did at each time, for a link model to replay.

use std::time::Duration;

use antiphon_core::Instant;

use super::{Delays, Direction, PacketRow, Passport, PassportError, Recorded};

/// What the path did to a packet sent at that time: the delay, or a loss (`None`).
pub type PathSample = (Instant, Option<Duration>);

/// What a path did, in both directions if known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// Scheme of the transport whose packets were recorded.
    pub transport: String,
    /// Bytes of its messages without any headers of the transport: of the largest, or of the first message.
    pub frame_bytes: u32,
    /// Mean time between its packets, if known.
    pub interval: Option<Duration>,
    /// From the sender, in order of time; the first packet was sent at [`Instant::ZERO`].
    pub up: Vec<PathSample>,
    /// Back to it, on the same clock. `None` if nothing was sent back by design.
    pub down: Option<Vec<PathSample>>,
    /// Assumptions made, as sentences for the reader of any result.
    pub remarks: Vec<String>,
}

impl Passport {
    /// The path as seen by the packets of `transport`. Without a choice: of the first transport that repairs nothing
    /// itself, since it shows the path unchanged; otherwise of the first whose arrivals are known.
    ///
    /// Round trips are split in halves, and losses in either direction are assigned to the way there. The smallest
    /// relative delay is subtracted from all. Remarks state both.
    pub fn paths(&self, transport: Option<&str>) -> Result<Paths, PassportError> {
        let chosen = self.choose(transport)?;
        let section = &chosen.section;
        let (up, down) = self.ways(chosen)?;
        Ok(Paths {
            transport: section.transport.clone(),
            frame_bytes: section.packet_bytes.saturating_sub(section.header_bytes),
            interval: section.interval_ns.map(Duration::from_nanos),
            up,
            down,
            remarks: self.remarks(chosen),
        })
    }

    /// The path there, and back if known.
    fn ways(&self, chosen: &Recorded) -> Result<(Vec<PathSample>, Option<Vec<PathSample>>), PassportError> {
        let rows = sent_known(&chosen.packets, chosen.section.interval_ns);
        let origin = rows.first().ok_or(PassportError::Empty)?.sent;
        Ok(match chosen.section.delays {
            Delays::Unknown => return Err(PassportError::NoArrivals),
            Delays::OneWay => {
                let name = &chosen.section.transport;
                let back = self.sections.iter().find(|other| {
                    other.section.transport == *name && other.section.direction == Direction::Down
                });
                let down = back.map(|back| {
                    samples(&sent_known(&back.packets, back.section.interval_ns), origin, |delay| delay)
                });
                (samples(&rows, origin, |delay| delay), down)
            }
            Delays::Relative => {
                let smallest = rows.iter().filter_map(Row::delay).min().unwrap_or(0);
                (samples(&rows, origin, |delay| delay.saturating_sub(smallest)), None)
            }
            Delays::RoundTrip => (samples(&rows, origin, |delay| delay / 2), Some(way_back(&rows, origin))),
        })
    }

    /// What the reader of any result has to know.
    fn remarks(&self, chosen: &Recorded) -> Vec<String> {
        let section = &chosen.section;
        let name = &section.transport;
        let mut remarks = Vec::new();
        if !self.complete {
            remarks.push("the recording is truncated; its packets are replayed".into());
        }
        if self.unrecorded > 0 {
            remarks.push(format!(
                "{} packets could not be recorded in time and appear as lost",
                self.unrecorded
            ));
        }
        if section.repairs {
            remarks.push(format!(
                "{name} retransmits lost packets: delays include retransmissions, and losses of the path are hidden"
            ));
        }
        remarks.extend(match section.delays {
            Delays::Relative => Some(
                "two clocks: delays are relative to the fastest packet; add the path's propagation delay if you know it"
                    .into(),
            ),
            Delays::RoundTrip => Some(
                "only round trips are known: half is used for each direction, and every loss counts as lost on the \
                 way out"
                    .into(),
            ),
            Delays::OneWay | Delays::Unknown => None,
        });
        let same = |other: &&Recorded| {
            other.section.transport == *name && other.section.direction == section.direction
        };
        if self.sections.iter().filter(same).count() > 1 {
            remarks.push("the passport has several streams; the longest is replayed".into());
        }
        remarks
    }

    /// The section to use: the longest one, from the sender, of that transport.
    fn choose(&self, transport: Option<&str>) -> Result<&Recorded, PassportError> {
        let from_sender =
            || self.sections.iter().filter(|recorded| recorded.section.direction != Direction::Down);
        let name = match transport {
            Some(name) => name,
            None => {
                let known = || from_sender().filter(|recorded| recorded.section.delays != Delays::Unknown);
                let best = known().find(|recorded| !recorded.section.repairs).or_else(|| known().next());
                let best = best.or_else(|| from_sender().next()).ok_or(PassportError::Empty)?;
                &best.section.transport
            }
        };
        // Of equally long ones the first.
        let named = from_sender().filter(|recorded| recorded.section.transport == name);
        named.rev().max_by_key(|recorded| recorded.packets.len()).ok_or_else(|| {
            let mut known: Vec<&str> = from_sender().map(|recorded| &*recorded.section.transport).collect();
            known.dedup();
            let known = if known.is_empty() { "no packets at all".into() } else { known.join(", ") };
            PassportError::NoTransport { transport: name.into(), known }
        })
    }
}

/// A packet whose time of sending is known, or estimated.
#[derive(Clone, Copy)]
struct Row {
    sent: i64,
    arrived: Option<i64>,
}

impl Row {
    fn delay(&self) -> Option<i64> {
        Some(self.arrived?.saturating_sub(self.sent))
    }
}

/// Gives every packet a time of sending: if none was recorded, interpolated between its neighbours by their numbers;
/// before the first and after the last known one, at the section's interval.
fn sent_known(packets: &[PacketRow], interval: Option<u64>) -> Vec<Row> {
    let known: Vec<(u64, i64)> = packets.iter().filter_map(|row| Some((row.number, row.sent?))).collect();
    let interval = i64::try_from(interval.unwrap_or(0)).unwrap_or(0);
    let mut ahead = 0;
    let row = |row: &PacketRow| {
        while known.get(ahead).is_some_and(|(number, _)| *number < row.number) {
            ahead += 1;
        }
        let before = ahead.checked_sub(1).map(|index| known[index]);
        let steps = |from: u64, to: u64| i64::try_from(to - from).unwrap_or(i64::MAX);
        let sent = match (row.sent, before, known.get(ahead)) {
            (Some(sent), ..) => sent,
            (None, Some((n, a)), Some((m, b))) => {
                let share = i128::from(steps(n, row.number)) * (i128::from(*b) - i128::from(a));
                let part = share / i128::from(steps(n, *m));
                i64::try_from(i128::from(a) + part).unwrap_or(a)
            }
            (None, Some((n, a)), None) => a.saturating_add(interval.saturating_mul(steps(n, row.number))),
            (None, None, Some((m, b))) => b.saturating_sub(interval.saturating_mul(steps(row.number, *m))),
            (None, None, None) => return None,
        };
        Some(Row { sent, arrived: row.arrived })
    };
    packets.iter().filter_map(row).collect()
}

/// Samples in order of time, counted from `origin`; `read` turns a difference of times into a delay.
fn samples(rows: &[Row], origin: i64, read: impl Fn(i64) -> i64) -> Vec<PathSample> {
    let sample = |row: &Row| (since(row.sent, origin), row.delay().map(|delay| positive(read(delay))));
    let mut samples: Vec<PathSample> = rows.iter().map(sample).collect();
    samples.sort_by_key(|(at, _)| *at);
    samples
}

/// The second halves of round trips: each begins when the first half is over. They contain no losses.
fn way_back(rows: &[Row], origin: i64) -> Vec<PathSample> {
    let sample = |row: &Row| {
        let delay = row.delay()?;
        let there = row.sent.saturating_add(delay / 2);
        Some((since(there, origin), Some(positive(delay - delay / 2))))
    };
    let mut samples: Vec<PathSample> = rows.iter().filter_map(sample).collect();
    samples.sort_by_key(|(at, _)| *at);
    samples
}

fn since(at: i64, origin: i64) -> Instant {
    Instant::from_nanos(u64::try_from(at.saturating_sub(origin)).unwrap_or(0))
}

/// Clocks read in another order than the events make a delay of a few microseconds below zero.
fn positive(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

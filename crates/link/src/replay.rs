//! A recorded path as a link: what happened to the recorded packets happens to the new ones.
//!
//! A recording is a sequence of samples: at that time, a packet was delayed by so much, or lost. Between samples:
//!
//! * **Losses.** The state of a sample holds from its time until the next sample's. A packet offered then is lost if that
//!   sample was.
//! * **Delays.** A packet offered between two samples arrives between them, in proportion: the time of arrival, and with
//!   it the delay, is interpolated. A lost sample takes the delay interpolated between its neighbours'. Where the path
//!   reordered two samples, packets offered between them arrive with the first, and only packets offered with or after
//!   the second overtake: no more reordering than was recorded.
//! * **Several samples of one time**, as when a block takes several packets: packets offered at exactly that time use
//!   them in turn, further ones the last.
//! * **The beginning.** Before the first sample, the first one's state holds.
//! * **The end** follows [`ReplayEnd`].
//!
//! A packet offered at exactly a sample's time gets exactly that sample's fate: offered at the times of the recording,
//! all packets are lost and delayed as recorded, to the nanosecond. Nothing is drawn, so there is no seed. The effect
//! of the recorded load on the path (its queue, its rate) is part of the samples and does not react to another load;
//! copies are not made. Packet sizes are not known.

use std::sync::Arc;
use std::time::Duration;

use antiphon_core::Instant;

use crate::packet::{Counters, Discard, Packet};
use crate::queue::MAX_PACKETS;
use crate::travelling::Travelling;

/// What the path did to a packet sent at `at`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplaySample {
    /// When it was sent.
    pub at: Instant,
    /// How long it took; `None` if it was lost.
    pub delay: Option<Duration>,
}

impl From<(Instant, Option<Duration>)> for ReplaySample {
    fn from((at, delay): (Instant, Option<Duration>)) -> Self {
        ReplaySample { at, delay }
    }
}

/// What follows the last sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayEnd {
    /// The last sample's state holds permanently: after a loss, everything is lost.
    #[default]
    Hold,
    /// After this time the recording restarts. Both directions of a path use the same period, so that they do not drift
    /// apart; samples after it are not used.
    Repeat(Duration),
}

/// Why a recording can't be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayError {
    /// There are no samples.
    #[error("a recording without packets cannot be replayed: record longer")]
    Empty,
    /// Times go back.
    #[error(
        "sample {index} of the recording was sent before the one ahead of it: sort them by time of sending"
    )]
    OutOfOrder {
        /// Counted from 0.
        index: usize,
    },
    /// The repetition period is too short.
    #[error(
        "a recording cannot be repeated with a period of zero: give the time from its first packet to the end of its last"
    )]
    Period,
}

/// A recorded path: plain data, shared by all links that replay it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayPath {
    states: Arc<[State]>,
    end: ReplayEnd,
}

/// A sample with a known or estimated delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    at: u64,
    delay: u64,
    lost: bool,
}

impl State {
    fn arrival(&self) -> u64 {
        self.at.saturating_add(self.delay)
    }
}

impl ReplayPath {
    /// A path that behaves like these samples, which are in order of time.
    pub fn new<S: Into<ReplaySample>>(
        samples: impl IntoIterator<Item = S>,
        end: ReplayEnd,
    ) -> Result<Self, ReplayError> {
        let mut states: Vec<State> = samples.into_iter().map(|sample| state(sample.into())).collect();
        if states.is_empty() {
            return Err(ReplayError::Empty);
        }
        if let Some(before) = states.windows(2).position(|pair| pair[1].at < pair[0].at) {
            return Err(ReplayError::OutOfOrder { index: before + 1 });
        }
        if let ReplayEnd::Repeat(period) = end {
            states.retain(|state| u128::from(state.at) < period.as_nanos());
            if states.is_empty() {
                return Err(ReplayError::Period);
            }
        }
        fill_delays(&mut states);
        Ok(ReplayPath { states: states.into(), end })
    }

    /// From the first sample to after the last, whose length is taken as the mean time between samples: the period at
    /// which it may be repeated. At least a nanosecond.
    pub fn duration(&self) -> Duration {
        let (first, last) = (self.states[0].at, self.states[self.states.len() - 1].at);
        let between = (last - first) / (self.states.len() as u64 - 1).max(1);
        Duration::from_nanos((last - first).saturating_add(between).max(1))
    }

    /// When the `nth` packet (from 0) of those offered at `now` arrives; `None` if it is lost.
    pub fn fate(&self, now: Instant, nth: usize) -> Option<Instant> {
        let t = now.as_nanos();
        let ReplayEnd::Repeat(period) = self.end else {
            return self.arrival(t, nth, None).map(Instant::from_nanos);
        };
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        // A run lasts until the next one's first sample.
        let begun = match t.checked_sub(self.states[0].at) {
            Some(since_first) => since_first - since_first % period,
            None => 0,
        };
        let arrival = self.arrival(t - begun, nth, Some(period))?;
        Some(Instant::from_nanos(begun.saturating_add(arrival)))
    }

    /// As [`Self::fate`], at `t` nanoseconds of the recording; the next run begins at `again`.
    fn arrival(&self, t: u64, nth: usize, again: Option<u64>) -> Option<u64> {
        let behind = self.states.partition_point(|state| state.at <= t);
        let Some(here) = behind.checked_sub(1) else {
            let first = &self.states[0];
            return (!first.lost).then(|| t.saturating_add(first.delay));
        };
        let state = &self.states[here];
        if state.at == t {
            let first = self.states[..here].partition_point(|state| state.at < t);
            let own = &self.states[first.saturating_add(nth).min(here)];
            return (!own.lost).then(|| own.arrival());
        }
        let next = self.states.get(behind).copied().filter(|next| again.is_none_or(|again| next.at < again));
        // The next run's first state follows the last one of this run.
        let first_again =
            |again: u64| State { at: again.saturating_add(self.states[0].at), ..self.states[0] };
        let next = next.or_else(|| again.map(first_again));
        (!state.lost).then(|| match next {
            Some(next) => between(state, &next, t),
            None => t.saturating_add(state.delay),
        })
    }
}

fn state(sample: ReplaySample) -> State {
    let nanos = |delay: Duration| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    State { at: sample.at.as_nanos(), delay: sample.delay.map_or(0, nanos), lost: sample.delay.is_none() }
}

/// Interpolates the delay of lost samples between those of the nearest samples on both sides that arrived.
fn fill_delays(states: &mut [State]) {
    let mut before: Option<State> = None;
    let mut index = 0;
    while index < states.len() {
        if !states[index].lost {
            before = Some(states[index]);
            index += 1;
            continue;
        }
        let run = states[index..].iter().take_while(|state| state.lost).count();
        let after = states.get(index + run).copied();
        for state in &mut states[index..index + run] {
            state.delay = match (before, after) {
                (Some(before), Some(after)) => part(before, after, state.at, |state| state.delay),
                (Some(one), None) | (None, Some(one)) => one.delay,
                (None, None) => 0,
            };
        }
        index += run;
    }
}

/// Arrival time of a packet offered at `t`, strictly between two states.
fn between(state: &State, next: &State, t: u64) -> u64 {
    if next.arrival() < state.arrival() { state.arrival() } else { part(*state, *next, t, State::arrival) }
}

/// The value at `t` on a straight line between two states.
fn part(a: State, b: State, t: u64, of: impl Fn(&State) -> u64) -> u64 {
    let (from, to) = (i128::from(of(&a)), i128::from(of(&b)));
    let span = i128::from(b.at - a.at).max(1);
    // The result lies between two 64-bit numbers, so it is one too.
    (from + (to - from) * i128::from(t - a.at) / span) as u64
}

/// One direction of a recorded path.
///
/// Used like a [`crate::Link`]: `offer` packets, and `poll` them when `poll_timeout` is due. Packets leave in order of
/// arrival, those of one instant in the order in which they were offered.
pub struct Replay<P> {
    path: ReplayPath,
    travelling: Travelling<P>,
    /// The last time of an offer, and the number of offers at it.
    last: Option<(Instant, usize)>,
    counters: Counters,
}

impl<P: Packet> Replay<P> {
    /// A link that replays `path` from its beginning at [`Instant::ZERO`].
    pub fn new(path: ReplayPath) -> Self {
        Replay { path, travelling: Travelling::default(), last: None, counters: Counters::default() }
    }

    /// Takes a packet at `now`, which never goes back; returns it if too many are in flight.
    pub fn offer(&mut self, now: Instant, packet: P) -> Option<P> {
        self.counters.count_offered(packet.wire_len());
        let nth = match &mut self.last {
            Some((last, count)) if *last == now => {
                *count += 1;
                *count
            }
            last => {
                *last = Some((now, 0));
                0
            }
        };
        let Some(due) = self.path.fate(now, nth) else {
            self.counters.lost += 1;
            packet.discard(Discard::Lost);
            return None;
        };
        if !self.has_room() {
            self.counters.overflowed += 1;
            return Some(packet);
        }
        self.counters.in_flight += 1;
        self.travelling.push(due, packet);
        None
    }

    /// Whether a packet offered now would be taken.
    pub fn has_room(&self) -> bool {
        self.travelling.count() < MAX_PACKETS
    }

    /// The next packet that has arrived by `now`, with its instant of arrival.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, P)> {
        let (due, packet) = self.travelling.pop(now)?;
        self.counters.in_flight -= 1;
        self.counters.count_delivered(packet.wire_len());
        Some((due, packet))
    }

    /// When to poll next; `None` when nothing is in flight.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.travelling.next_due()
    }

    /// Counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests;

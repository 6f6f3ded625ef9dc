//! Loss intervals and the loss event rate (RFC 5348 §5, RFC 4342 §6).

use crate::cc::tfrc::{KEPT, mean_interval};
use crate::dccp::seq::Seq48;

/// Lengths of the intervals between loss events, newest first; entry 0 is still open.
#[derive(Clone, Debug, Default)]
pub struct LossHistory {
    intervals: [Interval; KEPT],
    len: usize,
    /// Window counter, unwrapped, at which the newest loss event began.
    event_at: Option<u64>,
    /// Data packets before the first loss.
    before_any: u32,
    /// Packets before the first loss, with or without data.
    packets_before_any: u32,
}

/// A loss interval: it begins with its losses (RFC 4342 §8.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Packets from the first lost to the last lost one.
    pub lossy: u32,
    /// Packets after them.
    pub lossless: u32,
    /// Data packets in all.
    pub data: u32,
}

impl LossHistory {
    /// A packet arrived in order, with data or without.
    pub fn on_received(&mut self, data: bool) {
        if self.len == 0 {
            self.before_any = self.before_any.saturating_add(u32::from(data));
            self.packets_before_any = self.packets_before_any.saturating_add(1);
            return;
        }
        let open = &mut self.intervals[0];
        open.lossless = open.lossless.saturating_add(1);
        open.data = open.data.saturating_add(u32::from(data));
    }

    /// `lost` packets are missing; the first packet after them has window counter `counter` (unwrapped). Returns
    /// whether that is a new loss event.
    ///
    /// `first`: length of the very first interval, in data packets, for the time before.
    pub fn on_lost(&mut self, lost: u32, counter: u64, first: impl FnOnce(u32) -> u32) -> bool {
        // Losses within a round trip, four counts, are one event (RFC 4342 §10.2).
        if let Some(at) = self.event_at
            && counter.saturating_sub(at) <= ROUND_TRIP
        {
            let open = &mut self.intervals[0];
            open.lossy = open.lossy.saturating_add(open.lossless).saturating_add(lost);
            open.lossless = 0;
            open.data = open.data.saturating_add(lost);
            return false;
        }
        if self.event_at.is_none() {
            let past = first(self.before_any).clamp(1, LONGEST);
            self.intervals[0] = Interval { lossy: 0, lossless: self.packets_before_any, data: past };
            self.len = 1;
        }
        self.event_at = Some(counter);
        self.intervals.copy_within(0..KEPT - 1, 1);
        self.intervals[0] = Interval { lossy: lost, lossless: 0, data: lost };
        self.len = (self.len + 1).min(KEPT);
        true
    }

    /// Mean interval in data packets, which is 1/p; `None` before any loss.
    pub fn mean(&self) -> Option<f64> {
        (self.len > 0).then(|| mean_interval(self.intervals[..self.len].iter().map(|i| f64::from(i.data))))
    }

    /// The intervals, newest first.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals[..self.len]
    }
}

/// Unwraps window counters, packet by packet in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    last: u64,
}

impl Counter {
    /// The counter of the next packet in order.
    pub fn extend(&mut self, ccval: u8) -> u64 {
        self.last += u64::from(ccval.wrapping_sub(self.last as u8) & 0x0f);
        self.last
    }
}

/// Later packets after which a hole is a loss (RFC 5348 §5.1).
pub const DUPLICATES: usize = 3;

/// A packet that arrived after a hole and waits for it to be filled or given up.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Its number.
    pub seq: Seq48,
    /// Its window counter.
    pub ccval: u8,
    /// Whether it carries data.
    pub data: bool,
    /// Packets without data just before it, if it tells.
    pub ndp: Option<u64>,
}

/// Window counts of a round trip (RFC 4342 §8.1).
const ROUND_TRIP: u64 = 4;
/// 24 bits, as the Loss Intervals option has them.
const LONGEST: u32 = (1 << 24) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_worked_by_hand() {
        let mean = |lengths: &[f64]| mean_interval(lengths.iter().copied());
        let hundreds = |open: f64| [&[open][..], &[100.0; 8]].concat();
        assert_eq!(mean(&hundreds(5.0)), 100.0);
        assert_eq!(mean(&hundreds(400.0)), 150.0);
        let doubling: Vec<f64> = (0..9).map(|n| 10.0 * f64::from(1 << n)).collect();
        assert!((mean(&doubling) - 327.333).abs() < 0.001, "{}", mean(&doubling));
        assert_eq!(mean(&[50.0, 10.0]), 50.0);
        assert_eq!(mean(&[5.0, 10.0]), 10.0);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let mut history = LossHistory::default();
        (0..30).for_each(|_| history.on_received(true));
        assert_eq!(history.mean(), None);
        assert!(history.on_lost(1, 10, |before| before + 70));
        history.on_received(true);
        assert!(!history.on_lost(2, 14, |_| panic!("only once")));
        (0..6).for_each(|_| history.on_received(true));
        history.on_received(false);
        assert!(history.on_lost(1, 15, |_| panic!("only once")));
        let expected = [
            Interval { lossy: 1, lossless: 0, data: 1 },
            Interval { lossy: 4, lossless: 7, data: 10 },
            Interval { lossy: 0, lossless: 30, data: 100 },
        ];
        assert_eq!(history.intervals(), expected);
        assert_eq!(history.mean(), Some(55.0));
    }

    #[test]
    fn counters_count_on_through_their_wrap() {
        let mut counter = Counter::default();
        let extended: Vec<u64> = [3, 8, 12, 15, 3, 3, 8].into_iter().map(|c| counter.extend(c)).collect();
        assert_eq!(extended, [3, 8, 12, 15, 19, 19, 24]);
    }
}

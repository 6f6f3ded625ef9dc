//! A path on which one packet takes long: there a window of a few packets is a coarse thing, but what the path takes in a second is
//! known from the packets that waited, since they arrive one behind the other.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::ArrivalReport;

use super::{SPAN, SPANS};

/// What is known of a path by arrivals that waited for one another.
#[derive(Clone, Debug)]
pub(super) struct SlowPath {
    /// Of the report that is read.
    arrivals: [Arrival; MOST],
    count: usize,
    /// When the newest packet arrived, and how long it had waited.
    newest: Option<(u32, Duration)>,
    /// Bytes of the last packets that had waited for the one before them, and how long after it each arrived, in seconds; older ones
    /// count less and less.
    bytes: f64,
    seconds: f64,
    packets: u32,
    /// The most bytes a second in each of the last spans of time, the newest first: what another sender takes of the path is a part of it.
    most: [f64; SPANS],
    began: Instant,
    /// Bytes a second of the packet that came soonest after the one before it: the path takes more than that.
    proved: f64,
    /// How long packets wait on average.
    wait: Option<Duration>,
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// By the receiver's clock ([`ArrivalReport::arrived_at`]).
    pub at: u32,
    pub bytes: u32,
    /// How long it has waited.
    pub wait: Duration,
}

impl SlowPath {
    pub fn new() -> Self {
        SlowPath {
            arrivals: [Arrival::default(); MOST],
            count: 0,
            newest: None,
            bytes: 0.0,
            seconds: 0.0,
            packets: 0,
            most: [0.0; SPANS],
            began: Instant::ZERO,
            proved: 0.0,
            wait: None,
        }
    }

    /// A packet that a report tells of, in any order. More than find room are none of a slow path.
    pub fn note(&mut self, arrival: Arrival) {
        if let Some(place) = self.arrivals.get_mut(self.count) {
            *place = arrival;
            self.count += 1;
        }
    }

    /// The report is read.
    pub fn end_report(&mut self, now: Instant) {
        let arrivals = &mut self.arrivals[..self.count];
        self.count = 0;
        let Some(last) = arrivals.last().copied() else { return };
        arrivals.sort_unstable_by_key(|one| one.at.wrapping_sub(last.at) as i32);
        let mean = arrivals.iter().map(|one| one.wait).sum::<Duration>() / arrivals.len() as u32;
        self.wait = Some(self.wait.map_or(mean, |before| (before + mean) / 2));
        for one in arrivals {
            let Some(newest) = self.newest.replace((one.at, one.wait)) else { continue };
            let ticks = one.at.wrapping_sub(newest.0) as i32;
            self.proved = self
                .proved
                .max(f64::from(one.bytes) * TICKS / f64::from(ticks.max(ArrivalReport::FINEST as i32)));
            if ticks <= 0 {
                // It was told of late.
                self.newest = Some(newest);
                continue;
            }
            let gap = f64::from(ticks) / TICKS;
            // It left before the other one had arrived.
            if one.wait.as_secs_f64() >= gap {
                self.bytes += f64::from(one.bytes) - self.bytes / MEMORY;
                self.seconds += gap - self.seconds / MEMORY;
                // Of two large ones that were sent together the second waited for the first, and for hardly anything else.
                let sent_apart = gap + newest.1.as_secs_f64() - one.wait.as_secs_f64();
                let is_pair = one.bytes >= LARGE && sent_apart.abs() <= TOGETHER.as_secs_f64();
                self.packets = self.packets.saturating_add(if is_pair { FEW } else { 1 });
            }
        }
        if now.since(self.began) >= SPAN {
            self.most.copy_within(..SPANS - 1, 1);
            (self.most[0], self.began) = (0.0, now);
        }
        self.most[0] = self.most[0].max(self.estimate().unwrap_or(0.0));
    }

    /// Bytes a second that the path takes at least; 0 while that is not known.
    pub fn proved(&self) -> f64 {
        self.proved
    }

    /// Whether all that is known speaks for a path on which a packet takes long.
    pub fn is_likely(&self, packet: f64) -> bool {
        self.proved > 0.0 && packet > self.proved * LONG.as_secs_f64()
    }

    fn estimate(&self) -> Option<f64> {
        (self.packets >= FEW).then(|| self.bytes / self.seconds)
    }

    /// The same, at most in the last half minute.
    fn most(&self) -> f64 {
        self.most.iter().fold(0.0, |most, one| most.max(*one))
    }

    /// Bytes a second that the path takes of ours, if a packet of `packet` bytes takes long on it.
    pub fn capacity(&self, packet: f64) -> Option<f64> {
        self.estimate().filter(|_| packet > self.most() * LONG.as_secs_f64())
    }

    /// What to send in a second, so that packets wait for the time that [`Self::aim`] names.
    pub fn rate(&self, packet: f64) -> Option<f64> {
        let capacity = self.capacity(packet)?;
        let (aim, wait) = (self.aim(packet)?.as_secs_f64(), self.wait?.as_secs_f64());
        Some(capacity * (1.0 + GAIN * (aim - wait) / aim).clamp(SLOWEST, FASTEST))
    }

    /// How long packets should wait on average, so that the path is hardly ever without one.
    pub fn aim(&self, packet: f64) -> Option<Duration> {
        self.capacity(packet)?;
        Some(Duration::from_secs_f64(AIM * packet / self.most()))
    }
}

/// A packet of this length in time takes long.
const LONG: Duration = Duration::from_millis(10);
/// Packets of a report that count: one tells of 100 ms at most.
const MOST: usize = 64;
const TICKS: f64 = ArrivalReport::UNITS_PER_SECOND as f64;
/// Over how many packets the rate is averaged, and after how many it is known, or after one that was sent within this time of the one before it, if it
/// is so large in bytes: the others of the first round trip are on their way by then.
const MEMORY: f64 = 32.0;
const FEW: u32 = 3;
const TOGETHER: Duration = Duration::from_millis(5);
const LARGE: u32 = 400;
/// How many packets' time a packet should wait, of which its own is a part: with 1 the path is idle now and then, with 2 a repair of sound comes
/// later than 200 ms on the path of 15 500 bytes/s.
const AIM: f64 = 1.4;
/// By how much the rate follows the wait, and its bounds. A report tells of a few packets, so that with twice as much the rate swings, the path is idle now and
/// then, and as much sound comes late.
const GAIN: f64 = 0.25;
const SLOWEST: f64 = 0.5;
const FASTEST: f64 = 1.15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets one behind the other on a path of 15 500 bytes/s, whatever they are told in.
    #[test]
    fn the_rate_is_that_of_packets_that_waited_for_one_another() {
        let mut path = SlowPath::new();
        let mut at = 0.0;
        for n in 0..100u32 {
            let bytes = if n % 3 == 0 { 124 } else { 668 };
            let took = f64::from(bytes) / 15_500.0;
            at += took;
            let ticks = (u64::from(u32::MAX - 100_000) + (at * TICKS) as u64) as u32;
            path.note(Arrival { at: ticks, bytes, wait: Duration::from_millis(90) });
            if n % 4 == 3 {
                path.end_report(Instant::from_millis((at * 1e3) as u64));
            }
        }
        let capacity = path.capacity(668.0).unwrap();
        assert!((capacity - 15_500.0).abs() < 60.0, "{capacity}");
        assert_eq!(path.capacity(100.0), None, "a packet of 100 bytes does not take long");
        let aim = path.aim(668.0).unwrap();
        assert!(aim.abs_diff(Duration::from_secs_f64(AIM * 668.0 / 15_500.0)) < Duration::from_millis(1));
        assert!(path.rate(668.0).unwrap() < capacity);
    }

    /// Packets that did not wait tell nothing of the path's rate.
    #[test]
    fn an_idle_path_tells_nothing() {
        let mut path = SlowPath::new();
        for n in 0..100 {
            path.note(Arrival { at: n * 3_000, bytes: 668, wait: Duration::from_millis(1) });
            path.end_report(Instant::from_millis(u64::from(n) * 46));
        }
        assert_eq!(path.capacity(668.0), None);
    }
}

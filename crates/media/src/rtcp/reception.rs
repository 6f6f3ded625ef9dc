//! How a source is received, as RFC 3550 counts it (§6.4.1, appendices A.3 and A.8).

use antiphon_core::{Instant, Unwrapper};

/// Counts one source. Sequence numbers are counted as they come: [`crate::SourceTracker`] decides whether a packet
/// belongs to the source.
#[derive(Clone, Debug)]
pub struct Reception {
    clock_rate: u32,
    sequence: Unwrapper<16>,
    base: Option<u64>,
    highest: u64,
    received: u64,
    /// Which of the last 64 numbers up to `highest` were seen, so that a repetition does not count as jitter.
    seen: u64,
    expected_prior: u64,
    received_prior: u64,
    transit: Option<u32>,
    /// Jitter in 1/16 of a time stamp unit (A.8).
    jitter16: u32,
}

impl Reception {
    /// For a source whose time stamps count at `clock_rate` Hz.
    pub fn new(clock_rate: u32) -> Self {
        Reception {
            clock_rate,
            sequence: Unwrapper::default(),
            base: None,
            highest: 0,
            received: 0,
            seen: 0,
            expected_prior: 0,
            received_prior: 0,
            transit: None,
            jitter16: 0,
        }
    }

    /// Counts a packet that came at `now`.
    pub fn on_packet(&mut self, now: Instant, sequence: u16, timestamp: u32) {
        let extended = self.sequence.extend(u64::from(sequence));
        self.received += 1;
        if self.base.is_none() {
            (self.base, self.highest) = (Some(extended), extended);
        }
        if self.is_repetition(extended) {
            return;
        }
        let arrival = ticks(now, self.clock_rate);
        let transit = arrival.wrapping_sub(timestamp);
        if let Some(last) = self.transit.replace(transit) {
            let d = (transit.wrapping_sub(last) as i32).unsigned_abs();
            // A jump of the clock by hours must not overflow the sum.
            self.jitter16 = self.jitter16.saturating_add(d) - ((self.jitter16.saturating_add(8)) >> 4);
        }
    }

    /// So many packets did not come, more than sequence numbers alone show: they count as lost.
    pub fn skip_packets(&mut self, packets: u64) {
        self.sequence.skip(packets);
    }

    /// Moves the window forward and returns whether the number was already in it.
    fn is_repetition(&mut self, extended: u64) -> bool {
        if extended > self.highest {
            let step = extended - self.highest;
            self.seen = if step < 64 { self.seen << step } else { 0 };
            self.highest = extended;
        }
        let back = self.highest - extended;
        let bit = if back < 64 { 1 << back } else { 0 };
        let was = self.seen & bit != 0;
        self.seen |= bit;
        was
    }

    /// Packets that should have come: highest number less first, plus one.
    pub fn expected(&self) -> u64 {
        self.base.map_or(0, |base| self.highest - base + 1)
    }

    /// Packets that came, repetitions included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Expected less received; negative when repetitions outnumber losses (A.3).
    pub fn cumulative_lost(&self) -> i64 {
        self.expected() as i64 - self.received as i64
    }

    /// Interarrival jitter in time stamp units.
    pub fn jitter(&self) -> u32 {
        self.jitter16 >> 4
    }

    /// Cycles and highest number as a report carries them; the first cycle is 0.
    pub fn highest_sequence(&self) -> u32 {
        // The unwrapper starts in its second cycle.
        self.highest.wrapping_sub(1 << 16) as u32
    }

    /// Share lost since the last call, in 1/256, 0 when negative (A.3).
    pub fn take_fraction_lost(&mut self) -> u8 {
        let (expected, received) = (self.expected(), self.received);
        let expected_now = expected - self.expected_prior;
        let lost_now = expected_now as i64 - (received - self.received_prior) as i64;
        (self.expected_prior, self.received_prior) = (expected, received);
        if expected_now == 0 || lost_now <= 0 {
            return 0;
        }
        ((lost_now as u64 * 256) / expected_now).min(255) as u8
    }
}

/// `now` in ticks of `rate` a second, which wrap. The first four days at 48 kHz need no division of 128 bits.
fn ticks(now: Instant, rate: u32) -> u32 {
    match now.as_nanos().checked_mul(u64::from(rate)) {
        Some(product) => (product / 1_000_000_000) as u32,
        None => (u128::from(now.as_nanos()) * u128::from(rate) / 1_000_000_000) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the fact sheet: J = .3125, .6055, 1.8176, 2.9540, 4.6444 in real numbers. A.8's integers
    /// round each step, by at most 1/16 of a unit: a wrong shift or a missed absolute value is further off.
    #[test]
    fn jitter_follows_the_worked_example() {
        let mut reception = Reception::new(8_000);
        let arrivals = [0u64, 165, 320, 500, 640, 830];
        let expected = [0.0, 0.3125, 0.6055, 1.8176, 2.9540, 4.6444];
        for (i, (arrival, j)) in arrivals.iter().zip(expected).enumerate() {
            let now = Instant::from_nanos(arrival * 125_000);
            reception.on_packet(now, i as u16, i as u32 * 160);
            assert!(
                (f64::from(reception.jitter16) / 16.0 - j).abs() < 0.15,
                "step {i}: {}",
                reception.jitter16
            );
        }
    }

    #[test]
    fn ticks_are_exact_on_both_sides_of_64_bits() {
        let most = u64::MAX / 48_000;
        for nanos in [1, most - 1, most, most + 1, u64::MAX] {
            let exact = u128::from(nanos) * 48_000 / 1_000_000_000;
            assert_eq!(ticks(Instant::from_nanos(nanos), 48_000), exact as u32, "{nanos}");
        }
    }

    #[test]
    fn loss_is_counted_over_the_wrap() {
        let mut reception = Reception::new(48_000);
        let mut at = |n: u16| reception.on_packet(Instant::ZERO, n, 0);
        [65_533, 65_534, 0, 2].into_iter().for_each(&mut at);
        assert_eq!((reception.expected(), reception.received(), reception.cumulative_lost()), (6, 4, 2));
        assert_eq!(reception.highest_sequence(), (1 << 16) + 2);
        assert_eq!(reception.take_fraction_lost(), 85);
        // Both lost ones come late and one twice: nothing lost in this interval, minus one in all.
        [65_535, 1, 1, 3].into_iter().for_each(|n| reception.on_packet(Instant::ZERO, n, 0));
        assert_eq!(reception.cumulative_lost(), -1);
        assert_eq!(reception.take_fraction_lost(), 0);
    }

    #[test]
    fn repetitions_do_not_count_as_jitter() {
        let mut reception = Reception::new(8_000);
        for n in 0..10u64 {
            reception.on_packet(Instant::from_millis(20 * n), n as u16, 160 * n as u32);
            reception.on_packet(Instant::from_millis(20 * n + 10), n as u16, 160 * n as u32);
        }
        assert_eq!((reception.jitter(), reception.cumulative_lost()), (0, -10));
    }
}

//! What repairs may cost: a quarter of the data's rate, saved up for a while, and granted also while nothing new is sent.

use std::time::Duration;

use antiphon_core::Instant;

use super::MOST_NAMED;

/// Bytes that repairs may have, and the rate of the data from which they follow.
#[derive(Debug)]
pub(in super::super) struct Budget {
    /// Bytes that repairs may have.
    credit: f64,
    /// Bytes of data a second, smoothed over about a second, and when the last were counted.
    rate: f64,
    /// The same over a shorter time.
    recent: f64,
    /// The same over a longer time: when the stream is held up, the last packets before tell nothing, as some leave together and others one by one.
    steady: f64,
    /// Since when there was no long pause.
    since: Instant,
    /// Bytes of a packet, smoothed.
    usual_len: f64,
    counted: Instant,
    /// Up to when silence has been granted bytes, and how many of these data have not made up for yet.
    granted: Instant,
    ahead: f64,
    /// When the first data left.
    began: Option<Instant>,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Budget {
            credit: INITIAL_CREDIT,
            rate: 0.0,
            recent: 0.0,
            steady: 0.0,
            since: now,
            usual_len: 1000.0,
            counted: now,
            granted: now,
            ahead: 0.0,
            began: None,
        }
    }

    /// A data packet of so many bytes leaves for the first time.
    pub fn on_data(&mut self, now: Instant, len: usize) {
        // What silence was granted is not granted again.
        let share = SHARE * len as f64;
        let had = share.min(self.ahead);
        self.ahead -= had;
        self.credit = (self.credit + share - had).min(MOST_CREDIT);
        self.granted = now;
        self.began.get_or_insert(now);
        let gap = now.since(self.counted).as_secs_f64();
        if gap >= STEADY_TIME {
            self.since = self.counted;
        }
        // From the beginning on it is the mean of all.
        let steady_time = now.since(self.since).as_secs_f64().clamp(RATE_TIME, STEADY_TIME);
        for (rate, time) in
            [(&mut self.rate, RATE_TIME), (&mut self.recent, RECENT_TIME), (&mut self.steady, steady_time)]
        {
            if gap > 0.0 {
                *rate += (gap / time).min(1.0) * (len as f64 / gap.max(1e-6) - *rate);
            } else {
                *rate += len as f64 / time;
            }
        }
        self.counted = now;
        self.usual_len += (len as f64 - self.usual_len) / MOST_NAMED as f64;
    }

    /// Nothing new is sent: what repairs may have grows as if the stream went on.
    pub fn on_silence(&mut self, now: Instant) {
        let gap = now.since(self.granted);
        if gap >= SILENCE {
            self.granted = now;
            let share = SHARE * self.steady * gap.as_secs_f64();
            let share = share.min((MOST_CREDIT - self.credit).max(0.0));
            self.ahead += share;
            self.credit += share;
        }
    }

    /// Bytes of data a second; before it is known, that of stereo sound.
    pub fn rate(&self, now: Instant) -> f64 {
        let known = self.began.is_some_and(|began| now.since(began).as_secs_f64() >= 2.0 * RATE_TIME);
        if known { self.rate } else { self.rate.max(USUAL_RATE) }
    }

    /// The same, and soon more where the stream has become faster.
    pub fn peak_rate(&self, now: Instant) -> f64 {
        self.rate(now).max(self.recent)
    }

    /// How long so many packets take to be sent at the present rate.
    pub fn time_of(&self, packets: f64) -> Duration {
        let seconds = packets * self.usual_len / self.rate.max(self.recent).max(1.0);
        Duration::from_secs_f64(seconds.min(1.0))
    }

    /// 0 where as many bytes as `enough` are granted, 1 where none are.
    pub fn scarcity(&self, enough: f64) -> f64 {
        1.0 - (self.credit / enough).clamp(0.0, 1.0)
    }

    /// Bytes that were spent beyond what was granted.
    pub fn overdrawn(&self) -> f64 {
        -self.credit
    }

    /// So many bytes of repairs leave.
    pub fn spend(&mut self, bytes: f64) {
        self.credit -= bytes;
    }

    /// When as many bytes are granted as are overdrawn, while nothing new is sent.
    pub fn next_credit(&self) -> Option<Instant> {
        let waits = self.credit < 0.0 && self.steady > 0.0;
        let wait = Duration::from_secs_f64((-self.credit / (SHARE * self.steady.max(1.0))).clamp(0.0, 1.0));
        waits.then(|| self.granted + wait.max(SILENCE))
    }
}

/// Repairs have at most a quarter of the data's rate.
pub(super) const SHARE: f64 = 0.25;
/// Bytes of repairs before much data has left: ten packets, as a TCP's first window (RFC 6928).
const INITIAL_CREDIT: f64 = 10.0 * 1500.0;
/// Bytes of repairs that may be saved up.
const MOST_CREDIT: f64 = 64.0 * 1500.0;
/// Bytes a second of stereo sound of 16 bits at 48 kHz.
const USUAL_RATE: f64 = 192_000.0;
/// Seconds over which the rate is smoothed.
const RATE_TIME: f64 = 1.0;
const RECENT_TIME: f64 = 0.25;
/// A sender is held up for a few seconds at most before it removes who holds it up.
const STEADY_TIME: f64 = 10.0;
/// Nothing new was sent for a while.
const SILENCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_held_up_and_goes_on_in_bursts_has_its_quarter() {
        let mut budget = Budget::new(Instant::ZERO);
        let (mut sent, mut used) = (0.0, -INITIAL_CREDIT);
        for ms in 1..60_000 {
            let now = Instant::from_millis(ms);
            budget.on_silence(now);
            // 200 packets a second, which are held back for 4 s of each 5, and then leave at once.
            let leave = if ms % 5_000 == 4_000 { 800 } else { u32::from(ms % 5_000 > 4_000 && ms % 5 == 0) };
            (0..leave).for_each(|_| budget.on_data(now, 1000));
            sent += 1000.0 * f64::from(leave);
            // All of it is used.
            used += budget.credit;
            budget.credit = 0.0;
            // What silence was granted is ahead of the data, by 4 s of the stream at most.
            assert!(used <= SHARE * (sent + 4.0 * 200_000.0), "{used} for {sent} at {ms} ms");
        }
        // Where nothing new comes any more, what is missing is still sent.
        for ms in 60_000..90_000 {
            budget.on_silence(Instant::from_millis(ms));
        }
        assert!(budget.credit >= MOST_CREDIT / 2.0, "{}", budget.credit);
    }

    #[test]
    fn a_packet_every_100_ms_has_its_quarter_and_no_more() {
        let mut budget = Budget::new(Instant::ZERO);
        let mut sent = 0.0;
        for ms in 1..20_000 {
            let now = Instant::from_millis(ms);
            budget.on_silence(now);
            if ms % 100 == 0 {
                budget.on_data(now, 1000);
                sent += 1000.0;
            }
            // All of it is used.
            let granted = budget.credit - INITIAL_CREDIT;
            assert!(granted <= SHARE * (sent + 1000.0), "{granted} for {sent} at {ms} ms");
            if granted >= MOST_CREDIT / 2.0 {
                (budget.credit, sent) = (INITIAL_CREDIT, 0.0);
            }
        }
        let rate = budget.rate(Instant::from_millis(20_000));
        assert!((9_000.0..11_000.0).contains(&rate), "{rate} for 10 000 a second");
    }
}

//! Which playout delay a stream needs, from when its packets arrive.

use std::time::Duration;

use antiphon_core::Instant;

use super::arrivals::ArrivalDelays;
use crate::drift::SETTLES;

/// A playout delay that adapts, within bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveDelay {
    /// The shortest.
    pub min: Duration,
    /// The longest. What comes later than that is late.
    pub max: Duration,
    /// Stays as it is so long after the first packet; `None`: adapts until the end.
    pub freeze: Option<Duration>,
}

impl Default for AdaptiveDelay {
    /// From 5 to 200 ms, until the end.
    fn default() -> Self {
        AdaptiveDelay { min: Duration::from_millis(5), max: Duration::from_millis(200), freeze: None }
    }
}

impl AdaptiveDelay {
    /// Where it begins: as long as a fixed one usually is, since nothing is known of the path.
    pub fn start(&self) -> Duration {
        START.clamp(self.min, self.max)
    }
}

/// Chooses the playout delay.
///
/// The delay is to be so long that at most four packets in 1000 come later ([`PERMITTED`]): for nearly all of these the sound is
/// stretched until they are there, which costs no gap.
/// A packet that is sent again comes later than others by what the transport needs for that. As only the lost ones are, few of
/// these need to be in time together with the slowest of the others: of the repaired packets as many may be late as are
/// permitted of all. Once enough repairs have been
/// seen, they show by themselves how late they are.
///
/// It rises at once, and falls when the spike that it rose for is out of the window (`arrivals::WINDOW`); by less than
/// `LEAST_FALL` it does not.
#[derive(Clone, Debug)]
pub struct DelayTarget {
    config: AdaptiveDelay,
    arrivals: ArrivalDelays,
    began: Option<Instant>,
    looked: Option<Instant>,
    target: Duration,
    /// How long the transport needs to send a packet again; `None` if it does not, or is not known yet.
    repair: Option<Duration>,
    /// When a packet was last found missing, or came again.
    last_loss: Option<Instant>,
    /// Packets that were missing when last looked.
    lost: u64,
    /// What else each packet must be early by, as sound is taken in larger pieces.
    reach: Duration,
    rises: u64,
    falls: u64,
}

impl DelayTarget {
    /// Before the first packet.
    pub fn new(config: AdaptiveDelay) -> Self {
        DelayTarget {
            config,
            arrivals: ArrivalDelays::new(),
            began: None,
            looked: None,
            target: config.start(),
            repair: None,
            last_loss: None,
            lost: 0,
            reach: Duration::ZERO,
            rises: 0,
            falls: 0,
        }
    }

    /// A packet arrived at `now`, `delay` nanoseconds after the schedule expected it, which expects media time 0 at `schedule`.
    pub fn on_arrival(&mut self, now: Instant, schedule: i64, delay: i64, repaired: bool) {
        let began = *self.began.get_or_insert(now);
        if now.since(began) < FIRST {
            return;
        }
        self.arrivals.on_arrival(now, schedule, delay, repaired);
        if repaired {
            self.last_loss = Some(now);
        }
        if delay > self.target.as_nanos() as i64 {
            self.look(now, schedule);
        }
    }

    /// The schedule came down by so many nanoseconds at once: the path is shorter now.
    pub fn on_step(&mut self, down: i64) {
        self.arrivals.on_step(down);
    }

    /// The stream begins anew, on a schedule that stands so many nanoseconds later.
    pub fn on_new_schedule(&mut self, now: Instant, later: i64) {
        self.arrivals.on_new_schedule(now, later);
    }

    /// Looks again from time to time. `lost`: packets missing since the beginning.
    pub fn advance(&mut self, now: Instant, schedule: i64, lost: u64) {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOKS) {
            return;
        }
        if lost > self.lost {
            self.arrivals.on_lost(lost - self.lost);
            self.last_loss = Some(now);
        }
        // Packets that were taken for lost and come after all make them fewer.
        self.lost = lost;
        self.look(now, schedule);
    }

    /// How long the transport needs to send a packet again: from when it should have come to when it comes.
    pub fn set_repair(&mut self, time: Option<Duration>) {
        self.repair = time;
    }

    /// Whether packets that are missing may still come because they are sent again.
    pub fn repairs(&self) -> bool {
        self.repair.is_some()
    }

    /// Sound is taken in pieces of which so much has to be there before its time.
    pub fn set_reach(&mut self, reach: Duration) {
        self.reach = reach;
    }

    /// The playout delay to have.
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Whether it stays as it is.
    pub fn is_frozen(&self, now: Instant) -> bool {
        let since = self.began.map(|began| now.since(began));
        self.config.freeze.is_some_and(|freeze| since.is_some_and(|since| since >= freeze))
    }

    /// Its bounds.
    pub fn config(&self) -> &AdaptiveDelay {
        &self.config
    }

    /// What it has seen.
    pub fn arrivals(&self) -> &ArrivalDelays {
        &self.arrivals
    }

    /// How often it rose, and how often it fell.
    pub fn changes(&self) -> (u64, u64) {
        (self.rises, self.falls)
    }

    /// Another stream begins; the delay stays until its packets show another.
    pub fn restart(&mut self) {
        self.arrivals.restart();
        (self.began, self.looked, self.last_loss, self.lost) = (None, None, None, 0);
    }

    fn look(&mut self, now: Instant, schedule: i64) {
        self.looked = Some(now);
        let (Some(began), false) = (self.began, self.is_frozen(now)) else { return };
        let Some(needed) = self.needed(now, schedule) else { return };
        let needed = if now.since(began) < SETTLES { needed.max(self.config.start()) } else { needed };
        let needed = needed.clamp(self.config.min, self.config.max);
        if needed > self.target {
            self.rises += 1;
        } else if self.target.saturating_sub(needed) >= LEAST_FALL {
            self.falls += 1;
        } else {
            return;
        }
        self.target = needed;
    }

    fn needed(&self, now: Instant, schedule: i64) -> Option<Duration> {
        let counts = self.arrivals.counts();
        let mut needed = self.arrivals.quantile(schedule, PERMITTED)?;
        let losses = self.last_loss.is_some_and(|last| now.since(last) < REMEMBERS_LOSS);
        if let Some(repair) = self.repair.filter(|_| losses && counts.repaired < ENOUGH_REPAIRS) {
            let of_repaired = (PERMITTED / counts.loss_share().max(PERMITTED)).min(0.5);
            needed = needed.max(self.arrivals.quantile(schedule, of_repaired)? + repair);
        }
        Some(needed + MARGIN + self.reach)
    }
}

/// The share of packets that may come after their time. On a path like Wi-Fi (`crates/session/tests/session/adaptive.rs`), where they
/// come in clusters, the sound is then stretched some 40 times a minute; for a tenth of that the delay would be half as long again.
pub const PERMITTED: f64 = 4e-3;
/// What comes first is most likely to be delayed by what happens but once: neighbour discovery, power save, what queued during a
/// handshake. It shows nothing of the path.
const FIRST: Duration = Duration::from_secs(1);
/// As long as the fixed playout delay usually is.
const START: Duration = Duration::from_millis(80);
/// The wake-up of the process, and a step of the histogram.
const MARGIN: Duration = Duration::from_millis(1);
/// A shorter fall gains less than it costs: the shortest piece of sound that is left out.
const LEAST_FALL: Duration = Duration::from_micros(2500);
/// How often to look where nothing is late.
const LOOKS: Duration = Duration::from_millis(100);
/// Repairs in the window that show how late repairs are: with fewer, the slowest tenth is guesswork.
const ENOUGH_REPAIRS: u64 = 10;
/// On a path that loses a packet less often, the gaps that cost are fewer than one in this time, and a shorter delay is worth more.
const REMEMBERS_LOSS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;

//! Whether to ask for a missing message again: the report's two algorithms, ours, and the trait for one of your own.
//!
//! Every algorithm compares two outcomes, one in which the message is requested and one in which it is given up, by the
//! quality that each would give: loss and latency as ratios to what the application desires. The report measures the
//! distance of that point from the origin; within 1 is the desired quality.
//!
//! ```
//! use antiphon_proto::srp::{Choice, Decide, Situation};
//!
//! /// Never asks twice.
//! struct Once;
//!
//! impl Decide for Once {
//!     fn decide(&mut self, situation: &Situation) -> Choice {
//!         if situation.asked == 0 { Choice::Retransmit } else { Choice::GiveUp }
//!     }
//! }
//! ```

use std::time::Duration;

/// A decision algorithm.
pub trait Decide: Send {
    /// What to do about a message that is missing now. Asked again whenever a request found no answer in time.
    fn decide(&mut self, situation: &Situation) -> Choice;
}

/// The two choices for a missing message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Ask for it again.
    Retransmit,
    /// Do without.
    GiveUp,
}

/// State when a decision is due.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Situation {
    /// Average share of messages given up, 0 to 1.
    pub current_loss: f64,
    /// Average latency of messages.
    pub current_latency: Duration,
    /// The share that the application tolerates, above 0.
    pub desired_loss: f64,
    /// The latency that it tolerates, above 0.
    pub desired_latency: Duration,
    /// What one more message leaves of the loss average (b in the formulas).
    pub keep_loss: f64,
    /// What one more message leaves of the latency average.
    pub keep_latency: f64,
    /// Smoothed round-trip time; zero before it is known.
    pub round_trip: Duration,
    /// Its deviation.
    pub round_trip_deviation: Duration,
    /// Time since the message should have come.
    pub overdue: Duration,
    /// Time until the message can no longer be played: zero when that is past, `None` without a deadline.
    pub time_left: Option<Duration>,
    /// How often it was asked for already.
    pub asked: u32,
    /// Its priority as far as known, 0 most urgent.
    pub priority: u8,
}

/// A point of the report's quality plots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quality {
    /// Loss over desired loss.
    pub loss_ratio: f64,
    /// Latency over desired latency.
    pub latency_ratio: f64,
}

impl Quality {
    /// Distance from the origin.
    pub fn distance(&self) -> f64 {
        self.loss_ratio.hypot(self.latency_ratio)
    }

    /// How far the two ratios are from each other.
    pub fn imbalance(&self) -> f64 {
        (self.loss_ratio - self.latency_ratio).abs()
    }
}

/// What latency is put down for a message that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LatencyEstimate {
    /// To the letter: "the round trip time is averaged into the current latency".
    #[default]
    Literal,
    /// What the message would have: the way here, the time it is overdue already, and one round trip.
    Exact,
    /// The way here and twice the rest: what a late message among many in time adds to the report's latency, half a
    /// round trip and the mean distance of arrivals from their mean. (Of n messages one that is D late moves the mean by
    /// D/n, itself by nearly D and all others by D/n each.)
    Spread,
}

impl Situation {
    /// The quality if the message is given up.
    pub fn if_given_up(&self) -> Quality {
        self.quality(self.keep_loss * self.current_loss + (1.0 - self.keep_loss), self.current_latency)
    }

    /// The quality if it is asked for and comes.
    pub fn if_asked(&self, estimate: LatencyEstimate) -> Quality {
        let latency = match estimate {
            LatencyEstimate::Literal => self.round_trip,
            LatencyEstimate::Exact => self.latency_if_asked(),
            LatencyEstimate::Spread => self.latency_if_asked() * 2 - self.round_trip / 2,
        };
        let average =
            self.current_latency.mul_f64(self.keep_latency) + latency.mul_f64(1.0 - self.keep_latency);
        self.quality(self.current_loss, average)
    }

    /// Latency of the message if the answer comes a round trip from now. A path's two ways are taken to be equal.
    pub fn latency_if_asked(&self) -> Duration {
        self.round_trip / 2 + self.overdue + self.round_trip
    }

    /// The current latency as [`LatencyEstimate::Spread`] puts it down.
    fn spread(&self) -> Duration {
        self.current_latency.saturating_mul(2).saturating_sub(self.round_trip / 2).max(self.current_latency)
    }

    fn quality(&self, loss: f64, latency: Duration) -> Quality {
        Quality {
            loss_ratio: loss / self.desired_loss,
            latency_ratio: latency.as_secs_f64() / self.desired_latency.as_secs_f64(),
        }
    }
}

/// *Equal loss latency*: keeps the two ratios as equal as it can (report, section 3.2).
///
/// By design it prefers a loss where latency is short: it equalises.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualLossLatency(pub LatencyEstimate);

impl Decide for EqualLossLatency {
    fn decide(&mut self, situation: &Situation) -> Choice {
        let (asked, given_up) = (situation.if_asked(self.0), situation.if_given_up());
        smaller(asked.imbalance(), given_up.imbalance())
    }
}

/// *Optimum quality*: the outcome nearer the origin (report, section 3.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct OptimumQuality(pub LatencyEstimate);

impl Decide for OptimumQuality {
    fn decide(&mut self, situation: &Situation) -> Choice {
        smaller(situation.if_asked(self.0).distance(), situation.if_given_up().distance())
    }
}

/// Asks only if the answer can still be played. Without a deadline it always asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTime;

impl Decide for InTime {
    fn decide(&mut self, situation: &Situation) -> Choice {
        // With one deviation on top some five answers of six are in time, if round trips are anything like normal; with
        // four, as for time-outs, many would not be asked for that do come.
        let needed = situation.round_trip + situation.round_trip_deviation;
        match situation.time_left {
            Some(left) if left <= needed => Choice::GiveUp,
            _ => Choice::Retransmit,
        }
    }
}

/// Asks where the mean quality then comes nearer the origin, as the report measures it.
///
/// What sets it apart from [`OptimumQuality`]: latency, the message's and the current one alike, is put down as
/// [`LatencyEstimate::Spread`], which is the message's own and grows while requests for it stay unanswered; both ratios are
/// capped, so that however bad a time it was, neither term outweighs the other for ever; and a [`Receiver`](super::Receiver)
/// averages over some hundred messages, as it is the mean of many that is judged. It belongs to a receiver that does not hold other messages back for
/// the missing one: there an answer's latency is its own affair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nearest;

impl Decide for Nearest {
    fn decide(&mut self, situation: &Situation) -> Choice {
        let mut capped = *situation;
        capped.current_loss = capped.current_loss.min(f64::from(CAP) * capped.desired_loss);
        capped.current_latency = situation.spread().min(capped.desired_latency.saturating_mul(CAP));
        smaller(capped.if_asked(LatencyEstimate::Spread).distance(), capped.if_given_up().distance())
    }
}

/// Never requests: plain UDP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

impl Decide for Never {
    fn decide(&mut self, _situation: &Situation) -> Choice {
        Choice::GiveUp
    }
}

/// *Reading*: at a tie, ask.
fn smaller(asked: f64, given_up: f64) -> Choice {
    if asked <= given_up { Choice::Retransmit } else { Choice::GiveUp }
}

/// Averages count no more than so many times what is desired: at four times either, the stream is of no use anyway, and
/// the way back to normal must not take longer than the trouble did.
const CAP: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The report's settings, on a path of 3 % loss and 50 ms, nothing late yet.
    fn calm() -> Situation {
        Situation {
            current_loss: 0.0,
            current_latency: Duration::from_millis(25),
            desired_loss: 0.1,
            desired_latency: Duration::from_millis(250),
            keep_loss: 0.98,
            keep_latency: 0.98,
            round_trip: Duration::from_millis(50),
            round_trip_deviation: Duration::from_millis(2),
            overdue: Duration::from_millis(8),
            time_left: Some(Duration::from_millis(217)),
            asked: 0,
            priority: 0,
        }
    }

    #[test]
    fn the_two_futures_are_the_reports() {
        let situation = Situation { current_loss: 0.05, ..calm() };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let asked = situation.if_asked(LatencyEstimate::Literal);
        // 0.98 · 25 + 0.02 · 50 = 25.5 ms of 250.
        assert!(close(asked.loss_ratio, 0.5) && close(asked.latency_ratio, 0.102), "{asked:?}");
        let exact = situation.if_asked(LatencyEstimate::Exact);
        // 0.98 · 25 + 0.02 · (25 + 8 + 50) = 26.16 ms.
        assert!(close(exact.latency_ratio, 0.10464), "{exact:?}");
        let given_up = situation.if_given_up();
        // 0.98 · 5 % + 2 % = 6.9 %.
        assert!(close(given_up.loss_ratio, 0.69) && close(given_up.latency_ratio, 0.1), "{given_up:?}");
    }

    /// Without loss and with short latency, ELL prefers a loss to keep the ratios equal: the report's own observation.
    #[test]
    fn equal_loss_latency_accepts_losses_optimum_quality_repairs() {
        assert_eq!(EqualLossLatency::default().decide(&calm()), Choice::GiveUp);
        assert_eq!(OptimumQuality::default().decide(&calm()), Choice::Retransmit);
        let lossy = Situation { current_loss: 0.2, ..calm() };
        assert_eq!(EqualLossLatency::default().decide(&lossy), Choice::Retransmit);
    }

    #[test]
    fn in_time_asks_only_for_what_can_be_played() {
        let left = |ms| Situation { time_left: Some(Duration::from_millis(ms)), ..calm() };
        assert_eq!(InTime.decide(&left(53)), Choice::Retransmit);
        assert_eq!(InTime.decide(&left(52)), Choice::GiveUp);
        assert_eq!(InTime.decide(&left(0)), Choice::GiveUp);
        assert_eq!(InTime.decide(&Situation { time_left: None, ..calm() }), Choice::Retransmit);
    }

    #[test]
    fn nearest_gives_up_old_requests_and_never_locks_up() {
        assert_eq!(Nearest.decide(&calm()), Choice::Retransmit);
        // A loss would add 0.2² by the average's step; latency adds as much at 0.98 · 0.1 + 0.02 · 6.28 = 0.2236, which is
        // 25 ms and twice (722 + 50) ms of 250.
        let late = |ms| Situation { overdue: Duration::from_millis(ms), ..calm() };
        let turn = (0..5000).find(|ms| Nearest.decide(&late(*ms)) == Choice::GiveUp);
        assert!(turn.is_some_and(|ms| (718..=726).contains(&ms)), "{turn:?}");
        // An hour of latency, or nothing but losses, does not decide what is asked next.
        let hour = Situation { current_latency: Duration::from_secs(3600), current_loss: 0.3, ..calm() };
        assert_eq!(Nearest.decide(&hour), Choice::Retransmit);
        let lost = Situation { current_loss: 1.0, overdue: Duration::from_secs(20), ..calm() };
        assert_eq!(Nearest.decide(&lost), Choice::GiveUp);
    }
}

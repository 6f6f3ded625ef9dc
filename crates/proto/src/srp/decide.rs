//! Decides whether to request a missing message: the report's two algorithms, ours, and the trait for others.
//!
//! Every algorithm compares two outcomes, requesting the message and giving it up, by the resulting quality: loss and
//! latency as ratios to the desired values. The report measures the distance of that point from the origin; a distance
//! within 1 is the desired quality.
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
    /// Decides about a message that is missing now. Called again when a request was not answered in time.
    fn decide(&mut self, situation: &Situation) -> Choice;
}

/// The two choices for a missing message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Request it again.
    Retransmit,
    /// Give it up.
    GiveUp,
}

/// State when a decision is due.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Situation {
    /// Average share of messages given up, 0 to 1.
    pub current_loss: f64,
    /// Average latency of messages.
    pub current_latency: Duration,
    /// The share of losses that the application tolerates, above 0.
    pub desired_loss: f64,
    /// The latency that the application tolerates, above 0.
    pub desired_latency: Duration,
    /// Weight that the old loss average keeps at each message (b in the formulas).
    pub keep_loss: f64,
    /// Weight that the old latency average keeps at each message.
    pub keep_latency: f64,
    /// Smoothed round-trip time; zero before it is known.
    pub round_trip: Duration,
    /// Its deviation.
    pub round_trip_deviation: Duration,
    /// Time since the message should have arrived.
    pub overdue: Duration,
    /// Time until the message can no longer be played: zero when that is past, `None` without a deadline.
    pub time_left: Option<Duration>,
    /// How often it was requested.
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

    /// Difference of the two ratios.
    pub fn imbalance(&self) -> f64 {
        (self.loss_ratio - self.latency_ratio).abs()
    }
}

/// The latency assumed for a requested message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LatencyEstimate {
    /// As in the report: "the round trip time is averaged into the current latency".
    #[default]
    Literal,
    /// The message's own: one way, the time that it is overdue, and one round trip.
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

    /// The quality if it is requested and arrives.
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

    /// Latency of the message if the answer arrives a round trip from now. Assumes equal delays in both directions.
    pub fn latency_if_asked(&self) -> Duration {
        self.round_trip / 2 + self.overdue + self.round_trip
    }

    /// The current latency by [`LatencyEstimate::Spread`].
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
/// By design it prefers a loss where latency is short, as this equalises the ratios.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualLossLatency(pub LatencyEstimate);

impl Decide for EqualLossLatency {
    fn decide(&mut self, situation: &Situation) -> Choice {
        let (asked, given_up) = (situation.if_asked(self.0), situation.if_given_up());
        smaller(asked.imbalance(), given_up.imbalance())
    }
}

/// *Optimum quality*: chooses the outcome nearer to the origin (report, section 3.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct OptimumQuality(pub LatencyEstimate);

impl Decide for OptimumQuality {
    fn decide(&mut self, situation: &Situation) -> Choice {
        smaller(situation.if_asked(self.0).distance(), situation.if_given_up().distance())
    }
}

/// Requests only if the answer can still be played; without a deadline, always.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTime;

impl Decide for InTime {
    fn decide(&mut self, situation: &Situation) -> Choice {
        // With one deviation added, about five answers of six are in time if round trips vary normally; with four, as
        // for time-outs, many messages that would arrive in time would not be requested.
        let needed = situation.round_trip + situation.round_trip_deviation;
        match situation.time_left {
            Some(left) if left <= needed => Choice::GiveUp,
            _ => Choice::Retransmit,
        }
    }
}

/// Requests where this brings the mean quality nearer to the origin, as the report measures it.
///
/// Differences from [`OptimumQuality`]: the message's latency and the current one are both estimated as
/// [`LatencyEstimate::Spread`], which grows while requests for the message stay unanswered; both ratios are capped, so
/// that neither term outweighs the other permanently after a bad time; and a [`Receiver`](super::Receiver) averages
/// over some hundred messages, as the mean of many is judged. Use it with a receiver that does not hold other messages
/// back for the missing one: there an answer's latency affects only that message.
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

/// *Reading*: requests in case of a tie.
fn smaller(asked: f64, given_up: f64) -> Choice {
    if asked <= given_up { Choice::Retransmit } else { Choice::GiveUp }
}

/// Averages are limited to this multiple of the desired values: at four times either the stream is useless anyway, and
/// recovery must not take longer than the disturbance did.
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

    /// Without loss and with short latency, ELL prefers a loss to keep the ratios equal, as the report observes.
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
        // A loss would add 0.2² in one step of the average; latency adds as much at 0.98 · 0.1 + 0.02 · 6.28 = 0.2236,
        // which is 25 ms and twice (722 + 50) ms of 250.
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

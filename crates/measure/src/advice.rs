//! Which transport to take for which purpose, with the figure that decided and how sure it is.
//!
//! Every purpose scores each transport ([`criteria`]): a cost with its standard error, and the probability that the
//! purpose's bound is met. The one that meets the bound at the lowest cost is named; if none does, the least bad.

use serde::{Deserialize, Serialize};

use crate::figures::TransportFigures;
use crate::statistics::is_below;

mod criteria;

use criteria::Score;

/// What a user wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Musicians in different places: as little delay as possible with under 1 % missing.
    PlayTogether,
    /// Sound beside a picture: 80 ms and 1.8 %.
    TvSound,
    /// Everything arrives; delay does not matter.
    Record,
    /// Conversation: the E-model's rating, within 150 ms.
    Talk,
    /// One sender, many receivers: multicast, then loss.
    SendToMany,
}

impl Purpose {
    /// All, in the order of the table.
    pub const ALL: [Purpose; 5] =
        [Purpose::PlayTogether, Purpose::TvSound, Purpose::Record, Purpose::Talk, Purpose::SendToMany];

    /// As the table writes it.
    pub fn title(self) -> &'static str {
        match self {
            Purpose::PlayTogether => "play together",
            Purpose::TvSound => "TV sound to headsets",
            Purpose::Record => "record without loss",
            Purpose::Talk => "talk",
            Purpose::SendToMany => "send to many",
        }
    }
}

/// A transport to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The measurements.
    pub figures: &'a TransportFigures,
    /// Whether it promises that every message without a deadline arrives (`core::Profile::reliable`).
    pub reliable: bool,
    /// Whether one datagram of it reaches many receivers.
    pub multicast: bool,
}

/// The answer for one purpose.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// Always `advice`.
    pub record: String,
    /// For what.
    pub purpose: Purpose,
    /// The transport to take.
    pub transport: String,
    /// Whether it meets the purpose's bound; if not, it is the least bad of those measured.
    pub met: bool,
    /// The figures that decided, in a sentence.
    pub because: String,
    /// Probability, 0.0 to 1.0, that the bound is met as said and that none of the others is better by more than the
    /// purpose's margin ([`Purpose::margin`]). From the counting error of the run's packets, losses of a burst taken
    /// as one; it knows nothing of how the link will be tomorrow.
    pub confidence: f64,
}

/// Advice for every purpose; empty if there are no candidates.
pub fn advise(candidates: &[Candidate<'_>]) -> Vec<Advice> {
    let advice = |purpose| advise_for(purpose, candidates);
    Purpose::ALL.into_iter().filter_map(advice).collect()
}

/// Advice for one purpose; `None` if there are no candidates. Of equals the quicker is taken, then the first.
pub fn advise_for(purpose: Purpose, candidates: &[Candidate<'_>]) -> Option<Advice> {
    let scores: Vec<Score> = candidates.iter().map(|c| purpose.score(c)).collect();
    let delay = |i: usize| candidates[i].figures.rtt_ms.p50_ms.unwrap_or(f64::INFINITY);
    let order = |i: &usize, j: &usize| {
        let (a, b) = (&scores[*i], &scores[*j]);
        (b.met.cmp(&a.met))
            .then(a.cost.total_cmp(&b.cost))
            .then(b.promised.cmp(&a.promised))
            .then(delay(*i).total_cmp(&delay(*j)))
    };
    let mut ranking: Vec<usize> = (0..scores.len()).collect();
    ranking.sort_by(order);
    let best = *ranking.first()?;
    let winner = &scores[best];
    let name = |i: usize| candidates[i].figures.transport.as_str();
    let others = || ranking.iter().skip(1).map(|i| &scores[*i]);
    let unbeaten = others().map(|other| not_beaten(winner, other, purpose.margin())).fold(1.0, f64::min);
    let (judged, because) = if winner.met {
        let runner = ranking.get(1).map(|i| (name(*i), &scores[*i]));
        (winner.meets, why(winner, runner))
    } else {
        let none = others().fold(1.0 - winner.meets, |p, other| p.min(1.0 - other.meets));
        (none, why_not(name(best), winner))
    };
    Some(Advice {
        record: "advice".into(),
        purpose,
        transport: name(best).into(),
        met: winner.met,
        because,
        confidence: ((judged * unbeaten).clamp(0.0, HIGHEST_CONFIDENCE) * 1000.0).round() / 1000.0,
    })
}

/// What three decimals can say without rounding to certainty, which no run of finite length gives.
const HIGHEST_CONFIDENCE: f64 = 0.999;

/// Probability that `other` is not better than `winner` by more than `margin`.
fn not_beaten(winner: &Score, other: &Score, margin: f64) -> f64 {
    if winner.promised && !other.promised && winner.cost <= other.cost {
        // Among equals the promise decided, not a figure.
        return 1.0;
    }
    let cheaper = is_below(winner.cost, winner.error, other.cost + margin, other.error);
    if winner.met {
        // To beat a winner that meets the bound, the other must meet it too.
        1.0 - (1.0 - cheaper) * other.meets
    } else {
        cheaper
    }
}

fn why(winner: &Score, runner: Option<(&str, &Score)>) -> String {
    let mut text = format!("{}, {}", winner.figure, winner.bound);
    match runner {
        None => {}
        Some((name, other)) => {
            text.push_str(&format!("; {name}: {}", other.figure));
            if let Some(lacking) = other.lacking.as_ref().filter(|_| !other.met) {
                text.push_str(&format!(" ({lacking})"));
            }
        }
    }
    text
}

fn why_not(name: &str, winner: &Score) -> String {
    let lacking = winner.lacking.as_deref().unwrap_or("the bound is missed");
    format!("nothing measured is good enough; least bad is {name} with {}: {lacking}", winner.figure)
}

#[cfg(test)]
mod tests;

//! Which transport to take for which purpose, with the figure that decided and how sure it is.
//!
//! Every purpose weighs each transport ([`criteria`]): a cost, and whether the purpose's bound is met. Those that meet it at
//! the lowest cost *tie* where the difference is smaller than what matters, or than the run can tell; of these the simplest
//! and most common is named. How sure that is comes from drawing the blocks of the run again, those of all transports
//! together, as they met the same network at the same time ([`crate::blocks`]).

use serde::{Deserialize, Serialize};

use crate::blocks::{Blocks, Sums, resample};
use crate::figures::TransportFigures;
use crate::packet_log::PacketLog;
use crate::pictures::PicturesFigures;
use crate::statistics::LEAST_HOLDING;

mod criteria;

use criteria::Weight;

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

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::PlayTogether => "play-together",
            Purpose::TvSound => "tv-sound",
            Purpose::Record => "record",
            Purpose::Talk => "talk",
            Purpose::SendToMany => "send-to-many",
        }
    }

    /// As the table writes it.
    pub fn title(self) -> &'static str {
        match self {
            Purpose::PlayTogether => "play together",
            Purpose::TvSound => "TV sound on headphones",
            Purpose::Record => "record without loss",
            Purpose::Talk => "talk",
            Purpose::SendToMany => "send to many",
        }
    }
}

/// A transport to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// What was measured.
    pub figures: &'a TransportFigures,
    /// The packets that it was measured from.
    pub log: &'a PacketLog,
    /// Whether it promises that every message without a deadline arrives (`core::Profile::reliable`).
    pub reliable: bool,
    /// Whether one datagram of it reaches many receivers.
    pub multicast: bool,
    /// Whether a stream runs over it already: if it does worse, the reason says so.
    pub current: bool,
}

/// The answer for one purpose.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// Always `advice`.
    pub record: String,
    /// Version of these names: [`Advice::SCHEMA`].
    pub schema: u32,
    /// For what.
    pub purpose: Purpose,
    /// The transport to take.
    pub transport: String,
    /// Others that will do as well: no difference that matters ([`Purpose::margin`]), or none that the run can tell.
    pub ties: Vec<String>,
    /// Whether it meets the purpose's bound; if not, it is the least bad of those measured.
    pub met: bool,
    /// Whether it promises what the purpose needs, apart from what was measured.
    pub promised: bool,
    /// The figures that decided, in a sentence.
    pub because: String,
    /// Probability, 0.0 to 1.0, that the transport meets the bound and that none but those of `ties` is better by more than
    /// the margin; where none meets the bound, that none does. It is of the network as it was during the run. `None`: the run
    /// is too short to tell, as fewer than ten of its blocks hold what is counted.
    pub confidence: Option<f64>,
    /// The playout delay to set at the receiver, in milliseconds: from the arrival of an undelayed packet, as receivers count
    /// it. `None` where the purpose needs none.
    pub playout_delay_ms: Option<f64>,
    /// What to type to stream so, the receiver's command first; empty where none meets the bound. Filled in where the source is
    /// known.
    pub commands: Vec<String>,
    /// What pictures beside the sound cost it over that transport, in a sentence; omitted without any, or if the run is too short to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<String>,
}

impl Advice {
    /// Version of the field names; increased when one changes its meaning or is removed.
    pub const SCHEMA: u32 = 1;

    /// Why, with those that would do as well.
    pub fn reason(&self) -> String {
        let pictures = self.pictures.as_ref().map_or_else(String::new, |cost| format!("; {cost}"));
        let because = format!("{}{pictures}", self.because);
        match &self.ties[..] {
            [] => because,
            [one] => format!("{one} would do as well; {because}"),
            [first @ .., last] => format!("{} and {last} would do as well; {because}", first.join(", ")),
        }
    }

    /// How sure it is, in words.
    pub fn sureness(&self) -> String {
        match self.confidence {
            // Nothing measured is certain.
            Some(share) if share > 0.99 => "over 99 % sure".into(),
            Some(share) => format!("{:.0} % sure", share * 100.0),
            None if self.purpose == Purpose::Record && self.promised && self.met => {
                "by design; too short to measure".into()
            }
            None => "too short to tell how sure".into(),
        }
    }
}

/// Advice for every purpose; empty if there are no candidates. Of those that tie the first is named, so the simplest and most
/// common ones come first.
pub fn advise(candidates: &[Candidate<'_>]) -> Vec<Advice> {
    judge(&Purpose::ALL, candidates)
}

/// Advice for one purpose; `None` if there are no candidates.
pub fn advise_for(purpose: Purpose, candidates: &[Candidate<'_>]) -> Option<Advice> {
    judge(&[purpose], candidates).pop()
}

/// Drawn so often: the standard error of a probability of 0.9 is 0.01.
const DRAWS: usize = 1_000;
/// Of the draws' generator: the same run gives the same advice.
const SEED: u64 = 1;
/// What three decimals can say without rounding to certainty, which no run of finite length gives.
const HIGHEST_CONFIDENCE: f64 = 0.999;
/// The run can't tell two transports apart where in so many of the draws one is not worse than the other.
const UNDECIDED: f64 = 0.05;

fn judge(purposes: &[Purpose], candidates: &[Candidate<'_>]) -> Vec<Advice> {
    let blocks = Blocks::of(&candidates.iter().map(|c| c.log).collect::<Vec<_>>());
    let weigh = |purpose: &Purpose, sums: &[Sums]| -> Vec<Weight> {
        candidates.iter().zip(sums).map(|(candidate, sums)| purpose.weigh(candidate, sums)).collect()
    };
    let mut draws: Vec<_> = purposes.iter().map(|_| Vec::with_capacity(DRAWS)).collect();
    resample(&blocks, DRAWS, SEED, |sums| {
        purposes.iter().zip(&mut draws).for_each(|(purpose, draws)| draws.push(weigh(purpose, sums)));
    });
    let totals: Vec<Sums> = blocks.iter().map(Blocks::total).collect();
    let run = Run { candidates, blocks: &blocks, totals: &totals };
    let advice = |(purpose, draws): (&Purpose, &Vec<Vec<Weight>>)| {
        advice(*purpose, &run, &weigh(purpose, &totals), draws)
    };
    purposes.iter().zip(&draws).filter_map(advice).collect()
}

/// What was measured of all transports.
struct Run<'a> {
    candidates: &'a [Candidate<'a>],
    blocks: &'a [Blocks],
    totals: &'a [Sums],
}

/// `weights`: what each transport came to; `draws`: what it would have come to, in each draw.
fn advice(purpose: Purpose, run: &Run<'_>, weights: &[Weight], draws: &[Vec<Weight>]) -> Option<Advice> {
    let Run { candidates, blocks, totals } = *run;
    let best = best_of(candidates, weights)?;
    let taken = Taken::of(weights, draws, best, purpose.margin());
    let at = taken.at;
    let name = |i: usize| candidates[i].figures.transport.as_str();
    let words = |i: usize| purpose.words(&candidates[i], &totals[i], &weights[i], blocks[i].one_way);
    let because = if weights[at].met {
        let beside = |i: usize| if taken.is_outside(i) { weights[i] } else { Weight::NONE };
        let beside: Vec<Weight> = (0..weights.len()).map(beside).collect();
        // Why not the one in use, if there is one; otherwise the next best.
        let current = candidates.iter().position(|candidate| candidate.current);
        let runner = current.filter(|i| taken.is_outside(*i));
        let runner = runner.or_else(|| best_of(candidates, &beside)).filter(|i| taken.is_outside(*i));
        words(at).because(runner.map(|i| (name(i), words(i), weights[i].met)))
    } else {
        words(at).because_none(name(at))
    };
    let tells = blocks[at].holding(purpose.events(&candidates[at], &weights[at])) >= LEAST_HOLDING;
    let stands = draws.iter().filter(|draw| taken.stands(draw, weights[at].met)).count();
    let share = stands as f64 / draws.len().max(1) as f64;
    // Draws of few blocks spread less than the truth where losses are skewed.
    let meets = |i: usize| purpose.meets(&candidates[i], &blocks[i]);
    let bounded = if weights[at].met {
        meets(at).unwrap_or(1.0)
    } else {
        1.0 - (0..weights.len()).filter_map(meets).fold(0.0, f64::max)
    };
    let share = share.min(bounded).min(HIGHEST_CONFIDENCE);
    Some(Advice {
        record: "advice".into(),
        schema: Advice::SCHEMA,
        purpose,
        transport: name(at).into(),
        ties: taken.ties.iter().filter(|i| **i != at).map(|i| name(*i).to_string()).collect(),
        met: weights[at].met,
        promised: weights[at].promised,
        because,
        confidence: tells.then(|| (share * 1000.0).round() / 1000.0),
        playout_delay_ms: weights[at].delay_ms.filter(|_| weights[at].met).map(|delay| {
            let f = candidates[at].figures;
            let least = f.one_way_ms.and_then(|one_way| one_way.min_ms);
            let least = least.or(f.rtt_ms.min_ms.map(|ms| ms / 2.0)).unwrap_or(0.0);
            (delay - least).max(0.0)
        }),
        commands: Vec::new(),
        pictures: candidates[at].figures.pictures.as_ref().and_then(PicturesFigures::cost),
    })
}

/// What is taken, and what would do as well.
struct Taken {
    at: usize,
    /// With `at`; that alone where none meets the bound.
    ties: Vec<usize>,
    margin: f64,
}

impl Taken {
    fn of(weights: &[Weight], draws: &[Vec<Weight>], best: usize, margin: f64) -> Self {
        let as_good =
            |weights: &[Weight], i: usize| weights[i].met && weights[i].cost <= weights[best].cost + margin;
        let ties = |i: &usize| {
            let drawn = || draws.iter().filter(|draw| as_good(draw, *i)).count() as f64;
            let alike = weights[*i].met && weights[*i].promised == weights[best].promised;
            *i == best || alike && (as_good(weights, *i) || drawn() > UNDECIDED * draws.len() as f64)
        };
        let ties: Vec<usize> = (0..weights.len()).filter(ties).collect();
        Taken { at: ties.first().copied().unwrap_or(best), ties, margin }
    }

    fn is_outside(&self, i: usize) -> bool {
        !self.ties.contains(&i)
    }

    /// Whether a draw agrees: it meets the bound and none outside is better by more than the margin; or, where none met the
    /// bound, none does.
    fn stands(&self, draw: &[Weight], met: bool) -> bool {
        if !met {
            return draw.iter().all(|weight| !weight.met);
        }
        let least = self.ties.iter().map(|i| draw[*i].cost).fold(f64::INFINITY, f64::min);
        let beats = |i: usize| self.is_outside(i) && draw[i].before(&draw[self.at], least - self.margin);
        draw[self.at].met && !(0..draw.len()).any(beats)
    }
}

/// The one that meets the bound at the lowest cost; if none does, the one with the lowest cost. Of equals one that promises it
/// comes first, then the quicker.
fn best_of(candidates: &[Candidate<'_>], weights: &[Weight]) -> Option<usize> {
    let delay = |i: usize| candidates[i].figures.rtt_ms.p50_ms.unwrap_or(f64::INFINITY);
    let order = |i: &usize, j: &usize| {
        let (a, b) = (&weights[*i], &weights[*j]);
        let order = b.met.cmp(&a.met).then(a.cost.total_cmp(&b.cost)).then(b.promised.cmp(&a.promised));
        order.then(delay(*i).total_cmp(&delay(*j)))
    };
    (0..weights.len()).min_by(order)
}

#[cfg(test)]
mod tests;

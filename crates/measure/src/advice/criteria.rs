//! What each purpose asks of a transport.

use super::{Candidate, Purpose};
use crate::blocks::{Blocks, Sums};
use crate::emodel::{CodecImpairment, mos, rating};
use crate::figures::TransportFigures;

/// How a transport does for a purpose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Weight {
    /// Less is better; unit as the purpose has it.
    pub cost: f64,
    /// Whether the bound is met.
    pub met: bool,
    /// Whether the transport promises what the purpose wants, apart from what was measured.
    pub promised: bool,
    /// The playout delay with which it does so, in milliseconds.
    pub delay_ms: Option<f64>,
}

impl Weight {
    /// Of none: behind all others.
    pub const NONE: Weight = Weight { cost: f64::INFINITY, met: false, promised: false, delay_ms: None };

    /// Whether it would be taken before `other`: meets the bound, promises no less, and costs less than `cost`.
    pub fn before(&self, other: &Weight, cost: f64) -> bool {
        self.met && self.promised >= other.promised && self.cost < cost
    }
}

/// A weight in words.
pub(super) struct Words {
    /// The deciding figure.
    figure: String,
    /// The bound.
    bound: &'static str,
    /// What is missing to meet it; empty if it is met.
    lacking: String,
}

impl Words {
    /// Why it is taken; `runner` is the best of those that do worse, and whether it meets the bound.
    pub fn because(&self, runner: Option<(&str, Words, bool)>) -> String {
        let mut text = format!("{}, {}", self.figure, self.bound);
        if let Some((name, other, met)) = runner {
            text.push_str(&format!("; {name}: {}", other.figure));
            if !met {
                text.push_str(&format!(" ({})", other.lacking));
            }
        }
        text
    }

    /// Why none is taken; this is the least bad.
    pub fn because_none(&self, name: &str) -> String {
        format!("no transport is good enough; the closest is {name} with {}: {}", self.figure, self.lacking)
    }
}

/// Share of packets that players let be missing: voice criteria say 1 to 2 % (recovery-and-metrics §1), music takes the
/// lower end.
const PLAY_SHARE: f64 = 0.01;
/// Mouth to ear between players: 25 to 30 ms is where ensembles lose their tempo (Schuett 2002, Chafe 2004).
const PLAY_MS: f64 = 30.0;
/// Loss with silence in the gaps noticed by half the listeners (Voelcker 1985), which Højgaard-Hansen and Lundgreen 2009 take.
const SILENCE_SHARE: f64 = 0.018;
/// Sound within so much of the picture is in sync (Højgaard-Hansen and Lundgreen 2009, section 2.2).
const TV_MS: f64 = 80.0;
/// Of [`TV_MS`], what 10 ms before the buffer leave for it.
const TV_TARGET_MS: f64 = TV_MS - 10.0;
/// G.114: up to here a conversation is not disturbed.
const TALK_MS: f64 = 150.0;
/// G.109: from here on "some users dissatisfied"; below, many.
const TALK_R: f64 = 70.0;
/// After every possible delay: sorts a transport that never reaches a share after all that do.
const UNREACHED_MS: f64 = 100_000.0;
/// Playout delays among which talking looks for its best, in milliseconds.
const TALK_DELAYS_MS: [f64; 16] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 100.0, 120.0, 140.0];
/// And beyond what is good enough, to tell which is least bad.
const FAR_DELAYS_MS: [f64; 6] = [150.0, 200.0, 300.0, 400.0, 500.0, 1000.0];

impl Purpose {
    /// By how much another transport must be better before it matters, in the unit of the purpose's cost: 1 ms, 0.1 %,
    /// 0.01 %, 1 point of R, 0.1 %.
    pub fn margin(self) -> f64 {
        match self {
            Purpose::PlayTogether => 1.0,
            Purpose::TvSound | Purpose::SendToMany => 0.1,
            Purpose::Record => 0.01,
            Purpose::Talk => 1.0,
        }
    }

    /// The longest delay from mouth to ear, in milliseconds, with which the purpose is served; `None` if any will do.
    pub fn longest_mouth_to_ear_ms(self) -> Option<f64> {
        match self {
            Purpose::PlayTogether => Some(PLAY_MS),
            Purpose::TvSound => Some(TV_MS),
            Purpose::Talk => Some(TALK_MS),
            Purpose::Record | Purpose::SendToMany => None,
        }
    }

    /// How long after their sending, in milliseconds, packets count as missing, where the purpose fixes that.
    pub fn counts_missing_at_ms(self) -> Option<f64> {
        (self == Purpose::TvSound).then_some(TV_TARGET_MS)
    }

    /// The largest share of packets, in percent, that may be lost or late; for talking it depends on the delay.
    pub fn most_missing_percent(self) -> Option<f64> {
        match self {
            Purpose::PlayTogether => Some(PLAY_SHARE * 100.0),
            Purpose::TvSound | Purpose::SendToMany => Some(SILENCE_SHARE * 100.0),
            Purpose::Record => Some(0.0),
            Purpose::Talk => None,
        }
    }

    pub(super) fn weigh(self, candidate: &Candidate<'_>, sums: &Sums) -> Weight {
        let packet_ms = candidate.figures.packet_ms;
        match self {
            Purpose::PlayTogether => play_together(packet_ms, sums),
            Purpose::TvSound => {
                let cost = percent(sums.missing_at(TV_TARGET_MS), sums);
                let met = cost <= SILENCE_SHARE * 100.0;
                Weight { cost, met, promised: false, delay_ms: Some(TV_TARGET_MS) }
            }
            Purpose::Record => {
                let gone = gone(candidate, sums);
                let met = gone == 0 && sums.came > 0;
                Weight { cost: percent(gone, sums), met, promised: candidate.reliable, delay_ms: None }
            }
            Purpose::Talk => talk(packet_ms, sums),
            Purpose::SendToMany => {
                let (many, missing) = (candidate.multicast, percent(sums.never_came(), sums));
                // What can't multicast stands behind all that can.
                let cost = missing + if many { 0.0 } else { 1000.0 };
                let met = many && missing <= SILENCE_SHARE * 100.0;
                Weight { cost, met, promised: many, delay_ms: None }
            }
        }
    }

    /// Whether a running stream is good enough, of which so many percent are missing and whose packets are `delay_ms` old when
    /// they can be played; `None`: not known.
    pub fn is_met_by(self, missing_percent: f64, delay_ms: Option<f64>) -> bool {
        let within = |limit: f64| delay_ms.is_none_or(|delay| delay <= limit);
        match self {
            Purpose::PlayTogether => missing_percent <= PLAY_SHARE * 100.0 && within(PLAY_MS),
            Purpose::TvSound => missing_percent <= SILENCE_SHARE * 100.0 && within(TV_TARGET_MS),
            Purpose::Record => missing_percent <= 0.0,
            Purpose::Talk => {
                let r =
                    rating(CodecImpairment::G711_CONCEALED, delay_ms.unwrap_or(0.0), missing_percent, 1.0);
                within(TALK_MS) && r >= TALK_R
            }
            Purpose::SendToMany => missing_percent <= SILENCE_SHARE * 100.0,
        }
    }

    /// The probability that a transport meets the purpose's bound, where the bound is a share of packets.
    pub(super) fn meets(self, candidate: &Candidate<'_>, blocks: &Blocks) -> Option<f64> {
        let packet_ms = candidate.figures.packet_ms;
        let (mean, limit) = match self {
            Purpose::PlayTogether => (blocks.share(|sums| sums.missing_at(PLAY_MS - packet_ms)), PLAY_SHARE),
            Purpose::TvSound => (blocks.share(|sums| sums.missing_at(TV_TARGET_MS)), SILENCE_SHARE),
            Purpose::SendToMany if candidate.multicast => (blocks.share(Sums::never_came), SILENCE_SHARE),
            Purpose::SendToMany | Purpose::Record | Purpose::Talk => return None,
        };
        Some(mean.at_most(limit))
    }

    /// What is counted to tell how sure the weight of a transport is: what would make it worse or, where the bound is not
    /// met, what keeps it from that.
    pub(super) fn events(self, candidate: &Candidate<'_>, weight: &Weight) -> impl Fn(&Sums) -> u64 {
        let packet_ms = candidate.figures.packet_ms;
        let delay = match self {
            Purpose::PlayTogether if !weight.met => Some(PLAY_MS - packet_ms),
            Purpose::Talk if !weight.met => Some(TALK_MS - packet_ms),
            _ => weight.delay_ms,
        };
        let reliable = candidate.reliable;
        move |sums| match (self, delay) {
            (Purpose::PlayTogether | Purpose::TvSound | Purpose::Talk, Some(delay)) => sums.missing_at(delay),
            (Purpose::Record, _) if reliable => sums.never_came() - sums.expired,
            _ => sums.never_came(),
        }
    }

    /// The weight in words; `one_way`: whether delays and losses are of the way there alone.
    pub(super) fn words(
        self,
        candidate: &Candidate<'_>,
        sums: &Sums,
        weight: &Weight,
        one_way: bool,
    ) -> Words {
        let f = candidate.figures;
        let ways = if one_way { "" } else { " both ways" };
        let text = |packets: u64| format!("{:.2} % of {} packets", percent(packets, sums), sums.sent);
        match self {
            Purpose::PlayTogether => play_together_words(f, sums, weight, ways),
            Purpose::TvSound => Words {
                figure: format!(
                    "{} lost{ways} or later than {TV_TARGET_MS} ms{}",
                    text(sums.missing_at(TV_TARGET_MS)),
                    // Where hardly anything comes, a buffer is not filled and so does not run empty.
                    if weight.met { underruns(f.buffer_sequence.empty) } else { String::new() }
                ),
                bound: "within 80 ms of the picture and 1.8 %",
                lacking: too_many(weight.cost, SILENCE_SHARE),
            },
            Purpose::Record => record_words(candidate, sums),
            Purpose::Talk => talk_words(f, sums, weight, ways),
            Purpose::SendToMany => Words {
                figure: format!(
                    "{} missing{ways}, {}",
                    text(sums.never_came()),
                    if candidate.multicast {
                        "one packet for all receivers"
                    } else {
                        "a copy for each receiver"
                    }
                ),
                bound: "under 1.8 % to one receiver",
                lacking: if candidate.multicast {
                    too_many(weight.cost, SILENCE_SHARE)
                } else {
                    "it cannot multicast, so each receiver adds the full rate".into()
                },
            },
        }
    }
}

/// In percent of the packets sent; all of none.
fn percent(packets: u64, sums: &Sums) -> f64 {
    crate::rate::percent(packets, sums.sent).unwrap_or(100.0)
}

fn underruns(times: u64) -> String {
    match times {
        0 => ", no underruns".into(),
        1 => ", one underrun".into(),
        times => format!(", {times} underruns"),
    }
}

fn too_many(percent: f64, share: f64) -> String {
    format!("{:.2} % too much", percent - share * 100.0)
}

/// Cost: mouth to ear (packetising and playout delay) in milliseconds.
fn play_together(packet_ms: f64, sums: &Sums) -> Weight {
    match sums.delay_for(PLAY_SHARE) {
        Some(delay) => {
            let cost = packet_ms + delay;
            Weight { cost, met: cost <= PLAY_MS, promised: false, delay_ms: Some(delay) }
        }
        None => Weight { cost: UNREACHED_MS + percent(sums.never_came(), sums), ..Weight::NONE },
    }
}

fn play_together_words(f: &TransportFigures, sums: &Sums, weight: &Weight, ways: &str) -> Words {
    let bound = "under the 30 ms limit for playing together";
    match weight.delay_ms {
        Some(_) => Words {
            figure: format!("{:.1} ms mouth to ear with 1 % late or lost{ways}", weight.cost),
            bound,
            lacking: format!("{:.1} ms too much for playing together", weight.cost - PLAY_MS),
        },
        None => Words {
            figure: format!(
                "{:.2} % of {} packets never arriving{ways}",
                percent(sums.never_came(), sums),
                f.packets_sent
            ),
            bound,
            lacking: format!("at most {} % may be missing", PLAY_SHARE * 100.0),
        },
    }
}

/// Packets that a recording would not have. Late packets are no loss to it, nor are packets that a reliable transport let
/// expire: a recording sets no deadline, so they would have been sent.
fn gone(candidate: &Candidate<'_>, sums: &Sums) -> u64 {
    sums.never_came() - if candidate.reliable { sums.expired } else { 0 }
}

fn record_words(candidate: &Candidate<'_>, sums: &Sums) -> Words {
    let gone = gone(candidate, sums);
    let mut figure = format!("{gone} of {} packets missing", sums.sent);
    if candidate.reliable {
        figure.push_str(", and lost packets are sent again");
        if sums.expired > 0 {
            figure.push_str(&format!(" ({} expired, which a recording would not allow)", sums.expired));
        }
    }
    let lacking = format!("{gone} packets are missing from the recording");
    Words { figure, bound: "nothing missing", lacking }
}

/// Cost: the E-model's rating R below zero, with the playout delay that makes it best.
fn talk(packet_ms: f64, sums: &Sums) -> Weight {
    let rated = |delay: &f64| (*delay, talk_rating(sums, packet_ms + delay, *delay));
    let near = || TALK_DELAYS_MS.iter().map(rated).filter(|(delay, _)| packet_ms + delay <= TALK_MS);
    let best = |all: &mut dyn Iterator<Item = (f64, f64)>| {
        all.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.total_cmp(&a.0)))
    };
    // Where no playout delay within the limit is enough, the best beyond it tells which is least bad.
    let found = best(&mut near()).filter(|(_, r)| *r >= TALK_R);
    let found = found.or_else(|| best(&mut near().chain(FAR_DELAYS_MS.iter().map(rated))));
    let (delay, r) = found.unwrap_or((f64::INFINITY, 0.0));
    let met = packet_ms + delay <= TALK_MS && r >= TALK_R;
    Weight { cost: -r, met, promised: false, delay_ms: Some(delay) }
}

fn talk_rating(sums: &Sums, delay_ms: f64, target_ms: f64) -> f64 {
    let missing_percent = percent(sums.missing_at(target_ms), sums);
    // G.107: mean burst over that of as much independent loss.
    let mean_burst = if sums.runs == 0 { 1.0 } else { sums.in_runs as f64 / sums.runs as f64 };
    let burst_ratio = mean_burst * (1.0 - missing_percent / 100.0);
    rating(CodecImpairment::G711_CONCEALED, delay_ms, missing_percent, burst_ratio)
}

fn talk_words(f: &TransportFigures, sums: &Sums, weight: &Weight, ways: &str) -> Words {
    let (target, r) = (weight.delay_ms.unwrap_or(f64::INFINITY), -weight.cost);
    let delay = f.packet_ms + target;
    let too_far = (delay > TALK_MS).then(|| format!("{:.0} ms too much for talking", delay - TALK_MS));
    let too_poor = (r < TALK_R).then(|| format!("R should be at least {TALK_R}"));
    let lacking: Vec<String> = too_far.into_iter().chain(too_poor).collect();
    Words {
        figure: format!(
            "R {r:.1} (MOS {:.2}, concealment as G.711 assumed) at {delay:.0} ms mouth to ear, {:.2} % missing{ways}",
            mos(r),
            percent(sums.missing_at(target), sums)
        ),
        bound: "within 150 ms and above R 70",
        lacking: lacking.join(", "),
    }
}

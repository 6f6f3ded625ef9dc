//! What each purpose asks of a transport.

use super::{Candidate, Purpose};
use crate::emodel::{CodecImpairment, mos, rating};
use crate::figures::TransportFigures;
use crate::playout::{PlayoutPoint, RequiredDelay};
use crate::statistics::{Z95, is_below, share_at_most, wilson};

/// How a transport does for a purpose.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Score {
    /// Less is better; unit as the purpose has it.
    pub cost: f64,
    /// Standard error of the cost.
    pub error: f64,
    /// Whether the measured figure meets the bound.
    pub met: bool,
    /// Probability that the true one does.
    pub meets: f64,
    /// Whether the transport has the properties that the purpose needs, apart from measurements.
    pub promised: bool,
    /// The deciding figure, in words.
    pub figure: String,
    /// The bound, in words.
    pub bound: &'static str,
    /// What is missing to meet it.
    pub lacking: Option<String>,
}

/// Share of packets that players let be missing: voice criteria say 1 to 2 % (recovery-and-metrics §1), music takes the
/// lower end.
const PLAY_SHARE: f64 = 0.01;
/// Mouth to ear between players: 25 to 30 ms is where ensembles lose their tempo (Schuett 2002, Chafe 2004).
const PLAY_MS: f64 = 30.0;
/// Loss with silence in the gaps noticed by half the listeners (Voelcker 1985), which the TV report takes.
const SILENCE_SHARE: f64 = 0.018;
/// 80 ms of lip-sync less 10 ms before the buffer: what the TV report leaves for it.
const TV_TARGET_MS: f64 = 70.0;
/// A recording is taken for complete when less than one packet in a thousand can be missing unseen; a run of 3000
/// packets can show no less.
const RECORD_SHARE: f64 = 0.001;
/// G.114: up to here a conversation is not disturbed.
const TALK_MS: f64 = 150.0;
/// G.109: from here on "some users dissatisfied"; below, many.
const TALK_R: f64 = 70.0;
/// After every possible delay: sorts a transport that never reaches a share after all that do.
const UNREACHED_MS: f64 = 100_000.0;

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

    pub(super) fn score(self, candidate: &Candidate<'_>) -> Score {
        match self {
            Purpose::PlayTogether => play_together(candidate.figures),
            Purpose::TvSound => tv_sound(candidate.figures),
            Purpose::Record => record(candidate),
            Purpose::Talk => talk(candidate.figures),
            Purpose::SendToMany => send_to_many(candidate),
        }
    }
}

/// Cost: mouth to ear (packetising and playout delay) in milliseconds.
fn play_together(f: &TransportFigures) -> Score {
    let share = |t: &&RequiredDelay| (t.missing_percent - PLAY_SHARE * 100.0).abs() < 1e-9;
    let target = f.playout.targets.iter().find(share);
    let bound = "within the 30 ms that players bear";
    let Some((at, error)) = target.and_then(|t| Some((t.target_ms?, delay_error(f, t)))) else {
        let missing = Missing::of(f, f.never_came());
        return Score {
            cost: UNREACHED_MS + missing.percent,
            error: missing.error,
            met: false,
            meets: missing.at_most(f, PLAY_SHARE),
            promised: false,
            figure: format!("{} never arriving", missing.text()),
            bound,
            lacking: Some(format!("at most {} % may be missing", PLAY_SHARE * 100.0)),
        };
    };
    let delay = f.packet_ms + at;
    // With few packets the percentile may lie beyond the longest delay seen: 1 − (1 − share)ⁿ that it does not.
    let reached = 1.0 - (1.0 - PLAY_SHARE).powf(f.independent_packets());
    Score {
        cost: delay,
        error,
        met: delay <= PLAY_MS,
        meets: reached * is_below(delay, error, PLAY_MS, 0.0),
        promised: false,
        figure: format!("{delay:.1} ms mouth to ear with 1 % late or lost"),
        bound,
        lacking: (delay > PLAY_MS).then(|| format!("{:.1} ms too much for playing", delay - PLAY_MS)),
    }
}

/// Standard error of a playout delay, from its 95 % interval. Where the samples do not bound it above, the longest
/// delay seen has to.
fn delay_error(f: &TransportFigures, target: &RequiredDelay) -> f64 {
    let longest = match f.one_way_ms {
        Some(one_way) => one_way.max_ms,
        None => f.rtt_ms.max_ms.map(|ms| ms / 2.0),
    };
    let high = target.high_ms.or(longest).unwrap_or(UNREACHED_MS);
    (high - target.low_ms.unwrap_or(0.0)).max(0.0) / (2.0 * Z95)
}

/// Cost: percent missing with the buffer that lip-sync allows.
fn tv_sound(f: &TransportFigures) -> Score {
    let at = |p: &&PlayoutPoint| p.target_ms == TV_TARGET_MS;
    let percent = f.playout.curve.iter().find(at).map_or(100.0, |p| p.missing_percent);
    let missing = Missing::from_percent(f, percent);
    let met = percent <= SILENCE_SHARE * 100.0;
    Score {
        cost: percent,
        error: missing.error,
        met,
        meets: missing.at_most(f, SILENCE_SHARE),
        promised: false,
        figure: format!(
            "{} lost or later than {TV_TARGET_MS} ms, buffer {}",
            missing.text(),
            match f.buffer_sequence.empty {
                0 => "never empty".into(),
                1 => "empty once".into(),
                times => format!("empty {times} times"),
            }
        ),
        bound: "within 80 ms of the picture and 1.8 %",
        lacking: (!met).then(|| format!("{:.2} % too many", percent - SILENCE_SHARE * 100.0)),
    }
}

/// Cost: percent that never came. Late packets are no loss to a recording, nor are packets that a reliable transport
/// let expire: a recording sets no deadline, so they would have been sent.
fn record(candidate: &Candidate<'_>) -> Score {
    let f = candidate.figures;
    let reliable = candidate.reliable;
    let excused = if reliable { f.expired } else { 0 };
    let gone = f.never_came() - excused;
    let missing = Missing::of(f, gone);
    let met = gone == 0 && f.packets_received > 0;
    let mut figure = format!("{gone} of {} packets missing", f.packets_sent);
    if reliable {
        figure.push_str(", and what is lost is sent again");
    }
    if excused > 0 {
        figure.push_str(&format!(" ({excused} expired for a deadline that a recording has not)"));
    }
    Score {
        cost: missing.percent,
        error: missing.error,
        met,
        meets: missing.at_most(f, RECORD_SHARE),
        promised: reliable,
        figure,
        bound: "nothing missing",
        lacking: (!met).then(|| format!("{gone} packets are not in the recording")),
    }
}

/// Cost: the E-model's rating R below zero, with the playout delay that makes it best.
fn talk(f: &TransportFigures) -> Score {
    let rated = |point: &PlayoutPoint| {
        let delay = f.packet_ms + point.target_ms;
        (delay, point.missing_percent, talk_rating(f, delay, point.missing_percent))
    };
    let best = |limit: f64| {
        let within = f.playout.curve.iter().map(rated).filter(|(delay, ..)| *delay <= limit);
        within.max_by(|a, b| a.2.total_cmp(&b.2).then(b.0.total_cmp(&a.0)))
    };
    // If no playout delay within the limit is enough, the best beyond it decides which is least bad.
    let good = |found: &(f64, f64, f64)| found.2 >= TALK_R;
    let found = best(TALK_MS).filter(good).or_else(|| best(f64::INFINITY));
    let (delay, percent, r) = found.unwrap_or((f64::INFINITY, 100.0, 0.0));
    let met = delay <= TALK_MS && r >= TALK_R;
    let n = f.independent_packets();
    let (low, high) = wilson(percent / 100.0 * n, n).unwrap_or((0.0, 1.0));
    let error = (talk_rating(f, delay, low * 100.0) - talk_rating(f, delay, high * 100.0)) / (2.0 * Z95);
    let error = if error.is_finite() { error } else { 0.0 };
    let too_far = (delay > TALK_MS).then(|| format!("{:.0} ms too much for talking", delay - TALK_MS));
    let too_poor = (r < TALK_R).then(|| format!("R should be {TALK_R}"));
    let lacking: Vec<String> = too_far.into_iter().chain(too_poor).collect();
    Score {
        cost: -r,
        error,
        met,
        meets: if delay <= TALK_MS { is_below(-r, error, -TALK_R, 0.0) } else { 0.0 },
        promised: false,
        figure: format!(
            "R {r:.1} (MOS {:.2}, concealment as G.711 assumed) at {delay:.0} ms mouth to ear, {percent:.2} % missing",
            mos(r)
        ),
        bound: "within 150 ms and above R 70",
        lacking: (!met).then(|| lacking.join(", ")),
    }
}

fn talk_rating(f: &TransportFigures, delay_ms: f64, missing_percent: f64) -> f64 {
    // G.107: mean burst over that of as much independent loss.
    let burst_ratio = f.mean_loss_burst.unwrap_or(1.0) * (1.0 - missing_percent / 100.0);
    rating(CodecImpairment::G711_CONCEALED, delay_ms, missing_percent, burst_ratio)
}

/// Cost: percent that never came; a transport without multicast is sorted after all that have it.
fn send_to_many(candidate: &Candidate<'_>) -> Score {
    let f = candidate.figures;
    let missing = Missing::of(f, f.never_came());
    let many = candidate.multicast;
    let few_missing = missing.percent <= SILENCE_SHARE * 100.0;
    let lacking = match (many, few_missing) {
        (true, true) => None,
        (true, false) => Some(format!("{:.2} % too many", missing.percent - SILENCE_SHARE * 100.0)),
        (false, _) => Some("it cannot multicast, so each receiver costs the whole rate again".into()),
    };
    Score {
        cost: missing.percent + if many { 0.0 } else { 1000.0 },
        error: missing.error,
        met: many && few_missing,
        meets: if many { missing.at_most(f, SILENCE_SHARE) } else { 0.0 },
        promised: many,
        figure: format!(
            "{} missing, {}",
            missing.text(),
            if many { "one datagram for all" } else { "a copy for each receiver" }
        ),
        bound: "under 1.8 %",
        lacking,
    }
}

/// A share of the packets sent, with its standard error in percent.
struct Missing {
    percent: f64,
    error: f64,
    sent: u64,
}

impl Missing {
    fn of(f: &TransportFigures, packets: u64) -> Missing {
        let percent = crate::rate::percent(packets, f.packets_sent).unwrap_or(100.0);
        Missing::from_percent(f, percent)
    }

    fn from_percent(f: &TransportFigures, percent: f64) -> Missing {
        let n = f.independent_packets();
        let (low, high) = wilson(percent / 100.0 * n, n).unwrap_or((0.0, 1.0));
        Missing { percent, error: (high - low) * 100.0 / (2.0 * Z95), sent: f.packets_sent }
    }

    /// Probability that the true share is at most `bound`.
    fn at_most(&self, f: &TransportFigures, bound: f64) -> f64 {
        let n = f.independent_packets();
        share_at_most(self.percent / 100.0 * n, n, bound)
    }

    fn text(&self) -> String {
        format!("{:.2} % of {} packets", self.percent, self.sent)
    }
}

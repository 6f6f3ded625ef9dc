//! Specification of a link as plain data, and its text form: `rate=20Mbit/s,queue=100kB,delay=10ms,loss=2%`.

use std::fmt;
use std::time::Duration;

use antiphon_core::{BitRate, ByteCount, Ratio};

/// One direction of a link. The default is ideal: no rate, no delay, no loss.
///
/// Packets pass the elements in this order: stall, queue and rate; loss, or before the queue if so set; corruption;
/// duplication; propagation and its variation; reordering.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkSpec {
    /// Bits per second; `None`: sending takes no time.
    pub rate: Option<BitRate>,
    /// Depth of a token bucket filled at `rate`, in place of a sender that takes one packet after the other: up to this
    /// many bytes leave at once, a longer packet never. `None`: no bucket.
    pub burst: Option<ByteCount>,
    /// Limit of packets that wait for the sender, without the one being sent.
    pub queue: QueueLimit,
    /// Propagation time.
    pub delay: Duration,
    /// Extra delay, drawn per packet, never reordering.
    pub jitter: Option<Jitter>,
    /// Times at which nothing is sent.
    pub stall: Option<Stall>,
    /// Which packets are lost on the way.
    pub loss: LossModel,
    /// They are lost before the queue, as in NIST Net and dummynet: a lost packet takes neither a place in the queue nor
    /// time on the link. Otherwise behind it, as on a radio link.
    pub loss_before_queue: bool,
    /// Which packets are held back so that others overtake them.
    pub reorder: Option<ReorderSpec>,
    /// Share of packets that arrive twice.
    pub duplicate: Ratio,
    /// Share of packets of which one bit is inverted.
    pub corrupt: Ratio,
}

/// Both directions of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DuplexSpec {
    /// From the near end (the client, the home) to the far end.
    pub up: LinkSpec,
    /// From the far end (the server) to the near end.
    pub down: LinkSpec,
}

/// Limit of a queue, or how it drops before it is full. A limit in packets favours large packets, one in bytes small.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum QueueLimit {
    /// This many packets of any size.
    Packets(u32),
    /// This many bytes, in at most 32 768 packets.
    Bytes(ByteCount),
    /// Random early detection, by the average length; at most 32 768 packets.
    Red(RedSpec),
    /// NIST Net's derivative random drop, by the current length; at most 32 768 packets.
    Drd(DrdSpec),
}

/// Thresholds of [`Red`](crate::Red), in packets that wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedSpec {
    /// Average below which nothing is dropped.
    pub min: u32,
    /// Average from which everything is dropped, or, if gentle, from which the share rises to 100 % at twice as much.
    pub max: u32,
    /// p_b just below `max`.
    pub share: Ratio,
    /// Whether the share keeps rising from `max` instead of jumping to 100 %.
    pub gentle: bool,
}

/// Thresholds of [`Drd`](crate::Drd), in packets that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrdSpec {
    /// Length at which 10 % are dropped; below, none.
    pub min: u32,
    /// Length from which 95 % are dropped.
    pub max: u32,
}

impl Default for QueueLimit {
    /// 100 packets: Linux network interfaces' long-time default (`txqueuelen`), and the papers' 802.11 access points'.
    fn default() -> Self {
        QueueLimit::Packets(100)
    }
}

/// Delay variation: each packet's delay beyond the propagation time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Mean extra delay, for every shape.
    pub mean: Duration,
    /// Its distribution.
    pub shape: Shape,
}

/// Distribution of the extra delay X of mean m; all begin at zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// Uniform between 0 and 2 m.
    #[default]
    Uniform,
    /// P(X > x) = exp(-x/m).
    Exponential,
    /// Around m with standard deviation m/3, cut at 0 and 2 m.
    Normal,
    /// Heavy tail: P(X > x) = (1 + x/m)⁻² (Lomax, shape 2), cut at 100 m. One packet in 100 above 9 m, one in 1000
    /// above 30.6 m.
    Pareto,
}

impl Shape {
    /// All of them, in the order of help texts.
    pub const ALL: [Shape; 4] = [Shape::Uniform, Shape::Exponential, Shape::Normal, Shape::Pareto];

    /// The name in a specification.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Uniform => "uniform",
            Shape::Exponential => "exponential",
            Shape::Normal => "normal",
            Shape::Pareto => "pareto",
        }
    }
}

/// Times at which nothing is sent: scanning, handover, fading. Packets wait in the queue; they are late, and lost only
/// if it overflows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Mean length, exponentially distributed.
    pub length: Duration,
    /// Mean time from the beginning of one stall to the beginning of the next.
    pub every: Duration,
}

/// Which packets are lost.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each independently with this probability.
    Independent(Ratio),
    /// A channel of two states, each of which lasts for exponentially distributed times (a Gilbert-Elliott channel in
    /// continuous time): the same weather for all who send over it, whatever they send.
    Fading {
        /// Mean time in the good state.
        good: Duration,
        /// Mean time in the bad state: of a fade.
        bad: Duration,
        /// Loss in the bad state.
        loss_bad: Ratio,
        /// Loss in the good state.
        loss_good: Ratio,
    },
    /// A channel of two states, moving at each packet (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability of going from good to bad.
        p: Ratio,
        /// Probability of going from bad to good.
        r: Ratio,
        /// Loss in the bad state.
        loss_bad: Ratio,
        /// Loss in the good state.
        loss_good: Ratio,
    },
}

impl LossModel {
    /// The simple Gilbert channel that loses `share` of the packets in runs of `burst` packets on average.
    ///
    /// `None` if impossible: a burst has at least one packet and, at a loss of P, bursts average at least P/(1-P).
    pub fn bursts(share: Ratio, burst: f64) -> Option<LossModel> {
        let r = 1.0 / burst;
        let p = share.0 * r / (1.0 - share.0);
        let possible = burst.is_finite() && burst >= 1.0 && p.is_finite() && (0.0..=1.0).contains(&p);
        possible.then_some(LossModel::GilbertElliott {
            p: Ratio(p),
            r: Ratio(r),
            loss_bad: Ratio(1.0),
            loss_good: Ratio(0.0),
        })
    }

    /// The channel that loses everything for `bad` on average, and in this way `share` of the time. `None` if impossible:
    /// a share of 0 or 1 has no fades, and both states last for at least [`Self::SHORTEST`].
    pub fn fades(share: Ratio, bad: Duration) -> Option<LossModel> {
        let good = bad.as_secs_f64() * (1.0 - share.0) / share.0;
        let possible = good.is_finite() && good <= Self::LONGEST.as_secs_f64();
        let good = Duration::from_secs_f64(if possible { good } else { 0.0 });
        let long_enough = good >= Self::SHORTEST && (Self::SHORTEST..=Self::LONGEST).contains(&bad);
        long_enough.then_some(LossModel::Fading { good, bad, loss_bad: Ratio(1.0), loss_good: Ratio(0.0) })
    }

    /// The shortest mean time of a state that is accepted: a tenth of the shortest packet interval.
    pub const SHORTEST: Duration = Duration::from_micros(30);
    /// The longest.
    pub const LONGEST: Duration = Duration::from_secs(1_000_000);

    /// The channel in time that is the same, seen by a stream of one packet each `pace`: the two-state Markov chain in
    /// continuous time whose transition probabilities over `pace` are `p` and `r`. Other models are in time already.
    ///
    /// A chain that changes its state more often than not (`p` + `r` ≥ 1) has no such counterpart, and its losses hardly
    /// cluster: they become independent.
    pub fn in_time(self, pace: Duration) -> LossModel {
        let LossModel::GilbertElliott { p, r, loss_bad, loss_good } = self else { return self };
        let kept = 1.0 - p.0 - r.0;
        if p.0 <= 0.0 || r.0 <= 0.0 || kept <= 0.0 {
            return LossModel::Independent(self.mean());
        }
        // Over a time t both states forget where they began as e^{-t/memory}.
        let memory = pace.as_secs_f64() / -kept.ln();
        let mean = |leaving: f64| {
            Duration::try_from_secs_f64(memory * (p.0 + r.0) / leaving).unwrap_or(Self::LONGEST)
        };
        LossModel::Fading { good: mean(p.0), bad: mean(r.0), loss_bad, loss_good }
    }

    /// Mean share of packets lost.
    pub fn mean(self) -> Ratio {
        match self {
            LossModel::None => Ratio(0.0),
            LossModel::Independent(share) => share,
            LossModel::Fading { good, bad, loss_bad, loss_good } => {
                let (good, bad) = (good.as_secs_f64(), bad.as_secs_f64());
                Ratio((good * loss_good.0 + bad * loss_bad.0) / (good + bad).max(f64::MIN_POSITIVE))
            }
            LossModel::GilbertElliott { p, r, loss_bad, loss_good } => {
                Ratio((r.0 * loss_good.0 + p.0 * loss_bad.0) / (p.0 + r.0).max(f64::MIN_POSITIVE))
            }
        }
    }
}

/// Which packets are held back, and for how long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReorderSpec {
    /// Share of packets held back.
    pub share: Ratio,
    /// How long. Packets that follow within this time overtake.
    pub hold: Duration,
}

/// The keys of a specification: name, example, meaning. For help texts and error messages.
pub const KEYS: [(&str, &str, &str); 9] = [
    (
        "rate",
        "20Mbit/s",
        "sending rate; 'none' for no limit; 20Mbit/s/15kB: token bucket, bursts up to 15 kB",
    ),
    (
        "queue",
        "100kB",
        "what may wait, in bytes or '50packets' (0packets at a token bucket: a policer), the packet being sent not \
         counted; red/5/15/10%, red/5/15/10%/gentle, drd/10/50: dropping early, from and to so many packets",
    ),
    ("delay", "10ms", "propagation time, one way"),
    (
        "jitter",
        "2ms/pareto",
        "mean extra delay without reordering; /uniform, /exponential, /normal or /pareto",
    ),
    ("stall", "40ms/4s", "nothing is sent for 40 ms on average, every 4 s on average"),
    (
        "loss",
        "1%/3",
        "lost packets; /15ms: in fades of 15 ms on average; /3: in bursts of 3 packets; p/r/bad/good: Gilbert-Elliott, \
         good-time/fade-time/bad/good: in time; each with /before-queue: a lost packet takes no time of the link",
    ),
    ("reorder", "1%/5ms", "packets delayed by this time, so that others overtake them"),
    ("duplicate", "0.1%", "packets that arrive twice"),
    ("corrupt", "0.1%", "packets with one bit inverted"),
];

impl DuplexSpec {
    /// Both directions, with losses that move with time instead of at each packet ([`LossModel::in_time`]).
    pub fn in_time(self, pace: Duration) -> DuplexSpec {
        let one = |link: LinkSpec| LinkSpec { loss: link.loss.in_time(pace), ..link };
        DuplexSpec { up: one(self.up), down: one(self.down) }
    }
}

impl LinkSpec {
    /// The value of a key in text form; `None` if the key is at its default.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let share = |share: Ratio| (share.0 != 0.0).then(|| percent(share));
        match key {
            "rate" => self.rate.map(|rate| {
                let depth = self.burst.map(|depth| format!("/{}", exact(depth.0, &SIZES)));
                exact(rate.0, &RATES) + &depth.unwrap_or_default()
            }),
            "queue" => (self.queue != QueueLimit::default()).then(|| match self.queue {
                QueueLimit::Packets(n) => format!("{n}packets"),
                QueueLimit::Bytes(bytes) => exact(bytes.0, &SIZES),
                QueueLimit::Red(RedSpec { min, max, share, gentle }) => {
                    format!("red/{min}/{max}/{}{}", percent(share), if gentle { "/gentle" } else { "" })
                }
                QueueLimit::Drd(DrdSpec { min, max }) => format!("drd/{min}/{max}"),
            }),
            "delay" => (!self.delay.is_zero()).then(|| time(self.delay)),
            "jitter" => self.jitter.map(|Jitter { mean, shape }| match shape {
                Shape::Uniform => time(mean),
                other => format!("{}/{}", time(mean), other.name()),
            }),
            "stall" => self.stall.map(|stall| format!("{}/{}", time(stall.length), time(stall.every))),
            "loss" => self.loss_value(),
            "reorder" => {
                self.reorder.map(|reorder| format!("{}/{}", percent(reorder.share), time(reorder.hold)))
            }
            "duplicate" => share(self.duplicate),
            "corrupt" => share(self.corrupt),
            _ => None,
        }
    }

    fn loss_value(&self) -> Option<String> {
        let model = self.loss_model_value()?;
        Some(if self.loss_before_queue { model + crate::parse::BEFORE_QUEUE } else { model })
    }

    fn loss_model_value(&self) -> Option<String> {
        match self.loss {
            LossModel::None => None,
            LossModel::Independent(share) => Some(percent(share)),
            LossModel::Fading { good, bad, loss_bad, loss_good } => {
                let short = format!("{}/{}", percent(self.loss.mean()), time(bad));
                let part = |share: Ratio| format!("{}%", share.0 * 100.0);
                let long = || [time(good), time(bad), part(loss_bad), part(loss_good)].join("/");
                Some(if crate::parse::loss(&short) == Ok(self.loss) { short } else { long() })
            }
            LossModel::GilbertElliott { p, r, loss_bad, loss_good } => {
                // The short form, if it gives the same channel.
                let burst = rounded(1.0 / r.0);
                let short = format!("{}/{burst}", percent(self.loss.mean()));
                let same = crate::parse::loss(&short).is_ok_and(|model| model == self.loss);
                let part = |share: Ratio| format!("{}%", share.0 * 100.0);
                Some(if same { short } else { [p, r, loss_bad, loss_good].map(part).join("/") })
            }
        }
    }
}

/// Every key that is not at its default, as [`FromStr`](std::str::FromStr) reads it; `ideal` if there is none.
impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<String> =
            KEYS.iter().filter_map(|(key, ..)| Some(format!("{key}={}", self.value(key)?))).collect();
        f.write_str(if written.is_empty() { "ideal" } else { "" })?;
        f.write_str(&written.join(","))
    }
}

/// The name of a preset if it equals one; otherwise its keys, with `up.` and `down.` where the directions differ.
impl fmt::Display for DuplexSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(preset) = crate::presets::PRESETS.iter().find(|preset| preset.spec() == *self) {
            return f.write_str(preset.name);
        }
        if self.up == self.down {
            return self.up.fmt(f);
        }
        let mut written = Vec::new();
        for (key, ..) in KEYS {
            match (self.up.value(key), self.down.value(key)) {
                (up, down) if up == down => written.extend(up.map(|value| format!("{key}={value}"))),
                (up, down) => {
                    written.extend(up.map(|value| format!("up.{key}={value}")));
                    written.extend(down.map(|value| format!("down.{key}={value}")));
                }
            }
        }
        f.write_str(&written.join(","))
    }
}

const RATES: [(u64, &str); 4] =
    [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")];
const SIZES: [(u64, &str); 4] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")];
const TIMES: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

fn time(d: Duration) -> String {
    exact(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX), &TIMES)
}

/// A whole number in the largest unit that expresses it exactly with at most three decimals.
///
/// (The `Display` of `core`'s quantities rounds, for readers; a specification must be read back unchanged.)
fn exact(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |worth: u64| value >= worth && value.is_multiple_of((worth / 1000).max(1));
    let &(worth, unit) = units.iter().find(|(worth, _)| fits(*worth)).unwrap_or(&units[units.len() - 1]);
    let (whole, thousandths) = (value / worth, value % worth / (worth / 1000).max(1));
    if thousandths == 0 {
        return format!("{whole}{unit}");
    }
    let decimals = format!("{thousandths:03}");
    format!("{whole}.{}{unit}", decimals.trim_end_matches('0'))
}

/// A share in percent, with nine decimals at most.
fn percent(share: Ratio) -> String {
    format!("{}%", rounded(share.percent()))
}

fn rounded(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

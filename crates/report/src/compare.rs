//! The report of `antiphon compare` as plain data, and its conversion to a page.

use crate::cards::Card;
use crate::fate::Fate;
use crate::listen::Clip;
use crate::shares::target_for;
use crate::table::Row;
use serde::{Deserialize, Serialize};

/// Contents of the report as plain data; an empty list or string omits its part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompareReport {
    /// The title, such as "rtp and tcp over wifi-home".
    pub title: String,
    /// What was done, in one sentence without figures.
    pub lead: String,
    /// What was streamed, when, where and by which version: pairs of term and value, at the end of the page.
    pub meta: Vec<(String, String)>,
    /// The command line that repeats the run, seed included.
    pub command: String,
    /// The link the streams crossed.
    pub link: LinkNote,
    /// The meaning of every packet's latency.
    pub latency: LatencyNote,
    /// One panel per transport; the order gives the colours.
    pub transports: Vec<TransportPanel>,
    /// The figures, with one value per transport in the order of `transports`.
    pub table: Vec<Row>,
    /// Which transport to take for each purpose, by its name; the colours are those of `transports`.
    pub advice: Vec<Card>,
    /// The longest delay from mouth to ear that a purpose allows, shown where delays are.
    pub limits: Vec<Limit>,
    /// What a shorter delay would cost.
    pub trade_off: TradeOff,
    /// What to know when listening to one transport after the other; may be empty.
    pub listening: String,
    /// The sound that was sent, for comparison.
    pub original: Option<Clip>,
    /// Caveats: what was not obtained, what was cut short.
    pub notes: Vec<String>,
}

/// The link and how it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkNote {
    /// The preset or address, such as "wifi-home".
    pub name: String,
    /// Its settings: pairs of term and value.
    pub parameters: Vec<(String, String)>,
    /// How the link was applied to the streams.
    pub method: String,
    /// What this way of modelling does not show.
    pub limits: Vec<String>,
}

/// Which latency is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyNote {
    /// Its name, such as "round trip".
    pub label: String,
    /// Between which two points it is measured.
    pub definition: String,
}

impl Default for LatencyNote {
    fn default() -> Self {
        LatencyNote { label: "latency".into(), definition: String::new() }
    }
}

/// What happened to the packets of one transport. The three lists describe the same packets in order of sending; if one
/// is shorter, figures that need it omit the packets beyond its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportPanel {
    /// The scheme, such as "rtp".
    pub name: String,
    /// A remark on it, such as "UDP".
    pub title: String,
    /// When each packet was sent, in ms since the first packet of the run.
    pub sent_ms: Vec<f32>,
    /// How long each packet took, in ms; `None` if it never came. A late packet has a value.
    pub latency_ms: Vec<Option<f32>>,
    /// The fate of each packet.
    pub fate: Vec<Fate>,
    /// The delay of each packet's sound from mouth to ear, in ms; `None` if it never came. Empty if it is not known: then the
    /// trade-off is drawn over `latency_ms`.
    pub mouth_to_ear_ms: Vec<Option<f32>>,
    /// Whether losses are repaired inside the transport, so that `fate` does not show which packets were lost at first.
    pub hides_repairs: bool,
    /// The playout delay that divided late from in time, in ms on the scale of `latency_ms`.
    pub playout_target_ms: Option<f32>,
    /// What a listener would have heard.
    pub heard: Option<Clip>,
    /// When each picture beside the sound was due, in ms since the first packet of the run; empty without pictures.
    pub picture_due_ms: Vec<f32>,
    /// From then until all of it was back, in ms; `None` if a part never came. In the same order.
    pub picture_ms: Vec<Option<f32>>,
}

/// The longest delay that a purpose allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// The purpose, in a word or two.
    pub purpose: String,
    /// From mouth to ear, in ms.
    pub mouth_to_ear_ms: f64,
}

impl TransportPanel {
    /// Delays from mouth to ear, or latencies where those are not known.
    pub(crate) fn delays(&self) -> &[Option<f32>] {
        if self.mouth_to_ear_ms.is_empty() { &self.latency_ms } else { &self.mouth_to_ear_ms }
    }
}

/// The delay that each transport needs to keep the missed packets below each share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TradeOff {
    /// Shares of packets missed, late and lost together, such as 0.01.
    pub shares: Vec<f64>,
    /// Delays in ms, from mouth to ear where that is known, as `[share][transport]`; `None` if no delay suffices or too few
    /// packets were sent.
    pub delays_ms: Vec<Vec<Option<f64>>>,
}

impl TradeOff {
    /// Computed from the packets of `transports`, for one packet in 10, 100, 1000 and 10 000.
    pub fn from_frames(transports: &[TransportPanel]) -> Self {
        let shares = vec![0.1, 0.01, 0.001, 0.0001];
        let delays = |share: &f64| transports.iter().map(|t| target_for(t.delays(), *share)).collect();
        TradeOff { delays_ms: shares.iter().map(delays).collect(), shares }
    }
}

/// The report of a comparison as one HTML file.
pub fn render_compare(report: &CompareReport) -> String {
    report.page().render()
}

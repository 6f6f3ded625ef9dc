//! The fate of each packet, and the map that shows it.

use crate::cards::swatch;
use crate::encode::Pool;
use crate::html::{escape, number, script_json};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The fate of one packet for the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It had arrived when it was to be played.
    Received,
    /// The network lost it, and protection or repetition recovered it in time.
    Recovered,
    /// It arrived after its playout time, according to the receiver.
    Late,
    /// The sender dropped it, because its deadline had passed.
    Expired,
    /// The network lost it.
    Lost,
    /// It was concealed for another reason, such as a device that ran out of samples.
    Concealed,
}

impl Fate {
    /// All fates, from best to worst.
    pub const ALL: [Fate; 6] =
        [Fate::Received, Fate::Recovered, Fate::Late, Fate::Expired, Fate::Lost, Fate::Concealed];

    /// Whether the listener heard the packet itself.
    pub fn is_heard(self) -> bool {
        matches!(self, Fate::Received | Fate::Recovered)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Received => "received",
            Fate::Recovered => "recovered",
            Fate::Late => "late",
            Fate::Expired => "expired",
            Fate::Lost => "lost",
            Fate::Concealed => "concealed",
        }
    }

    /// Its letter in the page's data.
    fn letter(self) -> char {
        match self {
            Fate::Received => 'R',
            Fate::Recovered => 'V',
            Fate::Late => 'T',
            Fate::Expired => 'X',
            Fate::Lost => 'L',
            Fate::Concealed => 'C',
        }
    }
}

/// Every packet of every strip as one cell, in order of sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossMap {
    /// One strip for each item compared.
    pub strips: Vec<Strip>,
    /// Name of the latency of a strip's packets, such as "round trip".
    pub latency_label: String,
}

/// The packets of one transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Strip {
    /// The name.
    pub name: String,
    /// Number of the series' colour in which the name is shown.
    pub colour: Option<usize>,
    /// Each packet's fate.
    pub fates: Vec<Fate>,
    /// When each packet was sent, in ms since the first packet of the run.
    pub sent_ms: Vec<f32>,
    /// How long each packet took, in ms; `None` if it never came.
    pub latency_ms: Vec<Option<f32>>,
    /// Whether losses are repaired where no fate shows it.
    pub hides_repairs: bool,
}

impl LossMap {
    pub(crate) fn render(&self, pool: &mut Pool, out: &mut String) {
        let spec = json!({
            "latency": self.latency_label,
            "strips": self.strips.iter().map(|s| s.spec(pool)).collect::<Vec<_>>(),
        });
        out.push_str("<figure class=\"lossmap\" data-figure=\"map\">\n<ul class=\"fates\">");
        for fate in Fate::ALL {
            let occurs = self.strips.iter().any(|s| s.fates.contains(&fate));
            if occurs || fate == Fate::Received {
                out.push_str(&format!(
                    "<li><canvas class=\"key\" width=\"14\" height=\"14\" data-fate=\"{}\"></canvas>{}</li>",
                    fate.letter(),
                    fate.word()
                ));
            }
        }
        out.push_str("</ul>\n");
        for (i, strip) in self.strips.iter().enumerate() {
            strip.render(i, out);
        }
        out.push_str(&format!(
            "<p class=\"readout js\" role=\"status\">Point at a cell, or move with the arrow keys, to learn its packet; \
             click or press Enter to hear it.</p>\n\
             <script type=\"application/json\">{}</script></figure>\n",
            script_json(&spec)
        ));
    }
}

impl Strip {
    fn render(&self, index: usize, out: &mut String) {
        let (name, summary) = (escape(&self.name), self.summary());
        let title = format!("<b>{}{name}</b> <span class=\"muted\">{summary}</span>", swatch(self.colour));
        let cells = format!(
            "<div class=\"cells\" data-strip=\"{index}\" tabindex=\"0\" role=\"img\" aria-label=\"{name}: {summary}\"></div>"
        );
        // A map without a mark shows nothing that its title doesn't say, and repairs only to those who look for them.
        out.push_str(&match (self.fates.iter().all(|f| f.is_heard()), self.fates.contains(&Fate::Recovered)) {
            (true, false) => format!("<div class=\"strip\"><p class=\"strip-title\">{title}</p></div>\n"),
            (true, true) => format!(
                "<details class=\"strip\"><summary class=\"strip-title\">{title}</summary>{cells}</details>\n"
            ),
            _ => format!("<div class=\"strip\"><p class=\"strip-title\">{title}</p>{cells}</div>\n"),
        });
    }

    fn spec(&self, pool: &mut Pool) -> serde_json::Value {
        let sent = self.sent_ms.iter().map(|ms| Some(f64::from(*ms) / 1000.0));
        let latency = self.latency_ms.iter().map(|ms| ms.map(f64::from));
        json!({
            "name": self.name,
            "fates": run_lengths(&self.fates),
            "x": pool.add(sent, SECONDS_QUANTUM),
            "y": pool.add(latency, MS_QUANTUM),
        })
    }

    /// The counts in words: "2964 packets: 21 late, 15 lost, longest burst 4".
    pub(crate) fn summary(&self) -> String {
        let counts: Vec<String> = Fate::ALL[1..]
            .iter()
            .map(|fate| (self.fates.iter().filter(|f| *f == fate).count(), fate.word()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{} {word}", number(count as f64, 0)))
            .collect();
        let longest = crate::shares::burst_lengths(&self.fates).last().map_or(0, |(length, _)| *length);
        let packets = number(self.fates.len() as f64, 0);
        let counted = match (counts.is_empty(), longest) {
            (true, _) => format!("{packets} packets, all received"),
            (false, 0 | 1) => format!("{packets} packets: {}", counts.join(", ")),
            (false, n) => format!("{packets} packets: {}; longest burst {n}", counts.join(", ")),
        };
        if self.hides_repairs { format!("{counted}; losses that were repaired do not show") } else { counted }
    }
}

/// A microsecond: finer than any screen, and the useful resolution of the operating system's time stamps.
pub(crate) const SECONDS_QUANTUM: f64 = 1e-6;
/// The same, in milliseconds.
pub(crate) const MS_QUANTUM: f64 = 1e-3;

/// Letter and count for each run of equal fates: a stream without losses takes six characters.
fn run_lengths(fates: &[Fate]) -> String {
    fates.chunk_by(|a, b| a == b).map(|run| format!("{}{}", run[0].letter(), run.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fate::*;

    #[test]
    fn runs_are_counted() {
        assert_eq!(run_lengths(&[Received, Received, Lost, Late, Late]), "R2L1T2");
        assert_eq!(run_lengths(&[]), "");
    }

    #[test]
    fn letters_and_words_differ() {
        for (i, a) in Fate::ALL.iter().enumerate() {
            for b in &Fate::ALL[i + 1..] {
                assert!(a.letter() != b.letter() && a.word() != b.word());
            }
        }
    }

    #[test]
    fn summaries_name_what_occurred_and_nothing_else() {
        let strip = |fates: &[Fate]| Strip { fates: fates.to_vec(), ..Strip::default() }.summary();
        assert_eq!(strip(&[Received, Received]), "2 packets, all received");
        assert_eq!(strip(&[Received, Lost, Late, Received]), "4 packets: 1 late, 1 lost; longest burst 2");
        assert_eq!(strip(&[Recovered]), "1 packets: 1 recovered");
    }
}

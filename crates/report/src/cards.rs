//! Recommendations: the part of a page that a reader acts on.

use crate::html::{escape, inline, unless_empty};
use serde::{Deserialize, Serialize};

/// A recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// The need, such as "Play together".
    pub heading: String,
    /// The recommended choice; empty when nothing measured meets the need.
    pub answer: String,
    /// What the choice is, in a few plain words; may be empty.
    pub gloss: String,
    /// Number of the series' colour in which the answer is shown, so that the charts' colour identifies it.
    pub colour: Option<usize>,
    /// Why, in one plain sentence.
    pub sentence: String,
    /// Which others will do as well; may be empty.
    pub others: String,
    /// What to watch for when following the advice; may be empty.
    pub caution: String,
    /// Confidence in the advice, 0 to 1; `None` if the measurements do not give it.
    pub confidence: Option<f64>,
    /// The same in words.
    pub sureness: String,
    /// Commands to copy, folded; may be empty.
    pub commands: Vec<Command>,
    /// The figures that decided, folded; may be empty.
    pub because: String,
}

/// A command line and where it is typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Command {
    /// Such as "On the receiving computer".
    pub place: String,
    /// The command line.
    pub line: String,
}

pub(crate) fn render_cards(cards: &[Card], out: &mut String) {
    out.push_str("<div class=\"cards\">\n");
    for card in cards {
        card.render(out);
    }
    out.push_str("</div>\n");
}

impl Card {
    fn render(&self, out: &mut String) {
        let answer = match self.answer.as_str() {
            "" => "<p class=\"answer none\">none is good enough</p>".to_string(),
            name => format!(
                "<p class=\"answer\">{}<b>{}</b>{}</p>",
                swatch(self.colour),
                escape(name),
                unless_empty(&self.gloss, |text| format!(" <span class=\"gloss\">{}</span>", escape(text)))
            ),
        };
        let paragraph = |class: &str, text: &str| {
            unless_empty(text, |text| format!("<p class=\"{class}\">{}</p>", inline(text)))
        };
        out.push_str(&format!(
            "<article class=\"card\"><h3>{}</h3>{answer}<div class=\"reason\">{}{}{}</div>\
             <p class=\"confidence\">{}{}</p><div class=\"more\">",
            escape(&self.heading),
            paragraph("sentence", &self.sentence),
            paragraph("others", &self.others),
            paragraph("caution", &self.caution),
            self.meter(),
            escape(&self.sureness),
        ));
        if !self.commands.is_empty() {
            out.push_str("<details class=\"commands\"><summary>Commands to type</summary>");
            for command in &self.commands {
                out.push_str(&paragraph("place", &command.place));
                render_command(&command.line, out);
            }
            out.push_str("</details>");
        }
        if !self.because.is_empty() {
            out.push_str(&format!(
                "<details class=\"because\"><summary>Figures</summary><p>{}</p></details>",
                inline(&self.because)
            ));
        }
        out.push_str("</div></article>\n");
    }

    fn meter(&self) -> String {
        self.confidence.map_or(String::new(), |confidence| {
            let confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
            let percent = (confidence * 100.0).round();
            format!("<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{percent}%\"></i></span>")
        })
    }
}

/// A command line with a button that copies it.
pub(crate) fn render_command(line: &str, out: &mut String) {
    out.push_str(&format!(
        "<div class=\"command\"><code tabindex=\"0\">{}</code>\
         <button type=\"button\" class=\"copy\" hidden>Copy</button></div>\n",
        escape(line)
    ));
}

/// The small square with a series' colour next to its name.
pub(crate) fn swatch(colour: Option<usize>) -> String {
    colour.map_or(String::new(), |c| format!("<i class=\"swatch c{}\"></i>", c % COLOURS))
}

/// Number of colours in the style sheet; further series reuse them from the first.
pub(crate) const COLOURS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(card: Card) -> String {
        let mut out = String::new();
        render_cards(&[card], &mut out);
        out
    }

    #[test]
    fn absurd_confidence_stays_in_its_bar() {
        for (given, shown) in
            [(7.0, "width:100%"), (-1.0, "width:0%"), (f64::NAN, "width:0%"), (0.756, "width:76%")]
        {
            let out = rendered(Card { confidence: Some(given), ..Card::default() });
            assert!(out.contains(shown), "{given}: {out}");
        }
        let out = rendered(Card { sureness: "too short to tell".into(), ..Card::default() });
        assert!(out.contains("too short to tell") && !out.contains("meter"), "{out}");
    }

    #[test]
    fn commands_and_figures_are_folded() {
        let out = rendered(Card {
            answer: "rtp".into(),
            gloss: "plain UDP".into(),
            sentence: "It is quick.".into(),
            because: "R 93.2".into(),
            commands: vec![Command { place: "Here".into(), line: "antiphon send".into() }],
            ..Card::default()
        });
        let (seen, folded) = out.split_once("<details").expect("something is folded");
        assert!(seen.contains("rtp") && seen.contains("plain UDP") && seen.contains("It is quick."), "{out}");
        assert!(folded.contains("Here") && folded.contains("antiphon send") && folded.contains("R 93.2"));
        assert!(!rendered(Card::default()).contains("<details"), "nothing to fold");
    }
}

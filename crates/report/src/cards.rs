//! Recommendations and sounds: the parts of a page that a reader acts on.

use crate::html::{beside, escape, inline};
use serde::{Deserialize, Serialize};

/// A recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// The need, such as "Play together".
    pub heading: String,
    /// The recommended choice; empty when nothing measured meets the need.
    pub answer: String,
    /// Number of the series' colour in which the answer is shown, so that the charts' colour identifies it.
    pub colour: Option<usize>,
    /// The figure that decided, as a sentence.
    pub because: String,
    /// What to watch for when following the advice; may be empty.
    pub caution: String,
    /// Confidence in the advice, 0 to 1; `None` if the measurements do not give it.
    pub confidence: Option<f64>,
    /// The same in words.
    pub sureness: String,
    /// Commands to copy; may be empty.
    pub commands: Vec<String>,
}

/// One sound file beside the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clip {
    /// Description of the sound.
    pub title: String,
    /// The file, relative to the report and in its directory or below; any other is named but not played.
    pub file: String,
    /// What to listen for; may be empty.
    pub note: String,
    /// Number of the series' colour in which the title is shown.
    pub colour: Option<usize>,
    /// The strip of the loss map (see [`crate::Strip::name`]) whose cells play this clip; may be empty.
    pub strip: String,
}

pub(crate) fn render_cards(cards: &[Card], out: &mut String) {
    out.push_str("<div class=\"cards\">\n");
    for card in cards {
        let meter = card.confidence.map_or(String::new(), |confidence| {
            let confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
            let percent = (confidence * 100.0).round();
            format!("<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{percent}%\"></i></span>")
        });
        let commands: String =
            card.commands.iter().map(|line| format!("<pre><code>{}</code></pre>", escape(line))).collect();
        let caution = match card.caution.as_str() {
            "" => String::new(),
            text => format!("<p class=\"caution\">{}</p>", inline(text)),
        };
        let answer = match card.answer.as_str() {
            "" => "<p class=\"answer none\">none of these</p>".to_string(),
            name => format!("<p class=\"answer\">{}{}</p>", swatch(card.colour), escape(name)),
        };
        out.push_str(&format!(
            "<article class=\"card\"><h3>{}</h3>{answer}<p class=\"because\">{}</p>{caution}\
             <p class=\"confidence\">{meter}{}</p>{commands}</article>\n",
            escape(&card.heading),
            inline(&card.because),
            escape(&card.sureness),
        ));
    }
    out.push_str("</div>\n");
}

/// The small square with a series' colour beside its name.
pub(crate) fn swatch(colour: Option<usize>) -> String {
    colour.map_or(String::new(), |c| format!("<i class=\"swatch c{}\"></i>", c % COLOURS))
}

/// Number of colours in the style sheet; further series reuse them from the first.
pub(crate) const COLOURS: usize = 8;

pub(crate) fn render_clips(clips: &[Clip], out: &mut String) {
    out.push_str("<div class=\"clips\">\n");
    for clip in clips {
        let title = escape(&clip.title);
        let player = match beside(&clip.file) {
            Some(url) => format!(
                "<audio controls preload=\"metadata\" src=\"{url}\" aria-label=\"{title}\" data-strip=\"{}\"></audio>",
                escape(&clip.strip)
            ),
            None => {
                "<p class=\"muted\">This file isn't beside the report, so it can't be played from here.</p>"
                    .into()
            }
        };
        let note = match clip.note.as_str() {
            "" => String::new(),
            text => format!("<p>{}</p>", inline(text)),
        };
        out.push_str(&format!(
            "<div class=\"clip\"><h3>{}{title}</h3>{player}{note}<p class=\"muted\"><code>{}</code></p></div>\n",
            swatch(clip.colour),
            escape(&clip.file),
        ));
    }
    out.push_str("</div>\n<p class=\"muted js\">Starting one player pauses the others and goes on at the same moment.</p>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_confidence_stays_in_its_bar() {
        for (given, shown) in
            [(7.0, "width:100%"), (-1.0, "width:0%"), (f64::NAN, "width:0%"), (0.756, "width:76%")]
        {
            let mut out = String::new();
            render_cards(&[Card { confidence: Some(given), ..Card::default() }], &mut out);
            assert!(out.contains(shown), "{given}: {out}");
        }
        let mut out = String::new();
        render_cards(&[Card { sureness: "too short to tell".into(), ..Card::default() }], &mut out);
        assert!(out.contains("too short to tell") && !out.contains("meter"), "{out}");
    }

    #[test]
    fn a_clip_elsewhere_gets_no_player() {
        let mut out = String::new();
        render_clips(&[Clip { file: "../../secret.wav".into(), ..Clip::default() }], &mut out);
        assert!(!out.contains("<audio"));
        assert!(out.contains("../../secret.wav"), "the reader still learns its name");
    }
}

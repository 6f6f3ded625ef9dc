//! The recommendations at the top of the picture: purpose, transport, reason, one below the other.

use super::{COLOURS, INK, MARGIN, MUTED, RIGHT, RULE, text, wrap};
use crate::cards::Card;
use crate::compare::CompareReport;
use std::fmt::Write;

/// Left edges of the transport's name and of the reason.
const NAME: f64 = 256.0;
const REASON: f64 = 562.0;
/// Characters in a line of each, by the widest of the picture's fonts (DejaVu Sans): nothing may be cut off.
const NAME_CHARACTERS: usize = 42;
const REASON_CHARACTERS: usize = 48;
const LINE: f64 = 17.0;
/// Above and below the lines of an answer.
const AIR: f64 = 11.0;

/// An answer's words, in lines.
struct Answer<'a> {
    advice: &'a Card,
    name: Vec<String>,
    gloss: Vec<String>,
    reason: Vec<String>,
}

impl<'a> Answer<'a> {
    fn of(advice: &'a Card) -> Self {
        let name = match advice.answer.as_str() {
            "" => "none is good enough",
            name => name,
        };
        let reason = [&advice.sentence, &advice.others].map(|words| words.trim()).join(" ");
        Answer {
            advice,
            name: wrap(name, NAME_CHARACTERS * 3 / 4),
            gloss: if advice.answer.is_empty() { Vec::new() } else { wrap(&advice.gloss, NAME_CHARACTERS) },
            reason: wrap(&reason, REASON_CHARACTERS),
        }
    }

    fn height(&self) -> f64 {
        let lines = (self.name.len() + self.gloss.len()).max(self.reason.len()).max(2);
        2.0 * AIR + LINE * lines as f64
    }

    fn draw(&self, colour: &str, top: f64, svg: &mut String) {
        let base = |line: usize| top + AIR + 13.0 + LINE * line as f64;
        let _ = writeln!(svg, "<path d=\"M{MARGIN} {top:.1}H{RIGHT}\" stroke=\"{RULE}\"/>");
        let purpose = format!("font-size=\"14\" font-weight=\"600\" fill=\"{INK}\"");
        text(svg, MARGIN, base(0), &purpose, &self.advice.heading);
        text(svg, MARGIN, base(1), &format!("font-size=\"12\" fill=\"{MUTED}\""), &self.advice.sureness);
        let style = format!("font-size=\"16\" font-weight=\"700\" fill=\"{colour}\"");
        for (i, line) in self.name.iter().enumerate() {
            text(svg, NAME, base(i), &style, line);
        }
        for (i, line) in self.gloss.iter().enumerate() {
            text(svg, NAME, base(self.name.len() + i), &format!("font-size=\"12\" fill=\"{MUTED}\""), line);
        }
        for (i, line) in self.reason.iter().enumerate() {
            text(svg, REASON, base(i), &format!("fill=\"{INK}\""), line);
        }
    }
}

/// Draws all recommendations below `top`; returns where they end.
pub(super) fn answers(report: &CompareReport, mut top: f64, svg: &mut String) -> f64 {
    for advice in &report.advice {
        let answer = Answer::of(advice);
        let colour = match report.colour_of(&advice.answer) {
            Some(index) => COLOURS[index % COLOURS.len()],
            None => INK,
        };
        answer.draw(colour, top, svg);
        top += answer.height();
    }
    top
}

//! Errors of a scenario: what is wrong, where, and what would be right.

use std::fmt;
use std::ops::Range;

/// Why a scenario was refused.
///
/// Shown as `file:line:column: message`, then the line with a mark under it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The name of the file, as it was given to [`Scenario::parse`](super::Scenario::parse).
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
    /// The line in question and a mark under the place.
    pub excerpt: String,
}

/// An error at a place in the text, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

/// The outcome of reading a part.
pub(super) type Read<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn new(span: &Range<usize>, message: impl Into<String>) -> Self {
        Fault { span: span.clone(), message: message.into() }
    }

    /// Converts the place to line and column, for the user.
    pub(super) fn locate(self, file: &str, text: &str) -> ScenarioError {
        let start = floor(text, self.span.start);
        if let Some((included, begin)) = super::include::origin(text, start) {
            let span = self.span.start.max(begin) - begin..self.span.end.max(begin) - begin;
            return Fault { span, message: self.message }.locate(&included, &text[begin..]);
        }
        let end = floor(text, self.span.end).max(start);
        let (line, column) = position(text, start);
        let begin = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let whole = text[begin..].lines().next().unwrap_or_default();
        let marked = text[start..end].lines().next().unwrap_or_default().chars().count();
        let excerpt = excerpt(line, column, whole, marked);
        ScenarioError { file: file.into(), line, column, message: self.message, excerpt }
    }
}

/// Line and column of a byte, both from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..floor(text, at)];
    let begin = before.rfind('\n').map_or(0, |n| n + 1);
    (before.matches('\n').count() + 1, before[begin..].chars().count() + 1)
}

/// The nearest boundary of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Longer lines are shown in part.
const SHOWN: usize = 72;

fn excerpt(line: usize, column: usize, whole: &str, marked: usize) -> String {
    let skip = if column + 20 > SHOWN { column.saturating_sub(SHOWN / 2) } else { 0 };
    // Control characters move the cursor, and would misplace the mark.
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = whole.chars().skip(skip).take(SHOWN).map(plain).collect();
    let offset = column - 1 - skip.min(column - 1);
    let marks = marked.clamp(1, SHOWN.saturating_sub(offset).max(1));
    let gutter = line.to_string().len();
    format!("{line} | {}\n{:gutter$} | {:offset$}{}", shown.trim_end(), "", "", "^".repeat(marks))
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}\n{}", self.file, self.line, self.column, self.message, self.excerpt)
    }
}

impl std::error::Error for ScenarioError {}

/// `, did you mean 'x'?`, or `;`: between what is wrong and all that would be right.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    antiphon_core::nearest(word, known).map_or(";".into(), |near| format!(", did you mean '{near}'?"))
}

/// At most so many characters of input text.
pub(super) fn clip(text: &str) -> String {
    const QUOTED: usize = 60;
    match text.chars().count() {
        0..=QUOTED => text.into(),
        _ => text.chars().take(QUOTED).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_by_line_column_and_mark() {
        let text = "title = 'ä'\nrate = '20'\n";
        let at = text.find("'20'").unwrap();
        let error = Fault::new(&(at..at + 4), "no unit").locate("x.toml", text);
        assert_eq!((error.line, error.column), (2, 8));
        assert_eq!(error.to_string(), "x.toml:2:8: no unit\n2 | rate = '20'\n  |        ^^^^");
    }

    #[test]
    fn long_lines_and_strange_places_are_shown_too() {
        let text = format!("a = '{}'\u{1b}", "é".repeat(400));
        for span in [0..9000, 300..301, 7..8, 9000..9001, text.len()..text.len()] {
            let error = Fault::new(&span, "?").locate("x", &text);
            let widest = error.excerpt.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= SHOWN + 8, "{span:?}: {widest}\n{}", error.excerpt);
            assert!(!error.excerpt.contains('\u{1b}'));
        }
    }
}

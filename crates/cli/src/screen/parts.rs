//! Parts of panels: bars and curves of characters, and numbers that are never too wide.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Eighths of a character, from below.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Colours, which only add to words.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub coloured: bool,
}

impl Look {
    fn of(self, color: Color) -> Style {
        if self.coloured { Style::new().fg(color) } else { Style::new() }
    }

    pub fn defect(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn curve(self) -> Style {
        self.of(Color::Cyan)
    }

    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Of a sample at so many decibels below full scale.
    pub fn level(self, dbfs: f64) -> Style {
        match dbfs {
            dbfs if dbfs >= -1.0 => self.of(Color::Red),
            dbfs if dbfs >= -9.0 => self.of(Color::Yellow),
            _ => self.of(Color::Green),
        }
    }
}

/// A number in at most eight characters.
pub fn number(value: f64) -> String {
    match value.abs() {
        x if !x.is_finite() => "?".into(),
        x if x < 99.95 => format!("{value:.1}"),
        x if x < 9_999_999.5 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

/// A value for each of the last sixty seconds in `width` columns, the newest at the right; where columns are fewer, each shows
/// the highest of its seconds. The scale begins at zero and ends at the highest.
pub fn curve(values: &[Option<f64>], width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let columns = columns(values, width.min(SECONDS));
    let highest = columns.iter().flatten().fold(0.0_f64, |high, value| high.max(*value));
    let character = |column: &Option<f64>| match column {
        None => ' ',
        Some(value) if *value <= 0.0 || highest <= 0.0 => EIGHTHS[1],
        // What is not zero is seen.
        Some(value) => EIGHTHS[((value / highest * 8.0).ceil() as usize).clamp(2, 8)],
    };
    columns.iter().map(character).collect()
}

/// The same for counts: nothing where there is none, so that the few seconds with some are seen.
pub fn bars(counts: &[u64], width: usize) -> String {
    let values: Vec<Option<f64>> = counts.iter().map(|count| (*count > 0).then_some(*count as f64)).collect();
    let line = curve(&values, width);
    line.chars().map(|c| if c == ' ' { '·' } else { c }).collect()
}

fn columns(values: &[Option<f64>], width: usize) -> Vec<Option<f64>> {
    let absent = SECONDS.saturating_sub(values.len());
    let value = |second: usize| {
        second
            .checked_sub(absent)
            .and_then(|at| *values.get(at)?)
            .map(f64::abs)
            .filter(|value| value.is_finite())
    };
    (0..width)
        .map(|column| {
            let seconds = column * SECONDS / width..(column + 1) * SECONDS / width;
            seconds.filter_map(value).reduce(f64::max)
        })
        .collect()
}

const SECONDS: usize = antiphon::Minute::SECONDS;

/// A level from -60 dBFS to full scale in `width` columns, with a mark where it was highest in the last second.
pub fn level_bar(peak: Option<f64>, held: Option<f64>, width: usize, look: Look) -> Vec<Span<'static>> {
    let column = |dbfs: f64| {
        let part = ((dbfs + LOWEST_DB) / LOWEST_DB).clamp(0.0, 1.0);
        (part * width as f64).round() as usize
    };
    let filled = peak.map_or(0, column).min(width);
    let mark =
        held.map(|held| column(held).saturating_sub(1)).filter(|mark| *mark >= filled && *mark < width);
    let dbfs = |column: usize| column as f64 / width.max(1) as f64 * LOWEST_DB - LOWEST_DB;
    let cell = |at: usize| match at {
        at if at < filled => Span::styled("█", look.level(dbfs(at))),
        at if Some(at) == mark => Span::styled("│", look.level(dbfs(at))),
        _ => Span::styled("·", look.dim()),
    };
    (0..width).map(cell).collect()
}

/// The level at which a bar is empty, below full scale: what is quieter is noise of a room.
const LOWEST_DB: f64 = 60.0;

/// A title over a panel, with a rule to the edge.
pub fn title(text: &str, width: usize, look: Look) -> Line<'static> {
    let rule = "─".repeat(width.saturating_sub(text.chars().count() + 4));
    Line::from(vec![
        Span::styled("─ ", look.dim()),
        Span::styled(text.to_string(), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!(" {rule}"), look.dim()),
    ])
}

/// `0:07`, `61:05`.
pub fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

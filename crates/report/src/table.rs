//! Figures by row and column, each with its unit, definition and sample count.

use crate::cards::swatch;
use crate::html::{escape, inline, number, unless_empty};
use serde::{Deserialize, Serialize};

/// A table of figures: compared items as columns, figures as rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// What the table shows, in a sentence above it; may be empty.
    pub caption: String,
    /// The columns after the first, which holds the rows' labels.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One column of a [`Table`], or one series of [`Bars`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// The heading.
    pub title: String,
    /// A second line under it; may be empty.
    pub note: String,
    /// Number of the series' colour in which the heading is shown.
    pub colour: Option<usize>,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Small is good, as with latency.
    Lower,
    /// Large is good, as with quality.
    Higher,
    /// Neither, for example a count of packets sent.
    #[default]
    Neither,
}

/// One row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// A heading above this row, where a group of rows begins; empty within a group.
    pub group: String,
    /// The figure's name.
    pub label: String,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// Its exact definition, with its source; shown as a footnote and on hover. May be empty.
    pub definition: String,
    /// Which way is good; the best value is emphasised.
    pub better: Better,
    /// One value per column; missing ones are shown as not measured.
    pub values: Vec<Cell>,
    /// Decimal places.
    pub decimals: usize,
    /// Number of samples of each value, by column; empty or shorter where it has no meaning.
    pub samples: Vec<Option<u64>>,
    /// Whether the figure is a key figure of the run (shown in the still picture).
    pub key: bool,
}

/// Content of a table cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the row's unit.
    Number(f64),
    /// Words.
    Text(String),
    /// Nothing was measured.
    Missing(Option<()>),
}

impl Cell {
    /// Nothing was measured.
    pub const MISSING: Cell = Cell::Missing(None);

    /// Whether it is text long enough to be folded.
    fn is_prose(&self) -> bool {
        matches!(self, Cell::Text(words) if words.chars().count() > SHORT)
    }

    pub(crate) fn finite(&self) -> Option<f64> {
        match self {
            Cell::Number(value) if value.is_finite() => Some(*value),
            _ => None,
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Cell::MISSING, Cell::Number)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

impl Row {
    /// A row of numbers with `decimals` places; the other fields are set by struct update.
    pub fn numbers(label: &str, unit: &str, decimals: usize, better: Better, values: &[Option<f64>]) -> Self {
        Row {
            label: label.into(),
            unit: unit.into(),
            decimals,
            better,
            values: values.iter().map(|v| Cell::from(*v)).collect(),
            ..Row::default()
        }
    }

    /// Whether the value of `column` is the best, or no worse than it by more than [`Self::noise`], and some other one is.
    pub(crate) fn is_best(&self, column: usize) -> bool {
        // Compared as printed: two columns that show the same number must look the same.
        let shown =
            |cell: &Cell| cell.finite().and_then(|v| format!("{:.*}", self.decimals.min(12), v).parse().ok());
        let values: Vec<f64> = self.values.iter().filter_map(shown).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = match self.better {
            Better::Lower => low,
            Better::Higher => high,
            Better::Neither => return false,
        };
        let near = |value: f64| (value - best).abs() <= self.noise(best);
        !(near(low) && near(high)) && self.values.get(column).and_then(shown).is_some_and(near)
    }

    /// Differences from the best value that a reader should not act on: what chance alone would make of shares counted from
    /// so many samples (two standard deviations of the difference; losses in clusters vary more), and 10 % of other
    /// values, by which high percentiles of equal runs differ.
    fn noise(&self, best: f64) -> f64 {
        match self.samples.iter().flatten().min() {
            Some(n) if self.unit == "%" && *n > 0 => {
                let (share, n) = ((best / 100.0).clamp(1.0 / *n as f64, 1.0), *n as f64);
                100.0 * 2.0 * (2.0 * share * (1.0 - share) / n).sqrt()
            }
            _ => best.abs() * 0.1,
        }
    }

    fn has_prose(&self) -> bool {
        self.values.iter().any(Cell::is_prose)
    }

    /// The sample count that all values share, if they do.
    fn common_samples(&self) -> Option<u64> {
        let first = self.samples.first().copied().flatten()?;
        self.samples.iter().all(|n| *n == Some(first)).then_some(first)
    }

    /// `counted`: the group's heading already states the sample counts.
    fn render(&self, columns: usize, footnote: Option<(usize, String)>, counted: bool, out: &mut String) {
        let title = unless_empty(&self.definition, |text| format!(" title=\"{}\"", escape(text)));
        let note = footnote.map_or(String::new(), |(n, id)| {
            format!("<sup><a href=\"#{id}\" aria-label=\"definition {n}\">{n}</a></sup>")
        });
        let unit = unless_empty(&self.unit, |unit| format!(" <span class=\"unit\">{}</span>", escape(unit)));
        let common = self.common_samples();
        let count = sample_count(common.filter(|_| !counted));
        out.push_str(&format!(
            "<tr><th scope=\"row\"{title}>{}{unit}{note}{count}</th>",
            escape(&self.label)
        ));
        for i in 0..columns {
            self.render_cell(i, !counted && common.is_none(), out);
        }
        out.push_str("</tr>\n");
    }

    fn render_cell(&self, column: usize, with_count: bool, out: &mut String) {
        let text = match self.values.get(column) {
            Some(Cell::Text(words)) => inline(words).replace('\n', "<br>"),
            Some(cell) => cell.finite().map_or(NOT_MEASURED.into(), |v| number(v, self.decimals)),
            None => NOT_MEASURED.into(),
        };
        let count = sample_count(self.samples.get(column).copied().flatten().filter(|_| with_count));
        if self.values.get(column).is_some_and(Cell::is_prose) {
            out.push_str(&format!("<td class=\"prose\">{text}{count}</td>"));
        } else if self.is_best(column) {
            out.push_str(&format!("<td class=\"best\"><b>{text}</b>{count}</td>"));
        } else {
            out.push_str(&format!("<td>{text}{count}</td>"));
        }
    }
}

fn sample_count(count: Option<u64>) -> String {
    count.map_or(String::new(), |n| format!("<small>n = {}</small>", number(n as f64, 0)))
}

/// The class of tables with prose in them.
const WORDS: &str = " class=\"words\"";
/// More columns than this are set closer together.
const WIDE: usize = 7;
/// Longer texts in cells are folded.
const SHORT: usize = 40;

const NOT_MEASURED: &str = "<span class=\"muted\" title=\"not measured\">\u{2013}</span>";

impl Table {
    pub(crate) fn render(&self, id: &str, title: &str, out: &mut String) {
        let mut described = String::new();
        if !self.caption.is_empty() {
            // Outside the scrolling part, so that a phone shows all of it.
            out.push_str(&format!("<p class=\"intro\" id=\"{id}-c\">{}</p>\n", inline(&self.caption)));
            described = format!(" aria-describedby=\"{id}-c\"");
        }
        let class = match self.columns.len() {
            _ if self.rows.iter().any(Row::has_prose) => WORDS,
            many if many > WIDE => " class=\"dense\"",
            _ => "",
        };
        out.push_str(&format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table{class}{described}>\n",
            region(title)
        ));
        if class == WORDS {
            self.render_widths(out);
        }
        out.push_str("<thead><tr><td></td>");
        head_cells(&self.columns, out);
        out.push_str("</tr></thead>\n<tbody>\n");
        let mut definitions = Vec::new();
        let mut counted = false;
        for (i, row) in self.rows.iter().enumerate() {
            if !row.group.is_empty() {
                let counts = self.group_samples(i);
                counted = counts.is_some();
                self.render_group(row, counts.unwrap_or(&[]), out);
            }
            let footnote = (!row.definition.is_empty()).then(|| {
                definitions.push(row);
                (definitions.len(), format!("{id}-{}", definitions.len()))
            });
            row.render(self.columns.len(), footnote, counted, out);
        }
        out.push_str("</tbody></table></div>\n");
        if !definitions.is_empty() {
            out.push_str("<details class=\"definitions\"><summary>What each figure means</summary>\n<ol>\n");
            for (i, row) in definitions.iter().enumerate() {
                out.push_str(&format!(
                    "<li id=\"{id}-{}\"><b>{}</b> {}</li>\n",
                    i + 1,
                    escape(&row.label),
                    inline(&row.definition)
                ));
            }
            out.push_str("</ol></details>\n");
        }
    }

    /// Gives the width to the columns that contain prose.
    fn render_widths(&self, out: &mut String) {
        out.push_str("<colgroup><col class=\"tight\">");
        for column in 0..self.columns.len() {
            let prose = self.rows.iter().any(|row| row.values.get(column).is_some_and(Cell::is_prose));
            out.push_str(if prose { "<col>" } else { "<col class=\"tight\">" });
        }
        out.push_str("</colgroup>\n");
    }

    /// The sample counts shared by all rows of the group that begins at row `first`, as far as they have any.
    fn group_samples(&self, first: usize) -> Option<&[Option<u64>]> {
        let rest = self.rows[first + 1..].iter().take_while(|row| row.group.is_empty());
        let mut counts = std::iter::once(&self.rows[first])
            .chain(rest)
            .map(|row| row.samples.as_slice())
            .filter(|samples| !samples.is_empty());
        let shared = counts.next()?;
        counts.all(|other| other == shared).then_some(shared)
    }

    fn render_group(&self, row: &Row, samples: &[Option<u64>], out: &mut String) {
        out.push_str(&format!("<tr class=\"group\"><th scope=\"rowgroup\">{}</th>", escape(&row.group)));
        for i in 0..self.columns.len() {
            out.push_str(&format!("<td>{}</td>", sample_count(samples.get(i).copied().flatten())));
        }
        out.push_str("</tr>\n");
    }
}

/// The name of a table's scrolling part: regions of one page need different ones.
fn region(title: &str) -> String {
    if title.is_empty() { "Table".into() } else { format!("Table: {}", escape(title)) }
}

fn head_cells(columns: &[Column], out: &mut String) {
    for column in columns {
        let note = unless_empty(&column.note, |text| format!("<small>{}</small>", escape(text)));
        let title = escape(&column.title);
        out.push_str(&format!("<th scope=\"col\">{}{title}{note}</th>", swatch(column.colour)));
    }
}

/// Counts by class and series, drawn as bars within a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bars {
    /// What the classes are, such as "Burst length".
    pub heading: String,
    /// The counted things, such as "bursts".
    pub unit: String,
    /// The classes, in order.
    pub classes: Vec<String>,
    /// The series.
    pub series: Vec<Column>,
    /// Counts as `[class][series]`; missing ones count as zero.
    pub counts: Vec<Vec<u64>>,
}

impl Bars {
    pub(crate) fn render(&self, title: &str, out: &mut String) {
        let largest = self.counts.iter().flatten().copied().max().unwrap_or(0).max(1);
        out.push_str(&format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"bars\">\n\
             <thead><tr><th scope=\"col\">{} <span class=\"unit\">{}</span></th>",
            region(title),
            escape(&self.heading),
            escape(&self.unit)
        ));
        head_cells(&self.series, out);
        out.push_str("</tr></thead>\n<tbody>\n");
        for (i, class) in self.classes.iter().enumerate() {
            out.push_str(&format!("<tr><th scope=\"row\">{}</th>", escape(class)));
            for (j, series) in self.series.iter().enumerate() {
                let count = self.counts.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0);
                let colour =
                    series.colour.map_or("none".into(), |c| format!("c{}", c % crate::cards::COLOURS));
                out.push_str(&format!(
                    "<td><span class=\"bar\"><i class=\"{colour}\" style=\"width:{:.1}%\"></i></span>{}</td>",
                    100.0 * count as f64 / largest as f64,
                    number(count as f64, 0)
                ));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests;

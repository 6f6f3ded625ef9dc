//! Tables for terminals: columns as wide as their widest cell, numbers aligned to the right, and a last column of prose
//! that uses the rest of the line.

/// Whether and how to colour.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Off: plain text.
    pub coloured: bool,
}

/// How a cell is shown where colour is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// The terminal's default.
    #[default]
    Plain,
    /// A heading.
    Head,
    /// The best of its kind.
    Best,
    /// Failed.
    Bad,
    /// Explanation.
    Dim,
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// Its text, on one line.
    pub text: String,
    /// Its style.
    pub tone: Tone,
}

/// Alignment of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
    /// Words that may take several lines. Only as the last column.
    Prose,
}

/// A table being made.
#[derive(Clone, Debug)]
pub struct Grid {
    aligns: Vec<Align>,
    rows: Vec<Vec<Cell>>,
}

/// Spaces between two columns.
const GAP: usize = 2;
/// Prose in a narrower column is unreadable; it is then put on lines of its own.
const LEAST_PROSE: usize = 24;

impl Palette {
    /// `text` in that tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Head => "1",
            Tone::Best => "1;32",
            Tone::Bad => "1;31",
            Tone::Dim => "2",
        };
        if !self.coloured || code.is_empty() || text.is_empty() {
            return text.into();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Cell {
    /// With a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        // Names come from outside; control characters would break the table.
        let text = text.into().replace(char::is_control, " ");
        Cell { text, tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::new(text, Tone::Plain)
    }
}

impl Grid {
    /// With these columns.
    pub fn new(aligns: impl Into<Vec<Align>>) -> Self {
        Grid { aligns: aligns.into(), rows: Vec::new() }
    }

    /// Adds a line. Missing cells at its end are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().take(self.aligns.len()).collect();
        cells.resize(self.aligns.len(), Cell::default());
        self.rows.push(cells);
    }

    /// Adds a line that belongs to no column.
    pub fn title(&mut self, cell: Cell) {
        self.rows.push(vec![cell]);
    }

    /// Columns of text that it takes without its prose.
    pub fn width(&self) -> usize {
        let fixed = self.widths().into_iter().zip(&self.aligns).filter(|(_, align)| **align != Align::Prose);
        let widths: Vec<usize> = fixed.map(|(width, _)| width).collect();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// The table in lines of at most `width`, as far as the columns that are not prose allow.
    pub fn render(&self, width: usize, palette: Palette) -> String {
        let widths = self.widths();
        let beside = self.width() + GAP;
        let under = width < beside + LEAST_PROSE;
        let indent = if under { 4 } else { beside };
        let mut text = String::new();
        for row in &self.rows {
            if let (true, [title]) = (self.is_title(row), &row[..]) {
                text.push_str(&palette.paint(title.tone, &title.text));
                text.push('\n');
                continue;
            }
            let mut line = Line::default();
            let mut below = Vec::new();
            for (column, cell) in row.iter().enumerate() {
                let (align, cells) = (self.aligns[column], widths[column]);
                if align != Align::Prose {
                    line.put(cell, align, cells, palette);
                    continue;
                }
                let mut pieces = wrap(&cell.text, width.saturating_sub(indent).max(LEAST_PROSE)).into_iter();
                if !under && let Some(first) = pieces.next() {
                    line.put(&Cell::new(first, cell.tone), Align::Left, 0, palette);
                }
                below.extend(pieces.map(|piece| palette.paint(cell.tone, &piece)));
            }
            text.push_str(&line.text);
            text.push('\n');
            for piece in below {
                text.push_str(&format!("{:indent$}{piece}\n", ""));
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let rows = || self.rows.iter().filter(|row| !self.is_title(row));
        let widest = |column: usize| rows().map(|row| chars(&row[column].text)).max().unwrap_or(0);
        (0..self.aligns.len()).map(widest).collect()
    }

    fn is_title(&self, row: &[Cell]) -> bool {
        row.len() < self.aligns.len()
    }
}

/// A line that leaves no spaces at its end.
#[derive(Default)]
struct Line {
    text: String,
    spaces: usize,
}

impl Line {
    fn put(&mut self, cell: &Cell, align: Align, width: usize, palette: Palette) {
        let free = width.saturating_sub(chars(&cell.text));
        let (before, after) = if align == Align::Right { (free, 0) } else { (0, free) };
        if !cell.text.is_empty() {
            self.text.push_str(&" ".repeat(self.spaces + before));
            self.text.push_str(&palette.paint(cell.tone, &cell.text));
            self.spaces = after + GAP;
        } else {
            self.spaces += width + GAP;
        }
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Breaks prose into lines of at most `width` characters; a longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in quantities(text) {
        match lines.last_mut() {
            Some(line) if chars(line) + 1 + chars(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The words of a text; a number and its unit count as one word.
fn quantities(text: &str) -> Vec<String> {
    const UNITS: [&str; 7] = ["%", "ms", "s", "us", "ms/s", "kbit/s", "kHz"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&bare) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.into()),
        }
    }
    words
}

/// Prose after `head`, its further lines indented by `indent`.
pub fn paragraph(head: &str, text: &str, indent: usize, width: usize) -> String {
    let mut lines = wrap(&format!("{head} {text}"), width);
    let rest = lines.split_off(1.min(lines.len())).join(" ");
    lines.extend(
        wrap(&rest, width.saturating_sub(indent).max(1)).iter().map(|line| format!("{:indent$}{line}", "")),
    );
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Palette = Palette { coloured: false };

    fn sample() -> Grid {
        let mut grid = Grid::new([Align::Left, Align::Right, Align::Prose]);
        grid.row(["lost".into(), "0.4".into(), "packets that never came, in percent of those sent".into()]);
        grid.row([Cell::from("round trip"), Cell::new("12.25", Tone::Best)]);
        grid
    }

    #[test]
    fn columns_line_up_and_prose_is_folded() {
        let wide = sample().render(80, PLAIN);
        assert_eq!(
            wide,
            "lost          0.4  packets that never came, in percent of those sent\nround trip  12.25\n"
        );
        let narrow = sample().render(44, PLAIN);
        assert_eq!(narrow.lines().nth(1), Some("                   in percent of those sent"), "{narrow}");
        // Too little room beside the figures: prose below them.
        assert_eq!(
            sample().render(40, PLAIN).lines().nth(1),
            Some("    packets that never came, in percent")
        );
    }

    #[test]
    fn titles_are_as_wide_as_they_like() {
        let mut grid = sample();
        let width = grid.width();
        grid.title("a title that is wider than every column of the table".into());
        assert_eq!(grid.width(), width);
        assert!(grid.render(80, PLAIN).ends_with("\na title that is wider than every column of the table\n"));
    }

    #[test]
    fn colour_only_where_allowed() {
        assert!(!sample().render(80, PLAIN).contains('\x1b'));
        let coloured = sample().render(80, Palette { coloured: true });
        assert!(coloured.contains("  \x1b[1;32m12.25\x1b[0m\n"), "{coloured:?}");
    }

    #[test]
    fn control_characters_are_kept_out() {
        assert_eq!(Cell::from("a\x1b[2Jb\nc").text, "a [2Jb c");
    }

    #[test]
    fn paragraphs_hang() {
        assert_eq!(paragraph("talk:", "one two three four", 2, 12), "talk: one\n  two three\n  four\n");
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(wrap("missing 1.95 %, late", 12), ["missing", "1.95 %, late"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(words in proptest::collection::vec("[a-z]{1,12}", 0..40), width in 12usize..100) {
            let text = words.join(" ");
            prop_assert!(wrap(&text, width).iter().all(|line| line.len() <= width));
            prop_assert_eq!(wrap(&text, width).join(" "), text);
        }
    }
}

//! Printed tables in the format of the papers' data: a title after `#`, a header, rows of equal length (otherwise RFC
//! 4180).

/// A table as it is printed in a paper.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// The file's name.
    pub file: String,
    /// Number and title in the paper, with remarks on its reading.
    pub title: String,
    /// The columns' names, with their units in brackets: `mean delay [s]`.
    pub columns: Vec<String>,
    /// The fields as printed, one per column; empty: not printed or not readable.
    pub rows: Vec<Vec<String>>,
}

/// A column's name without its unit, and the unit; empty where it has none.
pub fn heading(column: &str) -> (&str, &str) {
    let parts = column.strip_suffix(']').and_then(|column| column.split_once(" ["));
    parts.unwrap_or((column, ""))
}

/// Errors in a table's text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The first line is no title.
    #[error("{file}: the first line must be '# ' and the table's title")]
    Title {
        /// The file.
        file: String,
    },
    /// No column, a column without a name, or two of one name.
    #[error("{file}: line 2 must name the columns, each once, not '{found}'")]
    Header {
        /// The file.
        file: String,
        /// The text found.
        found: String,
    },
    /// A row that is too short or too long.
    #[error("{file}: line {line} has {found} fields, the header {expected}")]
    Length {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Fields found.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A quotation mark in the middle of a field, or one that is never closed.
    #[error("{file}: line {line}: quotation marks enclose a whole field, and are doubled within it")]
    Quote {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// The file is larger than any printed table.
    #[error("{file}: more than {MAX_BYTES} bytes are no printed table")]
    TooLarge {
        /// The file.
        file: String,
    },
}

/// The largest table that is read: some hundred printed pages.
pub const MAX_BYTES: usize = 1 << 20;

impl Table {
    /// Reads the text of `file`, whose name appears in errors.
    ///
    /// Fields hold no line breaks; quoted ones may hold commas and doubled quotation marks (RFC 4180 otherwise).
    pub fn parse(file: &str, text: &str) -> Result<Table, TableError> {
        let name = || file.to_string();
        if text.len() > MAX_BYTES {
            return Err(TableError::TooLarge { file: name() });
        }
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        let title = title.strip_prefix('#').map(str::trim).filter(|title| !title.is_empty());
        let title = title.ok_or(TableError::Title { file: name() })?;
        if let Some(wrong) = rest.lines().position(|line| !is_quoted_well(line)) {
            return Err(TableError::Quote { file: name(), line: wrong + 2 });
        }
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(rest.as_bytes());
        let mut lines = reader.into_records().map(|line| line.expect("text in memory has no other errors"));
        let fields = |line: csv::StringRecord| line.iter().map(String::from).collect::<Vec<_>>();
        // Without a first line there are no columns, which the header's check refuses.
        let columns = lines.next().map_or_else(Vec::new, fields);
        let named_once = |(n, column): (usize, &String)| !column.is_empty() && !columns[..n].contains(column);
        let header = rest.lines().next().unwrap_or("");
        if header.is_empty() || !columns.iter().enumerate().all(named_once) {
            return Err(TableError::Header { file: name(), found: header.chars().take(80).collect() });
        }
        // The CSV reader would skip them.
        if let Some(blank) = rest.lines().position(str::is_empty) {
            let (line, expected) = (blank + 2, columns.len());
            return Err(TableError::Length { file: name(), line, found: 0, expected });
        }
        let mut rows = Vec::new();
        for line in lines {
            let at = line.position().map_or(0, |position| position.line() as usize + 1);
            let (found, expected) = (line.len(), columns.len());
            if found != expected {
                return Err(TableError::Length { file: name(), line: at, found, expected });
            }
            rows.push(fields(line));
        }
        Ok(Table { file: name(), title: title.into(), columns, rows })
    }

    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// A field as text; `None` where there is no such row or column, or nothing is printed.
    pub fn text(&self, row: usize, column: &str) -> Option<&str> {
        let column = self.column(column)?;
        self.rows.get(row).map(|row| row[column].as_str()).filter(|text| !text.is_empty())
    }

    /// A field as a number; `None` also where it is not a number, or not finite.
    pub fn number(&self, row: usize, column: &str) -> Option<f64> {
        self.text(row, column)?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Decimal places of a printed number.
    pub fn decimals(&self, row: usize, column: &str) -> Option<usize> {
        self.number(row, column)?;
        let text = self.text(row, column)?;
        Some(text.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
    }

    /// The first row whose fields are as asked for.
    pub fn row(&self, fields: &[(&str, &str)]) -> Option<usize> {
        (0..self.rows.len())
            .find(|row| fields.iter().all(|(column, value)| self.text(*row, column) == Some(value)))
    }
}

/// Whether quotation marks enclose whole fields of a line, and are doubled within. The CSV reader accepts others, too,
/// and an unclosed one would swallow the lines after it.
fn is_quoted_well(line: &str) -> bool {
    // Every second piece is within quotation marks; an empty piece between two of them is a doubled one.
    let pieces: Vec<&str> = line.split('"').collect();
    let last = pieces.len() - 1;
    let fits = |at: usize| {
        let piece = pieces[at];
        let is_doubled = piece.is_empty() && at > 0 && at < last;
        let opens = at == last || piece.ends_with(',') || (at == 0 && piece.is_empty());
        let closes = at == 0 || piece.starts_with(',') || (at == last && piece.is_empty());
        is_doubled || (opens && closes)
    };
    last.is_multiple_of(2) && (0..=last).step_by(2).all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Table, TableError> {
        Table::parse("t.csv", text)
    }

    #[test]
    fn numbers_texts_and_gaps() {
        let table =
            parse("# Table 1: Rates\nname,rate_mbit_s,loss_percent\n\"a, \"\"b\"\"\",10,0.0350\nc,,x\n")
                .unwrap();
        assert_eq!(table.title, "Table 1: Rates");
        assert_eq!(table.text(0, "name"), Some("a, \"b\""));
        assert_eq!((table.number(0, "rate_mbit_s"), table.number(1, "rate_mbit_s")), (Some(10.0), None));
        assert_eq!((table.decimals(0, "loss_percent"), table.decimals(0, "rate_mbit_s")), (Some(4), Some(0)));
        assert_eq!((table.number(1, "loss_percent"), table.decimals(1, "loss_percent")), (None, None));
        assert_eq!((table.number(0, "delay_ms"), table.number(7, "loss_percent")), (None, None));
        assert_eq!((table.row(&[("name", "c")]), table.row(&[("name", "d")])), (Some(1), None));
        assert_eq!(parse("# t\na\ninf\nNaN\n").unwrap().number(0, "a"), None);
    }

    #[test]
    fn names_and_units_are_separated() {
        assert_eq!(heading("mean max delay [s]"), ("mean max delay", "s"));
        assert_eq!(heading("buffer empty [per 1000]"), ("buffer empty", "per 1000"));
        assert_eq!((heading("scenario"), heading("x]")), (("scenario", ""), ("x]", "")));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let complaint = |text: &str| parse(text).unwrap_err().to_string();
        assert!(complaint("").contains("first line"));
        assert!(complaint("name\n").contains("first line"));
        assert!(complaint("# t\n").contains("line 2"));
        assert!(complaint("# t\na,,b\n").contains("line 2"));
        assert!(complaint("# t\na,b,a\n").contains("'a,b,a'"));
        assert_eq!(complaint("# t\na,b\n1,2\n3\n"), "t.csv: line 4 has 1 fields, the header 2");
        assert!(complaint("# t\n\na,b\n").contains("line 2"));
        assert_eq!(complaint("# t\na,b\n\n1,2\n"), "t.csv: line 3 has 0 fields, the header 2");
        assert!(complaint("# t\na,b\n\"1,2\n").contains("line 3: quotation marks"));
        assert!(complaint("# t\na,b\n1\"\",2\n").contains("line 3: quotation marks"));
        assert!(complaint("# t\na,b\n\"1\"x,2\n").contains("line 3: quotation marks"));
        assert!(complaint(&format!("# {}", "t".repeat(MAX_BYTES))).contains("more than"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(# t\n)?[a\",#\n\r0-9.é-]{0,60}") {
            if let Ok(table) = parse(&text) {
                prop_assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            }
        }

        #[test]
        fn what_is_written_is_read(rows in prop::collection::vec(prop::collection::vec("[^\r\n]{0,8}", 3), 0..5)) {
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let lines: Vec<String> =
                rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect();
            let table = parse(&format!("# t\na,b,c\n{}", lines.concat())).unwrap();
            prop_assert_eq!(table.rows, rows);
        }
    }
}

//! Comma-separated values as the papers' data is written: a title behind `#`, a header, rows of equal length.

/// A table as it is printed in a paper.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// The file's name.
    pub file: String,
    /// Number and title in the paper, with what is to be known of its reading.
    pub title: String,
    /// The columns' names, with units at their ends.
    pub columns: Vec<String>,
    /// The fields as printed, one per column; empty: not printed or not readable.
    pub rows: Vec<Vec<String>>,
}

/// What is wrong with a table's text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The first line is no title.
    #[error("{file}: the first line must be '# ' and the table's title")]
    Title {
        /// Where.
        file: String,
    },
    /// No column, a column without a name, or two of one name.
    #[error("{file}: line 2 must name the columns, each once, not '{found}'")]
    Header {
        /// Where.
        file: String,
        /// What stands there.
        found: String,
    },
    /// A row that is too short or too long.
    #[error("{file}: line {line} has {found} fields, the header {expected}")]
    Length {
        /// Where.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// Fields found.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A quotation mark in the middle of a field, or one that is never closed.
    #[error("{file}: line {line}: quotation marks enclose a whole field, and are doubled within it")]
    Quote {
        /// Where.
        file: String,
        /// Which line, from 1.
        line: usize,
    },
    /// More than any printed table has.
    #[error("{file}: more than {MAX_BYTES} bytes are no printed table")]
    TooLarge {
        /// Where.
        file: String,
    },
}

/// The largest table that is read: some hundred printed pages.
pub const MAX_BYTES: usize = 1 << 20;

impl Table {
    /// Reads the text of `file`, whose name stands in errors.
    ///
    /// Fields hold no line breaks; quoted ones may hold commas and doubled quotation marks (RFC 4180 otherwise).
    pub fn parse(file: &str, text: &str) -> Result<Table, TableError> {
        let name = || file.to_string();
        if text.len() > MAX_BYTES {
            return Err(TableError::TooLarge { file: name() });
        }
        let mut lines = text.lines().enumerate();
        let title = lines.next().and_then(|(_, line)| line.strip_prefix('#')).map(str::trim);
        let title = title.filter(|title| !title.is_empty()).ok_or(TableError::Title { file: name() })?;
        let header = lines.next().map_or("", |(_, line)| line);
        let columns = fields(header).ok_or(TableError::Quote { file: name(), line: 2 })?;
        let named_once = |(n, column): (usize, &String)| !column.is_empty() && !columns[..n].contains(column);
        if !columns.iter().enumerate().all(named_once) {
            return Err(TableError::Header { file: name(), found: header.chars().take(80).collect() });
        }
        let mut rows = Vec::new();
        for (n, line) in lines {
            let line_number = n + 1;
            let row = fields(line).ok_or(TableError::Quote { file: name(), line: line_number })?;
            let (found, expected) = (row.len(), columns.len());
            if found != expected {
                return Err(TableError::Length { file: name(), line: line_number, found, expected });
            }
            rows.push(row);
        }
        Ok(Table { file: name(), title: title.into(), columns, rows })
    }

    /// The place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// A field as text; `None` where there is no such row or column, or nothing is printed.
    pub fn text(&self, row: usize, column: &str) -> Option<&str> {
        let column = self.column(column)?;
        self.rows.get(row).map(|row| row[column].as_str()).filter(|text| !text.is_empty())
    }

    /// A field as a number; `None` also where it is none, or not finite.
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

/// The fields of a line; `None` if its quotation marks are wrong.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let plain = &rest[..end];
                (!plain.contains('"')).then(|| (plain.to_string(), &rest[end..]))?
            }
        };
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => return behind.is_empty().then_some(fields),
        }
    }
}

/// The field whose opening quotation mark is gone, and what stands behind the closing one.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Some((field, rest)),
        }
    }
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
    fn what_is_wrong_is_named_with_its_place() {
        let complaint = |text: &str| parse(text).unwrap_err().to_string();
        assert!(complaint("").contains("first line"));
        assert!(complaint("name\n").contains("first line"));
        assert!(complaint("# t\n").contains("line 2"));
        assert!(complaint("# t\na,,b\n").contains("line 2"));
        assert!(complaint("# t\na,b,a\n").contains("'a,b,a'"));
        assert_eq!(complaint("# t\na,b\n1,2\n3\n"), "t.csv: line 4 has 1 fields, the header 2");
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

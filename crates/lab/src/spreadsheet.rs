//! Tables for spreadsheets and programs (RFC 4180, lines end in a line feed alone).

/// A table being written, line by line.
pub struct Spreadsheet(csv::Writer<Vec<u8>>);

impl Spreadsheet {
    /// With the names of its columns.
    pub fn new<'a>(head: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sheet = Spreadsheet(csv::Writer::from_writer(Vec::new()));
        sheet.line(head);
        sheet
    }

    /// Adds a line: as many fields as there are columns.
    pub fn line(&mut self, fields: impl IntoIterator<Item: AsRef<[u8]>>) {
        self.0.write_record(fields).expect("a line has a field for each column");
    }

    /// All of it.
    pub fn into_text(self) -> String {
        let bytes = self.0.into_inner().expect("memory takes what is written to it");
        String::from_utf8(bytes).expect("fields are texts")
    }
}

/// A number with the fewest digits that can be read back exactly, so that equal results give equal files; empty for
/// `None`.
pub fn number(value: Option<f64>) -> String {
    // Rust writes the shortest digits that are read back as the same number. Minus zero becomes zero.
    match value {
        None => String::new(),
        Some(0.0) => "0".into(),
        Some(value) => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_stay_one_field() {
        let mut sheet = Spreadsheet::new(["a", "b"]);
        sheet.line(["arq?mode=as-published&give-up=40ms", "sctp?peers=192.0.2.7:9,192.0.2.8:9"]);
        sheet.line(["c\"d", &number(Some(-0.0))]);
        let expected =
            "a,b\narq?mode=as-published&give-up=40ms,\"sctp?peers=192.0.2.7:9,192.0.2.8:9\"\n\"c\"\"d\",0\n";
        assert_eq!(sheet.into_text(), expected);
    }
}

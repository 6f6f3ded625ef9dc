//! Results to standard output, messages to standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use antiphon::net::OsClock;
use antiphon::{Error, Stop, quoted};
use serde_json::{Value, json};

use crate::args::{Color, Global};
use crate::exit;
use crate::grid::{Palette, wrap};
use crate::signals::Watch;

/// Destination of results and messages.
pub struct Output {
    /// Results as JSON lines.
    pub json: bool,
    /// Colours for standard output.
    pub palette: Palette,
    /// Columns of standard output.
    pub width: usize,
    /// Number of `-v` flags.
    pub verbose: u8,
    /// Whether progress may be drawn on standard error.
    pub draws: bool,
    /// Colours for the screen of a stream.
    pub screen_coloured: bool,
    quiet: bool,
    clock: OsClock,
    /// Set when the reader of standard output closes it.
    stop: Option<Stop>,
    /// Why results could not be written; nothing more is written then.
    lost: Option<std::io::Error>,
}

/// Version of the JSON records: increased when a name is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

impl Output {
    /// According to the options and the terminal.
    pub fn new(global: &Global) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let coloured = match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color && !dumb,
        };
        Output {
            json: global.json,
            palette: Palette { coloured },
            width: width(),
            verbose: global.verbose,
            draws: std::io::stderr().is_terminal() && !dumb && !global.quiet,
            screen_coloured: match global.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => !no_color,
            },
            quiet: global.quiet,
            clock: OsClock::new(),
            stop: None,
            lost: None,
        }
    }

    /// Begins to watch for reasons to stop: signals, the time limit, and the end of standard output's reader.
    pub fn watch(&mut self, time_limit: Option<Duration>) -> Result<Watch, Error> {
        let watch = Watch::start(time_limit, !self.draws && !self.quiet)?;
        self.stop = Some(watch.stop.clone());
        Ok(watch)
    }

    /// The clock of the run.
    pub fn clock(&self) -> OsClock {
        self.clock
    }

    /// Prints a result. When it can't be written, the run stops, and fails ([`Self::code`]).
    pub fn result(&mut self, text: &str) {
        if self.lost.is_some() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        if let Err(error) = write!(stdout, "{text}{end}").and_then(|()| stdout.flush()) {
            self.lost = Some(error);
            if let Some(stop) = &self.stop {
                stop.ask();
            }
        }
    }

    /// The exit code of a command that would end with `code`: results that were not written are a failure. Of a pipe that was
    /// closed the reader knows by itself.
    pub fn code(&self, code: u8) -> u8 {
        let Some(error) = &self.lost else { return code };
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            self.error(&format!(
                "error: the results are incomplete: cannot write to standard output: {error}"
            ));
        }
        if code == exit::DONE { exit::FAILED } else { code }
    }

    /// Prints a JSON record: `record` and `schema` come first, then `fields`, which must be an object.
    pub fn record(&mut self, record: &str, fields: Value) {
        self.result(&record_line(record, fields));
    }

    /// Prints a JSON record with its time, by both clocks.
    pub fn timed(&mut self, record: &str, fields: Value) {
        let now = self.clock.now();
        let mut all = json!({
            "monotonic_s": thousandths(now.as_nanos() as f64 / 1e9),
            "wall_unix_s": thousandths(self.wall_unix_s()),
        });
        if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
            all.extend(fields);
        }
        self.record(record, all);
    }

    fn wall_unix_s(&self) -> f64 {
        let ntp = self.clock.epoch().ntp(self.clock.now());
        // 64-bit NTP time: seconds since 1900 and their 2^32th parts.
        let seconds = ntp.to_bits() as f64 / 4_294_967_296.0;
        seconds - antiphon::core::NtpTime::UNIX_OFFSET_SECONDS as f64
    }

    /// Prints a message for the user.
    pub fn talk(&self, text: &str) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// Prints a message that is only of interest with `--verbose`.
    pub fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.talk(text);
        }
    }

    /// Prints a message for the user even with `--quiet`. Folded for a terminal; whole lines for files and searches.
    pub fn error(&self, text: &str) {
        let width = stderr_width().unwrap_or(usize::MAX);
        let folded = |line: &str| match line.chars().count() {
            length if length > width => wrap(line, width).join("\n"),
            _ => line.to_string(),
        };
        let text: Vec<String> = text.lines().map(folded).collect();
        // If standard error is closed, nothing can be printed.
        let _ = writeln!(std::io::stderr(), "{}", text.join("\n"));
    }
}

/// Columns of the terminal on standard error, if there is one.
pub fn stderr_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0))
}

fn record_line(record: &str, fields: Value) -> String {
    let Value::Object(mut fields) = fields else { unreachable!("records are objects") };
    fields.remove("record");
    fields.remove("schema");
    with_kind(record, &Value::Object(fields).to_string())
}

/// A JSON object with `record` and `schema` put before its own fields.
pub fn with_kind(record: &str, object: &str) -> String {
    let rest = object.strip_prefix('{').unwrap_or(object);
    // The kind of record comes first, for readers by eye and by prefix, as in the records of `measure`.
    let comma = if rest == "}" { "" } else { "," };
    format!("{{\"record\":{},\"schema\":{SCHEMA}{comma}{rest}", Value::from(record))
}

/// Columns of the terminal on standard output; else `COLUMNS`, else 80. Between 40 and 200.
fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    let asked = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    terminal.or_else(asked).unwrap_or(80).clamp(40, 200)
}

/// Rounded to milliseconds; more digits would suggest more precision than there is.
pub fn thousandths(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// The command line in a form that can be entered again.
pub fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    format!("antiphon {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_begin_with_their_kind() {
        assert_eq!(record_line("note", json!({})), r#"{"record":"note","schema":1}"#);
        let line = record_line("note", json!({ "record": "other", "a": { "b": "{" } }));
        assert_eq!(line, r#"{"record":"note","schema":1,"a":{"b":"{"}}"#);
    }
}

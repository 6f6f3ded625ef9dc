//! `antiphon send` and `antiphon receive`.

use std::time::Duration;

use antiphon::{Error, ReceiveOptions, SendOptions, Stop, receive, send};
use serde_json::{Value, json};

use crate::args::{Global, ReceiveArgs, SendArgs};
use crate::exit;
use crate::output::{Output, command_line};
use crate::progress::{Pace, StreamProgress, line_width};
use crate::signals::Watch;
use crate::status_line::{receive_line, send_line};

/// Runs `send`; returns the exit code.
pub fn send_run(args: &SendArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = SendOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    let run = json!({
        "command": "send", "source": options.source, "target": options.target, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let mut show = Show::new(output, &watch.stop);
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        send(&options, &watch.stop, &mut |notice| progress.borrow().notice(&notice), &mut |status| {
            progress.borrow_mut().status(|| send_line(status, line_width()), || to_json(status))
        });
    show.end();
    let summary = result?;
    finish(to_json(&summary), &send_line(&summary.status, WHOLE), &summary.notes, output);
    let code = if summary.failures.is_empty() { exit::DONE } else { exit::FAILED };
    Ok(watch.exit_code().unwrap_or(code))
}

/// Runs `receive`; returns the exit code.
pub fn receive_run(args: &ReceiveArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = ReceiveOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    if options.sink.starts_with('-') && output.json {
        return Err(Error::usage(
            "--json and a sink of '-' both write to standard output: choose one of them",
        ));
    }
    let run = json!({
        "command": "receive", "source": options.source, "sink": options.sink, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let mut show = Show::new(output, &watch.stop);
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        receive(&options, &watch.stop, &mut |notice| progress.borrow().notice(&notice), &mut |status| {
            progress.borrow_mut().status(|| receive_line(status, line_width()), || to_json(status))
        });
    show.end();
    let summary = result?;
    // If the sound goes to standard output, nothing else may.
    finish(to_json(&summary), &receive_line(&summary.status, WHOLE), &summary.notes, output);
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

fn begin(run: Value, global: &Global, output: &mut Output) -> Result<Watch, Error> {
    let watch = output.watch(global.time_limit)?;
    if output.json {
        let mut run = run;
        run["version"] = env!("CARGO_PKG_VERSION").into();
        output.timed("run", run);
    }
    Ok(watch)
}

/// A seed that differs in each run: RFC 3550 §8.1 requires SSRCs that do not collide.
fn fresh_seed(output: &Output) -> u64 {
    let clock = output.clock();
    clock.epoch().ntp_at_zero.to_bits() ^ (u64::from(std::process::id()) << 32)
}

/// Display of a running stream.
struct Show<'a> {
    output: &'a mut Output,
    progress: StreamProgress,
    interval: Pace,
}

impl<'a> Show<'a> {
    fn new(output: &'a mut Output, stop: &Stop) -> Self {
        let progress = StreamProgress::new(output, stop);
        let interval = Pace::new(output.clock(), Duration::from_secs(1));
        Show { output, progress, interval }
    }

    fn notice(&self, text: &str) {
        self.progress.talk(text, self.output);
    }

    fn status(&mut self, line: impl FnOnce() -> String, record: impl FnOnce() -> Value) {
        if self.output.json && self.interval.is_due() {
            self.output.timed("interval", record());
        }
        self.progress.update(line, self.output);
    }

    fn end(&mut self) {
        self.progress.clear();
    }
}

fn finish(record: Value, line: &str, notes: &[String], output: &mut Output) {
    for note in notes {
        output.detail(&format!("note: {note}"));
    }
    if output.json {
        output.timed("summary", record);
    } else {
        output.talk(line);
    }
}

/// At the end all of a line is shown; a terminal folds it.
const WHOLE: usize = usize::MAX;

fn to_json(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).expect("plain numbers and texts have a JSON form")
}

//! `antiphon send` and `antiphon receive`.

use std::time::Duration;

use antiphon::core::Instant;
use antiphon::{ConfirmedBy, Error, ReceiveOptions, SendOptions, Stop, receive, send};
use serde_json::{Value, json};

use crate::args::{Global, ReceiveArgs, SendArgs};
use crate::exit;
use crate::output::{Output, command_line};
use crate::progress::{Pace, StreamProgress, line_width};
use crate::signals::Watch;
use crate::status_line::{receive_line, send_line};
use crate::voice;

/// Runs `send`; returns the exit code.
pub fn send_run(args: &SendArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    if let Some(options) = args.voice_options(fresh_seed(output))? {
        return voice::run(&options, global, output);
    }
    let options = SendOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    let run = json!({
        "command": "send", "source": options.source, "target": options.target, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let mut show = Show::new(output, &watch.stop);
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        send(&options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            progress.borrow_mut().status(|| send_line(status, line_width()), || to_json(status))
        });
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    finish(to_json(&summary), &send_line(&summary.status, WHOLE), &summary.notes, output);
    summary.failures.iter().for_each(|failure| output.error(failure));
    if summary.confirmed_by == ConfirmedBy::Nothing && summary.shortfall.is_none() && !summary.interrupted {
        output.talk("unconfirmed: no report of the receiver came, and nothing spoke against it");
    }
    let code = match (&summary.shortfall, &summary.failures[..]) {
        (Some(shortfall), _) => {
            let error = Error { kind: shortfall.kind, message: shortfall.message.clone() };
            output.error(&format!("error: {error}"));
            error.exit_code()
        }
        (None, []) => exit::DONE,
        (None, _) => exit::FAILED,
    };
    Ok(watch.exit_code().unwrap_or(code))
}

/// Runs `receive`; returns the exit code.
pub fn receive_run(args: &ReceiveArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    if let Some(options) = args.voice_options(fresh_seed(output)) {
        return voice::run(&options, global, output);
    }
    let options = ReceiveOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    if options.sink.starts_with('-') && output.json {
        return Err(Error::usage("--json and the sink '-' both write to standard output: choose one"));
    }
    let run = json!({
        "command": "receive", "source": options.source, "sink": options.sink, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let mut show = Show::new(output, &watch.stop);
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        receive(&options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            let mut show = progress.borrow_mut();
            show.status(|| receive_line(status, line_width()), || to_json(status));
            show.heard(status.packets_received);
        });
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    // If the sound goes to standard output, nothing else may.
    finish(to_json(&summary), &receive_line(&summary.status, WHOLE), &summary.notes, output);
    if let Some(shortfall) = &summary.shortfall {
        output.error(&format!("error: {shortfall}"));
        return Ok(watch.exit_code().unwrap_or(exit::FAILED));
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

/// How a command without a stream ends: what was stopped before it had begun is no failure.
fn stopped(error: Error, watch: &Watch, output: &Output) -> Result<u8, Error> {
    let code = watch.exit_code().ok_or(error.clone())?;
    output.detail(&error.to_string());
    Ok(code)
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
    silence: Silence,
}

impl<'a> Show<'a> {
    fn new(output: &'a mut Output, stop: &Stop) -> Self {
        let progress = StreamProgress::new(output, stop);
        let interval = Pace::new(output.clock(), Duration::from_secs(1));
        Show { output, progress, interval, silence: Silence::default() }
    }

    fn notice(&mut self, text: &str) {
        self.silence.expected();
        self.progress.talk(text, self.output);
    }

    fn status(&mut self, line: impl FnOnce() -> String, record: impl FnOnce() -> Value) {
        if self.output.json && self.interval.is_due() {
            self.output.timed("interval", record());
        }
        self.progress.update(line, self.output);
    }

    /// Reports a sender from which nothing comes any more.
    fn heard(&mut self, packets: u64) {
        if let Some(silence) = self.silence.look(packets, self.output.clock().now()) {
            let text = format!("no packets for {} s; still waiting for the sender", silence.as_secs());
            self.progress.talk(&text, self.output);
        }
    }

    fn end(&mut self) {
        self.progress.clear();
    }
}

/// A stream without packets for so long is reported.
const SILENT: Duration = Duration::from_secs(2);
/// And again each time that so much more has passed.
const STILL_SILENT: Duration = Duration::from_secs(60);

/// Detects that a stream has stopped without its sender's saying so.
#[derive(Default)]
struct Silence {
    packets: u64,
    /// When the last packet came; `None` if no silence is to be reported.
    heard: Option<Instant>,
    /// How often this silence has been reported.
    reported: u32,
    /// A notice has just told the user what happened: packets that came with it begin nothing.
    expected: bool,
}

impl Silence {
    fn expected(&mut self) {
        self.expected = true;
        self.heard = None;
    }

    /// How long the silence has been, if that is to be reported: once after [`SILENT`], and again each minute.
    fn look(&mut self, packets: u64, now: Instant) -> Option<Duration> {
        let more = packets > self.packets;
        self.packets = packets;
        if std::mem::take(&mut self.expected) {
            return None;
        }
        if more {
            (self.heard, self.reported) = (Some(now), 0);
        }
        let silence = now.since(self.heard?);
        let next = if self.reported == 0 { SILENT } else { STILL_SILENT * self.reported };
        (silence >= next).then(|| {
            self.reported += 1;
            silence
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_after_packets_and_each_minute() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut silence = Silence::default();
        // Before the first packet nothing is missing.
        assert_eq!((silence.look(0, at(0)), silence.look(0, at(9000))), (None, None));
        assert_eq!((silence.look(5, at(9100)), silence.look(5, at(11_000))), (None, None));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!((silence.look(5, at(11_100)), silence.look(5, at(20_000))), (seconds(2), None));
        // A stream that goes on can fall silent again.
        assert_eq!((silence.look(6, at(20_100)), silence.look(6, at(22_100))), (None, seconds(2)));
        // It is told again each minute.
        assert_eq!((silence.look(6, at(80_000)), silence.look(6, at(80_100))), (None, seconds(60)));
        assert_eq!((silence.look(6, at(140_000)), silence.look(6, at(140_100))), (None, seconds(120)));
    }

    #[test]
    fn a_stream_that_was_ended_is_not_reported() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut silence = Silence::default();
        assert_eq!(silence.look(5, at(0)), None);
        silence.expected();
        assert_eq!((silence.look(7, at(10)), silence.look(7, at(5000))), (None, None));
    }
}

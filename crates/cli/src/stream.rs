//! `antiphon send` and `antiphon receive`.

use std::time::Duration;

use antiphon::core::Instant;
use antiphon::{
    ConfirmedBy, Error, MetricsState, NoticeLimiter, ReceiveOptions, SendOptions, Stop, TradeOff, receive,
    send,
};
use serde_json::{Value, json};

use crate::args::{Global, ReceiveArgs, SendArgs};
use crate::exit;
use crate::monitor::Monitor;
use crate::output::{Output, command_line};
use crate::progress::{Pace, StreamProgress, line_width};
use crate::screen::{self, Screen, State, Subject};
use crate::signals::Watch;
use crate::status_line::{receive_line, receiver_line, send_line};
use crate::{programmes, voice};

/// Runs `send`; returns the exit code.
pub fn send_run(args: &SendArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    if let Some(options) = args.voice_options(fresh_seed(output))? {
        return voice::run(&options, global, output);
    }
    let options = SendOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    screen::check(args.shown.screen, global, output)?;
    let run = json!({
        "command": "send", "source": options.source, "target": options.target, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let subject = args.shown.screen.then(|| Subject {
        command: "send",
        uri: options.target.clone(),
        latency: None,
        mute: None,
        programme: None,
    });
    let monitor = Monitor::open(&args.metrics, &watch.stop, output)?;
    let mut show = Show::open(output, &watch.stop, subject, monitor)?;
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        send(&options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            let mut show = progress.borrow_mut();
            show.screen(|| State::Send(Box::new(status.clone())));
            show.monitor.metrics(|| MetricsState::Send(status.clone()));
            show.status(|| send_line(status, line_width()), || to_json(status));
        });
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    finish(to_json(&summary), &send_line(&summary.status, WHOLE), &summary.notes, output);
    if !output.json {
        summary.receivers_served.iter().for_each(|one| output.talk(&receiver_line(one)));
    }
    summary.failures.iter().for_each(|failure| output.error(failure));
    let served = summary.status.receivers.is_some();
    if summary.confirmed_by == ConfirmedBy::Nothing
        && !served
        && summary.shortfall.is_none()
        && !summary.interrupted
    {
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
    if let Some(options) = args.voice_options(fresh_seed(output))? {
        return voice::run(&options, global, output);
    }
    let options = ReceiveOptions { command: command_line(), ..args.options(fresh_seed(output))? };
    if args.programmes {
        return programmes::list(&options, global, output);
    }
    check_sink(&options.sink, output)?;
    screen::check(args.shown.screen, global, output)?;
    let run = json!({
        "command": "receive", "source": options.source, "sink": options.sink, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let subject = args.shown.screen.then(|| Subject {
        command: "receive",
        uri: options.source.clone(),
        latency: options.playout_delay(),
        mute: None,
        programme: Some(options.programme.clone()),
    });
    let control = programmes::Control::open(args, &options)?;
    let monitor = Monitor::open(&args.metrics, &watch.stop, output)?;
    let mut show = Show::open(output, &watch.stop, subject, monitor)?;
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        receive(&options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            let mut show = progress.borrow_mut();
            show.screen(|| State::Receive(Box::new(status.clone())));
            show.monitor.metrics(|| MetricsState::Receive(status.clone()));
            control.look(status);
            show.status(|| receive_line(status, line_width()), || to_json(status));
            show.heard(status.packets_received);
            show.lip_sync(status.pictures.and_then(|pictures| pictures.out_of_sync_ms));
        });
    drop(control);
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    // If the sound goes to standard output, nothing else may.
    finish(to_json(&summary), &receive_line(&summary.status, WHOLE), &summary.notes, output);
    if let Some(trade_off) = TradeOff::sentence(&summary.status.trade_off).filter(|_| !output.json) {
        output.talk(&format!("playout delay: {trade_off}"));
    }
    if let Some(shortfall) = &summary.shortfall {
        output.error(&format!("error: {shortfall}"));
        return Ok(watch.exit_code().unwrap_or(exit::FAILED));
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

/// Standard output has room for one of both.
pub(crate) fn check_sink(sink: &str, output: &Output) -> Result<(), Error> {
    if sink.starts_with('-') && output.json {
        return Err(Error::usage("--json and the sink '-' both write to standard output: choose one"));
    }
    Ok(())
}

/// How a command without a stream ends: what was stopped before it had begun is no failure.
pub(crate) fn stopped(error: Error, watch: &Watch, output: &Output) -> Result<u8, Error> {
    let code = watch.exit_code().ok_or(error.clone())?;
    output.detail(&error.to_string());
    Ok(code)
}

/// Announces the run, and begins to watch for what stops it.
pub(crate) fn begin(run: Value, global: &Global, output: &mut Output) -> Result<Watch, Error> {
    let watch = output.watch(global.time_limit)?;
    if output.json {
        let mut run = run;
        run["version"] = env!("CARGO_PKG_VERSION").into();
        output.timed("run", run);
    }
    Ok(watch)
}

/// A seed that differs in each run: RFC 3550 §8.1 requires SSRCs that do not collide.
pub(crate) fn fresh_seed(output: &Output) -> u64 {
    let clock = output.clock();
    clock.epoch().ntp_at_zero.to_bits() ^ (u64::from(std::process::id()) << 32)
}

/// Display of a running stream.
pub(crate) struct Show<'a> {
    output: &'a mut Output,
    progress: StreamProgress,
    interval: Pace,
    silence: Silence,
    notices: NoticeLimiter,
    screen: Option<Screen>,
    /// Pictures come too late for their sound.
    out_of_sync: bool,
    /// Who watches it from outside.
    pub monitor: Monitor,
}

impl<'a> Show<'a> {
    /// With a screen, if there is something to show on one.
    pub fn open(
        output: &'a mut Output,
        stop: &Stop,
        subject: Option<Subject>,
        monitor: Monitor,
    ) -> Result<Self, Error> {
        let screen = subject.map(|subject| Screen::open(&subject, output, stop)).transpose()?;
        Ok(Show { screen, ..Show::new(output, stop, monitor) })
    }

    /// A line, or plain lines.
    pub fn new(output: &'a mut Output, stop: &Stop, monitor: Monitor) -> Self {
        let progress = StreamProgress::new(output, stop);
        let interval = Pace::new(output.clock(), Duration::from_secs(1));
        Show {
            output,
            progress,
            interval,
            silence: Silence::default(),
            notices: NoticeLimiter::new(),
            screen: None,
            out_of_sync: false,
            monitor,
        }
    }

    pub fn notice(&mut self, text: &str) {
        self.silence.expected();
        self.tell(text);
    }

    fn tell(&mut self, text: &str) {
        self.monitor.notice(text);
        if let Some(screen) = &mut self.screen {
            return screen.notice(text);
        }
        let told = match self.output.verbose {
            0 => self.notices.admit(self.output.clock().now(), text),
            _ => Some(text.into()),
        };
        if let Some(told) = told {
            self.progress.talk(&told, self.output);
        }
    }

    /// A new state, for the screen if there is one.
    pub fn screen(&mut self, state: impl FnOnce() -> State) {
        if let Some(screen) = &mut self.screen {
            screen.state(state());
        }
    }

    pub fn status(&mut self, line: impl Fn() -> String, record: impl FnOnce() -> Value) {
        self.monitor.alive(&line);
        if self.output.json && self.interval.is_due() {
            self.output.timed("interval", record());
        }
        if self.screen.is_none() {
            self.progress.update(line, self.output);
        }
    }

    /// By how much pictures come too late for their sound, if they do: a record when that begins and when it ends.
    pub fn lip_sync(&mut self, late_ms: Option<f64>) {
        let is_out = late_ms.is_some();
        if std::mem::replace(&mut self.out_of_sync, is_out) != is_out && self.output.json {
            let mut record = json!({ "in_sync": !is_out });
            if let Some(late) = late_ms {
                record["late_ms"] = late.into();
            }
            self.output.timed("lip_sync", record);
        }
    }

    /// Reports a sender from which nothing comes any more.
    pub fn heard(&mut self, packets: u64) {
        if let Some(silence) = self.silence.look(packets, self.output.clock().now()) {
            let text = format!("no packets for {} s; still waiting for the sender", silence.as_secs());
            self.tell(&text);
        }
    }

    pub fn end(&mut self) {
        self.monitor.stopping();
        match self.screen.take() {
            Some(screen) => screen.close().iter().for_each(|notice| self.output.talk(notice)),
            None => self.progress.clear(),
        }
        let left_out = self.notices.left_out();
        if left_out > 0 {
            self.output.talk(&format!("{left_out} messages like those above were left out; -v shows all"));
        }
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

/// Tells the notes and the final state.
pub(crate) fn finish(record: Value, line: &str, notes: &[String], output: &mut Output) {
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
pub(crate) const WHOLE: usize = usize::MAX;

pub(crate) fn to_json(status: &impl serde::Serialize) -> Value {
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

//! `antiphon talk`.

use antiphon::{Error, MetricsState, talk};
use serde_json::json;

use crate::args::{Global, TalkArgs};
use crate::exit;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::output::Output;
use crate::progress::line_width;
use crate::screen::{self, State, Subject};
use crate::status_line::talk_line;
use crate::stream::{Show, WHOLE, begin, check_sink, finish, fresh_seed, stopped, to_json};

/// Runs `talk`; returns the exit code.
pub fn run(args: &TalkArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = args.options(fresh_seed(output))?;
    check_sink(&options.receive.sink, output)?;
    screen::check(args.screen, global, output)?;
    let run = json!({
        "command": "talk", "peer": options.send.target, "source": options.send.source,
        "sink": options.receive.sink, "seed": options.send.seed,
    });
    let watch = begin(run, global, output)?;
    // A source on standard input has all of it.
    let mute = options.mute.clone();
    let on_key = move |key| {
        if matches!(key, b'm' | b'M') {
            mute.toggle();
        }
    };
    // The screen has keys of its own.
    let no_keys = args.screen || options.send.source.starts_with('-');
    let keys = if no_keys { None } else { Keys::watch(on_key) };
    let subject = args.screen.then(|| Subject {
        command: "talk",
        uri: options.send.target.clone(),
        latency: options.receive.playout_delay(),
        mute: Some(options.mute.clone()),
        programme: None,
    });
    let monitor = Monitor::open(&args.metrics, &watch.stop, output)?;
    let mut show = Show::open(output, &watch.stop, subject, monitor)?;
    if keys.is_some() {
        show.notice("m mutes and unmutes; Ctrl-C ends the call");
    }
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        talk(&options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            let mut show = progress.borrow_mut();
            show.screen(|| State::Talk(Box::new(status.clone())));
            show.monitor.metrics(|| MetricsState::Talk(Box::new(status.clone())));
            show.status(|| talk_line(status, line_width()), || to_json(status));
            show.heard(status.received.packets_received);
            show.lip_sync(status.received.pictures.and_then(|pictures| pictures.out_of_sync_ms));
        });
    drop(keys);
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    finish(to_json(&summary), &talk_line(&summary.status, WHOLE), &summary.notes, output);
    let code = summary.shortfall.as_ref().map_or(exit::DONE, |shortfall| {
        let error = Error { kind: shortfall.kind, message: shortfall.message.clone() };
        output.error(&format!("error: {error}"));
        error.exit_code()
    });
    Ok(watch.exit_code().unwrap_or(code))
}

//! `antiphon reflect`.

use antiphon::{Error, MetricsState, ReflectStatus, ReflectedTransport, reflect};
use serde_json::Value;

use crate::args::{Global, ReflectArgs};
use crate::exit;
use crate::monitor::Monitor;
use crate::output::Output;
use crate::progress::StreamProgress;

/// Runs the command; returns the exit code.
pub fn run(args: &ReflectArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = args.options();
    let watch = output.watch(global.time_limit)?;
    let mut progress = StreamProgress::new(output, &watch.stop);
    let mut monitor = Monitor::open(&args.metrics, &watch.stop, output)?;
    let mut began = false;
    let result = reflect(&options, &watch.stop, &mut |status| {
        if !began {
            began = true;
            announce(status, &progress, output);
        } else if output.json {
            output.timed("interval", record(status));
        }
        // A state that not every media thread has told grows old.
        if status.alive {
            monitor.metrics(|| MetricsState::Reflect(status.clone()));
            monitor.alive(|| line(status));
        }
        progress.update(|| line(status), output);
    });
    monitor.stopping();
    progress.clear();
    let status = result?;
    if output.json {
        output.timed("summary", record(&status));
    } else {
        status.notes.iter().for_each(|note| output.talk(&format!("note: {note}")));
        output.talk(&line(&status));
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

fn announce(status: &ReflectStatus, progress: &StreamProgress, output: &mut Output) {
    if output.json {
        let mut run = record(status);
        run["command"] = "reflect".into();
        run["version"] = env!("CARGO_PKG_VERSION").into();
        output.timed("run", run);
    }
    for transport in &status.transports {
        progress.talk(&format!("{} listens on {}", transport.transport, transport.address), output);
    }
    progress.talk("Stop with Ctrl-C. On the other computer: antiphon compare HOST:PORT", output);
}

fn line(status: &ReflectStatus) -> String {
    let of = |t: &ReflectedTransport| {
        let plural = if t.peers == 1 { "" } else { "s" };
        format!("{}: {} peer{plural}, {} packets returned", t.transport, t.peers, t.messages_returned)
    };
    status.transports.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn record(status: &ReflectStatus) -> Value {
    serde_json::to_value(status).expect("plain numbers and texts have a JSON form")
}

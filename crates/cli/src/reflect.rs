//! `antiphon reflect`.

use std::time::Duration;

use antiphon::{Error, ReflectStatus, reflect};
use serde_json::{Value, json};

use crate::args::{Global, ReflectArgs};
use crate::exit;
use crate::output::Output;
use crate::progress::StreamProgress;
use crate::signals::Watch;

/// Runs it; the exit code.
pub fn run(args: &ReflectArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = args.options();
    let watch = Watch::start(global.time_limit)?;
    output.stops(&watch.stop);
    let mut progress = StreamProgress::new(output);
    let mut began = false;
    let result = reflect(&options, &watch.stop, &mut |status| {
        if !began {
            began = true;
            announce(status, &progress, output);
        } else if output.json {
            output.timed("interval", record(status));
        }
        progress.update(|| line(status), output);
    });
    progress.clear();
    let status = result?;
    if output.json {
        output.timed("summary", record(&status));
    } else {
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
    for (transport, address, ..) in &status.transports {
        progress.talk(&format!("{transport} listens on {address}"), output);
    }
    progress.talk("Ctrl-C ends it. On the other computer: antiphon compare HOST:PORT", output);
}

fn line(status: &ReflectStatus) -> String {
    let of = |(transport, _, peers, frames): &(String, String, u64, u64)| {
        format!("{transport}: {peers} peer{}, {frames} frames returned", if *peers == 1 { "" } else { "s" })
    };
    status.transports.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn record(status: &ReflectStatus) -> Value {
    let of = |(transport, address, peers, frames): &(String, String, u64, u64)| {
        json!({ "transport": transport, "address": address, "peers": peers, "frames_returned": frames })
    };
    json!({
        "elapsed_s": crate::output::thousandths(status.elapsed.as_secs_f64()),
        "transports": status.transports.iter().map(of).collect::<Vec<_>>(),
    })
}

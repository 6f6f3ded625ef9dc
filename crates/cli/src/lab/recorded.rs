//! `antiphon lab replay`: transports over a path that was recorded.

use antiphon::proto::TRANSPORTS;
use antiphon::{Error, figure_row};
use antiphon_experiments::figures::{FIGURES, StreamFigures};
use antiphon_experiments::replay::{ReplayOptions, Replayed};
use antiphon_experiments::replay_path;
use serde_json::json;

use crate::args::{Global, ReplayArgs};
use crate::exit;
use crate::output::{Output, command_line};

/// Runs the command; returns the exit code.
pub fn show(args: &ReplayArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = ReplayOptions {
        frame: args.packet.map(|size| size.0 as usize),
        interval: args.interval,
        duration: args.seconds,
        propagation: args.propagation,
        latency: args.latency,
        patience: args.expire.then_some(args.latency),
        reflected: args.reflected,
        ..ReplayOptions::default()
    };
    let all: Vec<&str> = TRANSPORTS.iter().map(|transport| transport.scheme).collect();
    let asked: Vec<&str> = args.transports.iter().map(String::as_str).collect();
    let transports = if asked.is_empty() { &all } else { &asked };
    let watch = output.watch(global.time_limit)?;
    let seen_by = args.path.as_deref();
    let replayed = replay_path(&args.file, seen_by, transports, &options, args.seed, &watch.stop)?;
    if output.json {
        records(args, &replayed, output)
    } else {
        table(args, &replayed, output)
    }
    let cut_short = replayed.runs.len() < transports.len();
    Ok(if cut_short { watch.exit_code().unwrap_or(exit::INTERRUPTED) } else { exit::DONE })
}

fn audio(streams: &[(String, StreamFigures)]) -> StreamFigures {
    streams.first().map(|(_, figures)| *figures).unwrap_or_default()
}

fn records(args: &ReplayArgs, replayed: &Replayed, output: &mut Output) {
    let head = json!({
        "command": command_line(),
        "file": args.file,
        "seed": args.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "remarks": replayed.remarks,
    });
    output.timed("replay", head);
    for (transport, run) in &replayed.runs {
        let figures = super::show::all(&audio(&run.streams));
        output.record("transport", json!({ "transport": transport, "figures": figures }));
    }
}

/// The figures in which transports differ; rows without a value for any transport are left out.
const SHOWN: [&str; 16] = [
    "sent",
    "missing_percent",
    "lost_percent",
    "expired",
    "refused",
    "delay_p50_ms",
    "delay_p99_ms",
    "delay_max_ms",
    "rtt_mean_ms",
    "rtt_p99_ms",
    "jitter_sd_ms",
    "gap_max_ms",
    "duplicate",
    "retransmissions",
    "wire_bytes",
    "broken",
];

fn table(args: &ReplayArgs, replayed: &Replayed, output: &mut Output) {
    output.talk(&format!("replaying {}, seed {}", args.file.display(), args.seed));
    let columns: Vec<_> = replayed.runs.iter().map(|(_, run)| audio(&run.streams).values()).collect();
    let shown = FIGURES.iter().enumerate().filter(|(_, def)| SHOWN.contains(&def.name));
    let rows = shown.filter_map(|(at, def)| {
        let values: Vec<Option<f64>> = columns.iter().map(|values| values[at]).collect();
        values.iter().any(Option::is_some).then(|| figure_row(def, &values))
    });
    let names: Vec<&str> = replayed.runs.iter().map(|(transport, _)| transport.as_str()).collect();
    output.result(&crate::table::render(&rows.collect::<Vec<_>>(), &names, output.width, output.palette));
    for remark in &replayed.remarks {
        output.talk(&format!("note: {remark}"));
    }
}

//! `antiphon lab replay`: transports over a path that was recorded.

use antiphon::Error;
use antiphon::lab::figures::{FIGURES, StreamFigures};
use antiphon::lab::replay::{ReplayOptions, Replayed};
use antiphon::lab::replay_path;
use antiphon::proto::TRANSPORTS;
use serde_json::{Map, Value, json};

use crate::args::{Global, ReplayArgs};
use crate::exit;
use crate::grid::{Align, Cell, Grid, Tone};
use crate::output::{Output, command_line};

/// Runs it; the exit code.
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
        let figures = FIGURES.iter().zip(audio(&run.streams).values());
        let fields: Map<String, Value> =
            figures.map(|(def, value)| (def.name.into(), value.into())).collect();
        output.record("transport", json!({ "transport": transport, "figures": fields }));
    }
}

/// The figures that tell transports apart, with their short titles; rows without a value for any transport stay away.
const SHOWN: [(&str, &str, usize); 13] = [
    ("sent", "sent", 0),
    ("lost_percent", "lost, %", 2),
    ("expired", "expired", 0),
    ("delay_p50_ms", "delay, median, ms", 1),
    ("delay_p99_ms", "delay, 99 %, ms", 1),
    ("delay_max_ms", "delay, longest, ms", 1),
    ("rtt_mean_ms", "round trip, mean, ms", 1),
    ("rtt_p99_ms", "round trip, 99 %, ms", 1),
    ("jitter_sd_ms", "jitter, standard deviation, ms", 2),
    ("gap_max_s", "longest gap, s", 3),
    ("duplicate", "duplicates", 0),
    ("retransmissions", "repetitions", 0),
    ("wire_bytes", "bytes on the wire", 0),
];

fn table(args: &ReplayArgs, replayed: &Replayed, output: &mut Output) {
    output.talk(&format!("{}, as it was, seed {}", args.file.display(), args.seed));
    let columns: Vec<StreamFigures> = replayed.runs.iter().map(|(_, run)| audio(&run.streams)).collect();
    let mut aligns = vec![Align::Left];
    aligns.extend(vec![Align::Right; columns.len()]);
    let mut grid = Grid::new(aligns);
    let heads = replayed.runs.iter().map(|(transport, _)| Cell::new(transport.as_str(), Tone::Head));
    grid.row([Cell::new("", Tone::Head)].into_iter().chain(heads));
    for (name, title, decimals) in SHOWN {
        let Some(place) = FIGURES.iter().position(|figure| figure.name == name) else { continue };
        let values: Vec<Option<f64>> = columns.iter().map(|figures| figures.values()[place]).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let text = |value: &Option<f64>| value.map_or("-".into(), |value| format!("{value:.decimals$}"));
        grid.row([Cell::from(title)].into_iter().chain(values.iter().map(|value| Cell::from(text(value)))));
    }
    output.result(&grid.render(output.width, output.palette));
    for remark in &replayed.remarks {
        output.talk(&format!("note: {remark}"));
    }
}

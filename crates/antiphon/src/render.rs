//! Files that `compare` writes: `report.html`, `report.json`, `packets.csv`, `overview.svg`, and the sound.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use antiphon_measure::{LoggedPacket, PictureLog, Purpose};
use antiphon_report::{Clip, CompareReport, LatencyNote, Limit, LinkNote, TradeOff, TransportPanel};

use crate::about;
use crate::compare::Ran;
use crate::measured::Measured;
use crate::stream_plan::StreamPlan;
use crate::table::{figure_rows, report_fate};
use crate::{CompareOptions, Comparison, Error};

mod heard;
mod words;

pub(crate) use heard::recording;

/// Writes everything into `out`.
pub(crate) fn write(
    out: &Path,
    options: &CompareOptions,
    stream: &StreamPlan,
    comparison: &Comparison,
    measured: &[Measured],
    ran: &Ran,
) -> Result<(), Error> {
    let sounds = sounds(out, stream, measured);
    let report = compose(options, stream, comparison, measured, sounds, ran);
    let put = |name: &str, write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>| {
        let file = out.join(name);
        File::create(&file)
            .map(BufWriter::new)
            .and_then(|mut file| write(&mut file).and_then(|()| file.flush()))
            .map_err(|error| Error::failed(format!("cannot write '{}': {error}", file.display())))
    };
    put("report.html", &|f| f.write_all(antiphon_report::render_compare(&report).as_bytes()))?;
    put("overview.svg", &|f| f.write_all(antiphon_report::compare_svg(&report).as_bytes()))?;
    put("report.json", &|f| write_json(f, options, comparison))?;
    put("packets.csv", &|f| write_frames(f, options, measured))?;
    Ok(())
}

/// The original, and what was heard over each transport, in their order; `None` for a sound that could not be kept.
struct Sounds {
    original: Option<Clip>,
    heard: Vec<Option<Clip>>,
    /// Why sounds could not be kept: the report is worth having without them.
    failures: Vec<String>,
}

/// Encodes the sounds, each on a thread of its own: the run is over, and no thread of it is disturbed.
fn sounds(out: &Path, stream: &StreamPlan, measured: &[Measured]) -> Sounds {
    let sample = stream.sample;
    let mut failures = Vec::new();
    let mut kept = |name: &str, clip: Result<Clip, Error>| {
        clip.inspect_err(|error| failures.push(format!("{name}: the sound could not be saved: {error}"))).ok()
    };
    let (original, mut heard) = std::thread::scope(|scope| {
        let keep = |one: &Measured| {
            let label = one.choice.label.clone();
            scope.spawn(move || heard::keep(out, &label, sample))
        };
        let running: Vec<_> = measured.iter().map(keep).collect();
        let original = kept("original", heard::keep_original(out, &|| stream.open(), sample));
        let ended = measured.iter().zip(running).map(|(one, thread)| {
            let panicked = || Error::failed("the thread that encodes it panicked");
            kept(&one.choice.label, thread.join().unwrap_or_else(|_| Err(panicked())))
        });
        (original, ended.collect::<Vec<_>>())
    });
    for clip in heard.iter_mut().flatten() {
        clip.note = pauses(clip.seconds - original.as_ref().map_or(clip.seconds, |o| o.seconds));
    }
    Sounds { original, heard, failures }
}

/// What to know of a sound that lasts so many seconds longer than the original.
fn pauses(longer: f64) -> String {
    if longer < NOTICED_S {
        return String::new();
    }
    format!(
        "It is {longer:.2} s longer than the original: there were pauses while lost packets were sent again, so sound after a \
         pause comes later than its mark."
    )
}

/// A few packets: by less, marks are not seen to be off.
const NOTICED_S: f64 = 0.03;

fn write_json(
    file: &mut dyn Write,
    options: &CompareOptions,
    comparison: &Comparison,
) -> std::io::Result<()> {
    let whole = serde_json::json!({
        "schema": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "command": options.command,
        "seed": options.seed,
        "source": options.source,
        "video": options.video,
        "link": comparison.link,
        "link_counters": comparison.crossed,
        "interrupted": comparison.interrupted,
        "failures": comparison.failures,
        "notes": comparison.notes,
        "transports": comparison.figures,
        "advice": comparison.advice,
    });
    serde_json::to_writer_pretty(&mut *file, &whole)?;
    writeln!(file)
}

fn write_frames(
    file: &mut dyn Write,
    options: &CompareOptions,
    measured: &[Measured],
) -> std::io::Result<()> {
    writeln!(
        file,
        "# antiphon {}; {}; seed {}; times in ms since the run began, rtt and one way in ms",
        env!("CARGO_PKG_VERSION"),
        options.command.replace(['\n', '\r'], " "),
        options.seed
    )?;
    let mut lines = csv::Writer::from_writer(file);
    lines.write_record(["transport"].into_iter().chain(LoggedPacket::COLUMNS))?;
    for one in measured {
        for row in one.log.rows() {
            lines.write_field(&one.choice.label)?;
            lines.write_record(row.fields())?;
        }
    }
    lines.flush()
}

fn compose(
    options: &CompareOptions,
    stream: &StreamPlan,
    comparison: &Comparison,
    measured: &[Measured],
    sounds: Sounds,
    ran: &Ran,
) -> CompareReport {
    let heard = measured.iter().zip(sounds.heard);
    let transports: Vec<TransportPanel> = heard.map(|(one, heard)| panel(one, heard)).collect();
    let limits = Purpose::ALL.iter().filter_map(|purpose| {
        let mouth_to_ear_ms = purpose.longest_mouth_to_ear_ms()?;
        Some(Limit { purpose: words::names(*purpose).1.into(), mouth_to_ear_ms })
    });
    CompareReport {
        title: format!("What to use over {}", comparison.link.name),
        lead: lead(options, comparison, ran),
        meta: meta(options, stream, ran),
        command: options.command.clone(),
        link: LinkNote {
            name: comparison.link.name.clone(),
            parameters: parameters(options),
            method: comparison.link.method.clone(),
            limits: comparison.link.limits.clone(),
        },
        latency: LatencyNote {
            label: "round trip".into(),
            definition: "From handing a packet to the transport until it is back from the reflector.".into(),
        },
        limits: limits.collect(),
        trade_off: TradeOff::from_frames(&transports),
        table: figure_rows(&comparison.figures),
        advice: comparison.advice.iter().map(|advice| words::card(advice, measured)).collect(),
        listening: listening(options).into(),
        original: sounds.original,
        notes: notes(comparison).into_iter().chain(sounds.failures).collect(),
        transports,
    }
}

fn panel(measured: &Measured, heard: Option<Clip>) -> TransportPanel {
    let rows: Vec<_> = measured.log.rows().collect();
    let first = rows.first().map_or(0, |row| row.sent.as_nanos());
    let millis = |nanos: u64| (nanos as f64 / 1e6) as f32;
    let pictures = || measured.pictures.iter().flat_map(PictureLog::pictures);
    let fate: Vec<_> = rows.iter().map(|row| report_fate(row.fate)).collect();
    // The playout delay counts from an undelayed frame's arrival: on the scale of round trips, from the smallest.
    let target =
        measured.figures.rtt_ms.min_ms.map(|min| (min + measured.latency.as_secs_f64() * 1e3) as f32);
    TransportPanel {
        name: measured.choice.label.clone(),
        title: measured.choice.title(),
        sent_ms: rows.iter().map(|row| millis(row.sent.as_nanos() - first)).collect(),
        latency_ms: rows.iter().map(|row| row.rtt().map(|rtt| millis(rtt.as_nanos() as u64))).collect(),
        mouth_to_ear_ms: measured.mouth_to_ear_ms(),
        hides_repairs: measured.profile.retransmits && !fate.contains(&antiphon_report::Fate::Recovered),
        fate,
        playout_target_ms: target,
        heard,
        picture_due_ms: pictures()
            .map(|picture| millis(picture.due.as_nanos().saturating_sub(first)))
            .collect(),
        picture_ms: pictures()
            .map(|picture| picture.delay().map(|way| millis(way.as_nanos() as u64)))
            .collect(),
    }
}

fn lead(options: &CompareOptions, comparison: &Comparison, ran: &Ran) -> String {
    let count = comparison.figures.len();
    let few = ["No way", "One way", "Two ways", "Three ways", "Four ways", "Five ways", "Six ways"];
    let ways = few.get(count).map_or_else(|| format!("{count} ways"), |words| (*words).into());
    let network =
        if options.peer.is_some() { "to this peer and back" } else { "over a model of this network" };
    let length = about::seconds(length(comparison));
    let cut = if ran.interrupted { "; the run was interrupted" } else { "" };
    format!("{ways} of sending live sound, compared for {length} {network}{cut}.")
}

fn length(comparison: &Comparison) -> std::time::Duration {
    let seconds = comparison.figures.iter().map(|f| f.duration_s).fold(0.0, f64::max);
    // Each is a duration in seconds.
    std::time::Duration::from_secs_f64(seconds)
}

/// Over the embedded link all transports meet the same losses at the same times; over a real path they share it.
fn listening(options: &CompareOptions) -> &'static str {
    match options.peer {
        Some(_) => {
            "All shared one path but sent their packets at different moments, so losses are at different places."
        }
        None => {
            "Each had its own copy of the network, with losses and delays at the same moments: switch at a loss to \
             compare."
        }
    }
}

fn meta(options: &CompareOptions, stream: &StreamPlan, ran: &Ran) -> Vec<(String, String)> {
    let pair = |term: &str, value: String| (term.to_string(), value);
    let mut meta = vec![
        pair("Date", about::date(ran.began)),
        pair("Made by", about::version()),
        pair("Machine", about::machine()),
        pair(
            "Sound",
            format!(
                "{} ({}, {}) in blocks of {} sample frames",
                options.source,
                stream.format,
                stream.sample.name(),
                options.block_frames
            ),
        ),
        pair("Playout delay", antiphon_core::units::format_duration(options.latency)),
        pair("Seed", options.seed.to_string()),
    ];
    if !options.video.is_empty() {
        let files: Vec<String> = options.video.iter().map(|file| file.display().to_string()).collect();
        meta.push(pair("Pictures", files.join(", ")));
    }
    if ran.interrupted {
        meta.push(pair("Interrupted", "the results cover what was streamed until then".into()));
    }
    meta
}

fn parameters(options: &CompareOptions) -> Vec<(String, String)> {
    if options.peer.is_some() {
        return Vec::new();
    }
    let spec = &options.link.1;
    let words = |way: String| way.replace(',', ", ");
    vec![("Outbound".into(), words(spec.up.to_string())), ("Return".into(), words(spec.down.to_string()))]
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = comparison.notes.clone();
    notes.extend(
        comparison.failures.iter().map(|(scheme, why)| format!("{scheme} could not be measured: {why}")),
    );
    for figures in &comparison.figures {
        notes.extend(figures.notes.iter().map(|note| format!("{}: {note}", figures.transport)));
    }
    notes
}

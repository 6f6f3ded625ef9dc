//! Files that `compare` writes: `report.html`, `report.json`, `packets.csv`, `overview.svg`, and the sound.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use antiphon_measure::LoggedPacket;
use antiphon_media::{SampleFormat, Sink, StreamFormat};
use antiphon_report::{Advice, Clip, CompareReport, LatencyNote, LinkNote, TradeOff, TransportPanel};
use antiphon_sound::{Existing, SinkKind, SinkSpec, write_whole};

use crate::compare::Measured;
use crate::stream_plan::StreamPlan;
use crate::table::{figure_rows, report_fate};
use crate::{CompareOptions, Comparison, Error};

/// File name of the recording of what a listener heard over that transport.
pub(crate) fn heard_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("heard-{}.wav", label.chars().map(plain).collect::<String>())
}

const ORIGINAL: &str = "original.wav";

/// A WAV file in the report's directory; replaces that of an older report.
pub(crate) fn wav_sink(
    path: &Path,
    format: StreamFormat,
    sample: SampleFormat,
) -> Result<Box<dyn Sink>, Error> {
    let kind = SinkKind::File { path: path.into(), sample: Some(sample), existing: Existing::Overwrite };
    Ok(SinkSpec { kind, rate: None, channels: None }.open(format, sample)?.sink)
}

/// Writes everything into `out`.
pub(crate) fn write(
    out: &Path,
    options: &CompareOptions,
    stream: &StreamPlan,
    comparison: &Comparison,
    measured: &[Measured],
) -> Result<(), Error> {
    let report = compose(options, stream, comparison, measured);
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
    write_whole(&out.join(ORIGINAL), &mut *stream.open()?, stream.sample)?;
    Ok(())
}

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
) -> CompareReport {
    let transports: Vec<TransportPanel> = measured.iter().enumerate().map(|(i, m)| panel(i, m)).collect();
    let names: Vec<&str> = measured.iter().map(|m| m.choice.label.as_str()).collect();
    CompareReport {
        title: format!("{} over {}", join(&names), comparison.link.name),
        verdict: verdict(comparison),
        meta: meta(options, stream, comparison),
        command: options.command.clone(),
        link: LinkNote {
            name: comparison.link.name.clone(),
            parameters: parameters(options),
            method: comparison.link.method.clone(),
            limits: comparison.link.limits.clone(),
        },
        latency: LatencyNote {
            label: "round trip".into(),
            definition: "from handing a packet to the transport to having it back from the reflector".into(),
        },
        trade_off: TradeOff::from_frames(&transports),
        table: figure_rows(&comparison.figures),
        advice: comparison.advice.iter().map(advice).collect(),
        original: Some(Clip { title: "original".into(), file: ORIGINAL.into(), ..Clip::default() }),
        notes: notes(comparison),
        transports,
    }
}

fn panel(index: usize, measured: &Measured) -> TransportPanel {
    let rows: Vec<_> = measured.log.rows().collect();
    let first = rows.first().map_or(0, |row| row.sent.as_nanos());
    let millis = |nanos: u64| (nanos as f64 / 1e6) as f32;
    let label = &measured.choice.label;
    // The playout delay counts from an undelayed frame's arrival: on the scale of round trips, from the smallest.
    let target =
        measured.figures.rtt_ms.min_ms.map(|min| (min + measured.latency.as_secs_f64() * 1e3) as f32);
    TransportPanel {
        name: label.clone(),
        title: measured.choice.title(),
        sent_ms: rows.iter().map(|row| millis(row.sent.as_nanos() - first)).collect(),
        latency_ms: rows.iter().map(|row| row.rtt().map(|rtt| millis(rtt.as_nanos() as u64))).collect(),
        fate: rows.iter().map(|row| report_fate(row.fate)).collect(),
        playout_target_ms: target,
        heard: Some(Clip {
            title: format!("heard over {label}"),
            file: heard_name(label),
            colour: Some(index),
            strip: label.clone(),
            ..Clip::default()
        }),
    }
}

fn advice(advice: &antiphon_measure::Advice) -> Advice {
    Advice {
        purpose: advice.purpose.title().into(),
        transport: if advice.met { advice.transport.clone() } else { String::new() },
        because: advice.reason(),
        confidence: advice.confidence,
        sureness: advice.sureness(),
        commands: advice.commands.clone(),
        ..Advice::default()
    }
}

fn verdict(comparison: &Comparison) -> String {
    let lines: Vec<String> = comparison
        .figures
        .iter()
        .map(|f| {
            let percent = |value: Option<f64>| value.map_or("no".into(), |v| format!("{v:.2} %"));
            let p99 = f
                .rtt_ms
                .p99_ms
                .map_or("none came back".into(), |ms| format!("99 in 100 back within {ms:.0} ms"));
            format!(
                "{} lost {}, {} late, {p99}",
                f.transport,
                percent(f.lost_percent),
                percent(f.late_percent)
            )
        })
        .collect();
    format!("{}.", lines.join("; "))
}

fn meta(options: &CompareOptions, stream: &StreamPlan, comparison: &Comparison) -> Vec<(String, String)> {
    let seconds = comparison.figures.iter().map(|f| f.duration_s).fold(0.0, f64::max);
    let mut meta = vec![
        (
            "streamed".into(),
            format!(
                "{} ({}, {}), {seconds:.1} s in blocks of {} sample frames",
                options.source,
                stream.format,
                stream.sample.name(),
                options.block_frames
            ),
        ),
        ("playout delay".into(), antiphon_core::units::format_duration(options.latency)),
        ("seed".into(), options.seed.to_string()),
        ("version".into(), format!("antiphon {}", env!("CARGO_PKG_VERSION"))),
    ];
    if comparison.interrupted {
        meta.push((
            "interrupted".into(),
            "stopped before its end; the figures are of what was streamed".into(),
        ));
    }
    meta
}

fn parameters(options: &CompareOptions) -> Vec<(String, String)> {
    if options.peer.is_some() {
        return Vec::new();
    }
    let spec = &options.link.1;
    vec![("there".into(), spec.up.to_string()), ("back".into(), spec.down.to_string())]
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

fn join(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

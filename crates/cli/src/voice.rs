//! `antiphon send --voice` and `antiphon receive --voice`.

use std::time::Duration;

use antiphon::{Error, VoiceOptions, VoiceStatus, voice};
use serde_json::{Value, json};

use crate::args::Global;
use crate::exit;
use crate::output::Output;
use crate::progress::{Pace, StreamProgress};

/// Runs voice channels; returns the exit code.
pub fn run(options: &VoiceOptions, global: &Global, output: &mut Output) -> Result<u8, Error> {
    if options.sink.starts_with('-') && output.json {
        return Err(Error::usage("--json and the sink '-' both write to standard output: choose one"));
    }
    let watch = output.watch(global.time_limit)?;
    if output.json {
        let command = if options.listens { "receive" } else { "send" };
        output.timed(
            "run",
            json!({
                "command": command, "uri": options.uri, "channels": options.channels, "source": options.source,
                "sink": options.sink, "voice_size_bytes": options.size, "seed": options.seed, "version": env!("CARGO_PKG_VERSION"),
            }),
        );
    }
    let progress = std::cell::RefCell::new((StreamProgress::new(output, &watch.stop), output));
    let mut interval = Pace::new(progress.borrow().1.clock(), Duration::from_secs(1));
    let result = voice(
        options,
        &watch.stop,
        &mut |notice| {
            let (progress, output) = &*progress.borrow();
            progress.talk(&notice, output);
        },
        &mut |status| {
            let (progress, output) = &mut *progress.borrow_mut();
            if output.json && interval.is_due() {
                output.timed("interval", to_json(status));
            }
            progress.update(|| line(status), output);
        },
    );
    let (mut progress, output) = progress.into_inner();
    progress.clear();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => {
            let code = watch.exit_code().ok_or(error.clone())?;
            output.detail(&error.to_string());
            return Ok(code);
        }
    };
    for note in &summary.notes {
        output.detail(&format!("note: {note}"));
    }
    if output.json {
        output.timed("summary", to_json(&summary));
    } else {
        output.talk(&line(&summary.status));
        match &summary.files[..] {
            [] => {}
            [file] => output.talk(&format!("wrote {}", file.display())),
            [first, .., last] => output.talk(&format!(
                "wrote {} files, {} to {}",
                summary.files.len(),
                first.display(),
                last.display()
            )),
        }
    }
    if let Some(shortfall) = &summary.shortfall {
        output.error(&format!("error: {shortfall}"));
        return Ok(watch.exit_code().unwrap_or(exit::FAILED));
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

/// Voice channels on one line: what went wrong only where something did.
fn line(status: &VoiceStatus) -> String {
    let VoiceStatus { elapsed_s, sent, received, .. } = status;
    let mut line = format!("{elapsed_s:.1} s");
    if sent.channels > 0 {
        line += &format!("; sent {} channels, {} packets", sent.channels, sent.packets);
        line += &counts(&[
            (sent.overflow_bytes, "bytes overflowed"),
            (sent.paused_bytes, "bytes paused"),
            (sent.refused_bytes, "bytes refused"),
            (sent.expired, "expired"),
            (sent.lost, "lost"),
        ]);
    }
    if received.channels > 0 {
        line += &format!("; received {} channels, {} packets", received.channels, received.packets);
        line += &format!(", {} bytes missing", received.missing_bytes);
        line += &counts(&[
            (received.underflow_bytes, "underflow"),
            (received.overflow_bytes, "overflow"),
            (received.late_bytes, "late"),
            (received.comfort_noise_bytes, "of comfort noise"),
            (received.malformed, "malformed"),
        ]);
    }
    line
}

fn counts(counts: &[(u64, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, name)| format!(", {count} {name}")).collect()
}

fn to_json(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).expect("plain numbers and texts have a JSON form")
}

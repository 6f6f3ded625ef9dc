//! `antiphon send --voice` and `antiphon receive --voice`.

use std::time::Duration;

use antiphon::{Error, VoiceOptions, VoiceReceivedStatus, VoiceSentStatus, VoiceStatus, voice};
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
                "sink": options.sink, "size": options.size, "seed": options.seed, "version": env!("CARGO_PKG_VERSION"),
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
    let mut line = format!("{:.1} s", status.elapsed_s);
    let VoiceSentStatus { channels, packets, bytes, overflow, paused, refused, expired, lost, .. } =
        &status.sent;
    if *channels > 0 {
        line += &format!("; sent {channels} channels, {packets} packets, {bytes} bytes");
        for (count, name) in [
            (overflow, "bytes overflowed"),
            (paused, "bytes paused"),
            (refused, "bytes refused"),
            (expired, "expired"),
            (lost, "lost"),
        ] {
            if *count > 0 {
                line += &format!(", {count} {name}");
            }
        }
    }
    let VoiceReceivedStatus { channels, packets, taken, missing, underflow, overflow, late, .. } =
        &status.received;
    if *channels > 0 {
        line += &format!(
            "; received {channels} channels, {packets} packets, {taken} bytes, missing {missing}, underflow {underflow}, overflow {overflow}"
        );
        let others = [(late, "late"), (&status.received.comfort_noise, "of comfort noise")];
        for (count, name) in others.into_iter().filter(|(count, _)| **count > 0) {
            line += &format!(", {count} {name}");
        }
    }
    line
}

fn to_json(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).expect("plain numbers and texts have a JSON form")
}

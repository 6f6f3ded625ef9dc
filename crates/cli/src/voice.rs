//! `antiphon send --voice` and `antiphon receive --voice`.

use antiphon::{Error, VoiceOptions, VoiceRole, VoiceStatus, VoiceSummary, voice};
use serde_json::json;

use crate::args::Global;
use crate::exit;
use crate::monitor::Monitor;
use crate::output::Output;
use crate::stream::{Show, begin, check_sink, finish, stopped, to_json};

/// Runs voice channels; returns the exit code.
pub fn run(options: &VoiceOptions, global: &Global, output: &mut Output) -> Result<u8, Error> {
    check_sink(&options.sink, output)?;
    let command = match options.role {
        VoiceRole::Sender => "send",
        VoiceRole::Receiver => "receive",
    };
    let run = json!({
        "command": command, "uri": options.uri, "channels": options.channels, "source": options.source,
        "sink": options.sink, "voice_size_bytes": options.size, "seed": options.seed,
    });
    let watch = begin(run, global, output)?;
    let mut show = Show::new(output, &watch.stop, Monitor::of_service(&watch.stop)?);
    let progress = std::cell::RefCell::new(&mut show);
    let result =
        voice(options, &watch.stop, &mut |notice| progress.borrow_mut().notice(&notice), &mut |status| {
            progress.borrow_mut().status(|| line(status), || to_json(status))
        });
    show.end();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return stopped(error, &watch, output),
    };
    finish(to_json(&summary), &line(&summary.status), &summary.notes, output);
    if !output.json {
        tell_files(&summary, output);
    }
    let code = summary.shortfall.as_ref().map_or(exit::DONE, |shortfall| {
        let error = Error { kind: shortfall.kind, message: shortfall.message.clone() };
        output.error(&format!("error: {error}"));
        error.exit_code()
    });
    Ok(watch.exit_code().unwrap_or(code))
}

fn tell_files(summary: &VoiceSummary, output: &Output) {
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

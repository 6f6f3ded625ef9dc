//! `antiphon doctor`.

use std::cell::RefCell;

use antiphon::{Check, Diagnosis, DoctorProgress, Error, Verdict, doctor};
use serde_json::json;

use crate::args::{DoctorArgs, Global};
use crate::exit;
use crate::grid::{Tone, wrap};
use crate::output::Output;
use crate::progress::StreamProgress;
use crate::stream::{begin, to_json};

/// Runs the command; returns the exit code.
pub fn run(args: &DoctorArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let watch = begin(json!({ "command": "doctor" }), global, output)?;
    let mut progress = StreamProgress::new(output, &watch.stop);
    let shared = RefCell::new(&mut *output);
    let result = doctor(&args.options(), &watch.stop, &mut |told| {
        let output = &mut *shared.borrow_mut();
        match told {
            DoctorProgress::Begins(what) => progress.update(|| format!("checking {what} …"), output),
            DoctorProgress::Found(check) if output.json => output.record("check", to_json(check)),
            DoctorProgress::Found(check) => {
                let text = row(check, output);
                progress.around(|| output.result(&text));
            }
        }
    });
    progress.clear();
    let diagnosis = result?;
    let code = if diagnosis.count(Verdict::Fault) > 0 { exit::FAILED } else { exit::DONE };
    end(&diagnosis, output);
    Ok(watch.exit_code().unwrap_or(code))
}

/// A check in a line or more; what to change stands below it.
fn row(check: &Check, output: &Output) -> String {
    let (word, tone) = match check.verdict {
        Verdict::Ok => ("ok", Tone::Best),
        Verdict::Warning => ("warning", Tone::Head),
        Verdict::Fault => ("FAULT", Tone::Bad),
        Verdict::NotChecked => ("-", Tone::Dim),
    };
    let room = output.width.saturating_sub(INDENT).max(LEAST_ROOM);
    let found = wrap(&check.found, room).join(&format!("\n{:INDENT$}", ""));
    let name = format!("{:NAME$}", check.name);
    let mut text = format!("{}  {name}  {found}", output.palette.paint(tone, &format!("{word:VERDICT$}")));
    let indented = |line: String| format!("\n{:INDENT$}{line}", "");
    if let Some(change) = &check.change {
        let change = wrap(&format!("change: {change}"), room).into_iter();
        text.extend(change.map(|line| indented(output.palette.paint(Tone::Head, &line))));
    }
    text
}

fn end(diagnosis: &Diagnosis, output: &mut Output) {
    let count = |verdict| diagnosis.count(verdict);
    let (faults, warnings) = (count(Verdict::Fault), count(Verdict::Warning));
    if output.json {
        let fields = json!({
            "ok": count(Verdict::Ok), "warnings": warnings, "faults": faults,
            "not_checked": count(Verdict::NotChecked), "interrupted": diagnosis.interrupted,
        });
        return output.timed("summary", fields);
    }
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let interrupted = if diagnosis.interrupted { "; it was stopped before its end" } else { "" };
    output.talk(&format!(
        "{}, {} in {}{interrupted}",
        plural(faults, "fault"),
        plural(warnings, "warning"),
        plural(diagnosis.checks.len(), "check")
    ));
}

/// Columns of the verdicts' words.
const VERDICT: usize = 7;
/// Columns of the names: the longest of a transport without settings is `loopback sctp`.
const NAME: usize = 14;
const INDENT: usize = VERDICT + 2 + NAME + 2;
/// Prose in fewer columns is unreadable.
const LEAST_ROOM: usize = 24;

//! Runs the built program, without the settings of the user who runs the tests.

use std::process::{Command, Output};

/// Results of a run.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The program with no terminal and a clean environment.
pub fn antiphon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ANTIPHON_") {
            command.env_remove(name);
        }
    }
    command.env_remove("COLUMNS").env_remove("NO_COLOR").stdin(std::process::Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Ran {
    finish(antiphon().args(arguments))
}

/// Runs a prepared command to its end.
pub fn finish(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// The widest line.
pub fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

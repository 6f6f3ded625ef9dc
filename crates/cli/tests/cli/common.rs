//! Runs the built program, without the settings of the user who runs the tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

pub use antiphon_testkit::free_ports;

/// A machine that holds up a thread for so long may make sound late that is played 80 ms after it was captured.
pub const HELD_UP: Duration = Duration::from_millis(20);
/// The same for sound that is played 400 ms after it was captured, or later.
pub const HELD_UP_LONG: Duration = Duration::from_millis(100);

/// Results of a run.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The program with no terminal and a clean environment.
pub fn antiphon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    clean(&mut command).env_remove("COLUMNS").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Without the settings of the user who runs the tests.
pub fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ANTIPHON_")) {
        command.env_remove(name);
    }
    command
}

/// A program that listens, once it says so, and what else it says.
pub fn listening(arguments: &[&str], says: &str) -> (Child, JoinHandle<String>) {
    let mut command = antiphon();
    command.args(arguments).args(["--time-limit", "60s"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains(says)), "{arguments:?}");
    // What it says later must find a reader.
    (child, std::thread::spawn(move || said.collect::<Vec<_>>().join("\n")))
}

/// Every transport.
pub const SCHEMES: [&str; 7] = ["rtp", "tcp", "sctp", "dccp", "srp", "arq", "xtp"];

/// The URI to listen on: a TCP address is called unless it is marked as one to listen on.
pub fn source(scheme: &str, port: u16) -> String {
    let at = if scheme == "tcp" { "@" } else { "" };
    format!("{scheme}://{at}127.0.0.1:{port}")
}

/// The sound in a WAV file.
pub fn recorded(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let at = file.windows(4).position(|name| name == b"data").expect("a data chunk") + 8;
    let len = u32::from_le_bytes(file[at - 4..at].try_into().expect("four bytes")) as usize;
    file[at..at + len].to_vec()
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

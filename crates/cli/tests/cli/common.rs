//! Runs the built program, without the settings of the user who runs the tests.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

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

/// So many adjacent ports that were free for datagrams and connections a moment ago: the first of them.
pub fn free_ports(count: u16) -> u16 {
    let port = || UdpSocket::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound").port();
    let is_free = |port: u16| {
        TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok()
    };
    let all_free = |first: &u16| (*first..*first + count).all(is_free);
    (0..100).map(|_| port()).filter(|port| *port < 60_000).find(all_free).expect("free ports")
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

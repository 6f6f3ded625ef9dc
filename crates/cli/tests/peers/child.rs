//! Programs under test: started, read, and killed when the test ends, in whatever way.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::net::OsClock;
use serde_json::Value;

use crate::common;

/// A program under way. Killed when dropped.
pub struct Child {
    name: String,
    process: std::process::Child,
    lines: Receiver<Line>,
    heard: Vec<Line>,
    clock: OsClock,
    deadline: Instant,
}

/// A line, and whether it came on standard error.
type Line = (bool, String);

/// Results of a program.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Child {
    /// Starts `command`, which must end within `time`.
    pub fn start(command: &mut Command, time: Duration) -> Self {
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; scripts/install-peers brings what is missing"));
        let (sender, lines) = channel();
        pass_on(process.stdout.take().expect("piped"), false, sender.clone());
        pass_on(process.stderr.take().expect("piped"), true, sender);
        let clock = OsClock::new();
        let deadline = clock.now() + time;
        Child { name, process, lines, heard: Vec::new(), clock, deadline }
    }

    /// Waits for a line with `text` in it; answers the line.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.wait_until(&format!("'{text}'"), |line| line.contains(text))
    }

    /// Waits for a line that `is_it`; answers the line.
    pub fn wait_until(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        match self.next_that(is_it) {
            Some(line) => line,
            None => panic!("{} ended without {what}:\n{}", self.name, self.transcript()),
        }
    }

    /// Waits until a receiver with `--json` has played more than so many seconds.
    pub fn wait_until_played(&mut self, seconds: f64) {
        assert!(
            self.plays(seconds),
            "{} ended without {seconds} s of sound:\n{}",
            self.name,
            self.transcript()
        );
    }

    /// Waits until a receiver with `--json` has played more than so many seconds, or ends; answers whether it has.
    pub fn plays(&mut self, seconds: f64) -> bool {
        let has_played = |line: &str| {
            // Sentences between the records are none.
            let Ok(record) = serde_json::from_str::<Value>(line) else { return false };
            record["played_s"].as_f64().is_some_and(|played| played > seconds)
        };
        self.next_that(has_played).is_some()
    }

    /// Waits for a line that `is_it`, or the end.
    fn next_that(&mut self, is_it: impl Fn(&str) -> bool) -> Option<String> {
        while let Some((_, line)) = self.next() {
            if is_it(&line) {
                return Some(line);
            }
        }
        None
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        while self.next().is_some() {}
        let status = self.process.wait().expect("it is our child");
        let all = |err: bool| -> String {
            self.heard.iter().filter(|line| line.0 == err).map(|line| format!("{}\n", line.1)).collect()
        };
        Ended { code: status.code(), out: all(false), err: all(true) }
    }

    /// Waits for an end with exit code 0.
    pub fn succeed(self) -> Ended {
        let name = self.name.clone();
        let ended = self.end();
        assert_eq!(ended.code, Some(0), "{name}:\n{}{}", ended.out, ended.err);
        ended
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Like Ctrl-C.
    pub fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.expect("kill is everywhere").success(), "{} is gone already", self.name);
    }

    /// Asks it to end, and waits until it has, or its time is over. Never panics: for drops.
    pub fn terminate(self) {
        let asked = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        if asked.is_ok_and(|status| status.success()) {
            while self.lines.recv_timeout(self.deadline.since(self.clock.now())).is_ok() {}
        }
    }

    /// The next line; `None` once both streams are closed.
    fn next(&mut self) -> Option<Line> {
        match self.lines.recv_timeout(self.deadline.since(self.clock.now())) {
            Ok(line) => {
                self.heard.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} is not done in time:\n{}", self.name, self.transcript())
            }
        }
    }

    fn transcript(&self) -> String {
        self.heard.iter().map(|(_, line)| format!("  {line}\n")).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already, which is harmless.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    /// The JSON records on standard output of one kind.
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let all = self.out.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        all.filter(|record| record["record"] == kind).collect()
    }

    /// The last record.
    pub fn summary(&self) -> Value {
        self.records("summary").pop().unwrap_or_else(|| panic!("no summary:\n{}{}", self.out, self.err))
    }
}

fn pass_on(stream: impl Read + Send + 'static, err: bool, sender: Sender<Line>) {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send((err, text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// The program under test, without the settings of the user who runs the tests.
pub fn antiphon<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = common::antiphon();
    command.args(arguments);
    command
}

/// The same behind another program, such as `ip netns exec NAME`.
pub fn antiphon_by<'a>(by: &[&str], arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(by[0]);
    common::clean(&mut command).args(&by[1..]).arg(env!("CARGO_BIN_EXE_antiphon")).args(arguments);
    command
}

/// Another program, with its arguments in one line.
pub fn program(line: &str) -> Command {
    let mut words = line.split_ascii_whitespace();
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Even ports, each with the one above, for UDP and TCP: what RTP and RTCP take. Other programs, which take any free port for
/// themselves, don't get them.
pub fn free_ports(count: usize) -> Vec<u16> {
    (0..count).map(|_| common::free_ports(2)).collect()
}

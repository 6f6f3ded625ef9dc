//! A program under test: listened to, and gone when its deadline comes, however the test ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::net::OsClock;

/// A program under way.
pub struct Program {
    name: String,
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    clock: OsClock,
    deadline: Instant,
}

impl Program {
    /// Starts `command`, which must end within `time`.
    pub fn start(command: &mut Command, time: Duration) -> Self {
        let name = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (sender, lines) = channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _the_test_is_over = sender.send(line);
                }
            });
        }
        let clock = OsClock::new();
        let deadline = clock.now() + time;
        Program { name, child, lines, heard: Vec::new(), clock, deadline }
    }

    /// Waits for a line that begins with `start`; returns the rest of it.
    pub fn line(&mut self, start: &str) -> String {
        loop {
            let line = self.next().unwrap_or_else(|| panic!("no line '{start}…' from {}", self.said()));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_string();
            }
        }
    }

    /// Waits for its next line.
    pub fn any_line(&mut self) -> String {
        self.next().unwrap_or_else(|| panic!("no line from {}", self.said()))
    }

    /// Ends its input, and waits for its end, which must be a success; answers all that it said.
    pub fn succeeds(mut self) -> String {
        drop(self.child.stdin.take());
        while self.next().is_some() {}
        let status = self.child.wait().expect("a child of ours");
        assert!(status.success(), "{status}: {}", self.said());
        self.heard.join("\n")
    }

    /// The next line, or `None` when both its outputs have ended.
    fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(self.deadline.since(self.clock.now())) {
            Ok(line) => {
                self.heard.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it does not end in time: {}", self.said()),
        }
    }

    fn said(&self) -> String {
        format!("{}:\n{}", self.name, self.heard.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Harmless when it has ended.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

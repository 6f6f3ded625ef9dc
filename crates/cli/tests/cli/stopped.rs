//! A program that is stopped and goes on, as one that is frozen or suspended with its machine does.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::{antiphon, free_ports};

/// A program and what it writes.
struct Running {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    said: std::thread::JoinHandle<Vec<String>>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = antiphon();
        command.args(arguments).args(["--json", "--time-limit", "60s"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        Running { child, out, said: std::thread::spawn(move || said.collect()) }
    }

    /// A figure of the next record of its kind; one comes each second.
    fn next(&mut self, figure: &str) -> f64 {
        let interval = self.out.by_ref().map_while(Result::ok).find(|line| line.contains("\"interval\""));
        let record: serde_json::Value =
            serde_json::from_str(&interval.expect("it goes on")).expect("a record");
        record[figure].as_f64().unwrap_or_else(|| panic!("no {figure}: {record}"))
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    }

    /// Ends it. Returns how often it said that it stood still.
    fn end(mut self) -> usize {
        self.signal("INT");
        self.child.wait().expect("our child");
        let said = self.said.join().expect("no panic");
        said.iter().filter(|line| line.contains("this program stood still for")).count()
    }
}

/// Records while one stands still, one a second: five seconds are told, and two may have been written before.
const STOPPED: usize = 8;

/// Time passes by the records of the other program.
#[test]
#[ignore = "a program stands still for some seconds, twice"]
fn a_program_that_was_stopped_says_so_once_and_goes_on() {
    let address = format!("rtp://127.0.0.1:{}", free_ports(2));
    let mut receiver = Running::start(&["receive", &address, "null:", "--latency", "80ms"]);
    let mut sender = Running::start(&["send", "tone:440Hz", &address]);
    receiver.next("packets_received");
    receiver.signal("STOP");
    for _ in 0..STOPPED {
        sender.next("monotonic_s");
    }
    receiver.signal("CONT");
    // The record in which it stood still, and two of the stream that goes on, with the delay that it had.
    let [_, before, after] = [0; 3].map(|_| receiver.next("packets_received"));
    assert!(after - before > 100.0, "{before} and {after} packets");
    assert!(receiver.next("buffer_ms") <= 90.0);
    sender.signal("STOP");
    // Without packets a receiver has records, too.
    for _ in 0..STOPPED {
        receiver.next("packets_received");
    }
    sender.signal("CONT");
    let [_, _, before, after] = [0; 4].map(|_| receiver.next("packets_received"));
    assert!(after - before > 100.0, "{before} and {after} packets");
    assert!(receiver.next("buffer_ms") <= 90.0);
    assert_eq!((sender.end(), receiver.end()), (1, 1));
}

//! usrsctp, SCTP in user space by another project, over UDP on this machine.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use antiphon_core::CloseReason;

use crate::guest::{Guest, Running, figure, guest};
use crate::party::{Node, Server, call};
use crate::sctp::echoed;

/// UDP ports, theirs and ours; and the SCTP port of either listener.
const THEIRS: u16 = 9900;
const OURS: u16 = 9899;
const PORT: u16 = 5004;

/// Compiles the program beside this file.
fn build(directory: &Path) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/usrsctp_peer.c");
    let program = directory.join("usrsctp_peer");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
    let output = compiler.args(["-lusrsctp", "-lpthread"]).output().expect("gcc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\nscripts/install-peers brings libusrsctp-dev");
    program
}

/// Their program in our namespace.
struct Theirs(Running);

impl Theirs {
    fn start(guest: &Guest, program: &Path, arguments: &str) -> Self {
        let mut command = guest.here(program.to_str().expect("a plain path"));
        command.args(arguments.split(' ')).stdout(Stdio::piped());
        Theirs(Running(command.spawn().expect("it was built")))
    }

    fn printed(mut self) -> String {
        let mut text = String::new();
        self.0.0.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        text
    }
}

fn sound(node: &mut Node, count: usize, len: usize) {
    echoed(node, count, len, Duration::from_millis(2));
    assert_eq!(node.party.endpoint.stats().counters.malformed, 0);
}

#[test]
#[ignore = "needs root, usrsctp and gcc; scripts/install-peers brings them"]
fn usrsctp_and_we_call_each_other() {
    let guest = guest();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path());
    {
        let mut theirs = Theirs::start(&guest, &program, &format!("server {THEIRS} {PORT}"));
        let mut lines = BufReader::new(theirs.0.0.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "READY");
        for query in [
            "reliability=full&order=ordered",
            "reliability=full&style=many&streams=4",
            "reliability=full&interleaving=on",
        ] {
            let uri = format!("sctp://127.0.0.1:{THEIRS}?sctp-port={PORT}&{query}");
            call(&guest, &uri, |node| sound(node, 60, 300));
        }
        let large = format!("sctp://127.0.0.1:{THEIRS}?sctp-port={PORT}&reliability=full");
        call(&guest, &large, |node| sound(node, 3, 200_000));
    }
    for (query, options, count, len) in [
        ("reliability=full&order=ordered", "", 60, 300),
        ("reliability=full", " unordered", 60, 300),
        ("reliability=full", " unordered", 3, 200_000),
        ("reliability=deadline&order=ordered", " ttl=2000", 60, 300),
    ] {
        let uri = format!("sctp://:{OURS}?sctp-port={PORT}&{query}");
        let server = Server::start(&guest, &uri);
        let arguments = format!("client {THEIRS} 127.0.0.1 {OURS} {PORT} {count} {len}{options}");
        let printed = Theirs::start(&guest, &program, &arguments).printed();
        let ours = server.end();
        let what = format!("{uri}, {arguments}: {printed}{}", ours.state);
        assert_eq!((figure(&printed, "recv"), figure(&printed, "bad")), (count, 0), "{what}");
        assert_eq!((ours.closed, ours.malformed), (Some(CloseReason::Peer), 0), "{what}");
    }
}

//! A stream that runs as a service: notifications to its manager, metrics, units.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{antiphon, finish, free_ports, run};

/// Stands for systemd.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        // Only for a program that never says it: the test then fails.
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Manager { socket, path, _directory: directory }
    }

    /// A program that it starts with a watchdog of so long.
    fn starts(&self, watchdog_us: u32, arguments: &[&str]) -> Child {
        let mut command = antiphon();
        command
            .args(arguments)
            .env("NOTIFY_SOCKET", &self.path)
            .env("WATCHDOG_USEC", watchdog_us.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the next notification that contains this line.
    fn hears(&self, line: &str) -> String {
        let mut buf = [0; 2000];
        loop {
            let len = match self.socket.recv(&mut buf) {
                // With a time-out it isn't repeated when the machine has stood still (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                heard => heard.unwrap_or_else(|error| panic!("{line}: {error}")),
            };
            let text = String::from_utf8_lossy(&buf[..len]).into_owned();
            if text.lines().any(|one| one.starts_with(line)) {
                return text;
            }
        }
    }
}

/// Asks it to end, as a manager does.
pub fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

#[test]
fn a_manager_hears_that_it_is_ready_alive_and_ending() {
    let at = free_ports(8);
    let (rtp, listen) = (format!("rtp://127.0.0.1:{at}"), format!("127.0.0.1:{at}"));
    for arguments in [
        &["receive", &rtp, "null:", "--forever"][..],
        &["reflect", "--listen", &listen, "-t", "rtp,tcp"],
        &["talk", &format!("rtp://@127.0.0.1:{at}"), "--source", "tone:440Hz", "--sink", "null:"],
    ] {
        let manager = Manager::new();
        let mut child = manager.starts(600_000, arguments);
        manager.hears("READY=1");
        // In 0.2 s each, as long as it lives.
        (0..3).for_each(|_| drop(manager.hears("WATCHDOG=1")));
        terminate(&child);
        manager.hears("STOPPING=1");
        assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
    }
}

#[test]
fn a_sender_tells_its_state_in_words() {
    let manager = Manager::new();
    let uri = format!("rtp://127.0.0.1:{}", free_ports(1));
    let mut receiver = antiphon();
    let receive = ["receive", &uri, "null:", "--time-limit", "60s"];
    let mut receiver = receiver.args(receive).stderr(Stdio::piped()).spawn().unwrap();
    BufReader::new(receiver.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let mut child = manager.starts(600_000, &["send", "tone:440Hz?seconds=2s", &uri]);
    let told = manager.hears("READY=1");
    assert!(told.contains("STATUS="), "{told}");
    manager.hears("STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    receiver.wait().unwrap();
}

#[test]
fn a_manager_that_cannot_be_told_is_an_error_before_anything_begins() {
    let mut command = antiphon();
    let arguments = ["receive", "rtp://127.0.0.1:0", "null:"];
    let ran = finish(command.args(arguments).env("NOTIFY_SOCKET", "nowhere"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("NOTIFY_SOCKET"), "{}", ran.err);
}

/// What is served at `http://ADDRESS/metrics`, in a line of the program's messages.
fn scraped(line: &str) -> String {
    let address = line.strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let mut client = TcpStream::connect(address.unwrap_or_else(|| panic!("{line}"))).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_of_a_running_stream_are_served() {
    let uri = format!("rtp://127.0.0.1:{}", free_ports(1));
    let mut command = antiphon();
    command.args(["receive", &uri, "null:", "--metrics", ":0", "--forever", "--time-limit", "60s"]);
    let mut receiver = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(receiver.stderr.take().unwrap()).lines().map_while(Result::ok);
    let at = lines.next().expect("where metrics are");
    assert!(at.contains("127.0.0.1:"), "{at}");
    assert!(lines.any(|line| line.contains("waiting") || line.contains("listening")));
    let sent = run(&["send", "tone:440Hz", &uri, "--seconds", "500ms"]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    // The sender's packets have come; the state is told ten times a second.
    let packets = |text: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with("antiphon_packets_received_total "))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let text = std::iter::repeat_with(|| scraped(&at)).take(1000).find(|text| packets(text) > Some(90.0));
    let text = text.expect("packets are counted");
    assert!(text.contains("antiphon_info{version=") && text.ends_with("# EOF\n"), "{text}");
    terminate(&receiver);
    assert_eq!(receiver.wait().unwrap().code(), Some(130));
    let wrong = run(&["receive", &uri, "null:", "--metrics", "9464"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    let voice = run(&["receive", &uri, "null:", "--voice", "--metrics", ":0"]);
    assert_eq!(voice.code, Some(2), "{}", voice.err);
}

/// The units, as systemd would read them with this program.
#[test]
fn the_units_are_valid() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/systemd");
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for unit in std::fs::read_dir(units).unwrap() {
        let unit = unit.unwrap();
        let text = std::fs::read_to_string(unit.path()).unwrap();
        let command = format!("ExecStart={}", env!("CARGO_BIN_EXE_antiphon"));
        assert!(text.contains("\nExecStart=antiphon ") && text.contains("\nType=notify\n"), "{text}");
        let name = unit.file_name().into_string().unwrap().replace("@.", "@stage.");
        let path = directory.path().join(name);
        std::fs::write(&path, text.replace("ExecStart=antiphon", &command)).unwrap();
        paths.push(path);
    }
    assert!(paths.len() >= 3);
    let checked = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&paths).output();
    let Ok(checked) = checked else { return eprintln!("systemd is not installed: units are not checked") };
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

/// An RTP packet of 5 ms of mu-law.
fn rtp(ssrc: u32, sequence: u16) -> Vec<u8> {
    let (sequence, timestamp) = (sequence.to_be_bytes(), (u32::from(sequence) * 40).to_be_bytes());
    [&[0x80, 0][..], &sequence, &timestamp, &ssrc.to_be_bytes(), &[0xFF; 40]].concat()
}

#[test]
fn a_fault_that_lasts_is_told_in_few_lines() {
    let port = free_ports(1);
    let uri = format!("rtp://127.0.0.1:{port}");
    let mut command = antiphon();
    command.args(["receive", &uri, "null:", "--forever", "--time-limit", "60s"]).stderr(Stdio::piped());
    let mut receiver = command.spawn().unwrap();
    let mut lines = BufReader::new(receiver.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().expect("it listens");
    let said = std::thread::spawn(move || lines.collect::<Vec<_>>());
    // One sender streams; then every packet beside its own is of another one, each of which is told.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silence = UdpSocket::bind("127.0.0.1:0").unwrap();
    silence.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    for n in 0..500u16 {
        socket.send_to(&rtp(1, n), ("127.0.0.1", port)).unwrap();
        if n > 20 {
            socket.send_to(&rtp(0xABCD_0000 + u32::from(n), n), ("127.0.0.1", port)).unwrap();
        }
        // The pace of the packets: nothing comes here.
        assert!(silence.recv(&mut [0]).is_err());
    }
    terminate(&receiver);
    assert_eq!(receiver.wait().unwrap().code(), Some(130));
    let said = said.join().unwrap();
    let of_others = said.iter().filter(|line| line.contains("also sends")).count();
    assert_eq!(of_others, 5, "{first}\n{}", said.join("\n"));
    assert!(said.iter().any(|line| line.contains("were left out; -v shows all")), "{}", said.join("\n"));
}

//! `--screen` in a terminal that `script` (util-linux) provides.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::common::{antiphon, clean, finish, free_ports};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The program in a terminal of 80 x 24; its settings are printed before and after, and the exit code.
///
/// Ctrl-C reaches the shell too, which must go on to print them: some shells end with it, so it is told to catch it.
fn in_terminal(arguments: &str) -> Child {
    let program = env!("CARGO_BIN_EXE_antiphon");
    let line = format!(
        "trap : INT; stty cols 80 rows 24; echo before=$(stty -g); {program} {arguments} --time-limit 60s; echo code=$?; \
         echo after=$(stty -g)"
    );
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    clean(&mut command).spawn().expect("script of util-linux")
}

/// Reads what the terminal is sent until `text` has come, or to the end.
fn read_until(output: &mut impl Read, seen: &mut String, text: Option<&str>) {
    let mut bytes = [0; 4096];
    while !text.is_some_and(|text| seen.contains(text)) {
        match output.read(&mut bytes) {
            Ok(count) if count > 0 => seen.push_str(&String::from_utf8_lossy(&bytes[..count])),
            _ => return,
        }
    }
}

/// The word after `name`.
fn word<'a>(seen: &'a str, name: &str) -> &'a str {
    let after = seen.split_once(name).unwrap_or_else(|| panic!("{name}: {seen}")).1;
    after.split_whitespace().next().unwrap_or_else(|| panic!("nothing after {name}: {seen}"))
}

/// Runs until `shows` is on the screen, presses `keys`, and returns all that the terminal was sent.
fn pressed(arguments: &str, shows: &str, keys: &[u8]) -> String {
    let mut child = in_terminal(arguments);
    let (mut keyboard, mut output) =
        (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut seen = String::new();
    read_until(&mut output, &mut seen, Some(shows));
    keyboard.write_all(keys).expect("the program reads its keys");
    read_until(&mut output, &mut seen, None);
    child.wait().expect("our child");
    seen
}

/// It was left once, and the terminal is as it was.
fn is_restored(seen: &str) {
    assert_eq!((seen.matches(ENTER).count(), seen.matches(LEAVE).count()), (1, 1), "{seen}");
    assert!(seen.find(ENTER) < seen.find(LEAVE), "{seen}");
    assert!(seen.rfind("\x1b[?25l") < seen.rfind("\x1b[?25h"), "the cursor is shown again: {seen}");
    assert_eq!(word(seen, "before="), word(seen, "after="), "{seen}");
}

#[test]
fn q_ends_and_the_terminal_is_as_before() {
    let port = free_ports(1);
    let seen = pressed(&format!("receive rtp://127.0.0.1:{port} null: --screen"), "What", b"q");
    is_restored(&seen);
    assert_eq!(word(&seen, "code="), "130", "as Ctrl-C: {seen}");
    // What was told on the screen is on the terminal afterwards, and the summary.
    let after = seen.split_once(LEAVE).expect("left").1;
    assert!(after.contains(&format!("127.0.0.1:{port}")) && after.contains("played 0.0 s"), "{after}");
}

#[test]
fn ctrl_c_ends_and_the_terminal_is_as_before() {
    let port = free_ports(1);
    let seen = pressed(
        &format!("talk rtp://127.0.0.1:{port} --source tone:440Hz --sink null: --wait-for-peer --screen"),
        "mutes",
        b"\x03",
    );
    is_restored(&seen);
    assert_eq!(word(&seen, "code="), "130", "{seen}");
}

#[test]
fn an_error_leaves_the_screen_before_it_is_told() {
    let port = free_ports(1);
    // Nobody listens there: it gives up after a second and a half.
    let seen = pressed(&format!("send tone:440Hz rtp://127.0.0.1:{port} --screen"), "What", b"");
    is_restored(&seen);
    assert_eq!(word(&seen, "code="), "4", "{seen}");
    let after = seen.split_once(LEAVE).expect("left").1;
    assert!(after.contains("error: the receiver cannot be reached"), "{after}");
}

#[test]
fn a_stream_that_ends_closes_the_screen() {
    let port = free_ports(1);
    let mut child = in_terminal(&format!("receive rtp://127.0.0.1:{port} null: --screen"));
    let mut output = child.stdout.take().expect("piped");
    let mut seen = String::new();
    read_until(&mut output, &mut seen, Some("What"));
    let target = format!("rtp://127.0.0.1:{port}");
    let sent = finish(antiphon().args(["send", "tone:440Hz?seconds=1s&channels=2", &target]));
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    read_until(&mut output, &mut seen, None);
    child.wait().expect("our child");
    is_restored(&seen);
    assert_eq!(word(&seen, "code="), "0", "{seen}");
}

#[test]
fn without_a_terminal_the_remedy_is_named() {
    for arguments in [
        "receive rtp://127.0.0.1:7710 null: --screen",
        "send tone:440Hz rtp://127.0.0.1:7710 --screen",
        "talk rtp://127.0.0.1:7710 --source tone:440Hz --sink null: --screen",
    ] {
        let ran = finish(antiphon().args(arguments.split(' ')));
        assert_eq!(ran.code, Some(2), "{arguments}: {}", ran.err);
        assert!(ran.err.contains("needs a terminal") && ran.err.contains("omit --screen"), "{}", ran.err);
        for (other, says) in [("--json", "choose one"), ("-q", "choose one")] {
            let ran = finish(antiphon().args(arguments.split(' ')).arg(other));
            assert_eq!(ran.code, Some(2), "{arguments} {other}: {}", ran.err);
            assert!(
                ran.err.contains(other.trim_start_matches('-')) || ran.err.contains("--quiet"),
                "{}",
                ran.err
            );
            assert!(ran.err.contains(says), "{}", ran.err);
        }
    }
}

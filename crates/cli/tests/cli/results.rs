//! Output: tables without colour by default, valid JSON, exit codes, signals.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

use crate::common::{antiphon, finish, run, width};
use serde_json::Value;

fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn tables_fit_and_colour_is_only_there_when_asked_for() {
    for columns in ["60", "80", "120"] {
        for arguments in [&["devices"][..], &["link", "--list"]] {
            let ran = finish(antiphon().args(arguments).env("COLUMNS", columns));
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
            assert!(width(&ran.out) <= columns.parse().unwrap(), "{arguments:?} at {columns}:\n{}", ran.out);
            assert!(!ran.out.contains('\x1b'));
        }
    }
    assert!(run(&["devices", "--color", "always"]).out.contains('\x1b'));
    let ran = finish(antiphon().args(["devices", "--color", "never"]).env("CLICOLOR_FORCE", "1"));
    assert!(!ran.out.contains('\x1b'));
}

#[test]
fn devices_and_presets_as_records() {
    let devices = records(&run(&["devices", "--json"]).out);
    assert!(devices.iter().all(|device| device["record"] == "device" && device["schema"] == 1));
    assert!(
        devices.iter().any(|device| device["source"].as_str().is_some_and(|uri| uri.starts_with("clip:")))
    );
    let presets = records(&run(&["link", "--list", "--json"]).out);
    let names: Vec<&str> = presets.iter().filter_map(|preset| preset["name"].as_str()).collect();
    let wanted = ["ethernet", "wifi-home", "wifi-busy", "dsl", "lte", "intercontinental", "satellite"];
    assert!(wanted.iter().all(|name| names.contains(name)), "{names:?}");
}

/// A link that has printed its address.
fn started_link(arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, Value) {
    let mut child = antiphon()
        .args(["link", "--json", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    (child, lines, serde_json::from_str(&first).unwrap())
}

fn port(run: &Value) -> u16 {
    let place = run["where"].as_str().unwrap();
    let digits = place.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    digits.parse().unwrap()
}

#[test]
fn a_link_loses_what_its_counters_say_and_ends_at_a_signal() {
    // Few enough for the far socket to hold them all before anything is read.
    const SENT: u64 = 150;
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_nonblocking(true).unwrap();
    let to = far.local_addr().unwrap().to_string();
    let (child, mut lines, run) = started_link(&["--to", &to, "--loss", "20%", "--seed", "7"]);
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..SENT {
        near.send_to(&number.to_be_bytes(), ("127.0.0.1", port(&run))).unwrap();
    }
    // Its counters of each second: all of them have come to it, and are on their way no more.
    let mut has_all = false;
    while !has_all {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        let up = records(&line).remove(0)["flows"][0]["up"].take();
        has_all = up["offered"] == SENT && up["queued"] == 0 && up["in_flight"] == 0;
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.lines().map(Result::unwrap).collect();
    let mut child = child;
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = records(&rest.join("\n")).pop().unwrap();
    assert_eq!(summary["record"], "summary");
    let up = &summary["flows"][0]["up"];
    assert_eq!(up["offered"], SENT);
    assert_eq!(up["balances"], true);
    let (mut arrived, mut buf) = (0, [0; 16]);
    while far.recv(&mut buf).is_ok() {
        arrived += 1;
    }
    // To the frame; and 20 % of 150 is 30 give or take 5 (one standard deviation): a link that loses nothing, or ten
    // times as much, is far outside.
    assert_eq!(up["delivered"], arrived);
    assert_eq!(up["lost"].as_u64().unwrap() + arrived, SENT);
    assert!((10..=50).contains(&(SENT - arrived)), "{arrived}");
}

#[test]
fn a_time_limit_has_a_code_of_its_own_and_an_end_has_none() {
    let limit = run(&["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--time-limit", "50ms"]);
    assert_eq!(limit.code, Some(124), "{}", limit.err);
    assert!(limit.out.contains("No traffic."), "{}", limit.out);
    let end =
        run(&["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--seconds", "50ms", "--quiet"]);
    assert_eq!((end.code, end.err.as_str()), (Some(0), ""));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = run(&["link", "--listen", &address, "--to", "127.0.0.1:9", "--seconds", "50ms"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(&address), "{}", ran.err);
}

#[test]
fn a_comparison_in_records_with_gates() {
    let directory = tempfile::tempdir().unwrap();
    let compare = |gate: &str| {
        let mut command = antiphon();
        command.args(["compare", "--json", "--seconds", "400ms", "--out", "none", "--link-method", "proxy"]);
        finish(command.args(["--link", "ideal", "--require", gate]).current_dir(&directory))
    };
    let met = compare("rtp:loss<100%,p99<60s");
    assert_eq!(met.code, Some(0), "{}", met.err);
    let lines = records(&met.out);
    assert!(met.out.starts_with(r#"{"record":"run","schema":1,"#));
    assert_eq!(
        (&lines[0]["record"], &lines[0]["schema"], &lines[0]["seed"]),
        (&"run".into(), &1.into(), &1.into())
    );
    let of = |kind: &str| lines.iter().filter(|line| line["record"] == kind).count();
    let transports = antiphon::proto::TRANSPORTS.len();
    assert_eq!((of("transport"), of("advice"), of("link"), of("end")), (transports, 5, 1, 1));
    let rtp = lines.iter().find(|line| line["transport"] == "rtp" && line["record"] == "transport").unwrap();
    assert!(rtp["packets_sent"].as_u64().unwrap() > 50 && rtp["rtt_ms"]["p999"].is_number(), "{rtp}");
    assert!(
        met.out.lines().any(|line| line.starts_with(r#"{"record":"transport","schema":1,"transport":"rtp""#))
    );
    let missed = compare("tcp:p50<1ns");
    assert_eq!(missed.code, Some(3), "{}", missed.err);
    assert!(missed.err.contains("tcp: p50<"), "{}", missed.err);
    assert!(std::fs::read_dir(&directory).unwrap().next().is_none(), "no report was asked for");
}

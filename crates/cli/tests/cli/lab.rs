//! The laboratory on the command line: errors in a scenario, results that do not depend on threads or interruptions,
//! full disks.

use std::path::Path;
use std::process::Stdio;

use crate::common::{Ran, antiphon, finish};

const EXAMPLE: &str = include_str!("../../../lab/scenarios/example-two-streams-on-dsl.toml");

/// A short scenario with losses of its own, so that seeds matter.
fn scenario(repetitions: u32, duration: &str) -> String {
    EXAMPLE
        .replace("value = 5,", &format!("value = {repetitions},"))
        .replace("value = \"60s\"", &format!("value = \"{duration}\""))
        .replace("value = \"5s\"", "value = \"500ms\"")
}

/// A directory with `test.toml` in it.
fn directory(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("test.toml"), text).unwrap();
    directory
}

fn lab(directory: &Path, arguments: &[&str]) -> Ran {
    finish(antiphon().current_dir(directory).arg("lab").args(arguments))
}

fn results(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

#[test]
fn bad_scenarios_are_refused_with_file_line_and_remedy() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("unknown key", "nodes =", "nodse =", &["test.toml:20:1", "'nodse'", "'nodes'"]),
        ("impossible number", "\"100Mbit/s\"", "\"100Tbit/s\"", &["test.toml:21:", "Gbit/s"]),
        ("missing unit", "value = \"20ms\"", "value = \"20\"", &["has no unit", "20ms"]),
        (
            "a loop",
            "[traffic.upload]",
            "[cable.extra]\nbetween = [\"talker\", \"office\"]\n[traffic.upload]",
            &["[cable.extra] makes a loop", "[switch.house]", "[link.line]"],
        ),
        ("zero rate", "value = \"2Mbit/s\"", "value = \"0Mbit/s\"", &["1kbit/s"]),
        ("no such transport", "[\"rtp\", \"tcp\"]", "[\"rtp\", \"tpc\"]", &["'tpc'", "'tcp'", "$transport"]),
        ("one name twice", "[stream.up]", "[stream.line]", &["[link.line]", "another"]),
        ("one name twice", "[node.office]", "[node.router]", &["test.toml:16:", "defined twice"]),
        ("not TOML", "title = ", "title ", &["test.toml:6:"]),
    ];
    for (what, right, wrong, parts) in cases {
        assert!(EXAMPLE.contains(right), "{right}");
        let directory = directory(&EXAMPLE.replacen(right, wrong, 1));
        for command in ["run", "check"] {
            let ran = lab(directory.path(), &[command, "test.toml"]);
            assert_eq!(ran.code, Some(2), "{what}: {}", ran.err);
            assert!(ran.err.starts_with("error: test.toml:") && ran.err.contains('^'), "{what}: {}", ran.err);
            assert!(parts.iter().all(|part| ran.err.contains(part)), "{what}: {parts:?}: {}", ran.err);
            assert!(!directory.path().join("antiphon-lab").exists());
        }
    }
}

#[test]
fn what_cannot_be_found_or_read_is_said() {
    let directory = directory("\u{feff}");
    std::fs::write(directory.path().join("bad.toml"), b"title = 'x'\n\xff\xfe").unwrap();
    for (arguments, parts) in [
        (&["run", "missing.toml"][..], &["missing.toml", "No such file"][..]),
        (&["run", "bad.toml"], &["line 2 is not UTF-8"]),
        (&["run", "test.toml"], &["test.toml:1:"]),
        (&["run", "tv-audoi"], &["'tv-audoi'"]),
        (&["run"], &["<TARGET>"]),
        (&["run", "a.toml", "--threads", "0"], &["1 to 256"]),
        (&["run", "a.toml", "--set", "loss"], &["loss=0%,5%"]),
        (&["run", "a.toml", "--repetitions", "0"], &["1 to 100000"]),
        (&["run", "a.toml", "--run", "1", "--fresh"], &["cannot be used with"]),
        (&["run", "a.toml", "--capture", "line=x.pcapng"], &["--run"]),
        (&["run", "a.toml", "--run", "1", "--capture", "line"], &["line=talk.pcapng"]),
    ] {
        let ran = lab(directory.path(), arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.err);
        assert!(parts.iter().all(|part| ran.err.contains(part)), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_report_without_results_says_what_to_run() {
    let directory = tempfile::tempdir().unwrap();
    let ran = lab(directory.path(), &["report"]);
    assert!(ran.code == Some(1) && ran.err.contains("antiphon lab run tv-audio-wlan"), "{}", ran.err);
    assert!(!directory.path().join("antiphon-report").exists());
    // A paper that is named has a report in any case.
    let named = lab(directory.path(), &["report", "srp"]);
    assert!(named.code == Some(0) && named.out.contains("srp.html"), "{}", named.err);
    assert!(
        named.err.contains("conclusions 0 hold, 21 not run") && named.err.contains("xdg-open"),
        "{}",
        named.err
    );
}

#[test]
fn results_are_the_same_for_any_threads_and_single_runs() {
    let directory = directory(&scenario(3, "6s"));
    for (results, threads) in [("one", "1"), ("two", "2"), ("again", "2")] {
        let ran = lab(directory.path(), &["run", "test.toml", "--results", results, "--threads", threads]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains("200packets") && ran.out.contains("±"), "{}", ran.out);
    }
    for name in ["results.csv", "summary.csv", "media.csv"] {
        let of = |results: &str| self::results(directory.path(), &format!("{results}/test/{name}"));
        assert!(of("one") == of("two") && of("two") == of("again"), "{name}");
    }
    let table = results(directory.path(), "one/test/results.csv");
    assert_eq!(table.lines().count(), 1 + 12 * 2);
    // Seeds matter: no two runs of a point are alike.
    let figures = |line: &str| line.splitn(6, ',').nth(5).unwrap().to_string();
    assert_ne!(figures(table.lines().nth(1).unwrap()), figures(table.lines().nth(3).unwrap()));
    replayed(directory.path(), &table);
}

/// Run 7 alone, by the command that its journal names, has the figures of the table.
fn replayed(directory: &Path, table: &str) {
    let journal = results(directory, "one/test/runs.jsonl");
    let replay = "antiphon lab run test.toml --run 7";
    assert!(journal.contains(&format!("\"replay\":\"{replay}\"")), "{journal}");
    let arguments: Vec<&str> = replay.split(' ').skip(2).chain(["--json"]).collect();
    let ran = lab(directory, &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let record: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let line: Vec<&str> = table.lines().find(|line| line.starts_with("7,")).unwrap().split(',').collect();
    assert_eq!(record["seed"].to_string(), line[columns.iter().position(|name| *name == "seed").unwrap()]);
    let mut compared = 0;
    for (name, value) in columns.iter().zip(&line).skip(7).filter(|(_, value)| !value.is_empty()) {
        let value: f64 = value.parse().unwrap();
        assert_eq!(record["streams"][0]["figures"][name].as_f64(), Some(value), "{name}");
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
    let captured =
        lab(directory, &["run", "test.toml", "--run", "7", "--json", "--capture", "line=7.pcapng"]);
    assert_eq!((captured.code, &captured.out), (Some(0), &ran.out), "watching changes nothing");
    // The block type of a section header, and more than the headers of a stream's packets.
    let bytes = std::fs::read(directory.join("7.pcapng")).unwrap();
    assert!(bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) && bytes.len() > 100_000, "{}", bytes.len());
    let wrong = lab(directory, &["run", "test.toml", "--run", "7", "--capture", "lien=8.pcapng"]);
    assert!(wrong.code == Some(1) && wrong.err.contains("did you mean 'line'"), "{}", wrong.err);
    assert!(!directory.join("8.pcapng").exists());
    let beyond = lab(directory, &["run", "test.toml", "--run", "12"]);
    assert!(beyond.code == Some(2) && beyond.err.contains("0 to 11"), "{}", beyond.err);
}

#[test]
fn a_killed_run_goes_on_to_the_same_results() {
    let directory = directory(&scenario(10, "30s"));
    let whole = lab(directory.path(), &["run", "test.toml", "--results", "whole"]);
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    let journal = directory.path().join("parts/test/runs.jsonl");
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.matches("\"run\"").count());
    let arguments = ["lab", "run", "test.toml", "--results", "parts", "--threads", "1"];
    for (signal, at_least) in [("KILL", 2), ("INT", 5)] {
        let mut command = antiphon();
        command.current_dir(directory.path()).args(arguments).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while lines() < at_least && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert!(kill(signal, child.id()), "{signal}");
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        if signal == "INT" {
            assert_eq!(output.status.code(), Some(130), "{told}");
            assert!(told.contains("to continue: antiphon lab run test.toml --results parts"), "{told}");
            assert!(directory.path().join("parts/test/results.csv").exists());
        } else {
            assert_eq!(output.status.code(), None);
        }
    }
    let before = lines();
    assert!((5..40).contains(&before), "it was stopped before its end: {before}");
    let last = finish(antiphon().current_dir(directory.path()).args(arguments));
    assert_eq!(last.code, Some(0), "{}", last.err);
    assert!(last.err.contains("of 40 runs existed already"), "{}", last.err);
    for name in ["results.csv", "summary.csv", "media.csv"] {
        let of = |part: &str| results(directory.path(), &format!("{part}/test/{name}"));
        assert_eq!(of("parts"), of("whole"), "{name}");
    }
}

fn kill(signal: &str, process: u32) -> bool {
    let mut command = std::process::Command::new("kill");
    command.args([format!("-{signal}"), process.to_string()]).status().unwrap().success()
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let directory = directory(&scenario(1, "1s"));
    let dir = directory.path();
    assert_eq!(lab(dir, &["run", "test.toml", "--set", "transport=rtp"]).code, Some(0));
    let kept = results(dir, "antiphon-lab/test/results.csv");
    // There is no space where results.csv is prepared.
    let new = dir.join("antiphon-lab/test/.results.csv.new");
    std::os::unix::fs::symlink("/dev/full", &new).unwrap();
    let full = lab(dir, &["run", "test.toml"]);
    assert_eq!(full.code, Some(1), "{}", full.err);
    for part in ["results.csv", "No space left", "free some space", "4 runs are saved"] {
        assert!(full.err.contains(part), "{part}: {}", full.err);
    }
    assert_eq!(results(dir, "antiphon-lab/test/results.csv"), kept, "the old table is whole");
    let again = lab(dir, &["run", "test.toml"]);
    assert!(again.code == Some(0) && again.err.contains("4 of 4 runs existed already"), "{}", again.err);
    assert_ne!(results(dir, "antiphon-lab/test/results.csv"), kept);
}

#[test]
fn what_belongs_to_another_scenario_is_not_mixed_in() {
    let directory = directory(&scenario(1, "1s"));
    assert_eq!(lab(directory.path(), &["run", "test.toml"]).code, Some(0));
    std::fs::write(directory.path().join("test.toml"), scenario(1, "2s")).unwrap();
    let refused = lab(directory.path(), &["run", "test.toml"]);
    assert!(refused.code == Some(2) && refused.err.contains("--fresh"), "{}", refused.err);
    let fresh = lab(directory.path(), &["run", "test.toml", "--fresh"]);
    assert!(fresh.code == Some(0) && fresh.err.contains("runs.jsonl.old"), "{}", fresh.err);
}

#[test]
fn real_runs_are_distinguished_from_the_model() {
    let text = "title='Loopback'\nduration='1h'\nmeasured=true\nrepetitions=2\nnode.a={}\nnode.b={}\n\
                link.l={between=['a','b'],link='ideal'}\n\
                stream.s={transport='rtp',from='a',to='b',frame='200B',interval='5ms',latency='20ms'}";
    let directory = directory(text);
    let ran = lab(directory.path(), &["run", "test.toml", "--real-duration", "100ms"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("on sockets, one run after the other") && ran.err.contains("loopback"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("lab run test.toml --real-duration 100ms --run 0"), "{}", ran.err);
    let table = results(directory.path(), "antiphon-lab/test/real/results.csv");
    assert_eq!(table.lines().filter(|line| line.contains(",real,s,")).count(), 2, "{table}");
    // It is measured: by default it runs on sockets, and its hour is reported.
    let whole = lab(directory.path(), &["run", "test.toml"]);
    assert!(whole.code == Some(2) && whole.err.contains("another length"), "{}", whole.err);
    let both = lab(directory.path(), &["run", "test.toml", "--real", "--threads", "2"]);
    assert!(both.code == Some(2) && both.err.contains("--threads"), "{}", both.err);
    let cell =
        text.replace("link.l={between=['a','b'],link='ideal'}", "cell.w={access-point='a',stations=['b']}");
    std::fs::write(directory.path().join("test.toml"), cell).unwrap();
    let refused = lab(directory.path(), &["run", "test.toml", "--results", "other", "--real"]);
    assert!(refused.code == Some(2) && refused.err.contains("a model only"), "{}", refused.err);
    // Nothing is printed about runs that are refused, such as how long they take.
    assert!(!refused.err.contains("on sockets") && !refused.err.contains("runs, seed"), "{}", refused.err);
    let one = lab(directory.path(), &["run", "test.toml", "--real", "--run", "0"]);
    assert!(one.code == Some(2) && one.err.contains("a model only"), "{}", one.err);
    assert!(!directory.path().join("other").exists());
}

#[test]
fn json_has_a_record_for_each_point_and_number() {
    let directory = directory(&scenario(2, "1s"));
    let ran = lab(directory.path(), &["run", "test.toml", "--json", "--quiet", "--set", "queue=50packets"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let records: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|record| record["record"] == kind).collect::<Vec<_>>();
    assert_eq!((of("experiment").len(), of("point").len(), of("summary").len()), (1, 4, 1));
    assert_eq!(of("point")[0]["point"]["queue"], "50packets");
    assert_eq!(of("point")[0]["figures"]["sent"]["mean"], 50.0);
    assert_eq!((&of("summary")[0]["runs"], &of("summary")[0]["interrupted"]), (&4.into(), &false.into()));
    let check = lab(directory.path(), &["check", "test.toml", "--json"]);
    let numbers = check.out.lines().filter(|line| line.starts_with("{\"record\":\"number\"")).count();
    let runs = check.out.lines().filter(|line| line.starts_with("{\"record\":\"run\"")).count();
    assert!(numbers > 10 && runs == 8, "{}", check.out);
}

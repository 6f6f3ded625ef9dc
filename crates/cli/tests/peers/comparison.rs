//! `antiphon compare` called by a program: its counts agree with the link's, the same seed loses the same packets, but for
//! what a busy machine shifts, and no privilege is needed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::child::{Child, Ended, antiphon, antiphon_by};
use crate::links::{NOBODY, open_directory};

const COMPARE: [&str; 7] = ["compare", "--json", "--seconds", "3s", "--link", "loss=5%", "--seed"];

fn compare(mut command: Command, seed: &str, more: &[&str]) -> Ended {
    Child::start(command.args([&[seed], more].concat()), DEADLINE).succeed()
}

fn of<'a>(records: &'a [Value], transport: &str) -> &'a Value {
    records.iter().find(|record| record["transport"] == transport).unwrap_or_else(|| panic!("no {transport}"))
}

/// The numbers of a note such as "the link dropped 19 of 375 packets there and 13 of 356 back (loss 32, full queue 0)".
fn dropped(record: &Value) -> [u64; 6] {
    let notes = record["notes"].as_array().expect("notes");
    let note = notes.iter().filter_map(Value::as_str).find(|note| note.starts_with("the link dropped"));
    let note = note.unwrap_or_else(|| panic!("no word of the link in {record}"));
    let numbers = note.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    numbers.collect::<Vec<u64>>().try_into().unwrap_or_else(|_| panic!("other numbers than six: {note}"))
}

fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or_else(|| panic!("no {key} in {record}"))
}

/// Every packet that did not come back over UDP was dropped by the link, there or back, and none that did was.
fn losses_agree(ended: &Ended) {
    let records = ended.records("transport");
    let rtp = of(&records, "rtp");
    let [there, offered, back, returned, loss, full] = dropped(rtp);
    let (sent, received, lost) =
        (number(rtp, "packets_sent"), number(rtp, "packets_received"), number(rtp, "lost"));
    // Three goodbyes follow the sound, and come back if they are not lost.
    assert_eq!((offered, returned), (sent + 3, sent + 3 - there), "{rtp}");
    let goodbyes = returned - back - received;
    assert!(goodbyes <= 3, "{rtp}");
    assert_eq!((lost + 3 - goodbyes, loss, full), (there + back, there + back, 0), "{rtp}");
    assert_eq!(received + lost, sent, "{rtp}");
    // Of 562 packets 5 % each way are 55, give or take 7: 20 are five standard deviations away.
    assert!(lost > 20 && back > 0 && there > 0, "the losses happened: {rtp}");
}

/// The fate of every packet of a transport.
fn fates(directory: &Path, transport: &str) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string(directory.join("packets.csv")).expect("compare wrote it");
    let mut rows =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let at = |name| {
        head.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name} in {head:?}"))
    };
    let (which, seq, fate) = (at("transport"), at("seq"), at("fate"));
    rows.filter(|row| row[which] == transport)
        .map(|row| (row[seq].parse().expect("a number"), row[fate].to_owned()))
        .collect()
}

/// The numbers of the packets that were lost.
fn lost(directory: &Path) -> Vec<u64> {
    fates(directory, "rtp").into_iter().filter(|(_, fate)| fate == "lost").map(|(seq, _)| seq).collect()
}

#[test]
#[ignore = "streams in real time for half a minute"]
fn losses_agree_with_the_link_and_a_seed_repeats_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = |name: &str, seed: &str| {
        let out = directory.path().join(name);
        let ended = compare(antiphon(COMPARE), seed, &["--out", &out.display().to_string()]);
        losses_agree(&ended);
        let records = ended.records("transport");
        assert_eq!(
            lost(&out).len() as u64,
            number(of(&records, "rtp"), "lost"),
            "packets.csv and the record"
        );
        lost(&out)
    };
    let first = run("first", "7");
    // Losses belong to milliseconds of the run's clock: a machine that takes a second longer to set up meets others.
    let again = (1..4).any(|n| alike(&first, &run(&format!("again-{n}"), "7")) > 0.5);
    assert!(again, "the same seed, three times");
    let other = alike(&first, &run("other", "8"));
    assert!(other < 0.3, "another seed: {other}");
}

/// Of the packets that one of two runs has lost, the share that both have.
fn alike(one: &[u64], other: &[u64]) -> f64 {
    let both = one.iter().filter(|number| other.contains(number)).count();
    both as f64 / (one.len() + other.len() - both).max(1) as f64
}

#[test]
#[ignore = "needs root, to become another user; streams in real time"]
fn a_user_without_privilege_compares() {
    let directory = open_directory();
    // Only its owner may be able to read the build directory.
    let copy = directory.path().join("antiphon").display().to_string();
    std::fs::copy(env!("CARGO_BIN_EXE_antiphon"), &copy).expect("a temporary directory");
    for (method, words) in [("router", "router between network namespaces"), ("proxy", "proxy")] {
        let by = [&NOBODY[..], &["sh", "-c", "shift; exec \"$0\" \"$@\"", &copy]].concat();
        let mut command = antiphon_by(&by, COMPARE);
        command.current_dir(directory.path());
        let ended = compare(command, "7", &["--out", method, "--link-method", method]);
        losses_agree(&ended);
        let how = ended.records("link")[0]["method"].as_str().expect("a sentence").to_owned();
        assert!(how.contains(words), "asked for the {method}: {how}");
        assert!(directory.path().join(method).join("report.html").exists());
    }
}

/// Three seconds of sound, a report, and the overhead of a busy machine.
const DEADLINE: Duration = Duration::from_secs(40);

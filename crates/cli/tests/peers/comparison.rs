//! `antiphon compare` called by a program: its counts agree with the link's, the seed decides about losses as in the model,
//! and no privilege is needed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon::core::{Instant, Rng};
use antiphon::link::{Direction, Duplex};
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

/// How many packets of a transport `packets.csv` calls lost.
fn lost(directory: &Path, transport: &str) -> u64 {
    let text = std::fs::read_to_string(directory.join("packets.csv")).expect("compare wrote it");
    let mut rows =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let at = |name| {
        head.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name} in {head:?}"))
    };
    let (which, fate) = (at("transport"), at("fate"));
    rows.filter(|row| row[which] == transport && row[fate] == "lost").count() as u64
}

#[test]
#[ignore = "streams in real time"]
fn losses_agree_with_the_link() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ended = compare(antiphon(COMPARE), "7", &["--out", &directory.path().display().to_string()]);
    losses_agree(&ended);
    let records = ended.records("transport");
    assert_eq!(
        lost(directory.path(), "rtp"),
        number(of(&records, "rtp"), "lost"),
        "packets.csv and the record"
    );
}

/// A fade, or the time between two, lasts longer than any test: the seed alone decides whether packets are lost.
const FOR_GOOD: &str = "down.loss=1000s/1000s/50%/0%";
const SEEDS: [u64; 6] = [1, 2, 4, 5, 6, 7];

/// Whether a link of that seed loses packets on the way back.
fn modelled(seed: u64) -> bool {
    let mut link = Duplex::new(&FOR_GOOD.parse().expect("a link"), seed).expect("a possible link");
    let mut loses = |second: u64| {
        !(0..50).all(|ms| {
            let now = Instant::from_millis(second * 1000 + ms);
            link.offer(now, Direction::Down, vec![0u8; 500]);
            link.poll(now).is_some()
        })
    };
    let during = [0, 20].map(&mut loses);
    assert_eq!(during[0], during[1], "seed {seed}: the weather changes during the test");
    during[0]
}

/// Whether `compare` with each of [`SEEDS`], all at once, lost packets.
fn measured(method: &str) -> [bool; 6] {
    let start = |seed: u64| {
        let mut command = antiphon(["compare", "--json", "--seconds", "300ms", "--link", FOR_GOOD]);
        command.args(["-t", "rtp", "--out", "none", "--link-method", method, "--seed", &seed.to_string()]);
        Child::start(&mut command, DEADLINE)
    };
    SEEDS.map(start).map(|child| {
        let ended = child.succeed();
        let records = ended.records("transport");
        let rtp = of(&records, "rtp");
        let [there, _, back, ..] = dropped(rtp);
        assert_eq!((there, back > 0), (0, number(rtp, "lost") > 0), "{rtp}");
        back > 0
    })
}

#[test]
#[ignore = "needs network namespaces, or root"]
fn a_seed_decides_whether_packets_are_lost_as_in_the_model() {
    // A proxy forks the seed for each flow; a router's links have the seed itself.
    let by_flow = |seed| modelled(Rng::fork(seed, "flow 0").next_u64());
    for (method, expected) in [("router", SEEDS.map(modelled)), ("proxy", SEEDS.map(by_flow))] {
        assert!(expected.contains(&true) && expected.contains(&false), "both occur: {expected:?}");
        for pass in 1..=2 {
            assert_eq!(measured(method), expected, "{method}, pass {pass}");
        }
    }
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

//! What `--json` prints is what `docs/json.md` and `docs/json.schema.json` say.

mod page;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use antiphon_testkit::unless_held_up;
use serde_json::Value;

use crate::common::{HELD_UP, Ran, antiphon, finish, free_ports};
use crate::service::terminate;
use schema::Schema;

/// Fields that every record has, or every timed one; the page lists them once.
const COMMON: [&str; 4] = ["record", "schema", "monotonic_s", "wall_unix_s"];

/// Checks the records of a command, and that they are of these kinds.
pub fn verify(command: &str, out: &str, kinds: &[&str]) {
    let schema = Schema::read();
    let mut seen = BTreeSet::new();
    for line in out.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(schema.faults(command, &record), Vec::<String>::new(), "{line}");
        assert!(schema.fits(&record), "{line}");
        let kind = record["record"].as_str().expect("a kind").to_string();
        assert!(line.starts_with(&format!(r#"{{"record":"{kind}","schema":1"#)), "{line}");
        seen.insert(kind);
    }
    assert_eq!(seen, kinds.iter().map(|kind| kind.to_string()).collect(), "{command}");
}

/// Runs it in a directory, to its end.
fn run_in(directory: &Path, arguments: &[&str]) -> Ran {
    finish(antiphon().current_dir(directory).args(arguments).arg("--json"))
}

/// The fields of a definition of the schema, and their types as the page writes them.
fn fields(definition: &Value) -> BTreeMap<String, String> {
    let required = definition["required"].as_array().expect("a list");
    let properties = definition["properties"].as_object().into_iter().flatten();
    let own = properties.filter(|(name, _)| !COMMON.contains(&name.as_str()));
    let described = own.map(|(name, property)| {
        let absent = if required.iter().any(|one| one == name) { "" } else { ", may be absent" };
        (name.clone(), page::kind(property) + absent)
    });
    described.collect()
}

#[test]
fn page_and_schema_list_the_same_fields_of_the_same_types() {
    let (schema, page) = (Schema::read(), page::tables());
    let described = |name: &&String| schema.definitions()[*name].get("properties").is_some();
    let listed: BTreeSet<&String> = schema.definitions().keys().filter(described).collect();
    assert_eq!(page.keys().collect::<BTreeSet<_>>(), listed);
    for (name, documented) in &page {
        assert_eq!(documented, &fields(&schema.definitions()[name]), "{name}");
    }
}

#[test]
fn every_column_of_packets_csv_is_on_the_page() {
    let page = include_str!("../../../../docs/json.md");
    for column in antiphon::measure::LoggedPacket::COLUMNS.iter().chain(&["transport"]) {
        assert!(page.contains(&format!("\n| `{column}` | ")), "{column}");
    }
    let exit_codes = page.split("## Exit codes").nth(1).expect("exit codes");
    for code in [0, 1, 2, 3, 4, 5, 124, 130] {
        assert!(exit_codes.contains(&format!("\n| {code} | ")), "{code}");
    }
}

#[test]
fn records_of_compare_and_replay_fit() {
    let directory = tempfile::tempdir().unwrap();
    let compare = ["compare", "--seconds", "400ms", "--link-method", "proxy", "--link", "ethernet"];
    let more = [
        "--require",
        "rtp:loss<100%",
        "--require",
        "tcp:p50<1ns",
        "--passport",
        "path.jsonl",
        "--receivers",
        "8",
    ];
    let ran = run_in(directory.path(), &[&compare[..], &more].concat());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let always = ["run", "link", "link_counts", "transport", "advice", "gate", "cell", "end"];
    let noted = ran.out.contains(r#"{"record":"note""#).then_some("note");
    verify("compare", &ran.out, &[&always[..], noted.as_slice()].concat());
    let replay = run_in(directory.path(), &["lab", "replay", "path.jsonl", "-t", "rtp,tcp"]);
    assert_eq!(replay.code, Some(0), "{}", replay.err);
    verify("lab-replay", &replay.out, &["replay", "transport"]);
}

#[test]
fn records_of_compare_with_pictures_fit() {
    let directory = tempfile::tempdir().unwrap();
    let film = directory.path().join("film.mkv");
    std::fs::write(&film, antiphon::video::Clip::H264.file()).unwrap();
    let film = film.to_str().unwrap();
    let ran = run_in(
        directory.path(),
        &[
            "compare",
            "--seconds",
            "3s",
            "--link-method",
            "proxy",
            "--link",
            "ethernet",
            "-t",
            "rtp,tcp",
            "--video",
            film,
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let noted = ran.out.contains(r#"{"record":"note""#).then_some("note");
    let always = ["run", "link", "link_counts", "transport", "advice", "end"];
    verify("compare", &ran.out, &[&always[..], noted.as_slice()].concat());
    let records: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|record| record["record"] == kind).collect::<Vec<_>>();
    assert_eq!(of("run")[0]["video"], serde_json::json!([film]));
    for transport in of("transport") {
        let pictures = &transport["pictures"];
        assert!(pictures["whole"].as_u64() > Some(40), "{pictures}");
        assert!(
            pictures["one_way_ms"]["p99"].is_number() && pictures["skew"]["p99_9_ms"].is_number(),
            "{pictures}"
        );
    }
    for advice in of("advice") {
        assert!(
            advice["pictures"].as_str().is_some_and(|cost| cost.contains("of the sound was missing")),
            "{advice}"
        );
    }
}

#[test]
fn a_transport_that_cannot_be_measured_is_a_failure_that_fits() {
    // The reflector answers over rtp, and nobody listens for tcp.
    let at = format!("127.0.0.1:{}", free_ports(1));
    let (mut reflector, mut lines, mut reflected) =
        started(&["reflect", "--listen", &at, "-t", "rtp", "--time-limit", "30s"]);
    let sentences = BufReader::new(reflector.stderr.as_mut().unwrap()).lines();
    assert!(sentences.map_while(Result::ok).any(|sentence| sentence.contains("Stop with Ctrl-C")));
    let directory = tempfile::tempdir().unwrap();
    let ran =
        run_in(directory.path(), &["compare", &at, "--seconds", "300ms", "--out", "none", "-t", "rtp,tcp"]);
    reflector.kill().unwrap();
    reflector.wait().unwrap();
    lines.read_to_string(&mut reflected).unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let noted = ran.out.contains(r#"{"record":"note""#).then_some("note");
    let always = ["run", "link", "transport", "advice", "failure", "end"];
    verify("compare", &ran.out, &[&always[..], noted.as_slice()].concat());
    let records: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| {
        let found = records.iter().filter(|record| record["record"] == kind);
        found.map(|record| record["transport"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((of("transport"), of("failure")), (vec!["rtp"], vec!["tcp"]), "{}", ran.err);
}

/// A program whose first line has come: the record `run`, which says that it is ready.
fn started(arguments: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = antiphon();
    command.args(arguments).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    (child, lines, first)
}

/// What a sender and a receiver print of a stream.
fn streamed(scheme: &str, more: &[&str]) -> (String, String) {
    streamed_into(scheme, &["null:", "--latency", "20ms"], more)
}

fn streamed_into(scheme: &str, sink: &[&str], more: &[&str]) -> (String, String) {
    let address = format!("127.0.0.1:{}", free_ports(1));
    let (at, uri) = (format!("{scheme}://@{address}"), format!("{scheme}://{address}"));
    let (mut receiver, mut lines, mut heard) = started(&[&["receive", &at], sink].concat());
    // The record comes before the socket is open; the sentence after it.
    BufReader::new(receiver.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let send = ["send", "tone:440Hz", &uri, "--seconds", "2500ms", "--json"];
    let sent = finish(antiphon().args([&send[..], more].concat()));
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    lines.read_to_string(&mut heard).unwrap();
    assert_eq!(receiver.wait().unwrap().code(), Some(0));
    (sent.out, heard)
}

#[test]
fn records_of_send_and_receive_fit() {
    for (scheme, more) in [("rtp", &[][..]), ("sctp", &["--channels", "2", "--groups", "1"]), ("tcp", &[])] {
        let (sent, heard) = streamed(scheme, more);
        verify("send", &sent, &["run", "interval", "summary"]);
        verify("receive", &heard, &["run", "interval", "summary"]);
        assert_eq!(heard.contains(r#""groups":[{"#), !more.is_empty());
    }
}

#[test]
fn records_of_a_film_fit() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (film, pictures) = (path("film.mkv"), path("pictures.mkv"));
        std::fs::write(&pictures, antiphon::video::Clip::Vp8.file()).unwrap();
        let (sent, heard) = streamed_into("rtp", &[&film], &["--video", &pictures]);
        verify("send", &sent, &["run", "interval", "summary"]);
        verify("receive", &heard, &["run", "interval", "summary"]);
        // 25 a second; the sound ends after 2.5 s.
        let pictures = |records: &str| {
            let last: Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
            last["pictures"].clone()
        };
        let (sent, received) = (pictures(&sent), pictures(&heard));
        assert_eq!((&sent["sent"], &sent["left_out"]), (&63.into(), &0.into()), "{sent}");
        assert_eq!((&received["whole"], &received["written"]), (&63.into(), &63.into()), "{received}");
        assert_eq!((&received["broken"], &received["dropped"]), (&0.into(), &0.into()), "{received}");
    });
}

#[test]
fn records_of_several_tracks_of_pictures_fit() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
        let (first, second) = (path("first.mkv"), path("second.mkv"));
        std::fs::write(&first, antiphon::video::Clip::Vp8.file()).unwrap();
        std::fs::write(&second, antiphon::video::Clip::H264.file()).unwrap();
        let (film, slides) = (path("film.mkv"), path("slides.mkv"));
        let (sent, heard) = streamed_into(
            "rtp",
            &[&film, "--video-track", &slides],
            &["--video", &first, "--video-track", &second],
        );
        verify("send", &sent, &["run", "interval", "summary"]);
        verify("receive", &heard, &["run", "interval", "summary"]);
        let further = |records: &str| {
            let last: Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
            last["further_pictures"][0].clone()
        };
        let (sent, received) = (further(&sent), further(&heard));
        assert!(sent["sent"].as_u64() > Some(5) && sent["sent"] == received["whole"], "{sent} {received}");
        assert_eq!(received["file"], serde_json::json!(slides));
    });
}

#[test]
fn records_of_data_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (file, got, take) = (path("file"), path("got"), path("take.wav"));
    std::fs::write(&file, [7; 3_000]).unwrap();
    let (sent, heard) =
        streamed_into("rtp", &[&take, "--data", &got], &["--data", &file, "--data-rate", "1Mbit/s"]);
    verify("send", &sent, &["run", "interval", "summary"]);
    verify("receive", &heard, &["run", "interval", "summary"]);
    assert_eq!(std::fs::read(&got).unwrap(), [7; 3_000]);
    let data = |records: &str| {
        let last: Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
        last["data"][0].clone()
    };
    let (sent, received) = (data(&sent), data(&heard));
    assert_eq!((&sent["bytes"], &sent["ended"]), (&3_000.into(), &true.into()), "{sent}");
    assert_eq!((&received["bytes"], &received["missing"]), (&3_000.into(), &0.into()), "{received}");
}

#[test]
fn records_of_calls_fit() {
    unless_held_up(HELD_UP, || {
        let address = format!("127.0.0.1:{}", free_ports(1));
        let ends = ["--source", "tone:440Hz", "--sink", "null:", "--seconds", "2500ms"];
        let at = format!("sctp://@{address}");
        let (mut listener, mut lines, mut heard) = started(&[&["talk", &at][..], &ends].concat());
        BufReader::new(listener.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let to = format!("sctp://{address}");
        let called = finish(antiphon().args([&["talk", &to, "--json"][..], &ends].concat()));
        assert_eq!(called.code, Some(0), "{}", called.err);
        lines.read_to_string(&mut heard).unwrap();
        assert_eq!(listener.wait().unwrap().code(), Some(0));
        for out in [called.out, heard] {
            verify("talk", &out, &["run", "interval", "summary"]);
            assert!(out.contains(r#""delay":{"#), "both ends know it by the end: {out}");
        }
    });
}

#[test]
fn records_of_calls_over_a_group_fit() {
    let group = format!("rtp://239.61.7.33:{}?iface=127.0.0.1", free_ports(1));
    let ends = ["--source", "tone:440Hz", "--sink", "null:", "--seconds", "4s"];
    let (mut first, mut lines, mut heard) = started(&[&["talk", &group][..], &ends].concat());
    BufReader::new(first.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let second = finish(antiphon().args([&["talk", &group, "--json"][..], &ends].concat()));
    assert_eq!(second.code, Some(0), "{}", second.err);
    lines.read_to_string(&mut heard).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    for out in [second.out, heard] {
        verify("talk", &out, &["run", "interval", "summary"]);
        assert!(out.contains(r#""parties":[{"#), "each hears the other: {out}");
    }
}

#[test]
fn records_of_voice_channels_fit() {
    let port = free_ports(1);
    let (mut receiver, mut lines, mut heard) =
        started(&["receive", "--voice", &format!("xtp://@127.0.0.1:{port}"), "--voice-send", "2"]);
    BufReader::new(receiver.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let to = format!("xtp://127.0.0.1:{port}");
    let sent = finish(antiphon().args(["send", "--voice", "3", &to, "--seconds", "2500ms", "--json"]));
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    lines.read_to_string(&mut heard).unwrap();
    assert_eq!(receiver.wait().unwrap().code(), Some(0));
    verify("voice", &sent.out, &["run", "interval", "summary"]);
    verify("voice", &heard, &["run", "interval", "summary"]);
}

#[test]
fn records_of_reflect_fit() {
    let (mut child, mut lines, mut out) =
        started(&["reflect", "--listen", "127.0.0.1:0", "-t", "rtp", "--time-limit", "2500ms"]);
    lines.read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    verify("reflect", &out, &["run", "interval", "summary"]);
}

#[test]
fn records_of_link_fit() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = far.local_addr().unwrap().to_string();
    let arguments = ["link", "--listen", "127.0.0.1:0", "--to", &to, "--seconds", "2500ms"];
    for tcp in [false, true] {
        let tcp = tcp.then_some("--tcp");
        let (mut child, mut lines, mut out) = started(&[&arguments[..], tcp.as_slice()].concat());
        let run: Value = serde_json::from_str(&out).unwrap();
        let place = run["where"].as_str().unwrap();
        let near = place.split(' ').find(|word| word.starts_with("127.0.0.1:")).unwrap();
        if tcp.is_none() {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", near).unwrap();
        }
        lines.read_to_string(&mut out).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        verify("link", &out, &["run", "interval", "summary"]);
    }
}

#[test]
fn records_of_lists_fit() {
    let directory = tempfile::tempdir().unwrap();
    for (command, arguments, kinds) in [
        ("devices", &["devices"][..], "device"),
        ("link", &["link", "--list"], "preset"),
        ("help-transports", &["help", "transports"], "feature transport"),
        ("lab-list", &["lab", "list"], "experiment"),
        ("lab-claims", &["lab", "claims"], "claim"),
        ("lab-report", &["lab", "report", "tv-audio-wlan", "--out", "report"], "file"),
    ] {
        let ran = run_in(directory.path(), arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        verify(command, &ran.out, &kinds.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn records_of_lab_runs_fit() {
    let directory = tempfile::tempdir().unwrap();
    let example = include_str!("../../../lab/scenarios/example-two-streams-on-dsl.toml");
    let scenario = example.replace("value = 5,", "value = 2,").replace("value = \"60s\"", "value = \"1s\"");
    std::fs::write(
        directory.path().join("two.toml"),
        scenario.replace("value = \"5s\"", "value = \"500ms\""),
    )
    .unwrap();
    for (command, arguments, kinds) in [
        ("lab-check", &["lab", "check", "two.toml"][..], &["number", "run"][..]),
        ("lab-run", &["lab", "run", "two.toml"], &["experiment", "point", "summary"]),
        ("lab-run", &["lab", "run", "two.toml", "--run", "1"], &["run"]),
    ] {
        let ran = run_in(directory.path(), arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        verify(command, &ran.out, kinds);
    }
}

#[test]
fn records_of_a_sender_with_programmes_and_its_receivers_fit() {
    let port = free_ports(1);
    let (at, uri) = (format!("rtp://@127.0.0.1:{port}"), format!("rtp://127.0.0.1:{port}?role=caller"));
    let programmes = ["--programme", "News=tone:440Hz", "--programme", "Late film=tone:880Hz"];
    let send = [&["send"], &programmes[..], &[&at, "--time-limit", "60s"]].concat();
    let (mut sender, mut lines, mut sent) = started(&send);
    let mut said = BufReader::new(sender.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|sentence| sentence.contains("to each caller")));
    let said = std::thread::spawn(move || said.for_each(drop));
    let listed = finish(antiphon().args(["receive", &uri, "--programmes", "--json"]));
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    verify("receive", &listed.out, &["run", "programme"]);
    let second: Value = serde_json::from_str(listed.out.lines().last().unwrap()).unwrap();
    assert_eq!((&second["number"], &second["name"]), (&2.into(), &"Late film".into()), "{}", listed.out);
    let plain = finish(antiphon().args(["receive", &uri, "--programmes"]));
    assert!(plain.out.contains("2  Late film  2 channels, 48000 Hz"), "{}", plain.out);
    let heard = ["receive", &uri, "null:", "--programme", "Late film", "--seconds", "1500ms", "--json"];
    let heard = finish(antiphon().args(heard));
    assert_eq!(heard.code, Some(0), "{}", heard.err);
    verify("receive", &heard.out, &["run", "interval", "summary"]);
    assert!(heard.out.contains(r#""current":2"#), "{}", heard.out);
    let refused = finish(antiphon().args(["receive", &uri, "null:", "--programme", "Sport"]));
    assert_eq!(refused.code, Some(4), "{}", refused.err);
    assert!(refused.err.contains("it has News, Late film"), "{}", refused.err);
    // Until all of them have been there, however long a busy machine takes.
    terminate(&sender);
    lines.read_to_string(&mut sent).unwrap();
    assert_eq!(sender.wait().unwrap().code(), Some(130));
    said.join().unwrap();
    verify("send", &sent, &["run", "interval", "summary"]);
    assert!(sent.contains(r#""programmes":[{"ended":false,"name":"News","receivers":"#), "{sent}");
}

//! Invalid usage: exit code 2, and what would be right.

use crate::common::{antiphon, finish, run};

/// Runs, and expects a refusal that contains all of `words`.
fn refused(arguments: &[&str], words: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(2), "{arguments:?}: {}{}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{arguments:?} says nothing of {word}: {}", ran.err);
    }
    assert!(ran.out.is_empty(), "talk belongs to standard error");
}

#[test]
fn typing_errors_are_answered_with_the_nearest_name() {
    refused(&["compre"], &["compare"]);
    refused(&["compare", "--lnik", "dsl"], &["--link"]);
    refused(&["compare", "--transports", "rtp,tpc"], &["tcp"]);
    refused(&["compare", "--link", "wifi-hom"], &["'wifi-home'"]);
    refused(&["compare", "--link", "dsl,lss=2%"], &["'loss'"]);
    refused(&["compare", "--conceal", "silense"], &["'silence'"]);
    refused(&["compare", "--format", "l15"], &["l16"]);
    refused(&["compare", "--require", "los<1%"], &["'loss'"]);
    refused(&["compare", "--require", "rpt:loss<1%"], &["'rtp'"]);
    refused(&["compare", "--color", "alwys"], &["always"]);
    refused(&["completions", "bsh"], &["bash"]);
    refused(&["send", "clip:demo", "rpt://127.0.0.1:9"], &["'rtp'"]);
    refused(&["send", "clop:demo", "rtp://127.0.0.1:9"], &["clip"]);
    refused(&["receive", "rtq://:7710", "null:"], &["rtp"]);
}

#[test]
fn without_a_jack_server_the_remedy_is_named() {
    for arguments in
        [&["receive", "rtp://127.0.0.1:7710", "jack:"][..], &["send", "jack:", "rtp://127.0.0.1:9"]]
    {
        let ran = finish(
            antiphon().args(arguments).env("JACK_DEFAULT_SERVER", "antiphon-tests-start-no-such-server"),
        );
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        // With the library and without it.
        assert!(ran.err.contains("start") && ran.err.contains("or use a pipe"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "JACK's library says nothing itself: {}", ran.err);
    }
    refused(&["receive", "rtp://:7710", "jack:?rate=48kHz"], &["omit rate="]);
    refused(&["send", "jack:?channels=65", "rtp://127.0.0.1:9"], &["1 to 64"]);
    refused(&["receive", "rtp://:7710", "jack:?conect=no"], &["connect"]);
}

#[test]
fn without_a_pulseaudio_server_the_remedy_is_named() {
    let nowhere = "unix:/nonexistent/antiphon-tests-start-no-such-server";
    for arguments in
        [&["receive", "rtp://127.0.0.1:7710", "pulse:"][..], &["send", "pulse:", "rtp://127.0.0.1:9"]]
    {
        let ran = finish(antiphon().args(arguments).env("PULSE_SERVER", nowhere));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains("pulseaudio --start") && ran.err.contains("or use a pipe"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    let ran = finish(antiphon().args(["devices", "--json"]).env("PULSE_SERVER", nowhere));
    assert!(ran.out.contains("no PulseAudio or PipeWire server runs"), "{}", ran.out);
    refused(&["receive", "rtp://:7710", "pulse:?rate=48kHz"], &["omit rate="]);
    refused(&["send", "pulse:?channels=0", "rtp://127.0.0.1:9"], &["1 to 64"]);
    refused(&["send", "pulse:?channels=200", "rtp://127.0.0.1:9"], &["1 to 64"]);
    refused(&["send", "pulse:?channels=33", "rtp://127.0.0.1:9"], &["at most 32"]);
    refused(&["receive", "rtp://:7710", "pulse:?buffer=20"], &["20ms"]);
    refused(&["receive", "rtp://:7710", "pulse:?bufer=20ms"], &["buffer"]);
}

#[test]
fn bare_numbers_are_refused_with_their_unit() {
    refused(&["compare", "--seconds", "15"], &["15s"]);
    refused(&["compare", "--time-limit", "15"], &["15s"]);
    refused(&["compare", "--latency", "80"], &["80ms"]);
    refused(&["compare", "--rate", "48"], &["48kHz"]);
    refused(&["compare", "--receive-buffer", "65536"], &["65536B"]);
    refused(&["send", "clip:demo", "rtp://127.0.0.1:9", "--ptime", "1"], &["1ms"]);
    refused(&["link", "--list", "--idle", "60"], &["60ms"]);
    refused(&["compare", "--require", "loss<1"], &["1%"]);
}

#[test]
fn absurd_values_are_refused_with_their_bounds() {
    refused(&["compare", "--block", "0"], &["16 to 4096"]);
    refused(&["compare", "--block", "1000000"], &["16 to 4096"]);
    refused(&["compare", "--channels", "0"], &["1 to 64"]);
    refused(&["compare", "--channels", "65"], &["1 to 64"]);
    refused(&["compare", "--channels", "two"], &["such as 2"]);
    refused(&["compare", "--seconds", "0s"], &["more than 0s"]);
    refused(&["compare", "--dscp", "64"], &["0 to 63"]);
    refused(&["compare", "--priority", "7"], &["0 to 6"]);
    refused(
        &["receive", "rtp://:7710", "null:", "--format", "l16/48000/2", "--payload-type", "72"],
        &["96 to 127"],
    );
    refused(&["receive", "rtp://:7710", "null:", "--format", "l16"], &["l16/48000/2"]);
    refused(
        &["send", "clip:demo", "rtp://127.0.0.1:9", "--format", "l16/48000/2", "--channels", "1"],
        &["--channels", "--format"],
    );
}

#[test]
fn what_excludes_each_other_is_said() {
    refused(&["compare", "host", "--link", "dsl"], &["cannot be used with"]);
    refused(&["link"], &["--listen", "--from-netns", "--list"]);
    refused(&["link", "dsl", "--listen", ":7711"], &["--to"]);
    refused(&["link", "dsl", "--from-netns", "a"], &["--to-netns"]);
    refused(&["link", "dsl", "--listen", ":0", "--to", ":80"], &["HOST:PORT"]);
    refused(&["receive", "rtp://:7710", "-", "--json"], &["standard output"]);
    refused(&["send"], &["<SOURCE>", "<TARGET>"]);
}

#[test]
fn a_missing_or_monstrous_sdp_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("big.sdp");
    let name = path.to_str().unwrap();
    refused(&["receive", "rtp://:7710", "null:", "--sdp", name], &["send --sdp"]);
    std::fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
    refused(&["receive", "rtp://:7710", "null:", "--sdp", name], &["not an SDP file"]);
    std::fs::write(&path, b"\xff\xfe\0v=0").unwrap();
    refused(&["receive", "rtp://:7710", "null:", "--sdp", name], &["--sdp"]);
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    use std::process::Stdio;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = antiphon().args(["link", "--list"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    // The reader knows by itself that it has closed the pipe.
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(1), 0));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = antiphon().args(["devices"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said.contains("incomplete") && said.contains("No space left"), "{said}");
}

#[test]
fn values_that_change_nothing_are_refused() {
    let send = |more: &[&'static str]| [&["send", "tone:440Hz", "--seconds", "1s"], more].concat();
    refused(&["compare", "-o", ""], &["--out", "none"]);
    refused(&send(&["rtp://127.0.0.1:9/path"]), &["no path", "'/path'"]);
    refused(&send(&["auto://127.0.0.1:9/path"]), &["no path", "'/path'"]);
    refused(&send(&["rtp://127.0.0.1:9", "--congestion", "cubic"]), &["--congestion", "rtp"]);
}

#[test]
fn a_comparison_without_a_peer_fails() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = socket.local_addr().unwrap().to_string();
    let ran = run(&["compare", &silent, "-t", "rtp", "-s", "300ms", "-o", "none"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert!(ran.err.contains("antiphon reflect"), "{}", ran.err);
}

#[test]
fn standard_output_with_a_format_is_no_option() {
    let ran = run(&["receive", "rtp://127.0.0.1:0", "-?format=s16le"]);
    assert!(!ran.err.contains("unexpected argument"), "{}", ran.err);
    refused(&["receive", "rtp://:7710", "-?format=s16l"], &["s16le"]);
    refused(&["receive", "rtp://:7710", "null:", "-x"], &["'-x'"]);
}

#[test]
fn unknown_variables_are_reported() {
    let ran = finish(antiphon().args(["devices"]).env("ANTIPHON_LNIK", "dsl"));
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("'ANTIPHON_LINK'"), "{}", ran.err);
}

//! Wrong values, files and addresses: one sentence that says what, where and how, exit code 2, nothing opened before.

use std::fs;

use crate::common::{finish, free_ports, run};

/// Words of the message.
fn refused(arguments: &[&str], words: &[&str]) {
    let ran = run(&[arguments, &["--time-limit", "10s"]].concat());
    assert_eq!(ran.code, Some(2), "{arguments:?}: {} {}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{arguments:?}: no '{word}' in: {}", ran.err);
    }
    for jargon in ["invalid digit", "sending", "listening on", "panicked", "is not supported: use"] {
        assert!(!ran.err.contains(jargon), "{arguments:?}: '{jargon}' in: {}", ran.err);
    }
}

#[test]
fn numbers_are_refused_with_their_bounds() {
    let send =
        |option: &'static str, value: &'static str| ["send", "clip:demo", "rtp://127.0.0.1:9", option, value];
    for (option, value, remedy) in [
        ("--priority", "x", "a whole number"),
        ("--priority", "7", "0 to 6"),
        ("--seed", "-1", "a whole number"),
        ("--seed", "99999999999999999999999", "18446744073709551615"),
        ("--ttl", "-1", "a whole number"),
        ("--ttl", "256", "0 to 255"),
        ("--payload-type", "x", "a whole number"),
        ("--channels", "x", "a whole number"),
    ] {
        refused(&send(option, value), &[option, remedy]);
    }
    refused(&["lab", "replay", "x.jsonl", "--seed", "x"], &["--seed", "a whole number"]);
    refused(
        &["link", "--listen", ":0", "--to", "127.0.0.1:9", "--seed", "1.5"],
        &["--seed", "a whole number"],
    );
    for (key, remedy) in
        [("retransmissions=-1", "0 to"), ("streams=0", "1 to"), ("path-max-retrans=x", "a whole number")]
    {
        refused(&["send", "clip:demo", &format!("sctp://127.0.0.1:9?{key}")], &[key, remedy]);
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name).display().to_string();
    for option in ["--capture", "--passport", "--sdp"] {
        let nowhere = inside("nowhere/x.pcapng");
        refused(
            &["send", "clip:demo", "rtp://127.0.0.1:9", option, &nowhere],
            &[option, "there is no directory"],
        );
        refused(&["send", "clip:demo", "rtp://127.0.0.1:9", option, &inside("")], &[option, "a directory"]);
    }
    let nowhere = inside("nowhere/x");
    refused(
        &["receive", "rtp://:7710", "null:", "--passport", &nowhere],
        &["--passport", "there is no directory"],
    );
    refused(&["compare", "--capture", &nowhere], &["--capture", "there is no directory"]);
    refused(&["compare", "-o", ""], &["--out"]);
}

#[test]
fn addresses_that_make_no_sense_are_refused() {
    refused(&["send", "clip:demo", "rtp://127.0.0.1:9/path"], &["a stream has no path"]);
    refused(
        &["send", "clip:demo", "rtp://127.0.0.1:9", "--congestion", "cubic"],
        &["rtp", "does not use it"],
    );
    refused(&["send", "clip:demo", "rtp://127.0.0.1:9", "--iface", "nonsense"], &["--iface", "'nonsense'"]);
    refused(&["send", "clip:demo", "tcp://127.0.0.1:9?role=caller"], &["'role' is for 'receive'"]);
    refused(&["receive", "tcp://:9?role=caller", "null:"], &["name the sender"]);
    refused(&["receive", "rtp://@239.1.2.3:9?role=caller", "null:"], &["name the sender"]);
    for scheme in ["tcp", "rtp", "sctp"] {
        refused(
            &["receive", &format!("{scheme}://192.0.2.1:7710?role=listener"), "null:"],
            &["not an address of this machine", "://:7710"],
        );
    }
    refused(&["send", "clip:demo", "xtp://239.1.2.3:9?parity=20%"], &["write %25"]);
    refused(&["send", "clip:demo", "rtp://@239.1.2.3:9"], &["write rtp://239.1.2.3:9 to send to it"]);
    refused(&["send", "clip:demo", "rtp://:9", "--in-step", "1ms"], &["--in-step", "5ms"]);
    refused(&["send", "clip:clapper", "rtp://127.0.0.1:9", "--video", "clip:h264"], &["'h264'", "av1-100"]);
    refused(&["send", "clip:demo", "rtp://:9", "--ptp", "traceable"], &["--ptp", "rtp://HOST:PORT"]);
    refused(
        &["send", "clip:demo", "rtp://127.0.0.1:9", "--ptp", "eth0"],
        &["'eth0' is no PTP clock", "ptp4l"],
    );
    refused(&["send", "clip:demo", "rtp://:9", "--also", "tcp://127.0.0.1:9"], &["--also", "rtp://HOST:9"]);
    refused(&["send", "clip:demo", "rtp://:9", "--most-receivers", "0"], &["--most-receivers"]);
    for (listen, to) in [("127.0.0.1:7000", "127.0.0.1:7000"), (":7000", "127.0.0.1:7000")] {
        refused(&["link", "--listen", listen, "--to", to], &["the same place"]);
        refused(&["link", "--tcp", "--listen", listen, "--to", to], &["the same place"]);
    }
    refused(&["link", "--listen", ":0", "--to", "127.0.0.1:9", "--to-netns", "x"], &["--to-netns"]);
}

#[test]
fn files_of_other_kinds_are_told_what_they_are() {
    refused(&["lab", "run", "/dev/zero"], &["/dev/zero", "not a file"]);
    let folder = tempfile::tempdir().unwrap();
    refused(&["lab", "run", &folder.path().display().to_string()], &["is a directory"]);
    refused(&["lab", "run", "no/such.file"], &["not there"]);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let header = "{\"passport\":{\"version\":1,\"antiphon\":\"0.1.0\",\"command\":\"x\",\"seed\":7,\"units\":\"ns\"}}\n";
    for (text, words) in [
        ("", ["not a passport", "compare --passport"]),
        ("{\"passport\":{\"version\":99}}\n", ["version 99", "record it again"]),
        (&format!("{header}[1,2\n"), ["line 2", "at column"]),
        (&format!("{header}nonsense\n"), ["line 2", "at column"]),
    ] {
        let path = write("broken.jsonl", text);
        refused(&["lab", "replay", &path], &["broken.jsonl", words[0], words[1]]);
    }
    let sdp = |lines: &str| format!("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\n{lines}");
    let good = "c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 5004 RTP/AVP 96\r\na=rtpmap:96 L16/48000/2\r\n";
    for (text, word) in [
        (sdp(&good.replace("5004", "0")), "port 0"),
        (sdp(&format!("{good}a=ptime:-1\r\n")), "a=ptime:-1"),
        (sdp(&format!("{good}a=ptime:1e99\r\n")), "a=ptime:1e99"),
        (sdp(&format!("{good}{}", sdp(good))), "twice"),
        (sdp(&good.replace("IP4 127", "IP9 127")), "c=IN IP9"),
    ] {
        refused(
            &["receive", "rtp://:7710", "null:", "--sdp", &write("broken.sdp", &text)],
            &["broken.sdp", word],
        );
    }
    // A sound file of 65 channels.
    let mut wav = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00".to_vec();
    wav.extend(65_u16.to_le_bytes());
    wav.extend(48_000_u32.to_le_bytes());
    wav.extend((48_000_u32 * 130).to_le_bytes());
    wav.extend(130_u16.to_le_bytes());
    wav.extend(b"\x10\x00data\x00\x00\x00\x00");
    let path = folder.path().join("many.wav");
    fs::write(&path, wav).unwrap();
    refused(
        &["send", &format!("file:{}", path.display()), "rtp://127.0.0.1:9"],
        &["many.wav", "65 channels are not supported", "ffmpeg"],
    );
}

/// All transports listen at an address that is named, on this machine.
#[test]
fn a_receiver_listens_at_the_address_that_is_named() {
    for scheme in ["rtp", "tcp", "sctp", "dccp", "srp", "arq", "xtp"] {
        let port = free_ports(1);
        let ran = run(&["receive", &format!("{scheme}://127.0.0.1:{port}"), "null:", "--give-up", "200ms"]);
        assert_eq!(ran.code, Some(4), "{scheme}: {}", ran.err);
        assert!(ran.err.contains(&format!("listening on {scheme}://127.0.0.1:")), "{scheme}: {}", ran.err);
    }
    let ran = run(&["receive", "tcp://127.0.0.1:9?role=caller", "null:", "--give-up", "200ms"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert!(ran.err.contains("127.0.0.1:9 cannot be reached"), "{}", ran.err);
}

/// What would fail half-way, and with another reason, fails before anything is opened.
#[test]
fn too_few_open_files_are_told_with_the_limit() {
    let mut shell = std::process::Command::new("sh");
    let limited = "ulimit -n 12; exec \"$0\" compare --time-limit 1s --transports rtp,tcp,sctp --out none";
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_antiphon")]);
    let ran = finish(&mut shell);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    for word in ["comparing 3 transports", "31 open files", "the limit is 12", "ulimit -n 31", "--transports"]
    {
        assert!(ran.err.contains(word), "no '{word}' in: {}", ran.err);
    }
}

#[test]
fn a_mistake_in_a_source_or_sink_names_it() {
    refused(&["send", "tone:440Hz?x=10%", "rtp://127.0.0.1:9"], &["'tone:440Hz?x=10%'", "hexadecimal"]);
    refused(&["send", "tone:440Hz?x=1", "rtp://127.0.0.1:9"], &["'tone:440Hz?x=1'", "unknown key 'x'"]);
    refused(&["receive", "rtp://127.0.0.1:9", "x.wav?rate=10"], &["'x.wav?rate=10'", "no unit"]);
}

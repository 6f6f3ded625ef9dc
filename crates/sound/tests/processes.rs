//! Tests that need a separate process: a kill in the middle of a recording, a file-size limit, pipes. The test binary
//! runs itself again as that process.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use antiphon_media::{Pull, SampleFormat, StreamFormat};
use antiphon_sound::{open_sink, open_source, repair};

/// Not a test but the other process: copies a source to a sink at most as fast as the sink takes it, and reports.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let (Ok(from), Ok(to)) = (std::env::var("CHILD_FROM"), std::env::var("CHILD_TO")) else {
        return;
    };
    let mut source = open_source(&from).unwrap_or_else(|error| panic!("{error}"));
    let stream = source.source.format();
    let mut sink = open_sink(&to, stream, source.source.sample_format()).unwrap_or_else(|e| panic!("{e}"));
    let mut block = vec![0.0; 256 * stream.channels()];
    let mut pushed = 0u64;
    let mut paced = std::env::var("CHILD_PACED").is_ok().then(|| BufReader::new(std::io::stdin()));
    loop {
        match source.source.pull(&mut block) {
            Pull::End => break,
            Pull::Starved => std::thread::yield_now(),
            Pull::Frames(frames) => {
                if sink.sink.push(&block[..frames * stream.channels()])
                    == Err(antiphon_media::SinkError::Failed)
                {
                    break;
                }
                pushed += frames as u64;
                if let Some(pace) = &mut paced {
                    eprintln!("pushed {pushed}");
                    pace.read_line(&mut String::new()).unwrap();
                }
            }
        }
    }
    match sink.sink.finish() {
        Ok(()) => eprintln!("finished after {pushed}"),
        Err(error) => eprintln!("failed: {error}"),
    }
}

fn command(from: &str, to: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f ${BLOCKS:-unlimited}; exec \"$0\" --exact child --ignored --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env("CHILD_FROM", from)
        .env("CHILD_TO", to)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn said(mut child: Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

fn frames(path: &Path) -> (u64, Vec<String>) {
    let opened = open_source(path.to_str().unwrap()).unwrap();
    (opened.source.length().unwrap(), opened.notes.list())
}

#[test]
fn a_recording_that_is_killed_is_readable_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    let mut child = command("tone:440Hz?seconds=1h&channels=1", path.to_str().unwrap())
        .env("CHILD_PACED", "yes")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pace = child.stdin.take().unwrap();
    // Block by block, so that sink and killer agree on how much was pushed: 1.2 s.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut pushed = 0u64;
    while pushed < 57_600 {
        let line = lines.next().unwrap().unwrap();
        if let Some(count) = line.strip_prefix("pushed ") {
            pushed = count.parse().unwrap();
            // The writer follows within its period of 50 ms; without a clock here, the file's length shows that it did.
            while fs::metadata(&path).map_or(0, |file| file.len()) < 2 * pushed.saturating_sub(4_800) {
                std::thread::yield_now();
            }
            pace.write_all(b"\n").unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (found, _) = frames(&path);
    assert!(found + 24_000 >= pushed, "{found} of {pushed} sample frames are readable");
    let mended = repair(&path).unwrap();
    assert_eq!(frames(&path), (mended.frames, Vec::new()));
    let mut again = open_source(path.to_str().unwrap()).unwrap();
    let mut tone = open_source("tone:440Hz?channels=1").unwrap();
    let (mut heard, mut expected) = ([0.0; 256], [0.0; 256]);
    while let Pull::Frames(frames) = again.source.pull(&mut heard) {
        tone.source.pull(&mut expected[..frames]);
        assert_eq!(heard[..frames], expected[..frames]);
    }
}

#[test]
fn a_file_that_may_not_grow_fails_clearly_and_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    // `ulimit -f` counts blocks of 512 bytes in a POSIX shell, of 1 024 in some: 200 of either end within 30 s of sound.
    let child =
        command("tone:440Hz?seconds=30s", path.to_str().unwrap()).env("BLOCKS", "200").spawn().unwrap();
    let said = said(child);
    assert!(
        said.contains("failed: ") && said.contains("take.wav") && said.contains("no space left"),
        "{said}"
    );
    let length = fs::metadata(&path).unwrap().len();
    let (found, notes) = frames(&path);
    assert!(length == 200 * 512 || length == 200 * 1024, "{length} bytes");
    // The header is 80 bytes; both lengths leave a whole number of four-byte frames after it.
    assert_eq!((found, notes.len()), ((length - 80) / 4, 0));
    assert!(said.contains(&format!("{} bytes of sound", 4 * found)), "{said}");
}

#[test]
fn a_reader_that_leaves_ends_the_sink_and_not_the_process() {
    let mut child = command("tone:440Hz?seconds=1h", "-?format=s16le").spawn().unwrap();
    let mut some = [0; 4_000];
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut some).unwrap();
    drop(output);
    let said = said(child);
    assert!(said.contains("failed: standard output: the program reading it has ended"), "{said}");
}

#[test]
fn sound_comes_in_through_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    let mut child = command("-?format=s16le&rate=8kHz&channels=1", path.to_str().unwrap())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes: Vec<u8> = (0..16_001u32).map(|i| (i % 251) as u8).collect();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let said = said(child);
    assert!(said.contains("finished after 8000"), "{said}");
    let mut heard = open_source(path.to_str().unwrap()).unwrap();
    assert_eq!(heard.source.format(), StreamFormat::new(8_000, 1).unwrap());
    assert_eq!(heard.source.sample_format(), SampleFormat::L16);
    let mut samples = vec![0.0; 8_000];
    assert_eq!(heard.source.pull(&mut samples), Pull::Frames(8_000));
    let exact = |(x, b): (&f32, &[u8])| *x * 32_768.0 == f32::from(i16::from_le_bytes([b[0], b[1]]));
    assert!(samples.iter().zip(bytes.chunks(2)).all(exact));
}

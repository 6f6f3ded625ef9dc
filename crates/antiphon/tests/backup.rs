//! A stream whose source falls silent, over real sockets: the backup is heard meanwhile, and the source again afterwards.

mod common;

use std::path::Path;
use std::time::Duration;

use antiphon::media::{Pull, SampleFormat, StreamFormat};
use antiphon::sound::{open_sink, open_source};
use antiphon::{Backup, ReceiveOptions, SendOptions, Stop, send};
use common::{free_port, listen, scratch};

const RATE: usize = 48_000;

/// Writes sound of one level for each of these numbers of milliseconds.
fn write(path: &Path, parts: &[(usize, f32)]) {
    let mono = StreamFormat::new(RATE as u32, 1).unwrap();
    let mut sink = open_sink(&path.display().to_string(), mono, SampleFormat::L16).unwrap();
    for (ms, level) in parts {
        sink.sink.push(&vec![*level; ms * RATE / 1000]).unwrap();
    }
    sink.sink.finish().unwrap();
}

/// The samples of a recording.
fn read(path: &Path) -> Vec<f32> {
    let mut source = open_source(&path.display().to_string()).unwrap().source;
    let (mut all, mut block) = (Vec::new(), [0.0; 256]);
    loop {
        match source.pull(&mut block) {
            Pull::Frames(frames) => all.extend_from_slice(&block[..frames]),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return all,
        }
    }
}

#[test]
fn a_silent_source_is_replaced_and_comes_back() {
    let directory = scratch("backup");
    let path = |name: &str| directory.join(name).display().to_string();
    write(&directory.join("first.wav"), &[(300, 0.5), (500, 0.0), (300, 0.5)]);
    write(&directory.join("second.wav"), &[(2000, 0.25)]);
    let port = free_port();
    let receiver = listen(ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        sink: path("got.wav"),
        length: Some(Duration::from_secs(20)),
        ..ReceiveOptions::default()
    });
    let sending = SendOptions {
        source: path("first.wav"),
        target: format!("rtp://127.0.0.1:{port}"),
        backup: Some(Backup { source: path("second.wav"), after: Duration::from_millis(100) }),
        // The backup would go on where the file ends.
        length: Some(Duration::from_millis(1300)),
        ..SendOptions::default()
    };
    let mut told = Vec::new();
    let sent = send(&sending, &Stop::new(), &mut |notice| told.push(notice), &mut |_| {}).expect("loopback");
    assert_eq!(sent.status.backup, Some(true), "after the end of the file");
    receiver.join().unwrap().expect("it ends with the stream");
    let got = read(&directory.join("got.wav"));
    let at = |ms: usize| got[ms * RATE / 1000];
    // Of 16 bits, each level is exact.
    for (ms, level) in [(290, 0.5), (320, 0.0), (390, 0.0), (450, 0.25), (790, 0.25), (830, 0.5), (1090, 0.5)]
    {
        assert_eq!(at(ms), level, "{ms} ms");
    }
    assert_eq!(at(1200), 0.25, "after the end of the file");
    let told = told.join("\n");
    assert!(told.contains("the backup is sent") && told.contains("has sound again"), "{told}");
    let complete = SendOptions { complete: Some(antiphon::CompleteOver::SamePort), ..sending };
    let refused = send(&complete, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("refused");
    assert!(refused.message.contains("--backup"), "{refused}");
    std::fs::remove_dir_all(directory).unwrap();
}

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use antiphon_media::{Sink, SinkError, StreamFormat};

use super::*;
use crate::{Deposit, OpenError, OpenedSink, SinkSpec, play_film};

fn spec(text: &str) -> PlayerSpec {
    match text.parse::<SinkSpec>().unwrap().kind {
        crate::SinkKind::Player(spec) => spec,
        other => panic!("{text} is {other:?}"),
    }
}

/// A script, written by a process of its own: a descriptor of ours would be copied into programs that other tests start meanwhile,
/// and what is open for writing can't be run (ETXTBSY, execve(2)).
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let written = Command::new("sh").args(["-c", write, "sh", text]).arg(&path).status();
    assert!(written.unwrap().success());
    path
}

#[test]
fn the_first_known_player_of_path_is_taken() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let path: OsString = std::env::join_paths(folders.iter().map(tempfile::TempDir::path)).unwrap();
    let none = spec("player:").program_in(&path).unwrap_err().to_string();
    assert!(none.contains("mpv, ffplay") && none.contains("install"), "{none}");
    let ffplay = script(folders[1].path(), "ffplay", "");
    assert_eq!(spec("player:").program_in(&path).unwrap().path, ffplay);
    let none = spec("player:mpv").program_in(&path).unwrap_err().to_string();
    assert!(none.contains("mpv is not found") && none.contains("install"), "{none}");
    let mpv = script(folders[1].path(), "mpv", "");
    // What may not be started is none.
    fs::write(folders[0].path().join("mpv"), "").unwrap();
    let found = spec("player:").program_in(&path).unwrap();
    assert_eq!(found.path, mpv);
    assert!(found.arguments.contains(&"--profile=low-latency"));
    assert_eq!(spec("player:ffplay").program_in(&path).unwrap().path, ffplay);
    // A known one by its path has its arguments as well, another none.
    assert_eq!(spec(&format!("player:{}", mpv.display())).program_in(&path).unwrap(), found);
    let own = script(folders[0].path(), "own", "");
    assert!(spec(&format!("player:{}", own.display())).program_in(&path).unwrap().arguments.is_empty());
}

#[test]
fn what_is_no_player_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "no program").unwrap();
    let at = |name: &str| format!("player:{}/{name}", folder.path().display());
    for (text, remedy) in [
        ("player:vlc".into(), "player:/PATH/TO/PROGRAM"),
        ("player:mpv?volume=3".into(), "volume"),
        (at("absent"), "check the spelling"),
        (at("text"), "chmod +x"),
        (at(""), "folder"),
        ("-?format=mkw".into(), "known"),
    ] {
        let refused = text.parse::<SinkSpec>().and_then(|spec| spec.check()).expect_err(&text).to_string();
        assert!(refused.contains(remedy), "{text}: {refused}");
    }
    let spec: SinkSpec = "-?format=mkv&rate=48kHz".parse().unwrap();
    assert_eq!((spec.film(), spec.rate), (Some(crate::FilmTarget::Live), Some(48_000)));
}

/// Writes samples as text to its outlet.
struct Plain {
    outlet: Outlet,
    writer: Option<OutletWriter>,
}

impl Deposit for Plain {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.checkpoint()?;
        let writer = self.writer.as_mut().expect("it was opened");
        samples.iter().try_for_each(|sample| write!(writer, "{sample} "))
    }

    fn skip(&mut self, _frames: u64) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        if self.writer.is_none() {
            self.writer = Some(self.outlet.open()?);
        }
        self.writer.as_mut().map_or(Ok(()), OutletWriter::check)
    }

    fn close(&mut self) -> io::Result<()> {
        self.writer = None;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn frame_bytes(&self) -> u64 {
        1
    }
}

fn play(program: &Path) -> Result<OpenedSink, OpenError> {
    let spec: SinkSpec = format!("player:{}", program.display()).parse()?;
    let stream = StreamFormat::new(8_000, 1)?;
    play_film(&spec, stream, None, |outlet| Box::new(Plain { outlet, writer: None }))
}

/// Pushes until the sink takes no more.
fn push_to_the_end(sink: &mut dyn Sink) -> SinkError {
    loop {
        match sink.push(&[0.5; 16]) {
            Ok(()) | Err(SinkError::Overrun { .. }) => thread::yield_now(),
            Err(error) => return error,
        }
    }
}

#[test]
fn a_player_gets_what_is_written_and_its_end_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let program = script(folder.path(), "copy", &format!("cat > {0}.part; mv {0}.part {0}", out.display()));
    let mut sink = play(&program).unwrap().sink;
    assert!(!sink.clocked());
    sink.push(&[0.5, 0.25]).unwrap();
    sink.finish().unwrap();
    assert_eq!(fs::read_to_string(out).unwrap(), "0.5 0.25 ");
}

#[test]
fn a_player_that_its_user_closes_is_no_failure_and_one_that_dies_is() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("closed", "head -c 4 >/dev/null"), ("closed-at-once", "exit 0"), ("asked", "kill $$")]
    {
        let mut sink = play(&script(folder.path(), name, text)).unwrap().sink;
        assert_eq!(push_to_the_end(&mut *sink), SinkError::Closed, "{name}");
        assert_eq!(sink.finish(), Ok(()), "{name}");
    }
    for (name, text, why) in
        [("dies", "exit 3", "exit status: 3"), ("deaf", "exec <&-; sleep 1000", "reads no more")]
    {
        let mut sink = play(&script(folder.path(), name, text)).unwrap().sink;
        assert_eq!(push_to_the_end(&mut *sink), SinkError::Failed, "{name}");
        let failed = sink.finish().expect_err(name).to_string();
        assert!(failed.contains(why) && failed.contains(name) && failed.contains("player:/PATH"), "{failed}");
    }
    // The script is gone before it is started.
    let program = script(folder.path(), "gone", "");
    let opened = play(&program);
    fs::remove_file(&program).unwrap();
    let failed = opened.map(|mut opened| opened.sink.finish());
    assert!(matches!(failed, Ok(Ok(()) | Err(SinkError::Cause(_))) | Err(_)), "{failed:?}");
}

/// The process of a script that wrote its number.
fn runs(number: &Path) -> bool {
    let number = fs::read_to_string(number).unwrap();
    Path::new("/proc").join(number.trim()).exists()
}

#[test]
fn no_player_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let number = folder.path().join("number");
    // It does not end with its input, nor when it is asked to.
    let text = format!(
        "trap '' INT TERM HUP; echo $$ > {0}.part; mv {0}.part {0}; exec sleep 1000",
        number.display()
    );
    let program = script(folder.path(), "paused", &text);
    for finishes in [true, false] {
        let mut sink = play(&program).unwrap().sink;
        sink.push(&[0.5; 16]).unwrap();
        while !number.exists() {
            thread::yield_now();
        }
        assert!(runs(&number));
        if finishes {
            sink.finish().unwrap();
        }
        drop(sink);
        assert!(!runs(&number), "finished: {finishes}");
        fs::remove_file(&number).unwrap();
    }
}

#[test]
fn a_window_has_the_title_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let has = |name: &str, text: &str| {
        let program = Program::at(&script(folder.path(), name, "")).unwrap();
        assert_eq!(program.arguments_for(None), program.arguments);
        let with = program.arguments_for(Some("10.0.0.2"));
        assert_eq!(with.len(), program.arguments.len());
        assert_eq!(
            with.iter().filter(|argument| *argument == text).count(),
            usize::from(name != "own"),
            "{with:?}"
        );
    };
    has("mpv", "--title=antiphon: 10.0.0.2");
    has("ffplay", "antiphon: 10.0.0.2");
    has("own", "antiphon: 10.0.0.2");
    let title = Title::default();
    assert_eq!(title.get_soon(), None);
    let told = title.clone();
    let teller = thread::spawn(move || told.set("10.0.0.3".into()));
    teller.join().unwrap();
    assert_eq!(title.get_soon(), Some("10.0.0.3"));
}

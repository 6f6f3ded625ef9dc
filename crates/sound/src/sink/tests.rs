use super::*;
use antiphon_media::SinkError;
use std::fs;

fn stream() -> StreamFormat {
    StreamFormat::new(48_000, 2).unwrap()
}

fn open(text: &str) -> Result<OpenedSink, OpenError> {
    open_sink(text, stream(), SampleFormat::L16)
}

fn error(text: &str) -> String {
    match open(text) {
        Ok(_) => panic!("{text} was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_take_is_never_lost_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    let take = format!("file:{}", path.display());
    fs::write(&path, "precious").unwrap();
    let refusal = error(&take);
    assert!(refusal.contains("take-2.wav") && refusal.contains("?overwrite=yes"), "{refusal}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    for expected in ["take-2.wav", "take-3.wav"] {
        let mut opened = open(&format!("{take}?number=yes")).unwrap();
        opened.sink.finish().unwrap();
        assert_eq!(opened.path, Some(dir.path().join(expected)));
    }
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    open(&format!("{take}?overwrite=yes")).unwrap().sink.finish().unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"RIFF"));
}

#[test]
fn refusals_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display();
    for (text, remedy) in [
        (format!("{folder}"), "name a file in it"),
        (format!("{folder}/none/take.wav"), "check the spelling"),
        (format!("{folder}/take.flac"), "take.wav"),
        (format!("file:{folder}/take.wav?formt=l16"), "did you mean 'format'"),
        (format!("file:{folder}/take.wav?format=l17"), "did you mean 'l16'"),
        (format!("file:{folder}/take.wav?rate=44100"), "44100"),
        (format!("file:{folder}/take.wav?rate=44100Hz"), "48000 Hz"),
        (format!("file:{folder}/take.wav?channels=65"), "1 to 64"),
        (format!("file:{folder}/take.wav?overwrite=maybe"), "yes or no"),
        (format!("file:{folder}/take.wav?overwrite=yes&number=yes"), "choose one"),
        ("-".into(), "-?format=s16le"),
        ("-?format=s16".into(), "did you mean 's16le'"),
        ("fle:take.wav".into(), "did you mean 'file'"),
        ("alsa:default".into(), "aplay"),
        ("tone:440Hz".into(), "known: file, null"),
        ("/dev/null".into(), "null:"),
        ("".into(), "write a path"),
    ] {
        let said = error(&text);
        assert!(said.contains(remedy), "{text}: {said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a refused sink left a file behind");
}

#[test]
fn null_and_memory_take_everything() {
    open("null:").unwrap().sink.push(&[0.0; 512]).unwrap();
    let mut null = NullSink::new(stream());
    null.push(&[0.0; 512]).unwrap();
    assert_eq!((null.frames(), null.clocked()), (256, false));
    let (mut sink, mut memory) = MemorySink::new(stream(), 3);
    sink.push(&[0.1, 0.2, 0.3, 0.4]).unwrap();
    assert_eq!(sink.push(&[0.5; 4]), Err(SinkError::Overrun { dropped: 2 }));
    assert_eq!(memory.take(), [0.1, 0.2, 0.3, 0.4]);
    sink.push(&[0.5; 6]).unwrap();
    assert_eq!(memory.take().len(), 6);
}

#[test]
fn each_of_several_streams_has_a_file_with_its_number() {
    let named = |text: &str| match text.parse::<SinkSpec>().unwrap().of_stream(2).kind {
        SinkKind::File { path, .. } => path,
        other => panic!("{text} is {other:?}"),
    };
    assert_eq!(named("/a/film.mkv"), Path::new("/a/film-2.mkv"));
    assert_eq!(named("film.of.us.mkv?overwrite=yes"), Path::new("film.of.us-2.mkv"));
    let null: SinkSpec = "null:".parse().unwrap();
    assert_eq!(null.of_stream(2), null);
}

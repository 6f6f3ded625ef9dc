use super::*;
use antiphon_media::Pull;
use proptest::prelude::*;
use std::fs;

fn error(text: &str) -> String {
    match open_source(text) {
        Ok(_) => panic!("{text} was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refusals_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    fs::write(dir.path().join("empty.wav"), "").unwrap();
    fs::write(dir.path().join("letter.mp3"), "Dear Sir or Madam, ".repeat(500)).unwrap();
    fs::write(dir.path().join("head.wav"), b"RIFF\x04\0\0\0WAVE").unwrap();
    for (text, remedy) in [
        (format!("file:{folder}/gone.wav"), "does not exist"),
        (format!("file:{folder}"), "name a file in it"),
        (format!("{folder}/empty.wav"), "choose another"),
        (format!("{folder}/letter.mp3"), "ffmpeg -i"),
        (format!("{folder}/head.wav"), "ends before its sound"),
        ("/dev/zero".into(), "through a pipe"),
        ("file://studio/take.wav".into(), "file:///PATH"),
        ("file:".into(), "file:take.wav"),
        ("file:take.wav?lop=yes".into(), "did you mean 'loop'"),
        ("file:take.wav?start=5".into(), "has no unit"),
        ("-?format=s16le&rate=48kHz".into(), "missing: channels"),
        ("-?format=s16le&rate=48000&channels=2".into(), "48000"),
        ("-?format=s16le&rate=4kHz&channels=2".into(), "8kHz to 192kHz"),
        ("-?live=perhaps".into(), "write yes or no"),
        ("-?live=yes&rate=48kHz".into(), "missing: format, channels"),
        ("tone:440".into(), "tone:440Hz"),
        ("tone:30kHz".into(), "at most 24000Hz"),
        ("tone:swep".into(), "did you mean 'sweep'"),
        ("tone:440Hz?level=-20".into(), "-20dB"),
        ("tone:440Hz?level=3dB".into(), "full scale"),
        ("tone:440Hz?every=1s".into(), "unknown key"),
        ("tone:sweep?from=1kHz&to=1kHz".into(), "tone:1000Hz"),
        ("tone:click?every=1us".into(), "every=500ms"),
        ("tone:440Hz?channels=0".into(), "1 to 64"),
        ("tone:440Hz?seconds=0s".into(), "seconds=10s"),
        ("clip:tabel".into(), "did you mean 'tabla'"),
        ("clip:tabla?rate=8kHz".into(), "rate=48kHz"),
        ("clip:guitar?start=1h".into(), "start="),
        ("jack:system".into(), "JACK_DEFAULT_SERVER"),
        ("jack:?rate=48kHz".into(), "omit rate="),
        ("jack:?channels=0".into(), "1 to 64"),
        ("jack:?name=a:b".into(), "without ':'"),
        ("jack:?conect=no".into(), "connect"),
        ("alsa:default".into(), "arecord"),
        ("tne:440Hz".into(), "did you mean 'tone'"),
    ] {
        let said = error(&text);
        assert!(said.contains(remedy), "{text}: {said}");
    }
}

#[test]
fn odd_file_names_are_files() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["take:1.wav", "what?.wav", "100%.wav"] {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        let text = path.display().to_string();
        assert!(matches!(text.parse(), Ok(SourceSpec::File { path: found, .. }) if found == path), "{name}");
    }
    let plain: SourceSpec = "take.wav?start=5s&loop=yes".parse().unwrap();
    let uri: Uri = "file:take.wav?loop=yes&start=5s".parse().unwrap();
    assert_eq!(plain, SourceSpec::try_from(&uri).unwrap());
    assert!(matches!(plain, SourceSpec::File { repeat: true, start, .. } if start.as_secs() == 5));
}

#[test]
fn standard_input_may_be_said_to_be_live_or_not() {
    for (text, expected) in [
        ("-", None),
        ("-?live=yes", Some(true)),
        ("-?live", Some(true)),
        ("-?format=s16le&rate=48kHz&channels=2&live=no", Some(false)),
    ] {
        let spec: SourceSpec = text.parse().unwrap();
        assert!(matches!(spec, SourceSpec::Stdin { live, .. } if live == expected), "{text}");
    }
}

/// All samples that `bytes` give on standard input, or the error.
fn piped(bytes: &[u8], layout: Option<&str>) -> Result<(StreamFormat, Vec<f32>, Vec<String>), OpenError> {
    let layout = layout.map(|text| match text.parse().unwrap() {
        SourceSpec::Stdin { layout: Some(layout), .. } => layout,
        other => panic!("{other:?}"),
    });
    let notes = Notes::default();
    let mut decoder = sniff(Box::new(Cursor::new(bytes.to_vec())), layout, &notes)?;
    let mut out = Vec::new();
    while decoder.decode(&mut out).unwrap_or(false) {}
    Ok((decoder.format(), out, notes.list()))
}

#[test]
fn a_pipe_is_raw_as_described_or_says_itself_what_it_is() {
    let raw = piped(&[0x40, 0, 0xc0, 0, 0x7f], Some("-?format=s16be&rate=8kHz&channels=2")).unwrap();
    assert_eq!(raw.1, [0.5, -0.5]);
    let stream = StreamFormat::new(44_100, 1).unwrap();
    let header = wav::Header { stream, sample: SampleFormat::L16 };
    let mut file = header.emit(4);
    file.extend([0, 0x40, 0, 0xc0]);
    for layout in [None, Some("-?format=s16le&rate=8kHz&channels=2")] {
        let (found, heard, notes) = piped(&file, layout).unwrap();
        assert_eq!((found, heard, notes.len()), (stream, vec![0.5, -0.5], 0));
    }
    let (_, heard, notes) = piped(&file[..file.len() - 2], None).unwrap();
    assert_eq!((heard.len(), notes.len()), (1, 1));
    let flac = include_bytes!("../../tests/fixtures/stereo-24bit.flac");
    assert_eq!(piped(flac, None).unwrap().1.len(), 2 * 4_800);
    assert!(matches!(piped(b"0123456789abcdef", None), Err(OpenError::NeedsFormat { .. })));
    assert!(matches!(piped(b"", None), Err(OpenError::Empty { .. })));
}

#[test]
fn a_live_source_starves_until_a_block_is_whole() {
    let (reader, mut writer) = io::pipe().unwrap();
    let (raw, stream) = ("s16le".parse().unwrap(), StreamFormat::new(8_000, 1).unwrap());
    let notes = Notes::default();
    let decoder = Box::new(WavDecoder::raw(reader, stream, raw, notes.clone()));
    let piped = Piped { decoder, pipe: None, live: None, clock: os::clock() };
    let mut source = PipeSource::start(piped, &notes).unwrap();
    let mut block = [0.0; 16];
    assert_eq!(source.pull(&mut block), Pull::Starved);
    io::Write::write_all(&mut writer, &[0; 2 * 24]).unwrap();
    drop(writer);
    let mut pull = || loop {
        match source.pull(&mut block) {
            Pull::Starved => std::thread::yield_now(),
            other => break other,
        }
    };
    assert_eq!((pull(), pull(), pull()), (Pull::Frames(16), Pull::Frames(8), Pull::End));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(file|tone|clip|-)?:?[a-z0-9]{0,8}[?][a-z]{0,7}=[a-zA-Z0-9.%-]{0,8}|.{0,40}") {
        let _ = text.parse::<SourceSpec>();
        let _ = text.parse::<crate::SinkSpec>();
    }

    #[test]
    fn no_pipe_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in 0usize..6) {
        let start: &[u8] = [&b"RIFF\x10\x20\0\0WAVE"[..], b"fLaC", b"OggS", b"ID3\x03", b"RF64", b""][magic];
        let _ = piped(&[start, &bytes].concat(), None);
        let _ = piped(&bytes, Some("-?format=f32le&rate=48kHz&channels=3"));
    }
}

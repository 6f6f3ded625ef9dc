use super::emit::Header;
use super::*;
use crate::decode::Decode;
use crate::{Notes, OpenError};
use proptest::prelude::*;
use std::fs::{self, File, OpenOptions};
use std::path::Path;

const SAMPLES: [SampleFormat; 5] = SampleFormat::ALL;

fn header(sample: SampleFormat, rate: u32, channels: u32) -> Header {
    Header { stream: StreamFormat::new(rate, channels).unwrap(), sample }
}

/// A finished file with `frames` sample frames of counting bytes.
fn file_bytes(header: Header, frames: u64) -> Vec<u8> {
    let data = frames * header.frame_bytes();
    let mut bytes = header.emit(data);
    bytes.extend((0..data).map(|i| (i % 100) as u8 + 1));
    bytes.extend(&[0][..(data % 2) as usize]);
    bytes
}

/// The sound of the file at `path`, or the error.
fn play(path: &Path) -> Result<(Vec<f32>, Vec<String>), OpenError> {
    let notes = Notes::default();
    let mut decoder = open_file(File::open(path).unwrap(), "it", 0, &notes)?;
    let mut out = Vec::new();
    while decoder.decode(&mut out).unwrap() {}
    Ok((out, notes.list()))
}

#[test]
fn a_file_cut_at_any_byte_plays_and_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    for (sample, channels) in [
        (SampleFormat::L16, 2),
        (SampleFormat::L24, 1),
        (SampleFormat::F32, 3),
        (SampleFormat::MuLaw, 1),
        (SampleFormat::ALaw, 5),
    ] {
        let header = header(sample, 8_000, channels);
        let whole = file_bytes(header, 7);
        let start = header.emit(0).len();
        let path = dir.path().join("cut.wav");
        let mut full = Vec::new();
        RawFormat::from(sample).decode(&whole[start..start + 7 * header.frame_bytes() as usize], &mut full);
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            if cut < start {
                assert!(play(&path).is_err());
                let error = repair(&path).unwrap_err();
                assert!(matches!(error, RepairError::Hopeless { .. }), "{error}");
                assert_eq!(fs::read(&path).unwrap(), &whole[..cut], "a hopeless file was changed");
                continue;
            }
            let frames = ((cut - start) as u64 / header.frame_bytes()).min(7);
            let expected = &full[..frames as usize * channels as usize];
            let (heard, notes) = play(&path).unwrap();
            assert_eq!(heard, expected, "cut at {cut}");
            let data_missing = cut < start + full.len() * sample.bytes();
            assert_eq!(notes.len(), usize::from(data_missing), "{notes:?}");
            let done = repair(&path).unwrap();
            assert_eq!((done.frames, done.gained), (frames, 0));
            let (heard, notes) = play(&path).unwrap();
            assert_eq!(heard, expected);
            assert_eq!(notes, Vec::<String>::new());
            assert!(!repair(&path).unwrap().changed, "mended twice at {cut}");
        }
    }
}

#[test]
fn an_unfinished_header_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("killed.wav");
    let header = header(SampleFormat::MuLaw, 8_000, 3);
    for known in [0, 2, 5] {
        // The header includes `known` sample frames; nine and a bit were written after it.
        let mut bytes = file_bytes(header, 9);
        let start = header.emit(known * 3).len();
        bytes[..start].copy_from_slice(&header.emit(known * 3));
        bytes.truncate(start + 27);
        bytes.extend([9, 9]);
        fs::write(&path, &bytes).unwrap();
        let (heard, notes) = play(&path).unwrap();
        assert_eq!((heard.len(), notes.len()), (27, 1));
        let done = repair(&path).unwrap();
        assert_eq!(done, Repaired { frames: 9, gained: 9 - known, removed_bytes: 2, changed: true });
        // Byte for byte the same as an undisturbed recording.
        assert_eq!(fs::read(&path).unwrap(), file_bytes(header, 9));
    }
}

#[test]
fn silence_behind_an_unfinished_header_is_sound_and_not_chunks() {
    // Zeros read as unnamed chunks of size zero, one after the other, exactly to the end.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.wav");
    let mut bytes = file_bytes(header(SampleFormat::L16, 8_000, 1), 4);
    bytes.extend([0; 8 * 5]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(play(&path).unwrap().0.len(), 24);
    let done = repair(&path).unwrap();
    assert_eq!((done.frames, done.gained), (24, 20));
}

#[test]
fn chunks_behind_the_sound_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tagged.wav");
    let mut bytes = file_bytes(header(SampleFormat::L16, 44_100, 1), 5);
    bytes.extend(b"LIST\x06\0\0\0INFOab");
    bytes.extend(b"id3 \x01\0\0\0x");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(play(&path).unwrap().0.len(), 5);
    assert!(!repair(&path).unwrap().changed);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn beyond_four_gibibytes_the_header_is_rf64() {
    let header = header(SampleFormat::L24, 192_000, 64);
    for data in [0, 192 * 1_000_000, 192 * 30_000_000, 1 << 50] {
        let data = data / 192 * 192;
        let info = WavInfo::parse(&mut &header.emit(data)[..]).unwrap();
        assert_eq!(info.claimed, Some(data));
        assert_eq!(info.rf64, data > u64::from(u32::MAX));
        assert_eq!(header.emit(data).len(), header.emit(0).len());
    }
    // A sparse file of 5 GiB whose header has no length yet, as after a kill during a long recording.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.wav");
    fs::write(&path, header.emit(0)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let start = header.emit(0).len() as u64;
    file.set_len(start + 192 * 28_000_000 + 7).unwrap();
    let done = repair(&path).unwrap();
    assert_eq!((done.frames, done.removed_bytes), (28_000_000, 7));
    let notes = Notes::default();
    let decoder = open_file(File::open(&path).unwrap(), "long.wav", 0, &notes).unwrap();
    assert_eq!((decoder.length(), notes.list().len()), (Some(28_000_000), 0));
    assert!(!repair(&path).unwrap().changed);
}

#[test]
fn adpcm_and_nonsense_are_refused_by_name() {
    let mut bytes = file_bytes(header(SampleFormat::L16, 8_000, 1), 3);
    let tag = bytes.windows(4).position(|w| w == b"fmt ").unwrap() + 8;
    bytes[tag] = 0x11;
    let error = read::refuse(WavInfo::parse(&mut &bytes[..]).unwrap_err(), "it.wav").to_string();
    assert!(error.contains("IMA ADPCM") && error.contains("ffmpeg"), "{error}");
    bytes[tag] = 1;
    bytes[tag + 2] = 0;
    let error = read::refuse(WavInfo::parse(&mut &bytes[..]).unwrap_err(), "it.wav").to_string();
    assert!(error.contains("1 to 64"), "{error}");
}

proptest! {
    #[test]
    fn headers_say_what_was_emitted(
        which in 0usize..5, rate in 8_000u32..=192_000, channels in 1u32..=64, frames in 0u64..1 << 40,
    ) {
        let header = header(SAMPLES[which], rate, channels);
        let data = frames * header.frame_bytes();
        let bytes = header.emit(data);
        let info = WavInfo::parse(&mut &bytes[..]).unwrap();
        prop_assert_eq!(info.stream, header.stream);
        prop_assert_eq!(info.sample, header.sample);
        prop_assert_eq!(info.claimed, Some(data));
        prop_assert_eq!(info.data_start, bytes.len() as u64);
        prop_assert_eq!(info.data_start % 2, 0);
    }

    #[test]
    fn broken_headers_neither_panic_nor_invent_sound(
        which in 0usize..5, frames in 0u64..20,
        changes in proptest::collection::vec((0usize..130, any::<u8>()), 0..6),
    ) {
        let mut bytes = file_bytes(header(SAMPLES[which], 8_000, 2), frames);
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broken.wav");
        fs::write(&path, &bytes).unwrap();
        if let Ok((heard, _)) = play(&path) {
            prop_assert!(heard.len() <= bytes.len());
        }
        if repair(&path).is_ok() {
            prop_assert!(play(&path).is_ok());
            prop_assert!(!repair(&path).unwrap().changed);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut riff = b"RIFF\xff\xff\xff\xffWAVE".to_vec();
        riff.extend(&bytes);
        let _ = WavInfo::parse(&mut &bytes[..]);
        let _ = WavInfo::parse(&mut &riff[..]);
    }
}

//! Every format, decoded through the public interface and compared with its reference decoder.
//!
//! Vectors, and who made them (all from sine waves by SoX 14.4.2): `stereo-24bit.flac` by flac 1.4.2 with blocks of
//! 1 024 (96 kHz, 440 and 660 Hz at half scale, 0.05 s); `tone.ogg` by oggenc 1.4.2 at quality 1 and `tone.mp3` by LAME
//! 3.100 at 128 kbit/s, scale 1 (44.1 kHz, the same tones, 0.5 s). The sums of FLAC files are of `flac -d`'s little-endian raw output.

use std::fs;
use std::path::PathBuf;

use antiphon_media::{Pull, SampleFormat, StreamFormat};
use antiphon_sound::{OpenedSource, open_sink, open_source};
use proptest::prelude::*;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(path: &std::path::Path) -> OpenedSource {
    open_source(path.to_str().unwrap()).unwrap()
}

fn drain(opened: &mut OpenedSource) -> Vec<f32> {
    let channels = opened.source.format().channels();
    let mut out = Vec::new();
    let mut block = vec![0.0; 1_024 * channels];
    loop {
        match opened.source.pull(&mut block) {
            Pull::Frames(frames) => out.extend(&block[..frames * channels]),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return out,
        }
    }
}

/// FNV-1a over the samples as little-endian integers of `bytes` bytes.
fn sum(samples: &[f32], bytes: usize) -> u64 {
    let scale = (1u32 << (8 * bytes - 1)) as f32;
    let stored = samples.iter().flat_map(|x| {
        let exact = x * scale;
        assert_eq!(exact.fract(), 0.0, "{x} is no sample of {bytes} bytes");
        (exact as i32).to_le_bytes().into_iter().take(bytes)
    });
    stored.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The part of the tone at `hertz` in one channel, as an amplitude.
fn amplitude(samples: &[f32], channels: usize, channel: usize, rate: f64, hertz: f64) -> f64 {
    let (mut re, mut im, mut n) = (0.0, 0.0, 0.0);
    for x in samples.iter().skip(channel).step_by(channels) {
        let phase = std::f64::consts::TAU * hertz * n / rate;
        (re, im, n) = (re + f64::from(*x) * phase.cos(), im + f64::from(*x) * phase.sin(), n + 1.0);
    }
    2.0 * f64::hypot(re, im) / n
}

#[test]
fn flac_is_exact() {
    let mut file = open(&fixture("stereo-24bit.flac"));
    assert_eq!(file.source.format(), StreamFormat::new(96_000, 2).unwrap());
    assert_eq!(file.source.sample_format(), SampleFormat::L24);
    assert_eq!(file.source.length(), Some(4_800));
    let samples = drain(&mut file);
    assert_eq!((samples.len(), sum(&samples, 3)), (9_600, SUM_24BIT));
}

/// It is compressed with losses: the clicks of 5 ms and 1 kHz every 2 s are what it is for.
#[test]
fn the_clappers_sound_is_as_long_as_it_says_and_clicks() {
    let mut clip = open_source("clip:clapper").unwrap();
    assert_eq!(clip.source.format(), StreamFormat::new(48_000, 1).unwrap());
    assert_eq!(clip.source.length(), Some(3_647_959));
    let samples = drain(&mut clip);
    assert_eq!((samples.len(), clip.notes.list().len()), (3_647_959, 0));
    for (number, two_seconds) in samples.chunks_exact(96_000).enumerate() {
        let click = amplitude(&two_seconds[..240], 1, 0, 48_000.0, 1_000.0);
        let before = amplitude(&two_seconds[96_000 - 480..96_000 - 240], 1, 0, 48_000.0, 1_000.0);
        assert!(click > 0.5 && before < click / 2.0, "click {number}: {click}, {before} before the next");
    }
}

#[test]
fn bundled_clips_are_exact_and_as_long_as_they_say() {
    for (name, frames, channels, expected) in [
        ("tabla", 512_352, 2, SUM_TABLA),
        ("guitar", 478_659, 2, SUM_GUITAR),
        ("speech-male", 633_332, 1, SUM_MALE),
        ("speech-female", 576_923, 1, SUM_FEMALE),
    ] {
        let mut clip = open_source(&format!("clip:{name}")).unwrap();
        assert_eq!(clip.source.format(), StreamFormat::new(48_000, channels).unwrap());
        assert_eq!(clip.source.length(), Some(frames));
        let samples = drain(&mut clip);
        assert_eq!(samples.len() as u64, frames * u64::from(channels), "{name}");
        assert_eq!(sum(&samples, 2), expected, "{name}");
        assert_eq!(clip.notes.list(), Vec::<String>::new());
    }
}

#[test]
fn the_demo_is_both_clips_and_start_leaves_out_what_it_says() {
    let whole = drain(&mut open_source("clip:demo").unwrap());
    let mut parts = drain(&mut open_source("clip:tabla").unwrap());
    parts.extend(drain(&mut open_source("clip:guitar").unwrap()));
    assert!(whole == parts);
    let mut late = open_source("clip:demo?start=12s").unwrap();
    assert_eq!(late.source.length(), Some(whole.len() as u64 / 2 - 576_000));
    assert!(drain(&mut late) == whole[2 * 576_000..]);
}

#[test]
fn voice_clips_are_there_as_mu_law() {
    let mut clip = open_source("clip:speech-female?rate=8kHz").unwrap();
    assert_eq!(clip.source.format(), StreamFormat::new(8_000, 1).unwrap());
    assert_eq!(clip.source.sample_format(), SampleFormat::MuLaw);
    let samples = drain(&mut clip);
    // A sixth of the 48 kHz clip; its level (-20.0 dB by SoX's `stats`) is that of the same speech. Half a dB would
    // show a wrong segment or sign, whose noise is loud.
    assert_eq!(samples.len(), 96_154);
    let power = samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / samples.len() as f64;
    assert!((10.0 * power.log10() + 20.04).abs() < 0.02, "{} dB", 10.0 * power.log10());
}

#[test]
fn lossy_files_have_their_length_and_their_tones() {
    // Levels as the reference decoders (oggdec, lame --decode) give them; LAME lowers its input by 5 %.
    for (name, levels) in [("tone.ogg", [0.50395, 0.50434]), ("tone.mp3", [0.47611, 0.47614])] {
        let mut file = open(&fixture(name));
        assert_eq!(file.source.format(), StreamFormat::new(44_100, 2).unwrap());
        let samples = drain(&mut file);
        // Encoder delay and padding are trimmed: exactly as many sample frames as were encoded.
        assert_eq!(samples.len(), 2 * 22_050, "{name}");
        for (channel, hertz) in [(0, 440.0), (1, 660.0)] {
            // Those decoders round to 16 bits, which averages out to some 1e-6; a wrong window or scale is 1e-2.
            let found = amplitude(&samples, 2, channel, 44_100.0, hertz);
            assert!((found / levels[channel] - 1.0).abs() < 1e-4, "{name}: {found} at {hertz} Hz");
        }
        assert_eq!(file.notes.list(), Vec::<String>::new());
    }
}

#[test]
fn recorded_sound_equals_played_sound() {
    let dir = tempfile::tempdir().unwrap();
    for sample in SampleFormat::ALL {
        for (rate, channels) in [(8_000, 1), (48_000, 2), (44_100, 5)] {
            let stream = StreamFormat::new(rate, channels).unwrap();
            let path = dir.path().join(format!("{}-{channels}.wav", sample.name()));
            // Noise that is already rounded to the format, so that it must come back exactly. An odd number of frames.
            let noise = format!(
                "tone:noise?seed=5&rate={rate}Hz&channels={channels}&format={}&seconds=501ms",
                sample.name()
            );
            let played = drain(&mut open_source(&noise).unwrap());
            let mut recording = open_sink(path.to_str().unwrap(), stream, sample).unwrap();
            for block in played.chunks(256 * channels as usize) {
                recording.sink.push(block).unwrap();
            }
            recording.sink.finish().unwrap();
            let mut again = open(&path);
            assert_eq!((again.source.format(), again.source.sample_format()), (stream, sample));
            assert!(drain(&mut again) == played, "{sample:?} with {channels} channels");
            assert_eq!(again.notes.list(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_truncated_file_plays_what_is_there_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(fixture("stereo-24bit.flac")).unwrap();
    let path = dir.path().join("cut.flac");
    fs::write(&path, &whole[..whole.len() * 9 / 10]).unwrap();
    let mut file = open(&path);
    let samples = drain(&mut file);
    let full = drain(&mut open(&fixture("stereo-24bit.flac")));
    assert!(!samples.is_empty() && samples.len() < full.len());
    assert!(full.starts_with(&samples));
    assert!(
        file.notes.list().iter().any(|note| note.contains("of 4800 sample frames")),
        "{:?}",
        file.notes.list()
    );
}

#[test]
fn looping_never_ends_and_never_stumbles() {
    let path = fixture("stereo-24bit.flac");
    let once = drain(&mut open(&path));
    let mut looped = open_source(&format!("file:{}?loop=yes", path.display())).unwrap();
    assert_eq!(looped.source.length(), None);
    let mut block = vec![0.0; once.len()];
    for round in 0..5 {
        while looped.source.pull(&mut block) == Pull::Starved {
            std::thread::yield_now();
        }
        assert!(block == once, "round {round}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn damaged_files_play_or_are_refused(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let name = ["stereo-24bit.flac", "tone.ogg", "tone.mp3"][which];
        let mut bytes = fs::read(fixture(name)).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, &bytes).unwrap();
        if let Ok(mut opened) = open_source(path.to_str().unwrap()) {
            let samples = drain(&mut opened);
            prop_assert!(samples.iter().all(|x| x.is_finite()));
        }
    }
}

const SUM_24BIT: u64 = 0x1df0_5e8c_b169_794b;
const SUM_TABLA: u64 = 0x14c9_8435_cc12_50ae;
const SUM_GUITAR: u64 = 0x6eb4_c71a_aa76_178a;
const SUM_MALE: u64 = 0xda1a_d819_3ca8_b4cb;
const SUM_FEMALE: u64 = 0xbd66_8b7c_ee43_8a0d;

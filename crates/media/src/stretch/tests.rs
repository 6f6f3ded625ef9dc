use std::f64::consts::TAU;

use antiphon_core::Rng;
use antiphon_testkit::Sine;

use super::*;

const RATE: f64 = 48_000.0;

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).unwrap()
}

/// Plays `sound` in blocks of 256, and changes it by a good piece every `every` blocks, towards longer or shorter sound.
fn changed(sound: &[f32], channels: usize, every: usize, longer: bool) -> (Vec<f32>, usize) {
    let mut stretch = Stretch::new(format(channels as u32));
    let (mut out, mut at, mut changes, mut block) = (Vec::new(), 0, 0, 0usize);
    let total = sound.len() / channels;
    while at < total {
        block += 1;
        let take = if longer { 256 } else { stretch.most_ahead() }.min(total - at);
        let mut piece_of = vec![0.0; (take + stretch.longest()) * channels];
        piece_of[..take * channels].copy_from_slice(&sound[at * channels..(at + take) * channels]);
        let next = piece_of[..take * channels].to_vec();
        let piece = match longer {
            _ if !block.is_multiple_of(every) || block < 12 => None,
            true => stretch.to_lengthen(&next, usize::MAX),
            false => stretch.to_shorten(&next, usize::MAX),
        };
        let len = match piece.filter(Piece::is_good) {
            Some(piece) if longer => {
                stretch.lengthen(piece, &mut piece_of);
                piece_of[piece.frames * channels..][..take * channels].copy_from_slice(&next);
                changes += 1;
                take + piece.frames
            }
            Some(piece) => {
                stretch.shorten(piece, &mut piece_of, take);
                changes += 1;
                take - piece.frames
            }
            None => take,
        };
        stretch.heard(&piece_of[..len * channels]);
        out.extend(&piece_of[..len * channels]);
        at += take;
    }
    (out, changes)
}

fn tone(frequency: f64, frames: usize) -> Vec<f32> {
    (0..frames).map(|n| ((TAU * frequency * n as f64 / RATE).sin() * 0.5) as f32).collect()
}

/// Three partials of a string, decaying, plucked twice a second.
fn plucked(frames: usize) -> Vec<f32> {
    let x = |n: usize| {
        let t = n as f64 / RATE;
        let since = t % 0.5;
        let partial = |k: f64| (TAU * 196.0 * k * t).sin() / k;
        (-6.0 * since).exp() * (partial(1.0) + partial(2.0) + partial(3.0)) * 0.25
    };
    (0..frames).map(|n| x(n) as f32).collect()
}

fn rms(sound: &[f32]) -> f64 {
    (sound.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / sound.len() as f64).sqrt()
}

/// The largest second difference: what a click has, and a smooth curve has not.
fn roughest(sound: &[f32]) -> f32 {
    sound.windows(3).map(|w| (w[2] - 2.0 * w[1] + w[0]).abs()).fold(0.0, f32::max)
}

/// Power of everything but the sine of that frequency, in dB below it, with phase and level fitted in each stretch of 10 ms.
fn impurity_db(sound: &[f32], frequency: f64) -> f64 {
    let w = TAU * frequency / RATE;
    // A sine at half scale has a power of 1/8.
    let worst = sound.chunks_exact(480).map(|part| Sine::fit(part, 0, w).rest / 0.125);
    10.0 * worst.fold(0.0, f64::max).log10()
}

/// Pieces of a sine are whole periods up to a sample: at 440 Hz a step of at most half a sample is 1.6 degrees.
#[test]
fn a_sine_stays_that_sine() {
    for frequency in [60.0, 440.0, 997.0, 3000.0] {
        let sound = tone(frequency, 96_000);
        for longer in [true, false] {
            let (out, changes) = changed(&sound, 1, 4, longer);
            assert!(changes > 15, "{frequency} {longer}: {changes}");
            let frames = out.len() as f64 / sound.len() as f64;
            assert!(if longer { frames > 1.1 } else { frames < 0.99 }, "{frequency} {longer}: {frames}");
            let level = rms(&out) / rms(&sound);
            assert!((0.98..1.02).contains(&level), "{frequency} {longer}: {level}");
            let own = roughest(&sound);
            assert!(roughest(&out) < own * 1.1 + 0.002, "{frequency} {longer}: {} {own}", roughest(&out));
            // Half a sample at 3 kHz is 11 degrees, spread over 2.5 ms.
            let (db, bound) =
                (impurity_db(&out[4800..], frequency), if frequency < 2000.0 { -30.0 } else { -20.0 });
            assert!(db < bound, "{frequency} {longer}: {db} dB");
        }
    }
}

/// What is blended is not alike in a place that is cut at random: the same measure sees it.
#[test]
fn the_measure_sees_a_bad_cut() {
    let sound = tone(440.0, 9600);
    let cut: Vec<f32> = sound[..4933].iter().chain(&sound[4933 + 30..]).copied().collect();
    assert!(impurity_db(&cut, 440.0) > -15.0 && roughest(&cut) > roughest(&sound) * 5.0);
}

#[test]
fn music_keeps_its_level_and_has_no_clicks() {
    let sound = plucked(192_000);
    // The attack itself is the roughest place of the original.
    for longer in [true, false] {
        let (out, changes) = changed(&sound, 1, 6, longer);
        assert!(changes > 20, "{longer}: {changes}");
        assert!(roughest(&out) < roughest(&sound) * 1.2, "{longer}: {} {}", roughest(&out), roughest(&sound));
        let level = rms(&out) / rms(&sound);
        assert!((0.93..1.07).contains(&level), "{longer}: {level}");
    }
}

/// Noise resembles nothing; where it must be changed, its level must stay.
#[test]
fn noise_that_is_changed_keeps_its_level() {
    let mut rng = Rng::fork(1, "noise");
    let sound: Vec<f32> = (0..48_000).map(|_| (rng.normal() * 0.1) as f32).collect();
    let mut stretch = Stretch::new(format(1));
    let mut blends = Vec::new();
    let mut at = 0;
    while at + 1400 < sound.len() {
        let ahead = stretch.most_ahead();
        let mut next = sound[at..at + ahead].to_vec();
        let piece = stretch.to_shorten(&next, usize::MAX).unwrap();
        assert!(!piece.is_good() || at == 0, "{piece:?}");
        stretch.shorten(piece, &mut next, ahead);
        blends.extend(&next[..stretch.overlap()]);
        stretch.heard(&next[..ahead - piece.frames]);
        at += ahead;
    }
    let level = rms(&blends) / rms(&sound);
    assert!((0.93..1.07).contains(&level), "{level}");
}

#[test]
fn silence_takes_any_change() {
    let mut stretch = Stretch::new(format(2));
    stretch.heard(&tone(440.0, 4800));
    stretch.heard(&[0.0; 8000]);
    let piece = stretch.to_lengthen(&[0.0; 512], 700).unwrap();
    assert_eq!((piece.frames, piece.silent), (700, true));
    let piece = stretch.to_shorten(&[0.0; 2 * 2000], 500).unwrap();
    assert_eq!((piece.frames, piece.silent), (500, true));
    // A pause that ends within what is looked at is not left out together with the sound.
    let mut next = vec![0.0; 1200];
    next.extend(tone(440.0, 1200));
    assert!(!stretch.to_shorten(&next, 960).unwrap().silent);
}

#[test]
fn channels_change_at_the_same_place() {
    let mono = plucked(48_000);
    let stereo: Vec<f32> = mono.iter().flat_map(|x| [*x, *x * 0.5]).collect();
    let (out, changes) = changed(&stereo, 2, 4, true);
    assert!(changes > 5);
    assert!(out.chunks_exact(2).all(|frame| (frame[0] * 0.5 - frame[1]).abs() < 1e-6));
}

#[test]
fn too_little_is_left_alone() {
    let mut stretch = Stretch::new(format(1));
    let overlap = stretch.overlap();
    assert_eq!(stretch.to_lengthen(&vec![0.1; overlap - 1], 1000), None);
    assert_eq!(stretch.to_lengthen(&vec![0.1; overlap], overlap - 1), None);
    assert_eq!(stretch.to_shorten(&vec![0.1; 2 * overlap - 1], 1000), None);
    assert!(stretch.to_shorten(&vec![f32::NAN; 2 * overlap], 1000).is_some());
    stretch.heard(&vec![f32::INFINITY; 100_000]);
    assert!(stretch.to_lengthen(&vec![f32::NAN; overlap], 1000).is_some());
    stretch.forget();
}

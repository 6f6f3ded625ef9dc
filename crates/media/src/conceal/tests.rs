use super::*;
use antiphon_core::Rng;
use proptest::prelude::*;

const GAP: Gap<'static> = Gap { remaining: None, ahead: &[] };

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).unwrap()
}

/// A sine of 441 Hz at half scale, `[sample_frame][channel]`, the second channel of opposite sign.
fn sine(from: usize, frames: usize) -> Vec<f32> {
    (from..from + frames)
        .flat_map(|n| {
            let x = 0.5 * (std::f32::consts::TAU * 441.0 * (n % 48_000) as f32 / 48_000.0).sin();
            [x, -x]
        })
        .collect()
}

/// Sends a sine through, losing blocks of `block` sample frames according to `pattern`.
fn heard(kind: Concealment, block: usize, pattern: &[bool]) -> Vec<f32> {
    let mut conceal = kind.open(format(2));
    let mut out = Vec::new();
    for (i, lost) in pattern.iter().enumerate() {
        let mut part = sine(i * block, block);
        match lost {
            true => conceal.lost(GAP, &mut part),
            false => conceal.good(&mut part),
        }
        out.extend(part);
    }
    out
}

fn largest_step(out: &[f32]) -> f32 {
    out.windows(3).map(|w| (w[2] - w[0]).abs()).fold(0.0, f32::max)
}

proptest! {
    /// The sine itself steps by 0.029 at most; a blend of 2.5 ms adds 0.013 per unit of difference, and the
    /// difference is at most 1. A hard join steps by up to 1, on average by 0.4.
    #[test]
    fn no_gap_clicks(block in 16usize..1000, pattern in prop::collection::vec(prop::bool::weighted(0.3), 5..60), kind in 0usize..3) {
        let step = largest_step(&heard(Concealment::ALL[kind], block, &pattern));
        prop_assert!(step < 0.029 + 0.014, "a step of {step}");
    }
}

#[test]
fn whole_sound_passes_unchanged_and_comes_back_unchanged() {
    for kind in Concealment::ALL {
        let mut pattern = [false; 40];
        assert_eq!(heard(kind, 256, &pattern), sine(0, 40 * 256));
        pattern[20] = true;
        let out = heard(kind, 256, &pattern);
        // The blend is over 10 ms after the return at the latest.
        let back = 21 * 256 + 480;
        assert_eq!(out[..20 * 512], sine(0, 20 * 256));
        assert_eq!(out[back * 2..], sine(back, 40 * 256 - back));
        assert_ne!(out, sine(0, 40 * 256));
    }
}

#[test]
fn all_end_in_silence() {
    let mut pattern = [true; 40];
    pattern[..10].fill(false);
    for (kind, ms) in
        [(Concealment::Silence, 3), (Concealment::Repetition, 60), (Concealment::Prediction, 60)]
    {
        let out = heard(kind, 240, &pattern);
        let silent = (2400 + 48 * ms) * 2;
        assert!(out[silent..].iter().all(|x| x.abs() < 1e-6), "{kind:?}");
        assert!(out[4800..silent].iter().any(|x| x.abs() > 1e-3), "{kind:?}");
    }
}

/// The energy of noise is kept for 10 ms and has half the strength 35 ms into the gap, as the gain line specifies.
#[test]
fn repetition_keeps_energy_as_appendix_i_does() {
    let mut rng = Rng::new(5);
    let mut conceal = Concealment::Repetition.open(format(1));
    let mut noise: Vec<f32> = (0..4800).map(|_| rng.unit() as f32 - 0.5).collect();
    conceal.good(&mut noise);
    let mut gap = vec![0.0; 2880];
    conceal.lost(GAP, &mut gap);
    let rms = |part: &[f32]| (part.iter().map(|x| x * x).sum::<f32>() / part.len() as f32).sqrt();
    // Blends of unrelated noise lose up to 3 dB in a quarter of the time: 10 % overall; the next step of the
    // gain (0.8) would be further off.
    assert!((rms(&gap[..480]) / 0.2887 - 1.0).abs() < 0.15, "{}", rms(&gap[..480]));
    assert!((rms(&gap[1440..1920]) / 0.2887 - 0.5).abs() < 0.1, "{}", rms(&gap[1440..1920]));
}

#[test]
fn names() {
    assert_eq!("repetition".parse(), Ok(Concealment::Repetition));
    let error = "silense".parse::<Concealment>().unwrap_err().to_string();
    assert!(error.contains("did you mean 'silence'"), "{error}");
}

/// Partials that do not fit into the window, over a gap of 20 ms at full strength.
#[test]
fn prediction_goes_on_where_the_sound_does() {
    let tones = [220.0, 663.0, 1_741.0, 5_210.0];
    let sound = |from: usize, frames: usize| -> Vec<f32> {
        let at = |n: usize| {
            let time = n as f32 / 48_000.0;
            tones.iter().map(|tone| 0.1 * (std::f32::consts::TAU * tone * time).sin()).sum()
        };
        (from..from + frames).map(at).collect()
    };
    let mut conceal = Concealment::Prediction.open(format(1));
    for block in 0..10 {
        conceal.good(&mut sound(block * 480, 480));
    }
    let mut gap = vec![0.0; 960];
    conceal.lost(GAP, &mut gap);
    let wanted = sound(4800, 960);
    let power = |part: &mut dyn Iterator<Item = f32>| part.map(|x| x * x).sum::<f32>();
    let error = power(&mut gap[..480].iter().zip(&wanted).map(|(a, b)| a - b));
    let whole = power(&mut wanted[..480].iter().copied());
    assert!(error < 0.05 * whole, "{} dB", 10.0 * (error / whole).log10());
    // The window makes partials decay, by less than a level step that is heard.
    let level = power(&mut gap[240..480].iter().copied()) / power(&mut wanted[240..480].iter().copied());
    assert!((0.7..1.1).contains(&level), "{level}");
}

/// A voice of 120 Hz, or of `pitch`, whose partials fall by 12 dB an octave, and which becomes louder and quieter by a tenth.
fn voice(pitch: f32, from: usize, frames: usize) -> Vec<f32> {
    let at = |n: usize| {
        let time = n as f32 / 48_000.0;
        let partial = |k: i32| (std::f32::consts::TAU * pitch * k as f32 * time).sin() / (k * k) as f32;
        let strength = 0.3 + 0.03 * (std::f32::consts::TAU * 3.0 * time).sin();
        (1..20).map(partial).sum::<f32>() * strength
    };
    (from..from + frames).map(at).collect()
}

/// Every twentieth packet is lost at random, up to three in a row: from each 10 ms, more than a period of the voice, to the next the level departs
/// from the voice's by less than 3 dB more, at the beginning of a gap, in it and at its end.
#[test]
fn prediction_has_no_step_of_level_at_a_seam() {
    for (seed, pitch) in [(1, 120.0), (2, 210.0), (3, 440.0)] {
        let (mut rng, mut conceal) = (Rng::new(seed), Concealment::Prediction.open(format(1)));
        let (mut out, mut run, mut gaps) = (Vec::new(), 0, 0);
        for block in 0..2000 {
            let mut part = voice(pitch, block * 256, 256);
            let lost = block > 20 && run < 3 && rng.unit() < 0.05;
            gaps += usize::from(lost && run == 0);
            run = if lost { run + 1 } else { 0 };
            match lost {
                true => conceal.lost(GAP, &mut part),
                false => conceal.good(&mut part),
            }
            out.extend(part);
        }
        let level = |part: &[f32]| 10.0 * part.iter().map(|x| x * x).sum::<f32>().log10();
        let whole = voice(pitch, 0, out.len());
        let departs = |(heard, wanted): (&[f32], &[f32])| level(heard) - level(wanted);
        let departures: Vec<f32> = out.chunks_exact(480).zip(whole.chunks_exact(480)).map(departs).collect();
        let step = departures.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max);
        assert!(gaps > 50 && step < 3.0, "{pitch} Hz: a step of {step} dB in {gaps} gaps");
    }
}

#[test]
fn prediction_is_bounded_for_any_sound() {
    let mut rng = Rng::new(9);
    for channels in [1, 2, 7, 64] {
        let mut conceal = Concealment::Prediction.open(format(channels));
        for round in 0..20 {
            let scale = [0.0, 1e-20, 1.0, 3.0][round % 4];
            let mut block: Vec<f32> = (0..512 * channels)
                .map(|n| scale * if round % 3 == 0 { 1.0 } else { rng.unit() as f32 - n as f32 % 2.0 })
                .collect();
            conceal.good(&mut block);
            let mut gap = vec![0.0; 700 * channels as usize];
            conceal.lost(GAP, &mut gap);
            assert!(
                gap.iter().all(|x| x.is_finite() && x.abs() <= 4.0),
                "{channels} channels, round {round}"
            );
        }
    }
}

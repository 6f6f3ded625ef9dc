//! A server that runs at another rate than the stream.

use antiphon_testkit::Sine;

use super::*;

/// Cycles of the server's rate, in microseconds.
fn step(time: &AtomicU64, cycles: u64, period: usize, rate: u32) {
    time.store(1_000_000 + cycles * period as u64 * 1_000_000 / u64::from(rate), Ordering::Relaxed);
}

fn tone(n: u64, rate: u32) -> f32 {
    ((n as f64 * std::f64::consts::TAU * 997.0 / f64::from(rate)).sin() * 0.5) as f32
}

/// The level in dB of the tone at this rate, and of all else against it.
fn heard(sound: &[f32], rate: u32) -> (f64, f64) {
    let fit = Sine::fit(sound, 0, std::f64::consts::TAU * 997.0 / f64::from(rate));
    (20.0 * (fit.level / 0.5).log10(), fit.rest_db())
}

#[test]
fn what_is_played_is_converted_without_a_gap() {
    for (rate, period) in [(44_100, 64), (96_000, 128), (44_100, 4096)] {
        let (mut sink, end, _side, time, counters) = playing_at(1, Pacing::Cycles);
        let mut end = AtRate::new(Box::new(end), Direction::Out, stream(1), rate).unwrap();
        let (mut count, mut played) = (0u64, Vec::new());
        for n in 0..u64::from(rate) / period as u64 {
            step(&time, n, period, rate);
            let mut cycle = Fake::new(1, period);
            cycle.position = (n * period as u64) as u32;
            // As a media thread that hands over what a sink wants just before its cycle.
            while let Some(wants) = sink.wants().filter(|wants| n > 0 && wants.frames >= wants.block) {
                let block: Vec<f32> = (count..).take(wants.block.min(64)).map(|n| tone(n, RATE)).collect();
                sink.push(&block).unwrap();
                count += block.len() as u64;
            }
            end.process(&mut cycle);
            played.extend(cycle.ports[0].iter().copied());
        }
        assert_eq!(counters.underruns.load(Ordering::Relaxed), 0, "{rate} {period}");
        let (level, rest) = heard(&played[played.len() / 2..], rate);
        assert!(level.abs() < 0.1 && rest < -80.0, "{rate} {period}: {level} dB, {rest} dB");
    }
}

#[test]
fn what_is_captured_is_converted_without_a_gap() {
    for (rate, period) in [(44_100, 64), (96_000, 128), (44_100, 4096)] {
        let (mut source, end, _side, time, counters) = capturing(1);
        let mut end = AtRate::new(Box::new(end), Direction::In, stream(1), rate).unwrap();
        let (mut captured, mut block) = (Vec::new(), vec![0.0; 16_384]);
        for n in 0..u64::from(rate) / period as u64 {
            step(&time, n, period, rate);
            let mut cycle = Fake::new(1, period);
            cycle.position = (n * period as u64) as u32;
            let first = n * period as u64;
            cycle.ports[0].iter_mut().zip(first..).for_each(|(sample, n)| *sample = tone(n, rate));
            end.process(&mut cycle);
            if let Pull::Frames(frames) = source.pull(&mut block) {
                captured.extend_from_slice(&block[..frames]);
            }
        }
        assert_eq!(counters.underruns.load(Ordering::Relaxed), 0, "{rate} {period}");
        let (level, rest) = heard(&captured[captured.len() / 2..], RATE);
        assert!(level.abs() < 0.1 && rest < -80.0, "{rate} {period}: {level} dB, {rest} dB");
        assert!(captured.len() + 16_384 > RATE as usize, "{rate}: {}", captured.len());
    }
}

#[test]
fn conversion_in_a_callback_does_not_allocate() {
    for (direction, rate) in [(Direction::Out, 44_100), (Direction::In, 96_000)] {
        let (_sink, playing, _side, _, _) = playing(2);
        let (_source, capturing, _captures, time, _) = capturing(2);
        let end: Box<dyn End> =
            if direction == Direction::Out { Box::new(playing) } else { Box::new(capturing) };
        let mut end = AtRate::new(end, direction, stream(2), rate).unwrap();
        let mut cycle = Fake::new(2, 64);
        let calls = Counting::calls(|| {
            for n in 0..500 {
                step(&time, n, 64, rate);
                cycle.position = (n * 64) as u32;
                end.process(&mut cycle);
            }
        });
        assert_eq!(calls, 0, "{direction:?}");
    }
}

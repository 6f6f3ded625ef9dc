//! Converted sources and sinks keep their length.

use antiphon_core::Instant;
use antiphon_media::{Pull, Ready, SampleFormat, Source, StreamFormat, Wake};
use antiphon_session::{PlayoutDelay, converted, converted_sink, limited};

use crate::common::sending;
use crate::world::{linked, ms, stack, track_config};
use antiphon_testkit::{Kept, Noise, expected};

/// A tone, so that the filter's effect on it can be measured.
fn tone(format: StreamFormat, frames: u64) -> Box<Noise> {
    let rate = f64::from(format.rate());
    Noise::like(format, frames, move |n, _| {
        (n as f64 / rate * 440.0 * std::f64::consts::TAU).sin() as f32 * 0.5
    })
}

fn all_of(source: &mut dyn Source, block: usize) -> Vec<f32> {
    let (channels, mut all) = (source.format().channels(), Vec::new());
    let mut room = vec![0.0; block * channels];
    while let Pull::Frames(frames) = source.pull(&mut room) {
        all.extend_from_slice(&room[..frames * channels]);
    }
    all
}

fn format(rate: u32, channels: u32) -> StreamFormat {
    StreamFormat::new(rate, channels).unwrap()
}

#[test]
fn a_converted_source_keeps_its_length_and_its_sound_in_place() {
    for (from, to) in [(44_100, 48_000), (48_000, 44_100), (8_000, 48_000), (96_000, 16_000)] {
        for (frames, block) in [(44_100 * 2 + 7, 64), (10_000, 4096), (100, 256)] {
            let tone = tone(format(from, 1), frames);
            let mut source = converted(tone, format(to, 2), None).unwrap();
            let told = source.length().unwrap();
            let all = all_of(&mut *source, block);
            let exact = frames as f64 * f64::from(to) / f64::from(from);
            let got = (all.len() / 2) as f64;
            assert!((got - exact).abs() <= 1.0, "{frames} of {from} make {got} of {to}, not {exact}");
            assert!((told as f64 - exact).abs() <= 1.0);
            // The tone keeps its position: one sample frame of 8 kHz off would be an error of 0.17.
            let middle = all.chunks(2).enumerate().skip(all.len() / 8).take(all.len() / 4);
            for (n, frame) in middle.filter(|_| frames > 1000) {
                let x = (n as f64 / f64::from(to) * 440.0 * std::f64::consts::TAU).sin() * 0.5;
                assert!((f64::from(frame[0]) - x).abs() < 0.1 && frame[0] == frame[1], "{from} {to} {n}");
            }
        }
    }
}

/// A microphone with so many sample frames in its buffer.
struct Microphone {
    format: StreamFormat,
    there: usize,
    skipped: u64,
}

impl Source for Microphone {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let frames = block.len() / self.format.channels();
        if frames > self.there {
            return Pull::Starved;
        }
        self.there -= frames;
        Pull::Frames(frames)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        Ready { frames: self.there, ended: false, piece: 0 }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let skipped = self.there.saturating_sub(frames);
        self.there -= skipped;
        self.skipped += skipped as u64;
        skipped as u64
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

#[test]
fn a_converted_live_source_has_ready_what_it_gives() {
    for (from, to) in [(44_100, 48_000), (48_000, 44_100), (8_000, 48_000), (48_000, 48_000)] {
        for there in [0, 100, 256, 700, 4_000] {
            let microphone = Microphone { format: format(from, 1), there, skipped: 0 };
            let mut source = limited(converted(Box::new(microphone), format(to, 2), None).unwrap(), 1 << 20);
            assert!(source.is_live());
            for block in [1, 64, 200] {
                let Ready { frames, ended, .. } = source.ready();
                assert!(!ended && frames <= there * to as usize / from as usize + 1);
                let block = frames.min(block);
                let mut room = vec![0.0; 2 * block];
                assert!(block == 0 || source.pull(&mut room) == Pull::Frames(block), "{from} {to} {there}");
            }
        }
        let microphone = Microphone { format: format(from, 1), there: 48_000, skipped: 0 };
        let mut source = converted(Box::new(microphone), format(to, 2), None).unwrap();
        let skipped = source.keep_newest(512);
        let exact = 48_000.0 * f64::from(to) / f64::from(from) - 512.0;
        assert!((skipped as f64 - exact).abs() < 2.0 + f64::from(to) / f64::from(from), "{skipped} {exact}");
    }
}

#[test]
fn mono_becomes_stereo_without_a_change() {
    let mut source = converted(Noise::new(format(48_000, 1), 10_007), format(48_000, 2), None).unwrap();
    let mono = expected(format(48_000, 1), 0, 10_007);
    let stereo: Vec<f32> = mono.iter().flat_map(|x| [*x, *x]).collect();
    assert_eq!(source.sample_format(), SampleFormat::L16);
    assert!(all_of(&mut *source, 300) == stereo);
}

#[test]
fn a_limit_cuts_to_the_frame() {
    let mut source = limited(Noise::new(format(48_000, 2), 100_000), 1_001);
    assert_eq!(source.length(), Some(1_001));
    assert!(all_of(&mut *source, 256) == expected(format(48_000, 2), 0, 1_001));
}

#[test]
fn a_converted_sink_gets_the_whole_stream() {
    for (from, to, frames) in [(48_000, 44_100, 48_000u64), (8_000, 48_000, 8_000), (48_000, 48_000, 5_000)] {
        let kept = Kept::default();
        let mut sink = converted_sink(kept.sink(format(to, 2)), format(from, 1)).unwrap();
        let mut tone = tone(format(from, 1), frames);
        for block in all_of(&mut *tone, 256).chunks(100) {
            sink.push(block).unwrap();
        }
        sink.finish().unwrap();
        let exact = frames as f64 * f64::from(to) / f64::from(from);
        assert!(
            ((kept.len() / 2) as f64 - exact).abs() <= 1.0,
            "{from} to {to}: {} of {exact}",
            kept.len() / 2
        );
    }
}

#[test]
fn a_converted_stream_keeps_its_length_from_end_to_end() {
    let wanted = format(48_000, 2);
    let tone = tone(format(44_100, 1), 44_100);
    let source = converted(tone, wanted, None).unwrap();
    let session = sending(&*stack("rtp"), source, track_config(wanted, 1), PlayoutDelay::Unbounded);
    let (mut world, kept) = linked("rtp", session, Some(ms(20)), "delay=1ms", 1);
    world.run(Instant::from_millis(10_000));
    assert!((kept.len() as i64 / 2 - 48_000).abs() <= 1, "{}", kept.len() / 2);
}

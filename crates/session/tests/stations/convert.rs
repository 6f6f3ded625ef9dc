//! Converted sources and sinks keep their length.

use antiphon_core::Instant;
use antiphon_media::{Pull, SampleFormat, Source, StreamFormat};
use antiphon_session::{converted, converted_sink, limited};

use crate::sound::{Kept, Noise, expected};
use crate::world::{World, ms, receive_station, sender_config};

/// A tone, so that what a filter does to it can be told.
struct Tone {
    format: StreamFormat,
    at: u64,
    end: u64,
}

impl Source for Tone {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.format.channels();
        let frames = (block.len() / channels).min((self.end - self.at) as usize);
        for (n, frame) in block.chunks_mut(channels).take(frames).enumerate() {
            let time = (self.at + n as u64) as f64 / f64::from(self.format.rate());
            frame.fill((time * 440.0 * std::f64::consts::TAU).sin() as f32 * 0.5);
        }
        self.at += frames as u64;
        if frames == 0 { Pull::End } else { Pull::Frames(frames) }
    }

    fn length(&self) -> Option<u64> {
        Some(self.end)
    }
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
fn a_converted_source_has_its_length_to_a_frame_and_its_sound_in_place() {
    for (from, to) in [(44_100, 48_000), (48_000, 44_100), (8_000, 48_000), (96_000, 16_000)] {
        for (frames, block) in [(44_100 * 2 + 7, 64), (10_000, 4096), (100, 256)] {
            let tone = Tone { format: format(from, 1), at: 0, end: frames };
            let mut source = converted(Box::new(tone), format(to, 2), None).unwrap();
            let told = source.length().unwrap();
            let all = all_of(&mut *source, block);
            let exact = frames as f64 * f64::from(to) / f64::from(from);
            let got = (all.len() / 2) as f64;
            assert!((got - exact).abs() <= 1.0, "{frames} of {from} make {got} of {to}, not {exact}");
            assert!((told as f64 - exact).abs() <= 1.0);
            // The tone stands where it stood: one sample frame of 8 kHz off would be an error of 0.17.
            let middle = all.chunks(2).enumerate().skip(all.len() / 8).take(all.len() / 4);
            for (n, frame) in middle.filter(|_| frames > 1000) {
                let x = (n as f64 / f64::from(to) * 440.0 * std::f64::consts::TAU).sin() * 0.5;
                assert!((f64::from(frame[0]) - x).abs() < 0.1 && frame[0] == frame[1], "{from} {to} {n}");
            }
        }
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
        let mut tone = Tone { format: format(from, 1), at: 0, end: frames };
        for block in all_of(&mut tone, 256).chunks(100) {
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
    let kept = Kept::default();
    let tone = Tone { format: format(44_100, 1), at: 0, end: 44_100 };
    let source = converted(Box::new(tone), wanted, None).unwrap();
    let station = antiphon_session::SendStation::new(
        crate::world::endpoint("rtp", antiphon_proto::Role::Caller, Instant::ZERO),
        source,
        sender_config(wanted, None, 1),
        "near",
        Instant::ZERO,
    );
    let mut world =
        World::linked(station.unwrap(), receive_station("rtp", Some(ms(20)), &kept), "delay=1ms", 1);
    world.run(Instant::from_millis(10_000));
    assert!((kept.len() as i64 / 2 - 48_000).abs() <= 1, "{}", kept.len() / 2);
}

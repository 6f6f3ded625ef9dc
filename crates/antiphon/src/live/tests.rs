use super::*;
use antiphon_media::{NullSink, SampleFormat, StreamFormat};

fn look(ms: u64, bytes: u64, peak: f32) -> Look {
    let peer = (ms >= 200).then(|| ([192, 0, 2, 7], 7710).into());
    let mut peaks = Peaks { channels: 2, ..Peaks::default() };
    peaks.peaks[1] = peak;
    Look { at: Instant::from_millis(ms), bytes, peaks, buffer: Duration::from_millis(20), peer }
}

#[test]
fn the_rate_is_that_of_the_last_second_and_of_the_whole() {
    let mut recent = Recent::default();
    let levels = vec![ChannelLevel::default(); 2];
    assert_eq!(
        recent.on_look(look(0, 0, 0.0)),
        LiveFigures { buffer_ms: 20.0, levels, ..LiveFigures::default() }
    );
    let mut now = LiveFigures::default();
    // 100 kbit/s for two seconds, then 400 kbit/s for two.
    for n in 1..=40_u64 {
        let bytes = if n <= 20 { n * 1250 } else { 25_000 + (n - 20) * 5000 };
        now = recent.on_look(look(n * 100, bytes, 0.0));
        // Each tenth of a second that is at 400 kbit/s instead of 100.
        let expected = 100.0 + 30.0 * (n.saturating_sub(20)).min(10) as f64;
        assert_eq!(now.kbit_per_s.map(f64::round), Some(expected), "{n}");
    }
    assert_eq!(now.kbit_per_s.map(f64::round), Some(400.0));
    assert_eq!((now.peer.as_deref(), now.buffer_ms), (Some("192.0.2.7:7710"), 20.0));
    // Nothing more comes: now 0, and the whole is as it was.
    for n in 41..=60_u64 {
        now = recent.on_look(look(n * 100, 125_000, 0.0));
    }
    assert_eq!(now.kbit_per_s, Some(0.0));
    // From the first look with packets, at 100 ms, to the last packets, at 4 s: 123750 bytes in 3.9 s.
    assert_eq!(recent.whole().kbit_per_s.map(f64::round), Some(254.0));
}

#[test]
fn a_peak_is_shown_for_a_second_and_kept_for_the_summary() {
    let mut recent = Recent::default();
    recent.on_look(look(0, 0, 0.0));
    assert_eq!(recent.on_look(look(100, 0, 1.0)).peak_dbfs, Some(0.0));
    assert_eq!(recent.on_look(look(200, 0, 0.1)).peak_dbfs, Some(0.0));
    for n in 3..=10 {
        assert_eq!(recent.on_look(look(n * 100, 0, 0.1)).peak_dbfs, Some(0.0), "{n}");
    }
    let later = recent.on_look(look(1100, 0, 0.1)).peak_dbfs.unwrap();
    assert!((later + 20.0).abs() < 1e-5, "{later}");
    for n in 12..=22 {
        recent.on_look(look(n * 100, 0, 0.0));
    }
    assert_eq!(recent.on_look(look(2300, 0, 0.0)).peak_dbfs, None, "silence");
    assert_eq!(recent.whole().peak_dbfs, Some(0.0));
}

#[test]
fn the_meter_hears_what_is_pushed_and_passes_it_on() {
    let meter = PeakMeter::default();
    let format = StreamFormat::new(48_000, 2).unwrap();
    let mut open = meter.sink(Box::new(move |_, _| Ok(Box::new(NullSink::new(format)))));
    let mut sink = open(format, SampleFormat::L16).unwrap();
    sink.push(&[0.25, -0.5, 0.0, f32::NAN]).unwrap();
    let taken = meter.take();
    assert_eq!((taken.channels, taken.highest(), &taken.peaks[..3]), (2, 0.5, &[0.25, 0.5, 0.0][..]));
    assert_eq!(meter.take().highest(), 0.0, "taken");
}

#[test]
fn each_channel_has_a_level_and_holds_it_for_a_second() {
    let mut recent = Recent::default();
    recent.on_look(look(0, 0, 0.0));
    recent.on_look(look(100, 0, 1.0));
    let levels = recent.on_look(look(200, 0, 0.0)).levels;
    let held = ChannelLevel { peak_dbfs: None, held_dbfs: Some(0.0) };
    assert_eq!(levels, [ChannelLevel::default(), held]);
    for n in 3..=20 {
        recent.on_look(look(n * 100, 0, 0.0));
    }
    assert_eq!(recent.on_look(look(2100, 0, 0.0)).levels, [ChannelLevel::default(); 2]);
    assert!(recent.whole().levels.is_empty());
}

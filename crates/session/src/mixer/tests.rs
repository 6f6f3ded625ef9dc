use antiphon_media::SampleFormat;
use antiphon_testkit::{Kept, stereo};

use super::*;

/// A mixer into memory, that is asked at the run's pace for blocks of 64.
fn mixer(kept: &Kept) -> Mixer {
    Mixer::new(kept.sink(stereo()), 64, Instant::ZERO)
}

fn open(mixer: &Mixer, channels: u32) -> (Input, Box<dyn Sink>) {
    let (input, mut open) = mixer.input();
    let format = StreamFormat::new(48_000, channels).expect("a usual format");
    (input, open(format, SampleFormat::L16).expect("a sink"))
}

/// Begins the block that is due, if one is.
fn begin_block(mixer: &mut Mixer, now: Instant) -> bool {
    let due = mixer.due(now);
    due.iter().for_each(|block| mixer.begin(*block));
    due.is_some()
}

/// Gives blocks of `block` as long as it wants some, numbered from `at` on.
fn give(sink: &mut dyn Sink, at: &mut u32, block: usize) {
    while sink.wants().is_some_and(|wants| wants.frames >= block) {
        let sound: Vec<f32> = (*at..*at + block as u32).map(|n| n as f32 / 65_536.0).collect();
        sink.push(&sound).expect("room");
        *at += block as u32;
    }
}

#[test]
fn inputs_of_any_block_are_added_sample_by_sample() {
    let kept = Kept::default();
    let mut mixer = mixer(&kept);
    let ((mut one, mut first), (mut two, mut second)) = (open(&mixer, 1), open(&mixer, 1));
    let (mut a, mut b, mut now) = (0, 0, Instant::ZERO);
    for _ in 0..40 {
        while begin_block(&mut mixer, now) {
            give(&mut *first, &mut a, 48);
            give(&mut *second, &mut b, 256);
            mixer.add(&mut one);
            mixer.add(&mut two);
            mixer.push().expect("memory");
        }
        now = mixer.poll_timeout();
    }
    let sound = kept.samples();
    assert!(sound.len() >= 39 * 128, "{}", sound.len());
    for (n, frame) in sound.chunks_exact(2).enumerate() {
        // Both count sample frames, and a mono input is in both channels.
        assert_eq!((frame[0], frame[1]), (n as f32 / 32_768.0, n as f32 / 32_768.0), "{n}");
    }
    assert_eq!(mixer.counters().limited_frames, 0);
    assert_eq!(mixer.counters().frames * 2, sound.len() as u64);
}

/// A sink that wants a block and has gone without so many sample frames, and whose clock has lost as many nanoseconds.
struct Missed(Arc<AtomicU64>);

impl Sink for Missed {
    fn format(&self) -> StreamFormat {
        stereo()
    }
    fn push(&mut self, _block: &[f32]) -> Result<(), SinkError> {
        Ok(())
    }
    fn clocked(&self) -> bool {
        true
    }
    fn wants(&self) -> Option<Wants> {
        let missed = self.0.load(Ordering::Relaxed);
        Some(Wants { missed, slipped: missed as i64, ..Wants::any(64) })
    }
    fn period(&self) -> Option<usize> {
        Some(64)
    }
    fn room(&self) -> usize {
        usize::MAX
    }
    fn silence(&mut self, _frames: u64) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn every_input_leaves_out_what_the_sink_has_missed() {
    let missed = Arc::<AtomicU64>::default();
    let mut mixer = Mixer::new(Box::new(Missed(missed.clone())), 64, Instant::ZERO);
    let (_first, first) = open(&mixer, 1);
    missed.store(300, Ordering::Relaxed);
    assert!(begin_block(&mut mixer, Instant::ZERO), "it wants one");
    let (_second, second) = open(&mixer, 2);
    let asks = |sink: &dyn Sink| sink.wants().expect("it has a clock");
    let of = |sink: &dyn Sink| asks(sink).missed;
    assert_eq!(asks(&*second).slipped, 300, "differences of it count");
    assert_eq!((of(&*first), of(&*second)), (300, 0), "who begins later has missed nothing");
    missed.store(364, Ordering::Relaxed);
    assert!(begin_block(&mut mixer, Instant::from_millis(2)), "it wants one");
    assert_eq!((of(&*first), of(&*second)), (364, 64));
}

#[test]
fn an_input_that_begins_later_begins_with_the_next_block() {
    let kept = Kept::default();
    let mut mixer = mixer(&kept);
    let (mut now, mut at) = (Instant::ZERO, 1_000);
    let mut input = None;
    for block in 0..4 {
        if block == 2 {
            input = Some(open(&mixer, 1));
        }
        assert!(begin_block(&mut mixer, now));
        if let Some((input, sink)) = &mut input {
            give(&mut **sink, &mut at, 64);
            mixer.add(input);
        }
        mixer.push().expect("memory");
        now = mixer.poll_timeout();
    }
    let sound = kept.samples();
    assert!(sound[..256].iter().all(|sample| *sample == 0.0));
    assert_eq!((sound[256], sound[510]), (1_000.0 / 65_536.0, 1_127.0 / 65_536.0));
    let (input, _) = input.expect("it began");
    assert_eq!((input.take_peak(), input.take_peak()), (1_127.0 / 65_536.0, 0.0));
}

#[test]
fn sixteen_at_full_scale_are_limited_and_not_clipped() {
    let kept = Kept::default();
    let mut mixer = mixer(&kept);
    let mut inputs: Vec<_> = (0..16).map(|_| open(&mixer, 2)).collect();
    let mut now = Instant::ZERO;
    for block in 0..1_500 {
        assert!(begin_block(&mut mixer, now));
        for (n, (input, sink)) in inputs.iter_mut().enumerate() {
            // From the second on, all of them but the first are silent.
            let level = if block < 750 { 1.0e30 } else { f32::from(n == 0) * 0.5 };
            let sound: Vec<f32> = (0..128).map(|i| if i / 2 % 32 < 16 { level } else { -level }).collect();
            sink.push(&sound).expect("room");
            mixer.add(input);
        }
        mixer.push().expect("memory");
        now = mixer.poll_timeout();
    }
    let sound = kept.samples();
    assert!(sound.iter().all(|sample| sample.abs() <= CEILING), "never past full scale");
    assert_eq!(sound[128].abs(), CEILING);
    // 0.9999 of the gain is back after nine time constants, of which one second has five.
    let last = sound[sound.len() - 1].abs();
    assert!((0.49..=0.5).contains(&last), "{last}");
    let limited = mixer.counters().limited_frames;
    assert!((1..=750 * 64).contains(&limited), "{limited}");
}

#[test]
fn a_lone_party_within_full_scale_is_left_as_it_is() {
    let mut limiter = Limiter::new(48_000);
    let sound: Vec<f32> = (0..9_600).map(|n| CEILING * (n as f32 * 0.05).sin()).collect();
    let mut limited = sound.clone();
    assert_eq!((limiter.apply(&mut limited, 1), limited == sound), (0, true));
}

#[test]
fn the_shape_of_a_loud_low_tone_is_kept() {
    // 100 Hz at twice full scale is a sine of half the level then. In the 5 ms between two peaks the gain rises by 2.5 % of what is
    // missing, so a little of each peak is cut off; a clipped sine of that level would leave -12 dB.
    let mut limiter = Limiter::new(48_000);
    let turn = std::f64::consts::TAU * 100.0 / 48_000.0;
    let mut sound: Vec<f32> = (0..48_000).map(|n| (2.0 * (turn * f64::from(n)).sin()) as f32).collect();
    limiter.apply(&mut sound, 1);
    let sine = antiphon_testkit::Sine::fit(&sound[24_000..], 24_000, turn);
    assert!((sine.level - 1.0).abs() < 0.02 && sine.rest_db() < -40.0, "{sine:?}: {}", sine.rest_db());
}

#[test]
fn a_sink_that_is_asked_too_late_drops_whole_blocks() {
    let kept = Kept::default();
    let mixer = mixer(&kept);
    let (_input, mut sink) = open(&mixer, 2);
    let mut dropped = 0;
    for _ in 0..10 {
        if let Err(SinkError::Overrun { dropped: frames }) = sink.push(&[0.5; 512]) {
            dropped += frames;
        }
    }
    assert_eq!(dropped, 8 * 256, "there is room for two blocks and a part");
}

#[test]
fn a_machine_that_stood_still_makes_silence_and_no_blocks() {
    let kept = Kept::default();
    let mut mixer = mixer(&kept);
    let mut blocks = 0;
    // The first block is due at the beginning.
    for seconds in [0, 100] {
        let now = Instant::from_millis(1_000 * seconds);
        mixer.catch_up(now).expect("memory");
        while begin_block(&mut mixer, now) {
            mixer.push().expect("memory");
            blocks += 1;
        }
    }
    assert!(blocks <= 3, "{blocks}");
    let frames = kept.len() as u64 / 2;
    assert!((4_800_000..=4_800_064).contains(&frames), "{frames}");
    assert_eq!(mixer.counters().frames, frames);
}

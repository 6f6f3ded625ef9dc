use std::sync::atomic::AtomicU64;

use antiphon_media::{Pull, Source};
use antiphon_testkit::Counting;

use super::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

mod cycles;
mod other_rates;

const RATE: u32 = 48_000;

fn stream(channels: u32) -> StreamFormat {
    StreamFormat::new(RATE, channels).unwrap()
}

/// A cycle without a server.
struct Fake {
    ports: Vec<Vec<f32>>,
    late: u32,
    position: u32,
    freewheels: bool,
}

impl Fake {
    fn new(channels: usize, period: usize) -> Self {
        Fake { ports: vec![vec![9.0; period]; channels], late: 0, position: 0, freewheels: false }
    }
}

impl Cycle for Fake {
    fn frames(&self) -> usize {
        self.ports[0].len()
    }
    fn freewheels(&self) -> bool {
        self.freewheels
    }
    fn late(&self) -> u32 {
        self.late
    }
    fn position(&self) -> u32 {
        self.position
    }
    fn next(&self) -> usize {
        self.frames()
    }
    fn slips(&self) -> bool {
        true
    }
    fn play(&mut self, from: usize, sound: &[f32]) {
        let channels = self.ports.len();
        for (channel, port) in self.ports.iter_mut().enumerate() {
            let samples = sound.iter().skip(channel).step_by(channels);
            port[from..].iter_mut().zip(samples).for_each(|(to, sample)| *to = *sample);
        }
    }
    fn play_silence(&mut self, from: usize) {
        self.ports.iter_mut().for_each(|port| port[from..].fill(0.0));
    }
    fn capture(&mut self, from: usize, sound: &mut [f32]) {
        let channels = self.ports.len();
        for (channel, port) in self.ports.iter().enumerate() {
            let samples = sound.iter_mut().skip(channel).step_by(channels);
            samples.zip(&port[from..]).for_each(|(to, sample)| *to = *sample);
        }
    }
}

/// A sink, the device's end, what makes further rings, the time in microseconds, and what is counted.
type Playing = (DeviceSink, play::PlayEnd, play::PlaySide, Arc<AtomicU64>, Arc<Counters>);

fn playing(channels: u32) -> Playing {
    playing_at(channels, Pacing::Even)
}

fn playing_at(channels: u32, pacing: Pacing) -> Playing {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let (clock, counters) = (Clock::Test(time.clone()), Arc::new(Counters::default()));
    let PlayParts { side, end, rest } = PlayParts::new(stream(channels), pacing, &counters, clock.clone());
    let keeper = Keeper::none(counters.clone());
    let sink = DeviceSink::new(stream(channels), (pacing, 64), rest, counters.clone(), clock, keeper);
    (sink, end, side, time, counters)
}

fn capturing(
    channels: u32,
) -> (DeviceSource, capture::CaptureEnd, capture::CaptureSide, Arc<AtomicU64>, Arc<Counters>) {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let (clock, counters) = (Clock::Test(time.clone()), Arc::new(Counters::default()));
    let CaptureParts { side, end, rest } = CaptureParts::new(stream(channels), &counters, clock);
    let source = DeviceSource::new(
        stream(channels),
        Pacing::Cycles,
        rest,
        counters.clone(),
        Keeper::none(counters.clone()),
    );
    (source, end, side, time, counters)
}

fn wanted(sink: &DeviceSink) -> usize {
    sink.wants().unwrap().frames
}

/// Plays `seconds` of a count from 1 in periods of `period`. The media thread looks every 200 µs and now and then up to 0.7 ms
/// late; cycles begin up to 0.3 ms late and say so. Returns what was played, and the longest time in microseconds from a
/// push to the cycle that took it.
fn play_count(period: usize, block: usize, seconds: u64) -> (Vec<f32>, u64) {
    let (mut sink, mut end, _side, time, counters) = playing(1);
    let (mut count, mut played, mut pushes, mut longest) = (0u64, Vec::new(), Vec::new(), 0);
    let (start, mut cycles, mut look) = (time.load(Ordering::Relaxed), 0u64, 0u64);
    for micros in (0..seconds * 1_000_000).step_by(20) {
        time.store(start + micros, Ordering::Relaxed);
        let due = cycles * period as u64 * 1_000_000 / u64::from(RATE);
        let late = cycles * 7 % 300;
        if micros >= due + late {
            cycles += 1;
            let mut cycle = Fake::new(1, period);
            cycle.late = ((micros - due) * u64::from(RATE) / 1_000_000) as u32;
            end.process(&mut cycle);
            let taken = cycle.ports[0].iter().filter(|x| **x > 0.0).count();
            let begun = pushes.iter().take_while(|(first, _)| *first < played.len() + taken).count();
            for (_, at) in pushes.drain(..begun) {
                longest = longest.max(due.saturating_sub(at));
            }
            played.extend(cycle.ports[0].iter().filter(|x| **x > 0.0));
        }
        if micros >= look {
            look = micros + 200 + if micros % 13_000 < 200 { 500 } else { 0 };
            while wanted(&sink) >= block {
                pushes.push((count as usize, micros));
                let sound: Vec<f32> = (0..block as u64).map(|n| (count + n + 1) as f32).collect();
                sink.push(&sound).unwrap();
                count += block as u64;
            }
        }
    }
    assert_eq!(counters.missing.load(Ordering::Relaxed), 0, "period {period}, block {block}");
    (played, longest)
}

#[test]
fn every_sample_is_played_once_at_any_period() {
    for (period, block) in [(16, 16), (64, 64), (100, 48), (128, 64), (1024, 64), (4096, 256)] {
        let (played, longest) = play_count(period, block, 2);
        assert!(played.iter().enumerate().all(|(n, x)| *x == (n + 1) as f32), "period {period}");
        // All but what waits, and what the last cycle did not take.
        assert!(
            played.len() + 2 * (period + block) + 100 > 2 * RATE as usize,
            "{} at {period}",
            played.len()
        );
        // The period that is taken at once, the block and the margin of 1 ms; 20 µs of the simulation's steps, and rounding.
        let most = (period + block) as u64 * 1_000_000 / u64::from(RATE) + 1_000 + 45;
        assert!(longest <= most, "waited {longest} of {most} µs, period {period}, block {block}");
    }
}

#[test]
fn what_a_cycle_lacked_is_counted_and_added_to_the_margin() {
    let (mut sink, mut end, _side, time, counters) = playing(2);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    end.process(&mut Fake::new(2, 100));
    assert_eq!(count(&counters.underruns), 0, "nothing was pushed yet");
    sink.push(&[0.5; 2 * 16]).unwrap();
    end.process(&mut Fake::new(2, 100));
    assert_eq!(count(&counters.underruns), 0, "the queue was not filled yet");
    while wanted(&sink) >= 16 {
        sink.push(&[0.5; 2 * 16]).unwrap();
    }
    // A block of 16 and a margin of 48 wait.
    let mut cycle = Fake::new(2, 100);
    end.process(&mut cycle);
    assert!(cycle.ports.iter().all(|port| port[..64] == [0.5; 64] && port[64..] == [0.0; 36]));
    assert_eq!((count(&counters.underruns), count(&counters.missing)), (1, 36));
    // The 36 should have waited as well.
    assert_eq!(wanted(&sink), 64 + 36);
    // A longer period finds what was enough for a shorter one: no reason for a longer margin.
    let margin = counters.margin.load(Ordering::Relaxed);
    while wanted(&sink) >= 16 {
        sink.push(&[0.5; 2 * 16]).unwrap();
    }
    end.process(&mut Fake::new(2, 4096));
    assert_eq!(count(&counters.underruns), 2);
    assert_eq!(counters.margin.load(Ordering::Relaxed), margin);
    for _ in 0..1000 {
        time.fetch_add(85_000, Ordering::Relaxed);
        end.process(&mut Fake::new(2, 4096));
    }
    assert_eq!(counters.margin.load(Ordering::Relaxed), RATE / 10, "the margin has a bound");
}

#[test]
fn a_cycle_that_came_late_began_when_the_server_says() {
    let wants = |late| {
        let (mut sink, mut end, _side, time, _counters) = playing(1);
        sink.push(&[0.5; 64]).unwrap();
        time.fetch_add(2_000, Ordering::Relaxed);
        end.process(&mut Fake { late, ..Fake::new(1, 64) });
        wanted(&sink)
    };
    // 0.5 ms of the next cycle have passed.
    assert_eq!(wants(24), wants(0) + 24);
}

#[test]
fn channels_keep_their_ports_across_the_end_of_the_ring() {
    let (mut sink, mut end, _side, _time, _counters) = playing(3);
    let mut next = 0;
    // 13 312 sample frames fit; 100 at a time meet the end of the ring in the middle of a block.
    for _ in 0..300 {
        let block: Vec<f32> = (0..300).map(|n| (next + n) as f32).collect();
        sink.push(&block).unwrap();
        let mut cycle = Fake::new(3, 100);
        end.process(&mut cycle);
        for (channel, port) in cycle.ports.iter().enumerate() {
            assert!(port.iter().enumerate().all(|(n, x)| *x == (next + 3 * n + channel) as f32));
        }
        next += 300;
    }
}

#[test]
fn a_freewheeling_server_plays_silence_and_takes_sound_at_its_pace() {
    let (mut sink, mut end, _side, time, counters) = playing(1);
    sink.push(&[0.5; 4800]).unwrap();
    for _ in 0..1000 {
        time.fetch_add(10, Ordering::Relaxed);
        let mut cycle = Fake { freewheels: true, ..Fake::new(1, 1024) };
        end.process(&mut cycle);
        assert!(cycle.ports[0].iter().all(|x| *x == 0.0));
    }
    // 10 ms have passed for a million sample frames of the server.
    let left = 4800 - (sink.room() as i64 - 13_312).unsigned_abs() as usize;
    assert!(left.abs_diff(480) <= 2, "{left} were taken");
    assert_eq!(counters.underruns.load(Ordering::Relaxed), 0);
}

#[test]
fn sound_goes_on_through_another_ring() {
    let (mut sink, end, mut side, time, _counters) = playing(1);
    sink.push(&[0.5; 64]).unwrap();
    // The server is lost, and the thread that watches it takes the device's place.
    drop(end);
    let mut idle = side.link();
    assert!(wanted(&sink) >= 64, "the new ring is to be filled");
    let mut pushed = 0;
    for _ in 0..200 {
        idle.idle(time.fetch_add(5_000, Ordering::Relaxed));
        while wanted(&sink) >= 64 {
            sink.push(&[0.5; 64]).unwrap();
            pushed += 64;
        }
    }
    side.collect();
    assert!((47_500..48_500).contains(&pushed), "{pushed} in a second");
}

#[test]
fn captured_channels_are_side_by_side_and_wake_the_sender() {
    let (mut source, mut end, _side, _time, _counters) = capturing(2);
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    source.set_waker(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert!(source.is_live() && source.length().is_none());
    assert_eq!(source.pull(&mut [0.0; 128]), Pull::Starved);
    let mut cycle = Fake::new(2, 100);
    cycle.ports[0].iter_mut().enumerate().for_each(|(n, x)| *x = n as f32);
    cycle.ports[1].iter_mut().enumerate().for_each(|(n, x)| *x = -(n as f32));
    end.process(&mut cycle);
    assert_eq!((woken.load(Ordering::Relaxed), source.ready().frames), (1, 100));
    let mut block = [0.0; 200];
    assert_eq!(source.pull(&mut block), Pull::Frames(100));
    assert!(block.chunks(2).enumerate().all(|(n, frame)| frame == [n as f32, -(n as f32)]));
}

#[test]
fn what_is_captured_before_it_is_wanted_is_no_defect() {
    let (mut source, mut end, _side, _time, counters) = capturing(1);
    let dropped = |counters: &Counters| counters.dropped.load(Ordering::Relaxed);
    (0..500).for_each(|_| end.process(&mut Fake::new(1, 64)));
    assert_eq!(dropped(&counters), 0);
    // What overflowed was newer than all that is there.
    assert_eq!(source.keep_newest(64), 500 * 64);
    end.process(&mut Fake::new(1, 64));
    assert_eq!(source.pull(&mut [0.0; 64]), Pull::Frames(64));
    (0..500).for_each(|_| end.process(&mut Fake::new(1, 64)));
    assert_eq!(dropped(&counters), (500 - 13_312 / 64) * 64);
}

#[test]
fn silence_takes_the_place_of_a_lost_server() {
    let (mut source, mut end, mut side, time, _counters) = capturing(1);
    end.process(&mut Fake::new(1, 64));
    drop(end);
    let mut idle = side.link();
    for _ in 0..21 {
        idle.idle(time.fetch_add(5_000, Ordering::Relaxed));
    }
    assert_eq!(source.ready().frames, 64 + 4800);
    let mut block = [1.0; 480];
    assert_eq!(source.pull(&mut block), Pull::Frames(480));
    assert!(block[..64] == [9.0; 64] && block[64..] == [0.0; 416], "the old ring comes first");
    assert_eq!(source.ready().frames, 4800 - 416);
    side.collect();
}

#[test]
fn cycles_that_the_server_lost_are_silence() {
    let (mut source, mut end, _side, _time, counters) = capturing(1);
    // Two cycles, of which the first ends where the position wraps; then three are lost, and the server's clock is set.
    for position in [u32::MAX - 63, 0, 256, 320, 7] {
        end.process(&mut Fake { position, ..Fake::new(1, 64) });
    }
    let mut block = [0.0; 640];
    assert_eq!(source.pull(&mut block), Pull::Frames(5 * 64 + 192));
    assert!(block[..128] == [9.0; 128] && block[128..320] == [0.0; 192] && block[320..512] == [9.0; 192]);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&counters.underruns), count(&counters.missing)), (1, 192));
}

#[test]
fn the_time_between_two_servers_is_silence() {
    let (mut source, mut end, mut side, time, _counters) = capturing(1);
    end.process(&mut Fake::new(1, 64));
    drop(end);
    // The loss is noticed after 50 ms, and a new client's first cycle comes 20 ms after the last look.
    let mut idle = side.link();
    idle.idle(time.fetch_add(50_000, Ordering::Relaxed) + 50_000);
    assert_eq!(source.ready().frames, 64 + 2400);
    drop(idle);
    let mut end = side.link();
    time.fetch_add(20_000, Ordering::Relaxed);
    end.process(&mut Fake::new(1, 96));
    assert_eq!(source.pull(&mut vec![0.0; 2464]), Pull::Frames(2464));
    assert_eq!(source.pull(&mut vec![0.0; 4096]), Pull::Frames(960));
}

#[test]
fn neither_callbacks_nor_the_media_thread_allocate() {
    let (mut sink, mut play_end, mut play_side, time, _counters) = playing(2);
    let (mut source, mut capture_end, mut capture_side, _, _) = capturing(2);
    source.set_waker(Box::new(|| ()));
    let (mut cycle, mut block) = (Fake::new(2, 64), [0.5; 2 * 64]);
    let (mut later_play, mut later_capture) = (play_side.link(), capture_side.link());
    let calls = Counting::calls(|| {
        for round in 0..2000_u32 {
            let now = time.fetch_add(1_333, Ordering::Relaxed);
            cycle.position = round * 64 + round / 100 * 640;
            cycle.freewheels = round % 500 > 480;
            if round < 1000 {
                play_end.process(&mut cycle);
                capture_end.process(&mut cycle);
            } else {
                later_play.idle(now);
                later_capture.idle(now);
            }
            // A media thread that stands still for 0.4 s: underruns and overflows.
            if round % 700 > 300 {
                while wanted(&sink) >= 64 {
                    sink.push(&block).unwrap();
                }
                source.keep_newest(256);
                while source.ready().frames >= 64 {
                    source.pull(&mut block);
                }
            }
        }
    });
    assert_eq!(calls, 0);
}

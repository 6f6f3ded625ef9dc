//! A sink that hands over the sound of a cycle just before it begins.

use super::super::pacing::Margin;
use super::*;

/// A media thread that hands over a count from 1 in blocks of up to `block`, whenever it is asked to look.
struct Counted {
    sink: DeviceSink,
    block: usize,
    count: u64,
    missed: u64,
}

impl Counted {
    /// Hands over what is due; `at` hears the number of each block's first sample frame.
    fn look(&mut self, mut at: impl FnMut(u64)) {
        loop {
            let wants = self.sink.wants().unwrap();
            let block = self.block.min(wants.block);
            if wants.frames < block {
                return;
            }
            self.count += wants.missed - std::mem::replace(&mut self.missed, wants.missed);
            at(self.count);
            let sound: Vec<f32> = (0..block as u64).map(|n| (self.count + n + 1) as f32).collect();
            self.sink.push(&sound).unwrap();
            self.count += block as u64;
        }
    }

    /// Hands over what the sink takes before it is due.
    fn look_early(&mut self) {
        loop {
            let wants = self.sink.wants().unwrap();
            let block = self.block.min(wants.block);
            if wants.ahead + block > wants.early {
                return;
            }
            let sound: Vec<f32> = (0..block as u64).map(|n| (self.count + n + 1) as f32).collect();
            self.sink.push(&sound).unwrap();
            self.count += block as u64;
        }
    }
}

/// Plays `seconds` in periods of `period`. The media thread wakes up to 160 µs after a block is due; cycles begin late.
/// Returns what was played, and the longest time in microseconds from a push to the beginning of the cycle that took it.
fn play_count(period: usize, block: usize, seconds: u64) -> (Vec<f32>, u64) {
    let (sink, mut end, _side, time, counters) = playing_at(1, Pacing::Cycles);
    let mut media = Counted { sink, block, count: 0, missed: 0 };
    let (mut played, mut pushes, mut longest) = (Vec::new(), Vec::new(), 0);
    let (start, mut cycles, mut look) = (time.load(Ordering::Relaxed), 0u64, 0u64);
    for micros in (0..seconds * 1_000_000).step_by(20) {
        time.store(start + micros, Ordering::Relaxed);
        let due = cycles * period as u64 * 1_000_000 / u64::from(RATE);
        // Up to 0.3 ms late, or a fourth of a shorter period.
        let lates = (period as u64 * 1_000_000 / u64::from(RATE) / 4).min(300);
        if micros >= due + cycles * 7 % lates {
            cycles += 1;
            let mut cycle = Fake::new(1, period);
            end.process(&mut cycle);
            for (_, at) in pushes.drain(..) {
                longest = longest.max(due.saturating_sub(at));
            }
            played.extend(cycle.ports[0].iter().filter(|x| **x > 0.0));
        }
        if micros >= look {
            look = micros + 160;
            media.look(|first| pushes.push((first, micros)));
        }
    }
    assert_eq!(counters.missing.load(Ordering::Relaxed), 0, "period {period}, block {block}");
    (played, longest)
}

#[test]
fn every_cycle_finds_just_its_sound() {
    for (period, block) in [(16, 16), (64, 64), (100, 48), (128, 64), (128, 128), (1024, 64), (4096, 256)] {
        let (played, longest) = play_count(period, block, 2);
        assert!(played.iter().enumerate().all(|(n, x)| *x == (n + 1) as f32), "period {period}");
        assert!(played.len() + 3 * period + block > 2 * RATE as usize, "{} at {period}", played.len());
        // The blocks of a cycle come evenly, the last one the margin of 0.25 ms before it; its beginning is known to 0.3 ms.
        let most = (period - block.min(period)) as u64 * 1_000_000 / u64::from(RATE) + 250 + 300 + 45;
        assert!(longest <= most, "waited {longest} of {most} µs, period {period}, block {block}");
    }
}

/// A cycle of 64 each 1333 µs, for which the media thread looks `late` microseconds after the sound is due; returns what was played.
fn cycle(media: &mut Counted, end: &mut play::PlayEnd, time: &AtomicU64, late: u64) -> Vec<f32> {
    let mut cycle = Fake::new(1, 64);
    let begins = time.load(Ordering::Relaxed) + 1_333;
    // The margin of 0.25 ms, in whole sample frames.
    let due = begins - 230;
    if due + late < begins {
        time.store(due + late, Ordering::Relaxed);
        media.look(|_| ());
    }
    time.store(begins, Ordering::Relaxed);
    end.process(&mut cycle);
    if due + late >= begins {
        time.store(due + late, Ordering::Relaxed);
        media.look(|_| ());
        time.store(begins, Ordering::Relaxed);
    }
    cycle.ports[0].clone()
}

#[test]
fn sound_that_comes_after_its_cycle_is_dropped_and_the_next_is_in_place() {
    let (sink, mut end, _side, time, counters) = playing_at(1, Pacing::Cycles);
    let mut media = Counted { sink, block: 64, count: 0, missed: 0 };
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut last = 0.0;
    for n in 0..2_000 {
        last = cycle(&mut media, &mut end, &time, if n == 100 { 400 } else { 0 })[63];
    }
    assert_eq!((count(&counters.underruns), count(&counters.missing)), (1, 64));
    assert_eq!(counters.margin.load(Ordering::Relaxed), 12, "the first second makes no longer margin");
    // 0.17 ms after the cycle began, which is silence then; the next cycle plays what belongs there.
    assert_eq!(cycle(&mut media, &mut end, &time, 400), [0.0; 64]);
    assert_eq!((count(&counters.underruns), count(&counters.missing)), (2, 128));
    let next = cycle(&mut media, &mut end, &time, 0);
    assert!(
        next.iter().enumerate().all(|(n, x)| *x == last + (64 + n + 1) as f32),
        "{} after {last}",
        next[0]
    );
    // Now 0.4 ms is in time, as the margin has grown.
    let margin = counters.margin.load(Ordering::Relaxed);
    assert_eq!(margin, 24);
    cycle(&mut media, &mut end, &time, 0);
    assert!(cycle(&mut media, &mut end, &time, 0)[0] > 0.0);
    // What is not needed again goes within 30 s. The thread that looks 0.23 ms before a cycle is 12 sample frames late then.
    for _ in 0..23_000 {
        cycle(&mut media, &mut end, &time, 0);
    }
    assert_eq!(counters.margin.load(Ordering::Relaxed), 12 + 4);
    assert_eq!(count(&counters.underruns), 2);
}

/// A stream begins with silence, which its player makes until the playout delay is over.
#[test]
fn cycles_before_the_first_sound_lack_nothing() {
    let (mut sink, mut end, _side, time, counters) = playing_at(1, Pacing::Cycles);
    let missing = |counters: &Counters| counters.missing.load(Ordering::Relaxed);
    let mut play = |sound: f32, held_up: bool| {
        time.fetch_add(1_333, Ordering::Relaxed);
        end.process(&mut Fake::new(1, 64));
        while !held_up && sink.wants().is_some_and(|wants| wants.frames > 0) {
            let block = sink.wants().unwrap().block.min(64);
            sink.push(&[sound; 64][..block]).unwrap();
        }
    };
    (0..100).for_each(|n| play(0.0, n % 10 == 9));
    assert_eq!(missing(&counters), 0);
    (0..3).for_each(|_| play(0.5, false));
    play(0.5, true);
    play(0.5, false);
    assert_eq!(missing(&counters), 64);
}

#[test]
fn after_a_long_hold_up_nothing_old_is_played() {
    let (sink, mut end, _side, time, counters) = playing_at(1, Pacing::Cycles);
    let mut media = Counted { sink, block: 64, count: 0, missed: 0 };
    for _ in 0..2_000 {
        cycle(&mut media, &mut end, &time, 0);
    }
    let before = media.count;
    // 0.3 s without the media thread, whose player leaves out what is old by itself.
    for _ in 0..225 {
        time.fetch_add(1_333, Ordering::Relaxed);
        end.process(&mut Fake::new(1, 64));
    }
    let mut heard = Vec::new();
    for _ in 0..100 {
        heard.extend(cycle(&mut media, &mut end, &time, 0));
    }
    let sound: Vec<f32> = heard.iter().copied().filter(|x| *x > 0.0).collect();
    assert!(sound.len() >= 95 * 64, "{}", sound.len());
    // 6000 sample frames are owed at most; what is older the player leaves out by itself.
    let first = before + 6_000 + 1;
    assert!(
        sound.iter().enumerate().all(|(n, x)| *x == (first + n as u64) as f32),
        "{} after {before}",
        sound[0]
    );
    assert!(counters.margin.load(Ordering::Relaxed) <= 48, "one hold-up makes little delay");
}

#[test]
fn the_media_thread_does_not_allocate() {
    let (mut sink, mut end, _side, time, _counters) = playing_at(2, Pacing::Cycles);
    let (mut cycle, block) = (Fake::new(2, 64), [0.5; 2 * 64]);
    let calls = Counting::calls(|| {
        for round in 0..2_000_u32 {
            time.fetch_add(1_333, Ordering::Relaxed);
            end.process(&mut cycle);
            // Held up for 0.4 s now and then.
            if round % 700 <= 300 {
                continue;
            }
            loop {
                let wants = sink.wants().unwrap();
                if wants.frames < wants.block.min(64) {
                    break;
                }
                sink.push(&block[..2 * wants.block.min(64)]).unwrap();
            }
        }
    });
    assert_eq!(calls, 0);
}

/// A media thread that hands over what has come, 20 ms of it, and then stands still for 17 ms: each cycle finds its sound, in its place, and no margin grows.
#[test]
fn what_was_handed_over_early_lasts_while_the_media_thread_stands_still() {
    for (period, block) in [(64, 64), (240, 240), (256, 64)] {
        let (sink, mut end, _side, time, counters) = playing_at(1, Pacing::Cycles);
        let mut media = Counted { sink, block, count: 0, missed: 0 };
        let (mut played, start) = (Vec::<f32>::new(), time.load(Ordering::Relaxed));
        let lasts = period as u64 * 1_000_000 / u64::from(RATE);
        let mut stands_still = 0;
        for n in 0..2 * u64::from(RATE) / period as u64 {
            time.store(start + n * lasts, Ordering::Relaxed);
            let mut cycle = Fake::new(1, period);
            end.process(&mut cycle);
            played.extend(cycle.ports[0].iter().filter(|sample| **sample > 0.0));
            if n * lasts % 50_000 < lasts && n > 10 {
                stands_still = n + 17_000 / lasts;
            }
            time.store(start + n * lasts + lasts / 4, Ordering::Relaxed);
            if n >= stands_still {
                media.look(|_| ());
                media.look_early();
            }
        }
        assert!(played.iter().enumerate().all(|(n, sample)| *sample == (n + 1) as f32), "{period}, {block}");
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((count(&counters.underruns), count(&counters.missing)), (0, 0), "{period}, {block}");
        assert_eq!(counters.margin.load(Ordering::Relaxed), Margin::least(RATE), "{period}, {block}");
        let wants = media.sink.wants().unwrap();
        assert!(wants.ahead <= wants.early && wants.early == RATE as usize / 50, "{wants:?}");
    }
}

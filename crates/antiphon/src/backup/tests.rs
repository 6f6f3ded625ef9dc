//! Both sources by hand, with a clock by hand.

use std::sync::Mutex;

use super::*;

/// A clock that is set by hand.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Duration>>);

impl ByHand {
    fn passes(&self, ms: u64) {
        *self.0.lock().unwrap() += Duration::from_millis(ms);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Instant {
        Instant::ZERO + *self.0.lock().unwrap()
    }
}

/// A source of one level, which can be changed while it is used.
#[derive(Clone)]
struct Level {
    state: Arc<Mutex<State>>,
    live: bool,
}

struct State {
    level: f32,
    ready: usize,
    ended: bool,
}

impl Level {
    fn new(level: f32, live: bool) -> Self {
        let ready = if live { 0 } else { usize::MAX };
        Level { state: Arc::new(Mutex::new(State { level, ready, ended: false })), live }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }
}

impl Source for Level {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(48_000, 2).unwrap()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let mut state = self.state.lock().unwrap();
        let frames = (block.len() / 2).min(state.ready);
        match frames {
            0 if state.ended => Pull::End,
            0 => Pull::Starved,
            frames => {
                if state.ready != usize::MAX {
                    state.ready -= frames;
                }
                block[..2 * frames].fill(state.level);
                Pull::Frames(frames)
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        self.live
    }

    fn ready(&self) -> Ready {
        let state = self.state.lock().unwrap();
        Ready { frames: state.ready, ended: state.ended, piece: 0 }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let mut state = self.state.lock().unwrap();
        let dropped = state.ready.saturating_sub(frames);
        state.ready -= dropped;
        dropped as u64
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

const AFTER: Duration = Duration::from_millis(100);
/// 10 ms.
const BLOCK: usize = 480;

struct Bench {
    first: Level,
    second: Level,
    clock: ByHand,
    source: BackedUp<ByHand>,
    meter: BackupMeter,
    /// The last sample heard.
    last: f32,
    /// The largest step between neighbours.
    step: f32,
}

impl Bench {
    fn new(live: bool) -> Self {
        let (first, second, clock) = (Level::new(0.5, live), Level::new(0.25, false), ByHand::default());
        let (source, meter) =
            BackedUp::new(Box::new(first.clone()), Box::new(second.clone()), AFTER, BLOCK, clock.clone());
        Bench { first, second, clock, source, meter, last: 0.5, step: 0.0 }
    }

    /// Pulls a block after 10 ms, for which a live source has one as well if it `gives`.
    fn pull(&mut self, gives: bool) -> Pull {
        self.clock.passes(10);
        if gives && self.first.live {
            self.first.set(|state| state.ready += BLOCK);
        }
        let mut block = [9.0; 2 * BLOCK];
        let pulled = self.source.pull(&mut block);
        if let Pull::Frames(frames) = pulled {
            for frame in block[..2 * frames].chunks_exact(2) {
                assert_eq!(frame[0], frame[1], "both channels alike");
                self.step = self.step.max((frame[0] - self.last).abs());
                self.last = frame[0];
            }
        }
        pulled
    }

    fn pulls(&mut self, blocks: usize, gives: bool) {
        for _ in 0..blocks {
            assert_eq!(self.pull(gives), Pull::Frames(BLOCK));
        }
    }
}

#[test]
fn silence_brings_the_backup_and_sound_the_first_source_without_a_step() {
    for live in [false, true] {
        let mut bench = Bench::new(live);
        bench.pulls(5, true);
        assert_eq!((bench.last, bench.meter.plays()), (0.5, false));
        bench.first.set(|state| state.level = 0.0);
        bench.pulls(9, true);
        assert_eq!((bench.last, bench.meter.plays()), (0.0, false), "not yet: 90 ms");
        bench.step = 0.0;
        bench.pulls(3, true);
        assert_eq!((bench.last, bench.meter.plays()), (0.25, true));
        bench.pulls(100, true);
        assert_eq!(
            (bench.last, bench.source.is_live()),
            (0.25, live),
            "it goes on, at the pace of the first"
        );
        bench.first.set(|state| state.level = 0.5);
        bench.pulls(3, true);
        assert_eq!((bench.last, bench.meter.plays()), (0.5, false));
        assert!(bench.step < 0.002, "a step of {}", bench.step);
    }
}

#[test]
fn short_silence_and_quiet_sound_bring_no_backup() {
    let mut bench = Bench::new(false);
    for _ in 0..20 {
        bench.first.set(|state| state.level = 0.0);
        bench.pulls(9, true);
        bench.first.set(|state| state.level = 1.0 / 8_388_608.0);
        bench.pulls(1, true);
        assert!(!bench.meter.plays());
    }
}

#[test]
fn a_live_source_that_gives_nothing_is_replaced_at_the_pace_of_the_run() {
    let mut bench = Bench::new(true);
    bench.pulls(5, true);
    // A piece of a block is left, and nothing more comes.
    bench.first.set(|state| state.ready = 7);
    assert!(bench.source.is_live());
    assert_eq!(bench.pull(false), Pull::Frames(7));
    for _ in 0..8 {
        assert_eq!((bench.pull(false), bench.source.is_live()), (Pull::Starved, true));
    }
    bench.clock.passes(20);
    assert!(!bench.source.is_live(), "the run's clock paces the sender now");
    bench.pulls(10, false);
    assert_eq!((bench.last, bench.meter.plays()), (0.25, true));
    // It comes back.
    bench.first.set(|state| state.ready += BLOCK);
    assert!(bench.source.is_live());
    bench.step = 0.0;
    bench.pulls(3, true);
    assert_eq!((bench.last, bench.meter.plays()), (0.5, false));
    assert!(bench.step < 0.002, "a step of {}", bench.step);
}

#[test]
fn what_stays_ready_unchanged_is_no_sign_of_life() {
    let bench = Bench::new(true);
    bench.first.set(|state| state.ready = 7);
    assert!(bench.source.is_live());
    bench.clock.passes(101);
    assert!(!bench.source.is_live());
    bench.first.set(|state| state.ready = 8);
    assert!(bench.source.is_live());
}

#[test]
fn the_backup_plays_on_after_the_end_until_its_own() {
    let mut bench = Bench::new(false);
    bench.pulls(5, true);
    bench.first.set(|state| (state.ready, state.ended) = (0, true));
    bench.pulls(5, true);
    assert_eq!((bench.last, bench.meter.plays()), (0.25, true));
    bench.second.set(|state| (state.ready, state.ended) = (100, true));
    assert_eq!(bench.pull(true), Pull::Frames(100));
    assert_eq!(bench.pull(true), Pull::End);
}

#[test]
fn a_backup_that_has_nothing_leaves_the_first_as_it_is() {
    let mut bench = Bench::new(false);
    bench.second.set(|state| (state.ready, state.ended) = (0, true));
    bench.first.set(|state| state.level = 0.0);
    bench.pulls(50, true);
    assert_eq!(bench.last, 0.0);
    bench.first.set(|state| state.level = 0.5);
    bench.pulls(3, true);
    assert_eq!(bench.last, 0.5);
}

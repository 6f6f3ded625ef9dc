use super::*;
use crate::{Pull, Ready, SampleFormat, StreamFormat, Wake};

const RATE: u32 = 48_000;
const BLOCK: usize = 256;

/// A microphone behind a pipe, in virtual time: `per_second` sample frames by the run's clock, handed over `piece` at a
/// time. Sample frame *n* of it was captured at *n* / `per_second`.
struct Microphone {
    per_second: f64,
    piece: u64,
    arrived: u64,
    /// Sample frames pulled or left out.
    used: u64,
    /// Sample frames that its buffer holds; more is dropped, the newest first.
    room: u64,
    overflowed: bool,
    stopped: bool,
    /// The piece that it says, or 0.
    known: usize,
    /// It gives nothing between these times; what it captured meanwhile is given then.
    stalls: Vec<(Instant, Instant)>,
}

impl Microphone {
    fn new(per_second: f64, piece: u64) -> Self {
        Microphone {
            per_second,
            piece,
            arrived: 0,
            used: 0,
            room: 144_000,
            overflowed: false,
            stopped: false,
            known: 0,
            stalls: Vec::new(),
        }
    }

    fn captured(&self, frame: u64) -> Instant {
        Instant::from_nanos((frame as f64 / self.per_second * 1e9) as u64)
    }

    /// When its next piece comes.
    fn next(&self) -> Instant {
        let at = self.captured((self.arrived / self.piece + 1) * self.piece);
        self.stalls.iter().find(|(from, to)| (*from..*to).contains(&at)).map_or(at, |(_, to)| *to)
    }

    fn give(&mut self) {
        let gap = self.overflowed || self.arrived + self.piece - self.used > self.room;
        self.overflowed = gap;
        self.arrived += self.piece;
    }
}

impl Source for Microphone {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(RATE, 1).unwrap()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let frames = (block.len() as u64).min(self.arrived - self.used);
        self.used += frames;
        if frames == 0 { Pull::End } else { Pull::Frames(frames as usize) }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        let frames = (self.arrived - self.used).min(self.room) as usize;
        Ready { frames, ended: self.stopped, piece: self.known }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        // A buffer that overflowed holds older sound than the sound it dropped.
        let keep = if self.overflowed { 0 } else { frames as u64 };
        self.overflowed = false;
        let skipped = (self.arrived - self.used).saturating_sub(keep);
        self.used += skipped;
        skipped
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// A pulled block: when, and how old its last sample frame was then.
type Pulled = (Instant, Duration);

/// Runs from `begin` to `end`, without polls before `begin` and while `asleep` says so.
fn run(
    microphone: &mut Microphone,
    pace: &mut LivePace,
    begin: Instant,
    end: Instant,
    asleep: impl Fn(Instant) -> Option<Instant>,
) -> Vec<Pulled> {
    let mut pulled = Vec::new();
    let mut block = vec![0.0; BLOCK];
    let mut woken = Some(begin);
    loop {
        let timeout = pace.poll_timeout().into_iter().chain(woken).min();
        let piece = microphone.next();
        if timeout.is_none_or(|timeout| piece <= timeout) {
            if piece > end {
                return pulled;
            }
            microphone.give();
            woken = woken.or(Some(piece));
            continue;
        }
        let mut now = timeout.expect("checked above");
        if let Some(later) = asleep(now) {
            now = later;
            while microphone.next() <= now {
                microphone.give();
            }
        }
        woken = None;
        while pace.poll(now, microphone) {
            assert_eq!(microphone.pull(&mut block), Pull::Frames(BLOCK));
            pulled.push((now, now.since(microphone.captured(microphone.used))));
        }
    }
}

fn awake(_: Instant) -> Option<Instant> {
    None
}

fn oldest(pulled: &[Pulled]) -> Duration {
    pulled.iter().map(|(_, age)| *age).max().unwrap()
}

fn secs(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

/// A block of the run's clock lasts 5.33 ms; without following, 104 ppm are 375 ms in an hour.
#[test]
fn an_hour_of_a_fast_or_slow_clock_adds_no_delay() {
    for (per_second, piece) in [(48_005.0, 256), (47_995.0, 256), (48_005.0, 100), (48_005.0, 64)] {
        let (mut microphone, mut pace) = (Microphone::new(per_second, piece), LivePace::new(BLOCK, RATE));
        let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(3_600), awake);
        let block = MediaTime::new(BLOCK as u64, RATE).duration();
        assert!(oldest(&pulled) < block, "{per_second} {piece}: {:?}", oldest(&pulled));
        assert_eq!(pulled.len() as u64, (per_second * 3_600.0) as u64 / 256);
        assert_eq!(pace.skipped_frames(), 0);
    }
}

#[test]
fn nothing_stale_is_sent_after_waiting_for_a_connection() {
    for (begin, piece) in [(2_000, 256), (2_003, 256), (60_000, 256), (60_000, 64)] {
        let (mut microphone, mut pace) = (Microphone::new(48_005.0, piece), LivePace::new(BLOCK, RATE));
        let begin = Instant::from_millis(begin);
        let pulled = run(&mut microphone, &mut pace, begin, begin + Duration::from_secs(60), awake);
        let two_blocks = MediaTime::new(2 * BLOCK as u64, RATE).duration();
        assert!(oldest(&pulled) <= two_blocks, "{begin:?} {piece}: {:?}", oldest(&pulled));
        assert!(pulled[0].0.since(begin) <= two_blocks);
        assert!(pace.skipped_frames() > 48_000);
    }
}

/// `arecord` gives 125 ms at once by default: 23.4 blocks. The first piece is sent as it is; from the second on blocks
/// leave 5.23 ms apart, and the first of a piece when it comes: 125 - 22 · 5.23 or 125 - 23 · 5.23 ms after the last.
#[test]
fn large_pieces_are_sent_evenly_without_growing_delay() {
    let (mut microphone, mut pace) = (Microphone::new(48_005.0, 6_000), LivePace::new(BLOCK, RATE));
    let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(3_600), awake);
    let settled = &pulled[100..];
    let apart: Vec<u64> = settled.windows(2).map(|w| w[1].0.since(w[0].0).as_micros() as u64).collect();
    assert!(apart.iter().all(|us| (4_760..10_100).contains(us)), "{:?}", apart.iter().min());
    // Half of the time between pieces, less the block: no block is older than a piece lasts.
    assert!(oldest(settled) < Duration::from_millis(128), "{:?}", oldest(settled));
    assert_eq!(pace.skipped_frames(), 0);
}

#[test]
fn a_standstill_is_made_up_for_at_once() {
    for (stood_still, is_skipped) in [(9, false), (100, false), (240, false), (400, true)] {
        let (mut microphone, mut pace) = (Microphone::new(48_000.0, 256), LivePace::new(BLOCK, RATE));
        let (from, to) = (secs(10), secs(10) + Duration::from_millis(stood_still));
        let asleep = |now: Instant| (now >= from && now < to).then_some(to);
        let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(20), asleep);
        let late = pulled.iter().filter(|(at, age)| *at > to && *age > Duration::from_millis(6)).count();
        assert_eq!(late, 0, "{stood_still}: what comes after it is as fresh as before");
        assert_eq!(pace.skipped_frames() > 0, is_skipped, "{stood_still}");
        let at_once = pulled.iter().filter(|(at, _)| *at == to).count();
        assert_eq!(at_once as u64, if is_skipped { 1 } else { 1 + stood_still * 48 / 256 });
    }
}

/// Blocks of a server's period leave as evenly as those of a pipe's piece, from the first period on.
#[test]
fn blocks_of_a_period_that_the_source_says_leave_one_after_the_other() {
    let mut microphone = Microphone { known: 1024, ..Microphone::new(48_000.0, 1024) };
    let mut pace = LivePace::new(BLOCK, RATE);
    let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(10), awake);
    let apart: Vec<u64> = pulled[4..].windows(2).map(|w| w[1].0.since(w[0].0).as_micros() as u64).collect();
    assert!(apart.iter().all(|us| (4_760..10_100).contains(us)), "{:?}", &apart[..12]);
    assert_eq!(pace.skipped_frames(), 0);
}

/// A server whose cycles are held up again and again, as it says what it gives at a time: none of that is taken for a larger piece, of which blocks leave one after
/// the other.
#[test]
fn what_a_source_gives_beyond_its_piece_leaves_at_once_each_time() {
    for known in [256, 0] {
        let mut microphone = Microphone { known, ..Microphone::new(48_000.0, 256) };
        let mut pace = LivePace::new(BLOCK, RATE);
        for n in 0..20 {
            let from = secs(2) + Duration::from_millis(n * 400);
            microphone.stalls.push((from, from + Duration::from_millis(40)));
        }
        let ends: Vec<Instant> = microphone.stalls.iter().map(|(_, to)| *to).collect();
        let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(12), awake);
        // A block that is older than a period, though the hold-up is over.
        let late = pulled.iter().filter(|(at, age)| !ends.contains(at) && *age > Duration::from_millis(6));
        assert_eq!(late.count() == 0, known > 0, "{known}");
        assert_eq!(pace.skipped_frames(), 0);
    }
}

/// Pieces of 125 ms and a stall of 200 ms: what was due in it leaves at once, the rest as evenly as before. If it
/// begins within a piece, 38 blocks were due; if it begins when all have left, of the two pieces that come one is more
/// than usual. When the other came is not known: up to 75 ms remain, made up for at 2 % of the time.
#[test]
fn a_standstill_is_distinguished_from_large_pieces() {
    for (from, at_once) in [(40, 37..=38), (123, 22..=24)] {
        let (mut microphone, mut pace) = (Microphone::new(48_000.0, 6_000), LivePace::new(BLOCK, RATE));
        let from = secs(10) + Duration::from_millis(from);
        let to = from + Duration::from_millis(200);
        let asleep = |now: Instant| (now >= from && now < to).then_some(to);
        let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(20), asleep);
        let left = pulled.iter().filter(|(at, _)| *at == to).count();
        assert!(at_once.contains(&left), "{left}");
        let after = to + 50 * Duration::from_millis(75);
        let after: Vec<Pulled> = pulled.into_iter().filter(|(at, _)| *at > after).collect();
        assert!(oldest(&after) < Duration::from_millis(135), "{:?}", oldest(&after));
        assert_eq!(pace.skipped_frames(), 0);
    }
}

/// A source that is held up six times in six seconds, for longer each time: what it gives after that looks like its usual piece, and
/// would be half a second old, less 20 ms a second.
#[test]
fn stalls_in_a_row_are_no_large_pieces() {
    let mut at = 10_000;
    let stalls = [240, 240, 480, 480, 720, 720].map(|stall| {
        let from = at + 500;
        at = from + stall;
        (Instant::from_millis(from), Instant::from_millis(at))
    });
    let mut microphone = Microphone { stalls: stalls.to_vec(), ..Microphone::new(48_000.0, 256) };
    let mut pace = LivePace::new(BLOCK, RATE);
    let pulled = run(&mut microphone, &mut pace, Instant::ZERO, secs(60), awake);
    let after = stalls[5].1 + Duration::from_millis(2_000);
    let after: Vec<Pulled> = pulled.into_iter().filter(|(at, _)| *at > after).collect();
    assert!(after.len() > 7_000 && oldest(&after) < Duration::from_millis(10), "{:?}", oldest(&after));
}

#[test]
fn an_ended_source_gives_its_rest_and_the_end() {
    let (mut microphone, mut pace) = (Microphone::new(48_000.0, 300), LivePace::new(BLOCK, RATE));
    microphone.give();
    let now = microphone.captured(300);
    assert!(pace.poll(now, &mut microphone));
    microphone.used = 300 - 44;
    assert!(!pace.poll(now, &mut microphone));
    assert_eq!(pace.poll_timeout(), None);
    microphone.stopped = true;
    assert!(pace.poll(now, &mut microphone), "the rest of a block");
    microphone.used = 300;
    assert!(pace.poll(now, &mut microphone), "the end");
    // A source that ended before sending began.
    assert!(LivePace::new(BLOCK, RATE).poll(now, &mut microphone));
}

/// Blocks of 22 sample frames, as of 64 channels, of a server's periods of 256: in runs of two they leave at half as many times, and
/// none is older than alone.
#[test]
fn short_blocks_leave_in_runs_and_none_later_than_alone() {
    const SHORT: usize = 22;
    let pulled = |blocks| {
        let mut pace = LivePace::new(SHORT, RATE).in_runs_of(blocks);
        let mut microphone = Microphone::new(48_000.0, 256);
        let (mut pulled, mut block) = (Vec::new(), vec![0.0; SHORT]);
        let mut now = Instant::ZERO;
        while now < secs(10) {
            while microphone.next() <= now {
                microphone.give();
            }
            while pace.poll(now, &mut microphone) {
                assert_eq!(microphone.pull(&mut block), Pull::Frames(SHORT));
                pulled.push((now, now.since(microphone.captured(microphone.used))));
            }
            now = pace.poll_timeout().map_or(microphone.next(), |due| due.min(microphone.next()));
        }
        assert_eq!(pace.skipped_frames(), 0);
        // The first second is for learning what the source's usual piece is.
        pulled.retain(|(at, _)| *at > secs(1));
        pulled
    };
    let times = |pulled: &[Pulled]| pulled.chunk_by(|(one, _), (next, _)| one == next).count();
    let (alone, together) = (pulled(1), pulled(2));
    assert!(alone.len().abs_diff(together.len()) <= 1);
    assert_eq!(times(&alone), alone.len());
    let runs = times(&together) as f64 / alone.len() as f64;
    // Eleven or twelve blocks of a period in six runs.
    assert!((0.5..0.53).contains(&runs), "{runs}");
    assert!(oldest(&together) <= oldest(&alone), "{:?} {:?}", oldest(&together), oldest(&alone));
}

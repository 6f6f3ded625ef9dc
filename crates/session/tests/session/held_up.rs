//! A live source that is held up for a while, and then catches up: what could not be heard in time is missing, everything else is
//! heard, and the delay is soon what it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake, Wants};
use antiphon_session::{
    AdaptiveDelay, Latency, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Session, SessionConfig,
};

use crate::common::{receive_config, sending, session_config};
use crate::world::{SILENCE, WIRE, World, heard, ms, stack, track_config};

/// How sound gets on its way again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum After {
    /// The sender's network card paused: all packets that it kept leave at once, and then as before.
    AtOnce,
    /// The source gives what it kept at so many times its pace, until it has caught up.
    Faster(f64),
    /// What was kept is left out, as our sender does of a live source. The time stamps of what follows go on where they were, so that
    /// the sender's clock is behind for good.
    LeftOut,
}

/// Two notes, captured in periods of 64 sample frames since the start of time.
pub struct Microphone {
    /// The world's time, in nanoseconds.
    pub now: Arc<AtomicU64>,
    /// When it is held up, for how long, and what then.
    pub held: Option<(Instant, Duration, After)>,
    pub at: u64,
}

const FORMAT: (u32, u32) = (48_000, 1);

impl Microphone {
    /// The time up to which what was captured is there.
    fn reached(&self) -> Instant {
        let now = Instant::from_nanos(self.now.load(Ordering::Relaxed));
        let Some((from, held, after)) = self.held.filter(|(from, ..)| now > *from) else { return now };
        let since = now.since(from);
        match after {
            _ if since < held => from,
            After::Faster(pace) => (from + (since - held).mul_f64(pace)).min(now),
            After::LeftOut | After::AtOnce => now,
        }
    }

    fn waiting(&self) -> u64 {
        let captured = self.reached().as_nanos() * u64::from(FORMAT.0) / 1_000_000_000;
        (captured / 64 * 64).saturating_sub(self.at)
    }
}

impl Source for Microphone {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(FORMAT.0, FORMAT.1).unwrap()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let frames = (block.len() as u64).min(self.waiting()) as usize;
        for sample in &mut block[..frames] {
            let tone = |hz: f64| (std::f64::consts::TAU * hz * self.at as f64 / 48_000.0).sin();
            *sample = (0.3 * tone(220.0) + 0.2 * tone(330.0)) as f32;
            self.at += 1;
        }
        if frames == 0 { Pull::Starved } else { Pull::Frames(frames) }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        Ready { frames: self.waiting() as usize, ended: false, piece: 0 }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let skipped = self.waiting().saturating_sub(frames as u64);
        self.at += skipped;
        skipped
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// A sink that takes everything, at the run's pace if it has a clock.
struct Loudspeaker {
    format: StreamFormat,
    clocked: bool,
}

impl Sink for Loudspeaker {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, _block: &[f32]) -> Result<(), SinkError> {
        Ok(())
    }

    fn clocked(&self) -> bool {
        self.clocked
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
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

pub fn receiver(latency: Latency, clocked: bool) -> Session {
    let track = ReceiveTrackConfig { latency: Some(latency), ..receive_config(None, false) };
    let tells = Some(PlayoutDelay::Of(latency.longest()));
    let config = SessionConfig { tells, ends_with_stream: false, ..session_config("far", 99) };
    let mut session = Session::new(config, Instant::ZERO);
    let open: OpenSink = Box::new(move |format, _| Ok(Box::new(Loudspeaker { format, clocked })));
    session.set_receive_track(ReceiveTrack::new(track, open, None));
    session.listen(Instant::ZERO, WIRE, stack("rtp"), SILENCE);
    session
}

/// What was seen at a time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    /// Sound that waited, and what the receiver says of it, in milliseconds.
    waits: f64,
    told: f64,
    counters: PlayoutCounters,
}

/// When the source is held up: the delay has settled.
const FROM: Instant = Instant::from_millis(14_000);

struct Ran {
    seen: Vec<Seen>,
    case: String,
}

/// Runs until half a minute after the source has caught up.
fn run(latency: Latency, clocked: bool, held: Duration, after: After) -> Ran {
    let clock = Arc::new(AtomicU64::new(0));
    let of_source = (after != After::AtOnce).then_some((FROM, held, after));
    let source = Microphone { now: clock.clone(), held: of_source, at: 0 };
    let format = source.format();
    let near = sending(&*stack("rtp"), Box::new(source), track_config(format, 5), PlayoutDelay::Unbounded);
    let mut world = World::linked(near, receiver(latency, clocked), "delay=8ms,jitter=0.5ms/exponential", 3);
    let mut seen = Vec::new();
    let end = caught_up(held, after) + Duration::from_secs(28);
    while world.now < end {
        if after == After::AtOnce && world.now >= FROM {
            world.up.full_until = Some(FROM + held);
        }
        let next = world.now + ms(2);
        clock.store(next.as_nanos(), Ordering::Relaxed);
        world.run_until(next);
        let track = heard(&world.far);
        let Some(counters) = track.playout() else { continue };
        let told = match latency {
            Latency::Of(delay) => delay,
            Latency::Auto(_) => track.adapted().expect("it adapts").in_force,
        };
        let (waits, told) = (track.playout_level() as f64 / 48.0, told.as_secs_f64() * 1e3);
        seen.push(Seen { at: world.now, waits, told, counters });
    }
    Ran { seen, case: format!("{latency:?}, clocked {clocked}, held {held:?}, {after:?}") }
}

fn caught_up(held: Duration, after: After) -> Instant {
    FROM + held
        + match after {
            After::Faster(pace) => held.div_f64(pace - 1.0),
            After::AtOnce | After::LeftOut => Duration::ZERO,
        }
}

impl Ran {
    fn at(&self, at: Instant) -> &Seen {
        self.seen.iter().find(|seen| seen.at >= at).expect("it ran so long")
    }

    fn within(&self, from: Instant, to: Instant) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(move |seen| (from..to).contains(&seen.at))
    }

    /// The most sound that waited in a time, in milliseconds.
    fn most(&self, from: Instant, to: Instant) -> f64 {
        self.within(from, to).map(|seen| seen.waits).fold(0.0, f64::max)
    }

    /// The most by which what is told differs from what waits; a packet waits besides.
    fn error(&self, from: Instant, to: Instant) -> f64 {
        self.within(from, to).map(|seen| (seen.waits - 256.0 / 48.0 - seen.told).abs()).fold(0.0, f64::max)
    }

    /// How long after an instant the sound that waits is more than `most` milliseconds for the last time.
    fn last_over(&self, from: Instant, most: f64) -> Duration {
        let last = self.seen.iter().rev().find(|seen| seen.waits > most && seen.at >= from);
        last.map_or(Duration::ZERO, |last| last.at.since(from))
    }
}

/// How well a case is to go.
struct Bounds {
    /// Gaps, all while the source is held up and when it begins again.
    gaps: u64,
    /// The most by which what is told of the delay may differ from the sound that waits: while the source catches up, and then.
    error: [f64; 2],
    /// Whether sound that came may be left out.
    leaves_out: bool,
}

impl Bounds {
    fn of(latency: Latency, clocked: bool, after: After) -> Self {
        // What comes faster is early for 200 ms before that is believed, and by less than 10 ms it is not followed at once. A clocked
        // sink takes 5 ms at a time.
        let unseen = match after {
            After::Faster(pace) => 10.0 + 200.0 * (pace - 1.0),
            After::AtOnce | After::LeftOut => 0.0,
        };
        match latency {
            Latency::Auto(_) => Bounds { gaps: 5, error: [unseen + 15.0, 25.0], leaves_out: false },
            // A fixed delay at the sink's clock leaves out what is over 100 ms too much, and at last what is over 20 ms.
            Latency::Of(_) if clocked => {
                Bounds { gaps: 1, error: [unseen + 115.0, 35.0], leaves_out: after != After::LeftOut }
            }
            Latency::Of(_) => Bounds { gaps: 1, error: [unseen + 15.0, 25.0], leaves_out: false },
        }
    }
}

impl Ran {
    /// The source was held up for so long, and then gave what it had kept.
    fn check(&self, held: Duration, after: After, bounds: &Bounds) {
        let (case, again, done) = (&self.case, FROM + held, caught_up(held, after));
        let (before, resumed) = (self.at(FROM - ms(5)).counters, self.at(again + ms(700)).counters);
        let (rest, end) = (done.max(again + ms(500)), self.seen.last().expect("it ran"));
        // One gap, where nothing could be heard. Late packets are those of the 200 ms until a longer path is believed.
        let gaps = resumed.concealments - before.concealments;
        assert!((1..=bounds.gaps).contains(&gaps), "{case}: {gaps} gaps");
        assert_eq!(end.counters.concealments, resumed.concealments, "{case}: gaps afterwards");
        assert!(end.counters.late - before.late <= 46, "{case}: {:?}", end.counters);
        let left_out = end.counters.skipped_frames + end.counters.discarded + end.counters.early;
        assert!(bounds.leaves_out || left_out == 0, "{case}: {:?}", end.counters);
        // The sender itself gives up what is too old where its card paused.
        assert!(end.counters.lost == 0 || after == After::AtOnce, "{case}: {:?}", end.counters);
        let usual = self.most(FROM - ms(2_000), FROM);
        assert!(self.last_over(done, usual + 15.0) < Duration::from_secs(25), "{case}: {}", end.waits);
        let errors = [self.error(again + ms(500), rest), self.error(rest + ms(2_000), end.at)];
        assert!(errors.iter().zip(bounds.error).all(|(error, most)| *error < most), "{case}: {errors:?}");
    }
}

pub const AUTO: Latency = Latency::Auto(AdaptiveDelay {
    min: Duration::from_millis(5),
    max: Duration::from_millis(200),
    freeze: None,
});
pub const FIXED: Latency = Latency::Of(Duration::from_millis(40));

fn check(latency: Latency, clocked: bool) {
    for (held, after) in [
        (800, After::Faster(1.02)),
        (800, After::Faster(1.2)),
        (3_000, After::Faster(1.2)),
        (800, After::AtOnce),
        (3_000, After::AtOnce),
        (800, After::LeftOut),
        (3_000, After::LeftOut),
    ] {
        let held = ms(held);
        run(latency, clocked, held, after).check(held, after, &Bounds::of(latency, clocked, after));
    }
}

/// A source that is held up for 0.8 s and catches up at 1.02 times its pace was the fault: its sound came up to 0.8 s early, waited, and
/// was thrown away with a gap when the buffer was full.
#[test]
fn an_adaptive_delay_comes_back_at_the_sinks_clock() {
    check(AUTO, true);
}

#[test]
fn an_adaptive_delay_comes_back_at_the_senders_clock() {
    check(AUTO, false);
}

#[test]
fn a_fixed_delay_comes_back_at_the_sinks_clock() {
    check(FIXED, true);
}

#[test]
fn a_fixed_delay_comes_back_at_the_senders_clock() {
    check(FIXED, false);
}

/// Three seconds in one: our sender leaves out what is too old, and the last quarter of a second leaves within 13 s, so that a fixed delay
/// at the sink's clock is up to 100 ms longer for so long.
#[test]
fn what_comes_four_times_as_fast_leaves_no_gap_and_no_delay() {
    let (held, after) = (ms(3_000), After::Faster(4.0));
    for (latency, clocked) in [(AUTO, true), (AUTO, false), (FIXED, true), (FIXED, false)] {
        let later = if latency == FIXED && clocked { 115.0 } else { 35.0 };
        let bounds = Bounds { gaps: 1, error: [700.0, later], leaves_out: true };
        run(latency, clocked, held, after).check(held, after, &bounds);
    }
}

/// Held up for as long as the longest delay: packets are late by a little, and come sooner and sooner.
#[test]
fn a_source_that_is_as_late_as_the_delay_may_be_has_few_gaps() {
    for clocked in [true, false] {
        let (held, after) = (ms(200), After::Faster(1.05));
        // The packets themselves are late, so that little waits.
        let bounds = Bounds { error: [f64::MAX, 25.0], ..Bounds::of(AUTO, clocked, after) };
        run(AUTO, clocked, held, after).check(held, after, &bounds);
    }
}

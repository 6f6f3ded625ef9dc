//! A device with a sampling clock of its own.

use std::sync::{Arc, Mutex};

use antiphon_core::{Instant, Participant};
use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use antiphon_session::{MayOpen, OpenSink, ReceiveTrack};

use crate::common::receive_config;
use crate::world::{World, heard, ms, receive_session, receive_session_with, send_session};
use antiphon_testkit::{Kept, stereo};

/// A sound card: uses `rate` sample frames a second, whatever it is given.
pub struct Card {
    pub state: Arc<Mutex<State>>,
}

pub struct State {
    format: StreamFormat,
    rate: f64,
    /// Sample frames that it takes before they are due.
    pub early: usize,
    /// Where its sound is kept, too.
    pub kept: Option<Box<dyn Sink>>,
    now: Instant,
    started: Option<Instant>,
    used: u64,
    queued: usize,
    pub underruns: u64,
    pub overruns: u64,
    pushes: u64,
    pub lowest: usize,
    highest: usize,
}

/// Its intended fill level, and its capacity beyond what it takes early: two and four periods of 256.
pub const WANTED: usize = 512;
const MOST: usize = 1024;

impl State {
    pub fn new(format: StreamFormat, ppm: f64) -> Self {
        let rate = f64::from(format.rate()) * (1.0 + ppm / 1e6);
        let (started, now) = (None, Instant::ZERO);
        State {
            format,
            rate,
            early: 0,
            kept: None,
            now,
            started,
            used: 0,
            queued: 0,
            underruns: 0,
            overruns: 0,
            pushes: 0,
            lowest: usize::MAX,
            highest: 0,
        }
    }

    /// Plays up to `now`.
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        let Some(started) = self.started else { return };
        let due = (now.since(started).as_secs_f64() * self.rate) as u64;
        let taken = (due - self.used) as usize;
        self.used = due;
        if taken > self.queued {
            self.underruns += 1;
        }
        self.queued = self.queued.saturating_sub(taken);
        // Its queue fills at the start.
        if now.since(started) > ms(1000) {
            self.lowest = self.lowest.min(self.queued);
            self.highest = self.highest.max(self.queued);
        }
    }
}

impl Sink for Card {
    fn format(&self) -> StreamFormat {
        self.state.lock().unwrap().format
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let mut state = self.state.lock().unwrap();
        let frames = block.len() / state.format.channels();
        let dropped = (state.queued + frames).saturating_sub(MOST + state.early);
        state.queued += frames - dropped;
        state.pushes += 1;
        state.kept.iter_mut().try_for_each(|kept| kept.push(block))?;
        state.overruns += u64::from(dropped > 0);
        // There is no room for another block below that level.
        if state.queued + frames > WANTED && state.started.is_none() {
            state.started = Some(state.now);
        }
        if dropped > 0 { Err(SinkError::Overrun { dropped }) } else { Ok(()) }
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<Wants> {
        let State { queued, early, .. } = *self.state.lock().unwrap();
        Some(Wants {
            ahead: queued.saturating_sub(WANTED),
            early,
            ..Wants::any(WANTED.saturating_sub(queued))
        })
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        unreachable!("{frames} sample frames: a card has a clock")
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Two minutes: with a card whose clock was not followed, the error would be 12 ms, more than the card buffers. One that takes sound as soon as it has come holds
/// it all the time, so that the program may stand still for as long; it is heard no sooner and no later.
#[test]
fn a_card_with_its_own_clock_neither_under_nor_overruns() {
    for (ppm, early) in [(-100.0, 0), (0.0, 0), (100.0, 0), (-100.0, 960), (100.0, 960)] {
        let state = Arc::new(Mutex::new(State { early, ..State::new(stereo(), ppm) }));
        let card = state.clone();
        let open_sink: OpenSink = Box::new(move |_, _| Ok(Box::new(Card { state: card.clone() })));
        let far = receive_session_with("rtp", Some(ms(40)), open_sink, false, Instant::ZERO);
        let near = send_session("rtp", stereo(), 48_000 * 120, 5);
        let mut world = World::linked(near, far, "delay=5ms,jitter=2ms", 3);
        let mut levels = Vec::new();
        while !Participant::is_finished(&world.near) && world.now < Instant::from_millis(119_000) {
            let next = world.now + ms(2);
            world.run_until(next);
            state.lock().unwrap().advance(world.now);
            if world.now > Instant::from_millis(30_000) {
                levels.push(heard(&world.far).playout_level());
            }
        }
        let state = state.lock().unwrap();
        let playout = heard(&world.far).playout().unwrap();
        assert_eq!(
            (state.underruns, state.overruns),
            (0, 0),
            "{ppm} ppm: {} {}",
            state.lowest,
            state.highest
        );
        assert_eq!((playout.concealed_frames, playout.late, playout.lost), (0, 0, 0), "{ppm} ppm");
        assert_eq!((playout.skipped_frames, playout.resyncs, playout.discarded), (0, 0, 0), "{ppm} ppm");
        assert!(
            state.lowest + WANTED * 3 / 4 >= WANTED + early && state.highest <= WANTED + 256 + early,
            "{} {}",
            state.lowest,
            state.highest
        );
        // The playout buffer keeps its delay of 40 ms, less what the resampler and a period hold: within 10 ms.
        let (least, most) = (levels.iter().min().unwrap(), levels.iter().max().unwrap());
        assert!(*least > 48 * 20 && *most < 48 * 60, "{ppm} ppm: {least} to {most}");
    }
}

/// A card's queue may be short by more than a packet: of 64 channels, packets of 11 sample frames are played several at once.
#[test]
fn many_channels_are_played_a_millisecond_at_once() {
    for (name, channels, longest, waits) in
        [("rtp", 64, 48, ms(1)), ("srp", 64, 48, ms(0)), ("rtp", 2, 256, ms(0))]
    {
        let format = StreamFormat::new(48_000, channels).unwrap();
        let state = Arc::new(Mutex::new(State::new(format, 0.0)));
        let card = state.clone();
        let open_sink: OpenSink = Box::new(move |_, _| Ok(Box::new(Card { state: card.clone() })));
        let far = receive_session_with(name, Some(ms(10)), open_sink, false, Instant::ZERO);
        let near = send_session(name, format, 48_000 * 3, 5);
        let mut world = World::linked(near, far, "delay=1ms", 3);
        assert_eq!(world.far.input_may_wait(), ms(0), "there is no stream yet");
        while world.now < Instant::from_millis(2_000) {
            let next = world.now + ms(1);
            world.run_until(next);
            state.lock().unwrap().advance(world.now);
        }
        let state = state.lock().unwrap();
        let of_a_push = state.used / state.pushes;
        assert!(of_a_push <= longest && of_a_push + 12 > longest.min(64), "{name}, {channels}: {of_a_push}");
        assert_eq!((state.underruns, state.overruns), (0, 0), "{name}, {channels}");
        assert_eq!(world.far.input_may_wait(), waits, "{name}, {channels}");
        let playout = heard(&world.far).playout().unwrap();
        assert_eq!((playout.concealed_frames, playout.late, playout.lost), (0, 0, 0), "{name}, {channels}");
    }
}

/// A sound server takes its time to register many ports: the stream begins once the sink is there, and what came before is not lost.
#[test]
fn a_stream_begins_when_its_sink_can_be_opened() {
    for (opens, whole) in [(ms(500), true), (ms(5_000), false)] {
        let kept = Kept::default();
        let clock = Arc::new(Mutex::new(Instant::ZERO));
        let now = clock.clone();
        let may_open: MayOpen = Box::new(move |_, _| *now.lock().unwrap() >= Instant::ZERO + opens);
        let mut far = receive_session("rtp", Some(ms(20)), &kept);
        let track = ReceiveTrack::new(receive_config(Some(ms(20)), false), kept.opener(), None);
        far.set_receive_track(track.open_when(may_open));
        let near = send_session("rtp", stereo(), 48_000, 5);
        let mut world = World::linked(near, far, "delay=1ms", 3);
        while !Participant::is_finished(&world.far) && world.now < Instant::from_millis(4_000) {
            let next = world.now + ms(1);
            world.run_until(next);
            *clock.lock().unwrap() = world.now;
        }
        assert!(Participant::is_finished(&world.far), "it ends with the stream, though no sink was opened");
        let track = world.far.receive_track().unwrap();
        let counters =
            (track.counters().packets, track.playout().map(|playout| (playout.lost, playout.late)));
        if !whole {
            assert_eq!(counters, (0, None));
            continue;
        }
        // Half of the second, in packets of 256.
        assert!((90..=95).contains(&counters.0) && counters.1 == Some((0, 0)), "{counters:?}");
        let heard = kept.samples().len() as u64 / 2;
        // The last packet is half as long.
        assert!(heard.abs_diff(counters.0 * 256) <= 256, "{heard}");
    }
}

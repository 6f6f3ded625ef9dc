//! Live sources: how their delay develops.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::{Pull, Ready, SampleFormat, Source, StreamFormat, Wake};
use antiphon_session::{
    PlayoutDelay, Seen, SendTrack, SendTrackConfig, Session, SessionConfig, Spool, Stored,
};
use antiphon_testkit::{Kept, Noise, expected, sample, stereo};

use crate::common::{sending, session_config};
use crate::world::{WIRE, World, heard, linked, ms, receive_session, stack, track_config};

/// Captures noise in periods by a clock that runs `ppm` faster than the world's, from the start of time; its frame *n*
/// is that of `expected`.
struct Microphone {
    format: StreamFormat,
    /// The world's time, in nanoseconds.
    now: Arc<AtomicU64>,
    ppm: f64,
    period: u64,
    /// It delivers nothing then; what it captured meanwhile is delivered afterwards.
    stuck: Option<(Instant, Instant)>,
    at: u64,
    skipped: u64,
}

impl Microphone {
    fn captured(&self) -> u64 {
        let now = Instant::from_nanos(self.now.load(Ordering::Relaxed));
        let now = match self.stuck {
            Some((from, until)) if (from..until).contains(&now) => from,
            _ => now,
        };
        let seconds = now.as_nanos() as f64 / 1e9;
        let frames = (seconds * f64::from(self.format.rate()) * (1.0 + self.ppm / 1e6)) as u64;
        frames / self.period * self.period
    }
}

impl Source for Microphone {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.format.channels();
        let frames = ((block.len() / channels) as u64).min(self.captured() - self.at);
        if frames == 0 {
            return Pull::Starved;
        }
        block[..frames as usize * channels].copy_from_slice(&expected(self.format, self.at, frames));
        self.at += frames;
        Pull::Frames(frames as usize)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        Ready { frames: (self.captured() - self.at) as usize, ended: false, piece: 0 }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let skipped = (self.captured() - self.at).saturating_sub(frames as u64);
        self.at += skipped;
        self.skipped += skipped;
        std::mem::take(&mut self.skipped)
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// A microphone, a sender and a player, and the clock that they share.
struct Live {
    world: World<Session, Session>,
    kept: Kept,
    clock: Arc<AtomicU64>,
}

impl Live {
    fn new(name: &str, link: &str, ppm: f64, stuck: Option<(Instant, Instant)>) -> Self {
        let (kept, clock) = (Kept::default(), Arc::new(AtomicU64::new(0)));
        let format = stereo();
        let source = Microphone { format, now: clock.clone(), ppm, period: 64, stuck, at: 0, skipped: 0 };
        let track = track_config(format, 5);
        let near = sending(&*stack(name), Box::new(source), track, PlayoutDelay::Of(ms(80)));
        let world = World::linked(near, receive_session(name, Some(ms(40)), &kept), link, 3);
        Live { world, kept, clock }
    }

    /// Millisecond by millisecond, as often as the source is asked.
    fn run_until(&mut self, until: Instant) {
        while self.world.now < until {
            let next = self.world.now + ms(1);
            self.clock.store(next.as_nanos(), Ordering::Relaxed);
            self.world.run_until(next);
        }
    }

    /// From the capture of the frame that was played last until now; only the last `back` seconds are searched.
    fn delay(&self, ppm: f64, back: u64) -> Duration {
        let samples = self.kept.samples();
        let last = &samples[samples.len() - 8..];
        let rate = 48_000.0 * (1.0 + ppm / 1e6);
        let newest = (self.world.now.as_nanos() as f64 / 1e9 * rate) as u64;
        let is_last =
            |end: &u64| (0..8).all(|n| last[n as usize] == sample(end - 4 + n / 2, (n % 2) as usize));
        let end = (newest - 48_000 * back..=newest).rev().find(is_last).expect("it was captured lately");
        Duration::from_secs_f64(self.world.now.as_nanos() as f64 / 1e9 - end as f64 / rate)
    }
}

#[test]
fn a_source_that_ran_before_the_connection_is_not_delayed() {
    for name in ["rtp", "sctp", "dccp", "srp", "arq", "xtp"] {
        let mut live = Live::new(name, "delay=5ms", 0.0, None);
        // No peer answers for two and a half seconds; then handshakes are repeated, later by the second.
        let out = Instant::ZERO..Instant::from_millis(2_500);
        live.world.up.outages.push((out.clone(), vec![0]));
        live.world.down.outages.push((out, vec![0]));
        live.run_until(Instant::from_millis(12_000));
        let delay = live.delay(0.0, 3);
        // The playout delay of 40 ms, the path's 5 ms, a block of 5.3 ms, and the time until an available block is
        // noticed.
        assert!(delay > ms(40) && delay < ms(65), "{name}: {delay:?}");
    }
}

#[test]
fn a_source_with_a_clock_of_its_own_drifts_from_nothing() {
    for ppm in [-100.0, 100.0] {
        let mut live = Live::new("rtp", "delay=5ms,jitter=2ms", ppm, None);
        live.run_until(Instant::from_millis(10_000));
        let before = live.delay(ppm, 1);
        live.run_until(Instant::from_millis(310_000));
        let after = live.delay(ppm, 1);
        // Five minutes of 100 ppm are 30 ms.
        assert!(before.abs_diff(after) < ms(8), "{ppm} ppm: {before:?}, then {after:?}");
        assert!(after > ms(40) && after < ms(65), "{ppm} ppm: {after:?}");
        let playout = heard(&live.world.far).playout().unwrap();
        assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0), "{ppm} ppm");
        assert_eq!(live.world.near.sent().track.stalls, 0);
        // Only what was captured before sending began, if that was a block, is left out.
        assert!(live.world.near.sent().track.skipped_frames < 512);
    }
}

#[test]
fn a_source_that_gets_stuck_costs_its_pause_and_no_delay() {
    for pause in [100, 3_000] {
        let stuck = (Instant::from_millis(5_000), Instant::from_millis(5_000 + pause));
        let mut live = Live::new("rtp", "delay=5ms", 0.0, Some(stuck));
        live.run_until(Instant::from_millis(4_900));
        let before = live.delay(0.0, 1);
        live.run_until(Instant::from_millis(20_000));
        let after = live.delay(0.0, 1);
        assert!(after < before + ms(15), "{pause} ms: {before:?}, then {after:?}");
        let skipped = live.world.near.sent().track.skipped_frames;
        // Up to 250 ms behind, all of it is sent at once; beyond that only the newest block is worth sending.
        let all_but_a_block = 48 * pause - 1_024;
        assert_eq!(skipped > 512, pause > 250, "{skipped}");
        assert!(pause < 250 || skipped > all_but_a_block, "{skipped}");
    }
}

#[test]
fn short_packets_of_a_long_block_leave_one_by_one() {
    for (ptime, per_instant, groups) in [(5u64, 1, "2"), (5, 2, "1"), (1, 1, "2")] {
        let mut config = track_config(stereo(), 5);
        config.packet.block_frames = 4096;
        config.packet.ptime = Some(ms(ptime));
        let groups = antiphon_media::ChannelGroups::parse(2, groups).unwrap();
        let config = SendTrackConfig { groups, ..config };
        let sent = Rc::new(RefCell::new(Vec::new()));
        let noted = sent.clone();
        let source = Noise::new(stereo(), 240_000);
        let mut near = sending(&*stack("rtp"), source, config, PlayoutDelay::Unbounded);
        near.observe(Box::new(move |now, seen: &Seen| {
            if let Seen::Sent(_) = seen {
                noted.borrow_mut().push(now);
            }
        }));
        let (mut world, kept) = linked("rtp", near, Some(ms(40)), "delay=5ms", 1);
        world.run(Instant::from_millis(30_000));
        assert!(world.near.is_finished() && kept.samples() == expected(stereo(), 0, 240_000));
        let sent = sent.borrow();
        let instants: Vec<Instant> = sent.iter().step_by(per_instant).copied().collect();
        assert!(instants.windows(2).all(|two| {
            let gap = two[1].since(two[0]);
            // A whole number of sample frames, no longer than asked.
            gap <= ms(ptime) && gap > ms(ptime).mul_f64(0.9)
        }));
        assert!(sent.chunks(per_instant).all(|of_a_block| of_a_block.iter().all(|at| *at == of_a_block[0])));
        assert_eq!(instants.len() as u64, 5_000 / ptime, "{ptime} ms");
    }
}

/// A spool without a bound, or of so many messages, of which the oldest are dropped.
struct Queue {
    waiting: VecDeque<(Stored, Vec<u8>)>,
    most: usize,
}

impl Spool for Queue {
    fn put(&mut self, stored: &Stored, bytes: &[u8]) {
        if self.waiting.len() == self.most {
            self.waiting.pop_front();
        }
        self.waiting.push_back((*stored, bytes.to_vec()));
    }

    fn take(&mut self, buf: &mut [u8]) -> Option<(Stored, usize)> {
        let (stored, bytes) = self.waiting.pop_front()?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Some((stored, bytes.len()))
    }

    fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }
}

/// A recording of a microphone that cannot be reached from the third to the 33rd second, with room for 256 messages in memory
/// and `most` in the spool.
fn cut_off(most: Option<usize>) -> Live {
    let (kept, clock) = (Kept::default(), Arc::new(AtomicU64::new(0)));
    let format = stereo();
    let source =
        Microphone { format, now: clock.clone(), ppm: 0.0, period: 64, stuck: None, at: 0, skipped: 0 };
    let config = SendTrackConfig { keeps: 256 * 1_152, ..track_config(format, 5) };
    let mut track = SendTrack::new(Box::new(source), config).expect("a track");
    if let Some(most) = most {
        track.set_spool(Box::new(Queue { waiting: VecDeque::new(), most }));
    }
    let delay = SessionConfig { playout_delay: PlayoutDelay::Of(ms(80)), ..session_config("near", 5) };
    let mut near = Session::new(delay, Instant::ZERO);
    near.set_send_track(track);
    near.keep_calling(Instant::ZERO, WIRE, &[PathId(0)], stack("tcp"), true);
    let mut live =
        Live { world: World::piped(near, receive_session("tcp", None, &kept), ms(10), 100_000), kept, clock };
    live.run_until(Instant::from_millis(3_000));
    live.world.break_pipe();
    live.run_until(Instant::from_millis(33_000));
    live.world.connect();
    // Four times as fast as it was missed would be done after ten seconds.
    live.run_until(Instant::from_millis(43_000));
    live
}

#[test]
fn what_a_microphone_says_in_an_outage_reaches_the_recording() {
    let live = cut_off(Some(usize::MAX));
    let samples = live.kept.samples();
    let seconds = samples.len() as f64 / 96_000.0;
    assert!(seconds > 42.9, "{seconds} s of 43 after it");
    // The first block is captured as the connection is there.
    let first = (0..2_000).find(|first| samples[..512] == expected(stereo(), *first, 256)).expect("sound");
    assert!(samples == expected(stereo(), first, samples.len() as u64 / 2));
    let peers = live.world.near.sent().peers;
    assert!((peers.dropped, peers.refused, peers.expired) == (0, 0, 0) && peers.repeated < 256, "{peers:?}");
}

#[test]
fn what_a_spool_has_no_room_for_is_missing_and_counted() {
    for most in [Some(1_000), None] {
        let live = cut_off(most);
        let (peers, track) = (live.world.near.sent().peers, heard(&live.world.far));
        // Of 30 s, 5625 messages, memory has some and the spool its own.
        let room = 256 + most.unwrap_or(0) as u64;
        assert!((5_625 - room - 100..5_625 - room + 100).contains(&peers.dropped), "{peers:?}, {most:?}");
        let gaps = track.gaps().expect("it records");
        assert_eq!((gaps.frames(), track.playout().unwrap().lost), (peers.dropped * 256, peers.dropped));
        let samples = live.kept.samples();
        assert!(samples.len() as f64 / 96_000.0 > 42.9, "as long as the performance: {}", samples.len());
        let tail = expected(stereo(), 42 * 48_000, 10_000);
        assert!(
            samples.windows(tail.len()).rev().take(200_000).any(|window| window == tail),
            "the rest is whole"
        );
    }
}

/// A block of 64 channels becomes several packets. All that wait after a stall leave, as those of few channels do.
#[test]
fn all_packets_of_many_channels_leave_after_a_stall() {
    let format = StreamFormat::new(48_000, 64).unwrap();
    let now = Arc::new(AtomicU64::new(0));
    let stuck = Some((Instant::from_millis(1_000), Instant::from_millis(1_200)));
    let microphone = Microphone { format, now: now.clone(), ppm: 0.0, period: 256, stuck, at: 0, skipped: 0 };
    let mut track = SendTrack::new(Box::new(microphone), track_config(format, 5)).unwrap();
    track.begin(Instant::ZERO);
    let (mut sent, mut most) = (0, 0);
    for at in (1..1_500).map(Instant::from_millis) {
        now.store(at.as_nanos(), Ordering::Relaxed);
        track.advance(at);
        let before = sent;
        while let Some(emit) = track.poll(at) {
            sent += u64::from(track.store().get(emit.number).is_some());
        }
        most = most.max(sent - before);
    }
    assert_eq!(sent, track.counters().messages, "none is made and never sent");
    assert!(most > 800 && track.counters().skipped_frames < 48 * 10, "{most} left at once");
}

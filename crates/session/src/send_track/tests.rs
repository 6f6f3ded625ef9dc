use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_core::Epoch;
use antiphon_media::{ChannelGroups, Coding, Ready, SampleFormat, StreamFormat, Wake};
use antiphon_testkit::Noise;

use super::*;
use crate::protect::Repetition;

const RATE: u32 = 48_000;
/// What the clock shows at the run's beginning: 2026-11-28, as PTP counts, 10 µs into a sample frame.
const SHOWN: Duration = Duration::new(1_795_824_037, 250_010_000);

fn counting() -> SendTrack {
    counting_of(Noise::endless(mono()), SampleFormat::L16)
}

fn mono() -> StreamFormat {
    StreamFormat::new(RATE, 1).unwrap()
}

fn counting_of(source: Box<dyn Source>, coding: SampleFormat) -> SendTrack {
    let packet = PacketConfig::new(mono(), Coding::Pcm(coding), 48);
    let config = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(1),
        protect: Repetition::default(),
        epoch: Epoch::default(),
        seed: 1,
        woken: false,
        keeps: 0,
    };
    let mut track = SendTrack::new(source, config).unwrap();
    track.count_clock((Instant::ZERO, SHOWN)).unwrap();
    track
}

/// The time stamps of what is sent by `now`, and whether each is marked.
fn sent(track: &mut SendTrack, now: Instant) -> Vec<(u32, bool)> {
    track.advance(now);
    let emitted: Vec<Emit> = std::iter::from_fn(|| track.poll(now)).collect();
    let header = |emit: &Emit| {
        let bytes = track.store().get(emit.number).unwrap().1;
        (u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]), bytes[1] & 0x80 != 0)
    };
    emitted.iter().map(header).collect()
}

/// The sample frame that begins first at `at` or later, by the clock, if that was set forward by `set`.
fn frame(at: Instant, set: Duration) -> u32 {
    let time = (SHOWN + set + at.since(Instant::ZERO)).as_nanos();
    (time * u128::from(RATE)).div_ceil(1_000_000_000) as u32
}

#[test]
fn time_stamps_count_the_clock_through_a_stall_and_a_step() {
    let (mut track, begin) = (counting(), Instant::from_millis(7));
    track.begin(begin);
    let mut next = frame(begin, Duration::ZERO);
    for n in 1..=100 {
        // A block is due a millisecond after it begins, and up to a sample frame later.
        let stamps = sent(&mut track, Instant::from_nanos(7_021_000 + n * 1_000_000));
        assert_eq!(stamps, [(next, n == 1)]);
        next = next.wrapping_add(48);
    }
    // A second in which nothing ran: the schedule moves, to the beginning of a sample frame, and the stamps with it.
    let later = Instant::from_millis(1_107);
    assert_eq!((sent(&mut track, later).len(), track.counters().stalls), (0, 1));
    let stamps = sent(&mut track, later + Duration::from_micros(21));
    assert_eq!(stamps.len(), 1);
    let (after, marked) = stamps[0];
    let due = frame(later, Duration::ZERO).wrapping_sub(48);
    assert!(marked && after.wrapping_sub(due) <= 1, "{after} for {due}");
    // The clock is set forward by two seconds; what is read 0.2 ms late shows nothing.
    let step = Duration::from_secs(2);
    track.read_clock((later, SHOWN + Duration::from_nanos(1_107_200_000)));
    assert_eq!(track.counters().clock_steps, 0);
    track.read_clock((later, SHOWN + step + later.since(Instant::ZERO)));
    assert_eq!(track.counters().clock_steps, 1);
    let (last, marked) = sent(&mut track, later + Duration::from_micros(1_050))[0];
    let jumped = last.wrapping_sub(after.wrapping_add(48));
    assert!(marked && jumped.abs_diff(2 * RATE) <= 1, "{jumped}");
}

#[test]
fn without_a_clock_they_go_on_by_themselves() {
    let mut track = counting();
    track.clock = None;
    track.begin(Instant::ZERO);
    let first = sent(&mut track, Instant::from_millis(1))[0].0;
    let after = sent(&mut track, Instant::from_millis(1_000))[0].0;
    assert_eq!(after.wrapping_sub(first), 48, "media time does not jump");
}

/// A sound card in virtual time whose clock is 100 ppm fast: each sample is the time of its capture by the run's clock, in units of 100 s.
struct Card {
    /// In nanoseconds.
    now: Arc<AtomicU64>,
    used: u64,
}

impl Card {
    const PER_SECOND: f64 = RATE as f64 * 1.0001;
    const PIECE: u64 = 64;

    fn captured(&self) -> u64 {
        let now = Instant::from_nanos(self.now.load(Ordering::Relaxed));
        let all = now.since(Instant::ZERO).as_secs_f64() * Self::PER_SECOND;
        all as u64 / Self::PIECE * Self::PIECE
    }
}

impl Source for Card {
    fn format(&self) -> StreamFormat {
        mono()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::F32
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        for sample in block.iter_mut() {
            *sample = (self.used as f64 / Self::PER_SECOND / 100.0) as f32;
            self.used += 1;
        }
        Pull::Frames(block.len())
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        Ready { frames: (self.captured() - self.used) as usize, ended: false, piece: Self::PIECE as usize }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let left_out = (self.captured() - self.used).saturating_sub(frames as u64);
        self.used += left_out;
        left_out
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// What a sound card captured goes out under the time stamp of its capture by the clock, and leaves in time.
#[test]
fn a_sound_card_is_resampled_to_the_clock() {
    let now = Arc::<AtomicU64>::default();
    let mut track = counting_of(Box::new(Card { now: now.clone(), used: 0 }), SampleFormat::F32);
    let begin = Instant::from_millis(7);
    track.begin(begin);
    let (mut next, mut checked) = (None, 0);
    let mut at = begin;
    while at < Instant::from_millis(95_000) {
        at = track.poll_timeout().unwrap().max(at + Duration::from_nanos(1));
        now.store(at.as_nanos(), Ordering::Relaxed);
        track.advance(at);
        while let Some(emit) = track.poll(at) {
            let bytes = track.store().get(emit.number).unwrap().1;
            let stamp = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            assert!(next.is_none_or(|next| next == stamp), "{next:?} {stamp}");
            next = Some(stamp.wrapping_add(48));
            // When its first sample frame was captured, by the stamp and by the sound.
            let frames = stamp.wrapping_sub(frame(Instant::ZERO, Duration::ZERO));
            let by_stamp = f64::from(frames) / f64::from(RATE);
            let sound = &bytes[bytes.len() - 48 * 4..][..4];
            let by_sound = f64::from(f32::from_be_bytes(sound.try_into().unwrap())) * 100.0;
            // It waits for a piece, for its own end and for a thread that wakes up late.
            let waited = at.since(Instant::ZERO).as_secs_f64() - by_stamp;
            assert!((0.005..0.008).contains(&waited), "{waited}");
            if by_stamp > 60.0 {
                assert!((by_sound - by_stamp).abs() < 0.2e-3, "{by_sound} {by_stamp}");
                checked += 1;
            }
        }
    }
    assert!(checked > 30_000 && track.counters().starved == 0, "{checked} {:?}", track.counters());
}

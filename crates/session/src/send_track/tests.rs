use antiphon_media::{Coding, SampleFormat, StreamFormat};
use antiphon_testkit::Noise;

use super::*;

const RATE: u32 = 48_000;
/// What the clock shows at the run's beginning: 2026-11-28, as PTP counts, 10 µs into a sample frame.
const SHOWN: Duration = Duration::new(1_795_824_037, 250_010_000);

fn counting() -> SendTrack {
    let format = StreamFormat::new(RATE, 1).unwrap();
    let packet = PacketConfig::new(format, Coding::Pcm(SampleFormat::L16), 48);
    let config = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(1),
        protect: Repetition::default(),
        epoch: Epoch::default(),
        seed: 1,
        woken: false,
        keeps: 0,
    };
    let mut track = SendTrack::new(Noise::endless(format), config).unwrap();
    track.count_clock((Instant::ZERO, SHOWN));
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

//! Several channel groups in one buffer: aligned to the sample, and unaffected by losses of another.

use super::tests::{Sent, at, balanced, micros, play_groups};
use super::*;
use crate::{ChannelGroups, StreamFormat};
use antiphon_core::Rng;
use proptest::prelude::*;

const FRAMES: usize = 256;

fn config(clocking: Clocking, target_ms: u64) -> PlayoutConfig {
    let format = StreamFormat::new(48_000, 4).unwrap();
    let groups = ChannelGroups::parse(4, "2").unwrap();
    PlayoutConfig { groups, ..PlayoutConfig::new(format, Duration::from_millis(target_ms), clocking) }
}

/// Packet `n` of a group: the groups have different sound, and may have packets of different sizes.
fn packet(group: usize, n: u64, frames: usize) -> Sent {
    let mut sent = Sent::new(n + 1000 * group as u64, n * frames as u64, frames, 2);
    sent.bytes.iter_mut().for_each(|byte| *byte ^= group as u8);
    sent
}

/// The sound of group `group` between two sample frames.
fn expected(group: usize, from: usize, until: usize) -> Vec<f32> {
    let sent = Sent::new(0, from as u64, until - from, 2);
    let mut bytes = sent.bytes;
    bytes.iter_mut().for_each(|byte| *byte ^= group as u8);
    let mut out = vec![0.0; (until - from) * 2];
    crate::codec::decode(crate::SampleFormat::L16, &bytes, &mut out);
    out
}

/// The channels of one group.
fn channels(out: &[f32], group: usize) -> Vec<f32> {
    out.chunks_exact(4).flat_map(|frame| frame[2 * group..2 * group + 2].to_vec()).collect()
}

/// Plays arrivals in microseconds, in order; returns all output.
fn play(playout: &mut Playout, mut arrivals: Vec<(u64, usize, Sent)>) -> Vec<f32> {
    arrivals.sort_by_key(|(time, ..)| *time);
    play_groups(playout, arrivals.iter().map(|(time, group, sent)| (*time, *group, sent)), 700)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Jitter below the playout delay, each group with delays of its own and packets of its own size: every sample in its place.
    #[test]
    fn jitter_of_each_group_is_not_heard(seed in any::<u64>(), playout_delay in 20u64..100, size in 16usize..600) {
        let mut rng = Rng::new(seed);
        let total = 600 * 256;
        let mut arrivals = Vec::new();
        for (group, frames) in [(0, FRAMES), (1, size)] {
            for n in 0..(total / frames) as u64 {
                let time = 10_000 + micros(n * frames as u64) + u64::from(rng.below(playout_delay as u32 * 1000 - 500));
                arrivals.push((time, group, packet(group, n, frames)));
            }
        }
        let whole = total / size * size;
        let mut playout = Playout::new(config(Clocking::Sender, playout_delay)).unwrap();
        let out = play(&mut playout, arrivals);
        prop_assert_eq!(channels(&out, 0), expected(0, 0, total));
        prop_assert_eq!(&channels(&out, 1)[..whole * 2], &expected(1, 0, whole)[..]);
        let c = playout.counters();
        prop_assert_eq!((c.late, c.lost, balanced(&c)), (0, 0, true));
    }

    /// Without deadlines one group may run far ahead of the other.
    #[test]
    fn a_recording_waits_for_the_slower_group(behind in 1_000u64..300_000, seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut arrivals = Vec::new();
        for n in 0..300u64 {
            let time = micros(n * 256);
            arrivals.push((time, 0, packet(0, n, FRAMES)));
            arrivals.push((time + behind + u64::from(rng.below(2_000)), 1, packet(1, n, FRAMES)));
        }
        let mut playout = Playout::new(config(Clocking::Unhurried { patience: 4 }, 0)).unwrap();
        let out = play(&mut playout, arrivals);
        for group in 0..2 {
            prop_assert_eq!(channels(&out, group), expected(group, 0, 300 * 256));
        }
    }
}

#[test]
fn losses_of_one_group_leave_the_other_as_it_is() {
    for clocking in [Clocking::Sender, Clocking::Unhurried { patience: 0 }] {
        let mut rng = Rng::new(3);
        let (mut arrivals, mut lost) = (Vec::new(), 0);
        for n in 0..400u64 {
            arrivals.push((micros(n * 256), 0, packet(0, n, FRAMES)));
            // The first and the last arrive, so that the ends are known.
            if n % 399 != 0 && rng.chance(0.2) {
                lost += 1;
            } else {
                arrivals.push((micros(n * 256), 1, packet(1, n, FRAMES)));
            }
        }
        let mut playout = Playout::new(config(clocking, 30)).unwrap();
        let out = play(&mut playout, arrivals);
        assert_eq!(channels(&out, 0), expected(0, 0, 400 * 256), "{clocking:?}");
        let damaged = channels(&out, 1);
        assert_eq!(damaged.len(), 400 * 512);
        // Concealment blends the return of the sound in what follows a hole; what follows another packet is untouched.
        assert_ne!(damaged, expected(1, 0, 400 * 256));
        let groups: Vec<_> = playout.group_counters().collect();
        assert!(lost > 50);
        assert_eq!((groups[0].lost, groups[1].lost), (0, lost));
        assert_eq!((groups[0].concealed_frames, groups[1].concealed_frames), (0, lost * 256));
        assert_eq!(playout.counters().lost, lost);
        assert!(balanced(&groups[0]) && balanced(&groups[1]) && balanced(&playout.counters()));
    }
}

#[test]
fn a_group_that_ends_does_not_hold_up_the_other() {
    for clocking in [Clocking::Sender, Clocking::Unhurried { patience: 0 }] {
        let mut arrivals = Vec::new();
        for n in 0..1000u64 {
            arrivals.push((micros(n * 256), 0, packet(0, n, FRAMES)));
            if n < 100 {
                arrivals.push((micros(n * 256), 1, packet(1, n, FRAMES)));
            }
        }
        let mut playout = Playout::new(config(clocking, 30)).unwrap();
        let out = play(&mut playout, arrivals);
        assert_eq!(channels(&out, 0), expected(0, 0, 256_000), "{clocking:?}");
        let second = channels(&out, 1);
        assert_eq!(second[..25_600 * 2], expected(1, 0, 25_600));
        assert!(second[30_000 * 2..].iter().all(|sample| *sample == 0.0), "concealed, and faded out");
        assert_eq!(playout.counters().resyncs, 0);
    }
}

#[test]
fn a_group_with_other_time_stamps_moves_no_other() {
    let mut arrivals = Vec::new();
    for n in 0..500u64 {
        arrivals.push((micros(n * 256), 0, packet(0, n, FRAMES)));
        let mut stray = packet(1, n, FRAMES);
        // Its time stamps jump to another beginning, hours away.
        stray.start += 1_000_000_000;
        arrivals.push((micros(n * 256), 1, stray));
    }
    let mut playout = Playout::new(config(Clocking::Sender, 30)).unwrap();
    let out = play(&mut playout, arrivals);
    assert_eq!(channels(&out, 0)[..], expected(0, 0, 500 * 256));
    let groups: Vec<_> = playout.group_counters().collect();
    assert_eq!((playout.counters().resyncs, groups[0].late, groups[1].early), (0, 0, 500));
}

/// A device's clock, drift and changing playout delays: whatever moves, moves for all groups at once.
#[test]
fn drift_and_targets_move_all_groups_alike() {
    let mut playout = ClockedPlayout::new(config(Clocking::Sink, 30), 44_100, 441).unwrap();
    // The same sound in both groups, so that one sample of distance shows; 300 ppm fast, with jitter and losses.
    let (mut rng, mut next, mut out) = (Rng::new(9), 0u64, vec![0.0; 441 * 4]);
    let (mut heard, mut speeds) = (0.0f32, 0.0f64);
    for step in 0..3000u64 {
        let now = at(10_000 * step);
        while micros(next * 256) * 10_000 / 10_003 <= 10_000 * step {
            if !rng.chance(0.02) {
                let arrived = now + Duration::from_micros(u64::from(rng.below(5_000)));
                for (group, sequence) in [(0, next), (1, next + 77)] {
                    let sent = Sent::new(sequence, next * 256, FRAMES, 2);
                    let mut sent = sent;
                    sine(&mut sent);
                    playout.playout_mut().insert_in(group, arrived, &sent.packet());
                }
            }
            next += 1;
        }
        if step % 500 == 499 {
            playout.playout_mut().set_playout_delay(Duration::from_millis(if step % 1000 == 999 {
                30
            } else {
                180
            }));
        }
        let pulled = playout.pull(now, &mut out);
        speeds = speeds.max(pulled.speed.0.abs());
        for frame in out.chunks_exact(4) {
            assert_eq!(frame[..2], frame[2..], "step {step}");
            heard = heard.max(frame[0].abs());
        }
    }
    // Sound was played, the drift was followed, and packets were missing.
    assert!(heard > 0.5 && speeds > 100.0);
    let c = playout.playout().counters();
    assert!(c.concealments > 50 && c.skipped_frames + c.resyncs > 0, "{c:?}");
}

/// Puts a sine of 440 Hz into a packet: within the resampler's band.
fn sine(sent: &mut Sent) {
    let frames = sent.start..sent.start + sent.frames as u64;
    let samples: Vec<f32> =
        frames.flat_map(|n| [(n as f32 * 0.0576).sin() * 0.9, (n as f32 * 0.0576).cos() * 0.9]).collect();
    crate::codec::encode(crate::SampleFormat::L16, &samples, &mut sent.bytes);
}

#[test]
fn groups_of_another_stream_are_refused() {
    let groups = ChannelGroups::parse(6, "2").unwrap();
    let error = Playout::new(PlayoutConfig { groups, ..config(Clocking::Sender, 10) }).err().unwrap();
    assert!(error.to_string().contains("2,2,2"), "{error}");
}

use std::f64::consts::TAU;

use antiphon_core::Rng;

use super::*;
use crate::packet::MediaPacket;
use crate::playout::{ClockedPlayout, PlayoutConfig, PlayoutCounters};
use crate::{SampleFormat, codec};

const RATE: u64 = 48_000;
const FRAMES: u64 = 256;

/// Two partials that beat, with a pause of half a second in every four.
fn sound(frame: u64) -> f32 {
    let t = frame as f64 / RATE as f64;
    let tone = |f: f64| (TAU * f * t).sin();
    if t % 4.0 > 3.5 { 0.0 } else { ((tone(220.0) + tone(331.0) * 0.5) * 0.4) as f32 }
}

/// What arrives when: the number of a packet, its delay beyond the undelayed one, whether it was sent again.
struct Arrival {
    at: f64,
    number: u64,
    again: bool,
}

/// So many packets of 256 sample frames, each with the delay in milliseconds that `path` gives for it (or none), in the order of
/// their arrival.
fn arrivals(packets: u64, mut path: impl FnMut(u64) -> Option<(f64, bool)>) -> Vec<Arrival> {
    let arrival = |number: u64| {
        let (delay, again) = path(number)?;
        Some(Arrival { at: 20.0 + (number * FRAMES) as f64 / 48.0 + delay, number, again })
    };
    let mut all: Vec<Arrival> = (0..packets).filter_map(arrival).collect();
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}

fn instant(ms: f64) -> Instant {
    Instant::from_nanos((ms * 1e6) as u64)
}

/// Keeps the order: a packet does not overtake the one before.
fn ordered(mut draw: impl FnMut(u64) -> f64) -> impl FnMut(u64) -> Option<(f64, bool)> {
    let mut last = 0.0f64;
    move |number| {
        let sent = (number * FRAMES) as f64 / 48.0;
        last = last.max(sent + draw(number));
        Some((last - sent, false))
    }
}

/// What was played, and what is to be seen at times.
struct Heard {
    sound: Vec<f32>,
    /// Time in milliseconds, sample frames played so far, and the delay in force.
    seen: Vec<(f64, usize, f64)>,
    counters: PlayoutCounters,
    figures: AdaptedFigures,
}

fn insert(playout: &mut Playout, arrival: &Arrival) {
    let start = arrival.number * FRAMES;
    let samples: Vec<f32> = (start..start + FRAMES).map(sound).collect();
    let mut payload = vec![0; samples.len() * 2];
    codec::encode(SampleFormat::L16, &samples, &mut payload);
    let packet = MediaPacket {
        sequence: 65_536 + arrival.number,
        timestamp: (1 << 32) + start,
        frames: samples.len(),
        lead: 0,
        coding: SampleFormat::L16.into(),
        channels: 1,
        recovered: arrival.again,
        payload: &payload,
    };
    playout.insert(instant(arrival.at), &packet);
}

fn config(clocking: Clocking, adapts: AdaptiveDelay) -> PlayoutConfig {
    let format = StreamFormat::new(RATE as u32, 1).unwrap();
    PlayoutConfig { adapts: Some(adapts), ..PlayoutConfig::new(format, Duration::ZERO, clocking) }
}

/// Plays to a pipe, on the sender's clock.
fn play(adapts: AdaptiveDelay, repair: Option<Duration>, arrivals: &[Arrival]) -> Heard {
    let mut playout = Playout::new(config(Clocking::Sender, adapts)).unwrap();
    playout.set_repair(repair);
    let (mut sound, mut seen, mut block) = (Vec::new(), Vec::new(), [0.0; 256]);
    for arrival in arrivals {
        let until = instant(arrival.at);
        while let Some(due) = playout.poll_timeout().filter(|due| *due <= until) {
            let pulled = playout.pull(due, &mut block);
            assert!(pulled.frames > 0, "a time-out without sound at {due:?}");
            sound.extend_from_slice(&block[..pulled.frames]);
            let delay = playout.config().playout_delay.as_secs_f64() * 1e3;
            seen.push((due.as_nanos() as f64 / 1e6, sound.len(), delay));
        }
        insert(&mut playout, arrival);
    }
    Heard { sound, seen, counters: playout.counters(), figures: playout.adapted().unwrap() }
}

/// Plays to a device that takes 256 sample frames at a time.
fn play_clocked(adapts: AdaptiveDelay, arrivals: &[Arrival]) -> Heard {
    let mut clocked = ClockedPlayout::new(config(Clocking::Sink, adapts), 48_000, 256).unwrap();
    let (mut sound, mut seen, mut block) = (Vec::new(), Vec::new(), [0.0; 256]);
    let mut pulls = 0u64;
    for arrival in arrivals {
        while (pulls * FRAMES) as f64 / 48.0 <= arrival.at {
            let now = (pulls * FRAMES) as f64 / 48.0;
            clocked.pull(instant(now), &mut block);
            sound.extend_from_slice(&block);
            seen.push((now, sound.len(), clocked.playout().config().playout_delay.as_secs_f64() * 1e3));
            pulls += 1;
        }
        insert(clocked.playout_mut(), arrival);
    }
    let playout = clocked.playout();
    Heard { sound, seen, counters: playout.counters(), figures: playout.adapted().unwrap() }
}

fn roughest(sound: &[f32]) -> f32 {
    sound.windows(3).map(|w| (w[2] - 2.0 * w[1] + w[0]).abs()).fold(0.0, f32::max)
}

/// The roughest place of the sound itself.
fn smooth() -> f32 {
    // The pause begins and ends where the tones are anywhere in their period: left out.
    roughest(&(0..RATE * 3).map(sound).collect::<Vec<_>>())
}

/// The delay in force between two times in seconds, on the average.
fn mean_delay(heard: &Heard, from: f64, to: f64) -> f64 {
    let part: Vec<f64> =
        heard.seen.iter().filter(|s| s.0 >= from * 1e3 && s.0 < to * 1e3).map(|s| s.2).collect();
    part.iter().sum::<f64>() / part.len() as f64
}

#[test]
fn a_quiet_path_gets_a_short_delay_without_a_gap() {
    let mut rng = Rng::fork(1, "quiet");
    let came = arrivals(6000, ordered(|_| rng.exponential() * 0.5));
    let heard = play(AdaptiveDelay::default(), None, &came);
    let (first, settled) = (mean_delay(&heard, 0.1, 3.0), mean_delay(&heard, 10.0, 30.0));
    assert!((first - 80.0).abs() < 0.1 && (4.0..11.0).contains(&settled), "{first} {settled}");
    assert_eq!((heard.counters.concealed_frames, heard.counters.late), (0, 0), "{:?}", heard.counters);
    assert!(heard.figures.shortened_frames > 48 * 65, "{:?}", heard.figures);
}

/// As many sample frames are written as time passes, whatever the delay does, and what the delay gained or lost was added or left
/// out.
#[test]
fn output_keeps_pace() {
    let mut rng = Rng::fork(2, "pace");
    let came = arrivals(9000, ordered(|n| rng.exponential() * if n % 3000 < 1500 { 1.0 } else { 6.0 }));
    for heard in [play(AdaptiveDelay::default(), None, &came), play_clocked(AdaptiveDelay::default(), &came)]
    {
        let (begin, end) = (heard.seen[0], heard.seen[heard.seen.len() - 1]);
        let (time, frames) = (end.0 - begin.0, (end.1 - begin.1) as f64 / 48.0);
        assert!((time - frames).abs() < 30.0, "{frames} ms in {time} ms");
        let f = heard.figures;
        let changed = f.stretched_frames as f64 + f.held_frames as f64 - f.shortened_frames as f64;
        let moved = f.in_force.as_secs_f64() * 1e3 - 80.0;
        assert!((changed / 48.0 - moved).abs() < 0.1, "{changed} {moved} {f:?}");
        assert!(f.rises > 1 && f.falls > 0 && f.shortened_frames > 48 * 60, "{f:?}");
    }
}

/// Every four seconds a packet and the ones behind it are 12 ms later than the delay allows for: the sound is made longer until
/// they are there.
#[test]
fn late_packets_are_waited_for_without_a_gap() {
    let mut rng = Rng::fork(3, "late");
    // Far apart, so that the target has fallen between.
    let came = arrivals(15_000, ordered(|n| rng.unit() * 2.0 + if n % 5000 == 4999 { 20.0 } else { 0.0 }));
    let heard = play(AdaptiveDelay::default(), None, &came);
    assert_eq!(heard.counters.concealments, 0, "{:?} {:?}", heard.counters, heard.figures);
    assert!((1..=3).contains(&heard.figures.waits), "{:?}", heard.figures);
    assert!(roughest(&heard.sound[48 * 4000..48 * 7400]) < smooth() * 4.0);
}

/// A spike that nothing can bridge conceals once, and the delay is there at once; 30 s later it is gone.
#[test]
fn up_at_once_and_down_within_thirty_seconds() {
    for clocked in [false, true] {
        let mut rng = Rng::fork(4, "spike");
        let came = arrivals(12_000, ordered(|n| rng.unit() + if n == 4000 { 120.0 } else { 0.0 }));
        let spike = 4000.0 * 256.0 / 48_000.0;
        let heard = match clocked {
            false => play(AdaptiveDelay::default(), None, &came),
            true => play_clocked(AdaptiveDelay::default(), &came),
        };
        let before = mean_delay(&heard, spike - 2.0, spike);
        // A single spike is among the packets that may be late: the delay does not stay there for it.
        let after = mean_delay(&heard, spike + 0.15, spike + 0.25);
        let later = mean_delay(&heard, spike + 29.0, spike + 40.0);
        assert!(
            before < 20.0 && (100.0..135.0).contains(&after) && later < before + 6.0,
            "{before} {after} {later}"
        );
        assert_eq!(heard.counters.concealments, 1, "{clocked} {:?}", heard.counters);
        // What came late is played, not thrown away.
        assert_eq!((heard.counters.late, heard.counters.discarded), (0, 0), "{:?}", heard.counters);
    }
}

#[test]
fn a_lost_packet_is_concealed_and_not_waited_for_where_nothing_repairs_it() {
    let mut rng = Rng::fork(5, "lost");
    let mut draw = ordered(move |_| rng.unit());
    let came = arrivals(6000, |n| draw(n).filter(|_| n % 100 != 50));
    let heard = play(AdaptiveDelay::default(), None, &came);
    assert_eq!(heard.counters.concealments, 60);
    // While the next packet has not come either, nobody can tell.
    assert!(heard.figures.waits <= 60 && heard.figures.held_frames == 0, "{:?}", heard.figures);
    assert!(mean_delay(&heard, 10.0, 30.0) < 12.0);
}

#[test]
fn lost_packets_that_are_sent_again_lift_the_delay_by_the_repair() {
    let mut rng = Rng::fork(6, "repair");
    let mut draw = ordered(move |_| rng.unit());
    let came = arrivals(12_000, |n| if n % 100 == 50 { Some((25.0, true)) } else { draw(n) });
    let heard = play(AdaptiveDelay::default(), Some(Duration::from_millis(20)), &came);
    let settled = mean_delay(&heard, 20.0, 60.0);
    assert!((25.0..33.0).contains(&settled), "{settled}");
    assert_eq!(heard.counters.concealments, 0, "{:?} {:?}", heard.counters, heard.figures);
}

#[test]
fn a_frozen_delay_stays() {
    let mut rng = Rng::fork(7, "frozen");
    let came = arrivals(9000, ordered(|n| rng.unit() * 4.0 + if n % 1000 == 999 { 60.0 } else { 0.0 }));
    let adapts = AdaptiveDelay { freeze: Some(Duration::from_secs(15)), ..AdaptiveDelay::default() };
    let heard = play(adapts, None, &came);
    let delays: Vec<f64> = heard.seen.iter().filter(|s| s.0 > 15_200.0).map(|s| s.2).collect();
    assert!(delays.len() > 1000 && delays.iter().all(|delay| *delay == delays[0]), "{}", delays[0]);
}

/// A first packet that is 100 ms late: its delay is gone with the next one.
#[test]
fn the_first_packet_decides_nothing() {
    let mut rng = Rng::fork(8, "first");
    let came = arrivals(6000, move |n| Some((rng.unit() + if n == 0 { 4.0 } else { 0.0 }, false)));
    let usual = play(AdaptiveDelay::default(), None, &came);
    let mut rng = Rng::fork(8, "first");
    let came = arrivals(6000, ordered(move |n| rng.unit() + if n == 0 { 100.0 } else { 0.0 }));
    let late = play(AdaptiveDelay::default(), None, &came);
    let (usual, late) = (mean_delay(&usual, 8.0, 30.0), mean_delay(&late, 8.0, 30.0));
    assert!((usual - late).abs() < 6.0, "{usual} {late}");
}

/// A path that was longer for ten seconds, and gives all that was on its way at once: it is heard, if there is room for it, and the delay
/// is back within seconds. The delay that is told is that of the sound that waits.
#[test]
fn what_comes_at_once_and_early_is_heard_and_made_shorter() {
    for (longer, left_out) in [(150.0, false), (600.0, false), (2500.0, true)] {
        for clocked in [false, true] {
            let mut rng = Rng::fork(9, "early");
            let late = |n: u64| if (3000..5000).contains(&n) { longer } else { 0.0 };
            let came = arrivals(12_000, ordered(|n| rng.unit() + late(n)));
            let heard = match clocked {
                false => play(AdaptiveDelay::default(), None, &came),
                true => play_clocked(AdaptiveDelay::default(), &came),
            };
            let c = &heard.counters;
            let case = format!("{longer} ms, clocked {clocked}: {c:?} {:?}", heard.figures);
            assert_eq!((c.concealments, c.lost, c.early), (1, 0, 0), "{case}");
            assert_eq!(c.skipped_frames > 0, left_out, "{case}");
            assert!(c.skipped_frames < 48 * 2000, "{case}");
            let again = 5000.0 * 256.0 / 48_000.0 + longer / 1e3;
            let (most, later) = (
                mean_delay(&heard, again + 0.3, again + 0.4),
                mean_delay(&heard, again + 25.0, again + 30.0),
            );
            assert!(longer < 200.0 || most > 400.0, "{case}: {most}");
            assert!(mean_delay(&heard, again + 7.0, again + 8.0) < 205.0 && later < 15.0, "{case}: {later}");
        }
    }
}

/// A sender whose clock jumps by 0.4 s, with nothing missing: the pause that this makes is no longer than it need be.
#[test]
fn a_clock_that_jumps_makes_no_delay() {
    for clocking in [Clocking::Sender, Clocking::Sink] {
        let mut playout = Playout::new(config(clocking, AdaptiveDelay::default())).unwrap();
        let mut block = [0.0; 256];
        for number in 0..6000u64 {
            let now = instant(20.0 + (number * FRAMES) as f64 / 48.0);
            let jump = if number < 3000 { 0 } else { 19_200 };
            let samples: Vec<f32> = (number * FRAMES..(number + 1) * FRAMES).map(sound).collect();
            let mut payload = vec![0; samples.len() * 2];
            codec::encode(SampleFormat::L16, &samples, &mut payload);
            let packet = MediaPacket {
                sequence: 65_536 + number,
                timestamp: (1 << 32) + number * FRAMES + jump,
                frames: samples.len(),
                lead: 0,
                coding: SampleFormat::L16.into(),
                channels: 1,
                recovered: false,
                payload: &payload,
            };
            playout.insert(now, &packet);
            match clocking {
                Clocking::Sink => drop(playout.pull(now, &mut block)),
                _ => {
                    while playout.poll_timeout().is_some_and(|due| due <= now)
                        && playout.pull(now, &mut block).frames > 0
                    {}
                }
            }
            let waits = playout.level() as f64 / 48.0;
            assert!(
                (3000..3700).contains(&number) || number < 2000 || waits < 40.0,
                "{clocking:?}: {waits} ms at {number}"
            );
        }
        let counters = playout.counters();
        assert_eq!(
            (counters.concealments, counters.late, counters.skipped_frames),
            (0, 0, 0),
            "{counters:?}"
        );
        assert!(counters.paused_frames < 48 * 230, "{counters:?}");
    }
}

/// A sender whose clock is behind by 1.5 s from one packet to the next: it begins anew, and the delay is soon what the jitter needs, no
/// less.
#[test]
fn a_stream_that_begins_anew_knows_its_jitter() {
    for clocked in [false, true] {
        let mut rng = Rng::fork(11, "anew");
        let jitter = |n: u64| if n.is_multiple_of(200) { 30.0 } else { 0.0 };
        let behind = |n: u64| if n < 6000 { 0.0 } else { 1500.0 };
        let came = arrivals(9000, ordered(|n| rng.unit() + jitter(n) + behind(n)));
        let heard = match clocked {
            false => play(AdaptiveDelay::default(), None, &came),
            true => play_clocked(AdaptiveDelay::default(), &came),
        };
        let anew = 6000.0 * 256.0 / 48_000.0 + 1.5;
        let (before, after) =
            (mean_delay(&heard, anew - 6.0, anew - 2.0), mean_delay(&heard, anew + 5.0, anew + 15.0));
        assert!((before - after).abs() < 6.0 && before > 28.0, "{clocked}: {before} {after}");
        assert_eq!(heard.counters.concealments, 1, "{clocked}: {:?} {:?}", heard.counters, heard.figures);
    }
}

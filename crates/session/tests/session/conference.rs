//! Calls over a group: every party hears all others, and not itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_core::{Instant, Participant};
use antiphon_media::{Sink, StreamFormat};
use antiphon_session::{
    AdaptiveDelay, Latency, MOST_PARTIES, PartyFigures, PartyNotice, Session, WhyGone, converted_sink,
};
use antiphon_testkit::{GroupWorld, Kept, Noise, Sine, ms, stereo};

use crate::clocked::{Card, State};
use crate::common::{PartyEnd, conferring};

/// The level of every party's tone.
pub const LEVEL: f32 = 0.25;
/// Playout delay.
pub const DELAY: Duration = Duration::from_millis(40);
/// Sample frames of a window: each tone has whole periods in it, so that what is fitted of one is nothing of another.
const WINDOW: usize = 4_800;

pub fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(1_000 * seconds)
}

/// The frequency of a party's tone in Hz.
pub fn tone_of(party: usize) -> f64 {
    300.0 + 110.0 * party as f64
}

pub fn tone(format: StreamFormat, party: usize, frames: u64) -> Box<Noise> {
    let turn = std::f64::consts::TAU * tone_of(party) / f64::from(format.rate());
    // The phase of a long tone would lose its digits.
    let period = u64::from(format.rate());
    Noise::like(format, frames, move |n, _| LEVEL * (turn * (n % period) as f64).sin() as f32)
}

/// A party with a tone in stereo at 48 kHz without end.
pub fn party(number: usize, kept: &Kept, now: Instant) -> Session {
    party_into(number, kept.sink(stereo()), now)
}

fn party_into(number: usize, sink: Box<dyn Sink>, now: Instant) -> Session {
    let source = tone(stereo(), number, u64::MAX);
    conferring(
        PartyEnd {
            source,
            sink,
            latency: Latency::Of(DELAY),
            block: 256,
            seed: number as u64 + 1,
            most: MOST_PARTIES,
        },
        now,
    )
}

/// So many parties, all there from the beginning.
pub fn group(parties: usize) -> (GroupWorld<Session>, Vec<Kept>) {
    let (mut world, kept) = (GroupWorld::new(ms(5), 7), vec![Kept::default(); parties]);
    let kept: Vec<Kept> = kept.iter().map(|_| Kept::default()).collect();
    for (number, kept) in kept.iter().enumerate() {
        world.join(party(number, kept, Instant::ZERO), 0);
    }
    (world, kept)
}

/// The figures of the parties that one hears.
pub fn heard_by(world: &mut GroupWorld<Session>, member: usize) -> Vec<PartyFigures> {
    world.member(member).parties().expect("a call over a group").figures().collect()
}

pub fn notices(session: &mut Session) -> Vec<PartyNotice> {
    let parties = session.parties_mut().expect("a call over a group");
    std::iter::from_fn(|| parties.poll_notice()).collect()
}

/// Levels of tones of `hertz` in a window of mono sound, and the level of a sine with the power of the rest.
fn levels(sound: &[f32], hertz: &[f64]) -> (Vec<f64>, f64) {
    let mut rest = sound.to_vec();
    let level = |hertz: &f64| {
        let turn = std::f64::consts::TAU * hertz / 48_000.0;
        let Sine { level, phase, .. } = Sine::fit(&rest, 0, turn);
        for (n, sample) in rest.iter_mut().enumerate() {
            *sample -= (level * (turn * n as f64 + phase).sin()) as f32;
        }
        level
    };
    let levels = hertz.iter().map(level).collect();
    let power = rest.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / rest.len() as f64;
    (levels, (2.0 * power).sqrt())
}

/// In each window of the left channel within `from..to` seconds there are the tones of `others`, and nothing else.
///
/// `slack`: of the level. A party that is missing for a hundredth of a window shows with 1 %.
pub fn only_others(kept: &Kept, others: &[f64], from: f64, to: f64, slack: f64) {
    let samples = kept.samples();
    let left: Vec<f32> = samples.chunks_exact(2).map(|frame| frame[0]).collect();
    let (from, to) = ((from * 48_000.0) as usize, (to * 48_000.0) as usize);
    assert!(left.len() >= to, "{} sample frames of {to}", left.len());
    for (n, window) in left[from..to].chunks_exact(WINDOW).enumerate() {
        let at = (from + n * WINDOW) as f64 / 48_000.0;
        let (levels, rest) = levels(window, others);
        for (hertz, level) in others.iter().zip(&levels) {
            let off = (level / f64::from(LEVEL) - 1.0).abs();
            assert!(off < slack, "{hertz} Hz at {at:.1} s: {level:.4}; all {levels:.4?}, rest {rest:.5}");
        }
        assert!(rest < slack * f64::from(LEVEL), "at {at:.1} s: {rest:.5} beside {levels:.4?}");
    }
}

fn all_but(member: usize, parties: usize) -> Vec<f64> {
    (0..parties).filter(|other| *other != member).map(tone_of).collect()
}

#[test]
fn each_of_three_hears_the_two_others() {
    let (mut world, kept) = group(3);
    world.run_until(seconds(1));
    // The peaks of how it began.
    (0..3).for_each(|member| drop(heard_by(&mut world, member)));
    world.run_until(seconds(10));
    for (member, kept) in kept.iter().enumerate() {
        only_others(kept, &all_but(member, 3), 1.0, 9.9, 0.005);
        let heard = heard_by(&mut world, member);
        assert_eq!(heard.len(), 2);
        for party in heard {
            let playout = party.playout;
            let faults = (playout.lost, playout.late, playout.concealed_frames, playout.skipped_frames);
            assert_eq!(faults, (0, 0, 0, 0), "{playout:?}");
            assert!((party.peak - LEVEL).abs() < 0.01, "{}", party.peak);
        }
        let parties = world.member(member).parties().expect("a call over a group");
        assert_eq!(parties.mixer().expect("all are mixed").limited_frames, 0);
        let own = parties.counters().own;
        assert!((1_860..=1_880).contains(&own), "{own} packets of our own came back");
        assert!(!world.member(member).is_finished());
    }
}

/// A driver that is woken late plays several blocks at once, each as at its own time: nothing is left out to make up for it.
#[test]
fn a_machine_that_is_late_leaves_nothing_out() {
    let (mut world, kept) = group(3);
    world.late = ms(25);
    world.run_until(seconds(4));
    for (member, kept) in kept.iter().enumerate() {
        for party in heard_by(&mut world, member) {
            let playout = party.playout;
            let faults = (playout.lost, playout.late, playout.concealed_frames, playout.skipped_frames);
            assert_eq!(faults, (0, 0, 0, 0), "{playout:?}");
        }
        // Arrivals that spread by 25 ms change the speed by some 100 ppm, which bends a tone of 500 Hz by 0.03 in a window.
        only_others(kept, &all_but(member, 3), 1.0, 3.9, 0.03);
    }
}

/// A card gets the sum as soon as the sound of all parties has come, up to 20 ms before it is due, so the machine may be late by more than the card holds otherwise.
/// What is heard is the same.
#[test]
fn the_sum_goes_to_a_card_as_soon_as_all_of_it_has_come() {
    for (early, late, holds) in [(960, 12, true), (0, 12, false), (960, 0, true), (0, 0, true)] {
        let mut world = GroupWorld::new(ms(5), 7);
        let kept = Kept::default();
        let mut card = State::new(stereo(), 0.0);
        (card.early, card.kept) = (early, Some(kept.sink(stereo())));
        let state = Arc::new(Mutex::new(card));
        world.join(party_into(0, Box::new(Card { state: state.clone() }), Instant::ZERO), 0);
        let others = [1, 2].map(|other| {
            let kept = Kept::default();
            world.join(party(other, &kept, Instant::ZERO), 0);
            kept
        });
        // Until the first packets have come there is nothing to be early with.
        while world.now < seconds(8) {
            world.late = if world.now < seconds(2) { Duration::ZERO } else { ms(late) };
            let next = world.now + ms(1);
            world.run_until(next);
            state.lock().unwrap().advance(world.now);
        }
        let state = state.lock().unwrap();
        assert_eq!(
            (state.underruns == 0, state.overruns),
            (holds, 0),
            "{early}, {late} ms: {}",
            state.lowest
        );
        if late == 0 {
            // The card's clock is read each millisecond: some 40 ppm are corrected meanwhile, which bend a tone.
            only_others(&kept, &all_but(0, 3), 1.0, 7.5, 0.02);
        }
        assert!(others.iter().all(|other| other.len() > 2 * 7 * 48_000));
        for party in heard_by(&mut world, 0) {
            let playout = party.playout;
            let faults = (playout.lost, playout.late, playout.concealed_frames, playout.resyncs);
            assert_eq!(faults, (0, 0, 0, 0), "{early}, {late} ms: {playout:?}");
        }
    }
}

#[test]
fn a_packet_is_sent_once_however_many_hear_it() {
    let count = |parties| {
        let (mut world, _kept) = group(parties);
        world.run_until(seconds(3));
        world.members[0].counts[0]
    };
    // 562 packets of sound, and reports, which grow with the parties by less than the sound.
    let (three, eight) = (count(3), count(8));
    assert!((562..=585).contains(&three) && (562..=585).contains(&eight), "{three} and {eight}");
}

#[test]
fn parties_with_other_formats_are_converted() {
    let format = |rate, channels| StreamFormat::new(rate, channels).expect("a usual format");
    let formats = [format(48_000, 2), format(44_100, 1), format(32_000, 2)];
    let kept: Vec<Kept> = formats.iter().map(|_| Kept::default()).collect();
    let mut world = GroupWorld::new(ms(5), 3);
    for (number, (own, kept)) in formats.into_iter().zip(&kept).enumerate() {
        world.join(
            conferring(
                PartyEnd {
                    source: tone(own, number, u64::MAX),
                    sink: kept.sink(stereo()),
                    latency: Latency::Of(DELAY),
                    block: [256, 441, 64][number],
                    seed: 20 + number as u64,
                    most: 4,
                },
                Instant::ZERO,
            ),
            0,
        );
    }
    world.run_until(seconds(6));
    for (member, kept) in kept.iter().enumerate() {
        // What the resampler passes below 1 kHz is within 0.1 dB.
        only_others(kept, &all_but(member, 3), 1.5, 5.9, 0.012);
        let formats: Vec<_> = heard_by(&mut world, member).iter().filter_map(|party| party.format).collect();
        assert_eq!(formats.len(), 2);
    }
}

#[test]
fn one_that_joins_late_is_heard_and_hears_at_once() {
    let (mut world, mut kept) = group(2);
    world.run_until(seconds(3));
    kept.push(Kept::default());
    let late = party(2, &kept[2], seconds(3));
    world.join(late, 0);
    world.run_until(seconds(8));
    // Those there before hear each other through it all, and the late one after its first packets and the playout delay.
    for (member, kept) in kept.iter().enumerate().take(2) {
        only_others(kept, &[tone_of(1 - member)], 1.0, 3.0, 0.005);
        only_others(kept, &all_but(member, 3), 3.3, 7.9, 0.005);
        let told = notices(world.member(member));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|one| matches!(one, PartyNotice::Joined { .. })), "{told:?}");
    }
    // Formats are told in one packet of sixteen, which are 85 ms.
    only_others(&kept[2], &all_but(2, 3), 0.3, 4.9, 0.005);
}

#[test]
fn one_that_leaves_is_gone_at_once_and_may_come_back() {
    let (mut world, mut kept) = group(3);
    world.run_until(seconds(3));
    let now = world.local(2);
    world.member(2).stop(now);
    world.run_until(seconds(5));
    assert!(world.member(2).is_finished());
    for (member, kept) in kept.iter().enumerate().take(2) {
        assert_eq!(heard_by(&mut world, member).len(), 1);
        only_others(kept, &all_but(member, 3), 1.0, 3.0, 0.005);
        only_others(kept, &[tone_of(1 - member)], 3.4, 4.9, 0.005);
        let told = notices(world.member(member));
        let gone = |one: &PartyNotice| matches!(one, PartyNotice::Gone { why: WhyGone::Left, .. });
        assert_eq!(told.iter().filter(|one| gone(one)).count(), 1, "{told:?}");
    }
    kept.push(Kept::default());
    let again = party(2, &kept[3], seconds(5));
    world.join(again, 0);
    world.run_until(seconds(8));
    for (member, kept) in kept.iter().enumerate().take(2) {
        only_others(kept, &all_but(member, 3), 5.4, 7.9, 0.005);
    }
}

#[test]
fn one_that_dies_is_gone_after_five_seconds() {
    let (mut world, kept) = group(3);
    world.run_until(seconds(3));
    world.members[2].cut_off = true;
    world.run_until(Instant::from_millis(7_950));
    assert_eq!(heard_by(&mut world, 0).len(), 2);
    world.run_until(Instant::from_millis(8_050));
    for (member, kept) in kept.iter().enumerate().take(2) {
        assert_eq!(heard_by(&mut world, member).len(), 1);
        // Its last sound is faded out, and nothing of the other is missing for it.
        only_others(kept, &[tone_of(1 - member)], 3.7, 7.9, 0.005);
        let told = notices(world.member(member));
        assert!(matches!(told.last(), Some(PartyNotice::Gone { why: WhyGone::Silent, .. })), "{told:?}");
    }
    // Who was cut off is alone, and goes on.
    assert!(heard_by(&mut world, 2).is_empty() && !world.member(2).is_finished());
    // It is plugged in again.
    world.members[2].cut_off = false;
    world.run_until(seconds(12));
    for (member, kept) in kept.iter().enumerate() {
        only_others(kept, &all_but(member, 3), 8.5, 11.9, 0.005);
    }
}

#[test]
fn clocks_that_differ_by_two_hundred_ppm_lose_nothing() {
    let (mut world, kept) = group(3);
    let ppm = [0, 100, -100];
    world.members.iter_mut().zip(ppm).for_each(|(member, ppm)| member.ppm = ppm);
    world.jitter = ms(3);
    world.run_until(seconds(60));
    for (member, kept) in kept.iter().enumerate() {
        for party in heard_by(&mut world, member) {
            let PartyFigures { playout, drift, path, .. } = party;
            let faults = (playout.lost, playout.late, playout.concealed_frames, playout.resyncs);
            assert_eq!(faults, (0, 0, 0, 0), "{member}: {playout:?}");
            let sender = (path.0 - 1) as usize;
            let expected = (ppm[sender] - ppm[member]) as f64;
            let drift = drift.expect("it is known after a while").0;
            assert!((drift - expected).abs() < 20.0, "{member} of {sender}: {drift} of {expected} ppm");
        }
        // As each hears them: a tone of a fast clock is higher.
        let others: Vec<f64> = (0..3)
            .filter(|other| *other != member)
            .map(|other| tone_of(other) * (1.0 + (ppm[other] - ppm[member]) as f64 * 1e-6))
            .collect();
        only_others(kept, &others, 30.0, 59.0, 0.02);
    }
}

#[test]
fn two_percent_of_loss_are_concealed_for_each_party_by_itself() {
    let (mut world, kept) = group(3);
    world.loss = 0.02;
    world.run_until(seconds(20));
    for (member, kept) in kept.iter().enumerate().take(3) {
        let samples = kept.samples();
        assert!(samples.len() > 2 * 19 * 48_000);
        for party in heard_by(&mut world, member) {
            // 3 700 packets, of which 74 are lost: 8.5 is their standard deviation.
            let playout = party.playout;
            assert!((40..=110).contains(&playout.lost), "{playout:?}");
            assert!(playout.late == 0 && playout.concealed_frames >= 256 * playout.lost, "{playout:?}");
        }
        let parties = world.member(member).parties().expect("a call over a group");
        assert_eq!(
            parties.playout().lost,
            heard_by(&mut world, member).iter().map(|one| one.playout.lost).sum()
        );
    }
}

#[test]
fn a_playout_delay_that_adapts_does_so_for_each_party() {
    let mut world = GroupWorld::new(ms(5), 3);
    let kept: Vec<Kept> = (0..3).map(|_| Kept::default()).collect();
    for (number, kept) in kept.iter().enumerate() {
        let auto = AdaptiveDelay::default();
        let end = PartyEnd {
            source: tone(stereo(), number, u64::MAX),
            sink: kept.sink(stereo()),
            latency: Latency::Auto(auto),
            block: 256,
            seed: 40 + number as u64,
            most: 4,
        };
        world.join(conferring(end, Instant::ZERO), 0);
    }
    world.jitter = ms(20);
    world.run_until(seconds(30));
    for member in 0..3 {
        for party in heard_by(&mut world, member) {
            let adapted = party.adapted.expect("it adapts");
            assert!((ms(10)..ms(60)).contains(&adapted.in_force), "{adapted:?}");
        }
    }
}

#[test]
fn our_own_source_ends_the_call_for_us_alone() {
    let (mut world, kept) = group(2);
    let own = Kept::default();
    let end = PartyEnd {
        source: tone(stereo(), 2, 96_000),
        sink: own.sink(stereo()),
        latency: Latency::Of(DELAY),
        block: 256,
        seed: 9,
        most: 4,
    };
    let short = world.join(conferring(end, Instant::ZERO), 0);
    world.run_until(seconds(4));
    assert!(world.member(short).is_finished());
    // Two seconds of sound, and three goodbyes.
    assert!((96_000..105_000).contains(&(own.len() / 2)), "{}", own.len());
    for (member, kept) in kept.iter().enumerate() {
        only_others(kept, &all_but(member, 3), 1.0, 2.0, 0.005);
        only_others(kept, &[tone_of(1 - member)], 2.5, 3.9, 0.005);
        assert!(!world.member(member).is_finished());
    }
}

#[test]
fn a_sink_of_another_format_gets_the_mix_converted() {
    let mut world = GroupWorld::new(ms(5), 3);
    let kept: Vec<Kept> = (0..3).map(|_| Kept::default()).collect();
    for (number, kept) in kept.iter().enumerate() {
        // A file in stereo, of a mix in mono at 24 kHz.
        let mix = StreamFormat::new(24_000, 1).expect("a usual format");
        let sink: Box<dyn Sink> = converted_sink(kept.sink(stereo()), mix).expect("it converts");
        let end = PartyEnd {
            source: tone(stereo(), number, u64::MAX),
            sink,
            latency: Latency::Of(DELAY),
            block: 256,
            seed: 60 + number as u64,
            most: 4,
        };
        world.join(conferring(end, Instant::ZERO), 0);
    }
    world.run_until(seconds(4));
    for (member, kept) in kept.iter().enumerate() {
        only_others(kept, &all_but(member, 3), 1.0, 3.8, 0.012);
    }
}

//! What the ends of a call say of the time from mouth to ear, against a click track in virtual time.

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime, Role};
use antiphon_link::Direction;
use antiphon_media::packet::PacketConfig;
use antiphon_session::{Asymmetry, Basis, MouthToEar, Session};
use antiphon_testkit::{Kept, Noise, stereo};

use crate::common::{End, opus_config, talking_in, track_config};
use crate::world::{World, is_rtcp, ms};

const RATE: u64 = 48_000;
/// From one click to the next, in sample frames.
const EVERY: u64 = 24_000;
const FIRST: u64 = 12_345;
const SECONDS: u64 = 5;
/// Sample frames around a click in which nothing else is one.
const WIDEST: usize = 100;

/// One way of a call: what the hearer says, and the truth.
struct Way {
    said: MouthToEar,
    /// What of `said` is this way.
    stated: Duration,
    /// From the mouth to the ear, of each click of the last seconds.
    truth: Vec<Duration>,
}

impl Way {
    /// Whether every click lies within the error.
    fn holds(&self) -> bool {
        assert!(self.truth.len() >= 4, "{} clicks were heard", self.truth.len());
        self.truth.iter().all(|truth| truth.abs_diff(self.stated) <= self.said.half_width)
    }
}

fn clicks() -> Box<Noise> {
    let click = |frame, _| if frame % EVERY == FIRST { 0.9 } else { 0.0 };
    Noise::like(stereo(), RATE * (SECONDS + 2), click)
}

/// Both ways of a call over `link`, the clock of whose called end is so many nanoseconds ahead of the caller's.
fn run(link: &str, seed: u64, ahead: u64) -> [Way; 2] {
    run_in(track_config(stereo(), 1).packet, link, seed, ahead)
}

/// The same in such packets.
fn run_in(packet: PacketConfig, link: &str, seed: u64, ahead: u64) -> [Way; 2] {
    let at = |ahead| NtpTime::from_unix(Duration::from_secs(1_000)).plus(Duration::from_nanos(ahead));
    let epoch = |ahead| Epoch { ntp_at_zero: at(ahead) };
    let [near_kept, far_kept] = [Kept::default(), Kept::default()];
    let end = |role, kept: &Kept, seed, ahead| {
        let (delay, epoch) = (ms(40), epoch(ahead));
        talking_in(
            End { name: "rtp", role, source: clicks(), sink: kept.opener(), delay, seed, epoch },
            packet,
        )
    };
    let near = end(Role::Caller, &near_kept, 1 + 2 * seed, 0);
    let far = end(Role::Listener, &far_kept, 2 + 2 * seed, ahead);
    let mut world = World::linked(near, far, link, seed);
    let left = world.log(|leaving| (leaving.at, leaving.direction, is_rtcp(leaving.bytes)));
    let mut heard: [Vec<(Instant, usize)>; 2] = Default::default();
    let end = Instant::from_millis(1000 * SECONDS);
    world.run_while(end, |world| {
        for (kept, heard) in [&near_kept, &far_kept].into_iter().zip(&mut heard) {
            if heard.last().is_none_or(|(_, len)| *len < kept.len()) {
                heard.push((world.now, kept.len()));
            }
        }
        true
    });
    // The first packet of sound leaves when its block is complete.
    let began = |direction| {
        let log = left.borrow();
        let (at, ..) = log.iter().find(|(_, way, rtcp)| *way == direction && !rtcp).copied().unwrap();
        at - time(packet.block_frames.into())
    };
    let mouths = [began(Direction::Down), began(Direction::Up)];
    let said = [&world.near, &world.far].map(|end: &Session| end.mouth_to_ear(world.now).unwrap());
    let truth = [(&near_kept, 0), (&far_kept, 1)];
    let truth = truth.map(|(kept, way): (&Kept, usize)| delays(kept, &heard[way], mouths[way]));
    // What each end says of both ways is the same thing.
    let off = |one: Duration, other: Duration| one.abs_diff(other);
    assert!(off(said[0].from_peer, said[1].to_peer) < ms(2), "{said:?}");
    let [near, far] = truth;
    [
        Way { said: said[0], stated: said[0].from_peer, truth: near },
        Way { said: said[1], stated: said[1].from_peer, truth: far },
    ]
}

fn time(frames: u64) -> Duration {
    Duration::from_nanos(frames * 1_000_000_000 / RATE)
}

/// From the mouth to the ear, of each click after the first two seconds.
fn delays(kept: &Kept, heard: &[(Instant, usize)], mouth: Instant) -> Vec<Duration> {
    let samples = kept.samples();
    // A codec makes a click lower and wider; its highest sample stays in its place.
    let level = |at: usize| samples.get(2 * at).copied().unwrap_or(0.0);
    let highest = |at: &usize| {
        level(*at) > 0.3 && (at.saturating_sub(WIDEST)..at + WIDEST).all(|near| level(near) <= level(*at))
    };
    let clicks = (0..samples.len() / 2).filter(highest);
    let delay = |at: usize| {
        let block = heard.partition_point(|(_, len)| *len <= 2 * at);
        let before = if block == 0 { 0 } else { heard[block - 1].1 };
        let since = (heard[block].0 + time((at - before / 2) as u64)).since(mouth + time(FIRST));
        // It is the last click before: clicks may be lost, and no delay is as long as from one to the next.
        Duration::from_nanos((since.as_nanos() % time(EVERY).as_nanos()) as u64)
    };
    clicks.map(delay).skip(4).collect()
}

/// Seeds, each of which also sets the clocks apart by hours, forward or back.
fn seeds(runs: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..runs).map(|seed| (seed, 3_600_000_000_000 + seed * 987_654_321_987))
}

/// In 40 runs over a path that takes alike both ways, the error holds the truth in 95 %, and is a quarter of the round trip at most.
fn holds_in_40_runs(link: &str) {
    let (mut held, mut all) = (0, 0);
    for (seed, ahead) in seeds(40) {
        for way in run(link, seed, ahead) {
            assert_eq!(way.said.basis, Basis::Symmetry, "{link}, {seed}: {:?}", way.said);
            assert!(way.said.half_width <= way.said.round_trip / 4, "{link}, {seed}: {:?}", way.said);
            assert!(way.said.sum_half_width <= ms(2), "{:?}", way.said);
            (held, all) = (held + u32::from(way.holds()), all + 1);
        }
    }
    assert!(held * 100 >= all * 95, "{link}: {held} of {all}");
}

#[test]
fn the_error_holds_the_truth_across_a_country() {
    holds_in_40_runs("delay=20ms,jitter=8ms");
}

#[test]
fn the_error_holds_the_truth_across_a_town() {
    holds_in_40_runs("delay=5ms,jitter=2ms");
}

#[test]
fn the_error_holds_the_truth_over_a_slow_line_that_loses() {
    holds_in_40_runs("delay=40ms,rate=4Mbit/s,jitter=5ms,loss=1%");
}

#[test]
fn on_a_short_path_the_error_needs_no_assumption() {
    // One way takes nearly all of it.
    for (seed, ahead) in seeds(10) {
        for way in run("up.delay=1.8ms,down.delay=0.1ms,jitter=0.3ms", seed, ahead) {
            assert_eq!(way.said.basis, Basis::RoundTrip);
            assert!(way.said.half_width <= ms(2) && way.holds(), "{:?} {:?}", way.said, way.truth);
        }
    }
}

#[test]
fn what_a_codec_looks_ahead_counts() {
    // It takes 2.5 ms, more than the error on a path this short.
    for (block, (seed, ahead)) in [480, 960].into_iter().zip(seeds(2)) {
        let packet = opus_config(stereo(), block, 1).packet;
        for way in run_in(packet, "delay=0.5ms,jitter=0.2ms", seed, ahead) {
            assert!(way.said.half_width < ms(2) && way.holds(), "{block}: {:?} {:?}", way.said, way.truth);
        }
    }
}

#[test]
fn paths_that_differ_both_ways_are_told_where_they_show() {
    let clocks = [Some(0), Some(1_500_000)];
    let cases = [
        ("up.delay=5ms,down.delay=45ms,jitter=1ms", clocks, Asymmetry::Clocks),
        ("delay=5ms,up.rate=2Mbit/s,down.rate=50Mbit/s", [None; 2], Asymmetry::Rate),
    ];
    for (link, clocks, expected) in cases {
        for (seed, apart) in seeds(10) {
            let ahead = clocks[seed as usize % 2].unwrap_or(apart);
            for way in run(link, seed, ahead) {
                assert_eq!(way.said.basis, Basis::Asymmetry(expected), "{link}: {:?}", way.said);
                assert!(way.holds(), "{link}: {:?} {:?}", way.said, way.truth);
            }
        }
    }
}

#[test]
fn the_sum_of_both_ways_is_known_on_any_path() {
    for link in ["up.delay=5ms,down.delay=45ms,jitter=3ms", "delay=20ms,up.rate=2Mbit/s,down.jitter=5ms"] {
        for (seed, ahead) in seeds(10) {
            let [hears, is_heard] = run(link, seed, ahead);
            let truth = |way: &Way| *way.truth.last().unwrap();
            let off = (truth(&hears) + truth(&is_heard)).abs_diff(hears.stated + is_heard.stated);
            assert!(off <= hears.said.sum_half_width, "{link}: {off:?} {:?}", hears.said);
        }
    }
}

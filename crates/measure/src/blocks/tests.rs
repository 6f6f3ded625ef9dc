use antiphon_core::Instant;

use super::*;
use crate::packet_log::PacketArrival;
use crate::packet_log::tests::{arrival, log_of};

const PACKET: Duration = Duration::from_millis(5);

/// A log of packets of 5 ms, each with the time that it took there and back; `None` for one that was lost. `one_clock`: the
/// delays are known one way, and those of `None` that reached the far end, too.
fn log(delays: &[Option<f64>]) -> PacketLog {
    let mut log = log_of(delays.len());
    for (seq, ms) in (0..).zip(delays) {
        let sent = Instant::ZERO + PACKET * seq as u32;
        log.on_sent(seq, sent);
        if let Some(ms) = ms {
            let at = sent + Duration::from_secs_f64(ms / 1e3);
            log.on_received(arrival(seq, at));
        }
    }
    log.finish();
    log
}

#[test]
fn the_grid_is_its_own_inverse() {
    for at in 0..GRID {
        let ms = grid_ms(at);
        assert_eq!((place(ms), place(ms - 0.1)), (Some(at), Some(at)), "{ms}");
        assert!(at == 0 || grid_ms(at - 1) < ms);
    }
    assert_eq!((grid_ms(0), grid_ms(GRID - 1), place(10_000.1)), (0.0, 10_000.0, None));
}

#[test]
fn a_block_counts_what_happened_in_it() {
    // 400 packets in two blocks; of the first block the last two and of the second the first are lost: one run.
    let mut delays = vec![Some(20.0); 400];
    delays[198..201].fill(None);
    delays[300] = Some(90.0);
    let blocks = Blocks::of(&[&log(&delays)]).remove(0);
    assert_eq!(blocks.len(), 2);
    let [first, second] = &blocks.blocks[..] else { unreachable!() };
    assert_eq!((first.sent, first.came, first.lost, first.runs, first.in_runs), (200, 198, 2, 1, 3));
    assert_eq!((second.sent, second.came, second.lost, second.runs, second.in_runs), (200, 199, 1, 0, 0));
    // Half of each round trip.
    let total = blocks.total();
    assert_eq!([9.0, 10.0, 44.0, 45.0].map(|ms| total.missing_at(ms)), [400, 4, 4, 3]);
    assert_eq!(
        (total.delay_for(0.01), total.delay_for(0.0075), total.delay_for(0.007)),
        (Some(10.0), Some(45.0), None)
    );
    assert_eq!((blocks.holding(|sums| sums.lost), blocks.holding(|sums| sums.runs)), (2, 1));
}

#[test]
fn a_block_is_longer_than_the_longest_stall() {
    let mut delays = vec![Some(20.0); 4000];
    delays[1000..1400].fill(Some(400.0));
    // Twice the 2 s of the stall, in a run of 20 s; and cut alike for the run beside it, which has none.
    let (stalled, quiet) = (log(&delays), log(&vec![Some(20.0); 4000]));
    assert_eq!(Blocks::of(&[&stalled, &quiet]).iter().map(Blocks::len).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(Blocks::of(&[&quiet]).remove(0).len(), 20);
    assert_eq!(Blocks::of(&[&log(&[])]).remove(0).len(), 0);
}

#[test]
fn what_reached_the_far_end_is_not_missing_one_way() {
    let mut log = log_of(200);
    for seq in 0..200 {
        let sent = Instant::ZERO + PACKET * seq as u32;
        let one_way = Duration::from_millis(7);
        log.on_sent(seq, sent);
        // Of ten packets one is lost on the way there, and one on the way back.
        match seq % 10 {
            3 => {}
            6 => log.on_reached(seq, one_way),
            _ => {
                let at = sent + 3 * one_way;
                let one_way = Some(one_way);
                log.on_received(PacketArrival { one_way, ..arrival(seq, at) });
            }
        }
    }
    log.finish();
    let blocks = Blocks::of(&[&log]).remove(0);
    let total = blocks.total();
    assert!(blocks.one_way);
    assert_eq!((total.sent, total.never_came(), total.lost), (200, 20, 40));
    assert_eq!((total.missing_at(6.75), total.missing_at(7.0)), (200, 20));
}

#[test]
fn runs_are_drawn_together() {
    // Two runs that met the same stalls: in every draw they miss the same packets.
    let mut rng = Rng::fork(1, "stalls");
    let delays: Vec<Option<f64>> =
        (0..40).flat_map(|_| vec![(!rng.chance(0.3)).then_some(20.0); 200]).collect();
    let (one, other) = (log(&delays), log(&delays));
    let (mut seen, mut sent) = (Vec::new(), 0);
    resample(&Blocks::of(&[&one, &other]), 200, 1, |sums| {
        assert_eq!(sums[0], sums[1]);
        sent = sums[0].sent;
        seen.push(sums[0].lost);
    });
    assert_eq!((seen.len(), sent), (200, 8000));
    assert!(seen.iter().min() < seen.iter().max(), "draws differ");
}

/// Where a block is like the next, runs differ by more than independent blocks would make them differ, and so do draws: those of blocks drawn one by
/// one have a standard deviation of √(n p (1 − p)) of a block, here 4 of 64.
#[test]
fn draws_keep_what_follows_each_other_together() {
    let spread = |lossy: fn(usize) -> bool| {
        // A packet each 5 ms, blocks of a second; every second packet of a lossy one is lost.
        let comes = |n: usize| n.is_multiple_of(2) || !lossy(n / 200);
        let delays: Vec<Option<f64>> = (0..64 * 200).map(|n| comes(n).then_some(10.0)).collect();
        let mut draws = Vec::new();
        resample(&Blocks::of(&[&log(&delays)]), 2_000, 1, |sums| draws.push(sums[0].lost as f64 / 100.0));
        let mean = draws.iter().sum::<f64>() / 2_000.0;
        (draws.iter().map(|lost| (lost - mean).powi(2)).sum::<f64>() / 1_999.0).sqrt()
    };
    let (alternating, lasting) = (spread(|block| block % 2 == 0), spread(|block| block / 8 % 2 == 0));
    // Four blocks together, all of which are lossy or none but where it changes.
    assert!(lasting > 6.0, "{lasting}");
    assert!(alternating < 1.0, "{alternating}");
}

/// How often the interval of a share holds the true one, and how often there was one, of runs of a minute.
fn coverage(label: &str, truth: f64, mut run: impl FnMut(&mut Rng) -> Vec<bool>) -> (f64, f64) {
    const RUNS: u32 = 1_000;
    let mut rng = Rng::fork(1, label);
    let (mut told, mut held) = (0, 0);
    for _ in 0..RUNS {
        let missing = run(&mut rng);
        // Blocks of a second: longer than what is simulated here lasts.
        let share =
            |block: &[bool]| block.iter().filter(|missing| **missing).count() as f64 / block.len() as f64;
        let shares: Vec<f64> = missing.chunks(200).map(share).collect();
        if let Some((low, high)) = BlockMean::of(&shares).interval() {
            told += 1;
            held += u32::from((low..=high).contains(&truth));
        }
    }
    (f64::from(held) / f64::from(told), f64::from(told) / f64::from(RUNS))
}

const MINUTE: usize = 12_000;

/// Losses one by one, in bursts and in stalls: the standard error of the coverage is 0.7 %, so 93 to 97 % would fail for an
/// interval that covers 91 %. Wilson's with bursts taken as one event covered 23 to 88 %.
#[test]
fn intervals_hold_the_true_share_as_often_as_they_say() {
    let single = coverage("single", 0.01, |rng| (0..MINUTE).map(|_| rng.chance(0.01)).collect());
    // Gilbert: 1 % in bursts of 4.
    let bursts = coverage("bursts", 0.01, |rng| {
        let (end, begin) = (0.25, 0.01 * 0.25 / 0.99);
        let mut bad = rng.chance(0.01);
        let step = |_| {
            bad = if bad { !rng.chance(end) } else { rng.chance(begin) };
            bad
        };
        (0..MINUTE).map(step).collect()
    });
    // Gilbert and Elliott: 3 % in states that last 20 packets and lose half of them, so that losses hardly touch.
    let clusters = coverage("clusters", 0.03, |rng| {
        let (end, begin) = (0.05, 0.06 * 0.05 / 0.94);
        let mut bad = rng.chance(0.06);
        let step = |_| {
            bad = if bad { !rng.chance(end) } else { rng.chance(begin) };
            bad && rng.chance(0.5)
        };
        (0..MINUTE).map(step).collect()
    });
    // Stalls of 100 ms on average, one in two seconds: late packets.
    let share = 0.5 * 0.1;
    let stalls = coverage("stalls", share / (1.0 + share), |rng| {
        let mut missing = Vec::with_capacity(MINUTE + 200);
        while missing.len() < MINUTE {
            let (calm, stall) = (400.0 * rng.exponential(), 20.0 * rng.exponential());
            missing.extend(std::iter::repeat_n(false, calm.round() as usize));
            missing.extend(std::iter::repeat_n(true, stall.round() as usize));
        }
        missing.truncate(MINUTE);
        missing
    });
    // A queue that is full for 0.7 s on average, a third of the time: what happens in one second tells something of the next.
    let lasting = coverage("lasting", 1.0 / 3.0 * 0.3, |rng| {
        let (end, begin) = (1.0 / 140.0, 0.5 / 140.0);
        let mut full = rng.chance(1.0 / 3.0);
        let step = |_| {
            full = if full { !rng.chance(end) } else { rng.chance(begin) };
            full && rng.chance(0.3)
        };
        (0..MINUTE).map(step).collect()
    });
    println!("{single:?} {bursts:?} {clusters:?} {stalls:?} {lasting:?}");
    for (held, told) in [single, bursts, clusters, stalls, lasting] {
        assert!(told > 0.9, "{single:?} {bursts:?} {clusters:?} {stalls:?} {lasting:?}");
        assert!((0.93..=0.97).contains(&held), "{single:?} {bursts:?} {clusters:?} {stalls:?} {lasting:?}");
    }
}

#[test]
fn a_run_with_few_events_is_too_short_to_tell() {
    let blocks = |events: usize| (0..60).map(|n| if n < events { 0.01 } else { 0.0 }).collect::<Vec<f64>>();
    assert_eq!(BlockMean::of(&blocks(9)).interval(), None);
    let (low, high) = BlockMean::of(&blocks(10)).interval().unwrap();
    assert!(low < 0.01 / 6.0 && high > 0.01 / 6.0);
    assert_eq!(BlockMean::of(&[0.5; 20]).interval(), Some((0.5, 0.5)));
}

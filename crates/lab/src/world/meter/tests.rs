use super::*;

fn meter(first: u16, frames: u64) -> Meter {
    let log = SentLog::shared(8, 1);
    for n in 0..frames {
        log.borrow_mut().on_sent(0, first.wrapping_add(n as u16), Instant::from_millis(n), Ok(()));
    }
    Meter::new(&log, 8, BufferRule::PUBLISHED)
}

fn arrival(at: u64, group: u8, sequence: u16) -> Arrival {
    Arrival { at: Instant::from_millis(at), group, sequence }
}

#[test]
fn numbers_go_on_beyond_sixteen_bits() {
    let mut meter = meter(65_000, 70_000);
    for n in (0..70_000).filter(|n| n % 10 != 3) {
        meter.on_arrival(arrival(n + 5, 0, 65_000u16.wrapping_add(n as u16)));
    }
    let figures = meter.figures(false);
    assert_eq!((figures.sent, figures.received), (Some(70_000.0), Some(63_000.0)));
    assert_eq!((figures.delay_max_ms, figures.lost_percent), (Some(5.0), Some(10.0)));
    assert_eq!((figures.duplicate, figures.reordered, meter.unknown), (Some(0.0), Some(0.0), 0));
}

#[test]
fn duplicates_and_overtaken_frames_are_distinguished() {
    let mut meter = meter(7, 5);
    for (at, n) in [(10, 1), (20, 0), (30, 1), (120, 4), (121, 5)] {
        meter.on_arrival(arrival(at, 0, 7 + n));
    }
    let figures = meter.figures(true);
    assert_eq!((figures.received, figures.lost_percent), (Some(3.0), Some(40.0)));
    assert_eq!((figures.duplicate, figures.reordered, meter.unknown), (Some(1.0), Some(1.0), 1));
    // The duplicate at 30 ms does not count: 10 and 100 ms between the three, 45 ms from their mean.
    assert_eq!((figures.gap_max_ms, figures.gaps_above_80ms), (Some(100.0), Some(1.0)));
    assert_eq!((figures.gap_mean_ms, figures.gap_mad_ms), (Some(55.0), Some(45.0)));
    assert_eq!((figures.gaps_above_80ms_per_1000, figures.delay_mean_ms), (Some(1000.0 / 3.0), None));
    // 9, 20 and 116 ms.
    assert!((figures.rtt_mean_ms.unwrap() - 145.0 / 3.0).abs() < 1e-9);
    assert_eq!(figures.rtt_p99_ms, Some(116.0));
    let came = [(1, 10), (0, 20), (4, 120)].map(|(index, ms)| (index, Instant::from_millis(ms)));
    assert_eq!((meter.course().came, meter.course().sent.len()), (came.to_vec(), 5));
}

/// Two packets of the first group, then one of the second, in each block; numbers begin anywhere.
#[test]
fn packets_of_several_groups_are_frames_of_one_row() {
    let log = SentLog::shared(300, 2);
    let sequence = |group: u8, place: u16| [65_500u16, 9][usize::from(group)].wrapping_add(place);
    for block in 0..100 {
        for (group, place) in [(0, 2 * block), (0, 2 * block + 1), (1, block)] {
            let at = Instant::from_millis(u64::from(block));
            log.borrow_mut().on_sent(usize::from(group), sequence(group, place), at, Ok(()));
        }
    }
    let mut meter = Meter::new(&log, 300, BufferRule::PUBLISHED);
    // One of the second group is lost; one of the first comes late, and one is of no group.
    for block in 0..100u16 {
        let at = 5 + u64::from(block);
        meter.on_arrival(arrival(at, 0, sequence(0, 2 * block)));
        if block != 50 {
            meter.on_arrival(arrival(at, 1, sequence(1, block)));
        }
        meter.on_arrival(arrival(at, 0, sequence(0, 2 * block + 1)));
    }
    meter.on_arrival(arrival(105, 2, 9));
    meter.on_arrival(arrival(105, 1, sequence(1, 100)));
    let figures = meter.figures(false);
    assert_eq!((figures.received, figures.duplicate, meter.unknown), (Some(299.0), Some(0.0), 2));
    assert_eq!((figures.delay_max_ms, figures.reordered), (Some(5.0), Some(99.0)));
    let missing = (0..300).find(|index| !meter.course().came.iter().any(|(came, _)| came == index));
    assert_eq!(missing, Some(152));
}

/// A frame each ms; the first 2 ms of each 10, without the first 10, are watched: frames 10, 11, 20 and 21.
#[test]
fn watched_frames_have_figures_of_their_own() {
    let watch = Watch { every: Duration::from_millis(10), length: Duration::from_millis(2) };
    let mut meter = meter(1, 30).watching(Some(watch));
    for n in (0..30).filter(|n| *n != 21) {
        let later = if n == 20 { 13 } else { 4 };
        meter.on_arrival(arrival(n + later, 0, 1 + n as u16));
    }
    let figures = meter.figures(false);
    assert_eq!(figures.watched_missing_percent, Some(25.0));
    // 4, 4 and 13 ms: 7 in the mean, from which they lie 3, 3 and 6 ms.
    assert_eq!(figures.watched_jitter_mad_ms, Some(4.0));
    assert!((figures.missing_percent.unwrap() - 100.0 / 30.0).abs() < 1e-9);
    let whole = self::meter(1, 30).figures(false);
    assert_eq!((whole.watched_missing_percent, whole.watched_jitter_mad_ms), (None, None));
}

use super::*;

const MS: i64 = 1_000_000;

/// Of pictures 40 ms apart each packet comes so long after the picture's place as `late` says, given the place; those that come within `grace`
/// are shown at once.
fn watch(
    meter: &mut SyncMeter,
    places: std::ops::Range<i64>,
    late: impl Fn(i64) -> Option<i64>,
) -> Vec<(i64, bool)> {
    let grace = 40 * MS;
    let mut events: Vec<(i64, i64)> =
        places.step_by(40).filter_map(|place| Some((place + late(place)?, place))).collect();
    events.sort_unstable();
    let mut alarms = Vec::new();
    for (at, place) in events {
        let (at, place) = (at * MS, place * MS);
        let was = meter.out_of_sync().is_some();
        meter.advance(at);
        meter.on_packet(at, place, grace);
        meter.on_whole(at, place);
        if at - place <= 80 * MS {
            meter.on_shown(at.max(place), place);
        }
        let is = meter.out_of_sync().is_some();
        if is != was {
            alarms.push((at / MS, is));
        }
    }
    alarms
}

#[test]
fn the_distribution_has_no_sign_and_says_what_is_beyond_the_bound() {
    let mut meter = SyncMeter::default();
    assert_eq!(meter.skew(), None);
    for n in 0..990 {
        let skew = if n % 2 == 0 { 10 } else { -10 } * MS;
        meter.on_shown(n * 40 * MS + skew, n * 40 * MS);
    }
    for n in 990..1_000 {
        meter.on_shown((n * 40 + 81) * MS, n * 40 * MS);
    }
    let skew = meter.skew().unwrap();
    let near = |is: f64, wanted: f64| (is - wanted).abs() < wanted / 1_000.0;
    assert!(near(skew.median_ms, 10.0) && near(skew.p95_ms, 10.0), "{skew:?}");
    assert!(near(skew.p99_9_ms, 81.0) && near(skew.worst_ms, 81.0), "{skew:?}");
    assert!(near(skew.beyond_percent, 1.0), "{skew:?}");
}

#[test]
fn pictures_that_come_too_late_alarm_within_a_second_and_only_once() {
    let mut meter = SyncMeter::default();
    let late = |place: i64| Some(if (10_000..20_000).contains(&place) { 150 } else { -80 });
    let alarms = watch(&mut meter, 0..40_000, late);
    assert_eq!(alarms.len(), 2, "{alarms:?}");
    // The first late one comes at 10 150, the first in time at 19 920.
    assert!(alarms[0].1 && (10_500..=11_000).contains(&alarms[0].0), "{alarms:?}");
    assert!(!alarms[1].1 && (20_900..=21_300).contains(&alarms[1].0), "{alarms:?}");
}

#[test]
fn it_says_by_how_much_they_are_late() {
    let mut meter = SyncMeter::default();
    watch(&mut meter, 0..3_000, |_| Some(150));
    assert_eq!(meter.out_of_sync(), Some(Duration::from_millis(150)));
    assert_eq!(meter.skew(), None);
}

#[test]
fn single_late_pictures_and_lost_ones_are_no_alarm() {
    for late in [
        // A stall of half a second, one late picture in ten, all lost for 5 s, and one late one before that.
        &(|place: i64| Some(if (5_000..5_500).contains(&place) { 5_500 - place } else { -80 }))
            as &dyn Fn(i64) -> Option<i64>,
        &|place| Some(if place % 400 == 0 { 200 } else { -80 }),
        // All are late, but not too late to be shown.
        &|_| Some(60),
        &|place| (!(5_000..10_000).contains(&place)).then_some(-80),
        &|place| match place {
            5_000 => Some(100),
            5_001..=10_000 => None,
            _ => Some(-80),
        },
    ] {
        let mut meter = SyncMeter::default();
        assert_eq!(watch(&mut meter, 0..60_000, late), []);
    }
}

#[test]
fn a_picture_that_stands_beyond_its_time_is_frozen() {
    let mut meter = SyncMeter::default();
    // None for 2 s from 5 000 on: the one of 4 960 stands to 7 000, which is 2 s longer than its time. Single ones that are missing are within
    // the bound.
    let late = |place: i64| (!(5_000..7_000).contains(&place) && place % 400 != 0).then_some(0);
    watch(&mut meter, 0..20_000, late);
    meter.advance(30_000 * MS);
    assert_eq!(meter.frozen(), Duration::from_secs(2));
    // While packets of pictures come of which none can be shown it goes on.
    meter.on_packet(30_000 * MS, 30_080 * MS, 40 * MS);
    assert!(meter.frozen() > Duration::from_secs(11));
}

#[test]
fn pictures_in_the_order_of_decoding_are_not_frozen() {
    let mut meter = SyncMeter::default();
    // Three that nothing needs between two that others need.
    for group in 0..100 {
        let begin = group * 160 * MS;
        meter.advance(begin);
        for place in [160, 80, 40, 120].map(|place| begin + place * MS) {
            meter.on_packet(begin, place, 0);
            meter.on_shown(place, place);
        }
    }
    meter.advance(16_000 * MS);
    assert_eq!(meter.frozen(), Duration::ZERO);
    assert_eq!(meter.skew().unwrap().worst_ms, 0.0);
}

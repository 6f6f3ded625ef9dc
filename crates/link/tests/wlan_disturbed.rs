//! The cell of `tv-audio-wlan`: 1300 bytes of audio every 7.37 ms to a station, two disturbing laptops, slots of 20 µs,
//! each packet of the disturbance twice on the air.
//!
//! The figures of a second simulation (protocols/links §4, "[sim]") are reproduced up to the knee and, with disturbance
//! of random gaps and stations of CWmin 7, beyond it. With the access point in overload they are lower than ours (1
//! sender with CWmin 15: 6.5 %, here 11 %; 2 senders: 35 to 40 %, here 43 to 50 %). Ours are kept, since they agree
//! with the result of equal shares for saturated stations. That simulation draws a back-off for every frame.
//! shares for saturated stations, which is why they are kept. That simulation draws a back-off for every frame.

#[path = "common/disturbed.rs"]
mod disturbed;

use std::time::Duration;

use disturbed::{Outcome, Setting, run};

fn cell(senders: u16, cw_min: u32, poisson: bool, disturbance_mbit_s: f64) -> Outcome {
    run(&Setting { senders, cw_min, poisson, disturbance_mbit_s, seconds: 120, ..Setting::default() })
}

#[test]
fn the_knee_lies_where_the_standard_puts_it() {
    // The air is used twice: 23.6/2 Mbit/s less the audio. With slots of 9 µs 14 Mbit/s still fit.
    for (senders, cw_min) in [(1, 15), (2, 15), (2, 7), (1, 7)] {
        for poisson in [false, true] {
            assert!(cell(senders, cw_min, poisson, 10.0).loss_percent() < 0.04);
            let at_12 = cell(senders, cw_min, poisson, 12.0).loss_percent();
            assert!(at_12 < 5.0, "{senders} {cw_min}: {at_12} %");
            let at_14 = cell(senders, cw_min, poisson, 14.0).loss_percent();
            assert!(at_14 > 8.0, "{senders} {cw_min}: {at_14} %");
        }
    }
    let fast = Setting { slot: Duration::from_micros(9), disturbance_mbit_s: 14.0, ..Setting::default() };
    assert_eq!(run(&fast).loss_percent(), 0.0);
}

#[test]
fn random_disturbance_loses_what_another_simulation_found() {
    // Two senders, stations with CWmin 7: 1.2, 20.7, 36.9, 50.4, 62.7 %. CWmin 15 would lose 50 % at 20 Mbit/s.
    for (mbit, percent) in [(12.0, 1.2), (14.0, 20.7), (16.0, 36.9), (18.0, 50.4), (20.0, 62.7)] {
        let lost = cell(2, 7, true, mbit).loss_percent();
        assert!((lost - percent).abs() < 7.0, "{mbit} Mbit/s: {lost} %, not {percent}");
    }
}

#[test]
fn disturbance_of_one_aggressive_sender_loses_as_printed() {
    // tv-audio-wlan table 6.3. At 12 Mbit/s it has 1.98 %: there the cell is just not full.
    for (mbit, percent) in [(14.0, 41.369), (16.0, 53.836), (18.0, 62.716), (20.0, 70.989)] {
        let lost = cell(1, 7, false, mbit).loss_percent();
        assert!((lost - percent).abs() < 4.0, "{mbit} Mbit/s: {lost} %, not {percent}");
    }
}

#[test]
fn an_access_point_in_overload_gets_its_equal_share() {
    // n senders and the access point, all saturated: S packets/s each. It is to send n S and the audio.
    for senders in [1, 2] {
        let outcome = cell(senders, 15, true, 24.0);
        let point = outcome.access_point;
        let share = (outcome.totals.acknowledged - point.acknowledged) as f64 / 120.0 / f64::from(senders);
        assert!((point.acknowledged as f64 / 120.0 / share - 1.0).abs() < 0.02, "{point:?}, others {share}");
        let wanted = f64::from(senders) * share + 135.69;
        let lost = point.overflowed as f64 / (point.offered + point.relayed) as f64;
        assert!((lost - (1.0 - share / wanted)).abs() < 0.01, "{lost}");
        // The audio is lost like the rest, except for the relation of its period to the queue's.
        assert!((outcome.loss_percent() / 100.0 - lost).abs() < 0.05, "{}", outcome.loss_percent());
        // An accepted packet finds the queue almost full: 100 packets at S packets/s.
        let fill = outcome.mean_delay * share / 100.0;
        assert!((0.91..1.01).contains(&fill), "{fill} of the queue");
        assert_eq!(point.exhausted, 0, "the queue drops, not the retry limit");
    }
}

#[test]
fn without_retries_an_ad_hoc_cell_loses_by_collisions_alone() {
    let lost = |slot: u64, retry_limit: u8| {
        let slot = Duration::from_micros(slot);
        let disturbed = Setting { senders: 2, disturbance_mbit_s: 10.0, poisson: true, ..Setting::default() };
        run(&Setting { ad_hoc: true, seconds: 300, slot, retry_limit, ..disturbed }).loss_percent()
    };
    // The other simulation: 2.41 % (printed 2.61) and 1.06 %; ours has fewer with slots of 20 µs since a packet that
    // finds the channel idle is sent at once. Standard error 0.07 %.
    assert!((1.5..2.6).contains(&lost(20, 0)), "{}", lost(20, 0));
    assert!((0.8..1.4).contains(&lost(9, 0)), "{}", lost(9, 0));
    assert_eq!(lost(20, 7), 0.0);
}

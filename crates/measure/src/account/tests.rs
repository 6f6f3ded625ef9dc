use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn fed(numbers: impl IntoIterator<Item = u64>) -> StreamAccount {
    let mut account = StreamAccount::new();
    for seq in numbers {
        account.on_received(seq);
    }
    account
}

#[test]
fn a_duplicate_is_no_reordering() {
    let mut account = fed([10, 11, 13]);
    assert_eq!(account.on_received(11), Arrival::Duplicate);
    assert_eq!(account.on_received(12), Arrival::Reordered { by: 1 });
    assert_eq!(account.on_received(12), Arrival::Duplicate);
    assert_eq!(account.on_received(9), Arrival::Reordered { by: 4 });
    let report = account.report(None);
    assert_eq!((report.expected, report.lost), (5, 0));
    assert_eq!((report.totals.duplicate, report.totals.reordered), (2, 2));
    assert_eq!(report.reorder_extent, 4);
    // Numbers before the first one count only as far as the window reaches.
    assert_eq!(fed([5000]).on_received(5000 - StreamAccount::WINDOW), Arrival::TooOld);
}

#[test]
fn a_known_beginning_and_end_count() {
    let mut account = StreamAccount::starting_at(1);
    assert_eq!(account.highest(), None);
    assert_eq!(account.on_received(0), Arrival::TooOld, "before the known beginning");
    account.on_received(4);
    let report = account.report(Some(10));
    assert_eq!((report.expected, report.lost, report.longest_loss_burst), (10, 9, 6));
}

#[test]
fn one_forged_number_changes_nothing_two_restart() {
    let mut account = fed(100..200);
    assert_eq!(account.on_received(1 << 48), Arrival::Stray);
    assert_eq!(account.on_received(200), Arrival::InOrder);
    assert_eq!(account.report(None).lost, 0);
    assert_eq!(account.report(None).totals.stray, 1);
    assert_eq!(account.on_received(1 << 50), Arrival::Stray);
    assert_eq!(account.on_received((1 << 50) + 1), Arrival::Jump);
    assert_eq!(account.on_received((1 << 50) + 3), Arrival::InOrder);
    let report = account.report(None);
    assert_eq!((report.expected, report.lost), (101 + 4, 1));
    assert_eq!((report.totals.jumps, report.totals.stray), (1, 1));
}

#[test]
fn a_sender_that_restarts_lower_is_followed() {
    let mut account = fed(50_000..50_100);
    assert_eq!(account.on_received(7), Arrival::TooOld);
    assert_eq!(account.on_received(8), Arrival::Jump);
    assert_eq!(account.on_received(10), Arrival::InOrder);
    let report = account.report(None);
    assert_eq!((report.expected, report.lost, report.totals.jumps), (104, 1, 1));
}

#[test]
fn bursts_do_not_reach_across_a_jump() {
    let account = fed([1, 2, 4, 5, 1_000_000, 1_000_001, 1_000_003]);
    let report = account.report(None);
    assert_eq!((report.lost, report.bursts.bursts), (2, 0));
}

#[test]
fn a_step_beyond_the_window_is_one_run_of_loss() {
    let account = fed([1, 1 + 10_000]);
    let report = account.report(None);
    assert_eq!((report.expected, report.lost), (10_001, 9_999));
    assert_eq!(report.longest_loss_burst, 9_999);
}

proptest! {
    #[test]
    fn agrees_with_a_set_of_numbers(
        start in 0u64..1_000_000,
        fates in prop::collection::vec((prop::bool::weighted(0.1), 0u64..30, prop::bool::weighted(0.05)), 1..800),
    ) {
        // Each packet is lost, or displaced by up to 30 places, and perhaps doubled: all within the window.
        let mut order: Vec<(u64, u64)> = Vec::new();
        for (i, (lost, shift, double)) in fates.iter().enumerate() {
            let i = i as u64;
            if !lost {
                order.push((i + shift, start + i));
                if *double {
                    order.push((i + shift + 7, start + i));
                }
            }
        }
        order.sort();
        let mut account = StreamAccount::new();
        let mut seen = BTreeSet::new();
        let (mut duplicate, mut reordered) = (0, 0);
        for (_, seq) in &order {
            if !seen.insert(*seq) {
                duplicate += 1;
            } else if seen.last() != Some(seq) {
                reordered += 1;
            }
            account.on_received(*seq);
        }
        let report = account.report(None);
        let expected = seen.last().map_or(0, |last| last - seen.first().unwrap() + 1);
        prop_assert_eq!(report.expected, expected);
        prop_assert_eq!(report.lost, expected - seen.len() as u64);
        prop_assert_eq!(report.totals.received, seen.len() as u64);
        prop_assert_eq!(report.totals.duplicate, duplicate);
        prop_assert_eq!(report.totals.reordered, reordered);
    }

    #[test]
    fn long_streams_settle_right(losses in prop::collection::vec(1u64..3_000, 1..20)) {
        // One loss after each stretch; the stream is far longer than the window.
        let mut account = StreamAccount::new();
        let mut seq = 0;
        for stretch in &losses {
            for _ in 0..*stretch {
                account.on_received(seq);
                seq += 1;
            }
            seq += 1;
        }
        account.on_received(seq);
        let report = account.report(None);
        prop_assert_eq!(report.lost, losses.len() as u64);
        prop_assert_eq!(report.expected, seq + 1);
        prop_assert_eq!(report.longest_loss_burst, 1);
    }

    #[test]
    fn hostile_numbers_cost_bounded_losses(numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..100, Just(u64::MAX)], 0..200)) {
        let account = fed(numbers.iter().copied());
        let report = account.report(None);
        let told = report.totals;
        prop_assert_eq!(
            told.received + told.duplicate + told.too_old + told.stray,
            numbers.len() as u64
        );
        prop_assert!(report.lost <= numbers.len() as u64 * (StreamAccount::MAX_STEP + StreamAccount::WINDOW));
        prop_assert_eq!(report.expected, report.lost + told.received);
    }
}

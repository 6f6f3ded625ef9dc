use super::*;

const MS: Duration = Duration::from_millis(1);

/// Runs for a time over a path that takes `limit` bytes; returns the number of probes sent.
fn walk(mtu: &mut Mtu, (from, until): (u64, u64), limit: usize) -> u32 {
    let (mut sent, mut draws) = (0, 100);
    for now in from..until {
        let now = Instant::from_millis(now);
        mtu.run(now, 50 * MS);
        while let Some((info, size)) = mtu.next_probe(now, || {
            draws += 1;
            draws
        }) {
            sent += u32::from(size > 0);
            if size <= limit {
                assert!(mtu.on_answer(now, &info).is_some());
            }
        }
    }
    sent
}

#[test]
fn what_passes_is_found_for_every_limit() {
    for limit in (1200..=1500).step_by(4) {
        let mut mtu = Mtu::new(1452, Instant::ZERO);
        let probes = walk(&mut mtu, (0, 40_000), limit);
        let passes = limit.min(1452);
        assert!(mtu.size() <= passes && mtu.size() + GRAIN > passes, "{limit}: {}", mtu.size());
        // The first size and six halvings of 252 bytes, with three tries each.
        assert!(probes <= 21, "{limit}: {probes}");
        assert_eq!(walk(&mut mtu, (40_000, 600_000), limit), 0, "then it rests");
    }
}

#[test]
fn it_grows_again_after_the_raise_timer_only() {
    let mut mtu = Mtu::new(1452, Instant::ZERO);
    walk(&mut mtu, (0, 20_000), 1280);
    walk(&mut mtu, (20_000, 600_000), 1500);
    assert!(mtu.size() <= 1280);
    walk(&mut mtu, (600_000, 625_000), 1500);
    assert_eq!((mtu.size(), mtu.next()), (1452, None));
}

#[test]
fn outages_and_repaired_losses_do_not_shrink_packets() {
    let mut mtu = Mtu::new(1452, Instant::ZERO);
    walk(&mut mtu, (0, 10_000), 1500);
    for lost in 0..100 {
        mtu.on_loss(1452);
        if lost % 2 == 1 {
            mtu.on_pass(1452);
        }
    }
    assert_eq!(walk(&mut mtu, (10_000, 11_000), 1500), 0);
    for second in 11..70 {
        (0..5).for_each(|_| mtu.on_loss(1452));
        let now = Instant::from_millis(second * 1000);
        assert!(!mtu.run(now, 50 * MS) && mtu.size() == 1452);
        // Small probes are not answered either.
        while mtu.next_probe(now, || 7).is_some() {}
    }
}

#[test]
fn only_the_answer_to_what_was_sent_counts() {
    let mut mtu = Mtu::new(1452, Instant::ZERO);
    walk(&mut mtu, (0, 20_000), 1280);
    let before = mtu.size();
    let now = Instant::from_millis(700_000);
    mtu.run(now, 50 * MS);
    let (small, _) = mtu.next_probe(now, || 76).expect("one that is not padded");
    let (info, size) = mtu.next_probe(now, || 77).expect("a probe");
    assert!(size > before);
    for byte in 0..INFO {
        let mut wrong = info;
        wrong[byte] ^= 1;
        assert_eq!(mtu.on_answer(now, &wrong), None);
    }
    assert_eq!(mtu.on_answer(now, &[0; INFO]), None);
    assert_eq!(mtu.on_answer(now + 30 * MS, &small), Some(Some(30 * MS)));
    assert_eq!(mtu.size(), before);
    assert_eq!((mtu.on_answer(now, &info), mtu.size()), (Some(None), size));
}

#[test]
fn a_small_path_is_not_probed() {
    let mut mtu = Mtu::new(BASE, Instant::ZERO);
    (0..10).for_each(|_| mtu.on_loss(BASE));
    assert_eq!((walk(&mut mtu, (0, 10_000), 0), mtu.size(), mtu.next()), (0, BASE, None));
}

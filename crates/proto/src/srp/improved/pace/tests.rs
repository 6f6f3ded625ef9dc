use super::*;

const LATENCY: Duration = Duration::from_millis(80);

/// A source of 100 packets of 1000 bytes a second; returns how many of `count` were sent from `from` on.
fn offer(pace: &mut Pace, from: Instant, count: u32) -> u32 {
    (0..count).map(|n| u32::from(send(pace, from + Duration::from_millis(10) * n, true))).sum()
}

fn send(pace: &mut Pace, now: Instant, urgent: bool) -> bool {
    let admitted = pace.admit(now, 1000, urgent, true) == Admission::Send;
    if admitted {
        pace.on_sent(now, 1000);
    }
    admitted
}

/// A stream of a second, reported on at its beginning and its end; `lost` of 100 packets were lost.
fn reported(lost: u32, queueing_ms: u64) -> Pace {
    let mut pace = Pace::new(LATENCY);
    let queueing = Duration::from_millis(queueing_ms);
    pace.on_report(Instant::ZERO, 0, 0, Duration::ZERO);
    assert_eq!(offer(&mut pace, Instant::ZERO, 100), 100);
    pace.on_report(Instant::from_millis(1000), 100 - lost, lost, queueing);
    pace
}

fn limit(pace: &Pace) -> Option<u64> {
    pace.limit().map(|limit| limit.round() as u64)
}

#[test]
fn only_heavy_loss_or_an_unplayable_queue_limits_the_rate() {
    // Four fifths of the 50 and of the 100 kB/s that arrived.
    for (lost, queueing, expected) in [
        (50, 60, Some(40_000)),
        (0, 81, Some(80_000)),
        (50, 49, None),
        (25, 60, None),
        (26, 60, Some(59_200)),
        (0, 79, None),
    ] {
        assert_eq!(limit(&reported(lost, queueing)), expected, "{lost} lost, {queueing} ms");
    }
    // 49 packets are too few for a judgement.
    let mut few = Pace::new(LATENCY);
    few.on_report(Instant::ZERO, 0, 0, Duration::ZERO);
    few.on_report(Instant::from_millis(1000), 9, 40, Duration::from_millis(300));
    assert_eq!(few.limit(), None);
}

#[test]
fn the_limit_holds_urgent_packets_go_first_and_recordings_wait() {
    let mut pace = reported(50, 60);
    let start = Instant::from_millis(1010);
    // 40 of 100 a second, and the bucket's two packets.
    assert!((40..=42).contains(&offer(&mut pace, start, 100)));
    // One of each kind every 20 ms: 800 bytes are added, so the less urgent ones get nothing.
    let mut sent = [0, 0];
    for n in 0..100 {
        let now = Instant::from_millis(2010 + 20 * n);
        for urgent in [true, false] {
            sent[usize::from(urgent)] += u32::from(send(&mut pace, now, urgent));
        }
    }
    assert!(sent[0] <= 2 && (78..=82).contains(&sent[1]), "less urgent and urgent: {sent:?}");
    let now = Instant::from_millis(4_000);
    while send(&mut pace, now, true) {}
    let Admission::Wait(until) = pace.admit(now, 1000, true, false) else { panic!("no wait") };
    assert!(until.since(now) <= Duration::from_millis(25), "{until:?}");
    assert_eq!(pace.admit(until, 1000, true, false), Admission::Send);
    assert!(!pace.admits_repair(now) || pace.tokens > 0.0);
}

#[test]
fn the_limit_creeps_up_and_ends() {
    let mut pace = reported(50, 60);
    let mut reports = 0;
    while pace.limit().is_some() {
        let now = Instant::from_millis(1000 + 1000 * reports);
        offer(&mut pace, now, 100);
        reports += 1;
        pace.on_report(now + Duration::from_secs(1), 60, 0, Duration::from_millis(5));
    }
    // From 40 to 125 kB/s by twentieths: ln(3.125) / ln(1.05) = 23.4.
    assert_eq!(reports, 24);
}

#[test]
fn a_queue_that_stays_is_not_ours() {
    let mut pace = reported(0, 200);
    assert!(pace.limit().is_some());
    for (ms, limited) in
        [(1800, true), (2400, true), (2600, false), (5000, false), (12_500, false), (12_700, true)]
    {
        offer(&mut pace, Instant::from_millis(ms - 500), 50);
        pace.on_report(Instant::from_millis(ms), 50, 0, Duration::from_millis(190));
        assert_eq!(pace.limit().is_some(), limited, "{ms} ms");
    }
}

#[test]
fn no_report_silences_a_sender() {
    let mut pace = reported(100, 4_000_000);
    assert_eq!(limit(&pace), Some(100_000 / 16));
    for n in 0..5 {
        pace.on_report(Instant::from_millis(1100 + n), 0, u32::MAX, Duration::from_secs(4000));
    }
    assert!(limit(&pace).is_none_or(|limit| limit >= 100_000 / 17), "{:?}", pace.limit());
    // No report makes it send faster than its source.
    pace.on_report(Instant::from_millis(2000), u32::MAX, 0, Duration::from_secs(4000));
    assert!(pace.limit().is_none_or(f64::is_finite));
}

#[test]
fn a_silent_receiver_gets_less_and_all_again_once_heard() {
    let mut pace = reported(0, 0);
    let second = |pace: &mut Pace, n: u64| offer(pace, Instant::from_millis(1010 + 1000 * n), 100);
    let sent: Vec<u32> = (0..12).map(|n| second(&mut pace, n)).collect();
    assert_eq!(sent[..5], [100; 5]);
    // 50, 25, 12.5 and then 6.25 a second, with at most two packets saved up.
    for (at, most) in [(5, 53), (6, 28), (7, 15), (8, 9), (11, 9)] {
        assert!(sent[at] <= most && sent[at] >= 6, "second {at}: {sent:?}");
    }
    pace.on_heard();
    assert_eq!(second(&mut pace, 12), 100);
    // A peer that never reported is not one of our receivers, but a plain sink of a stream.
    let mut mute = Pace::new(LATENCY);
    assert_eq!((0..20).map(|n| second(&mut mute, n)).sum::<u32>(), 2000);
}

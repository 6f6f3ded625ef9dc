use super::*;
use proptest::prelude::*;

/// Packets of 5 ms.
pub(crate) const CONFIG: PacketLogConfig = PacketLogConfig {
    capacity: 1000,
    clock_rate: 48_000,
    packet: Duration::from_millis(5),
    packet_bytes: 960,
};

/// An empty log of so many packets of 5 ms.
pub(crate) fn log_of(packets: usize) -> PacketLog {
    PacketLog::new(PacketLogConfig { capacity: packets, ..CONFIG })
}

/// The arrival of a packet.
pub(crate) fn arrival(seq: u64, at: Instant) -> PacketArrival {
    PacketArrival { seq, at, timestamp: (seq * 240) as u32, len: 960, one_way: None, repaired: false }
}

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

#[test]
fn every_packet_has_one_fate() {
    let mut log = PacketLog::new(CONFIG);
    for seq in 10..16 {
        log.on_sent(seq, ms(5 * seq));
    }
    log.on_refused(16, ms(80));
    log.on_received(arrival(11, ms(70)));
    log.on_received(arrival(10, ms(71)));
    log.on_received(arrival(10, ms(72)));
    log.on_fate(10, Fate::Late);
    log.on_fate(12, Fate::Expired);
    log.on_fate(13, Fate::Late);
    log.on_received(arrival(99, ms(73)));
    log.on_received(arrival(9, ms(73)));
    log.finish();
    let rows: Vec<String> = log.rows().map(|row| row.fields().join(",")).collect();
    assert_eq!(rows[0], "10,50.000000,71.000000,21.000000,,1,late");
    assert_eq!(rows[1], "11,55.000000,70.000000,15.000000,,0,played");
    let fates: Vec<Fate> = log.rows().map(|row| row.fate).collect();
    let expected =
        [Fate::Late, Fate::Played, Fate::Expired, Fate::Lost, Fate::Lost, Fate::Lost, Fate::Refused];
    assert_eq!(fates, expected);
    assert_eq!(log.counts().balance(7), Ok(()));
    let tallies = log.tallies();
    assert_eq!((tallies.duplicate, tallies.reordered, tallies.unknown), (1, 1, 2));
    assert_eq!(log.loss_runs().longest(), 3);
}

#[test]
fn reordered_is_behind_the_highest_not_the_last() {
    let mut log = PacketLog::new(CONFIG);
    (1..=3).for_each(|seq| log.on_sent(seq, ms(seq)));
    [3, 1, 2].into_iter().for_each(|seq| {
        log.on_received(arrival(seq, ms(10)));
    });
    assert_eq!(log.tallies().reordered, 2);
}

#[test]
fn a_packet_given_up_may_come_all_the_same() {
    let mut log = PacketLog::new(CONFIG);
    log.on_sent(1, ms(0));
    log.on_sent(2, ms(5));
    log.expect_by(ms(5));
    assert_eq!((log.counts().of(Fate::Lost), log.counts().of(Fate::Pending)), (1, 1));
    log.on_received(arrival(1, ms(900)));
    log.finish();
    assert_eq!((log.counts().of(Fate::Lost), log.counts().of(Fate::Played)), (1, 1));
}

#[test]
fn numbers_out_of_order_are_the_callers_fault() {
    let mut log = PacketLog::new(CONFIG);
    log.on_sent(5, ms(0));
    for seq in [5, 4, 5 + PacketLog::MAX_STEP + 2, u64::MAX] {
        log.on_sent(seq, ms(1));
    }
    assert_eq!((log.packets_sent(), log.tallies().misnumbered), (1, 4));
    // Skipped numbers were never sent: no row, no loss.
    log.on_sent(8, ms(2));
    log.on_received(arrival(7, ms(3)));
    log.finish();
    assert_eq!((log.rows().count(), log.packets_sent(), log.tallies().unknown), (2, 2, 1));
}

/// Sends `n` packets, losing those for which `lost` is true; each other is answered after 20 ms and a little more.
fn run(config: PacketLogConfig, n: u64, lost: impl Fn(u64) -> bool) -> PacketLog {
    let mut log = PacketLog::new(config);
    for seq in 0..n {
        log.on_sent(seq, ms(5 * seq));
        if let Some(back) = seq.checked_sub(4).filter(|back| !lost(*back)) {
            let at = ms(5 * back + 20).offset_nanos((back % 7) as i64 * 100_000);
            log.on_received(arrival(back, at));
        }
    }
    log.finish();
    log
}

#[test]
fn a_run_beyond_the_capacity_keeps_counting() {
    let lost = |seq: u64| seq % 100 < 2;
    let n = 30_000;
    let short = run(CONFIG, n, lost);
    let long = run(PacketLogConfig { capacity: 40_000, ..CONFIG }, n, lost);
    assert!(!short.is_complete() && long.is_complete());
    assert_eq!((short.rows().count(), long.rows().count()), (1000, 30_000));
    assert_eq!(short.counts(), long.counts());
    assert_eq!(short.loss_runs().run_lengths(), long.loss_runs().run_lengths());
    assert_eq!(short.loss_runs().runs(), 301, "one of two in each hundred, and the four on their way");
    let (about, exact) = (short.jitter_mad_ms().unwrap(), long.jitter_mad_ms().unwrap());
    let mean = crate::millis(long.rtt().mean().unwrap());
    assert!((about - exact).abs() <= mean * Histogram::PRECISION, "{about} {exact}");
}

proptest! {
    #[test]
    fn hostile_numbers_never_panic_and_always_balance(
        capacity in 0usize..50,
        steps in prop::collection::vec((0u8..5, prop_oneof![0u64..60, any::<u64>()], any::<u64>()), 0..300),
    ) {
        let mut log = log_of(capacity);
        let mut next = 0u64;
        let mut sent = 0;
        for (step, number, time) in steps {
            let at = Instant::from_nanos(time);
            match step {
                0 | 1 => {
                    next += 1 + number % 3;
                    log.on_sent(next, at);
                    sent += 1;
                }
                2 => { log.on_received(arrival(number % (1 << 40), at)); }
                3 => log.on_fate(number, Fate::ALL[(time % 7) as usize]),
                _ => log.expect_by(at),
            }
        }
        prop_assert_eq!(log.packets_sent(), sent);
        log.finish();
        prop_assert_eq!(log.counts().balance(sent), Ok(()));
    }
}

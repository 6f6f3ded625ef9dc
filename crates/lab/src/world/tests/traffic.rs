//! Generators of traffic against their definitions.

use super::*;

fn one(kind: TrafficKind, spec: &str, seconds: u64) -> Setup {
    let mut setup = setup(2, seconds);
    setup.media.push(link("line", 0, 1, spec));
    setup.traffic.push(traffic("load", 0, 1, kind));
    setup
}

fn counters(setup: &Setup, seed: u64) -> TrafficCounters {
    finished(setup, seed).0.traffic("load").expect("traffic of that name")
}

#[test]
fn a_constant_rate_is_kept_without_drift() {
    // 10 Mbit/s of 1470 bytes is a packet every 1.176 ms: in 100 s, from a random phase on, 85 034 or one more.
    let kind = TrafficKind::Constant { rate: BitRate(10_000_000), payload: 1470 };
    for seed in 1..4 {
        let counted = counters(&one(kind.clone(), "rate=100Mbit/s", 100), seed);
        assert!((85_034..=85_035).contains(&counted.sent), "{counted:?}");
        assert_eq!((counted.received, counted.received_bytes), (counted.sent, counted.sent * 1470));
    }
    let silent = TrafficKind::Constant { rate: BitRate(0), payload: 1470 };
    assert_eq!(counters(&one(silent, "", 10), 1), TrafficCounters::default());
}

#[test]
fn a_clock_that_is_off_is_off_for_the_whole_run() {
    // 1000 packets a second for 100 s: a clock off by 1000 ppm at most sends 100 more or fewer at most.
    for kind in [
        TrafficKind::Constant { rate: BitRate(800_000), payload: 100 },
        TrafficKind::Bursts { packets: 1, period: ms(1), jitter: Ratio(0.0), payload: 100 },
    ] {
        let mut setup = one(kind, "", 100);
        setup.traffic[0].clock = Ppm(1000.0);
        let off = |seed| counters(&setup, seed).sent as i64 - 100_000;
        let offs: Vec<i64> = (1..=20).map(off).collect();
        assert!(offs.iter().all(|off| (-100..=100).contains(off)), "{offs:?}");
        // Of 20 evenly spread ones, in all but one of 3000 cases, one lies in each outer third.
        assert!(offs.iter().min() < Some(&-33) && offs.iter().max() > Some(&33), "{offs:?}");
    }
}

#[test]
fn poisson_packets_are_counted_as_poisson_says() {
    // 100 packets a second: in 10 s 1000, with a variance of 1000.
    let kind = TrafficKind::Poisson { rate: BitRate(800_000), payload: 1000 };
    let counts: Vec<f64> =
        (0..200).map(|seed| counters(&one(kind.clone(), "", 10), seed).sent as f64).collect();
    let mean = counts.iter().sum::<f64>() / 200.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
    // Standard errors: √(1000/200) = 2.2 and 1000 √(2/199) = 100. A regular stream's variance would be below 1.
    assert!((mean - 1000.0).abs() < 4.0 * 2.24, "{mean}");
    assert!((variance - 1000.0).abs() < 4.0 * 100.0, "{variance}");
}

#[test]
fn a_burst_fills_a_queue_that_holds_less() {
    // 20 packets at once, of which the line takes one and the queue 4, ten times a second.
    let kind = TrafficKind::Bursts { packets: 20, period: ms(100), jitter: Ratio(0.0), payload: 1000 };
    let setup = one(kind, "rate=1Mbit/s,queue=4packets", 10);
    let (world, figures) = finished(&setup, 5);
    let counted = world.traffic("load").unwrap();
    assert_eq!((counted.sent, counted.received), (2000, 500));
    assert_eq!(counter(&figures, 0, "up_overflowed"), 1500.0);
}

/// Over 1000 periods, of up to 30 % more or less, the mean keeps within 4 standard errors: 30 % / √3 / √1000 of 10 ms.
#[test]
fn bursts_with_jitter_keep_their_mean_period() {
    let counts = |jitter: f64| -> Vec<u64> {
        let run = |seed| {
            let kind =
                TrafficKind::Bursts { packets: 2, period: ms(10), jitter: Ratio(jitter), payload: 100 };
            finished(&one(kind, "delay=1ms", 10), seed).0.traffic("load").unwrap().sent
        };
        (1..=20).map(run).collect()
    };
    let (steady, spread) = (counts(0.0), counts(0.3));
    assert!(steady.iter().all(|sent| *sent == 2000), "{steady:?}");
    assert!(spread.iter().all(|sent| (1950..=2050).contains(sent)), "{spread:?}");
    assert!(spread.iter().any(|sent| *sent != 2000), "{spread:?}");
}

#[test]
fn a_blaster_keeps_the_line_full_and_drops_nothing_itself() {
    // 1028 bytes at 10 Mbit/s take 822.4 µs: 12 159.5 in 10 s, and 50 that waited then.
    let setup = one(TrafficKind::Blaster { payload: 1000 }, "rate=10Mbit/s,queue=50packets", 10);
    let (world, figures) = finished(&setup, 1);
    let counted = world.traffic("load").unwrap();
    assert_eq!(counter(&figures, 0, "up_overflowed"), 0.0);
    assert!((12_160 + 50..=12_160 + 51).contains(&counted.received), "{counted:?}");
    assert_eq!(counted.sent, counted.received);
}

#[test]
fn a_blaster_keeps_a_cell_saturated() {
    let mut setup = setup(2, 10);
    let spec = CellSpec::infrastructure(vec![StationSpec::default(); 2]);
    let nodes = vec![NodeId(0), NodeId(1)];
    setup.media.push(MediumSpec::new("cell", MediumKind::Cell { nodes, spec }));
    setup.traffic.push(traffic("load", 1, 0, TrafficKind::Blaster { payload: 1470 }));
    let (world, figures) = finished(&setup, 1);
    // One saturated station: DIFS 50, mean back-off 7.5 slots of 20, frame 254, SIFS 10, ACK 34: 498 µs. 20 080 cycles,
    // standard deviation √20 080 · 92 µs / 498 µs = 26, and 100 that waited.
    let received = world.traffic("load").unwrap().received as f64;
    assert!((received - 20_180.0).abs() < 4.0 * 27.0, "{received}");
    assert_eq!(counter(&figures, 0, "overflowed"), 0.0);
}

#[test]
fn a_blaster_is_as_fast_as_its_processor() {
    let mut setup = one(TrafficKind::Blaster { payload: 1000 }, "rate=100Mbit/s", 10);
    setup.nodes[0].cost.send_packet = ms(1);
    // One at 0, which takes until 1 ms, and so on: 10 000 begun before the end.
    assert_eq!(counters(&setup, 1).received, 10_000);
    // A processor without costs for sending, but with others: as fast as the line, 82.24 µs a packet.
    setup.nodes[0].cost = HostCost { receive_packet: ms(1), ..HostCost::default() };
    assert!(counters(&setup, 1).received >= 121_595);
}

#[test]
fn a_ping_measures_the_round_trip() {
    let kind = TrafficKind::Ping { interval: ms(200), payload: 56, count: 40 };
    let setup = one(kind, "rate=1Mbit/s,delay=10ms", 10);
    let (_, figures) = finished(&setup, 1);
    let ping = figures_of(&figures, "load");
    assert_eq!((ping.sent, ping.received, ping.lost_percent), (Some(40.0), Some(40.0), Some(0.0)));
    // Twice 84 bytes at 1 Mbit/s and 10 ms.
    near(ping.rtt_mean_ms, 2.0 * 10.672, 1e-6);
    near(ping.rtt_p99_ms, 2.0 * 10.672, 1e-6);
    assert_eq!(ping.gap_mean_ms, None);
}

#[test]
fn a_greedy_tcp_takes_what_the_line_has() {
    let kind = TrafficKind::GreedyTcp { profile: Profile::linux() };
    let setup = one(kind, "rate=10Mbit/s,delay=10ms,queue=50packets", 20);
    let (world, figures) = finished(&setup, 1);
    let counted = world.traffic("load").unwrap();
    assert!(counter(&figures, 0, "up_overflowed") > 0.0, "it met the queue's limit");
    // 1448 of 1500 bytes are payload: 9.65 Mbit/s at most; the drain of 2 s empties the send buffer. A tolerance of a
    // tenth allows for recoveries, and is less than the loss through an unused window.
    let rate = counted.received_bytes as f64 * 8.0 / 21.0;
    assert!((0.9 * 9.65e6..10.2e6).contains(&rate), "{rate}");
}

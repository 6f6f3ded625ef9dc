use super::*;
use crate::packet_log::PacketLogConfig;
use crate::packet_log::tests::{arrival, log_of};
use antiphon_core::{Instant, Rng};

/// 3000 packets of 5 ms; every 100th lost, each back after 20 ms and an exponential 2 ms.
fn log() -> PacketLog {
    let mut log = log_of(4000);
    let mut rng = Rng::fork(1, "figures");
    for seq in 1..=3000u64 {
        let sent = Instant::from_millis(5 * seq);
        log.on_sent(seq, sent);
        if seq % 100 != 0 {
            let back = sent + Duration::from_millis(20).mul_f64(1.0 + 0.1 * rng.exponential());
            log.on_received(arrival(seq, back));
        }
    }
    log.finish();
    log
}

fn facts() -> RunFacts {
    RunFacts {
        transport: "rtp".into(),
        link: "wifi-home".into(),
        wire_bytes: 3_100_000,
        media_bytes: 2_880_000,
        cpu: Some(Duration::from_millis(30)),
        duration: Duration::from_secs(15),
        ..RunFacts::default()
    }
}

/// Figures of a known run with pictures, for other tests.
pub(crate) fn figures() -> TransportFigures {
    TransportFigures::new(&log(), &RunFacts { pictures: Some(crate::pictures::tests::figures()), ..facts() })
}

#[test]
fn the_names_of_the_record() {
    let json = serde_json::to_value(TransportFigures::new(&log(), &facts())).unwrap();
    let text = serde_json::to_string(&json).unwrap();
    assert_eq!((&json["record"], &json["schema"]), (&"transport".into(), &1.into()));
    for key in [
        "transport",
        "link",
        "packets_sent",
        "packets_received",
        "lost",
        "late",
        "expired",
        "duplicate",
        "reordered",
        "concealed",
        "lost_percent",
        "late_percent",
        "jitter_mad_ms",
        "jitter_rfc3550_ms",
        "wire_bytes",
        "media_bytes",
        "cpu_ms_per_s",
    ] {
        assert!(!json[key].is_null(), "{key} in {text}");
    }
    for key in ["mean", "p50", "p90", "p99", "p999", "max", "count"] {
        assert!(json["rtt_ms"][key].is_number(), "{key}");
    }
    assert!(json.get("one_way_ms").is_none());
    let back: TransportFigures = serde_json::from_str(&text).unwrap();
    assert_eq!((back.packets_sent, back.lost), (3000, 30));
}

#[test]
fn figures_of_a_known_run() {
    let figures = TransportFigures::new(&log(), &facts());
    assert_eq!((figures.packets_sent, figures.packets_received, figures.lost), (3000, 2970, 30));
    assert_eq!(figures.lost_percent, Some(1.0));
    assert_eq!((figures.longest_loss_burst, figures.loss_burst_lengths.as_slice()), (1, &[30][..]));
    // Every block of a second lost two: the blocks do not differ.
    let (low, high) = figures.lost_percent_interval.unwrap();
    assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9, "{low} {high}");
    assert_eq!(figures.cpu_ms_per_s, Some(2.0));
    // Exponential of mean 2 ms on 20 ms: mean 22, MAD 2·2/e = 1.4715; five standard errors (0.037, 0.035).
    assert!((figures.rtt_ms.mean_ms.unwrap() - 22.0).abs() < 0.18);
    assert!((figures.jitter_mad_ms.unwrap() - 1.4715).abs() < 0.18);
    assert!(figures.lip_sync.pass, "{:?}", figures.lip_sync);
    assert_eq!(figures.playout.basis, DelayBasis::HalfRoundTrip);
    // One in a hundred is lost: 1 % allows no late packets, 0.1 % cannot be reached.
    let targets = &figures.playout.targets;
    assert_eq!(targets[0].target_ms, None);
    let longest = figures.rtt_ms.max_ms.unwrap() / 2.0;
    assert!((targets[1].target_ms.unwrap() - longest).abs() < 1e-5);
    assert!(targets[2].target_ms.unwrap() < longest);
    let at_10 = figures.playout.curve.iter().find(|p| p.target_ms == 10.0).unwrap();
    assert!(at_10.missing_percent > 99.0);
}

#[test]
fn late_packets_are_missing_and_pending_ones_are_not() {
    let mut log = log();
    (1..=60).for_each(|seq| log.on_fate(seq, Fate::Late));
    let figures = TransportFigures::new(&log, &facts());
    assert_eq!(figures.late, 60);
    assert_eq!(figures.lip_sync.missing_percent, Some(3.0));
    assert!(!figures.lip_sync.pass);

    let worst = |f: &TransportFigures| f.playout.curve.last().unwrap().missing_percent;
    let before = worst(&figures);
    (3001..=3010).for_each(|seq| log.on_sent(seq, Instant::from_millis(5 * seq)));
    let running = TransportFigures::new(&log, &facts());
    assert_eq!((running.pending, worst(&running)), (10, before));
}

#[test]
fn nothing_received_is_nulls_not_nan() {
    let mut log = PacketLog::new(PacketLogConfig {
        capacity: 0,
        clock_rate: 0,
        packet: Duration::ZERO,
        packet_bytes: 0,
    });
    for finished in [false, true] {
        let figures = TransportFigures::new(&log, &RunFacts::default());
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<TransportFigures>(&json).unwrap(), figures);
        assert_eq!(figures.jitter_mad_ms, None);
        assert!(!figures.lip_sync.pass);
        assert_eq!(figures.packets_sent, u64::from(finished));
        log.on_sent(7, Instant::ZERO);
        log.finish();
    }
}

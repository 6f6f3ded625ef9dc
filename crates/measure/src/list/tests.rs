use super::*;

#[test]
fn values_go_out_and_come_back_in_the_order_of_the_list() {
    let count = STREAM_FIGURES.len();
    let values: Vec<_> = (0..count).map(|n| (n % 3 > 0).then_some(n as f64)).collect();
    let figures = StreamFigures::from_values(&values);
    assert_eq!(figures.values(), values);
    assert_eq!((STREAM_FIGURES[1].name, figures.received), ("received", Some(1.0)));
    assert_eq!((STREAM_FIGURES[count - 1].name, FIGURES[count].name), ("changes_failed", "expired_percent"));
    assert_eq!(StreamFigures::from_values(&[]), StreamFigures::default());
}

#[test]
fn names_and_gates_are_unique() {
    for (n, def) in FIGURES.iter().enumerate() {
        let others = || FIGURES[..n].iter();
        assert!(others().all(|other| other.name != def.name), "{}", def.name);
        assert!(others().all(|other| def.gate.is_none() || other.gate != def.gate), "{}", def.name);
    }
}

#[test]
fn every_figure_of_a_comparison_is_read() {
    let figures = crate::figures::tests::figures();
    let unread = [
        "retransmissions",
        "mac_exhausted",
        "queue_dropped",
        "broken",
        "changes_failed",
        "jitter_sd_ms",
        "gap_mad_ms",
        "duplicate_packet_late",
        "duplicate_ack_late",
        "duplicate_ack_lost",
        "duplicate_ack_unread",
        "watched_missing_percent",
        "watched_jitter_mad_ms",
        "rtt_timed_p999_ms",
        "gaps_above_250ms",
        "gaps_above_500ms",
        "gap_shared_ms",
        "gap_unshared_ms",
        "gap_sd_mean_ms",
        "gap_sd_max_ms",
        "media_kbit_per_s",
        "pictures_delay_p50_ms",
        "pictures_delay_p99_ms",
        "frame_delay_mean_ms",
        "frame_gap_mean_ms",
        "freeze_percent",
    ];
    for def in FIGURES {
        let of_one_way = def.name.starts_with("delay_");
        let of_playout = def.name.starts_with("missed_");
        let unread =
            of_one_way || of_playout || unread.contains(&def.name) || def.name == "gaps_above_80ms_per_1000";
        assert_eq!((def.read)(&figures).is_none(), unread, "{}", def.name);
    }
}

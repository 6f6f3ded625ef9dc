//! Outcomes of packets: lost by the network, given up by the sender, missing for either reason; and that `compare`
//! counts the same.

use antiphon_measure::{RunFacts, TransportFigures, figure};

use super::*;
use crate::figures::Course;

/// 1.4 Mbit/s, reflected, over a link of less than half of it that loses packets, by a transport without repairs.
fn narrow() -> (World, RunFigures) {
    let query = "ccid=2".parse().expect("a query");
    let patience = Some(ms(40));
    let audio = StreamSpec { query, patience, reflected: true, ..stream("audio", "dccp", 0, 1) };
    let setup = over_line(20, "rate=600kbit/s,delay=10ms,loss=2%,queue=20packets", audio);
    finished(&setup, 1)
}

#[test]
fn lost_and_missing_are_distinguished() {
    let (_, figures) = narrow();
    let audio = figures_of(&figures, "audio");
    let of_sent = |percent: Option<f64>| percent.unwrap() * audio.sent.unwrap() / 100.0;
    let given_up = audio.expired.unwrap() + audio.refused.unwrap();
    assert!(given_up > 100.0 && audio.lost_percent > Some(1.0), "there was weather: {audio:?}");
    let missing = audio.sent.unwrap() - audio.received.unwrap();
    assert!((of_sent(audio.missing_percent) - missing).abs() < 1e-6, "{audio:?}");
    assert!((of_sent(audio.lost_percent) - (missing - given_up)).abs() < 1e-6, "{audio:?}");
}

#[test]
fn a_comparison_counts_the_same() {
    let (world, figures) = narrow();
    let audio = figures_of(&figures, "audio");
    let compared = compared(&world.course("audio").unwrap());
    let same = [
        "sent",
        "received",
        "missing_percent",
        "lost_percent",
        "expired",
        "refused",
        "reordered",
        "gap_mean_ms",
        "gap_max_ms",
        "gaps_above_80ms",
        "rtt_mean_ms",
        "rtt_p50_ms",
        "rtt_p99_ms",
        "rtt_max_ms",
        "jitter_mad_ms",
    ];
    let values = crate::figures::FIGURES.iter().zip(audio.values());
    let values: Vec<_> = values.filter(|(def, _)| same.contains(&def.name)).collect();
    assert_eq!(values.len(), same.len(), "each name is a figure's");
    for (def, value) in values {
        let (lab, compare) = (value.unwrap(), (figure(def.name).unwrap().read)(&compared).unwrap());
        // A histogram's percentiles are within 1 in 2048.
        assert!((lab - compare).abs() <= lab / 2000.0, "{}: {lab} and {compare}", def.name);
    }
}

/// The figures of a comparison in which the packets had these outcomes.
fn compared(course: &Course) -> TransportFigures {
    TransportFigures::new(&course.packet_log(Duration::from_micros(7_400), 1300), &RunFacts::default())
}

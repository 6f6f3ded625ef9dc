use super::*;
use crate::figures::StreamFigures;
use crate::results::{Record, Results};
use crate::scenario::Scenario;

/// Loss in percent and latency in ms of ELL, OQ, UDP, TCP and ours; ELL and OQ are the same in our receiver. The ping takes `rtt`
/// ms, and TCP gets 40 %.
fn results(rtt: f64, figures: [(f64, f64); 5]) -> Results {
    let mut records = Vec::new();
    let [ell, oq, ..] = figures;
    let transports = [ELL, OQ, UDP, TCP, NEAREST, OUR_ELL, OUR_OQ];
    for (run, (transport, (loss, latency))) in
        transports.into_iter().zip(figures.into_iter().chain([ell, oq])).enumerate()
    {
        let audio = StreamFigures {
            missing_percent: Some(loss),
            gap_mad_ms: Some(latency - rtt / 2.0),
            jitter_mad_ms: Some(latency - rtt / 2.0),
            received: Some(if transport == TCP { 800.0 } else { 2000.0 }),
            ..StreamFigures::default()
        };
        let ping = StreamFigures { rtt_mean_ms: Some(rtt), ..StreamFigures::default() };
        for (stream, figures) in [(AUDIO, audio), (PING, ping)] {
            let point = vec![(TRANSPORT.into(), transport.into())];
            records.push(Record {
                run: run as u32,
                point,
                repetition: 0,
                seed: 0,
                stream: stream.into(),
                figures,
            });
        }
    }
    Results { records, planned_runs: 7 }
}

/// The printed figures of Tables 1e to 3e, and figures of our own transports that satisfy our claims.
fn printed() -> [Results; 3] {
    [
        results(50.0, [(6.18, 28.55), (0.0, 30.37), (3.40, 28.81), (0.0, 293.0), (0.0, 30.3)]),
        results(400.0, [(17.39, 215.8), (6.93, 207.4), (3.02, 201.5), (0.0, 86155.0), (2.0, 203.0)]),
        results(275.0, [(13.54, 212.2), (2.71, 211.6), (17.34, 151.3), (0.0, 127840.0), (3.0, 180.0)]),
    ]
}

fn verdicts(results: &[Results; 3]) -> Vec<(String, bool, Option<bool>)> {
    let evidence: Vec<_> = [LOW_LOW, LOW_HIGH, HIGH_HIGH].into_iter().zip(results).collect();
    let paper = super::super::find("srp").unwrap();
    paper.judge_with(&evidence, 9, 1).into_iter().map(|j| (j.id, j.required, j.confirmed)).collect()
}

#[test]
fn each_compared_transport_is_run_and_the_reports_are_printed() {
    let paper = super::super::find("srp").unwrap();
    for experiment in paper.experiments {
        let scenario = Scenario::parse(experiment.key, experiment.scenario.unwrap()).unwrap();
        let plan = scenario.plan();
        for transport in COMPARED {
            let point = (TRANSPORT.to_string(), transport.to_string());
            assert!(plan.iter().any(|run| run.point.contains(&point)), "{transport} of {}", experiment.key);
            let Some(map) = experiment.tables.first() else { continue };
            let table = paper.table(map.file).unwrap();
            let printed = table.row(&[("protocol", paper.short(transport))]);
            let in_ours = [NEAREST, DEADLINE, OUR_ELL, OUR_OQ].contains(&transport);
            assert_eq!(printed.is_none(), in_ours, "{transport}");
        }
    }
}

#[test]
fn the_printed_figures_fulfil_what_the_report_concludes_from_them() {
    for (id, required, verdict) in verdicts(&printed()) {
        let expected = match (id.as_str(), required) {
            ("srp-23" | "ours-srp-4", _) => None,
            (_, true) => Some(true),
            (_, false) => Some(false),
        };
        assert_eq!(verdict, expected, "{id}");
    }
}

/// ELL has OQ's figures and OQ has TCP's, TCP those of UDP with 21 ms more, and UDP those of ELL with 3 % more loss.
#[test]
fn other_figures_do_not() {
    let swapped = [
        results(50.0, [(0.0, 30.37), (1.0, 293.0), (9.18, 50.0), (3.4, 28.8), (0.0, 251.0)]),
        results(400.0, [(6.93, 207.4), (0.1, 86155.0), (20.4, 236.8), (3.0, 201.5), (7.0, 207.4)]),
        results(275.0, [(18.71, 211.6), (18.8, 127840.0), (18.54, 233.2), (17.3, 151.3), (5.0, 200.0)]),
    ];
    let holding: Vec<String> = verdicts(&swapped)
        .into_iter()
        .filter(|(_, _, verdict)| *verdict == Some(true))
        .map(|(id, ..)| id)
        .collect();
    assert_eq!(holding, ["srp-22"]);
}

/// Losses in percent, and mean deviations of the ages in ms over the whole run and after changes; a ping of 200 ms.
#[test]
fn our_claim_on_changes_falls_with_each_distance() {
    let verdict = |spoilt: &str, loss: f64, [deviation, after]: [f64; 2]| {
        let mut records = Vec::new();
        for (run, transport) in [ELL, OQ, UDP, TCP, NEAREST].into_iter().enumerate() {
            let usual = if transport == NEAREST { (2.0, [100.0; 2]) } else { (5.0, [150.0; 2]) };
            let (loss, [deviation, after]) =
                if transport == spoilt { (loss, [deviation, after]) } else { usual };
            let audio = StreamFigures {
                missing_percent: Some(loss),
                jitter_mad_ms: Some(deviation),
                watched_missing_percent: Some(loss),
                watched_jitter_mad_ms: Some(after),
                ..StreamFigures::default()
            };
            let ping = StreamFigures { rtt_mean_ms: Some(200.0), ..StreamFigures::default() };
            for (stream, figures) in [(AUDIO, audio), (PING, ping)] {
                let point = vec![(TRANSPORT.into(), transport.into())];
                let (run, stream) = (run as u32, stream.into());
                records.push(Record { run, point, repetition: 0, seed: 0, stream, figures });
            }
        }
        let results = Results { records, planned_runs: 5 };
        let paper = super::super::find("srp").unwrap();
        let judged = paper.judge_with(&[(CHANGING, &results)], 9, 1);
        judged.into_iter().find(|judgement| judgement.id == "ours-srp-4").unwrap().confirmed
    };
    assert_eq!(verdict("", 0.0, [0.0; 2]), Some(true));
    for transport in [ELL, OQ, UDP, TCP] {
        assert_eq!(verdict(transport, 2.0, [99.0, 150.0]), Some(false), "{transport}, whole run");
        assert_eq!(verdict(transport, 2.0, [150.0, 99.0]), Some(false), "{transport}, after changes");
    }
    assert_eq!(verdict(NEAREST, 9.0, [100.0; 2]), Some(false), "outside");
    assert_eq!(verdict(NEAREST, 2.0, [100.0, 180.0]), Some(false));
}

use super::*;
use antiphon_lab::papers;
use antiphon_lab::results::Results;

/// The first run of 1024 bytes among bursts each 10 ms.
fn run() -> PaperResults {
    let paper = papers::find("digitized-voice").unwrap();
    let experiment = paper.experiment("mppt_background").unwrap();
    let job = super::super::Job::new("t", "t", experiment.scenario.unwrap()).unwrap();
    let is_there = |point: &[(String, String)]| {
        let has = |value: &str| point.iter().any(|(_, here)| here == value);
        has(SIZE) && has("10ms")
    };
    let run = job.scenario.plan().into_iter().find(|run| is_there(&run.point)).unwrap();
    let (finished, _) = super::super::course(&job, &run, VOICE).unwrap();
    let records = finished.records().collect();
    let results = vec![(experiment.key, Results { records, planned_runs: 200 })];
    PaperResults { paper, results, real: Vec::new() }
}

#[test]
fn each_packet_of_a_run_is_a_dot() {
    let ran = run();
    let parts = ran.scatter(ran.paper.experiment("mppt_background").unwrap());
    let [Part::Chart(chart)] = &parts[..] else { panic!("one chart") };
    assert_eq!((chart.series.len(), &*chart.series[0].name), (1, "50 Mbit/s"));
    assert_eq!((chart.series[0].x.len(), chart.marks.len()), (1000, 2));
    // Locked to half a period.
    let middle = chart.series[0].y[500].unwrap();
    assert!((4.5..5.5).contains(&middle), "{middle}");
    assert!(ran.scatter(ran.paper.experiment("basic").unwrap()).is_empty());
    assert!(ran.scatter(ran.paper.experiment("locking").unwrap()).is_empty());
}

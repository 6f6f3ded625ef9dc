use super::*;
use antiphon_core::Instant;
use antiphon_lab::papers;
use antiphon_lab::results::Record;

/// The runs of two transports in one condition, modified by `change`; 30 runs of each are planned.
fn run(change: impl Fn(&mut Record)) -> PaperResults {
    let paper = papers::find("srp").unwrap();
    let experiment = paper.experiment("low_loss_low_latency").unwrap();
    let job = super::super::Job::new("t", "t", experiment.scenario.unwrap()).unwrap();
    let records = [0, 60].into_iter().flat_map(|index| {
        let (finished, _) = super::super::course(&job, &job.scenario.plan()[index], "audio").unwrap();
        finished.records().collect::<Vec<_>>()
    });
    let mut records: Vec<Record> = records.collect();
    records.iter_mut().for_each(change);
    PaperResults {
        paper,
        results: vec![(experiment.key, Results { records, planned_runs: 180 })],
        real: Vec::new(),
    }
}

#[test]
fn transports_stand_side_by_side_and_are_drawn() {
    let ran = run(|_| {});
    let section = ran.srp_section().unwrap();
    let Part::Table(table) = &section.parts[0] else { panic!("no table") };
    assert_eq!(table.rows.len(), 32);
    let udp = table.rows.iter().find(|row| row.label == "UDP").unwrap();
    assert_eq!(udp.values[0], Cell::from("0.359399"));
    let nearest = table.rows.iter().find(|row| row.label == "nearest").unwrap();
    assert!(nearest.values.iter().all(|cell| *cell == Cell::MISSING), "{nearest:?}");

    let parts = ran.srp_plots(ran.paper.experiment("low_loss_low_latency").unwrap());
    let charts: Vec<&Chart> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Chart(chart) => Some(chart),
            _ => None,
        })
        .collect();
    let names = |chart: &Chart| chart.series.iter().map(|series| series.name.clone()).collect::<Vec<_>>();
    let plane =
        ["desired quality", "ELL", "ELL, printed", "OQ, printed", "UDP", "UDP, printed", "TCP, printed"];
    assert_eq!(names(charts[0]), plane);
    assert_eq!(names(charts[2]), ["ELL", "UDP"]);
    // UDP loses 3 % of 2000: 60, with a standard deviation of 7.6.
    let lost = charts[2].series[1].ticks.len();
    assert!((38..=82).contains(&lost), "{lost}");
    // As a share of 10 %; one run has no interval.
    assert_eq!(udp.values[3], Cell::Text(format!("{:.6}", lost as f64 / 200.0)));
    assert_eq!(charts[3].series[1].y.last(), Some(&Some(lost as f64)));
    assert_eq!(charts[2].series[1].x.len() + lost, 2000);
    assert!(ran.srp_plots(ran.paper.experiment("low_loss_high_latency").unwrap()).is_empty());
}

#[test]
fn what_another_build_ran_is_not_drawn() {
    let ran = run(|record| record.figures.received = record.figures.received.map(|received| received - 1.0));
    let parts = ran.srp_plots(ran.paper.experiment("low_loss_low_latency").unwrap());
    let Some(Part::Notes(notes)) = parts.last() else { panic!("no note") };
    assert!(notes.len() == 2 && notes.iter().all(|note| note.contains("--fresh")), "{notes:?}");
}

#[test]
fn every_figure_and_printed_column_is_known() {
    for figure in FIGURES.into_iter().chain(READINGS.map(|(_, figure)| figure)) {
        assert!(definition(figure).is_some(), "no figure {figure}");
    }
    assert_eq!(defined().count(), FIGURES.len());
    let paper = papers::find("srp").unwrap();
    for experiment in paper.experiments {
        let Some(map) = experiment.tables.first() else { continue };
        let table = paper.table(map.file).unwrap();
        for column in [DISTANCE, LATENCY_RATIO, LOSS_RATIO] {
            assert!(table.column(column).is_some(), "{}: no column {column}", experiment.key);
        }
    }
}

fn ran() -> Ran {
    let sent = (0..5).map(|n| Instant::from_millis(160 * n)).collect();
    let came = [(0, 30), (3, 530), (2, 900)].map(|(index, at)| (index, Instant::from_millis(at)));
    Ran { name: "UDP", colour: 2, course: Course { sent, came: came.to_vec(), ..Course::default() } }
}

#[test]
fn every_message_has_its_age_or_a_tick() {
    let chart = latencies(&[ran()]);
    let series = &chart.series[0];
    assert_eq!(series.x, [1.0, 4.0, 3.0]);
    assert_eq!(series.y, [Some(30.0), Some(50.0), Some(580.0)]);
    assert_eq!(series.ticks, [2.0, 5.0]);
}

#[test]
fn losses_add_up_to_the_end() {
    let chart = losses(&[ran()]);
    assert_eq!(chart.series[0].x, [0.0, 2.0, 5.0]);
    assert_eq!(chart.series[0].y, [Some(0.0), Some(1.0), Some(2.0)]);
    let mut whole = ran();
    whole.course.came = (0..5).map(|index| (index, Instant::from_millis(900))).collect();
    let chart = losses(&[whole]);
    assert_eq!((chart.series[0].x.as_slice(), chart.series[0].y.last()), (&[0.0, 5.0][..], Some(&Some(0.0))));
}

//! The table of receivers on a Wi-Fi cell that `compare --receivers` reads says what the experiments find.

use antiphon_lab::papers;
use antiphon_lab::scenario::{Run, Scenario};
use antiphon_lab::world::run as run_world;
use antiphon_measure::{CellCapacity, LipSync, cell_capacities};

/// The loss of the receiver that fares worst, in percent, in `runs` runs of the experiment with so many receivers.
fn worst(cell: CellCapacity, receivers: u32, runs: u32) -> f64 {
    let paper = papers::find("tv-audio-wlan").expect("a paper");
    let name = if cell.is_group() { "multicast" } else { "headsets" };
    let text = paper.experiment(name).and_then(|one| one.scenario).expect("a scenario");
    let (key, value) = match cell.transport {
        "group" => ("protect", "none"),
        "group-twice" => ("protect", "repeat:2,spacing=20ms"),
        transport => ("transport", transport),
    };
    let point = [
        ("disturbance", format!("{}Mbit/s", cell.beside_mbit_s)),
        ("access", cell.access.to_string()),
        ("headsets", receivers.to_string()),
        (key, value.to_string()),
    ];
    let scenario = Scenario::parse(name, text).expect("a scenario that can be read");
    let scenario = scenario.with_repetitions(runs).expect("so many runs");
    let is_there = |run: &Run| {
        let set =
            |(key, value): &(&str, String)| run.point.iter().any(|(name, at)| name == key && at == value);
        point.iter().all(set)
    };
    let plan: Vec<Run> = scenario.plan().into_iter().filter(is_there).collect();
    assert_eq!(plan.len(), runs as usize, "{point:?} is a point of the experiment");
    let runs = plan.into_iter().flat_map(|run| {
        let streams =
            run_world(&scenario.setup_of(&run).expect("a setup"), run.seed).expect("a world").streams;
        let sound: Vec<f64> = streams
            .iter()
            .filter(|(name, _)| name.starts_with("audio"))
            .map(|(_, figures)| figures.missing_percent.expect("measured"))
            .collect();
        assert_eq!(sound.len(), receivers as usize);
        sound
    });
    runs.fold(0.0, f64::max)
}

fn check(cell: CellCapacity, runs: u32) {
    if cell.fits > 0 {
        let worst = worst(cell, cell.fits, runs);
        println!("{cell:?}: {worst:.2} % with {}", cell.fits);
        assert!(worst <= LipSync::LOSS_PERCENT, "{cell:?}: {worst} %");
    }
    if let Some(fails) = cell.fails {
        let worst = worst(cell, fails, runs);
        println!("{cell:?}: {worst:.2} % with {fails}");
        assert!(worst > LipSync::LOSS_PERCENT, "{cell:?}: {worst} %");
    }
}

#[test]
fn the_table_says_what_a_run_over_rtp_finds() {
    for cell in cell_capacities().filter(|cell| cell.transport == "rtp" && cell.beside_mbit_s > 0) {
        check(cell, 1);
    }
}

#[test]
#[ignore = "takes half a minute: every line of the table"]
fn the_table_says_what_the_experiments_find() {
    // What a multicast sent once misses is near the limit: the worst of as many runs as in the experiment.
    cell_capacities().for_each(|cell| check(cell, if cell.is_group() { 4 } else { 1 }));
}

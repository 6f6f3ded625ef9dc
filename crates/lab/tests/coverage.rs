//! Whether the intervals that `compare` states of one run hold the truth as often as they say, in the scenarios of the
//! published studies: the truth is the mean of many runs.

use std::time::Duration;

use antiphon_lab::papers;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::setup::{MediumKind, Setup};
use antiphon_lab::world::World;
use antiphon_measure::{BlockMean, Blocks};

/// A stream of a study, as often as its runs are made here.
struct Study {
    paper: &'static str,
    experiment: &'static str,
    /// The point of its sweep.
    point: &'static [(&'static str, &'static str)],
    seconds: u64,
    /// Of media time in each packet.
    packet: Duration,
}

/// UDP of the study of TV sound for a minute, beside such a disturbance.
fn room(point: &'static [(&'static str, &'static str)]) -> Study {
    Study {
        paper: "tv-audio-wlan",
        experiment: "udp",
        point,
        seconds: 60,
        packet: Duration::from_micros(7400),
    }
}

const ROOM_12: &[(&str, &str)] = &[("disturbance", "12Mbit/s")];
const ROOM_14: &[(&str, &str)] = &[("disturbance", "14Mbit/s")];
const ROOM_16: &[(&str, &str)] = &[("disturbance", "16Mbit/s")];

/// UDP at 15 % random loss, of the study of SRP.
const FAR: Study = Study {
    paper: "srp",
    experiment: "high_loss_high_latency",
    point: &[("transport", "rtp")],
    seconds: 320,
    packet: Duration::from_millis(160),
};

impl Study {
    /// Whether the place at which a station stands, and so the share of its frames that are lost, `differs` from run to run.
    fn setup(&self, differs: bool) -> Setup {
        let paper = papers::find(self.paper).expect("a paper");
        let text = paper.experiment(self.experiment).and_then(|one| one.scenario).expect("a scenario");
        let scenario = Scenario::parse(self.experiment, text).expect("a scenario that can be read");
        let point: Vec<(String, String)> =
            self.point.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let mut setup = scenario.setup(&point).expect("a point of it");
        setup.duration = Duration::from_secs(self.seconds);
        setup.drain = Duration::from_secs(2);
        for medium in &mut setup.media {
            if let MediumKind::Cell { spec, .. } = &mut medium.kind {
                let stations = spec.stations.iter_mut().filter(|_| !differs);
                stations.for_each(|one| one.frame_error_spread = 1.0);
            }
        }
        setup
    }

    fn spread(&self, differs: bool, runs: u64) -> Spread {
        let setup = self.setup(differs);
        let blocks = |seed: u64| {
            let mut world = World::new(&setup, seed).expect("a possible setup");
            world.run_to_end();
            let log = world.course("audio").expect("a stream").packet_log(self.packet, 1300);
            Blocks::of(&[&log]).remove(0)
        };
        Spread::of(&(1..=runs).map(blocks).collect::<Vec<_>>())
    }
}

/// What the intervals of many runs come to.
#[derive(Debug)]
struct Spread {
    /// Share of the runs whose interval holds the mean of all runs.
    covered: f64,
    /// Variance between the runs' means, over the mean square of the errors that each run states.
    between_to_within: f64,
    /// Correlation of a block with the next one.
    correlation: f64,
}

impl Spread {
    fn of(runs: &[Blocks]) -> Spread {
        let missing: Vec<BlockMean> = runs.iter().map(|run| run.share(|sums| sums.never_came())).collect();
        let n = runs.len() as f64;
        let mean = missing.iter().map(|run| run.mean).sum::<f64>() / n;
        let intervals: Vec<_> = missing.iter().filter_map(BlockMean::interval).collect();
        let covered = intervals.iter().filter(|(low, high)| (*low..=*high).contains(&mean)).count();
        let between = missing.iter().map(|run| (run.mean - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let within = missing.iter().map(|run| run.error().powi(2)).sum::<f64>() / n;
        Spread {
            covered: covered as f64 / intervals.len() as f64,
            between_to_within: between / within,
            correlation: runs.iter().map(|run| run.correlation(|sums| sums.never_came())).sum::<f64>() / n,
        }
    }
}

/// 93 to 97 % of the runs' intervals hold the mean of all runs. The standard error of such a share of 500 runs is 1 %; where
/// what happens in a second tells something of the next, which few blocks tell badly, more runs are made.
#[test]
#[ignore = "takes minutes: 500 or 1000 runs of a minute in each of four rooms"]
fn intervals_of_studies_hold_the_truth_as_often_as_they_say() {
    let studies = [(room(ROOM_12), 1000), (room(ROOM_14), 500), (room(ROOM_16), 500), (FAR, 500)];
    let spreads = studies.map(|(study, runs)| study.spread(false, runs));
    println!("{spreads:#?}");
    for spread in &spreads {
        assert!((0.93..=0.97).contains(&spread.covered), "{spreads:#?}");
        // The standard error of a ratio of variances of 500 runs is 6 %.
        assert!((0.7..1.3).contains(&spread.between_to_within), "{spreads:#?}");
    }
    // What happens in a second at 12 Mbit/s, where the cell is nearly full, tells something of the next.
    assert!(spreads[0].correlation > 0.07, "{spreads:#?}");
}

/// At 12 Mbit/s the cell is nearly full, and a share of lost frames that is a little larger in a run costs much: an interval
/// of one run is of that place, not of all places.
#[test]
#[ignore = "takes 10 s: a hundred runs of a minute"]
fn runs_differ_by_their_places_more_than_by_chance() {
    let differing = room(ROOM_12).spread(true, 100);
    println!("{differing:?}");
    // The standard error of a ratio of variances of 100 runs is 14 %.
    assert!(differing.between_to_within > 4.0 && differing.covered < 0.75, "{differing:?}");
}

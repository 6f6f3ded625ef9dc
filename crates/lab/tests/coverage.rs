//! How often a comparison's 95 % intervals hold what they are intervals of, over the scenarios of the published studies.
//!
//! `measure` tests the same over channels with known theory; here losses come from collisions, queues, fades and routers.

use std::time::Duration;

use antiphon_lab::papers;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::setup::{MediumKind, Setup};
use antiphon_lab::world::World;
use antiphon_measure::{RunFacts, TransportFigures};

/// A point of a study's experiment, and the spacing of its packets.
struct Case {
    paper: &'static str,
    experiment: &'static str,
    /// Values of the sweep's variables by which the point is found; the first point that has all of them is taken.
    point: &'static [(&'static str, &'static str)],
    packet: Duration,
    /// Of each run.
    length: Duration,
    /// As many as the standard error of the coverage needs: 0.7 % of 1000 runs.
    runs: u64,
}

/// Losses by collisions and frame errors, by a full queue and by a router's discard; and stalls, by which packets are late.
const CASES: [Case; 4] = [
    Case { point: &[("disturbance", "12Mbit/s")], ..UDP },
    Case { point: &[("disturbance", "16Mbit/s")], ..UDP },
    Case {
        paper: "srp",
        experiment: "high_loss_high_latency",
        point: &[("transport", "rtp")],
        packet: Duration::from_millis(160),
        length: Duration::from_secs(320),
        runs: 1_000,
    },
    Case {
        paper: "transport-alternatives",
        experiment: "direct_wireless",
        point: &[("transport", "rtp"), ("channels", "2")],
        packet: Duration::from_micros(10_667),
        // The study's 10 000 blocks, whatever is said here.
        length: Duration::from_secs(107),
        runs: 400,
    },
];

/// What the first two have in common.
const UDP: Case = Case {
    paper: "tv-audio-wlan",
    experiment: "udp",
    point: &[],
    packet: Duration::from_micros(7_400),
    length: Duration::from_secs(60),
    runs: 1_000,
};

impl Case {
    fn setup(&self) -> Setup {
        let paper = papers::find(self.paper).expect("a paper");
        let text = paper.experiment(self.experiment).expect("an experiment").scenario.expect("a scenario");
        let scenario = Scenario::parse(self.experiment, text).expect("a scenario that ships");
        let has = |point: &[(String, String)]| {
            self.point.iter().all(|(name, value)| point.iter().any(|(n, v)| n == name && v == value))
        };
        let run = scenario.plan().into_iter().find(|run| has(&run.point)).expect("a point of the sweep");
        let mut setup = scenario.setup(&run.point).expect("a point that ships");
        setup.duration = self.length;
        // A comparison is about the network as it is: what differs from day to day is in no interval of one run.
        for medium in &mut setup.media {
            if let MediumKind::Cell { spec, .. } = &mut medium.kind {
                spec.stations.iter_mut().for_each(|station| station.frame_error_spread = 1.0);
            }
        }
        setup
    }
}

/// What the runs of a case came to.
struct Outcome {
    /// Of each run: the interval of its losses in percent, where it told one.
    losses: Vec<Option<(f64, f64)>>,
    /// Of each run and each target of the playout delay: its interval in milliseconds, where it told one.
    targets: Vec<Vec<(Option<f64>, Option<f64>)>>,
    /// Losses of all runs, in percent.
    lost: f64,
    /// Delays of what came in any run, in milliseconds, sorted.
    delays: Vec<f64>,
    /// Packets sent in all runs.
    sent: usize,
}

impl Outcome {
    fn of(case: &Case) -> Outcome {
        let setup = case.setup();
        let (mut losses, mut targets, mut delays) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sent, mut lost) = (0, 0);
        for seed in 1..=case.runs {
            let mut world = World::new(&setup, seed).expect("a possible setup");
            world.run_to_end();
            let course = world.course("audio").expect("a stream");
            let log = course.packet_log(case.packet, 1_300);
            let figures = TransportFigures::new(&log, &RunFacts::default());
            losses.push(figures.lost_percent_interval);
            targets
                .push(figures.playout.targets.iter().map(|target| (target.low_ms, target.high_ms)).collect());
            sent += course.sent.len();
            lost += figures.lost as usize;
            let took =
                course.came.iter().map(|(index, at)| at.since(course.sent[*index]).as_secs_f64() * 1e3);
            delays.extend(took);
        }
        delays.sort_by(f64::total_cmp);
        Outcome { losses, targets, lost: 100.0 * lost as f64 / sent as f64, delays, sent }
    }
}

/// Of the runs that told an interval, the share whose interval holds `truth`; and the share of runs that told one.
fn coverage(intervals: impl Iterator<Item = Option<(f64, f64)>>, truth: f64) -> (f64, f64) {
    let (mut runs, mut told, mut held) = (0, 0, 0);
    for interval in intervals {
        runs += 1;
        if let Some((low, high)) = interval {
            told += 1;
            held += u32::from((low..=high).contains(&truth));
        }
    }
    (f64::from(held) / f64::from(told), f64::from(told) / f64::from(runs))
}

/// Delays that a share of `missing` of all packets may exceed, in milliseconds; `None` where more than that never came.
fn required_delay(outcome: &Outcome, missing: f64) -> Option<f64> {
    let allowed = (missing * outcome.sent as f64) as usize;
    (outcome.sent - outcome.delays.len() <= allowed).then(|| outcome.delays[outcome.sent - allowed - 1])
}

#[test]
#[ignore = "takes minutes: thousands of runs of the studies"]
fn intervals_hold_the_truth_as_often_as_they_say_over_the_studies() {
    let mut judged_targets = 0;
    for case in &CASES {
        let outcome = Outcome::of(case);
        let name = format!("{} {} {:?}", case.paper, case.experiment, case.point);
        let (held, told) = coverage(outcome.losses.iter().copied(), outcome.lost);
        println!("{name}: {:.3} % lost; of the {told:.3} that tell, {held:.3} hold it", outcome.lost);
        assert!(told > 0.5, "{name}: {told} told an interval");
        assert!((0.93..=0.97).contains(&held), "{name}: {held} of losses");
        for (n, missing) in TARGETS.into_iter().enumerate() {
            let Some(truth) = required_delay(&outcome, missing) else { continue };
            let of = |run: &Vec<(Option<f64>, Option<f64>)>| {
                let (low, high) = run[n];
                (low.is_some() || high.is_some()).then(|| (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)))
            };
            let (held, told) = coverage(outcome.targets.iter().map(of), truth);
            println!("{name}: {truth:.2} ms for {missing}; of the {told:.3} that tell, {held:.3} hold it");
            assert!(told > 0.5, "{name}: {told} told an interval for {missing}");
            assert!((0.93..=0.97).contains(&held), "{name}: {held} of delays for {missing}");
            judged_targets += 1;
        }
    }
    assert!(judged_targets >= 2, "some delays were judged");
}

/// The shares for which figures have a playout delay.
const TARGETS: [f64; 3] = [0.001, 0.01, 0.018];

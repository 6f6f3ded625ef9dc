use super::*;
use crate::figures::StreamFigures;
use crate::papers::{Evidence, find};
use crate::results::{Record, Results};

/// What was printed of one run: audio that arrived, gaps above 250 and 500 ms, gaps with and without video, greatest and mean deviation,
/// and the video's rate, frames sent, frames whole, delay and gap of frames.
#[derive(Clone, Copy)]
struct Printed {
    arrived: f64,
    late: f64,
    very_late: f64,
    shared: f64,
    unshared: f64,
    sd_max: f64,
    sd: f64,
    rate: f64,
    frames: [f64; 2],
    delay: f64,
}

const SENT: f64 = 3932.0;

fn results(experiment: &str, runs: [Printed; 2]) -> Results {
    let mut records = Vec::new();
    for (run, (transport, printed)) in [UDP, TCP].into_iter().zip(runs).enumerate() {
        let audio = StreamFigures {
            sent: Some(SENT),
            received: Some(printed.arrived),
            gap_mean_ms: Some(50.0),
            gaps_above_250ms: Some(printed.late),
            gaps_above_500ms: Some(printed.very_late),
            gap_shared_ms: Some(printed.shared),
            gap_unshared_ms: Some(printed.unshared),
            gap_sd_max_ms: Some(printed.sd_max),
            gap_sd_mean_ms: Some(printed.sd),
            ..StreamFigures::default()
        };
        let video = StreamFigures {
            media_kbit_per_s: Some(printed.rate),
            frames_sent: Some(printed.frames[0]),
            frames_whole: Some(printed.frames[1]),
            delay_mean_ms: Some(printed.delay),
            frame_gap_mean_ms: Some(1000.0),
            ..StreamFigures::default()
        };
        let place = at(AUDIO, transport, main_queue(experiment));
        let point: Vec<_> = place.point.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        for (stream, figures) in [(AUDIO, audio), (VIDEO, video)] {
            let (point, stream) = (point.clone(), stream.into());
            records.push(Record { run: run as u32, point, repetition: 0, seed: 0, stream, figures });
        }
    }
    Results { records, planned_runs: 2 }
}

const IDEAL: Printed = Printed {
    arrived: SENT,
    late: 0.0,
    very_late: 0.0,
    shared: 50.0,
    unshared: 50.0,
    sd_max: 5.0,
    sd: 5.0,
    rate: 264.436,
    frames: [209.0, 209.0],
    delay: 1.0,
};
const NISTNET_UDP: Printed = Printed {
    arrived: 3710.0,
    late: 220.0,
    very_late: 220.0,
    shared: 756.0,
    unshared: 21.0,
    sd_max: 310.0,
    sd: 255.0,
    rate: 110.801,
    delay: 40_000.0,
    ..IDEAL
};
const NISTNET_TCP: Printed = Printed {
    arrived: 3762.0,
    late: 7.0,
    very_late: 0.0,
    shared: 122.0,
    unshared: 43.0,
    sd_max: 90.0,
    sd: 60.0,
    rate: 102.676,
    frames: [85.0, 85.0],
    delay: 400.0,
};

/// A row of the table of both networks; `lost` seconds, a fifth of them late.
fn row(lost: f64, shared: f64, sd: f64, rate: f64, frames: [f64; 2]) -> Printed {
    let packets = lost / 0.05;
    let late = packets / 5.0;
    Printed { arrived: SENT - packets + late, late, shared, sd, rate, frames, delay: 400.0, ..IDEAL }
}

/// Everything as printed.
fn printed() -> [(&'static str, Results); 4] {
    let emulab = [row(20.0, 360.0, 115.0, 93.18, [209.0, 1.0]), row(11.5, 190.0, 65.0, 96.34, [82.0, 82.0])];
    let dialup = [row(55.0, 537.0, 350.0, 23.32, [220.0, 7.0]), row(27.0, 635.0, 150.0, 20.12, [30.0, 30.0])];
    [
        (UNRESTRICTED, results(UNRESTRICTED, [IDEAL; 2])),
        (NISTNET, results(NISTNET, [NISTNET_UDP, NISTNET_TCP])),
        (EMULAB, results(EMULAB, emulab)),
        (DIALUP, results(DIALUP, dialup)),
    ]
}

fn verdicts(all: &[(&'static str, Results)]) -> Vec<(String, bool, Option<bool>)> {
    let evidence: Vec<(&str, &Results)> = all.iter().map(|(key, results)| (*key, results)).collect();
    let evidence: &Evidence<'_> = &evidence;
    let judged = find(KEY).unwrap().judge_with(evidence, 9, 1);
    judged.into_iter().filter(|j| !j.own).map(|j| (j.id, j.required, j.confirmed)).collect()
}

#[test]
fn the_printed_figures_fulfil_what_the_paper_concludes() {
    for (id, required, verdict) in verdicts(&printed()) {
        assert_eq!(verdict, Some(required), "{id}");
    }
}

#[test]
fn with_the_two_transports_exchanged_nothing_of_it_holds() {
    let swapped = printed().map(|(key, mut results)| {
        for record in &mut results.records {
            let transport = record.setting(TRANSPORT).unwrap();
            let other = if transport == UDP { TCP } else { UDP };
            record
                .point
                .iter_mut()
                .filter(|(key, _)| key == TRANSPORT)
                .for_each(|(_, at)| *at = other.into());
        }
        (key, results)
    });
    let holding: Vec<String> = verdicts(&swapped)
        .into_iter()
        .filter(|(.., verdict)| *verdict == Some(true))
        .map(|(id, ..)| id)
        .collect();
    // Both transports are alike on an Ethernet, and 400 ms are below half a second for both.
    assert_eq!(holding, ["ts-12", "ts-21"]);
}

#[test]
fn each_row_of_both_networks_has_its_place() {
    let paper = find(KEY).unwrap();
    for experiment in paper.experiments {
        for map in experiment.tables {
            let table = paper.table(map.file).unwrap();
            let rows = (0..table.rows.len()).filter(|row| (map.place)(table, *row).is_some()).count();
            assert_eq!(rows, 2, "{}", experiment.key);
        }
    }
}

/// 222 of 3932 packets that never came and 220 late ones are 22.1 s.
#[test]
fn audio_lost_counts_dropped_and_late_packets() {
    let all = results(NISTNET, [NISTNET_UDP, NISTNET_TCP]);
    let of = |figure| over_nistnet(UDP).value(&all, figure, crate::papers::Statistic::Mean).unwrap().value;
    assert!((of(AUDIO_LOST_S) - 22.1).abs() < 1e-9);
    assert_eq!((of(AUDIO_DROPPED), of(VIDEO_KBIT_PER_S), of(FRAMES_SENT)), (222.0, 110.801, 209.0));
}

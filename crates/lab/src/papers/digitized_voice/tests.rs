use super::super::judge::Verdict;
use super::super::{Paper, find};
use super::*;
use crate::figures::StreamFigures;
use crate::results::{Record, Results};

fn paper() -> &'static Paper {
    find("digitized-voice").unwrap()
}

/// What a printed value of an experiment becomes: of a column, at a size and a load or a share of losses.
type Change<'a> = dyn Fn(&str, &str, u32, u32) -> f64 + 'a;

/// The printed figures as results, each times what `change` says.
struct Printed<'a> {
    records: Vec<Record>,
    change: &'a Change<'a>,
}

impl Printed<'_> {
    /// A table's column in the figure that `set` sets.
    fn take(
        &mut self,
        experiment: &str,
        file: &str,
        place: fn(&Table, usize) -> Option<Place>,
        column: &str,
        set: impl Fn(&mut StreamFigures, f64, f64),
    ) {
        let table = paper().table(file).unwrap();
        for row in 0..table.rows.len() {
            let place = place(table, row).unwrap();
            let number = |column: &str| table.number(row, column);
            let size = number(BASIC[0]).unwrap();
            let second = number(LOADED[1]).or(number(LOSSY[1])).unwrap_or(0.0);
            let factor = (self.change)(experiment, column, size as u32, second as u32);
            let value = number(column).unwrap() * factor;
            let point: Vec<(String, String)> =
                place.point.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
            let known = self.records.iter_mut().find(|one| one.point == point && one.stream == place.stream);
            match known {
                Some(record) => set(&mut record.figures, size, value),
                None => {
                    let mut figures = StreamFigures::default();
                    set(&mut figures, size, value);
                    let run = self.records.iter().filter(|one| one.stream == place.stream).count() as u32;
                    let (repetition, seed, stream) = (0, 0, place.stream);
                    self.records.push(Record { run, point, repetition, seed, stream, figures });
                }
            }
        }
    }

    fn results(&mut self) -> Results {
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_key(|record| record.run);
        let planned_runs = records.last().map_or(0, |record| record.run + 1);
        Results { records, planned_runs }
    }
}

fn all(change: &Change<'_>) -> Vec<(&'static str, Results)> {
    let mut printed = Printed { records: Vec::new(), change };
    let latency = |figures: &mut StreamFigures, _, value: f64| figures.rtt_mean_ms = Some(2.0 * value);
    let threshold =
        |figures: &mut StreamFigures, _, value: f64| figures.rtt_timed_p999_ms = Some(2.0 * value);
    let user =
        |figures: &mut StreamFigures, size: f64, kbit: f64| figures.gap_mean_ms = Some(8.0 * size / kbit);
    printed.take(BASIC_RUN, "table01-basic.csv", of_voice, "average latency [ms]", latency);
    printed.take(BASIC_RUN, "table01-basic.csv", of_voice, "threshold 99.9 % [ms]", threshold);
    printed.take(
        BASIC_RUN,
        "table01-basic.csv",
        of_transfer,
        "packet rate [packets/s]",
        |figures, size, rate| {
            figures.gap_mean_ms = Some(1e3 / rate);
            figures.sent = Some(1_048_576.0 / size);
            let frame = (size + 69.0) * change(BASIC_RUN, "frame", size as u32, 0);
            figures.wire_bytes = figures.sent.map(|sent| sent * (frame - 25.0));
        },
    );
    let basic = printed.results();
    printed.take(SPPT, "table05-channels-sppt.csv", of_sppt_transfer, "user throughput [kbit/s]", user);
    printed.take(SPPT, "table06-threshold-sppt.csv", of_sppt_voice, "threshold 99.9 % [ms]", threshold);
    let sppt = printed.results();
    printed.take(MPPT, "table08-latency-mppt.csv", of_mppt_voice, "average latency [ms]", latency);
    printed.take(MPPT, "table09-threshold-mppt.csv", of_mppt_voice, "threshold 99.9 % [ms]", threshold);
    let mppt = printed.results();
    printed.take(LOSS, "table10-latency-loss.csv", of_lossy_voice, "average latency [ms]", latency);
    let loss = printed.results();
    let of = of_multicast_voice;
    printed.take(MULTICAST, "table12-latency-multicast.csv", of, "average latency [ms]", latency);
    printed.take(MULTICAST, "table13-threshold-multicast.csv", of, "threshold 99.9 % [ms]", threshold);
    vec![(BASIC_RUN, basic), (SPPT, sppt), (MPPT, mppt), (LOSS, loss), (MULTICAST, printed.results())]
}

fn verdicts(change: &Change<'_>) -> Vec<(String, bool, Option<bool>)> {
    let all = all(change);
    let evidence: Vec<_> = all.iter().map(|(key, results)| (*key, results)).collect();
    paper().judge_with(&evidence, 9, 1).into_iter().map(|j| (j.id, j.required, j.confirmed)).collect()
}

fn broken_by(change: impl Fn(&str, &str, u32, u32) -> f64) -> Vec<String> {
    let all = verdicts(&change).into_iter();
    all.filter(|(_, required, verdict)| *required && *verdict == Some(false)).map(|(id, ..)| id).collect()
}

#[test]
fn the_printed_figures_fulfil_what_the_paper_concludes_from_them() {
    for (id, required, verdict) in verdicts(&|_, _, _, _| 1.0) {
        let expected = match id.as_str() {
            own if own.starts_with("ours-") => None,
            _ => Some(required),
        };
        assert_eq!(verdict, expected, "{id}");
    }
}

#[test]
fn each_check_sees_what_breaks_it() {
    let of = |experiment: &'static str, column: &'static str, size: u32, second: u32, factor: f64| {
        broken_by(move |an, printed, n, load| {
            let here = an == experiment && printed.starts_with(column) && n == size && load == second;
            if here { factor } else { 1.0 }
        })
    };
    let broken = |found: Vec<String>, ids: &[&str]| assert_eq!(found, ids);
    // 465 packets/s; 16 bytes are then the fastest.
    broken(of(BASIC_RUN, "packet rate", 8, 0, 0.99), &["dv-01"]);
    broken(of(BASIC_RUN, "packet rate", 16, 0, 1.03), &["dv-01"]);
    broken(of(BASIC_RUN, "packet rate", 32, 0, 0.5), &["dv-01", "dv-04", "dv-23"]);
    broken(of(BASIC_RUN, "packet rate", 2048, 0, 0.7), &["dv-01", "dv-06"]);
    broken(of(BASIC_RUN, "packet rate", 4096, 0, 0.6), &["dv-05", "dv-23"]);
    broken(of(BASIC_RUN, "average latency", 4096, 0, 1.01), &["dv-02", "dv-17"]);
    broken(of(BASIC_RUN, "average latency", 16, 0, 0.99), &["dv-02", "dv-03", "dv-17"]);
    broken(of(BASIC_RUN, "threshold", 64, 0, 1.01), &["dv-03"]);
    broken(of(SPPT, "user throughput", 4096, 75, 0.9), &["dv-08"]);
    broken(of(SPPT, "threshold", 8, 75, 1.1), &["dv-10"]);
    broken(of(MPPT, "threshold", 2048, 50, 1.02), &["dv-12", "dv-20"]);
    broken(of(MPPT, "threshold", 8, 25, 0.5), &["dv-13"]);
    let all_thresholds = |_: &str, column: &str, _: u32, load: u32| {
        if column.starts_with("threshold") && load == 25 { 1.2 } else { 1.0 }
    };
    assert!(broken_by(all_thresholds).contains(&"dv-09".to_string()));
    broken(of(BASIC_RUN, "frame", 2048, 0, 1.02), &["dv-23"]);
    broken(of(MULTICAST, "average latency", 64, 0, 1.1), &["dv-16", "dv-17"]);
    broken(of(MULTICAST, "average latency", 4096, 0, 1.03), &["dv-17"]);
    broken(of(MULTICAST, "average latency", 8, 75, 0.9), &["dv-18"]);
    let none_spread = |an: &str, column: &str, _: u32, load: u32| {
        if an == MULTICAST && column.starts_with("threshold") && load == 25 { 0.7 } else { 1.0 }
    };
    assert_eq!(broken_by(none_spread), ["dv-19"]);
    // 1024 bytes take 128 ms to collect.
    broken(of(BASIC_RUN, "average latency", 1024, 0, 31.0), &["dv-02", "dv-03", "dv-17", "dv-21"]);
}

/// What the paper's own figures contradict.
#[test]
fn what_is_not_required_can_be_fulfilled() {
    let free = |id: &str, change: &Change<'_>| {
        let found = verdicts(change).into_iter().find(|(known, ..)| known == id).unwrap();
        assert_eq!((found.1, found.2), (false, Some(true)), "{id}");
    };
    let little = |an: &str, _: &str, n: u32, load: u32| {
        if an == LOSS && load > 0 && n < 128 { 0.96 } else { 1.0 }
    };
    free("dv-14", &little);
    let light = |_: &str, column: &str, n: u32, _: u32| match (column, n) {
        ("frame", 8) => 80.0 / 77.0,
        ("frame", 4096) => 4096.0 / 0.985 / 4165.0,
        _ => 1.0,
    };
    free("dv-07", &light);
    let alike = |an: &str, _: &str, n: u32, load: u32| match (an, n, load) {
        (LOSS, 32, 1) => 2.838 / 2.940,
        _ => 1.0,
    };
    free("dv-15", &alike);
    let rising = |an: &str, column: &str, _: u32, load: u32| {
        if an == MPPT && column.starts_with("average") { 1.0 + f64::from(load * load) / 500.0 } else { 1.0 }
    };
    free("dv-11", &rising);
}

/// The host's costs were set from the first two tables.
#[test]
fn what_rests_on_fitted_numbers_says_so() {
    let all = all(&|_, _, _, _| 1.0);
    let evidence: Vec<_> = all.iter().map(|(key, results)| (*key, results)).collect();
    let judged = paper().judge_with(&evidence, 9, 1);
    let verdict = |id: &str| judged.iter().find(|one| one.id == id).unwrap().verdict;
    for id in ["dv-01", "dv-02", "dv-04", "dv-05", "dv-06", "dv-16", "dv-17", "dv-18", "dv-19", "dv-21"] {
        assert_eq!(verdict(id), Verdict::HoldsByFit, "{id}");
    }
    for id in ["dv-08", "dv-09", "dv-10", "dv-12", "dv-13"] {
        assert_eq!(verdict(id), Verdict::Holds, "{id}");
    }
    // A number stands once, with all experiments that have it.
    let fits = &judged.iter().find(|one| one.id == "dv-02").unwrap().fits;
    assert_eq!(fits.len(), 3, "{fits:?}");
    assert!(fits[0].starts_with("basic, sppt_background, mppt_background and "), "{fits:?}");
    for id in ["dv-22", "dv-23"] {
        assert_eq!(verdict(id), Verdict::ByDefinition, "{id}");
    }
}

#[test]
fn the_maps_fit_the_tables() {
    for experiment in paper().experiments {
        for map in experiment.tables {
            map.assert_fits(paper().table(map.file).unwrap());
        }
    }
}

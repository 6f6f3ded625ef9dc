use super::super::judge::Verdict;
use super::super::{Paper, find};
use super::*;
use crate::figures::StreamFigures;
use crate::results::{Record, Results};

fn paper() -> &'static Paper {
    find("transport-alternatives").unwrap()
}

const TABLES: [(&str, &str); 5] = [
    (LOCALHOST, "table02-localhost.csv"),
    (CROSSOVER, "table03-crossover.csv"),
    (SWITCH, "table04-switch.csv"),
    (DIRECT, "table05-direct-wireless.csv"),
    (ACCESS_POINT, "table06-access-point.csv"),
];

/// Changes the printed latency and loss of a transport and a number of channels.
type Change<'a> = dyn Fn(&str, u32, f64, f64) -> (f64, f64) + 'a;

/// Mean round trip in ms and loss in percent: the printed ones after `change`; localhost is computer B's.
fn results(file: &str, change: &Change<'_>) -> Results {
    let table = paper().table(file).unwrap();
    let rows = (0..table.rows.len()).filter(|row| table.text(*row, "computer") != Some("A"));
    let records = rows.enumerate().map(|(run, row)| {
        let (latency, loss) =
            (table.number(row, "latency [ms]").unwrap(), table.number(row, "loss [%]").unwrap());
        let channels: u32 = table.text(row, "channels").unwrap().parse().unwrap();
        let place = by_protocol(table, row).unwrap();
        let (latency, loss) = change(&place.point[0].1, channels, latency, loss);
        let sent = 10_000.0 * f64::from(channels);
        let figures = StreamFigures {
            rtt_mean_ms: Some(latency),
            missing_percent: Some(loss),
            sent: Some(sent),
            received: Some(sent * (1.0 - loss / 100.0)),
            wire_bytes: Some(sent * 988.0),
            ..StreamFigures::default()
        };
        let point = place.point.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        Record { run: run as u32, point, repetition: 0, seed: 0, stream: AUDIO.into(), figures }
    });
    Results { records: records.collect(), planned_runs: 10 }
}

fn verdicts(change: impl Fn(&str, &str, u32, f64, f64) -> (f64, f64)) -> Vec<(String, bool, Option<bool>)> {
    let all: Vec<(&str, Results)> = TABLES
        .into_iter()
        .map(|(key, file)| (key, results(file, &|t, c, latency, loss| change(key, t, c, latency, loss))))
        .collect();
    let evidence: Vec<_> = all.iter().map(|(key, results)| (*key, results)).collect();
    paper().judge_with(&evidence, 9, 1).into_iter().map(|j| (j.id, j.required, j.confirmed)).collect()
}

fn broken_by(change: impl Fn(&str, &str, u32, f64, f64) -> (f64, f64)) -> Vec<String> {
    let all = verdicts(change).into_iter();
    all.filter(|(_, required, verdict)| *required && *verdict == Some(false)).map(|(id, ..)| id).collect()
}

#[test]
fn the_printed_figures_fulfil_what_the_paper_concludes_from_them() {
    for (id, required, verdict) in verdicts(|_, _, _, latency, loss| (latency, loss)) {
        let expected = match (id.as_str(), required) {
            (id, _) if id == "ta-13" || id.starts_with("ours-") => None,
            // Not true in print on computer A alone, which is not in these results.
            ("ta-15", _) | (_, true) => Some(true),
            (_, false) => Some(false),
        };
        assert_eq!(verdict, expected, "{id}");
    }
}

#[test]
fn each_check_sees_what_breaks_it() {
    let udp_slow = |_: &str, t: &str, _: u32, latency: f64, loss: f64| {
        (if t == UDP { latency + 0.3 } else { latency }, loss)
    };
    assert_eq!(broken_by(udp_slow), ["ta-01", "ta-06", "ta-12"]);
    let dccp_slow =
        |_: &str, t: &str, _: u32, latency: f64, loss: f64| (if t == DCCP { 90.0 } else { latency }, loss);
    assert_eq!(
        broken_by(dccp_slow),
        ["ta-01", "ta-02", "ta-04", "ta-05", "ta-06", "ta-12", "ta-17", "ta-20"]
    );
    let sctp_lossy = |_: &str, t: &str, c: u32, latency: f64, loss: f64| {
        (latency, if t == SCTP_2 && c == 1 { 0.01 } else { loss })
    };
    assert_eq!(broken_by(sctp_lossy), ["ta-07", "ta-08", "ta-20"]);
    let tcp_lossy =
        |_: &str, t: &str, _: u32, latency: f64, loss: f64| (latency, if t == TCP { 0.2 } else { loss });
    assert_eq!(broken_by(tcp_lossy), ["ta-08", "ta-10", "ta-16"]);
    let fast_air = |key: &str, _: &str, _: u32, latency: f64, loss: f64| {
        (if key == ACCESS_POINT { latency / 2.0 } else { latency }, loss)
    };
    assert_eq!(broken_by(fast_air), ["ta-12"]);
    let slow_switch = |key: &str, _: &str, _: u32, latency: f64, loss: f64| {
        (if key == SWITCH { latency + 0.06 } else { latency }, loss)
    };
    assert_eq!(broken_by(slow_switch), ["ta-11"]);
    let slow_localhost = |key: &str, _: &str, _: u32, latency: f64, loss: f64| {
        (if key == LOCALHOST { latency + 0.3 } else { latency }, loss)
    };
    assert_eq!(broken_by(slow_localhost), ["ta-14"]);
}

#[test]
fn sizes_are_read_of_what_went_over_the_cable() {
    let mut crossover = results("table03-crossover.csv", &|_, _, latency, loss| (latency, loss));
    let verdict = |crossover: &Results, id: &str| {
        let judged = paper().judge_alone(&[(CROSSOVER, crossover)]);
        judged.into_iter().find(|judgement| judgement.id == id).unwrap().verdict
    };
    assert_eq!(verdict(&crossover, "ta-18"), Verdict::ByDefinition);
    for record in &mut crossover.records {
        // One sample more.
        record.figures.wire_bytes = record.figures.sent.map(|sent| sent * 990.0);
    }
    assert_eq!(verdict(&crossover, "ta-18"), Verdict::DoesNotHold);
    assert_eq!(verdict(&crossover, "ta-19"), Verdict::NotRun);
}

/// Round trips in the mean and of 99 %, and losses, of each transport on each path.
#[test]
fn our_claims_on_internet_paths_fall_with_each_figure() {
    type Spot<'a> = (&'a str, &'a str, &'a str);
    let verdict = |id: &str, spoilt: Spot<'_>, values: [f64; 3]| {
        let mut records = Vec::new();
        for path in ["dsl", "lte", "intercontinental", "satellite"] {
            for (channels, transport) in ["1", "2"].into_iter().flat_map(|n| ALL.map(|one| (n, one))) {
                let usual = match transport {
                    UDP => [100.0, 110.0, 0.1],
                    DCCP => [101.0, 120.0, 2.0],
                    _ => [102.0, 300.0, 0.0],
                };
                let [mean, late, loss] = if spoilt == (path, channels, transport) { values } else { usual };
                let figures = StreamFigures {
                    rtt_mean_ms: Some(mean),
                    rtt_p99_ms: Some(late),
                    missing_percent: Some(loss),
                    ..StreamFigures::default()
                };
                let point = [(PATH, path), (CHANNELS, channels), (TRANSPORT, transport)];
                let point = point.map(|(key, value)| (key.to_string(), value.to_string())).to_vec();
                let run = records.len() as u32;
                records.push(Record { run, point, repetition: 0, seed: 0, stream: AUDIO.into(), figures });
            }
        }
        let results = Results { planned_runs: records.len() as u32, records };
        let judged = paper().judge_with(&[(INTERNET, &results)], 9, 1);
        judged.into_iter().find(|judgement| judgement.id == id).unwrap().confirmed
    };
    let none = ("", "", "");
    assert_eq!(verdict("ours-ta-1", none, [0.0; 3]), Some(true));
    assert_eq!(verdict("ours-ta-1", ("dsl", "2", SCTP_2), [105.1, 300.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-ta-1", ("dsl", "1", TCP), [94.9, 300.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-ta-1", ("lte", "1", TCP), [200.0, 300.0, 0.0]), Some(true));
    assert_eq!(verdict("ours-ta-2", none, [0.0; 3]), Some(true));
    assert_eq!(verdict("ours-ta-2", ("satellite", "2", SCTP_1), [102.0, 160.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-ta-2", ("intercontinental", "1", DCCP), [106.0, 120.0, 2.0]), Some(false));
    assert_eq!(verdict("ours-ta-3", none, [0.0; 3]), Some(true));
    assert_eq!(verdict("ours-ta-3", ("intercontinental", "2", DCCP), [101.0, 120.0, 0.1]), Some(false));
    assert_eq!(verdict("ours-ta-3", ("lte", "2", DCCP), [101.0, 120.0, 0.1]), Some(true));
}

/// Round trips in ms and losses in percent.
#[test]
fn our_claims_on_the_air_fall_with_each_figure() {
    type Setting = [(&'static str, &'static str); 3];
    let verdict = |id: &str, experiment: &'static str, cells: &[(Setting, [f64; 2])]| {
        let record = |(run, (setting, [rtt, loss])): (usize, &(Setting, [f64; 2]))| {
            let point = setting.map(|(key, value)| (key.to_string(), value.to_string())).to_vec();
            let figures = StreamFigures {
                rtt_mean_ms: Some(*rtt),
                missing_percent: Some(*loss),
                ..StreamFigures::default()
            };
            Record { run: run as u32, point, repetition: 0, seed: 0, stream: AUDIO.into(), figures }
        };
        let records: Vec<Record> = cells.iter().enumerate().map(record).collect();
        let results = Results { planned_runs: records.len() as u32, records };
        let judged = paper().judge_with(&[(experiment, &results)], 9, 1);
        judged.into_iter().find(|judgement| judgement.id == id).unwrap().confirmed
    };
    let dccp = |channels, stall| [(CHANNELS, channels), (STALL, stall), (TRANSPORT, DCCP)];
    let (with, without) = ("45ms/250ms", "0ms/250ms");
    let steady = [
        (dccp("1", with), [18.0, 3.0]),
        (dccp("1", without), [1.4, 0.2]),
        (dccp("2", with), [17.0, 6.0]),
        (dccp("2", without), [2.1, 0.3]),
    ];
    let sctp = |transport, outage, share| [(OUTAGE, outage), (SHARE, share), (TRANSPORT, transport)];
    let outages = [
        (sctp(SCTP_1, "12ms", "9%"), [26.0, 0.0]),
        (sctp(SCTP_1, "24ms", "18%"), [69.0, 0.0]),
        (sctp(SCTP_2, "12ms", "9%"), [26.0, 0.0]),
        (sctp(SCTP_2, "24ms", "18%"), [72.0, 0.0]),
    ];
    for (id, experiment, cells, spoilt) in [
        ("ours-ta-4", STEADY, &steady, [(0, [15.0, 3.0]), (1, [5.1, 0.2]), (3, [2.1, 0.7])]),
        ("ours-ta-5", OUTAGES, &outages, [(2, [36.1, 0.0]), (1, [53.0, 0.0]), (3, [72.0, 0.1])]),
    ] {
        assert_eq!(verdict(id, experiment, cells), Some(true), "{id}");
        for (at, values) in spoilt {
            let mut cells = *cells;
            cells[at].1 = values;
            assert_eq!(verdict(id, experiment, &cells), Some(false), "{id}: {at}");
        }
    }
}

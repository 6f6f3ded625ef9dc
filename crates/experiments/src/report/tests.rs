use antiphon_lab::figures::StreamFigures;
use antiphon_lab::results::{Record, Results};

use super::super::RealResults;
use super::*;

/// Two runs of the UDP experiment at two rates.
fn some_results() -> PaperResults {
    let record = |run: u32, rate: &str, lost: f64| Record {
        run,
        point: vec![("disturbance".into(), rate.into())],
        repetition: run % 2,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures {
            missing_percent: Some(lost),
            gap_max_ms: (rate == "0Mbit/s").then_some(213.2),
            ..StreamFigures::default()
        },
    };
    let records = vec![record(0, "0Mbit/s", 0.0), record(1, "0Mbit/s", 0.0164), record(2, "14Mbit/s", 40.0)];
    let results = Results { records, planned_runs: 330 };
    let read = |_: &Paper, experiment: &Experiment| Ok((experiment.key == "udp").then(|| results.clone()));
    let read = &mut { read };
    PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0)
}

#[test]
fn the_page_has_every_table_claim_and_labelled_number() {
    let html = some_results().page("antiphon lab report").render();
    let paper = some_results().paper;
    for claim in &paper.claims {
        assert!(html.contains(&claim.id), "{}", claim.id);
    }
    for table in paper.experiments.iter().flat_map(|experiment| experiment.tables) {
        let title = &paper.table(table.file).unwrap().title;
        let title = title.split_once(": ").map_or(&**title, |(_, title)| title);
        assert!(html.contains(&antiphon_report::escape(title)), "{title}");
    }
    assert!(html.contains("cell.wlan.slot") && html.contains("802.11b stations may join"));
    assert!(html.contains("41.369 ± 3.710") && html.contains("-1.369 (-3 %)"), "printed beside ours");
    assert!(html.contains("3 of 330 runs are done"));
    assert!(html.contains("Figure 6.4: packet loss, UDP"));
}

#[test]
fn the_page_begins_with_its_fidelity_and_its_links_lead_somewhere() {
    let html = some_results().page("antiphon lab report").render();
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [">Fidelity</h2>", ">Fitted numbers</h3>", ">Claims</h2>", "id=\"h-table-6-3\""].map(at);
    assert!(order.is_sorted(), "{order:?}");
    assert!(html.contains("<a href=\"#h-table-6-3\">Table 6.3</a>"), "a claim names its table");
    let links = html.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    for link in links {
        assert_eq!(html.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
    }
    // Of Table 6.3 the row at 0 Mbit/s, 0.0082, is met to the last digit and the one at 14 within 3.3 %; neither is fitted. Of Table 6.2 the mean longest gap is 63 % off, and the longest of all is met, and fitted.
    let fidelity = some_results().fidelity();
    assert_eq!((fidelity.free.non_zero, fidelity.free.within), (3, [2, 2, 2]));
    assert_eq!((fidelity.fitted.non_zero, fidelity.fitted.within), (1, [1, 1, 1]));
    assert!(html.contains("Ruled out by others of the paper") && html.contains("Samuelson"));
}

/// Cells that can't be are counted apart, whatever ours are.
#[test]
fn what_other_cells_rule_out_does_not_count() {
    let record = Record {
        run: 0,
        point: vec![("disturbance".into(), "16Mbit/s".into())],
        repetition: 0,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures {
            gap_mean_ms: Some(3588.3),
            gap_max_ms: Some(7.0),
            missing_percent: Some(9.0),
            ..StreamFigures::default()
        },
    };
    let results = Results { records: vec![record], planned_runs: 240 };
    let key = "simple_retransmission";
    let read = |_: &Paper, experiment: &Experiment| Ok((experiment.key == key).then(|| results.clone()));
    let read = &mut { read };
    let fidelity = PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0).fidelity();
    assert_eq!(
        (fidelity.free.non_zero, fidelity.free.within),
        (2, [1, 1, 1]),
        "the loss, and the mean of the longest gaps"
    );
    assert_eq!(
        (fidelity.ruled_out.non_zero, fidelity.ruled_out.within),
        (2, [1, 1, 1]),
        "one mean gap, one longest"
    );
}

/// What our experiment with one cause changed has stands in place of the paper's experiment where both have run.
#[test]
fn an_experiment_that_changes_a_cause_says_how_near_its_cells_come() {
    let record = |point: &[(&str, &str)], gap_max_ms: f64| Record {
        run: 0,
        point: point.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        repetition: 0,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures { gap_max_ms: Some(gap_max_ms), ..StreamFigures::default() },
    };
    // Printed are longest gaps of 0.14 s in the mean and 0.23 s at 12 Mbit/s, of 1.26 and 13.1 s at 16.
    let room = [("12Mbit/s", 139.8), ("16Mbit/s", 146.0)];
    let udp = room.map(|(rate, gap)| record(&[("disturbance", rate)], gap)).to_vec();
    let dozing = [("60ms", 1257.0), ("100ms", 1.0)];
    let dozing =
        dozing.map(|(idle, gap)| record(&[("idle", idle), ("disturbance", "16Mbit/s")], gap)).to_vec();
    let fidelity = |with_dozing: bool| {
        let read = &mut |_: &Paper, experiment: &Experiment| {
            let records = match experiment.key {
                "udp" => Some(&udp),
                "dozing" if with_dozing => Some(&dozing),
                _ => None,
            };
            Ok(records.map(|records| Results { records: records.clone(), planned_runs: 2 }))
        };
        PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0).fidelity()
    };
    let both = fidelity(true);
    assert_eq!((both.free.non_zero, both.free.within), (4, [1, 1, 2]));
    let [(_, changed)] = &both.changed[..] else { panic!("{:?}", both.changed) };
    assert_eq!((changed.non_zero, changed.within), (4, [2, 2, 3]));
    assert!(fidelity(false).changed.is_empty(), "it has not run");
}

/// Several changed causes are shown together as well, without the cells from which their numbers were set.
#[test]
fn all_changed_causes_together_leave_out_what_they_were_set_from() {
    let record = |rate: &str, idle: Option<&str>, gap_max_ms: f64| Record {
        run: 0,
        point: idle
            .map(|idle| ("idle".to_string(), idle.to_string()))
            .into_iter()
            .chain([("disturbance".into(), rate.into())])
            .collect(),
        repetition: 0,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures { gap_max_ms: Some(gap_max_ms), ..StreamFigures::default() },
    };
    let read = &mut |_: &Paper, experiment: &Experiment| {
        let records = match experiment.key {
            // Printed are 1.26 and 13.1 s at 16 Mbit/s.
            "udp" => vec![record("16Mbit/s", None, 146.0)],
            "dozing" => vec![record("16Mbit/s", Some("60ms"), 1257.0)],
            // 0.66 and 1.97 s at 6 Mbit/s, from which a scan was set, and 0.0195 and 0.0386 s at 10.
            "simple_retransmission" => vec![record("6Mbit/s", None, 115.0), record("10Mbit/s", None, 115.0)],
            "scanning" => vec![record("6Mbit/s", None, 660.0), record("10Mbit/s", None, 19.5)],
            _ => return Ok(None),
        };
        Ok(Some(Results { records, planned_runs: 2 }))
    };
    let fidelity = PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0).fidelity();
    assert_eq!((fidelity.free.non_zero, fidelity.free.within), (6, [0, 0, 0]));
    let of = |at: usize| {
        let (what, fidelity) = &fidelity.changed[at];
        (*what, fidelity.non_zero, fidelity.within)
    };
    assert_eq!(fidelity.changed.len(), 3);
    // Dozing has the mean at 16 Mbit/s. Scanning has the mean at 10, and half of the greatest, as there is one run.
    assert_eq!((of(0).1, of(0).2), (6, [1, 1, 1]));
    assert_eq!((of(1).1, of(1).2), (4, [1, 1, 2]));
    assert_eq!(of(2), ("all of these", 4, [2, 2, 3]));
}

#[test]
fn an_experiment_of_ours_shows_what_it_found() {
    let record = |run: u32, retries: &str, rate: &str, lost: f64| Record {
        run,
        point: [("transport", "arq"), ("retries", retries), ("disturbance", rate)]
            .map(|(key, value)| (key.into(), value.into()))
            .to_vec(),
        repetition: 0,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures { missing_percent: Some(lost), ..StreamFigures::default() },
    };
    let records = vec![
        record(0, "0", "6Mbit/s", 1.25),
        record(1, "0", "14Mbit/s", 2.5),
        record(2, "7", "6Mbit/s", 3.75),
    ];
    let results = Results { records, planned_runs: 3 };
    let read = &mut |_: &Paper, experiment: &Experiment| {
        Ok((experiment.key == "which_layer").then(|| results.clone()))
    };
    let some = PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0);
    let html = some.page("antiphon lab report").render();
    assert!(html.contains("An experiment of our own. 3 runs"));
    assert!(html.contains("missing, %, by disturbance"));
    for text in ["arq, retries 0", "arq, retries 7", ">14Mbit/s<", ">1.250<", ">2.500<", ">3.750<"] {
        assert!(html.contains(text), "{text}");
    }
    let charts = some.own_results(some.paper.experiment("which_layer").unwrap());
    let drawn = charts.iter().find_map(|part| match part {
        Part::Chart(chart) => Some(chart),
        _ => None,
    });
    let chart = drawn.unwrap();
    assert_eq!((chart.title.as_str(), chart.series.len()), ("arq: missing", 2));
    assert_eq!((&chart.series[0].x[..], &chart.series[1].y[..]), (&[6.0, 14.0][..], &[Some(3.75), None][..]));
}

#[test]
fn of_several_streams_in_a_run_the_mean_and_the_worst_are_shown() {
    let record = |run: u32, stream: &str, lost: f64| Record {
        run,
        point: vec![("transport".into(), "rtp".into()), ("headsets".into(), "2".into())],
        repetition: run,
        seed: 1,
        stream: stream.into(),
        figures: StreamFigures { missing_percent: Some(lost), ..StreamFigures::default() },
    };
    let records = vec![
        record(0, "audio-1", 1.0),
        record(0, "audio-2", 3.0),
        record(1, "audio-1", 1.0),
        record(1, "audio-2", 3.0),
    ];
    let results = Results { records, planned_runs: 2 };
    let read =
        &mut |_: &Paper, experiment: &Experiment| Ok((experiment.key == "headsets").then(|| results.clone()));
    let some = PaperResults::read(&["tv-audio-wlan".into()], read).unwrap().remove(0);
    let html = some.page("antiphon lab report").render();
    // Of two runs, not of four streams: they are the same, so that the interval has no width.
    for text in
        ["missing, %, by headsets", ">2 ± 0", "missing, %, worst stream of a run, by headsets", ">3 ± 0"]
    {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn the_tables_for_spreadsheets_have_a_line_for_each_printed_value() {
    let some = some_results();
    let csv = some.tables_csv();
    let cells = |paper: &Paper| -> usize {
        let maps = paper.experiments.iter().flat_map(|experiment| experiment.tables);
        maps.map(|map| map.columns.len() * paper.table(map.file).unwrap().rows.len()).sum()
    };
    assert_eq!(csv.lines().count(), 1 + cells(some.paper));
    let line = csv.lines().find(|line| line.contains("table6-3") && line.contains(",0 Mbit/s,")).unwrap();
    let fields: Vec<&str> = line.split(',').collect();
    assert_eq!(fields[7..9], ["0.0082", "0.0018"]);
    assert_eq!((fields[9], fields[11]), ("0.0082", "2"));
    assert_eq!(csv.lines().next().unwrap().split(',').count(), fields.len());
    let claims = some.claims_csv();
    assert_eq!(claims.lines().count(), 1 + some.paper.claims.len());
    assert!(claims.contains("tv-audio-wlan,tv-09,true,not-run,udp has no missing_percent"), "{claims}");
}

#[test]
fn papers_that_can_not_run_have_a_page_too() {
    let nothing = PaperResults::read(&["srp".into()], &mut |_, _| Ok(None)).unwrap().remove(0);
    let html = nothing.page("antiphon lab report srp").render();
    assert!(html.contains("srp-01") && html.contains("not run"));
}

#[test]
fn files_are_written_and_replaced() {
    let out = std::env::temp_dir().join(format!("antiphon-lab-report-{}", std::process::id()));
    for _ in 0..2 {
        let written = write_report(&[some_results()], &out, "antiphon lab report").unwrap();
        assert_eq!(written.len(), 3);
        assert!(written.iter().all(|path| std::fs::metadata(path).unwrap().len() > 200));
    }
    std::fs::remove_dir_all(&out).unwrap();
    let nowhere = write_report(&[some_results()], Path::new("/dev/null/x"), "").unwrap_err();
    assert!(nowhere.message.contains("/dev/null/x"), "{nowhere}");
}

/// SRP's UDP at one condition: 3 runs of the model, 2 on sockets.
#[test]
fn reality_stands_beside_model_and_print() {
    let record = |run: u32, lost: f64, delay: f64| Record {
        run,
        point: vec![("transport".into(), "rtp".into())],
        repetition: run,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures {
            missing_percent: Some(lost),
            delay_mean_ms: Some(delay),
            expired: Some(0.0),
            sent: Some(if delay > 30.0 { 200.0 } else { 1000.0 }),
            retransmissions: Some(if delay > 30.0 { 11.0 } else { 50.0 }),
            ..StreamFigures::default()
        },
    };
    let model = vec![record(0, 2.0, 30.0), record(1, 4.0, 30.0), record(2, 3.0, 30.0)];
    let real = vec![record(0, 2.5, 33.0), record(1, 4.5, 33.0)];
    let read = |_: &Paper, experiment: &Experiment| {
        let results = Results { records: model.clone(), planned_runs: 150 };
        Ok((experiment.key == "low_loss_low_latency").then_some(results))
    };
    let mut found = PaperResults::read(&["srp".into()], &mut { read }).unwrap().remove(0);
    assert!(!found.page("x").render().contains("Model and reality"));
    let results = Results { records: real, planned_runs: 150 };
    found
        .real
        .push(("low_loss_low_latency", RealResults { results, setting: "real, 60s".into(), machine: None }));
    let html = found.page("antiphon lab report").render();
    assert!(html.contains("Model and reality") && html.contains("2 runs of 60s"), "{html}");
    assert!(html.contains("3 in virtual time, 2 on real sockets"));
    assert!(
        html.contains("TCP is this machine&#39;s kernel") || html.contains("TCP is this machine's kernel")
    );
    let experiment = found.paper.experiment("low_loss_low_latency").unwrap();
    let rows = side_rows(found.paper, experiment, found.of(experiment.key), &found.real[0].1.results);
    let of = |figure: &str| rows.iter().find(|row| row.figure == figure);
    let lost = of("missing_percent").unwrap();
    // Means 3 and 3.5; printed in table 1e.
    assert_eq!(lost.ratio().map(|ratio| (ratio * 1e6).round()), Some(1_166_667.0));
    assert!(rows.iter().any(|row| row.printed.is_some() && row.model.is_some() && row.real.is_some()));
    assert_eq!(of("delay_mean_ms").unwrap().ratio().map(|ratio| (ratio * 10.0).round()), Some(11.0));
    // 5 and 5.5 of each 100 frames, whatever their number.
    let repeated = of("retransmissions").unwrap();
    assert_eq!(repeated.ratio().map(|ratio| (ratio * 10.0).round()), Some(11.0));
    assert_eq!(repeated.model.map(|mean| mean.value), Some(5.0));
    // Zero on both sides gets no line.
    assert!(of("expired").is_none() && of("jitter_sd_ms").is_none());
    let csv = found.sides_csv();
    let line = csv.lines().find(|line| line.contains(",delay_mean_ms,ms,")).unwrap();
    assert!(
        line.starts_with("srp,low_loss_low_latency,transport=rtp,audio,") && line.contains(",33,"),
        "{line}"
    );
    assert!(csv.lines().all(|line| line.split(',').count() == SIDES_HEAD.split(',').count()), "{csv}");
}

#[test]
fn measured_results_name_their_machine() {
    let record = Record {
        run: 0,
        point: vec![("transport".into(), "rtp".into()), ("channels".into(), "1".into())],
        repetition: 0,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures { rtt_mean_ms: Some(0.0625), ..StreamFigures::default() },
    };
    let results = Results { records: vec![record], planned_runs: 1 };
    let read =
        |_: &Paper, experiment: &Experiment| Ok((experiment.key == "localhost").then(|| results.clone()));
    let mut found = PaperResults::read(&["transport-alternatives".into()], &mut { read }).unwrap().remove(0);
    let machine = Some("a PDP-11, 1 processor".into());
    let real = RealResults { results: results.clone(), setting: "real".into(), machine };
    found.real.push(("localhost", real));
    let html = found.page("antiphon lab report").render();
    assert!(html.contains("Measured, not modelled: real sockets on a PDP-11, 1 processor"));
    assert!(html.contains("0 in virtual time, 1 on real sockets"));
    // Both readings of the printed jitter, distinguishable.
    assert!(html.contains("ours, jitter_mad_ms") && html.contains("ours, jitter_sd_ms"));
    // No model, two printed computers for the one here, and each figure beside its setting.
    assert!(html.contains("Published and measured") && !html.contains("Real : model"));
    assert!(html.contains("latency, computer A") && html.contains("latency, computer B"));
    assert!(
        html.contains("audio, UDP, 1 ch") && html.contains("UDP\u{a0}·\u{a0}1\u{a0}ch\u{a0}0.06250"),
        "{html}"
    );
}

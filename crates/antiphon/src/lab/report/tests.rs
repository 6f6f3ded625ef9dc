use antiphon_lab::figures::StreamFigures;
use antiphon_lab::results::{Record, Results};

use super::*;

/// Two runs of the UDP experiment at two rates.
fn some_results() -> PaperResults {
    let record = |run: u32, rate: &str, lost: f64| Record {
        run,
        point: vec![("disturbance".into(), rate.into())],
        repetition: run % 2,
        seed: 1,
        stream: "audio".into(),
        figures: StreamFigures { lost_percent: Some(lost), ..StreamFigures::default() },
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
    assert!(html.contains("3 of 330 runs are there"));
    assert!(html.contains("Figure 6.4: packet loss, UDP"));
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
    assert!(claims.contains("tv-audio-wlan,tv-09,true,not-run,udp has no lost_percent"), "{claims}");
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

use super::*;

fn row(better: Better, values: &[Option<f64>]) -> Row {
    Row::numbers("p99", "ms", 1, better, values)
}

#[test]
fn best_is_judged_as_printed() {
    let lower = row(Better::Lower, &[Some(1.04), Some(0.96), Some(2.0), None]);
    // 1.04 and 0.96 both print 1.0, so both are best.
    assert_eq!((0..4).map(|i| lower.is_best(i)).collect::<Vec<_>>(), [true, true, false, false]);
    // Differences of a few percent are noise.
    let near = row(Better::Lower, &[Some(29.6), Some(29.7), Some(35.1)]);
    assert_eq!((0..3).map(|i| near.is_best(i)).collect::<Vec<_>>(), [true, true, false]);
    assert!(!row(Better::Lower, &[Some(29.6), Some(29.7)]).is_best(0), "all alike");
    let higher = row(Better::Higher, &[Some(1.0), Some(3.0)]);
    assert!(higher.is_best(1) && !higher.is_best(0));
    assert!(!row(Better::Neither, &[Some(1.0), Some(3.0)]).is_best(0));
    assert!(!row(Better::Lower, &[Some(1.0), Some(1.0)]).is_best(0), "a tie of all emphasises nothing");
    assert!(!row(Better::Lower, &[Some(f64::NAN), Some(1.0)]).is_best(0));
}

#[test]
fn shares_differ_only_beyond_chance() {
    let lost = |of: u64| Row {
        samples: vec![Some(of); 2],
        ..Row::numbers("lost", "%", 3, Better::Lower, &[Some(1.23), Some(1.6)])
    };
    // 48 and 62 of 3872: chance alone makes a difference of 19 (two standard deviations).
    assert!(!lost(3_872).is_best(0));
    // The same shares of a hundred times as many packets are no chance.
    assert!(lost(387_200).is_best(0) && !lost(387_200).is_best(1));
}

#[test]
fn short_rows_read_as_not_measured() {
    let table = Table {
        columns: vec![Column::default(); 3],
        rows: vec![row(Better::Lower, &[Some(1.0)])],
        ..Table::default()
    };
    let mut out = String::new();
    table.render("t", "A title", &mut out);
    assert_eq!(out.matches("not measured").count(), 2);
}

#[test]
fn equal_sample_counts_are_said_once() {
    let mut equal = row(Better::Lower, &[Some(1.0), Some(2.0)]);
    equal.samples = vec![Some(2813), Some(2813)];
    let mut out = String::new();
    equal.render(2, None, false, &mut out);
    assert_eq!(out.matches("n = 2813").count(), 1);
    equal.samples = vec![Some(2813), Some(12)];
    out.clear();
    equal.render(2, None, false, &mut out);
    assert_eq!((out.matches("n = 2813").count(), out.matches("n = 12<").count()), (1, 1));
}

#[test]
fn a_group_says_its_sample_counts_once() {
    let counted = |group: &str, samples: [u64; 2]| Row {
        group: group.into(),
        samples: samples.map(Some).into(),
        ..row(Better::Lower, &[Some(1.0), Some(2.0)])
    };
    let mut table = Table {
        columns: vec![Column::default(); 2],
        rows: vec![counted("Latency", [7, 9]), counted("", [7, 9]), counted("Loss", [11, 13])],
        ..Table::default()
    };
    let times = |table: &Table, text: &str| {
        let mut out = String::new();
        table.render("t", "A title", &mut out);
        out.matches(text).count()
    };
    assert_eq!(["n = 7<", "n = 9<", "n = 11<"].map(|n| times(&table, n)), [1, 1, 1]);
    // With one differing row, every row of that group shows its own sample counts again.
    table.rows[1].samples[1] = Some(8);
    assert_eq!(["n = 7<", "n = 9<", "n = 8<", "n = 11<"].map(|n| times(&table, n)), [2, 1, 1, 1]);
}

#[test]
fn cells_survive_json() {
    let cells = vec![Cell::Number(1.5), Cell::from("holds"), Cell::MISSING];
    let json = serde_json::to_string(&cells).unwrap();
    assert_eq!(json, "[1.5,\"holds\",null]");
    assert_eq!(serde_json::from_str::<Vec<Cell>>(&json).unwrap(), cells);
}

#[test]
fn bars_are_drawn_against_the_largest() {
    let bars = Bars {
        classes: vec!["1".into(), "2".into()],
        series: vec![Column::default()],
        counts: vec![vec![8], vec![2]],
        ..Bars::default()
    };
    let mut out = String::new();
    bars.render("", &mut out);
    assert!(out.contains("width:100.0%") && out.contains("width:25.0%"));
}

#[test]
fn prose_gets_the_width_and_many_columns_stand_closer() {
    let columns = |n: usize| vec![Column::default(); n];
    let row = |values: Vec<Cell>| Row { label: "a".into(), values, ..Row::default() };
    let render = |table: Table| {
        let mut out = String::new();
        table.render("t", "A title", &mut out);
        out
    };
    let long = "more words than a cell keeps on one line\nand others".into();
    let words =
        render(Table { columns: columns(2), rows: vec![row(vec!["b".into(), long])], ..Table::default() });
    assert!(
        words.contains("<colgroup><col class=\"tight\"><col class=\"tight\"><col></colgroup>"),
        "{words}"
    );
    assert!(words.contains("on one line<br>and others"), "{words}");
    for (n, dense) in [(7, false), (8, true)] {
        let html =
            render(Table { columns: columns(n), rows: vec![row(vec!["b".into(); n])], ..Table::default() });
        assert_eq!(html.contains("class=\"dense\""), dense, "{n} columns");
    }
}

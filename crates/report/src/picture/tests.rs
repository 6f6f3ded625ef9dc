use super::*;

#[test]
fn ceilings_are_round() {
    for (value, nice) in [(0.0, 1.0), (1.0, 1.0), (17.0, 20.0), (61.0, 80.0), (0.043, 0.05), (f64::NAN, 1.0)]
    {
        let found = nice_above(value);
        assert!((found - nice).abs() < nice * 1e-9, "{value}: {found}");
    }
}

#[test]
fn texts_are_wrapped() {
    assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
    assert_eq!(wrap("aa bb cc dd", 2), ["aa", "bb", "cc", "dd"]);
    assert_eq!(wrap("abcdef gh", 4), ["abc\u{2026}", "gh"]);
    assert!(wrap("", 10).is_empty());
}

#[test]
fn long_runs_make_no_larger_picture() {
    let run = |frames: usize| CompareReport {
        transports: vec![TransportPanel {
            sent_ms: (0..frames).map(|i| 15_000.0 * i as f32 / frames as f32).collect(),
            latency_ms: (0..frames).map(|i| Some((i % 1000) as f32 / 10.0)).collect(),
            fate: vec![Fate::Received; frames],
            ..TransportPanel::default()
        }],
        ..CompareReport::default()
    };
    // A run that fills every position: 93 x 633 dots of 10 to 12 bytes. Half units would make it 2.9 MB.
    assert!(compare_svg(&run(200_000)).len() < 720_000);
    assert!(compare_svg(&run(3_000)).len() < 80_000);
}

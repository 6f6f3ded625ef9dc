//! The claims of ours against artificial results: each falls with each of its figures.

use super::super::ours::ON_AN_IDLE_CELL;
use super::*;

/// A stream of a run of ours: its name, the sweep's settings, and figures.
type Own = (String, Vec<(&'static str, String)>, Vec<(&'static str, f64)>);

/// Whether a claim of ours is confirmed by these runs of an experiment.
fn own_claim(id: &str, experiment: &'static str, runs: &[Own]) -> Option<bool> {
    confirmed(id, &[(experiment, &own_results(experiment, runs))])
}

fn own_results(experiment: &'static str, runs: &[Own]) -> Results {
    let mut results = Results::default();
    for (place, (stream, point, figures)) in runs.iter().enumerate() {
        let mut made_up = MadeUp::default();
        let spot = (experiment, AUDIO, "12");
        for (figure, value) in figures {
            made_up.set(spot, figure, *value);
        }
        results.records.push(Record {
            run: place as u32,
            point: point.iter().map(|(key, value)| ((*key).into(), value.clone())).collect(),
            repetition: 0,
            seed: 1,
            stream: stream.clone(),
            figures: made_up.0[&spot],
        });
    }
    results
}

fn confirmed(id: &str, evidence: &[(&str, &Results)]) -> Option<bool> {
    let judgements = tv().judge_with(evidence, 9, 1);
    let ours = judgements.into_iter().find(|judgement| judgement.id == id).unwrap();
    assert!(ours.own);
    ours.confirmed
}

/// Losses at 12 Mbit/s and longest gaps at 14 to 20, with both rate controls.
#[test]
fn our_claim_on_rate_control_falls_with_either_figure() {
    let verdict = |loss: f64, gap_ms: f64, spoilt: (&str, u32)| {
        let mut runs = Vec::new();
        for control in ["arf", "minstrel"] {
            for rate in [12, 14, 16, 18, 20] {
                let (loss, gap_ms) = if (control, rate) == spoilt { (loss, gap_ms) } else { (30.0, 200.0) };
                let figures = [("missing_percent", loss), ("gap_max_ms", gap_ms)];
                let point = vec![(CONTROL, control.into()), at_rate(&rate.to_string())];
                runs.push((AUDIO.into(), point, figures.into()));
            }
        }
        own_claim("ours-tv-1", "rate_control", &runs)
    };
    assert_eq!(verdict(30.0, 200.0, ("arf", 12)), Some(true));
    assert_eq!(verdict(19.0, 200.0, ("arf", 12)), Some(false));
    assert_eq!(verdict(19.0, 200.0, ("minstrel", 12)), Some(false));
    assert_eq!(verdict(19.0, 200.0, ("minstrel", 14)), Some(true), "only 12 Mbit/s count");
    assert_eq!(verdict(30.0, 640.0, ("arf", 14)), Some(false));
    assert_eq!(verdict(30.0, 640.0, ("minstrel", 20)), Some(false));
}

/// Longest gaps from 10 to 18 Mbit/s, what is lost at 20, and long gaps of a client that waits longer.
#[test]
fn our_claim_on_dozing_falls_with_each_figure() {
    let verdict = |spoilt: (&str, u32, &str), value: f64| {
        let mut runs = Vec::new();
        for idle in ["60ms", "100ms"] {
            for (rate, longest) in [(10, 140.0), (14, 700.0), (16, 1_100.0), (18, 1_300.0), (20, 1_300.0)] {
                let usual = [
                    ("gap_max_ms", longest),
                    ("missing_percent", 90.0),
                    ("gaps_above_80ms", if idle == "60ms" { 30.0 } else { 4.0 }),
                ];
                let spoil =
                    |(figure, usual)| (figure, if (idle, rate, figure) == spoilt { value } else { usual });
                let point = vec![(IDLE, idle.into()), at_rate(&rate.to_string())];
                runs.push((AUDIO.into(), point, usual.map(spoil).into()));
            }
        }
        own_claim("ours-tv-11", "dozing", &runs)
    };
    assert_eq!(verdict(("60ms", 12, "gap_max_ms"), 0.0), Some(true), "no figure changed");
    assert_eq!(verdict(("60ms", 10, "gap_max_ms"), 300.0), Some(false));
    for (rate, below, above) in [(14, 317.0, 1_271.0), (16, 628.0, 2_515.0), (18, 1_032.0, 4_132.0)] {
        assert_eq!(verdict(("60ms", rate, "gap_max_ms"), below), Some(false), "{rate}");
        assert_eq!(verdict(("60ms", rate, "gap_max_ms"), above), Some(false), "{rate}");
    }
    assert_eq!(verdict(("60ms", 20, "missing_percent"), 80.0), Some(false));
    assert_eq!(verdict(("100ms", 14, "gaps_above_80ms"), 15.0), Some(false));
}

/// Losses and duplicates where repetitions load nothing, from 14 to 20 Mbit/s.
#[test]
fn our_claim_on_repetitions_that_load_nothing_falls_with_each_figure() {
    let verdict = |spoilt: (u32, &str), value: f64| {
        let runs = [(14, 3.0, 4_400.0), (16, 8.4, 3_100.0), (18, 15.5, 2_400.0), (20, 25.4, 1_600.0)];
        let runs = runs.map(|(rate, lost, duplicates)| {
            let usual = [("missing_percent", lost), ("duplicate", duplicates)];
            let spoil = |(figure, usual)| (figure, if (rate, figure) == spoilt { value } else { usual });
            (AUDIO.into(), vec![at_rate(&rate.to_string())], usual.map(spoil).into())
        });
        own_claim("ours-tv-12", "independent_losses", &runs)
    };
    assert_eq!(verdict((12, "missing_percent"), 0.0), Some(true), "no figure changed");
    // Printed are 4.34, 8.99, 13.8 and 22.4 %, and 5515, 3931, 2935 and 2035 duplicates.
    for (rate, low, high, few, many) in [
        (14, 2.60, 6.09, 3_308.0, 7_721.0),
        (16, 5.39, 12.60, 2_358.0, 5_504.0),
        (18, 8.29, 19.37, 1_761.0, 4_110.0),
        (20, 13.41, 31.31, 1_221.0, 2_850.0),
    ] {
        for (figure, value) in
            [("missing_percent", low), ("missing_percent", high), ("duplicate", few), ("duplicate", many)]
        {
            assert_eq!(verdict((rate, figure), value), Some(false), "{rate}: {figure} {value}");
        }
    }
}

/// What a scan loses at 6 Mbit/s for each long gap, and the longest gap at 10.
#[test]
fn our_claim_on_scans_falls_with_each_figure() {
    let verdict = |lost_percent: f64, gaps: f64, longest_ms: f64| {
        let run = |rate: &str, figures: &[(&'static str, f64)]| -> Own {
            (AUDIO.into(), vec![at_rate(rate)], figures.into())
        };
        let runs = [
            run("6", &[("missing_percent", lost_percent), ("gaps_above_80ms", gaps)]),
            run("10", &[("gap_max_ms", longest_ms)]),
        ];
        own_claim("ours-tv-13", "scanning", &runs)
    };
    assert_eq!(verdict(1.44, 1.0 / 3.0, 21.5), Some(true));
    // 154 packets for each gap are printed, so 103 to 205.
    assert_eq!(verdict(0.83, 1.0 / 3.0, 21.5), Some(false));
    assert_eq!(verdict(1.70, 1.0 / 3.0, 21.5), Some(false));
    assert_eq!(verdict(1.44, 0.2, 21.5), Some(false));
    // 19.5 ms are printed.
    assert_eq!(verdict(1.44, 1.0 / 3.0, 26.1), Some(false));
    assert_eq!(verdict(1.44, 1.0 / 3.0, 12.9), Some(false));
}

/// Losses of both protocols by MAC retransmissions, and the skew without them.
#[test]
fn our_claims_on_the_layer_fall_with_each_figure() {
    let verdict = |id: &str, spoilt: (&str, &str, u32), loss: f64, empty: f64| {
        let mut runs = Vec::new();
        for transport in [PUBLISHED, IMPROVED] {
            for retries in ["0", "3", "7", "15"] {
                for rate in [6, 10, 12, 14, 20] {
                    let usual = (if retries == "0" { 1.0 } else { 2.0 }, 0.3);
                    let spoils = (transport, retries, rate) == spoilt;
                    let (loss, empty) = if spoils { (loss, empty) } else { usual };
                    let figures = vec![
                        ("missing_percent", loss),
                        ("buffer_empty_numbered_per_1000", empty),
                        ("buffer_not_full_numbered_per_1000", 0.2),
                    ];
                    let point = vec![
                        (RETRIES, retries.into()),
                        at_rate(&rate.to_string()),
                        (TRANSPORT, transport.into()),
                    ];
                    runs.push((AUDIO.into(), point, figures));
                }
            }
        }
        own_claim(id, "which_layer", &runs)
    };
    let none = ("", "", 0);
    assert_eq!(verdict("ours-tv-2", none, 0.0, 0.0), Some(true));
    assert_eq!(verdict("ours-tv-2", (IMPROVED, "0", 20), 2.1, 0.3), Some(false));
    assert_eq!(verdict("ours-tv-2", (IMPROVED, "15", 6), 0.9, 0.3), Some(false));
    assert_eq!(
        verdict("ours-tv-2", (IMPROVED, "0", 14), 1.0, 0.9),
        Some(false),
        "0.9 empty and 0.2 not full"
    );
    assert_eq!(verdict("ours-tv-2", (IMPROVED, "0", 20), 1.0, 9.0), Some(true), "the skew counts up to 14");
    assert_eq!(verdict("ours-tv-3", none, 0.0, 0.0), Some(true));
    assert_eq!(verdict("ours-tv-3", (PUBLISHED, "0", 12), 2.1, 0.3), Some(false));
    assert_eq!(verdict("ours-tv-3", (PUBLISHED, "7", 20), 0.9, 0.3), Some(false));
}

/// Losses of the last headset: those that fit lose 1 %, others 40.
#[test]
fn our_claims_on_headsets_fall_with_the_worst_of_them() {
    let verdict = |id: &str, spoilt: (&str, &str, u32, u32), loss: f64| {
        let mut runs = Vec::new();
        for access in ["dcf", "edca"] {
            for transport in HEADSET_TRANSPORTS {
                let (_, most, too_many) =
                    *ON_AN_IDLE_CELL.iter().find(|(name, ..)| name == transport).expect("of each transport");
                for (rate, headsets) in [(10, 4), (10, 8), (0, most), (0, too_many)] {
                    let fits = match (rate, access) {
                        (0, _) => headsets == most,
                        (_, "dcf") => headsets < 4,
                        _ => true,
                    };
                    let usual = if fits { 1.0 } else { 40.0 };
                    for n in 1..=headsets {
                        let spoils = n == headsets && (access, *transport, rate, headsets) == spoilt;
                        let fits_last = if n == headsets { usual } else { 1.0 };
                        let point = vec![
                            (ACCESS, access.into()),
                            (TRANSPORT, (*transport).into()),
                            at_rate(&rate.to_string()),
                            (HEADSETS, headsets.to_string()),
                        ];
                        let loss = if spoils { loss } else { fits_last };
                        runs.push((format!("{AUDIO}-{n}"), point, vec![("missing_percent", loss)]));
                    }
                }
            }
        }
        own_claim(id, "headsets", &runs)
    };
    let none = ("", "", 0, 0);
    assert_eq!(verdict("ours-tv-4", none, 0.0), Some(true));
    assert_eq!(verdict("ours-tv-4", ("dcf", "arq", 0, 8), 1.81), Some(false));
    assert_eq!(verdict("ours-tv-4", ("dcf", "rtp", 0, 14), 1.81), Some(false));
    assert_eq!(verdict("ours-tv-4", ("dcf", "rtp", 0, 16), 1.79), Some(false));
    assert_eq!(verdict("ours-tv-4", ("dcf", "dccp", 0, 14), 1.79), Some(false));
    assert_eq!(verdict("ours-tv-4", ("edca", "srp", 0, 12), 1.81), Some(true), "without categories");
    assert_eq!(verdict("ours-tv-5", none, 0.0), Some(true));
    assert_eq!(verdict("ours-tv-5", ("dcf", "srp", 10, 4), 1.79), Some(false));
    assert_eq!(verdict("ours-tv-5", ("edca", "sctp", 10, 8), 1.81), Some(false));
}

#[test]
fn our_claim_on_categories_falls_with_each_figure() {
    let verdict = |spoilt: (&str, u32), [loss, empty, not_full]: [f64; 3]| {
        let mut runs = Vec::new();
        for transport in ["rtp", "tcp", PUBLISHED, IMPROVED] {
            for rate in [6, 10, 12, 14, 16, 20] {
                let spoils = (transport, rate) == spoilt;
                let [loss, empty, not_full] = if spoils { [loss, empty, not_full] } else { [1.0, 0.3, 0.3] };
                let point =
                    vec![(ACCESS, "edca".into()), (TRANSPORT, transport.into()), at_rate(&rate.to_string())];
                let figures = vec![
                    ("missing_percent", loss),
                    ("buffer_empty_numbered_per_1000", empty),
                    ("buffer_not_full_numbered_per_1000", not_full),
                ];
                runs.push((AUDIO.into(), point, figures));
            }
        }
        own_claim("ours-tv-6", "edca", &runs)
    };
    assert_eq!(verdict(("", 0), [0.0; 3]), Some(true));
    assert_eq!(verdict(("rtp", 20), [1.81, 0.3, 0.3]), Some(false));
    assert_eq!(verdict((PUBLISHED, 6), [1.0, 0.8, 0.3]), Some(false));
    assert_eq!(verdict((IMPROVED, 14), [1.0, 0.3, 0.8]), Some(false));
    assert_eq!(verdict(("tcp", 12), [1.79, 0.3, 0.3]), Some(true));
}

/// A headset's loss in percent, of a stream to each or of the group.
type Headset<'a> = (&'a str, &'a str, u32, u32, f64);

/// Losses of the last headset in (access, protection, disturbance, headsets): those that fit lose 1 %, others 5.
#[test]
fn our_claims_on_multicast_fall_with_the_worst_headset() {
    let verdict = |id: &str, of_group: Headset<'_>, of_streams: Headset<'_>| {
        let (mut group, mut streams) = (Vec::new(), Vec::new());
        for access in ["dcf", "edca"] {
            for (rate, headsets) in [(0, 32), (10, 2), (10, 8)] {
                let point = |more: (&'static str, String)| {
                    vec![
                        (ACCESS, access.into()),
                        at_rate(&rate.to_string()),
                        (HEADSETS, headsets.to_string()),
                        more,
                    ]
                };
                for protect in ["none", "repeat:2,spacing=20ms"] {
                    let (a, p, r, h, loss) = of_group;
                    let usual = if rate == 0 && protect != "none" { 1.0 } else { 5.0 };
                    let last = if (a, p, r, h) == (access, protect, rate, headsets) { loss } else { usual };
                    for n in 1..=headsets {
                        let name = if n == 1 { AUDIO.into() } else { format!("{AUDIO}@client-{n}") };
                        let loss = if n == headsets { last } else { usual.min(1.0) };
                        group.push((name, point((PROTECT, protect.into())), vec![("missing_percent", loss)]));
                    }
                }
                let (a, _, r, h, loss) = of_streams;
                let last = if (a, r, h) == (access, rate, headsets) { loss } else { 1.0 };
                for n in 1..=headsets {
                    let loss = if n == headsets { last } else { 1.0 };
                    let name = format!("{AUDIO}-{n}");
                    streams.push((name, point((TRANSPORT, "rtp".into())), vec![("missing_percent", loss)]));
                }
            }
        }
        let (group, streams) = (own_results("multicast", &group), own_results("headsets", &streams));
        confirmed(id, &[("multicast", &group), ("headsets", &streams)])
    };
    let none = ("", "", 0, 0, 0.0);
    let twice = "repeat:2,spacing=20ms";
    assert_eq!(verdict("ours-tv-7", none, none), Some(true));
    assert_eq!(verdict("ours-tv-7", ("dcf", twice, 0, 32, 1.81), none), Some(false));
    assert_eq!(verdict("ours-tv-7", ("dcf", "none", 0, 32, 1.79), none), Some(false));
    assert_eq!(verdict("ours-tv-7", ("edca", "none", 0, 32, 1.79), none), Some(true), "without 802.11e");
    assert_eq!(verdict("ours-tv-8", none, none), Some(true));
    for (access, protect) in [("dcf", "none"), ("dcf", twice), ("edca", "none"), ("edca", twice)] {
        assert_eq!(
            verdict("ours-tv-8", (access, protect, 10, 2, 1.79), none),
            Some(false),
            "{access} {protect}"
        );
    }
    assert_eq!(verdict("ours-tv-8", none, ("dcf", "", 10, 2, 1.81)), Some(false));
    assert_eq!(verdict("ours-tv-8", none, ("edca", "", 10, 8, 1.81)), Some(false));
    assert_eq!(verdict("ours-tv-8", none, ("dcf", "", 10, 8, 50.0)), Some(true));
}

/// Duplicates, and those of late packets, lost and unread acknowledgements.
#[test]
fn our_claims_on_duplicates_fall_with_each_cause() {
    const FIGURES: [&str; 4] =
        ["duplicate", "duplicate_packet_late", "duplicate_ack_lost", "duplicate_ack_unread"];
    let verdict = |id: &str, spoilt: (&str, &str, u32), values: [f64; 4]| {
        let mut runs = Vec::new();
        for work in ["turn=0ms", "turn=4.7ms", "repetition=3ms"] {
            for tick in ["0.1ms", "0.3ms", "1ms", "3ms", "10ms"] {
                for rate in [6, 10, 12, 14, 20] {
                    let usual = match (work, rate) {
                        ("turn=0ms" | "repetition=3ms", 6) => [20.0, 20.0, 0.0, 0.0],
                        ("turn=0ms" | "repetition=3ms", _) => [1000.0, 900.0, 0.0, 0.0],
                        _ => [5000.0, 1000.0, 0.0, 3000.0],
                    };
                    let values = if (work, tick, rate) == spoilt { values } else { usual };
                    let point = vec![(WORK, work.into()), (TICK, tick.into()), at_rate(&rate.to_string())];
                    runs.push((AUDIO.into(), point, FIGURES.into_iter().zip(values).collect()));
                }
            }
        }
        own_claim(id, "duplicates", &runs)
    };
    let none = ("", "", 0);
    assert_eq!(verdict("ours-tv-9", none, [0.0; 4]), Some(true));
    assert_eq!(verdict("ours-tv-9", ("turn=0ms", "10ms", 12), [1000.0, 790.0, 0.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-tv-9", ("turn=0ms", "0.1ms", 20), [1000.0, 900.0, 11.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-tv-9", ("turn=0ms", "3ms", 14), [1000.0, 900.0, 5.0, 6.0]), Some(false));
    assert_eq!(
        verdict("ours-tv-9", ("turn=0ms", "3ms", 10), [1000.0, 0.0, 0.0, 0.0]),
        Some(true),
        "from 12 Mbit/s"
    );
    assert_eq!(
        verdict("ours-tv-9", ("repetition=3ms", "1ms", 12), [1000.0, 790.0, 0.0, 0.0]),
        Some(false),
        "the program that is slow where it repeats"
    );
    assert_eq!(verdict("ours-tv-10", none, [0.0; 4]), Some(true));
    assert_eq!(verdict("ours-tv-10", ("turn=0ms", "1ms", 6), [100.0, 100.0, 0.0, 0.0]), Some(false));
    assert_eq!(verdict("ours-tv-10", ("turn=4.7ms", "1ms", 6), [4055.0, 0.0, 0.0, 4055.0]), Some(false));
    let repeated = ("repetition=3ms", "1ms", 6);
    assert_eq!(verdict("ours-tv-10", repeated, [100.0, 100.0, 0.0, 0.0]), Some(false));
    for rate in [6, 12] {
        let half = [9000.0, 4500.0, 0.0, 4500.0];
        assert_eq!(verdict("ours-tv-10", ("turn=4.7ms", "1ms", rate), half), Some(false), "{rate}");
    }
}

//! The complete report: no input becomes markup, nothing is fetched, nothing is missing.

mod markup;
mod picture;

use antiphon_core::Rng;
use antiphon_report::{
    Better, Card, Clip, Command, CompareReport, Fate, Limit, LinkNote, Row, TradeOff, TransportPanel,
    compare_svg, render_compare,
};
use markup::{tags, well_formed};

const HOSTILE: &str =
    "</script></style></title><img src=x onerror=alert(1)>\"' onload='x' <!-- ]]> &amp; \u{0}\u{2028}";

const PURPOSES: [&str; 5] =
    ["Play together", "TV sound on headphones", "Record without loss", "Talk", "Send to many"];

fn advice(purpose: &str) -> Card {
    Card {
        heading: purpose.into(),
        answer: "proto0".into(),
        gloss: format!("plain words for {purpose}"),
        sentence: format!("A sentence for {purpose}."),
        others: "proto1 would do as well.".into(),
        because: "R 93.2 (MOS 4.41) at 20 ms mouth to ear".into(),
        confidence: Some(0.9),
        sureness: "90 % sure".into(),
        commands: ["receiving", "sending"]
            .map(|side| Command {
                place: format!("On the {side} computer"),
                line: format!("antiphon {side}"),
            })
            .to_vec(),
        ..Card::default()
    }
}

/// `transports` runs of `packets` packets with losses, jitter and every fate.
fn report(transports: usize, frames: usize) -> CompareReport {
    let panel = |t: usize| {
        let mut rng = Rng::fork(1, &format!("panel {t}"));
        let mut panel = TransportPanel {
            name: format!("proto{t}"),
            title: format!("Protocol {t}"),
            playout_target_ms: Some(40.0 + t as f32),
            heard: Some(Clip {
                title: format!("heard {t}"),
                file: format!("heard-proto{t}.flac"),
                seconds: 16.0,
                peaks: vec![0.5; 1600],
                ..Clip::default()
            }),
            ..TransportPanel::default()
        };
        for i in 0..frames {
            let fate = if rng.chance(0.05) { Fate::ALL[rng.below(6) as usize] } else { Fate::Received };
            let came = !matches!(fate, Fate::Lost | Fate::Expired);
            panel.sent_ms.push(i as f32 * 5.333 + rng.unit() as f32);
            panel.latency_ms.push(came.then_some(8.0 + rng.exponential() as f32 * 6.0));
            panel.fate.push(fate);
        }
        panel.mouth_to_ear_ms = panel.latency_ms.iter().map(|l| l.map(|l| 5.333 + l / 2.0)).collect();
        panel
    };
    let panels: Vec<_> = (0..transports).map(panel).collect();
    let row = |label: &str, scale: f64| Row {
        definition: format!("Definition of {label}."),
        samples: vec![Some(frames as u64); transports],
        key: true,
        ..Row::numbers(
            label,
            "ms",
            2,
            Better::Lower,
            &(0..transports).map(|t| Some(scale + t as f64)).collect::<Vec<_>>(),
        )
    };
    CompareReport {
        title: "A comparison".into(),
        lead: "What was done.".into(),
        meta: vec![("Streamed".into(), "a clip".into())],
        command: "antiphon compare --seed 7".into(),
        link: LinkNote {
            name: "wifi-home".into(),
            limits: vec!["No contention.".into()],
            ..LinkNote::default()
        },
        table: vec![row("p50", 1000.25), row("p99", 2000.25), row("loss", 3000.25)],
        advice: PURPOSES.map(advice).to_vec(),
        limits: vec![
            Limit { purpose: "play together".into(), mouth_to_ear_ms: 30.0 },
            Limit { purpose: "talk".into(), mouth_to_ear_ms: 150.0 },
        ],
        listening: "Each had its own copy.".into(),
        notes: vec!["media threads: ordinary".into()],
        trade_off: TradeOff::from_frames(&panels),
        original: Some(Clip { title: "original".into(), file: "original.flac".into(), ..Clip::default() }),
        transports: panels,
        ..CompareReport::default()
    }
}

/// The same report with every string replaced by one that attempts an injection.
fn hostile() -> CompareReport {
    fn poison(value: &mut serde_json::Value) {
        match value {
            // Fates and directions are our own words; all other strings come from outside.
            serde_json::Value::String(text) if text.is_empty() || is_ours(text) => {}
            serde_json::Value::String(text) => *text = format!("{HOSTILE}{text}"),
            serde_json::Value::Array(items) => items.iter_mut().for_each(poison),
            serde_json::Value::Object(map) => map.values_mut().for_each(poison),
            _ => {}
        }
    }
    fn is_ours(text: &str) -> bool {
        Fate::ALL.iter().any(|f| f.word() == text) || ["lower", "higher", "neither"].contains(&text)
    }
    let mut value = serde_json::to_value(report(2, 50)).unwrap();
    poison(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn strings_from_outside_do_nothing() {
    let (clean, dirty) = (render_compare(&report(2, 50)), render_compare(&hostile()));
    let names = |html: &str| tags(html).into_iter().map(|t| t.0).collect::<Vec<_>>();
    // A file whose name leads outside the directory gets a sentence instead of a player, and long texts more lines of the
    // still picture.
    let differ = ["audio", "p", "text"];
    let without =
        |names: Vec<String>| names.into_iter().filter(|n| !differ.contains(&n.as_str())).collect::<Vec<_>>();
    assert_eq!(without(names(&clean)), without(names(&dirty)));
    let count = |html: &str, name: &str| names(html).iter().filter(|n| *n == name).count();
    let [audio, p, text] = differ.map(|name| [count(&clean, name), count(&dirty, name)]);
    assert_eq!((audio, p[1] - p[0]), ([3, 0], 3), "a sentence for each player");
    assert!((text[0]..text[0] + 3).contains(&text[1]), "lines of the picture: {text:?}");
    for (name, attributes) in tags(&dirty) {
        let bare: String = attributes.split('"').step_by(2).collect();
        assert!(
            !bare.split([' ', '=', '\n', '/']).any(|name| name.to_lowercase().starts_with("on")),
            "an attribute of <{name}> could run: {attributes}"
        );
    }
    assert!(dirty.contains("&lt;img src=x onerror=alert(1)&gt;"), "and the reader still sees it");
}

#[test]
fn nothing_is_fetched() {
    let html = render_compare(&report(3, 200));
    for (name, attributes) in tags(&html) {
        assert!(
            !["img", "iframe", "object", "embed", "base", "form", "source", "video"].contains(&name.as_str()),
            "<{name}>"
        );
        for key in ["src=\"", "href=\"", "data=\"", "action=\"", "poster=\""] {
            let Some((_, value)) = attributes.split_once(key) else {
                continue;
            };
            let value = value.split('"').next().unwrap();
            let fine = match name.as_str() {
                "a" => value.starts_with('#'),
                "link" => value == "data:,",
                "audio" => value.ends_with(".flac") && !value.contains(':') && !value.starts_with('/'),
                _ => attributes.contains(&format!("data-{key}")),
            };
            assert!(fine, "<{name} {attributes}>");
        }
    }
    // The only address in the file is in uPlot's own comment.
    let addresses: Vec<_> = html.match_indices("://").map(|(i, _)| &html[i - 5..i + 30]).collect();
    assert!(addresses.iter().all(|a| a.contains("://github.com/leeoniya/uPlot")), "{addresses:?}");
    assert!(html.contains("default-src 'none'; script-src 'sha256-"));
}

#[test]
fn seven_transports_of_3000_frames_fit_a_megabyte() {
    let html = render_compare(&report(7, 3000));
    // One column more per transport would add 90 kB, one series kept as text 300 kB: both would show.
    assert!(html.len() < 800_000, "{}", html.len());
    assert!(compare_svg(&report(7, 3000)).len() < 300_000);
}

#[test]
fn all_that_was_given_is_there() {
    let html = render_compare(&report(7, 100));
    let body = &html[html.find("<main").unwrap()..html.find("id=\"columns\"").unwrap()];
    for t in 0..7 {
        for value in [format!("{}.25", 1000 + t), format!("{}.25", 2000 + t), format!("{}.25", 3000 + t)] {
            assert!(body.contains(&value), "{value}");
        }
        assert!(body.contains(&format!("src=\"heard-proto{t}.flac\"")));
        assert!(body.contains(&format!("Protocol {t}")));
    }
    for text in [
        "p50",
        "Definition of p99.",
        "n = 100",
        "What was done.",
        "antiphon compare --seed 7",
        "No contention.",
        "original.flac",
        "90 % sure",
        "1 in 1000 missed",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

/// `html` without folded parts, scripts and styles: what a reader sees at once.
fn unfolded(html: &str) -> String {
    let mut seen = html.to_string();
    for tag in ["script", "style", "details"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        // From the last to the first, so that one within another goes before it.
        while let Some(start) = seen.rfind(&open) {
            let end = seen[start..].find(&close).expect("closed") + start + close.len();
            seen.replace_range(start..end, "");
        }
    }
    seen
}

#[test]
fn every_card_has_its_answer_in_sight_and_the_rest_folded() {
    let html = render_compare(&report(2, 50));
    let seen = unfolded(&html);
    assert_eq!(seen.matches("<article class=\"card\">").count(), 5);
    for purpose in PURPOSES {
        for text in [
            format!("<h3>{purpose}</h3>"),
            format!("plain words for {purpose}"),
            format!("A sentence for {purpose}."),
        ] {
            assert!(seen.contains(&text), "{text}");
        }
    }
    assert_eq!(seen.matches("90 % sure").count(), 5);
    for text in ["antiphon sending", "antiphon receiving", "On the sending computer", "R 93.2 (MOS"] {
        assert!(html.contains(text) && !seen.contains(text), "{text} is folded");
    }
    assert!(!seen.contains("MOS"), "no figure of the E-model in sight");
}

#[test]
fn answer_then_sound_then_curves_then_the_run() {
    let html = render_compare(&report(2, 50));
    let main = html.find("<main").unwrap();
    let at = |text: &str| html[main..].find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [
        "class=\"cards\"",
        "data-figure=\"listen\"",
        "What a shorter delay would cost</h2>",
        "Latency over time</h2>",
        "Loss map</h2>",
        "Figures</h2>",
        "The link and its limits</h2>",
        "This run</h2>",
        "antiphon compare --seed 7",
    ];
    let places: Vec<usize> = order.iter().map(|text| at(text)).collect();
    assert!(places.is_sorted(), "{places:?}");
    // Run data and the command are nowhere else.
    let before = &html[..main + places[7]];
    assert!(!before.contains("antiphon compare --seed 7") && !before.contains("<dt>Streamed</dt>"));
}

#[test]
fn headings_go_down_one_level_at_a_time() {
    for report in [report(3, 60), report(1, 0), CompareReport::default()] {
        let html = render_compare(&report);
        let levels = tags(&html)
            .into_iter()
            .filter_map(|(name, _)| name.strip_prefix('h').and_then(|level| level.parse::<u8>().ok()))
            .collect::<Vec<_>>();
        assert_eq!((levels[0], levels.iter().filter(|level| **level == 1).count()), (1, 1));
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    }
}

#[test]
fn every_axis_has_a_unit() {
    let html = render_compare(&report(3, 60));
    let charts: Vec<&str> = html.split("<figure class=\"chart\"").skip(1).collect();
    assert_eq!(charts.len(), 2);
    for (chart, y) in charts.iter().zip(["packets still missing (share of all)", "latency (ms)"]) {
        assert!(chart.contains(&format!("<p class=\"axis\" aria-hidden=\"true\">{y}</p>")), "{y}");
        let json = chart.split_once("<script type=\"application/json\">").unwrap().1;
        let spec: serde_json::Value =
            serde_json::from_str(json.split_once("</script>").unwrap().0).expect("the chart's data");
        for axis in ["x", "y"] {
            assert_ne!(spec[axis]["unit"], "", "{axis} of {y}");
        }
        if y.starts_with("packets") {
            let x = ["label", "scale", "unit"].map(|field| &spec["x"][field]);
            assert_eq!(x, ["mouth to ear", "linear", "ms"]);
        }
    }
}

#[test]
fn limits_are_marked_where_delays_are_from_mouth_to_ear() {
    let known = report(2, 50);
    let marks = |report: &CompareReport| {
        let html = render_compare(report);
        let chart = html.split("<figure class=\"chart\"").nth(1).unwrap().to_string();
        ["play together 30\u{202f}ms", "talk 150\u{202f}ms"].map(|mark| chart.contains(mark))
    };
    assert_eq!(marks(&known), [true, true]);
    let mut unknown = known;
    unknown.transports.iter_mut().for_each(|t| t.mouth_to_ear_ms.clear());
    assert_eq!(marks(&unknown), [false, false], "a round trip has no such limit");
}

#[test]
fn the_player_switches_between_all_sounds_and_marks_losses() {
    let html = render_compare(&report(2, 400));
    let player = html.split_once("data-figure=\"listen\"").unwrap().1.split_once("</section>").unwrap().0;
    assert_eq!(player.matches("type=\"radio\" name=\"listen\"").count(), 3);
    for part in ["class=\"wave js\"", "class=\"next\"", "class=\"previous\"", "role=\"slider\""] {
        assert!(player.contains(part), "{part}");
    }
    for (i, file) in ["original.flac", "heard-proto0.flac", "heard-proto1.flac"].iter().enumerate() {
        let audio = player.split("<audio").nth(i + 1).unwrap().split('>').next().unwrap();
        assert!(audio.contains(file) && audio.contains(&format!("data-clip=\"{i}\"")), "{audio}");
    }
    let json = player.split_once("<script type=\"application/json\">").unwrap().1;
    let spec: serde_json::Value = serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(spec["clips"][1]["name"], "proto0");
    assert_ne!(spec["clips"][1]["from"], spec["clips"][0]["from"], "the original has no losses");
}

#[test]
fn maps_without_a_mark_take_one_line() {
    let mut whole = report(2, 50);
    whole.transports[0].fate = vec![Fate::Received; 50];
    whole.transports[0].hides_repairs = true;
    whole.transports.push(TransportPanel {
        name: "repairs".into(),
        fate: [vec![Fate::Received; 49], vec![Fate::Recovered]].concat(),
        ..TransportPanel::default()
    });
    let html = render_compare(&whole);
    let folded = html.split_once("<details class=\"strip\">").expect("repairs alone are folded").1;
    assert!(folded.split_once("</details>").unwrap().0.contains("50 packets: 1 recovered"));
    assert_eq!(html.matches("class=\"cells\"").count(), 2);
    assert!(html.contains("50 packets, all received; losses that were repaired do not show"));
}

#[test]
fn regions_have_names_of_their_own() {
    let html = render_compare(&report(2, 400));
    let labels: Vec<String> = tags(&html)
        .into_iter()
        .filter(|(_, attributes)| attributes.contains("role=\"region\""))
        .map(|(_, attributes)| attributes.split_once("aria-label=\"").unwrap().1.to_string())
        .collect();
    let different: std::collections::BTreeSet<&String> = labels.iter().collect();
    assert_eq!(different.len(), labels.len(), "{labels:?}");
    assert!(labels.len() >= 4);
}

#[test]
fn equal_input_gives_equal_bytes() {
    assert_eq!(render_compare(&report(3, 300)), render_compare(&report(3, 300)));
    assert_eq!(compare_svg(&report(3, 300)), compare_svg(&report(3, 300)));
}

#[test]
fn an_empty_report_is_still_a_page() {
    let html = render_compare(&CompareReport::default());
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    well_formed(&compare_svg(&CompareReport::default()));
    let lone = CompareReport {
        transports: vec![TransportPanel { latency_ms: vec![None], ..TransportPanel::default() }],
        ..CompareReport::default()
    };
    assert!(!render_compare(&lone).contains("NaN"));
    well_formed(&compare_svg(&lone));
}

#[test]
fn numbers_that_are_none_break_nothing() {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1.0];
    let report = CompareReport {
        transports: vec![TransportPanel {
            sent_ms: odd.to_vec(),
            latency_ms: odd.iter().map(|v| Some(*v)).collect(),
            fate: vec![Fate::Lost; 9],
            playout_target_ms: Some(f32::NAN),
            ..TransportPanel::default()
        }],
        ..CompareReport::default()
    };
    render_compare(&report);
    let svg = compare_svg(&report);
    well_formed(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_report_survives_json() {
    let given = report(2, 40);
    let json = serde_json::to_string(&given).unwrap();
    assert_eq!(serde_json::from_str::<CompareReport>(&json).unwrap(), given);
    // Fields that a later version adds or an earlier one lacks have defaults.
    assert_eq!(serde_json::from_str::<CompareReport>("{}").unwrap(), CompareReport::default());
}

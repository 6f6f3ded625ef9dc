//! The complete report: no input becomes markup, nothing is fetched, nothing is missing.

use antiphon_core::Rng;
use antiphon_report::{
    Advice, Better, Clip, CompareReport, Fate, LinkNote, Row, TradeOff, TransportPanel, compare_svg,
    render_compare,
};

const HOSTILE: &str =
    "</script></style></title><img src=x onerror=alert(1)>\"' onload='x' <!-- ]]> &amp; \u{0}\u{2028}";

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
                file: format!("heard-proto{t}.wav"),
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
        verdict: "Take proto0.".into(),
        meta: vec![("Streamed".into(), "a clip".into())],
        command: "antiphon compare --seed 7".into(),
        link: LinkNote {
            name: "wifi-home".into(),
            limits: vec!["No contention.".into()],
            ..LinkNote::default()
        },
        table: vec![row("p50", 1000.25), row("p99", 2000.25), row("loss", 3000.25)],
        advice: vec![Advice {
            purpose: "Talk".into(),
            transport: "proto0".into(),
            confidence: Some(0.9),
            sureness: "90 % sure".into(),
            ..Advice::default()
        }],
        trade_off: TradeOff::from_frames(&panels),
        original: Some(Clip { title: "original".into(), file: "original.wav".into(), ..Clip::default() }),
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

/// Every start tag of `markup` outside scripts and styles, as name and the rest.
fn tags(markup: &str) -> Vec<(String, String)> {
    let mut tags = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').unwrap_or(rest.len());
        let (inside, after) = rest.split_at(end);
        rest = after;
        if inside.starts_with(['/', '!', '?']) {
            continue;
        }
        let (name, attributes) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
        tags.push((name.trim_end_matches('/').to_lowercase(), attributes.to_string()));
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}")).expect("closed")..];
        }
    }
    tags
}

#[test]
fn strings_from_outside_do_nothing() {
    let (clean, dirty) = (render_compare(&report(2, 50)), render_compare(&hostile()));
    let names = |html: &str| tags(html).into_iter().map(|t| t.0).collect::<Vec<_>>();
    // Only audio may differ: a file whose name leads outside the directory gets a sentence instead of a player.
    let without =
        |names: Vec<String>| names.into_iter().filter(|n| n != "audio" && n != "p").collect::<Vec<_>>();
    assert_eq!(without(names(&clean)), without(names(&dirty)));
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
fn hostile_pictures_stay_pictures() {
    let names = |r: &CompareReport| tags(&compare_svg(r)).into_iter().map(|t| t.0).collect::<Vec<_>>();
    let allowed = ["svg", "title", "rect", "text", "path"];
    assert!(names(&hostile()).iter().all(|n| allowed.contains(&n.as_str())));
    well_formed(&compare_svg(&hostile()));
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
                "audio" => value.ends_with(".wav") && !value.contains(':') && !value.starts_with('/'),
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
        assert!(body.contains(&format!("src=\"heard-proto{t}.wav\"")));
        assert!(body.contains(&format!("Protocol {t}")));
    }
    for text in [
        "p50",
        "Definition of p99.",
        "n = 100",
        "Take proto0.",
        "antiphon compare --seed 7",
        "No contention.",
        "original.wav",
        "90 % sure",
        "1 in 1000 missed",
    ] {
        assert!(html.contains(text), "{text}");
    }
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
fn the_picture_is_well_formed_and_stands_alone() {
    let svg = compare_svg(&report(2, 3000));
    well_formed(&svg);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(!svg.contains("<script") && !svg.contains("href") && !svg.contains("url("));
    assert!(svg.contains("proto0") && svg.contains("1000.25"));
}

#[test]
fn a_report_survives_json() {
    let given = report(2, 40);
    let json = serde_json::to_string(&given).unwrap();
    assert_eq!(serde_json::from_str::<CompareReport>(&json).unwrap(), given);
    // Fields that a later version adds or an earlier one lacks have defaults.
    assert_eq!(serde_json::from_str::<CompareReport>("{}").unwrap(), CompareReport::default());
}

/// A small check by XML 1.0's rules: tags nest, attributes are quoted and unique, `&` begins a reference.
fn well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        text_is_clean(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "tags nest");
            continue;
        }
        let body = tag.strip_suffix('/').unwrap_or(tag);
        let (name, attributes) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "name {name}");
        attributes_are_sound(attributes);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert_eq!(rest.trim(), "");
}

fn attributes_are_sound(attributes: &str) {
    let mut seen = Vec::new();
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("attributes are quoted");
        let (value, after) = after.split_once('"').expect("quotes close");
        assert!(!seen.contains(&name), "attribute {name} twice");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "attribute {name}");
        assert!(!value.contains('<'));
        text_is_clean(value);
        seen.push(name);
        rest = after.trim_start();
    }
}

fn text_is_clean(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    for part in text.split('&').skip(1) {
        let (name, _) = part.split_once(';').expect("references end");
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{name};");
    }
}

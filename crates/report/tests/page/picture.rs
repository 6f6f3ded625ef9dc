//! The picture of a comparison.

use super::*;

#[test]
fn hostile_pictures_stay_pictures() {
    let names = |r: &CompareReport| tags(&compare_svg(r)).into_iter().map(|t| t.0).collect::<Vec<_>>();
    let allowed = ["svg", "title", "rect", "text", "path"];
    assert!(names(&hostile()).iter().all(|n| allowed.contains(&n.as_str())));
    well_formed(&compare_svg(&hostile()));
}

#[test]
fn the_picture_has_every_recommendation_whole() {
    let svg = compare_svg(&report(2, 300));
    let lines = lines(&svg);
    for purpose in PURPOSES {
        for text in [
            purpose.to_string(),
            "90 % sure".into(),
            format!("plain words for {purpose}"),
            format!("A sentence for {purpose}. proto1 would do as well."),
        ] {
            assert!(has_whole(&lines, &text), "no lines that are '{text}': {lines:?}");
        }
    }
    assert!(!svg.contains('\u{2026}'), "nothing is cut off");
    // Scripts off: the page has the recommendations as text, so its picture does without them.
    let html = render_compare(&report(2, 300));
    let still = html.split_once("<noscript>").unwrap().1.split_once("</noscript>").unwrap().0;
    assert!(still.contains("<svg") && !still.contains("A sentence for Talk."));
}

/// The contents of the text elements of a picture.
fn lines(svg: &str) -> Vec<String> {
    let elements = svg.split("<text").skip(1).map(|rest| rest.split_once("</text>").expect("closed").0);
    elements.map(|element| element.split_once('>').expect("a tag").1.to_string()).collect()
}

/// Whether some lines in a row are `text`, and nothing else is on them.
fn has_whole(lines: &[String], text: &str) -> bool {
    (0..lines.len()).any(|from| (from + 1..=lines.len()).any(|to| lines[from..to].join(" ") == text))
}

/// Width and height of a picture.
fn size(svg: &str) -> [f64; 2] {
    let size = svg.split_once("viewBox=\"0 0 ").expect("a size").1.split('"').next().unwrap();
    let numbers: Vec<f64> = size.split(' ').map(|number| number.parse().expect("a number")).collect();
    numbers.try_into().expect("two numbers")
}

#[test]
fn the_picture_is_as_high_as_what_is_in_it() {
    // 106 for each transport, and 414 for five recommendations of two or three lines, the title and the axis.
    for (report, most) in
        [(report(1, 0), 540.0), (report(2, 300), 650.0), (report(7, 300), 1180.0), (hostile(), 1150.0)]
    {
        let svg = compare_svg(&report);
        let [width, height] = size(&svg);
        assert!(width == 960.0 && height < most, "{width} x {height}, {most}");
        let bases = svg.split("<text ").skip(1).map(|rest| {
            let y = rest.split_once(" y=\"").expect("a place").1.split('"').next().unwrap();
            y.parse::<f64>().expect("a number")
        });
        let lowest = bases.fold(0.0, f64::max);
        assert!((10.0..=20.0).contains(&(height - lowest)), "the last line at {lowest} of {height}");
    }
}

#[test]
fn the_picture_is_well_formed_and_stands_alone() {
    let svg = compare_svg(&report(2, 3000));
    well_formed(&svg);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(!svg.contains("<script") && !svg.contains("href") && !svg.contains("url("));
    assert!(svg.contains("proto0") && svg.contains("1000.25"));
}

//! Links that change, and the part of a run that is watched.

use std::time::Duration;

use super::*;
use crate::setup::Watch;

const TEXT: &str = r#"
title = "t"
duration = "60s"
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
delay = "25ms"
loss = "3%"
alternate = { every = "10s", delay = "200ms", loss = "15%" }
[stream.audio]
transport = "rtp"
from = "a"
to = "b"
frame = "200B"
interval = "20ms"
watch = { every = "10s", length = "2s" }
"#;

#[test]
fn a_link_alternates_and_a_part_of_the_run_is_watched() {
    let setup = read(TEXT).setup(&[]).unwrap();
    let MediumKind::Alternating { spec, with, .. } = &setup.media[0].kind else { panic!() };
    assert_eq!((spec.up.delay, with.delay), (Duration::from_millis(25), Duration::from_millis(200)));
    assert_eq!((with.every, with.loss.mean().0), (Duration::from_secs(10), 0.15));
    let watch = Watch { every: Duration::from_secs(10), length: Duration::from_secs(2) };
    assert_eq!(setup.streams[0].watch, Some(watch));
}

#[test]
fn what_cannot_alternate_is_refused() {
    let refusal =
        |from: &str, to: &str| Scenario::parse("t.toml", &TEXT.replace(from, to)).unwrap_err().to_string();
    assert!(refusal("loss = \"15%\"", "loss = \"150%\"").contains("150%"));
    assert!(refusal("delay = \"200ms\", ", "").contains("delay"));
    assert!(refusal("length = \"2s\"", "length = \"20s\"").contains("20s"));
    assert!(refusal("length", "legnth").contains("length"));
}

#[test]
fn a_run_may_end_with_its_streams_unless_it_has_pings() {
    assert!(!read(TEXT).setup(&[]).unwrap().ends_with_streams);
    let ending = format!("ends-with-streams = true{TEXT}");
    assert!(read(&ending).setup(&[]).unwrap().ends_with_streams);
    let ping = "[traffic.p]\nkind = 'ping'\nfrom = 'a'\nto = 'b'\ninterval = '1s'\ncount = 1\n";
    let error = Scenario::parse("bad.toml", &format!("{ending}{ping}")).expect_err("pings go on").to_string();
    assert!(error.contains("remove ends-with-streams"), "{error}");
}

/// A variable may stand for the row of a printed table alone.
#[test]
fn a_point_may_be_named_after_what_it_is_compared_with() {
    let sweep = "[[sweep.point]]\ndisturbance = \"2Mbit/s\"\nlost = \"1%\"\n\
                 [[sweep.point]]\ndisturbance = \"4Mbit/s\"\nlost = \"2%\"\n";
    let text = TEXT.replace("loss = \"3%\"", "loss = \"$lost\"") + sweep;
    let error = Scenario::parse("t.toml", &text).unwrap_err().to_string();
    assert!(error.contains("'disturbance' is set here but not used"), "{error}");
    let named = |row: &str| Scenario::parse("t.toml", &format!("row = {row}{text}"));
    let scenario = named("\"$disturbance\"").unwrap();
    assert_eq!(scenario.plan()[1].point[0], ("disturbance".to_string(), "4Mbit/s".to_string()));
    assert!(named("\"$disturbanec\"").unwrap_err().to_string().contains("disturbanec"));
    assert!(named("[\"$disturbance\"]").is_err());
}

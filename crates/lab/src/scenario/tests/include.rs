//! Scenarios that include what they share with others.

use super::super::*;

const OWN: &str = r#"
title = "Two rooms"
duration = "10s"
include = "room.toml"

[stream.audio]
transport = "rtp"
from = "a"
to = "b"
frame = "652B"
interval = "10ms"
"#;
const ROOM: &str = r#"
[node.a]
[node.b]

[link.line]
between = ["a", "b"]
delay = { value = "5ms", why = "measured", fitted = "table 1" }
"#;

#[test]
fn an_included_file_is_part_of_the_text() {
    assert_eq!(missing_include(OWN).as_deref(), Some("room.toml"));
    let whole = with_include(OWN, "room.toml", ROOM);
    assert_eq!(missing_include(&whole), None);
    let scenario = Scenario::parse("two.toml", &whole).unwrap();
    assert_eq!(scenario.setup(&[]).unwrap().media.len(), 1);
    assert!(scenario.notes().iter().any(|note| note.fitted.as_deref() == Some("table 1")));
    // What is kept beside the results can be read again.
    assert_eq!(Scenario::parse("two.toml", scenario.text()).unwrap(), scenario);
}

#[test]
fn a_scenario_adds_keys_to_what_it_includes() {
    let own = format!("{OWN}\n# included: nothing\n[link.line]\nrate = \"1Mbit/s\"\n");
    assert_eq!(missing_include(&own).as_deref(), Some("room.toml"));
    let scenario = Scenario::parse("two.toml", &with_include(&own, "room.toml", ROOM)).unwrap();
    let setup = format!("{:?}", scenario.setup(&[]).unwrap());
    assert!(setup.contains("1000000") && setup.contains("5ms"), "{setup}");
}

#[test]
fn long_texts_are_read_once() {
    // A megabyte of lines, each of which could be the begin of an included text.
    let many: String = (0..37_500).map(|n| format!("# included: room{n}.toml\n")).collect();
    let whole = with_include(&format!("{OWN}{many}"), "room.toml", ROOM);
    assert!(whole.len() > 1_000_000);
    assert_eq!(Scenario::parse("two.toml", &whole).unwrap().setup(&[]).unwrap().media.len(), 1);
    let error = Scenario::parse("two.toml", &whole.replace("5ms", "5")).unwrap_err();
    assert_eq!((error.file.as_str(), error.line), ("room.toml", 7), "{error}");
}

#[test]
fn mistakes_are_shown_in_the_file_that_has_them() {
    let error = |own: &str, room: &str| {
        let whole = with_include(own, "room.toml", room);
        Scenario::parse("two.toml", &whole).unwrap_err()
    };
    let inside = error(OWN, &ROOM.replace("5ms", "5"));
    assert_eq!((inside.file.as_str(), inside.line), ("room.toml", 7), "{inside}");
    assert!(inside.excerpt.contains("delay = "), "{inside}");
    let outside = error(&OWN.replace("652B", "652"), ROOM);
    assert_eq!((outside.file.as_str(), outside.line), ("two.toml", 10), "{outside}");
    let twice = error(OWN, &format!("{ROOM}[stream.audio]\nto = \"a\"\n"));
    assert_eq!((twice.line, twice.message.contains("twice")), (9, true), "{twice}");
    let syntax = error(OWN, &format!("{ROOM}[link.line]\n"));
    assert_eq!((syntax.file.as_str(), syntax.line), ("room.toml", 8), "{syntax}");
    let absent = Scenario::parse("two.toml", OWN).unwrap_err();
    assert_eq!((absent.line, absent.message.contains("'room.toml'")), (4, true), "{absent}");
    for name in ["7", "\"\"", "[\"a\"]", "\"a\\nb\""] {
        let own = OWN.replace("\"room.toml\"", name);
        assert!(Scenario::parse("two.toml", &own).is_err(), "{name}");
    }
}

#[test]
fn what_a_scenario_leaves_out_of_what_it_includes_is_not_there() {
    let read = |omit: &str, after: &str| {
        let own = OWN.replacen('\n', &format!("\nomit = {omit}\n"), 1) + after;
        Scenario::parse("two.toml", &with_include(&own, "room.toml", ROOM))
    };
    let link = "[link.other]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n";
    let setup = |scenario: Scenario| format!("{:?}", scenario.setup(&[]).unwrap());
    let without = read("[\"link.line.delay\"]", "[link.line]\nrate = \"1Mbit/s\"\n").unwrap();
    assert!(without.notes().iter().all(|note| note.fitted.is_none()));
    assert!(!setup(without).contains("5ms"));
    assert!(setup(read("[]", "").unwrap()).contains("5ms"));
    let other = read("[\"link.line\"]", link).unwrap();
    assert_eq!(other.setup(&[]).unwrap().media[0].name, "other");
    assert_ne!(other.run_digest(), read("[]", "").unwrap().run_digest());
    // What is left out may be set anew.
    let anew = read("[\"link.line.delay\"]", "[link.line]\ndelay = \"7ms\"\n").unwrap();
    assert!(setup(anew).contains("7ms"));

    let error = |omit: &str| read(omit, "").unwrap_err().to_string();
    for nothing in ["link.lines", "link.line.delay.value.x", "duration", ""] {
        let message = error(&format!("[\"{nothing}\"]"));
        assert!(message.contains(&format!("no '{nothing}' to leave out")), "{message}");
    }
    for wrong in ["\"link.line\"", "[[\"link.line\"]]", "7"] {
        assert!(error(wrong).contains("omit = ["), "{}", error(wrong));
    }
    let alone = OWN.replace("include = \"room.toml\"", "omit = [\"link\"]");
    let message = Scenario::parse("two.toml", &alone).unwrap_err().to_string();
    assert!(message.contains("nothing is included"), "{message}");
}

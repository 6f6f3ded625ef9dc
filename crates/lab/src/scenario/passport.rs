//! Recorded paths as links: `link = "passport:FILE"`.
//!
//! The passport's text is appended to the scenario's, as that of an included file is: what is kept beside the results is
//! whole, and another recording makes another scenario. Everything in it was written by others, and is checked.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_link::ReplayPath;
use antiphon_trace::{Passport, PathSample, Paths};

use super::error::clip;
use super::include;
use super::tree::{Kind, Node, Table};
use crate::replay;

/// The passports that a text's links name and that it does not contain yet, as the text names them, each once.
pub fn missing_passports(text: &str) -> Vec<String> {
    let (own, here) = split(text);
    // Reading the scenario refuses a text that can't be read.
    let Ok(tree) = include::parse(own) else { return Vec::new() };
    let mut named = Vec::new();
    in_table(&tree, &mut named);
    named.retain(|name| here.iter().all(|(known, _)| known != name));
    named.sort();
    named.dedup();
    named
}

/// The text with that of the passport `name`, which one of its links names.
pub fn with_passport(text: &str, name: &str, passport: &str) -> String {
    format!("{text}\n{MARK}{name}\n{passport}")
}

/// The name of the passport in a link's text.
pub(super) fn named(link: &str) -> Option<&str> {
    link.trim().strip_prefix(PREFIX)
}

/// The recordings that a text contains.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Recordings(BTreeMap<String, Result<Recording, String>>);

/// What a passport says of a path.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Recording {
    /// From the first node to the second.
    pub(super) up: ReplayPath,
    pub(super) down: ReplayPath,
    /// What was recorded, and what is assumed, in a sentence.
    pub(super) about: String,
}

impl Recordings {
    /// The recording of that name, or what is wrong with it.
    pub(super) fn find(&self, name: &str) -> Result<&Recording, String> {
        match self.0.get(name) {
            Some(Ok(recording)) => Ok(recording),
            Some(Err(why)) => Err(format!("'{}': {why}", clip(name))),
            None => Err(format!(
                "the content of '{}' is not here: run the scenario as a file beside it, and write its name in \
                 full in the link or in [sweep]",
                clip(name)
            )),
        }
    }
}

/// A scenario's own text, which is the first part of it, and the recordings behind it.
pub(super) fn read(text: &str) -> (&str, Recordings) {
    let (own, parts) = split(text);
    let mut all = BTreeMap::new();
    for (name, passport) in parts {
        let recording = match all.contains_key(name) {
            false => recording(passport).map_err(|why| plain(&why)),
            true => Err("the text has it twice".into()),
        };
        all.insert(name.to_string(), recording);
    }
    (own, Recordings(all))
}

/// The text before the first passport, and the names and texts of the passports.
pub(super) fn split(text: &str) -> (&str, Vec<(&str, &str)>) {
    let mark = format!("\n{MARK}");
    let mut parts = text.split(mark.as_str());
    // A split text has a first part, if it is an empty one.
    let own = parts.next().unwrap_or_default();
    (own, parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect())
}

fn recording(passport: &str) -> Result<Recording, String> {
    if passport.len() > MAX_PASSPORT {
        return Err(format!("a passport has at most {MAX_PASSPORT} bytes here: record a shorter time"));
    }
    let passport = Passport::read(passport.as_bytes()).map_err(|error| error.to_string())?;
    let paths = passport.paths(None).map_err(|error| error.to_string())?;
    let (up, down) = replay::both_ways(&paths, Duration::ZERO).map_err(|error| error.to_string())?;
    let about = plain(&about(&paths, up.duration()));
    Ok(Recording { up, down, about })
}

/// What was recorded, and what is assumed.
fn about(paths: &Paths, length: Duration) -> String {
    let lost = |samples: &[PathSample]| samples.iter().filter(|(_, delay)| delay.is_none()).count();
    let way = |samples: &[PathSample]| format!("{} packets, {} of them lost", samples.len(), lost(samples));
    let seconds = length.as_secs_f64();
    let mut about = format!("recorded over {} for {seconds:.1} s: {}", paths.transport, way(&paths.up));
    if let Some(down) = &paths.down {
        about += &format!(", and {} on the way back", way(down));
    }
    for remark in replay::remarks(paths) {
        about += &format!("; {remark}");
    }
    about
}

/// Without what could move a terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn in_table(table: &Table, found: &mut Vec<String>) {
    table.entries.iter().for_each(|entry| in_node(&entry.node, found));
}

fn in_node(node: &Node, found: &mut Vec<String>) {
    match &node.kind {
        Kind::Scalar(scalar) => {
            let name =
                named(&scalar.text).filter(|name| !name.is_empty() && !name.contains(['\n', '\r', '$']));
            found.extend(name.map(String::from));
        }
        Kind::List(nodes) => nodes.iter().for_each(|node| in_node(node, found)),
        Kind::Table(table) => in_table(table, found),
    }
}

const PREFIX: &str = "passport:";
/// The line before an appended passport. Shipped scenarios have it where they are embedded.
const MARK: &str = "# appended passport: ";
/// The longest passport: half an hour of 20 ms packets both ways.
pub const MAX_PASSPORT: usize = 8 << 20;
/// The most passports of a scenario.
pub const MAX_PASSPORTS: usize = 16;

#[cfg(test)]
mod tests {
    use antiphon_core::Instant;

    use super::super::Scenario;
    use super::*;
    use crate::setup::MediumKind;

    const SCENARIO: &str = r#"
title = "over a recorded path"
# passport: a comment
duration = "1s"
[node.a]
[node.b]
[link.path]
between = ["a", "b"]
link = "$path"
[stream.audio]
transport = "rtp"
from = "a"
to = "b"
frame = "100B"
interval = "20ms"
[sweep]
path = { values = ["dsl", "passport:there/café.passport"], why = "a preset and a recording" }
"#;

    const NAME: &str = "there/café.passport";

    /// Three packets, 10 ms apart: 5 ms, lost, 7 ms; back 4 ms each.
    fn passport(delays: &str) -> String {
        let section = |way: &str| {
            format!(
                r#"{{"section":{{"transport":"rtp","direction":"{way}","delays":"{delays}","clock":"one","repairs":false,"header_bytes":40,"packet_bytes":140,"interval_ns":10000000}}}}"#
            )
        };
        let head = r#"{"passport":{"version":1,"antiphon":"0","command":"antiphon","seed":1,"units":"ns"}}"#;
        let up = "[0,1000000,6000000,140,0]\n[1,11000000,null,140,0]\n[2,21000000,28000000,140,0]";
        let down = "[0,6000000,10000000,140,0]\n[2,28000000,32000000,140,0]";
        format!("{head}\n{}\n{up}\n{}\n{down}\n", section("up"), section("down"))
    }

    fn refusal(text: &str) -> String {
        Scenario::parse("x.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_link_repeats_the_path_that_it_names() {
        assert_eq!(missing_passports(SCENARIO), [NAME]);
        let text = with_passport(SCENARIO, NAME, &passport("one-way"));
        assert!(missing_passports(&text).is_empty());
        let scenario = Scenario::parse("x.toml", &text).unwrap();
        assert_eq!(scenario.text(), text, "what is kept beside the results is whole");
        let setup = scenario.setup(&scenario.plan()[1].point).unwrap();
        let MediumKind::Replay { up, down, .. } = &setup.media[0].kind else { panic!("{:?}", setup.media) };
        let (at, ms) = (Instant::from_millis, |path: &ReplayPath, t| path.fate(Instant::from_millis(t), 0));
        assert_eq!((ms(up, 0), ms(up, 10), ms(up, 20)), (Some(at(5)), None, Some(at(27))));
        assert_eq!(ms(up, 30), Some(at(35)), "after 30 ms, three packets' time, it begins again");
        assert_eq!(ms(down, 5), Some(at(9)));
        let figures = crate::world::run(&setup, 1).unwrap();
        // Sent each 20 ms over a path that repeats itself each 30: at 0, 20 and 10 ms of it, where it loses.
        let missing = figures.streams[0].1.missing_percent.unwrap();
        assert!((missing - 100.0 / 3.0).abs() < 3.0, "{missing}");
    }

    #[test]
    fn its_note_says_what_was_recorded() {
        let plain = SCENARIO.replace("$path", &format!("{PREFIX}{NAME}"));
        let (plain, _) = plain.split_once("[sweep]").expect("the scenario has a sweep");
        let scenario = Scenario::parse("x.toml", &with_passport(plain, NAME, &passport("one-way"))).unwrap();
        let note = &scenario.notes()[1];
        assert_eq!((note.place.as_str(), note.value.as_str()), ("link.path.link", NAME));
        let why = "recorded over rtp for 0.0 s: 3 packets, 1 of them lost, and 2 packets, 0 of them lost on the way back";
        let why = format!("{why}; the recording is truncated; its packets are replayed");
        assert_eq!(note.why.as_deref(), Some(why.as_str()));
    }

    #[test]
    fn what_is_no_path_is_refused_at_the_link() {
        assert!(refusal(SCENARIO).contains("the content of 'there/café.passport' is not here"));
        let with = |passport: &str| refusal(&with_passport(SCENARIO, NAME, passport));
        assert!(with("").contains("not a passport"));
        let broken = with(&passport("one-way").replace("[2,", "[\u{1b}2,"));
        assert!(broken.contains("x.toml:9:8") && broken.contains("line 5 of the passport"), "{broken}");
        assert!(!broken.contains('\u{1b}'));
        assert!(with(&passport("unknown")).contains("not arrivals"));
        assert!(with(&"x".repeat(MAX_PASSPORT + 1)).contains("at most 8388608 bytes"));
        // A passport can shorten itself by the mark of another, and not take its place.
        let cut = passport("one-way").replace("[2,2", &format!("\n{MARK}b\n[2,2"));
        let two = SCENARIO.replace("\"dsl\"", "\"passport:b\"");
        let two = with_passport(&with_passport(&two, NAME, &cut), "b", &passport("one-way"));
        assert!(refusal(&two).contains("'b': the text has it twice"), "{}", refusal(&two));
        let text = with_passport(
            &SCENARIO.replace("link = ", "rate = \"1Mbit/s\"\nlink = "),
            NAME,
            &passport("one-way"),
        );
        assert!(refusal(&text).contains("leave out 'rate'"), "{}", refusal(&text));
    }
}

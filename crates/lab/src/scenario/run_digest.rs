//! What of a scenario decides its runs: all but its seed, and the words that explain it.

use super::passport;
use super::tree::{Kind, Table};
use super::{Scenario, include};
use crate::experiment::digest;

impl Scenario {
    /// A digest of everything that decides the streams' figures in the runs of one seed: texts that differ in title, source, seed, reasons,
    /// comments or layout alone, or in whether a run ends with its streams, have the same. Fitted numbers are marked in it, since a verdict says so.
    pub fn run_digest(&self) -> String {
        let (own, _) = passport::split(&self.text);
        let mut content = String::new();
        // It was parsed before.
        if let Ok(tree) = include::parse(own) {
            // What explains, and what changes no figure of a stream.
            let decides = |key: &str| !["title", "source", "seed", "row", "ends-with-streams"].contains(&key);
            for entry in tree.entries.iter().filter(|entry| decides(&entry.key)) {
                write(&entry.key, &entry.node.kind, &mut content);
            }
        }
        // The recorded paths.
        content += &self.text[own.len()..];
        digest(&content)
    }
}

/// Adds a key and its value, without reasons. Tables end with a mark, so that no two trees give the same text.
fn write(key: &str, kind: &Kind, content: &mut String) {
    match kind {
        // A node may be called `why`; a reason is a text.
        Kind::Scalar(_) if key == "why" => {}
        Kind::Scalar(scalar) => *content += &format!("{key:?}={:?}\n", scalar.text),
        Kind::List(items) => {
            *content += &format!("{key:?}[\n");
            items.iter().for_each(|item| write("", &item.kind, content));
            *content += "]\n";
        }
        Kind::Table(Table { entries, .. }) => {
            *content += &format!("{key:?}{{\n");
            entries.iter().for_each(|entry| write(&entry.key, &entry.node.kind, content));
            *content += "}\n";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\nseed = 1\nduration = { value = \"2s\", why = \"short\" }\n[node.why]\n[node.b]\n\
                        [link.l]\nbetween = [\"why\", \"b\"]\ndelay = \"5ms\"\n[stream.s]\ntransport = \"rtp\"\n\
                        from = \"why\"\nto = \"b\"\n";

    fn digest_of(from: &str, to: &str) -> String {
        assert!(TEXT.contains(from), "{from}");
        let scenario = Scenario::parse("t.toml", &TEXT.replace(from, to));
        scenario.unwrap_or_else(|error| panic!("{error}")).run_digest()
    }

    #[test]
    fn words_and_the_seed_change_no_digest() {
        let before = digest_of("seed", "seed");
        for (from, to) in [
            ("\"t\"", "\"other\""),
            ("seed = 1", "seed = 2"),
            ("short", "long enough"),
            ("[node.b]", "# a comment\n\n[node.b]"),
        ] {
            assert_eq!(digest_of(from, to), before, "{from} -> {to}");
        }
    }

    #[test]
    fn what_decides_runs_changes_the_digest() {
        let before = digest_of("seed", "seed");
        for (from, to) in [
            ("\"2s\"", "\"3s\""),
            ("why = \"short\"", "why = \"short\", fitted = \"table 1\""),
            ("5ms", "6ms"),
            ("\"why\", \"b\"", "\"b\", \"why\""),
            ("\"rtp\"", "\"tcp\""),
            ("seed = 1", "seed = 1\nrepetitions = 2"),
        ] {
            assert_ne!(digest_of(from, to), before, "{from} -> {to}");
        }
    }
}

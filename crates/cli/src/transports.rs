//! `antiphon help transports`: what each transport offers, from its description in `proto`.

use antiphon::COMMON_KEYS;
use antiphon::proto::{Capability, Key, TRANSPORTS, Transport};
use serde_json::{Map, Value, json};

use crate::exit;
use crate::grid::{Align, Cell, Grid, Palette, Tone, paragraph, wrap};
use crate::output::Output;

/// Runs the command; returns the exit code.
pub fn run(output: &mut Output) -> u8 {
    if output.json {
        records(output);
    } else {
        let text = text(output.width, output.palette);
        output.result(&text);
    }
    exit::DONE
}

fn records(output: &mut Output) {
    for feature in Capability::ALL {
        output.record(
            "feature",
            json!({ "name": feature.name(), "title": feature.title(), "meaning": feature.meaning() }),
        );
    }
    for transport in TRANSPORTS {
        let offer = |feature: &Capability| {
            let offered = json!({
                "offered": transport.offers(*feature, ""),
                "offered_with": transport.offers_with(*feature),
            });
            (feature.name().to_string(), offered)
        };
        let features: Map<String, Value> = Capability::ALL.iter().map(offer).collect();
        output.record(
            "transport",
            json!({
                "transport": transport.scheme,
                "title": transport.title,
                "about": transport.summary,
                "features": features,
                "keys": keys(transport.keys),
            }),
        );
    }
}

fn text(width: usize, palette: Palette) -> String {
    let width = width.min(96);
    let mut grid = Grid::new([vec![Align::Left], vec![Align::Left; TRANSPORTS.len()]].concat());
    let names = TRANSPORTS.iter().map(|transport| transport.scheme);
    grid.row(std::iter::once("feature").chain(names).map(|name| Cell::new(name, Tone::Head)));
    for feature in Capability::ALL {
        let cells = TRANSPORTS.iter().map(|transport| cell(transport, feature));
        grid.row(std::iter::once(Cell::from(feature.title())).chain(cells));
    }
    let mut meanings = Grid::new([Align::Left, Align::Prose]);
    for feature in Capability::ALL {
        meanings.row([Cell::from(feature.title()), Cell::new(feature.meaning(), Tone::Dim)]);
    }
    let mut text = format!("{}\n{}", grid.render(width, palette), meanings.render(width, palette));
    for transport in TRANSPORTS {
        for variant in transport.variants {
            let with = |feature: &Capability| transport.offers_with(*feature) == Some(*variant);
            let titles: Vec<&str> = Capability::ALL
                .iter()
                .filter(|feature| with(feature))
                .map(|feature| feature.title())
                .collect();
            let head = format!("set: {}?{variant}:", transport.scheme);
            text += &format!("\n{}", paragraph(&head, &titles.join(", "), 2, width).trim_end());
        }
    }
    let source = "The table is that of Schiavoni, Queiroz and Wanderley (2013); the laboratory's tests find what it says. \
                  Packets with a deadline, as live sound has, are given up when it has passed.";
    text += &format!("\n\n{}\n", wrap(source, width).join("\n"));
    let settings = "Settings stand in the address after '?', with '&' between them.";
    text += &format!("\n{}\n", wrap(settings, width).join("\n"));
    let own = TRANSPORTS.iter().map(|transport| (transport.scheme, transport.keys));
    for (scheme, keys) in own.chain([("all transports", COMMON_KEYS)]).filter(|(_, keys)| !keys.is_empty()) {
        let mut grid = Grid::new([Align::Left, Align::Prose]);
        for key in keys {
            grid.row([Cell::from(format!("  {}", key.name)), Cell::new(key.help, Tone::Dim)]);
        }
        text += &format!("\n{scheme}\n{}", grid.render(width, palette));
    }
    text
}

fn keys(keys: &[Key]) -> Value {
    keys.iter().map(|key| json!({ "name": key.name, "help": key.help })).collect()
}

fn cell(transport: &Transport, feature: Capability) -> Cell {
    if transport.offers(feature, "") {
        Cell::new("yes", Tone::Best)
    } else if transport.offers_with(feature).is_some() {
        Cell::from("set")
    } else {
        Cell::new("-", Tone::Dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_with_a_line_for_each_meaning() {
        for width in [60, 80, 120] {
            let text = text(width, Palette { coloured: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        let text = text(80, Palette { coloured: false });
        for feature in Capability::ALL {
            let line = |line: &&str| line.starts_with(feature.title()) && line.ends_with(feature.meaning());
            assert_eq!(text.lines().filter(line).count(), 1, "{}\n{text}", feature.title());
        }
        let row = |title: &str| text.lines().find(|line| line.starts_with(title)).unwrap().to_string();
        let columns = row("feature");
        let at = |scheme: &str| columns.find(scheme).unwrap();
        assert_eq!(&row("ordered")[at("sctp")..at("sctp") + 3], "set");
        assert_eq!(&row("reliable")[at("tcp")..at("tcp") + 3], "yes");
        assert_eq!(&row("reliable")[at("rtp")..at("rtp") + 1], "-");
        assert!(text.contains("set: sctp?order=ordered: ordered"), "{text}");
        let all = TRANSPORTS.iter().flat_map(|transport| transport.keys).chain(COMMON_KEYS);
        for key in all {
            assert!(text.contains(&format!("\n  {} ", key.name)), "{}:\n{text}", key.name);
        }
    }
}

//! What several scenarios share, in a file of its own: `include = "room.toml"`.
//!
//! The text of that file is appended to the scenario's, so that what is kept beside the results is whole. Tables may be in
//! both, a key in one only: a scenario adds to what it includes and does not differ unseen from it. What it leaves out of it, it names:
//! `omit = ["cell.hall.slot"]`.

use super::error::{Fault, Read, clip};
use super::tree::{self, Kind, Table};

/// The file that a text includes and does not contain yet, as the text names it.
pub fn missing_include(text: &str) -> Option<String> {
    // Reading the scenario refuses a text that can't be read.
    let (name, _) = named(&parse(text).ok()?)?;
    find(text, &name).is_none().then_some(name)
}

/// The text with that of the file `name`, which it includes.
pub fn with_include(text: &str, name: &str, included: &str) -> String {
    format!("{text}\n{MARK}{name}\n{included}")
}

/// Reads a text and what was appended to it.
pub(super) fn parse(text: &str) -> Read<Table> {
    let Some((_, at)) = included(text) else { return tree::parse(text) };
    let mut own = tree::parse(&text[..at])?;
    // As many bytes before it as there were, so that its mistakes are found at their place.
    let mut included = tree::parse(&(" ".repeat(at) + &text[at..]))?;
    omit(&own, &mut included)?;
    merge(&mut own, included)?;
    Ok(own)
}

/// The file that a text includes, and where its line begins.
fn included(text: &str) -> Option<(String, usize)> {
    let name = name_in_head(text)?;
    let at = find(text, &name)?;
    Some((name, at))
}

/// What a text includes, by the lines before its first table alone: what comes after may not be readable as one text.
fn name_in_head(text: &str) -> Option<String> {
    let head: usize =
        text.split_inclusive('\n').take_while(|line| !line.starts_with('[')).map(str::len).sum();
    named(&tree::parse(&text[..head]).ok()?).map(|(name, _)| name)
}

/// Takes from the included text what the scenario leaves out by name: `omit = ["cell.wlan.station.client.power-save"]`.
fn omit(own: &Table, included: &mut Table) -> Read<()> {
    let Some(entry) = own.entry(OMIT) else { return Ok(()) };
    let example =
        "write the tables and keys of the included file that are left out: omit = [\"cell.hall.slot\"]";
    let Kind::List(items) = &entry.node.kind else { return Err(Fault::new(&entry.node.span, example)) };
    for item in items {
        let Kind::Scalar(place) = &item.kind else { return Err(Fault::new(&item.span, example)) };
        if !remove(included, &place.text) {
            let message = format!("the included file has no '{}' to leave out", clip(&place.text));
            return Err(Fault::new(&item.span, message));
        }
    }
    Ok(())
}

/// Removes what is at a place such as `cell.hall.slot`; whether it was there.
fn remove(table: &mut Table, place: &str) -> bool {
    let (key, rest) = place.split_once('.').map_or((place, None), |(key, rest)| (key, Some(rest)));
    let Some(at) = table.entries.iter().position(|entry| entry.key == key) else { return false };
    match (rest, &mut table.entries[at].node.kind) {
        (None, _) => {
            table.entries.remove(at);
            true
        }
        (Some(rest), Kind::Table(inner)) => remove(inner, rest),
        (Some(_), _) => false,
    }
}

fn merge(own: &mut Table, included: Table) -> Read<()> {
    for entry in included.entries {
        let Some(same) = own.entries.iter_mut().find(|own| own.key == entry.key) else {
            own.entries.push(entry);
            continue;
        };
        match (&mut same.node.kind, entry.node.kind) {
            (Kind::Table(own), Kind::Table(included)) => merge(own, included)?,
            _ => {
                let message = format!("'{}' is defined twice, here and in the included file", entry.key);
                return Err(Fault::new(&same.key_span, message));
            }
        }
    }
    Ok(())
}

/// Refuses a text without what it includes.
pub(super) fn check(tree: &Table, text: &str) -> Read<()> {
    let Some(entry) = tree.entry(KEY) else {
        return match tree.entry(OMIT) {
            Some(omit) => {
                Err(Fault::new(&omit.key_span, "nothing is included of which something could be left out"))
            }
            None => Ok(()),
        };
    };
    match named(tree) {
        None => Err(Fault::new(&entry.node.span, "write the file's name: include = \"room.toml\"")),
        Some((name, _)) if find(text, &name).is_some() => Ok(()),
        Some((name, span)) => {
            let message =
                format!("the content of '{name}' is not here: run the scenario as a file beside it");
            Err(Fault::new(&span, message))
        }
    }
}

/// The file in which a byte of the text was written, if it was included, and where its text begins.
pub(super) fn origin(text: &str, at: usize) -> Option<(String, usize)> {
    let (name, line) = included(text).filter(|(_, line)| *line < at)?;
    let begin = (line + MARK.len() + name.len() + 1).min(text.len());
    Some((name, begin))
}

fn named(tree: &Table) -> Option<(String, std::ops::Range<usize>)> {
    let entry = tree.entry(KEY)?;
    match &entry.node.kind {
        Kind::Scalar(scalar) if !scalar.text.is_empty() && !scalar.text.contains(['\n', '\r']) => {
            Some((scalar.text.clone(), entry.node.span.clone()))
        }
        _ => None,
    }
}

fn find(text: &str, name: &str) -> Option<usize> {
    let mark = format!("{MARK}{name}");
    let ends = |at: usize| text[at + mark.len()..].chars().next().is_none_or(|c| c == '\n');
    text.match_indices(&mark).map(|(at, _)| at).find(|at| is_line(text, *at) && ends(*at))
}

fn is_line(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes()[at - 1] == b'\n'
}

const KEY: &str = "include";
const OMIT: &str = "omit";
/// The line before an included text. Shipped scenarios have it where they are embedded.
const MARK: &str = "# included: ";

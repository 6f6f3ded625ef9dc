//! What several scenarios share, in a file of its own: `include = "room.toml"`.
//!
//! The text of that file is appended to the scenario's, so that what is kept beside the results is whole. Tables may be in
//! both, a key in one only: a scenario adds to what it includes and does not differ unseen from it.

use super::error::{Fault, Read};
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
    let included = tree::parse(&(" ".repeat(at) + &text[at..]))?;
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
    let Some(entry) = tree.entry(KEY) else { return Ok(()) };
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
/// The line before an included text. Shipped scenarios have it where they are embedded.
const MARK: &str = "# included: ";

//! A scenario's text as a tree with the position of everything.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Fault, Read};

/// More than any sensible scenario has.
const MAX_TEXT: usize = 1 << 20;

/// Keys and values in the order in which they were written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Table {
    pub(super) span: Range<usize>,
    pub(super) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Table(Table),
}

/// One value, as text and with how it was written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) form: Form,
}

/// How a value was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// In quotes.
    Quoted,
    /// A number or truth value without.
    Bare,
    /// Inserted by the sweep, whose values are text.
    Swept,
}

/// Reads a text; nothing is interpreted yet.
pub(super) fn parse(text: &str) -> Read<Table> {
    if text.len() > MAX_TEXT {
        return Err(Fault::new(&(0..0), format!("{} bytes: a scenario has at most {MAX_TEXT}", text.len())));
    }
    let parsed = DeTable::parse(text).map_err(|error| {
        let remedy = match error.message() {
            same if same.contains("duplicate") => ": this name or key is defined twice",
            _ => "",
        };
        Fault::new(&error.span().unwrap_or(0..0), format!("{}{remedy}", error.message()))
    })?;
    table(parsed.get_ref(), 0..0)
}

fn table(table: &DeTable<'_>, span: Range<usize>) -> Read<Table> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push(Entry { key: key.get_ref().to_string(), key_span: key.span(), node: node(value)? });
    }
    entries.sort_by_key(|entry| entry.key_span.start);
    Ok(Table { span, entries })
}

fn node(value: &Spanned<DeValue<'_>>) -> Read<Node> {
    let span = value.span();
    let bare = |text: String| Kind::Scalar(Scalar { text, form: Form::Bare });
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Scalar(Scalar { text: text.to_string(), form: Form::Quoted }),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => bare(number.to_string()),
            Err(_) => return Err(Fault::new(&span, "this number is too large")),
        },
        DeValue::Float(number) => bare(number.as_str().to_string()),
        DeValue::Boolean(yes) => bare(yes.to_string()),
        DeValue::Datetime(_) => return Err(Fault::new(&span, "a scenario has no dates")),
        DeValue::Array(items) => Kind::List(items.iter().map(node).collect::<Read<_>>()?),
        DeValue::Table(inner) => Kind::Table(table(inner, span.clone())?),
    };
    Ok(Node { span, kind })
}

impl Table {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

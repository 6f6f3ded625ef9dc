//! Reads values by type, and remembers the keys that were looked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use antiphon_core::units::{format_duration, parse_duration};

use super::Note;
use super::error::{Fault, Read, clip, did_you_mean};
use super::passport::Recordings;
use super::tree::{Entry, Form, Kind, Node, Scalar, Table};

/// Settings of one point of the sweep, and what is found while reading.
pub(super) struct Context<'a> {
    /// The point's settings.
    point: &'a [(String, String)],
    /// The recorded paths that links may name.
    pub(super) recordings: &'a Recordings,
    notes: RefCell<Vec<Note>>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(point: &'a [(String, String)], recordings: &'a Recordings) -> Self {
        Context { point, recordings, notes: RefCell::default(), used: RefCell::default() }
    }

    /// The numbers that were read, and the names of the variables that were used.
    pub(super) fn learnt(self) -> (Vec<Note>, BTreeSet<String>) {
        (self.notes.into_inner(), self.used.into_inner())
    }

    pub(super) fn note(&self, place: &str, value: &str, reason: Reason<'_>) {
        let Reason { why, fitted } = reason;
        let (why, fitted) = (why.map(Into::into), fitted.map(Into::into));
        let note = Note { place: place.into(), value: value.into(), why, fitted };
        self.notes.borrow_mut().push(note);
    }

    /// Reads the same tables for each item; the numbers in them are remembered once.
    pub(super) fn each<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut read: impl FnMut(T) -> Read<()>,
    ) -> Read<()> {
        let mut known = None;
        for item in items {
            read(item)?;
            let mut notes = self.notes.borrow_mut();
            let known = *known.get_or_insert(notes.len());
            notes.truncate(known);
        }
        Ok(())
    }

    /// `text` with the point's settings in place of `$name` and `${name}`, and whether there was any; `$$` is `$`.
    fn fill(&self, text: &str, span: &Range<usize>) -> Read<(String, Vec<(String, String)>)> {
        let (mut filled, mut used, mut rest) = (String::new(), Vec::new(), text);
        while let Some((before, after)) = rest.split_once('$') {
            filled += before;
            if let Some(after) = after.strip_prefix('$') {
                filled.push('$');
                rest = after;
                continue;
            }
            let (name, after) = variable(after).ok_or_else(|| {
                Fault::new(span, "'$' must be followed by a name of [sweep]; '$$' is a plain '$'")
            })?;
            let names = || self.point.iter().map(|(name, _)| name.as_str());
            let Some((_, value)) = self.point.iter().find(|(known, _)| known == name) else {
                let near = did_you_mean(name, names());
                let list: Vec<&str> = names().collect();
                let known = if list.is_empty() { "nothing".into() } else { list.join(", ") };
                let name = clip(name);
                return Err(Fault::new(
                    span,
                    format!(
                        "[sweep] has no '{name}'{near} it has {known}: write there {name} = [\"…\", \"…\"]"
                    ),
                ));
            };
            self.used.borrow_mut().insert(name.into());
            used.push((name.to_string(), value.clone()));
            filled += value;
            rest = after;
        }
        Ok((filled + rest, used))
    }
}

/// The name at the beginning of the text after a `$`, and the rest.
fn variable(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').filter(|(name, _)| is_name(name));
    }
    let end = text.find(|c: char| !is_name_character(c)).unwrap_or(text.len());
    // A dash at the end belongs to the following text.
    let name = text[..end].trim_end_matches('-');
    is_name(name).then(|| (name, &text[name.len()..]))
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Names of elements and of variables.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_name_character)
}

/// A table that is read.
pub(super) struct Section<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) table: &'a Table,
    /// Its place: `link.dsl`.
    pub(super) place: String,
    /// Marked if something is missing.
    pub(super) span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(context: &'a Context<'a>, table: &'a Table, place: &str, span: &Range<usize>) -> Self {
        Section { context, table, place: place.into(), span: span.clone(), asked: RefCell::default() }
    }

    /// The value of `key`, if it is there.
    pub(super) fn find(&self, key: &'static str) -> Read<Option<Value<'a>>> {
        self.asked.borrow_mut().push(key);
        self.table.entry(key).map(|entry| self.value(entry)).transpose()
    }

    /// The value of `key`, which must exist; `example` shows how.
    pub(super) fn need(&self, key: &'static str, example: &str) -> Read<Value<'a>> {
        let found = self.find(key)?;
        found.ok_or_else(|| {
            self.missing(key, format!("[{}] has no '{key}': write {key} = {example}", self.place))
        })
    }

    /// The value of `key`, as `read` reads it, or `default` where it is not there.
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Value<'a>) -> Read<T>,
    ) -> Read<T> {
        self.find(key)?.map_or(Ok(default), |value| read(&value))
    }

    /// Changes a setting to the value of `key`, as `read` reads it, if it is there.
    pub(super) fn set<T>(
        &self,
        key: &'static str,
        setting: &mut T,
        read: impl FnOnce(&Value<'a>) -> Read<T>,
    ) -> Read<()> {
        if let Some(value) = self.find(key)? {
            *setting = read(&value)?;
        }
        Ok(())
    }

    /// The error for a missing `key`: its misspelling, if there is one, else `message`.
    pub(super) fn missing(&self, key: &str, message: impl Into<String>) -> Fault {
        let asked = self.asked.borrow();
        let slip = |entry: &&Entry| {
            let word = entry.key.as_str();
            !asked.contains(&word) && word.len() > 2 && antiphon_core::nearest(word, [key]).is_some()
        };
        match self.table.entries.iter().find(slip) {
            Some(entry) => {
                let message = format!("unknown key '{}', did you mean '{key}'?", clip(&entry.key));
                Fault::new(&entry.key_span, message)
            }
            None => self.fault(message),
        }
    }

    /// The table `key`, if it is there.
    pub(super) fn sub(&self, key: &'static str) -> Read<Option<Section<'a>>> {
        self.asked.borrow_mut().push(key);
        let Some(entry) = self.table.entry(key) else { return Ok(None) };
        self.section(entry).map(Some)
    }

    /// An entry that is a table.
    pub(super) fn section(&self, entry: &'a Entry) -> Read<Section<'a>> {
        let place = self.place_of(entry);
        match &entry.node.kind {
            Kind::Table(table) => Ok(Section::new(self.context, table, &place, &entry.key_span)),
            _ => Err(Fault::new(&entry.node.span, format!("'{}' is a table: write [{place}]", entry.key))),
        }
    }

    /// All tables in this one, as elements of one kind.
    pub(super) fn sections(&self) -> Read<Vec<(&'a str, Section<'a>)>> {
        self.table.entries.iter().map(|entry| Ok((entry.key.as_str(), self.section(entry)?))).collect()
    }

    fn value(&self, entry: &'a Entry) -> Read<Value<'a>> {
        Value::new(self.context, &entry.node, self.place_of(entry))
    }

    fn place_of(&self, entry: &Entry) -> String {
        if self.place.is_empty() { entry.key.clone() } else { format!("{}.{}", self.place, entry.key) }
    }

    /// Refuses the keys that nothing asked for.
    pub(super) fn finish(&self) -> Read<()> {
        let asked = self.asked.borrow();
        let Some(entry) = self.table.entries.iter().find(|entry| !asked.contains(&entry.key.as_str())) else {
            return Ok(());
        };
        let mut known: Vec<&str> = asked.clone();
        known.sort_unstable();
        known.dedup();
        let near = did_you_mean(&entry.key, known.iter().copied());
        let place = if self.place.is_empty() { "a scenario".into() } else { format!("[{}]", self.place) };
        let takes = if known.is_empty() { "nothing".into() } else { known.join(", ") };
        Err(Fault::new(
            &entry.key_span,
            format!("unknown key '{}'{near} {place} takes: {takes}", clip(&entry.key)),
        ))
    }

    pub(super) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(&self.span, message)
    }
}

/// A value that is read.
pub(super) struct Value<'a> {
    context: &'a Context<'a>,
    /// Its place: `link.dsl.rate`.
    pub(super) place: String,
    span: Range<usize>,
    content: Content<'a>,
    reason: Reason<'a>,
    /// The variables in it, with their values at this point.
    swept: Vec<(String, String)>,
}

/// What stands beside a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reason<'a> {
    /// Why this value, or where it is from.
    pub why: Option<&'a str>,
    /// The printed figure from which it was set.
    pub fitted: Option<&'a str>,
}

impl<'a> Reason<'a> {
    /// Without a fit.
    pub fn of(why: Option<&'a str>) -> Self {
        Reason { why, fitted: None }
    }
}

enum Content<'a> {
    Scalar(Scalar),
    List(&'a [Node]),
    Table(&'a Table),
}

impl<'a> Value<'a> {
    fn new(context: &'a Context<'a>, node: &'a Node, place: String) -> Read<Self> {
        let (node, reason) = labelled(node)?;
        let (content, swept) = match &node.kind {
            Kind::Scalar(scalar) if scalar.form == Form::Quoted => {
                let (text, swept) = context.fill(&scalar.text, &node.span)?;
                let form = if swept.is_empty() { Form::Quoted } else { Form::Swept };
                (Content::Scalar(Scalar { text, form }), swept)
            }
            Kind::Scalar(scalar) => (Content::Scalar(scalar.clone()), Vec::new()),
            Kind::List(items) => (Content::List(items), Vec::new()),
            Kind::Table(table) => (Content::Table(table), Vec::new()),
        };
        Ok(Value { context, place, span: node.span.clone(), content, reason, swept })
    }

    pub(super) fn fault(&self, message: impl Display) -> Fault {
        let swept: Vec<String> =
            self.swept.iter().map(|(name, value)| format!("${name} is \"{}\"", clip(value))).collect();
        let swept = if swept.is_empty() { String::new() } else { format!(" (where {})", swept.join(", ")) };
        Fault::new(&self.span, format!("{message}{swept}"))
    }

    fn scalar(&self, wanted: &str) -> Read<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Ok(scalar),
            _ => Err(self.fault(format!("write {wanted}"))),
        }
    }

    /// A text that is not a number.
    pub(super) fn text(&self, example: &str) -> Read<&str> {
        let scalar = self.scalar(&format!("a text, such as {example}"))?;
        match scalar.form {
            Form::Bare => Err(self.fault(format!("write a text in quotes, such as {example}"))),
            _ => Ok(&scalar.text),
        }
    }

    /// A number with its unit, converted from its text by `read`.
    pub(super) fn quantity<T, E: Display>(&self, read: impl FnOnce(&str) -> Result<T, E>) -> Read<T> {
        let scalar = self.scalar("a quantity with its unit in quotes, such as \"20ms\"")?;
        let value = read(&scalar.text).map_err(|why| self.fault(why))?;
        self.note(&scalar.text);
        Ok(value)
    }

    /// A quantity of a type that implements `FromStr`.
    pub(super) fn parse<T: FromStr<Err: Display>>(&self) -> Read<T> {
        self.quantity(str::parse)
    }

    /// A length of time within bounds.
    pub(super) fn duration(&self, range: RangeInclusive<Duration>) -> Read<Duration> {
        let time = self.quantity(parse_duration)?;
        if range.contains(&time) {
            return Ok(time);
        }
        let (low, high) = (format_duration(*range.start()), format_duration(*range.end()));
        Err(self.fault(format!("{} is impossible here: {low} to {high}", format_duration(time))))
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, range: RangeInclusive<u64>) -> Read<u64> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let scalar = self.scalar(&wanted)?;
        if scalar.form == Form::Quoted {
            return Err(self.fault(format!("write {wanted} without quotes")));
        }
        match scalar.text.parse::<u64>().ok().filter(|number| range.contains(number)) {
            Some(number) => {
                self.note(&scalar.text);
                Ok(number)
            }
            None => Err(self.fault(format!("{} is impossible here: write {wanted}", clip(&scalar.text)))),
        }
    }

    /// A whole number of at most 32 bits within bounds.
    pub(super) fn whole32(&self, range: RangeInclusive<u32>) -> Read<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        Ok(u32::try_from(self.whole(wide)?).expect("the range has 32 bits"))
    }

    /// `true` or `false`.
    pub(super) fn truth(&self) -> Read<bool> {
        let scalar = self.scalar("true or false")?;
        match (scalar.form, scalar.text.as_str()) {
            (Form::Bare | Form::Swept, "true") => Ok(true),
            (Form::Bare | Form::Swept, "false") => Ok(false),
            _ => Err(self.fault("write true or false, without quotes")),
        }
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(&self, known: &[(&str, T)]) -> Read<T> {
        let names = || known.iter().map(|(name, _)| *name);
        let list = names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let text = self.text(&list)?;
        match known.iter().find(|(name, _)| *name == text) {
            Some((_, chosen)) => {
                if self.reason.why.is_some() {
                    self.note(text);
                }
                Ok(*chosen)
            }
            None => {
                let near = did_you_mean(text, names());
                Err(self.fault(format!("unknown value '{}'{near} write one of {list}", clip(text))))
            }
        }
    }

    /// A list of texts; one text counts as a list of one.
    pub(super) fn texts(&self, example: &str) -> Read<Vec<(String, Range<usize>)>> {
        match &self.content {
            Content::Scalar(_) => Ok(vec![(self.text(example)?.into(), self.span.clone())]),
            Content::Table(_) => Err(self.fault(format!("write {example}"))),
            Content::List(items) => items
                .iter()
                .map(|item| {
                    let item = Value::new(self.context, item, self.place.clone())?;
                    Ok((item.text(example)?.into(), item.span.clone()))
                })
                .collect(),
        }
    }

    /// Its table, if it is one.
    pub(super) fn table(&self) -> Option<Section<'a>> {
        match &self.content {
            Content::Table(table) => Some(Section::new(self.context, table, &self.place, &self.span)),
            _ => None,
        }
    }

    /// The span of the value.
    pub(super) fn span(&self) -> &Range<usize> {
        &self.span
    }

    /// The reason given for it.
    pub(super) fn reason(&self) -> Reason<'a> {
        self.reason
    }

    /// Remembers a number; one from the sweep is marked as such.
    pub(super) fn note(&self, value: &str) {
        if self.swept.is_empty() {
            self.context.note(&self.place, value, self.reason);
        }
    }
}

/// A value and its reason: `20`, `{ value = 20, why = "…" }` or `{ value = 20, why = "…", fitted = "…" }`.
pub(super) fn labelled(node: &Node) -> Read<(&Node, Reason<'_>)> {
    let Kind::Table(table) = &node.kind else { return Ok((node, Reason::default())) };
    let Some(value) = table.entry("value") else { return Ok((node, Reason::default())) };
    let why = reason(table, &["value", "why", "fitted"])?;
    match &value.node.kind {
        Kind::Table(_) => Err(Fault::new(&value.node.span, "a value is a number, a text or a list")),
        _ => Ok((&value.node, why)),
    }
}

/// The `why` and `fitted` of a table that has no other keys than `known`.
pub(super) fn reason<'a>(table: &'a Table, known: &[&str]) -> Read<Reason<'a>> {
    if let Some(other) = table.entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
        let near = did_you_mean(&other.key, known.iter().copied());
        let message =
            format!("unknown key '{}'{near} {{ {} }}", clip(&other.key), known.join(" = …, ") + " = …");
        return Err(Fault::new(&other.key_span, message));
    }
    let text = |key: &str, wanted: &str| {
        let Some(entry) = table.entry(key) else { return Ok(None) };
        match &entry.node.kind {
            Kind::Scalar(Scalar { text, form: Form::Quoted }) if !text.trim().is_empty() => {
                Ok(Some(text.as_str()))
            }
            _ => Err(Fault::new(&entry.node.span, wanted)),
        }
    };
    Ok(Reason {
        why: text("why", "write the reason or the source of the number, in quotes")?,
        fitted: text(
            "fitted",
            "write the printed figure that it was set from, such as \"table 6.3, 12 Mbit/s\"",
        )?,
    })
}

//! Variables and their values from point to point.

use std::collections::BTreeSet;
use std::ops::Range;

use super::error::{Fault, Read, clip, did_you_mean};
use super::read::{Reason, is_name, labelled, reason};
use super::tree::{Entry, Kind, Node, Table};
use super::{Note, Point};
use crate::figures::FIGURES;

/// A variable and its values, or several variables that change together.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The variables: one, or those of `[[sweep.point]]`.
    pub names: Vec<String>,
    /// For each step a value for each name, as text.
    pub values: Vec<Vec<String>>,
    /// Why these values.
    pub why: Option<String>,
    /// The printed figure from which they were set.
    pub fitted: Option<String>,
    span: Range<usize>,
}

impl Axis {
    pub(super) fn note(&self) -> Note {
        let steps: Vec<String> = self.values.iter().map(|step| step.join("/")).collect();
        let place = format!("sweep.{}", self.names.join("/"));
        Note { place, value: steps.join(", "), why: self.why.clone(), fitted: self.fitted.clone() }
    }
}

/// Keys of a point that are no variables.
const REASONS: [&str; 2] = ["why", "fitted"];
/// Steps of one axis.
const MAX_VALUES: usize = 10_000;
/// Axes; more make more points than can be run.
const MAX_AXES: usize = 16;
/// Columns of the results other than the sweep's.
const TAKEN: [&str; 9] =
    ["run", "repetition", "seed", "stream", "point", "medium", "counter", "value", "events"];

/// The axes of `[sweep]`, in the order in which they were written.
pub(super) fn read(tree: &Table) -> Read<Vec<Axis>> {
    let Some(entry) = tree.entry("sweep") else { return Ok(Vec::new()) };
    let Kind::Table(table) = &entry.node.kind else {
        return Err(Fault::new(
            &entry.node.span,
            "'sweep' is a table: write [sweep], and names with their values",
        ));
    };
    if table.entries.len() > MAX_AXES {
        let message = format!("{} variables: a sweep has at most {MAX_AXES}", table.entries.len());
        return Err(Fault::new(&entry.key_span, message));
    }
    let axes: Vec<Axis> = table
        .entries
        .iter()
        .map(|entry| if entry.key == "point" { together(entry) } else { alone(entry) })
        .collect::<Read<_>>()?;
    let mut seen = BTreeSet::new();
    for axis in &axes {
        for name in &axis.names {
            if !seen.insert(name) {
                return Err(Fault::new(&axis.span, format!("'{name}' is set twice in [sweep]")));
            }
        }
    }
    Ok(axes)
}

/// `loss = ["1%", "5%"]`, or `loss = { values = ["1%", "5%"], why = "…" }`.
fn alone(entry: &Entry) -> Read<Axis> {
    check_name(&entry.key, &entry.key_span)?;
    let example = format!("write {} = [\"…\", \"…\"], or {{ values = […], why = \"…\" }}", clip(&entry.key));
    let (list, reason) = match &entry.node.kind {
        Kind::Table(table) => {
            let reason = reason(table, &["values", "why", "fitted"])?;
            let values = table.entry("values").ok_or_else(|| Fault::new(&entry.node.span, &*example))?;
            (&values.node, reason)
        }
        _ => (&entry.node, Reason::default()),
    };
    let Kind::List(items) = &list.kind else { return Err(Fault::new(&list.span, example)) };
    let values: Vec<Vec<String>> = items.iter().map(|item| Ok(vec![value(item)?])).collect::<Read<_>>()?;
    let axis = Axis {
        names: vec![entry.key.clone()],
        values,
        why: reason.why.map(Into::into),
        fitted: reason.fitted.map(Into::into),
        span: entry.key_span.clone(),
    };
    check_values(&axis)?;
    Ok(axis)
}

/// `[[sweep.point]]`: tables that all set the same names.
fn together(entry: &Entry) -> Read<Axis> {
    let example = "write [[sweep.point]] once for each point, each with the same names";
    let Kind::List(items) = &entry.node.kind else { return Err(Fault::new(&entry.key_span, example)) };
    let span = entry.key_span.clone();
    let mut axis = Axis { names: Vec::new(), values: Vec::new(), why: None, fitted: None, span };
    for item in items {
        let Kind::Table(table) = &item.kind else { return Err(Fault::new(&item.span, example)) };
        let settings = || table.entries.iter().filter(|entry| !REASONS.contains(&entry.key.as_str()));
        if axis.names.is_empty() {
            axis.names = settings().map(|entry| entry.key.clone()).collect();
            settings().try_for_each(|entry| check_name(&entry.key, &entry.key_span))?;
            let reason = reason_of_point(table)?;
            (axis.why, axis.fitted) = (reason.why.map(Into::into), reason.fitted.map(Into::into));
        }
        let names: BTreeSet<&str> = settings().map(|entry| entry.key.as_str()).collect();
        if names != axis.names.iter().map(String::as_str).collect() || names.is_empty() {
            let message = format!("{example}; the first sets {}", axis.names.join(", "));
            return Err(Fault::new(&item.span, message));
        }
        let of = |name: &String| value(&table.entry(name).expect("the names are the same").node);
        axis.values.push(axis.names.iter().map(of).collect::<Read<_>>()?);
    }
    check_values(&axis)?;
    Ok(axis)
}

fn reason_of_point(table: &Table) -> Read<Reason<'_>> {
    let known: Vec<&str> = table.entries.iter().map(|entry| entry.key.as_str()).collect();
    reason(table, &known)
}

fn check_name(name: &str, span: &Range<usize>) -> Read<()> {
    if !is_name(name) {
        let message =
            format!("'{}' is not a name: a letter, then letters, digits, '-' or '_', at most 40", clip(name));
        return Err(Fault::new(span, message));
    }
    if TAKEN.contains(&name) || FIGURES.iter().any(|figure| figure.name == name) {
        let message = format!("'{name}' is a column of the results already: take another name");
        return Err(Fault::new(span, message));
    }
    Ok(())
}

fn value(node: &Node) -> Read<String> {
    let (node, _) = labelled(node)?;
    match &node.kind {
        Kind::Scalar(scalar) if scalar.text.len() <= 200 && !scalar.text.contains(char::is_control) => {
            Ok(scalar.text.clone())
        }
        _ => Err(Fault::new(
            &node.span,
            "a value of the sweep is a number or a text of up to 200 bytes on one line",
        )),
    }
}

fn check_values(axis: &Axis) -> Read<()> {
    let fault = |message: String| Err(Fault::new(&axis.span, message));
    let names = axis.names.join(", ");
    if axis.values.is_empty() || axis.values.len() > MAX_VALUES {
        return fault(format!("{} values for '{names}': 1 to {MAX_VALUES}", axis.values.len()));
    }
    let mut seen = BTreeSet::new();
    match axis.values.iter().find(|step| !seen.insert(*step)) {
        Some(twice) => fault(format!("'{names}' takes {} twice: each point runs once", twice.join("/"))),
        None => Ok(()),
    }
}

/// Gives an axis other values.
pub(super) fn replace(axes: &mut [Axis], name: &str, values: &[String]) -> Read<()> {
    let names: Vec<String> = axes.iter().flat_map(|axis| axis.names.clone()).collect();
    let Some(axis) = axes.iter_mut().find(|axis| axis.names.iter().any(|known| known == name)) else {
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let known = if names.is_empty() { "nothing".into() } else { names.join(", ") };
        return Err(Fault::new(&(0..0), format!("[sweep] has no '{}'{near} it has {known}", clip(name))));
    };
    if let Some(bad) = values.iter().find(|value| value.len() > 200 || value.contains(char::is_control)) {
        return Err(Fault::new(&axis.span, format!("'{}' is not a value of the sweep", clip(bad))));
    }
    if axis.names.len() == 1 {
        axis.values = values.iter().map(|value| vec![value.clone()]).collect();
    } else {
        let column = axis.names.iter().position(|known| known == name).expect("it was found by that name");
        axis.values.retain(|step| values.contains(&step[column]));
    }
    check_values(axis)
}

/// Refuses variables that are not used.
pub(super) fn all_used(axes: &[Axis], used: &BTreeSet<String>) -> Read<()> {
    for axis in axes {
        if let Some(name) = axis.names.iter().find(|name| !used.contains(*name)) {
            let message =
                format!("'{name}' is set here but not used: write \"${name}\" where its value belongs");
            return Err(Fault::new(&axis.span, message));
        }
    }
    Ok(())
}

/// All combinations of the axes' values, the last axis changing fastest.
pub(super) struct Points<'a>(&'a [Axis]);

pub(super) fn points(axes: &[Axis]) -> Points<'_> {
    Points(axes)
}

/// If there are more points, only some are checked when a scenario is read.
const CHECKED: u64 = 1000;

impl Points<'_> {
    pub(super) fn count(&self) -> u64 {
        self.0.iter().fold(1u64, |count, axis| count.saturating_mul(axis.values.len() as u64))
    }

    /// Point number `n`.
    pub(super) fn at(&self, n: u64) -> Point {
        let (mut rest, mut steps) = (n, Vec::new());
        for axis in self.0.iter().rev() {
            let length = axis.values.len() as u64;
            steps.push(&axis.values[(rest % length) as usize]);
            rest /= length;
        }
        let axes = self.0.iter().zip(steps.into_iter().rev());
        axes.flat_map(|(axis, step)| axis.names.iter().cloned().zip(step.iter().cloned())).collect()
    }

    /// Points that together contain every value of every axis; all of them, if they are few.
    pub(super) fn samples(&self) -> Vec<u64> {
        if self.count() <= CHECKED {
            return (0..self.count()).collect();
        }
        let (mut samples, mut worth) = (Vec::new(), 1u64);
        for axis in self.0.iter().rev() {
            let length = axis.values.len() as u64;
            samples.extend((0..length).map(|step| step.saturating_mul(worth)));
            worth = worth.saturating_mul(length);
        }
        samples.push(self.count() - 1);
        samples
    }
}

//! The text format of OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use std::fmt::Write;

/// The media type of the text format.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a metric behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// It only grows while the stream lasts.
    Counter,
    /// A state.
    Gauge,
    /// Facts in labels; its value is 1.
    Info,
}

impl MetricKind {
    /// Its name in the text.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Info => "info",
        }
    }

    /// What follows a family's name in the name of a sample.
    fn suffix(self) -> &'static str {
        match self {
            MetricKind::Counter => "_total",
            MetricKind::Gauge => "",
            MetricKind::Info => "_info",
        }
    }
}

/// A metric family without its samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The family's name, with its unit, without the suffix of a counter's samples.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its unit, with which the name ends; empty for a number of things.
    pub unit: &'static str,
    /// What it is.
    pub help: &'static str,
}

/// Text being written.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Adds a family with its samples: pairs of labels, and the value. A family without samples is left out.
    pub fn family(&mut self, metric: &Metric, samples: &[(&[(&str, &str)], f64)]) {
        if samples.is_empty() {
            return;
        }
        let Metric { name, kind, unit, help } = metric;
        self.line(format_args!("# TYPE {name} {}", kind.name()));
        if !unit.is_empty() {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {}", escaped(help)));
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            self.line(format_args!("{name}{}{labels} {}", kind.suffix(), number(*value)));
        }
    }

    /// The whole text, with its end.
    pub fn finish(mut self) -> String {
        self.line(format_args!("# EOF"));
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a text takes any line");
    }
}

/// Escapes as in values of labels and in help texts.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// A number in the form of the format.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value => value.to_string(),
    }
}

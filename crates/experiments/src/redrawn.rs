//! Figures of the papers whose values are those of other tables, or are not in the papers' text at all.

use antiphon_lab::papers::{ColumnMap, Experiment, Place, Statistic, Value};
use antiphon_report::{Axis, Chart, Part, Scale, Section, Series, Style};

use super::papers::PaperResults;

/// Values by x.
type Points = Vec<(f64, Option<Value>)>;

/// A line of a chart.
#[derive(Default)]
struct Line {
    name: String,
    colour: usize,
    style: Style,
    points: Points,
}

impl From<Line> for Series {
    fn from(line: Line) -> Series {
        Series {
            name: line.name,
            colour: line.colour,
            style: line.style,
            x: line.points.iter().map(|(x, _)| *x).collect(),
            y: line.points.iter().map(|(_, value)| value.map(|value| value.value)).collect(),
            half_widths: line
                .points
                .iter()
                .map(|(_, value)| value.and_then(|value| value.half_width))
                .collect(),
            ..Series::default()
        }
    }
}

impl PaperResults {
    /// The figures of this experiment that its tables don't draw.
    pub(super) fn redrawn(&self, experiment: &Experiment) -> Vec<Part> {
        let charts = match (self.paper.key, experiment.key) {
            ("tv-audio-wlan", "initial") => self.initial(experiment),
            ("tv-audio-wlan", "mac_retransmission") => self.mac_retransmission(experiment),
            _ => Vec::new(),
        };
        charts.into_iter().map(Part::Chart).collect()
    }

    /// Section 2.4 by disturbance: ours alone, since the paper's values are in its figures only.
    fn initial(&self, experiment: &Experiment) -> Vec<Chart> {
        let Some(results) = self.of(experiment.key) else { return Vec::new() };
        let line = |colour, stream: &str, name: &str, figure: &'static str, scale: f64| {
            let points = [0.0, 2.0, 10.0, 20.0].map(|rate| {
                let point = vec![("disturbance", format!("{rate}Mbit/s"))];
                let value = Place { stream: stream.into(), point }.value(results, figure, Statistic::Mean);
                (rate, value.map(|value| scaled(value, scale)))
            });
            Line { name: name.into(), colour, points: points.into(), ..Line::default() }
        };
        let figure = |title: &str, y, lines: Vec<Line>| {
            Chart {
            title: format!("Section 2.4 (Figures 2.8 to 2.10): {title}"),
            note: "Ours alone: the paper's values are in its figures only. Bars: 95 % confidence intervals over the runs.".into(),
            x: Axis::new("disturbance", "Mbit/s"),
            y,
            series: lines.into_iter().map(Series::from).collect(),
            ..Chart::default()
        }
        };
        let lost = |colour, stream, name| line(colour, stream, name, "missing_percent", 1.0);
        let gap = |colour, stream, name| line(colour, stream, name, "gap_max_ms", 1.0);
        let half = |colour, stream, name| line(colour, stream, name, "rtt_mean_ms", 0.5);
        let log = Axis { scale: Scale::Log, ..Axis::new("half a round trip", "ms") };
        vec![
            figure(
                "lost packets of the multicast",
                Axis::new("lost", "%"),
                vec![lost(0, "audio", "by radio"), lost(1, "audio@cable-client", "by cable")],
            ),
            figure(
                "longest time between two of its packets",
                Axis::new("longest gap", "ms"),
                vec![gap(0, "audio", "by radio"), gap(1, "audio@cable-client", "by cable")],
            ),
            figure(
                "network delay",
                log,
                vec![half(0, "ping", "by radio"), half(1, "ping-cable", "by cable")],
            ),
        ]
    }

    /// Section 5 by MAC retransmissions.
    fn mac_retransmission(&self, experiment: &Experiment) -> Vec<Chart> {
        let [map] = experiment.tables else { return Vec::new() };
        let Some(table) = self.paper.table(map.file) else { return Vec::new() };
        let results = self.of(experiment.key);
        let lines = |columns: &[ColumnMap]| -> Vec<Series> {
            let of = |(n, column): (usize, &ColumnMap)| {
                let rows = (0..table.rows.len()).filter_map(|row| {
                    let x = table.number(row, map.labels[0])?;
                    Some((x, column.compare(map, table, row, results)))
                });
                let (printed, ours) = rows.map(|(x, both)| ((x, both.printed), (x, both.ours))).unzip();
                both(2 * n, antiphon_lab::papers::heading(column.printed).0, printed, ours)
            };
            columns.iter().enumerate().flat_map(of).collect()
        };
        let chart = |title: &str, y, columns| Chart {
            title: format!("Section 5 (Figures 5.3 and 5.4): {title}"),
            note: PRINTED.into(),
            x: Axis::new("MAC retransmissions at most", ""),
            y,
            series: lines(columns),
            ..Chart::default()
        };
        let (delay, loss) = map.columns.split_at(2);
        vec![
            chart("inter-packet delay", Axis { scale: Scale::Log, ..Axis::new("delay", "ms") }, delay),
            chart("packet loss", Axis::new("lost", "%"), loss),
        ]
    }

    /// Figures 9 and 10 of the comparison of 2013, on its page: round trips and losses by connection.
    pub(super) fn connections_section(&self) -> Option<Section> {
        (self.paper.key == "transport-alternatives").then_some(())?;
        let chart = |title: &str, y, column| Chart {
            title: title.into(),
            note: format!(
                "1, 2: localhost of computers A and B (ours is one machine); 3: crossover cable; 4: switch; 5: direct wireless; 6: access point. {PRINTED}"
            ),
            x: Axis::new("connection", ""),
            y,
            series: self.by_connection(column),
            log_toggle: true,
            ..Chart::default()
        };
        let log = Axis { scale: Scale::Log, ..Axis::new("mean round trip", "ms") };
        let charts = [
            chart("Figure 9: mean round trip by connection, two channels", log, "latency [ms]"),
            chart("Figure 10: lost packets by connection, two channels", Axis::new("lost", "%"), "loss [%]"),
        ];
        let intro = "The paper's summary (section 4.2), redrawn from its tables with ours beside them.";
        Some(
            charts
                .into_iter()
                .fold(Section::new("Connections", intro), |section, chart| section.with(Part::Chart(chart))),
        )
    }

    /// A printed column of all tables for two channels, by protocol.
    fn by_connection(&self, printed: &str) -> Vec<Series> {
        let mut connections: Vec<(&str, &str)> = Vec::new();
        let mut lines: Vec<(&str, Points, Points)> = Vec::new();
        for experiment in self.paper.experiments {
            let Some(map) = experiment.tables.first() else { continue };
            let Some(table) = self.paper.table(map.file) else { continue };
            let Some(column) = map.columns.iter().find(|column| column.printed == printed) else { continue };
            for row in (0..table.rows.len()).filter(|row| table.text(*row, "channels") == Some("2")) {
                let (Some(computer), Some(protocol)) =
                    (table.text(row, "computer"), table.text(row, "protocol"))
                else {
                    continue;
                };
                let connection = (experiment.key, computer);
                if !connections.contains(&connection) {
                    connections.push(connection);
                }
                let x =
                    connections.iter().position(|known| *known == connection).map_or(0.0, |n| n as f64 + 1.0);
                let found = column.compare(map, table, row, self.of(experiment.key));
                let place = lines.iter().position(|(name, ..)| *name == protocol).unwrap_or_else(|| {
                    lines.push((protocol, Vec::new(), Vec::new()));
                    lines.len() - 1
                });
                lines[place].1.push((x, found.printed));
                lines[place].2.push((x, found.ours));
            }
        }
        let colours = lines.into_iter().enumerate();
        colours.flat_map(|(colour, (name, printed, ours))| both(colour, name, printed, ours)).collect()
    }
}

/// Ours and the printed values.
fn both(colour: usize, name: &str, printed: Points, ours: Points) -> [Series; 2] {
    [
        Line { name: format!("{name}, ours"), colour, style: Style::Line, points: ours }.into(),
        Line { name: format!("{name}, printed"), colour, style: Style::Dashed, points: printed }.into(),
    ]
}

fn scaled(value: Value, scale: f64) -> Value {
    Value { value: value.value * scale, half_width: value.half_width.map(|width| width * scale), ..value }
}

const PRINTED: &str = "Dashed: as printed. Bars: 95 % confidence intervals over the runs.";

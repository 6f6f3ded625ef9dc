//! Lines, points and steps over an axis: the description that `report.js` draws.

use crate::encode::{Pool, quantum_for};
use crate::html::{escape, inline, script_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A chart of one or more series. Dragging zooms; a double click or Escape shows everything again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// The title above the chart; may be empty.
    pub title: String,
    /// How to read it, below the chart; may be empty.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// Fixed values shown as dashed lines, such as a playout delay.
    pub marks: Vec<Mark>,
    /// Whether a button switches the vertical axis between linear and logarithmic.
    pub log_toggle: bool,
    /// Whether each series first has its own panel, all to one scale; a button overlays them.
    pub panels: bool,
    /// What the ticks of [`Series::ticks`] mark, such as "lost".
    pub ticks_label: String,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// The quantity along it.
    pub label: String,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// How values are spread over it.
    pub scale: Scale,
    /// A linear axis of values begins near the lowest value or mark, not at zero: for what differs by little.
    pub near: bool,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str, unit: &str) -> Self {
        Axis { label: label.into(), unit: unit.into(), ..Axis::default() }
    }

    /// The quantity with its unit.
    fn named(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

/// How an axis spreads its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm; values of 0 and below are not drawn.
    Log,
    /// Shares of 1 by their logarithm, labelled "1 in 100": rare events stay readable.
    Share,
}

/// One series of a [`Chart`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Number of the colour; equal numbers look equal throughout a page, and number 8 is the first colour again.
    pub colour: usize,
    /// How it is drawn.
    pub style: Style,
    /// Positions of the values on the x axis. Need not be sorted; values that are not finite are left out.
    pub x: Vec<f64>,
    /// The values, `None` for a gap; those beyond the length of `x` are left out.
    pub y: Vec<Option<f64>>,
    /// Half widths of the values' confidence intervals, drawn as bars; empty or shorter if there are none.
    pub half_widths: Vec<Option<f64>>,
    /// Positions of ticks above the chart, such as the send times of lost packets.
    pub ticks: Vec<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// A dot per value.
    Points,
    /// Values joined by straight lines.
    #[default]
    Line,
    /// The same, dashed: a published figure beside our own.
    Dashed,
    /// Each value holds until the next.
    Steps,
}

/// A value shown as a dashed line across the chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// Which axis the value belongs to.
    pub axis: MarkAxis,
    /// The value.
    pub at: f64,
    /// Its name, in two or three words.
    pub label: String,
    /// The colour of the series it belongs to; `None` for all of them.
    pub colour: Option<usize>,
}

/// The axis of a [`Mark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkAxis {
    /// A vertical line.
    #[default]
    X,
    /// A horizontal line.
    Y,
}

impl Chart {
    pub(crate) fn render(&self, pool: &mut Pool, out: &mut String) {
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        let label = format!("{} over {}: {}", self.y.named(), self.x.named(), names.join(", "));
        out.push_str("<figure class=\"chart\" data-figure=\"chart\">\n");
        if !self.title.is_empty() {
            out.push_str(&format!("<h3>{}</h3>\n", escape(&self.title)));
        }
        out.push_str(&format!("<p class=\"axis\" aria-hidden=\"true\">{}</p>\n", escape(&self.y.named())));
        out.push_str(&format!(
            "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{}\"></div>\n\
             <div class=\"legend js\"></div>\n",
            escape(&label)
        ));
        if !self.note.is_empty() {
            out.push_str(&format!("<figcaption>{}</figcaption>\n", inline(&self.note)));
        }
        out.push_str(&format!(
            "<script type=\"application/json\">{}</script></figure>\n",
            script_json(&self.spec(pool))
        ));
    }

    fn spec(&self, pool: &mut Pool) -> Value {
        let marks: Vec<&Mark> = self.marks.iter().filter(|m| m.at.is_finite()).collect();
        json!({
            "x": self.x,
            "y": self.y,
            "marks": marks,
            "panels": self.panels,
            "logToggle": self.log_toggle,
            "ticksLabel": self.ticks_label,
            "series": self.series.iter().map(|s| s.spec(pool)).collect::<Vec<_>>(),
        })
    }
}

impl Series {
    fn spec(&self, pool: &mut Pool) -> Value {
        let half_widths = self.half_widths.iter().copied().chain(std::iter::repeat(None));
        let values = self.y.iter().copied().zip(half_widths);
        let pairs = self.x.iter().copied().zip(values);
        let mut points: Vec<Point> = pairs.filter(|(x, _)| x.is_finite()).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantum = quantum_for(points.iter().map(|p| p.0));
        let quantum = quantum.min(crate::fate::SECONDS_QUANTUM.max(quantum / 100.0));
        spread(&mut points, quantum);
        let y_quantum = quantum_for(points.iter().filter_map(|p| p.1.0));
        let bars: &[Point] = if self.half_widths.is_empty() { &[] } else { &points };
        json!({
            "name": self.name,
            "colour": self.colour,
            "style": self.style,
            "x": pool.add(points.iter().map(|p| Some(p.0)), quantum),
            "y": pool.add(points.iter().map(|p| p.1.0), y_quantum),
            "bars": pool.add(bars.iter().map(|p| p.1.1), y_quantum),
            "ticks": pool.add(self.ticks.iter().map(|x| Some(*x)), quantum),
        })
    }
}

/// Position of a value, the value, the half width of its interval.
type Point = (f64, (Option<f64>, Option<f64>));

/// Separates values at the same position by one `quantum` each: the drawing joins series by their `x`, and would keep
/// only one of two values at the same position.
fn spread<V>(points: &mut [(f64, V)], quantum: f64) {
    let mut last = f64::NEG_INFINITY;
    for point in points {
        let steps = (point.0 / quantum).round().max(last + 1.0);
        point.0 = steps * quantum;
        last = steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_one_spot_are_kept_apart() {
        let mut points = [(1.0, Some(1.0)), (1.0, Some(2.0)), (1.0, None), (1.001, Some(3.0)), (2.0, None)];
        spread(&mut points, 0.001);
        let xs: Vec<i64> = points.iter().map(|p| (p.0 * 1000.0).round() as i64).collect();
        assert_eq!(xs, [1000, 1001, 1002, 1003, 2000]);
    }

    #[test]
    fn bars_stay_with_their_values() {
        let series = Series {
            x: vec![4.0, 2.0, f64::NAN, 0.0],
            y: vec![Some(40.0), None, Some(1.0), Some(10.0)],
            half_widths: vec![Some(4.0), Some(2.0), Some(9.0)],
            ..Series::default()
        };
        let mut pool = Pool::default();
        let spec = series.spec(&mut pool);
        let columns = pool.into_json();
        let column = |name: &str| columns[spec[name].as_u64().unwrap() as usize].clone();
        let mut expected = Pool::default();
        expected.add([None, Some(2.0), Some(4.0)], column("bars")[0].as_f64().unwrap());
        assert_eq!(column("bars"), expected.into_json()[0]);
        let without = Series { half_widths: Vec::new(), ..series }.spec(&mut Pool::default());
        assert!(without["bars"].is_u64());
    }

    #[test]
    fn names_from_outside_can_not_leave_the_data() {
        let chart = Chart {
            series: vec![Series { name: "</script><img onerror=alert(1)>".into(), ..Series::default() }],
            ..Chart::default()
        };
        let mut out = String::new();
        chart.render(&mut Pool::default(), &mut out);
        assert_eq!(out.matches("</script>").count(), 1);
        assert!(!out.contains("<img"));
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let chart = Chart {
            series: vec![Series {
                x: vec![f64::NAN, 1.0, f64::INFINITY, 0.5],
                y: vec![Some(1.0), Some(f64::NAN), Some(2.0), Some(3.0), Some(9.0)],
                ..Series::default()
            }],
            marks: vec![Mark { at: f64::NAN, ..Mark::default() }],
            ..Chart::default()
        };
        let spec = chart.spec(&mut Pool::default());
        assert_eq!(spec["marks"].as_array().unwrap().len(), 0);
    }
}

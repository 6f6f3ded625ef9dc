//! A still picture of a comparison, for a README: plain SVG with its own background, so that it is readable on light
//! and dark pages.

use crate::compare::{CompareReport, TransportPanel};
use crate::fate::Fate;
use crate::html::{escape, number};
use crate::table::{Cell, Row};
use std::fmt::Write;

mod answers;

/// The recommendations, and latency over time and the losses of every transport, as one SVG document, 960 units wide.
///
/// Rows of the table marked `key` are written next to each transport's panel, as many as fit.
pub fn compare_svg(report: &CompareReport) -> String {
    draw(report, " xmlns=\"http://www.w3.org/2000/svg\"", true)
}

/// Latency and losses alone, for use inside HTML, where the name space is implied and the page has the recommendations.
pub(crate) fn inline_svg(report: &CompareReport) -> String {
    draw(report, "", false)
}

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
/// Left edge of the panels; the figures are to the left of it.
const LEFT: f64 = 300.0;
const RIGHT: f64 = WIDTH - MARGIN;
const PANEL: f64 = 60.0;
const STRIP: f64 = 12.0;
const PITCH: f64 = PANEL + STRIP + 34.0;
/// Figures next to a panel: their lines fit its pitch.
const FIGURES: usize = 4;

const BACKGROUND: &str = "#ffffff";
const INK: &str = "#1b222b";
const MUTED: &str = "#5d6875";
const RULE: &str = "#dde2e8";
/// The light colours of `report.css`.
const COLOURS: [&str; 8] =
    ["#1769aa", "#c2500a", "#0b8068", "#84479f", "#8a6a00", "#bf3f78", "#55606e", "#2f8fbf"];

/// Maps time and latency to positions; the same for all panels, so that they can be compared.
struct Frame {
    seconds: f64,
    ceiling_ms: f64,
}

impl Frame {
    fn of(report: &CompareReport) -> Self {
        let sent = report.transports.iter().flat_map(|t| t.sent_ms.iter().copied().filter(|s| s.is_finite()));
        let mut latency: Vec<f32> = report
            .transports
            .iter()
            .flat_map(|t| t.latency_ms.iter().flatten().copied().filter(|l| l.is_finite()))
            .collect();
        latency.sort_by(f32::total_cmp);
        // One outlier must not flatten all other packets: packets above the ceiling are drawn on it.
        let high = latency.get((latency.len() * 999 / 1000).min(latency.len().saturating_sub(1)));
        Frame {
            seconds: sent.fold(0.0, |a, s| f64::from(s).max(a)).max(1.0) / 1000.0,
            ceiling_ms: nice_above(f64::from(high.copied().unwrap_or(1.0)) * 1.05),
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.seconds).clamp(0.0, 1.0)
    }

    /// Below the top of a panel.
    fn y(&self, ms: f64) -> f64 {
        PANEL * (1.0 - (ms / self.ceiling_ms).clamp(0.0, 1.0))
    }
}

/// The smallest 1, 2, 3, 4, 5, 6 or 8 times a power of ten that is not below `value`.
fn nice_above(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let decade = 10f64.powi(value.log10().floor() as i32);
    let factors = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    decade * factors.into_iter().find(|f| f * decade >= value).unwrap_or(10.0)
}

/// Above the panels: the title and, `with_answers`, the recommendations.
fn draw_top(report: &CompareReport, with_answers: bool, svg: &mut String) -> f64 {
    let mut y = MARGIN + 14.0;
    for line in wrap(&report.title, 72) {
        text(svg, MARGIN, y, &format!("font-size=\"20\" font-weight=\"600\" fill=\"{INK}\""), &line);
        y += 26.0;
    }
    if !with_answers {
        return y + 6.0;
    }
    answers::answers(report, y, svg) + 26.0
}

fn draw(report: &CompareReport, namespace: &str, with_answers: bool) -> String {
    let frame = Frame::of(report);
    let mut body = String::new();
    let top = draw_top(report, with_answers, &mut body);
    for (i, transport) in report.transports.iter().enumerate() {
        let y = top + PITCH * i as f64;
        figures(&mut body, report, i, y);
        grid(&mut body, &frame, y);
        dots(&mut body, transport, COLOURS[i % COLOURS.len()], &frame, y);
        if let Some(target) = transport.playout_target_ms {
            // Said once for transports whose delays hardly differ.
            let above = i.checked_sub(1).and_then(|i| report.transports[i].playout_target_ms);
            let label = above.is_none_or(|above| (above - target).abs() > target * 0.05);
            target_line(&mut body, target, label, &frame, y);
        }
        strip(&mut body, transport, &frame, y + PANEL + 6.0);
    }
    let bottom = top + PITCH * report.transports.len() as f64;
    time_axis(&mut body, &frame, bottom - 14.0);
    legend(&mut body, report, bottom + 24.0);
    let height = bottom + 40.0;
    format!(
        "<svg{namespace} viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\" font-size=\"13\">\n\
         <title>{}</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"{BACKGROUND}\" \
         stroke=\"{RULE}\"/>\n{body}</svg>\n",
        escape(&report.title),
        WIDTH - 1.0,
        height - 1.0,
    )
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escape(words));
}

/// Name and key figures left of a panel.
fn figures(svg: &mut String, report: &CompareReport, index: usize, y: f64) {
    let transport = &report.transports[index];
    let colour = COLOURS[index % COLOURS.len()];
    let style = format!("font-size=\"16\" font-weight=\"600\" fill=\"{colour}\"");
    text(svg, MARGIN, y + 12.0, &style, &shorten(&transport.name, 26));
    let keys = report.table.iter().filter(|row| row.key).take(FIGURES);
    for (line, row) in keys.enumerate() {
        let y = y + 34.0 + 17.5 * line as f64;
        text(svg, MARGIN, y, &format!("fill=\"{MUTED}\""), &shorten(&row.label, 20));
        let weight = if row.is_best(index) { " font-weight=\"700\"" } else { "" };
        let style =
            format!("text-anchor=\"end\" fill=\"{INK}\"{weight} style=\"font-variant-numeric:tabular-nums\"");
        text(svg, LEFT - 62.0, y, &style, &figure(row, index));
    }
}

fn figure(row: &Row, index: usize) -> String {
    let value = match row.values.get(index) {
        Some(Cell::Text(words)) => return shorten(words, 12),
        Some(cell) => cell.finite(),
        None => None,
    };
    value.map_or("\u{2013}".into(), |v| format!("{}\u{202f}{}", number(v, row.decimals), row.unit))
}

/// The grid lines of a panel with their labels.
fn grid(svg: &mut String, frame: &Frame, top: f64) {
    for share in [0.0, 0.5, 1.0] {
        let y = top + PANEL * (1.0 - share);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{RULE}\"/>");
        let ms = frame.ceiling_ms * share;
        let decimals = if ms.fract() == 0.0 { 0 } else { 2 };
        let unit = if share == 1.0 { "\u{202f}ms" } else { "" };
        let style = format!("text-anchor=\"end\" font-size=\"11\" fill=\"{MUTED}\"");
        text(svg, LEFT - 6.0, y + 4.0, &style, &format!("{}{unit}", number(ms, decimals)));
    }
}

/// Latency over time: at most one dot per position, and fewer positions for a run of minutes, which limits the size of
/// the picture.
fn dots(svg: &mut String, transport: &TransportPanel, colour: &str, frame: &Frame, top: f64) {
    let per_unit = if transport.latency_ms.len() > 20_000 { 1.0 } else { 2.0 };
    let place = |v: f64| (v * per_unit).round() as i32;
    let mut dots: Vec<(i32, i32)> = transport
        .sent_ms
        .iter()
        .zip(&transport.latency_ms)
        .filter_map(|(sent, latency)| Some((f64::from(*sent), f64::from((*latency)?))))
        .filter(|(sent, latency)| sent.is_finite() && latency.is_finite())
        .map(|(sent, ms)| (place(frame.x(sent / 1000.0)), place(top + frame.y(ms))))
        .collect();
    dots.sort_unstable();
    dots.dedup();
    let _ = write!(
        svg,
        "<path stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linecap=\"round\" fill=\"none\" d=\""
    );
    for (x, y) in dots {
        let _ = write!(svg, "M{} {}h0", f64::from(x) / per_unit, f64::from(y) / per_unit);
    }
    svg.push_str("\"/>\n");
}

/// The dashed line of a playout delay; `label` is false if the panel above has the same label.
fn target_line(svg: &mut String, target: f32, label: bool, frame: &Frame, top: f64) {
    let target = f64::from(target);
    if !(target > 0.0 && target < frame.ceiling_ms) {
        return;
    }
    let y = top + frame.y(target);
    let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{INK}\" stroke-dasharray=\"5 4\"/>");
    if label {
        let style = format!(
            "text-anchor=\"end\" font-size=\"11\" fill=\"{INK}\" stroke=\"{BACKGROUND}\" stroke-width=\"3\" \
             paint-order=\"stroke\""
        );
        let words = format!("late above {}\u{202f}ms", number(target, 0));
        text(svg, RIGHT, y - 4.0, &style, &words);
    }
}

/// Every packet's fate along the time axis; packets at the same position show the worst fate.
fn strip(svg: &mut String, transport: &TransportPanel, frame: &Frame, top: f64) {
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{}\" height=\"{STRIP}\" fill=\"{}\"/>",
        RIGHT - LEFT,
        fate_colour(Fate::Received)
    );
    let mut worst = std::collections::BTreeMap::new();
    for (sent, fate) in transport.sent_ms.iter().zip(&transport.fate) {
        if *fate != Fate::Received && sent.is_finite() {
            let place = (frame.x(f64::from(*sent) / 1000.0) - LEFT).floor().min(RIGHT - LEFT - 2.0) as i32;
            let entry = worst.entry(place).or_insert(*fate);
            *entry = (*entry).max(*fate);
        }
    }
    for fate in &Fate::ALL[1..] {
        let places = worst.iter().filter(|(_, f)| *f == fate).map(|(x, _)| *x);
        let (from, height) = fate_reach(*fate);
        let path: String = places
            .map(|x| format!("M{} {:.1}v{height:.1}", LEFT + f64::from(x) + 1.0, top + STRIP * from))
            .collect();
        if !path.is_empty() {
            let _ =
                writeln!(svg, "<path d=\"{path}\" stroke=\"{}\" stroke-width=\"2\"/>", fate_colour(*fate));
        }
    }
}

/// Colours that colour-blind readers can distinguish (after Okabe and Ito 2008), the same as in `report.css`.
fn fate_colour(fate: Fate) -> &'static str {
    match fate {
        Fate::Received => "#dbe7f1",
        Fate::Recovered => "#5b9bd0",
        Fate::Late => "#e0a100",
        Fate::Expired => "#8d55b0",
        Fate::Lost => "#b3261e",
        Fate::Concealed => "#3c4754",
    }
}

/// Where a fate's mark begins, as a share of the strip's height, and its length: fates differ in shape and colour.
fn fate_reach(fate: Fate) -> (f64, f64) {
    match fate {
        Fate::Lost => (0.0, STRIP),
        Fate::Late => (0.5, STRIP / 2.0),
        Fate::Expired => (0.0, STRIP / 2.0),
        _ => (0.3, STRIP * 0.4),
    }
}

fn time_axis(svg: &mut String, frame: &Frame, y: f64) {
    let step = nice_above(frame.seconds / 8.0);
    let mut at = 0.0;
    while at <= frame.seconds + 1e-9 {
        let decimals = usize::from(step < 1.0);
        let style = format!("text-anchor=\"middle\" font-size=\"11\" fill=\"{MUTED}\"");
        text(svg, frame.x(at), y + 4.0, &style, &format!("{}\u{202f}s", number(at, decimals)));
        at += step;
    }
}

fn legend(svg: &mut String, report: &CompareReport, y: f64) {
    let words = format!(
        "{} of each packet by time of sending; below it, what became of the packet:",
        report.latency.label
    );
    text(svg, MARGIN, y, &format!("font-size=\"12\" fill=\"{MUTED}\""), &capital(&words));
    let mut x = RIGHT;
    for fate in Fate::ALL.into_iter().rev() {
        let occurs = fate == Fate::Received || report.transports.iter().any(|t| t.fate.contains(&fate));
        if !occurs {
            continue;
        }
        x -= 7.0 * fate.word().len() as f64;
        text(svg, x, y, &format!("font-size=\"12\" fill=\"{INK}\""), fate.word());
        x -= 18.0;
        let (from, height) = fate_reach(fate);
        let (from, height) = if fate == Fate::Received { (0.0, STRIP) } else { (from, height) };
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"{STRIP}\" fill=\"{}\"/>\
             <rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"{height:.1}\" fill=\"{}\"/>",
            y - 10.5,
            fate_colour(Fate::Received),
            y - 10.5 + STRIP * from,
            fate_colour(fate)
        );
        x -= 14.0;
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

fn shorten(words: &str, limit: usize) -> String {
    if words.chars().count() <= limit {
        return words.into();
    }
    words.chars().take(limit.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// `words` in lines of at most `width` characters; a longer word has a line of its own, cut where it would leave the picture.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace().take(MOST_WORDS) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shorten(word, width)),
        }
    }
    lines
}

/// More than any title or sentence of a report: a bound for texts from outside.
const MOST_WORDS: usize = 100;

#[cfg(test)]
mod tests;

//! Tables of transports: side by side if they fit, else one below the other.

use antiphon::report::{Better, Cell as Value, Row};

use crate::grid::{Align, Cell, Grid, Palette, Tone, wrap};

/// Figures of the transports called `names` as a table of at most `width` columns where that is possible, with `palette` on the
/// best figures.
pub fn render(rows: &[Row], names: &[&str], width: usize, palette: Palette) -> String {
    let upright = upright(rows, names, width);
    let fits = upright.width() <= width;
    if fits { upright } else { transposed(rows, names, width) }.render(width, palette)
}

/// Figures below each other, a column for each transport. If there is room, each figure is explained.
fn upright(rows: &[Row], names: &[&str], width: usize) -> Grid {
    let plain = upright_with(rows, names, false);
    if plain.width() + EXPLAINED <= width { upright_with(rows, names, true) } else { plain }
}

/// Columns that an explanation needs to be readable.
const EXPLAINED: usize = 42;

fn upright_with(rows: &[Row], names: &[&str], explained: bool) -> Grid {
    let mut aligns = vec![Align::Left, Align::Left];
    aligns.extend(names.iter().map(|_| Align::Right));
    if explained {
        aligns.push(Align::Prose);
    }
    let mut grid = Grid::new(aligns);
    let heads = names.iter().map(|name| Cell::new(*name, Tone::Head));
    grid.row([Cell::default(), Cell::default()].into_iter().chain(heads));
    for row in rows {
        if !row.group.is_empty() {
            grid.title(Cell::new(row.group.as_str(), Tone::Head));
        }
        let name = [Cell::from(format!("  {}", row.label)), Cell::new(row.unit.as_str(), Tone::Dim)];
        let about = Cell::new(row.definition.as_str(), Tone::Dim);
        grid.row(name.into_iter().chain(cells(row)).chain(explained.then_some(about)));
    }
    grid
}

/// A line for each transport, and as many figures as fit: summarising ones first.
fn transposed(rows: &[Row], names: &[&str], width: usize) -> Grid {
    let titled = titled(rows);
    let mut by_rank: Vec<usize> = (0..rows.len()).collect();
    by_rank.sort_by_key(|at| !rows[*at].key);
    let mut shown: Vec<usize> = Vec::new();
    let mut best = transposed_with(&titled, names, &shown);
    for at in by_rank {
        let before = shown.clone();
        shown.push(at);
        shown.sort_unstable();
        let grid = transposed_with(&titled, names, &shown);
        if grid.width() <= width {
            best = grid;
        } else {
            shown = before;
        }
    }
    best
}

/// Each row with its heading.
fn titled(rows: &[Row]) -> Vec<(Vec<String>, &Row)> {
    rows.iter().map(|row| (wrap(&row.label.replace(',', ""), HEADING), row)).collect()
}

/// Headings are folded to about this width, so that columns are as narrow as their numbers.
const HEADING: usize = 8;

fn transposed_with(rows: &[(Vec<String>, &Row)], names: &[&str], shown: &[usize]) -> Grid {
    let shown: Vec<&(Vec<String>, &Row)> = shown.iter().map(|at| &rows[*at]).collect();
    let mut aligns = vec![Align::Left];
    aligns.extend(shown.iter().map(|_| Align::Right));
    let mut grid = Grid::new(aligns);
    let tallest = shown.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
    for line in 0..tallest {
        // Headings end above their units.
        let word = |(title, _): &&(Vec<String>, &Row)| {
            let at = (line + title.len()).checked_sub(tallest);
            Cell::new(at.map_or("", |at| title[at].as_str()), Tone::Head)
        };
        grid.row([Cell::default()].into_iter().chain(shown.iter().map(word)));
    }
    let units = shown.iter().map(|(_, row)| Cell::new(row.unit.as_str(), Tone::Dim));
    grid.row([Cell::default()].into_iter().chain(units));
    let columns: Vec<Vec<Cell>> = shown.iter().map(|(_, row)| cells(row)).collect();
    for (at, name) in names.iter().enumerate() {
        let line = columns.iter().map(|column| column[at].clone());
        grid.row([Cell::new(*name, Tone::Head)].into_iter().chain(line));
    }
    grid
}

/// The values of a row, the best of them marked.
fn cells(row: &Row) -> Vec<Cell> {
    let number = |value: &Value| match value {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    let numbers = || row.values.iter().filter_map(number);
    let (low, high) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    let best = match row.better {
        Better::Lower if low < high => Some(low),
        Better::Higher if low < high => Some(high),
        _ => None,
    };
    let cell = |value: &Value| match value {
        Value::Number(number) => {
            let tone = if best == Some(*number) { Tone::Best } else { Tone::Plain };
            Cell::new(digits(*number, row.decimals), tone)
        }
        Value::Text(text) => Cell::from(text.as_str()),
        Value::Missing(_) => Cell::new("-", Tone::Dim),
    };
    row.values.iter().map(cell).collect()
}

/// At most `decimals`, fewer if the number is large; a value that would round to zero is displayed as small.
fn digits(value: f64, decimals: usize) -> String {
    let least = 0.1f64.powi(decimals as i32);
    match value.abs() {
        0.0 => "0".into(),
        size if decimals > 0 && size < least / 2.0 => format!("<{least:.decimals$}"),
        size if size >= 999.5 => format!("{value:.0}"),
        size if size >= 99.95 => format!("{value:.*}", decimals.min(1)),
        _ => format!("{value:.decimals$}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use antiphon::figure_rows;
    use antiphon::measure::TransportFigures;

    const PLAIN: Palette = Palette { coloured: false };

    fn render(figures: &[TransportFigures], width: usize, palette: Palette) -> String {
        let names: Vec<&str> = figures.iter().map(|f| f.transport.as_str()).collect();
        super::render(&figure_rows(figures), &names, width, palette)
    }

    /// Figures of `count` transports, each worse than the one before, with values as wide as those of a long run.
    pub fn synthetic(count: usize) -> Vec<TransportFigures> {
        let names = ["rtp", "tcp", "sctp", "dccp", "xtp", "srp", "arq", "quic", "adaptive"];
        let log = antiphon::measure::PacketLog::new(antiphon::measure::PacketLogConfig {
            capacity: 16,
            clock_rate: 48_000,
            packet: std::time::Duration::from_micros(5333),
            packet_bytes: 1024,
        });
        let made = |(at, name): (usize, &&str)| {
            let mut figures = TransportFigures::new(&log, &antiphon::measure::RunFacts::default());
            let worse = (at + 1) as f64;
            figures.transport = (*name).into();
            (figures.packets_sent, figures.packets_received) = (112_500, 112_500 - at as u64);
            figures.lost_percent = Some(0.123 * at as f64);
            figures.late_percent = Some(12.5 - worse);
            for share in
                [&mut figures.expired_percent, &mut figures.concealed_percent, &mut figures.duplicate_percent]
            {
                *share = Some(0.001);
            }
            figures.rtt_ms.p50_ms = Some(4.256 * worse);
            figures.rtt_ms.p99_ms = Some(1234.5);
            figures.rtt_ms.max_ms = Some(12_345.6);
            figures.jitter_mad_ms = Some(0.0321 * worse);
            figures.wire_kbit_per_s = Some(1711.0 + worse);
            figures.cpu_ms_per_s = Some(8.256);
            figures
        };
        names.iter().enumerate().take(count).map(made).collect()
    }

    #[test]
    fn every_number_of_transports_fits_every_width() {
        for width in [60, 80, 120, 200] {
            for count in 1..=9 {
                let text = render(&synthetic(count), width, PLAIN);
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= width, "{count} transports at {width}: {widest}\n{text}");
                for name in synthetic(count).iter().map(|f| &f.transport) {
                    assert!(text.contains(name.as_str()), "{name} at {width}");
                }
                assert!(text.contains("lost") && text.contains("late") && text.contains("ms"), "{text}");
            }
        }
    }

    #[test]
    fn two_stand_side_by_side_and_nine_below_each_other() {
        let two = render(&synthetic(2), 80, PLAIN);
        let lost = two.lines().find(|line| line.trim_start().starts_with("lost")).unwrap();
        assert!(lost.split_whitespace().take(4).eq(["lost", "%", "0", "0.123"]), "{lost}");
        let nine = render(&synthetic(9), 80, PLAIN);
        assert!(nine.lines().any(|line| line.starts_with("adaptive")), "{nine}");
    }

    #[test]
    fn wider_terminals_show_more() {
        let columns = |width| {
            let text = render(&synthetic(9), width, PLAIN);
            text.lines().last().unwrap().split_whitespace().count()
        };
        assert!(columns(60) < columns(80) && columns(80) < columns(120), "{} {}", columns(60), columns(80));
        let explained = |width| render(&synthetic(2), width, PLAIN).contains("The slowest packet");
        assert!(explained(120) && !explained(60));
    }

    #[test]
    fn the_best_is_marked_where_it_is_better() {
        let coloured = render(&synthetic(2), 80, Palette { coloured: true });
        let line = |name: &str| coloured.lines().find(|line| line.contains(name)).unwrap().to_string();
        assert!(line("trip, p50").contains("\x1b[1;32m4.26\x1b[0m"), "{}", line("trip, p50"));
        // Equal figures have no best value, and the number of packets sent is not rated.
        assert!(!line("trip, p99").contains("1;32") && !line("packets sent").contains("1;32"));
    }

    #[test]
    fn digits_that_count() {
        assert_eq!([digits(0.0, 2), digits(0.001, 2), digits(4.256, 2)], ["0", "<0.01", "4.26"]);
        assert_eq!([digits(123.45, 2), digits(12_345.6, 2), digits(7.0, 0)], ["123.5", "12346", "7"]);
    }
}

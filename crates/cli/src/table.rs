//! The table of a comparison: transports side by side while they fit, else one below the other.

use antiphon::measure::TransportFigures;

use crate::grid::{Align, Cell, Grid, Palette, Tone};

/// A figure of the table.
struct Row {
    /// Of rows that belong together, the first has a name for all.
    name: &'static str,
    unit: &'static str,
    /// Above its column where transports stand below each other; two lines at most, parted by a blank.
    short: &'static str,
    /// What it is exactly, for those who have room to read it.
    about: &'static str,
    read: fn(&TransportFigures) -> Option<f64>,
    show: Show,
    better: Better,
    /// In which order columns are given up when transports stand below each other: high ones go first.
    rank: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Count,
    Percent,
    /// Three digits that count.
    Digits,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Low,
    /// Neither: nothing is highlighted.
    Unjudged,
}

/// The comparison as a table of at most `width` columns where that is possible, with `palette` on the best figures.
pub fn render(figures: &[TransportFigures], width: usize, palette: Palette) -> String {
    let upright = upright(figures);
    if upright.width() <= width { upright.render(width, palette) } else { transposed(figures, width).render(width, palette) }
}

/// Figures below each other, a column for each transport. Where there is room, each figure is explained.
fn upright(figures: &[TransportFigures]) -> Grid {
    let mut aligns = vec![Align::Left, Align::Left];
    aligns.extend(figures.iter().map(|_| Align::Right));
    aligns.push(Align::Prose);
    let mut grid = Grid::new(aligns);
    let names = figures.iter().map(|f| Cell::new(f.transport.as_str(), Tone::Head));
    grid.row([Cell::default(), Cell::default()].into_iter().chain(names));
    for row in &ROWS {
        let cells = row.cells(figures);
        if cells.iter().all(|cell| cell.text == NOTHING) {
            continue;
        }
        let head = [Cell::from(row.name), Cell::new(row.unit, Tone::Dim)];
        grid.row(head.into_iter().chain(cells).chain([Cell::new(row.about, Tone::Dim)]));
    }
    grid
}

/// A line for each transport, and as many figures as fit.
fn transposed(figures: &[TransportFigures], width: usize) -> Grid {
    let mut shown: Vec<&Row> = ROWS.iter().filter(|row| row.rank < u8::MAX).collect();
    loop {
        let grid = transposed_with(figures, &shown);
        let Some(least) = shown.iter().map(|row| row.rank).max() else { return grid };
        if grid.width() <= width || shown.len() == 1 {
            return grid;
        }
        shown.retain(|row| row.rank != least);
    }
}

fn transposed_with(figures: &[TransportFigures], rows: &[&Row]) -> Grid {
    let mut aligns = vec![Align::Left];
    aligns.extend(rows.iter().map(|_| Align::Right));
    let mut grid = Grid::new(aligns);
    for line in 0..2 {
        let head = |row: &&Row| Cell::new(row.short.split(' ').nth(line).unwrap_or_default(), Tone::Head);
        grid.row([Cell::default()].into_iter().chain(rows.iter().map(head)));
    }
    let unit = |row: &&Row| Cell::new(row.unit, Tone::Dim);
    grid.row([Cell::default()].into_iter().chain(rows.iter().map(unit)));
    let columns: Vec<Vec<Cell>> = rows.iter().map(|row| row.cells(figures)).collect();
    for (at, figures) in figures.iter().enumerate() {
        let name = Cell::new(figures.transport.as_str(), Tone::Head);
        grid.row([name].into_iter().chain(columns.iter().map(|column| column[at].clone())));
    }
    grid
}

/// For what was not measured.
const NOTHING: &str = "-";

impl Row {
    fn cells(&self, figures: &[TransportFigures]) -> Vec<Cell> {
        let values: Vec<Option<f64>> = figures.iter().map(self.read).collect();
        let measured = || values.iter().flatten().copied();
        let best = measured().fold(f64::INFINITY, f64::min);
        let worst = measured().fold(f64::NEG_INFINITY, f64::max);
        let differ = self.better == Better::Low && best < worst && measured().count() > 1;
        let cell = |value: &Option<f64>| match value {
            None => Cell::new(NOTHING, Tone::Dim),
            Some(value) => {
                let tone = if differ && *value == best { Tone::Best } else { Tone::Plain };
                Cell::new(self.show.text(*value), tone)
            }
        };
        values.iter().map(cell).collect()
    }
}

impl Show {
    fn text(self, value: f64) -> String {
        match self {
            Show::Count => format!("{value:.0}"),
            Show::Percent if value == 0.0 => "0".into(),
            Show::Percent if value < 0.005 => "<0.01".into(),
            Show::Percent => format!("{value:.2}"),
            Show::Digits => match value.abs() {
                size if size >= 99.95 => format!("{value:.0}"),
                size if size >= 9.995 => format!("{value:.1}"),
                size if size >= 0.9995 => format!("{value:.2}"),
                size if size == 0.0 => "0".into(),
                _ => format!("{value:.3}"),
            },
        }
    }
}

const fn row(
    name: &'static str,
    unit: &'static str,
    short: &'static str,
    rank: u8,
    show: Show,
    read: fn(&TransportFigures) -> Option<f64>,
    about: &'static str,
) -> Row {
    Row { name, unit, short, about, read, show, better: Better::Low, rank }
}

/// Not for the transposed table.
const UPRIGHT_ONLY: u8 = u8::MAX;

/// Definitions are those of `antiphon::measure`.
const ROWS: [Row; 21] = [
    Row {
        better: Better::Unjudged,
        ..row("frames sent", "", "sent", 9, Show::Count, |f| Some(f.frames_sent as f64), "packets of sound handed to the transport")
    },
    Row {
        better: Better::Unjudged,
        ..row("frames received", "", "", UPRIGHT_ONLY, Show::Count, |f| Some(f.frames_received as f64), "each once, late ones included")
    },
    row("lost", "%", "lost", 0, Show::Percent, |f| f.lost_percent, "never came, of those sent"),
    row("late", "%", "late", 1, Show::Percent, |f| f.late_percent, "came after their playout time"),
    row("expired", "%", "ex- pired", 7, Show::Percent, |f| f.expired_percent, "given up by the sender"),
    row("concealed", "%", "con- cealed", 8, Show::Percent, |f| f.concealed_percent, "holes that the listener filled"),
    row("duplicate", "%", "dupli- cate", 12, Show::Percent, |f| f.duplicate_percent, "came more than once"),
    row("reordered", "%", "reor- dered", 11, Show::Percent, |f| f.reordered_percent, "overtaken by later ones (RFC 4737)"),
    row("longest loss", "frames", "burst", 10, Show::Count, |f| Some(f.longest_loss_burst as f64), "in a row"),
    row("round trip, mean", "ms", "", UPRIGHT_ONLY, Show::Digits, |f| f.rtt_ms.mean_ms, "there and back, as the application sees it"),
    row("  p50", "ms", "rtt p50", 2, Show::Digits, |f| f.rtt_ms.p50_ms, "half of the frames were quicker"),
    row("  p90", "ms", "", UPRIGHT_ONLY, Show::Digits, |f| f.rtt_ms.p90_ms, ""),
    row("  p99", "ms", "rtt p99", 3, Show::Digits, |f| f.rtt_ms.p99_ms, "1 in 100 was slower"),
    row("  p99.9", "ms", "rtt p99.9", 13, Show::Digits, |f| f.rtt_ms.p999_ms, "1 in 1000 was slower"),
    row("  max", "ms", "rtt max", 14, Show::Digits, |f| f.rtt_ms.max_ms, ""),
    row("one way, p50", "ms", "1-way p50", 15, Show::Digits, |f| f.one_way_ms.as_ref().and_then(|d| d.p50_ms), "sender to receiver: their clocks agree"),
    row("jitter, deviation", "ms", "jitter", 4, Show::Digits, |f| f.jitter_mad_ms, "mean absolute deviation of the round trips"),
    row("jitter, RFC 3550", "ms", "jitter 3550", 16, Show::Digits, |f| f.jitter_rfc3550_ms, "interarrival jitter at the end"),
    row("on the wire", "kbit/s", "wire", 5, Show::Digits, |f| f.wire_kbit_per_s, "in the direction of sending, with all headers"),
    row("overhead", "%", "over- head", 17, Show::Digits, |f| f.overhead_percent, "wire beyond the sound itself"),
    row("processor", "ms/s", "CPU", 6, Show::Digits, |f| f.cpu_ms_per_s, "time per second of stream"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Palette = Palette { coloured: false };

    /// Figures of `count` transports, each worse than the one before, with values as wide as a long run gives them.
    pub fn synthetic(count: usize) -> Vec<TransportFigures> {
        let names = ["rtp", "tcp", "sctp", "dccp", "xtp", "srp", "arq", "quic", "adaptive"];
        let log = antiphon::measure::FrameLog::new(antiphon::measure::FrameLogConfig {
            capacity: 16,
            clock_rate: 48_000,
            packet: std::time::Duration::from_micros(5333),
            packet_bytes: 1024,
        });
        let made = |(at, name): (usize, &&str)| {
            let mut figures = TransportFigures::new(&log, &antiphon::measure::RunFacts::default());
            let worse = (at + 1) as f64;
            figures.transport = (*name).into();
            (figures.frames_sent, figures.frames_received) = (112_500, 112_500 - at as u64);
            figures.lost_percent = Some(0.123 * at as f64);
            figures.late_percent = Some(12.5 - worse);
            for share in [&mut figures.expired_percent, &mut figures.concealed_percent, &mut figures.duplicate_percent] {
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
        let lost = two.lines().find(|line| line.starts_with("lost")).unwrap();
        assert!(lost.split_whitespace().take(4).eq(["lost", "%", "0", "0.12"]), "{lost}");
        let nine = render(&synthetic(9), 80, PLAIN);
        assert!(nine.lines().any(|line| line.starts_with("adaptive")), "{nine}");
    }

    #[test]
    fn wider_terminals_show_more() {
        let columns = |width| render(&synthetic(9), width, PLAIN).lines().next().unwrap().split_whitespace().count();
        assert!(columns(60) < columns(80) && columns(80) < columns(120), "{} {}", columns(60), columns(80));
        let explained = |width| render(&synthetic(2), width, PLAIN).contains("interarrival jitter at the end");
        assert!(explained(120));
    }

    #[test]
    fn the_best_is_marked_where_it_is_better() {
        let coloured = render(&synthetic(2), 80, Palette { coloured: true });
        let line = |name: &str| coloured.lines().find(|line| line.contains(name)).unwrap().to_string();
        assert!(line("  p50").contains("\x1b[1;32m4.26\x1b[0m"), "{}", line("  p50"));
        // Equal figures have no winner, and the number of frames is no merit.
        assert!(!line("  p99").contains("1;32") && !line("frames received").contains("1;32"));
    }

    #[test]
    fn digits_that_count() {
        let digits = |value| Show::Digits.text(value);
        assert_eq!([digits(0.0), digits(0.0321), digits(4.256)], ["0", "0.032", "4.26"]);
        assert_eq!([digits(12.34), digits(1234.5), digits(9.999)], ["12.3", "1234", "10.0"]);
        let percent = |value| Show::Percent.text(value);
        assert_eq!([percent(0.0), percent(0.001), percent(1.8)], ["0", "<0.01", "1.80"]);
    }
}

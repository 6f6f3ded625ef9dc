//! The sections of a comparison's report, with the data each of them shows: the answer, the sound, the curves, all figures, and
//! at the end what is needed to judge and repeat the run.

mod curves;

use crate::cards::Card;
use crate::chart::{Axis, Chart, Mark, MarkAxis, Scale, Series};
use crate::compare::{CompareReport, TransportPanel};
use crate::fate::LossMap;
use crate::listen::{Clip, gaps};
use crate::page::{Page, Part, Section};
use crate::shares::burst_lengths;
use crate::table::{Bars, Better, Cell, Column, Row, Table};

impl CompareReport {
    /// The report as a page, to which a caller may add its own sections.
    pub fn page(&self) -> Page {
        let sections = [
            self.advice_section(),
            self.listen_section(),
            self.trade_off_section(),
            self.latency_section(),
            self.pictures_section(),
            self.loss_section(),
            self.table_section(),
            self.link_section(),
            self.run_section(),
        ];
        Page {
            kicker: "Antiphon \u{b7} comparison of transports".into(),
            title: self.title.clone(),
            verdict: self.lead.clone(),
            sections: sections.into_iter().filter(|s| !s.parts.is_empty()).collect(),
            still: if self.transports.is_empty() { String::new() } else { crate::picture::inline_svg(self) },
            ..Page::default()
        }
    }

    pub(crate) fn colour_of(&self, name: &str) -> Option<usize> {
        self.transports.iter().position(|t| t.name == name)
    }

    fn columns(&self) -> Vec<Column> {
        let column = |(i, t): (usize, &TransportPanel)| Column {
            title: t.name.clone(),
            note: t.title.clone(),
            colour: Some(i),
        };
        self.transports.iter().enumerate().map(column).collect()
    }

    fn advice_section(&self) -> Section {
        let section = Section::new("Which to use", "");
        if self.advice.is_empty() {
            return section;
        }
        let card = |card: &Card| Card { colour: self.colour_of(&card.answer), ..card.clone() };
        section.with(Part::Cards(self.advice.iter().map(card).collect()))
    }

    fn listen_section(&self) -> Section {
        let intro = ["What a listener would have heard over each transport.", &self.listening].join(" ");
        let section = Section::new("Listen", intro.trim());
        let mut clips: Vec<Clip> = self.original.iter().cloned().collect();
        for (i, transport) in self.transports.iter().enumerate() {
            clips.extend(transport.heard.iter().cloned().map(|clip| Clip {
                colour: clip.colour.or(Some(i)),
                strip: transport.name.clone(),
                gaps: gaps(&transport.fate, &transport.sent_ms),
                ..clip
            }));
        }
        if clips.is_empty() { section } else { section.with(Part::Listen(clips)) }
    }

    fn latency_section(&self) -> Section {
        let section = Section::new("Latency over time", &self.latency.definition);
        if self.transports.is_empty() {
            return section;
        }
        section.with(Part::Chart(Chart {
            note: "Each dot is a packet; a tick above the chart is one that never came. Point at a name \
                   to bring out its packets, click to hide them. Drag to zoom, double-click to \
                   see all; with the keyboard `+` `-` and the arrow keys."
                .into(),
            x: Axis::new("time of sending", "s"),
            y: Axis::new(&self.latency.label, "ms"),
            series: self.transports.iter().enumerate().map(|(i, t)| t.over_time(i)).collect(),
            marks: self.targets(),
            log_toggle: true,
            panels: self.transports.len() > OVERLAID,
            ticks_label: "missing".into(),
            ..Chart::default()
        }))
    }

    fn pictures_section(&self) -> Section {
        let section = Section::new(
            "Sound and pictures",
            "Both over the same time, a chart for each transport: how long each packet of sound was under way, and each picture from the moment it was \
             due until all of it was back. The sound goes first; after the last picture it goes alone.",
        );
        let shown = self.transports.iter().enumerate().filter(|(_, t)| !t.picture_due_ms.is_empty());
        shown.fold(section, |section, (i, transport)| {
            section.with(Part::Chart(Chart {
                title: transport.name.clone(),
                x: Axis::new("time of sending", "s"),
                y: Axis::new("until it was back", "ms"),
                series: vec![
                    Series { name: "sound".into(), ..transport.over_time(i) },
                    transport.pictures_over_time(PICTURES),
                ],
                log_toggle: true,
                ticks_label: "missing".into(),
                ..Chart::default()
            }))
        })
    }

    /// What the delays of the trade-off are.
    fn delay_label(&self) -> &str {
        let known = self.transports.iter().any(|t| !t.mouth_to_ear_ms.is_empty());
        if known { "mouth to ear" } else { &self.latency.label }
    }

    fn trade_off_section(&self) -> Section {
        let label = self.delay_label();
        let mut intro = String::from(
            "Share of packets still missing after a given wait. A lost packet never comes, so a curve levels off at its \
             transport's loss.",
        );
        if label == "mouth to ear" {
            intro.push_str(
                " Mouth to ear is from the making of a sound to its hearing: the length of a packet and its way. Sound cards \
                 add their own.",
            );
        }
        let section = Section::new("What a shorter delay would cost", &intro);
        if self.transports.is_empty() {
            return section;
        }
        let delays = self.transports.iter().flat_map(|t| t.delays().iter().flatten());
        let longest = delays.filter(|l| l.is_finite()).fold(0.0f32, |a, l| a.max(*l));
        // The strictest limit is in the picture, wherever the curves are.
        let strictest = self.limits().map(|limit| limit.at).fold(f64::INFINITY, f64::min);
        let end = if strictest.is_finite() { longest.max(strictest as f32 * 1.1) } else { longest };
        let section = section.with(Part::Chart(Chart {
            x: Axis::new(label, "ms"),
            y: Axis {
                label: "packets still missing".into(),
                unit: "share of all".into(),
                scale: Scale::Share,
                ..Axis::default()
            },
            series: self.transports.iter().enumerate().map(|(i, t)| t.distribution(i, end)).collect(),
            marks: self.limits().collect(),
            ..Chart::default()
        }));
        match self.trade_off.shares.is_empty() {
            true => section,
            false => {
                section.with(Part::Heading("Delay needed".into())).with(Part::Table(self.trade_off_table()))
            }
        }
    }

    /// The longest delays that purposes allow, where the chart is of such delays.
    fn limits(&self) -> impl Iterator<Item = Mark> {
        let shown = self.delay_label() == "mouth to ear";
        self.limits.iter().filter(move |limit| shown && limit.mouth_to_ear_ms.is_finite()).map(|limit| Mark {
            axis: MarkAxis::X,
            at: limit.mouth_to_ear_ms,
            label: format!("{} {}\u{202f}ms", limit.purpose, crate::html::number(limit.mouth_to_ear_ms, 0)),
            colour: None,
        })
    }

    fn trade_off_table(&self) -> Table {
        let row = |(share, targets): (&f64, &Vec<Option<f64>>)| {
            let label = format!("1 in {} missed", crate::html::number(1.0 / share, 0));
            Row {
                values: targets.iter().map(|t| t.map_or("\u{2013}".into(), Cell::from)).collect(),
                ..Row::numbers(&label, "ms", 1, Better::Lower, &[])
            }
        };
        Table {
            caption: format!(
                "The least delay, {}, with which no more packets than that are missed: late and lost count together. \
                 \u{2013}: more than that are lost, or too few packets were sent to tell.",
                self.delay_label()
            ),
            columns: self.columns(),
            rows: self.trade_off.shares.iter().zip(&self.trade_off.delays_ms).map(row).collect(),
        }
    }

    fn loss_section(&self) -> Section {
        let section = Section::new(
            "Loss map",
            "Every packet is one cell, in order of sending, line by line. Click one to hear it.",
        );
        if self.transports.iter().all(|t| t.fate.is_empty()) {
            return section;
        }
        let strips = self.transports.iter().enumerate().map(|(i, t)| t.strip(i)).collect();
        let section =
            section.with(Part::LossMap(LossMap { strips, latency_label: self.latency.label.clone() }));
        let bars = self.burst_bars();
        if bars.classes.is_empty() {
            return section;
        }
        section
            .with(Part::Heading("Length of bursts".into()))
            .with(Part::Prose(
                "A burst is a run of packets the listener did not hear, whatever the cause.".into(),
            ))
            .with(Part::Bars(bars))
    }

    fn burst_bars(&self) -> Bars {
        let bursts: Vec<Vec<(usize, u64)>> = self.transports.iter().map(|t| burst_lengths(&t.fate)).collect();
        let longest = bursts.iter().flatten().map(|b| b.0).max().unwrap_or(0);
        let classes: Vec<_> = BURST_CLASSES.iter().filter(|(from, _)| *from <= longest).collect();
        let count = |bursts: &Vec<(usize, u64)>, from: usize, to: usize| {
            bursts.iter().filter(|b| (from..=to).contains(&b.0)).map(|b| b.1).sum()
        };
        Bars {
            heading: "Length".into(),
            unit: "packets".into(),
            classes: classes.iter().map(|(from, to)| class_name(*from, *to)).collect(),
            series: self.columns(),
            counts: classes
                .iter()
                .map(|(from, to)| bursts.iter().map(|b| count(b, *from, *to)).collect())
                .collect(),
        }
    }

    fn table_section(&self) -> Section {
        let section = Section::new(
            "Figures",
            "Best values in each row highlighted, with those too close to tell apart.",
        );
        if self.table.is_empty() {
            return section;
        }
        let table =
            |rows: Vec<Row>| Part::Table(Table { caption: String::new(), columns: self.columns(), rows });
        let keys: Vec<Row> = self.table.iter().filter(|row| row.key).cloned().map(plain_row).collect();
        let section = if keys.is_empty() { section } else { section.with(table(keys)) };
        section.with(Part::Details("All figures, with definitions".into(), vec![table(self.table.clone())]))
    }

    fn link_section(&self) -> Section {
        let mut section = Section::new("The link and its limits", "");
        if !self.link.name.is_empty() {
            section = section
                .with(Part::Heading(format!("The link: {}", self.link.name)))
                .with(Part::Prose(self.link.method.clone()))
                .with(Part::Facts(self.link.parameters.clone()));
        }
        if !self.link.limits.is_empty() {
            section = section
                .with(Part::Heading("What this can't show".into()))
                .with(Part::Notes(self.link.limits.clone()));
        }
        section
    }

    fn run_section(&self) -> Section {
        let mut section = Section::new("This run", "");
        if !self.meta.is_empty() {
            section = section.with(Part::Facts(self.meta.clone()));
        }
        if !self.command.is_empty() {
            section =
                section.with(Part::Heading("To repeat it".into())).with(Part::Command(self.command.clone()));
        }
        if !self.notes.is_empty() {
            section = section.with(Part::Details(
                "Notes on transports and machine".into(),
                vec![Part::Notes(self.notes.clone())],
            ));
        }
        section
    }

    /// The playout delays; one mark without colour where they hardly differ.
    fn targets(&self) -> Vec<Mark> {
        let known: Vec<(usize, f32)> =
            self.transports.iter().enumerate().filter_map(|(i, t)| Some((i, t.playout_target_ms?))).collect();
        let mark =
            |at: f32, label: String, colour| Mark { axis: MarkAxis::Y, at: f64::from(at), label, colour };
        let of = |at: f32| format!("late above {}\u{202f}ms", crate::html::number(f64::from(at), 0));
        let (low, high) =
            known.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), (_, at)| (a.min(*at), b.max(*at)));
        match known.len() == self.transports.len() && high - low <= high * 0.05 {
            true if high.is_finite() => vec![mark(low, of(low), None)],
            _ => known.iter().map(|(i, at)| mark(*at, of(*at), Some(*i))).collect(),
        }
    }
}

/// Without the second copy of a definition: the table of all figures has it.
fn plain_row(row: Row) -> Row {
    Row { group: String::new(), definition: String::new(), ..row }
}

/// Lengths of bursts, from and to: single packets first, then doubling, as concealment handles about 20 ms.
const BURST_CLASSES: [(usize, usize); 8] =
    [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, usize::MAX)];

fn class_name(from: usize, to: usize) -> String {
    match to {
        usize::MAX => format!("{from} or more"),
        to if to == from => from.to_string(),
        to => format!("{from}\u{2013}{to}"),
    }
}

/// The colour of pictures: the last of eight, which transports have only where there are eight of them.
const PICTURES: usize = 7;
/// With more overlaid series than this, dots hide each other.
const OVERLAID: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Fate;

    #[test]
    fn one_target_for_all_is_one_mark() {
        let with = |targets: &[Option<f32>]| CompareReport {
            transports: targets
                .iter()
                .map(|t| TransportPanel { playout_target_ms: *t, ..TransportPanel::default() })
                .collect(),
            ..CompareReport::default()
        };
        let same = with(&[Some(40.0), Some(40.5)]).targets();
        assert_eq!((same.len(), same[0].colour), (1, None));
        let own = with(&[Some(40.0), None, Some(60.0)]).targets();
        assert_eq!(own.iter().map(|m| m.colour).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert!(with(&[None]).targets().is_empty());
    }

    /// The packets of the sound and the pictures of a transport are in one chart, which only those with pictures have.
    #[test]
    fn sound_and_pictures_share_a_time_axis() {
        let sound = TransportPanel {
            name: "rtp".into(),
            sent_ms: vec![0.0, 5.0],
            latency_ms: vec![Some(20.0), None],
            fate: vec![Fate::Received, Fate::Lost],
            ..TransportPanel::default()
        };
        let both = TransportPanel {
            name: "tcp".into(),
            picture_due_ms: vec![0.0, 40.0, 80.0],
            picture_ms: vec![Some(33.0), None, Some(35.0)],
            ..sound.clone()
        };
        let report = CompareReport { transports: vec![sound, both], ..CompareReport::default() };
        let parts = report.pictures_section().parts;
        let [Part::Chart(chart)] = &parts[..] else { panic!("one chart") };
        assert_eq!(chart.title, "tcp");
        let [sound, pictures] = &chart.series[..] else { panic!("two series") };
        assert_eq!((&sound.name[..], &sound.x[..]), ("sound", &[0.0, 0.005][..]));
        assert_eq!((&pictures.name[..], &pictures.ticks[..]), ("pictures", &[0.04][..]));
        assert_eq!(pictures.y, [Some(33.0), None, Some(35.0)]);
        assert_ne!(sound.colour, pictures.colour);
    }

    #[test]
    fn every_burst_falls_into_one_class() {
        let mut fates = Vec::new();
        for length in [1, 2, 3, 4, 5, 64, 65, 200] {
            fates.extend(vec![Fate::Lost; length]);
            fates.push(Fate::Received);
        }
        let report = CompareReport {
            transports: vec![TransportPanel { fate: fates, ..TransportPanel::default() }],
            ..CompareReport::default()
        };
        let bars = report.burst_bars();
        assert_eq!(bars.counts, [[1], [1], [2], [1], [0], [0], [1], [2]]);
        assert_eq!(bars.classes.first().map(String::as_str), Some("1"));
        assert_eq!(bars.classes.last().map(String::as_str), Some("65 or more"));
    }
}

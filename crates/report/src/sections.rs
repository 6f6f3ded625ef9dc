//! The sections of a comparison's report, with the data each of them shows.

use crate::cards::{Card, Clip};
use crate::chart::{Axis, Chart, Mark, MarkAxis, Scale, Series, Style};
use crate::compare::{Advice, CompareReport, TransportPanel};
use crate::fate::{LossMap, Strip};
use crate::page::{Page, Part, Section};
use crate::shares::{burst_lengths, not_there_after};
use crate::table::{Bars, Better, Cell, Column, Row, Table};

impl CompareReport {
    /// The report as a page, to which a caller may add its own sections.
    pub fn page(&self) -> Page {
        let sections = [
            self.advice_section(),
            self.table_section(),
            self.latency_section(),
            self.distribution_section(),
            self.loss_section(),
            self.audio_section(),
            self.link_section(),
        ];
        Page {
            kicker: "Antiphon \u{b7} comparison of transports".into(),
            title: self.title.clone(),
            verdict: self.verdict.clone(),
            facts: self.facts(),
            command: self.command.clone(),
            sections: sections.into_iter().filter(|s| !s.parts.is_empty()).collect(),
            still: if self.transports.is_empty() { String::new() } else { crate::picture::inline_svg(self) },
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = self.meta.clone();
        if !self.link.name.is_empty() {
            facts.insert(facts.len().min(1), ("Link".into(), self.link.name.clone()));
        }
        facts
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
        let section = Section::new("Which to take", "");
        if self.advice.is_empty() {
            return section;
        }
        let card = |advice: &Advice| Card {
            heading: advice.purpose.clone(),
            answer: advice.transport.clone(),
            colour: self.colour_of(&advice.transport),
            because: advice.because.clone(),
            caution: advice.caution.clone(),
            confidence: advice.confidence,
            sureness: advice.sureness.clone(),
            commands: advice.commands.clone(),
        };
        section.with(Part::Cards(self.advice.iter().map(card).collect()))
    }

    fn table_section(&self) -> Section {
        let section = Section::new("Figures", "The best value of a row stands out where one way is better.");
        if self.table.is_empty() {
            return section;
        }
        section.with(Part::Table(Table {
            caption: String::new(),
            columns: self.columns(),
            rows: self.table.clone(),
        }))
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
            marks: self.targets(MarkAxis::Y),
            log_toggle: true,
            panels: self.transports.len() > OVERLAID,
            ticks_label: "missing".into(),
            ..Chart::default()
        }))
    }

    fn distribution_section(&self) -> Section {
        let intro = "How many packets are not there yet, by how long one waits. A lost packet never comes, so a curve levels \
                     off at its transport's loss.";
        let section = Section::new("What a shorter delay would cost", intro);
        if self.transports.is_empty() {
            return section;
        }
        let latencies = self.transports.iter().flat_map(|t| t.latency_ms.iter().flatten());
        let end = latencies.filter(|l| l.is_finite()).fold(0.0f32, |a, l| a.max(*l));
        let section = section.with(Part::Chart(Chart {
            x: Axis::new(&self.latency.label, "ms"),
            y: Axis { label: "packets not there yet".into(), unit: String::new(), scale: Scale::Share },
            series: self.transports.iter().enumerate().map(|(i, t)| t.distribution(i, end)).collect(),
            marks: self.targets(MarkAxis::X),
            ..Chart::default()
        }));
        match self.trade_off.shares.is_empty() {
            true => section,
            false => section
                .with(Part::Heading("Playout delay needed".into()))
                .with(Part::Table(self.trade_off_table())),
        }
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
            caption: "Late and lost count together. \u{2013}: more than that are lost, or too few packets were sent to \
                      tell."
                .into(),
            columns: self.columns(),
            rows: self.trade_off.shares.iter().zip(&self.trade_off.targets_ms).map(row).collect(),
        }
    }

    fn loss_section(&self) -> Section {
        let section =
            Section::new("Loss map", "Every packet is one cell, in order of sending, line by line.");
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

    fn audio_section(&self) -> Section {
        let section = Section::new("Listen", "What was sent, and what a listener would have heard of it.");
        let mut clips: Vec<Clip> = self.original.iter().cloned().collect();
        for (i, transport) in self.transports.iter().enumerate() {
            clips.extend(transport.heard.iter().cloned().map(|clip| Clip {
                colour: clip.colour.or(Some(i)),
                strip: transport.name.clone(),
                ..clip
            }));
        }
        if clips.is_empty() { section } else { section.with(Part::Audio(clips)) }
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
        if !self.notes.is_empty() {
            section = section.with(Part::Heading("Notes".into())).with(Part::Notes(self.notes.clone()));
        }
        section
    }

    /// The playout delays; one mark without colour if all transports share it.
    fn targets(&self, axis: MarkAxis) -> Vec<Mark> {
        let known: Vec<(usize, f32)> =
            self.transports.iter().enumerate().filter_map(|(i, t)| Some((i, t.playout_target_ms?))).collect();
        let mark = |at: f32, label: String, colour| Mark { axis, at: f64::from(at), label, colour };
        match known.first() {
            Some((_, first)) if known.iter().all(|(_, at)| at == first) => {
                vec![mark(
                    *first,
                    format!("playout delay {} ms", crate::html::number(f64::from(*first), 0)),
                    None,
                )]
            }
            _ => known
                .iter()
                .map(|(i, at)| mark(*at, format!("{} target", self.transports[*i].name), Some(*i)))
                .collect(),
        }
    }
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

impl TransportPanel {
    fn over_time(&self, colour: usize) -> Series {
        let seconds: Vec<f64> = self.sent_ms.iter().map(|ms| f64::from(*ms) / 1000.0).collect();
        let never = seconds.iter().zip(&self.latency_ms).filter(|(_, l)| l.is_none()).map(|(x, _)| *x);
        Series {
            name: self.name.clone(),
            colour,
            style: Style::Points,
            ticks: never.collect(),
            y: self.latency_ms.iter().map(|l| l.map(f64::from)).collect(),
            x: seconds,
            ..Series::default()
        }
    }

    /// Drawn up to `end_ms`, even without further arrivals: what is missing by then stays missing.
    fn distribution(&self, colour: usize, end_ms: f32) -> Series {
        let mut steps = not_there_after(&self.latency_ms, DISTRIBUTION_POINTS);
        match steps.last() {
            Some(last) if last.1 > 0.0 && last.0 < f64::from(end_ms) => {
                steps.push((f64::from(end_ms), last.1))
            }
            _ => {}
        }
        let mut shares: Vec<Option<f64>> =
            std::iter::once(Some(1.0)).chain(steps.iter().map(|s| Some(s.1))).collect();
        // Zero is not on a logarithmic axis; the last step is drawn up to where it would fall.
        if let [.., before, last @ Some(0.0)] = shares.as_mut_slice() {
            *last = *before;
        }
        Series {
            name: self.name.clone(),
            colour,
            style: Style::Steps,
            // Before the first arrival every packet is still missing.
            x: std::iter::once(0.0).chain(steps.iter().map(|s| s.0)).collect(),
            y: shares,
            ..Series::default()
        }
    }

    fn strip(&self, colour: usize) -> Strip {
        Strip {
            name: self.name.clone(),
            colour: Some(colour),
            fates: self.fate.clone(),
            sent_ms: self.sent_ms.clone(),
            latency_ms: self.latency_ms.clone(),
        }
    }
}

/// With more overlaid series than this, dots hide each other.
const OVERLAID: usize = 2;

/// Points of a distribution: two per pixel of a phone.
const DISTRIBUTION_POINTS: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Fate;

    fn panel(latency: &[Option<f32>]) -> TransportPanel {
        TransportPanel { latency_ms: latency.to_vec(), ..TransportPanel::default() }
    }

    #[test]
    fn curves_go_on_at_the_loss_and_never_touch_zero() {
        let lossy = panel(&[Some(1.0), None]).distribution(0, 9.0);
        assert_eq!(lossy.x, [0.0, 1.0, 9.0]);
        assert_eq!(lossy.y, [Some(1.0), Some(0.5), Some(0.5)]);
        // All arrived by 2 ms: the last step ends there, and nothing is drawn where no packet is missing.
        let whole = panel(&[Some(1.0), Some(2.0)]).distribution(0, 9.0);
        assert_eq!(whole.x, [0.0, 1.0, 2.0]);
        assert_eq!(whole.y, [Some(1.0), Some(0.5), Some(0.5)]);
    }

    #[test]
    fn one_target_for_all_is_one_mark() {
        let with = |targets: &[Option<f32>]| CompareReport {
            transports: targets
                .iter()
                .map(|t| TransportPanel { playout_target_ms: *t, ..TransportPanel::default() })
                .collect(),
            ..CompareReport::default()
        };
        let same = with(&[Some(40.0), Some(40.0)]).targets(MarkAxis::X);
        assert_eq!((same.len(), same[0].colour), (1, None));
        let own = with(&[Some(40.0), None, Some(60.0)]).targets(MarkAxis::X);
        assert_eq!(own.iter().map(|m| m.colour).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert!(with(&[None]).targets(MarkAxis::Y).is_empty());
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

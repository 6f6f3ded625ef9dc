//! The figures of the study of two streams, whose originals are not in its text: every audio packet of one run beside video over UDP
//! and one over TCP; and its delay, which the study does not have.

use antiphon_core::Instant;
use antiphon_lab::figures::Course;
use antiphon_lab::papers::{Experiment, two_stream};
use antiphon_measure::RollingDeviation;
use antiphon_report::{Axis, Chart, Part, Scale, Series, Style};

use super::papers::PaperResults;

/// One run.
struct Ran {
    name: &'static str,
    colour: usize,
    course: Course,
}

impl PaperResults {
    /// Figures 1 to 4, of the first run of each transport, which is repeated for that.
    pub(super) fn audio_packets(&self, experiment: &Experiment) -> Vec<Part> {
        if (self.paper.key, experiment.key) != (two_stream::KEY, two_stream::NISTNET) {
            return Vec::new();
        }
        let Some(results) = self.of(experiment.key) else { return Vec::new() };
        let (mut ran, mut notes) = (Vec::new(), Vec::new());
        for (colour, transport) in [two_stream::UDP, two_stream::TCP].into_iter().enumerate() {
            let name = self.paper.short(transport);
            let place = two_stream::over_nistnet(transport);
            let Some(first) = place.select(results).records.first().copied() else { continue };
            match super::papers::course(self.paper, experiment, first) {
                Ok(course) => ran.push(Ran { name, colour, course }),
                Err(why) => notes.push(format!("{name} is not drawn packet by packet: {why}")),
            }
        }
        let mut parts = Vec::new();
        if !ran.is_empty() {
            parts.extend([gaps(&ran), deviations(&ran), delays(&ran)].map(Part::Chart));
        }
        if !notes.is_empty() {
            parts.push(Part::Notes(notes));
        }
        parts
    }
}

/// When each packet arrived, in that order.
fn arrivals(course: &Course) -> impl Iterator<Item = Instant> + '_ {
    course.came.iter().map(|(_, at)| *at)
}

fn gaps(ran: &[Ran]) -> Chart {
    let gap = |ran: &Ran| {
        let before = arrivals(&ran.course);
        let gaps = before.zip(arrivals(&ran.course).skip(1));
        points(ran, gaps.map(|(before, at)| Some(at.since(before).as_secs_f64() * 1e3)))
    };
    Chart {
        title: "Figures 1 and 2: time between audio packets, video over UDP and over TCP".into(),
        note: WHICH.into(),
        y: Axis { scale: Scale::Log, ..Axis::new("since the packet before", "ms") },
        panels: true,
        ..chart(ran.iter().map(gap))
    }
}

fn deviations(ran: &[Ran]) -> Chart {
    let deviation = |ran: &Ran| {
        let mut rolling = RollingDeviation::default();
        let times: Vec<Instant> = arrivals(&ran.course).collect();
        let values = times.windows(2).map(|pair| {
            rolling.on_gap(pair[1].since(pair[0]));
            rolling.ms()
        });
        Series { style: Style::Line, ..points(ran, values) }
    };
    Chart {
        title: "Figures 3 and 4: standard deviation of the last 100 of these times".into(),
        note: WHICH.into(),
        y: Axis::new("standard deviation", "ms"),
        ..chart(ran.iter().map(deviation))
    }
}

fn delays(ran: &[Ran]) -> Chart {
    let delay = |ran: &Ran| {
        let of = |(index, at): &(usize, Instant)| {
            Some(at.since(ran.course.sent[*index]).as_secs_f64() * 1e3).filter(|ms| *ms > 0.0)
        };
        points(ran, ran.course.came.iter().map(of))
    };
    Chart {
        title: "Delay of each audio packet, in the same runs".into(),
        note: "Ours alone: the paper measures no delay. A playout buffer of 200 ms would miss what lies above the line of the first packets by more \
               than that."
            .into(),
        y: Axis { scale: Scale::Log, ..Axis::new("one way", "ms") },
        panels: true,
        ..chart(ran.iter().map(delay))
    }
}

fn points(ran: &Ran, values: impl Iterator<Item = Option<f64>>) -> Series {
    let y: Vec<Option<f64>> = values.collect();
    Series {
        name: ran.name.into(),
        colour: ran.colour,
        style: Style::Points,
        x: (1..=y.len()).map(|number| number as f64).collect(),
        y,
        ..Series::default()
    }
}

fn chart(series: impl Iterator<Item = Series>) -> Chart {
    Chart { x: Axis::new("audio packet received", ""), series: series.collect(), ..Chart::default() }
}

const WHICH: &str = "Ours alone, of the first run of each with a queue that never drops: the paper's values are in its figures only. Video is sent \
                     between the packets 1140 and 2584, over UDP received much longer.";

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_lab::papers;
    use antiphon_lab::results::Results;

    /// The first run of both transports.
    fn ran() -> PaperResults {
        let paper = papers::find(two_stream::KEY).unwrap();
        let experiment = paper.experiment(two_stream::NISTNET).unwrap();
        let job = super::super::Job::new("t", "t", experiment.scenario.unwrap()).unwrap();
        let plan = job.scenario.plan();
        let mut records = Vec::new();
        for transport in [two_stream::UDP, two_stream::TCP] {
            let place = two_stream::over_nistnet(transport);
            let is_there = |(key, value): &(&str, String)| {
                let point = (key.to_string(), value.clone());
                move |run: &antiphon_lab::scenario::Run| run.point.contains(&point)
            };
            let run =
                plan.iter().find(|run| place.point.iter().all(|setting| is_there(setting)(run))).unwrap();
            let (finished, _) = super::super::course(&job, run, two_stream::AUDIO).unwrap();
            records.extend(finished.records());
        }
        let results = vec![(experiment.key, Results { records, planned_runs: 240 })];
        PaperResults { paper, results, real: Vec::new() }
    }

    #[test]
    fn figures_show_each_packet_of_a_run_of_both_transports() {
        let ran = ran();
        let parts = ran.audio_packets(ran.paper.experiment(two_stream::NISTNET).unwrap());
        let [Part::Chart(gaps), Part::Chart(deviations), Part::Chart(delays)] = &parts[..] else {
            panic!("three charts")
        };
        for chart in [gaps, deviations, delays] {
            let names: Vec<&str> = chart.series.iter().map(|series| &*series.name).collect();
            assert_eq!(names, ["UDP", "TCP"]);
        }
        let greatest = |series: &Series| series.y.iter().flatten().copied().fold(0.0, f64::max);
        let long = |series: &Series| series.y.iter().flatten().filter(|ms| **ms > 500.0).count();
        // What the paper's figures show: each of 209 frames over UDP makes a gap of its 0.78 s on the link, and a single one stands out
        // over TCP.
        assert!(long(&gaps.series[0]) >= 205 && long(&gaps.series[1]) <= 3);
        assert!(greatest(&deviations.series[0]) > 250.0 && greatest(&deviations.series[1]) < 150.0);
        // And what they don't: over a minute late over UDP.
        assert!(greatest(&delays.series[0]) > 60_000.0 && greatest(&delays.series[1]) < 5_000.0);
        assert!(ran.audio_packets(ran.paper.experiment("emulab").unwrap()).is_empty());
    }
}

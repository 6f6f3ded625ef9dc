//! The figures of the study of two streams, whose originals are not in its text: every audio packet of one run beside video over UDP
//! and one over TCP; and its delay, which the study does not have. Of ours: audio and video on one time axis, and all ways to send the video
//! in one table.

use antiphon_core::Instant;
use antiphon_lab::figures::Course;
use antiphon_lab::papers::{Experiment, Place, two_stream};
use antiphon_lab::results::Results;
use antiphon_measure::RollingDeviation;
use antiphon_report::{Axis, Cell, Chart, Column, Mark, MarkAxis, Part, Row, Scale, Series, Style, Table};

use super::compared::shown;
use super::own::{Of, PLACES, mean};
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
        let places = [two_stream::UDP, two_stream::TCP].map(|transport| {
            (format!("video over {}", self.paper.short(transport)), two_stream::over_nistnet(transport))
        });
        parts.extend(self.on_one_axis(experiment, results, &places, &mut notes));
        if !notes.is_empty() {
            parts.push(Part::Notes(notes));
        }
        parts
    }

    /// Of the experiment with a congestion manager: all ways to send the video side by side, for each network, and its first runs with
    /// audio and video on one time axis.
    pub(super) fn alternatives(&self, experiment: &Experiment) -> Vec<Part> {
        if (self.paper.key, experiment.key) != (two_stream::KEY, two_stream::MANAGER) {
            return Vec::new();
        }
        let Some(results) = self.of(experiment.key) else { return Vec::new() };
        let tables = two_stream::PATHS.map(|path| Part::Table(self.ways(path)));
        let (mut parts, mut notes) = (Vec::from(tables), Vec::new());
        let places = ["rtp", "srp"].map(|transport| {
            let scheme = transport.to_uppercase();
            (format!("one session over {scheme}, with a congestion manager"), two_stream::managed(transport))
        });
        parts.extend(self.on_one_axis(experiment, results, &places, &mut notes));
        if !notes.is_empty() {
            parts.push(Part::Notes(notes));
        }
        parts
    }

    /// A row for each way to send the video over `path`.
    fn ways(&self, path: &str) -> Table {
        let mut rows = Vec::new();
        for (key, group) in [
            (two_stream::ALTERNATIVES, "two programs"),
            (two_stream::MANAGER, "one session with a congestion manager"),
        ] {
            let Some(results) = self.of(key) else { continue };
            let mut ways: Vec<&[(String, String)]> = Vec::new();
            for record in &results.records {
                let point = &record.point[..];
                let is_here = point.iter().any(|(name, value)| (&**name, &**value) == ("path", path));
                if is_here && !ways.contains(&point) {
                    ways.push(point);
                }
            }
            for (n, way) in ways.into_iter().enumerate() {
                let settings: Vec<(&str, &str)> =
                    way.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                // How many streams there are is in the name of the transport, and the path in the caption.
                let said = settings.iter().filter(|(name, _)| !["path", "streams"].contains(name));
                let said: Vec<(&str, &str)> = said.copied().collect();
                let cell = |(figure, ..): &(&str, &str, &str)| {
                    mean(results, &settings, figure, Of::All)
                        .map_or(Cell::MISSING, |value| Cell::Text(shown(value, PLACES)))
                };
                rows.push(Row {
                    group: if n == 0 { group.into() } else { String::new() },
                    label: self.words(&said),
                    values: SHOWN.iter().map(cell).collect(),
                    ..Row::default()
                });
            }
        }
        let column = |(_, title, note): &(&str, &str, &str)| Column {
            title: (*title).into(),
            note: (*note).into(),
            colour: None,
        };
        Table {
            caption: format!("All ways to send the video over '{path}', means of the runs"),
            columns: SHOWN.iter().map(column).collect(),
            rows,
        }
    }

    /// A chart of the first run at each of these places, with the audio and the video over the time of the run.
    fn on_one_axis(
        &self,
        experiment: &Experiment,
        results: &Results,
        places: &[(String, Place)],
        notes: &mut Vec<String>,
    ) -> Vec<Part> {
        let mut charts = Vec::new();
        for (name, audio) in places {
            let video = Place { stream: two_stream::VIDEO.into(), ..audio.clone() };
            let course = |place: &Place| {
                let first = place.select(results).records.first().copied()?;
                Some(super::papers::course(self.paper, experiment, first))
            };
            let (Some(audio), Some(video)) = (course(audio), course(&video)) else { continue };
            match audio.and_then(|audio| Ok((audio, video?))) {
                Ok((audio, video)) => charts.push(Part::Chart(over_time(name, &audio, &video))),
                Err(why) => notes.push(format!("{name} is not drawn over time: {why}")),
            }
        }
        charts
    }
}

/// The figures of the table of all ways, with headings that leave room for all of them.
const SHOWN: [(&str, &str, &str); 5] = [
    ("missed_200ms_percent", "audio missed", "% with 200 ms of playout"),
    ("media_kbit_per_s", "video", "kbit/s"),
    ("frames_whole", "whole", "frames"),
    ("frame_delay_mean_ms", "delay", "of a frame, ms"),
    ("freeze_percent", "frozen", "% of the time"),
];

/// Each audio packet and each picture at the time at which it was sent or due.
fn over_time(name: &str, audio: &Course, video: &Course) -> Chart {
    let late = |from: Instant, at: Instant| at.since(from).as_secs_f64() * 1e3;
    let mut delays: Vec<Option<f64>> = vec![None; audio.sent.len()];
    for (index, at) in &audio.came {
        delays[*index] = Some(late(audio.sent[*index], *at)).filter(|ms| *ms > 0.0);
    }
    let least = delays.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let packets = audio.sent.iter().copied().zip(delays).collect();
    let frames = video.video_frames().into_iter().map(|(due, whole)| (due, whole.map(|at| late(due, at))));
    let mark =
        Mark { axis: MarkAxis::Y, at: least + 200.0, label: "200 ms of playout".into(), colour: Some(0) };
    Chart {
        title: format!("Audio and video on one time axis: {name}"),
        note: "Ours alone, of the first run. Of audio the delay of each packet, of video the time from when a frame was due until it was whole. Ticks: what \
               never came, or not whole; frames that the sender left out in a session are among them, those that a program did not choose are not."
            .into(),
        x: Axis::new("time", "s"),
        y: Axis { scale: Scale::Log, ..Axis::new("delay", "ms") },
        series: vec![timed("audio", 0, packets), timed("video", 1, frames.collect())],
        marks: if least.is_finite() { vec![mark] } else { Vec::new() },
        ticks_label: "missing".into(),
        ..Chart::default()
    }
}

/// A series of values at their times; those that are missing are ticks.
fn timed(name: &str, colour: usize, values: Vec<(Instant, Option<f64>)>) -> Series {
    let seconds = |at: &Instant| at.as_nanos() as f64 / 1e9;
    Series {
        name: name.into(),
        colour,
        style: Style::Points,
        x: values.iter().map(|(at, _)| seconds(at)).collect(),
        y: values.iter().map(|(_, value)| *value).collect(),
        ticks: values.iter().filter(|(_, value)| value.is_none()).map(|(at, _)| seconds(at)).collect(),
        ..Series::default()
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
        let [Part::Chart(gaps), Part::Chart(deviations), Part::Chart(delays), times @ ..] = &parts[..] else {
            panic!("three charts")
        };
        let [Part::Chart(_), Part::Chart(over_tcp)] = times else { panic!("two charts over time") };
        let [audio, video] = &over_tcp.series[..] else { panic!("audio and video") };
        assert_eq!((audio.x.len(), &*audio.name, &*video.name), (3932, "audio", "video"));
        // Five of a hundred are lost. Video is sent from 60 s on for 76 s, and each frame that is begun is whole.
        assert!((150..250).contains(&audio.ticks.len()), "{}", audio.ticks.len());
        assert!(video.x.iter().all(|at| (60.0..=136.0).contains(at)) && video.x.len() > 60);
        assert_eq!(video.ticks.len(), 0);
        assert!(video.y.iter().flatten().all(|ms| *ms > 700.0), "a frame takes 0.78 s on the link");
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

    /// Results without figures but these, of audio and of video, at a point.
    fn record(
        run: u32,
        point: &[(&str, &str)],
        missed: f64,
        rate: f64,
    ) -> [antiphon_lab::results::Record; 2] {
        use antiphon_measure::StreamFigures;
        let point: Vec<(String, String)> =
            point.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let audio = StreamFigures { missed_200ms_percent: Some(missed), ..StreamFigures::default() };
        let video = StreamFigures { media_kbit_per_s: Some(rate), ..StreamFigures::default() };
        [(two_stream::AUDIO, audio), (two_stream::VIDEO, video)].map(|(stream, figures)| {
            antiphon_lab::results::Record {
                run,
                point: point.clone(),
                repetition: 0,
                seed: 1,
                stream: stream.into(),
                figures,
            }
        })
    }

    #[test]
    fn all_ways_to_send_the_video_stand_in_one_table() {
        let paper = papers::find(two_stream::KEY).unwrap();
        let tcp = [("video", "tcp"), ("choose", "newest"), ("streams", "1"), ("path", "nistnet")];
        let modem = [("video", "tcp"), ("choose", "newest"), ("streams", "1"), ("path", "dialup")];
        let ours = [("transport", "srp"), ("protect", "none"), ("path", "nistnet")];
        let of = |records: Vec<_>| Results { records, planned_runs: 2 };
        let two = of([record(0, &tcp, 38.0, 98.0), record(1, &modem, 40.0, 12.0)].concat());
        let results = vec![
            (two_stream::ALTERNATIVES, two),
            (two_stream::MANAGER, of(record(0, &ours, 0.5, 82.0).to_vec())),
        ];
        let ran = PaperResults { paper, results, real: Vec::new() };
        let table = ran.ways("nistnet");
        let rows: Vec<(&str, &str)> =
            table.rows.iter().map(|row| (row.group.as_str(), row.label.as_str())).collect();
        let groups = ["two programs", "one session with a congestion manager"];
        assert_eq!(rows, [(groups[0], "TCP, newest frame"), (groups[1], "SRP, audio once")]);
        let said = |row: usize, column: usize| match &table.rows[row].values[column] {
            Cell::Text(said) => said.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((said(0, 0), said(1, 0)), ("38.000".into(), "0.500".into()));
        assert_eq!((said(0, 1), said(1, 1)), ("98.000".into(), "82.000".into()));
        assert_eq!(table.rows[1].values[2], Cell::MISSING);
    }
}

//! Worlds checked against closed forms and against the media's own counters.

use std::time::Duration;

use antiphon_core::{BitRate, Ppm, Ratio};
use antiphon_link::wlan::{CellSpec, StationSpec};

use super::*;
use crate::figures::StreamFigures;
use crate::setup::{Content, HostCost, MediumKind, MediumSpec, NodeSpec, SoundSpec, Treatment};
use crate::tcp::Profile;

mod any;
mod associations;
mod fates;
mod media;
mod medusa;
mod paced;
mod pictures;
mod priorities;
mod setups;
mod traffic;
mod video;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A setup of `nodes` nodes, called a, b, c ...
fn setup(nodes: usize, seconds: u64) -> Setup {
    let node = |n: usize| NodeSpec::new(char::from(b'a' + n as u8));
    Setup {
        duration: Duration::from_secs(seconds),
        drain: Duration::from_secs(2),
        ends_with_streams: false,
        media_seed: None,
        nodes: (0..nodes).map(node).collect(),
        media: Vec::new(),
        traffic: Vec::new(),
        streams: Vec::new(),
    }
}

fn link(name: &str, a: usize, b: usize, spec: &str) -> MediumSpec {
    let spec = if spec.is_empty() { "ideal" } else { spec };
    let spec = Box::new(spec.parse().expect("a link"));
    MediumSpec::new(name, MediumKind::Link { between: [NodeId(a), NodeId(b)], spec })
}

/// A switch between those nodes, with ports of so many Mbit/s.
fn switch(nodes: std::ops::Range<usize>, mbit_s: u64) -> MediumSpec {
    let kind = MediumKind::Switch {
        nodes: nodes.map(NodeId).collect(),
        rate: BitRate(mbit_s * 1_000_000),
        queue: antiphon_link::QueueLimit::Packets(50),
        latency: Duration::from_micros(10),
    };
    MediumSpec::new("switch", kind)
}

/// The report's stream: 1300 bytes every 7.4 ms.
fn stream(name: &str, transport: &str, from: usize, to: usize) -> StreamSpec {
    let content = Content::Packets { frame: 1300, interval: Duration::from_micros(7_400), count: None };
    StreamSpec { latency: ms(70), ..StreamSpec::new(name, transport, [NodeId(from), NodeId(to)], content) }
}

fn traffic(name: &str, from: usize, to: usize, kind: TrafficKind) -> TrafficSpec {
    TrafficSpec::new(name, [NodeId(from), NodeId(to)], kind)
}

/// The report's cell: an access point, a client and two laptops whose traffic crosses the access point.
fn cell(transport: &str, disturbance: u64, seconds: u64) -> Setup {
    let mut setup = setup(4, seconds);
    let spec = CellSpec::infrastructure(vec![StationSpec::default(); 4]);
    let nodes = (0..4).map(NodeId).collect();
    setup.media.push(MediumSpec::new("cell", MediumKind::Cell { nodes, spec }));
    setup.streams.push(stream("audio", transport, 0, 1));
    let kind = TrafficKind::Constant { rate: BitRate(disturbance * 500_000), payload: 1470 };
    setup.traffic.push(traffic("one", 2, 3, kind.clone()));
    setup.traffic.push(traffic("two", 3, 2, kind));
    setup
}

/// Runs to the end; all media must balance.
fn finished(setup: &Setup, seed: u64) -> (World, RunFigures) {
    let mut world = World::new(setup, seed).expect("a world");
    world.run_to_end();
    assert!(world.balances(), "every packet is accounted for");
    let figures = world.figures();
    (world, figures)
}

/// Two nodes with the link `line` between them, over which a stream goes for so many seconds.
fn over_line(seconds: u64, spec: &str, stream: StreamSpec) -> Setup {
    let mut setup = setup(2, seconds);
    setup.media.push(link("line", 0, 1, spec));
    setup.streams.push(stream);
    setup
}

/// The figures of the stream called `audio` in a run of seed 1.
fn audio_of(setup: &Setup) -> StreamFigures {
    figures_of(&finished(setup, 1).1, "audio")
}

fn figures_of(figures: &RunFigures, stream: &str) -> StreamFigures {
    figures.streams.iter().find(|(name, _)| name == stream).expect("a stream of that name").1
}

fn counter(figures: &RunFigures, medium: usize, name: &str) -> f64 {
    let counters = &figures.media[medium].counters;
    counters.iter().find(|(other, _)| *other == name).expect("a counter of that name").1
}

fn near(value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() <= tolerance, "{value} is not {expected} within {tolerance}");
}

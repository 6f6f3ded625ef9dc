//! In steady state no packet of a world causes an allocation, whatever becomes of it: the second half of each run makes
//! none.

use std::time::Duration;

use antiphon_core::{BitRate, Instant};
use antiphon_lab::setup::{
    Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, SoundSpec, StreamSpec, TrafficKind, TrafficSpec,
};
use antiphon_lab::world::World;
use antiphon_link::wlan::{CellSpec, StationSpec};
use antiphon_session::Repetition;
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HALF: Duration = Duration::from_secs(40);

fn stream(transport: &str) -> StreamSpec {
    let content = Content::Packets { frame: 1300, interval: Duration::from_micros(7_400), count: None };
    StreamSpec::new("audio", transport, [NodeId(0), NodeId(1)], content)
}

fn setup(medium: MediumKind, stream: StreamSpec, disturbance: [(usize, usize); 2], rate: u64) -> Setup {
    let traffic = |n: usize| {
        let (from, to) = disturbance[n];
        let kind = TrafficKind::Constant { rate: BitRate(rate / 2), payload: 1470 };
        TrafficSpec::new(format!("traffic {n}"), [NodeId(from), NodeId(to)], kind)
    };
    let node = |n: usize| NodeSpec::new(format!("node {n}"));
    Setup {
        duration: 2 * HALF,
        drain: Duration::ZERO,
        ends_with_streams: false,
        media_seed: None,
        nodes: (0..4).map(node).collect(),
        media: vec![MediumSpec::new("medium", medium)],
        traffic: vec![traffic(0), traffic(1)],
        streams: vec![stream],
    }
}

/// Runs the first half, then the second without allocations; the counters that must have risen in it.
fn second_half(setup: &Setup, weather: &[&str]) {
    let mut world = World::new(setup, 3).expect("a world");
    let counts = |world: &World| {
        let figures = world.figures();
        let count =
            |name: &&str| figures.media[0].counters.iter().find(|(n, _)| n == name).map(|(_, count)| *count);
        (
            figures.streams[0].1.received.expect("a count"),
            weather.iter().filter_map(count).collect::<Vec<_>>(),
        )
    };
    world.run_until(Instant::ZERO + HALF);
    let before = counts(&world);
    let calls = Counting::calls(|| world.run_until(Instant::ZERO + 2 * HALF));
    assert_eq!(calls, 0, "allocations");
    let after = counts(&world);
    assert!(after.0 > before.0 + 1000.0, "frames arrived: {before:?}, {after:?}");
    assert_eq!(after.1.len(), weather.len());
    assert!(before.1.iter().zip(&after.1).all(|(before, after)| after > before), "{before:?}, {after:?}");
}

fn cell() -> MediumKind {
    let spec = CellSpec::infrastructure(vec![StationSpec { retry_limit: 2, ..StationSpec::default() }; 4]);
    MediumKind::Cell { nodes: (0..4).map(NodeId).collect(), spec }
}

fn link(spec: &str) -> MediumKind {
    let spec = Box::new(spec.parse().expect("a link"));
    MediumKind::Link { between: [NodeId(0), NodeId(1)], spec }
}

/// What users send by default, and the same twice.
fn sound(transport: &str, times: u8) -> StreamSpec {
    let protect = Repetition { times, spacing: Duration::from_millis(10) };
    let content = Content::Sound(SoundSpec { protect, ..SoundSpec::default() });
    StreamSpec { content, patience: Some(Duration::from_millis(80)), ..stream(transport) }
}

#[test]
fn sound_over_links_with_losses() {
    let line = "rate=4Mbit/s,queue=20packets,delay=20ms,jitter=2ms,loss=2%,duplicate=1%";
    for (transport, times) in
        [("rtp", 1), ("rtp", 2), ("arq", 1), ("srp", 1), ("sctp", 1), ("dccp", 1), ("xtp", 1)]
    {
        second_half(&setup(link(line), sound(transport, times), [(0, 1), (1, 0)], 800_000), &["up_lost"]);
    }
    let line = "rate=4Mbit/s,queue=20packets,delay=20ms,loss=0.3%";
    second_half(&setup(link(line), sound("tcp", 1), [(0, 1), (1, 0)], 800_000), &["up_lost", "down_lost"]);
}

#[test]
fn rtp_through_a_cell_with_losses() {
    second_half(&setup(cell(), stream("rtp"), [(2, 3), (3, 2)], 14_000_000), &["overflowed", "exhausted"]);
}

#[test]
fn tcp_through_a_cell_with_losses() {
    second_half(&setup(cell(), stream("tcp"), [(2, 3), (3, 2)], 11_000_000), &["exhausted"]);
}

#[test]
fn rtp_over_a_link_with_all_that_may_happen_on_it() {
    let line =
        "rate=4Mbit/s,queue=20packets,delay=20ms,jitter=2ms,loss=2%,duplicate=1%,corrupt=1%,reorder=1%/5ms";
    let weather = ["up_lost", "up_duplicated", "up_overflowed", "down_lost"];
    second_half(&setup(link(line), stream("rtp"), [(0, 1), (1, 0)], 6_400_000), &weather);
}

#[test]
fn tcp_over_a_link_with_losses() {
    let line = "rate=4Mbit/s,queue=20packets,delay=20ms,loss=0.3%";
    second_half(&setup(link(line), stream("tcp"), [(0, 1), (1, 0)], 4_800_000), &["up_lost", "down_lost"]);
}

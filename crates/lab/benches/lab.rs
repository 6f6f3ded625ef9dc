//! Speed of the laboratory: events per second, and seconds of stream per second of computing, on one core.
//!
//! Prints one JSON object a line:
//! `{"bench":"lab","case":"rtp through the cell","events_per_s":…,"stream_s_per_s":…,"cpu_s":…,"elapsed_s":…,…}`.
//! `stream_s_per_s` counts the seconds of every stream; both rates are by processor time where the system tells it
//! (Linux), so that other work on the machine does not count. `cargo bench --bench lab -- sound` runs the cases whose names hold
//! the word; `cargo test --benches` runs a short version of each.

use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_lab::setup::{
    Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, StreamSpec, TrafficKind, TrafficSpec,
};
use antiphon_lab::world::World;
use antiphon_link::wlan::{CellSpec, StationSpec};

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let measure = |case: &str, long: u64, setup: &dyn Fn(u64) -> Setup| {
        if wanted.is_empty() || wanted.iter().any(|part| case.contains(part)) {
            measure(case, &setup(if full { long } else { 1 }));
        }
    };
    measure("rtp through the cell", 20_000, &|seconds| cell(report("rtp"), seconds));
    measure("tcp through the cell", 5_000, &|seconds| cell(report("tcp"), seconds));
    measure("sound through the cell", 5_000, &|seconds| cell(sound(), seconds));
    measure("1000 rtp streams over a link", 60, &|seconds| many(1000, seconds));
}

fn measure(case: &str, setup: &Setup) {
    let mut world = World::new(setup, 1).expect("a world");
    let (elapsed, before) = (stopwatch(), processor_time());
    world.run_to_end();
    let elapsed = elapsed();
    let took = processor_time().map_or(elapsed, |after| after - before.unwrap_or_default());
    let figures = world.figures();
    let received: f64 = figures.streams.iter().filter_map(|(_, stream)| stream.received).sum();
    let stream_s = setup.duration.as_secs_f64() * setup.streams.len() as f64;
    println!(
        "{{\"bench\":\"lab\",\"case\":\"{case}\",\"events_per_s\":{:.0},\"stream_s_per_s\":{:.0},\
         \"cpu_s\":{took:.2},\"elapsed_s\":{elapsed:.2},\"stream_s\":{stream_s:.0},\"received\":{received:.0}}}",
        figures.events as f64 / took,
        stream_s / took,
    );
}

/// Seconds on the machine's clock.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench measures how long the machine takes"
)]
fn stopwatch() -> impl FnOnce() -> f64 {
    let begun = std::time::Instant::now();
    move || begun.elapsed().as_secs_f64()
}

/// Seconds that this process has computed: the first number of `/proc/self/schedstat`, in ns (kernel documentation,
/// `scheduler/sched-stats`).
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

fn nodes(count: usize) -> Vec<NodeSpec> {
    (0..count).map(|n| NodeSpec::new(format!("node {n}"))).collect()
}

/// An access point that sends, a client, and two stations that send 10 Mbit/s through the access point between them.
fn cell(stream: StreamSpec, seconds: u64) -> Setup {
    let spec = CellSpec::infrastructure(vec![StationSpec::default(); 4]);
    let disturbance = |name: &str, from, to| {
        let kind = TrafficKind::Constant { rate: BitRate(5_000_000), payload: 1470 };
        TrafficSpec::new(name, [NodeId(from), NodeId(to)], kind)
    };
    Setup {
        duration: Duration::from_secs(seconds),
        drain: Duration::from_secs(1),
        ends_with_streams: false,
        media_seed: None,
        nodes: nodes(4),
        media: vec![MediumSpec::new("cell", MediumKind::Cell { nodes: (0..4).map(NodeId).collect(), spec })],
        traffic: vec![disturbance("one", 2, 3), disturbance("two", 3, 2)],
        streams: vec![stream],
    }
}

/// 1300 bytes every 7.4 ms.
fn report(transport: &str) -> StreamSpec {
    let interval = Duration::from_micros(7_400);
    stream("audio", transport, Content::Packets { frame: 1300, interval, count: None })
}

/// 48 kHz stereo in blocks of 256.
fn sound() -> StreamSpec {
    stream("audio", "rtp", Content::default())
}

fn stream(name: &str, transport: &str, content: Content) -> StreamSpec {
    StreamSpec::new(name, transport, [NodeId(0), NodeId(1)], content)
}

/// So many streams of 160-byte frames every 20 ms, over one link that is busy for 80 % of the time.
fn many(count: usize, seconds: u64) -> Setup {
    let streams = (0..count).map(|n| {
        let content = Content::Packets { frame: 172, interval: Duration::from_millis(20), count: None };
        StreamSpec {
            start: Duration::from_micros(20 * n as u64),
            ..stream(&format!("stream {n}"), "rtp", content)
        }
    });
    let spec = "rate=100Mbit/s,delay=10ms,queue=1000packets".parse().expect("a link");
    Setup {
        duration: Duration::from_secs(seconds),
        drain: Duration::from_secs(1),
        ends_with_streams: false,
        media_seed: None,
        nodes: nodes(2),
        media: vec![MediumSpec::new(
            "line",
            MediumKind::Link { between: [NodeId(0), NodeId(1)], spec: Box::new(spec) },
        )],
        traffic: Vec::new(),
        streams: streams.collect(),
    }
}

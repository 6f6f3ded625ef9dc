//! Whether advice that is said to be sure is that of a run a hundred times as long, over every link preset.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{DEFAULT_LATENCY, Instant, Role};
use antiphon_lab::setup::{Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, StreamSpec};
use antiphon_lab::world::World;
use antiphon_link::{PRESETS, Preset};
use antiphon_measure::{Advice, Candidate, PacketLog, Purpose, RunFacts, TransportFigures, advise};
use antiphon_proto::{StackArgs, TRANSPORTS, Transport};

/// What was measured of one transport.
struct Run {
    transport: &'static Transport,
    log: PacketLog,
    figures: TransportFigures,
}

/// A comparison's sound over one transport, on its own copy of the link: transports with equal seeds meet the same weather.
fn run(preset: &Preset, transport: &'static Transport, seconds: u64, seed: u64) -> Run {
    let between = [NodeId(0), NodeId(1)];
    let content = Content::default();
    let stream = StreamSpec {
        patience: Some(DEFAULT_LATENCY),
        ..StreamSpec::new("audio", transport.scheme, between, content)
    };
    let setup = Setup {
        duration: Duration::from_secs(seconds),
        drain: Duration::from_secs(2),
        ends_with_streams: false,
        media_seed: None,
        nodes: ["near", "far"].map(NodeSpec::new).to_vec(),
        media: vec![MediumSpec::new("link", MediumKind::Link { between, spec: Box::new(preset.spec()) })],
        traffic: Vec::new(),
        streams: vec![stream],
    };
    let mut world = World::new(&setup, seed).expect("a possible setup");
    world.run_to_end();
    let log = world.course("audio").expect("a stream").packet_log(PACKET, 256 * 4 + 12);
    let facts = RunFacts { transport: transport.scheme.into(), ..RunFacts::default() };
    Run { transport, figures: TransportFigures::new(&log, &facts), log }
}

const PACKET: Duration = Duration::from_nanos(5_333_333);

fn advice(preset: &Preset, seconds: u64, seed: u64) -> Vec<Advice> {
    let runs: Vec<Run> = TRANSPORTS.iter().map(|transport| run(preset, transport, seconds, seed)).collect();
    let reliable = |transport: &Transport| {
        let (query, mtu) = (Query::default(), 1472);
        let args = StackArgs::new(&query, 1, mtu, DEFAULT_LATENCY);
        let stack = (transport.stack)(&args).expect("default settings");
        stack.open(Instant::ZERO, Role::Caller).profile().reliable
    };
    let candidates: Vec<Candidate<'_>> = runs
        .iter()
        .map(|run| Candidate {
            figures: &run.figures,
            log: &run.log,
            reliable: reliable(run.transport),
            multicast: run.transport.multicast,
            current: false,
        })
        .collect();
    advise(&candidates)
}

/// Recommendations of `runs` runs of [`SECONDS`] that are said to be at least 90 % sure, and how many of them are those of a
/// run a hundred times as long: they name the same transport, or one that the other says would do as well.
fn said_and_right(preset: &Preset, runs: u64) -> (usize, usize) {
    let long = advice(preset, 100 * SECONDS, 0);
    let among = |advice: &Advice, name: &String| advice.transport == *name || advice.ties.contains(name);
    let (mut said, mut right) = (0, 0);
    for seed in 1..=runs {
        for (short, long) in advice(preset, SECONDS, seed).iter().zip(&long) {
            if short.confidence.is_none_or(|sure| sure < 0.9) {
                continue;
            }
            // Where nothing meets the bound, the recommendation is none; the least bad is no part of it.
            let same = !short.met || among(short, &long.transport) || among(long, &short.transport);
            said += 1;
            right += usize::from(same && short.met == long.met);
        }
    }
    println!("{}: {right} of {said} recommendations of {runs} runs", preset.name);
    (said, right)
}

/// The links of the study of 2003 carry a twelfth of it and less.
fn carries_the_sound(preset: &Preset) -> bool {
    preset.spec().up.rate.is_none_or(|rate| rate.0 >= 2_000_000)
}

/// As long as `compare` lasts with its own music.
const SECONDS: u64 = 20;

/// Two links on which runs tell much, and one on which nothing ever happens.
#[test]
fn what_is_said_to_be_sure_is_so_over_modelled_links() {
    let told = ["wifi-busy", "intercontinental"].map(|name| {
        let preset = PRESETS.iter().find(|preset| preset.name == name).expect("a preset");
        let (said, right) = said_and_right(preset, 40);
        assert!(right * 10 >= said * 9, "{name}: {right} of {said}");
        said
    });
    assert!(told.iter().all(|said| *said >= 20), "each was sure often enough to be judged: {told:?}");
}

#[test]
fn an_ethernet_recommends_rtp_for_playing_together_in_every_run() {
    let ethernet = PRESETS.iter().find(|preset| preset.name == "ethernet").expect("a preset");
    for seed in 1..=40 {
        let advice = advice(ethernet, 5, seed);
        let play = advice.iter().find(|advice| advice.purpose == Purpose::PlayTogether).expect("advice");
        assert_eq!(
            (play.transport.as_str(), play.met, play.ties.len()),
            ("rtp", true, TRANSPORTS.len() - 1),
            "{play:?}"
        );
    }
}

#[test]
#[ignore = "takes some minutes on two cores: 100 runs over each preset"]
fn what_is_said_to_be_sure_is_so_over_every_preset() {
    let presets: Vec<&Preset> = PRESETS.iter().filter(|preset| carries_the_sound(preset)).collect();
    let judged = std::thread::scope(|scope| {
        let judging: Vec<_> =
            presets.iter().map(|preset| scope.spawn(|| said_and_right(preset, 100))).collect();
        judging.into_iter().map(|judging| judging.join().expect("it judges")).collect::<Vec<_>>()
    });
    for (preset, (said, right)) in presets.iter().zip(judged) {
        assert!(right * 10 >= said * 9, "{}: {right} of {said}", preset.name);
        // Where nothing happens, a run of 20 s can not be sure that nothing will.
        let enough = ["ideal", "ethernet"].contains(&preset.name) || said >= 10;
        assert!(enough, "{}: sure often enough to be judged: {said}", preset.name);
    }
}

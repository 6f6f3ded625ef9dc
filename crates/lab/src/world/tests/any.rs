//! Any setup: refused, or run to its end with every packet accounted for, and repeatable.

use std::cell::Cell;

use antiphon_link::wlan::{Category, Fade};
use antiphon_link::{QueueLimit, RingClass, RingSpec, StationSpec as RingStation};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use antiphon_media::ChannelGroups;
use antiphon_session::Repetition;

/// A medium that joins `usual` nodes, or sometimes invalid ones.
fn medium(n: usize, usual: &'static [usize]) -> impl Strategy<Value = MediumSpec> {
    let any = proptest::collection::vec((0usize..7).prop_map(NodeId), 0..4);
    let usual: Vec<NodeId> = usual.iter().copied().map(NodeId).collect();
    let nodes = prop_oneof![20 => Just(usual), 1 => any];
    let specs = prop_oneof![
        Just(""),
        Just("rate=1Mbit/s,queue=3packets,delay=5ms,loss=20%,duplicate=10%,corrupt=10%,reorder=10%/8ms"),
        Just("rate=300kbit/s,queue=red/2/5/10%,jitter=3ms,stall=30ms/200ms"),
    ];
    let rates = prop_oneof![1 => Just(0u64), 8 => Just(1_000_000), 8 => Just(100_000_000)];
    (0..5u8, nodes, specs, rates, 0..3u32).prop_map(move |(kind, nodes, spec, rate, small)| {
        let ends = [0, 1].map(|end| nodes.get(end).copied().unwrap_or(NodeId(end)));
        let (rate, queue) = (BitRate(rate), QueueLimit::Packets(small));
        let kind = match kind {
            0 => link("", ends[0].0, ends[1].0, spec).kind,
            1 => MediumKind::Cable { between: ends, rate, queue },
            2 => MediumKind::Switch { nodes, rate, queue, latency: Duration::from_micros(5) },
            3 => {
                let fade = (small == 2).then_some(Fade { mean: ms(30), share: Ratio(0.2) });
                let frame_error = Ratio(0.3 * f64::from(small));
                let station = StationSpec {
                    queue: 1 + small,
                    retry_limit: small as u8,
                    fade,
                    frame_error,
                    ..StationSpec::default()
                };
                let stations = vec![station; nodes.len()];
                let infrastructure = CellSpec::infrastructure(stations.clone());
                let spec = if small == 0 { CellSpec::ad_hoc(stations) } else { infrastructure };
                MediumKind::Cell { nodes, spec }
            }
            _ => {
                let stations = vec![RingStation { queue: 1 + small, ..RingStation::default() }; nodes.len()];
                MediumKind::Ring { nodes, spec: RingSpec { ttrt: ms(8), stations } }
            }
        };
        MediumSpec { name: format!("medium {n}"), kind }
    })
}

fn load() -> impl Strategy<Value = TrafficSpec> {
    (0..6u8, 0usize..6, 0usize..6, 0usize..3000, 0..5_000_000u64).prop_map(
        |(kind, from, to, payload, rate)| {
            let kind = match kind {
                0 => TrafficKind::Constant { rate: BitRate(rate), payload },
                1 => TrafficKind::Poisson { rate: BitRate(rate), payload },
                2 => TrafficKind::Bursts {
                    packets: 30,
                    period: Duration::from_micros(1000 + rate / 50),
                    jitter: Ratio(rate as f64 / 5e6),
                    payload,
                },
                3 => TrafficKind::Blaster { payload },
                4 => TrafficKind::Ping {
                    interval: Duration::from_micros(1000 + rate / 50),
                    payload,
                    count: 20,
                },
                _ => TrafficKind::GreedyTcp {
                    profile: Profile { send_buffer: 20_000, ..Profile::windows_xp() },
                },
            };
            traffic("load", from, to, kind)
        },
    )
}

fn any_stream() -> impl Strategy<Value = StreamSpec> {
    let to = proptest::collection::vec((0usize..6).prop_map(NodeId), 0..4);
    let ways = (0usize..6, to, any::<bool>(), any::<bool>(), any::<bool>());
    (ways, 0usize..2000, 0..20_000u64, 0..50u32).prop_map(
        |((from, to, tcp, reflected, sound), frame, micros, small)| {
            let interval = if micros < 500 { Duration::ZERO } else { Duration::from_micros(micros) };
            let content = if sound {
                let groups = ChannelGroups::parse(3, ["3", "1", "1,2"][small as usize % 3]).unwrap();
                let protect = Repetition { times: 1 + small as u8 % 2, spacing: ms(10) };
                Content::Sound(SoundSpec {
                    sample_rate: 8_000,
                    groups,
                    block: 8 * small,
                    opus: None,
                    protect,
                })
            } else {
                Content::Packets {
                    frame,
                    interval,
                    count: small.is_multiple_of(2).then_some(u64::from(small)),
                }
            };
            StreamSpec {
                to,
                content,
                reflected,
                start: ms(u64::from(small)),
                patience: small.is_multiple_of(3).then(|| ms(u64::from(small))),
                treatment: Treatment { category: Category::Voice, ring: RingClass::Synchronous },
                ..stream("audio", if tcp { "tcp" } else { "rtp" }, from, 0)
            }
        },
    )
}

#[test]
fn any_setup_is_refused_or_runs() {
    let media = (medium(0, &[0, 1, 2]), medium(1, &[2, 3]), medium(2, &[3, 4, 5]));
    let all = (media, load(), any_stream(), 0..3u64, any::<u64>());
    let (ran, arrived) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(&all, |(media, load, audio, cost, seed)| {
        let mut setup = setup(6, 1);
        setup.duration = ms(300);
        setup.drain = ms(100);
        setup.media = vec![media.0, media.1, media.2];
        setup.nodes[2].cost.receive_packet = ms(cost);
        // Either may be refused; the other then runs without it.
        setup.traffic = vec![load];
        if World::new(&setup, seed).is_err() {
            setup.traffic.clear();
        }
        setup.streams = vec![audio];
        if World::new(&setup, seed).is_err() {
            setup.streams.clear();
        }
        if let Ok(mut world) = World::new(&setup, seed) {
            world.run_to_end();
            prop_assert!(world.balances());
            let figures = world.figures();
            ran.set(ran.get() + 1);
            arrived.set(arrived.get() + u64::from(figures.events > 100));
            prop_assert_eq!(run(&setup, seed).expect("it ran before"), figures);
        }
        Ok(())
    });
    result.expect("no setup may fail");
    assert!(ran.get() > 40 && arrived.get() > 10, "{} ran, {} at length", ran.get(), arrived.get());
}

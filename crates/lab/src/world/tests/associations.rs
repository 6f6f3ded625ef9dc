//! Streams that change their transport, or go over several.

use antiphon_core::WireId;
use antiphon_session::{Change, ChangeFailure, Joining, Member};

use super::*;
use crate::setup::FurtherSpec;

fn further(transport: &str, between: [usize; 2], at: u64, joining: Joining) -> FurtherSpec {
    let (scheme, query) = transport.split_once('?').unwrap_or((transport, ""));
    FurtherSpec {
        transport: scheme.into(),
        query: query.parse().expect("settings"),
        between: between.map(NodeId),
        at: ms(at),
        joining,
    }
}

/// Sound from a to b over `first`, and from then on as `further` says.
fn sound(first: &str, further: Vec<FurtherSpec>) -> StreamSpec {
    let audio = StreamSpec::new("audio", first, [NodeId(0), NodeId(1)], Content::default());
    StreamSpec { patience: Some(ms(80)), further, ..audio }
}

/// What became of it, without the times.
fn changes(world: &World) -> Vec<Change> {
    world.changes("audio").iter().map(|(_, change)| *change).collect()
}

/// Nothing lost, late, repeated or made up.
fn assert_flawless(figures: &StreamFigures) {
    assert!(figures.sent > Some(1000.0), "{figures:?}");
    let flaws = [figures.missing_percent, figures.late_percent, figures.concealed_percent];
    assert_eq!(flaws, [Some(0.0); 3], "{figures:?}");
}

#[test]
fn a_stream_goes_from_rtp_over_sctp_and_tcp_to_srp_without_a_gap() {
    for seed in 1..=3 {
        let instead = |transport, at| further(transport, [0, 1], at, Joining::Instead);
        let switches = vec![instead("sctp", 2_000), instead("tcp", 4_000), instead("srp", 6_000)];
        let setup = over_line(10, "rate=10Mbit/s,delay=15ms,jitter=3ms", sound("rtp", switches));
        let (world, figures) = finished(&setup, seed);
        let [one, two, three] = [1, 2, 3].map(WireId);
        let all = [one, two, three].map(|wire| [Change::Joined(wire), Change::Moved(wire)]);
        assert_eq!(changes(&world), all.concat(), "seed {seed}");
        assert_flawless(&figures.streams[0].1);
        // Twice on the way only while they overlap: three round trips and playout delays of ten seconds.
        let alone = finished(&Setup { streams: vec![sound("rtp", Vec::new())], ..setup.clone() }, seed).1;
        let bytes = |run: &RunFigures| run.streams[0].1.wire_bytes.expect("counted");
        let ratio = bytes(&figures) / bytes(&alone);
        assert!((1.0..1.25).contains(&ratio), "seed {seed}: {ratio} times the bytes");
    }
}

/// Two machines with two interfaces each: a to b, and c to d.
fn two_links(first: &str, second: &str, seconds: u64) -> Setup {
    let mut setup = setup(4, seconds);
    setup.media.push(link("one", 0, 1, first));
    setup.media.push(link("other", 2, 3, second));
    setup
}

#[test]
fn two_unlike_paths_make_up_for_each_others_losses() {
    let (mut missing, mut bytes, mut sent) = (0.0, 0.0, 0.0);
    for seed in 1..=4 {
        let mut setup = two_links("delay=5ms,loss=10%", "delay=25ms,loss=10%", 30);
        setup.streams.push(sound("rtp", vec![further("rtp", [2, 3], 0, Joining::Beside)]));
        let (world, figures) = finished(&setup, seed);
        assert_eq!(changes(&world), [Change::Joined(WireId(1))]);
        let of = &figures.streams[0].1;
        missing += of.missing_percent.expect("measured") / 4.0;
        bytes += of.wire_bytes.expect("counted");
        let alone = Setup { streams: vec![sound("rtp", Vec::new())], ..setup.clone() };
        sent += finished(&alone, seed).1.streams[0].1.wire_bytes.expect("counted");
    }
    // 1 % of independent losses, and at the beginning what was sent before the second one was accepted.
    assert!((0.6..=1.2).contains(&missing), "{missing} % missing");
    assert!((1.9..=2.05).contains(&(bytes / sent)), "{} times the bytes", bytes / sent);
}

/// Packets each 5.3 ms: a processor that sends each in 3 ms has no 3 ms for its acknowledgement.
#[test]
fn processors_tell_control_packets_of_further_associations_too() {
    let instead = further("xtp?acks=all", [0, 1], 1_000, Joining::Instead);
    let mut setup = over_line(10, "delay=5ms", sound("rtp", vec![instead]));
    let cost = HostCost { send_packet: ms(3), receive_packet: ms(3), ..HostCost::default() };
    setup.nodes[0].cost = HostCost { receive_control: Some(Duration::ZERO), ..cost };
    let (world, told) = finished(&setup, 1);
    assert_eq!(changes(&world), [Change::Joined(WireId(1)), Change::Moved(WireId(1))]);
    setup.nodes[0].cost = cost;
    let (_, untold) = finished(&setup, 1);
    let missing = [told, untold].map(|run| run.streams[0].1.missing_percent.expect("measured"));
    // While both associations carry it, for a few round trips, there are too many packets in any case.
    assert!(missing[0] < 0.5 && missing[1] > 5.0, "{missing:?} % missing");
}

#[test]
fn a_path_that_takes_nothing_leaves_the_stream_as_it_is() {
    for transport in ["rtp", "tcp", "sctp"] {
        let mut setup = two_links("delay=5ms", "delay=5ms,loss=100%", 12);
        setup.streams.push(sound("rtp", vec![further(transport, [2, 3], 1_000, Joining::Instead)]));
        let (world, figures) = finished(&setup, 1);
        let failed = changes(&world);
        let why = [ChangeFailure::NoConnection, ChangeFailure::NotTaken];
        assert!(matches!(failed[..], [Change::Failed(WireId(1), got)] if why.contains(&got)), "{failed:?}");
        assert_flawless(&figures.streams[0].1);
        assert_eq!(figures.streams[0].1.changes_failed, Some(1.0));
    }
}

#[test]
fn only_sound_to_one_node_has_further_associations() {
    let beside = vec![further("rtp", [0, 1], 0, Joining::Beside)];
    let setup = over_line(2, "", StreamSpec { further: beside, ..stream("audio", "rtp", 0, 1) });
    let error = World::new(&setup, 1).err().expect("packets have none").to_string();
    assert!(error.contains("only sound"), "{error}");
}

#[test]
fn a_sender_tells_a_hundred_members_of_its_group_apart() {
    const MEMBERS: usize = 100;
    let mut setup = setup(1, 30);
    // Every tenth is on a line that loses; the others on the switch.
    let lossy = |member: &usize| member.is_multiple_of(10);
    let nodes = 1 + MEMBERS + MEMBERS / 10;
    setup.nodes = (0..nodes).map(|n| NodeSpec { name: format!("n{n}"), ..setup.nodes[0].clone() }).collect();
    let relay = |member: usize| 1 + MEMBERS + member / 10;
    let on_switch = |member: usize| if lossy(&member) { relay(member) } else { member + 1 };
    let nodes = [0].into_iter().chain((0..MEMBERS).map(on_switch)).map(NodeId).collect();
    let kind = MediumKind::Switch {
        nodes,
        rate: BitRate(100_000_000),
        queue: antiphon_link::QueueLimit::Packets(200),
        latency: Duration::from_micros(10),
    };
    setup.media.push(MediumSpec::new("switch", kind));
    for member in (0..MEMBERS).filter(lossy) {
        let name = format!("line{member}");
        setup.media.push(link(&name, relay(member), member + 1, "delay=2ms,up.loss=5%"));
    }
    let to = (1..=MEMBERS).map(NodeId).collect();
    setup.streams.push(StreamSpec { to, ..sound("rtp", Vec::new()) });
    let (world, figures) = finished(&setup, 1);
    let members = world.members("audio");
    assert_eq!(members.len(), MEMBERS);
    let lost = |member: &Member| member.report.map_or(0, |report| report.block.cumulative_lost);
    let losing: Vec<i32> = members.iter().map(lost).filter(|lost| *lost > 0).collect();
    // 5 % of 187.5 packets a second until the last report, 22 to 30 s after the beginning.
    assert!(losing.len() == 10 && losing.iter().all(|lost| (150..=340).contains(lost)), "{losing:?}");
    assert_eq!(figures.streams.len(), MEMBERS);
}

//! Invalid setups, each with the message that says what would be right.

use super::*;

fn refused(setup: &Setup) -> String {
    match World::new(setup, 1) {
        Ok(_) => panic!("a world was made of it"),
        Err(error) => error.to_string(),
    }
}

/// Two nodes, a line, a stream.
fn plain() -> Setup {
    let mut setup = setup(3, 1);
    setup.media.push(link("line", 0, 1, "delay=1ms"));
    setup.streams.push(stream("audio", "rtp", 0, 1));
    setup
}

fn with(change: impl FnOnce(&mut Setup)) -> String {
    let mut setup = plain();
    change(&mut setup);
    refused(&setup)
}

#[test]
fn the_plain_setup_runs() {
    assert!(World::new(&plain(), 1).is_ok());
}

#[test]
fn transports_are_known_with_their_keys() {
    let error = with(|setup| setup.streams[0].transport = "rpt".into());
    assert!(error.contains("'audio'") && error.contains("did you mean 'rtp'"), "{error}");
    let error = with(|setup| setup.streams[0].query.set("lives", "9"));
    assert!(error.contains("'audio'") && error.contains("lives"), "{error}");
}

#[test]
fn names_are_unique() {
    let error = with(|setup| setup.nodes[2].name = "a".into());
    assert_eq!(error, "two nodes are called 'a'; names must be unique");
    let error = with(|setup| setup.media.push(link("line", 1, 2, "")));
    assert!(error.starts_with("two media are called 'line'"), "{error}");
    let ping = TrafficKind::Ping { interval: ms(100), payload: 56, count: 1 };
    let error = with(|setup| setup.traffic.push(traffic("audio", 0, 1, ping)));
    assert!(error.starts_with("two streams or traffic are called 'audio'"), "{error}");
}

#[test]
fn media_form_a_tree() {
    let error = with(|setup| {
        setup.media.push(link("second", 1, 2, ""));
        setup.media.push(link("third", 2, 0, ""));
    });
    assert!(error.contains("'third' makes a loop") && error.contains("'a'"), "{error}");
    let error = with(|setup| setup.media.push(link("loop", 2, 2, "")));
    assert_eq!(error, "node 'c' is on medium 'loop' twice");
    let error = with(|setup| setup.streams[0].to = vec![NodeId(2)]);
    assert_eq!(error, "'audio' has no route from 'a' to 'c'");
    let error = with(|setup| setup.streams[0].to = vec![NodeId(0)]);
    assert_eq!(error, "'audio' goes from node 'a' to itself");
    let error = with(|setup| setup.streams[0].to = vec![NodeId(7)]);
    assert_eq!(error, "'audio' names node number 7, but there are 3 (counted from 0)");
    let error = with(|setup| setup.streams[0].to = Vec::new());
    assert_eq!(error, "stream 'audio' has no receiver");
}

#[test]
fn groups_need_a_transport_that_has_them() {
    let error = with(|setup| {
        setup.media.push(link("second", 1, 2, ""));
        setup.streams[0].transport = "tcp".into();
        setup.streams[0].to.push(NodeId(2));
    });
    assert_eq!(error, "stream 'audio' has 2 receivers, but tcp goes to one");
}

#[test]
fn quantities_are_above_zero_where_they_must_be() {
    assert!(with(|setup| setup.duration = Duration::ZERO).contains("no duration"));
    assert!(with(|setup| setup.drain = Duration::MAX).contains("100 years"));
    let content = |frame, interval| Content::Packets { frame, interval, count: None };
    let error = with(|setup| setup.streams[0].content = content(1300, Duration::ZERO));
    assert!(error.contains("interval above zero"), "{error}");
    assert!(with(|setup| setup.streams[0].content = content(11, ms(5))).contains("RTP header"));
    let error = with(|setup| setup.streams[0].content = content(1473, ms(5)));
    assert!(error.contains("1473") && error.contains("1472"), "{error}");
    let error = with(|setup| setup.streams[0].content = content(100, Duration::from_nanos(1)));
    assert!(error.contains("1000000000 packets"), "{error}");
    let sound = Content::Sound(SoundSpec { block: 3, ..SoundSpec::default() });
    assert!(with(|setup| setup.streams[0].content = sound).contains("'audio'"));
    let blaster = TrafficKind::Blaster { payload: 1000 };
    let error = with(|setup| setup.traffic.push(traffic("load", 0, 1, blaster)));
    assert!(error.contains("'load'") && error.contains("needs a rate"), "{error}");
    let bursts =
        TrafficKind::Bursts { packets: 2, period: Duration::ZERO, jitter: Ratio(0.0), payload: 1000 };
    assert!(with(|setup| setup.traffic.push(traffic("load", 0, 1, bursts))).contains("1 µs or more"));
    for kind in [
        TrafficKind::Constant { rate: BitRate(u64::MAX), payload: 1 },
        TrafficKind::Poisson { rate: BitRate(1_000_000_000_000), payload: 1000 },
        TrafficKind::Constant { rate: BitRate(1), payload: 0 },
        TrafficKind::Bursts { packets: u32::MAX, period: ms(1), jitter: Ratio(0.0), payload: 1 },
        TrafficKind::Ping { interval: ms(1), payload: 56, count: u32::MAX },
        TrafficKind::Ping { interval: ms(1), payload: 65_508, count: 1 },
        TrafficKind::GreedyTcp { profile: Profile { send_buffer: usize::MAX, ..Profile::linux() } },
        TrafficKind::GreedyTcp { profile: Profile { mss: 0, ..Profile::linux() } },
    ] {
        let error = with(|setup| setup.traffic.push(traffic("load", 0, 1, kind.clone())));
        assert!(error.contains("'load'"), "{kind:?}: {error}");
    }
    assert!(with(|setup| setup.streams[0].tcp.receive_buffer = 0).contains("1 byte to 256 MiB"));
    assert!(with(|setup| setup.nodes[0].cost.send_byte_s = f64::NAN).contains("'a'"));
    let error = with(|setup| {
        let kind = MediumKind::Cable {
            between: [NodeId(1), NodeId(2)],
            rate: BitRate(0),
            queue: antiphon_link::QueueLimit::Packets(10),
        };
        setup.media.push(MediumSpec::new("cable", kind));
    });
    assert!(error.contains("'cable'") && error.contains("100Mbit/s"), "{error}");
    let error = with(|setup| {
        let red = antiphon_link::RedSpec { min: 9, max: 3, share: Ratio(2.0), gentle: false };
        let kind = MediumKind::Cable {
            between: [NodeId(1), NodeId(2)],
            rate: BitRate(1000),
            queue: antiphon_link::QueueLimit::Red(red),
        };
        setup.media.push(MediumSpec::new("cable", kind));
    });
    assert!(error.starts_with("link 'cable': "), "{error}");
}

#[test]
fn descriptions_of_media_fit_them() {
    let mut lonely = cell("rtp", 0, 1);
    let MediumKind::Cell { spec, .. } = &mut lonely.media[0].kind else { unreachable!("it is a cell") };
    spec.stations.pop();
    assert_eq!(refused(&lonely), "medium 'cell' has 4 nodes, but its description has 3 stations");
    spec_of(&mut lonely).stations = vec![StationSpec { queue: 0, ..StationSpec::default() }; 4];
    assert!(refused(&lonely).starts_with("cell 'cell': station 0: a queue holds"));
    let mut group = cell("rtp", 0, 1);
    group.streams[0].from = NodeId(1);
    group.streams[0].to = vec![NodeId(0), NodeId(2)];
    assert!(refused(&group).contains("its own access point"));
}

fn spec_of(setup: &mut Setup) -> &mut CellSpec {
    match &mut setup.media[0].kind {
        MediumKind::Cell { spec, .. } => spec,
        _ => unreachable!("it is a cell"),
    }
}

//! Nodes where packets wait by the priority in their headers.

use super::*;

/// A voice of 100 packets a second, and traffic of 3000, through a node that forwards 2000.
fn through_router(priorities: bool, transport: &str, query: &str) -> StreamFigures {
    let mut setup = setup(4, 10);
    setup.media.extend([link("one", 0, 1, ""), link("two", 1, 2, ""), link("three", 3, 1, "")]);
    setup.nodes[1].cost.receive_packet = Duration::from_micros(500);
    setup.nodes[1].priorities = priorities;
    setup.nodes[1].queue = 40;
    let content = Content::Packets { frame: 100, interval: Duration::from_micros(10_003), count: None };
    let voice = StreamSpec {
        content,
        query: query.parse().unwrap(),
        latency: ms(70),
        ..StreamSpec::new("audio", transport, [NodeId(0), NodeId(2)], Content::default())
    };
    setup.streams.push(voice);
    // Its first packet comes through before the queue is full.
    let load = TrafficKind::Poisson { rate: BitRate(3000 * 8 * 1000), payload: 1000 };
    setup.traffic.push(TrafficSpec { start: ms(100), ..traffic("load", 3, 2, load) });
    audio_of(&setup)
}

/// It waits for the packet that is being forwarded, and no other one: 0.5 to 1 ms in all.
#[test]
fn an_urgent_packet_waits_for_the_one_that_is_processed() {
    let sorted = through_router(true, "xtp", "sort=on&acks=never");
    assert_eq!(sorted.lost_percent, Some(0.0), "{sorted:?}");
    assert!(sorted.delay_max_ms.unwrap() < 1.0 + 1e-6 && sorted.delay_mean_ms.unwrap() > 0.7, "{sorted:?}");
}

/// 40 wait, and 1100 of 3100 are lost, of regular packets as of others: 35 % of a thousand, give or take 1.5.
#[test]
fn without_priorities_all_wait_alike() {
    let (plain, unsorted, rtp) = (
        through_router(false, "xtp", "sort=on&acks=never"),
        through_router(true, "xtp", "acks=never"),
        through_router(true, "rtp", ""),
    );
    for one in [plain, unsorted, rtp] {
        near(one.lost_percent, 35.0, 5.0);
        near(one.delay_p99_ms, 20.0, 0.5);
    }
}

/// What is less urgent waits, and is sent in its order.
#[test]
fn of_two_streams_the_one_with_the_smaller_number_goes_first() {
    let mut setup = setup(3, 10);
    setup.media.extend([link("one", 0, 1, ""), link("two", 1, 2, "")]);
    setup.nodes[1].cost.receive_packet = ms(1);
    setup.nodes[1].priorities = true;
    let stream = |name: &str, interval, priority| StreamSpec {
        query: "sort=on&acks=never".parse().unwrap(),
        content: Content::Packets { frame: 100, interval, count: None },
        priority,
        ..StreamSpec::new(name, "xtp", [NodeId(0), NodeId(2)], Content::default())
    };
    setup.streams = vec![
        stream("audio", Duration::from_micros(10_003), 3),
        stream("file", Duration::from_micros(1_050), 4),
    ];
    let (_, figures) = finished(&setup, 1);
    let (audio, file) = (figures_of(&figures, "audio"), figures_of(&figures, "file"));
    assert!(audio.delay_max_ms.unwrap() <= 2.0 + 1e-6, "{audio:?}");
    assert!(file.delay_max_ms.unwrap() > 100.0 && file.reordered == Some(0.0), "{file:?}");
    setup.nodes[1].priorities = false;
    let (_, figures) = finished(&setup, 1);
    assert!(figures_of(&figures, "audio").delay_max_ms.unwrap() > 100.0);
}

#[test]
fn a_priority_that_nothing_heeds_is_refused() {
    let refused = |transport: &str, content: Content| {
        let mut setup = setup(2, 1);
        setup.media.push(link("one", 0, 1, ""));
        let nodes = [NodeId(0), NodeId(1)];
        setup.streams =
            vec![StreamSpec { priority: 1, ..StreamSpec::new("audio", transport, nodes, content) }];
        World::new(&setup, 1).err().expect("it is refused").to_string()
    };
    let packets = Content::Packets { frame: 100, interval: ms(1), count: None };
    assert!(refused("xtp", packets.clone()).contains("sort=on"));
    assert!(refused("rtp", packets).contains("sort=on"));
    assert!(refused("rtp", Content::default()).contains("frame and interval"));
    let mut setup = setup(2, 1);
    setup.media.push(link("one", 0, 1, ""));
    setup.streams.push(stream("audio", "rtp", 0, 1));
    setup.nodes[0].queue = 0;
    assert!(World::new(&setup, 1).err().expect("it is refused").to_string().contains("32768"));
}

//! Streams that no clock sends, over processors and a ring.

use antiphon_link::{RingClass, RingSpec, StationSpec as RingStation};

use super::*;
use crate::setup::{Headers, Pacing, Unheard};

/// A processor's times as of the study of voice over FDDI, in round numbers: T0 1 ms and 1.5 ms, per byte 0.5 µs and 0.25 µs, an
/// acknowledgement 0.7 ms.
fn cost() -> HostCost {
    HostCost {
        send_packet: Duration::from_micros(1000),
        send_byte_s: 0.5e-6,
        receive_packet: Duration::from_micros(1500),
        receive_byte_s: 0.25e-6,
        send_control: Some(Duration::ZERO),
        receive_control: Some(Duration::from_micros(700)),
        apart: true,
        ..HostCost::default()
    }
}

/// Two stations, a generator and a station that takes what it sends, on a ring whose token waits for nobody.
fn on_ring(streams: Vec<StreamSpec>) -> Setup {
    let mut setup = setup(4, 60);
    let station = RingStation { synchronous: None, hop: Duration::from_nanos(10), ..RingStation::default() };
    let spec = RingSpec { ttrt: Duration::from_micros(10_100), stations: vec![station; 4] };
    let nodes = (0..4).map(NodeId).collect();
    setup.media.push(MediumSpec::new("ring", MediumKind::Ring { nodes, spec }));
    setup.nodes[0].cost = cost();
    setup.nodes[1].cost = cost();
    setup.streams = streams;
    setup
}

const SYNCHRONOUS: Treatment =
    Treatment { category: antiphon_link::wlan::Category::BestEffort, ring: RingClass::Synchronous };

fn xtp(name: &str, [from, to]: [usize; 2], frame: usize, count: u64, pacing: Pacing) -> StreamSpec {
    StreamSpec {
        query: "acks=all&reliability=full&wtimer=1s".parse().unwrap(),
        content: Content::SelfPaced { frame, count, pacing },
        reflected: pacing == Pacing::PingPong,
        headers: Headers::Xtp36,
        treatment: SYNCHRONOUS,
        ..stream(name, "xtp", from, to)
    }
}

/// In ms: both hosts, and the frame on the ring.
fn latency(n: f64) -> f64 {
    2.5 + 0.75e-3 * (n + 44.0) + 0.08e-3 * (n + 69.0)
}

/// Acknowledgements are of the sender's side and wait for nothing: half a round trip is the time of one packet.
#[test]
fn a_ping_pong_on_an_idle_ring_takes_what_its_parts_add_up_to() {
    for n in [8, 4096] {
        let voice = xtp("audio", [0, 1], n, 200, Pacing::PingPong);
        let setup = on_ring(vec![voice]);
        let (_, figures) = finished(&setup, 1);
        let audio = figures_of(&figures, "audio");
        assert_eq!(
            (audio.sent, audio.received, audio.retransmissions),
            (Some(200.0), Some(200.0), Some(0.0))
        );
        // The token takes 40 ns round the ring. The first packet may wait for an acknowledgement of the set-up.
        near(audio.rtt_p50_ms, 2.0 * latency(n as f64), 2e-4);
        near(audio.rtt_p99_ms, 2.0 * latency(n as f64), 2e-4);
        near(audio.rtt_mean_ms, 2.0 * latency(n as f64), 0.7 / 200.0);
        near(audio.gap_mean_ms, 2.0 * latency(n as f64), 2e-4);
        // Each packet is n + 44 bytes and what is beside them 92: FIRST, the proof, and one acknowledgement each.
        let beside = audio.wire_bytes.unwrap() - 200.0 * (n as f64 + 44.0);
        assert!(beside % 92.0 == 0.0 && (beside / 92.0 - 202.0).abs() <= 3.0, "{beside}");
    }
}

/// A generator goes on after the ping-pong, which has ended after some 0.6 s of 60.
#[test]
fn a_run_that_ends_with_its_streams_has_their_figures() {
    let mut setup = on_ring(vec![xtp("audio", [0, 1], 64, 100, Pacing::PingPong)]);
    let (packets, period, jitter) = (3, Duration::from_millis(2), antiphon_core::Ratio(0.1));
    let kind = TrafficKind::Bursts { packets, period, jitter, payload: 4114 };
    setup.traffic.push(TrafficSpec { treatment: SYNCHRONOUS, ..traffic("load", 2, 3, kind) });
    let whole = finished(&setup, 1).1;
    setup.ends_with_streams = true;
    let short = finished(&setup, 1).1;
    assert_eq!(figures_of(&whole, "audio"), figures_of(&short, "audio"));
    assert_eq!(figures_of(&short, "audio").received, Some(100.0));
    assert!(short.events * 50 < whole.events, "{} of {} events", short.events, whole.events);
}

/// The sender limits both directions: T0 + t1 n + A, whatever the window holds beyond the pipeline.
#[test]
fn a_transfer_is_as_fast_as_its_sender() {
    for window in [3, 4] {
        let way = |name, ends| xtp(name, ends, 1000, 2000, Pacing::Window(window));
        let setup = on_ring(vec![way("audio", [0, 1]), way("back", [1, 0])]);
        let (_, figures) = finished(&setup, 1);
        for name in ["audio", "back"] {
            let one = figures_of(&figures, name);
            assert_eq!((one.received, one.retransmissions), (Some(2000.0), Some(0.0)), "{window}");
            near(one.gap_mean_ms, 1.0 + 0.7 + 0.5e-3 * 1044.0, 5e-3);
        }
    }
}

/// Where one processor does all, a packet each way and its acknowledgements wait for each other.
#[test]
fn one_processor_takes_the_sum() {
    let way = |name, ends| xtp(name, ends, 1000, 1000, Pacing::Window(8));
    let mut setup = on_ring(vec![way("audio", [0, 1]), way("back", [1, 0])]);
    for node in &mut setup.nodes[..2] {
        node.cost.apart = false;
    }
    let (_, figures) = finished(&setup, 1);
    near(figures_of(&figures, "audio").gap_mean_ms, 2.5 + 0.7 + 0.75e-3 * 1044.0, 2e-2);
}

/// Bursts of 15 frames of 4167 bytes take 5 ms: an access waits for what is left of one, and no longer.
#[test]
fn an_access_waits_for_one_burst_at_most() {
    let interval = Duration::from_micros(32_100);
    let content = Content::Packets { frame: 256, interval, count: Some(1500) };
    let voice = StreamSpec { content, ..xtp("audio", [0, 1], 256, 1, Pacing::Window(1)) };
    let mut setup = on_ring(vec![voice]);
    let idle = 2.5 + 0.75e-3 * 300.0 + 0.08e-3 * 325.0;
    near(figures_of(&finished(&setup, 1).1, "audio").delay_max_ms, idle, 4e-4);
    let kind =
        TrafficKind::Bursts { packets: 15, period: ms(10), jitter: Ratio(0.0), payload: 4167 - 25 - 28 };
    setup.traffic.push(TrafficSpec { treatment: SYNCHRONOUS, ..traffic("load", 2, 3, kind) });
    let (_, figures) = finished(&setup, 1);
    assert_eq!(counter(&figures, 0, "overflowed"), 0.0);
    let loaded = figures_of(&figures, "audio");
    let burst = 15.0 * 0.333_36;
    let wait = loaded.delay_max_ms.unwrap() - idle;
    // Steps of 100 µs against the burst's period, and a few frames of acknowledgements.
    assert!((burst - 0.11..burst + 0.02).contains(&wait), "{wait}");
    // Half of the accesses meet a burst, and wait for half of it in the mean.
    near(loaded.delay_mean_ms, idle + burst / 2.0 * burst / 10.0, 0.05);
}

#[test]
fn what_is_not_heard_is_repaired_and_what_is_not_acknowledged_comes_at_once() {
    let interval = Duration::from_millis(20);
    let run = |delivered, share| {
        let content = Content::Packets { frame: 256, interval, count: Some(2000) };
        let unheard = Unheard { share: Ratio(share), delivered };
        let voice = StreamSpec { content, unheard, ..xtp("audio", [0, 1], 256, 1, Pacing::Window(1)) };
        figures_of(&finished(&on_ring(vec![voice]), 1).1, "audio")
    };
    let idle = run(false, 0.0);
    let (lost, pretended) = (run(false, 0.1), run(true, 0.1));
    for audio in [&lost, &pretended] {
        // Repairs are counted among the packets of which a tenth is missed.
        near(audio.retransmissions, 2000.0 * 0.1 / 0.9, 1.0);
        assert_eq!((audio.received, audio.duplicate, audio.broken), (Some(2000.0), Some(0.0), Some(0.0)));
    }
    assert_eq!(idle.retransmissions, Some(0.0));
    // A loss is told of by the answer to a request, so a repair takes two packets and that more.
    assert!(lost.delay_p99_ms.unwrap() > 2.0 * idle.delay_mean_ms.unwrap(), "{lost:?}");
    // A packet that comes beside a repair waits for it.
    near(pretended.delay_mean_ms, idle.delay_mean_ms.unwrap(), 0.1);
}

/// Without repairs the next packet leaves once the last one has been waited for.
#[test]
fn a_ping_pong_goes_on_after_what_does_not_come_back() {
    let content = Content::SelfPaced { frame: 200, count: 500, pacing: Pacing::PingPong };
    let patience = Some(ms(50));
    let audio = StreamSpec { content, patience, reflected: true, ..stream("audio", "rtp", 0, 1) };
    let (_, figures) = finished(&over_line(60, "delay=5ms,loss=5%", audio.clone()), 1);
    let lossy = figures_of(&figures, "audio");
    let lost = counter(&figures, 0, "up_lost") + counter(&figures, 0, "down_lost");
    assert!(lost > 20.0, "packets were lost: {lost}");
    assert_eq!((lossy.sent, lossy.received), (Some(500.0), Some(500.0 - lost)));
    near(lossy.rtt_max_ms, 10.0, 1e-6);
    let (_, figures) =
        finished(&over_line(60, "delay=5ms,loss=5%", StreamSpec { patience: None, ..audio }), 1);
    assert!(figures_of(&figures, "audio").sent.unwrap() < 100.0, "nothing tells it of a loss");
}

/// The sender answers each of 200 packets that come back.
#[test]
fn ends_that_answer_send_a_packet_without_data_for_each_with() {
    let voice = |answers| StreamSpec { answers, ..xtp("audio", [0, 1], 64, 200, Pacing::PingPong) };
    let of = |answers| figures_of(&finished(&on_ring(vec![voice(answers)]), 1).1, "audio");
    let (plain, answering) = (of(false), of(true));
    assert_eq!((answering.received, answering.retransmissions), (Some(200.0), Some(0.0)));
    near(answering.wire_bytes, plain.wire_bytes.unwrap() + 200.0 * 92.0, 2.0 * 92.0);
    let bare = StreamSpec { answers: true, headers: Headers::AsSent, ..stream("audio", "rtp", 0, 1) };
    let refused = World::new(&on_ring(vec![bare]), 1).err().expect("it is refused").to_string();
    assert!(refused.contains("take xtp"), "{refused}");
}

/// Readings are whole ticks, one or two above a time that takes a part of them.
#[test]
fn a_timer_reads_whole_ticks() {
    let timer = Some(Duration::from_micros(160));
    let voice = StreamSpec { timer, ..xtp("audio", [0, 1], 8, 1000, Pacing::PingPong) };
    let audio = figures_of(&finished(&on_ring(vec![voice]), 1).1, "audio");
    let ticks = audio.rtt_timed_p999_ms.unwrap() / 0.16;
    near(Some(ticks), ticks.round(), 1e-6);
    let highest = (audio.rtt_max_ms.unwrap() / 0.16).ceil() + 1.0;
    assert_eq!(ticks.round(), highest, "{audio:?}");
    let voice =
        StreamSpec { timer, timer_rounds_down: true, ..xtp("audio", [0, 1], 8, 1000, Pacing::PingPong) };
    let passed = figures_of(&finished(&on_ring(vec![voice]), 1).1, "audio").rtt_timed_p999_ms;
    near(passed, (highest - 1.0) * 0.16, 1e-6);
}

#[test]
fn paces_that_nothing_sets_are_refused() {
    let refused = |change: &dyn Fn(&mut StreamSpec)| {
        let mut voice = xtp("audio", [0, 1], 100, 10, Pacing::Window(4));
        change(&mut voice);
        match World::new(&on_ring(vec![voice]), 1) {
            Ok(_) => panic!("a world was made of it"),
            Err(error) => error.to_string(),
        }
    };
    let plain = |voice: &mut StreamSpec| {
        (voice.transport, voice.query, voice.headers) = ("rtp".into(), Default::default(), Headers::AsSent);
    };
    assert!(refused(&plain).contains("reliability=full"));
    let returned = |voice: &mut StreamSpec| {
        voice.content = Content::SelfPaced { frame: 100, count: 10, pacing: Pacing::PingPong };
    };
    assert!(refused(&returned).contains("reflected"));
    assert!(refused(&|voice| voice.content = Content::SelfPaced { frame: 7, count: 1, pacing: Pacing::Window(1) })
        .contains("8 bytes at least"));
    assert!(
        refused(&|voice| {
            plain(voice);
            voice.headers = Headers::Xtp36;
            voice.content = Content::Packets { frame: 100, interval: ms(1), count: None };
        })
        .contains("xtp alone")
    );
    assert!(
        refused(&|voice| {
            plain(voice);
            voice.unheard.share = Ratio(0.1);
            voice.content = Content::Packets { frame: 100, interval: ms(1), count: None };
        })
        .contains("loss on a link")
    );
    assert!(refused(&|voice| voice.timer = Some(ms(1))).contains("reads round trips"));
    let long = |voice: &mut StreamSpec| {
        voice.content = Content::SelfPaced { frame: 4300, count: 10, pacing: Pacing::Window(1) };
    };
    assert!(refused(&long).contains("fit a packet"));
}

/// Half a round trip is the time of a packet to the group; the second member gets each, answers none, and nothing waits for it.
#[test]
fn the_first_member_of_a_group_answers_a_ping_pong() {
    for n in [8, 4096] {
        let voice = xtp("audio", [0, 1], n, 200, Pacing::PingPong);
        let query = "reliability=full&members=2".parse().unwrap();
        let mut setup = on_ring(vec![StreamSpec { query, to: vec![NodeId(1), NodeId(2)], ..voice }]);
        // One processor: announcements don't overtake what they announce.
        let cost = HostCost { receive_control: Some(Duration::ZERO), apart: false, ..cost() };
        for node in &mut setup.nodes[..3] {
            node.cost = cost;
        }
        setup.nodes[2].cost.receive_packet = ms(40);
        let (_, figures) = finished(&setup, 1);
        let audio = figures_of(&figures, "audio");
        assert_eq!((audio.sent, audio.received), (Some(200.0), Some(200.0)));
        near(audio.rtt_p50_ms, 2.0 * latency(n as f64), 2e-4);
        near(audio.rtt_mean_ms, 2.0 * latency(n as f64), 1e-2);
        let second = figures_of(&figures, "audio@c");
        assert_eq!((second.received, second.duplicate), (Some(200.0), Some(0.0)));
        assert!(second.delay_max_ms > Some(1000.0), "its processor falls behind: {second:?}");
        // The sender's packets of n + 44 bytes, once for both, and what is beside them of 92.
        let beside = audio.wire_bytes.unwrap() - 200.0 * (n as f64 + 44.0);
        assert!(beside >= 0.0 && beside % 92.0 == 0.0, "{beside}");
    }
}

#[test]
fn a_group_answers_through_its_members_alone() {
    let refused = |transport: &str, query: &str| {
        let voice = xtp("audio", [0, 1], 100, 10, Pacing::PingPong);
        let (transport, query) = (transport.to_string(), query.parse().unwrap());
        let to = vec![NodeId(1), NodeId(2)];
        let voice = StreamSpec { transport, query, to, headers: Headers::AsSent, ..voice };
        World::new(&on_ring(vec![voice]), 1).err().expect("nobody answers").to_string()
    };
    assert!(refused("rtp", "").contains("can't answer"));
    assert!(refused("xtp", "acks=never").contains("leave out acks=never"));
}

/// Each of 200 packets to the group takes 7 ms from a generator that sends every 10 ms for a minute; packets to one station take nothing, nor
/// do those to a group where nothing is held up.
#[test]
fn packets_to_a_group_hold_a_generator_up() {
    let bursts = |to: &[usize], held_up: u64| {
        let voice = xtp("audio", [0, 1], 64, 200, Pacing::PingPong);
        let query =
            if to.len() > 1 { "reliability=full&members=2".parse().unwrap() } else { voice.query.clone() };
        let to = to.iter().map(|node| NodeId(*node)).collect();
        let mut setup = on_ring(vec![StreamSpec { query, to, ..voice }]);
        let cost = HostCost { receive_control: Some(Duration::ZERO), apart: false, ..cost() };
        setup.nodes[..2].iter_mut().for_each(|node| node.cost = cost);
        let kind = TrafficKind::Bursts { packets: 1, period: ms(10), jitter: Ratio(0.0), payload: 100 };
        let held_up = ms(held_up);
        setup.traffic.push(TrafficSpec { held_up, treatment: SYNCHRONOUS, ..traffic("load", 3, 2, kind) });
        let (world, figures) = finished(&setup, 1);
        assert_eq!(figures_of(&figures, "audio").received, Some(200.0));
        world.traffic("load").unwrap().sent
    };
    assert_eq!(bursts(&[1, 2], 0), 6000);
    assert_eq!(bursts(&[1], 7), 6000);
    let held = bursts(&[1, 2], 7);
    assert!((5859..=5861).contains(&held), "{held}");
}

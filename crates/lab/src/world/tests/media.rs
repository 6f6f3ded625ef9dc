//! Streams through each medium.

use super::*;
use antiphon_media::ChannelGroups;

#[test]
fn delay_through_a_link_is_serialisation_and_propagation() {
    let setup = over_line(10, "rate=2Mbit/s,delay=30ms", stream("audio", "rtp", 0, 1));
    let audio = audio_of(&setup);
    // 1328 bytes at 2 Mbit/s are 5.312 ms; nothing waits, as frames are 7.4 ms apart. Exact to the nanosecond.
    for delay in [audio.delay_mean_ms, audio.delay_p50_ms, audio.delay_max_ms] {
        near(delay, 35.312, 1e-6);
    }
    // Due at 0, 7.4 ... 9997.4 ms: 1352 frames.
    assert_eq!((audio.sent, audio.received, audio.lost_percent), (Some(1352.0), Some(1352.0), Some(0.0)));
    near(audio.gap_mean_ms, 7.4, 1e-6);
    near(audio.jitter_sd_ms, 0.0, 1e-9);
    assert_eq!(audio.wire_bytes, Some(1352.0 * 1328.0));
    assert_eq!((audio.buffer_empty_per_1000, audio.rtt_mean_ms), (Some(0.0), None));
}

#[test]
fn the_report_s_buffer_misses_bytes_where_numbers_fill_gaps() {
    // 31 081 frames with 2 % independent loss: by bytes, about 70 restarts of a buffer that ran empty and 15 of one
    // that did not fill in 31 000 packets; by numbers none (computed for the report's rule, independently of this
    // code).
    let mut setup = over_line(230, "delay=5ms,loss=2%", stream("audio", "rtp", 0, 1));
    let audio = audio_of(&setup);
    // Counts of rare events: three standard deviations.
    near(audio.buffer_empty_per_1000, 70.0 / 31.0, 3.0 * 70f64.sqrt() / 31.0);
    near(audio.buffer_not_full_per_1000, 15.0 / 31.0, 3.0 * 15f64.sqrt() / 31.0);
    assert_eq!(audio.buffer_empty_numbered_per_1000, Some(0.0));
    assert_eq!(audio.buffer_not_full_numbered_per_1000, Some(0.0));
    // The buffer by numbers does notice a stalled line.
    setup.media[0] = link("line", 0, 1, "delay=5ms,rate=10Mbit/s,stall=150ms/10s");
    let audio = audio_of(&setup);
    assert!(audio.buffer_empty_numbered_per_1000.unwrap() > 0.1, "{audio:?}");
}

#[test]
fn end_to_end_losses_equal_the_links_drops() {
    let audio = stream("audio", "rtp", 0, 1);
    let setup = over_line(60, "rate=1.3Mbit/s,queue=5packets,delay=5ms,loss=3%", audio);
    let (_, figures) = finished(&setup, 7);
    let audio = figures_of(&figures, "audio");
    let (lost, dropped) = (counter(&figures, 0, "up_lost"), counter(&figures, 0, "up_overflowed"));
    assert!(lost > 100.0 && dropped > 50.0, "there was weather: {lost} lost, {dropped} dropped");
    assert_eq!(audio.sent.unwrap() - audio.received.unwrap(), lost + dropped);
    assert_eq!((audio.queue_dropped, audio.mac_exhausted), (Some(dropped), Some(0.0)));
}

#[test]
fn the_report_s_cell_loses_nothing_at_10_and_much_at_16() {
    let audio = |rate, seed| {
        let (_, figures) = finished(&cell("rtp", rate, 60), seed);
        assert!(counter(&figures, 0, "collisions") > 100.0);
        figures_of(&figures, "audio")
    };
    assert!(audio(10, 1).lost_percent.unwrap() < 0.5);
    let loaded = audio(16, 1);
    assert!(loaded.lost_percent.unwrap() > 10.0, "{loaded:?}");
    // The access point's queue: every frame lost in it is reported, and with 7 retries hardly any is lost otherwise.
    let missing = loaded.sent.unwrap() - loaded.received.unwrap();
    assert_eq!(loaded.queue_dropped.unwrap() + loaded.mac_exhausted.unwrap(), missing);
    assert_eq!(audio(16, 1), loaded, "same seed, same figures");
    assert_ne!(audio(16, 2), loaded, "another seed, another run");
}

#[test]
fn tcp_loses_nothing_though_the_link_does() {
    let setup = over_line(30, "rate=10Mbit/s,delay=20ms,loss=0.5%", stream("audio", "tcp", 0, 1));
    let (_, figures) = finished(&setup, 3);
    let audio = figures_of(&figures, "audio");
    assert!(counter(&figures, 0, "up_lost") > 8.0, "there was weather");
    assert_eq!((audio.lost_percent, audio.broken, audio.reordered), (Some(0.0), Some(0.0), Some(0.0)));
    assert!(audio.retransmissions.unwrap() >= counter(&figures, 0, "up_lost") - 2.0);
    // A repaired frame waits for a round trip of 40 ms at least, and those after it wait with it.
    assert!(audio.delay_max_ms.unwrap() > 60.0 && audio.delay_p50_ms.unwrap() < 22.0, "{audio:?}");
    near(audio.gap_mean_ms, 7.4, 5e-2);
}

#[test]
fn what_returns_is_measured_by_its_round_trip() {
    for transport in ["rtp", "tcp"] {
        let audio = StreamSpec { reflected: true, ..stream("audio", transport, 0, 1) };
        let setup = over_line(10, "rate=10Mbit/s,delay=15ms", audio);
        let audio = audio_of(&setup);
        // UDP: 1328 bytes each way; TCP adds 2 of framing and 24 of headers, and the handshake comes before the first.
        let frame_ms = if transport == "rtp" { 1328.0 * 8e-4 } else { (1302.0 + 52.0) * 8e-4 };
        near(audio.rtt_mean_ms, 2.0 * (15.0 + frame_ms), if transport == "rtp" { 1e-6 } else { 0.1 });
        assert_eq!((audio.sent, audio.delay_mean_ms), (audio.received, None));
        assert!(audio.sent.unwrap() > 1340.0);
    }
}

/// The published loop of simple retransmission sends a packet each 7.4 ms and up to its wait of 1 ms later. Frames
/// generated by a clock of 7.4 ms would wait longer and longer: after 200 of them, 100 ms.
#[test]
fn a_transport_that_keeps_the_pace_is_handed_frames_as_it_sends_them() {
    let content = Content::Packets { frame: 1300, interval: Duration::from_micros(7_400), count: Some(200) };
    let query: antiphon_core::uri::Query = "mode=as-published&tick=1ms&pace=7.4ms".parse().unwrap();
    let audio = StreamSpec { query, content, ..stream("audio", "arq", 0, 1) };
    let setup = over_line(10, "delay=5.2ms,loss=5%", audio);
    let (world, figures) = finished(&setup, 1);
    let audio = figures_of(&figures, "audio");
    assert!(counter(&figures, 0, "up_lost") > 3.0, "there was weather");
    assert_eq!((audio.sent, audio.expired, audio.lost_percent), (Some(200.0), Some(0.0), Some(0.0)));
    // Repetitions are 20 ms and up to one turn later, or twice that; nothing else adds to the delay.
    assert_eq!(audio.delay_p50_ms, Some(5.2));
    assert!(audio.delay_max_ms.unwrap() < 5.2 + 42.0, "{audio:?}");
    let course = world.course("audio").unwrap();
    let steps = course.sent.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(
        steps
            .clone()
            .all(|step| step >= Duration::from_micros(7_400) && step <= Duration::from_micros(8_400))
    );
    assert!(steps.clone().max() > steps.min(), "acknowledgements change when turns begin");
    assert_eq!((course.came.len(), world.course("video")), (200, None));
}

#[test]
fn a_dead_link_breaks_tcp() {
    let tcp = Profile { retries: 3, ..Profile::linux() };
    let mut setup = over_line(60, "delay=5ms", StreamSpec { tcp, ..stream("audio", "tcp", 0, 1) });
    let alive = audio_of(&setup);
    assert_eq!((alive.broken, alive.lost_percent), (Some(0.0), Some(0.0)));
    // The line stalls soon, for 100 s on average. TCP retries after 0.2, 0.6 and 1.4 s.
    setup.media[0] = link("line", 0, 1, "delay=5ms,rate=10Mbit/s,stall=100s/120s");
    let dead = audio_of(&setup);
    assert_eq!(dead.broken, Some(1.0), "{dead:?}");
    let (sent, received) = (dead.sent.unwrap(), dead.received.unwrap());
    assert!(received > 100.0 && received < sent && sent < 8000.0, "{dead:?}");
}

#[test]
fn host_costs_are_those_of_one_processor_and_shift_delays() {
    let mut setup = setup(3, 10);
    setup.media.push(link("one", 0, 1, "delay=1ms"));
    setup.media.push(link("two", 1, 2, "delay=1ms"));
    setup.streams.push(stream("audio", "rtp", 0, 2));
    near(audio_of(&setup).delay_mean_ms, 2.0, 1e-6);
    let cost = HostCost {
        send_packet: Duration::from_micros(100),
        send_byte_s: 10e-9,
        receive_packet: Duration::from_micros(200),
        receive_byte_s: 20e-9,
        ..HostCost::default()
    };
    // 1328 bytes: 100 + 13.28 µs to send, 200 + 26.56 µs to receive; both to forward.
    let (send, receive) = (0.113_28, 0.226_56);
    setup.nodes[0].cost = cost;
    near(audio_of(&setup).delay_mean_ms, 2.0 + send, 1e-6);
    setup.nodes[1].cost = cost;
    near(audio_of(&setup).delay_mean_ms, 2.0 + 2.0 * send + receive, 1e-6);
    setup.nodes[2].cost = cost;
    near(audio_of(&setup).delay_mean_ms, 2.0 + 2.0 * (send + receive), 1e-6);
    // Two packets at the same instant: the second waits for the first at each processor, the slowest of which is the
    // forwarding one. Second: send, then (after the first) twice send and receive there, then its own receive.
    setup.streams.push(stream("other", "rtp", 0, 2));
    let (_, figures) = finished(&setup, 1);
    let both = ["audio", "other"].map(|name| figures_of(&figures, name).delay_mean_ms.unwrap());
    near(Some(both[0]), 2.0 + 2.0 * (send + receive), 1e-6);
    near(Some(both[1]), 2.0 + send + 2.0 * (send + receive) + receive, 1e-6);
}

#[test]
fn a_processor_that_is_too_slow_is_a_queue_that_overflows() {
    let mut setup = setup(2, 20);
    setup.media.push(link("one", 0, 1, "delay=1ms"));
    setup.streams.push(stream("audio", "rtp", 0, 1));
    // 14.8 ms for each frame of 7.4 ms: half of them, and at the end those waiting: 1000, of which 135 are delivered in
    // the drain.
    setup.nodes[1].cost.receive_packet = Duration::from_micros(14_800);
    let audio = audio_of(&setup);
    let (sent, received) = (audio.sent.unwrap(), audio.received.unwrap());
    near(Some(received), (22.0 - 0.001) / 0.0148, 1.5);
    assert!(sent - received - audio.queue_dropped.unwrap() < 1001.0);
    assert!(audio.queue_dropped.unwrap() > 200.0, "{audio:?}");
}

#[test]
fn multicast_in_a_cell_is_sent_once_and_lost_by_each_alone() {
    let mut setup = cell("rtp", 0, 300);
    let MediumKind::Cell { spec, .. } = &mut setup.media[0].kind else { unreachable!("it is a cell") };
    // At 1 Mbit/s, the basic rate of such a cell, a frame takes longer than 7.4 ms.
    spec.phy.multicast_rate = antiphon_link::wlan::Rate::Dsss5;
    for station in &mut spec.stations[1..] {
        station.frame_error = Ratio(0.05);
    }
    setup.streams[0].to = [1, 2, 3].map(NodeId).to_vec();
    let (_, figures) = finished(&setup, 1);
    let names: Vec<&str> = figures.streams.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["audio", "audio@c", "audio@d"]);
    let sent = figures.streams[0].1.sent.unwrap();
    assert_eq!(counter(&figures, 0, "multicast"), sent);
    let mut missing = 0.0;
    for (_, audio) in &figures.streams {
        // Four standard deviations: √(0.05 · 0.95 / 40 541) = 0.108 %.
        near(audio.lost_percent, 5.0, 0.44);
        missing += audio.sent.unwrap() - audio.received.unwrap();
    }
    assert_eq!(missing, counter(&figures, 0, "missed"));
    assert_ne!(figures.streams[0].1.received, figures.streams[1].1.received, "each on its own");
    // To one receiver the same frames are acknowledged and retransmitted.
    setup.streams[0].to.truncate(1);
    let (_, figures) = finished(&setup, 1);
    assert_eq!(figures.streams[0].1.lost_percent, Some(0.0));
}

#[test]
fn reliable_multicast_in_a_cell_repairs_what_each_lost_alone() {
    let mut setup = cell("xtp", 0, 60);
    let MediumKind::Cell { spec, .. } = &mut setup.media[0].kind else { unreachable!("it is a cell") };
    spec.phy.multicast_rate = antiphon_link::wlan::Rate::Dsss11;
    for station in &mut spec.stations[1..] {
        station.frame_error = Ratio(0.05);
    }
    setup.streams[0].to = [1, 2, 3].map(NodeId).to_vec();
    setup.streams[0].query = "members=3".parse().expect("a query");
    setup.streams[0].latency = ms(200);
    let (_, figures) = finished(&setup, 1);
    let audio = || figures.streams.iter().map(|(_, audio)| audio);
    assert!(counter(&figures, 0, "missed") > 600.0, "packets were lost");
    for audio in audio() {
        assert!(audio.lost_percent.is_some_and(|lost| lost < 0.1), "{audio:?}");
    }
    let (sent, repaired) =
        (audio().next().and_then(|one| one.sent), audio().next().and_then(|one| one.retransmissions));
    // Each of three loses 5 %, of two packets a message: one by one 29 % would be sent again.
    assert!(
        repaired.zip(sent).is_some_and(|(repaired, sent)| repaired > 0.03 * sent && repaired < 0.2 * sent),
        "{repaired:?} {sent:?}"
    );
}

#[test]
fn multicast_goes_along_the_tree() {
    // a - b, from where a switch leads to c, d and e; f is behind c. Members are c, which forwards, e and f.
    let mut setup = setup(6, 10);
    setup.media.push(link("line", 0, 1, "delay=1ms"));
    setup.media.push(switch(1..5, 10));
    setup.media.push(link("behind", 2, 5, "delay=3ms"));
    setup.streams.push(StreamSpec { to: [2, 4, 5].map(NodeId).to_vec(), ..stream("audio", "rtp", 0, 2) });
    let (_, figures) = finished(&setup, 1);
    assert_eq!(counter(&figures, 0, "up_offered"), 1352.0);
    assert_eq!(counter(&figures, 1, "in_offered"), 1352.0);
    assert_eq!(counter(&figures, 1, "out_offered"), 2704.0);
    assert_eq!(counter(&figures, 2, "up_offered"), 1352.0);
    for (name, audio) in &figures.streams {
        assert_eq!((audio.lost_percent, audio.duplicate), (Some(0.0), Some(0.0)));
        assert_eq!(audio.wire_bytes, Some(1352.0 * 1328.0), "on the first medium only");
        // 1 ms, twice a frame of 1354 bytes at 10 Mbit/s, 10 µs; 3 ms more to f.
        let behind = if name == "audio@f" { 3.0 } else { 0.0 };
        near(audio.delay_max_ms, 1.0 + 2.0 * 1.0832 + 0.01 + behind, 1e-6);
    }
}

#[test]
fn a_ring_carries_both_classes_and_a_cable_frames() {
    let mut setup = setup(4, 10);
    let nodes = [0, 1, 2].map(NodeId).to_vec();
    let stations = vec![antiphon_link::StationSpec::default(); 3];
    let spec = antiphon_link::RingSpec { ttrt: ms(8), stations };
    setup.media.push(MediumSpec::new("ring", MediumKind::Ring { nodes, spec }));
    let (rate, queue) = (BitRate(100_000_000), antiphon_link::QueueLimit::Packets(10));
    let kind = MediumKind::Cable { between: [NodeId(2), NodeId(3)], rate, queue };
    setup.media.push(MediumSpec::new("cable", kind));
    setup.streams.push(stream("audio", "rtp", 0, 3));
    let (_, figures) = finished(&setup, 1);
    let audio = figures_of(&figures, "audio");
    assert_eq!(audio.lost_percent, Some(0.0));
    // On an idle ring: the token within 3 µs, 1353 bytes at 100 Mbit/s, two hops of 1 µs; then 1354 bytes on the cable.
    let frames = 0.108_24 + 0.108_32;
    near(audio.delay_mean_ms, frames + 0.002 + 0.0015, 0.0017);
    assert!(counter(&figures, 0, "rotations") > 1000.0);
}

#[test]
fn sound_is_played_and_what_is_lost_concealed() {
    for (transport, spec) in [("rtp", "delay=10ms,loss=5%"), ("tcp", "rate=10Mbit/s,delay=10ms")] {
        let content = Content::default();
        let setup = over_line(20, spec, StreamSpec { content, ..stream("audio", transport, 0, 1) });
        let audio = audio_of(&setup);
        // Blocks of 5.33 ms: 3750 in 20 s.
        near(audio.sent, 3750.0, 6.0);
        if transport == "rtp" {
            near(audio.lost_percent, 5.0, 4.0 * 0.36);
            near(audio.concealed_percent, audio.lost_percent.unwrap(), 0.2);
            near(audio.delay_mean_ms, 10.0, 1e-6);
        } else {
            assert_eq!((audio.lost_percent, audio.concealed_percent), (Some(0.0), Some(0.0)));
        }
        assert_eq!((audio.broken, audio.duplicate), (Some(0.0), Some(0.0)));
    }
}

/// Copies prevent a loss unless both are lost: 5 % of 5 % at independent losses.
#[test]
fn sound_sent_twice_is_lost_where_both_copies_are() {
    let protect = "repeat:2,spacing=10ms".parse().unwrap();
    let content = Content::Sound(SoundSpec { protect, ..SoundSpec::default() });
    let audio = StreamSpec { content, ..stream("audio", "rtp", 0, 1) };
    let mut setup = over_line(60, "delay=10ms,up.loss=5%", audio);
    let twice = audio_of(&setup);
    // Four standard deviations of 11 250 packets: √(0.0025 · 0.9975 / 11 250) = 0.047 %.
    near(twice.lost_percent, 0.25, 4.0 * 0.047);
    near(twice.concealed_percent, twice.lost_percent.unwrap(), 0.02);
    // Of both copies 0.95² arrive; one that comes 10 ms after its lost first is within a playout delay of 70 ms.
    near(twice.duplicate.map(|copies| 100.0 * copies / twice.sent.unwrap()), 90.25, 4.0 * 0.28);
    assert_eq!((twice.late_percent, twice.missing_percent), (Some(0.0), twice.lost_percent));
    assert_eq!(twice.delay_p50_ms, Some(10.0));
    near(twice.delay_max_ms, 20.0, 1e-6);
    // Without repetition, on the same line: twenty times as much is lost, and half as much crosses.
    let StreamSpec { content, .. } = &mut setup.streams[0];
    *content = Content::default();
    let once = audio_of(&setup);
    near(once.lost_percent, 5.0, 4.0 * 0.21);
    near(twice.wire_bytes.map(|bytes| bytes / once.wire_bytes.unwrap()), 2.0, 0.01);
}

#[test]
fn sound_to_a_group_is_sent_once_and_played_by_each() {
    let mut setup = setup(4, 20);
    setup.media.push(switch(0..4, 100));
    let (to, content) = ([1, 2, 3].map(NodeId).to_vec(), Content::default());
    setup.streams.push(StreamSpec { to, content, ..stream("audio", "rtp", 0, 1) });
    let (_, figures) = finished(&setup, 1);
    let names: Vec<&str> = figures.streams.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["audio", "audio@c", "audio@d"]);
    for (_, audio) in &figures.streams {
        near(audio.sent, 3750.0, 6.0);
        assert_eq!((audio.lost_percent, audio.concealed_percent), (Some(0.0), Some(0.0)));
        assert_eq!((audio.duplicate, audio.broken), (Some(0.0), Some(0.0)));
    }
}

#[test]
fn groups_of_channels_are_counted_in_one_row() {
    // A packet holds 118 sample frames of six channels, so the blocks of both groups do, too: in order, each in its
    // place.
    for (transport, query, spec) in [("rtp", "", "delay=10ms,loss=5%"), ("sctp", "streams=3", "delay=10ms")] {
        let groups = ChannelGroups::parse(8, "2,6").unwrap();
        let content = Content::Sound(SoundSpec { groups, block: 128, ..SoundSpec::default() });
        let query = query.parse().unwrap();
        let audio = StreamSpec { content, query, ..stream("audio", transport, 0, 1) };
        let setup = over_line(20, spec, audio);
        let audio = audio_of(&setup);
        near(audio.sent, 2.0 * 960_000.0 / 118.0, 6.0);
        assert_eq!((audio.reordered, audio.duplicate), (Some(0.0), Some(0.0)), "{transport}");
        // SCTP's window holds the first back a little.
        near(audio.delay_mean_ms, 10.0, if transport == "rtp" { 1e-6 } else { 0.5 });
        if transport == "rtp" {
            // A number assigned to the wrong packet would show as a loss, or a delay.
            near(audio.lost_percent, 5.0, 4.0 * 0.171);
            near(audio.concealed_percent, audio.lost_percent.unwrap(), 0.6);
        } else {
            assert_eq!((audio.lost_percent, audio.concealed_percent), (Some(0.0), Some(0.0)));
        }
    }
}

#[test]
fn frames_that_could_not_be_begun_expire() {
    // The line carries half of what is offered; frames expire after waiting 50 ms for their transmission.
    let audio = StreamSpec { patience: Some(ms(50)), ..stream("audio", "tcp", 0, 1) };
    let mut setup = over_line(20, "rate=700kbit/s,delay=5ms,queue=20packets", audio);
    let audio = audio_of(&setup);
    let missing = audio.sent.unwrap() - audio.received.unwrap();
    assert!(missing > 1000.0);
    assert_eq!(audio.expired, Some(missing), "what TCP began arrived");
    // Without patience nothing expires, but the generator is blocked.
    setup.streams[0].patience = None;
    let held = audio_of(&setup);
    assert_eq!((held.expired, held.broken), (Some(0.0), Some(0.0)));
}

#[test]
fn a_switch_of_a_thousand_ports_costs_no_more_than_its_packets() {
    let mut setup = setup(1, 2);
    setup.nodes = (0..1000).map(|n| NodeSpec::new(format!("node {n}"))).collect();
    setup.media.push(switch(0..1000, 100));
    for n in 0..100 {
        setup.streams.push(stream(&format!("stream {n}"), "rtp", n, 999 - n));
    }
    let (_, figures) = finished(&setup, 1);
    // Each frame: due, through the sender's port, inside, out of the other port; and the end of each stream.
    assert_eq!(counter(&figures, 0, "out_delivered"), 27_100.0);
    assert!(figures.events <= 4 * 27_100 + 1000, "{}", figures.events);
    assert!(figures.streams.iter().all(|(_, audio)| audio.lost_percent == Some(0.0)));
}

//! Streams of paper `transport-alternatives` against closed forms.

use antiphon_media::medusa::BlockMode;

use super::*;

/// The paper's program from `a` to `b` and back, over one medium.
fn program(transport: &str, channels: u16, blocks: u64, medium: MediumSpec) -> Setup {
    let mut setup = setup(2, 20);
    setup.media.push(medium);
    let content = Content::Medusa { channels, blocks, mode: BlockMode::Paper };
    let (reflected, patience) = (true, Some(ms(40)));
    setup.streams.push(StreamSpec { content, reflected, patience, ..stream("audio", transport, 0, 1) });
    setup
}

fn cable() -> MediumSpec {
    let (between, queue) = ([NodeId(0), NodeId(1)], antiphon_link::QueueLimit::Packets(100));
    MediumSpec::new("cable", MediumKind::Cable { between, rate: BitRate(100_000_000), queue })
}

#[test]
fn round_trips_on_a_cable_are_the_times_of_the_blocks() {
    let audio = |channels, blocks| {
        let setup = program("rtp", channels, blocks, cable());
        audio_of(&setup)
    };
    // 960 bytes, 28 of UDP and IP, 26 of Ethernet and its preamble: 81.12 µs each way.
    let one = audio(1, 1000);
    near(one.rtt_mean_ms, 0.162_24, 1e-6);
    near(one.jitter_mad_ms, 0.0, 1e-9);
    assert_eq!((one.sent, one.received), (Some(1000.0), Some(1000.0)));
    near(one.wire_bytes, 988_000.0, 0.0);
    // Blocks of 1024 and 896: 86.24 and 76 µs, and a gap of 0.96 between them. The second waits for the first on the
    // way back, too.
    let two = audio(2, 1000);
    near(two.rtt_mean_ms, (0.172_48 + 0.172_48 + 0.000_96 + 0.076) / 2.0, 1e-6);
    assert_eq!((two.sent, two.received), (Some(2000.0), Some(2000.0)));
    // 20 s hold 1875 blocks.
    assert_eq!(audio(1, 10_000).sent, Some(1875.0));
    // The outcome of each packet is available for charts, as for any reflected stream.
    let (world, _) = finished(&program("rtp", 1, 10, cable()), 1);
    assert_eq!(world.course("audio").map(|course| course.came.len()), Some(10));
}

/// A link that carries two thirds of it: a third is given up, and what arrives is no older than the buffers.
#[test]
fn a_tcp_that_can_not_keep_up_gives_up_blocks_and_stays_in_time() {
    let line = link("line", 0, 1, "rate=500kbit/s,delay=1ms,queue=200packets");
    let mut setup = program("tcp", 1, 10_000, line);
    setup.streams[0].tcp = Profile { send_buffer: 16 * 1024, ..Profile::linux() };
    let audio = audio_of(&setup);
    // Blocks of 960 bytes, RFC 4571's 2, TCP's 32 and IP's 20: 760.5 kbit/s are offered.
    let too_much = 100.0 * (1.0 - 500.0 / 760.5);
    // Blocks of 1024 out of a ring that is never empty contain parts of two packets or three, so a little more is
    // missing.
    let missing = audio.missing_percent.unwrap();
    assert!((too_much - 1.0..too_much + 8.0).contains(&missing), "{missing}");
    assert_eq!(audio.lost_percent, Some(0.0));
    assert_eq!(
        audio.expired.unwrap() + audio.refused.unwrap(),
        audio.sent.unwrap() - audio.received.unwrap()
    );
    // 64 KiB of ring and 16 of buffer at 500 kbit/s are 1.4 s, and the buffer on the way back makes it 1.7: twice that
    // would indicate an unbounded queue.
    assert!(audio.rtt_p99_ms.unwrap() < 2000.0, "{audio:?}");
}

#[test]
fn every_transport_returns_all_of_a_clean_link() {
    for transport in ["rtp", "tcp", "dccp", "sctp"] {
        let audio =
            figures_of(&finished(&program(transport, 2, 500, link("line", 0, 1, "delay=1ms")), 1).1, "audio");
        assert_eq!((audio.sent, audio.received), (Some(1000.0), Some(1000.0)), "{transport}");
        assert!(audio.rtt_mean_ms.unwrap() < 2.5, "{transport}: {audio:?}");
    }
    let mut many = program("sctp", 1, 500, link("line", 0, 1, "delay=1ms"));
    many.streams[0].query.set("style", "many");
    assert_eq!(figures_of(&finished(&many, 1).1, "audio").received, Some(500.0));
}

/// Where packets are divided between two blocks, a lost block costs one or two of them: 1.5 on average.
#[test]
fn a_lost_block_costs_the_packets_in_it() {
    let lossy = |channels| {
        let setup = program("rtp", channels, 1800, link("line", 0, 1, "delay=1ms,up.loss=5%"));
        figures_of(&finished(&setup, 3).1, "audio").lost_percent
    };
    // 90 of 1800 packets, 3.5 standard deviations; then 1 - 0.95² for those in two blocks, 5 % for the others.
    near(lossy(1), 5.0, 1.8);
    near(lossy(2), (5.0 + 9.75) / 2.0, 1.8);
}

#[test]
fn the_program_is_reflected_and_has_few_channels() {
    let mut setup = program("rtp", 2, 10, cable());
    setup.streams[0].reflected = false;
    assert!(World::new(&setup, 1).is_err_and(|error| error.to_string().contains("to a reflector")));
    let setup = program("rtp", 17, 10, cable());
    assert!(World::new(&setup, 1).is_err_and(|error| error.to_string().contains("1 to 16 channels")));
}

/// Waking adds an exponential time on the way out and on the way in, keeps the order, and does not occupy the
/// processor.
#[test]
fn waking_delays_and_keeps_the_order() {
    let mut setup = over_line(200, "delay=1ms", stream("audio", "rtp", 0, 1));
    for node in &mut setup.nodes {
        node.cost.wake = Duration::from_micros(200);
    }
    let audio = audio_of(&setup);
    // 27 000 packets: the mean of two exponentials is known to 0.5 %, their deviation is √2 of one.
    near(audio.delay_mean_ms, 1.4, 0.006);
    near(audio.jitter_sd_ms, 0.2 * 2f64.sqrt(), 0.008);
    assert_eq!((audio.reordered, audio.lost_percent), (Some(0.0), Some(0.0)));
}

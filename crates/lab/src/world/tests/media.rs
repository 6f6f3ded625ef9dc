//! Streams through each medium.

use super::*;

#[test]
fn delay_through_a_link_is_serialisation_and_propagation() {
    let mut setup = setup(2, 10);
    setup.media.push(link("line", 0, 1, "rate=2Mbit/s,delay=30ms"));
    setup.streams.push(stream("audio", "rtp", 0, 1));
    let (_, figures) = finished(&setup, 1);
    let audio = figures_of(&figures, "audio");
    // 1328 bytes at 2 Mbit/s are 5.312 ms; nothing waits, as frames are 7.4 ms apart. Exact to the nanosecond.
    for delay in [audio.delay_mean_ms, audio.delay_p50_ms, audio.delay_max_ms] {
        near(delay, 35.312, 1e-6);
    }
    // Due at 0, 7.4 ... 9997.4 ms: 1352 frames.
    assert_eq!((audio.sent, audio.received, audio.lost_percent), (Some(1352.0), Some(1352.0), Some(0.0)));
    near(audio.gap_mean_s, 0.0074, 1e-9);
    near(audio.jitter_sd_ms, 0.0, 1e-9);
    assert_eq!(audio.wire_bytes, Some(1352.0 * 1328.0));
    assert_eq!((audio.buffer_empty_per_1000, audio.rtt_mean_ms), (Some(0.0), None));
}

#[test]
fn what_is_lost_end_to_end_is_what_the_link_took() {
    let mut setup = setup(2, 60);
    setup.media.push(link("line", 0, 1, "rate=1.3Mbit/s,queue=5packets,delay=5ms,loss=3%"));
    setup.streams.push(stream("audio", "rtp", 0, 1));
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
    // The access point's queue: every frame lost in it is told, and with 7 retries hardly any otherwise.
    let missing = loaded.sent.unwrap() - loaded.received.unwrap();
    assert_eq!(loaded.queue_dropped.unwrap() + loaded.mac_exhausted.unwrap(), missing);
    assert_eq!(audio(16, 1), loaded, "same seed, same figures");
    assert_ne!(audio(16, 2), loaded, "another seed, another run");
}

#[test]
fn tcp_loses_nothing_though_the_link_does() {
    let mut setup = setup(2, 30);
    setup.media.push(link("line", 0, 1, "rate=10Mbit/s,delay=20ms,loss=0.5%"));
    setup.streams.push(stream("audio", "tcp", 0, 1));
    let (_, figures) = finished(&setup, 3);
    let audio = figures_of(&figures, "audio");
    assert!(counter(&figures, 0, "up_lost") > 8.0, "there was weather");
    assert_eq!((audio.lost_percent, audio.broken, audio.reordered), (Some(0.0), Some(0.0), Some(0.0)));
    assert!(audio.retransmissions.unwrap() >= counter(&figures, 0, "up_lost") - 2.0);
    // A repaired frame waits for a round trip of 40 ms at least, and those behind it come with it.
    assert!(audio.delay_max_ms.unwrap() > 60.0 && audio.delay_p50_ms.unwrap() < 22.0, "{audio:?}");
    near(audio.gap_mean_s, 0.0074, 5e-5);
}

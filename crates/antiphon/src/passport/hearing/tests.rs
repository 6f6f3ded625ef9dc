use std::time::Duration;

use antiphon_core::Instant;

use super::*;
use crate::passport::live::written;

fn arrived(sequence: u16, ntp_ms: Option<u64>, at_ms: u64) -> PacketEvent {
    let epoch = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
    PacketEvent::Arrived {
        sequence,
        timestamp: u32::from(sequence).wrapping_mul(240),
        ntp: ntp_ms.map(|ms| epoch.plus(Duration::from_millis(ms))),
        at: Instant::from_millis(at_ms),
        len: 100,
    }
}

/// Number, time of sending and of arrival in milliseconds, rounded, and copies.
fn rows(packets: &[PacketRow]) -> Vec<(u64, Option<i64>, Option<i64>, u32)> {
    let ms = |nanos: i64| (nanos + 500_000).div_euclid(1_000_000);
    let first = packets[0].number;
    packets
        .iter()
        .map(|row| (row.number - first, row.sent.map(ms), row.arrived.map(ms), row.duplicates))
        .collect()
}

#[test]
fn arrivals_losses_copies_and_overtaking_by_the_senders_clock() {
    let passing = [
        PacketEvent::Began { rate: 48_000 },
        arrived(65_534, Some(0), 1_000),
        arrived(65_535, Some(5), 1_004),
        arrived(2, Some(20), 1_030),
        arrived(0, Some(10), 1_031),
        arrived(2, Some(20), 1_032),
        // One without the sender's clock.
        arrived(3, None, 1_033),
    ];
    let passport = written(Hearing::new("rtp", false, Hole::Lost, 28), &passing);
    let recorded = &passport.sections[0];
    let expected = [
        (0, Some(1_000), Some(1_000), 0),
        (1, Some(1_005), Some(1_004), 0),
        (2, Some(1_010), Some(1_031), 0),
        (3, None, None, 0),
        (4, Some(1_020), Some(1_030), 1),
        (5, None, Some(1_033), 0),
    ];
    assert_eq!(rows(&recorded.packets), expected);
    let section = &recorded.section;
    assert_eq!((section.delays, section.packet_bytes, section.header_bytes), (Delays::Relative, 128, 28));
    // Four steps in 20 ms; NTP's fraction is a quarter of a nanosecond, rounded down.
    assert!(section.interval_ns.unwrap().abs_diff(5_000_000) <= 1, "{section:?}");
    assert!(section.clock.contains("NTP"));
    // The second is the fastest: it came a millisecond earlier than the first packet's delay would give.
    let paths = passport.paths(None).unwrap();
    assert!(paths.up[1].1 == Some(Duration::ZERO) && paths.up[3].1.is_none());
}

#[test]
fn another_programs_stream_is_timed_by_its_rtp_time_stamps() {
    let began = PacketEvent::Began { rate: 48_000 };
    let passing = [began, arrived(7, None, 50), arrived(8, None, 57), began, arrived(900, None, 90)];
    let passport = written(Hearing::new("rtp", false, Hole::Lost, 28), &passing);
    // 240 sample frames at 48 kHz are 5 ms.
    assert_eq!(rows(&passport.sections[0].packets), [(0, Some(50), Some(50), 0), (1, Some(55), Some(57), 0)]);
    assert!(passport.sections[0].section.clock.contains("RTP time stamps"));
    assert_eq!(passport.sections[0].section.interval_ns, Some(5_000_000));
    assert_eq!(passport.sections.len(), 2, "a sender that starts anew begins another section");
    assert_eq!(passport.sections[1].section.interval_ns, None);
}

#[test]
fn the_section_goes_out_ahead_of_the_first_row_however_long_the_stream() {
    let stream = (0..3 * Window::LEN as u16).map(|n| arrived(n, Some(5 * u64::from(n)), 5 * u64::from(n)));
    // One jump over more numbers than are held.
    let far = arrived(9_000, Some(45_000), 45_000);
    let passing: Vec<PacketEvent> =
        std::iter::once(PacketEvent::Began { rate: 48_000 }).chain(stream).chain([far]).collect();
    let lossy = written(Hearing::new("rtp", false, Hole::Lost, 28), &passing);
    assert_eq!((lossy.sections.len(), lossy.sections[0].packets.len()), (1, 9_001));
    let tcp = written(Hearing::new("tcp", true, Hole::NotSent, 54), &passing);
    assert_eq!(tcp.sections[0].packets.len(), 3 * Window::LEN + 1);
    // Packets before any stream belong to none.
    let none = written(Hearing::new("rtp", false, Hole::Lost, 28), &[arrived(1, None, 1)]);
    assert_eq!(none.sections.len(), 0);
}

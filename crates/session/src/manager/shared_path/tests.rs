use antiphon_media::rtcp::ArrivalReportWriter;

use super::*;

const ON: AssociationId = AssociationId(0);

fn at(millis: u64) -> Instant {
    Instant::from_millis(1_000 + millis)
}

fn packet(ssrc: u32, number: u16) -> Vec<u8> {
    let mut packet = vec![0; 1_000];
    packet[2..4].copy_from_slice(&number.to_be_bytes());
    packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
    packet
}

/// Tells that these packets of a stream have arrived, just now.
fn tell(path: &mut SharedPath, now: Instant, ssrc: u32, first: u16, arrived: &[bool]) {
    tell_written(path, now, 0, (ssrc, first), arrived);
}

/// The same by a receiver whose clock reads `written`.
fn tell_written(
    path: &mut SharedPath,
    now: Instant,
    written: u32,
    (ssrc, first): (u32, u16),
    arrived: &[bool],
) {
    let mut buf = [0; 1_000];
    let mut writer = ArrivalReportWriter::new(9, &mut buf).unwrap();
    writer.stream(
        ssrc,
        first,
        arrived.iter().map(|arrived| match arrived {
            true => PacketArrival::Arrived(Some(Duration::ZERO)),
            false => PacketArrival::Missing,
        }),
    );
    let len = writer.finish(written);
    path.on_report(now, ON, &ArrivalReport::parse(&buf[..len]).unwrap());
}

#[test]
fn what_is_on_its_way_is_what_nothing_was_told_of() {
    let mut path = SharedPath::new(2);
    let pictures = TrackId(1);
    for number in 0..6u16 {
        path.on_sent(at(0), ON, pictures, &packet(5, number.wrapping_add(65_533)));
    }
    assert_eq!(path.in_flight, 6_000);
    // Told again, and of packets that were never sent: nothing changes.
    for _ in 0..3 {
        tell(&mut path, at(20), 5, 65_530, &[true, true, true, true, false, true, true]);
    }
    assert_eq!((path.in_flight, path.figures.lost), (3_000, 0));
    tell(&mut path, at(40), 6, 65_533, &[true; 6]);
    assert_eq!(path.in_flight, 3_000, "another stream");
    // Three have overtaken the second one.
    tell(&mut path, at(60), 5, 65_535, &[true, true, true]);
    assert_eq!((path.in_flight, path.figures.lost), (1_000, 1));
    tell(&mut path, at(80), 5, 65_534, &[true]);
    assert_eq!((path.in_flight, path.figures.lost), (1_000, 1), "too late");
}

#[test]
fn a_stream_under_another_ssrc_takes_the_place_of_the_silent_one() {
    let mut path = SharedPath::new(2);
    path.on_sent(at(0), ON, TrackId::SOUND, &packet(1, 7));
    path.on_sent(at(1), ON, TrackId(1), &packet(2, 7));
    path.on_sent(at(2), ON, TrackId::SOUND, &packet(3, 9));
    assert_eq!(path.in_flight, 2_000);
    tell(&mut path, at(20), 3, 9, &[true]);
    tell(&mut path, at(20), 2, 7, &[true]);
    assert_eq!(path.in_flight, 0);
}

/// A receiver that comes later has not lost what was sent before.
#[test]
fn what_was_sent_before_anybody_was_there_is_not_lost() {
    let mut path = SharedPath::new(2);
    for number in 0..100 {
        path.on_sent(at(20 * u64::from(number)), ON, TrackId::SOUND, &packet(1, number));
        path.on_sent(at(20 * u64::from(number)), ON, TrackId(1), &packet(2, number));
    }
    // The first that came is picture 97, and sound is told of later.
    tell(&mut path, at(2_000), 2, 97, &[true, true]);
    assert_eq!((path.in_flight, path.figures.lost), (4_000, 0), "picture 99, and sound from 97 on");
    tell(&mut path, at(2_020), 1, 98, &[true, true]);
    assert_eq!((path.in_flight, path.figures.lost), (2_000, 0));
}

#[test]
fn a_receiver_that_falls_silent_is_sent_little() {
    let mut path = SharedPath::new(1);
    for number in 0..20 {
        path.on_sent(at(0), ON, TrackId(1), &packet(5, number));
    }
    tell(&mut path, at(20), 5, 0, &[true; 10]);
    let before = path.figures.rate.unwrap();
    assert!(matches!(path.budget(at(1_500), TrackId(1)), Budget::Bytes(..)));
    assert_eq!(path.in_flight, 0, "they are lost");
    let window = path.copa.as_ref().unwrap().estimate();
    assert!(window <= 2_000.0, "{window} bytes of {before}");
    assert_eq!(path.budget(at(1_600), TrackId::SOUND), Budget::All);
}

/// What the path took before the silence says nothing of what it takes after it.
#[test]
fn after_a_silence_a_slow_path_begins_anew() {
    let mut path = SharedPath::new(1);
    let send = |path: &mut SharedPath, millis, number| {
        path.on_sent(at(millis), ON, TrackId(1), &packet(5, number));
    };
    (0..3).for_each(|number| send(&mut path, 0, number));
    // A packet takes 70 ms, and three are on their way.
    for n in 0..20u16 {
        let millis = 70 * (u64::from(n) + 1);
        tell_written(&mut path, at(millis), (millis * 65_536 / 1_000) as u32, (5, n), &[true]);
        send(&mut path, millis, n + 3);
    }
    let capacity = path.slow.capacity(1_000.0).expect("it is slow");
    assert!((capacity - 1_000.0 / 0.07).abs() < 300.0, "{capacity}");
    let window = |path: &SharedPath| {
        let copa = path.copa.as_ref().unwrap();
        path.window(copa, path.slow_rate(copa))
    };
    assert!(window(&path) > 4_000.0);
    assert!(matches!(path.budget(at(4_000), TrackId(1)), Budget::Bytes(..)));
    assert_eq!(path.slow.capacity(1_000.0), None);
    assert!(window(&path) <= 2_000.0);
}

#[test]
fn a_peer_that_tells_nothing_is_sent_everything_after_a_second() {
    let mut path = SharedPath::new(1);
    let mut sent = 0;
    for millis in 0..1_000 {
        if matches!(path.budget(at(millis), TrackId(1)), Budget::Bytes(left, _) if left > 0) {
            path.on_sent(at(millis), ON, TrackId(1), &packet(5, sent));
            sent += 1;
        }
    }
    assert_eq!(sent, 21, "the first one, which begins the path, and two in each tenth after it");
    assert_eq!(path.budget(at(1_001), TrackId(1)), Budget::All);
}

#[test]
fn reports_that_cannot_be_true_are_counted() {
    let mut path = SharedPath::new(1);
    for number in 0..6u16 {
        path.on_sent(at(0), ON, TrackId(1), &packet(5, number));
    }
    tell(&mut path, at(20), 5, 0, &[true, false, true]);
    // What was missing has come after all.
    tell(&mut path, at(40), 5, 0, &[true, true, true]);
    assert_eq!(path.contradictions(), 0);
    tell(&mut path, at(60), 5, 0, &[true, false, true]);
    assert_eq!(path.contradictions(), 1, "it had come");
    tell(&mut path, at(80), 5, 3, &[true, true, true, true]);
    assert_eq!(path.contradictions(), 2, "the last one was not sent");
    tell(&mut path, at(90), 5, 7, &[false]);
    assert_eq!(path.contradictions(), 3, "nor this one");
    path.on_sent(at(100), ON, TrackId(1), &packet(5, 6));
    let mut buf = [0; 100];
    let mut writer = ArrivalReportWriter::new(9, &mut buf).unwrap();
    writer.stream(5, 6, std::iter::once(PacketArrival::Arrived(Some(Duration::from_millis(50)))));
    let len = writer.finish(0);
    path.on_report(at(120), ON, &ArrivalReport::parse(&buf[..len]).unwrap());
    assert_eq!(path.contradictions(), 4, "it came 30 ms before it was sent");
}

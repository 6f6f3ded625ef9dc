use super::*;
use crate::packet_log::tests::{arrival, log_of};

fn packet(sequence: u16, picture: u64, part: u32, due: u64) -> SentPicturePacket {
    let due = Instant::from_millis(due);
    SentPicturePacket { sequence, picture, part: (part, 2), due, bytes: 1_000, result: Ok(()) }
}

/// Pictures of two packets, 40 ms apart from `from` on; each packet comes back `back` after it was sent unless `is_lost`.
fn sent(log: &mut PictureLog, pictures: u64, first: u16, is_lost: impl Fn(u64) -> bool) {
    for n in 0..2 * pictures {
        let (picture, sequence) = (n / 2, first.wrapping_add(n as u16));
        let now = Instant::from_millis(1_000 + 40 * picture + 10 * (n % 2));
        log.on_sent(now, &packet(sequence, picture, (n % 2) as u32, 1_000 + 40 * picture));
        if !is_lost(n) {
            let back = now + Duration::from_millis(20);
            log.on_received(sequence, back, Some(Duration::from_millis(8)));
        }
    }
}

/// Of a known run, with all that can be known of two clocks.
pub(crate) fn figures() -> PicturesFigures {
    let mut log = PictureLog::new(10);
    sent(&mut log, 8, 0, |n| n == 7);
    log.finish();
    let part = SoundPart { packets: 500, missing_percent: 1.0, rtt_p50_ms: 20.0, rtt_p99_ms: 30.0 };
    let skew = SkewFigures { median_ms: 1.0, p95_ms: 2.0, p99_9_ms: 9.0, worst_ms: 9.5, beyond_percent: 0.0 };
    PicturesFigures {
        one_way_ms: None,
        skew: Some(skew),
        sound_beside: Some(part),
        sound_alone: Some(part),
        ..log.figures(&PictureFacts { sent: 8, ..PictureFacts::default() }, &log_of(10))
    }
}

#[test]
fn a_picture_is_whole_when_all_its_packets_came() {
    let mut log = PictureLog::new(10);
    // Over the end of RTP's numbers; picture 3 misses a packet, picture 5 both.
    sent(&mut log, 8, 65_530, |n| matches!(n, 7 | 10 | 11));
    log.finish();
    let figures = log.figures(&PictureFacts { sent: 8, left_out: 2, ..PictureFacts::default() }, &log_of(10));
    assert_eq!((figures.sent, figures.whole, figures.left_out), (8, 6, 2));
    assert_eq!(figures.whole_percent, Some(60.0));
    assert_eq!((figures.packets_sent, figures.packets_received, figures.lost), (16, 13, 3));
    assert_eq!(figures.lost_percent, Some(100.0 * 3.0 / 16.0));
    // The second packet leaves 10 ms after the first.
    let near = |value: Option<f64>, expected: f64| value.is_some_and(|ms| (ms / expected - 1.0).abs() < 0.01);
    assert!(near(figures.whole_ms.max_ms, 30.0) && near(figures.rtt_ms.p50_ms, 20.0), "{figures:?}");
    assert!(near(figures.one_way_ms.unwrap().p99_ms, 8.0), "{figures:?}");
    assert_eq!(log.pictures()[3].delay(), None);
    assert_eq!(figures.media_bytes, 16_000);
}

#[test]
fn what_was_given_up_is_not_lost_and_what_was_refused_neither() {
    let mut log = PictureLog::new(10);
    sent(&mut log, 4, 0, |n| n == 1 || n == 3);
    let refused =
        SentPicturePacket { result: Err(SendError::Blocked { queued: 1 }), ..packet(8, 4, 0, 1_160) };
    log.on_sent(Instant::from_millis(1_160), &refused);
    log.finish();
    let figures = log.figures(&PictureFacts { expired: 1, ..PictureFacts::default() }, &log_of(10));
    assert_eq!((figures.lost, figures.expired, figures.refused), (1, 1, 1));
    assert_eq!(figures.packets_sent, 9);
    assert_eq!(figures.media_bytes, 8_000, "what was refused is not counted");
}

/// The second part of the second picture is lost, and comes when it is sent again; the first part comes twice.
#[test]
fn what_is_sent_again_completes_its_picture_and_makes_no_further_one() {
    let mut log = PictureLog::new(10);
    sent(&mut log, 2, 100, |n| n == 3);
    // A number is left out between the two.
    for (sequence, part) in [(104, 0), (106, 1)] {
        log.on_sent(Instant::from_millis(1_100), &packet(sequence, 1, part, 1_100));
        log.on_received(sequence, Instant::from_millis(1_120), None);
    }
    log.on_received(104, Instant::from_millis(1_130), None);
    log.finish();
    let figures = log.figures(&PictureFacts::default(), &log_of(10));
    assert_eq!((log.pictures().len(), figures.whole), (2, 2));
    assert_eq!(log.pictures()[1].delay(), Some(Duration::from_millis(80)), "from when it was due first");
    assert_eq!((figures.packets_sent, figures.packets_received, figures.lost), (6, 5, 1));
    assert!(figures.one_way_ms.is_none(), "the clocks agree for some packets alone");
}

#[test]
fn pictures_beyond_the_room_are_counted_by_their_packets() {
    let mut log = PictureLog::new(3);
    sent(&mut log, 20, 0, |_| false);
    log.finish();
    let figures = log.figures(&PictureFacts::default(), &log_of(10));
    assert_eq!((figures.whole, log.pictures().len()), (3, 3));
    assert_eq!(figures.packets_received, 40);
}

/// Sound of 5 ms packets from 1 s on, for 4 s; pictures for the first 2 s. Beside them one packet in ten is lost, and the rest takes 30 ms longer.
#[test]
fn the_cost_to_the_sound_is_what_differs_beside_them() {
    let mut sound = log_of(1_000);
    for seq in 0..800u64 {
        let at = Instant::from_millis(1_000 + 5 * seq);
        let beside = seq < 400;
        sound.on_sent(seq, at);
        if !beside || seq % 10 != 0 {
            sound.on_received(arrival(seq, at + Duration::from_millis(if beside { 50 } else { 20 })));
        }
    }
    sound.finish();
    let mut log = PictureLog::new(100);
    sent(&mut log, 50, 0, |_| false);
    log.finish();
    let figures = log.figures(&PictureFacts::default(), &sound);
    let (beside, alone) = (figures.sound_beside.unwrap(), figures.sound_alone.unwrap());
    assert!((9.0..11.0).contains(&beside.missing_percent), "{beside:?}");
    assert!((49.0..51.0).contains(&beside.rtt_p99_ms) && (19.0..21.0).contains(&alone.rtt_p99_ms));
    assert_eq!(alone.missing_percent, 0.0);
    assert!(beside.packets + alone.packets <= 800 && alone.packets > 390, "{alone:?}");
    let cost = figures.cost().unwrap();
    assert!(cost.contains("after them 0.00 %"), "{cost}");
    // Without sound after the pictures, nothing is said.
    let alone = log_of(1_000);
    assert_eq!(log.figures(&PictureFacts::default(), &alone).cost(), None);
}

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn times(ms: &[u64]) -> Vec<Instant> {
    ms.iter().map(|ms| at(*ms)).collect()
}

fn beside(arrivals: &[u64], others: &[u64], sending: Range<u64>) -> StreamFigures {
    let mut figures = StreamFigures::default();
    add_beside(&mut figures, &times(arrivals), &times(others), &(at(sending.start)..at(sending.end)));
    figures
}

#[test]
fn a_gap_of_a_quarter_of_a_second_is_not_late_and_a_longer_one_is() {
    let figures = beside(&[0, 250, 501, 1001, 1502], &[], 0..0);
    assert_eq!((figures.gaps_above_250ms, figures.gaps_above_500ms), (Some(3.0), Some(1.0)));
    // A gap needs two arrivals.
    assert_eq!(beside(&[7], &[], 0..0).gaps_above_250ms, None);
}

#[test]
fn gaps_with_a_packet_of_the_other_stream_are_told_apart() {
    // With: 0 to 100 (at 50) and 110 to 310 (at 150 and at 310 itself). Without: 100 to 110, and 50 and 75 after that.
    let figures = beside(&[0, 100, 110, 310, 360, 435], &[50, 150, 310], 0..1000);
    assert_eq!((figures.gap_shared_ms, figures.gap_unshared_ms), (Some(150.0), Some(45.0)));
    // Where there is no other stream, all are without.
    let alone = beside(&[0, 50, 100], &[], 0..1000);
    assert_eq!((alone.gap_shared_ms, alone.gap_unshared_ms), (None, Some(50.0)));
    // A packet of it before the first arrival is in no gap.
    let before = beside(&[100, 150, 1000], &[50, 100, 900], 0..1000);
    assert_eq!((before.gap_shared_ms, before.gap_unshared_ms), (Some(850.0), Some(50.0)));
}

#[test]
fn the_deviation_counts_while_the_other_stream_is_sent() {
    // Regular gaps have none; gaps of 40 and 60 ms in turn have 10 ms (divisor n) once there are only these.
    let regular: Vec<u64> = (0..200).map(|n| n * 50).collect();
    let figures = beside(&regular, &[], 0..10_000);
    assert_eq!((figures.gap_sd_mean_ms, figures.gap_sd_max_ms), (Some(0.0), Some(0.0)));
    let mut uneven = vec![0];
    (0..300).for_each(|n| uneven.push(uneven[n] + if n % 2 == 0 { 40 } else { 60 }));
    let figures = beside(&uneven, &[], 6_000..10_000);
    assert!((figures.gap_sd_mean_ms.unwrap() - 10.0).abs() < 1e-9, "{figures:?}");
    assert!((figures.gap_sd_max_ms.unwrap() - 10.0).abs() < 1e-9);
    // Before and after that it does not count.
    let mut late = regular.clone();
    late.push(late[199] + 5_000);
    assert_eq!(beside(&late, &[], 0..10_000).gap_sd_max_ms, Some(0.0));
    assert!(beside(&late, &[], 0..20_000).gap_sd_max_ms.unwrap() > 400.0);
}

#[test]
fn playout_counts_from_the_least_delayed_packet() {
    let ms = |ms: u64| Duration::from_millis(ms);
    let mut figures = StreamFigures::default();
    // Of ten sent, seven came: 0, 50, 51, 150, 300, 900 and 1001 ms after the first one's delay of 20.
    let delays = [20, 70, 71, 170, 320, 920, 1021].map(ms);
    add_playout(&mut figures, &delays, 10);
    let missed = [
        figures.missed_50ms_percent,
        figures.missed_100ms_percent,
        figures.missed_200ms_percent,
        figures.missed_500ms_percent,
        figures.missed_1000ms_percent,
    ];
    assert_eq!(missed, [80.0, 70.0, 60.0, 50.0, 40.0].map(Some));
    let mut silent = StreamFigures::default();
    add_playout(&mut silent, &[], 10);
    assert_eq!((silent.missed_50ms_percent, silent.missed_1000ms_percent), (Some(100.0), Some(100.0)));
}

/// Frames of 25 bytes in packets of 10, each 100 ms, ten of them.
const LAYOUT: VideoLayout =
    VideoLayout { frame: 25, packet: 10, interval: Duration::from_millis(100), count: 10 };

fn video(frames: &[(u64, u64)], came: &[(u64, u64)]) -> StreamFigures {
    let frames: Vec<SentFrame> =
        frames.iter().map(|(due, first)| SentFrame { due: at(*due), first: *first }).collect();
    let came: Vec<(u64, Instant)> = came.iter().map(|(index, ms)| (*index, at(*ms))).collect();
    let mut figures = StreamFigures::default();
    add_video(&mut figures, &LAYOUT, at(1000), &frames, &came);
    figures
}

#[test]
fn a_frame_is_cut_into_packets_whose_bytes_add_up() {
    assert_eq!(LAYOUT.packets(), 3);
    assert_eq!([0, 1, 2, 3, u64::MAX].map(|part| LAYOUT.bytes_of(part)), [10, 10, 5, 0, 0]);
}

#[test]
fn only_frames_without_a_missing_packet_are_whole() {
    // Frames due at 1000, 1100 and 1300 (1200 was skipped); the second lacks its last packet.
    let frames = [(1000, 0), (1100, 3), (1300, 6)];
    let came = [(0, 1010), (1, 1020), (2, 1050), (3, 1110), (4, 1120), (6, 1310), (8, 1320), (7, 1330)];
    let figures = video(&frames, &came);
    assert_eq!((figures.frames_sent, figures.frames_whole), (Some(3.0), Some(2.0)));
    // 50 and 30 ms after they were due; 280 ms apart.
    assert_eq!((figures.frame_delay_mean_ms, figures.frame_gap_mean_ms), (Some(40.0), Some(280.0)));
    // 70 bytes in 320 ms.
    assert!((figures.media_kbit_per_s.unwrap() - 560.0 / 320.0).abs() < 1e-12);
    // Of the second from 1000 to 2000: 180 ms of the wait from 1050 to 1330 are beyond one interval, and 570 of that to the end.
    assert!((figures.freeze_percent.unwrap() - 75.0).abs() < 1e-9);
}

#[test]
fn a_frame_older_than_the_picture_changes_nothing() {
    let frames = [(1000, 0), (1100, 3)];
    let came = [(3, 1110), (4, 1120), (5, 1130), (0, 1140), (1, 1150), (2, 1160)];
    let figures = video(&frames, &came);
    assert_eq!((figures.frames_whole, figures.frame_gap_mean_ms), (Some(2.0), None));
    // 30 ms beyond the first interval, and 770 ms at the end.
    assert!((figures.freeze_percent.unwrap() - 80.0).abs() < 1e-9);
}

#[test]
fn a_video_of_which_nothing_comes_is_frozen_throughout() {
    let figures = video(&[(1000, 0)], &[]);
    assert_eq!((figures.frames_whole, figures.frame_delay_mean_ms), (Some(0.0), None));
    assert_eq!(figures.media_kbit_per_s, None);
    assert!((figures.freeze_percent.unwrap() - 90.0).abs() < 1e-9);
    // An index that belongs to no frame is not counted.
    assert_eq!(video(&[], &[(5, 1000)]).frames_sent, Some(0.0));
}

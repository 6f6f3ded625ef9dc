//! `compare --video`: pictures beside the sound over each transport, and what they cost it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use antiphon::measure::TransportFigures;
use antiphon::video::Clip;
use antiphon::{CompareOptions, Comparison, ErrorKind, Stop, compare, figure_rows};
use antiphon_testkit::unless_held_up;

use super::{HELD_UP, options};

fn film(directory: &Path, clip: Clip) -> PathBuf {
    let path = directory.join(clip.name());
    std::fs::write(&path, clip.file()).expect("a temporary file");
    path
}

fn compared(options: &CompareOptions) -> Comparison {
    let result = compare(options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
    assert_eq!(result.failures, [], "all transports are measured");
    result
}

fn of<'a>(comparison: &'a Comparison, name: &str) -> &'a TransportFigures {
    comparison.figures.iter().find(|figures| figures.transport == name).expect("it was measured")
}

/// 4 s of sound, pictures beside the first 3 s: 75 of 25 Hz. Over each transport all come back, are shown with their sound, and the report has them.
#[test]
fn every_transport_is_measured_with_pictures_beside_the_sound() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = CompareOptions {
        length: Some(Duration::from_secs(4)),
        video: vec![film(directory.path(), Clip::H264)],
        out: Some(directory.path().join("report")),
        ..options("pictures", "delay=5ms")
    };
    unless_held_up(HELD_UP, || {
        let result = compared(&options);
        assert_eq!(result.figures.len(), antiphon::proto::TRANSPORTS.len());
        for figures in &result.figures {
            let name = &figures.transport;
            let pictures = figures.pictures.expect("they were sent");
            assert_eq!(
                (pictures.sent, pictures.left_out, pictures.whole),
                (75, 0, 75),
                "{name}: {pictures:?}"
            );
            assert_eq!((pictures.lost, pictures.too_late), (0, 0), "{name}: {pictures:?}");
            let skew = pictures.skew.expect("they were shown");
            assert!(skew.p99_9_ms <= 80.0, "{name}: {skew:?}");
            let (way, back) = (pictures.one_way_ms.expect("one clock"), pictures.rtt_ms);
            assert!(way.min_ms >= Some(5.0) && back.min_ms >= Some(10.0), "{name}: {way:?} {back:?}");
            assert_eq!(way.count, back.count, "{name}");
            let (beside, alone) = (pictures.sound_beside.unwrap(), pictures.sound_alone.unwrap());
            // 187.5 packets a second.
            assert!((520..=570).contains(&beside.packets), "{name}: {beside:?}");
            assert!((150..=205).contains(&alone.packets), "{name}: {alone:?}");
            let rate = pictures.media_kbit_per_s.expect("a rate");
            assert!((50.0..250.0).contains(&rate), "{name}: {rate} kbit/s of a clip of 100");
            // What is on the wire is not all beyond the sound.
            assert!(figures.overhead_percent < Some(60.0), "{name}: {:?}", figures.overhead_percent);
        }
        assert!(result.advice.iter().all(|advice| advice.pictures.is_some()), "{:?}", result.advice);
        let rows = figure_rows(&result.figures);
        let groups: Vec<&str> =
            rows.iter().map(|row| &row.group[..]).filter(|group| !group.is_empty()).collect();
        assert_eq!(groups[4..], ["Pictures", "Sound beside pictures"]);
        let page = std::fs::read_to_string(directory.path().join("report/report.html")).expect("a page");
        assert!(page.contains("Sound and pictures") && page.contains("Beside the pictures"));
    });
}

/// What is lost of the pictures is seen over the transport that repairs nothing, and not over the one that repairs all.
#[test]
fn lost_pictures_are_the_transports_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = CompareOptions {
        length: Some(Duration::from_secs(4)),
        transports: ["rtp", "tcp"].map(String::from).to_vec(),
        video: vec![film(directory.path(), Clip::H264)],
        latency: Duration::from_secs(1),
        out: None,
        ..options("lossy-pictures", "delay=2ms,loss=4%")
    };
    let result = compared(&options);
    let pictures = |name| of(&result, name).pictures.expect("they were sent");
    let (rtp, tcp) = (pictures("rtp"), pictures("tcp"));
    // Of some 120 packets 8 % are lost on either way: that none is has a probability of 5 in 100 000.
    assert!(rtp.lost >= 1 && rtp.lost_percent > Some(0.5), "{rtp:?}");
    assert_eq!((tcp.lost, tcp.expired), (0, 0), "{tcp:?}");
    assert_eq!(rtp.packets_sent, rtp.packets_received + rtp.lost + rtp.expired + rtp.refused);
}

#[test]
fn a_comparison_without_pictures_shows_none_and_refuses_what_is_no_film() {
    let options = options("no-pictures", "delay=1ms");
    let result = compared(&CompareOptions { transports: vec!["rtp".into()], out: None, ..options.clone() });
    assert!(result.figures[0].pictures.is_none() && result.advice.iter().all(|one| one.pictures.is_none()));
    let rows = figure_rows(&result.figures);
    assert!(rows.iter().all(|row| !row.label.contains("ictures")), "{rows:?}");
    for (file, says) in [("/nowhere/film.mp4", "No such file"), ("/dev/null", "/dev/null")] {
        let wrong = CompareOptions { video: vec![file.into()], ..options.clone() };
        let error = compare(&wrong, &Stop::new(), &mut |_| {}).expect_err("it is no film");
        assert!(error.kind == ErrorKind::Usage && error.to_string().contains(says), "{error}");
    }
}

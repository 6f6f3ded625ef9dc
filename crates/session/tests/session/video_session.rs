//! Pictures in an RTP session of their own, as other programs send and receive them: nothing of ours is in it, and reports tell where a
//! picture belongs.

use std::time::Duration;

use antiphon_core::WireId;
use antiphon_media::packet::{EncodingName, ExtensionIds};
use antiphon_media::rtcp::{PictureLoss, RtcpItem, visit_compound, write_cname, write_report};
use antiphon_session::{VideoEnd, VideoFormat, VideoTie};

use crate::video::{Pictures, Shared};
use crate::wired::Wired;
use crate::world::ms;

const SOUND: WireId = WireId(0);
const VIDEO: WireId = WireId(1);

/// The packets' own clocks and marks are not looked at, as in those of another program.
fn format() -> VideoFormat {
    let encoding = EncodingName::new("H264").expect("a short word");
    VideoFormat { encoding, payload_type: 100, extensions: ExtensionIds::NONE }
}

fn world(links: [&str; 2], delay: Option<Duration>, pictures: Box<Pictures>) -> (Wired, Shared) {
    let seen = Shared::default();
    let sink = (Box::new(seen.clone()) as _, format());
    (Wired::with_video_session(links, delay, pictures, sink), seen)
}

/// How far the places of pictures that have one are from where they belong, in nanoseconds.
fn errors(seen: &Shared) -> Vec<i64> {
    let whole = seen.whole(4);
    let placed = whole.iter().enumerate().filter_map(|(n, place)| Some((n as i64, (*place)?)));
    placed.map(|(n, place)| place - n * 40_000_000).collect()
}

#[test]
fn reports_tell_where_pictures_belong_however_late_they_are() {
    let (mut world, seen) = world(["delay=10ms", "delay=60ms"], Some(ms(200)), Pictures::new(ms(40), 4, 200));
    world.end_flawless();
    assert_eq!(world.far.video_tie(), Some(VideoTie::Reports));
    assert_eq!((seen.whole(4).len(), world.far.video_end()), (200, Some(VideoEnd::Whole)));
    let errors = errors(&seen);
    // The first report comes within three quarters of a second.
    assert!(errors.len() >= 180, "{}", errors.len());
    let later = &errors[15..];
    // A report's place in the stream is told in whole units of 1/48000 s.
    assert!(later.iter().all(|error| error.abs() < 100_000), "{later:?}");
    let sent = world.near.video_sent().next().expect("a track");
    assert_eq!((sent.units, sent.left_out, sent.packets, sent.refused), (200, 0, 800, 0));
}

#[test]
fn each_rtp_session_has_its_own_reports_and_no_word_of_ours() {
    let (mut world, _) = world(["delay=10ms"; 2], None, Pictures::new(ms(40), 4, 95));
    let sound = world.near.send_track().expect("it sends").packetiser().ssrc();
    world.end_flawless();
    let mut byes = [0; 2];
    for (wire, bytes) in &world.rtcp[0] {
        let is_sound = *wire == SOUND;
        visit_compound(bytes, |item| match item {
            RtcpItem::Sender { ssrc, .. }
            | RtcpItem::Cname { ssrc, .. }
            | RtcpItem::Receiver { ssrc, .. } => {
                assert_eq!(ssrc == sound, is_sound, "{wire:?}");
            }
            RtcpItem::Bye { ssrc } => {
                assert_eq!(ssrc == sound, is_sound, "{wire:?}");
                byes[usize::from(!is_sound)] += 1;
            }
            other => panic!("{wire:?}: {other:?}"),
        })
        .expect("it is RTCP");
    }
    assert!(byes.iter().all(|byes| *byes >= 1), "{byes:?}");
    assert!(world.rtcp[1].iter().any(|(wire, _)| *wire == VIDEO), "the receiver reports on pictures");
    assert!(world.changes.is_empty(), "nobody was asked: {:?}", world.changes);
}

/// A listener is shown pictures 0.3 s after the first one; they are 50 ms later than their sound on their way.
#[test]
fn without_reports_pictures_are_placed_as_they_arrive() {
    let (mut world, seen) = world(["delay=10ms", "delay=60ms"], Some(ms(200)), Pictures::new(ms(40), 4, 200));
    world.without_rtcp = Some(VIDEO);
    world.run_for(ms(200));
    assert_eq!(world.far.video_tie(), None);
    world.end_flawless();
    assert_eq!(world.far.video_tie(), Some(VideoTie::Arrivals));
    let errors = errors(&seen);
    assert!(errors.len() >= 190, "{}", errors.len());
    // A block of the sound is 5.3 ms.
    assert!(errors.iter().all(|error| (error - 50_000_000).abs() < 6_000_000), "{errors:?}");
}

#[test]
fn a_key_frame_is_asked_for_behind_a_report_and_sent() {
    let (mut world, seen) = world(["delay=10ms"; 2], Some(ms(200)), Pictures::new(ms(40), 2, 95).keys(1_000));
    seen.0.lock().unwrap().wants_after = Some(50);
    world.end_flawless();
    let pictures = seen.0.lock().unwrap().ssrc;
    let mut asked = 0;
    for (_, bytes) in world.rtcp[1].iter().filter(|(wire, _)| *wire == VIDEO) {
        assert_eq!(bytes[1], 201, "a report comes first");
        visit_compound(bytes, |item| {
            if let RtcpItem::Other { packet_type: 206, bytes } = item {
                assert_eq!(PictureLoss::parse(bytes).map(|asked| asked.pictures), Some(pictures));
                asked += 1;
            }
        })
        .expect("it is RTCP");
    }
    assert!(asked >= 3, "{asked}");
    let sent = world.near.video_sent().next().expect("a track");
    assert_eq!((sent.units, sent.caught_up), (95, 2));
}

/// Other programs ask in compound packets, by PLI or FIR.
#[test]
fn others_are_answered_whichever_way_they_ask() {
    let (mut world, seen) = world(["delay=10ms"; 2], Some(ms(200)), Pictures::new(ms(40), 2, 250));
    world.run_for(ms(3_000));
    let pictures = seen.0.lock().unwrap().ssrc;
    let mut ask = |ssrc: u32, feedback: &[u8]| {
        let mut bytes = [0; 200];
        let mut len = write_report(ssrc, None, &[], &mut bytes).expect("room");
        len += write_cname(ssrc, "gst", &mut bytes[len..]).expect("room");
        let compound = [&bytes[..len], feedback].concat();
        world.answer(1, compound);
        world.run_for(ms(1_500));
        world.near.video_sent().next().expect("a track").caught_up
    };
    let loss = |pictures| PictureLoss { ssrc: 7, pictures }.to_bytes();
    assert_eq!(ask(7, &loss(pictures)), 1);
    assert_eq!(ask(7, &loss(pictures ^ 1)), 1, "of another stream");
    let command = [&b"\x84\xce\0\x04\0\0\0\x08\0\0\0\0"[..], &pictures.to_be_bytes(), b"\x01\0\0\0"].concat();
    assert_eq!(ask(8, &command), 2);
    // Cut off: it is none.
    assert_eq!(ask(9, &command[..12]), 2);
    world.end();
}

#[test]
fn what_is_of_no_use_is_not_taken_for_pictures() {
    let (mut world, seen) = world(["delay=10ms"; 2], None, Pictures::new(ms(40), 4, 95));
    world.run_for(ms(1_000));
    let packet = |payload_type: u8, ssrc: u8| {
        [&[0x80, payload_type, 0, 1, 0, 0, 0, 1, 0, 0, 0, ssrc][..], &[0; 1000]].concat()
    };
    for n in 0..100 {
        world.forge(1, 5, packet(100, n));
        world.forge(1, 0, packet(96, n));
        world.forge(1, 5, vec![n; usize::from(n)]);
        world.run_for(ms(5));
    }
    assert_eq!(world.far.video_of_other_types(), 100);
    world.end_flawless();
    assert_eq!(seen.whole(4).len(), 95);
    assert_eq!(world.far.video_received().map(|counted| (counted.packets, counted.others)), Some((380, 100)));
}

//! Pictures beside the sound of a session, with a congestion manager.

use antiphon_core::BitRate;
use antiphon_measure::VideoLayout;

use super::*;
use crate::setup::{PicturesSpec, SoundSpec};

/// Sound in Opus, and a clip of twice what the path of the study of two streams carries, from 5 s on for 20 s.
fn session(spec: &str, transport: &str) -> Setup {
    let layout = VideoLayout { frame: 12_020, packet: 668, interval: ms(400), count: 50 };
    let groups = antiphon_media::ChannelGroups::whole(1);
    let sound = SoundSpec { groups, block: 2880, opus: Some(BitRate(16_000)), ..SoundSpec::default() };
    let mut setup = setup(2, 30);
    setup.media.push(link("line", 0, 1, spec));
    setup.streams.push(StreamSpec {
        pictures: Some(PicturesSpec { name: "video".into(), start: Duration::from_secs(5), layout }),
        patience: Some(ms(200)),
        latency: ms(200),
        beside: Some("video".into()),
        ..StreamSpec::new("audio", transport, [NodeId(0), NodeId(1)], Content::Sound(sound))
    });
    setup
}

/// Where there is room for all, all pictures come whole, each packet 28 bytes of UDP and IP, and 44 of RTP, longer than in the picture.
#[test]
fn pictures_of_a_session_are_measured_beside_its_sound() {
    let setup = session("rate=2Mbit/s,delay=20ms", "rtp");
    let (world, run) = finished(&setup, 1);
    let names: Vec<&str> = run.streams.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["audio", "video"]);
    let (audio, video) = (figures_of(&run, "audio"), figures_of(&run, "video"));
    // 30 s in packets of 60 ms, and one for what the encoder holds back.
    assert_eq!(
        (audio.sent, audio.received, audio.missed_50ms_percent),
        (Some(501.0), Some(501.0), Some(0.0))
    );
    assert_eq!((video.sent, video.received, video.refused), (Some(900.0), Some(900.0), Some(0.0)));
    assert_eq!((video.frames_sent, video.frames_whole), (Some(50.0), Some(50.0)));
    // 18 packets of 740 bytes take 53 ms on the link and 20 more; the manager spreads them, but not over half the time to the next.
    let delay = video.frame_delay_mean_ms.unwrap();
    assert!((73.0..200.0).contains(&delay), "{delay}");
    near(video.media_kbit_per_s, 50.0 * 12_020.0 * 8.0 / 19_650.0, 2.0);
    let frames = world.course("video").unwrap().video_frames();
    assert_eq!((frames.len(), frames[3].0), (50, Instant::from_millis(6_200)));
    assert!(frames.iter().all(|(due, whole)| whole.is_some_and(|whole| whole > *due + ms(20))));
}

/// Where there is room for half of them, the manager holds them back: the sound is in time, which it isn't beside video that nobody holds back.
#[test]
fn a_manager_keeps_the_sound_in_time() {
    for transport in ["rtp", "srp"] {
        let (_, run) = finished(&session("rate=124kbit/s,queue=50packets", transport), 1);
        let (audio, video) = (figures_of(&run, "audio"), figures_of(&run, "video"));
        // One packet of 501.
        assert!(audio.missed_200ms_percent.unwrap() <= 0.2, "{transport}: {audio:?}");
        let frames = (video.frames_sent.unwrap(), video.frames_whole.unwrap());
        assert!((15.0..30.0).contains(&frames.1) && frames.0 >= frames.1, "{transport}: {frames:?}");
        assert!(video.media_kbit_per_s.unwrap() > 80.0, "{transport}: {video:?}");
    }
}

#[test]
fn impossible_pictures_are_refused() {
    let refused = |change: &dyn Fn(&mut StreamSpec, &mut PicturesSpec)| {
        let mut setup = session("rate=1Mbit/s", "rtp");
        let mut pictures = setup.streams[0].pictures.take().unwrap();
        change(&mut setup.streams[0], &mut pictures);
        setup.streams[0].pictures = Some(pictures);
        World::new(&setup, 1).err().expect("refused").to_string()
    };
    assert!(refused(&|_, pictures| pictures.layout.interval = Duration::ZERO).contains("such as 40ms"));
    assert!(refused(&|_, pictures| pictures.layout.frame = 0).contains("bytes, a number"));
    assert!(refused(&|_, pictures| pictures.layout.packet = 4).contains("of 8 bytes"));
    assert!(refused(&|_, pictures| pictures.layout.packet = 1_429).contains("1428 bytes at most"));
    assert!(refused(&|_, pictures| pictures.layout.count = u64::MAX).contains("20 million"));
    assert!(refused(&|_, pictures| pictures.name = "audio".into()).contains("audio"));
    let packets = Content::Packets { frame: 96, interval: ms(50), count: None };
    assert!(refused(&|audio, _| audio.content = packets.clone()).contains("beside sound to one receiver"));
    assert!(refused(&|audio, _| audio.beside = Some("vidio".into())).contains("by its name"));
}

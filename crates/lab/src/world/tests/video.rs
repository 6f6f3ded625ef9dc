//! Video, and a stream that is looked at beside it.

use antiphon_measure::VideoLayout;

use super::*;
use crate::setup::{FrameChoice, VideoSpec};

/// 12 020 bytes in nine packets, each 400 ms, 25 of them.
fn video(choice: FrameChoice) -> Content {
    let layout = VideoLayout { frame: 12_020, packet: 1400, interval: ms(400), count: 25 };
    Content::Video(VideoSpec { layout, choice, streams: 1 })
}

fn over(spec: &str, transport: &str, content: Content) -> Setup {
    let mut setup = setup(2, 20);
    setup.media.push(link("line", 0, 1, spec));
    setup.streams.push(StreamSpec::new("video", transport, [NodeId(0), NodeId(1)], content));
    setup
}

fn video_of(setup: &Setup) -> StreamFigures {
    figures_of(&finished(setup, 1).1, "video")
}

/// A frame takes 12 020 + 9 x 28 bytes at 1 Mbit/s: 98.176 ms, and 20 of propagation.
#[test]
fn a_frame_has_come_with_the_last_of_its_packets() {
    let figures = video_of(&over("rate=1Mbit/s,delay=20ms", "rtp", video(FrameChoice::All)));
    assert_eq!((figures.sent, figures.received), (Some(225.0), Some(225.0)));
    assert_eq!((figures.frames_sent, figures.frames_whole), (Some(25.0), Some(25.0)));
    near(figures.frame_delay_mean_ms, 118.176, 1e-6);
    near(figures.frame_gap_mean_ms, 400.0, 1e-6);
    // From the first packet, 1428 bytes after the beginning, to the last: 24 intervals and 86.752 ms.
    near(figures.media_kbit_per_s, 25.0 * 12_020.0 * 8.0 / (9_600.0 + 86.752), 1e-6);
    // The picture stood still while the first one came, beyond an interval at no time: 10 s to the end of the last frame.
    near(figures.freeze_percent, 0.0, 1e-9);
}

/// At 64 kbit/s a frame takes 1.53 s, four intervals.
#[test]
fn over_a_byte_stream_the_newest_frame_follows_when_the_one_before_is_written() {
    let mut setup = over("rate=64kbit/s,delay=20ms,queue=200packets", "tcp", video(FrameChoice::Newest));
    setup.streams[0].tcp = Profile { send_buffer: 2800, ..Profile::linux_2_4() };
    let newest = video_of(&setup);
    let frames = newest.frames_sent.unwrap();
    // 10 s for frames of 1.53 and, with acknowledgements and headers of 40 bytes and a window that grows, somewhat more.
    assert!((5.0..=7.0).contains(&frames), "{newest:?}");
    assert_eq!(newest.frames_whole, Some(frames));
    // A frame is chosen when the one before is written: it is an interval old at most, waits for a buffer of 350 ms, and takes as long as from
    // one frame to the next.
    let most = newest.frame_gap_mean_ms.unwrap() + 400.0 + 350.0;
    assert!(newest.frame_delay_mean_ms.unwrap() < most, "{newest:?}");
    // In order, with a buffer of two packets, the last of 25 comes after more than a minute.
    setup.streams[0].content = video(FrameChoice::All);
    setup.duration = Duration::from_secs(150);
    let all = video_of(&setup);
    assert_eq!((all.frames_sent, all.frames_whole), (Some(25.0), Some(25.0)));
    assert!(all.frame_delay_mean_ms.unwrap() > 10_000.0, "{all:?}");
}

/// Congestion control lets out less than comes, and what is older than one interval is not sent.
#[test]
fn packets_of_a_frame_are_given_up_together_at_their_deadline() {
    let mut setup = over("rate=64kbit/s,delay=20ms,queue=200packets", "dccp", video(FrameChoice::All));
    setup.streams[0].patience = Some(ms(400));
    let figures = video_of(&setup);
    assert_eq!(figures.frames_sent, Some(25.0));
    assert!(figures.expired.unwrap() > 80.0, "{figures:?}");
    assert!(figures.frames_whole.unwrap() < 5.0, "{figures:?}");
}

/// Nine packets of 1428 bytes and less at 1 Mbit/s hold the line for 98.176 ms every 400 ms. Audio each 100 ms, of 100 bytes: those that
/// come meanwhile wait.
#[test]
fn gaps_of_a_stream_beside_a_video_are_told_apart() {
    let mut setup = over("rate=1Mbit/s,queue=200packets", "rtp", video(FrameChoice::All));
    setup.streams[0].start = ms(1_050);
    let content = Content::Packets { frame: 72, interval: ms(100), count: Some(120) };
    let audio = StreamSpec::new("audio", "rtp", [NodeId(0), NodeId(1)], content);
    setup.streams.push(StreamSpec { beside: Some("video".into()), ..audio });
    let audio = audio_of(&setup);
    assert_eq!((audio.received, audio.gaps_above_250ms), (Some(120.0), Some(0.0)));
    // A frame due at 50 ms of a hundred is through at 48.176 of the next: the audio due at 0 waits so long, and comes 0.8 ms
    // after it. So 25 gaps are 148.176 ms, and 25 after them 51.824; video is in the first ones alone.
    near(audio.gap_shared_ms, 148.176, 1e-6);
    near(audio.gap_unshared_ms, (69.0 * 100.0 + 25.0 * 51.824) / 94.0, 1e-6);
    // 25 of 120 come 48.176 ms late.
    near(audio.missed_50ms_percent, 0.0, 1e-9);
    near(audio.delay_max_ms, 48.976, 1e-6);
    // Looked at beside nothing, none of these is measured.
    setup.streams[1].beside = None;
    assert_eq!((audio_of(&setup).gap_shared_ms, audio_of(&setup).missed_50ms_percent), (None, None));
}

#[test]
fn impossible_videos_are_refused() {
    let refused = |change: &dyn Fn(&mut StreamSpec)| {
        let mut setup = over("rate=1Mbit/s", "rtp", video(FrameChoice::All));
        change(&mut setup.streams[0]);
        World::new(&setup, 1).err().expect("refused").to_string()
    };
    let layout = |frame, packet, interval, count| {
        Content::Video(VideoSpec {
            layout: VideoLayout { frame, packet, interval, count },
            choice: FrameChoice::All,
            streams: 1,
        })
    };
    assert!(refused(&|video| video.content = layout(1000, 100, Duration::ZERO, 5)).contains("such as 40ms"));
    assert!(refused(&|video| video.content = layout(1000, 0, ms(40), 5)).contains("RTP header"));
    assert!(refused(&|video| video.content = layout(1005, 100, ms(40), 5)).contains("RTP header"));
    assert!(refused(&|video| video.reflected = true).contains("not sent back"));
    assert!(refused(&|video| video.content = layout(1000, 100, ms(40), u64::MAX)).contains("packets"));
    assert!(refused(&|video| video.content = layout(usize::MAX, 12, ms(40), u64::MAX)).contains("packets"));
    assert!(refused(&|video| video.content = layout(9000, 9000, ms(40), 5)).contains("9000"));
    assert!(refused(&|video| video.beside = Some("audio".into())).contains("by its name"));
}

//! Video, and a stream that is looked at beside it.

use antiphon_measure::VideoLayout;

use super::*;
use crate::setup::{FrameChoice, VideoSpec};

const TEXT: &str = r#"
title = "Two streams"
duration = "10s"
[node.a]
[node.b]
[link.l]
between = ["a", "b"]
rate = "124kbit/s"
loss = "5%/before-queue"
[stream.audio]
transport = "rtp"
from = "a"
to = "b"
frame = "96B"
interval = "50ms"
beside = "video"
[stream.video]
transport = "sctp?streams=4"
from = "a"
to = "b"
patience = "400ms"
[stream.video.video]
frame = "12020B"
packet = "1400B"
interval = "400ms"
count = 209
choose = "newest"
streams = 4
"#;

fn changed(from: &str, to: &str) -> Result<Scenario, String> {
    Scenario::parse("t.toml", &TEXT.replace(from, to)).map_err(|error| error.to_string())
}

#[test]
fn a_video_is_read_and_a_stream_beside_it() {
    let setup = read(TEXT).setup(&[]).unwrap();
    let [audio, video] = &setup.streams[..] else { panic!("two streams") };
    assert_eq!(audio.beside.as_deref(), Some("video"));
    let layout =
        VideoLayout { frame: 12_020, packet: 1400, interval: Duration::from_millis(400), count: 209 };
    let expected = VideoSpec { layout, choice: FrameChoice::Newest, streams: 4 };
    assert_eq!((&video.content, &video.beside), (&Content::Video(expected), &None));
    let plain = changed("choose = \"newest\"\nstreams = 4\n", "").unwrap().setup(&[]).unwrap();
    let Content::Video(video) = plain.streams[1].content else { panic!("a video") };
    assert_eq!((video.choice, video.streams), (FrameChoice::All, 1));
}

#[test]
fn mistakes_in_a_video_name_the_remedy() {
    for (from, to, remedy) in [
        ("beside = \"video\"", "beside = \"vidio\"", "did you mean 'video'"),
        ("beside = \"video\"", "beside = \"audio\"", "which is no other stream"),
        ("choose = \"newest\"", "choose = \"oldest\"", "newest"),
        ("packet = \"1400B\"", "packet = \"4B\"", "RTP header of 12 bytes"),
        ("packet = \"1400B\"", "packet = \"1335B\"", "the last one has 5"),
        ("packet = \"1400B\"", "packet = \"9000B\"", "1472"),
        ("count = 209", "count = 0", "1 to"),
        ("streams = 4\n", "streams = 0\n", "1 to 1024"),
        ("frame = \"12020B\"", "frame = \"20MB\"", "10000000"),
        ("streams = 4\n", "streems = 4\n", "did you mean 'streams'"),
    ] {
        let said = changed(from, to).err().unwrap_or_else(|| panic!("{to} was accepted"));
        assert!(said.contains(remedy), "{to}: {said}");
    }
}

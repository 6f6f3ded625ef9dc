//! Pictures beside the sound of a session.

use antiphon_core::BitRate;
use antiphon_measure::VideoLayout;

use super::*;
use crate::setup::PicturesSpec;

const TEXT: &str = r#"
title = "A session"
duration = "100s"
[node.a]
[node.b]
[link.l]
between = ["a", "b"]
rate = "124kbit/s"
[stream.audio]
transport = "rtp"
from = "a"
to = "b"
beside = "video"
sound = { channels = 1, block = 2880, opus = "16kbit/s" }
[stream.audio.pictures]
name = "video"
start = "60s"
frame = "12020B"
packet = "668B"
interval = "400ms"
count = 209
"#;

fn changed(from: &str, to: &str) -> Result<Scenario, String> {
    Scenario::parse("t.toml", &TEXT.replace(from, to)).map_err(|error| error.to_string())
}

#[test]
fn pictures_are_read_beside_sound() {
    let setup = read(TEXT).setup(&[]).unwrap();
    let [audio] = &setup.streams[..] else { panic!("one stream") };
    let Content::Sound(sound) = audio.content else { panic!("sound") };
    assert_eq!((sound.opus, sound.block, sound.groups.channels()), (Some(BitRate(16_000)), 2880, 1));
    let layout = VideoLayout { frame: 12_020, packet: 668, interval: Duration::from_millis(400), count: 209 };
    let expected = PicturesSpec { name: "video".into(), start: Duration::from_secs(60), layout };
    assert_eq!((audio.pictures.as_ref(), audio.beside.as_deref()), (Some(&expected), Some("video")));
}

#[test]
fn mistakes_in_pictures_name_the_remedy() {
    for (from, to, remedy) in [
        ("name = \"video\"", "name = \"audio\"", "choose another name"),
        ("beside = \"video\"", "beside = \"vidio\"", "which is no other stream"),
        ("packet = \"668B\"", "packet = \"1429B\"", "1428"),
        ("start = \"60s\"", "start = \"101s\"", "0ms to 100s"),
        ("count = 209", "count = 0", "1 to"),
        ("count = 209", "count = 209\nstreams = 2", "streams"),
        (
            "sound = { channels = 1, block = 2880, opus = \"16kbit/s\" }",
            "frame = \"96B\"\ninterval = \"50ms\"",
            "beside sound",
        ),
    ] {
        let said = changed(from, to).err().unwrap_or_else(|| panic!("{to} was accepted"));
        assert!(said.contains(remedy), "{to}: {said}");
    }
}

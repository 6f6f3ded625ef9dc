//! Files with video of any kind of brokenness: opened, read to their end, sent in packets.
#![no_main]

use std::io::Cursor;

use antiphon_video::{FrameRate, OpenOptions, VideoPacketConfig, VideoPacketiser, VideoReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = OpenOptions { rate: Some(FrameRate { frames: 25, seconds: 1 }) };
    let Ok(mut reader) = VideoReader::open(Cursor::new(data.to_vec()), options) else { return };
    let config = VideoPacketConfig { max_packet: 200, ..VideoPacketConfig::new(reader.info().codec) };
    let mut packetiser = VideoPacketiser::new(config, 1).expect("a possible configuration");
    let mut buf = [0; 200];
    let mut frames = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.data.len() < 4 * data.len() + 4096, "a frame is made of what is there");
        assert!(frames > 0 || frame.picture.key);
        // A damaged frame may be refused.
        let _ = packetiser.packetise(&frame, &mut buf, |_, packet| assert!(packet.len() <= 200));
        frames += 1;
        if frames == 2_000 {
            break;
        }
    }
});

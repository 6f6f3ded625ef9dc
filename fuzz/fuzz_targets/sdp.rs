//! Session descriptions from files and announcements; what was understood is written and understood again.
#![no_main]

use antiphon_media::sap::Announcement;
use antiphon_media::{PtpClock, SdpOptions, StreamDescription, session_name};
use antiphon_video::VideoDescription;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(clock) = String::from_utf8_lossy(data).parse::<PtpClock>() {
        assert_eq!(clock.reference().parse(), Ok(clock));
    }
    // An announcement, or a description alone.
    let data = match Announcement::read(data) {
        Ok(announced) => {
            let written = announced.to_bytes();
            assert_eq!(Announcement::read(&written), Ok(announced));
            announced.description
        }
        Err(_) => data,
    };
    assert!(!session_name(data).chars().any(char::is_control));
    let options = SdpOptions {
        name: String::from_utf8_lossy(&data[..data.len().min(64)]).into_owned(),
        session_id: 1,
        origin: [127, 0, 0, 1].into(),
        ttl: 1,
    };
    if let Ok(video) = VideoDescription::from_sdp(data) {
        let again = VideoDescription::from_sdp(video.to_sdp(&options).as_bytes()).expect("our own SDP is read");
        assert_eq!((again.codec, again.payload_type, again.config), (video.codec, video.payload_type, video.config));
    }
    let Ok(description) = StreamDescription::from_sdp(data) else { return };
    let again =
        StreamDescription::from_sdp(description.to_sdp(&options).as_bytes()).expect("our own SDP is read");
    assert_eq!((again.format, again.coding), (description.format, description.coding));
    assert_eq!(again.payload_type, description.payload_type);
});

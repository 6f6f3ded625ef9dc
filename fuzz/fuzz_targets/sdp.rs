//! Session descriptions from files and announcements; what was understood is written and understood again.
#![no_main]

use antiphon_media::{SdpOptions, StreamDescription};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(description) = StreamDescription::from_sdp(data) else { return };
    let options = SdpOptions {
        name: String::from_utf8_lossy(&data[..data.len().min(64)]).into_owned(),
        session_id: 1,
        origin: [127, 0, 0, 1].into(),
        ttl: 1,
        reference_clock: None,
        media_clock: None,
    };
    let again =
        StreamDescription::from_sdp(description.to_sdp(&options).as_bytes()).expect("our own SDP is read");
    assert_eq!((again.format, again.sample), (description.format, description.sample));
    assert_eq!(again.payload_type, description.payload_type);
});

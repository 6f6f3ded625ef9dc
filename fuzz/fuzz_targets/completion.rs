//! Messages that complete a recording: stretches are in order, and a message that is understood is the same after being
//! written.
#![no_main]

use antiphon_media::completion::{Message, parse, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut seed = b"ANTC\x01".to_vec();
    seed.extend(bytes);
    for bytes in [bytes, &seed] {
        let Some(message) = parse(bytes) else { continue };
        if let Message::Ask { stretches, .. } = &message {
            assert!(stretches.windows(2).all(|two| two[0].end() <= two[1].at));
            assert!(stretches.len() <= bytes.len() / 2);
        }
        let mut written = Vec::new();
        write(&message, &mut written);
        assert_eq!(parse(&written).as_ref(), Some(&message));
    }
});

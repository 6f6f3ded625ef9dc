//! Sound files of any kind of brokenness: opened, decoded, and their WAV headers repaired.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use antiphon_media::Pull;
use antiphon_sound::{SourceSpec, repair};
use libfuzzer_sys::fuzz_target;

/// The opener takes files; memory serves as one.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| PathBuf::from(format!("/dev/shm/antiphon-fuzz-{}.wav", std::process::id())));

/// libFuzzer ends at every panic; one of the decoding library is caught by the opener and becomes an error.
fn forgive_the_library() {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|at| at.file().contains("symphonia")) {
            end(panic);
        }
    }));
}

fuzz_target!(init: forgive_the_library(), |data: &[u8]| {
    std::fs::write(&*FILE, data).expect("memory");
    let spec = SourceSpec::File { path: FILE.clone(), repeat: false, start: Duration::ZERO };
    if let Ok(mut opened) = spec.open() {
        let channels = opened.source.format().channels();
        let mut block = vec![0.0; 256 * channels];
        let (mut pulled, mut idle) = (0, 0);
        while pulled < 100_000 && idle < 1_000 {
            match opened.source.pull(&mut block) {
                Pull::Frames(frames) => {
                    assert!((1..=256).contains(&frames));
                    pulled += frames;
                }
                Pull::End => break,
                _ => {
                    idle += 1;
                    std::thread::yield_now();
                }
            }
        }
    }
    if let Ok(repaired) = repair(&*FILE) {
        let again = repair(&*FILE).expect("what was repaired is readable");
        assert!(!again.changed && again.frames == repaired.frames, "{repaired:?}, then {again:?}");
    }
});

//! Every fuzz target, for a few seconds, with inputs that repeat exactly.

#![allow(
    clippy::all,
    clippy::pedantic,
    unused_attributes,
    missing_docs,
    reason = "the targets are programs of their own"
)]

extern crate antiphon_fuzzing as libfuzzer_sys;

use std::path::Path;

macro_rules! targets {
    ($($name:ident $inputs:literal $path:literal)*) => {
        $(
            #[path = $path]
            mod $name;
        )*

        mod briefly {
            $(
                #[test]
                fn $name() {
                    antiphon_fuzzing::run(
                        stringify!($name),
                        super::$name::run,
                        &super::seeds(stringify!($name)),
                        $inputs,
                    );
                }
            )*
        }

        /// As the directory has them.
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

// As many inputs as take a second or two.
targets! {
    arq 30_000 "../../../fuzz/fuzz_targets/arq.rs"
    associations 30_000 "../../../fuzz/fuzz_targets/associations.rs"
    completion 200_000 "../../../fuzz/fuzz_targets/completion.rs"
    conference 5_000 "../../../fuzz/fuzz_targets/conference.rs"
    dccp 200_000 "../../../fuzz/fuzz_targets/dccp.rs"
    dissector 200_000 "../../../fuzz/fuzz_targets/dissector.rs"
    endpoint_commands 30_000 "../../../fuzz/fuzz_targets/endpoint_commands.rs"
    link_spec 200_000 "../../../fuzz/fuzz_targets/link_spec.rs"
    medusa 200_000 "../../../fuzz/fuzz_targets/medusa.rs"
    opus 5_000 "../../../fuzz/fuzz_targets/opus.rs"
    passport 200_000 "../../../fuzz/fuzz_targets/passport.rs"
    pull_push 200_000 "../../../fuzz/fuzz_targets/pull_push.rs"
    receipt 200_000 "../../../fuzz/fuzz_targets/receipt.rs"
    receiving 200_000 "../../../fuzz/fuzz_targets/receiving.rs"
    rfc4571 200_000 "../../../fuzz/fuzz_targets/rfc4571.rs"
    rtcp 200_000 "../../../fuzz/fuzz_targets/rtcp.rs"
    rtp 200_000 "../../../fuzz/fuzz_targets/rtp.rs"
    scenario 200_000 "../../../fuzz/fuzz_targets/scenario.rs"
    sctp 30_000 "../../../fuzz/fuzz_targets/sctp.rs"
    sdp 200_000 "../../../fuzz/fuzz_targets/sdp.rs"
    srp 200_000 "../../../fuzz/fuzz_targets/srp.rs"
    uri 200_000 "../../../fuzz/fuzz_targets/uri.rs"
    video_file 20_000 "../../../fuzz/fuzz_targets/video_file.rs"
    video_packets 100_000 "../../../fuzz/fuzz_targets/video_packets.rs"
    voice 200_000 "../../../fuzz/fuzz_targets/voice.rs"
    voice_port 5_000 "../../../fuzz/fuzz_targets/voice_port.rs"
    wav 30_000 "../../../fuzz/fuzz_targets/wav.rs"
    xtp 30_000 "../../../fuzz/fuzz_targets/xtp.rs"
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

#[test]
fn all_targets_are_run() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(directory).expect("the targets").map(|entry| entry.expect("a file").path());
    let mut names: Vec<String> =
        files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "ends");
    names.sort();
    assert_eq!(names, NAMES);
}

//! A program that changes the transport of its sound: the recording is what was sent, sample for sample.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon::media::Pull;
use antiphon::sound::open_source;
use antiphon_testkit::free_ports;

use crate::installed::{Installed, Kind};
use crate::program::Program;

const TIME: Duration = Duration::from_secs(120);
/// Noise: no two packets are alike, so that one in the wrong place is noticed.
const NOISE: &str = "tone:noise?seed=5&channels=2&format=l16&seconds=3s";

#[test]
fn sound_goes_from_rtp_over_to_tcp_and_is_complete() {
    goes_over(Kind::Shared, Installed::run, None);
}

#[test]
fn sound_whose_first_change_fails_is_complete() {
    let nobody = format!("tcp://127.0.0.1:{}", free_ports(1));
    goes_over(Kind::Shared, Installed::run, Some(&nobody));
}

#[test]
#[ignore = "the compiler's sanitisers slow programs down and need their libraries"]
fn the_sanitisers_find_nothing_in_changes() {
    goes_over(Kind::Sanitised, Installed::run, None);
}

#[test]
#[ignore = "needs valgrind (scripts/install-peers)"]
fn valgrind_finds_nothing_in_changes() {
    goes_over(Kind::Shared, Installed::run_watched, None);
}

/// `nobody`: a URI at which nothing listens, which is tried first.
fn goes_over(kind: Kind, run: impl Fn(&Installed, &Path) -> Command, nobody: Option<&str>) {
    let installed = Installed::get();
    let program = installed.compile("tests/c/change_transport.c", kind);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sink = directory.path().join("heard.wav");
    let (rtp, tcp) = (free_ports(1), free_ports(1));
    let mut command = run(installed, &program);
    command.arg(NOISE).arg(&sink);
    command.args([format!("rtp://127.0.0.1:{rtp}"), format!("tcp://@127.0.0.1:{tcp}")]);
    command.args([format!("rtp://127.0.0.1:{rtp}"), format!("tcp://127.0.0.1:{tcp}")]);
    let said = Program::start(command.args(nobody), TIME).succeeds();
    assert!(said.contains("the transport was changed"), "{said}");
    let (sent, heard) = (samples(NOISE), samples(&sink.display().to_string()));
    // 3 s of two channels at 48 kHz.
    assert_eq!((sent.len(), heard.len()), (288_000, 288_000));
    assert!(sent == heard, "the recording is not what was sent");
}

/// All samples of a source, as 16 bits hold them.
fn samples(source: &str) -> Vec<i16> {
    let mut source = open_source(source).expect("a source").source;
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 512]);
    loop {
        match source.pull(&mut block) {
            Pull::Frames(frames) => {
                let sixteen = |sample: &f32| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
                all.extend(block[..2 * frames].iter().map(sixteen));
            }
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return all,
        }
    }
}

//! The wall clock is set while a stream runs: libfaketime tells one of our programs another time of day, and leaves the clock of runs alone. The
//! kernel goes on stamping what comes with its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use antiphon::media::SampleFormat;
use antiphon_testkit::unless_held_up;

use crate::child::{Child, antiphon, free_ports, program};
use crate::common::HELD_UP;
use crate::sound::Sound;

/// The library that changes a program's clock, in the directory of this machine's libraries.
pub fn faketime() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").expect("a Linux system").flatten();
    let library = directories.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    library.into_iter().find(|path| path.exists()).expect("libfaketime, which scripts/install-peers brings")
}

/// Removes what libfaketime leaves behind of a program that has ended.
pub fn remove_left(id: u32) {
    for name in [format!("faketime_shm_{id}"), format!("sem.faketime_sem_{id}")] {
        let _is_there_only_with_another_clock = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// A wall clock that a test sets.
struct WallClock(PathBuf);

impl WallClock {
    /// One that is right, kept in a file.
    fn new(file: PathBuf) -> Self {
        let clock = WallClock(file);
        clock.set("+0");
        clock
    }

    /// How far it is off, in seconds with a sign.
    fn set(&self, off: &str) {
        // Whole at any time.
        let next = self.0.with_extension("next");
        std::fs::write(&next, off).expect("a temporary file");
        std::fs::rename(next, &self.0).expect("in the same directory");
        let date = || program("date +%s");
        let [theirs, ours] = [self.of(date()), date()].map(|mut date| {
            let text = Child::start(&mut date, DEADLINE).succeed().out;
            text.trim().parse::<i64>().expect("seconds since 1970")
        });
        let wanted: i64 = off.parse().expect("seconds");
        assert!((theirs - ours - wanted).abs() <= 2, "{} instead of {wanted}", theirs - ours);
    }

    fn of(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", &self.0);
        command.env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_CACHE_DURATION", "1");
        command
    }
}

/// The clock of the receiver is set an hour on and back, then that of the sender.
fn carry_while_clocks_are_set(sound: &Sound, directory: &Path) {
    let recording = directory.join("heard.wav");
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let clocks = ["receiver", "sender"].map(|whose| WallClock::new(directory.join(whose)));
    let mut receive = antiphon(["receive", &address, "--latency", "80ms", "--json"]);
    receive.arg(&recording);
    let mut receiver = Child::start(&mut clocks[0].of(receive), DEADLINE);
    receiver.wait_for("listening on");
    let send = antiphon(["send", &sound.uri(), &address, "--json"]);
    let sender = Child::start(&mut clocks[1].of(send), DEADLINE);
    let ids = [receiver.id(), sender.id()];
    // A program reads what its clock was set to within a second.
    for (played, clock, off) in [(1.0, 0, "+3600"), (2.5, 0, "+0"), (4.0, 1, "-3600"), (5.5, 1, "+0")] {
        receiver.wait_until_played(played);
        clocks[clock].set(off);
    }
    let (sent, received) = (sender.succeed().summary(), receiver.succeed().summary());
    ids.into_iter().for_each(remove_left);
    for count in ["lost", "late", "concealed"] {
        assert_eq!(received[count], 0, "{count}: {received} {sent}");
    }
    assert!(sound.read_wav(&recording) == sound.samples(), "something else was heard: {received}");
}

#[test]
#[ignore = "needs faketime; scripts/install-peers brings it"]
fn a_wall_clock_that_is_set_changes_no_sample() {
    let sound = Sound { sample: SampleFormat::L16, rate: 48_000, channels: 1, seconds: 8 };
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        carry_while_clocks_are_set(&sound, directory.path());
    });
}

/// Eight seconds of sound, and as much again for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

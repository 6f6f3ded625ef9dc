//! Receivers in the test's own process, and what they record.

#![allow(dead_code, unused_imports, reason = "each test uses what it needs")]

mod losing;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::media::Pull;
use antiphon::sound::open_source;
use antiphon::{Error, ReceiveOptions, ReceiveSummary, Stop, receive};
use antiphon_testkit::free_ports;
pub use losing::losing;

/// A machine that holds up a thread for so long may make sound late that is played 80 ms after it was captured, unless there is
/// something else to be said of it.
pub const HELD_UP: Duration = Duration::from_millis(20);

/// Noise of 16 bits: no two packets are alike, so that one in the wrong place is noticed.
pub const NOISE: &str = "tone:noise?seed=5&channels=2&format=l16";

/// A port on which nothing listens, for this test alone.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// A temporary directory of this test's own, empty: an earlier attempt may have left something.
pub fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("antiphon-{}-{name}", std::process::id()));
    if directory.exists() {
        std::fs::remove_dir_all(&directory).expect("our own directory");
    }
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    directory
}

/// The samples of a source in two channels, of at most so many sample frames, as a recording of 16 bits has them.
pub fn samples(source: &str, frames: usize) -> Vec<i16> {
    let sixteen_bits = |sample: &f32| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
    let (mut source, most) = (open_source(source).unwrap().source, frames.saturating_mul(2));
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 512]);
    while all.len() < most {
        match source.pull(&mut block) {
            Pull::Frames(n) => all.extend(block[..2 * n].iter().map(sixteen_bits)),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => break,
        }
    }
    all.truncate(most);
    all
}

/// All samples of a recording in two channels.
pub fn recorded(path: &Path) -> Vec<i16> {
    samples(&path.display().to_string(), usize::MAX)
}

/// A receiver that listens already, in the namespace of the calling thread.
pub fn listen(options: ReceiveOptions) -> JoinHandle<Result<ReceiveSummary, Error>> {
    let (listening, is_listening) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        receive(&options, &Stop::new(), &mut |sentence| drop(listening.send(sentence)), &mut |_| {})
    });
    is_listening.recv().expect("the receiver says that it listens");
    receiver
}

/// Of a clip as an ordinary player sees it: each click is heard when the picture is white. `sound`: what ffmpeg is to do with it.
pub fn assert_claps_in_step(film: &Path, sound: &[&str]) {
    let ffmpeg = |arguments: &[&str]| {
        let output = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-i"])
            .arg(film)
            .args(arguments)
            .arg("-")
            .output()
            .expect("ffmpeg runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    // A pixel for each picture, 25 a second from the beginning.
    let shades = ffmpeg(&["-map", "0:v", "-vf", "fps=25,scale=1:1", "-pix_fmt", "gray", "-f", "rawvideo"]);
    let heard = ffmpeg(&[&["-map", "0:a"], sound, &["-ac", "1", "-ar", "48000", "-f", "s16le"]].concat());
    let heard: Vec<i16> = heard.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let claps: Vec<f64> =
        shades.iter().enumerate().filter(|(_, shade)| **shade > 230).map(|(n, _)| n as f64 / 25.0).collect();
    assert!(claps.len() >= 2, "white pictures at {claps:?}");
    for clap in claps {
        // The click is the loudest there.
        let near = |at: usize| (at as f64 / 48_000.0 - clap).abs() < 0.2;
        let click = (0..heard.len()).filter(|at| near(*at)).max_by_key(|at| heard[*at].unsigned_abs());
        let at = click.expect("sound beside the picture") as f64 / 48_000.0;
        assert!((-0.02..0.045).contains(&(at - clap)), "white at {clap}, click at {at}");
    }
}

//! Programs that play, where they are, and with which arguments they do it with little delay.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::OpenError;

/// A player that is known by its name.
#[derive(Debug)]
pub(super) struct Known {
    pub name: &'static str,
    arguments: &'static [&'static str],
    /// Its exit code when a signal ended it.
    interrupted: i32,
}

/// The known players, the preferred one first. `docs/video.md` says what the arguments are for.
///
/// mpv: its profile `low-latency`, without what reads ahead, and with 50 ms of sound where the profile has none and stutters
/// (mpv's manual and its `etc/builtin.conf`; exit code 4: its manual, "Exit codes"). ffplay: FFmpeg's manuals of formats and codecs,
/// but without `-fflags nobuffer`, with which what is probed is lost: the first key frame, so that pictures begin 2 s late; exit code 123: its handler of signals in `fftools/ffplay.c`.
pub(super) const KNOWN: [Known; 2] = [
    Known {
        name: "mpv",
        arguments: &[
            "--keep-open=no",
            "--idle=no",
            "--profile=low-latency",
            "--cache=no",
            "--demuxer-readahead-secs=0",
            "--audio-buffer=0.05",
            "--force-window=yes",
            "--title=antiphon",
            "--quiet",
            "--msg-level=all=error",
            "-",
        ],
        interrupted: 4,
    },
    Known {
        name: "ffplay",
        arguments: &[
            "-hide_banner",
            "-loglevel",
            "error",
            "-nostats",
            "-autoexit",
            "-window_title",
            "antiphon",
            "-flags",
            "low_delay",
            "-f",
            "matroska",
            "-probesize",
            "32",
            "-analyzeduration",
            "0",
            "-i",
            "-",
        ],
        interrupted: 123,
    },
];

/// What windows are called: no other argument ends with it.
const TITLE: &str = "antiphon";

/// A program, and how it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: &'static [&'static str],
    interrupted: Option<i32>,
}

impl Program {
    /// A program at this path. One of a known name gets the same arguments, another none.
    pub(super) fn at(path: &Path) -> Result<Self, OpenError> {
        if path.is_dir() {
            return Err(OpenError::Directory { path: path.into() });
        }
        if let Err(error) = path.metadata() {
            return Err(OpenError::io(path, "starting", &error));
        }
        if !is_program(path) {
            return Err(OpenError::refused(
                format!("{} is no program that may be started", path.display()),
                "make it one (chmod +x), or name another",
            ));
        }
        let known = KNOWN.iter().find(|known| path.file_name() == Some(OsStr::new(&file_name(known))));
        Ok(Program {
            path: path.into(),
            arguments: known.map_or(&[], |known| known.arguments),
            interrupted: known.map(|known| known.interrupted),
        })
    }

    /// What it is started with, with a title of its window if it can have one.
    pub(super) fn arguments_for(&self, title: Option<&str>) -> Vec<String> {
        let with_title = |argument: &&str| match title.filter(|_| argument.ends_with(TITLE)) {
            Some(title) => format!("{argument}: {title}"),
            None => argument.to_string(),
        };
        self.arguments.iter().map(with_title).collect()
    }

    /// The path as a name in messages.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether a player that ended so was closed by its user.
    pub(super) fn was_closed(&self, status: ExitStatus) -> bool {
        status.success()
            || self.interrupted.is_some() && status.code() == self.interrupted
            || was_asked_to_end(status)
    }
}

#[cfg(unix)]
fn was_asked_to_end(status: ExitStatus) -> bool {
    use nix::libc::{SIGHUP, SIGINT, SIGTERM};
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGTERM].contains(&signal))
}

#[cfg(windows)]
fn was_asked_to_end(status: ExitStatus) -> bool {
    // Closed with its console, or by Ctrl-C (STATUS_CONTROL_C_EXIT).
    status.code() == Some(0xC000_013A_u32 as i32)
}

/// The name of its file, on Windows with `.exe`.
fn file_name(known: &Known) -> String {
    format!("{}{}", known.name, std::env::consts::EXE_SUFFIX)
}

/// The first one in the folders of `path`.
pub(super) fn find(known: &Known, path: &OsStr) -> Option<Program> {
    let places = std::env::split_paths(path).map(|folder| folder.join(file_name(known)));
    places.filter(|place| is_program(place)).find_map(|place| Program::at(&place).ok())
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Windows tells only when it is started whether a file is one.
#[cfg(windows)]
fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file())
}

//! Information from the operating system: the time, the kind of standard input and output, and the size of a pipe.
//!
//! A pipe holds 64 KiB, 0.34 s of 16-bit stereo at 48 kHz, which adds delay: the pipe is reduced to two blocks.

use std::fs::File;
use std::io;

use antiphon_core::Instant;
use antiphon_media::StreamFormat;

/// The time since now. Used only by the thread that reads a pipe, to detect a live source by its pace.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "whether a pipe gives as much sound as time passes can't be counted in sample frames"
)]
pub(crate) fn clock() -> Box<dyn Fn() -> Instant + Send> {
    let start = std::time::Instant::now();
    Box::new(move || Instant::ZERO + start.elapsed())
}

/// Microseconds since it was made, on any thread: when a sound card took or gave sound.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The system's.
    #[allow(
        clippy::disallowed_types,
        reason = "where a device is within its period is told by the time that has passed"
    )]
    System(std::time::Instant),
    /// A test's.
    #[cfg(test)]
    Test(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

impl Clock {
    /// Begins now.
    #[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "see `Clock::System`")]
    pub fn new() -> Self {
        Clock::System(std::time::Instant::now())
    }

    /// Microseconds since its beginning.
    pub fn micros(&self) -> u64 {
        match self {
            Clock::System(start) => start.elapsed().as_micros() as u64,
            #[cfg(test)]
            Clock::Test(micros) => micros.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// Standard input as bytes, without the buffer of [`io::Stdin`].
pub(crate) fn stdin() -> io::Result<File> {
    copy_of(io::stdin())
}

/// Standard output as bytes, without the line buffering of [`io::Stdout`].
pub(crate) fn stdout() -> io::Result<File> {
    copy_of(io::stdout())
}

#[cfg(unix)]
fn copy_of(stream: impl std::os::fd::AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn copy_of(stream: impl std::os::windows::io::AsHandle) -> io::Result<File> {
    stream.as_handle().try_clone_to_owned().map(File::from)
}

/// What is written to a program's standard input.
pub(crate) fn input_of(child: std::process::ChildStdin) -> File {
    #[cfg(unix)]
    let owned = std::os::fd::OwnedFd::from(child);
    #[cfg(windows)]
    let owned = std::os::windows::io::OwnedHandle::from(child);
    File::from(owned)
}

/// Whether a clock or a listener may be at its other end: pipes, sockets, devices. A regular file has neither.
#[cfg(unix)]
pub(crate) fn is_stream(file: &File) -> bool {
    file.metadata().is_ok_and(|data| !data.is_file())
}

/// Whether a clock or a listener may be at its other end: pipes, sockets, devices. A regular file has neither.
#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not tell the kind of what is no file")]
pub(crate) fn is_stream(file: &File) -> bool {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_DISK, GetFileType};
    // SAFETY: the handle is open as long as the file.
    unsafe { GetFileType(file.as_raw_handle()) != FILE_TYPE_DISK }
}

/// Bytes that a pipe of such sound should hold, with `sample` bytes per sample: two blocks of the usual 256 sample
/// frames, but at least a page, the minimum in Linux (pipe(7)).
pub(crate) fn pipe_bytes(stream: StreamFormat, sample: usize) -> usize {
    (2 * 256 * sample * stream.channels()).max(4096)
}

/// Reduces a pipe that holds more to `bytes`, rounded up to pages. No effect on other files, while the pipe contains
/// more than that, or on systems without support.
#[cfg(target_os = "linux")]
pub(crate) fn shorten_pipe(pipe: &File, bytes: usize) {
    use nix::fcntl::{FcntlArg, fcntl};
    let Ok(holds) = fcntl(pipe, FcntlArg::F_GETPIPE_SZ) else {
        return;
    };
    if let Ok(bytes) = i32::try_from(bytes)
        && bytes < holds
    {
        // A pipe that contains more refuses; the sound in it is only a delay, not an error.
        let _still_full = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(bytes));
    }
}

/// Only Linux lets a program set the size of a pipe.
#[cfg(not(target_os = "linux"))]
pub(crate) fn shorten_pipe(_pipe: &File, _bytes: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use nix::fcntl::{FcntlArg, fcntl};

    #[test]
    fn an_empty_pipe_is_shortened_and_never_lengthened() {
        let (reader, mut writer) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(reader));
        let holds = || fcntl(&file, FcntlArg::F_GETPIPE_SZ).unwrap();
        writer.write_all(&[0; 10_000]).unwrap();
        let before = holds();
        shorten_pipe(&file, 4096);
        assert_eq!(holds(), before, "more is in it");
        shorten_pipe(&file, 16_384);
        shorten_pipe(&file, 65_536);
        assert_eq!(holds(), 16_384);
        assert!(is_stream(&file) && !is_stream(&File::open("/proc/self/exe").unwrap()));
        assert!(!is_stream(&tempfile::tempfile().unwrap()) && is_stream(&File::open("/dev/null").unwrap()));
    }

    #[test]
    fn a_pipe_holds_two_blocks_or_a_page() {
        let bytes = |channels, sample| pipe_bytes(StreamFormat::new(48_000, channels).unwrap(), sample);
        assert_eq!((bytes(1, 1), bytes(2, 2), bytes(8, 4)), (4096, 4096, 16_384));
    }
}

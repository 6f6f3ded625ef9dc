//! A passport written while the stream runs: the media thread copies what passes into a bounded queue, a thread of its
//! own makes lines of it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_session::{Passing, Witness};

use super::{PassportFile, Writer, incomplete};
use crate::Error;

/// Turns what passes into lines.
pub(crate) trait Scribe: Send + 'static {
    /// Takes note of something that passed.
    fn note(&mut self, passing: Passing, writer: &mut Writer) -> io::Result<()>;

    /// Writes what it still holds.
    fn finish(&mut self, writer: &mut Writer) -> io::Result<()>;
}

/// A passport under way.
pub(crate) struct Recorder {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Recorded>>>,
}

/// What a finished passport holds.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    packets: u64,
    unrecorded: u64,
}

impl Recorder {
    /// Lets `scribe` write into `file`; what the witness is told reaches it.
    pub fn start(file: PassportFile, scribe: impl Scribe) -> Result<(Self, Witness), Error> {
        let (mut ring, passing) = rtrb::RingBuffer::new(QUEUE);
        let (ended, missed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let path = file.path.clone();
        let work =
            Work { passing, writer: file.writer, scribe, ended: ended.clone(), missed: missed.clone() };
        let thread = std::thread::Builder::new()
            .name("passport".into())
            .spawn(move || work.run())
            .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
        let witness = move |passing| {
            if ring.push(passing).is_err() {
                missed.fetch_add(1, Ordering::Relaxed);
            }
        };
        Ok((Recorder { path, ended, thread: Some(thread) }, Box::new(witness)))
    }

    /// Writes what was told, and the last line; answers a sentence for the user.
    pub fn finish(mut self) -> String {
        match self.join() {
            Some(Ok(Recorded { packets, unrecorded: 0 })) => {
                format!("the passport '{}' has {packets} packets", self.path.display())
            }
            Some(Ok(Recorded { packets, unrecorded })) => format!(
                "the passport '{}' has {packets} packets and lacks {unrecorded}: the disk or this machine is too slow",
                self.path.display()
            ),
            Some(Err(error)) => incomplete(&self.path, &error),
            None => String::new(),
        }
    }

    fn join(&mut self) -> Option<io::Result<Recorded>> {
        self.ended.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        Some(thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked"))))
    }
}

impl Drop for Recorder {
    /// A stream that ended in error keeps what was recorded of it.
    fn drop(&mut self) {
        let _the_error_of_the_stream_is_told = self.join();
    }
}

struct Work<S> {
    passing: rtrb::Consumer<Passing>,
    writer: Writer,
    scribe: S,
    ended: Arc<AtomicBool>,
    missed: Arc<AtomicU64>,
}

impl<S: Scribe> Work<S> {
    fn run(mut self) -> io::Result<Recorded> {
        loop {
            // Asked before the queue is emptied, so that nothing told before the end is left.
            let ended = self.ended.load(Ordering::Acquire);
            let mut told = false;
            while let Ok(passing) = self.passing.pop() {
                self.scribe.note(passing, &mut self.writer)?;
                told = true;
            }
            if ended {
                break;
            }
            if told {
                self.writer.flush()?;
            }
            std::thread::park_timeout(ROUND);
        }
        self.scribe.finish(&mut self.writer)?;
        let unrecorded = self.missed.load(Ordering::Relaxed);
        self.writer.count_unrecorded(unrecorded);
        let packets = self.writer.packets();
        self.writer.finish()?;
        Ok(Recorded { packets, unrecorded })
    }
}

/// Packets between the media thread and the disk: 20 s of 1.3 ms blocks, should the disk stall; 3 MB.
const QUEUE: usize = 1 << 16;
/// How often the queue is looked at.
const ROUND: Duration = Duration::from_millis(50);

/// What a scribe makes of what passes, read back.
#[cfg(test)]
pub(super) fn written(scribe: impl Scribe, passing: &[Passing]) -> antiphon_trace::Passport {
    use std::sync::atomic::AtomicU32;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("antiphon-scribe-{}-{number}", std::process::id()));
    let mut scribe = scribe;
    let mut file = PassportFile::create(&path, "test", 1).unwrap();
    for one in passing {
        scribe.note(*one, &mut file.writer).unwrap();
    }
    scribe.finish(&mut file.writer).unwrap();
    file.writer.finish().unwrap();
    let passport = antiphon_trace::Passport::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    passport
}

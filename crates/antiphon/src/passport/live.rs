//! A passport written while the stream runs: the media thread copies events into a bounded queue; a thread of its own
//! formats and writes them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{Instant, NtpTime, Outcome};
use antiphon_session::{Observer, Seen};

use super::{PassportFile, Writer, incomplete};
use crate::Error;
use crate::run::spawn;

/// An event for a passport. Of a stream of several channel groups only the first group's packets, whose numbers are
/// consecutive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum PacketEvent {
    /// The packets that follow are of another sender, or of one that restarted; time stamps count in Hz.
    Began { rate: u32 },
    /// A packet of the stream came, perhaps not for the first time.
    Arrived { sequence: u16, timestamp: u32, ntp: Option<NtpTime>, at: Instant, len: usize },
    /// A packet was handed to the transport, which took it.
    Sent { number: u64, at: Instant, len: usize },
    /// The transport said what became of it.
    Outcome { number: u64, at: Instant, outcome: Outcome },
}

impl PacketEvent {
    fn of(now: Instant, seen: &Seen) -> Option<Self> {
        Some(match *seen {
            Seen::Began { rate } => PacketEvent::Began { rate },
            Seen::Arrived(packet) if packet.group == 0 => PacketEvent::Arrived {
                sequence: packet.sequence,
                timestamp: packet.timestamp,
                ntp: packet.ntp,
                at: packet.at,
                len: packet.len,
            },
            Seen::Sent(sent) if sent.result.is_ok() => {
                PacketEvent::Sent { number: sent.number, at: now, len: sent.len }
            }
            Seen::Outcome { number, outcome } => PacketEvent::Outcome { number, at: now, outcome },
            Seen::Arrived(_)
            | Seen::Sent(_)
            | Seen::Broken { .. }
            | Seen::PictureSent(_)
            | Seen::PictureArrived { .. } => return None,
        })
    }
}

/// Turns events into lines.
pub(crate) trait Scribe: Send + 'static {
    /// Records an event.
    fn note(&mut self, passing: PacketEvent, writer: &mut Writer) -> io::Result<()>;

    /// Writes what it still holds.
    fn finish(&mut self, writer: &mut Writer) -> io::Result<()>;
}

/// A passport being written.
pub(crate) struct Recorder {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Recorded>>>,
}

/// Summary of a finished passport.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    packets: u64,
    unrecorded: u64,
}

impl Recorder {
    /// Starts the thread in which `scribe` writes into `file` what the returned observer receives.
    pub fn start(file: PassportFile, scribe: impl Scribe) -> Result<(Self, Box<dyn Observer>), Error> {
        let (mut ring, passing) = rtrb::RingBuffer::new(QUEUE);
        let (ended, missed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let path = file.path.clone();
        let work =
            Work { passing, writer: file.writer, scribe, ended: ended.clone(), missed: missed.clone() };
        let thread = spawn("passport", move || work.run())?;
        let observer = move |now: Instant, seen: &Seen| {
            if PacketEvent::of(now, seen).is_some_and(|passing| ring.push(passing).is_err()) {
                missed.fetch_add(1, Ordering::Relaxed);
            }
        };
        Ok((Recorder { path, ended, thread: Some(thread) }, Box::new(observer)))
    }

    /// Writes what is queued, and the last line; returns a sentence for the user.
    pub fn finish(mut self) -> String {
        match self.join() {
            Some(Ok(Recorded { packets, unrecorded: 0 })) => {
                format!("the passport '{}' has {packets} packets", self.path.display())
            }
            Some(Ok(Recorded { packets, unrecorded })) => format!(
                "the passport '{}' has {packets} packets; {unrecorded} are missing because the disk or this machine is too slow",
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
        Some(thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed (panic)"))))
    }
}

impl Drop for Recorder {
    /// After an error, the file keeps what was recorded.
    fn drop(&mut self) {
        let _the_error_of_the_stream_is_told = self.join();
    }
}

struct Work<S> {
    passing: rtrb::Consumer<PacketEvent>,
    writer: Writer,
    scribe: S,
    ended: Arc<AtomicBool>,
    missed: Arc<AtomicU64>,
}

impl<S: Scribe> Work<S> {
    fn run(mut self) -> io::Result<Recorded> {
        loop {
            // Read before the queue is emptied, so that no event from before the end is left in it.
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
/// How often the queue is emptied.
const ROUND: Duration = Duration::from_millis(50);

/// The lines that a scribe makes of events, read back.
#[cfg(test)]
pub(super) fn written(scribe: impl Scribe, passing: &[PacketEvent]) -> antiphon_trace::Passport {
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

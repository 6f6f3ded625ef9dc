//! A sink whose samples are written on a separate thread: the media thread only copies them into a bounded ring. The
//! writer polls the ring, which is enough for a disk; if a listener may be at the other end of a pipe, each push wakes
//! it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::deposit::Deposit;
use crate::stream::{REST, ring_samples, start_thread};
use crate::{Notes, OpenError};

/// How long [`Sink::finish`] waits without progress: then the disk or the pipe's reader hangs, and a program that was
/// asked to end must end.
const STALL: Duration = Duration::from_secs(5);

/// Samples taken out of the ring at once.
const CHUNK: usize = 16 * 1024;

/// Of a live sink: sound that may wait, in parts of a second, and what is kept of it when more waits.
const MOST_WAITING: usize = 5;
const KEPT_WAITING: usize = 50;

/// Gaps that wait to be written at most.
const MOST_GAPS: usize = 256;

/// Silence between the samples of the ring.
struct Gap {
    /// Samples that were put into the ring before it, in all.
    after: u64,
    frames: u64,
}

/// What a sink does with sound that cannot be written in time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It keeps it.
    Whole,
    /// It leaves it out.
    Live,
}

/// State shared by both threads.
#[derive(Default)]
struct Shared {
    finishing: AtomicBool,
    failed: AtomicBool,
    written: AtomicU64,
    /// Sample frames that a live sink left out, as they were old.
    skipped: AtomicU64,
    cause: Mutex<Option<String>>,
}

/// The part on the media thread.
pub(crate) struct RecordSink {
    ring: Producer<f32>,
    gaps: Producer<Gap>,
    /// Samples put into the ring.
    pushed: u64,
    stream: StreamFormat,
    /// Sample frames that found no room. They are replaced by silence as soon as there is room, so that later sound
    /// keeps its place in time.
    owed: u64,
    dropped: u64,
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
    /// Whether each push wakes the writer.
    prompt: bool,
    ended: Receiver<()>,
    name: String,
    notes: Notes,
    stall: Duration,
}

impl RecordSink {
    /// Starts writing into `deposit`, called `name` in messages.
    pub fn start(
        deposit: Box<dyn Deposit>,
        stream: StreamFormat,
        name: &str,
        notes: &Notes,
    ) -> Result<Self, OpenError> {
        Self::start_as(Kind::Whole, deposit, stream, name, notes)
    }

    /// The same for a listener: what he could not be given in time is left out, as all that comes after it would be late.
    pub fn start_live(
        deposit: Box<dyn Deposit>,
        stream: StreamFormat,
        name: &str,
        notes: &Notes,
    ) -> Result<Self, OpenError> {
        Self::start_as(Kind::Live, deposit, stream, name, notes).map(RecordSink::prompt)
    }

    fn start_as(
        kind: Kind,
        deposit: Box<dyn Deposit>,
        stream: StreamFormat,
        name: &str,
        notes: &Notes,
    ) -> Result<Self, OpenError> {
        let (ring, samples) = RingBuffer::new(ring_samples(stream));
        let (gaps, waiting) = RingBuffer::new(MOST_GAPS);
        let shared = Arc::new(Shared::default());
        let (ending, ended) = mpsc::channel();
        let mut writer = Writer {
            ring: samples,
            gaps: waiting,
            taken: 0,
            kind,
            deposit,
            shared: shared.clone(),
            stream,
            chunk: vec![0.0; CHUNK / stream.channels() * stream.channels()],
            name: name.into(),
            _ending: ending,
        };
        let writer = start_thread("sound-write", move || writer.run())?;
        Ok(RecordSink {
            ring,
            gaps,
            pushed: 0,
            stream,
            owed: 0,
            dropped: 0,
            shared,
            writer,
            prompt: false,
            ended,
            name: name.into(),
            notes: notes.clone(),
            stall: STALL,
        })
    }

    /// Lets every push be written at once, for pipes with listeners. Costs at most one system call per push, and none
    /// while the writer is running.
    pub fn prompt(mut self) -> Self {
        self.prompt = true;
        self
    }

    /// Writes `owed` sample frames of silence, as many as there is room for.
    fn pay(&mut self) {
        let channels = self.stream.channels();
        let frames = (self.ring.slots() / channels).min(usize::try_from(self.owed).unwrap_or(usize::MAX));
        if let Ok(mut chunk) = self.ring.write_chunk(frames * channels) {
            let (first, second) = chunk.as_mut_slices();
            first.fill(0.0);
            second.fill(0.0);
            chunk.commit_all();
            self.owed -= frames as u64;
            self.pushed += (frames * channels) as u64;
        }
    }

    fn wait(&self) -> Result<(), SinkError> {
        let mut before = u64::MAX;
        loop {
            match self.ended.recv_timeout(self.stall) {
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.shared.written.load(Ordering::Relaxed);
                    if now == before {
                        let name = &self.name;
                        return Err(SinkError::Cause(format!(
                            "{name} accepts no more data; {now} sample frames were written"
                        )));
                    }
                    before = now;
                }
                _ => return Ok(()),
            }
        }
    }
}

impl Sink for RecordSink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(SinkError::Failed);
        }
        if self.owed > 0 {
            self.pay();
        }
        let channels = self.stream.channels();
        let frames = block.len() / channels;
        let taken = self.owed == 0 && self.ring.push_entire_slice(&block[..frames * channels]).is_ok();
        if self.prompt {
            self.writer.thread().unpark();
        }
        if taken {
            self.pushed += (frames * channels) as u64;
            return Ok(());
        }
        self.owed += frames as u64;
        self.dropped += frames as u64;
        Err(SinkError::Overrun { dropped: frames })
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        if self.owed > 0 || self.gaps.is_full() { 0 } else { self.ring.slots() / self.stream.channels() }
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(SinkError::Failed);
        }
        let gap = Gap { after: self.pushed, frames };
        if self.owed > 0 || self.gaps.push(gap).is_err() {
            // It keeps its place, and is written as silence is that stands for what found no room.
            self.owed += frames;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.shared.finishing.store(true, Ordering::Release);
        self.writer.thread().unpark();
        self.wait()?;
        let skipped = self.shared.skipped.load(Ordering::Relaxed);
        if skipped > 0 {
            self.notes.add(format!(
                "{}: {skipped} sample frames were left out, as they were not taken in time",
                self.name
            ));
        } else if self.dropped > 0 {
            self.notes.add(format!(
                "{}: {} sample frames could not be written fast enough and are silent in the recording",
                self.name, self.dropped
            ));
        }
        match self.shared.cause.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(cause) => Err(SinkError::Cause(cause)),
            None => Ok(()),
        }
    }
}

impl Drop for RecordSink {
    fn drop(&mut self) {
        // Without finish (a panic, an early return) the writer still closes the file: it sees the abandoned ring.
        self.writer.thread().unpark();
    }
}

/// The part on the writing thread.
struct Writer {
    ring: Consumer<f32>,
    gaps: Consumer<Gap>,
    /// Samples taken out of the ring.
    taken: u64,
    kind: Kind,
    deposit: Box<dyn Deposit>,
    shared: Arc<Shared>,
    stream: StreamFormat,
    chunk: Vec<f32>,
    name: String,
    /// Dropped with the thread, which ends the wait in [`RecordSink::wait`].
    _ending: mpsc::Sender<()>,
}

impl Writer {
    fn run(&mut self) {
        let stored = self.store_all();
        let closed = self.deposit.close();
        if let Err(error) = stored.and(closed) {
            let cause = self.explain(&error);
            *self.shared.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
            self.shared.failed.store(true, Ordering::Relaxed);
        }
    }

    fn store_all(&mut self) -> io::Result<()> {
        loop {
            // Checked before the ring: then everything that was pushed before the end is seen.
            let ending = self.shared.finishing.load(Ordering::Acquire) || self.ring.is_abandoned();
            // A gap is put into its ring before the samples that follow it: those that are seen here have been preceded by it.
            let room = self.ring.slots();
            let gap = self.gaps.peek().ok().map(|gap| (gap.after - self.taken, gap.frames));
            if let Some((0, frames)) = gap {
                let _taken_as_it_is_written = self.gaps.pop();
                self.write_silence(frames)?;
                continue;
            }
            let until = gap.map_or(usize::MAX, |(samples, _)| usize::try_from(samples).unwrap_or(usize::MAX));
            if self.kind == Kind::Live && !ending && self.skip_old(until.min(room))? {
                continue;
            }
            let most = self.chunk.len().min(until).min(room);
            let (samples, _) = self.ring.pop_partial_slice(&mut self.chunk[..most]);
            if !samples.is_empty() {
                let frames = samples.len() / self.stream.channels();
                self.taken += samples.len() as u64;
                self.deposit.store(samples)?;
                self.shared.written.fetch_add(frames as u64, Ordering::Relaxed);
            } else if ending {
                return Ok(());
            } else {
                self.deposit.checkpoint()?;
                thread::park_timeout(REST);
            }
        }
    }

    /// Of sound that waits for longer than a moment keeps the newest. Returns whether there was any.
    fn skip_old(&mut self, waiting: usize) -> io::Result<bool> {
        let (channels, rate) = (self.stream.channels(), self.stream.rate() as usize);
        if waiting <= rate / MOST_WAITING * channels {
            return Ok(false);
        }
        let frames = waiting / channels - rate / KEPT_WAITING;
        let old = self.ring.read_chunk(frames * channels).map_err(io::Error::other)?;
        old.commit_all();
        self.taken += (frames * channels) as u64;
        self.deposit.skip(frames as u64)?;
        self.shared.skipped.fetch_add(frames as u64, Ordering::Relaxed);
        self.shared.written.fetch_add(frames as u64, Ordering::Relaxed);
        Ok(true)
    }

    fn write_silence(&mut self, mut frames: u64) -> io::Result<()> {
        self.chunk.fill(0.0);
        let channels = self.stream.channels();
        while frames > 0 {
            let part = usize::try_from(frames).unwrap_or(usize::MAX).min(self.chunk.len() / channels);
            self.deposit.store(&self.chunk[..part * channels])?;
            self.shared.written.fetch_add(part as u64, Ordering::Relaxed);
            frames -= part as u64;
        }
        Ok(())
    }

    /// What happened and how much was saved, as a message for the user.
    fn explain(&self, error: &io::Error) -> String {
        let (name, bytes) = (&self.name, self.deposit.bytes());
        let frames = bytes / self.deposit.frame_bytes();
        let seconds = frames as f64 / f64::from(self.stream.rate());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                format!(
                    "{name}: no space left after {bytes} bytes of sound ({seconds:.1} s); \
                 these stay readable: free some space or record elsewhere ({error})"
                )
            }
            io::ErrorKind::BrokenPipe => {
                format!(
                    "{name}: the program reading it has ended, after {frames} sample frames ({seconds:.1} s)"
                )
            }
            _ => format!("{name}: {error}, after {bytes} bytes of sound ({seconds:.1} s)"),
        }
    }
}

#[cfg(test)]
mod tests;

//! What a live source gives while the recording cannot be reached, and memory has no room for: a file of fixed size, used as
//! a ring of records, written and read on a thread of its own.

mod file;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use antiphon_session::{RECORD_HEADER, Spool, Stored};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::run::spawn;
use crate::{Error, MissingSound};

/// Where sound waits that memory has no room for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SpoolPlace {
    /// In a file in the user's cache directory.
    #[default]
    Default,
    /// In a file in this directory.
    In(PathBuf),
    /// Nowhere: it is dropped.
    Off,
}

impl SpoolPlace {
    /// The directory, if there is to be a spool.
    fn directory(&self) -> Option<PathBuf> {
        match self {
            SpoolPlace::Off => None,
            SpoolPlace::In(directory) => Some(directory.clone()),
            SpoolPlace::Default => {
                let set =
                    |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
                let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
                Some(cache.map_or_else(std::env::temp_dir, |cache| cache.join("antiphon")))
            }
        }
    }

    /// Whether a spool can be made there.
    ///
    /// # Errors
    ///
    /// With the remedy, if not. The default place is only tried when it is needed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            SpoolPlace::In(directory) => create(directory).map(drop),
            SpoolPlace::Default | SpoolPlace::Off => Ok(()),
        }
    }
}

/// The file, which is gone with the program, however that ends.
fn create(directory: &Path) -> Result<File, Error> {
    let failed = |error: io::Error| {
        Error::usage(format!(
            "cannot keep sound in '{}': {error}; choose a directory with --spool DIR, or --spool off",
            directory.display()
        ))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let path = directory.join(format!("spool-{}-{:x}", std::process::id(), crate::transport::unguessable()));
    file::create(&path).map_err(failed)
}

/// What both threads share.
#[derive(Default)]
struct Shared {
    /// Messages put and neither taken nor dropped.
    waiting: AtomicU64,
}

/// The part on the media thread.
struct FileSpool {
    to_file: Producer<u8>,
    from_file: Consumer<u8>,
    shared: Arc<Shared>,
    record: usize,
    scratch: Vec<u8>,
    thread: Thread,
    /// Says that a message had no room even on its way to the file.
    overrun: mpsc::SyncSender<Stored>,
}

impl Spool for FileSpool {
    fn put(&mut self, stored: &Stored, bytes: &[u8]) {
        let mut header = [0; RECORD_HEADER];
        stored.write(&mut header);
        self.scratch.fill(0);
        self.scratch[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.scratch[4..4 + RECORD_HEADER].copy_from_slice(&header);
        self.scratch[4 + RECORD_HEADER..][..bytes.len()].copy_from_slice(bytes);
        if self.to_file.push_entire_slice(&self.scratch).is_ok() {
            self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        } else {
            let _the_thread_has_ended = self.overrun.try_send(*stored);
        }
        self.thread.unpark();
    }

    fn take(&mut self, buf: &mut [u8]) -> Option<(Stored, usize)> {
        if self.from_file.slots() < self.record {
            self.thread.unpark();
            return None;
        }
        self.from_file.pop_entire_slice(&mut self.scratch).ok()?;
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        let (len, rest) = self.scratch.split_first_chunk::<4>()?;
        let (header, bytes) = rest.split_first_chunk::<RECORD_HEADER>()?;
        let len = u32::from_le_bytes(*len) as usize;
        buf[..len].copy_from_slice(bytes.get(..len)?);
        Some((Stored::read(header), len))
    }

    fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Acquire)
    }
}

/// The other part, on the thread that started the stream.
pub(crate) struct SpoolKeeper {
    thread: JoinHandle<Kept>,
}

/// What became of what was put into the spool.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Stretches of the source that were dropped.
    pub dropped: Vec<MissingSound>,
    /// What went wrong with the file.
    pub trouble: Option<String>,
}

impl SpoolKeeper {
    /// What became of it; call it after the session has ended.
    pub fn finish(self) -> Kept {
        self.thread.join().unwrap_or_default()
    }
}

/// The two parts of a spool.
pub(crate) type Started = (Box<dyn Spool>, SpoolKeeper);

/// Starts a spool for messages of at most `longest` bytes, in a file of at most `most` bytes, which is made when it is
/// needed. `tell` gets a sentence when it is first used.
pub(crate) fn start(
    place: &SpoolPlace,
    longest: usize,
    most: u64,
    tell: mpsc::Sender<String>,
) -> Result<Option<Started>, Error> {
    let Some(directory) = place.directory() else { return Ok(None) };
    let (spool, keeper) = begin(directory, longest, most, tell)?;
    Ok(Some((Box::new(spool), keeper)))
}

fn begin(
    directory: PathBuf,
    longest: usize,
    most: u64,
    tell: mpsc::Sender<String>,
) -> Result<(FileSpool, SpoolKeeper), Error> {
    let record = 4 + RECORD_HEADER + longest;
    let room = |bytes: usize| (bytes / record).max(2) * record;
    let (to_file, put) = RingBuffer::new(room(TO_FILE));
    let (out, from_file) = RingBuffer::new(room(FROM_FILE));
    let (overrun, overruns) = mpsc::sync_channel(MOST_OVERRUNS);
    let shared = Arc::new(Shared::default());
    let worker = Worker {
        directory,
        file: None,
        record,
        places: (most / record as u64).max(1),
        buf: vec![0; record],
        put,
        out,
        overruns,
        shared: shared.clone(),
        written: 0,
        read: 0,
        tell,
        kept: Kept::default(),
    };
    let thread = spawn("spool", move || worker.run())?;
    let handle = thread.thread().clone();
    let spool =
        FileSpool { to_file, from_file, shared, record, scratch: vec![0; record], thread: handle, overrun };
    Ok((spool, SpoolKeeper { thread }))
}

/// The part on its own thread.
struct Worker {
    directory: PathBuf,
    file: Option<File>,
    /// Bytes of a record.
    record: usize,
    /// Records that the file may hold.
    places: u64,
    buf: Vec<u8>,
    put: Consumer<u8>,
    out: Producer<u8>,
    overruns: mpsc::Receiver<Stored>,
    shared: Arc<Shared>,
    /// Records written so far, and read or dropped so far.
    written: u64,
    read: u64,
    tell: mpsc::Sender<String>,
    kept: Kept,
}

impl Worker {
    fn run(mut self) -> Kept {
        loop {
            // Looked at first: what was put before the end is then seen.
            let ended = self.put.is_abandoned();
            let mut worked = false;
            while self.put.slots() >= self.record {
                self.write_next();
                worked = true;
            }
            while self.read < self.written && self.out.slots() >= self.record {
                self.read_next();
                worked = true;
            }
            let overruns: Vec<Stored> = self.overruns.try_iter().collect();
            overruns.iter().for_each(|stored| self.drop_message(stored));
            if ended {
                return self.kept;
            }
            if !worked {
                std::thread::park_timeout(REST);
            }
        }
    }

    fn write_next(&mut self) {
        if self.put.pop_entire_slice(&mut self.buf).is_err() {
            return;
        }
        while self.written - self.read >= self.places {
            self.drop_oldest();
        }
        if let Err(error) = self.write() {
            if self.kept.trouble.is_none() {
                self.kept.trouble = Some(format!("'{}': {error}", self.directory.display()));
            }
            // What the disk has taken so far is all that there is room for.
            self.places = (self.written - self.read).max(1).min(self.places);
            if let Some(stored) = self.stored() {
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                self.drop_message(&stored);
            }
        }
    }

    fn write(&mut self) -> Result<(), String> {
        if self.file.is_none() {
            self.file = Some(create(&self.directory).map_err(|error| error.message)?);
            let _main_thread_is_gone = self.tell.send(format!(
                "the recording cannot be reached: sound waits for it in '{}'",
                self.directory.display()
            ));
        }
        let at = self.place(self.written);
        let file = self.file.as_ref().expect("made above");
        file::write_at(file, &self.buf, at).map_err(|error| error.to_string())?;
        self.written += 1;
        Ok(())
    }

    fn read_next(&mut self) {
        let at = self.place(self.read);
        let file = self.file.as_ref().expect("something was written");
        let read = file::read_at(file, &mut self.buf, at);
        self.read += 1;
        if read.is_err() || self.out.push_entire_slice(&self.buf).is_err() {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            if let Some(stored) = self.stored() {
                self.drop_message(&stored);
            }
        }
    }

    fn drop_oldest(&mut self) {
        let at = self.place(self.read);
        let mut head = vec![0; 4 + RECORD_HEADER];
        let read = self.file.as_ref().map(|file| file::read_at(file, &mut head, at));
        self.read += 1;
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        if let (Some(Ok(())), Some(header)) = (read, head[4..].first_chunk::<RECORD_HEADER>()) {
            self.drop_message(&Stored::read(header));
        }
    }

    /// The message in the buffer.
    fn stored(&self) -> Option<Stored> {
        Some(Stored::read(self.buf[4..].first_chunk::<RECORD_HEADER>()?))
    }

    fn drop_message(&mut self, stored: &Stored) {
        let (at, frames) = (stored.info.media, stored.info.frames as u64);
        if let Some(last) = self.kept.dropped.last_mut()
            && last.first_sample_frame + last.sample_frames >= at.frames
        {
            // The next stretch, or another channel group of the same one.
            let first = last.first_sample_frame;
            let end = (at.frames + frames).max(first + last.sample_frames);
            *last = MissingSound::new(first, end - first, at.rate);
            return;
        }
        if self.kept.dropped.len() < MOST_LISTED {
            self.kept.dropped.push(MissingSound::new(at.frames, frames, at.rate));
        }
    }

    fn place(&self, number: u64) -> u64 {
        number % self.places * self.record as u64
    }
}

/// Bytes on the way to the file at most: a second of 64 channels, or 5 s of stereo, that a disk may be busy.
const TO_FILE: usize = 1 << 20;
/// Bytes on the way from the file at most: what is not there yet is only sent later.
const FROM_FILE: usize = TO_FILE / 8;
/// Messages told at once that had no room even there.
const MOST_OVERRUNS: usize = 1024;
/// Stretches listed at most.
const MOST_LISTED: usize = 4096;
/// How often the thread looks for work that nobody told it of.
const REST: Duration = Duration::from_millis(20);
/// Bytes that the file may have: an hour and a half of 48 kHz stereo in 16 bits.
pub(crate) const MOST_SPOOLED: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use antiphon_core::{Instant, MediaTime};
    use antiphon_media::packet::PacketInfo;

    use super::*;

    fn stored(number: u64) -> Stored {
        let media = MediaTime::new(256 * number, 48_000);
        let info = PacketInfo {
            sequence: number as u16,
            timestamp: 0,
            media,
            frames: 256,
            payload: 512,
            marker: false,
        };
        Stored { number, group: 0, index: number, info, due: Instant::ZERO }
    }

    /// The next message, once the thread has fetched it.
    fn next(spool: &mut dyn Spool) -> (u64, Vec<u8>) {
        let mut buf = [0; 100];
        loop {
            if let Some((stored, len)) = spool.take(&mut buf) {
                return (stored.number, buf[..len].to_vec());
            }
            std::thread::yield_now();
        }
    }

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("antiphon-spool-{name}-{}", std::process::id()))
    }

    #[test]
    fn messages_come_out_as_they_were_put_in() {
        let (tell, told) = mpsc::channel();
        let directory = directory("whole");
        let (mut spool, keeper) =
            start(&SpoolPlace::In(directory.clone()), 100, MOST_SPOOLED, tell).unwrap().expect("a spool");
        for round in 0..3 {
            let numbers = || (round * 5_000)..(round + 1) * 5_000;
            for number in numbers() {
                spool.put(&stored(number), &vec![number as u8; 1 + number as usize % 100]);
            }
            for number in numbers() {
                assert_eq!(next(&mut *spool), (number, vec![number as u8; 1 + number as usize % 100]));
            }
            assert_eq!(spool.waiting(), 0);
        }
        drop(spool);
        let kept = keeper.finish();
        assert_eq!((kept.dropped, kept.trouble), (vec![], None));
        assert_eq!(told.try_iter().count(), 1, "its start is told");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "nothing is left behind");
        std::fs::remove_dir(directory).unwrap();
    }

    #[test]
    fn a_full_spool_drops_the_oldest_and_lists_it() {
        let (tell, _told) = mpsc::channel();
        let directory = directory("full");
        let record = (4 + RECORD_HEADER + 100) as u64;
        let (mut spool, keeper) = begin(directory.clone(), 100, 10 * record, tell).unwrap();
        // What is on its way out in memory is not in the file: it holds more than ten in all.
        let (count, mut got, mut last) = (40_000, 0, None);
        for number in 0..count {
            if number == count - 1 {
                // The thread has kept up by now, so that the last one has room on its way.
                while spool.waiting() > 0 {
                    let (number, _) = next(&mut spool);
                    assert!(last.is_none_or(|last| number > last), "in order");
                    (got, last) = (got + 1, Some(number));
                }
            }
            // A source is never as quick as this loop.
            while spool.to_file.slots() < 2 * record as usize {
                std::thread::yield_now();
            }
            spool.put(&stored(number), &[7; 100]);
        }
        assert!(next(&mut spool).0 == count - 1 && last.is_some_and(|last| last < count - 1));
        got += 1;
        drop(spool);
        let kept = keeper.finish();
        let dropped: u64 = kept.dropped.iter().map(|one| one.sample_frames / 256).sum();
        assert_eq!(got + dropped, count, "{:?}", kept.dropped);
        std::fs::remove_dir(directory).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_used_is_refused_before_anything_begins() {
        let error = SpoolPlace::In("/proc/nothing".into()).check().unwrap_err();
        assert!(error.message.contains("/proc/nothing") && error.message.contains("--spool off"), "{error}");
        let (tell, _told) = mpsc::channel();
        assert!(start(&SpoolPlace::Off, 100, 1, tell).unwrap().is_none());
    }
}

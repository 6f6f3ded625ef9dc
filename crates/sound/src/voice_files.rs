//! Recordings of voice channels: a WAV file of mu-law for each, all written on one thread.
//!
//! The bytes are written as they came, so that a recording of a channel that lost nothing equals what was sent. The media
//! thread copies pieces into one bounded ring, whatever the number of channels:
//!
//! ```text
//! +----------------+--------------------------------+----------+
//! | channel, 4 B   | silence, 1 bit; bytes, 31 bits |  bytes   |
//! +----------------+--------------------------------+----------+
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use antiphon_media::voice::{QUIET, VOICE_RATE};
use antiphon_media::{SampleFormat, StreamFormat};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::OpenError;
use crate::sink::{Existing, create};
use crate::stream::{REST, start_thread};
use crate::wav::Header;

/// The part on the media thread.
pub struct VoiceFiles {
    ring: Producer<u8>,
    dropped: u64,
    finishing: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    writer: Option<JoinHandle<Result<Vec<PathBuf>, String>>>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoiceFilesWritten {
    /// The files, by channel.
    pub files: Vec<PathBuf>,
    /// Bytes that could not be written fast enough: they are left out.
    pub dropped: u64,
}

impl VoiceFiles {
    /// Records into files named after `path`, with the number of the channel: `call-0001.wav`. A file is made when the
    /// first piece of its channel comes; `overwrite`: also where there is one already.
    ///
    /// # Errors
    ///
    /// If the file of the first channel exists, or cannot be made.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, OpenError> {
        let existing = if overwrite { Existing::Overwrite } else { Existing::Refuse };
        try_first(&of_channel(path, 0), existing)?;
        let (ring, pieces) = RingBuffer::new(RING);
        let (finishing, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut writer = Writer {
            ring: pieces,
            path: path.into(),
            existing,
            files: BTreeMap::new(),
            finishing: Arc::clone(&finishing),
            failed: Arc::clone(&failed),
            piece: Vec::new(),
        };
        let writer = Some(start_thread("voice-write", move || writer.run())?);
        Ok(VoiceFiles { ring, dropped: 0, finishing, failed, writer })
    }

    /// Whether nothing more can be written; [`Self::finish`] says why.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The next bytes of a channel.
    pub fn sound(&mut self, channel: u32, bytes: &[u8]) {
        self.push(channel, bytes.len() as u32, bytes);
    }

    /// The next bytes of a channel are silence.
    pub fn silence(&mut self, channel: u32, mut bytes: u64) {
        while bytes > 0 {
            let part = bytes.min(u64::from(MOST));
            self.push(channel, part as u32 | SILENCE, &[]);
            bytes -= part;
        }
    }

    fn push(&mut self, channel: u32, length: u32, bytes: &[u8]) {
        let Ok(mut chunk) = self.ring.write_chunk(HEAD + bytes.len()) else {
            self.dropped += u64::from(length & !SILENCE);
            return;
        };
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&channel.to_ne_bytes());
        head[4..].copy_from_slice(&length.to_ne_bytes());
        let (first, second) = chunk.as_mut_slices();
        for (to, from) in first.iter_mut().chain(second).zip(head.iter().chain(bytes)) {
            *to = *from;
        }
        chunk.commit_all();
    }

    /// Waits until everything is written. Not for the media thread.
    ///
    /// # Errors
    ///
    /// Why a file could not be written; what was written stays readable.
    pub fn finish(mut self) -> Result<VoiceFilesWritten, String> {
        self.finishing.store(true, Ordering::Release);
        let Some(writer) = self.writer.take() else { return Ok(VoiceFilesWritten::default()) };
        writer.thread().unpark();
        let files = writer.join().map_err(|_| "the writing thread panicked".to_string())??;
        Ok(VoiceFilesWritten { files, dropped: self.dropped })
    }
}

/// The part on the writing thread.
struct Writer {
    ring: Consumer<u8>,
    path: PathBuf,
    existing: Existing,
    files: BTreeMap<u32, OneFile>,
    finishing: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    piece: Vec<u8>,
}

struct OneFile {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
}

impl Writer {
    fn run(&mut self) -> Result<Vec<PathBuf>, String> {
        let stored = self.store_all();
        self.failed.store(stored.is_err(), Ordering::Relaxed);
        let mut written = Ok(Vec::new());
        for one in std::mem::take(&mut self.files).into_values() {
            let path = one.path.clone();
            match (one.close(), &mut written) {
                (Ok(()), Ok(files)) => files.push(path),
                (Err(error), Ok(_)) => written = Err(explain(&path, &error)),
                (_, Err(_)) => {}
            }
        }
        stored.and(written)
    }

    fn store_all(&mut self) -> Result<(), String> {
        loop {
            // Checked before the ring: then everything that was pushed before the end is seen.
            let ending = self.finishing.load(Ordering::Acquire) || self.ring.is_abandoned();
            let mut head = [0; HEAD];
            if self.ring.pop_entire_slice(&mut head).is_err() {
                if ending {
                    return Ok(());
                }
                thread::park_timeout(REST);
                continue;
            }
            let [channel, length] =
                [0, 4].map(|at| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
            let bytes = (length & !SILENCE) as usize;
            self.piece.resize(bytes, QUIET);
            if length & SILENCE != 0 {
                self.piece.fill(QUIET);
            } else if self.ring.pop_entire_slice(&mut self.piece).is_err() {
                return Err("a piece is not whole: this is a fault of this program".into());
            }
            let path = of_channel(&self.path, channel);
            if !self.may_have(channel, MOST_FILES) {
                return Err(format!("more than {MOST_FILES} channels came: record them with --mix"));
            }
            self.store(channel).map_err(|error| explain(&path, &error))?;
        }
    }

    /// Whether a channel has a file, or gets one where there are at most so many.
    fn may_have(&self, channel: u32, most: usize) -> bool {
        self.files.len() < most || self.files.contains_key(&channel)
    }

    fn store(&mut self, channel: u32) -> io::Result<()> {
        if !self.files.contains_key(&channel) {
            let (file, path) = create(&of_channel(&self.path, channel), self.existing)
                .map_err(|error| io::Error::other(error.to_string()))?;
            let mut file = BufWriter::with_capacity(BUFFER, file);
            file.write_all(&header(0))?;
            self.files.insert(channel, OneFile { path, file, bytes: 0 });
        }
        let Some(one) = self.files.get_mut(&channel) else { return Ok(()) };
        one.file.write_all(&self.piece)?;
        one.bytes += self.piece.len() as u64;
        Ok(())
    }
}

impl OneFile {
    /// Writes the header that tells what is there.
    fn close(mut self) -> io::Result<()> {
        self.file.write_all(&[QUIET][..(self.bytes % 2) as usize])?;
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        file.write_all(&header(self.bytes))
    }
}

fn header(bytes: u64) -> Vec<u8> {
    let stream = StreamFormat::new(VOICE_RATE, 1).expect("a usual format");
    Header { stream, sample: SampleFormat::MuLaw }.emit(bytes)
}

/// `call.wav` becomes `call-0001.wav` for the first channel.
fn of_channel(path: &Path, channel: u32) -> PathBuf {
    // A path without a name, such as "..", makes files with numbers alone.
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{:04}.", channel + 1));
    name.push(path.extension().unwrap_or("wav".as_ref()));
    path.with_file_name(name)
}

/// Finds out whether the first file can be written, and leaves it as it was: the others are likely to be as it is, and the user
/// hears of it before anybody calls.
fn try_first(path: &Path, existing: Existing) -> Result<(), OpenError> {
    let writing = |error| OpenError::io(path, "writing", &error);
    if existing == Existing::Overwrite && path.exists() {
        return File::options().write(true).open(path).map(drop).map_err(writing);
    }
    drop(create(path, existing)?);
    std::fs::remove_file(path).map_err(writing)
}

fn explain(path: &Path, error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(TOO_MANY_OPEN) => "; raise the limit on open files (ulimit -n), or record with --mix",
        _ => "",
    };
    format!("'{}': {error}{remedy}", path.display())
}

/// Bytes in front of a piece.
const HEAD: usize = 8;
const SILENCE: u32 = 1 << 31;
/// The longest silence at once: two minutes.
const MOST: u32 = 1 << 20;
/// Bytes that wait to be written at most: a second of 1000 channels.
const RING: usize = 8 << 20;
/// A second of a channel.
const BUFFER: usize = VOICE_RATE as usize;
/// Files of a call: each has an open descriptor and a buffer, and how many there are is the peer's choice.
const MOST_FILES: usize = 4_096;
/// EMFILE of Linux.
const TOO_MANY_OPEN: i32 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_gets_a_file_with_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("call.wav");
        let mut files = VoiceFiles::create(&path, false).unwrap();
        files.sound(0, &[1, 2, 0x7f]);
        files.sound(11, &[4; 8000]);
        files.silence(0, 2);
        files.sound(0, &[0xff, 0]);
        let written = files.finish().unwrap();
        let names: Vec<_> = written.files.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(names, ["call-0001.wav", "call-0012.wav"]);
        assert_eq!(written.dropped, 0);
        let bytes = std::fs::read(&written.files[0]).unwrap();
        // A pad byte follows an odd number of bytes.
        assert!(bytes.ends_with(&[1, 2, 0x7f, QUIET, QUIET, 0xff, 0, QUIET]), "{bytes:?}");
        let mut source = crate::open_source(&written.files[1].display().to_string()).unwrap().source;
        assert_eq!(source.format(), StreamFormat::new(8000, 1).unwrap());
        let mut all = 0;
        all += crate::each_block(&mut *source, 100, &mut |_| Ok(())).unwrap();
        assert_eq!(all, 8000);
        // Nothing is overwritten unless that was asked for.
        assert!(VoiceFiles::create(&path, false).is_err());
        VoiceFiles::create(&path, true).unwrap().finish().unwrap();
        // Where no channel comes, that is still so.
        assert_eq!(std::fs::read(&written.files[0]).unwrap(), bytes);
    }

    #[test]
    fn a_failure_is_told_while_the_call_runs() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VoiceFiles::create(&dir.path().join("call.wav"), false).unwrap();
        // Somebody else makes the second file first.
        std::fs::write(dir.path().join("call-0002.wav"), "").unwrap();
        files.sound(0, &[1]);
        assert!(!files.has_failed());
        files.sound(1, &[1]);
        while !files.has_failed() {
            files.writer.as_ref().expect("it writes").thread().unpark();
            thread::yield_now();
        }
        assert!(files.finish().unwrap_err().contains("call-0002.wav"));
    }

    #[test]
    fn a_peer_cannot_open_files_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer {
            ring: RingBuffer::new(1).1,
            path: dir.path().join("call.wav"),
            existing: Existing::Refuse,
            files: BTreeMap::new(),
            finishing: Arc::default(),
            failed: Arc::default(),
            piece: vec![1],
        };
        let null = || BufWriter::with_capacity(0, File::options().write(true).open("/dev/null").unwrap());
        let one = || OneFile { path: PathBuf::new(), file: null(), bytes: 0 };
        (0..10).for_each(|channel| drop(writer.files.insert(channel, one())));
        assert!(writer.may_have(9, 10) && !writer.may_have(10, 10) && writer.may_have(10, 11));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VoiceFiles::create(&dir.path().join("call.wav"), false).unwrap();
        files.sound(0, &vec![1; RING]);
        assert_eq!(files.finish().unwrap(), VoiceFilesWritten { dropped: RING as u64, ..Default::default() });
    }
}

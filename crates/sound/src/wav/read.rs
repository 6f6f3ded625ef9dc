//! Decodes WAV from a file or a pipe, truncated or whole.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use antiphon_media::{SampleFormat, StreamFormat};

use super::{WavError, WavInfo};
use crate::Notes;
use crate::decode::Decode;
use crate::error::OpenError;
use crate::raw::RawFormat;

/// The actual extent of a file's sound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Bytes of samples in the file.
    pub bytes: u64,
    /// The header says the same.
    pub intact: bool,
    /// Nothing follows the samples.
    pub to_the_end: bool,
}

/// Compares the size in a header with what its file of `length` bytes holds.
pub(super) fn extent(info: &WavInfo, file: &mut (impl Read + Seek), length: u64) -> io::Result<Extent> {
    let there = length.saturating_sub(info.data_start);
    let rest = Extent { bytes: there, intact: false, to_the_end: true };
    let Some(claimed) = info.claimed.filter(|claimed| *claimed <= there) else {
        return Ok(rest);
    };
    let padded = claimed + claimed % 2;
    let whole = Extent { bytes: claimed, intact: true, to_the_end: there <= padded };
    if there <= padded || chunks_to_the_end(file, info.data_start + padded, length)? {
        return Ok(whole);
    }
    Ok(rest)
}

/// Whether well-formed chunks fill the file from `at` to its end: then they are chunks, and not sound that was written
/// after the header. Samples that look like this by chance would need a readable name and exactly the right length.
fn chunks_to_the_end(file: &mut (impl Read + Seek), mut at: u64, length: u64) -> io::Result<bool> {
    const MOST_CHUNKS: usize = 1_000;
    for _ in 0..MOST_CHUNKS {
        if at >= length {
            return Ok(true);
        }
        if length - at < 8 {
            return Ok(false);
        }
        let mut head = [0; 8];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut head)?;
        let size = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        let readable = head[..4].iter().all(|b| (b' '..=b'~').contains(b));
        // The pad byte of the very last chunk is often missing.
        if !readable || at + 8 + size > length {
            return Ok(false);
        }
        at += 8 + size + size % 2;
    }
    Ok(false)
}

/// Decodes samples as they arrive.
pub(crate) struct WavDecoder<R> {
    reader: R,
    stream: StreamFormat,
    raw: RawFormat,
    sample: SampleFormat,
    length: Option<u64>,
    /// Bytes still to come; unlimited for a pipe whose header has no length.
    left: u64,
    /// Whether `left` comes from the header, so that ending earlier causes a note.
    promised: bool,
    bytes: Vec<u8>,
    /// Bytes of an incomplete sample frame from a short read.
    begun: usize,
    notes: Notes,
}

/// Bytes read at once: a few to some hundred milliseconds, small compared with the ring.
const READ: usize = 16 * 1024;

impl<R: Read + Send> WavDecoder<R> {
    /// Samples after a header that `info` describes and `reader` has passed.
    pub fn behind_header(reader: R, info: &WavInfo, notes: Notes) -> Self {
        let mut decoder = Self::raw(reader, info.stream, info.raw, notes);
        decoder.sample = info.sample;
        decoder.left = info.claimed.unwrap_or(u64::MAX);
        decoder.promised = info.claimed.is_some();
        decoder.length = info.claimed.map(|bytes| bytes / info.frame_bytes());
        decoder
    }

    /// Samples without a header.
    pub fn raw(reader: R, stream: StreamFormat, raw: RawFormat, notes: Notes) -> Self {
        // Whole frames: 64 channels of eight bytes are 512, far below READ.
        let frame = raw.bytes() * stream.channels();
        WavDecoder {
            reader,
            stream,
            raw,
            sample: raw.sample_format(),
            length: None,
            left: u64::MAX,
            promised: false,
            bytes: vec![0; READ / frame * frame],
            begun: 0,
            notes,
        }
    }

    fn at_end(&self) {
        if self.promised && self.left > 0 {
            let missing = self.left.div_ceil((self.raw.bytes() * self.stream.channels()) as u64);
            self.notes.add(format!(
                "the sound ends early: {missing} sample frames of its header's count are missing"
            ));
        }
    }
}

impl<R: Read + Send> Decode for WavDecoder<R> {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn sample_format(&self) -> SampleFormat {
        self.sample
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn decode(&mut self, out: &mut Vec<f32>) -> Result<bool, String> {
        let frame = self.raw.bytes() * self.stream.channels();
        let most = (self.bytes.len() - self.begun).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = loop {
            match self.reader.read(&mut self.bytes[self.begun..self.begun + most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => break other.map_err(|error| error.to_string())?,
            }
        };
        if read == 0 {
            self.at_end();
            return Ok(false);
        }
        self.left -= read as u64;
        let there = self.begun + read;
        let whole = there / frame * frame;
        self.raw.decode(&self.bytes[..whole], out);
        self.bytes.copy_within(whole..there, 0);
        self.begun = there - whole;
        Ok(true)
    }
}

/// A decoder of the file's sound from sample frame `start` on; accepts a truncated or unfinished header.
pub(crate) fn open_file(
    mut file: File,
    name: &str,
    start: u64,
    notes: &Notes,
) -> Result<WavDecoder<File>, OpenError> {
    let failed = |error: io::Error| OpenError::Io { path: name.into(), why: error.to_string() };
    let length = file.metadata().map_err(failed)?.len();
    let mut info = {
        let mut reader = io::BufReader::new(&file);
        WavInfo::parse(&mut reader).map_err(|error| refuse(error, name))?
    };
    let found = extent(&info, &mut file, length).map_err(failed)?;
    let frame = info.frame_bytes();
    match info.claimed {
        Some(claimed) if claimed > found.bytes => notes.add(format!(
            "{name} is truncated: {} of {} sample frames exist; these are played",
            found.bytes / frame,
            claimed / frame
        )),
        Some(claimed) if claimed < found.bytes => notes.add(format!(
            "the header of {name} is incomplete: all {} sample frames of the file are played, not {}",
            found.bytes / frame,
            claimed / frame
        )),
        _ => {}
    }
    let start = start.min(found.bytes / frame);
    info.claimed = Some((found.bytes / frame - start) * frame);
    file.seek(SeekFrom::Start(info.data_start + start * frame)).map_err(failed)?;
    Ok(WavDecoder::behind_header(file, &info, notes.clone()))
}

/// The error for the user for a header that cannot be used.
pub(crate) fn refuse(error: WavError, name: &str) -> OpenError {
    let name = name.to_string();
    match error {
        WavError::Io(error) => OpenError::Io { path: name.into(), why: error.to_string() },
        WavError::NotWav => OpenError::NotAudio { name, why: "no RIFF WAVE header".into() },
        WavError::NoData => {
            OpenError::Empty { name, why: Some("the file ends before its sound begins".into()) }
        }
        WavError::Malformed(why) => OpenError::NotAudio { name, why: format!("a broken WAV header: {why}") },
        WavError::Unsupported(why) => OpenError::Unsupported { name, why },
        WavError::Format(why) => OpenError::FileFormat { name, why },
    }
}

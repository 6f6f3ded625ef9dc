//! WAV: parsing, writing and repairing the header, and decoding.
//!
//! Not the decoding library's, because recordings cut anywhere by a crash, beyond 4 GiB or from a pipe must all be
//! readable, and reader, recorder and repair must agree on every byte.
//!
//! Source: Microsoft/IBM "Multimedia Programming Interface and Data Specifications 1.0" (RIFF WAVE), Microsoft
//! "Multiple channel audio data and WAVE files" (WAVEFORMATEXTENSIBLE), EBU Tech 3306 (RF64).
//!
//! ```text
//! 0        4        8        12             20                48                       data_start
//! | "RIFF" | size   | "WAVE" | "JUNK", 28   | room for ds64   | "fmt " …, ["fact" …]   | "data", size | samples …
//! | "RF64" | ffffffff| "WAVE"| "ds64", 28   | riff, data, frames (64 bits each), 0       | "data", ffffffff |
//! ```

mod cue;
mod emit;
mod patch;
mod read;
mod repair;

pub use cue::{CuePoint, add_cue_points};
pub(crate) use emit::Header;
pub use patch::WavPatch;
pub(crate) use read::{WavDecoder, open_file, refuse};
pub use repair::{RepairError, Repaired, repair};

use std::io::{self, Read};

use antiphon_media::{FormatError, SampleFormat, StreamFormat};

use crate::raw::{Encoding, RawFormat};

/// Offset of the chunk that is `JUNK` or `ds64` in our files, and its size without its own header (EBU Tech 3306 §3.5:
/// three 64-bit sizes and an empty table).
pub(crate) const DS64_AT: u64 = 12;
pub(crate) const DS64_SIZE: u32 = 28;

/// Format tags (mmreg.h).
const TAG_PCM: u16 = 1;
const TAG_FLOAT: u16 = 3;
const TAG_A_LAW: u16 = 6;
const TAG_MU_LAW: u16 = 7;
const TAG_EXTENSIBLE: u16 = 0xfffe;
/// The last fourteen bytes of every format GUID derived from a tag (KSDATAFORMAT_SUBTYPE_*).
const GUID_TAIL: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];

/// What a header says about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WavInfo {
    pub stream: StreamFormat,
    pub raw: RawFormat,
    /// The precision of the samples: a 32-bit container may hold 24.
    pub sample: SampleFormat,
    /// Where the samples begin, in bytes from the beginning of the file.
    pub data_start: u64,
    /// Bytes of samples according to the header; `None` if it was never filled in (a pipe, a crash).
    pub claimed: Option<u64>,
    pub rf64: bool,
    /// Position of a chunk with room for 64-bit sizes.
    pub ds64_at: Option<u64>,
    /// Position of the number of sample frames, if it is stored.
    pub fact_at: Option<u64>,
}

/// Why a header could not be used.
#[derive(Debug)]
pub(crate) enum WavError {
    Io(io::Error),
    /// Not `RIFF … WAVE` or `RF64 … WAVE`.
    NotWav,
    /// The file ends before its samples begin, or has none.
    NoData,
    /// The header contradicts itself.
    Malformed(&'static str),
    /// Valid, but not supported.
    Unsupported(String),
    /// A rate or a number of channels that is not supported.
    Format(FormatError),
}

impl WavInfo {
    /// Bytes of a sample frame.
    pub fn frame_bytes(&self) -> u64 {
        (self.raw.bytes() * self.stream.channels()) as u64
    }

    /// Reads a header up to the first sample, which is then the next byte.
    pub fn parse(reader: &mut dyn Read) -> Result<WavInfo, WavError> {
        let mut walk = Walk { reader, at: 0, format: None, sizes64: None, ds64_at: None, fact_at: None };
        let head: [u8; 12] = walk.array().map_err(|_| WavError::NotWav)?;
        let rf64 = match (&head[..4], &head[8..]) {
            (b"RIFF", b"WAVE") => false,
            (b"RF64" | b"BW64", b"WAVE") => true,
            _ => return Err(WavError::NotWav),
        };
        let riff_size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let data_size = walk.until_data()?;
        let (stream, raw, sample) =
            walk.format.ok_or(WavError::Malformed("no 'fmt ' chunk before 'data'"))?;
        Ok(WavInfo {
            stream,
            raw,
            sample,
            data_start: walk.at,
            claimed: claimed(data_size, riff_size, walk.sizes64),
            rf64,
            ds64_at: walk.ds64_at,
            fact_at: walk.fact_at,
        })
    }
}

/// The valid data size. All ones and zero mean "not known when this was written".
fn claimed(data: u32, riff: u32, sizes64: Option<u64>) -> Option<u64> {
    match (data, sizes64) {
        (u32::MAX, Some(size)) => Some(size),
        (u32::MAX, None) => None,
        (0, _) if riff == 0 || riff == u32::MAX => None,
        (size, _) => Some(u64::from(size)),
    }
}

/// Walks through the chunks before the samples.
struct Walk<'a> {
    reader: &'a mut dyn Read,
    at: u64,
    format: Option<(StreamFormat, RawFormat, SampleFormat)>,
    sizes64: Option<u64>,
    ds64_at: Option<u64>,
    fact_at: Option<u64>,
}

impl Walk<'_> {
    /// Stops after the header of the `data` chunk and returns its 32-bit size.
    fn until_data(&mut self) -> Result<u32, WavError> {
        // A sound file has a handful of chunks; a hostile one may have any number.
        const MOST_CHUNKS: usize = 1_000;
        for _ in 0..MOST_CHUNKS {
            let at = self.at;
            let head: [u8; 8] = self.array()?;
            let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            match &head[..4] {
                b"data" => return Ok(size),
                b"fmt " => self.format_chunk(size)?,
                b"ds64" if size >= DS64_SIZE => {
                    let body: [u8; 24] = self.array()?;
                    let word = body[8..16].try_into().expect("eight of twenty-four bytes");
                    self.sizes64 = Some(u64::from_le_bytes(word));
                    self.ds64_at = Some(at);
                    self.skip(u64::from(size) - 24)?;
                }
                b"fact" if size >= 4 => {
                    self.fact_at = Some(at + 8);
                    self.skip(u64::from(size))?;
                }
                id => {
                    if id == b"JUNK" && size >= DS64_SIZE && at == DS64_AT {
                        self.ds64_at = Some(at);
                    }
                    self.skip(u64::from(size))?;
                }
            }
            if size % 2 == 1 {
                self.skip(1)?;
            }
        }
        Err(WavError::Malformed("too many chunks before the sound"))
    }

    fn format_chunk(&mut self, size: u32) -> Result<(), WavError> {
        if size < 16 {
            return Err(WavError::Malformed("the 'fmt ' chunk is too short"));
        }
        let mut body = [0; 40];
        let read = body.len().min(size as usize);
        self.exact(&mut body[..read])?;
        self.skip(u64::from(size) - read as u64)?;
        self.format = Some(describe(&body[..read])?);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WavError> {
        let mut bytes = [0; N];
        self.exact(&mut bytes)?;
        Ok(bytes)
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), WavError> {
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => WavError::NoData,
            _ => WavError::Io(error),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), WavError> {
        let skipped = io::copy(&mut self.reader.take(bytes), &mut io::sink()).map_err(WavError::Io)?;
        self.at += skipped;
        if skipped < bytes { Err(WavError::NoData) } else { Ok(()) }
    }
}

/// Decodes a `fmt ` chunk (16 to 40 bytes).
fn describe(body: &[u8]) -> Result<(StreamFormat, RawFormat, SampleFormat), WavError> {
    let word = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
    let (mut tag, channels, align, bits) = (word(0), word(2), word(12), word(14));
    let rate = u32::from_le_bytes([body[4], body[5], body[6], body[7]]);
    let mut valid_bits = bits;
    if tag == TAG_EXTENSIBLE {
        if body.len() < 40 {
            return Err(WavError::Malformed("the extensible 'fmt ' chunk is too short"));
        }
        if body[26..40] != GUID_TAIL {
            return Err(WavError::Unsupported("this kind of WAV (an unknown format GUID)".into()));
        }
        valid_bits = word(18);
        tag = word(24);
    }
    let encoding = match (tag, bits) {
        (TAG_PCM, 8) => Encoding::U8,
        (TAG_PCM, 9..=16) => Encoding::S16,
        (TAG_PCM, 17..=24) => Encoding::S24,
        (TAG_PCM, 25..=32) => Encoding::S32,
        (TAG_FLOAT, 32) => Encoding::F32,
        (TAG_FLOAT, 64) => Encoding::F64,
        (TAG_MU_LAW, 8) => Encoding::MuLaw,
        (TAG_A_LAW, 8) => Encoding::ALaw,
        _ => {
            return Err(WavError::Unsupported(format!(
                "WAV encoding {tag:#06x} with {bits} bits ({})",
                well_known(tag)
            )));
        }
    };
    let raw = RawFormat::little(encoding);
    let stream = StreamFormat::new(rate, u32::from(channels)).map_err(WavError::Format)?;
    if usize::from(align) != raw.bytes() * stream.channels() {
        return Err(WavError::Malformed("its block size contradicts its channels and bits"));
    }
    let sample = match encoding {
        Encoding::S32 if (17..=24).contains(&valid_bits) => SampleFormat::L24,
        _ => raw.sample_format(),
    };
    Ok((stream, raw, sample))
}

/// Names of other encodings found in WAV files (mmreg.h).
fn well_known(tag: u16) -> &'static str {
    match tag {
        0x02 => "Microsoft ADPCM",
        0x11 => "IMA ADPCM",
        0x31 => "GSM 6.10",
        0x50 => "MPEG layer 2",
        0x55 => "MP3",
        0xff => "AAC",
        _ => "known ones are PCM, float, mu-law and A-law",
    }
}

#[cfg(test)]
mod tests;

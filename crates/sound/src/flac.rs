//! Writes a whole source into a FLAC file (RFC 9639), outside the media thread: half the size of WAV, the same samples, and
//! played by every browser.
//!
//! Frames are encoded and written one after the other, so hours of sound need no more memory than a block. The header is
//! written by ourselves: the library's counts the short last block as the smallest, from which some decoders conclude that
//! block sizes vary (RFC 9639 §8.2 leaves the last block out).

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use antiphon_media::{SampleFormat, Source, StreamFormat};
use flacenc::bitsink::ByteSink;
use flacenc::component::{BitRepr, StreamInfo};
use flacenc::config::Encoder;
use flacenc::error::{Verified, Verify};
use flacenc::source::{Context, Fill, FrameBuf};

use crate::OpenError;
use crate::raw::to_integer;
use crate::whole::{each_block, write_or_remove};

/// Whether a FLAC file of ours can hold such sound without changing a sample: integers and G.711, at most 8 channels
/// (RFC 9639 §9.1.3), at most 96 kHz (the encoder's limit).
pub fn fits_flac(stream: StreamFormat, sample: SampleFormat) -> bool {
    sample != SampleFormat::F32 && stream.channels() <= 8 && stream.rate() <= 96_000
}

/// Writes all of `source`, which must end, into a FLAC file at `path`, replacing an existing file; returns the sample frames
/// written. `sample` is the precision of the samples, and `heard` sees each block, interleaved. For threads that may wait for
/// a disk. Check [`fits_flac`] first. A file that could not be written to its end is removed.
pub fn write_flac(
    path: &Path,
    source: &mut dyn Source,
    sample: SampleFormat,
    heard: &mut dyn FnMut(&[f32]),
) -> Result<u64, OpenError> {
    let stream = source.format();
    write_or_remove(path, |file| {
        let mut flac = FlacFile::begin(file, stream, sample)?;
        each_block(source, BLOCK, &mut |block| {
            heard(block);
            flac.store(block)
        })?;
        flac.close()
    })
}

/// Sample frames per block: the encoder's and libFLAC's usual size.
const BLOCK: usize = 4096;

/// A FLAC file being written.
struct FlacFile {
    file: BufWriter<File>,
    config: Verified<Encoder>,
    info: StreamInfo,
    /// Counts sample frames, and digests the samples for the header.
    context: Context,
    buffer: FrameBuf,
    frames: usize,
    integers: Vec<i32>,
    bits: u32,
}

impl FlacFile {
    fn begin(file: File, stream: StreamFormat, sample: SampleFormat) -> io::Result<Self> {
        // G.711 expands to 16 bits.
        let bits: u32 = if sample == SampleFormat::L24 { 24 } else { 16 };
        let config = Encoder::default().into_verified().map_err(|(_, error)| refused(&error))?;
        let info = StreamInfo::new(stream.rate() as usize, stream.channels(), bits as usize)
            .map_err(|error| refused(&error))?;
        let buffer = FrameBuf::with_size(stream.channels(), BLOCK).map_err(|error| refused(&error))?;
        let mut file = BufWriter::new(file);
        file.write_all(&[0; HEADER])?;
        let context = Context::new(bits as usize, stream.channels());
        Ok(FlacFile { file, config, info, context, buffer, frames: 0, integers: Vec::new(), bits })
    }

    /// Encodes one block; all but the last are of [`BLOCK`] sample frames.
    fn store(&mut self, block: &[f32]) -> io::Result<()> {
        self.integers.clear();
        self.integers.extend(block.iter().map(|x| to_integer(*x, self.bits)));
        self.buffer.resize(block.len() / self.info.channels());
        self.buffer.fill_interleaved(&self.integers).map_err(|error| refused(&error))?;
        self.context.fill_interleaved(&self.integers).map_err(|error| refused(&error))?;
        let frame = flacenc::encode_fixed_size_frame(&self.config, &self.buffer, self.frames, &self.info)
            .map_err(|error| refused(&error))?;
        self.frames += 1;
        let mut bytes = ByteSink::new();
        frame.write(&mut bytes).map_err(|error| refused(&error))?;
        self.file.write_all(bytes.as_slice())
    }

    fn close(mut self) -> io::Result<u64> {
        self.file.seek(SeekFrom::Start(0))?;
        let header = self.header();
        self.file.write_all(&header)?;
        self.file.flush()?;
        Ok(self.context.total_samples() as u64)
    }

    /// RFC 9639 §8.1 and §8.2:
    ///
    /// ```text
    /// "fLaC" | 1 last, 7 type = 0 | 24 length = 34 | 16 least block | 16 most | 24 + 24 frame sizes, 0 = unknown
    /// | 20 rate | 3 channels - 1 | 5 bits - 1 | 36 sample frames | 128 MD5 of the samples
    /// ```
    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&[b'f', b'L', b'a', b'C', 0x80, 0, 0, 34]);
        header[8..10].copy_from_slice(&(BLOCK as u16).to_be_bytes());
        header[10..12].copy_from_slice(&(BLOCK as u16).to_be_bytes());
        let total = told_length(self.context.total_samples() as u64);
        let packed = (self.info.sample_rate() as u64) << 44
            | (self.info.channels() as u64 - 1) << 41
            | u64::from(self.bits - 1) << 36
            | total;
        header[18..26].copy_from_slice(&packed.to_be_bytes());
        header[26..].copy_from_slice(&self.context.md5_digest());
        header
    }
}

/// The number of sample frames as the header tells it: 0, for unknown, where 36 bits do not hold it (RFC 9639 §8.2).
fn told_length(frames: u64) -> u64 {
    if frames >> 36 == 0 { frames } else { 0 }
}

/// Bytes of the marker and the stream's description.
const HEADER: usize = 42;

fn refused(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("the FLAC encoder refuses: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_source;
    use crate::whole::tests::sound;
    use crate::whole::write_whole;

    fn samples(path: &Path) -> Vec<u32> {
        sound(path).into_iter().map(f32::to_bits).collect()
    }

    /// The WAV recorder is what `receive` writes with: FLAC must hold the same samples, to the bit.
    #[test]
    fn flac_holds_the_samples_of_a_wav_file() {
        let directory = tempfile::tempdir().unwrap();
        for (source, sample) in [
            ("clip:guitar", SampleFormat::L16),
            ("tone:440Hz?seconds=1s&format=l24", SampleFormat::L24),
            ("tone:997Hz?seconds=700ms", SampleFormat::MuLaw),
            ("tone:997Hz?seconds=700ms", SampleFormat::ALaw),
            // Shorter than a block, and one whole block.
            ("tone:100Hz?seconds=10ms", SampleFormat::L16),
            ("tone:100Hz?seconds=512ms&rate=8000Hz", SampleFormat::L16),
        ] {
            let (wav, flac) = (directory.path().join("a.wav"), directory.path().join("a.flac"));
            let frames = write_whole(&wav, &mut *open_source(source).unwrap().source, sample).unwrap();
            let mut recorded = open_source(&wav.display().to_string()).unwrap().source;
            let mut seen = 0;
            let written = write_flac(&flac, &mut *recorded, sample, &mut |b| seen += b.len()).unwrap();
            assert_eq!(written, frames, "{source}");
            let (a, b) = (samples(&wav), samples(&flac));
            assert_eq!((a.len(), a == b), (b.len(), true), "{source} {}", sample.name());
            assert_eq!(seen, a.len());
        }
    }

    #[test]
    fn a_file_that_can_not_be_written_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.flac");
        // The encoder takes no such rate.
        let mut source = open_source("tone:440Hz?seconds=1s&rate=192kHz").unwrap().source;
        assert!(write_flac(&path, &mut *source, SampleFormat::L16, &mut |_| ()).is_err());
        assert!(!path.exists());
        // Nor does what stood there before remain, which is lost already.
        std::fs::write(&path, b"before").unwrap();
        assert!(write_flac(&path, &mut *source, SampleFormat::L16, &mut |_| ()).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn a_length_beyond_36_bits_is_unknown() {
        assert_eq!(told_length(0), 0);
        assert_eq!(told_length((1 << 36) - 1), (1 << 36) - 1);
        assert_eq!([1 << 36, (1 << 36) + 48_000, u64::MAX].map(told_length), [0; 3]);
    }

    #[test]
    fn the_header_tells_rate_channels_bits_and_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.flac");
        let mut source = open_source("tone:440Hz?seconds=250ms&rate=44100Hz&channels=2").unwrap().source;
        let frames = write_flac(&path, &mut *source, SampleFormat::L24, &mut |_| ()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..12], b"fLaC\x80\x00\x00\x22\x10\x00\x10\x00");
        let packed = bytes[18..26].iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        assert_eq!((packed >> 44, packed >> 41 & 7, packed >> 36 & 31), (44_100, 1, 23));
        assert_eq!(packed & ((1 << 36) - 1), frames);
        assert!((11_000..=11_050).contains(&frames), "{frames}");
    }

    /// Read back, the file's frames are numbered from 0, by which players find a position (RFC 9639 §9.1.5).
    #[test]
    fn frames_are_numbered_and_the_samples_have_their_digest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.flac");
        let file = File::create(&path).unwrap();
        let mono = StreamFormat::new(48_000, 1).unwrap();
        let mut flac = FlacFile::begin(file, mono, SampleFormat::L16).unwrap();
        for number in 0..3 {
            flac.file.flush().unwrap();
            let begins = std::fs::metadata(&path).unwrap().len() as usize;
            flac.store(&[0.5; 16]).unwrap();
            flac.file.flush().unwrap();
            let frame = &std::fs::read(&path).unwrap()[begins..];
            assert_eq!((&frame[..2], frame[4]), (&[0xff, 0xf8][..], number));
        }
        assert_eq!(flac.close().unwrap(), 48);
        // MD5 of 48 times 0x4000, little endian.
        let digest = 0x8143e641fb93e5ddf8159e6e54d4bb19_u128;
        assert_eq!(std::fs::read(&path).unwrap()[26..42], digest.to_be_bytes());
    }

    #[test]
    fn what_flac_can_not_hold_is_known() {
        let stream = |rate, channels| StreamFormat::new(rate, channels).unwrap();
        assert!(fits_flac(stream(96_000, 8), SampleFormat::L24));
        assert!(!fits_flac(stream(48_000, 9), SampleFormat::L16));
        assert!(!fits_flac(stream(192_000, 2), SampleFormat::L16));
        assert!(!fits_flac(stream(48_000, 2), SampleFormat::F32));
    }
}

//! Puts sound into a finished WAV file of ours: in place, at its end, or before its beginning.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use antiphon_media::StreamFormat;

use super::{RepairError, WavError, WavInfo, repair};
use crate::OpenError;

/// A WAV file whose samples are replaced and added.
#[derive(Debug)]
pub struct WavPatch {
    path: PathBuf,
    file: File,
    info: WavInfo,
    /// Sample frames in it.
    frames: u64,
    bytes: Vec<u8>,
}

impl WavPatch {
    /// Opens a file that a sink has finished, which has nothing behind its sound.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::io(path, "writing", &error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let info = WavInfo::parse(&mut io::BufReader::new(&file)).map_err(|error| match error {
            WavError::Io(error) => failed(error),
            _ => failed(io::Error::new(io::ErrorKind::InvalidData, "it is no WAV file")),
        })?;
        let frames = info.claimed.unwrap_or(0) / info.frame_bytes();
        Ok(WavPatch { path: path.into(), file, info, frames, bytes: Vec::new() })
    }

    /// Rate and channels.
    pub fn format(&self) -> StreamFormat {
        self.info.stream
    }

    /// Sample frames in the file.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes interleaved samples from the sample frame `at` on, which lies in the file or follows its last one.
    ///
    /// # Errors
    ///
    /// Those of the file system; `InvalidInput` behind the end.
    pub fn write(&mut self, at: u64, samples: &[f32]) -> io::Result<()> {
        let frames = (samples.len() / self.info.stream.channels()) as u64;
        if at > self.frames {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.bytes.clear();
        self.info.raw.encode(samples, &mut self.bytes);
        self.file.seek(SeekFrom::Start(self.position(at)))?;
        self.file.write_all(&self.bytes)?;
        self.frames = self.frames.max(at + frames);
        Ok(())
    }

    /// Moves everything back, so that `frames` sample frames of silence are before it.
    ///
    /// # Errors
    ///
    /// Those of the file system; on a full disk the file is as before.
    pub fn prepend(&mut self, frames: u64) -> io::Result<()> {
        let (start, end) = (self.position(0), self.position(self.frames));
        let by = frames * self.info.frame_bytes();
        // The room is taken before anything is moved.
        self.fill(end, by).inspect_err(|_| {
            let _the_first_error_is_told = self.file.set_len(end);
        })?;
        let mut block = vec![0; BLOCK];
        let mut left = end - start;
        while left > 0 {
            let len = left.min(BLOCK as u64);
            left -= len;
            let block = &mut block[..len as usize];
            self.file.seek(SeekFrom::Start(start + left))?;
            self.file.read_exact(block)?;
            self.file.seek(SeekFrom::Start(start + left + by))?;
            self.file.write_all(block)?;
        }
        self.frames += frames;
        self.fill(start, by)
    }

    /// Corrects the header.
    pub fn finish(self) -> Result<(), RepairError> {
        let claimed = self.info.claimed.map(|bytes| bytes / self.info.frame_bytes());
        let (end, unknown) = (self.position(self.frames), self.info.data_start - 4);
        let WavPatch { path, mut file, info, frames, .. } = self;
        if claimed != Some(frames) {
            let mut open_end = || {
                file.set_len(end)?;
                if info.rf64 {
                    return Ok(());
                }
                file.seek(SeekFrom::Start(unknown))?;
                file.write_all(&[0xff; 4])
            };
            open_end().map_err(|error| OpenError::io(&path, "writing", &error))?;
        }
        drop(file);
        repair(path).map(drop)
    }

    fn position(&self, frame: u64) -> u64 {
        self.info.data_start + frame * self.info.frame_bytes()
    }

    /// Writes so many bytes of zeros, which every format of a recording has for silence but the two laws, whose sound follows.
    fn fill(&mut self, at: u64, mut bytes: u64) -> io::Result<()> {
        let zeros = vec![0; BLOCK];
        self.file.seek(SeekFrom::Start(at))?;
        while bytes > 0 {
            let len = bytes.min(BLOCK as u64);
            self.file.write_all(&zeros[..len as usize])?;
            bytes -= len;
        }
        Ok(())
    }
}

/// Bytes moved at once.
const BLOCK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use antiphon_media::SampleFormat;

    use super::*;
    use crate::whole::tests::sound;
    use crate::{open_source, write_whole};

    #[test]
    fn what_is_patched_is_as_if_it_had_been_recorded() {
        let directory = tempfile::tempdir().unwrap();
        for sample in SampleFormat::ALL {
            let (whole, part) = (directory.path().join("whole.wav"), directory.path().join("part.wav"));
            let tone = || open_source("tone:440Hz?seconds=2s").unwrap().source;
            write_whole(&whole, &mut *tone(), sample).unwrap();
            let expected = sound(&whole);
            let channels = tone().format().channels();
            assert_eq!((channels, expected.len()), (2, 192_000));
            // From sample frame 1000 on, without 500 in the middle and 700 at the end.
            let raw = crate::raw::RawFormat::from(sample);
            let mut bytes = Vec::new();
            let mut kept = expected[2_000..192_000 - 1_400].to_vec();
            kept[20_000..21_000].fill(0.0);
            raw.encode(&kept, &mut bytes);
            let header = super::super::Header { stream: tone().format(), sample };
            std::fs::write(&part, [header.emit(bytes.len() as u64), bytes].concat()).unwrap();
            let mut patch = WavPatch::open(&part).unwrap();
            assert_eq!((patch.frames(), patch.format()), (94_300, tone().format()));
            patch.write(10_000, &expected[22_000..23_000]).unwrap();
            patch.prepend(1_000).unwrap();
            patch.write(0, &expected[..2_000]).unwrap();
            patch.write(95_300, &expected[192_000 - 1_400..]).unwrap();
            assert!(patch.write(96_001, &[0.0, 0.0]).is_err());
            patch.finish().unwrap();
            assert!(sound(&part) == expected, "{sample:?}");
            assert!(
                std::fs::read(&part).unwrap() == std::fs::read(&whole).unwrap(),
                "{sample:?}: the header"
            );
        }
    }

    /// Where a file of an odd number of bytes has one more, sound goes.
    #[test]
    fn a_single_byte_is_added() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("odd.wav");
        let stream = StreamFormat::new(8_000, 1).unwrap();
        let header = super::super::Header { stream, sample: SampleFormat::MuLaw };
        std::fs::write(&path, [header.emit(3), vec![0xff, 0xff, 0xff, 0]].concat()).unwrap();
        let mut patch = WavPatch::open(&path).unwrap();
        patch.write(3, &[0.5]).unwrap();
        patch.finish().unwrap();
        assert_eq!(WavPatch::open(&path).unwrap().frames(), 4);
        let mut patch = WavPatch::open(&path).unwrap();
        patch.write(4, &[0.5]).unwrap();
        patch.finish().unwrap();
        assert_eq!(WavPatch::open(&path).unwrap().frames(), 5);
        assert_eq!(std::fs::metadata(&path).unwrap().len() % 2, 0);
    }

    #[test]
    fn another_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        assert!(WavPatch::open(&path).is_err());
        std::fs::write(&path, b"fLaC and so on, long enough").unwrap();
        assert!(WavPatch::open(&path).is_err());
    }
}

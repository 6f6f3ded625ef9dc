//! Writes a whole source into a file, outside the media thread.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use antiphon_media::{Pull, SampleFormat, Source};

use crate::OpenError;
use crate::deposit::{Deposit, WavDeposit};
use crate::sink::{Existing, create};
use crate::wav::Header;

/// Writes all of `source`, which must end, into a WAV file at `path`, replacing an existing file; returns the sample
/// frames written. For threads that may wait for a disk. A file that could not be written to its end is removed.
pub fn write_whole(path: &Path, source: &mut dyn Source, sample: SampleFormat) -> Result<u64, OpenError> {
    let stream = source.format();
    write_or_remove(path, |file| {
        let mut deposit = WavDeposit::create(file, Header { stream, sample })?;
        let written = each_block(source, BLOCK, &mut |block| deposit.store(block))?;
        deposit.close()?;
        Ok(written)
    })
}

/// Pulls all of `source`, which must end, in blocks of so many sample frames, but for the last one, which may be shorter. Returns
/// the sample frames in all. Waits for decoders, so it is not for media threads.
pub fn each_block(
    source: &mut dyn Source,
    sample_frames: usize,
    on_block: &mut dyn FnMut(&[f32]) -> io::Result<()>,
) -> io::Result<u64> {
    let channels = source.format().channels();
    let mut block = vec![0.0; sample_frames * channels];
    let (mut filled, mut all) = (0, 0);
    loop {
        match source.pull(&mut block[filled..]) {
            Pull::Frames(frames) => filled += frames * channels,
            // The decoder's thread is still decoding.
            Pull::Starved => std::thread::park_timeout(Duration::from_millis(1)),
            Pull::End => break,
        }
        if filled == block.len() {
            on_block(&block)?;
            all += sample_frames;
            filled = 0;
        }
    }
    if filled > 0 {
        on_block(&block[..filled])?;
    }
    Ok((all + filled / channels) as u64)
}

/// Creates a file and writes it; removes it if that fails, since players would take what is there for the whole.
pub(crate) fn write_or_remove<T>(
    path: &Path,
    write: impl FnOnce(File) -> io::Result<T>,
) -> Result<T, OpenError> {
    let (file, _) = create(path, Existing::Overwrite)?;
    write(file).map_err(|error| {
        let _the_first_error_is_told = std::fs::remove_file(path);
        OpenError::io(path, "writing", &error)
    })
}

/// Sample frames per block.
const BLOCK: usize = 1024;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::open_source;

    /// All of a file's sound.
    pub fn sound(path: &Path) -> Vec<f32> {
        sound_of(&path.display().to_string())
    }

    /// All sound of a source, which may have to wait for its reader.
    fn sound_of(uri: &str) -> Vec<f32> {
        let mut source = open_source(uri).unwrap().source;
        let mut all = Vec::new();
        let mut keep = |block: &[f32]| {
            all.extend_from_slice(block);
            Ok(())
        };
        each_block(&mut *source, 1000, &mut keep).unwrap();
        all
    }

    #[test]
    fn a_clip_is_written_to_its_last_sample_frame() {
        let path = std::env::temp_dir().join(format!("antiphon-whole-{}.wav", std::process::id()));
        // Longer than the ring that a live recording would have.
        let mut clip = open_source("clip:guitar").unwrap().source;
        let written = write_whole(&path, &mut *clip, SampleFormat::L16).unwrap();
        assert_eq!(Some(written), clip.length());
        let again = open_source(&path.display().to_string()).unwrap().source;
        assert_eq!(again.length(), Some(written));
        assert!(sound(&path) == sound_of("clip:guitar"), "the sound that was written is another");
        std::fs::remove_file(path).unwrap();
    }
}

//! Writes a whole source into a file, outside the media thread.

use std::path::Path;
use std::time::Duration;

use antiphon_media::{Pull, SampleFormat, Source};

use crate::OpenError;
use crate::deposit::{Deposit, WavDeposit};
use crate::sink::{Existing, create};
use crate::wav::Header;

/// Writes all of `source`, which must end, into a WAV file at `path`, replacing an existing file; returns the sample
/// frames written. For threads that may wait for a disk.
pub fn write_whole(path: &Path, source: &mut dyn Source, sample: SampleFormat) -> Result<u64, OpenError> {
    let stream = source.format();
    let failed = |error: std::io::Error| OpenError::io(path, "writing", &error);
    let (file, _) = create(path, Existing::Overwrite)?;
    let mut deposit = WavDeposit::create(file, Header { stream, sample }).map_err(failed)?;
    let mut block = vec![0.0; BLOCK * stream.channels()];
    let mut written = 0;
    loop {
        match source.pull(&mut block) {
            Pull::Frames(frames) => {
                deposit.store(&block[..frames * stream.channels()]).map_err(failed)?;
                written += frames as u64;
            }
            // The decoder's thread is still decoding.
            Pull::Starved => std::thread::park_timeout(Duration::from_millis(1)),
            Pull::End => break,
        }
    }
    deposit.close().map_err(failed)?;
    Ok(written)
}

/// Sample frames per block.
const BLOCK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_source;

    #[test]
    fn a_clip_is_written_to_its_last_sample_frame() {
        let path = std::env::temp_dir().join(format!("antiphon-whole-{}.wav", std::process::id()));
        // Longer than the ring that a live recording would have.
        let mut clip = open_source("clip:guitar").unwrap().source;
        let written = write_whole(&path, &mut *clip, SampleFormat::L16).unwrap();
        assert_eq!(Some(written), clip.length());
        let mut again = open_source(&path.display().to_string()).unwrap().source;
        assert_eq!(again.length(), Some(written));
        let mut clip = open_source("clip:guitar").unwrap().source;
        let (mut a, mut b) = (vec![0.0f32; 512], vec![0.0f32; 512]);
        for _ in 0..100 {
            assert_eq!(again.pull(&mut a), clip.pull(&mut b));
            assert_eq!(a, b);
        }
        std::fs::remove_file(path).unwrap();
    }
}

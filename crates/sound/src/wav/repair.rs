//! Repairs a recording whose header does not match its file after a crash, a power cut or a full disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::emit::ds64;
use super::read::{Extent, extent};
use super::{DS64_AT, WavError, WavInfo};
use crate::OpenError;

/// What [`repair`] found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repaired {
    /// Whole sample frames in the file now.
    pub frames: u64,
    /// Sample frames that the header did not include.
    pub gained: u64,
    /// Bytes of an incomplete sample frame that were removed from the end.
    pub removed_bytes: u64,
    /// Whether anything had to be changed.
    pub changed: bool,
}

/// Why a file could not be repaired. The file was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// It could not be opened or written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its format is not known, because the header itself is truncated or broken.
    #[error(
        "{name} cannot be repaired ({why}): if you know its format, play its bytes with: cat {name} | antiphon send '-?format=s16le&rate=48kHz&channels=2' …"
    )]
    Hopeless {
        /// The path.
        name: String,
        /// The error.
        why: String,
    },
}

/// Corrects the header of the WAV file at `path` to match what the file holds.
///
/// Whole sample frames are kept, an incomplete one at the end is removed, and sound that the header does not include is
/// added to it, unless other chunks follow the sound. A valid file is left unchanged, byte for byte.
pub fn repair(path: impl AsRef<Path>) -> Result<Repaired, RepairError> {
    let path = path.as_ref();
    let failed = |error: io::Error| OpenError::io(path, "writing", &error);
    let hopeless = |why: &str| RepairError::Hopeless { name: path.display().to_string(), why: why.into() };
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let info = WavInfo::parse(&mut io::BufReader::new(&file)).map_err(|error| match error {
        WavError::Io(error) => RepairError::Open(failed(error)),
        WavError::NotWav => hopeless("it has no WAV header"),
        WavError::NoData => hopeless("it ends before its sound begins"),
        WavError::Malformed(why) => hopeless(why),
        WavError::Unsupported(why) => hopeless(&why),
        WavError::Format(why) => hopeless(&why.to_string()),
    })?;
    let found = extent(&info, &mut file, length).map_err(failed)?;
    let frames = found.bytes / info.frame_bytes();
    let whole = frames * info.frame_bytes();
    let mut done = Repaired {
        frames,
        gained: frames.saturating_sub(info.claimed.unwrap_or(0) / info.frame_bytes()),
        removed_bytes: found.bytes - whole,
        changed: false,
    };
    if found.intact && done.removed_bytes == 0 {
        return Ok(done);
    }
    mend(&mut file, &info, &found, whole).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => hopeless("it is larger than 4 GiB, which its header cannot store"),
        _ => RepairError::Open(failed(error)),
    })?;
    done.changed = true;
    Ok(done)
}

/// Sets every size in the header for `whole` bytes of samples, and truncates the file after them.
fn mend(file: &mut File, info: &WavInfo, found: &Extent, whole: u64) -> io::Result<()> {
    let end = info.data_start + whole;
    let riff = end + whole % 2 - 8;
    let small = u32::try_from(riff).is_ok() && !info.rf64;
    if !small && info.ds64_at != Some(DS64_AT) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut put = |at: u64, bytes: &[u8]| {
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    };
    let frames = whole / info.frame_bytes();
    if small {
        put(4, &(riff as u32).to_le_bytes())?;
        put(info.data_start - 4, &(whole as u32).to_le_bytes())?;
    } else {
        put(DS64_AT, &ds64(Some((riff, whole, frames))))?;
        put(info.data_start - 4, &[0xff; 4])?;
        put(0, b"RF64\xff\xff\xff\xff")?;
    }
    if let Some(at) = info.fact_at {
        put(at, &u32::try_from(frames).unwrap_or(u32::MAX).to_le_bytes())?;
    }
    debug_assert!(found.to_the_end, "a file with chunks behind its sound counts as intact");
    if whole % 2 == 1 {
        put(end, &[0])?;
    }
    file.set_len(end + whole % 2)?;
    file.sync_all()
}

//! Cue points in a finished WAV file: marks that editors show, here where a recording misses sound.
//!
//! A `cue ` chunk with the positions and a `LIST` chunk of type `adtl` with a label for each follow the samples (Multimedia
//! Programming Interface and Data Specifications 1.0, 1991, chapter 3).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// A mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CuePoint {
    /// The sample frame that it marks.
    pub at: u64,
    /// What editors show there.
    pub label: String,
}

/// Appends cue points to a WAV file of ours that is finished. What lies beyond the 32 bits of a position is left out; so is
/// everything in a file that is not one of ours.
///
/// # Errors
///
/// Those of the file system. The sound stays readable in any case.
pub fn add_cue_points(path: &Path, points: &[CuePoint]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut head = [0; 12];
    file.read_exact(&mut head)?;
    let is_large = &head[..4] == b"RF64";
    if (!is_large && &head[..4] != b"RIFF") || &head[8..] != b"WAVE" || points.is_empty() {
        return Ok(());
    }
    let chunks = chunks(points);
    let end = file.seek(SeekFrom::End(0))?;
    let whole = end + chunks.len() as u64 - 8;
    if !is_large && u32::try_from(whole).is_err() {
        // The sizes of such a file are in another chunk, which only a recording of that size has.
        return Ok(());
    }
    file.write_all(&chunks)?;
    // The size comes last: until then the file ends where it did.
    write_size(&mut file, whole, is_large)?;
    file.sync_all()
}

/// Bytes after the first eight, in the place that a large file has for it.
fn write_size(file: &mut File, whole: u64, is_large: bool) -> io::Result<()> {
    if is_large {
        // Behind "RF64", a size, "WAVE", "ds64" and its size.
        file.seek(SeekFrom::Start(20))?;
        return file.write_all(&whole.to_le_bytes());
    }
    file.seek(SeekFrom::Start(4))?;
    file.write_all(&(whole as u32).to_le_bytes())
}

fn chunks(points: &[CuePoint]) -> Vec<u8> {
    let positions = points.iter().filter_map(|point| Some((u32::try_from(point.at).ok()?, &point.label)));
    let (mut cue, mut labels, mut count) = (Vec::new(), b"adtl".to_vec(), 0u32);
    for (at, label) in positions {
        count += 1;
        for field in [count, at] {
            cue.extend(field.to_le_bytes());
        }
        cue.extend(b"data");
        // Start of the chunk and of the block, and the sample frame within it.
        for field in [0, 0, at] {
            cue.extend(field.to_le_bytes());
        }
        let mut text = count.to_le_bytes().to_vec();
        text.extend(label.bytes().filter(|byte| *byte != 0));
        text.push(0);
        chunk(b"labl", &text, &mut labels);
    }
    let mut all = Vec::new();
    chunk(b"cue ", &[&count.to_le_bytes()[..], &cue].concat(), &mut all);
    chunk(b"LIST", &labels, &mut all);
    all
}

fn chunk(name: &[u8; 4], body: &[u8], out: &mut Vec<u8>) {
    out.extend(name);
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.extend(&[0][..body.len() % 2]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wav::emit::Header;
    use antiphon_media::{SampleFormat, StreamFormat};

    fn write(name: &str, frames: u64) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("antiphon-cue-{name}-{}.wav", std::process::id()));
        let header = Header { stream: StreamFormat::new(48_000, 2).unwrap(), sample: SampleFormat::L16 };
        std::fs::write(&path, [header.emit(4 * frames), vec![1; 4 * frames as usize]].concat()).unwrap();
        path
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn marks_follow_the_samples_and_the_sound_stays_as_it_is() {
        let path = write("marks", 1000);
        let before = std::fs::read(&path).unwrap();
        let points: Vec<CuePoint> = [(100, "0.5 s missing"), (900, "odd")]
            .map(|(at, label)| CuePoint { at, label: label.into() })
            .into();
        add_cue_points(&path, &points).unwrap();
        let after = std::fs::read(&path).unwrap();
        assert_eq!(word(&after, 4) as usize, after.len() - 8);
        assert_eq!((&after[8..before.len()], &after[..4]), (&before[8..], &b"RIFF"[..]));
        let cue = before.len();
        assert_eq!(
            (&after[cue..cue + 4], word(&after, cue + 4), word(&after, cue + 8)),
            (&b"cue "[..], 52, 2)
        );
        assert_eq!(
            (word(&after, cue + 16), &after[cue + 20..cue + 24], word(&after, cue + 32)),
            (100, &b"data"[..], 100)
        );
        let list = cue + 60;
        assert_eq!(&after[list..list + 4], b"LIST");
        assert_eq!(&after[list + 8..list + 16], b"adtllabl");
        assert_eq!(&after[list + 24..list + 38], b"0.5 s missing\0");
        // Readers find the same sound.
        let opened = crate::open_source(&format!("file:{}", path.display())).unwrap();
        assert_eq!((opened.source.length(), opened.notes.list()), (Some(1000), vec![]));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_files_are_left_alone() {
        let path = write("other", 10);
        std::fs::write(&path, b"fLaC and so on, long enough").unwrap();
        add_cue_points(&path, &[CuePoint { at: 1, label: "x".into() }]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"fLaC and so on, long enough");
        std::fs::remove_file(path).unwrap();
    }
}

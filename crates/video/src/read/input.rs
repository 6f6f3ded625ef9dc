//! Reads bytes of a file, no more than are there.

use std::io::{Read, Seek, SeekFrom};

use super::VideoFileError;

/// A file with its length.
pub struct Input<R> {
    inner: R,
    at: u64,
    len: u64,
}

impl<R: Read + Seek> Input<R> {
    pub fn new(mut inner: R) -> Result<Self, VideoFileError> {
        let len = inner.seek(SeekFrom::End(0))?;
        inner.seek(SeekFrom::Start(0))?;
        Ok(Input { inner, at: 0, len })
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.len
    }

    /// So many bytes. Memory is taken as they come.
    pub fn read(&mut self, len: usize) -> Result<Vec<u8>, VideoFileError> {
        let mut bytes = Vec::new();
        self.inner.by_ref().take(len as u64).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        if bytes.len() < len {
            return Err(VideoFileError::Truncated { frames: 0 });
        }
        Ok(bytes)
    }

    pub fn read_array<const N: usize>(&mut self) -> Result<[u8; N], VideoFileError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.inner.read(&mut bytes[filled..]) {
                Ok(0) => return Err(VideoFileError::Truncated { frames: 0 }),
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += N as u64;
        Ok(bytes)
    }

    /// Moves to a place in the file, which must be there.
    pub fn seek(&mut self, at: u64) -> Result<(), VideoFileError> {
        if at > self.len {
            return Err(VideoFileError::Truncated { frames: 0 });
        }
        if at != self.at {
            self.inner.seek(SeekFrom::Start(at))?;
            self.at = at;
        }
        Ok(())
    }
}

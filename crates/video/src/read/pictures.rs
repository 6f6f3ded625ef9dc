//! Raw JPEGs, one behind the other.

use std::io::Read;

use super::{Demuxer, FrameRate, Sample, VideoFileError};
use crate::codec::Codec;
use crate::frame::{MAX_FRAME, StreamInfo};
use crate::jpeg::first_len;

pub struct PictureReader<R> {
    input: R,
    rate: FrameRate,
    buffer: Vec<u8>,
    frames: u64,
}

impl<R: Read> PictureReader<R> {
    pub fn new(input: R, rate: FrameRate) -> Self {
        PictureReader { input, rate, buffer: Vec::new(), frames: 0 }
    }
}

impl<R: Read + Send> Demuxer for PictureReader<R> {
    fn info(&self) -> StreamInfo {
        StreamInfo::new(Codec::Mjpeg)
    }

    fn next(&mut self) -> Result<Option<Sample>, VideoFileError> {
        let mut chunk = CHUNK;
        loop {
            // Between pictures there may be padding.
            let begin = self.buffer.windows(2).position(|pair| pair == [0xff, 0xd8]);
            self.buffer.drain(..begin.unwrap_or(self.buffer.len().saturating_sub(1)));
            if let Some(len) = begin.and_then(|_| first_len(&self.buffer)) {
                let rest = self.buffer.split_off(len);
                let data = std::mem::replace(&mut self.buffer, rest);
                let ticks = self.rate.ticks(self.frames);
                self.frames += 1;
                return Ok(Some(Sample { data, ticks }));
            }
            if self.buffer.len() > MAX_FRAME {
                let (len, max) = (self.buffer.len() as u64, MAX_FRAME as u64);
                return Err(VideoFileError::TooLong { what: "a picture", len, max });
            }
            if self.input.by_ref().take(chunk).read_to_end(&mut self.buffer)? == 0 {
                return if begin.is_some() { Err(VideoFileError::Truncated { frames: 0 }) } else { Ok(None) };
            }
            // A long picture is not looked through anew for every little piece.
            chunk *= 2;
        }
    }
}

/// Bytes that are read at once, of pictures of ordinary size.
const CHUNK: u64 = 65_536;

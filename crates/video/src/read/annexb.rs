//! Raw H.264: NAL units behind start codes (H.264 Annex B).

use std::io::Read;

use super::{Demuxer, FrameRate, Sample, VideoFileError};
use crate::codec::Codec;
use crate::frame::{MAX_FRAME, StreamInfo};
use crate::h264::{AccessUnits, kind, nal, size_of, start_code};

pub struct AnnexBReader<R> {
    input: R,
    rate: FrameRate,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are done with.
    done: usize,
    is_at_end: bool,
    units: AccessUnits,
    frames: u64,
    info: StreamInfo,
    first: Option<Vec<u8>>,
}

impl<R: Read> AnnexBReader<R> {
    pub fn open(input: R, rate: FrameRate) -> Result<Self, VideoFileError> {
        let mut reader = AnnexBReader {
            input,
            rate,
            buffer: Vec::new(),
            done: 0,
            is_at_end: false,
            units: AccessUnits::default(),
            frames: 0,
            info: StreamInfo::new(Codec::H264),
            first: None,
        };
        // What stands before the first start code is no NAL unit.
        reader.next_unit()?;
        reader.first = reader.next_access_unit()?;
        Ok(reader)
    }

    fn next_access_unit(&mut self) -> Result<Option<Vec<u8>>, VideoFileError> {
        while let Some(unit) = self.next_unit()? {
            let len = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let unit = &unit[..len];
            if self.frames == 0 && matches!(kind(unit), nal::SPS | nal::PPS) && self.info.config.len() < 32 {
                self.info.config.push(unit.to_vec());
                self.info.size = self.info.size.or(size_of(unit).filter(|_| kind(unit) == nal::SPS));
            }
            if let Some(ended) = self.units.push(unit) {
                return Ok(Some(ended));
            }
        }
        Ok(self.units.finish())
    }

    /// The bytes up to the next start code.
    fn next_unit(&mut self) -> Result<Option<Vec<u8>>, VideoFileError> {
        let mut looked_at = self.done;
        loop {
            if let Some(at) = start_code(&self.buffer[looked_at..]) {
                let end = looked_at + at;
                let unit = self.buffer[self.done..end].to_vec();
                self.done = end + 3;
                return Ok(Some(unit));
            }
            if self.is_at_end {
                let unit = self.buffer.split_off(self.done);
                self.buffer.clear();
                self.done = 0;
                return Ok((!unit.is_empty()).then_some(unit));
            }
            let len = self.buffer.len() - self.done;
            if len > MAX_FRAME {
                let (len, max) = (len as u64, MAX_FRAME as u64);
                return Err(VideoFileError::TooLong { what: "a part of a video frame", len, max });
            }
            self.buffer.drain(..self.done);
            self.done = 0;
            // A start code may be half there.
            looked_at = self.buffer.len().saturating_sub(2);
            self.is_at_end = self.input.by_ref().take(CHUNK).read_to_end(&mut self.buffer)? == 0;
        }
    }
}

impl<R: Read + Send> Demuxer for AnnexBReader<R> {
    fn info(&self) -> StreamInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Sample>, VideoFileError> {
        let data = match self.first.take() {
            Some(first) => Some(first),
            None => self.next_access_unit()?,
        };
        let ticks = self.rate.ticks(self.frames);
        self.frames += 1;
        Ok(data.map(|data| Sample { data, ticks }))
    }
}

/// Bytes that are read at once.
const CHUNK: u64 = 65_536;

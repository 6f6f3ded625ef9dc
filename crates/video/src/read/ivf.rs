//! IVF: what encoders of VP8, VP9 and AV1 write when nobody asks for more.

use std::io::{Read, Seek};

use super::input::Input;
use super::{Demuxer, Sample, VideoFileError, check_len};
use crate::codec::{CLOCK_RATE, Codec};
use crate::frame::{PictureSize, StreamInfo};

pub struct IvfReader<R> {
    input: Input<R>,
    info: StreamInfo,
    /// Units of time in a second, and how many of those a time stamp counts.
    rate: u32,
    scale: u32,
}

impl<R: Read + Seek> IvfReader<R> {
    pub fn open(input: R) -> Result<Self, VideoFileError> {
        let mut input = Input::new(input)?;
        let header = input.read_array::<32>()?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let long =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let codec = match &header[8..12] {
            b"VP80" => Codec::Vp8,
            b"VP90" => Codec::Vp9,
            b"AV01" => Codec::Av1,
            name => return Err(VideoFileError::Codec { name: String::from_utf8_lossy(name).into_owned() }),
        };
        let size = PictureSize { width: short(12).into(), height: short(14).into() };
        input.seek(short(6).max(32).into())?;
        let info = StreamInfo { size: Some(size), ..StreamInfo::new(codec) };
        Ok(IvfReader { input, info, rate: long(16).max(1), scale: long(20) })
    }
}

impl<R: Read + Seek + Send> Demuxer for IvfReader<R> {
    fn info(&self) -> StreamInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Sample>, VideoFileError> {
        if self.input.is_at_end() {
            return Ok(None);
        }
        let header = self.input.read_array::<12>()?;
        let [l0, l1, l2, l3, time @ ..] = header;
        let data = self.input.read(check_len(u32::from_le_bytes([l0, l1, l2, l3]).into())?)?;
        let units = u128::from(u64::from_le_bytes(time)) * u128::from(self.scale);
        let ticks = (units * u128::from(CLOCK_RATE) / u128::from(self.rate)) as u64;
        Ok(Some(Sample { data, ticks }))
    }
}

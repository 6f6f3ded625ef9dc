//! Matroska and WebM (RFC 9559): the first track of video whose codec is carried.
//!
//! Segments, clusters and block groups are entered wherever they begin, so that those of unknown size (a live stream, or
//! a recording that broke off) need no care.

use std::io::{Read, Seek};

use super::input::Input;
use super::mp4::damaged;
use super::{Demuxer, Sample, VideoFileError, check_len};
use crate::av1;
use crate::codec::Codec;
use crate::ebml::{UNKNOWN_SIZE, child, children, id, id_of, size_of, uint, vint_len};
use crate::frame::{PictureSize, StreamInfo};
use crate::h264;

pub struct MatroskaReader<R> {
    input: Input<R>,
    track: Option<Track>,
    /// Nanoseconds of a unit of time.
    scale: u64,
    cluster: u64,
    /// Where the segment says that it ends.
    end: u64,
    /// The codec of a track of video that is not carried.
    other: Option<String>,
}

struct Track {
    number: u64,
    info: StreamInfo,
    length_size: Option<usize>,
    /// Bytes that stand before each frame and are left out (header stripping, RFC 9559 §5.1.4.1.31.9).
    stripped: Vec<u8>,
}

struct Element {
    id: u32,
    size: u64,
}

impl<R: Read + Seek> MatroskaReader<R> {
    pub fn open(input: R) -> Result<Self, VideoFileError> {
        let input = Input::new(input)?;
        let mut reader =
            MatroskaReader { input, track: None, scale: 1_000_000, cluster: 0, end: 0, other: None };
        let header = reader.element()?.filter(|element| element.id == id::EBML);
        let header = reader.body(&header.ok_or(VideoFileError::Unknown)?)?;
        match child(&header, id::DOC_TYPE).map(without_padding) {
            Some(b"matroska" | b"webm") => {}
            _ => return Err(VideoFileError::Unknown),
        }
        // Tracks come before the first cluster.
        while reader.track.is_none() {
            let Some(element) = reader.element()? else { break };
            if element.id == id::CLUSTER {
                break;
            }
            reader.take(&element)?;
        }
        if reader.track.is_none() {
            return Err(reader.other.map_or(VideoFileError::NoVideo, |name| VideoFileError::Codec { name }));
        }
        Ok(reader)
    }

    /// The header of the next element; `None` at the end of the file.
    fn element(&mut self) -> Result<Option<Element>, VideoFileError> {
        if self.input.is_at_end() {
            return if self.end != UNKNOWN_SIZE && self.end > self.input.len() {
                Err(VideoFileError::Truncated { frames: 0 })
            } else {
                Ok(None)
            };
        }
        let (id_bytes, id_len) = self.number(4)?;
        let (size_bytes, size_len) = self.number(8)?;
        Ok(Some(Element { id: id_of(&id_bytes[..id_len]), size: size_of(&size_bytes[..size_len]) }))
    }

    fn number(&mut self, most: usize) -> Result<([u8; 8], usize), VideoFileError> {
        let mut bytes = [0; 8];
        let [first] = self.input.read_array::<1>()?;
        let len = vint_len(first);
        if len > most {
            return Err(damaged("an element has no valid number"));
        }
        bytes[0] = first;
        for byte in &mut bytes[1..len] {
            [*byte] = self.input.read_array::<1>()?;
        }
        Ok((bytes, len))
    }

    /// An element's content, of those that are read as a whole.
    fn body(&mut self, element: &Element) -> Result<Vec<u8>, VideoFileError> {
        if element.size > MAX_HEADER {
            return Err(VideoFileError::TooLong { what: "a header", len: element.size, max: MAX_HEADER });
        }
        self.input.read(element.size as usize)
    }

    /// Takes an element that is no block: enters it, remembers it, or passes over it.
    fn take(&mut self, element: &Element) -> Result<(), VideoFileError> {
        match element.id {
            id::SEGMENT => {
                self.end = match element.size {
                    UNKNOWN_SIZE => UNKNOWN_SIZE,
                    size => self.input.at().saturating_add(size),
                };
            }
            id::CLUSTER | id::BLOCK_GROUP => {}
            id::TIMESTAMP => {
                let body = self.body(element)?;
                self.cluster = uint(&body);
            }
            id::INFO => {
                let body = self.body(element)?;
                self.scale = child(&body, id::TIMESTAMP_SCALE).map_or(self.scale, uint);
            }
            id::TRACKS if self.track.is_none() => {
                let body = self.body(element)?;
                for (_, entry) in children(&body).filter(|(child, _)| *child == id::TRACK_ENTRY) {
                    if self.track.is_none() {
                        self.take_track(entry)?;
                    }
                }
            }
            _ if element.size == UNKNOWN_SIZE => return Err(damaged("an element has no size")),
            _ => self.input.seek(self.input.at().saturating_add(element.size))?,
        }
        Ok(())
    }

    fn take_track(&mut self, entry: &[u8]) -> Result<(), VideoFileError> {
        const VIDEO: u64 = 1;
        if child(entry, id::TRACK_TYPE).map(uint) != Some(VIDEO) {
            return Ok(());
        }
        // An element that is absent is as an empty one: such a codec is refused, and the picture has no size here.
        let name = without_padding(child(entry, id::CODEC_ID).unwrap_or_default());
        let name = String::from_utf8_lossy(&name[..name.len().min(40)]);
        let private = child(entry, id::CODEC_PRIVATE).unwrap_or_default();
        // GStreamer names MJPEG as Windows did: a BITMAPINFOHEADER with that code at its place.
        let is_mjpg = name == "V_MS/VFW/FOURCC" && private.get(16..20) == Some(b"MJPG");
        let known = Codec::ALL.into_iter().find(|codec| codec_id(*codec) == name);
        let Some(codec) = known.or(is_mjpg.then_some(Codec::Mjpeg)) else {
            self.other.get_or_insert(name.into_owned());
            return Ok(());
        };
        let mut info = StreamInfo::new(codec);
        let video = child(entry, id::VIDEO).unwrap_or_default();
        let side = |id| child(video, id).map(uint).and_then(|side| u32::try_from(side).ok());
        if let (Some(width), Some(height)) = (side(id::PIXEL_WIDTH), side(id::PIXEL_HEIGHT)) {
            info.size = Some(PictureSize { width, height });
        }
        let mut length_size = None;
        match codec {
            Codec::H264 => {
                let (sets, size) =
                    h264::read_avcc(private).ok_or(damaged("its H.264 has no valid parameter sets"))?;
                info.config = sets;
                length_size = Some(size);
            }
            Codec::Av1 => info.config.extend(private.get(4..).and_then(av1::sequence_header)),
            Codec::Vp8 | Codec::Vp9 | Codec::Mjpeg => {}
        }
        let number = child(entry, id::TRACK_NUMBER).map_or(0, uint);
        self.track = Some(Track { number, info, length_size, stripped: stripped(entry)? });
        Ok(())
    }

    /// A frame of a block, if the block belongs to the track (§10).
    fn block(&mut self, element: &Element) -> Result<Option<Sample>, VideoFileError> {
        let Some(track) = &self.track else { return Ok(None) };
        let (number, stripped) = (track.number, track.stripped.clone());
        let (begin, end) = (self.input.at(), self.input.at().saturating_add(element.size));
        let (bytes, len) = self.number(8)?;
        let [t0, t1, flags] = self.input.read_array::<3>()?;
        if self.input.at() > end {
            return Err(damaged("a block is shorter than its header"));
        }
        if size_of(&bytes[..len]) != number {
            self.input.seek(end)?;
            return Ok(None);
        }
        if flags & 0x06 != 0 {
            return Err(damaged("frames of video share a block"));
        }
        let len = check_len(element.size - (self.input.at() - begin))?;
        let mut data = self.input.read(len)?;
        if !stripped.is_empty() {
            data = [stripped, data].concat();
        }
        let units = i128::from(self.cluster) + i128::from(i16::from_be_bytes([t0, t1]));
        // Nanoseconds to 90 000 a second.
        let ticks = units.max(0) * i128::from(self.scale) * 9 / 100_000;
        Ok(Some(Sample { data, ticks: u64::try_from(ticks).unwrap_or(u64::MAX) }))
    }
}

impl<R: Read + Seek + Send> Demuxer for MatroskaReader<R> {
    fn info(&self) -> StreamInfo {
        self.track.as_ref().map_or_else(|| StreamInfo::new(Codec::H264), |track| track.info.clone())
    }

    fn length_size(&self) -> Option<usize> {
        self.track.as_ref().and_then(|track| track.length_size)
    }

    fn next(&mut self) -> Result<Option<Sample>, VideoFileError> {
        while let Some(element) = self.element()? {
            match element.id {
                id::SIMPLE_BLOCK | id::BLOCK if element.size != UNKNOWN_SIZE => {
                    if let Some(sample) = self.block(&element)? {
                        return Ok(Some(sample));
                    }
                }
                _ => self.take(&element)?,
            }
        }
        Ok(None)
    }
}

/// A string ends at its first zero (RFC 8794 §13); GStreamer writes one.
fn without_padding(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    &text[..end]
}

/// What Matroska calls a codec (RFC 9559's codec registry).
pub(crate) fn codec_id(codec: Codec) -> &'static str {
    match codec {
        Codec::H264 => "V_MPEG4/ISO/AVC",
        Codec::Vp8 => "V_VP8",
        Codec::Vp9 => "V_VP9",
        Codec::Av1 => "V_AV1",
        Codec::Mjpeg => "V_MJPEG",
    }
}

fn stripped(entry: &[u8]) -> Result<Vec<u8>, VideoFileError> {
    let Some(encodings) = child(entry, id::CONTENT_ENCODINGS) else { return Ok(Vec::new()) };
    const HEADER_STRIPPING: u64 = 3;
    let mut all = Vec::new();
    for (_, encoding) in children(encodings).filter(|(child, _)| *child == id::CONTENT_ENCODING) {
        let compression = child(encoding, id::CONTENT_COMPRESSION);
        let algorithm = compression.and_then(|body| child(body, id::CONTENT_COMP_ALGO)).map(uint);
        match (compression, algorithm) {
            (Some(body), Some(HEADER_STRIPPING)) => {
                // Nothing was stripped without them.
                let settings = child(body, id::CONTENT_COMP_SETTINGS).unwrap_or_default();
                all.extend(&settings[..settings.len().min(MAX_STRIPPED)]);
            }
            _ => return Err(damaged("its frames are encrypted or compressed once more")),
        }
    }
    Ok(all)
}

/// Bytes of the longest header: those of real files have some kilobytes.
const MAX_HEADER: u64 = 1 << 20;
/// Bytes of the longest stripped header; real ones have four.
const MAX_STRIPPED: usize = 1024;

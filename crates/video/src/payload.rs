//! RTP payload formats: the payloads of a frame, and the frame of its payloads.
//!
//! Both directions work on whole frames: [`crate::Depacketiser`] collects the packets of a frame and knows that none is
//! missing before a format sees them. So the formats have no state of a half-read frame and nothing to bound.
//!
//! They are our own. The library that has most of them (`rtc-rtp` 0.21, and its older relative `rtp`) was read and left:
//! its H.264 packetiser leaves out delimiters, fillers and parameter sets that no slice follows, so access units do not
//! come back byte by byte; its H.264 depacketiser joins fragments across a loss without a word, has no bound for
//! fragments that never end, and reads behind the end of a damaged STAP-A; its VP8 depacketiser refuses packets of less
//! than four bytes, which a frame's last packet may have; none of them knows of losses, and there is no MJPEG.

mod av1;
mod h264;
mod jpeg;
mod vp8;
mod vp9;

use crate::codec::Codec;
use crate::frame::Frame;

/// The payloads of one frame, one behind the other, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Payloads {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends.iter().enumerate().map(move |(at, end)| &self.bytes[start(at)..*end])
    }
}

/// Cuts the frames of one stream into payloads.
#[derive(Debug)]
pub(crate) enum Cutter {
    H264,
    Vp8(vp8::Cutter),
    Vp9(vp9::Cutter),
    Av1,
    Mjpeg,
}

impl Cutter {
    /// `first_picture` is the first picture's number, of formats that have one.
    pub fn new(codec: Codec, first_picture: u16) -> Self {
        match codec {
            Codec::H264 => Cutter::H264,
            Codec::Vp8 => Cutter::Vp8(vp8::Cutter::new(first_picture)),
            Codec::Vp9 => Cutter::Vp9(vp9::Cutter::new(first_picture)),
            Codec::Av1 => Cutter::Av1,
            Codec::Mjpeg => Cutter::Mjpeg,
        }
    }

    /// Cuts a frame into payloads of at most `max` bytes, at least [`MIN_PAYLOAD`]. `None` if it is no frame of the codec.
    pub fn cut(&mut self, frame: &Frame, max: usize, out: &mut Payloads) -> Option<()> {
        out.clear();
        debug_assert!(max >= MIN_PAYLOAD);
        match self {
            Cutter::H264 => h264::cut(&frame.data, max, out),
            Cutter::Vp8(cutter) => cutter.cut(frame, max, out),
            Cutter::Vp9(cutter) => cutter.cut(frame, max, out),
            Cutter::Av1 => av1::cut(&frame.data, max, out),
            Cutter::Mjpeg => jpeg::cut(&frame.data, max, out)?,
        }
        (out.len() > 0).then_some(())
    }
}

/// Puts the payloads of one stream's frames together.
#[derive(Debug)]
pub(crate) struct Assembler {
    codec: Codec,
    jpeg: jpeg::TableCache,
}

impl Assembler {
    pub fn new(codec: Codec) -> Self {
        Assembler { codec, jpeg: jpeg::TableCache::default() }
    }

    /// Whether a payload is certainly the first of a frame. Formats that can't tell say `false`.
    pub fn is_start(&self, payload: &[u8]) -> bool {
        match self.codec {
            Codec::H264 => h264::is_start(payload),
            Codec::Vp8 => vp8::is_start(payload),
            Codec::Vp9 => vp9::is_start(payload),
            Codec::Av1 => av1::is_start(payload),
            Codec::Mjpeg => jpeg::is_start(payload),
        }
    }

    /// Whether a payload may be the first of a frame where nothing is known of what came before: a stream is joined.
    pub fn may_start(&self, payload: &[u8]) -> bool {
        match self.codec {
            Codec::H264 => h264::may_start(payload),
            _ => self.is_start(payload),
        }
    }

    /// The temporal layer that a payload's own header tells.
    pub fn temporal_layer(&self, payload: &[u8]) -> Option<u8> {
        match self.codec {
            Codec::Vp8 => vp8::Descriptor::read(payload)?.0.temporal_layer,
            Codec::Vp9 => vp9::Descriptor::read(payload)?.0.temporal_layer,
            Codec::H264 | Codec::Av1 | Codec::Mjpeg => None,
        }
    }

    /// The frame of these payloads, all of them and in order; `None` if they contradict each other.
    pub fn assemble(&mut self, payloads: &[&[u8]]) -> Option<Vec<u8>> {
        let frame = match self.codec {
            Codec::H264 => h264::assemble(payloads),
            Codec::Vp8 => vp8::assemble(payloads),
            Codec::Vp9 => vp9::assemble(payloads),
            Codec::Av1 => av1::assemble(payloads),
            Codec::Mjpeg => self.jpeg.assemble(payloads),
        }?;
        (!frame.is_empty()).then_some(frame)
    }
}

/// Bytes of the shortest limit of a payload: MJPEG's first one has 140 bytes of headers.
pub(crate) const MIN_PAYLOAD: usize = 160;

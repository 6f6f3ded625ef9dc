//! One picture, and what is known of it.

use antiphon_core::MediaTime;

use crate::codec::{CLOCK_RATE, Codec};

/// Width and height of a picture in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PictureSize {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// What a decoder, or a sender that must leave frames out, wants to know of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Picture {
    /// Decoding can begin here.
    pub key: bool,
    /// No other picture needs it: it can be left out without harm to others.
    pub droppable: bool,
    /// 0 for the base layer. A stream whose codec does not tell layers has its droppable pictures in layer 1.
    pub temporal_layer: u8,
    /// Only where the picture itself says it: of key frames, and of every JPEG.
    pub size: Option<PictureSize>,
}

/// One video frame (an access unit of H.264, a temporal unit of AV1).
///
/// `data` has one form for each codec, so that the bytes before packetising and after reassembly are equal:
///
/// * H.264: NAL units, each behind the start code 00 00 00 01 (Annex B), parameter sets in front of key frames;
/// * VP8, VP9: the frame as the encoder gives it (of VP9 with the index of a superframe);
/// * AV1: OBUs with a size field in as few bytes as possible, without temporal delimiters, tile lists and padding;
/// * MJPEG: a JPEG whose headers are those that RFC 2435 rebuilds ([`crate::jpeg::normalise`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// How it is compressed.
    pub codec: Codec,
    /// When it is shown, since the stream began, at [`CLOCK_RATE`].
    pub time: MediaTime,
    /// Key frame or not, droppable or not, its layer.
    pub picture: Picture,
    /// The compressed picture.
    pub data: Vec<u8>,
}

/// What a receiver must know before the first frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamInfo {
    /// How the pictures are compressed.
    pub codec: Codec,
    /// Pixels, if known.
    pub size: Option<PictureSize>,
    /// Parameter sets of H.264, one NAL unit each without start code; the sequence header OBU of AV1; else empty.
    pub config: Vec<Vec<u8>>,
}

impl StreamInfo {
    /// A stream of which only the codec is known.
    pub fn new(codec: Codec) -> Self {
        StreamInfo { codec, size: None, config: Vec::new() }
    }
}

/// A position in a video stream, in units of its RTP clock.
pub fn video_time(ticks: u64) -> MediaTime {
    MediaTime::new(ticks, CLOCK_RATE)
}

/// Bytes of the longest frame that is read, sent or put together: 8 MB hold a picture of 4K at the best quality in use,
/// and many of them at a time are still a bounded amount of memory.
pub const MAX_FRAME: usize = 8 << 20;

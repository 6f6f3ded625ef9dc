//! What a compressed picture tells of itself, whatever its codec.

use crate::codec::Codec;
use crate::frame::Picture;
use crate::{av1, h264, jpeg, vp8, vp9};

/// Reads the headers of a stream's pictures, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Inspector {
    codec: Codec,
    av1: av1::Inspector,
}

impl Inspector {
    /// For a stream of that codec.
    pub fn new(codec: Codec) -> Self {
        Inspector { codec, av1: av1::Inspector::default() }
    }

    /// What the picture is; `None` if it is none of the codec.
    pub fn inspect(&mut self, data: &[u8]) -> Option<Picture> {
        match self.codec {
            Codec::H264 => Some(h264::inspect(data)),
            Codec::Vp8 => vp8::inspect(data),
            Codec::Vp9 => vp9::inspect(data),
            Codec::Av1 => self.av1.inspect(data),
            Codec::Mjpeg => {
                let jpeg = jpeg::Jpeg::read(data).ok()?;
                Some(Picture { key: true, droppable: true, size: Some(jpeg.size), ..Picture::default() })
            }
        }
    }
}

//! Frames into payloads, for packets that somebody else makes.

use antiphon_core::Rng;

use crate::codec::Codec;
use crate::frame::{Frame, MAX_FRAME};
use crate::payload::{Cutter, MIN_PAYLOAD, Payloads};

/// Cuts the frames of one stream into the payloads of RTP packets. Memory is used again from frame to frame.
#[derive(Debug)]
pub struct FrameCutter {
    codec: Codec,
    cutter: Cutter,
    payloads: Payloads,
}

impl FrameCutter {
    /// Numbers that a payload format has start at random values drawn from `seed`.
    pub fn new(codec: Codec, seed: u64) -> Self {
        let first_picture = Rng::fork(seed, "video cutter").next_u32() as u16;
        FrameCutter { codec, cutter: Cutter::new(codec, first_picture), payloads: Payloads::default() }
    }

    /// The payloads of a frame, each of at most `max` bytes; `None` for what is no frame of the codec, too long, or cut for a
    /// path that carries too little ([`FrameCutter::LEAST`]).
    pub fn cut(&mut self, frame: &Frame, max: usize) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        if frame.codec != self.codec || frame.data.len() > MAX_FRAME || max < Self::LEAST {
            return None;
        }
        self.cutter.cut(frame, max, &mut self.payloads)?;
        Some(self.payloads.iter())
    }

    /// Bytes that a payload must be able to have.
    pub const LEAST: usize = MIN_PAYLOAD;
}

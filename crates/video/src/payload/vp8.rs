//! VP8 (RFC 7741 §4.2).
//!
//! ```text
//!  0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+
//! |X|R|N|S|R| PID |   N: no frame needs it; S: a partition begins
//! +-+-+-+-+-+-+-+-+
//! |I|L|T|K|  RSV  |   if X
//! +-+-+-+-+-+-+-+-+
//! |M| picture id  |   if I; of 15 bits if M
//! +-+-+-+-+-+-+-+-+
//! |   TL0PICIDX   |   if L
//! +-+-+-+-+-+-+-+-+
//! |TID|Y| KEYIDX  |   if T or K
//! +-+-+-+-+-+-+-+-+
//! ```

use super::Payloads;
use crate::frame::Frame;

#[derive(Debug)]
pub struct Cutter {
    picture: u16,
    base_pictures: u8,
}

impl Cutter {
    pub fn new(picture: u16) -> Self {
        Cutter { picture: picture & 0x7fff, base_pictures: 0 }
    }

    pub fn cut(&mut self, frame: &Frame, max: usize, out: &mut Payloads) {
        let picture = &frame.picture;
        if picture.temporal_layer == 0 {
            self.base_pictures = self.base_pictures.wrapping_add(1);
        }
        let not_needed = u8::from(picture.droppable) << 5;
        let [high, low] = (self.picture | 0x8000).to_be_bytes();
        // Key frames and what is above the base layer can be switched to (Y) once the base is there.
        let layer = picture.temporal_layer.min(3) << 6 | 0x20;
        let rest = [0xe0, high, low, self.base_pictures, layer];
        for (n, piece) in frame.data.chunks(max - 6).enumerate() {
            let start = if n == 0 { 0x10 } else { 0 };
            out.push(&[&[0x80 | not_needed | start], &rest, piece]);
        }
        self.picture = (self.picture + 1) & 0x7fff;
    }
}

pub struct Descriptor {
    /// The frame's first packet.
    start: bool,
    pub temporal_layer: Option<u8>,
}

impl Descriptor {
    /// Reads it, and what is behind.
    pub fn read(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (first, mut rest) = payload.split_first()?;
        let mut temporal_layer = None;
        if first & 0x80 != 0 {
            let mut next = || {
                let (byte, behind) = rest.split_first()?;
                rest = behind;
                Some(*byte)
            };
            let present = next()?;
            if present & 0x80 != 0 && next()? & 0x80 != 0 {
                next()?;
            }
            if present & 0x40 != 0 {
                next()?;
            }
            if present & 0x30 != 0 {
                let layer = next()? >> 6;
                temporal_layer = (present & 0x20 != 0).then_some(layer);
            }
        }
        Some((Descriptor { start: first & 0x17 == 0x10, temporal_layer }, rest))
    }
}

pub fn is_start(payload: &[u8]) -> bool {
    Descriptor::read(payload).is_some_and(|(descriptor, _)| descriptor.start)
}

pub fn assemble(payloads: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payloads.iter().map(|payload| payload.len()).sum());
    for (n, payload) in payloads.iter().enumerate() {
        let (descriptor, piece) = Descriptor::read(payload)?;
        if descriptor.start != (n == 0) {
            return None;
        }
        out.extend(piece);
    }
    Some(out)
}

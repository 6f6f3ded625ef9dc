//! VP9 (RFC 9628 §4.2): one spatial layer is sent; of what others send, all layers of a picture together are the frame.
//! The field of layers is left out: ffmpeg 5.1 misreads it, and frame marks tell the temporal layer.
//!
//! ```text
//!  0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+
//! |I|P|L|F|B|E|V|Z|   B, E: the layer's frame begins, ends
//! +-+-+-+-+-+-+-+-+
//! |M| picture id  |   if I; of 15 bits if M
//! +-+-+-+-+-+-+-+-+
//! | TID |U| SID |D|   if L
//! +-+-+-+-+-+-+-+-+
//! |   TL0PICIDX   |   if L and not F
//! +-+-+-+-+-+-+-+-+
//! |   P_DIFF    |N|   if F and P, at most three
//! +-+-+-+-+-+-+-+-+
//! |      SS       |   if V: the scalability structure
//! +-+-+-+-+-+-+-+-+
//! ```

use super::Payloads;
use crate::frame::Frame;

#[derive(Debug)]
pub struct Cutter {
    picture: u16,
}

impl Cutter {
    pub fn new(picture: u16) -> Self {
        Cutter { picture: picture & 0x7fff }
    }

    pub fn cut(&mut self, frame: &Frame, max: usize, out: &mut Payloads) {
        let picture = &frame.picture;
        let [high, low] = (self.picture | 0x8000).to_be_bytes();
        let predicted = if picture.key { 0 } else { 0x40 };
        let pieces = frame.data.chunks(max - 3);
        let last = pieces.len().saturating_sub(1);
        for (n, piece) in pieces.enumerate() {
            let begin = if n == 0 { 0x08 } else { 0 };
            let end = if n == last { 0x04 } else { 0 };
            out.push(&[&[0x80 | predicted | begin | end, high, low], piece]);
        }
        self.picture = (self.picture + 1) & 0x7fff;
    }
}

pub struct Descriptor {
    begins: bool,
    spatial_layer: u8,
    pub temporal_layer: Option<u8>,
}

impl Descriptor {
    /// Reads it, and what is behind.
    pub fn read(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (first, mut rest) = payload.split_first()?;
        let mut next = || {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            Some(*byte)
        };
        if first & 0x80 != 0 && next()? & 0x80 != 0 {
            next()?;
        }
        let flexible = first & 0x10 != 0;
        let (mut temporal_layer, mut spatial_layer) = (None, 0);
        if first & 0x20 != 0 {
            let layers = next()?;
            temporal_layer = Some(layers >> 5);
            spatial_layer = layers >> 1 & 7;
            if !flexible {
                next()?;
            }
        }
        if flexible && first & 0x40 != 0 {
            for n in 0.. {
                if next()? & 1 == 0 {
                    break;
                }
                if n == 2 {
                    return None;
                }
            }
        }
        if first & 0x02 != 0 {
            skip_structure(&mut next)?;
        }
        Some((Descriptor { begins: first & 0x08 != 0, spatial_layer, temporal_layer }, rest))
    }
}

/// The scalability structure (§4.2.1): sizes of the layers, and a group of pictures.
fn skip_structure(next: &mut impl FnMut() -> Option<u8>) -> Option<()> {
    let head = next()?;
    if head & 0x10 != 0 {
        for _ in 0..4 * (u32::from(head >> 5) + 1) {
            next()?;
        }
    }
    if head & 0x08 != 0 {
        for _ in 0..next()? {
            let references = next()? >> 2 & 3;
            for _ in 0..references {
                next()?;
            }
        }
    }
    Some(())
}

pub fn is_start(payload: &[u8]) -> bool {
    Descriptor::read(payload)
        .is_some_and(|(descriptor, _)| descriptor.begins && descriptor.spatial_layer == 0)
}

pub fn assemble(payloads: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payloads.iter().map(|payload| payload.len()).sum());
    for (n, payload) in payloads.iter().enumerate() {
        let (descriptor, piece) = Descriptor::read(payload)?;
        let first = descriptor.begins && descriptor.spatial_layer == 0;
        if first != (n == 0) {
            return None;
        }
        out.extend(piece);
    }
    Some(out)
}

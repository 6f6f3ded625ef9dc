//! AV1: open bitstream units (OBUs), and what the headers of a temporal unit tell (AV1 specification §5).

use crate::bits::{Bits, leb128, push_leb128};
use crate::frame::{Picture, PictureSize};

/// Kinds of OBUs (§6.2.2).
mod kind {
    pub const SEQUENCE_HEADER: u8 = 1;
    pub const TEMPORAL_DELIMITER: u8 = 2;
    pub const FRAME_HEADER: u8 = 3;
    pub const FRAME: u8 = 6;
    pub const TILE_LIST: u8 = 8;
    pub const PADDING: u8 = 15;
}

const HAS_EXTENSION: u8 = 0b100;
const HAS_SIZE: u8 = 0b010;

/// One OBU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Obu<'a> {
    /// One byte, or two with an extension, as in the stream.
    header: &'a [u8],
    pub payload: &'a [u8],
}

impl<'a> Obu<'a> {
    /// Reads the OBU in front of `bytes`, and what is behind it. Without a size field it has all of them.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let first = *bytes.first()?;
        let header_len = if first & HAS_EXTENSION != 0 { 2 } else { 1 };
        let (header, rest) = bytes.split_at_checked(header_len)?;
        if first & 0x80 != 0 {
            return None;
        }
        if first & HAS_SIZE == 0 {
            return Some((Obu { header, payload: rest }, &[]));
        }
        let (len, digits) = leb128(rest)?;
        let (payload, behind) = rest.get(digits..)?.split_at_checked(len)?;
        Some((Obu { header, payload }, behind))
    }

    fn kind(&self) -> u8 {
        self.header[0] >> 3 & 0xf
    }

    /// Whether RTP carries it (AV1 RTP §5: delimiters and tile lists are removed) and a decoder needs it.
    fn is_carried(&self) -> bool {
        !matches!(self.kind(), kind::TEMPORAL_DELIMITER | kind::TILE_LIST | kind::PADDING)
    }

    fn temporal_id(&self) -> Option<u8> {
        self.header.get(1).map(|extension| extension >> 5)
    }

    /// Bytes without a size field, as RTP has them.
    pub fn len_without_size(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// The header without a size field.
    pub fn bare_header(&self) -> impl Iterator<Item = u8> + 'a {
        let header = self.header;
        let clean = move |(n, byte): (usize, &u8)| if n == 0 { byte & !(HAS_SIZE | 1) } else { *byte };
        header.iter().enumerate().map(clean)
    }

    fn push(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend(self.bare_header());
        out[from] |= HAS_SIZE;
        push_leb128(out, self.payload.len());
        out.extend(self.payload);
    }
}

/// The OBUs of a temporal unit; ends before the first that is cut off.
pub(crate) fn obus(mut data: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    std::iter::from_fn(move || {
        let (obu, rest) = Obu::read(data)?;
        data = rest;
        Some(obu)
    })
}

/// The form of [`crate::Frame`]: every OBU with a size field in as few bytes as possible, delimiters, tile lists and
/// padding left out. `None` if an OBU is cut off.
pub fn normalise(data: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len());
    let mut rest = data;
    while !rest.is_empty() {
        let (obu, behind) = Obu::read(rest)?;
        if obu.is_carried() {
            obu.push(&mut out);
        }
        rest = behind;
    }
    Some(out)
}

/// Appends an OBU that came without a size field, or with one; `None` if it is malformed.
pub(crate) fn push_received(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let (obu, behind) = Obu::read(bytes)?;
    if !behind.is_empty() {
        return None;
    }
    if obu.is_carried() {
        obu.push(out);
    }
    Some(())
}

/// Whether a temporal unit begins a coded video sequence: its first OBU is a sequence header (§7.5).
pub(crate) fn begins_sequence(data: &[u8]) -> bool {
    obus(data).next().is_some_and(|obu| obu.kind() == kind::SEQUENCE_HEADER)
}

/// The sequence header OBU of a temporal unit.
pub fn sequence_header(data: &[u8]) -> Option<Vec<u8>> {
    let obu = obus(data).find(|obu| obu.kind() == kind::SEQUENCE_HEADER)?;
    let mut out = Vec::new();
    obu.push(&mut out);
    Some(out)
}

/// The `AV1CodecConfigurationRecord` (AV1 in ISOBMFF §2.3) that holds a sequence header OBU.
pub fn write_av1c(sequence_header: &[u8]) -> Option<Vec<u8>> {
    let (obu, _) = Obu::read(sequence_header)?;
    let sequence = Sequence::read(obu.payload)?;
    let mut out = vec![0x81, sequence.profile << 5 | sequence.level & 0x1f, sequence.tier_and_color, 0];
    out.extend(sequence_header);
    Some(out)
}

/// Reads temporal units in turn: frames are understood by the sequence header before them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inspector {
    sequence: Option<Sequence>,
}

impl Inspector {
    /// What a temporal unit is; `None` if it is no AV1.
    pub fn inspect(&mut self, data: &[u8]) -> Option<Picture> {
        let mut picture = Picture::default();
        let (mut frames, mut needed, mut layer) = (false, false, None);
        for obu in obus(data) {
            match obu.kind() {
                kind::SEQUENCE_HEADER => self.sequence = Some(Sequence::read(obu.payload)?),
                kind::FRAME | kind::FRAME_HEADER => {
                    frames = true;
                    layer = obu.temporal_id().or(layer);
                    let header = self.sequence.and_then(|sequence| sequence.frame(obu.payload));
                    let header = header.unwrap_or_default();
                    picture.key |= header.key;
                    needed |= !header.refreshes_nothing;
                }
                _ => {}
            }
        }
        if !frames {
            return None;
        }
        picture.droppable = !needed && !picture.key;
        picture.temporal_layer = layer.unwrap_or(picture.droppable.into());
        picture.size = self.sequence.filter(|_| picture.key).map(|sequence| sequence.size);
        Some(picture)
    }
}

/// What of a sequence header (§5.5) is needed to read frame headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sequence {
    profile: u8,
    level: u8,
    /// The third byte of the configuration record.
    tier_and_color: u8,
    size: PictureSize,
    still: bool,
    /// Frame headers hold times of a decoder model, which are not read.
    has_decoder_model: bool,
    frame_id_bits: u32,
    order_hint_bits: u32,
    /// 2 if each frame tells.
    screen_content_tools: u32,
    integer_mv: u32,
}

#[derive(Clone, Copy, Default)]
struct FrameHeader {
    key: bool,
    refreshes_nothing: bool,
}

const EACH_FRAME_TELLS: u32 = 2;

impl Sequence {
    fn read(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(payload);
        let profile = bits.bits(3)? as u8;
        bits.skip(1)?;
        let still = bits.flag()?;
        let (mut has_decoder_model, mut level, mut tier) = (false, 0, 0);
        if still {
            level = bits.bits(5)?;
        } else {
            let mut delay_bits = 0;
            if bits.flag()? {
                skip_timing_info(&mut bits)?;
                has_decoder_model = bits.flag()?;
                if has_decoder_model {
                    delay_bits = bits.bits(5)? + 1;
                    bits.skip(32 + 5 + 5)?;
                }
            }
            let has_display_delay = bits.flag()?;
            for point in 0..=bits.bits(5)? {
                bits.skip(12)?;
                let own_level = bits.bits(5)?;
                let own_tier = if own_level > 7 { bits.bits(1)? } else { 0 };
                if point == 0 {
                    (level, tier) = (own_level, own_tier);
                }
                if has_decoder_model && bits.flag()? {
                    bits.skip(2 * delay_bits + 1)?;
                }
                if has_display_delay && bits.flag()? {
                    bits.skip(4)?;
                }
            }
        }
        let (width_bits, height_bits) = (bits.bits(4)? + 1, bits.bits(4)? + 1);
        let size = PictureSize { width: bits.bits(width_bits)? + 1, height: bits.bits(height_bits)? + 1 };
        let mut sequence = Sequence {
            profile,
            level: level as u8,
            tier_and_color: (tier as u8) << 7,
            size,
            still,
            has_decoder_model,
            frame_id_bits: 0,
            order_hint_bits: 0,
            screen_content_tools: EACH_FRAME_TELLS,
            integer_mv: EACH_FRAME_TELLS,
        };
        sequence.read_tools(&mut bits)?;
        sequence.read_color(&mut bits);
        Some(sequence)
    }

    fn read_tools(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        if !self.still && bits.flag()? {
            self.frame_id_bits = bits.bits(4)? + 2 + bits.bits(3)? + 1;
        }
        bits.skip(3)?;
        if self.still {
            return bits.skip(3);
        }
        bits.skip(4)?;
        let has_order_hint = bits.flag()?;
        if has_order_hint {
            bits.skip(2)?;
        }
        if !bits.flag()? {
            self.screen_content_tools = bits.bits(1)?;
        }
        if self.screen_content_tools > 0 && !bits.flag()? {
            self.integer_mv = bits.bits(1)?;
        }
        if has_order_hint {
            self.order_hint_bits = bits.bits(3)? + 1;
        }
        // Superres, CDEF, loop restoration.
        bits.skip(3)
    }

    /// Depth and subsampling for the configuration record (§5.5.2); 8 bits 4:2:0 where it ends early.
    fn read_color(&mut self, bits: &mut Bits<'_>) {
        let mut read = || -> Option<u8> {
            let high = bits.flag()?;
            let twelve = self.profile == 2 && high && bits.flag()?;
            let mono = self.profile != 1 && bits.flag()?;
            Some(u8::from(high) << 6 | u8::from(twelve) << 5 | u8::from(mono) << 4)
        };
        let depth = read().unwrap_or(0);
        let subsampling = if self.profile == 1 { 0 } else { 0b1100 };
        self.tier_and_color |= depth | subsampling;
    }

    /// Reads the header of a frame as far as it is of use (§5.9.2).
    fn frame(&self, payload: &[u8]) -> Option<FrameHeader> {
        let mut bits = Bits::new(payload);
        if self.still {
            return Some(FrameHeader { key: true, refreshes_nothing: false });
        }
        if bits.flag()? {
            // It shows a frame that was decoded before; of a key frame that refreshes all.
            return Some(FrameHeader::default());
        }
        const KEY: u32 = 0;
        const SWITCH: u32 = 3;
        let kind = bits.bits(2)?;
        let shown = bits.flag()?;
        if kind == KEY && shown {
            return Some(FrameHeader { key: true, refreshes_nothing: false });
        }
        if self.has_decoder_model || kind == SWITCH {
            return Some(FrameHeader::default());
        }
        if !shown {
            bits.skip(1)?;
        }
        let resilient = bits.flag()?;
        bits.skip(1)?;
        let tools = match self.screen_content_tools {
            EACH_FRAME_TELLS => bits.flag()?,
            always => always == 1,
        };
        if tools && self.integer_mv == EACH_FRAME_TELLS {
            bits.skip(1)?;
        }
        bits.skip(self.frame_id_bits + 1 + self.order_hint_bits)?;
        const INTER: u32 = 1;
        if kind == INTER && !resilient {
            bits.skip(3)?;
        }
        Some(FrameHeader { key: false, refreshes_nothing: bits.bits(8)? == 0 })
    }
}

fn skip_timing_info(bits: &mut Bits<'_>) -> Option<()> {
    bits.skip(64)?;
    if bits.flag()? { bits.ue().map(drop) } else { Some(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_frames_has_sizes_and_no_delimiters() {
        // A delimiter with size, a sequence header with a long size field, a frame without size.
        let data = [0x12, 0, 0x0a, 0x82, 0, 7, 8, 0x30, 1, 2, 3];
        let normal = normalise(&data).expect("it is whole");
        assert_eq!(normal, [0x0a, 2, 7, 8, 0x32, 3, 1, 2, 3]);
        assert_eq!(normalise(&normal).as_ref(), Some(&normal));
        assert!(begins_sequence(&normal));
        assert_eq!(normalise(&[0x0a, 9, 1]), None);
    }
}

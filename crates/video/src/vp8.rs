//! VP8: what the header of a frame tells (RFC 6386 §9).

use crate::frame::{Picture, PictureSize};

/// What a frame is; `None` if it is no VP8.
pub fn inspect(data: &[u8]) -> Option<Picture> {
    let [a, b, c, rest @ ..] = data else { return None };
    let tag = u32::from_le_bytes([*a, *b, *c, 0]);
    let key = tag & 1 == 0;
    if !key {
        let droppable = refreshes_nothing(rest).unwrap_or(false);
        return Some(Picture { droppable, temporal_layer: droppable.into(), ..Picture::default() });
    }
    let [0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = rest else { return None };
    let side = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    let size = PictureSize { width: side(*w0, *w1), height: side(*h0, *h1) };
    (size.width > 0 && size.height > 0).then_some(Picture { key, size: Some(size), ..Picture::default() })
}

/// Whether a frame leaves all three reference frames as they were (§9.2 to §9.7, §19.2).
fn refreshes_nothing(first_partition: &[u8]) -> Option<bool> {
    let mut bool = BoolDecoder::new(first_partition)?;
    if bool.flag() {
        skip_segmentation(&mut bool);
    }
    bool.literal(1 + 6 + 3);
    if bool.flag() && bool.flag() {
        for _ in 0..8 {
            if bool.flag() {
                bool.literal(7);
            }
        }
    }
    bool.literal(2 + 7);
    for _ in 0..5 {
        if bool.flag() {
            bool.literal(5);
        }
    }
    let (golden, alternate) = (bool.flag(), bool.flag());
    let copies = |refreshed: bool, bool: &mut BoolDecoder<'_>| !refreshed && bool.literal(2) != 0;
    let golden = copies(golden, &mut bool) || golden;
    let alternate = copies(alternate, &mut bool) || alternate;
    bool.literal(2);
    let probabilities = bool.flag();
    let last = bool.flag();
    // What it learnt of probabilities, if kept, changes how later frames are read.
    Some(!golden && !alternate && !last && !probabilities)
}

fn skip_segmentation(bool: &mut BoolDecoder<'_>) {
    let (map, data) = (bool.flag(), bool.flag());
    if data {
        bool.flag();
        for bits in [7, 7, 7, 7, 6, 6, 6, 6] {
            if bool.flag() {
                bool.literal(bits + 1);
            }
        }
    }
    if map {
        for _ in 0..3 {
            if bool.flag() {
                bool.literal(8);
            }
        }
    }
}

/// The arithmetic decoder of §7, for probabilities of one half alone. Behind the end are zeros.
struct BoolDecoder<'a> {
    rest: &'a [u8],
    value: u32,
    range: u32,
    shifted: u32,
}

impl<'a> BoolDecoder<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_at_checked(2)?;
        Some(BoolDecoder {
            rest,
            value: u32::from(first[0]) << 8 | u32::from(first[1]),
            range: 255,
            shifted: 0,
        })
    }

    fn flag(&mut self) -> bool {
        let split = 1 + (((self.range - 1) * 128) >> 8);
        let set = self.value >= split << 8;
        if set {
            self.range -= split;
            self.value -= split << 8;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.value <<= 1;
            self.range <<= 1;
            self.shifted += 1;
            if self.shifted == 8 {
                self.shifted = 0;
                if let Some((next, rest)) = self.rest.split_first() {
                    self.value |= u32::from(*next);
                    self.rest = rest;
                }
            }
        }
        set
    }

    fn literal(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, _| value << 1 | u32::from(self.flag()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_tell_their_size() {
        let frame = [0x10, 0, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xf0, 0, 0, 0];
        let picture = inspect(&frame).expect("a key frame");
        assert!(picture.key && picture.size == Some(PictureSize { width: 320, height: 240 }));
        assert_eq!(inspect(&frame[..9]), None);
        assert_eq!(inspect(&[0x11, 0, 0]), Some(Picture::default()));
    }
}

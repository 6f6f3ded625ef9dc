//! VP9: what the uncompressed header of a frame tells (VP9 bitstream specification §6.2).

use crate::bits::Bits;
use crate::frame::{Picture, PictureSize};

/// What a frame, or a superframe by its first frame, is; `None` if it is no VP9.
pub fn inspect(data: &[u8]) -> Option<Picture> {
    let mut bits = Bits::new(data);
    if bits.bits(2)? != 2 {
        return None;
    }
    let profile = u32::from(bits.flag()?) | u32::from(bits.flag()?) << 1;
    if profile == 3 {
        bits.skip(1)?;
    }
    if bits.flag()? {
        // show_existing_frame: nothing is decoded and nothing is kept.
        return Some(Picture { droppable: true, temporal_layer: 1, ..Picture::default() });
    }
    let key = !bits.flag()?;
    let shown = bits.flag()?;
    let resilient = bits.flag()?;
    if key {
        sync_code(&mut bits)?;
        color_config(&mut bits, profile)?;
        let size = PictureSize { width: bits.bits(16)? + 1, height: bits.bits(16)? + 1 };
        return Some(Picture { key, size: Some(size), ..Picture::default() });
    }
    let intra_only = if shown { false } else { bits.flag()? };
    if !resilient {
        bits.skip(2)?;
    }
    if intra_only {
        sync_code(&mut bits)?;
        if profile > 0 {
            color_config(&mut bits, profile)?;
        }
    }
    let refreshed = bits.bits(8)?;
    // A superframe's first frame may be droppable only with the others, and is not shown.
    let droppable = refreshed == 0 && shown;
    Some(Picture { droppable, temporal_layer: droppable.into(), ..Picture::default() })
}

fn sync_code(bits: &mut Bits<'_>) -> Option<()> {
    (bits.bits(24)? == 0x49_83_42).then_some(())
}

fn color_config(bits: &mut Bits<'_>, profile: u32) -> Option<()> {
    if profile >= 2 {
        bits.skip(1)?;
    }
    const RGB: u32 = 7;
    if bits.bits(3)? == RGB {
        return if profile & 1 == 1 { bits.skip(1) } else { None };
    }
    bits.skip(1)?;
    if profile & 1 == 1 { bits.skip(3) } else { Some(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_tell_their_size() {
        // Marker 10, profile 0, no existing frame, key frame, shown, then the sync code.
        let mut bits = String::from("10000010");
        bits += "010010011000001101000010";
        bits += "0010";
        bits += &format!("{:016b}{:016b}0000", 319, 239);
        let data: Vec<u8> = bits
            .as_bytes()
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |n, bit| n << 1 | (bit - b'0')))
            .collect();
        let picture = inspect(&data).expect("a key frame");
        assert!(picture.key && picture.size == Some(PictureSize { width: 320, height: 240 }));
        assert_eq!(inspect(&data[..6]), None);
        assert_eq!(inspect(&[0]), None);
    }
}

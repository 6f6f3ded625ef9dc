//! H.264: NAL units, parameter sets, and where one access unit ends and the next begins.

use crate::bits::Bits;
use crate::frame::{MAX_FRAME, Picture, PictureSize};

/// Kinds of NAL units (H.264 table 7-1).
pub mod nal {
    /// A slice of a picture that is no key frame.
    pub const SLICE: u8 = 1;
    /// A slice of a key frame (IDR picture).
    pub const IDR: u8 = 5;
    /// Supplemental enhancement information.
    pub const SEI: u8 = 6;
    /// Sequence parameter set.
    pub const SPS: u8 = 7;
    /// Picture parameter set.
    pub const PPS: u8 = 8;
    /// Access unit delimiter.
    pub const AUD: u8 = 9;
}

/// The kind of a NAL unit; 0 for an empty one.
pub fn kind(unit: &[u8]) -> u8 {
    unit.first().map_or(0, |byte| byte & 0x1f)
}

/// Whether RTP can carry such a NAL unit: 0 and those above 23 have another meaning there (RFC 6184 table 1).
pub fn is_carried(unit: &[u8]) -> bool {
    (1..=23).contains(&kind(unit))
}

/// The NAL units of a byte stream (Annex B), without start codes and without the zeros behind them.
pub fn units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = start_code(stream).map_or(&[][..], |at| &stream[at + 3..]);
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = start_code(rest);
            let unit = &rest[..end.unwrap_or(rest.len())];
            rest = end.map_or(&[][..], |at| &rest[at + 3..]);
            // No NAL unit ends with zero (§7.4.1): these belong to the next start code, or are padding (Annex B.1).
            let len = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if len > 0 {
                return Some(&unit[..len]);
            }
        }
        None
    })
}

/// Appends a NAL unit with its start code.
pub fn push_unit(out: &mut Vec<u8>, unit: &[u8]) {
    out.extend([0, 0, 0, 1]);
    out.extend(unit);
}

/// Turns NAL units behind lengths of `length_size` bytes (ISO 14496-15) into a byte stream; `None` if a length exceeds
/// what is there.
pub fn from_length_prefixed(data: &[u8], length_size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len() + 16);
    let mut rest = data;
    while !rest.is_empty() {
        let prefix = rest.get(..length_size)?;
        let len = prefix.iter().fold(0usize, |len, byte| len << 8 | usize::from(*byte));
        let unit = rest[length_size..].get(..len)?;
        if is_carried(unit) {
            push_unit(&mut out, trimmed(unit));
        }
        rest = &rest[length_size + len..];
    }
    Some(out)
}

/// Parameter sets and the size of lengths from an `AVCDecoderConfigurationRecord` (ISO 14496-15 §5.3.3.1).
pub fn read_avcc(record: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (head, mut rest) = record.split_at_checked(6)?;
    if head[0] != 1 {
        return None;
    }
    let mut sets = Vec::new();
    let mut take = |rest: &mut &[u8], count: u8| -> Option<()> {
        for _ in 0..count {
            let len = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
            let unit = rest.get(2..2 + len)?;
            if is_carried(unit) {
                sets.push(trimmed(unit).to_vec());
            }
            *rest = &rest[2 + len..];
        }
        Some(())
    };
    take(&mut rest, head[5] & 0x1f)?;
    let (count, mut rest) = rest.split_first()?;
    take(&mut rest, *count)?;
    Some((sets, usize::from(head[4] & 3) + 1))
}

/// Writes an `AVCDecoderConfigurationRecord` for lengths of four bytes; `None` without an SPS.
pub fn write_avcc(sets: &[Vec<u8>]) -> Option<Vec<u8>> {
    let of = |wanted: u8| sets.iter().filter(move |set| kind(set) == wanted && set.len() <= 0xffff);
    let first = of(nal::SPS).find(|set| set.len() >= 4)?;
    let mut out = vec![1, first[1], first[2], first[3], 0xff];
    for (kind, most, bits) in [(nal::SPS, 31, 0xe0), (nal::PPS, 255, 0)] {
        let sets: Vec<_> = of(kind).take(most).collect();
        out.push(bits | sets.len() as u8);
        for set in sets {
            out.extend((set.len() as u16).to_be_bytes());
            out.extend(set);
        }
    }
    Some(out)
}

/// Turns a byte stream into NAL units behind lengths of four bytes, without the access unit delimiter.
pub fn to_length_prefixed(stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stream.len());
    for unit in units(stream).filter(|unit| kind(unit) != nal::AUD) {
        out.extend((unit.len() as u32).to_be_bytes());
        out.extend(unit);
    }
    out
}

/// What an access unit is. Its size comes from the SPS, if it has one.
pub fn inspect(stream: &[u8]) -> Picture {
    let mut picture = Picture::default();
    let (mut slices, mut needed) = (false, false);
    for unit in units(stream) {
        match kind(unit) {
            nal::IDR => picture.key = true,
            nal::SPS => picture.size = size_of(unit),
            _ => {}
        }
        if (nal::SLICE..=nal::IDR).contains(&kind(unit)) {
            slices = true;
            // nal_ref_idc 0: no picture refers to it (§7.4.1).
            needed |= unit[0] & 0x60 != 0;
        }
    }
    picture.droppable = slices && !needed && !picture.key;
    picture.temporal_layer = picture.droppable.into();
    picture
}

/// The parameter sets in an access unit.
pub fn parameter_sets(stream: &[u8]) -> Vec<Vec<u8>> {
    let sets = units(stream).filter(|unit| matches!(kind(unit), nal::SPS | nal::PPS));
    sets.map(<[u8]>::to_vec).collect()
}

/// Puts parameter sets in front of a key frame that has none, so that decoding can begin there.
pub fn with_parameter_sets(stream: Vec<u8>, sets: &[Vec<u8>]) -> Vec<u8> {
    if sets.is_empty() || units(&stream).any(|unit| kind(unit) == nal::SPS) {
        return stream;
    }
    let mut out = Vec::with_capacity(stream.len() + sets.iter().map(|set| set.len() + 4).sum::<usize>());
    let mut units = units(&stream).peekable();
    if let Some(delimiter) = units.next_if(|unit| kind(unit) == nal::AUD) {
        push_unit(&mut out, delimiter);
    }
    sets.iter().for_each(|set| push_unit(&mut out, set));
    units.for_each(|unit| push_unit(&mut out, unit));
    out
}

/// Whether a slice is the first of its picture: `first_mb_in_slice` is 0 (§7.4.3).
pub fn is_first_slice(unit: &[u8]) -> bool {
    matches!(kind(unit), nal::SLICE | 2 | nal::IDR) && unit.get(1).is_some_and(|byte| byte & 0x80 != 0)
}

/// Collects NAL units into access units (§7.4.1.2.3), for streams whose slices come in the order of the picture.
#[derive(Debug, Default)]
pub struct AccessUnits {
    data: Vec<u8>,
    has_slice: bool,
}

impl AccessUnits {
    /// Takes the next NAL unit; gives the access unit before it if this one begins another.
    ///
    /// An access unit that is longer than [`MAX_FRAME`] is cut there.
    pub fn push(&mut self, unit: &[u8]) -> Option<Vec<u8>> {
        if !is_carried(unit) {
            return None;
        }
        let begins = match kind(unit) {
            nal::SLICE | 2 | nal::IDR => is_first_slice(unit),
            nal::SEI | nal::SPS | nal::PPS | nal::AUD | 14..=18 => true,
            _ => false,
        };
        let ended = if self.has_slice && begins { self.finish() } else { None };
        self.has_slice |= (nal::SLICE..=nal::IDR).contains(&kind(unit));
        if self.data.len() + unit.len() <= MAX_FRAME {
            push_unit(&mut self.data, unit);
        }
        ended
    }

    /// The last access unit, if it holds a picture.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_slice).then_some(data)
    }
}

/// The size that an SPS tells (§7.3.2.1.1), cropping included.
pub fn size_of(sps: &[u8]) -> Option<PictureSize> {
    let raw = without_emulation(sps.get(1..sps.len().min(512))?);
    let mut bits = Bits::new(&raw);
    let profile = bits.bits(8)?;
    bits.skip(16)?;
    bits.ue()?;
    let mut chroma = 1;
    if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(&profile) {
        chroma = bits.ue()?;
        if chroma == 3 {
            bits.skip(1)?;
        }
        bits.ue()?;
        bits.ue()?;
        bits.skip(1)?;
        if bits.flag()? {
            skip_scaling_lists(&mut bits, if chroma == 3 { 12 } else { 8 })?;
        }
    }
    bits.ue()?;
    match bits.ue()? {
        0 => drop(bits.ue()?),
        1 => {
            bits.skip(1)?;
            bits.se()?;
            bits.se()?;
            for _ in 0..bits.ue()?.min(255) {
                bits.se()?;
            }
        }
        _ => {}
    }
    bits.ue()?;
    bits.skip(1)?;
    let (columns, rows) = (bits.ue()?.checked_add(1)?, bits.ue()?.checked_add(1)?);
    let frames_only = bits.flag()?;
    if !frames_only {
        bits.skip(1)?;
    }
    bits.skip(1)?;
    let fields = if frames_only { 1 } else { 2 };
    let (mut width, mut height) = (columns.checked_mul(16)?, rows.checked_mul(16 * fields)?);
    if bits.flag()? {
        let (x, y) = match chroma {
            1 => (2, 2),
            2 => (2, 1),
            _ => (1, 1),
        };
        let [left, right, top, bottom] = [bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?];
        width = width.checked_sub(left.checked_add(right)?.checked_mul(x)?)?;
        height = height.checked_sub(top.checked_add(bottom)?.checked_mul(y * fields)?)?;
    }
    // Level 6.2 has no picture wider than 16 880 (table A-1).
    let fits = |n: u32| (1..=16_880).contains(&n);
    (fits(width) && fits(height)).then_some(PictureSize { width, height })
}

fn skip_scaling_lists(bits: &mut Bits<'_>, lists: usize) -> Option<()> {
    for list in 0..lists {
        if !bits.flag()? {
            continue;
        }
        let mut next = 8i64;
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (next + bits.se()?).rem_euclid(256);
            }
        }
    }
    Some(())
}

/// Removes the bytes 3 that keep start codes out of a NAL unit (§7.3.1).
fn without_emulation(unit: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for byte in unit {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        out.push(*byte);
    }
    out
}

fn trimmed(unit: &[u8]) -> &[u8] {
    &unit[..unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Where 00 00 01 begins.
pub(crate) fn start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|window| window == [0, 0, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_whatever_their_start_codes() {
        let stream = [0, 0, 0, 1, 9, 0x10, 0, 0, 1, 0x65, 0x88, 0, 0, 3, 1, 0, 0, 0, 0, 1, 0x41, 0x80, 0, 0];
        let found: Vec<_> = units(&stream).collect();
        assert_eq!(found, [&[9, 0x10][..], &[0x65, 0x88, 0, 0, 3, 1], &[0x41, 0x80]]);
    }

    #[test]
    fn lengths_and_start_codes_hold_the_same_units() {
        let mut stream = Vec::new();
        push_unit(&mut stream, &[0x65, 0x88, 1]);
        push_unit(&mut stream, &[0x41, 0x9a]);
        assert_eq!(from_length_prefixed(&to_length_prefixed(&stream), 4).as_ref(), Some(&stream));
        assert_eq!(from_length_prefixed(&[0, 0, 0, 9, 1], 4), None);
    }

    #[test]
    fn configuration_records_round_trip() {
        let sets = vec![vec![0x67, 66, 0xc0, 13, 1], vec![0x68, 0xce, 0x38]];
        let record = write_avcc(&sets).expect("it has an SPS");
        assert_eq!(read_avcc(&record), Some((sets, 4)));
        for len in 0..record.len() {
            assert_eq!(read_avcc(&record[..len]), None, "{len}");
        }
    }

    #[test]
    fn access_units_end_where_the_next_begins() {
        let mut units = AccessUnits::default();
        let first: [&[u8]; 4] = [&[0x67, 1], &[0x68, 1], &[0x65, 0x80, 1], &[0x65, 0x40, 1]];
        assert!(first.iter().all(|unit| units.push(unit).is_none()));
        let ended = units.push(&[0x41, 0x80]).expect("a second picture begins");
        assert_eq!(ended.len(), 4 * 4 + 2 + 2 + 3 + 3);
        assert!(inspect(&ended).key);
        assert_eq!(units.finish(), Some(vec![0, 0, 0, 1, 0x41, 0x80]));
        assert_eq!(units.finish(), None);
    }
}

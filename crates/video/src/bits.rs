//! Reads bits, most significant first, as the headers of all codecs here have them.

/// A reader of bits. What lies behind the end is `None`.
#[derive(Clone, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Bits { bytes, at: 0 }
    }

    pub fn flag(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// At most 32 bits.
    pub fn bits(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | u32::from(self.flag()?);
        }
        Some(value)
    }

    pub fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    /// Unsigned Exp-Golomb code `ue(v)` (H.264 §9.1), at most 32 bits.
    pub fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.bits(zeros)?;
        Some((1u32 << zeros) - 1 + rest)
    }

    /// Signed Exp-Golomb code `se(v)` (H.264 §9.1.1).
    pub fn se(&mut self) -> Option<i64> {
        let code = i64::from(self.ue()?);
        Some(if code % 2 == 0 { -(code / 2) } else { code / 2 + 1 })
    }
}

/// Reads a number of seven bits a byte, the lowest first (AV1 §4.10.5), and how many bytes it has.
pub(crate) fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0u64;
    for (n, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, n + 1));
        }
    }
    None
}

/// Writes such a number in as few bytes as possible.
pub(crate) fn push_leb128(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of such a number.
pub(crate) fn leb128_len(value: usize) -> usize {
    (usize::BITS - value.leading_zeros()).max(1).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_golomb_codes_are_those_of_the_standard() {
        // H.264 table 9-2: 1, 010, 011, 00100, 00101.
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        assert_eq!([(); 5].map(|()| bits.ue()), [Some(0), Some(1), Some(2), Some(3), Some(4)]);
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        assert_eq!([(); 5].map(|()| bits.se()), [Some(0), Some(1), Some(-1), Some(2), Some(-2)]);
        assert_eq!(Bits::new(&[0; 9]).ue(), None);
    }

    #[test]
    fn leb128_round_trips() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, (1 << 35) + 5] {
            let mut out = Vec::new();
            push_leb128(&mut out, value);
            assert_eq!(leb128(&out), Some((value, out.len())));
            assert_eq!(leb128_len(value), out.len());
        }
        assert_eq!(leb128(&[0x80; 9]), None);
    }
}

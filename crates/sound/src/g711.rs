//! G.711 mu-law and A-law for files and pipes (ITU-T G.711, 1988, tables 1a to 2b).
//!
//! Both laws are eight segments of sixteen equal steps per sign, each segment twice as wide as the one below. Values
//! are given on the 16-bit scale: mu-law's 14-bit numbers times four, A-law's 13-bit numbers times eight.

/// Added before the segment is determined, so that segments begin at powers of two (33 on the 14-bit scale).
const MU_BIAS: i32 = 33 << 2;
/// The largest magnitude mu-law can hold before the bias: 8 158 on the 14-bit scale.
const MU_CLIP: i32 = 8_158 << 2;

/// The 16-bit value of a mu-law octet.
pub(crate) fn mu_law_to_linear(octet: u8) -> i16 {
    let bits = i32::from(!octet);
    let (segment, step) = (bits >> 4 & 7, bits & 15);
    let magnitude = (((step << 3) + MU_BIAS) << segment) - MU_BIAS;
    (if bits & 0x80 != 0 { -magnitude } else { magnitude }) as i16
}

/// The mu-law octet for `linear`, the nearest below in magnitude, as the recommendation specifies.
pub(crate) fn linear_to_mu_law(linear: i16) -> u8 {
    let sign = if linear < 0 { 0x80 } else { 0 };
    let biased = i32::from(linear).abs().min(MU_CLIP) + MU_BIAS;
    let segment = (31 - biased.leading_zeros() as i32) - 7;
    let step = biased >> (segment + 3) & 15;
    !(sign | segment << 4 | step) as u8
}

/// The 16-bit value of an A-law octet.
pub(crate) fn a_law_to_linear(octet: u8) -> i16 {
    // Every other bit is inverted on the line, so that silence is not a long run of zeros.
    let bits = i32::from(octet ^ 0x55);
    let (segment, step) = (bits >> 4 & 7, bits & 15);
    let magnitude = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    (if bits & 0x80 != 0 { magnitude } else { -magnitude }) as i16
}

/// The A-law octet whose interval contains `linear`.
pub(crate) fn linear_to_a_law(linear: i16) -> u8 {
    let value = i32::from(linear);
    let (sign, magnitude) = if value >= 0 { (0x80, value) } else { (0, !value) };
    // From 256 upwards (segment 1) each doubling is a segment; below, segment 0 is linear too.
    let segment = (31 - (magnitude | 0x80).leading_zeros() as i32 - 7).max(0);
    let step = magnitude >> if segment == 0 { 4 } else { segment + 3 } & 15;
    ((sign | segment << 4 | step) ^ 0x55) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_recommendation() {
        // G.711 tables 1a and 2a, decoder output values (14-bit: ±0, ±8 031; 13-bit: ±1, ±4 032) on the 16-bit scale.
        assert_eq!((mu_law_to_linear(0xff), mu_law_to_linear(0x7f)), (0, 0));
        assert_eq!((mu_law_to_linear(0x80), mu_law_to_linear(0x00)), (32_124, -32_124));
        assert_eq!((a_law_to_linear(0xd5), a_law_to_linear(0x55)), (8, -8));
        assert_eq!((a_law_to_linear(0xaa), a_law_to_linear(0x2a)), (32_256, -32_256));
    }

    #[test]
    fn every_octet_survives_decoding_and_encoding() {
        for octet in 0..=255u8 {
            assert_eq!(linear_to_a_law(a_law_to_linear(octet)), octet);
            // Mu-law has two zeros; positive zero is sent.
            let expected = if octet == 0x7f { 0xff } else { octet };
            assert_eq!(linear_to_mu_law(mu_law_to_linear(octet)), expected);
        }
    }

    #[test]
    fn no_value_is_off_by_more_than_half_a_step() {
        for value in i16::MIN..=i16::MAX {
            let magnitude = i32::from(value).abs();
            // Steps double per segment: half of one is at most 1/32 of the magnitude, or half the smallest step. A wrong
            // segment is off by a quarter of the magnitude at least. Mu-law clips above 32 635, A-law above 32 767.
            for (back, clip, floor) in [
                (mu_law_to_linear(linear_to_mu_law(value)), 32_124 + 512, 4),
                (a_law_to_linear(linear_to_a_law(value)), 32_767, 8),
            ] {
                let error = (i32::from(back) - i32::from(value).clamp(-clip, clip)).abs();
                assert!(error <= (magnitude + 132) / 32 + floor, "{value} became {back}");
            }
        }
    }
}

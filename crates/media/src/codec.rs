//! Samples as bytes on the wire: linear integers, floats, and the two laws of G.711.
//!
//! Blocks are interleaved float, `[sample_frame][channel]`. An integer sample `n` of `b` bits is the float `n / 2^(b-1)`,
//! exactly, so that integer material passes through unchanged. What an integer cannot hold is clamped to its range, and
//! what is not a number becomes silence: one NaN in a filter behind us would silence the stream for ever.

use crate::SampleFormat;

/// Writes `samples` into `out` as `format` has them on the wire, as many as fit, and returns the bytes written.
pub fn encode(format: SampleFormat, samples: &[f32], out: &mut [u8]) -> usize {
    let width = format.bytes();
    let count = samples.len().min(out.len() / width);
    let (samples, out) = (&samples[..count], &mut out[..count * width]);
    match format {
        SampleFormat::L16 => {
            for (x, bytes) in samples.iter().zip(out.chunks_exact_mut(2)) {
                bytes.copy_from_slice(&to_i16(*x).to_be_bytes());
            }
        }
        SampleFormat::L24 => {
            for (x, bytes) in samples.iter().zip(out.chunks_exact_mut(3)) {
                bytes.copy_from_slice(&to_i24(*x).to_be_bytes()[1..]);
            }
        }
        SampleFormat::F32 => {
            for (x, bytes) in samples.iter().zip(out.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&finite(*x).to_be_bytes());
            }
        }
        SampleFormat::MuLaw => {
            for (x, byte) in samples.iter().zip(out) {
                *byte = mulaw_encode(to_i16(*x));
            }
        }
        SampleFormat::ALaw => {
            for (x, byte) in samples.iter().zip(out) {
                *byte = alaw_encode(to_i16(*x));
            }
        }
    }
    count * width
}

/// Reads `bytes` in `format` into `out`, as many whole samples as there are and fit, and returns the samples written.
pub fn decode(format: SampleFormat, bytes: &[u8], out: &mut [f32]) -> usize {
    let width = format.bytes();
    let count = out.len().min(bytes.len() / width);
    let (bytes, out) = (&bytes[..count * width], &mut out[..count]);
    match format {
        SampleFormat::L16 => {
            for (b, x) in bytes.chunks_exact(2).zip(out) {
                *x = from_i16(i16::from_be_bytes([b[0], b[1]]));
            }
        }
        SampleFormat::L24 => {
            for (b, x) in bytes.chunks_exact(3).zip(out) {
                // The sign comes down from the top byte.
                *x = (i32::from_be_bytes([b[0], b[1], b[2], 0]) >> 8) as f32 / SCALE_24;
            }
        }
        SampleFormat::F32 => {
            for (b, x) in bytes.chunks_exact(4).zip(out) {
                *x = finite(f32::from_be_bytes([b[0], b[1], b[2], b[3]]));
            }
        }
        SampleFormat::MuLaw => {
            for (b, x) in bytes.iter().zip(out) {
                *x = from_i16(MULAW[usize::from(*b)]);
            }
        }
        SampleFormat::ALaw => {
            for (b, x) in bytes.iter().zip(out) {
                *x = from_i16(ALAW[usize::from(*b)]);
            }
        }
    }
    count
}

const SCALE_16: f32 = 32_768.0;
const SCALE_24: f32 = 8_388_608.0;

/// Rounds to the nearest integer; the cast clamps, and turns NaN into 0.
fn to_i16(x: f32) -> i16 {
    (x * SCALE_16).round_ties_even() as i16
}

fn from_i16(n: i16) -> f32 {
    f32::from(n) / SCALE_16
}

fn to_i24(x: f32) -> i32 {
    ((x * SCALE_24).round_ties_even() as i32).clamp(-(1 << 23), (1 << 23) - 1)
}

/// Floats keep their headroom beyond full scale; only what is no number at all goes.
fn finite(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
}

/// G.711 mu-law expands a sign, three bits of segment and four of step, all inverted. Magnitudes are those of table 2
/// times 4, since the law has 14 bits and we have 16; 33 of them are its bias.
const fn mulaw_expand(code: u8) -> i16 {
    let code = !code;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i32);
    let magnitude = (((step << 3) + MULAW_BIAS) << segment) - MULAW_BIAS;
    if code & 0x80 != 0 { -(magnitude as i16) } else { magnitude as i16 }
}

/// 33 steps of 14 bits, as 16 bits.
const MULAW_BIAS: i32 = 33 * 4;
/// The largest magnitude that does not leave the top segment: 8159 steps of 14 bits less one of ours.
const MULAW_MAX: i32 = 8159 * 4 - 1;

fn mulaw_encode(n: i16) -> u8 {
    let magnitude = i32::from(n).abs().min(MULAW_MAX) + MULAW_BIAS;
    // The bias puts the leading one of every magnitude at bit 7 or above: its place is the segment.
    let segment = 24 - magnitude.leading_zeros() as i32;
    let step = (magnitude >> (segment + 3)) & 15;
    let sign = if n < 0 { 0x80 } else { 0 };
    !(sign | (segment << 4) as u8 | step as u8)
}

/// G.711 A-law: sign (set for positive), segment and step, even bits inverted. Magnitudes are those of table 1 times 8:
/// 13 bits as 16.
const fn alaw_expand(code: u8) -> i16 {
    let code = code ^ 0x55;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i32);
    let magnitude = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    if code & 0x80 != 0 { magnitude as i16 } else { -(magnitude as i16) }
}

fn alaw_encode(n: i16) -> u8 {
    let sign = if n >= 0 { 0x80 } else { 0 };
    // One's complement makes the two halves mirror images, as the law has no zero.
    let magnitude = u32::from(if n >= 0 { n as u16 } else { !n as u16 }) >> 4;
    let code = if magnitude < 16 {
        magnitude
    } else {
        let segment = 28 - magnitude.leading_zeros();
        (segment << 4) | ((magnitude >> (segment - 1)) & 15)
    };
    (code as u8 | sign) ^ 0x55
}

const fn table(mulaw: bool) -> [i16; 256] {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = if mulaw { mulaw_expand(code as u8) } else { alaw_expand(code as u8) };
        code += 1;
    }
    table
}

static MULAW: [i16; 256] = table(true);
static ALAW: [i16; 256] = table(false);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(format: SampleFormat, bytes: &[u8]) -> Vec<u8> {
        let mut samples = vec![0.0; bytes.len() / format.bytes()];
        assert_eq!(decode(format, bytes, &mut samples), samples.len());
        let mut out = vec![0; bytes.len()];
        assert_eq!(encode(format, &samples, &mut out), out.len());
        out
    }

    #[test]
    fn every_16_bit_sample_passes_unchanged() {
        let bytes: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_be_bytes).collect();
        assert_eq!(there_and_back(SampleFormat::L16, &bytes), bytes);
    }

    /// Output values of ITU-T G.711 table 2a (mu-law, positive), the ends of all segments.
    #[test]
    fn mulaw_agrees_with_the_recommendation() {
        let published = [
            (0x80, 8031),
            (0x8f, 4191),
            (0x9f, 2079),
            (0xaf, 1023),
            (0xbf, 495),
            (0xcf, 231),
            (0xdf, 99),
            (0xef, 33),
            (0xfe, 2),
            (0xff, 0),
        ];
        for (code, value) in published {
            assert_eq!(MULAW[code], value * 4, "code {code:#x}");
            assert_eq!(MULAW[code ^ 0x80], -value * 4, "code {code:#x} negative");
        }
    }

    /// Output values of ITU-T G.711 table 1a (A-law, positive), even bits inverted as on the line.
    #[test]
    fn alaw_agrees_with_the_recommendation() {
        let published = [
            (0xaa, 4032),
            (0xa5, 2112),
            (0xb5, 1056),
            (0x85, 528),
            (0x95, 264),
            (0xe5, 132),
            (0xf5, 66),
            (0xd5, 1),
        ];
        for (code, value) in published {
            assert_eq!(ALAW[code], value * 8, "code {code:#x}");
            assert_eq!(ALAW[code ^ 0x80], -value * 8, "code {code:#x} negative");
        }
    }

    #[test]
    fn every_code_of_both_laws_comes_back() {
        for code in 0..=255u8 {
            assert_eq!(alaw_encode(ALAW[usize::from(code)]), code);
            // Mu-law has two zeros; both come back as the positive one.
            let expected = if code == 0x7f { 0xff } else { code };
            assert_eq!(mulaw_encode(MULAW[usize::from(code)]), expected);
        }
    }

    /// A wrong decision value would choose a code at least four further away, half the smallest step of both laws.
    #[test]
    fn laws_choose_the_nearest_value_of_the_segment() {
        for n in i16::MIN..=i16::MAX {
            for (table, code) in [(&MULAW, mulaw_encode(n)), (&ALAW, alaw_encode(n))] {
                let error = |code: u8| (i32::from(table[usize::from(code)]) - i32::from(n)).abs();
                let best = (0..16).map(|step| error(code & 0xf0 | step)).min().unwrap();
                assert!(error(code) <= best + 1, "{n} became {code:#x}");
            }
        }
    }

    #[test]
    fn what_no_integer_holds_is_clamped_and_nan_is_silent() {
        let wild = [2.0, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0];
        let read = |format| {
            let (mut bytes, mut back) = ([0; 28], [0.0; 7]);
            let len = encode(format, &wild, &mut bytes);
            decode(format, &bytes[..len], &mut back);
            back
        };
        let top = 1.0 - 1.0 / 32_768.0;
        assert_eq!(read(SampleFormat::L16), [top, -1.0, top, -1.0, 0.0, top, -1.0]);
        let top = 1.0 - 1.0 / 8_388_608.0;
        assert_eq!(read(SampleFormat::L24), [top, -1.0, top, -1.0, 0.0, top, -1.0]);
        assert_eq!(read(SampleFormat::F32), [2.0, -2.0, 0.0, 0.0, 0.0, 1.0, -1.0]);
        let top = 32_124.0 / 32_768.0;
        assert_eq!(read(SampleFormat::MuLaw), [top, -top, top, -top, 0.0, top, -top]);
    }

    #[test]
    fn short_buffers_and_torn_samples_are_left_out() {
        let mut out = [0; 5];
        assert_eq!(encode(SampleFormat::L16, &[0.5; 9], &mut out), 4);
        assert_eq!(decode(SampleFormat::L24, &[0; 8], &mut [1.0; 9]), 2);
    }

    proptest! {
        #[test]
        fn every_24_bit_sample_passes_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let whole = &bytes[..bytes.len() / 3 * 3];
            prop_assert_eq!(there_and_back(SampleFormat::L24, whole), whole);
        }

        #[test]
        fn every_finite_float_passes_unchanged(samples in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO, 1..100)) {
            let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_be_bytes()).collect();
            prop_assert_eq!(there_and_back(SampleFormat::F32, &bytes), bytes);
        }
    }
}

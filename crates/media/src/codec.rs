//! Samples as bytes on the wire: linear integers, floats, and the two laws of G.711.
//!
//! Blocks are interleaved float, `[sample_frame][channel]`. An integer sample `n` of `b` bits is the float `n /
//! 2^(b-1)`, exactly, so that integer material passes through unchanged. Values outside an integer's range are clamped
//! to it, and NaN becomes silence: one NaN in a later filter would silence the stream permanently.

use crate::SampleFormat;

/// Writes as many `samples` as fit into `out`, in the wire form of `format`, and returns the bytes written.
pub fn encode(format: SampleFormat, samples: &[f32], out: &mut [u8]) -> usize {
    let width = format.bytes();
    let count = samples.len().min(out.len() / width);
    let (samples, out) = (&samples[..count], &mut out[..count * width]);
    match format {
        SampleFormat::L16 => write(samples, out, |x| to_i16(x).to_be_bytes()),
        SampleFormat::L24 => write(samples, out, |x| {
            let [_, high, middle, low] = to_i24(x).to_be_bytes();
            [high, middle, low]
        }),
        SampleFormat::F32 => write(samples, out, |x| finite(x).to_be_bytes()),
        SampleFormat::MuLaw => write(samples, out, |x| [mulaw_encode(to_i16(x))]),
        SampleFormat::ALaw => write(samples, out, |x| [alaw_encode(to_i16(x))]),
    }
    count * width
}

/// Reads whole samples of `format` from `bytes`, as many as `out` holds, and returns the samples written.
pub fn decode(format: SampleFormat, bytes: &[u8], out: &mut [f32]) -> usize {
    let width = format.bytes();
    let count = out.len().min(bytes.len() / width);
    let (bytes, out) = (&bytes[..count * width], &mut out[..count]);
    match format {
        SampleFormat::L16 => read(bytes, out, |b| from_i16(i16::from_be_bytes(b))),
        // The arithmetic shift extends the sign from the top byte.
        SampleFormat::L24 => read(bytes, out, |[high, middle, low]| {
            (i32::from_be_bytes([high, middle, low, 0]) >> 8) as f32 / SCALE_24
        }),
        SampleFormat::F32 => read(bytes, out, |b| finite(f32::from_be_bytes(b))),
        SampleFormat::MuLaw => read(bytes, out, |[b]| from_i16(MULAW[usize::from(b)])),
        SampleFormat::ALaw => read(bytes, out, |[b]| from_i16(ALAW[usize::from(b)])),
    }
    count
}

fn write<const N: usize>(samples: &[f32], out: &mut [u8], bytes_of: impl Fn(f32) -> [u8; N]) {
    for (x, bytes) in samples.iter().zip(out.as_chunks_mut().0) {
        *bytes = bytes_of(*x);
    }
}

fn read<const N: usize>(bytes: &[u8], out: &mut [f32], sample_of: impl Fn([u8; N]) -> f32) {
    for (b, x) in bytes.as_chunks().0.iter().zip(out) {
        *x = sample_of(*b);
    }
}

const SCALE_16: f32 = 32_768.0;
const SCALE_24: f32 = 8_388_608.0;

/// Adding and subtracting 1.5 · 2⁵² (1.5 · 2²³ for `f32`) leaves the nearest integer, ties to even, in two additions
/// that the compiler vectorises; `round_ties_even` is a function call on the processors that must be supported.
const ROUND_F64: f64 = 6_755_399_441_055_744.0;
const ROUND_F32: f32 = 12_582_912.0;

/// Rounds to the nearest integer in range; NaN becomes 0. After adding [`ROUND_F32`] the integer is in the lowest bits
/// of the sum's mantissa: reading it from there, not by a cast, lets the compiler vectorise.
fn to_i16(x: f32) -> i16 {
    let number = if x.is_nan() { 0.0 } else { x };
    let scaled = (number * SCALE_16).clamp(-32_768.0, 32_767.0);
    (scaled + ROUND_F32).to_bits() as i16
}

fn from_i16(n: i16) -> f32 {
    f32::from(n) / SCALE_16
}

fn to_i24(x: f32) -> i32 {
    let scaled = (f64::from(x) * f64::from(SCALE_24)).clamp(-8_388_608.0, 8_388_607.0);
    ((scaled + ROUND_F64) - ROUND_F64) as i32
}

/// Floats keep their headroom beyond full scale; only values that are not numbers are replaced.
fn finite(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
}

/// G.711 mu-law expands a sign, three bits of segment and four of step, all inverted. Magnitudes are those of table 2
/// times 4, since the law has 14 bits and we have 16; 33 of them are its bias.
pub const fn mulaw_expand(code: u8) -> i16 {
    let code = !code;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i32);
    let magnitude = (((step << 3) + MULAW_BIAS) << segment) - MULAW_BIAS;
    if code & 0x80 != 0 { -(magnitude as i16) } else { magnitude as i16 }
}

/// 33 steps of 14 bits, as 16 bits.
const MULAW_BIAS: i32 = 33 * 4;
/// The largest magnitude that stays in the top segment: 8159 steps of 14 bits, less one step of 16 bits.
const MULAW_MAX: i32 = 8159 * 4 - 1;

/// The mu-law code for `n`, the nearest below in magnitude, as G.711 has it.
pub fn mulaw_encode(n: i16) -> u8 {
    let magnitude = i32::from(n).abs().min(MULAW_MAX) + MULAW_BIAS;
    // The bias puts the leading one of every magnitude at bit 7 or above; its position is the segment.
    let segment = 24 - magnitude.leading_zeros() as i32;
    let step = (magnitude >> (segment + 3)) & 15;
    let sign = if n < 0 { 0x80 } else { 0 };
    !(sign | (segment << 4) as u8 | step as u8)
}

/// G.711 A-law: sign (set for positive), segment and step, even bits inverted. Magnitudes are those of table 1 times 8:
/// 13 bits as 16.
pub const fn alaw_expand(code: u8) -> i16 {
    let code = code ^ 0x55;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i32);
    let magnitude = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    if code & 0x80 != 0 { magnitude as i16 } else { -(magnitude as i16) }
}

/// The A-law code whose interval contains `n`.
pub fn alaw_encode(n: i16) -> u8 {
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
mod tests;

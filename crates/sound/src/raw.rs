//! Sample encodings in files and pipes, and conversion to and from 32-bit float.

use antiphon_media::SampleFormat;
use antiphon_media::codec::{alaw_encode, alaw_expand, mulaw_encode, mulaw_expand};

use crate::OpenError;

/// How one stored sample is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// Unsigned 8-bit integer, 128 is silence (old WAV files).
    U8,
    /// 16-bit signed integer.
    S16,
    /// 24-bit signed integer in three bytes.
    S24,
    /// 32-bit signed integer.
    S32,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// G.711 mu-law.
    MuLaw,
    /// G.711 A-law.
    ALaw,
}

/// An encoding with its byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawFormat {
    /// How a sample is encoded.
    pub encoding: Encoding,
    /// Most significant byte first. WAV is little-endian throughout.
    pub big_endian: bool,
}

/// Values of a pipe's `format=`. The byte order is always written: `s16` alone means one thing on the wire and another
/// in a file.
const NAMES: [(&str, Encoding, bool); 11] = [
    ("s16le", Encoding::S16, false),
    ("s16be", Encoding::S16, true),
    ("s24le", Encoding::S24, false),
    ("s24be", Encoding::S24, true),
    ("s32le", Encoding::S32, false),
    ("s32be", Encoding::S32, true),
    ("f32le", Encoding::F32, false),
    ("f32be", Encoding::F32, true),
    ("mulaw", Encoding::MuLaw, false),
    ("alaw", Encoding::ALaw, false),
    ("u8", Encoding::U8, false),
];

impl RawFormat {
    /// The encoding in the byte order of WAV.
    pub(crate) const fn little(encoding: Encoding) -> Self {
        RawFormat { encoding, big_endian: false }
    }

    /// The name in `format=`.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, encoding, big)| *encoding == self.encoding && *big == self.big_endian)
            .map_or("f64", |(name, ..)| name)
    }

    /// Bytes per sample.
    pub fn bytes(self) -> usize {
        match self.encoding {
            Encoding::U8 | Encoding::MuLaw | Encoding::ALaw => 1,
            Encoding::S16 => 2,
            Encoding::S24 => 3,
            Encoding::S32 | Encoding::F32 => 4,
            Encoding::F64 => 8,
        }
    }

    /// The sample format that represents it exactly; for 32-bit integers and doubles, the nearest.
    pub fn sample_format(self) -> SampleFormat {
        match self.encoding {
            Encoding::U8 | Encoding::S16 => SampleFormat::L16,
            Encoding::S24 => SampleFormat::L24,
            Encoding::S32 | Encoding::F32 | Encoding::F64 => SampleFormat::F32,
            Encoding::MuLaw => SampleFormat::MuLaw,
            Encoding::ALaw => SampleFormat::ALaw,
        }
    }

    /// Appends the samples in `bytes` to `out`, full scale ±1.0; bytes after the last whole sample are ignored.
    ///
    /// Integers up to 24 bits and G.711 are exact. Infinities and NaN, found only in broken files, become silence.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        let finite = |x: f32| if x.is_finite() { x } else { 0.0 };
        let scale16 = |x: i16| f32::from(x) / 32_768.0;
        let samples = bytes.chunks_exact(self.bytes()).map(|b| match self.encoding {
            Encoding::U8 => (f32::from(b[0]) - 128.0) / 128.0,
            Encoding::S16 => scale16(self.integer(b) as i16),
            Encoding::S24 => self.integer(b) as f32 / 8_388_608.0,
            Encoding::S32 => (f64::from(self.integer(b)) / 2_147_483_648.0) as f32,
            Encoding::F32 => finite(f32::from_bits(self.integer(b) as u32)),
            Encoding::F64 => {
                let array: [u8; 8] = b.try_into().expect("chunks of eight");
                let value =
                    if self.big_endian { f64::from_be_bytes(array) } else { f64::from_le_bytes(array) };
                finite(value as f32)
            }
            Encoding::MuLaw => scale16(mulaw_expand(b[0])),
            Encoding::ALaw => scale16(alaw_expand(b[0])),
        });
        out.extend(samples);
    }

    /// Appends `samples` to `out` in their stored form: rounded to nearest, clipped at full scale, NaN as silence.
    pub(crate) fn encode(self, samples: &[f32], out: &mut Vec<u8>) {
        for &x in samples {
            match self.encoding {
                Encoding::U8 => out.push((to_integer(x, 8) + 128) as u8),
                Encoding::S16 => self.put(to_integer(x, 16), 2, out),
                Encoding::S24 => self.put(to_integer(x, 24), 3, out),
                Encoding::S32 => self.put(to_integer(x, 32), 4, out),
                Encoding::F32 => self.put(x.to_bits() as i32, 4, out),
                Encoding::F64 => {
                    let value = f64::from(x);
                    out.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
                }
                Encoding::MuLaw => out.push(mulaw_encode(to_integer(x, 16) as i16)),
                Encoding::ALaw => out.push(alaw_encode(to_integer(x, 16) as i16)),
            }
        }
    }

    /// The value of `x` after it has been stored and read back.
    pub(crate) fn nearest(self, x: f32) -> f32 {
        let stored = |bits: u32| to_integer(x, bits) as f32 / (1u64 << (bits - 1)) as f32;
        let law = |value: i16| f32::from(value) / 32_768.0;
        match self.encoding {
            Encoding::U8 => stored(8),
            Encoding::S16 => stored(16),
            Encoding::S24 => stored(24),
            Encoding::S32 => stored(32),
            Encoding::F32 | Encoding::F64 => x,
            Encoding::MuLaw => law(mulaw_expand(mulaw_encode(to_integer(x, 16) as i16))),
            Encoding::ALaw => law(alaw_expand(alaw_encode(to_integer(x, 16) as i16))),
        }
    }

    /// Up to four bytes as a sign-extended number.
    fn integer(self, bytes: &[u8]) -> i32 {
        let join = |value: u32, b: &u8| value << 8 | u32::from(*b);
        let value = match self.big_endian {
            true => bytes.iter().fold(0, join),
            false => bytes.iter().rev().fold(0, join),
        };
        let unused = 32 - 8 * bytes.len() as u32;
        (value << unused) as i32 >> unused
    }

    fn put(self, value: i32, bytes: usize, out: &mut Vec<u8>) {
        match self.big_endian {
            true => out.extend(&value.to_be_bytes()[4 - bytes..]),
            false => out.extend(&value.to_le_bytes()[..bytes]),
        }
    }
}

impl From<SampleFormat> for RawFormat {
    /// As a WAV file stores it, little-endian.
    fn from(sample: SampleFormat) -> Self {
        RawFormat::little(match sample {
            SampleFormat::L16 => Encoding::S16,
            SampleFormat::L24 => Encoding::S24,
            SampleFormat::F32 => Encoding::F32,
            SampleFormat::MuLaw => Encoding::MuLaw,
            SampleFormat::ALaw => Encoding::ALaw,
        })
    }
}

impl std::str::FromStr for RawFormat {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let wanted = text.to_ascii_lowercase();
        match NAMES.iter().find(|(name, ..)| *name == wanted) {
            Some((_, encoding, big_endian)) => Ok(RawFormat { encoding: *encoding, big_endian: *big_endian }),
            None => Err(OpenError::unknown("sample format", &wanted, NAMES.map(|(name, ..)| name))),
        }
    }
}

/// Full scale ±1.0 to a signed integer of `bits`, rounded to nearest and clipped.
pub(crate) fn to_integer(x: f32, bits: u32) -> i32 {
    let full = (1u64 << (bits - 1)) as f64;
    // `as` saturates and turns NaN into zero.
    (f64::from(x) * full).round().clamp(-full, full - 1.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Encoding; 8] = [
        Encoding::U8,
        Encoding::S16,
        Encoding::S24,
        Encoding::S32,
        Encoding::F32,
        Encoding::F64,
        Encoding::MuLaw,
        Encoding::ALaw,
    ];

    fn there_and_back(raw: RawFormat, bytes: &[u8]) -> Vec<u8> {
        let (mut samples, mut again) = (Vec::new(), Vec::new());
        raw.decode(bytes, &mut samples);
        raw.encode(&samples, &mut again);
        again
    }

    #[test]
    fn scales_are_powers_of_two() {
        let mut out = Vec::new();
        RawFormat::little(Encoding::S16).decode(&[0, 0x80, 0xff, 0x7f, 1, 0], &mut out);
        assert_eq!(out, [-1.0, 32_767.0 / 32_768.0, 1.0 / 32_768.0]);
        out.clear();
        "s24be".parse::<RawFormat>().unwrap().decode(&[0x80, 0, 0, 0, 0, 1], &mut out);
        assert_eq!(out, [-1.0, 1.0 / 8_388_608.0]);
    }

    #[test]
    fn clips_and_silences_what_is_no_number() {
        let mut out = Vec::new();
        let samples = [1.0, -1.0, 7.0, f32::NEG_INFINITY, f32::NAN];
        RawFormat::little(Encoding::S16).encode(&samples, &mut out);
        assert_eq!(out, [0xff, 0x7f, 0, 0x80, 0xff, 0x7f, 0, 0x80, 0, 0]);
        let mut back = Vec::new();
        RawFormat::little(Encoding::F32).decode(&f32::NAN.to_le_bytes(), &mut back);
        assert_eq!(back, [0.0]);
    }

    #[test]
    fn unknown_names_offer_the_nearest() {
        let error = "s16el".parse::<RawFormat>().unwrap_err().to_string();
        assert!(error.contains("did you mean 's16le'"), "{error}");
    }

    proptest! {
        #[test]
        fn integers_come_back_exactly(bytes in proptest::collection::vec(any::<u8>(), 0..200), big in any::<bool>()) {
            for encoding in [Encoding::U8, Encoding::S16, Encoding::S24, Encoding::ALaw] {
                let raw = RawFormat { encoding, big_endian: big };
                let whole = bytes.len() / raw.bytes() * raw.bytes();
                prop_assert_eq!(there_and_back(raw, &bytes), &bytes[..whole]);
            }
        }

        #[test]
        fn finite_floats_come_back_exactly(x in proptest::num::f32::NORMAL, big in any::<bool>()) {
            for encoding in [Encoding::F32, Encoding::F64] {
                let raw = RawFormat { encoding, big_endian: big };
                let (mut bytes, mut back) = (Vec::new(), Vec::new());
                raw.encode(&[x], &mut bytes);
                raw.decode(&bytes, &mut back);
                prop_assert_eq!(back, [x]);
            }
        }

        #[test]
        fn nearest_is_what_storing_leaves(x in -1.5f32..1.5) {
            for encoding in ALL {
                let raw = RawFormat::little(encoding);
                let (mut bytes, mut back) = (Vec::new(), Vec::new());
                raw.encode(&[x], &mut bytes);
                raw.decode(&bytes, &mut back);
                prop_assert_eq!(back, [raw.nearest(x)]);
            }
        }

        #[test]
        fn any_bytes_give_finite_samples(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for encoding in ALL {
                let mut out = Vec::new();
                RawFormat { encoding, big_endian: true }.decode(&bytes, &mut out);
                prop_assert!(out.iter().all(|x| x.is_finite()));
            }
        }
    }
}

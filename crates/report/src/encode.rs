//! Columns of numbers in few bytes, and the hash that allows only the page's own script to run.
//!
//! A column is quantised, differenced, and written as variable-length integers in base 64: a packet's send time and
//! latency take about five characters each instead of eighteen as decimal text. `report.js` holds the decoder.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The page's numbers and anchors; each distinct column is stored once, however many figures draw it.
#[derive(Default)]
pub(crate) struct Pool {
    columns: Vec<Value>,
    known: BTreeMap<String, usize>,
    anchors: BTreeSet<String>,
}

impl Pool {
    /// Whether this anchor is not on the page yet; it is from now on.
    pub fn takes_anchor(&mut self, anchor: &str) -> bool {
        self.anchors.insert(anchor.into())
    }

    /// Adds a column of `values` in steps of `quantum`; returns its index.
    pub fn add(&mut self, values: impl IntoIterator<Item = Option<f64>>, quantum: f64) -> usize {
        let column = json!([quantum, base64(&differences(values, quantum))]);
        let next = self.columns.len();
        let index = *self.known.entry(column.to_string()).or_insert(next);
        if index == next {
            self.columns.push(column);
        }
        index
    }

    /// All columns, in the order of their indices.
    pub fn into_json(self) -> Value {
        Value::Array(self.columns)
    }
}

/// A step that keeps six significant digits of the largest of `values`: more than any screen can show.
pub(crate) fn quantum_for(values: impl IntoIterator<Item = f64>) -> f64 {
    let largest = values.into_iter().filter(|v| v.is_finite()).fold(0.0f64, |a, v| a.max(v.abs()));
    if largest == 0.0 {
        return 1.0;
    }
    10f64.powi((largest.log10().floor() as i32 - 5).clamp(-300, 300))
}

/// Zig-zag differences as little-endian base-128 integers, each one higher than its value: 0 means no value.
fn differences(values: impl IntoIterator<Item = Option<f64>>, quantum: f64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0i64;
    for value in values {
        let Some(value) = value.filter(|v| v.is_finite()) else {
            out.push(0);
            continue;
        };
        let steps = (value / quantum).round().clamp(-LARGEST, LARGEST) as i64;
        let delta = steps - last;
        last = steps;
        let mut coded = (((delta << 1) ^ (delta >> 63)) as u64) + 1;
        while coded >= 0x80 {
            out.push(coded as u8 | 0x80);
            coded >>= 7;
        }
        out.push(coded as u8);
    }
    out
}

/// The decoder uses doubles, exact to 2⁵³; a difference of two such values, doubled, still fits.
const LARGEST: f64 = (1u64 << 50) as f64;

/// Base 64 with padding (RFC 4648 §4), which browsers decode natively.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// SHA-256 of `data` in base 64, as a content security policy requires.
pub(crate) fn sha256_base64(data: &[u8]) -> String {
    base64(&Sha256::digest(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A direct decoder of the format, like the one in `report.js`.
    fn decode(column: &Value) -> Vec<Option<f64>> {
        let quantum = column[0].as_f64().unwrap();
        let text = column[1].as_str().unwrap().trim_end_matches('=');
        let mut bits = (0u32, 0u32);
        let mut bytes = Vec::new();
        for c in text.chars() {
            let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            bits = (bits.0 << 6 | digits.find(c).unwrap() as u32, bits.1 + 6);
            if bits.1 >= 8 {
                bits.1 -= 8;
                bytes.push((bits.0 >> bits.1) as u8);
                bits.0 &= (1 << bits.1) - 1;
            }
        }
        let (mut out, mut last, mut value, mut factor) = (Vec::new(), 0.0, 0.0, 1.0);
        for b in bytes {
            value += f64::from(b & 127) * factor;
            if b & 128 != 0 {
                factor *= 128.0;
                continue;
            }
            let z = value - 1.0;
            last += match z {
                z if z < 0.0 => 0.0,
                z if z % 2.0 == 1.0 => -(z + 1.0) / 2.0,
                z => z / 2.0,
            };
            out.push((z >= 0.0).then_some(last * quantum));
            (value, factor) = (0.0, 1.0);
        }
        out
    }

    #[test]
    fn hash_agrees_with_the_standards_examples() {
        // FIPS 180-4 examples (NIST CSRC): "abc", the empty message, and the 56-byte one that needs a second block.
        let hex = |text: &str| {
            let bytes: Vec<u8> =
                (0..32).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect();
            base64(&bytes)
        };
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let long = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(sha256_base64(b"abc"), hex(abc));
        assert_eq!(sha256_base64(b""), hex(empty));
        assert_eq!(sha256_base64(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), hex(long));
    }

    #[test]
    fn base64_agrees_with_rfc_4648_section_10() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_column_used_twice_is_written_once() {
        let mut pool = Pool::default();
        let a = pool.add([Some(1.0), None, Some(2.0)], 0.001);
        let b = pool.add([Some(1.0)], 0.001);
        assert_eq!(pool.add([Some(1.0), None, Some(2.0)], 0.001), a);
        assert_ne!(a, b);
        assert_eq!(pool.into_json().as_array().unwrap().len(), 2);
    }

    #[test]
    fn quantum_keeps_six_digits() {
        for (largest, quantum) in [(15_000.0, 0.1), (0.2, 1e-6), (1.0, 1e-5), (0.0, 1.0)] {
            let found = quantum_for([largest, -largest / 2.0, f64::NAN]);
            // One decade is the smallest fault; rounding of powi is 1e-16.
            assert!((found / quantum - 1.0).abs() < 1e-9, "{largest}: {found}");
        }
    }

    proptest! {
        #[test]
        fn columns_read_back(values in prop::collection::vec(prop::option::of(-1e5f64..1e5), 0..200)) {
            let mut pool = Pool::default();
            pool.add(values.iter().copied(), 0.001);
            let back = decode(&pool.into_json()[0]);
            prop_assert_eq!(back.len(), values.len());
            for (a, b) in values.iter().zip(back) {
                prop_assert_eq!(a.is_some(), b.is_some());
                // The tolerance is half a quantum; an error of one step would show.
                prop_assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 0.000_501);
            }
        }

        #[test]
        fn no_number_breaks_the_coder(values in prop::collection::vec(any::<f64>(), 0..50)) {
            let mut pool = Pool::default();
            pool.add(values.iter().map(|v| Some(*v)), quantum_for(values.iter().copied()));
            prop_assert_eq!(decode(&pool.into_json()[0]).len(), values.len());
        }
    }
}

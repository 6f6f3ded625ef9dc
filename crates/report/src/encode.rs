//! Columns of numbers in few bytes, and the hash that allows only the page's own script to run.
//!
//! A column is quantised, differenced, and written as variable-length integers in base 64: a packet's send time and
//! latency take about five characters each instead of eighteen as decimal text. `report.js` holds the decoder.

use serde_json::{Value, json};
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

/// SHA-256 of `data` (FIPS 180-4 §6.2), in base 64 as a content security policy requires.
pub(crate) fn sha256_base64(data: &[u8]) -> String {
    let (constants, mut state) = prime_roots();
    let mut message = data.to_vec();
    message.push(0x80);
    message.resize(message.len().next_multiple_of(64), 0);
    if message.len() < data.len() + 9 {
        message.resize(message.len() + 64, 0);
    }
    let end = message.len();
    message[end - 8..].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in message.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    let digest: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
    base64(&digest)
}

fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32; 64]) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |a, b| a << 8 | u32::from(*b));
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for i in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(constants[i]).wrapping_add(w[i]);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(s0).wrapping_add(majority));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

/// The constants of FIPS 180-4 §4.2.2 and §5.3.3: the first 32 fractional bits of the cube roots of the first 64
/// primes, and of the square roots of the first 8. Computed in integers, so they do not depend on a libm.
fn prime_roots() -> ([u32; 64], [u32; 8]) {
    let primes: Vec<u128> = (2u128..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let root = |prime: u128, power: u32| -> u32 {
        // The largest r with r^power <= prime · 2^(32·power) is the root in 32-bit fixed point.
        let target = prime << (32 * power);
        let mut r = 0u128;
        for bit in (0..37).rev() {
            let candidate: u128 = r | 1 << bit;
            if candidate.pow(power) <= target {
                r = candidate;
            }
        }
        r as u32
    };
    (std::array::from_fn(|i| root(primes[i], 3)), std::array::from_fn(|i| root(primes[i], 2)))
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

//! Arithmetic in the field of 256 elements, for codes that rebuild lost packets. The field is that of RFC 5510 §8.1: polynomials
//! over two elements modulo x⁸ + x⁴ + x³ + x² + 1.

/// Logarithms to the base x, and powers of x twice round, so that a sum of two logarithms needs no remainder.
const TABLES: ([u8; 256], [u8; 510]) = tables();

const fn tables() -> ([u8; 256], [u8; 510]) {
    let (mut logs, mut powers) = ([0; 256], [0; 510]);
    let (mut power, mut exponent) = (1u16, 0);
    while exponent < 255 {
        logs[power as usize] = exponent as u8;
        (powers[exponent], powers[exponent + 255]) = (power as u8, power as u8);
        power <<= 1;
        if power > 0xff {
            power ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    (logs, powers)
}

/// The product.
pub(crate) fn multiply(a: u8, b: u8) -> u8 {
    let (logs, powers) = &TABLES;
    if a == 0 || b == 0 { 0 } else { powers[usize::from(logs[a as usize]) + usize::from(logs[b as usize])] }
}

/// The number whose product with `a`, which must not be 0, is 1.
pub(crate) fn inverse(a: u8) -> u8 {
    let (logs, powers) = &TABLES;
    powers[255 - usize::from(logs[a as usize])]
}

/// The products of `factor` with every element.
fn row(factor: u8) -> [u8; 256] {
    let mut row = [0; 256];
    for (element, product) in row.iter_mut().enumerate() {
        *product = multiply(factor, element as u8);
    }
    row
}

/// Adds `factor` times `from` to `to`, which must not be shorter.
pub(crate) fn add_multiple(to: &mut [u8], factor: u8, from: &[u8]) {
    let row = row(factor);
    for (to, from) in to[..from.len()].iter_mut().zip(from) {
        *to ^= row[usize::from(*from)];
    }
}

/// Multiplies all by `factor`.
pub(crate) fn scale(bytes: &mut [u8], factor: u8) {
    let row = row(factor);
    bytes.iter_mut().for_each(|byte| *byte = row[usize::from(*byte)]);
}

const POLYNOMIAL: u16 = 0x11d;

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication of polynomials as in a textbook.
    fn long_product(a: u8, b: u8) -> u8 {
        let mut product =
            (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ u16::from(a) << bit);
        for bit in (8..16).rev().filter(|bit| *bit < 16) {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials_and_every_element_has_an_inverse() {
        for a in 0..=255 {
            assert!((0..=255).all(|b| multiply(a, b) == long_product(a, b)), "{a}");
            assert!(a == 0 || multiply(a, inverse(a)) == 1, "{a}");
        }
    }

    #[test]
    fn a_multiple_is_added_to_the_front_and_scaled_back() {
        let mut sum = [1, 2, 3];
        add_multiple(&mut sum, 7, &[9, 8]);
        assert_eq!(sum, [1 ^ multiply(7, 9), 2 ^ multiply(7, 8), 3]);
        scale(&mut sum, 5);
        scale(&mut sum, inverse(5));
        assert_eq!(sum, [1 ^ multiply(7, 9), 2 ^ multiply(7, 8), 3]);
    }
}

//! The Internet checksum (RFC 1071), as DCCP and XTP use it.

/// A number whose [`fold`] is that of the sum of 16-bit words, an odd byte at the end as the high one.
///
/// Carries may be added at any time, and bytes may be swapped in the sum as well as in the words (RFC 1071 §2): so 32 bits are added at once, as
/// the processor has them in memory.
pub(crate) fn words(bytes: &[u8]) -> u32 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let sum = quads.iter().map(|quad| u64::from(u32::from_ne_bytes(*quad))).sum::<u64>();
    let sum = fold(sum + u64::from(u32::from_ne_bytes(last)));
    u32::from(u16::from_be_bytes(sum.to_ne_bytes()))
}

/// A sum folded to 16 bits with the carries added; its complement is the checksum.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_rfc_1071_sums_to_what_it_says() {
        assert_eq!(words(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    proptest! {
        #[test]
        fn it_is_the_sum_of_words_whatever_the_length(bytes in prop::collection::vec(any::<u8>(), 0..300), ones in 0_usize..70_000) {
            for bytes in [bytes, vec![0xff; ones]] {
                let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
                let sum = bytes.chunks(2).map(word).sum::<u64>();
                prop_assert_eq!(fold(u64::from(words(&bytes))), fold(sum));
            }
        }
    }
}

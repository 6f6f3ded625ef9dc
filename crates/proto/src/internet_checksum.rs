//! The Internet checksum (RFC 1071), as DCCP and XTP use it.

/// 16-bit words summed up, an odd byte at the end as the high one. A packet's 32 768 words can't overflow 32 bits.
pub(crate) fn words(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks_exact(2);
    let odd = pairs.remainder().first().map_or(0, |byte| u32::from(*byte) << 8);
    pairs.fold(odd, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]])))
}

/// A sum folded to 16 bits with the carries added; its complement is the checksum.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

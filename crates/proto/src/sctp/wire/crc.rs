//! CRC-32c (Castagnoli), eight bytes at a step.

/// Begins a checksum.
pub(super) const START: u32 = u32::MAX;

/// Carries a checksum on over `bytes`; the last step is to invert it.
///
/// Eight tables in place of one (M. E. Kounavis, F. L. Berry, "Novel Table Lookup-Based Algorithms for High-Performance
/// CRC Generation", 2008): a packet of audio costs half a microsecond, where bit by bit it would cost the budget.
pub(super) fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let low = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) ^ crc;
        let high = u32::from_le_bytes([word[4], word[5], word[6], word[7]]);
        crc = TABLES[7][(low & 0xff) as usize]
            ^ TABLES[6][(low >> 8 & 0xff) as usize]
            ^ TABLES[5][(low >> 16 & 0xff) as usize]
            ^ TABLES[4][(low >> 24) as usize]
            ^ TABLES[3][(high & 0xff) as usize]
            ^ TABLES[2][(high >> 8 & 0xff) as usize]
            ^ TABLES[1][(high >> 16 & 0xff) as usize]
            ^ TABLES[0][(high >> 24) as usize];
    }
    words
        .remainder()
        .iter()
        .fold(crc, |crc, byte| (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize])
}

/// The polynomial 0x1EDC6F41, reflected (RFC 9260 appendix A).
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][b]`: what byte `b` does to the checksum `n` bytes later.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][at] = crc;
        at += 1;
    }
    let mut step = 1;
    while step < 8 {
        let mut at = 0;
        while at < 256 {
            let before = tables[step - 1][at];
            tables[step][at] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            at += 1;
        }
        step += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_published_values() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        // RFC 3720 §B.4, and the catalogues' check value.
        for (bytes, crc) in [
            (&b"123456789"[..], 0xe306_9283),
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32][..], 0x62a8_ab43),
            (&ascending[..], 0x46dd_794e),
            (&descending[..], 0x113f_db5c),
        ] {
            assert_eq!(!update(START, bytes), crc);
            // In two parts, of any length.
            for cut in 0..bytes.len() {
                assert_eq!(!update(update(START, &bytes[..cut]), &bytes[cut..]), crc);
            }
        }
    }
}

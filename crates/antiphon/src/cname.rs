//! The name of a participant in RTCP and SDP.

use crate::transport::random_token;

/// A canonical name of its own for each run: two participants with one name would be taken for one, and synchronised
/// with each other.
///
/// Source: RFC 7022 §4.2, "short-term persistent": 96 random bits in base64. It says nothing of the host or the user.
pub(crate) fn unique() -> String {
    base64(&random_token()[..RANDOM_BYTES])
}

/// RFC 7022 §4.2; a multiple of three, so base64 needs no padding.
const RANDOM_BYTES: usize = 12;

/// Base64 (RFC 4648 §4) of whole groups of three bytes.
fn base64(bytes: &[u8]) -> String {
    let digit = |group: u32, shift: u32| char::from(ALPHABET[(group >> shift & 63) as usize]);
    let groups = bytes.chunks_exact(3).map(|b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
    groups.flat_map(|group| [18, 12, 6, 0].map(|shift| digit(group, shift))).collect()
}

/// RFC 4648 §4, table 1.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648 §10.
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn no_two_runs_have_one_name() {
        let names: std::collections::BTreeSet<String> = (0..1_000).map(|_| unique()).collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.iter().all(|name| name.len() == 16));
    }
}

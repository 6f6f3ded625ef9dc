//! Seals cookies: a listener sends them to a caller instead of keeping state, and recognises them when they come back
//! (SCTP's state cookie, RFC 9260 §5.1.3; DCCP's Init Cookie, RFC 4340 §8.1.4).

use std::hash::Hasher;
use std::time::Duration;

use antiphon_core::Secret;
use siphasher::sip128::{Hasher128, SipHasher24};

/// A keyed hash (SipHash-2-4 of 128 bits); clones share the key.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    key: [u8; 16],
}

impl Seal {
    /// A seal whose key is derived from `secret`: endpoints of one server have one secret, and accept each other's.
    /// `label` separates different uses of a secret.
    pub fn new(secret: &Secret, label: &str) -> Self {
        Seal { key: secret.key(label) }
    }

    /// The mark of these bytes, in parts; the boundaries between parts do not count.
    pub fn mark(&self, parts: &[&[u8]]) -> [u8; MARK] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish128().as_bytes()
    }

    /// Whether `mark` is that of these bytes. Takes constant time.
    pub fn is_mark(&self, mark: &[u8], parts: &[&[u8]]) -> bool {
        let right = self.mark(parts);
        mark.len() == MARK && mark.iter().zip(right).fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
    }
}

/// Bytes of a mark.
pub(crate) const MARK: usize = 16;
/// How long a cookie is valid: Valid.Cookie.Life (RFC 9260 §16); RFC 4340 leaves it to the server.
pub(crate) const COOKIE_LIFE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_under_the_same_key_have_the_mark() {
        let seal = Seal::new(&Secret::for_laboratory(1), "a");
        let mark = seal.mark(&[b"one", b"two"]);
        assert!(seal.is_mark(&mark, &[b"onetwo"]));
        assert!(!seal.is_mark(&mark, &[b"onetwO"]) && !seal.is_mark(&mark[1..], &[b"onetwo"]));
        assert!(
            !Seal::new(&Secret::for_laboratory(2), "a").is_mark(&mark, &[b"onetwo"])
                && !Seal::new(&Secret::for_laboratory(1), "b").is_mark(&mark, &[b"onetwo"])
        );
        for at in 0..MARK {
            let mut wrong = mark;
            wrong[at] ^= 1;
            assert!(!seal.is_mark(&wrong, &[b"onetwo"]), "byte {at}");
        }
    }
}

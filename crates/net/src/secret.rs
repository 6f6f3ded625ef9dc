//! Random numbers of the operating system: the only source of secrets for streams on real sockets.

use antiphon_core::Secret;

/// A new secret. Panics if the operating system has no random numbers, as no stream is safe without them.
pub fn system_secret() -> Secret {
    Secret::from_system(random_bytes())
}

/// Random bytes of the operating system.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ() {
        assert_ne!(system_secret().key("a"), system_secret().key("a"));
        assert_ne!(random_bytes::<32>(), [0; 32]);
    }
}

//! Random numbers of the operating system: the only source of secrets for streams on real sockets.
#![allow(unsafe_code, reason = "a system call of Linux")]

use antiphon_core::Secret;

/// A new secret. Panics if the operating system has no random numbers, as no stream is safe without them.
pub fn system_secret() -> Secret {
    Secret::from_system(random_bytes())
}

/// Random bytes of the operating system, at most 256: the most that one call of the kernel gives whole
/// (getrandom(2)).
pub fn random_bytes<const N: usize>() -> [u8; N] {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    loop {
        // SAFETY: the pointer and the length are those of `bytes`.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
        if usize::try_from(got) == Ok(N) {
            return bytes;
        }
        // A signal may interrupt the call only while the kernel gathers its first random numbers at boot.
        let error = std::io::Error::last_os_error();
        assert!(
            error.kind() == std::io::ErrorKind::Interrupted,
            "the operating system gives random numbers: {error}"
        );
    }
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
